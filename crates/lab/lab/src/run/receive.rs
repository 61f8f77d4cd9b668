//! The receiving loop: a [`Receiver`] on one or more ports, by the clock.

use linerate_gen::Receiver;
use linerate_mem::{Batch, Pool};
use linerate_port::{Interest, Port, PortError, Readiness, Stats};
use linerate_sys::clock;

use linerate_worker::Control;

/// Packets of a batch.
const BATCH: usize = 256;
/// Longest sleep on the only port, so that a request to stop is seen.
const NAP_NS: u64 = 20_000_000;
/// How long packets are taken in after the request to stop.
const DRAIN_NS: u64 = 500_000_000;
/// How long what came before a trial is thrown away at most: more goes on arriving, then.
const DISCARD_NS: u64 = 100_000_000;
/// Time between two sums of what is missing, for live counts.
const SUM_EVERY_NS: u64 = 100_000_000;
/// Empty turns over pipes, whose `wait` naps, before they are waited for: some 30 microseconds.
const TURNS_BEFORE_NAP: u32 = 1000;
/// Sleep when several ports are served in turn.
const TURN_NS: u64 = 200_000;

/// How a receiving loop ended.
pub struct ReceiveEnd {
    /// Totals of each port at the end.
    pub stats: Vec<Stats>,
    /// What broke a port, if something did; counts and totals are right all the same.
    pub error: Option<PortError>,
    /// Calls that returned packets.
    pub batches: u64,
}

/// Counts what arrives on the ports into `receiver` until a stop is asked for, every port has ended, or one breaks.
///
/// After the request to stop, what waits in the ports is taken in; nothing that arrived before it is missed, unless more
/// goes on arriving than can be taken in: half a second later it ends in any case.
pub fn receive(
    ports: &mut [Box<dyn Port>],
    receiver: &mut Receiver,
    pool: &Pool,
    control: &Control,
    on_batch: &mut dyn FnMut(&Batch),
) -> ReceiveEnd {
    let mut pool = pool.clone();
    let mut state = Loop { batch: Batch::with_times(&pool, BATCH), batches: 0, packets: 0, bytes: 0, summed_ns: 0 };
    let mut error = None;
    let mut give_up_ns = u64::MAX;
    let spins = if ports.iter().all(|port| !port.caps().async_tx) { TURNS_BEFORE_NAP } else { 0 };
    let mut empty_turns = 0;
    loop {
        // Asked before the ports are emptied: a packet that came before the request is then still taken in.
        let stopping = control.stopping();
        if stopping && give_up_ns == u64::MAX {
            give_up_ns = clock::now_ns() + DRAIN_NS;
        }
        match state.sweep(ports, receiver, &mut pool, control, on_batch) {
            Ok(0) if stopping => break,
            Ok(0) if empty_turns < spins => {
                empty_turns += 1;
                std::hint::spin_loop();
            }
            Ok(0) => match wait_for_packets(ports) {
                Ok(true) => {}
                Ok(false) => break,
                Err(failure) => {
                    error = Some(failure);
                    break;
                }
            },
            Ok(_) if stopping && clock::now_ns() > give_up_ns => break,
            Ok(_) => empty_turns = 0,
            Err(failure) => {
                error = Some(failure);
                break;
            }
        }
    }
    let stats = ports.iter_mut().map(|port| port.stats().unwrap_or_default()).collect();
    ReceiveEnd { stats, error, batches: state.batches }
}

/// Takes out of a port what waits in it, and throws it away. It takes a tenth of a second at most; what breaks the port shows at its
/// next use.
pub fn discard(port: &mut dyn Port, pool: &Pool) {
    let mut pool = pool.clone();
    let mut batch = Batch::new(&pool, BATCH);
    let give_up_ns = clock::now_ns() + DISCARD_NS;
    while matches!(port.receive(&mut batch), Ok(1..)) {
        pool.free(&mut batch);
        if clock::now_ns() > give_up_ns {
            break;
        }
    }
    pool.free(&mut batch);
}

struct Loop {
    batch: Batch,
    batches: u64,
    packets: u64,
    bytes: u64,
    /// When the live count of lost packets was last brought up to date.
    summed_ns: u64,
}

impl Loop {
    /// Brings the live count of lost packets up to date, if that is due.
    #[inline]
    fn sum_lost(&mut self, receiver: &Receiver, now_ns: u64, control: &Control) {
        if now_ns.wrapping_sub(self.summed_ns) >= SUM_EVERY_NS {
            self.summed_ns = now_ns;
            control.meter.set_lost(receiver.streams().iter().map(|stream| stream.counts().lost).sum());
        }
    }

    /// One turn over all ports; returns the packets taken.
    fn sweep(
        &mut self,
        ports: &mut [Box<dyn Port>],
        receiver: &mut Receiver,
        pool: &mut Pool,
        control: &Control,
        on_batch: &mut dyn FnMut(&Batch),
    ) -> Result<usize, PortError> {
        let mut taken = 0;
        for port in ports {
            let count = port.receive(&mut self.batch)?;
            if count == 0 {
                continue;
            }
            let now_ns = clock::now_ns();
            receiver.record(&self.batch, now_ns);
            on_batch(&self.batch);
            self.bytes += self.batch.totals().bytes;
            self.packets += count as u64;
            self.batches += 1;
            control.meter.set(self.packets, self.bytes, self.batches);
            self.sum_lost(receiver, now_ns, control);
            pool.free(&mut self.batch);
            taken += count;
        }
        Ok(taken)
    }
}

/// Sleeps until a port may have something; false when none will ever have.
fn wait_for_packets(ports: &mut [Box<dyn Port>]) -> Result<bool, PortError> {
    let timeout_ns = if ports.len() == 1 { NAP_NS } else { TURN_NS };
    let mut ended = 0;
    let count = ports.len();
    for port in ports {
        match port.wait(Interest::Receive, timeout_ns)? {
            Readiness::Ready => return Ok(true),
            Readiness::TimedOut => {}
            Readiness::Closed => ended += 1,
        }
    }
    Ok(ended < count)
}
