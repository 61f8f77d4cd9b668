//! `packet:IF` - an AF_PACKET socket as a port: works on every Ethernet interface, with one copy each way.
//!
//! ```text
//! receive   interface -> kernel copies into ring blocks (TPACKET_V3) -> this port copies into the pool's frames -> batch
//! transmit  batch -> sendmmsg(2), up to 64 packets a call -> kernel copies into skbs -> driver (qdisc bypassed)
//! ```
//! While there are filled blocks, `receive` makes no system call; `wait` sleeps until the kernel hands over a block, which it
//! does when the block is full or `retire` milliseconds old, and when blocks come full, `wait` sleeps over several of them.
//! Measured at 0.86 Mpps of 60-byte frames: 23 ns of CPU a packet for the reading process, `tcpdump -w /dev/null` 58.
//! VLAN tags that the kernel or the NIC took out are put back.
//! Timestamps are those of the kernel's receive path, turned into the clock of `linerate_sys::clock`.
//!
//! Packets that arrive before the first `receive` wait in the ring: the port listens from `open` on, unless `tx_only` says
//! that it need not. Frames up to the interface's MTU + 14 bytes can be sent, 4 more when they carry an 802.1Q tag.
//!
//! A packet that the driver refuses (a full ring, ENOBUFS) stays in the batch unless told otherwise. The driver counts the attempt
//! among the interface's transmit drops all the same, so that counter is not a count of lost packets.
//!
//! What a host left to a network card is done here, by the kernel's notes (PACKET_VNET_HDR, Linux 4.6): partial checksums are completed,
//! and packets of several, up to 64 KiB, are cut into those. They count as the packets that they become. With `prompt` they come
//! beside the ring, through the socket's buffer of 8 MiB; what finds no room there is `longer than a ring block`.
//! `ring=` grows to two blocks of 128 KiB at least, so that each has room for one. A capture ([`RingCapture`]) shows packets as they
//! are.
//!
//! In the other direction, packets with a partial checksum are sent as they are, with a note, and TCP segments of one connection that
//! follow each other in a batch leave as one packet of up to 64 KiB, which the kernel or the network card cuts where it must be cut.
//! An interface whose checksum or segmentation offload is off (`ethtool -K`) gets what its own host's TCP would send: complete, cut packets;
//! since the kernel cuts nothing past the qdisc, the port goes through it from the first time that such an interface refused a merged packet.
//! What looks at the far side of a veth without such notes sees large packets and partial checksums, as it does of Linux's own TCP.
//!
//! [`RingCapture`] is the same ring for captures: packets are looked at where they lie and copied once, to where they are written.
//!
//! # Options
//! - `@N` receive only what came in on receive queue N, where the driver notes that (a plain veth notes nothing useful);
//!   packets without a note are of queue 0. The kernel chooses the transmit queue by itself.
//! - `ring=BYTES` receive ring, 65536 to 1073741824, default 16777216; `retire=MS` see above, 1 to 1000, default 16
//!   milliseconds.
//! - `prompt` hand over each packet as soon as it is there (TPACKET_V2), for who answers packets or times them by the clock:
//!   costs a wake-up for each that comes alone. The packets of a ring are then as many as its bytes hold of the longest.
//! - `defer=US` while the port is open, the interface collects packets for US microseconds before its receive work runs (software
//!   interrupt coalescing, [`linerate_sys::napi`]): they come in batches, and later. After kill -9 the interface keeps it until a port is opened
//!   on it again.
//! - `promisc=no` do not take packets for other hardware addresses. The mode ends with the socket, whatever ends the process.
//! - `queues=N` N ports, each with a socket and a ring of its own; they share the interface's packets by flow, in a group that the
//!   kernel numbers.
//! - `fanout=GROUP[:hash|lb|cpu|qm]` share the interface's packets with the other ports of GROUP, by flow (`hash`, default), in
//!   turn (`lb`), by the receiving CPU, or by receive queue. Each port is one reader; see packet(7), PACKET_FANOUT.
//! - `refused=drop` a packet that the driver refuses (a full ring) is lost, and counted as such, as a NIC's would be;
//!   `refused=retry` (the default) sends it again, so that a slow far side holds the sender back.
//! - `qdisc` send through the interface's queueing discipline (and past `tcpdump` on this side) instead of around it.
//! - `no_offload` complete checksums and send segments one by one.
//! - `tx_only` no ring, no listening: costs nothing for what arrives. `rx_only` no sending.

mod capture;
mod device;
mod open;
mod options;
mod port;
mod receive;
mod ring;
mod senders;
mod sys;
mod transmit;

pub use capture::{CaptureOptions, RingCapture, RingCounters, RingPacket, Spread};
pub use open::{open, probe};
pub use port::PacketPort;
