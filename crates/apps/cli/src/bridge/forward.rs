//! The loop of a bridge: both lanes in turn; under load it spins, idle it sleeps.

use linerate_port::{Interest, Port, PortError, Readiness, Stats};
use linerate_sys::clock;
use linerate_sys::poll::PollSet;
use linerate_worker::Control;

use super::lane::Lane;

/// Empty turns before the clock is looked at.
const TURNS: u32 = 64;
/// Time without a packet that is spun through.
const SPIN_NS: u64 = 50_000;
/// Shortest and longest sleep where not all ports can be slept on together; it grows as long as nothing comes.
const NAP_NS: std::ops::RangeInclusive<u64> = 50_000..=1_000_000;
/// Turns between two calls of every port's `flush`, under load.
const FLUSH_EVERY: u32 = 1024;
/// Longest sleep, so that a request to stop is seen.
const SLEEP_NS: u64 = 20_000_000;
/// How long the far port may take to take what is held, and to complete what it took, after the request to stop.
const DRAIN_NS: u64 = 1_000_000_000;

/// How a bridge ended.
pub struct ForwardEnd {
    /// Totals of each port.
    pub stats: Vec<Stats>,
    /// Packets that each port took and whose sending was not complete at the end.
    pub incomplete: Vec<u64>,
    /// What broke a port, if something did; counts and totals are right all the same.
    pub error: Option<PortError>,
    /// Time on a core, in nanoseconds.
    pub core_ns: u64,
}

/// Moves packets along the lanes until a stop is asked for, nothing will ever come again, or a port breaks.
pub fn forward(ports: &mut [Box<dyn Port>], lanes: &mut [Lane], controls: &[Control]) -> ForwardEnd {
    let began_ns = clock::thread_cpu_ns();
    let mut error = run(ports, lanes, controls).err();
    error = drain(ports, lanes).err().or(error);
    lanes.iter_mut().for_each(Lane::give_up);
    let incomplete = ports.iter_mut().map(|port| complete(&mut **port)).collect();
    let mut stats = Vec::new();
    for port in ports {
        stats.push(port.stats().unwrap_or_else(|failure| {
            error.get_or_insert(failure);
            Stats::default()
        }));
    }
    publish(lanes, controls);
    ForwardEnd { stats, incomplete, error, core_ns: clock::thread_cpu_ns() - began_ns }
}

fn run(ports: &mut [Box<dyn Port>], lanes: &mut [Lane], controls: &[Control]) -> Result<(), PortError> {
    let mut idle = Idle::default();
    let mut turns = 0u32;
    while !controls.iter().any(Control::stopping) {
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(FLUSH_EVERY) {
            flush(ports)?;
        }
        let mut moved = false;
        for lane in lanes.iter_mut() {
            moved |= turn(ports, lane)?;
        }
        if moved {
            publish(lanes, controls);
            idle.over();
        } else if lanes.iter().all(|lane| lane.ended) {
            break;
        } else {
            idle.rest(ports, lanes)?;
        }
    }
    Ok(())
}

/// Lets the ports push on what they hold, and look after themselves, also those for which there is nothing.
fn flush(ports: &mut [Box<dyn Port>]) -> Result<(), PortError> {
    for port in ports {
        unless_down(port.flush().map(|pending| pending > 0))?;
    }
    Ok(())
}

#[inline]
fn publish(lanes: &[Lane], controls: &[Control]) {
    for (lane, control) in lanes.iter().zip(controls) {
        control.meter.set(lane.counts.taken, 0, lane.counts.batches);
    }
}

/// The ports of a lane, the near one first.
fn ends<'a>(ports: &'a mut [Box<dyn Port>], lane: &Lane) -> Option<(&'a mut dyn Port, &'a mut dyn Port)> {
    match ports.get_disjoint_mut([lane.from, lane.to]) {
        Ok([near, far]) => Some((&mut **near, &mut **far)),
        Err(_) => None,
    }
}

#[inline]
fn turn(ports: &mut [Box<dyn Port>], lane: &mut Lane) -> Result<bool, PortError> {
    let Some((near, far)) = ends(ports, lane) else { return Ok(false) };
    unless_down(lane.turn(near, far))
}

/// An interface that is down may come up again: nothing moves meanwhile.
#[inline]
fn unless_down(moved: Result<bool, PortError>) -> Result<bool, PortError> {
    match moved {
        Err(PortError::Down { .. }) => Ok(false),
        other => other,
    }
}

/// What is done while nothing moves.
#[derive(Default)]
struct Idle {
    turns: u32,
    /// When the pause began; 0 outside of one.
    since_ns: u64,
    nap_ns: u64,
    /// Sleeps that ended at once, without anything to move.
    in_vain: u32,
    descriptors: PollSet,
}

impl Idle {
    /// Something moved.
    #[inline]
    fn over(&mut self) {
        (self.turns, self.since_ns, self.nap_ns, self.in_vain) = (0, 0, 0, 0);
    }

    fn rest(&mut self, ports: &mut [Box<dyn Port>], lanes: &mut [Lane]) -> Result<(), PortError> {
        self.turns += 1;
        if self.turns < TURNS {
            std::hint::spin_loop();
            return Ok(());
        }
        let now_ns = clock::now_ns();
        if self.since_ns == 0 {
            self.since_ns = now_ns;
        }
        if now_ns - self.since_ns < SPIN_NS {
            self.turns = 0;
            return Ok(());
        }
        // What the ports gathered for the sake of speed goes now.
        flush(ports)?;
        self.nap_ns = (self.nap_ns * 2).clamp(*NAP_NS.start(), *NAP_NS.end());
        if self.in_vain > 2 {
            // Where ports say that trying is worth it and nothing moves, as on an interface that is down.
            clock::sleep_until_ns(now_ns + self.nap_ns);
        }
        let mut alive = lanes.iter_mut().filter(|lane| !lane.ended);
        match (alive.next(), alive.next()) {
            (Some(lane), None) => self.sleep_on_one(ports, lane),
            _ => self.sleep_on_all(ports, lanes),
        }
    }

    fn sleep_on_one(&mut self, ports: &mut [Box<dyn Port>], lane: &mut Lane) -> Result<(), PortError> {
        let Some((near, far)) = ends(ports, lane) else { return Ok(()) };
        if lane.counts.held() == 0 {
            return self.wait_for_packets(near, far, lane, SLEEP_NS).map(|_| ());
        }
        let waited = far.wait(Interest::Transmit, SLEEP_NS);
        self.note(matches!(waited, Ok(Readiness::Ready)));
        unless_down(waited.map(|_| false)).map(|_| ())
    }

    /// Sleeps until a packet may have come on any port that packets come from; shortly, where a port has no descriptor for
    /// that or a lane waits for room.
    fn sleep_on_all(&mut self, ports: &mut [Box<dyn Port>], lanes: &mut [Lane]) -> Result<(), PortError> {
        self.descriptors.clear();
        let mut told = true;
        for lane in lanes.iter_mut().filter(|lane| !lane.ended) {
            if lane.counts.held() > 0 {
                told = false;
                continue;
            }
            let Some((near, far)) = ends(ports, lane) else { continue };
            if self.wait_for_packets(near, far, lane, 0)? && self.in_vain <= 2 {
                return Ok(());
            }
            let descriptors = &mut self.descriptors;
            told &= near.arm_wakeup(&mut |descriptor| {
                descriptors.add(descriptor, true, false);
            });
        }
        // Whoever asks to be woken looks once more.
        for lane in lanes.iter_mut().filter(|lane| !lane.ended) {
            if turn(ports, lane)? {
                self.over();
                return Ok(());
            }
        }
        let woken = self.descriptors.wait(if told { SLEEP_NS } else { self.nap_ns });
        self.note(matches!(woken, Ok(1..) | Err(_)));
        Ok(())
    }

    /// True when trying is worth it.
    fn wait_for_packets(
        &mut self,
        near: &mut dyn Port,
        far: &mut dyn Port,
        lane: &mut Lane,
        timeout_ns: u64,
    ) -> Result<bool, PortError> {
        match near.wait(Interest::Receive, timeout_ns) {
            Ok(Readiness::TimedOut) if timeout_ns == 0 => {}
            Ok(Readiness::TimedOut) => self.note(false),
            Ok(Readiness::Ready) | Err(PortError::Down { .. }) => {
                self.note(true);
                return Ok(true);
            }
            // What came before the end is complete, but may have come since the last turn.
            Ok(Readiness::Closed) => lane.ended = !unless_down(lane.turn(near, far))? && lane.counts.held() == 0,
            Err(error) => return Err(error),
        }
        Ok(false)
    }

    fn note(&mut self, in_vain: bool) {
        self.in_vain = if in_vain { self.in_vain + 1 } else { 0 };
    }
}

/// Sends what the lanes hold, for a while.
fn drain(ports: &mut [Box<dyn Port>], lanes: &mut [Lane]) -> Result<(), PortError> {
    let give_up_ns = clock::now_ns() + DRAIN_NS;
    let mut result = Ok(());
    for lane in lanes.iter_mut() {
        let Some((_, far)) = ends(ports, lane) else { continue };
        while lane.counts.held() > 0 && clock::now_ns() < give_up_ns {
            match lane.send(far) {
                Ok(true) => {}
                Ok(false) => clock::sleep_until_ns(clock::now_ns() + *NAP_NS.start()),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
    }
    result
}

/// Waits until what the port took is complete; returns how many packets are not.
pub fn complete(port: &mut dyn Port) -> u64 {
    let give_up_ns = clock::now_ns() + DRAIN_NS;
    loop {
        match port.flush() {
            Ok(0) | Err(_) => return 0,
            Ok(pending) if clock::now_ns() > give_up_ns => return pending as u64,
            Ok(_) => {
                // A failure shows at the next flush.
                let _ = port.wait(Interest::Transmit, 1_000_000);
            }
        }
    }
}
