//! What a port can do.

use std::io;

use linerate_mem::{Batch, Pool};

use crate::PortError;

/// Bytes of the key in front of packets of ports with [`Caps::tunnel_keys`]: a number, most significant byte first.
pub const TUNNEL_KEY_BYTES: usize = 8;

/// What is at the far side of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FarSide {
    /// A network interface of this host.
    #[default]
    Interface,
    /// Another port of this process.
    Process,
    /// Another process, which comes and goes: shared memory behind a socket.
    Peer,
    /// A capture file.
    File,
    /// Nothing: packets are discarded.
    Nothing,
}

/// The ring that packets wait in until they are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxRing {
    /// Bytes of the ring.
    pub bytes: u64,
    /// Bytes that a packet takes beside its own.
    pub packet_overhead: u64,
    /// Bytes of its own that a packet takes at most; 0 where each takes a whole frame, which is the overhead.
    pub packet_max: u64,
}

impl RxRing {
    /// The ring of an AF_PACKET socket of version 3. tpacket_rcv() of net/packet/af_packet.c: a packet begins at
    /// TPACKET_ALIGN(48 + 20 + 16) - 14 = 82 behind the start of its header, and the next header is at a multiple of 8.
    pub fn of_packet_ring(bytes: u64) -> RxRing {
        RxRing { bytes, packet_overhead: 86, packet_max: u64::MAX }
    }

    /// Bytes of the ring that a packet of `len` bytes takes.
    pub fn packet_bytes(&self, len: f64) -> f64 {
        len.min(self.packet_max as f64) + self.packet_overhead as f64
    }

    /// A ring of frames, one for each packet.
    pub fn of_frames(frames: u64, frame_bytes: u64) -> RxRing {
        RxRing { bytes: frames * frame_bytes, packet_overhead: frame_bytes, packet_max: 0 }
    }
}

/// Facts about an open port. Units are in the names; lengths are without FCS.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Caps {
    /// The spec that opens this port again, e.g. `xdp:veth0@0`.
    pub name: String,
    /// Which backend: `pipe`, `packet`, `xdp`, ...
    pub backend: &'static str,
    /// True when `receive` can ever return something.
    pub receives: bool,
    /// True when `transmit` can ever take something.
    pub transmits: bool,
    /// Longest packet without a VLAN tag in bytes, without FCS (MTU + 14 on Ethernet).
    pub frame_len_max: usize,
    /// Bytes by which a packet that is sent may be longer if its first EtherType is that of an 802.1Q tag.
    pub tag_bytes: usize,
    /// Largest number of frags (frames) of one packet; 1 means that each packet lies in one frame.
    pub frags_max: usize,
    /// True when packets are not copied between the pool's frames and the far side by this process.
    pub zero_copy: bool,
    /// What is copied where, in words, e.g. "the kernel copies each packet into an skb".
    pub copies: &'static str,
    /// How the port was opened, for people: "native XDP, copy mode, need-wakeup, 8192-entry rings".
    pub detail: String,
    /// Rate of the link in bit/s, where there is one.
    pub link_bps: Option<u64>,
    /// Hardware address, where there is one.
    pub mac: Option<[u8; 6]>,
    /// What is at the far side.
    pub far_side: FarSide,
    /// The interface at the far side was made by this port and ends with it: opening the port again makes it again.
    pub makes_interface: bool,
    /// The ring that received packets wait in, where the port knows its size.
    pub rx_ring: Option<RxRing>,
    /// Packets are filtered by the filter that the port was opened with.
    pub filters: bool,
    /// The port goes on after a peer that broke the protocol, and waits for the next one.
    pub survives_peers: bool,
    /// True when received packets carry a timestamp of the port's (see `Batch::time_ns`).
    pub timestamps: bool,
    /// True if each packet begins with [`crate::TUNNEL_KEY_BYTES`] bytes: the key of the tunnel by which it came or goes. The Ethernet
    /// header follows.
    pub tunnel_keys: bool,
    /// True if the far side takes packets without a turn of another thread of ours (`null:`, a NIC), so a sender may go on without
    /// a pause. False if the far side is a reader that must get its turn (`pipe:`).
    pub async_tx: bool,
    /// True if received packets show a block at a time, full or after a time-out: the descriptor of [`crate::Port::arm_wakeup`] wakes its reader once
    /// for many packets, so that who only receives need not nap between them.
    pub rx_blocks: bool,
    /// True if each look for packets is a system call, also when there are none. The descriptor of [`crate::Port::arm_wakeup`] can then be read as
    /// long as packets wait or the port is broken, so that callers with many such ports ask the kernel which of them have something.
    pub rx_syscalls: bool,
    /// True if a sleep on the port does all that a look at it does, for one system call: it hands over what was sent, takes in what has
    /// arrived, and ends at once if there is something. Its descriptor ([`crate::Port::arm_wakeup`]) stays readable as long as packets wait,
    /// those that came before wakeups were armed included. Callers then sleep where they would spin or nap.
    pub sleep_syncs: bool,
    /// True if the port may hand packets on to another one of its kind by itself ([`crate::Port::hand_on`]).
    pub hands_on: bool,
}

impl Caps {
    /// Whether a batch's packets lie in the pool of the port.
    ///
    /// # Errors
    /// [`PortError::ForeignPool`] if they do not.
    #[inline]
    pub fn check_pool(&self, batch: &Batch, pool: &Pool) -> Result<(), PortError> {
        if batch.is_of(pool.region()) {
            return Ok(());
        }
        Err(PortError::ForeignPool { port: self.name.clone() })
    }

    /// The error of a system call: `operation` is what was to be done, e.g. `read`.
    pub fn io_error(&self, operation: &'static str, source: io::Error) -> PortError {
        PortError::Io { port: self.name.clone(), operation, source }
    }
}
