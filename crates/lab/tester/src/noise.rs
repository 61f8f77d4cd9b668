//! What disturbed a trial, as numbers.

use std::io;

use linerate_sys::usage::ThreadUsage;

use crate::fixed_loop::Calm;
use linerate_testbed::cache_line;

/// What disturbed a trial. With two sending threads, the worse of the two.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Noise {
    /// Share of all cores' time that the hypervisor took, 0 to 1.
    pub steal_share: f64,
    /// Longest time for which others than the tester and the DUT kept a sending thread's core or the DUT's, in nanoseconds.
    pub gap_max_ns: u64,
    /// How often the sending thread lost its core to another thread.
    pub preempted: u64,
    /// How long the sending thread was ready and had no core, in nanoseconds, as far as that is known without the tester's own tasks;
    /// `None` where the kernel does not say.
    pub waited_ns: Option<u64>,
    /// Time of a fixed loop on the generator's and on the DUT's core, at once, just before the trial, in nanoseconds; `None` where there is
    /// no such core, and for the DUT's where they share one.
    pub pace_ns: [Option<f64>; 2],
    /// Round trip of a cache line between the generator's and the DUT's cores just before the trial, in nanoseconds; `None` where
    /// they share a core or it could not be measured.
    pub cache_line_ns: Option<f64>,
}

impl Noise {
    /// Of one sending thread.
    pub(super) fn of_thread(before: io::Result<ThreadUsage>, after: io::Result<ThreadUsage>) -> Noise {
        let usage = after.ok().zip(before.ok());
        let waited = usage.and_then(|(after, before)| after.waited_ns.zip(before.waited_ns));
        Noise {
            preempted: usage.map_or(0, |(after, before)| after.involuntary_switches - before.involuntary_switches),
            waited_ns: waited.map(|(after, before)| after.saturating_sub(before)),
            ..Noise::default()
        }
    }

    pub(super) fn worse(self, other: Noise) -> Noise {
        Noise { preempted: self.preempted.max(other.preempted), waited_ns: self.waited_ns.max(other.waited_ns), ..self }
    }

    /// For the result; the limits are the experiment's matter.
    pub fn report(&self) -> linerate_report::Noise {
        linerate_report::Noise {
            steal_share: self.steal_share,
            gap_max_ns: self.gap_max_ns,
            preempted: self.preempted,
            waited_ns: self.waited_ns,
            cache_line_ns: self.cache_line_ns,
            generator_pace_ns: self.pace_ns[0],
            dut_pace_ns: self.pace_ns[1],
            ..linerate_report::Noise::default()
        }
    }
}

/// Time of a fixed loop on both cores at once, in a moment in which they keep their pace; takes less than a millisecond where they do.
pub(super) fn pace_ns(calm: &mut Calm, generator: Option<usize>, dut: Option<usize>) -> [Option<f64>; 2] {
    calm.wait([generator, dut.filter(|core| generator != Some(*core))])
}

/// Round trip of a cache line between two cores; takes about 2 ms.
pub(super) fn cache_line_ns(generator: Option<usize>, dut: Option<usize>) -> Option<f64> {
    let (here, there) = generator.zip(dut).filter(|(here, there)| here != there)?;
    cache_line::round_trip(here, there).ok().map(|trip| trip.median_ns)
}
