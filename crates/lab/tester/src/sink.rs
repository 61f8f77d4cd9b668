//! The counting XDP program on the receiver's interface: it checks each frame's signature, marks its number in a bitmap and
//! drops the frame, in the soft interrupt that brought it. No receiving thread takes part, so none can be late.
//!
//! There are two of it: one only counts, the other also reads the clock for each packet (latency, timeline), which costs some tens
//! of nanoseconds. A trial puts the one that it needs in the other's place; the interface keeps its rings and threads.

use linerate_bpf::programs::count_rx::{CountRx, CountRxSpec, OtherCounts};
use linerate_bpf::{AttachMode, BpfError, XdpLink};

use super::endpoint::Arrivals;
use crate::Delays;
use linerate_ledger::turns::Arrived;
use linerate_tester_loop::timeline::{LossSeen, Timeline};

/// The programs, and their hold on the interface: gone when dropped, or with the process.
pub struct Sink {
    counting: CountRx,
    timing: CountRx,
    link: XdpLink,
    interface: String,
    timed: bool,
    /// The trial's stream.
    stream: u16,
    /// What did not belong to it when the trial began.
    before: OtherCounts,
}

impl Sink {
    /// Attaches it to an interface of this thread's network namespace. `sequences` numbers of a trial are told apart.
    pub(super) fn attach(interface: &str, index: u32, sequences: u64) -> Result<Sink, BpfError> {
        let sequences = sequences.clamp(64, 1 << 30).next_power_of_two();
        let spec = CountRxSpec { streams: 1, sequences, several_queues: false, latency: false, frags: false };
        let counting = CountRx::load(spec)?;
        let timing = CountRx::load(CountRxSpec { latency: true, ..spec })?;
        let link = XdpLink::attach(counting.program(), index, AttachMode::Any)?;
        let (interface, before) = (interface.to_owned(), OtherCounts::default());
        Ok(Sink { counting, timing, link, interface, timed: false, stream: 0, before })
    }

    pub(super) fn describe(&self) -> String {
        format!("XDP program on {} that checks, counts and drops", self.interface)
    }

    /// Counts the packets of `stream` from now on, from 0, by the program that is needed.
    pub(super) fn begin(&mut self, stream: u16, timed: bool) -> Result<(), BpfError> {
        if timed != self.timed {
            self.link.replace(if timed { self.timing.program() } else { self.counting.program() })?;
            self.timed = timed;
        }
        self.stream = stream;
        self.program().start(stream);
        self.before = self.program().others();
        Ok(())
    }

    /// What was counted since the trial began.
    pub(super) fn arrivals(&self) -> Arrivals {
        let program = self.program();
        let stream = program.stream(self.stream);
        let others = program.others();
        let times = program.timeline(self.stream);
        let other_streams = others.foreign_packets.saturating_sub(self.before.foreign_packets);
        let unsigned = others.unsigned_packets.saturating_sub(self.before.unsigned_packets);
        let timeline = || Timeline {
            first_ns: times.first_ns,
            last_ns: times.last_ns,
            silence_ns: times.silence_ns,
            silence_end_ns: times.silence_end_ns,
            last_loss: (times.loss_arrived_ns > 0)
                .then(|| LossSeen::new(times.loss_arrived_ns, times.loss_scheduled_ns)),
            numbers_end: stream.next_expected,
        };
        Arrivals {
            // Duplicates among the packets beyond cannot be told.
            delivered: stream.distinct + stream.beyond,
            beyond: stream.beyond,
            duplicated: stream.duplicates,
            reordered: stream.reordered,
            received: stream.packets + unsigned + other_streams,
            other_streams,
            not_ip: 0,
            while_reading: 0,
            delays: self.timed.then(|| Delays::of_program(&program.latency(self.stream), &times)),
            timeline: self.timed.then(timeline),
            drops: Vec::new(),
            error: None,
        }
    }

    /// Goes over the runs of numbers below `end` that did not arrive since the last start, in rising order: the first one of each,
    /// and how many. Numbers that are too high to be told apart count as arrived.
    pub(super) fn missing(&self, end: u64, each: &mut dyn FnMut(u64, u64)) {
        self.program().missing(self.stream, end, each);
    }

    fn program(&self) -> &CountRx {
        if self.timed { &self.timing } else { &self.counting }
    }
}

impl Arrived for Sink {
    fn arrived(&self) -> u64 {
        self.program().packets(self.stream)
    }
}
