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
    let mut backoff = Backoff::default();
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
        // Whoever empties the rings may need this core for it.
        if !alone && lanes.iter().all(|lane| lane.done || lane.stuck) {
            backoff.wait();
        } else {
            backoff = Backoff::default();
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
    /// There was no room or no frame at the last turn, which did not wait for them.
    stuck: bool,
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
            stuck: false,
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
        self.stuck = !alone && matches!(next, Next::PortFull | Next::NoFrames);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

    use linerate_gen::{Arrival, BATCH_DEFAULT, CatchUp, Sizes, StreamSpec};
    use linerate_mem::{Batch, PoolConfig};
    use linerate_port::{Caps, Interest, Readiness, Stats};
    use linerate_sys::affinity;
    use linerate_wire::{Stack, ethernet, ipv4, udp};

    use super::*;

    /// What the far side of a [`OneRoom`] sees.
    #[derive(Default)]
    struct Room {
        is_there: AtomicBool,
        /// Calls that found no room.
        in_vain: AtomicU64,
    }

    /// A port that has room for one packet, once the far side has made it.
    struct OneRoom {
        pool: Pool,
        caps: Caps,
        room: Arc<Room>,
    }

    impl Port for OneRoom {
        fn caps(&self) -> &Caps {
            &self.caps
        }

        fn receive(&mut self, _batch: &mut Batch) -> Result<usize, PortError> {
            Ok(0)
        }

        fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
            if batch.is_empty() || !self.room.is_there.swap(false, SeqCst) {
                self.room.in_vain.fetch_add(1, SeqCst);
                return Ok(0);
            }
            self.pool.free_front(batch, 1);
            Ok(1)
        }

        fn wait(&mut self, _interest: Interest, _timeout_ns: u64) -> Result<Readiness, PortError> {
            Ok(Readiness::Closed)
        }

        fn stats(&mut self) -> Result<Stats, PortError> {
            Ok(Stats::default())
        }
    }

    /// Receivers in memory often share the core of the sending thread. A loop that only spins then sends a ring's worth for each time that
    /// the scheduler takes its core away.
    #[test]
    fn two_full_ports_give_the_core_to_whoever_empties_them() {
        const PACKETS: u64 = 200;
        let core = affinity::allowed_cores()[0];
        let pool = Pool::new(PoolConfig { frames: 512, ..PoolConfig::default() }).expect("a pool");
        let rooms = [Arc::<Room>::default(), Arc::default()];
        let mut ports: Vec<_> = rooms
            .iter()
            .map(|room| OneRoom { pool: pool.clone(), caps: Caps::default(), room: room.clone() })
            .collect();
        let stack = Stack::new().with(ethernet::Header::default()).with(ipv4::Header::default());
        let stack = stack.with(udp::Header::default());
        let spec = StreamSpec { stack, lens: vec![60], sizes: Sizes::One, rules: Vec::new(), signature: None };
        let schedule = Schedule {
            rate_pps: None,
            arrival: Arrival::Constant,
            packets: Some(PACKETS),
            duration_ns: None,
            catch_up: CatchUp::Burst,
        };
        let stream = spec.plan().expect("a stream");
        let lanes = ports.iter_mut().map(|port| Lane {
            port,
            plan: SenderPlan {
                streams: vec![(stream.clone(), 1)],
                schedule,
                batch: BATCH_DEFAULT,
                first_sequence: 0,
                in_turn: true,
            },
            then: Vec::new(),
            arrived: None,
        });
        let lanes: Vec<_> = lanes.collect();
        let over = AtomicBool::new(false);
        let ends = std::thread::scope(|scope| {
            scope.spawn(|| {
                affinity::pin_to_core(core).expect("a core of ours");
                while !over.load(SeqCst) {
                    rooms.iter().for_each(|room| room.is_there.store(true, SeqCst));
                    std::thread::yield_now();
                }
            });
            let sending = scope.spawn(|| {
                affinity::pin_to_core(core).expect("a core of ours");
                let (ends, _) = send_lanes(lanes, &pool, clock::now_ns(), &Control::ignoring_signals());
                over.store(true, SeqCst);
                ends
            });
            sending.join().expect("the sending thread ends")
        });
        assert_eq!(ends.iter().map(|end| end.report.sent).collect::<Vec<_>>(), [PACKETS; 2]);
        for room in &rooms {
            let each = room.in_vain.load(SeqCst) / PACKETS;
            assert!(each < 1_000, "{each} calls in vain for each packet");
        }
    }
}
