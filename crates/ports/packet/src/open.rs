//! From a spec to a port: socket, ring, membership, in the order that loses and doubles no packet.

use std::fmt::Display;
use std::io;
use std::sync::Arc;

use linerate_mem::Pool;
use linerate_port::{Caps, Device as Opened, LongPacket, OpenError, PortSpec, RxRing};
use linerate_sys::napi::Deferral;

use crate::device::Device;
use crate::options::{Fanout, Options};
use crate::port::PacketPort;
use crate::receive::Receiver;
use crate::ring::BlockRing;
use crate::senders::Senders;
use crate::sys::{RingShape, SLOTS_MAX, Socket};
use crate::transmit::VLAN_BYTES;

/// Bytes of frames that may be on their way through a driver.
const SEND_BUFFER_BYTES: i32 = 4 << 20;
/// Bytes of packets that may wait beside a ring of short places: some 100 of 64 KiB.
const BESIDE_BYTES: i32 = 8 << 20;
/// Bytes by which two VLAN tags make a frame longer.
const TAGS_BYTES: usize = 8;

/// Opens interface `spec.target` of the calling thread's network namespace; options as in the crate's documentation.
///
/// # Errors
/// No such interface, interface down, no CAP_NET_RAW, an option that is unknown or does not fit; each with what to do.
pub fn open(mut spec: PortSpec, pool: &Pool) -> Result<Opened<PacketPort>, OpenError> {
    let options = Options::take(&mut spec).map_err(|error| OpenError::new(&spec, error.problem, ""))?;
    check_queue(&spec, &Device::open(&spec)?)?;
    let deferral = Deferral::hold(&spec.target, options.defer_us)
        .map_err(|error| failed(&spec, "defer (leave it out: each packet then wakes its receiver)", error))?
        .map(Arc::new);
    let mut ports =
        (0..options.sockets).map(|_| one(&spec, &options, pool, deferral.clone())).collect::<Result<Vec<_>, _>>()?;
    // Every socket is in the group before one takes packets, so that each packet has its ring.
    let receivers: Vec<&Socket> = ports.iter().filter_map(PacketPort::receiving_socket).collect();
    share(&spec, &receivers, options.fanout)?;
    for socket in receivers {
        match spec.options.first_queue {
            Some(queue) => socket.set_filter(&only_queue(queue)),
            None => socket.remove_filter(),
        }
        .map_err(|error| failed(&spec, "setting a socket filter", error))?;
    }
    let more = ports.split_off(1);
    let Some(first) = ports.pop() else { return Err(OpenError::new(&spec, "no socket was asked for", "")) };
    Ok(Opened::new(spec.to_string(), first, more))
}

/// One port, which receives nothing yet.
fn one(
    spec: &PortSpec,
    options: &Options,
    pool: &Pool,
    deferral: Option<Arc<Deferral>>,
) -> Result<PacketPort, OpenError> {
    let device = Device::open(spec)?;
    let socket = || Socket::new().map_err(|error| no_socket(spec, error));
    let sending = |notes| {
        let socket = socket()?;
        set_up_sending(&socket, options, &device, notes)
            .map_err(|error| failed(spec, "setting up the sending side", error))?;
        Ok(socket)
    };
    let senders = match options.transmits {
        true => Some(Senders::new(sending(false)?, options.offload.then(|| sending(true)).transpose()?)),
        false => None,
    };
    let (receiver, ring) = match options.receives {
        true => set_up_receiving(spec, options, &device, socket()?).map(|(made, shape)| (Some(made), Some(shape)))?,
        false => (None, None),
    };
    let caps = caps(spec, options, &device, ring);
    let mut port = PacketPort::new(caps, pool, device, senders, receiver);
    if options.qdisc {
        port.goes_through_qdisc();
    }
    port.hold(deferral);
    if options.drop_refused {
        port.drop_refused();
    }
    Ok(port)
}

/// Puts sockets into the fanout group that the user named, or several sockets into a new one, by flow.
pub(crate) fn share(spec: &PortSpec, sockets: &[&Socket], wanted: Option<Fanout>) -> Result<(), OpenError> {
    match (wanted, sockets) {
        (Some(group), _) => sockets.iter().try_for_each(|socket| join(spec, socket, group)),
        (None, [first, others @ ..]) if !others.is_empty() => {
            share_by(spec, first, others, (libc::PACKET_FANOUT_HASH, "hash"))
        }
        _ => Ok(()),
    }
}

/// Puts sockets into a group of their own.
pub(crate) fn share_by(
    spec: &PortSpec,
    first: &Socket,
    others: &[&Socket],
    (mode, mode_name): (u32, &'static str),
) -> Result<(), OpenError> {
    let group = first.join_new_fanout(mode).map_err(|error| failed(spec, "making a fanout group", error))?;
    others.iter().try_for_each(|socket| join(spec, socket, Fanout { group, mode, mode_name }))
}

/// Whether this process can have AF_PACKET sockets at all; touches no interface.
///
/// # Errors
/// What is missing, and what to do.
pub fn probe() -> Result<(), OpenError> {
    Socket::new().map(drop).map_err(|error| no_socket("packet:", error))
}

/// With `notes`, each message is to begin with one (PACKET_VNET_HDR).
fn set_up_sending(socket: &Socket, options: &Options, device: &Device, notes: bool) -> io::Result<()> {
    socket.set_send_buffer(SEND_BUFFER_BYTES)?;
    if !options.qdisc {
        socket.set(libc::PACKET_QDISC_BYPASS, 1)?;
    }
    if notes {
        socket.set(libc::PACKET_VNET_HDR, 1)?;
    }
    socket.bind(device.index, false)
}

/// Makes the ring before the first packet can come. Between binding and joining a fanout group the socket would receive what
/// belongs to the group's other members, so a filter that takes nothing is in place meanwhile.
fn set_up_receiving(
    spec: &PortSpec,
    options: &Options,
    device: &Device,
    socket: Socket,
) -> Result<(Receiver, RingShape), OpenError> {
    let error = |what: &'static str| move |error| failed(spec, what, error);
    socket.set(libc::PACKET_VNET_HDR, 1).map_err(error("asking for notes about offloads (Linux 4.6 and later)"))?;
    let frame_len_max = device.frame_len_max + TAGS_BYTES;
    let longest = if options.prompt {
        // A packet longer than its place in the ring comes beside it.
        socket.set(libc::PACKET_COPY_THRESH, 1).map_err(error("asking for long packets beside the ring"))?;
        socket.set_receive_buffer(BESIDE_BYTES).map_err(error("making room beside the ring"))?;
        frame_len_max
    } else {
        frame_len_max.max(LongPacket::LEN_MAX)
    };
    let shape = options.ring_shape(longest);
    let bytes = shape.block_bytes * shape.blocks;
    let mapping = socket.map_ring(shape).map_err(|error| {
        let cause = format!("cannot make a receive ring of {bytes} bytes: {error}");
        OpenError::new(spec, cause, "give a smaller one with ring=BYTES, or tx_only if nothing is to be received")
    })?;
    // A wish: kernels before 4.20 also show what this machine sends.
    let _ = socket.set(libc::PACKET_IGNORE_OUTGOING, 1);
    socket.set_filter(&NOTHING).map_err(error("setting a socket filter"))?;
    socket.bind(device.index, true).map_err(error("binding to the interface"))?;
    if options.promiscuous {
        socket.join_promiscuous(device.index).map_err(error("turning promiscuous mode on"))?;
    }
    Ok((Receiver::new(socket, BlockRing::new(mapping, shape)), shape))
}

fn join(spec: &PortSpec, socket: &Socket, fanout: Fanout) -> Result<(), OpenError> {
    socket.join_fanout(fanout.group, fanout.mode).map_err(|error| {
        let hint = match error.raw_os_error() {
            Some(libc::EINVAL | libc::EALREADY) => {
                "the group exists with another mode or interface; take another number"
            }
            Some(libc::ENOSPC) => "the group is full; take another number",
            _ => "",
        };
        OpenError::new(spec, format!("joining fanout group {}: {error}", fanout.group), hint)
    })
}

/// BPF_RET | BPF_K (linux/bpf_common.h): return the constant.
const RETURN: u16 = 0x06;
/// Takes no packet.
pub(crate) const NOTHING: [libc::sock_filter; 1] = [libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: 0 }];
/// BPF_LD | BPF_W | BPF_ABS: load; from SKF_AD_OFF on, facts about the packet.
const LOAD: u16 = 0x20;
/// BPF_JMP | BPF_JEQ | BPF_K: skip `jt` instructions if equal, else `jf`.
const JUMP_EQUAL: u16 = 0x15;

/// Takes packets of one receive queue. The kernel notes queue N as N + 1 (skb_record_rx_queue); 0 means that the driver did
/// not tell, and counts as queue 0 here, so that each packet is of exactly one queue.
fn only_queue(queue: u32) -> [libc::sock_filter; 5] {
    let queue_mapping = (libc::SKF_AD_OFF + libc::SKF_AD_QUEUE) as u32;
    let instruction = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    [
        instruction(LOAD, 0, 0, queue_mapping),
        instruction(JUMP_EQUAL, 1, 0, queue + 1),
        instruction(JUMP_EQUAL, 0, 1, if queue == 0 { 0 } else { queue + 1 }),
        instruction(RETURN, 0, 0, u32::MAX),
        instruction(RETURN, 0, 0, 0),
    ]
}

/// Most queues that the kernel can note in a packet (16 bits, 0 meaning none).
const QUEUES_MAX: u32 = 65_535;

fn check_queue(spec: &PortSpec, device: &Device) -> Result<(), OpenError> {
    let queues = device.receive_queues().unwrap_or(QUEUES_MAX);
    if spec.options.first_queue.is_none_or(|queue| queue < queues) {
        return Ok(());
    }
    let words = if queues == 1 { "one receive queue".to_owned() } else { format!("{queues} receive queues") };
    let cause = format!("{} has {words}, counted from 0", device.name());
    Err(OpenError::new(spec, cause, "leave out @queue, or name one that is there"))
}

fn caps(spec: &PortSpec, options: &Options, device: &Device, ring: Option<RingShape>) -> Caps {
    let receiving = ring.map(|ring| {
        let blocks = format!("{} blocks of {} KiB", ring.blocks, ring.block_bytes >> 10);
        let ring = match ring.prompt {
            true => format!("TPACKET_V2, {blocks}, each packet at once"),
            false => format!("TPACKET_V3, {blocks}, retired after {} ms", ring.retire_ms),
        };
        let promiscuous = if options.promiscuous { "promiscuous" } else { "not promiscuous" };
        let fanout = match (options.fanout, options.sockets) {
            (Some(fanout), _) => format!(", fanout group {} by {}", fanout.group, fanout.mode_name),
            (None, 1) => String::new(),
            (None, sockets) => format!(", {sockets} rings by flow"),
        };
        let defer = options.defer_us.map(|us| format!(", packets of {us} us at once")).unwrap_or_default();
        format!("receives by {ring}, {promiscuous}{fanout}{defer}")
    });
    let path = if options.qdisc { "through the qdisc" } else { "past the qdisc" };
    let merging = if options.offload { "" } else { ", nothing left to the kernel" };
    let sending = options.transmits.then(|| format!("sends by sendmmsg {path}{merging}"));
    Caps {
        name: spec.to_string(),
        backend: "packet",
        receives: options.receives,
        transmits: options.transmits,
        frame_len_max: device.frame_len_max,
        tag_bytes: VLAN_BYTES,
        frags_max: SLOTS_MAX,
        zero_copy: false,
        copies: "the kernel copies each packet into an skb or a ring block, this port copies from the block into the pool",
        detail: receiving.into_iter().chain(sending).collect::<Vec<_>>().join("; "),
        link_bps: device.link_bps(),
        mac: device.mac(),
        rx_ring: ring.map(|ring| RxRing::of_packet_ring((ring.block_bytes * ring.blocks) as u64)),
        timestamps: options.receives,
        async_tx: true,
        rx_blocks: ring.is_some_and(|ring| !ring.prompt),
        ..Caps::default()
    }
}

pub(crate) fn no_socket(spec: impl Display, error: io::Error) -> OpenError {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => OpenError::new(
            spec,
            "opening an AF_PACKET socket needs CAP_NET_RAW",
            "run with sudo, or `sudo setcap cap_net_raw+ep` the program; pipe:a and file: need no rights",
        ),
        Some(libc::EAFNOSUPPORT) => {
            OpenError::new(spec, "this kernel was built without AF_PACKET (CONFIG_PACKET)", "take another backend")
        }
        _ => failed(spec, "opening an AF_PACKET socket", error),
    }
}

pub(crate) fn failed(spec: impl Display, what: &str, error: io::Error) -> OpenError {
    OpenError::new(spec, format!("{what}: {error}"), "")
}
