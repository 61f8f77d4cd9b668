//! What a trial found.

use linerate_gen::SenderReport;
use linerate_port::PortError;
use linerate_report::{Counted, Machine};

use super::endpoint::Arrivals;
use super::traffic::Direction;
use crate::Delays;
use linerate_ledger::counters::{CountersError, Difference};
use linerate_ledger::ledger::Ledger;
use linerate_testbed::cpu::CpuTimes;

/// What a trial found.
#[derive(Debug)]
pub struct Outcome {
    /// Where every packet went, both directions together.
    pub ledger: Ledger,
    /// What each direction's ends counted: forward, then backward if there was load that way.
    pub ways: Vec<WayOutcome>,
    /// What was read of path and machine before and after the load.
    pub readings: Readings,
    /// One-way delays of all directions together; none where they were not measured.
    pub delays: Option<Delays>,
    /// From the first packet handed over to the last one, but at least the intended duration of a paced load; with both ways, the
    /// longer of the two.
    pub duration_ns: u64,
    /// What ended it early. The account is right up to then.
    pub interrupted: Option<Interruption>,
    /// Why it should be made again.
    pub retry: Retry,
    /// What makes it doubtful.
    pub notes: Vec<String>,
}

/// What was read of path and machine before and after a load.
#[derive(Debug, Default)]
pub struct Readings {
    /// What the counters of the path added, where it has some.
    pub difference: Option<Difference>,
    /// What each core did while packets were sent.
    pub cpu: CpuTimes,
    /// For the results. Whether `noise` is disturbed is for the experiment to say.
    pub machine: Machine,
}

/// Why a trial should be made again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retry {
    /// Links of the tester's own network cards that went away during the trial, in sentences. Its losses say little about the device.
    pub link_flaps: Vec<String>,
    /// For the notes of the trial that is made: a thousandth of the packets or more were lost without a cause, and the kernel is asked for its
    /// drop reasons only from now on.
    pub reasons: Option<String>,
}

/// What the two ends of one direction counted.
#[derive(Debug)]
pub struct WayOutcome {
    /// Which direction.
    pub way: Direction,
    /// Packets by the ends' own counts.
    pub counted: Counted,
    /// The sender's own account, with its pacing.
    pub sending: SenderReport,
    /// The sending port took nothing more at last: what is unsent then waited for room.
    pub was_full: bool,
    /// What arrived.
    pub arrivals: Arrivals,
    /// As [`Outcome::duration_ns`].
    pub duration_ns: u64,
    /// When the rate changed, on the clock of the timeline; of a load that has a step.
    pub step_ns: Option<u64>,
}

/// What ended a trial early.
#[derive(Debug)]
pub enum Interruption {
    /// A signal asked the program to stop.
    Signal,
    /// The sending port broke.
    Sender(PortError),
    /// The receiving port broke; what came after is lost between the interface and it.
    Receiver(PortError),
    /// The device inside this process broke.
    Device(PortError),
}

impl std::fmt::Display for Interruption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Interruption::Signal => f.write_str("stopped by a signal"),
            Interruption::Sender(error) => write!(f, "the sending port broke: {error}"),
            Interruption::Receiver(error) => write!(f, "the receiving port broke: {error}"),
            Interruption::Device(error) => write!(f, "the device broke: {error}"),
        }
    }
}

/// What happened after a step of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// Nothing was lost after it.
    AtOnce,
    /// The last loss was seen this long after it: when the packet after the last lost one arrived.
    After {
        /// Nanoseconds.
        recovery_ns: u64,
    },
    /// Packets were lost until the end.
    NotYet,
}

impl WayOutcome {
    /// When loss stopped after the step (RFC 2544 section 26.5); none without a step or a timeline. Resolution: see
    /// [`linerate_tester_loop::timeline`].
    pub fn recovery(&self) -> Option<Recovery> {
        let (step_ns, timeline) = (self.step_ns?, self.arrivals.timeline?);
        if timeline.numbers_end < self.counted.sent {
            return Some(Recovery::NotYet);
        }
        // By the time of sending: what was sent before the step and lost then is the overload's, however late that shows.
        let loss = timeline.last_loss.filter(|loss| loss.scheduled_ns > step_ns);
        Some(match loss {
            Some(loss) => Recovery::After { recovery_ns: loss.arrived_ns.saturating_sub(step_ns) },
            None => Recovery::AtOnce,
        })
    }

    /// The longest silence: from the last packet before it to the first one after it (RFC 2544 section 26.6), in nanoseconds. None
    /// without a timeline, or when nothing arrived after it: packets sent for longer than it, at the end, did not arrive.
    pub fn outage_ns(&self) -> Option<u64> {
        let timeline = self.arrivals.timeline?;
        let last_sent_ns = self.sending.last_ns?;
        let silent_at_end_ns = last_sent_ns.saturating_sub(timeline.last_ns);
        (timeline.silence_end_ns > 0 && silent_at_end_ns <= timeline.silence_ns).then_some(timeline.silence_ns)
    }
}

/// Why a trial gave no result.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The packets cannot be made.
    #[error("{0}")]
    Plan(#[from] linerate_gen::PlanError),
    /// A gateway's address could not be had.
    #[error("the next hop: {0}")]
    NextHop(std::io::Error),
    /// This tester has no ports for load in that direction.
    #[error("the tester was opened for one direction only")]
    OneWayOnly,
    /// A port broke where no account can be given any more.
    #[error("{0}")]
    Port(#[from] PortError),
    /// The counting program could not be put in place.
    #[error("the counting XDP program: {0}")]
    Sink(#[from] linerate_bpf::BpfError),
    /// The device, a capture, could not be started.
    #[error("{0}")]
    Capture(String),
    /// The path's counters could not be read.
    #[error("the path's counters: {0}")]
    Counters(#[from] CountersError),
    /// The processors' times could not be read.
    #[error("the processors' times: {0}")]
    Cpu(#[from] std::io::Error),
    /// The counts contradict each other.
    #[error("the account cannot be closed: {0}")]
    Account(#[from] linerate_report::AccountError),
    /// A signal asked the program to stop before the load began.
    #[error("stopped by a signal")]
    Stopped,
}
