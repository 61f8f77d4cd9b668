//! What arrives is what was sent: to the bit, in order, in both directions, and between threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linerate_mem::{Batch, Pool, Totals};
use linerate_port::{Interest, Port};

use super::{BLIND, not_applicable, passed};
use crate::packets::{self, Entry, HEADER_LEN};
use crate::session::Session;
use crate::{Facts, Harness, Link, Outcome};

/// Lengths worth a try: every one up to two cache lines and a half, around powers of two, at the end of a frame, the longest.
fn lengths(least: usize, most: usize, frame_room: usize) -> Vec<usize> {
    let mut lengths: Vec<usize> = (least..=160).collect();
    for power in 8..17 {
        lengths.extend((1usize << power) - 1..=(1 << power) + 1);
    }
    lengths.extend([1513, 1514, frame_room - 1, frame_room, frame_room + 1, most.saturating_sub(1), most]);
    lengths.retain(|len| (least..=most).contains(len));
    lengths
}

pub(super) fn order_and_content(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let mut session = Session::open(harness, 0)?;
    let (least, most) = (session.facts.len_min.max(HEADER_LEN), session.len_max());
    if most < least {
        return Err(format!("caps().frame_len_max is {most}, but packets begin at {least} bytes"));
    }
    let room = session.pool.packet_len_max();
    let entries: Vec<Entry> = lengths(least, most, room).into_iter().map(|len| Entry::fitting(len, room)).collect();
    session.send_all(&entries, 16)?;
    let blind = session.is_blind();
    let account = session.finish(harness)?;
    if blind {
        return passed(format!("{} packets of {least} to {most} bytes taken; {BLIND}", entries.len()));
    }
    passed(format!("{} of {} packets of {least} to {most} bytes, in order, to the bit", account.arrived, entries.len()))
}

pub(super) fn vlan_tags(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let mut session = Session::open(harness, 0)?;
    if session.is_blind() {
        return not_applicable(BLIND);
    }
    if !session.facts.vlan {
        return not_applicable("the path is said not to carry VLAN tags");
    }
    let entries: Vec<Entry> = (0..64).map(|n| Entry { len: 60 + n, slots: 1, tags: n % 3, partial: false }).collect();
    session.send_all(&entries, 16)?;
    let account = session.finish(harness)?;
    passed(format!("{} packets with 0, 1 and 2 tags", account.arrived))
}

/// The link the other way round, where both ports do both.
pub(super) fn both_directions(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let mut session = Session::open(harness, 0)?;
    let able =
        |port: &Option<Box<dyn Port>>| port.as_ref().is_some_and(|port| port.caps().receives && port.caps().transmits);
    if !able(&session.sender) || !able(&session.receiver) {
        return not_applicable("the ports are not both able to send and to receive");
    }
    let entries = vec![Entry::plain(60); 100];
    session.send_all(&entries, 16)?;
    session.settle(harness)?;
    // Each port goes on with a clean account of its other half.
    std::mem::swap(&mut session.sender, &mut session.receiver);
    session.account = crate::session::Account::new(session.facts.other_traffic);
    session.send_all(&entries, 16)?;
    let back = session.finish(harness)?.arrived;
    passed(format!("100 packets there, {back} back"))
}

const THREAD_PACKETS: usize = 20_000;

/// The sender on one thread, the receiver on another, at full speed within the window.
pub(super) fn between_threads(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let facts = harness.facts();
    let mut pool = harness.make_pool()?;
    let frames = pool.available();
    let link = harness.open(&pool, facts.starts.last().copied().unwrap_or(0))?;
    let Link::Pair { sender, receiver } = link else {
        return not_applicable("sender and receiver are not open at the same time");
    };
    let mut run = ThreadRun::new(facts, sender, &pool);
    let result = run.receive_on_this_thread(&pool, receiver);
    drop(run);
    let arrived = result?;
    let lost = harness.lost_on_path();
    arrived.check(lost)?;
    pool.flush();
    if pool.available() != frames {
        return Err("frames are missing after the threads have ended".into());
    }
    passed(format!("{} of {THREAD_PACKETS} packets", arrived.ours))
}

struct ThreadRun {
    facts: Facts,
    run: u32,
    arrived: std::sync::Arc<AtomicU64>,
    stop: std::sync::Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<Result<Sent, String>>>,
}

#[derive(Debug)]
struct Sent {
    packets: u64,
    dropped: u64,
}

struct Arrived {
    ours: u64,
    dropped: u64,
    sent: Sent,
    facts: Facts,
}

impl Arrived {
    fn check(&self, lost_on_path: u64) -> Result<(), String> {
        let all = THREAD_PACKETS as u64;
        if self.sent.packets + self.sent.dropped != all {
            return Err(format!("{all} packets were taken, but the sender counts {:?}", self.sent));
        }
        let missing = self.sent.packets as i64 - self.ours as i64;
        let explained = (self.dropped + lost_on_path) as i64;
        let wrong = if self.facts.other_traffic { !(0..=explained).contains(&missing) } else { missing != explained };
        if wrong || (self.facts.lossless && missing != 0) || self.ours == 0 {
            return Err(format!("{} sent, {} arrived, {explained} drops reported", self.sent.packets, self.ours));
        }
        Ok(())
    }
}

impl ThreadRun {
    fn new(facts: Facts, sender: Box<dyn Port>, pool: &Pool) -> ThreadRun {
        let run = packets::new_run();
        let arrived = std::sync::Arc::new(AtomicU64::new(0));
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let work = Sending {
            run,
            window: facts.window as u64,
            patience: facts.patience,
            arrived: std::sync::Arc::clone(&arrived),
            stop: std::sync::Arc::clone(&stop),
            pool: pool.clone(),
        };
        let thread = Some(thread::spawn(move || work.send(sender)));
        ThreadRun { facts, run, arrived, stop, thread }
    }

    fn receive_on_this_thread(&mut self, pool: &Pool, mut receiver: Box<dyn Port>) -> Result<Arrived, String> {
        let mut pool = pool.clone();
        let mut batch = Batch::new(&pool, 64);
        let mut next = 0u32;
        let mut ours = 0;
        let mut progress = Instant::now();
        while (next as usize) < THREAD_PACKETS {
            if receiver.receive(&mut batch).map_err(|error| format!("receive failed: {error}"))? == 0 {
                let sending_is_over = self.thread.as_ref().is_none_or(thread::JoinHandle::is_finished);
                if progress.elapsed() > self.facts.patience || (sending_is_over && progress.elapsed() > QUIET) {
                    break;
                }
                receiver.wait(Interest::Receive, 100_000).map_err(|error| error.to_string())?;
                continue;
            }
            progress = Instant::now();
            for packet in packets::joined(&batch, 0)? {
                match packets::sequence_of(self.run, &packet) {
                    None if self.facts.other_traffic => continue,
                    Some(sequence)
                        if sequence >= next && packet == packets::bytes(self.run, sequence, entry(sequence)) =>
                    {
                        next = sequence + 1;
                    }
                    found => {
                        return Err(format!(
                            "packet {next} or a later one was due, {found:?} came, or its bytes differ"
                        ));
                    }
                }
                ours += 1;
            }
            pool.free(&mut batch);
            self.arrived.store(ours, Ordering::Release);
        }
        let sent = self.join()?;
        let dropped = receiver.stats().map_err(|error| error.to_string())?.rx_dropped();
        Ok(Arrived { ours, dropped, sent, facts: self.facts.clone() })
    }

    fn join(&mut self) -> Result<Sent, String> {
        let thread = self.thread.take().ok_or("the sending thread was joined already")?;
        thread.join().map_err(|_| "the sending thread panicked")?
    }
}

impl Drop for ThreadRun {
    /// Ends the sending thread also when receiving failed.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Nothing came for so long after the sender had ended: nothing will.
const QUIET: Duration = Duration::from_secs(1);

struct Sending {
    run: u32,
    window: u64,
    patience: Duration,
    arrived: std::sync::Arc<AtomicU64>,
    stop: std::sync::Arc<AtomicBool>,
    pool: Pool,
}

fn entry(sequence: u32) -> Entry {
    Entry::plain(60 + sequence as usize % 64)
}

impl Sending {
    fn send(mut self, mut port: Box<dyn Port>) -> Result<Sent, String> {
        let mut batch = Batch::new(&self.pool, 32);
        let mut made = 0;
        let mut taken = Totals::default();
        let mut progress = (Instant::now(), 0);
        let mut written_off = 0;
        while (taken.packets as usize) < THREAD_PACKETS && !self.stop.load(Ordering::Acquire) {
            let arrived = self.arrived.load(Ordering::Acquire);
            let room = self.window.saturating_sub(taken.packets.saturating_sub(arrived + written_off));
            while batch.len() < 32.min(room as usize) && made < THREAD_PACKETS as u32 {
                if !packets::append(&mut batch, &mut self.pool, self.run, made, entry(made)) {
                    break;
                }
                made += 1;
            }
            let took = port.transmit(&mut batch).map_err(|error| format!("transmit failed: {error}"))? as u64;
            taken.packets += took;
            if took > 0 || arrived > progress.1 {
                progress = (Instant::now(), arrived);
            } else if progress.0.elapsed() > self.patience {
                written_off = taken.packets.saturating_sub(arrived);
                progress = (Instant::now(), arrived);
                if arrived == 0 {
                    return Err("nothing arrived".into());
                }
            } else {
                port.flush().map_err(|error| format!("flush failed: {error}"))?;
                port.wait(Interest::Transmit, 100_000).map_err(|error| error.to_string())?;
                thread::yield_now();
            }
        }
        let deadline = Instant::now() + self.patience;
        while port.flush().map_err(|error| format!("flush failed: {error}"))? > 0 && Instant::now() < deadline {
            thread::yield_now();
        }
        let stats = port.stats().map_err(|error| error.to_string())?;
        Ok(Sent { packets: stats.tx_packets, dropped: stats.tx_dropped() })
    }
}
