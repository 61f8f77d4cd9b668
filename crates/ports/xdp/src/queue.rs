//! One socket on one queue of an interface, with its rings and the frames that it holds.

use std::io;
use std::sync::atomic::AtomicU64;

use linerate_mem::{Batch, Pool};
use linerate_port::Drops;

use crate::abi::RingKind;
use crate::fault::Fault;
use crate::loans::Loans;
use crate::placement::Placement;
use crate::receive::ReceiveSide;
use crate::rings::{ConsumerEnd, ProducerEnd};
use crate::sys::{DescriptorCell, XdpSocket};
use crate::transmit::{Limits, Refusal, TransmitSide};
use crate::umem::{self, ReleaseProbe};

/// What a queue is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueShape {
    pub(crate) ifindex: u32,
    pub(crate) queue: u32,
    /// Entries of the fill and receive ring, and how many frames to lend; no receiving at 0.
    pub(crate) receive_entries: u32,
    pub(crate) receive_share: u32,
    /// Entries of the transmit and completion ring; no sending at 0.
    pub(crate) transmit_entries: u32,
    /// Packets that one kick may send; the user's wish or else as many as the ring has.
    pub(crate) budget: Option<u32>,
    /// Packets that the socket's own context takes out of the device in one busy poll; `None`: the kernel's softirq does it all.
    pub(crate) busy_poll: Option<u32>,
    pub(crate) placement: Placement,
    /// `XDP_*` flags of bind(2).
    pub(crate) flags: u16,
    pub(crate) limits: Limits,
}

/// A step of opening a queue that failed.
#[derive(Debug)]
pub(crate) struct QueueError {
    pub(crate) step: Step,
    pub(crate) source: io::Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Socket,
    Register,
    Rings,
    Budget,
    BusyPoll,
    Bind,
}

impl Step {
    fn failed(self) -> impl Fn(io::Error) -> QueueError {
        move |source| QueueError { step: self, source }
    }
}

/// **The order of the fields is the order of their end**: the rings' mappings keep the socket alive, and frames may go back to
/// the pool only after the socket is closed.
pub(crate) struct Queue {
    pub(crate) receive: Option<ReceiveSide>,
    pub(crate) transmit: Option<TransmitSide>,
    pub(crate) socket: XdpSocket,
    pub(crate) loans: Loans,
    pub(crate) number: u32,
    pub(crate) zero_copy: bool,
    /// The socket's counters as last read; they can still be told when the interface is gone.
    counters: Counters,
}

/// The rings of a socket, as far as they are used.
struct Mapped {
    /// Fill and receive ring.
    receive: Option<(ProducerEnd<AtomicU64>, ConsumerEnd<DescriptorCell>)>,
    /// Transmit and completion ring.
    transmit: Option<(ProducerEnd<DescriptorCell>, ConsumerEnd<AtomicU64>)>,
}

impl Mapped {
    fn of(socket: &XdpSocket, shape: QueueShape) -> io::Result<Mapped> {
        let (mut receive, mut transmit) = (None, None);
        if shape.receive_entries > 0 {
            let fill = ProducerEnd::new(socket.map_ring(RingKind::Fill, shape.receive_entries)?);
            receive = Some((fill, ConsumerEnd::new(socket.map_ring(RingKind::Receive, shape.receive_entries)?)));
        }
        if shape.transmit_entries > 0 {
            let ring = ProducerEnd::new(socket.map_ring(RingKind::Transmit, shape.transmit_entries)?);
            transmit = Some((ring, ConsumerEnd::new(socket.map_ring(RingKind::Completion, shape.transmit_entries)?)));
        }
        Ok(Mapped { receive, transmit })
    }
}

/// The counters of `XDP_STATISTICS` that stand for packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    rx_dropped: u64,
    rx_ring_full: u64,
    rx_fill_ring_empty_descs: u64,
    tx_invalid_descs: u64,
}

impl Queue {
    /// Makes the socket, its rings, and binds it. Frames to receive into are lent already.
    pub(crate) fn open(pool: &Pool, shape: QueueShape) -> Result<Queue, QueueError> {
        let socket = XdpSocket::new().map_err(Step::Socket.failed())?;
        socket.register(pool.region(), shape.placement).map_err(Step::Register.failed())?;
        // The kernel wants fill and completion ring even where one of them stays empty.
        let rings = Step::Rings.failed();
        socket.create_ring(RingKind::Fill, shape.receive_entries.max(1)).map_err(&rings)?;
        socket.create_ring(RingKind::Completion, shape.transmit_entries.max(1)).map_err(&rings)?;
        if shape.receive_entries > 0 {
            socket.create_ring(RingKind::Receive, shape.receive_entries).map_err(&rings)?;
        }
        if shape.transmit_entries > 0 {
            socket.create_ring(RingKind::Transmit, shape.transmit_entries).map_err(&rings)?;
            set_budget(&socket, shape).map_err(Step::Budget.failed())?;
        }
        if let Some(budget) = shape.busy_poll {
            socket.prefer_busy_poll(budget).map_err(Step::BusyPoll.failed())?;
        }
        // Before the socket is bound: kernels before 6.4 let no ring be mapped afterwards (net/xdp/xsk.c: xsk_mmap).
        let mapped = Mapped::of(&socket, shape).map_err(&rings)?;
        umem::bind_patiently(&socket, shape.ifindex, shape.queue, shape.flags).map_err(Step::Bind.failed())?;
        Queue::take_rings(pool, socket, shape, mapped).map_err(rings)
    }

    fn take_rings(pool: &Pool, socket: XdpSocket, shape: QueueShape, mapped: Mapped) -> io::Result<Queue> {
        let zero_copy = socket.is_zero_copy()?;
        let mut loans = Loans::new(pool, shape.placement);
        if zero_copy {
            loans.release = Some(ReleaseProbe::new(shape.ifindex, shape.queue)?);
        }
        let mut receive = None;
        if let Some((fill, ring)) = mapped.receive {
            let side = receive.insert(ReceiveSide::new(fill, ring, shape.receive_share, zero_copy));
            side.busy_polls = shape.busy_poll.is_some();
            side.refill(&mut loans, &socket).map_err(|fault| io::Error::other(format!("{fault:?}")))?;
        }
        let transmit =
            mapped.transmit.map(|(ring, completion)| TransmitSide::new(ring, completion, zero_copy, shape.limits));
        let counters = Counters::default();
        Ok(Queue { receive, transmit, socket, loans, number: shape.queue, zero_copy, counters })
    }

    /// Appends packets that have arrived; 0 if this queue does not receive.
    #[inline]
    pub(crate) fn receive(&mut self, batch: &mut Batch) -> Result<usize, Fault> {
        match &mut self.receive {
            Some(side) => side.receive(&mut self.loans, &self.socket, batch),
            None => Ok(0),
        }
    }

    /// Sends packets from the front of the batch, and says why the next one cannot be sent if that is why it stopped.
    #[inline]
    pub(crate) fn transmit(&mut self, batch: &mut Batch) -> Result<(usize, Option<Refusal>), Fault> {
        let Some(side) = &mut self.transmit else { return Ok((0, None)) };
        side.reclaim(&mut self.loans)?;
        let outcome = side.submit(&mut self.loans, batch)?;
        side.kick(&mut self.loans, &self.socket)?;
        Ok(outcome)
    }

    /// Pushes on what is in the transmit ring and takes back what was sent; returns the packets still on their way.
    pub(crate) fn flush(&mut self) -> Result<u64, Fault> {
        let Some(side) = &mut self.transmit else { return Ok(0) };
        side.kick(&mut self.loans, &self.socket)?;
        side.reclaim(&mut self.loans)?;
        match self.pending() {
            0 => Ok(0),
            _ => {
                self.read_counters();
                Ok(self.pending())
            }
        }
    }

    /// Packets taken that neither came back nor were thrown away by the kernel as invalid.
    pub(crate) fn pending(&self) -> u64 {
        let totals = self.transmit.as_ref().map(|side| side.totals).unwrap_or_default();
        totals.taken.saturating_sub(totals.completed).saturating_sub(self.counters.tx_invalid_descs)
    }

    /// Asks the kernel whether the interface is there and up.
    pub(crate) fn check_interface(&self) -> Result<(), Fault> {
        match self.socket.kick_receive() {
            Ok(()) => Ok(()),
            Err(error) => match Fault::from_kick("look at the interface", error) {
                // A socket that does not receive, or a busy driver: either way the interface is up.
                Fault::Io { .. } => Ok(()),
                fault => Err(fault),
            },
        }
    }

    /// Reads the socket's counters; keeps the last ones when they cannot be read any more.
    pub(crate) fn read_counters(&mut self) {
        if let Ok(now) = self.socket.statistics() {
            self.counters = Counters {
                rx_dropped: now.rx_dropped,
                rx_ring_full: now.rx_ring_full,
                rx_fill_ring_empty_descs: now.rx_fill_ring_empty_descs,
                tx_invalid_descs: now.tx_invalid_descs,
            };
        }
    }

    /// The losses on the way in, by cause, from the counters as last read.
    ///
    /// `rx_dropped` and `rx_ring_full` exclude each other and count packets. `rx_fill_ring_empty_descs` counts attempts to
    /// take a frame: in copy mode each of those that fails is also one of `rx_dropped`, in zero-copy mode a driver that tries
    /// again counts again, so it only serves to tell the causes of `rx_dropped` apart.
    ///
    /// The same packets may stand in the interface's counters as well: on veth in native mode each is also one of
    /// `rx_queue_N_drops` and of the interface's `rx_dropped`, in generic mode in neither.
    pub(crate) fn receive_drops(&self, place: &str, frags: bool) -> Vec<Drops> {
        let counters = self.counters;
        let no_frame = if frags { u64::MAX } else { counters.rx_fill_ring_empty_descs }.min(counters.rx_dropped);
        let unfit = self.receive.as_ref().map_or(0, |side| side.totals.unfit);
        let rows = [
            ("no free frame in the fill ring", no_frame),
            ("longer than a frame", counters.rx_dropped - no_frame),
            ("receive ring full", counters.rx_ring_full),
            ("more slots than the batch", unfit),
        ];
        rows.into_iter()
            .filter(|(_, packets)| *packets > 0)
            .map(|(cause, packets)| drops(place, cause, packets))
            .collect()
    }

    /// The losses on the way out, by cause; `lost` are packets that can never be sent any more.
    /// What the driver refused also stands in the interface's `tx_dropped`.
    pub(crate) fn transmit_drops(&self, place: &str, lost: Option<(&str, u64)>) -> Vec<Drops> {
        let refused = self.transmit.as_ref().map_or(0, |side| side.totals.refused);
        let rows = [("refused by the driver", refused), ("invalid descriptor", self.counters.tx_invalid_descs)];
        let rows = rows.into_iter().chain(lost);
        rows.filter(|(_, packets)| *packets > 0).map(|(cause, packets)| drops(place, cause, packets)).collect()
    }
}

fn drops(place: &str, cause: &str, packets: u64) -> Drops {
    Drops { place: place.into(), cause: cause.into(), packets }
}

/// Bytes of skbs that may be on their way: enough for a full transmit ring of long packets.
const SEND_BUFFER_BYTES: libc::c_int = 16 << 20;

fn set_budget(socket: &XdpSocket, shape: QueueShape) -> io::Result<()> {
    // A smaller buffer only makes the kernel say "try again" earlier.
    let _ = socket.set_send_buffer(SEND_BUFFER_BYTES);
    match shape.budget {
        Some(packets) => socket.set_transmit_budget(packets),
        None => {
            // Kernels before 6.17 do not have the option and send 32 packets a call.
            let _ = socket.set_transmit_budget(shape.transmit_entries);
            Ok(())
        }
    }
}
