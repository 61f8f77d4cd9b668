//! `cargo xtask tidy`: the invariants of ARCHITECTURE.md, held against what is there.
//!
//! ```text
//! layers.rs    who may depend on whom          (cargo metadata)
//! backends.rs  who names a backend, and puts a port's name together
//! sources.rs   what a source file may say      (clocks, sockets, unsafe, length, a head)
//! tree.rs      what any file may say           (paths of a machine, notes to oneself)
//! systems.rs   where the operating system is asked for
//! circles.rs   which modules of a crate may name each other
//! requirements.rs  each requirement of the TCP standards has a test, or a reason
//! test_programs.rs  no test is forgotten
//! lexer.rs     code without comments, literals and tests
//! ```
//! The rules are functions of names and texts, so that their tests can show each of them failing.

mod backends;
mod circles;
mod layers;
mod lexer;
mod requirements;
mod sources;
mod systems;
mod test_programs;
mod tree;

use std::fmt;
use std::num::NonZero;
use std::path::Path;
use std::thread;

use anyhow::Result;

/// One breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Complaint {
    /// File or crate.
    pub place: String,
    /// Line, from 1; 0 when it is about the whole.
    pub line: usize,
    /// The rule, and what to do.
    pub text: String,
}

impl Complaint {
    fn new(place: impl Into<String>, line: usize, text: impl Into<String>) -> Complaint {
        Complaint { place: place.into(), line, text: text.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(out, "{}: {}", self.place, self.text),
            line => write!(out, "{}:{line}: {}", self.place, self.text),
        }
    }
}

/// Checks the workspace at `root` and prints what is wrong; true when nothing is.
pub fn run(root: &Path) -> Result<bool> {
    let crates = layers::read(root)?;
    let files = tree::read(root)?;
    let mut complaints = layers::check(&crates);
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        // Neighbours are alike in length, so each thread takes one file of so many.
        let part = |first: usize| files.iter().skip(first).step_by(cores).flat_map(check_file).collect::<Vec<_>>();
        let threads: Vec<_> = (0..cores).map(|first| scope.spawn(move || part(first))).collect();
        for thread in threads {
            match thread.join() {
                Ok(found) => complaints.extend(found),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    complaints.extend(circles::check(&files));
    complaints.extend(requirements::check(&files));
    complaints.extend(test_programs::check(&files));
    complaints.sort();
    for complaint in &complaints {
        println!("{complaint}");
    }
    println!("tidy: {} crates, {} files, {} complaints", crates.len(), files.len(), complaints.len());
    Ok(complaints.is_empty())
}

/// Every breach of the rules for one file alone.
fn check_file(file: &tree::TextFile) -> Vec<Complaint> {
    let mut complaints = tree::check(file);
    complaints.extend(systems::check(file));
    if file.path.ends_with(".rs") {
        complaints.extend(sources::check(file));
    }
    complaints
}
