//! A ring whose packets are looked at where they lie: for captures, which copy each packet once, to where it is written.

use std::io;
use std::os::fd::AsFd;

use linerate_filter::Program;
use linerate_port::{OpenError, PortError, PortSpec};
use linerate_sys::clock;
use linerate_sys::poll::{PollFor, poll};

use crate::device::Device;
use crate::open::{NOTHING, failed, no_socket, share_by};
use crate::options::Options;
use crate::receive::TIMER_TICK_NS;
use crate::ring::{BlockRing, PacketInRing, corrupt};
use crate::sys::Socket;

/// Longest sleep of a reader that keeps up, without a look at the ring: at 25 ms a ring of 64 MiB still takes a burst of 20 Gbit/s
/// that starts with it, and waking 40 times a second costs next to nothing.
const PAUSE_NS_MAX: u64 = 25_000_000;

/// How to capture on an interface.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// Bytes of the ring.
    pub ring_bytes: u64,
    /// The kernel hands over a block that is not full after this many milliseconds.
    pub retire_ms: u32,
    /// Take packets for other hardware addresses, too.
    pub promiscuous: bool,
    /// Capture what this host sends, too.
    pub outgoing: bool,
    /// Give packets the NIC's timestamps where it made some ([`RingPacket::timestamped_by_hardware`]), which it does when it is told to.
    pub hardware_timestamps: bool,
    /// Which packets, and how many bytes of each; the kernel runs it before it copies.
    pub filter: Program,
}

/// How several rings share an interface's packets (packet(7), PACKET_FANOUT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// By flow: the kernel takes each packet apart for a hash that is the same for both directions of a flow.
    Flows,
    /// By the receive queue that the driver noted, in turn: no work beyond that, and a ring is filled by one core only. A driver
    /// that notes none (veth) leaves all packets to one ring.
    Queues,
}

/// Counts of a ring since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounters {
    /// Packets that passed the filter, those among them that found the ring full.
    pub offered: u64,
    /// Packets that found the ring full.
    pub dropped: u64,
    /// Times that the ring was full.
    pub freezes: u64,
}

/// An AF_PACKET socket with a ring (TPACKET_V3) for one thread.
pub struct RingCapture {
    ring: BlockRing,
    socket: Socket,
    device: Device,
    counters: RingCounters,
    /// The interface was down or gone, and what was in the ring then was handed over.
    drained: bool,
}

/// A packet in the ring.
pub struct RingPacket<'a> {
    ring: &'a BlockRing,
    found: &'a PacketInRing,
}

impl RingPacket<'_> {
    /// Bytes that are there, the VLAN tag among them that the kernel or the NIC took out.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a packet is never empty")]
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Bytes that the packet had.
    #[inline]
    pub fn original_len(&self) -> usize {
        self.found.original_len()
    }

    /// Its timestamp, nanoseconds since 1970.
    #[inline]
    pub fn time_ns(&self) -> u64 {
        self.found.time_ns
    }

    /// True when the NIC's clock made the timestamp, else the kernel's.
    #[inline]
    pub fn timestamped_by_hardware(&self) -> bool {
        self.found.status & libc::TP_STATUS_TS_RAW_HARDWARE != 0
    }

    /// True when this host sent it.
    #[inline]
    pub fn is_outgoing(&self) -> bool {
        self.ring.packet_type(self.found) == libc::PACKET_OUTGOING
    }

    /// Copies its first bytes, as many as `to` holds; these are at most [`RingPacket::len`].
    #[inline]
    pub fn copy(&self, to: &mut [u8]) {
        self.ring.copy(self.found, 0, to);
    }
}

impl RingCapture {
    /// Captures on an interface of the calling thread's network namespace, from here on.
    ///
    /// # Errors
    /// No such interface, interface down, no CAP_NET_RAW, no memory for the ring or the filter; each with what to do.
    pub fn open(interface: &str, options: &CaptureOptions) -> Result<RingCapture, OpenError> {
        let spec = PortSpec::new("packet", interface);
        let capture = RingCapture::prepare(&spec, options)?;
        set_filter(&spec, &capture.socket, &options.filter)?;
        Ok(capture)
    }

    /// As [`RingCapture::open`], with several rings of the size that the options say, which share the interface's packets. They are to be dropped
    /// together: the packets of one that goes would come to those that stay.
    ///
    /// # Errors
    /// As [`RingCapture::open`].
    pub fn open_rings(
        interface: &str,
        options: &CaptureOptions,
        rings: usize,
        spread: Spread,
    ) -> Result<Vec<RingCapture>, OpenError> {
        if rings <= 1 {
            return Ok(vec![RingCapture::open(interface, options)?]);
        }
        let spec = PortSpec::new("packet", interface);
        let captures: Vec<_> = (0..rings).map(|_| RingCapture::prepare(&spec, options)).collect::<Result<_, _>>()?;
        let mode = match spread {
            Spread::Flows => (libc::PACKET_FANOUT_HASH, "hash"),
            Spread::Queues => (libc::PACKET_FANOUT_QM, "qm"),
        };
        let sockets: Vec<&Socket> = captures.iter().map(|capture| &capture.socket).collect();
        if let [first, others @ ..] = &sockets[..] {
            share_by(&spec, first, others, mode)?;
        }
        // The group is complete, so each packet has its ring.
        captures.iter().try_for_each(|capture| set_filter(&spec, &capture.socket, &options.filter))?;
        Ok(captures)
    }

    /// A ring that takes nothing yet.
    fn prepare(spec: &PortSpec, options: &CaptureOptions) -> Result<RingCapture, OpenError> {
        let device = Device::open(spec)?;
        let socket = Socket::new().map_err(|error| no_socket(spec, error))?;
        let shape = Options::for_ring(options.ring_bytes, options.retire_ms).ring_shape(device.frame_len_max + 8);
        let mapping = socket.map_ring(shape).map_err(|error| {
            let cause = format!("cannot make a ring of {} bytes: {error}", shape.block_bytes * shape.blocks);
            OpenError::new(spec, cause, "give a smaller one")
        })?;
        let error = |what: &'static str| move |error| failed(spec, what, error);
        if !options.outgoing {
            // Kernels before 4.20 do not know it; packets that were sent are passed over then.
            let _ = socket.set(libc::PACKET_IGNORE_OUTGOING, 1);
        }
        if options.hardware_timestamps {
            let wanted = libc::SOF_TIMESTAMPING_RAW_HARDWARE as i32;
            socket.set(libc::PACKET_TIMESTAMP, wanted).map_err(error("asking for the NIC's timestamps"))?;
        }
        // Nothing is taken before all is as it is to be.
        socket.set_filter(&NOTHING).map_err(error("setting a socket filter"))?;
        socket.bind(device.index, true).map_err(error("binding to the interface"))?;
        if options.promiscuous {
            socket.join_promiscuous(device.index).map_err(error("turning promiscuous mode on"))?;
        }
        let mut ring = BlockRing::new(mapping, shape);
        ring.pause_ns_max = PAUSE_NS_MAX;
        Ok(RingCapture { ring, socket, device, counters: RingCounters::default(), drained: false })
    }

    /// Shows the packets that wait, at most `packets_max`, and gives their blocks back; how many there were. No system call.
    ///
    /// # Errors
    /// `PeerCorrupt` when the ring has what no kernel writes.
    #[inline]
    pub fn walk(&mut self, packets_max: usize, mut each: impl FnMut(RingPacket<'_>)) -> Result<usize, PortError> {
        let walked = self.ring.walk(packets_max, |ring, found| each(RingPacket { ring, found }));
        walked.map_err(|what| corrupt(self.device.name(), what))
    }

    /// Sleeps until a block is handed over, at most this long; true when there is one.
    ///
    /// # Errors
    /// The interface is down or gone, and all that it brought before was walked.
    #[inline]
    pub fn wait(&mut self, timeout_ns: u64) -> Result<bool, PortError> {
        if self.ring.ready() {
            return Ok(true);
        }
        if self.drained {
            // The socket tells it only once.
            if let Some(trouble) = self.device.trouble(self.device.name()) {
                return Err(trouble);
            }
            self.drained = false;
        }
        let pause_ns = self.ring.take_pause_ns().min(timeout_ns);
        if pause_ns > 0 {
            clock::sleep_until_ns(clock::now_ns() + pause_ns);
        }
        if self.ring.ready() {
            return Ok(true);
        }
        let polled = poll(self.socket.as_fd(), PollFor::Reading, timeout_ns - pause_ns);
        let polled = polled.map_err(|source| self.io_error("poll", source))?;
        if polled.failed && !self.ring.ready() {
            let pending =
                self.socket.take_error().map_err(|source| self.io_error("reading the socket's error", source))?;
            if let Some(trouble) = self.device.trouble(self.device.name()) {
                // The block that the kernel was filling comes yet.
                clock::sleep_until_ns(clock::now_ns() + 2 * self.ring.retire_ns + TIMER_TICK_NS);
                self.drained = true;
                return if self.ring.ready() { Ok(true) } else { Err(trouble) };
            }
            if let Some(source) = pending {
                return Err(self.io_error("AF_PACKET socket", source));
            }
        }
        Ok(self.ring.ready())
    }

    /// Takes no packet any more; those in the ring are still to be walked. Then `offered = dropped + walked`, once the kernel
    /// has handed over the block that it was filling, which takes it at most the time that the ring was
    /// opened with (`retire`) and a tick of its timer.
    ///
    /// # Errors
    /// What the system answers.
    pub fn stop(&mut self) -> Result<(), PortError> {
        self.socket.set_filter(&NOTHING).map_err(|source| self.io_error("setting a socket filter", source))
    }

    /// The counts so far.
    ///
    /// # Errors
    /// What the system answers.
    pub fn counters(&mut self) -> Result<RingCounters, PortError> {
        let counts =
            self.socket.take_counts().map_err(|source| self.io_error("reading the ring's counters", source))?;
        self.counters.offered += counts.packets;
        self.counters.dropped += counts.drops;
        self.counters.freezes += counts.freezes;
        Ok(self.counters)
    }

    /// Bytes of blocks that wait to be walked, and of all blocks. A look at each block that waits: for a gauge, not for each packet.
    pub fn level_bytes(&self) -> (u64, u64) {
        self.ring.level_bytes()
    }

    /// Hardware address of the interface.
    pub fn mac(&self) -> Option<[u8; 6]> {
        self.device.mac()
    }

    fn io_error(&self, operation: &'static str, source: io::Error) -> PortError {
        PortError::Io { port: self.device.name().into(), operation, source }
    }
}

fn set_filter(spec: &PortSpec, socket: &Socket, filter: &Program) -> Result<(), OpenError> {
    let instructions: Vec<libc::sock_filter> = filter
        .instructions()
        .iter()
        .map(|instruction| libc::sock_filter {
            code: instruction.code,
            jt: instruction.jt,
            jf: instruction.jf,
            k: instruction.k,
        })
        .collect();
    socket.set_filter(&instructions).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOMEM) => {
            let cause = format!("the filter has {} instructions, too many for a socket's memory", instructions.len());
            OpenError::new(spec, cause, "raise net.core.optmem_max, or write a shorter filter")
        }
        _ => failed(spec, "setting the filter", error),
    })
}
