//! The port: packets through the copying program, streams through programs of their own, one account for both.

use linerate_bpf::programs::live_tx::{LiveTx, WAIT_MAX_NS, state};
use linerate_bpf::{BpfError, Map};
use linerate_mem::{Batch, Pool, Span};
use linerate_port::{
    Caps, Drops, GeneratorRun, GeneratorStream, Interest, Port, PortError, Readiness, Stats, TxGenerator,
    complete_checksums,
};
use linerate_sys::clock;

use crate::account::{DeviceCounters, Fate, LinkState};
use crate::copy::{Copier, LEN_MIN, SLOTS};
use crate::stream::Translated;

/// Live frames into one interface.
pub struct XdpLivePort {
    pool: Pool,
    caps: Caps,
    counters: DeviceCounters,
    /// Where frames go: a map with the interface at place 0.
    exit: Map,
    copier: Copier,
    stream: Option<LoadedStream>,
    batch_frames: u32,
    /// Length and slots of the batch of each packet that was copied to the copier's slots.
    shapes: Vec<(usize, usize)>,
    totals: Totals,
}

/// The stream that is being sent.
struct LoadedStream {
    program: LiveTx,
    packet_len: u64,
    tagged: bool,
    gap_ns_fixed: u64,
    started: bool,
}

/// What became of all packets.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    sent: u64,
    sent_bytes: u64,
    refused: u64,
    no_taker: u64,
    no_carrier: u64,
    down: u64,
    unwritten: u64,
}

/// Packets of one call when nothing paces them and a call starts at once: some 20 to 40 ms of work.
const PACKETS_PER_RUN: u64 = 1 << 18;

/// The same where each call costs some 20 ms of waiting beside its work.
const PACKETS_PER_SLOW_RUN: u64 = 1 << 23;

/// What a call that is paced should send, in time.
const PACED_RUN_NS: u64 = 50_000_000;

/// A packet that is due later than this is slept for; within it the program waits.
const SPIN_NS: u64 = 300_000;

impl XdpLivePort {
    pub(crate) fn new(
        pool: &Pool,
        caps: Caps,
        counters: DeviceCounters,
        exit: Map,
        copier: Copier,
        batch_frames: u32,
    ) -> XdpLivePort {
        let pool = pool.clone();
        let shapes = Vec::with_capacity(SLOTS);
        let totals = Totals::default();
        XdpLivePort { pool, caps, counters, exit, copier, stream: None, batch_frames, shapes, totals }
    }

    fn interface(&self) -> &str {
        self.counters.device().name()
    }

    fn down(&self) -> PortError {
        PortError::Down { port: self.caps.name.clone(), interface: self.interface().into() }
    }

    fn gone(&self) -> PortError {
        PortError::Gone { port: self.caps.name.clone(), what: format!("interface {} was deleted", self.interface()) }
    }

    fn unsupported(&self, what: impl Into<String>) -> PortError {
        PortError::Unsupported { port: self.caps.name.clone(), what: what.into() }
    }

    /// Nothing is made for an interface that cannot take it. Its MTU may be another than the last time.
    #[inline]
    fn check_link(&mut self) -> Result<(), PortError> {
        match self.counters.link_state() {
            LinkState::Down => return Err(self.down()),
            LinkState::Gone => return Err(self.gone()),
            LinkState::Running | LinkState::NoCarrier => {}
        }
        if let Ok(mtu) = self.counters.device().mtu() {
            self.caps.frame_len_max = crate::copy::frame_len_max(mtu as usize);
        }
        Ok(())
    }

    fn bpf_error(&self, operation: &'static str, error: BpfError) -> PortError {
        match error {
            BpfError::System { source, .. } => PortError::Io { port: self.caps.name.clone(), operation, source },
            other => self.unsupported(other.to_string()),
        }
    }

    /// Books `made` packets of `bytes` together, and returns how many were sent. Says what is wrong when nothing at all comes
    /// through; the packets are lost and counted all the same.
    #[inline]
    fn book(&mut self, made: u64, bytes: u64) -> Result<u64, PortError> {
        let fate = self.counters.settle(made);
        self.totals.sent += fate.sent;
        self.totals.sent_bytes += share(bytes, fate.sent, made);
        self.totals.refused += fate.refused;
        if fate.stranded > 0 {
            self.explain(fate)?;
        }
        Ok(fate.sent)
    }

    /// Why the kernel did not hand packets to the interface.
    #[cold]
    fn explain(&mut self, fate: Fate) -> Result<(), PortError> {
        match self.counters.link_state() {
            LinkState::Running => {
                self.totals.no_taker += fate.stranded;
                if fate.sent + fate.refused == 0 {
                    return Err(self.no_taker());
                }
            }
            LinkState::NoCarrier => self.totals.no_carrier += fate.stranded,
            LinkState::Down => {
                self.totals.down += fate.stranded;
                return Err(self.down());
            }
            LinkState::Gone => {
                self.totals.down += fate.stranded;
                return Err(self.gone());
            }
        }
        Ok(())
    }

    fn no_taker(&self) -> PortError {
        self.unsupported(format!(
            "{} takes no XDP frames: the other end of a veth must run NAPI (`ethtool -K PEER gro on`, or attach an XDP \
             program to it), and a driver must have ndo_xdp_xmit",
            self.interface()
        ))
    }
}

/// `bytes` of `made` packets, as far as they fall to `sent` of them. Exact when all or none were sent, or all are as long.
#[inline]
fn share(bytes: u64, sent: u64, made: u64) -> u64 {
    if made == 0 { 0 } else { (u128::from(bytes) * u128::from(sent) / u128::from(made)) as u64 }
}

#[inline]
fn is_tagged(start: &[u8]) -> bool {
    matches!(start.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]))
}

impl Port for XdpLivePort {
    #[inline]
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        Ok(0)
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        complete_checksums(batch);
        self.check_link()?;
        let mut packets = 0;
        while !batch.is_empty() {
            let filled = self.fill_slots(batch);
            let taken = self.send_slots(batch)?;
            packets += taken;
            filled?;
            if taken == 0 {
                break;
            }
        }
        Ok(packets as usize)
    }

    #[inline]
    fn wait(&mut self, interest: Interest, _timeout_ns: u64) -> Result<Readiness, PortError> {
        match interest {
            // Sending is over when `transmit` returns.
            Interest::Transmit => self.check_link().map(|()| Readiness::Ready),
            Interest::Receive => Ok(Readiness::Closed),
        }
    }

    fn link(&mut self) -> Result<linerate_port::LinkState, PortError> {
        match self.counters.link_state() {
            LinkState::Running => Ok(linerate_port::LinkState::Up),
            LinkState::NoCarrier | LinkState::Down => Ok(linerate_port::LinkState::Down),
            LinkState::Gone => Err(self.gone()),
        }
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        let totals = self.totals;
        let place = format!("xdp_xmit of {}", self.interface());
        let rows = [
            ("refused by the interface", totals.refused),
            ("no taker of XDP frames", totals.no_taker),
            ("no carrier", totals.no_carrier),
            ("interface down or gone", totals.down),
            ("not written into a frame", totals.unwritten),
        ];
        let rows = rows.into_iter().filter(|(_, packets)| *packets > 0);
        let tx_drops =
            rows.map(|(cause, packets)| Drops { place: place.clone(), cause: cause.into(), packets }).collect();
        Ok(Stats { tx_packets: totals.sent, tx_bytes: totals.sent_bytes, tx_drops, ..Stats::default() })
    }

    #[inline]
    fn tx_generator(&mut self) -> Option<&mut dyn TxGenerator> {
        Some(self)
    }
}

impl XdpLivePort {
    /// Copies packets until the slots are full, the batch is at its end, or a packet cannot be sent, which is the error.
    #[inline]
    fn fill_slots(&mut self, batch: &Batch) -> Result<(), PortError> {
        self.shapes.clear();
        let mut first = 0;
        while self.shapes.len() < SLOTS {
            let Some(Span { slots, len }) = batch.span(first) else { break };
            self.check_packet(batch.packet(first), len)?;
            self.copier.put(self.shapes.len(), batch.iter().skip(first).take(slots));
            self.shapes.push((len, slots));
            first += slots;
        }
        Ok(())
    }

    #[inline]
    fn check_packet(&self, start: &[u8], len: usize) -> Result<(), PortError> {
        self.check_len(is_tagged(start), len)?;
        if len < LEN_MIN {
            return Err(self.unsupported(format!("a packet of {len} bytes is no Ethernet frame")));
        }
        Ok(())
    }

    #[inline]
    fn check_len(&self, tagged: bool, len: usize) -> Result<(), PortError> {
        let max = self.caps.frame_len_max;
        // A tag comes on top of the MTU, but not on top of what a page holds.
        if len > max && !(tagged && len <= (max + 4).min(crate::copy::LEN_MAX)) {
            return Err(PortError::FrameTooLong { port: self.caps.name.clone(), len, max });
        }
        Ok(())
    }

    /// Sends what is in the slots, takes from the batch what the program took, and returns how many packets.
    #[inline]
    fn send_slots(&mut self, batch: &mut Batch) -> Result<u64, PortError> {
        if self.shapes.is_empty() {
            return Ok(0);
        }
        let (copied, result) = self.copier.run(self.shapes.len(), self.batch_frames);
        let taken = &self.shapes[..(copied.taken as usize).min(self.shapes.len())];
        let (bytes, slots) = taken.iter().fold((0, 0), |sum, shape| (sum.0 + shape.0, sum.1 + shape.1));
        let taken = taken.len() as u64;
        self.pool.free_front(batch, slots);
        self.totals.unwritten += copied.unwritten;
        self.book(taken - copied.unwritten.min(taken), bytes as u64)?;
        match result {
            Ok(()) => Ok(taken),
            // A signal came between two batches of frames.
            Err(error) if error.errno() == Some(libc::EINTR) => Ok(taken),
            Err(error) => Err(self.bpf_error("send live frames", error)),
        }
    }
}

impl TxGenerator for XdpLivePort {
    fn load(&mut self, stream: &GeneratorStream) -> Result<(), PortError> {
        self.check_packet(&stream.template, stream.template.len())?;
        let translated = Translated::of(stream).map_err(|what| self.unsupported(what))?;
        let program = LiveTx::load_to(&translated.spec(stream), &self.exit)
            .map_err(|error| self.bpf_error("load the stream's program", error))?;
        program.state().store(state::SEQUENCE, stream.first_sequence);
        let packet_len = stream.template.len() as u64;
        let (tagged, gap_ns_fixed) = (is_tagged(&stream.template), stream.gap_ns_fixed);
        self.stream = Some(LoadedStream { program, packet_len, tagged, gap_ns_fixed, started: false });
        Ok(())
    }

    #[inline]
    fn run(&mut self, packets: u64) -> Result<GeneratorRun, PortError> {
        self.check_link()?;
        let Some(stream) = &self.stream else { return Err(self.unsupported("no stream was loaded")) };
        self.check_len(stream.tagged, stream.packet_len as usize)?;
        let Some(stream) = &mut self.stream else { return Err(self.unsupported("no stream was loaded")) };
        let before = stream.program.sequence();
        let result = match stream.gap_ns_fixed {
            0 => stream.send(packets, self.batch_frames),
            _ => stream.send_on_time(packets),
        };
        let made = stream.program.sequence().wrapping_sub(before);
        let bytes = made * stream.packet_len;
        let sent = self.book(made, bytes)?;
        match result {
            // A signal ended the run; what was done until then is told.
            Err(error) if error.errno() == Some(libc::EINTR) => Ok(GeneratorRun { made, sent }),
            Err(error) => Err(self.bpf_error("send live frames", error)),
            Ok(()) => Ok(GeneratorRun { made, sent }),
        }
    }

    #[inline]
    fn packets_per_run(&self) -> u64 {
        match &self.stream {
            Some(stream) if stream.gap_ns_fixed > 0 => {
                ((u128::from(PACED_RUN_NS) << 32) / u128::from(stream.gap_ns_fixed)).clamp(1, 1 << 32) as u64
            }
            Some(stream) if !stream.program.starts_at_once() => PACKETS_PER_SLOW_RUN,
            _ => PACKETS_PER_RUN,
        }
    }
}

impl LoadedStream {
    /// As fast as it goes.
    #[inline]
    fn send(&mut self, packets: u64, batch_frames: u32) -> Result<(), BpfError> {
        let repeat = u32::try_from(packets).unwrap_or(u32::MAX);
        self.program.set_limit(self.program.sequence().saturating_add(repeat.into()));
        self.program.run(0, repeat, batch_frames)
    }

    /// Each packet when it is due: the program waits for those that are near, this thread sleeps until the others are.
    #[inline]
    fn send_on_time(&mut self, packets: u64) -> Result<(), BpfError> {
        if !self.started {
            self.program.set_schedule(clock::now_ns(), self.gap_ns_fixed);
            self.started = true;
        }
        let target = self.program.sequence().saturating_add(packets);
        self.program.set_limit(target);
        while self.program.sequence() < target {
            let next = self.program.sequence();
            let due_ns = self.program.due_ns(next);
            if due_ns > clock::now_ns() + SPIN_NS {
                clock::sleep_until_ns(due_ns - SPIN_NS / 2);
            }
            let now_ns = clock::now_ns();
            let near = self.near(next, target, now_ns);
            let span_ns = self.program.due_ns(next + near - 1).saturating_sub(now_ns);
            // A run in which nothing becomes due lasts as long as the program waits.
            let repeat = near + span_ns / WAIT_MAX_NS + 1;
            self.program.run(0, u32::try_from(repeat).unwrap_or(u32::MAX), 1)?;
        }
        Ok(())
    }

    /// Packets that are due before a sleep would be worth it: one, or as many as the gap allows.
    #[inline]
    fn near(&self, next: u64, target: u64, now_ns: u64) -> u64 {
        let gap_ns = self.gap_ns_fixed >> 32;
        if gap_ns > SPIN_NS {
            return 1;
        }
        let behind_ns = now_ns.saturating_sub(self.program.due_ns(next));
        let span = (u128::from(PACED_RUN_NS + behind_ns) << 32) / u128::from(self.gap_ns_fixed.max(1));
        u64::try_from(span).unwrap_or(u64::MAX).clamp(1, target - next)
    }
}
