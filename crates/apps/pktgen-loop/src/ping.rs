//! `-f ping`: sends bursts, awaits their replies, and measures how long these take.
//!
//! ```text
//!   payload:  | number 32, host order | seconds 32 | nanoseconds 32 |      behind the UDP header, as the original writes it
//! ```
//! The time in the packet is the scheduled one. Without `-R` the next burst is due when all replies of the last have come, or
//! a second after it; with `-R` bursts are due by the clock, whatever comes back.

use linerate_gen::{Arrival, CatchUp, Pacer, Schedule};
use linerate_mem::Batch;
use linerate_port::{Interest, PortError};
use linerate_sys::clock;
use linerate_wire::{Built, LayerKind, MacAddress, Parsed};

use super::counts::Counts;
use super::round_trip::{RoundTrips, timestamp_of};
use super::worker::{Outcome, Task};
use crate::diag;

/// What `ping` writes behind the headers of a packet, in bytes: number, seconds, nanoseconds.
pub const PING_LEN: usize = 12;

/// How long the reply to a ping is awaited.
const REPLY_NS: u64 = 1_000_000_000;
/// Replies are looked for without sleeping for so long after a burst, because a wake-up takes longer than a round trip may.
const SPIN_NS: u64 = 100_000;
/// Longest sleep, so that a stop is seen.
const NAP_NS: u64 = 20_000_000;
/// Packets taken from the port at once.
const REPLIES: usize = 256;

/// Pings with this packet, whose UDP payload begins at byte `payload`, until enough were sent, or a stop is asked for.
pub fn ping(mut task: Task, template: Built, payload: usize) -> Outcome {
    let start_ns = clock::now_ns();
    let mut pinging = Pinging::new(&task, template, payload, start_ns);
    let error = pinging.run(&mut task).err().map(|error| error.to_string());
    for line in pinging.trips.totals() {
        diag!("ping_body", "{line}");
    }
    let end_ns = clock::now_ns();
    let drops = task.port.stats().map(|stats| [stats.tx_drops, stats.rx_drops].concat()).unwrap_or_default();
    Outcome { counts: pinging.counts, start_ns, end_ns, drops, error, ..Outcome::default() }
}

struct Pinging {
    template: Built,
    payload: usize,
    trips: RoundTrips,
    counts: Counts,
    pacer: Pacer,
    paced: bool,
    burst: usize,
    /// Times at which the pings of a burst are due.
    times_ns: Vec<u64>,
    /// When the last burst was sent, and how many replies were missing before it.
    burst_sent_ns: u64,
    missing_before: u64,
    reported_ns: u64,
    outgoing: Batch,
    incoming: Batch,
}

impl Pinging {
    fn new(task: &Task, template: Built, payload: usize, start_ns: u64) -> Pinging {
        let (burst, paced) = (task.burst, task.rate_pps > 0.0);
        let schedule = Schedule {
            rate_pps: paced.then_some(task.rate_pps),
            arrival: Arrival::Burst { packets: burst as u32 },
            packets: (task.count > 0).then_some(task.count),
            duration_ns: None,
            catch_up: CatchUp::Burst,
        };
        Pinging {
            template,
            payload,
            trips: RoundTrips::default(),
            counts: Counts::default(),
            pacer: Pacer::new(schedule, start_ns),
            paced,
            burst,
            times_ns: Vec::with_capacity(burst),
            burst_sent_ns: start_ns,
            missing_before: 0,
            reported_ns: start_ns,
            outgoing: Batch::new(&task.pool, burst),
            incoming: Batch::new(&task.pool, REPLIES),
        }
    }

    fn run(&mut self, task: &mut Task) -> Result<(), PortError> {
        while !task.control.stopping() {
            let now_ns = clock::now_ns();
            if self.is_due(now_ns) {
                self.send(task, now_ns)?;
            }
            let came = self.take_replies(task)?;
            self.report(clock::now_ns());
            if self.is_done(now_ns) {
                break;
            }
            if came == 0 {
                self.wait(task, now_ns)?;
            }
        }
        Ok(())
    }

    /// A closed loop sends when the last burst is answered or given up; a paced one when its schedule says.
    fn is_due(&self, now_ns: u64) -> bool {
        let Some(due_ns) = self.pacer.next_due_ns(now_ns) else { return false };
        let settled = self.trips.missing() <= self.missing_before || now_ns - self.burst_sent_ns >= REPLY_NS;
        due_ns <= now_ns && (self.paced || settled)
    }

    fn is_done(&self, now_ns: u64) -> bool {
        let all_sent = self.pacer.next_due_ns(now_ns).is_none();
        all_sent && (self.trips.missing() == 0 || now_ns.saturating_sub(self.burst_sent_ns) >= REPLY_NS)
    }

    fn send(&mut self, task: &mut Task, now_ns: u64) -> Result<(), PortError> {
        self.times_ns.clear();
        let due = self.pacer.take(now_ns, self.burst, &mut self.times_ns);
        let had = task.pool.alloc(&mut self.outgoing, due, self.template.bytes.len());
        self.missing_before = self.trips.missing();
        for position in 0..had {
            let due_ns = self.times_ns[position];
            let number = self.trips.send(due_ns);
            self.write(number, due_ns);
            self.outgoing.packet_mut(position).copy_from_slice(&self.template.bytes);
        }
        task.show(&self.outgoing);
        let bytes_before = self.outgoing.totals().bytes;
        let sent = task.port.transmit(&mut self.outgoing)?;
        // What the port did not take is due again, under its old time.
        self.trips.unsend((had - sent) as u64);
        self.pacer.give_back(&self.times_ns[sent..]);
        let bytes = bytes_before - self.outgoing.totals().bytes;
        task.pool.free(&mut self.outgoing);
        task.port.flush()?;
        if sent > 0 {
            self.burst_sent_ns = clock::now_ns();
            self.counts = self.counts.plus(&Counts { packets: sent as u64, bytes, events: 1 });
            task.publish(&self.counts);
        }
        Ok(())
    }

    /// Puts number and time into the template; the checksum follows.
    fn write(&mut self, number: u64, due_ns: u64) {
        let (seconds, nanoseconds) = timestamp_of(due_ns);
        let mut payload = [0; PING_LEN];
        payload[..4].copy_from_slice(&(number as u32).to_ne_bytes());
        payload[4..8].copy_from_slice(&seconds.to_ne_bytes());
        payload[8..].copy_from_slice(&nanoseconds.to_ne_bytes());
        self.template.layout.patch(&mut self.template.bytes, self.payload, &payload);
    }

    fn take_replies(&mut self, task: &mut Task) -> Result<usize, PortError> {
        let came = task.port.receive(&mut self.incoming)?;
        if came > 0 {
            let now_ns = clock::now_ns();
            task.show(&self.incoming);
            for packet in self.incoming.iter() {
                if let Some((number, timestamp)) = reply_of(packet, task.source_mac) {
                    self.trips.reply(number, timestamp, now_ns);
                }
            }
            task.pool.free(&mut self.incoming);
        }
        Ok(came)
    }

    fn report(&mut self, now_ns: u64) {
        if now_ns - self.reported_ns < 1_000_000_000 {
            return;
        }
        self.reported_ns = now_ns;
        match self.trips.report() {
            Some(text) => text.split_inclusive("ns\n").for_each(|part| diag!("ping_body", "{}", part.trim_end())),
            None => diag!("ping_body", "no reply for a second, {} missing", self.trips.missing()),
        }
    }

    /// Until the next ping is due or a reply comes.
    fn wait(&self, task: &mut Task, now_ns: u64) -> Result<(), PortError> {
        if now_ns.saturating_sub(self.burst_sent_ns) < SPIN_NS {
            std::thread::yield_now();
            return Ok(());
        }
        let next_ns = match self.pacer.next_due_ns(now_ns) {
            Some(due_ns) if self.paced => due_ns.saturating_sub(now_ns),
            _ => (self.burst_sent_ns + REPLY_NS).saturating_sub(now_ns),
        };
        task.port.wait(Interest::Receive, next_ns.clamp(1, NAP_NS))?;
        Ok(())
    }
}

/// Number and timestamp of a packet that may be a reply: UDP, and not one of our own that came round.
fn reply_of(packet: &[u8], own: MacAddress) -> Option<(u32, (u32, u32))> {
    let transport = Parsed::parse(packet).ok()?.ip?.transport?;
    if transport.kind != LayerKind::Udp || (packet.get(6..12)? == own.0 && own != MacAddress::ZERO) {
        return None;
    }
    let payload = packet.get(transport.payload_offset..transport.payload_offset + PING_LEN)?;
    let word = |at: usize| Some(u32::from_ne_bytes(payload.get(at..at + 4)?.try_into().ok()?));
    Some((word(0)?, (word(4)?, word(8)?)))
}
