//! The sending loop of a trial: several ports served in turn by one thread, each with its own schedule.
//!
//! Two threads on one core would each lose the core for milliseconds to the other, so both directions of a trial share a thread
//! where they share a core: each turn offers every port what is due for it, then waits for whatever is due first.

use linerate_gen::{Next, Schedule, Sender, SenderPlan};
use linerate_mem::Pool;
use linerate_port::{Port, PortError};
use linerate_sys::clock;

use linerate_ledger::turns::{Arrived, TurnLog, TurnLogger};

use linerate_worker::{Backoff, Control, MeterReading, SendEnd, after_waiting_for, give_up_ns, pause};

/// How long a schedule without a duration may take: this, and as much again for each packet.
const BURST_MAX_NS: u64 = 1_000_000_000;
const BURST_PACKET_MAX_NS: u64 = 10_000;

/// One port to send into, and what.
pub struct Lane<'a> {
    /// The port.
    pub port: &'a mut dyn Port,
    /// Streams, and the first schedule.
    pub plan: SenderPlan,
    /// The schedules after it, each from the end of the duration of the one before, without a gap.
    pub then: Vec<Schedule>,
    /// What counts the packets at the far end, where the loop can read that: it then notes when none arrive.
    pub arrived: Option<&'a dyn Arrived>,
}

/// How well the thread kept its time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// When it was away, and how far it had come when.
    pub log: TurnLog,
    /// When the loop began, once the start was reached.
    pub start_ns: u64,
}

/// Sends on all lanes from `start_ns` on, until each one's schedules are over or its port is broken, or a stop is asked for. The
/// ends are in the order of the lanes. `control`'s meter counts all lanes together.
pub fn send_lanes(lanes: Vec<Lane<'_>>, pool: &Pool, start_ns: u64, control: &Control) -> (Vec<SendEnd>, Kept) {
    clock::sleep_exactly();
    // The schedules begin with their thread: on a busy machine they would else lose their beginning before it has its core.
    let start_ns = after_waiting_for(start_ns);
    let counts: Vec<_> = lanes.iter().map(|lane| lane.arrived).collect();
    let mut running: Vec<Running> = lanes.into_iter().map(|lane| Running::new(lane, pool, start_ns)).collect();
    let mut logger = TurnLogger::new(&counts);
    run(&mut running, start_ns, &mut logger, control);
    let now_ns = clock::now_ns().max(start_ns);
    let kept = Kept { log: logger.finish(now_ns, running.iter().map(Running::sent)), start_ns };
    (running.into_iter().map(|lane| lane.finish(now_ns)).collect(), kept)
}

fn run(lanes: &mut [Running<'_>], start_ns: u64, logger: &mut TurnLogger<'_>, control: &Control) {
    // Until when the loop meant to be away.
    let mut away_ns = start_ns;
    while !control.stopping() {
        let now_ns = clock::now_ns();
        logger.begin(away_ns, now_ns, lanes.iter().map(Running::sent));
        let mut due_ns = u64::MAX;
        let alone = lanes.len() == 1;
        for lane in lanes.iter_mut().filter(|lane| !lane.done) {
            match lane.turn(now_ns, alone) {
                Ok(lane_due_ns) => due_ns = due_ns.min(lane_due_ns),
                Err(error) => {
                    lane.error = Some(error);
                    lane.done = true;
                }
            }
        }
        control.meter.store(lanes.iter().map(Running::reading));
        if lanes.iter().all(|lane| lane.done) {
            break;
        }
        let served_ns = clock::now_ns();
        logger.called(now_ns, served_ns);
        away_ns = served_ns.max(wait(lanes, due_ns, now_ns));
    }
}

/// Waits until something is due; returns until when it meant to.
#[inline]
fn wait(lanes: &mut [Running<'_>], due_ns: u64, now_ns: u64) -> u64 {
    let mut until_ns = now_ns;
    for lane in lanes.iter_mut().filter(|lane| !lane.done) {
        match pause(due_ns, now_ns, lane.port) {
            Ok(slept_until_ns) => until_ns = until_ns.max(slept_until_ns),
            Err(error) => {
                lane.error = Some(error);
                lane.done = true;
            }
        }
    }
    until_ns
}

struct Running<'a> {
    port: &'a mut dyn Port,
    sender: Sender,
    then: std::vec::IntoIter<Schedule>,
    /// The end of the current schedule, or when the last one is given up.
    until_ns: u64,
    backoff: Backoff,
    /// The port took nothing at the last turn.
    full: bool,
    done: bool,
    error: Option<PortError>,
}

impl<'a> Running<'a> {
    fn new(lane: Lane<'a>, pool: &Pool, start_ns: u64) -> Running<'a> {
        let then = lane.then.into_iter();
        Running {
            sender: Sender::new(&lane.plan, pool, start_ns),
            until_ns: until_ns(&lane.plan.schedule, start_ns, then.len() == 0),
            port: lane.port,
            then,
            backoff: Backoff::default(),
            full: false,
            done: false,
            error: None,
        }
    }

    /// Sends what is due; returns when to come again.
    #[inline]
    fn turn(&mut self, now_ns: u64, alone: bool) -> Result<u64, PortError> {
        if now_ns >= self.until_ns && !self.next_schedule(now_ns) {
            return Ok(u64::MAX);
        }
        let next = self.sender.poll(now_ns, self.port)?;
        self.full = next == Next::PortFull;
        match next {
            Next::At(due_ns) => {
                self.backoff = Backoff::default();
                return Ok(due_ns.min(self.until_ns));
            }
            // With others to serve, no time is spent on this one.
            Next::PortFull | Next::NoFrames if !alone => {
                self.port.flush()?;
            }
            Next::PortFull => self.backoff.wait_for_room(self.port)?,
            Next::NoFrames => self.backoff.wait_for_frames(self.port)?,
            Next::Done if self.then.len() > 0 => return Ok(self.until_ns),
            Next::Done => {
                self.done = true;
                return Ok(u64::MAX);
            }
        }
        Ok(now_ns)
    }

    #[cold]
    fn next_schedule(&mut self, now_ns: u64) -> bool {
        let Some(next) = self.then.next() else {
            self.done = true;
            return false;
        };
        let start_ns = self.until_ns;
        self.until_ns = until_ns(&next, start_ns, self.then.len() == 0);
        self.sender.change_schedule(next, now_ns, start_ns);
        true
    }

    #[inline]
    fn sent(&self) -> u64 {
        self.sender.report().sent
    }

    fn reading(&self) -> MeterReading {
        let report = self.sender.report();
        MeterReading { packets: report.sent, bytes: report.bytes, batches: report.batches, lost: 0 }
    }

    fn finish(self, now_ns: u64) -> SendEnd {
        SendEnd { was_full: self.full, ..SendEnd::new(self.sender.finish(now_ns), self.port, self.error) }
    }
}

fn until_ns(schedule: &Schedule, start_ns: u64, last: bool) -> u64 {
    match (schedule.duration_ns, schedule.packets) {
        (Some(duration_ns), _) if !last => start_ns.saturating_add(duration_ns),
        (Some(_), _) => give_up_ns(schedule.duration_ns, start_ns),
        (None, Some(packets)) => {
            start_ns.saturating_add(BURST_MAX_NS).saturating_add(packets.saturating_mul(BURST_PACKET_MAX_NS))
        }
        (None, None) => u64::MAX,
    }
}
