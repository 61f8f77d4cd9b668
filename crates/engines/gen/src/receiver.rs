//! The receiving side: what arrived, by stream. Bytes in, counts out; time is an argument.

use linerate_measure::Histogram;
use linerate_mem::Batch;
use linerate_wire::EtherType;

use crate::sequence::{SequenceCounts, SequenceTracker, Start, WINDOW_DEFAULT, merged_counts};
use crate::signature::{SEQUENCE_MASK, Signature, TIME_MASK, read_words};

/// Most streams that are told apart. Packets of further ones are counted as other traffic, so memory stays bounded.
pub const STREAMS_MAX: usize = 1024;

/// A signature's time may lie this far behind the present, and [`FUTURE_MAX_NS`] before it; else it is taken for chance.
const AGE_MAX_NS: i64 = 3_600_000_000_000;
const FUTURE_MAX_NS: i64 = 1_000_000_000;

/// How to count.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverConfig {
    /// Where the numbers of a stream start.
    pub start: Start,
    /// Numbers back for which duplicates are told from late packets.
    pub window: u64,
    /// Streams to count: `None` = all, `Some((first, count))` = these ids, others are other traffic.
    pub streams: Option<(u16, u16)>,
    /// Arrival times are of the clock that the senders timestamp with. If not (a capture is read), there are no latencies, and a
    /// signature is believed without a look at its time.
    pub same_clock: bool,
}

impl Default for ReceiverConfig {
    fn default() -> ReceiverConfig {
        ReceiverConfig { start: Start::FirstSeen, window: WINDOW_DEFAULT, streams: None, same_clock: true }
    }
}

/// What arrived of one stream.
pub struct StreamReport {
    /// The stream's id.
    pub id: u16,
    /// All arrivals, duplicates among them.
    pub packets: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Scheduled time of sending to arrival, of first arrivals.
    pub latency: Histogram,
    /// Time of the first and of the last arrival, on the receiver's clock.
    pub first_ns: u64,
    /// See `first_ns`.
    pub last_ns: u64,
    tracker: SequenceTracker,
}

impl StreamReport {
    /// Loss, duplication and reordering so far.
    pub fn counts(&self) -> SequenceCounts {
        self.tracker.counts()
    }
}

/// One stream at all receivers among which its packets were divided.
pub struct MergedStream<'a> {
    /// The stream's id.
    pub id: u16,
    parts: Vec<&'a StreamReport>,
}

impl MergedStream<'_> {
    /// The streams of several receivers (threads, each with its queues), in the order of their first packets.
    pub fn of<'a>(receivers: &[&'a Receiver]) -> Vec<MergedStream<'a>> {
        let mut merged: Vec<MergedStream<'a>> = Vec::new();
        for stream in receivers.iter().flat_map(|receiver| receiver.streams()) {
            match merged.iter_mut().find(|merged| merged.id == stream.id) {
                Some(merged) => merged.parts.push(stream),
                None => merged.push(MergedStream { id: stream.id, parts: vec![stream] }),
            }
        }
        merged
    }

    /// All arrivals, duplicates among them.
    pub fn packets(&self) -> u64 {
        self.parts.iter().map(|part| part.packets).sum()
    }

    /// Their bytes, without FCS.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// Time of the first arrival, in nanoseconds of the receivers' clock.
    pub fn first_ns(&self) -> u64 {
        self.parts.iter().map(|part| part.first_ns).min().unwrap_or(0)
    }

    /// Time of the last arrival.
    pub fn last_ns(&self) -> u64 {
        self.parts.iter().map(|part| part.last_ns).max().unwrap_or(0)
    }

    /// Scheduled time of sending to arrival, of first arrivals.
    pub fn latency(&self) -> Histogram {
        let mut all = Histogram::default();
        self.parts.iter().for_each(|part| all.merge(&part.latency));
        all
    }

    /// Loss, duplication and reordering; `end` is the number behind the last one that the sender is known to have sent. Order is judged by each
    /// receiver for itself.
    pub fn counts(&self, end: Option<u64>) -> SequenceCounts {
        merged_counts(&self.parts.iter().map(|part| &part.tracker).collect::<Vec<_>>(), end)
    }
}

/// Counts the packets of one or more ports.
pub struct Receiver {
    config: ReceiverConfig,
    streams: Vec<StreamReport>,
    /// Index into `streams` of each id, or [`NONE`].
    index: Box<[u16]>,
    other_packets: u64,
    other_bytes: u64,
    other_streams: u64,
    not_ip: u64,
}

const NONE: u16 = u16::MAX;

impl Receiver {
    /// A receiver that has seen nothing.
    pub fn new(config: ReceiverConfig) -> Receiver {
        let index = vec![NONE; 1 << 16].into();
        Receiver { config, streams: Vec::new(), index, other_packets: 0, other_bytes: 0, other_streams: 0, not_ip: 0 }
    }

    /// Counts all packets of a batch that arrived by `now_ns`; the batch keeps them. Packets over several slots count by their
    /// last slot, where the signature is (a signature that two slots share is not found).
    ///
    /// Where the batch has timestamps, those are the times of arrival, on the same clock as `now_ns`.
    #[inline]
    pub fn record(&mut self, batch: &Batch, now_ns: u64) {
        batch.prefetch_tails();
        let mut run = Run::NONE;
        let (mut bytes_before, mut first): (usize, &[u8]) = (0, &[]);
        for part in batch.parts() {
            let len = bytes_before + part.bytes.len();
            if part.more {
                first = if bytes_before == 0 { part.bytes } else { first };
                bytes_before = len;
                continue;
            }
            let head = if bytes_before == 0 { part.bytes } else { first };
            bytes_before = 0;
            let arrival_ns = if part.time_ns == 0 { now_ns } else { part.time_ns };
            let words = read_words(part.bytes).unwrap_or_default();
            if run.goes_on(words, arrival_ns) {
                run.next += 1;
                run.bytes += len as u64;
            } else {
                self.settle(run);
                run = self.begin_run(words, (head, len), arrival_ns);
            }
        }
        self.settle(run);
    }

    /// Counts one packet of `len` bytes that ends in `tail`; of a packet that is whole in it, also whether it is IP.
    #[inline]
    pub fn record_packet(&mut self, tail: &[u8], len: usize, now_ns: u64) {
        self.begin_run(read_words(tail).unwrap_or_default(), (tail, len), now_ns);
    }

    /// Counts a packet and says what the next one is like, if it follows this one in every respect.
    #[inline]
    fn begin_run(&mut self, words: (u64, u64), (head, len): (&[u8], usize), now_ns: u64) -> Run {
        let Some(signature) = Signature::from_words(words) else { return self.record_unsigned(head, len) };
        let mut at = self.index[usize::from(signature.stream)];
        if at == NONE {
            at = self.open_stream(&signature, now_ns);
        }
        let Some(stream) = self.streams.get_mut(usize::from(at)) else {
            self.other_streams += 1;
            return self.record_other(len);
        };
        let age_ns = age_ns(now_ns, signature.time_ns);
        let scheduled_ns = if self.config.same_clock { now_ns.wrapping_add_signed(-age_ns) } else { signature.time_ns };
        if stream.packets == 0 {
            stream.first_ns = now_ns;
        }
        stream.packets += 1;
        stream.bytes += len as u64;
        stream.last_ns = now_ns;
        let sequence = unwrap_sequence(signature.sequence, stream.tracker.next_expected());
        if !stream.tracker.record(sequence, scheduled_ns) || !self.config.same_clock {
            return Run::NONE;
        }
        let age_ns = age_ns.max(0) as u64;
        stream.latency.record(age_ns);
        if stream.tracker.next_expected() != sequence + 1 {
            return Run::NONE;
        }
        let next = words.0 + 1;
        Run { start: next, next, second: words.1, arrival_ns: now_ns, stream: at, age_ns, bytes: 0 }
    }

    /// Counts the packets of a run after its first one.
    #[inline]
    fn settle(&mut self, run: Run) {
        let packets = run.next - run.start;
        if packets > 0
            && let Some(stream) = self.streams.get_mut(usize::from(run.stream))
        {
            stream.packets += packets;
            stream.bytes += run.bytes;
            stream.tracker.record_next(packets);
            stream.latency.record_many(run.age_ns, packets);
        }
    }

    /// The streams, in the order of their first packets.
    pub fn streams(&self) -> &[StreamReport] {
        &self.streams
    }

    /// Packets without a signature, or of streams that are not counted, and their bytes.
    pub fn other_traffic(&self) -> (u64, u64) {
        (self.other_packets, self.other_bytes)
    }

    /// Packets with a signature, of streams that are not counted.
    pub fn other_streams(&self) -> u64 {
        self.other_streams
    }

    /// Packets without a signature that are neither IPv4 nor IPv6: questions for addresses by ARP, for example.
    pub fn not_ip(&self) -> u64 {
        self.not_ip
    }

    /// All packets, signed or not, and their bytes.
    pub fn totals(&self) -> (u64, u64) {
        self.streams
            .iter()
            .fold(self.other_traffic(), |(packets, bytes), stream| (packets + stream.packets, bytes + stream.bytes))
    }

    #[cold]
    fn record_unsigned(&mut self, head: &[u8], len: usize) -> Run {
        let is_ip = |ethertype| matches!(ethertype, EtherType::IPV4 | EtherType::IPV6);
        self.not_ip += u64::from(ethertype(head).is_some_and(|found| !is_ip(found)));
        self.record_other(len)
    }

    #[inline]
    fn record_other(&mut self, len: usize) -> Run {
        self.other_packets += 1;
        self.other_bytes += len as u64;
        Run::NONE
    }

    #[cold]
    fn open_stream(&mut self, signature: &Signature, now_ns: u64) -> u16 {
        let wanted = match self.config.streams {
            None => true,
            Some((first, count)) => signature.stream.wrapping_sub(first) < count,
        };
        let plausible =
            !self.config.same_clock || (-FUTURE_MAX_NS..AGE_MAX_NS).contains(&age_ns(now_ns, signature.time_ns));
        if !wanted || !plausible || self.streams.len() == STREAMS_MAX {
            return NONE;
        }
        let at = self.streams.len() as u16;
        self.index[usize::from(signature.stream)] = at;
        self.streams.push(StreamReport {
            id: signature.stream,
            packets: 0,
            bytes: 0,
            latency: Histogram::default(),
            first_ns: 0,
            last_ns: 0,
            tracker: SequenceTracker::new(self.config.start, self.config.window),
        });
        at
    }
}

/// Packets of one stream that arrived together, in order and scheduled for one time: all but the first are counted at once.
#[derive(Clone, Copy)]
struct Run {
    /// First word of the signature of the packet after the first.
    start: u64,
    /// First word of the next packet's signature. (After the highest number it is no signature: numbers that wrap end a run.)
    next: u64,
    /// Second word of all of them.
    second: u64,
    arrival_ns: u64,
    /// Index of the stream.
    stream: u16,
    age_ns: u64,
    /// Bytes of the packets after the first.
    bytes: u64,
}

impl Run {
    /// A run that no packet continues: none arrives at the end of time.
    const NONE: Run = Run { start: 0, next: 0, second: 0, arrival_ns: u64::MAX, stream: 0, age_ns: 0, bytes: 0 };

    /// Is this the next packet?
    #[inline]
    fn goes_on(&self, words: (u64, u64), arrival_ns: u64) -> bool {
        words == (self.next, self.second) && arrival_ns == self.arrival_ns
    }
}

/// What an Ethernet frame carries, behind its VLAN tags; none of one that ends before that.
fn ethertype(frame: &[u8]) -> Option<EtherType> {
    let mut rest = frame.get(12..)?;
    loop {
        let (found, behind) = rest.split_first_chunk::<2>()?;
        let found = EtherType(u16::from_be_bytes(*found));
        if !matches!(found, EtherType::VLAN | EtherType::QINQ) {
            return Some(found);
        }
        rest = behind.get(2..)?;
    }
}

/// Time since the scheduled one, from its low 48 bits; negative when that lies ahead of `now_ns`.
#[inline]
fn age_ns(now_ns: u64, time_ns: u64) -> i64 {
    const UNUSED_BITS: u32 = TIME_MASK.leading_zeros();
    ((now_ns.wrapping_sub(time_ns) << UNUSED_BITS) as i64) >> UNUSED_BITS
}

/// The full number whose low 40 bits were sent: the one nearest to what is expected.
#[inline]
fn unwrap_sequence(low: u64, expected: u64) -> u64 {
    const HALF: u64 = 1 << 39;
    let ahead = low.wrapping_sub(expected) & SEQUENCE_MASK;
    if ahead < HALF || expected < SEQUENCE_MASK + 1 - ahead {
        expected.wrapping_add(ahead)
    } else {
        expected.wrapping_sub(SEQUENCE_MASK + 1 - ahead)
    }
}

#[cfg(test)]
mod tests {
    use linerate_mem::{Pool, PoolConfig};
    use proptest::prelude::*;

    use super::*;

    fn packet(stream: u16, sequence: u64, time_ns: u64) -> [u8; 60] {
        let mut packet = [0; 60];
        Signature { stream, sequence, time_ns }.write(&mut packet);
        packet
    }

    #[test]
    fn numbers_that_wrap_go_on() {
        for expected in [0, 5, SEQUENCE_MASK, SEQUENCE_MASK + 1, 3 << 40, (3 << 40) + 7] {
            for distance in [-5i64, -1, 0, 1, 1000] {
                let Some(full) = expected.checked_add_signed(distance) else { continue };
                assert_eq!(unwrap_sequence(full & SEQUENCE_MASK, expected), full, "{expected} {distance}");
            }
        }
    }

    #[test]
    fn counts_by_stream_and_keeps_other_packets_apart() {
        let mut receiver = Receiver::new(ReceiverConfig::default());
        for (number, arrival) in [(0, 1_000), (1, 1_500), (1, 1_600), (4, 3_000)] {
            receiver.record_packet(&packet(7, number, 900 + number), 60, arrival);
        }
        receiver.record_packet(&[0; 100], 100, 4_000);
        let stream = &receiver.streams()[0];
        assert_eq!((stream.id, stream.packets, stream.bytes), (7, 4, 240));
        assert_eq!((stream.first_ns, stream.last_ns), (1_000, 3_000));
        let counts = stream.counts();
        assert_eq!((counts.delivered, counts.lost, counts.duplicated), (3, 2, 1));
        assert_eq!((stream.latency.count(), stream.latency.max_ns()), (3, Some(2_096)));
        assert_eq!((receiver.other_traffic(), receiver.totals()), ((1, 100), (5, 340)));
    }

    #[test]
    fn of_packets_without_a_signature_those_that_are_not_ip_are_counted() {
        let mut pool = Pool::new(PoolConfig { frames: 16, frame_size: 1024 }).unwrap();
        let mut batch = Batch::new(&pool, 16);
        let frame = |behind_addresses: &[u8], len: usize| {
            let mut frame = vec![7; len];
            frame[12..12 + behind_addresses.len()].copy_from_slice(behind_addresses);
            frame
        };
        let arp = frame(&[0x08, 0x06], 60);
        let (tagged, twice) =
            (frame(&[0x81, 0, 0, 5, 0x08, 0x06], 60), frame(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 5, 0x86, 0xdd], 60));
        // The second one is of two slots, whose second one begins with other bytes.
        let long = frame(&[0x88, 0xcc], 1400);
        for bytes in [
            &arp,
            &long,
            &frame(&[0x08, 0], 1400),
            &frame(&[0x86, 0xdd], 60),
            &tagged,
            &twice,
            &packet(1, 0, 10).to_vec(),
        ] {
            assert!(pool.append(&mut batch, bytes, 0));
        }
        let mut receiver = Receiver::new(ReceiverConfig::default());
        receiver.record(&batch, 20);
        assert_eq!((receiver.not_ip(), receiver.other_traffic().0, receiver.totals().0), (3, 6, 7));
        receiver.record_packet(&[0; 9], 60, 20);
        assert_eq!(receiver.not_ip(), 3, "of a frame's end that is not known");
        pool.free(&mut batch);
    }

    proptest! {
        /// Runs of packets that are counted at once come out as if each had been counted by itself.
        #[test]
        fn a_batch_counts_as_its_packets_do(
            arrivals in proptest::collection::vec((0u16..3, 0u64..6, 0u64..3, 0u64..2), 1..200),
            timestamped in any::<bool>(),
        ) {
            let mut pool = Pool::new(PoolConfig { frames: 256, ..PoolConfig::default() }).unwrap();
            let mut batch = if timestamped { Batch::with_times(&pool, 256) } else { Batch::new(&pool, 256) };
            let (mut whole, mut single) = (Receiver::new(ReceiverConfig::default()), Receiver::new(ReceiverConfig::default()));
            let mut next = [0u64; 3];
            for (position, (stream, step, time, late)) in arrivals.into_iter().enumerate() {
                // Mostly the next number, at times a gap, one again, or one from before; stream 2 is no stream.
                let number = &mut next[usize::from(stream)];
                let sequence = if step == 5 { number.saturating_sub(3) } else { *number + step / 4 };
                *number = (*number).max(sequence + 1);
                let bytes = if stream == 2 { [7; 60] } else { packet(stream, sequence, 1_000 + time / 2) };
                pool.alloc(&mut batch, 1, bytes.len());
                batch.packet_mut(position).copy_from_slice(&bytes);
                batch.set_time_ns(position, 4_000 * late);
                single.record_packet(&bytes, 60, if timestamped && late > 0 { 4_000 } else { 5_000 });
            }
            whole.record(&batch, 5_000);
            prop_assert_eq!((whole.totals(), whole.other_traffic()), (single.totals(), single.other_traffic()));
            for (one, other) in whole.streams().iter().zip(single.streams()) {
                prop_assert_eq!((one.id, one.packets, one.counts()), (other.id, other.packets, other.counts()));
                prop_assert!(one.latency.buckets().eq(other.latency.buckets()));
                prop_assert_eq!((one.first_ns, one.last_ns), (other.first_ns, other.last_ns));
            }
            prop_assert_eq!(whole.streams().len(), single.streams().len());
        }
    }

    #[test]
    fn a_flood_of_streams_stays_bounded() {
        let mut receiver = Receiver::new(ReceiverConfig::default());
        (0..=u16::MAX).for_each(|stream| receiver.record_packet(&packet(stream, 0, 10), 60, 20));
        assert_eq!(receiver.streams().len(), STREAMS_MAX);
        assert_eq!(receiver.other_traffic().0, 65_536 - STREAMS_MAX as u64);
    }

    #[test]
    fn an_implausible_time_is_chance_not_a_stream() {
        let mut receiver = Receiver::new(ReceiverConfig::default());
        receiver.record_packet(&packet(1, 0, 1 << 47), 60, 1_000);
        assert_eq!((receiver.streams().len(), receiver.other_traffic().0), (0, 1));
    }

    #[test]
    fn a_capture_has_no_latencies_but_all_counts() {
        let mut receiver = Receiver::new(ReceiverConfig { same_clock: false, ..ReceiverConfig::default() });
        for number in [0, 1, 3, 3] {
            receiver.record_packet(&packet(1, number, (1 << 47) + number), 60, 1_000);
        }
        let stream = &receiver.streams()[0];
        let counts = stream.counts();
        assert_eq!((counts.delivered, counts.lost, counts.duplicated), (3, 1, 1));
        assert_eq!(stream.latency.count(), 0);
    }

    #[test]
    fn only_the_streams_asked_for_are_counted() {
        let config = ReceiverConfig { streams: Some((65_535, 2)), ..ReceiverConfig::default() };
        let mut receiver = Receiver::new(config);
        for stream in [65_534, 65_535, 0, 1] {
            receiver.record_packet(&packet(stream, 0, 10), 60, 20);
        }
        receiver.record_packet(&[0; 60], 60, 20);
        assert_eq!((receiver.streams().len(), receiver.other_traffic().0, receiver.other_streams()), (2, 3, 2));
    }
}
