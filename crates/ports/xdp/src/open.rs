//! From a spec to a port: options, the order of steps, and errors that say what to do.

use std::io;
use std::sync::Arc;

use linerate_bpf::BpfError;
use linerate_mem::Pool;
use linerate_port::{Caps, Device, OpenError, PortSpec, RxRing, SpecError};
use linerate_sys::capability::{Capabilities, Capability};
use linerate_sys::held::Held as HeldSetting;
use linerate_sys::napi::{DEFER_US_MAX, Deferral};
use linerate_sys::netdev::Netdev;
use linerate_sys::promiscuous::Promiscuous;

use crate::abi;
use crate::attach::{AttachError, Attachment, ModeWanted};
use crate::key::{self, Key};
use crate::placement::Placement;
use crate::port::XdpPort;
use crate::queue::{Queue, QueueError, QueueShape, Step};
use crate::transmit::{Limits, TAG_BYTES};
use crate::umem;

/// Entries of the fill and receive ring unless `ring=` says otherwise: enough to ride out a pause of a few milliseconds at a
/// million packets a second. Rings of 2,048 were seen to lose packets at a fifth of that.
const RING_DEFAULT: u64 = 8192;

/// Most entries of the transmit ring. The kernel sends when it is kicked, so more only take memory.
const TRANSMIT_RING_MAX: u32 = 2048;

/// Most queues of a port's name.
const QUEUES_MAX: u32 = 1024;

/// Packets that the kernel sends in one call unless it is told otherwise, and the least that it can be told.
const BUDGET_MIN: u64 = 32;

const OPTIONS: [&str; 14] = [
    "@",
    "native",
    "generic",
    "zerocopy",
    "frags",
    "ring",
    "budget",
    "busy_poll",
    "defer",
    "queues",
    "symmetric",
    "tx_only",
    "promisc",
    "merge",
];
/// Entries of a ring that `ring=` takes.
const RING_ENTRIES: std::ops::RangeInclusive<u64> = 64..=1 << 20;

/// What the spec asks for.
struct Request {
    mode: ModeWanted,
    /// `XDP_ZEROCOPY`, `XDP_COPY` or 0.
    copy_flag: u16,
    /// Packets may lie in several frames; else only if one frame cannot take them.
    frags: bool,
    ring: u32,
    budget: Option<u32>,
    busy_poll: Option<u32>,
    defer_us: Option<u64>,
    first_queue: u32,
    queues: u32,
    receives: bool,
    transmits: bool,
    promiscuous: bool,
    symmetric: bool,
}

/// Opens `xdp:IF[@queue]` with the frames of `pool`, in the calling thread's network namespace: a port for each queue.
///
/// # Errors
/// [`OpenError`] with what is missing (an interface, a capability, a free queue, a mode of the driver) and what to do.
pub fn open(mut spec: PortSpec, pool: &Pool) -> Result<Device<XdpPort>, OpenError> {
    let frame_bytes = pool.region().frame_size() as u64;
    let request = Request::read(&mut spec, frame_bytes).map_err(|error| OpenError::new(&spec, error.problem, ""))?;
    let mut opener = Opener { spec: &spec, pool, request };
    let device = opener.device()?;
    opener.open(&device)
}

impl Request {
    fn read(spec: &mut PortSpec, frame_bytes: u64) -> Result<Request, SpecError> {
        let (native, generic) = (spec.take_flag("native")?, spec.take_flag("generic")?);
        let zero_copy = spec.options.zero_copy;
        if generic && (native || zero_copy == Some(true)) {
            return Err(spec.error("of native and generic, zerocopy and generic only one is possible"));
        }
        let options = &spec.options;
        let queues = match (options.queues, options.first_queue, options.threads) {
            (Some(queues), ..) => queues,
            (None, None, Some(threads)) => queues_for(&spec.target, threads, options.receives()),
            _ => 1,
        };
        // A frame for each entry.
        let (least, most) = (*RING_ENTRIES.start(), *RING_ENTRIES.end());
        let wanted = options.ring_bytes.map(|bytes| bytes / u64::from(queues) / frame_bytes);
        let wanted = wanted.map_or(RING_DEFAULT, |entries| 1 << entries.clamp(least, most).ilog2());
        let ring = spec.take_number("ring", least, most)?.unwrap_or(wanted);
        if !ring.is_power_of_two() {
            return Err(spec.error(format!("ring={ring}: a ring has a power of two entries")));
        }
        let transmit = (ring as u32).min(TRANSMIT_RING_MAX);
        let budget = spec.take_number("budget", BUDGET_MIN, transmit.into())?.map(|packets| packets as u32);
        let busy_poll = spec.take_number("busy_poll", 1, u16::MAX.into())?.map(|packets| packets as u32);
        if busy_poll.is_some() && !spec.options.receives() {
            return Err(spec.error("busy_poll is for a port that receives"));
        }
        let defer_us = spec.take_number("defer", 1, DEFER_US_MAX)?;
        if defer_us.is_some() && !spec.options.receives() {
            return Err(spec.error("defer is for a port that receives"));
        }
        let frags = spec.take_flag("frags")?;
        let symmetric = spec.take_flag("symmetric")?;
        spec.finish(&OPTIONS)?;
        let options = &spec.options;
        Ok(Request {
            mode: match (native, generic) {
                (true, _) => ModeWanted::Native,
                (_, true) => ModeWanted::Generic,
                _ => ModeWanted::Best,
            },
            copy_flag: match (zero_copy, generic) {
                (Some(true), _) => libc::XDP_ZEROCOPY,
                (Some(false), _) | (_, true) => libc::XDP_COPY,
                _ => 0,
            },
            frags,
            ring: ring as u32,
            budget,
            busy_poll,
            defer_us,
            first_queue: options.first_queue.unwrap_or(0),
            queues,
            receives: options.receives(),
            transmits: options.transmits(),
            promiscuous: options.promiscuous.unwrap_or(true),
            symmetric,
        })
    }

    fn transmit_entries(&self) -> u32 {
        self.ring.min(TRANSMIT_RING_MAX)
    }

    fn last_queue(&self) -> u32 {
        self.first_queue.saturating_add(self.queues - 1)
    }
}

/// Queues for so many threads: all that the interface receives on, or one for each thread that sends.
fn queues_for(interface: &str, threads: usize, receives: bool) -> u32 {
    let channels = Netdev::open(interface).and_then(|device| device.channels()).ok().flatten();
    let (rx, tx) = channels.map_or((1, 1), |all| (all.rx.0 + all.combined.0, all.tx.0 + all.combined.0));
    let wanted = if receives { rx } else { tx.min(u32::try_from(threads).unwrap_or(u32::MAX)) };
    wanted.clamp(1, QUEUES_MAX)
}

/// The steps, with what all of them need.
struct Opener<'a> {
    spec: &'a PortSpec,
    pool: &'a Pool,
    request: Request,
}

impl Opener<'_> {
    fn error(&self, cause: impl Into<String>, hint: impl Into<String>) -> OpenError {
        OpenError::new(self.spec, cause, hint)
    }

    fn device(&self) -> Result<Netdev, OpenError> {
        let name = &self.spec.target;
        let device =
            Netdev::open(name).map_err(|error| self.error(error.to_string(), "`ip link` lists those there are"))?;
        let up = device.is_up().map_err(|error| self.error(error.to_string(), ""))?;
        if !up {
            return Err(self.error("the interface is down", format!("`ip link set {name} up` brings it up")));
        }
        umem::check_shape(self.pool.region())
            .map_err(|cause| self.error(cause, "open it on a pool of other frames"))?;
        Ok(device)
    }

    fn open(&mut self, device: &Netdev) -> Result<Device<XdpPort>, OpenError> {
        self.spec.queues_up_to(QUEUES_MAX).map_err(|error| self.error(error.problem, ""))?;
        let read = |error: io::Error| OpenError::new(self.spec, error.to_string(), "");
        let (ifindex, mtu) = (device.index().map_err(read)?, device.mtu().map_err(read)? as usize);
        let room = Placement::Aligned.receive_len_max(self.pool);
        self.request.frags |= longest(mtu) > if self.request.receives { room } else { self.pool.packet_len_max() };
        let frags_max = if self.request.frags { abi::SEGMENTS_MAX } else { 1 };
        let frame_len_max = Limits::frame_len_max(mtu, frags_max, self.pool.region());
        let limits = Limits { frame_len_max, frags_max };
        let mut queues = match self.request.copy_flag {
            // Zero-copy if the driver can; what stands in the way of both is told by the second attempt.
            0 => self.queues(device, ifindex, limits, libc::XDP_ZEROCOPY),
            flag => self.queues(device, ifindex, limits, flag),
        }
        .or_else(|error| match self.request.copy_flag {
            0 => self.queues(device, ifindex, limits, libc::XDP_COPY),
            _ => Err(error),
        })?;
        let attachment = match self.request.receives {
            true => Some(self.attach(ifindex)?),
            false => None,
        };
        if attachment.as_ref().is_some_and(|program| !program.is_native()) && queues.iter().any(|queue| queue.zero_copy)
        {
            // A program in the stack never sees the frames of a zero-copy queue.
            drop(queues);
            queues = self.queues(device, ifindex, limits, libc::XDP_COPY)?;
        }
        let completes = attachment.as_deref().is_none_or(|program| may_be_partial(device, program));
        let promiscuous = self.promiscuous(ifindex)?.map(Arc::new);
        let key = self.symmetric_key(device)?.map(Arc::new);
        let deferral = self.deferral(device)?.map(Arc::new);
        let mut ports = Vec::new();
        for mut queue in queues {
            if let Some(side) = &mut queue.receive {
                side.looks_for_partial = completes;
            }
            if let Some(program) = &attachment {
                program.add(queue.number, &queue.socket).map_err(|error| self.bpf_error(error))?;
            }
            let caps = self.caps(device, limits, &queue, attachment.as_deref());
            let held = (attachment.clone(), promiscuous.clone(), key.clone(), deferral.clone());
            let own = Netdev::open(device.name()).map_err(read)?;
            ports.push(XdpPort::new(held, queue, caps, own, self.request.frags));
        }
        let more = ports.split_off(1);
        let first = ports.pop().ok_or_else(|| self.error("no queue was asked for", ""))?;
        let name = if more.is_empty() { first.name() } else { self.spec.to_string() };
        Ok(Device::new(name, first, more))
    }

    /// Gives the card a key by which both directions of a flow get one queue, until the device is closed.
    fn symmetric_key(&self, device: &Netdev) -> Result<Option<HeldSetting<Key>>, OpenError> {
        if !self.request.symmetric {
            // A process that was killed may have left another key than the card's own; one that cannot be restored stays for the next start.
            let _ = key::restore(device.name());
            return Ok(None);
        }
        let own = Netdev::open(device.name()).and_then(key::hold_symmetric);
        own.map_err(|error| {
            self.error(format!("symmetric: {error}"), "leave out symmetric; flows may then be split by direction")
        })
    }

    /// Lets the interface collect packets, until the device is closed.
    fn deferral(&self, device: &Netdev) -> Result<Option<Deferral>, OpenError> {
        let hold = Deferral::hold(device.name(), self.request.defer_us);
        hold.map_err(|error| {
            self.error(format!("defer: {error}"), "leave out defer; each packet then wakes its receiver")
        })
    }

    fn promiscuous(&self, ifindex: u32) -> Result<Option<Promiscuous>, OpenError> {
        if !self.request.receives || !self.request.promiscuous {
            return Ok(None);
        }
        let hold = Promiscuous::hold(ifindex);
        hold.map(Some)
            .map_err(|error| self.error(format!("promiscuous mode: {error}"), "add promisc=no to do without it"))
    }

    /// Coloured where the kernel copies and packets are short enough for it.
    fn placement(&self, limits: Limits, copy_flag: u16) -> Placement {
        let coloured = Placement::coloured(self.pool);
        let fits = self.request.frags || longest(limits.frame_len_max - 14) <= coloured.receive_len_max(self.pool);
        if copy_flag == libc::XDP_COPY && fits { coloured } else { Placement::Aligned }
    }

    fn queues(&self, device: &Netdev, ifindex: u32, limits: Limits, copy_flag: u16) -> Result<Vec<Queue>, OpenError> {
        let request = &self.request;
        let frags_flag = if request.frags { libc::XDP_USE_SG } else { 0 };
        let share = match request.receives {
            true => umem::receive_share(self.pool, request.ring, request.queues as usize)
                .map_err(|cause| self.error(cause, "open it on a larger pool, or only send, with tx_only"))?,
            false => 0,
        };
        let open = |number: u32| {
            let shape = QueueShape {
                ifindex,
                queue: number,
                receive_entries: if request.receives { request.ring } else { 0 },
                receive_share: share,
                transmit_entries: if request.transmits { request.transmit_entries() } else { 0 },
                budget: request.budget,
                busy_poll: request.busy_poll,
                placement: self.placement(limits, copy_flag),
                flags: copy_flag | frags_flag | libc::XDP_USE_NEED_WAKEUP,
                limits,
            };
            Queue::open(self.pool, shape).map_err(|error| self.queue_error(device, number, error))
        };
        (request.first_queue..=request.last_queue()).map(open).collect()
    }

    fn attach(&self, ifindex: u32) -> Result<Arc<Attachment>, OpenError> {
        let (request, name) = (&self.request, &self.spec.target);
        let queues = request.last_queue().saturating_add(1);
        Attachment::shared(ifindex, queues, request.mode, request.frags).map_err(|error| match error {
            AttachError::Bpf(error) => self.bpf_error(error),
            AttachError::Differs(how) => {
                let cause = format!("another port of this process receives on {name} {how}");
                self.error(cause, "open all ports of one interface with the same options")
            }
            AttachError::NoPlace { queues } => {
                let cause = format!("another port of this process receives on {name}, with room for {queues} queues");
                self.error(cause, "open the port with the highest queue first")
            }
        })
    }

    fn bpf_error(&self, error: BpfError) -> OpenError {
        let name = &self.spec.target;
        let hint = match &error {
            BpfError::Permission { .. } => format!("xdp:{name},tx_only only sends and needs CAP_NET_RAW alone"),
            BpfError::MtuTooLarge { .. } => "add generic, or lower the MTU".into(),
            BpfError::Unsupported { .. } => "leave out native".into(),
            BpfError::Busy { .. } => format!("`ip link show {name}` names the program"),
            _ => String::new(),
        };
        self.error(error.to_string(), hint)
    }

    fn queue_error(&self, device: &Netdev, queue: u32, error: QueueError) -> OpenError {
        let name = device.name();
        match (error.step, error.source.raw_os_error()) {
            (Step::Socket, Some(libc::EPERM)) => self.error(
                format!("an AF_XDP socket needs {}", Capability::NetRaw.name()),
                format!("run as root, or `setcap cap_net_raw,cap_net_admin,cap_bpf+ep` the program; {}", held()),
            ),
            (Step::Socket, Some(libc::EAFNOSUPPORT)) => {
                self.error("this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)", format!("try packet:{name}"))
            }
            (Step::Register, Some(libc::ENOBUFS | libc::ENOMEM)) => self.error(
                format!("the kernel may not lock {} bytes of packet memory", self.pool.region().bytes()),
                "raise `ulimit -l`, grant CAP_IPC_LOCK, or use a smaller pool",
            ),
            (Step::Budget, _) => {
                self.error(format!("budget: {}", error.source), "Linux 6.17 and later have it; leave it out")
            }
            (Step::Bind, Some(libc::EBUSY)) => self.error(
                format!("queue {queue} of {name} has an AF_XDP socket already"),
                "end the process that has it, or choose another queue with @N",
            ),
            (Step::Bind, Some(libc::EOPNOTSUPP)) => self.error(
                format!("the driver of {name} has no AF_XDP in this mode"),
                "leave out zerocopy and frags, or lower the MTU",
            ),
            (Step::Bind, Some(libc::EINVAL)) => {
                let queues = device.channels().ok().flatten().map(|c| c.rx.0.max(c.tx.0) + c.combined.0);
                match queues {
                    Some(count) if queue >= count => {
                        self.error(format!("{name} has no queue {queue}"), format!("it has {count}, from 0 on"))
                    }
                    _ => self
                        .error(format!("queue {queue} of {name} cannot be bound"), "leave out frags, or lower the MTU"),
                }
            }
            (Step::BusyPoll, Some(libc::EPERM)) => {
                self.error("SO_PREFER_BUSY_POLL needs CAP_NET_ADMIN", "run with sudo, or leave out busy_poll")
            }
            (Step::BusyPoll, Some(libc::ENOPROTOOPT)) => {
                self.error("this kernel has no SO_PREFER_BUSY_POLL (Linux 5.11 and later)", "leave out busy_poll")
            }
            (step, _) => self.error(format!("{step:?}: {}", error.source), ""),
        }
    }

    fn caps(&self, device: &Netdev, limits: Limits, queue: &Queue, program: Option<&Attachment>) -> Caps {
        let (request, zero_copy) = (&self.request, queue.zero_copy);
        let receives = match (program, queue.receive.as_ref()) {
            (Some(program), Some(side)) => {
                let mode = if program.is_native() { "native" } else { "generic" };
                let why = program.native_refused().map(|why| format!(" ({why})")).unwrap_or_default();
                let polls = request.busy_poll.map(|budget| format!(", busy polling by {budget}")).unwrap_or_default();
                let defer = request.defer_us.map(|us| format!(", packets of {us} us at once")).unwrap_or_default();
                format!(
                    "{mode} XDP{why}, {}-entry rings, {} frames to receive into{polls}{defer}",
                    request.ring,
                    side.lent()
                )
            }
            _ => "no program, only sends".into(),
        };
        let speed_mbps = device.speed_mbps().ok().flatten();
        let all = device.channels().ok().flatten().map_or(1, |all| all.rx.0 + all.combined.0);
        let left = match program {
            Some(_) if request.queues < all => format!(
                ", {} of {all} receive queues: packets of the others stay with the host (queues={all} takes all)",
                request.queues
            ),
            _ => String::new(),
        };
        Caps {
            name: match self.spec.to_string() {
                plain if request.queues > 1 || !plain.contains(['@', ',']) => self.spec.at_queue(queue.number),
                full => full,
            },
            backend: "xdp",
            receives: request.receives,
            transmits: request.transmits,
            frame_len_max: limits.frame_len_max,
            tag_bytes: TAG_BYTES,
            frags_max: limits.frags_max,
            zero_copy: true,
            copies: match zero_copy {
                true => "nothing is copied, the device uses the frames",
                false => "the kernel copies each packet between its frame and an skb",
            },
            detail: format!("{receives}, {}, need-wakeup{left}", if zero_copy { "zero-copy" } else { "copy mode" }),
            link_bps: speed_mbps.map(|speed| u64::from(speed) * 1_000_000),
            mac: device.mac().ok(),
            rx_ring: request.receives.then(|| RxRing::of_frames(request.ring.into(), queue.loans.frame_bytes())),
            async_tx: true,
            ..Caps::default()
        }
    }
}

/// Whether packets may come with partial checksums: from a device without hardware (veth, TAP), whose other side left them to this
/// one, and from the stack, which has them from whatever is below. What a driver of hardware hands to a program was on a wire.
fn may_be_partial(device: &Netdev, program: &Attachment) -> bool {
    let has_bus = device.driver_info().is_ok_and(|info| info.is_some_and(|info| !info.bus.is_empty()));
    !(program.is_native() && has_bus)
}

/// The longest packet that arrives: an Ethernet header, and a VLAN tag that the kernel lets pass on top of the MTU.
fn longest(mtu: usize) -> usize {
    mtu + 14 + 4
}

/// What this process may do, for a hint.
fn held() -> String {
    Capabilities::read().map_or_else(|error| error.to_string(), |held| format!("it has {held}"))
}
