//! One link in use: builds packets, sends and receives them, and keeps an account of its own to hold the port's against.

use std::time::{Duration, Instant};

use linerate_mem::{Batch, Pool, Totals};
use linerate_port::{Interest, Port, PortError, Readiness, Stats, complete_checksums};

use crate::packets::{self, Entry};
use crate::{Facts, Harness, Link, Reopen};

/// Slots of the session's batches: room for the longest packet, in the smallest frames.
const BATCH: usize = 256;
/// Most frames that a packet of the suite is laid out in.
const SEGMENTS_MAX: usize = 64;
/// One nap while waiting for something.
const NAP_NS: u64 = 1_000_000;

/// A link on a pool of its own.
pub(crate) struct Session {
    pub pool: Pool,
    /// Frames of the pool: fewer than those of its region, where the region is somebody else's.
    frames: usize,
    pub facts: Facts,
    pub sender: Option<Box<dyn Port>>,
    pub receiver: Option<Box<dyn Port>>,
    /// Ports of other queues.
    beside: Vec<Box<dyn Port>>,
    pub account: Account,
    pub outgoing: Batch,
    incoming: Batch,
    reopen: Option<Reopen>,
    /// The sender's last totals, once it was dropped.
    sent: Option<Stats>,
}

impl Session {
    /// Opens a fresh link whose ring indices begin at `start`.
    pub fn open(harness: &mut dyn Harness, start: u32) -> Result<Session, String> {
        let pool = harness.make_pool()?;
        let frames = pool.available();
        let link = harness.open(&pool, start).map_err(|error| format!("cannot open a link: {error}"))?;
        let mut beside = Vec::new();
        let (sender, receiver, reopen) = match link {
            Link::Pair { sender, receiver } => (sender, Some(receiver), None),
            Link::Queues { mut senders, mut receivers, queue } if queue < senders.len().min(receivers.len()) => {
                let (sender, receiver) = (senders.remove(queue), receivers.remove(queue));
                beside.extend(senders.into_iter().chain(receivers));
                (sender, Some(receiver), None)
            }
            Link::Queues { senders, .. } => return Err(format!("a device has {} queues only", senders.len())),
            Link::Store { sender, reopen } => (sender, None, Some(reopen)),
            Link::Sender(sender) => (sender, None, None),
        };
        let facts = harness.facts();
        let account = Account::new(facts.other_traffic);
        let (outgoing, incoming) = (Batch::new(&pool, BATCH), Batch::new(&pool, BATCH));
        let sender = Some(sender);
        Ok(Session { pool, frames, facts, sender, receiver, beside, account, outgoing, incoming, reopen, sent: None })
    }

    /// The port that is transmitted on.
    pub fn sender(&mut self) -> Result<&mut Box<dyn Port>, String> {
        self.sender.as_mut().ok_or_else(|| "the sender has been dropped already".into())
    }

    /// The port that is received from.
    pub fn receiver(&mut self) -> Result<&mut Box<dyn Port>, String> {
        self.receiver.as_mut().ok_or_else(|| "there is no receiver (yet)".into())
    }

    /// True when what is sent can be read after the sender is gone.
    pub fn is_store(&self) -> bool {
        self.reopen.is_some()
    }

    /// True when nobody sees what is sent.
    pub fn is_blind(&self) -> bool {
        self.receiver.is_none() && self.reopen.is_none()
    }

    /// Longest packet that the path takes and that this pool can hold.
    pub fn len_max(&self) -> usize {
        let caps = self.sender.iter().chain(&self.receiver).map(|port| port.caps());
        caps.map(|caps| caps.frame_len_max.min(self.pool.packet_len_max() * caps.frags_max.min(SEGMENTS_MAX)))
            .min()
            .unwrap_or(0)
    }

    /// Most frames that one packet may be laid out in.
    pub fn frags_max(&self) -> usize {
        let caps = self.sender.iter().chain(&self.receiver).map(|port| port.caps());
        caps.map(|caps| caps.frags_max).min().unwrap_or(1).min(SEGMENTS_MAX)
    }

    /// Builds as many of the packets as there is room and frames for, behind what waits already; returns how many.
    pub fn queue(&mut self, entries: &[Entry]) -> usize {
        for (index, entry) in entries.iter().enumerate() {
            let sequence = self.account.plan.len() as u32;
            if !packets::append(&mut self.outgoing, &mut self.pool, self.account.run, sequence, *entry) {
                return index;
            }
            self.account.plan.push(*entry);
        }
        entries.len()
    }

    /// One call of `transmit`, whose effect on the batch is checked, whatever it returned.
    pub fn offer(&mut self) -> Result<Result<usize, PortError>, String> {
        let before = self.outgoing.totals();
        let Some(sender) = self.sender.as_mut() else { return Err("the sender has been dropped already".into()) };
        let result = sender.transmit(&mut self.outgoing);
        let after = self.outgoing.totals();
        let took = Totals {
            packets: before.packets.wrapping_sub(after.packets),
            bytes: before.bytes.wrapping_sub(after.bytes),
        };
        if let Ok(count) = result
            && count as u64 != took.packets
        {
            return Err(format!("transmit returned {count} but took {} packets from the batch", took.packets));
        }
        self.account.taken.packets += took.packets;
        self.account.taken.bytes += took.bytes;
        self.account.check_rest(&self.outgoing)?;
        Ok(result)
    }

    /// One call of `show`; what was sent is forgotten here then. Returns how many packets that were.
    pub fn show(&mut self) -> Result<usize, String> {
        let Some(sender) = self.sender.as_mut() else { return Err("the sender has been dropped already".into()) };
        let count = sender.transmit_ref(&self.outgoing, 0).map_err(|error| format!("show failed: {error}"))?;
        self.account.check_rest(&self.outgoing)?;
        let mut slots = 0;
        for _ in 0..count {
            let span = self.outgoing.span(slots).ok_or("show returned more packets than there are")?;
            slots += span.slots;
            self.account.taken.packets += 1;
            self.account.taken.bytes += span.len as u64;
        }
        self.pool.free_front(&mut self.outgoing, slots);
        Ok(count)
    }

    /// One call of `receive`; returns the number of packets of this run that came.
    pub fn collect(&mut self) -> Result<usize, String> {
        self.try_collect()?.map_err(|error| format!("receive failed: {error}"))
    }

    /// As [`Session::collect`], with the port's own error for a caller that expects one.
    pub fn try_collect(&mut self) -> Result<Result<usize, PortError>, String> {
        let Some(receiver) = self.receiver.as_mut() else { return Ok(Ok(0)) };
        let result = receiver.receive(&mut self.incoming);
        complete_checksums(&mut self.incoming);
        let arrived = packets::joined(&self.incoming, 0)?;
        self.pool.free(&mut self.incoming);
        if let Ok(count) = result
            && count != arrived.len()
        {
            return Err(format!("receive returned {count} but appended {} packets", arrived.len()));
        }
        let ours = self.account.note(&arrived)?;
        Ok(result.map(|_| ours))
    }

    /// One call of the receiver's counter for at most `most` packets; returns how many it counted. They must be the next ones.
    pub fn count(&mut self, most: u64, timeout_ns: u64) -> Result<u64, String> {
        let counter = self.receiver()?.rx_counter().ok_or("the port has no counter any more")?;
        let counted = counter.count(most, timeout_ns).map_err(|error| format!("count failed: {error}"))?;
        if counted.packets > most {
            return Err(format!("{} packets were counted where {most} were asked for", counted.packets));
        }
        self.account.note_counted(counted.packets, counted.bytes)?;
        Ok(counted.packets)
    }

    /// Sends all of the packets, at most `chunk` a call, receiving meanwhile so that no more than the window is under way.
    pub fn send_all(&mut self, entries: &[Entry], chunk: usize) -> Result<(), String> {
        let mut queued = 0;
        let mut progress = Instant::now();
        while queued < entries.len() || !self.outgoing.is_empty() {
            if self.outgoing.is_empty() {
                let step = chunk.min(self.window_left()).min(entries.len() - queued);
                queued += self.queue(&entries[queued..queued + step]);
            }
            let took = if self.outgoing.is_empty() {
                0
            } else {
                self.offer()?.map_err(|error| format!("transmit failed: {error}"))?
            };
            if took + self.collect()? > 0 {
                progress = Instant::now();
            } else if progress.elapsed() < self.facts.patience {
                self.rest()?;
            } else {
                self.give_up_on_what_is_under_way()?;
                progress = Instant::now();
            }
        }
        Ok(())
    }

    /// Sends all of the packets without receiving any; for fewer than the window.
    pub fn push(&mut self, entries: &[Entry]) -> Result<(), String> {
        if self.queue(entries) != entries.len() {
            return Err("the pool has too few frames for this check".into());
        }
        let deadline = Instant::now() + self.facts.patience;
        while !self.outgoing.is_empty() {
            self.offer()?.map_err(|error| format!("transmit failed: {error}"))?;
            if Instant::now() > deadline {
                return Err(format!("an idle port did not take {} packets", entries.len()));
            }
        }
        // Some ports cannot complete before the other side has received; those are left with what is pending.
        for _ in 0..100 {
            let sender = self.sender()?;
            if sender.flush().map_err(|error| format!("flush failed: {error}"))? == 0 {
                break;
            }
            std::thread::sleep(Duration::from_nanos(NAP_NS));
        }
        Ok(())
    }

    /// Gives back the packets that wait in the batch, as if they had never been built.
    pub fn forget_queued(&mut self) {
        self.pool.free(&mut self.outgoing);
        self.account.plan.truncate(self.account.taken.packets as usize);
    }

    /// Flushes the sender, checks its totals; a store is then opened for reading, which its sender does not live to see.
    pub fn finish_sending(&mut self) -> Result<Stats, String> {
        if let Some(sent) = &self.sent {
            return Ok(sent.clone());
        }
        self.flush()?;
        let sent = self.check_sender()?;
        if let Some(mut reopen) = self.reopen.take() {
            self.sender = None;
            self.sent = Some(sent.clone());
            self.receiver = Some(reopen(&self.pool).map_err(|error| format!("cannot open for reading: {error}"))?);
        }
        Ok(sent)
    }

    /// Flushes, receives what is under way, and holds the counters against the account.
    pub fn settle(&mut self, harness: &mut dyn Harness) -> Result<(), String> {
        let sent = self.finish_sending()?;
        if self.receiver.is_none() {
            return Ok(());
        }
        self.collect_all(sent.tx_packets)?;
        let received = self.check_receiver()?;
        self.check_sum(&sent, &received, harness.lost_on_path())
    }

    /// Drops the ports and the batches; every frame must be free then.
    pub fn close(self) -> Result<(), String> {
        let Session { mut pool, frames: all, sender, receiver, beside, outgoing, incoming, reopen, .. } = self;
        drop((sender, receiver, beside, outgoing, incoming, reopen));
        pool.flush();
        let free = pool.available();
        if free == all {
            return Ok(());
        }
        Err(format!("{} of {all} frames did not come back to the pool", all as i64 - free as i64))
    }

    /// Settles and closes.
    pub fn finish(mut self, harness: &mut dyn Harness) -> Result<Account, String> {
        self.settle(harness)?;
        let account = std::mem::replace(&mut self.account, Account::new(false));
        self.close()?;
        Ok(account)
    }

    /// Calls `flush` until nothing is pending.
    pub fn flush(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + self.facts.patience;
        loop {
            let pending = self.sender()?.flush().map_err(|error| format!("flush failed: {error}"))?;
            if pending == 0 {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("flush still says that {pending} packets are pending"));
            }
            self.rest()?;
            self.collect()?;
        }
    }

    /// Receives until `sent` packets have arrived, or nothing came for as long as patience lasts.
    ///
    /// An interface may go with the sender that made it (a TAP device): `Gone` ends this once the sender was dropped.
    pub fn collect_all(&mut self, sent: u64) -> Result<(), String> {
        let mut progress = Instant::now();
        while self.account.arrived < sent {
            match self.collect_if_there()? {
                None => return Ok(()),
                Some(0) => {}
                Some(_) => {
                    progress = Instant::now();
                    continue;
                }
            }
            if progress.elapsed() > self.facts.patience || self.drops_explain(sent)? {
                break;
            }
            match self.receiver()?.wait(Interest::Receive, NAP_NS) {
                Ok(Readiness::Closed) if self.collect_if_there()?.is_none_or(|count| count == 0) => break,
                Ok(_) => {}
                // The next collect takes what came before that, or says so too.
                Err(PortError::Gone { .. }) if self.sender.is_none() => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        // One more look: what comes now is one too many.
        self.collect_if_there().map(|_| ())
    }

    /// As [`Session::collect`]; `None` when the interface went with the sender.
    fn collect_if_there(&mut self) -> Result<Option<usize>, String> {
        match self.try_collect()? {
            Err(PortError::Gone { .. }) if self.sender.is_none() => Ok(None),
            result => result.map(Some).map_err(|error| format!("receive failed: {error}")),
        }
    }

    fn drops_explain(&mut self, sent: u64) -> Result<bool, String> {
        let arrived = self.account.arrived;
        let stats = self.receiver()?.stats().map_err(|error| format!("stats failed: {error}"))?;
        Ok(stats.rx_dropped() > 0 && arrived + stats.rx_dropped() >= sent)
    }

    fn window_left(&self) -> usize {
        match &self.receiver {
            Some(_) => self.facts.window.saturating_sub(self.account.under_way() as usize),
            None => usize::MAX,
        }
    }

    /// Lets the other side of the path work.
    fn rest(&mut self) -> Result<(), String> {
        let failed = |error: PortError| format!("while waiting: {error}");
        if let Some(sender) = self.sender.as_mut() {
            sender.flush().map_err(failed)?;
        }
        match (self.receiver.as_mut(), self.sender.as_mut()) {
            (Some(receiver), _) => receiver.wait(Interest::Receive, NAP_NS).map_err(failed)?,
            (None, Some(sender)) => sender.wait(Interest::Transmit, NAP_NS).map_err(failed)?,
            (None, None) => Readiness::TimedOut,
        };
        std::thread::sleep(Duration::from_micros(20));
        Ok(())
    }

    fn give_up_on_what_is_under_way(&mut self) -> Result<(), String> {
        let under_way = self.account.under_way();
        let waited = self.facts.patience;
        if self.receiver.is_none() || under_way == 0 {
            let (held, free) = (self.outgoing.len(), self.pool.available());
            return Err(format!(
                "transmit took nothing for {waited:?} ({held} slots in the batch, {free} frames free)"
            ));
        }
        if self.account.arrived == 0 {
            return Err(format!("{under_way} packets were taken and none arrived within {waited:?}"));
        }
        self.account.written_off += under_way;
        Ok(())
    }

    /// taken = sent + dropped, to the packet; bytes too when none was dropped.
    pub fn check_sender(&mut self) -> Result<Stats, String> {
        let taken = self.account.taken;
        let stats = self.sender()?.stats().map_err(|error| format!("stats failed: {error}"))?;
        if taken.packets != stats.tx_packets + stats.tx_dropped() {
            return Err(format!(
                "transmit took {} packets, but tx_packets {} + tx_drops {} = {}",
                taken.packets,
                stats.tx_packets,
                stats.tx_dropped(),
                stats.tx_packets + stats.tx_dropped()
            ));
        }
        if stats.tx_dropped() == 0 && taken.bytes != stats.tx_bytes {
            return Err(format!("transmit took {} bytes, but tx_bytes is {}", taken.bytes, stats.tx_bytes));
        }
        check_drops_are_named(&stats)?;
        Ok(stats)
    }

    /// The receiver counts what it returned, neither more nor less.
    pub fn check_receiver(&mut self) -> Result<Stats, String> {
        let returned = self.account.returned;
        let stats = self.receiver()?.stats().map_err(|error| format!("stats failed: {error}"))?;
        if (stats.rx_packets, stats.rx_bytes) != (returned.packets, returned.bytes) {
            return Err(format!(
                "receive returned {} packets of {} bytes, but rx_packets is {} and rx_bytes {}",
                returned.packets, returned.bytes, stats.rx_packets, stats.rx_bytes
            ));
        }
        check_drops_are_named(&stats)?;
        Ok(stats)
    }

    fn check_sum(&self, sent: &Stats, received: &Stats, lost_on_path: u64) -> Result<(), String> {
        let arrived = self.account.arrived;
        let explained = received.rx_dropped() + lost_on_path;
        let missing = sent.tx_packets as i64 - arrived as i64;
        let exact = missing == explained as i64;
        let possible = (0..=explained as i64).contains(&missing);
        // Drop counters do not tell other traffic from ours.
        if if self.facts.other_traffic { !possible } else { !exact } {
            return Err(format!(
                "{} packets were sent and {arrived} arrived, but {explained} drops are reported",
                sent.tx_packets
            ));
        }
        if self.facts.lossless && missing != 0 {
            return Err(format!("{missing} packets were lost on a path that is said to lose none"));
        }
        if arrived == 0 && sent.tx_packets > 0 {
            return Err("no packet arrived".into());
        }
        Ok(())
    }
}

fn check_drops_are_named(stats: &Stats) -> Result<(), String> {
    for drops in stats.rx_drops.iter().chain(&stats.tx_drops) {
        if drops.place.is_empty() || drops.cause.is_empty() {
            return Err(format!("{} lost packets have no place or no cause: {drops:?}", drops.packets));
        }
    }
    Ok(())
}

/// What the session saw with its own eyes.
pub(crate) struct Account {
    /// Which run the packets are of.
    pub run: u32,
    /// What was built, by sequence number.
    pub plan: Vec<Entry>,
    /// What `transmit` took.
    pub taken: Totals,
    /// What `receive` returned, other traffic included.
    pub returned: Totals,
    /// Packets of this run that `receive` returned.
    pub arrived: u64,
    written_off: u64,
    next: u32,
    other_traffic: bool,
}

impl Account {
    pub fn new(other_traffic: bool) -> Account {
        Account {
            run: packets::new_run(),
            plan: Vec::new(),
            taken: Totals::default(),
            returned: Totals::default(),
            arrived: 0,
            written_off: 0,
            next: 0,
            other_traffic,
        }
    }

    fn under_way(&self) -> u64 {
        self.taken.packets.saturating_sub(self.arrived + self.written_off)
    }

    /// What is left in the batch must begin with the first packet that was not taken, and be in order.
    fn check_rest(&self, outgoing: &Batch) -> Result<(), String> {
        let rest = packets::joined(outgoing, 0).map_err(|error| format!("transmit: {error}"))?;
        for (sequence, packet) in (self.taken.packets as u32..).zip(&rest) {
            // A port may have completed the checksum of a packet that it could not take yet.
            let is_wanted = self.plan.get(sequence as usize).is_some_and(|entry| {
                *packet == packets::bytes_sent(self.run, sequence, *entry)
                    || *packet == packets::bytes(self.run, sequence, *entry)
            });
            if !is_wanted {
                let found = packets::sequence_of(self.run, packet);
                return Err(format!(
                    "after transmit the batch should go on with packet {sequence}, but there is {found:?}"
                ));
            }
        }
        Ok(())
    }

    /// Takes note of packets that arrived; returns how many are of this run.
    pub fn note(&mut self, arrived: &[Vec<u8>]) -> Result<usize, String> {
        let before = self.arrived;
        for packet in arrived {
            self.returned.packets += 1;
            self.returned.bytes += packet.len() as u64;
            match packets::sequence_of(self.run, packet) {
                Some(sequence) => self.note_ours(sequence, packet)?,
                None if self.other_traffic => {}
                None => {
                    return Err(format!(
                        "a packet arrived that was not sent: {:02x?}",
                        &packet[..packet.len().min(32)]
                    ));
                }
            }
        }
        Ok((self.arrived - before) as usize)
    }

    /// Takes note of the next packets of this run, which were counted and not seen.
    fn note_counted(&mut self, packets: u64, bytes: u64) -> Result<(), String> {
        let from = self.next as usize;
        let entries = self.plan.get(from..from + packets as usize).ok_or("more packets were counted than were made")?;
        let wanted: u64 = (self.next..)
            .zip(entries)
            .map(|(sequence, entry)| packets::bytes(self.run, sequence, *entry).len() as u64)
            .sum();
        if bytes != wanted {
            return Err(format!("{packets} packets from {from} on have {wanted} bytes, and {bytes} were counted"));
        }
        self.next += packets as u32;
        self.arrived += packets;
        self.returned.packets += packets;
        self.returned.bytes += bytes;
        Ok(())
    }

    fn note_ours(&mut self, sequence: u32, packet: &[u8]) -> Result<(), String> {
        let Some(entry) = self.plan.get(sequence as usize) else {
            return Err(format!("packet {sequence} arrived, which was never made"));
        };
        if sequence < self.next {
            return Err(format!("packet {sequence} arrived twice or late, after packet {}", self.next - 1));
        }
        let wanted = packets::bytes(self.run, sequence, *entry);
        if wanted.len() != packet.len() {
            return Err(format!(
                "packet {sequence} was sent with {} bytes and arrived with {}",
                wanted.len(),
                packet.len()
            ));
        }
        if let Some(at) = (0..wanted.len()).find(|at| wanted[*at] != packet[*at]) {
            let (sent, got) = (wanted[at], packet[at]);
            return Err(format!("packet {sequence}: byte {at} was sent as {sent:02x} and arrived as {got:02x}"));
        }
        self.next = sequence + 1;
        self.arrived += 1;
        Ok(())
    }
}
