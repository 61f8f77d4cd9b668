//! When the cores of a trial were away, by whom, and what was lost meanwhile.
//!
//! Three observers, none of which costs a core more than half a percent: a program in the kernel that sees tasks and interrupts
//! (`watch`), the sending loop's own clock ([`crate::turns::TurnLog`]), and the same loop's looks at what arrives at the far end.
//! `causes` makes stalls of what they saw, `bursts` lays the packets lost over them, `rows` divides the ledger's rows.
//! docs/ledger.md says what each observer can tell and what not.

mod bursts;
mod causes;
mod rows;
mod watch;

use linerate_report::{Account, AccountError, LossTimes, Stalls};

use crate::turns::{Marks, Span, TurnLog};
use bursts::{Runs, lay};
pub use causes::Machine;
use causes::{Stall, of_dut, of_generator};
pub use watch::{Watched, Watcher};

/// What was seen during a trial.
pub struct Seen<'a> {
    /// The machine, as far as it matters here.
    pub machine: Machine,
    /// The sending threads: their cores, and what they noted.
    pub generators: Vec<(Option<u32>, &'a TurnLog)>,
    /// The DUT's core, where it has one of its own.
    pub dut: Option<u32>,
    /// What the kernel said.
    pub watched: Watched,
    /// When the load began.
    pub start_ns: u64,
    /// How long the load was.
    pub duration_ns: u64,
    /// Of each direction whose packets are told apart: how far it was when, and which numbers are missing.
    pub losses: Vec<(&'a Marks, Runs<'a>)>,
}

/// What came of it.
#[derive(Debug)]
pub struct Told {
    /// The stalls, and the losses laid over them.
    pub stalls: Stalls,
    /// The account, with what was lost in interruptions in rows of its own.
    pub account: Account,
    /// The longest interruption, in nanoseconds.
    pub longest_ns: u64,
    /// How long the sending threads waited for the tester's own tasks, in nanoseconds: the most of one of them.
    pub own_waits_ns: u64,
}

/// Finds the stalls of a trial and what they cost.
///
/// # Errors
/// When the divided account does not add up.
pub fn tell(seen: Seen<'_>, account: &Account) -> Result<Told, AccountError> {
    let Seen { machine, generators, dut, watched, start_ns, duration_ns, losses } = seen;
    let mut stalls: Vec<Stall> = Vec::new();
    let mut unknown = watched.unknown.clone();
    for (core, log) in &generators {
        stalls.extend(of_generator(*core, log, &watched, machine));
        let missed = log.away.missed + log.calls.missed + log.silent.as_ref().map_or(0, |silent| silent.missed);
        if missed > 0 {
            unknown.push(format!("{missed} pauses of the sending thread found no room in the record"));
        }
    }
    if let Some(core) = dut {
        let mut silent: Vec<Span> = Vec::new();
        for (_, log) in &generators {
            match &log.silent {
                Some(spans) => silent.extend(spans.list()),
                None => unknown.push(format!(
                    "away times of core {core} by the hypervisor are not known: the packets are counted by a thread, whose own pauses look the same"
                )),
            }
        }
        silent.sort_unstable();
        stalls.extend(of_dut(core, &silent, &watched, machine));
    }
    // What was before the load or after it is none of its business.
    let load = Span { start_ns, end_ns: start_ns.saturating_add(duration_ns) };
    stalls.retain(|stall| stall.span.end_ns > load.start_ns && stall.span.start_ns < load.end_ns);
    stalls.sort_by_key(|stall| stall.span);
    let (mut lost, loss) = lost_by(&stalls, &losses, load);
    let (account, lost_in_interruptions) = rows::divide(account, &stalls, &mut lost)?;
    let longest = stalls.iter().filter(|stall| stall.is_interruption).map(|stall| stall.span.length_ns());
    let longest_ns = longest.max().unwrap_or(0);
    let own_waits_ns = generators.iter().map(|(core, _)| watched.own_waits_ns(*core)).max().unwrap_or(0);
    let all = stalls.into_iter().zip(lost).map(|(stall, lost)| report(stall, lost, start_ns)).collect();
    let stalls = Stalls { lost_in_interruptions, loss, unknown, ..Stalls::bounded(all) };
    Ok(Told { stalls, account, longest_ns, own_waits_ns })
}

/// Packets that each stall cost, all directions together, and when packets were lost at all.
fn lost_by(stalls: &[Stall], losses: &[(&Marks, Runs<'_>)], load: Span) -> (Vec<u64>, Option<LossTimes>) {
    let costs = |stall: &&Stall| rows::costs_packets(stall);
    let spans: Vec<Span> = stalls.iter().filter(costs).map(|stall| stall.span).collect();
    let mut by_span = vec![0; spans.len()];
    let mut loss: Option<LossTimes> = None;
    for (marks, runs) in losses {
        let laid = lay(*runs, marks, &spans, (load.start_ns, load.length_ns()));
        by_span.iter_mut().zip(laid.by_stall).for_each(|(sum, lost)| *sum += lost);
        match &mut loss {
            Some(loss) => loss.lost.iter_mut().zip(laid.times.lost).for_each(|(sum, lost)| *sum += lost),
            None => loss = Some(laid.times),
        }
    }
    let mut by_span = by_span.into_iter();
    let lost = stalls.iter().map(|stall| if costs(&stall) { by_span.next().unwrap_or(0) } else { 0 });
    (lost.collect(), loss)
}

fn report(stall: Stall, lost: u64, start_ns: u64) -> linerate_report::Stall {
    linerate_report::Stall {
        core: stall.core,
        part: stall.part,
        start_ns: stall.span.start_ns.saturating_sub(start_ns),
        duration_ns: stall.span.length_ns(),
        by: stall.by,
        exact: stall.exact,
        interruption: stall.is_interruption,
        lost,
    }
}
