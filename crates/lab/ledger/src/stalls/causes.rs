//! From what was seen to stalls with causes: what the kernel says comes first, and the rest of a gap is somebody else's.
//!
//! ```text
//! the sending thread   away outside its calls      less tasks and interrupts: the hypervisor
//!                      a long call of a port       the same, unless the DUT works in it: then the rest may be the DUT's own
//! the DUT's core       nothing arrived (to 0.1 ms) less tasks and interrupts: the hypervisor, or the DUT itself
//! ```
//! On a machine without a hypervisor the rest has no known cause, and on the DUT's core it is no interruption then.

use linerate_bpf::programs::core_watch::Taker;
use linerate_report::{StallCause, StalledPart};

use super::watch::{TakenBy, Watched};
use crate::turns::{NOTED_NS, Span, TurnLog};

/// A rest of a call that is as long as this was a stall; shorter ones may be the kernel's work.
const CALL_REST_NS: u64 = 500_000;
/// The same of a time in which nothing arrived.
const SILENT_REST_NS: u64 = 300_000;
/// How much earlier or later than its cause a silence can be seen.
const SILENT_SLACK_NS: u64 = 200_000;

/// A time for which a core did not work for the trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stall {
    pub(crate) core: Option<u32>,
    pub(crate) part: StalledPart,
    pub(crate) span: Span,
    pub(crate) by: StallCause,
    pub(crate) exact: bool,
    pub(crate) is_interruption: bool,
}

/// What is to be known about the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// It is a virtual one.
    pub is_virtual: bool,
    /// The DUT works in the sender's context, so in the sending ports' calls.
    pub dut_in_calls: bool,
}

/// The stalls of a sending thread.
pub(crate) fn of_generator(core: Option<u32>, log: &TurnLog, watched: &Watched, machine: Machine) -> Vec<Stall> {
    let taken: Vec<&TakenBy> = watched.taken.iter().filter(|taken| Some(taken.core) == core).collect();
    let mut stalls: Vec<Stall> =
        taken.iter().filter_map(|taken| of_taken(taken, StalledPart::Generator, machine)).collect();
    let rest = |span: Span, by: StallCause| Stall {
        core,
        part: StalledPart::Generator,
        span,
        by,
        exact: watched.knows_tasks,
        is_interruption: true,
    };
    let cause = match (watched.knows_tasks && core.is_some(), machine.is_virtual) {
        (true, true) => StallCause::Hypervisor,
        _ => StallCause::Unknown,
    };
    let covered = Covered::of(&taken, 0);
    let away = log.away.list().iter().flat_map(|span| covered.rests(*span));
    stalls.extend(away.filter(|span| span.length_ns() >= NOTED_NS).map(|span| rest(span, cause.clone())));
    if !machine.dut_in_calls && watched.knows_tasks {
        let calls = log.calls.list().iter().flat_map(|span| covered.rests(*span));
        let long = calls.filter(|span| span.length_ns() >= CALL_REST_NS);
        stalls.extend(long.map(|span| Stall { exact: false, ..rest(span, cause.clone()) }));
    }
    stalls.sort_by_key(|stall| stall.span);
    stalls
}

/// The stalls of the DUT's core. `silent`: when nothing arrived although packets were on their way.
pub(crate) fn of_dut(core: u32, silent: &[Span], watched: &Watched, machine: Machine) -> Vec<Stall> {
    let taken: Vec<&TakenBy> = watched.taken.iter().filter(|taken| taken.core == core).collect();
    let mut stalls: Vec<Stall> = taken.iter().filter_map(|taken| of_taken(taken, StalledPart::Dut, machine)).collect();
    if watched.knows_tasks {
        let covered = Covered::of(&taken, SILENT_SLACK_NS);
        let rests = silent.iter().flat_map(|span| covered.rests(*span));
        let cause = if machine.is_virtual { StallCause::Hypervisor } else { StallCause::Unknown };
        stalls.extend(rests.filter(|span| span.length_ns() >= SILENT_REST_NS).map(|span| Stall {
            core: Some(core),
            part: StalledPart::Dut,
            span,
            by: cause.clone(),
            exact: false,
            is_interruption: machine.is_virtual,
        }));
    }
    stalls.sort_by_key(|stall| stall.span);
    stalls
}

/// What the tester itself did is no stall.
fn of_taken(taken: &TakenBy, part: StalledPart, machine: Machine) -> Option<Stall> {
    let by = match &taken.by {
        Taker::Task { process, thread, name, switches } => {
            StallCause::Task { name: name.clone(), process: *process, thread: *thread, switches: *switches }
        }
        Taker::Device(number) => StallCause::Interrupt { name: format!("interrupt {number}") },
        Taker::Timer => StallCause::Interrupt { name: "timer interrupt".into() },
        Taker::FunctionCall => StallCause::Interrupt { name: "function call from another core".into() },
    };
    // A hypervisor takes a core away where it has to step in, which is often inside of an interrupt: that then looks long.
    let exact = matches!(by, StallCause::Task { .. }) || !machine.is_virtual;
    let stall = Stall { core: Some(taken.core), part, span: taken.span, by, exact, is_interruption: true };
    (!taken.is_own).then_some(stall)
}

/// The times for which something had a core, in their order and joined where they meet: a long trial on a busy machine has tens of
/// thousands of them, and thousands of spans to set beside them.
struct Covered(Vec<Span>);

impl Covered {
    /// Those of `taken`, each widened by `slack_ns` on both sides.
    fn of(taken: &[&TakenBy], slack_ns: u64) -> Covered {
        let widened = |taken: &&TakenBy| Span {
            start_ns: taken.span.start_ns.saturating_sub(slack_ns),
            end_ns: taken.span.end_ns.saturating_add(slack_ns),
        };
        let mut spans: Vec<Span> = taken.iter().map(widened).filter(|span| span.length_ns() > 0).collect();
        spans.sort_unstable();
        spans.dedup_by(|next, last| {
            let meets = next.start_ns <= last.end_ns;
            if meets {
                last.end_ns = last.end_ns.max(next.end_ns);
            }
            meets
        });
        Covered(spans)
    }

    /// The parts of a span that are not covered.
    fn rests(&self, span: Span) -> Vec<Span> {
        let first = self.0.partition_point(|covered| covered.end_ns <= span.start_ns);
        let mut parts = Vec::new();
        let mut from_ns = span.start_ns;
        for covered in self.0[first..].iter().take_while(|covered| covered.start_ns < span.end_ns) {
            parts.push(Span { start_ns: from_ns, end_ns: covered.start_ns });
            from_ns = covered.end_ns;
        }
        parts.push(Span { start_ns: from_ns, end_ns: span.end_ns });
        parts.retain(|part| part.length_ns() > 0);
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turns::Spans;

    const US: u64 = 1_000;
    const VIRTUAL: Machine = Machine { is_virtual: true, dut_in_calls: false };

    fn span(start_us: u64, end_us: u64) -> Span {
        Span { start_ns: start_us * US, end_ns: end_us * US }
    }

    fn task(core: u32, at: Span, is_own: bool) -> TakenBy {
        let by = Taker::Task { process: 7, thread: 8, name: "stress".into(), switches: 1 };
        TakenBy { core, span: at, by, is_own }
    }

    fn watched(taken: Vec<TakenBy>) -> Watched {
        Watched { taken, knows_tasks: true, unknown: Vec::new() }
    }

    fn log(away: &[Span], calls: &[Span]) -> TurnLog {
        TurnLog { away: Spans::of(away), calls: Spans::of(calls), ..TurnLog::default() }
    }

    fn stress() -> StallCause {
        StallCause::Task { name: "stress".into(), process: 7, thread: 8, switches: 1 }
    }

    fn seen(stalls: &[Stall]) -> Vec<(Span, StallCause, bool, bool)> {
        stalls.iter().map(|stall| (stall.span, stall.by.clone(), stall.exact, stall.is_interruption)).collect()
    }

    #[test]
    fn a_gap_that_a_task_explains_is_one_stall_and_its_rest_another() {
        // Away for 3 ms, 1 ms of it because of a task; a task of another core does not matter.
        let log = log(&[span(10_000, 13_000)], &[]);
        let taken = watched(vec![task(0, span(10_000, 11_000), false), task(1, span(10_000, 13_000), false)]);
        let stalls = of_generator(Some(0), &log, &taken, VIRTUAL);
        let rest = (span(11_000, 13_000), StallCause::Hypervisor, true, true);
        assert_eq!(seen(&stalls), [(span(10_000, 11_000), stress(), true, true), rest]);
    }

    #[test]
    fn what_the_tester_does_itself_is_no_stall_and_no_rest() {
        let log = log(&[span(10_000, 13_000)], &[]);
        let taken = watched(vec![task(0, span(9_990, 13_010), true)]);
        assert_eq!(of_generator(Some(0), &log, &taken, VIRTUAL), []);
    }

    #[test]
    fn an_interrupt_on_a_virtual_machine_may_be_the_hypervisors() {
        let taken = watched(vec![TakenBy { core: 1, span: span(10, 900), by: Taker::Timer, is_own: false }]);
        for is_virtual in [false, true] {
            let stalls = of_dut(1, &[], &taken, Machine { is_virtual, ..VIRTUAL });
            let by = StallCause::Interrupt { name: "timer interrupt".into() };
            assert_eq!(seen(&stalls), [(span(10, 900), by, !is_virtual, true)]);
        }
    }

    #[test]
    fn a_long_call_is_a_stall_only_where_the_device_does_not_work_in_it() {
        let log = log(&[], &[span(10_000, 12_000), span(20_000, 20_400)]);
        let stalls = of_generator(Some(0), &log, &watched(vec![]), VIRTUAL);
        assert_eq!(seen(&stalls), [(span(10_000, 12_000), StallCause::Hypervisor, false, true)]);
        let inside = Machine { dut_in_calls: true, ..VIRTUAL };
        assert_eq!(of_generator(Some(0), &log, &watched(vec![]), inside), []);
        // A task that took the core in a call is known all the same.
        let taken = watched(vec![task(0, span(10_500, 11_500), false)]);
        assert_eq!(of_generator(Some(0), &log, &taken, inside).len(), 1);
    }

    #[test]
    fn without_the_kernels_word_a_gap_has_no_known_cause() {
        let log = log(&[span(10_000, 13_000)], &[span(20_000, 25_000)]);
        let stalls = of_generator(Some(0), &log, &Watched::default(), VIRTUAL);
        assert_eq!(seen(&stalls), [(span(10_000, 13_000), StallCause::Unknown, false, true)]);
        assert_eq!(of_dut(1, &[span(1_000, 5_000)], &Watched::default(), VIRTUAL), []);
    }

    #[test]
    fn a_silence_is_the_tasks_as_far_as_one_was_there() {
        // Seen 100 us too late on both sides.
        let silent = [span(20_100, 23_100), span(40_000, 42_000)];
        let taken = watched(vec![task(1, span(20_000, 23_000), false)]);
        let stalls = of_dut(1, &silent, &taken, VIRTUAL);
        let rest = (span(40_000, 42_000), StallCause::Hypervisor, false, true);
        assert_eq!(seen(&stalls), [(span(20_000, 23_000), stress(), true, true), rest]);
        // Where there is no hypervisor, the DUT itself may have been busy with something else.
        let stalls = of_dut(1, &silent, &taken, Machine { is_virtual: false, ..VIRTUAL });
        assert_eq!(seen(&stalls)[1], (span(40_000, 42_000), StallCause::Unknown, false, false));
    }

    #[test]
    fn what_is_not_covered_is_left_whatever_order_and_overlap_the_times_have() {
        let times = [span(50, 60), span(10, 30), span(20, 40), span(25, 26), span(70, 70), span(90, 200)];
        let taken: Vec<TakenBy> = times.iter().map(|at| task(0, *at, false)).collect();
        let taken: Vec<&TakenBy> = taken.iter().collect();
        let rests = |slack_us: u64, of: Span| Covered::of(&taken, slack_us * US).rests(of);
        assert_eq!(rests(0, span(0, 100)), [span(0, 10), span(40, 50), span(60, 90)]);
        assert_eq!(rests(0, span(20, 35)), []);
        assert_eq!(rests(0, span(35, 55)), [span(40, 50)]);
        assert_eq!(rests(0, span(61, 62)), [span(61, 62)]);
        assert_eq!(rests(5, span(0, 100)), [span(0, 5), span(75, 85)]);
    }

    /// Done one by one, each with each, this would take minutes, as it did for a trial of four seconds on a machine of several slow cores.
    #[test]
    fn a_long_trial_on_a_busy_machine_is_accounted_for() {
        let away: Vec<Span> = (0..4_000).map(|number| span(number * 1_000, number * 1_000 + 500)).collect();
        let taken = (0..40_000).map(|number| task(0, span(number * 100, number * 100 + 20), false)).collect();
        let stalls = of_generator(Some(0), &log(&away, &away), &watched(taken), VIRTUAL);
        assert_eq!(stalls.len(), 40_000, "no rest is long enough");
    }
}
