//! The receiver sink: checks the signature at each frame's end, counts by stream, and drops.
//!
//! Signed frames of a counted stream end here (`XDP_DROP`); all others are counted and go to the network
//! stack (`XDP_PASS`). Everything is counted in memory that this process reads without system calls:
//!
//! ```text
//! counters: [ global 64 B ][ first stream: 8 words + histogram ][ the one after it ] ...
//! seen:     [ first stream: one bit for each sequence number   ][ the one after it ] ...
//! ```
//! Which streams are counted can be changed while the program runs ([`CountRx::start`]).
//!
//! A sequence number seen before is a duplicate. A first arrival below the highest seen so far is
//! reordered: RFC 4737 section 3.3, `s < NextExp`. Latency is this kernel's CLOCK_MONOTONIC less the
//! signature's scheduled time, of first arrivals.

use crate::asm::{Assembler, Label};
use crate::error::BpfError;
use crate::insn::{Alu, Atomic, Cond, Insn, Reg, Reg::*, Width, action, helper, xdp_md};
use crate::map::{Map, MapView};
use crate::program::{Program, ProgramOptions};
use crate::programs::histogram::{self, BUCKETS, Histogram};
use crate::programs::signature::{MAGIC, SEQUENCE_BITS, SIGNATURE_BYTES, TIME_BITS};
use std::sync::atomic::Ordering;

/// The most streams that one program counts.
pub const STREAMS_MAX: u16 = 64;

/// The most bits that all streams together may take (verifier: offsets below 2^29).
pub const SEQUENCES_MAX: u64 = 1 << 31;

/// The longest frame without `frags`.
const LINEAR_BYTES_MAX: i32 = 0x3fff;

const UNSIGNED_PACKETS: i16 = 0;
const UNSIGNED_BYTES: i16 = 8;
const FOREIGN_PACKETS: i16 = 16;
/// Id of the first counted stream; this process writes it, the program reads it.
const FIRST_STREAM: i16 = 24;
const GLOBAL_BYTES: usize = 64;

const PACKETS: i16 = 0;
const BYTES: i16 = 8;
const DISTINCT: i16 = 16;
const DUPLICATES: i16 = 24;
const REORDERED: i16 = 32;
const NEXT_EXPECTED: i16 = 40;
const BEYOND: i16 = 48;
const FIRST_NS: i16 = 64;
const LAST_NS: i16 = 72;
const SILENCE_NS: i16 = 80;
const SILENCE_END_NS: i16 = 88;
const LOSS_ARRIVED_NS: i16 = 96;
const LOSS_SCHEDULED_NS: i16 = 104;
const LATENCY_SUM: i16 = 112;
const LATENCY_MAX: i16 = 120;
/// The least latency, all bits inverted, so that a word of zeroes is "none yet".
const LATENCY_MIN_INVERTED: i16 = 128;
const HISTOGRAM: i16 = 192;
/// Where the program keeps the time of arrival on its stack.
const NOW: i16 = -24;
const STREAM_BYTES: usize = HISTOGRAM as usize + 8 * BUCKETS;

/// What sink to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountRxSpec {
    /// So many streams with ids that follow each other are counted, from 0 on until [`CountRx::start`] says otherwise; 1 to
    /// [`STREAMS_MAX`].
    pub streams: u16,
    /// Sequence numbers of each stream below this are told apart; a power of two, at least 64. Together with the
    /// number of streams (rounded up to a power of two) at most [`SEQUENCES_MAX`].
    pub sequences: u64,
    /// Several receive queues run the program at the same time, so counting must be atomic. (Then two
    /// packets of one stream in two queues at once may be judged reordered either way.)
    pub several_queues: bool,
    /// Keep latency histograms and a timeline, which costs a clock reading for each packet. (With several queues, the sums, the
    /// extremes and the timeline can miss packets that were counted at the same moment.)
    pub latency: bool,
    /// Take frames in several buffers.
    pub frags: bool,
}

/// A loaded sink.
#[derive(Debug)]
pub struct CountRx {
    program: Program,
    spec: CountRxSpec,
    counters: MapView,
    seen: MapView,
    _maps: [Map; 2],
}

/// What was received of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// All packets.
    pub packets: u64,
    /// Their bytes without FCS.
    pub bytes: u64,
    /// Packets whose sequence number had not been seen.
    pub distinct: u64,
    /// Packets whose sequence number had been seen.
    pub duplicates: u64,
    /// Distinct packets that came after one with a higher sequence number.
    pub reordered: u64,
    /// One more than the highest sequence number seen.
    pub next_expected: u64,
    /// Packets with sequence numbers too high to be told apart; in no other count but the first two.
    pub beyond: u64,
}

/// When packets of a stream arrived, in ns of CLOCK_MONOTONIC; 0 = never. Of first arrivals only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// The first packet.
    pub first_ns: u64,
    /// The last packet.
    pub last_ns: u64,
    /// Longest time between two packets.
    pub silence_ns: u64,
    /// When that ended.
    pub silence_end_ns: u64,
    /// Arrival of the last packet that skipped a sequence number.
    pub loss_arrived_ns: u64,
    /// Scheduled time of that packet, modulo 2^48.
    pub loss_scheduled_ns: u64,
    /// Sum of all latencies.
    pub latency_sum_ns: u64,
    /// Least latency.
    pub latency_min_ns: u64,
    /// Greatest latency.
    pub latency_max_ns: u64,
}

/// What was received beside the streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OtherCounts {
    /// Frames without a signature.
    pub unsigned_packets: u64,
    /// Their bytes without FCS.
    pub unsigned_bytes: u64,
    /// Signed frames of streams that are not counted.
    pub foreign_packets: u64,
}

impl CountRx {
    /// Makes and loads the sink.
    ///
    /// # Errors
    /// [`BpfError::Argument`] for sizes that cannot be; else as [`Map::shared`] and
    /// [`Program::load_xdp`].
    pub fn load(spec: CountRxSpec) -> Result<CountRx, BpfError> {
        spec.check().map_err(BpfError::Argument)?;
        let counters = Map::shared("count_rx", (GLOBAL_BYTES + STREAM_BYTES * usize::from(spec.streams)) as u32)?;
        let seen = Map::shared("count_rx_seen", (u64::from(spec.streams) * spec.sequences / 8) as u32)?;
        let insns = Emitter { asm: Assembler::new(), spec, counters: &counters, seen: &seen }.program()?;
        let program = Program::load_xdp("linerate_rx", &insns, ProgramOptions { frags: spec.frags })?;
        let (counters_view, seen_view) = (counters.view()?, seen.view()?);
        Ok(CountRx { program, spec, counters: counters_view, seen: seen_view, _maps: [counters, seen] })
    }

    /// The program, to attach to the receiving interface.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The counts of `stream`; all zero if it is not counted.
    pub fn stream(&self, stream: u16) -> StreamCounts {
        let Some(base) = self.base(stream) else { return StreamCounts::default() };
        let word = |offset: i16| self.counters.load(base + offset as usize);
        StreamCounts {
            packets: word(PACKETS),
            bytes: word(BYTES),
            distinct: word(DISTINCT),
            duplicates: word(DUPLICATES),
            reordered: word(REORDERED),
            next_expected: word(NEXT_EXPECTED),
            beyond: word(BEYOND),
        }
    }

    /// All packets of `stream` so far, duplicates too: one load from memory.
    pub fn packets(&self, stream: u16) -> u64 {
        self.base(stream).map_or(0, |base| self.counters.load(base + PACKETS as usize))
    }

    /// Goes over the runs of sequence numbers of `stream` below `end` that have not arrived, in rising order: the first number of
    /// each, and how many. Numbers that are not told apart count as arrived.
    pub fn missing(&self, stream: u16, end: u64, each: &mut dyn FnMut(u64, u64)) {
        let Some(position) = self.position(stream) else { return };
        let end = end.min(self.spec.sequences);
        let first_word = (u64::from(position) * self.spec.sequences / 64) as usize;
        let words = self.seen.words().get(first_word..).unwrap_or_default();
        let mut run: Option<u64> = None;
        for (number, word) in words.iter().enumerate().take(end.div_ceil(64) as usize) {
            let (mut at, word_end) = (number as u64 * 64, end.min(number as u64 * 64 + 64));
            let seen = word.load(Ordering::Relaxed);
            while at < word_end {
                let rest = seen >> (at % 64);
                let is_seen = rest & 1 == 1;
                let same = if is_seen { rest.trailing_ones() } else { rest.trailing_zeros() };
                match (is_seen, run) {
                    (true, Some(first)) => {
                        each(first, at - first);
                        run = None;
                    }
                    (false, None) => run = Some(at),
                    _ => {}
                }
                at = at.saturating_add(u64::from(same)).min(word_end);
            }
        }
        if let Some(first) = run {
            each(first, end - first);
        }
    }

    /// The latencies of `stream` in ns; empty if it is not counted or latency is not kept.
    pub fn latency(&self, stream: u16) -> Histogram {
        let first = self.base(stream).map(|base| (base + HISTOGRAM as usize) / 8);
        let words = first.and_then(|first| self.counters.words().get(first..first + BUCKETS));
        Histogram::read(words.unwrap_or(&[]))
    }

    /// When packets of `stream` arrived; all zero if it is not counted or latency is not kept.
    pub fn timeline(&self, stream: u16) -> Timeline {
        let Some(base) = self.base(stream) else { return Timeline::default() };
        let word = |offset: i16| self.counters.load(base + offset as usize);
        let least = word(LATENCY_MIN_INVERTED);
        Timeline {
            first_ns: word(FIRST_NS),
            last_ns: word(LAST_NS),
            silence_ns: word(SILENCE_NS),
            silence_end_ns: word(SILENCE_END_NS),
            loss_arrived_ns: word(LOSS_ARRIVED_NS),
            loss_scheduled_ns: word(LOSS_SCHEDULED_NS) & ((1 << TIME_BITS) - 1),
            latency_sum_ns: word(LATENCY_SUM),
            latency_min_ns: if least == 0 { 0 } else { !least },
            latency_max_ns: word(LATENCY_MAX),
        }
    }

    /// What did not belong to a counted stream.
    pub fn others(&self) -> OtherCounts {
        let word = |offset: i16| self.counters.load(offset as usize);
        OtherCounts {
            unsigned_packets: word(UNSIGNED_PACKETS),
            unsigned_bytes: word(UNSIGNED_BYTES),
            foreign_packets: word(FOREIGN_PACKETS),
        }
    }

    /// Whether `sequence` of `stream` has arrived; none if it is not told apart.
    pub fn seen(&self, stream: u16, sequence: u64) -> Option<bool> {
        let position = self.position(stream).filter(|_| sequence < self.spec.sequences)?;
        let bit = u64::from(position) * self.spec.sequences + sequence;
        let word = self.seen.words().get((bit / 64) as usize)?.load(Ordering::Relaxed);
        Some(word >> (bit % 64) & 1 == 1)
    }

    /// Counts the streams from `first` on, modulo 2^16, and sets their counts to zero. Packets of other streams may arrive meanwhile:
    /// [`CountRx::others`] goes on and is not set back.
    pub fn start(&self, first: u16) {
        self.counters.store(FIRST_STREAM as usize, first.into());
        self.seen.clear();
        let streams = self.counters.words().iter().skip(GLOBAL_BYTES / 8);
        streams.for_each(|word| word.store(0, Ordering::Relaxed));
    }

    fn base(&self, stream: u16) -> Option<usize> {
        self.position(stream).map(|position| GLOBAL_BYTES + STREAM_BYTES * usize::from(position))
    }

    /// Of a counted stream among the counted ones.
    fn position(&self, stream: u16) -> Option<u16> {
        let first = self.counters.load(FIRST_STREAM as usize) as u16;
        Some(stream.wrapping_sub(first)).filter(|position| *position < self.spec.streams)
    }
}

impl CountRxSpec {
    fn check(&self) -> Result<(), String> {
        if self.streams == 0 || self.streams > STREAMS_MAX {
            return Err(format!("{} streams; 1 to {STREAMS_MAX} are possible", self.streams));
        }
        let bits = u64::from(self.streams.next_power_of_two()).checked_mul(self.sequences);
        if !self.sequences.is_power_of_two() || self.sequences < 64 || bits.is_none_or(|bits| bits > SEQUENCES_MAX) {
            let (sequences, streams) = (self.sequences, self.streams);
            return Err(format!(
                "{sequences} sequence numbers in {streams} streams; a power of two from 64 on, {SEQUENCES_MAX} in all"
            ));
        }
        Ok(())
    }
}

/// Generates the program.
///
/// ```text
/// R6 frame, then scheduled time   R7 length   R8 sequence   R9 the stream's counters
/// ```
struct Emitter<'a> {
    asm: Assembler,
    spec: CountRxSpec,
    counters: &'a Map,
    seen: &'a Map,
}

impl Emitter<'_> {
    fn program(mut self) -> Result<Vec<Insn>, BpfError> {
        let unsigned = self.asm.label();
        let foreign = self.asm.label();
        self.load_signature(unsigned);
        self.identify(unsigned, foreign);
        self.count_arrival();
        self.asm.mov64(R0, action::DROP);
        self.asm.exit();

        self.asm.bind(unsigned);
        self.asm.load_map_value(R9, self.counters, 0);
        self.increment(R1, UNSIGNED_PACKETS);
        self.add(UNSIGNED_BYTES, R7);
        self.asm.mov64(R0, action::PASS);
        self.asm.exit();

        self.asm.bind(foreign);
        self.asm.load_map_value(R9, self.counters, 0);
        self.increment(R1, FOREIGN_PACKETS);
        self.asm.mov64(R0, action::PASS);
        self.asm.exit();
        Ok(self.asm.assemble()?)
    }

    /// `R1, R2 = the two words at the frame's end` in this machine's byte order, `R7 = length`.
    fn load_signature(&mut self, unsigned: Label) {
        let asm = &mut self.asm;
        if self.spec.frags {
            asm.mov64(R6, R1);
            asm.call(helper::XDP_GET_BUFF_LEN);
            asm.mov64(R7, R0);
            asm.jump_if(Cond::Lt, R7, SIGNATURE_BYTES as i32, unsigned);
            asm.mov64(R1, R6);
            asm.mov64(R2, R7);
            asm.alu64(Alu::Sub, R2, SIGNATURE_BYTES as i32);
            asm.mov64(R3, R10);
            asm.alu64(Alu::Add, R3, -(SIGNATURE_BYTES as i32));
            asm.mov64(R4, SIGNATURE_BYTES as i32);
            asm.call(helper::XDP_LOAD_BYTES);
            asm.jump_if(Cond::Ne, R0, 0, unsigned);
            asm.load(Width::Dw, R1, R10, -16);
            asm.load(Width::Dw, R2, R10, -8);
        } else {
            asm.load(Width::W, R6, R1, xdp_md::DATA);
            asm.load(Width::W, R2, R1, xdp_md::DATA_END);
            asm.mov64(R7, R2);
            asm.alu64(Alu::Sub, R7, R6);
            asm.mov64(R3, R7);
            asm.alu64(Alu::Sub, R3, SIGNATURE_BYTES as i32);
            // A shorter frame has become a huge number.
            asm.jump_if(Cond::Gt, R3, LINEAR_BYTES_MAX, unsigned);
            asm.alu64(Alu::Add, R6, R3);
            asm.mov64(R4, R6);
            asm.alu64(Alu::Add, R4, SIGNATURE_BYTES as i32);
            asm.jump_if(Cond::Gt, R4, R2, unsigned);
            asm.load(Width::Dw, R1, R6, 0);
            asm.load(Width::Dw, R2, R6, 8);
        }
        asm.to_big_endian(R1, 64);
        asm.to_big_endian(R2, 64);
    }

    /// `R8 = sequence, R9 = the stream's counters, R3 = its position among the counted ones, R6 = time`.
    fn identify(&mut self, unsigned: Label, foreign: Label) {
        let asm = &mut self.asm;
        asm.mov64(R3, R1);
        asm.alu64(Alu::Rsh, R3, SEQUENCE_BITS as i32);
        asm.jump_if(Cond::Ne, R3, MAGIC as i32, unsigned);
        asm.load_imm64(R8, (1 << SEQUENCE_BITS) - 1);
        asm.alu64(Alu::And, R8, R1);
        asm.mov64(R3, R2);
        asm.alu64(Alu::Rsh, R3, TIME_BITS as i32);
        asm.load_map_value(R9, self.counters, 0);
        asm.load(Width::Dw, R1, R9, FIRST_STREAM);
        asm.alu64(Alu::Sub, R3, R1);
        asm.alu64(Alu::And, R3, i32::from(u16::MAX));
        asm.jump_if(Cond::Ge, R3, i32::from(self.spec.streams), foreign);
        asm.mov64(R6, R2);
        asm.mov64(R1, R3);
        asm.alu64(Alu::Mul, R1, STREAM_BYTES as i32);
        asm.alu64(Alu::Add, R1, GLOBAL_BYTES as i32);
        asm.alu64(Alu::Add, R9, R1);
    }

    fn count_arrival(&mut self) {
        let (beyond, duplicate, done) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.increment(R1, PACKETS);
        self.add(BYTES, R7);
        self.asm.load_imm64(R1, self.spec.sequences);
        self.asm.jump_if(Cond::Ge, R8, R1, beyond);
        self.mark_seen(duplicate);
        self.increment(R1, DISTINCT);
        if self.spec.latency {
            self.note_time();
        }
        self.judge_order();
        if self.spec.latency {
            self.count_latency();
        }
        self.asm.jump(done);
        self.asm.bind(beyond);
        self.increment(R1, BEYOND);
        self.asm.jump(done);
        self.asm.bind(duplicate);
        self.increment(R1, DUPLICATES);
        self.asm.bind(done);
    }

    /// Sets the bit of sequence `R8` of the stream at position `R3`; goes to `duplicate` if it was set.
    fn mark_seen(&mut self, duplicate: Label) {
        let stream_bytes_log2 = self.spec.sequences.trailing_zeros() as i32 - 3;
        let asm = &mut self.asm;
        asm.load_map_value(R4, self.seen, 0);
        asm.alu64(Alu::Lsh, R3, stream_bytes_log2);
        asm.alu64(Alu::Add, R4, R3);
        asm.mov64(R2, R8);
        asm.alu64(Alu::Rsh, R2, 6);
        asm.alu64(Alu::Lsh, R2, 3);
        asm.alu64(Alu::Add, R4, R2);
        asm.mov64(R2, R8);
        asm.alu64(Alu::And, R2, 63);
        asm.mov64(R1, 1);
        asm.alu64(Alu::Lsh, R1, R2);
        asm.mov64(R5, R1);
        if self.spec.several_queues {
            asm.atomic(Atomic::FetchOr, Width::Dw, R4, 0, R1);
            asm.jump_if(Cond::Set, R1, R5, duplicate);
        } else {
            asm.load(Width::Dw, R2, R4, 0);
            asm.jump_if(Cond::Set, R2, R5, duplicate);
            asm.alu64(Alu::Or, R2, R5);
            asm.store(Width::Dw, R4, 0, R2);
        }
    }

    /// Reordered if below the next expected one, which else becomes the one after this.
    fn judge_order(&mut self) {
        let (late, judged) = (self.asm.label(), self.asm.label());
        self.asm.load(Width::Dw, R1, R9, NEXT_EXPECTED);
        self.asm.jump_if(Cond::Lt, R8, R1, late);
        if self.spec.latency {
            let in_turn = self.asm.label();
            self.asm.jump_if(Cond::Eq, R8, R1, in_turn);
            self.asm.load(Width::Dw, R2, R10, NOW);
            self.asm.store(Width::Dw, R9, LOSS_ARRIVED_NS, R2);
            self.asm.store(Width::Dw, R9, LOSS_SCHEDULED_NS, R6);
            self.asm.bind(in_turn);
        }
        self.asm.alu64(Alu::Add, R8, 1);
        self.asm.store(Width::Dw, R9, NEXT_EXPECTED, R8);
        self.asm.jump(judged);
        self.asm.bind(late);
        self.increment(R1, REORDERED);
        self.asm.bind(judged);
    }

    /// `now - time` modulo 2^48; a time that lies ahead, by rounding, counts as 0.
    fn count_latency(&mut self) {
        let past = self.asm.label();
        self.asm.load(Width::Dw, R0, R10, NOW);
        self.asm.alu64(Alu::Sub, R0, R6);
        self.asm.alu64(Alu::Lsh, R0, 64 - TIME_BITS as i32);
        self.asm.jump_if(Cond::Sge, R0, 0, past);
        self.asm.mov64(R0, 0);
        self.asm.bind(past);
        self.asm.alu64(Alu::Rsh, R0, 64 - TIME_BITS as i32);
        self.asm.load(Width::Dw, R1, R9, LATENCY_SUM);
        self.asm.alu64(Alu::Add, R1, R0);
        self.asm.store(Width::Dw, R9, LATENCY_SUM, R1);
        self.raise(LATENCY_MAX, R0);
        self.asm.mov64(R2, -1);
        self.asm.alu64(Alu::Sub, R2, R0);
        self.raise(LATENCY_MIN_INVERTED, R2);
        histogram::emit_count(&mut self.asm, R0, R1, R9, HISTOGRAM, self.spec.several_queues);
    }

    /// Reads the clock, keeps it on the stack, and notes when the stream was last heard of.
    fn note_time(&mut self) {
        let (first, noted) = (self.asm.label(), self.asm.label());
        let asm = &mut self.asm;
        asm.ktime();
        asm.store(Width::Dw, R10, NOW, R0);
        asm.load(Width::Dw, R1, R9, LAST_NS);
        asm.store(Width::Dw, R9, LAST_NS, R0);
        asm.jump_if(Cond::Eq, R1, 0, first);
        asm.mov64(R2, R0);
        asm.alu64(Alu::Sub, R2, R1);
        asm.load(Width::Dw, R3, R9, SILENCE_NS);
        asm.jump_if(Cond::Le, R2, R3, noted);
        asm.store(Width::Dw, R9, SILENCE_NS, R2);
        asm.store(Width::Dw, R9, SILENCE_END_NS, R0);
        asm.jump(noted);
        asm.bind(first);
        asm.store(Width::Dw, R9, FIRST_NS, R0);
        asm.bind(noted);
    }

    /// Makes a word at least `value`; `R1` is lost.
    fn raise(&mut self, offset: i16, value: Reg) {
        let enough = self.asm.label();
        self.asm.load(Width::Dw, R1, R9, offset);
        self.asm.jump_if(Cond::Le, value, R1, enough);
        self.asm.store(Width::Dw, R9, offset, value);
        self.asm.bind(enough);
    }

    fn increment(&mut self, scratch: Reg, offset: i16) {
        histogram::emit_increment(&mut self.asm, scratch, R9, offset, self.spec.several_queues);
    }

    /// Adds `amount` to a counter; `R1` is lost.
    fn add(&mut self, offset: i16, amount: Reg) {
        if self.spec.several_queues {
            self.asm.atomic(Atomic::Add, Width::Dw, R9, offset, amount);
        } else {
            self.asm.load(Width::Dw, R1, R9, offset);
            self.asm.alu64(Alu::Add, R1, amount);
            self.asm.store(Width::Dw, R9, offset, R1);
        }
    }
}
