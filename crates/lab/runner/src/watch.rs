//! What happens during a run, for whoever watches.

use linerate_report::{ExperimentTrial, Finding};

/// Something happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// The run begins, or goes on.
    Begin {
        /// Findings to make, those already there included.
        findings: usize,
        /// Findings already there.
        found: usize,
        /// Trial time to come, in nanoseconds, as far as it can be told before.
        left_ns: u64,
    },
    /// A cell begins.
    Cell {
        /// Its number, from 1.
        number: usize,
        /// Of so many.
        cells: usize,
        /// Its id.
        id: &'a str,
    },
    /// Something other than a trial begins: a device is built, the baseline measured.
    Phase(&'a str),
    /// A trial begins.
    Trial {
        /// Its name.
        name: &'a str,
        /// In packets per second of both directions; `None`: as fast as the tester can.
        load_pps: Option<f64>,
        /// How long it sends, in nanoseconds.
        duration_ns: u64,
        /// Bounds of the search so far, in words.
        bounds: Option<&'a str>,
    },
    /// A trial ended and counts.
    Trialled(&'a ExperimentTrial),
    /// A trial ended, does not count (`not_used` says why), and is made again.
    Again(&'a ExperimentTrial),
    /// A test ended.
    Found {
        /// Id of its cell.
        cell: &'a str,
        /// What it found, or why not.
        finding: &'a Finding,
        /// Findings so far, of those that the experiment asks for.
        found: usize,
        /// Trial time to come, in nanoseconds, as far as it can be told.
        left_ns: u64,
    },
    /// Something that whoever reads the result should know.
    Warning(&'a str),
}
