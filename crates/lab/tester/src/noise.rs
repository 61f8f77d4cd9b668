//! What disturbed a trial, as numbers.

use std::io;

use linerate_sys::usage::ThreadUsage;

use linerate_report::Noise;
use linerate_tester_loop::cache_line;
use linerate_tester_loop::fixed_loop::Calm;

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

/// Of two sending threads, the worse of the two.
pub(super) fn worse(one: Noise, other: Noise) -> Noise {
    Noise { preempted: one.preempted.max(other.preempted), waited_ns: one.waited_ns.max(other.waited_ns), ..one }
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
