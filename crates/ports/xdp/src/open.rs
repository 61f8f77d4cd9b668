//! From a spec to a port: options, the order of steps, and errors that say what to do.

use std::io;
use std::sync::Arc;

use linerate_bpf::BpfError;
use linerate_mem::Pool;
use linerate_port::{Caps, OpenError, PortSpec, SpecError};
use linerate_sys::capability::{Capabilities, Capability};
use linerate_sys::netdev::Netdev;
use linerate_sys::promiscuous::Promiscuous;

use crate::abi;
use crate::attach::{AttachError, Attachment, ModeWanted};
use crate::placement::Placement;
use crate::port::{State, XdpPort};
use crate::queue::{Queue, QueueError, QueueShape, Step};
use crate::transmit::Limits;
use crate::umem;

/// Entries of the fill and receive ring unless `ring=` says otherwise: enough to ride out a pause of a few milliseconds at a
/// million packets a second. Rings of 2,048 were seen to lose packets at a fifth of that.
const RING_DEFAULT: u64 = 8192;

/// Most entries of the transmit ring. The kernel sends when it is kicked, so more only take memory.
const TRANSMIT_RING_MAX: u32 = 2048;

/// Packets that the kernel sends in one call unless it is told otherwise, and the least that it can be told.
const BUDGET_MIN: u64 = 32;

const OPTIONS: [&str; 10] =
    ["native", "generic", "zerocopy", "copy", "frags", "ring=N", "budget=N", "queues=N", "tx_only", "promisc=yes|no"];

/// What the spec asks for.
struct Wishes {
    mode: ModeWanted,
    /// `XDP_ZEROCOPY`, `XDP_COPY` or 0.
    copy_flag: u16,
    frags: bool,
    ring: u32,
    budget: Option<u32>,
    first_queue: u32,
    queues: u32,
    receives: bool,
    promiscuous: bool,
}

/// Opens `xdp:IF[@queue]` with the frames of `pool`, in the calling thread's network namespace.
///
/// # Errors
/// [`OpenError`] with what is missing (an interface, a capability, a free queue, a mode of the driver) and what to do.
pub fn open(mut spec: PortSpec, pool: &Pool) -> Result<XdpPort, OpenError> {
    let wishes = Wishes::read(&mut spec).map_err(|error| OpenError::new(&spec, error.problem, ""))?;
    let opener = Opener { spec: &spec, pool, wishes };
    let device = opener.device()?;
    opener.open(device)
}

impl Wishes {
    fn read(spec: &mut PortSpec) -> Result<Wishes, SpecError> {
        let (native, generic) = (spec.take_flag("native")?, spec.take_flag("generic")?);
        let (zerocopy, copy) = (spec.take_flag("zerocopy")?, spec.take_flag("copy")?);
        if native && generic || zerocopy && copy || zerocopy && generic {
            return Err(
                spec.error("of native and generic, zerocopy and copy, zerocopy and generic only one is possible")
            );
        }
        let ring = spec.take_number("ring", 64, 1 << 20)?.unwrap_or(RING_DEFAULT);
        if !ring.is_power_of_two() {
            return Err(spec.error(format!("ring={ring}: a ring has a power of two entries")));
        }
        let transmit = (ring as u32).min(TRANSMIT_RING_MAX);
        let wishes = Wishes {
            mode: match (native, generic) {
                (true, _) => ModeWanted::Native,
                (_, true) => ModeWanted::Generic,
                _ => ModeWanted::Best,
            },
            copy_flag: match (zerocopy, copy || generic) {
                (true, _) => libc::XDP_ZEROCOPY,
                (_, true) => libc::XDP_COPY,
                _ => 0,
            },
            frags: spec.take_flag("frags")?,
            ring: ring as u32,
            budget: spec.take_number("budget", BUDGET_MIN, transmit.into())?.map(|packets| packets as u32),
            first_queue: spec.queue.unwrap_or(0),
            queues: spec.take_number("queues", 1, 1024)?.unwrap_or(1) as u32,
            receives: !spec.take_flag("tx_only")?,
            promiscuous: match spec.take("promisc").as_deref() {
                None | Some("yes") => true,
                Some("no") => false,
                Some(other) => return Err(spec.error(format!("promisc={other}: promisc takes yes or no"))),
            },
        };
        spec.finish(&OPTIONS)?;
        Ok(wishes)
    }

    fn transmit_entries(&self) -> u32 {
        self.ring.min(TRANSMIT_RING_MAX)
    }

    fn last_queue(&self) -> u32 {
        self.first_queue.saturating_add(self.queues - 1)
    }
}

/// The steps, with what all of them need.
struct Opener<'a> {
    spec: &'a PortSpec,
    pool: &'a Pool,
    wishes: Wishes,
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

    fn open(&self, owned: Netdev) -> Result<XdpPort, OpenError> {
        let device = &owned;
        let read = |error: io::Error| self.error(error.to_string(), "");
        let (ifindex, mtu) = (device.index().map_err(read)?, device.mtu().map_err(read)? as usize);
        let limits = self.limits(mtu)?;
        let mut queues = match self.wishes.copy_flag {
            // Zero-copy if the driver can; what stands in the way of both is told by the second attempt.
            0 => self.queues(device, ifindex, limits, libc::XDP_ZEROCOPY),
            flag => self.queues(device, ifindex, limits, flag),
        }
        .or_else(|error| match self.wishes.copy_flag {
            0 => self.queues(device, ifindex, limits, libc::XDP_COPY),
            _ => Err(error),
        })?;
        let attachment = match self.wishes.receives {
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
        for queue in &mut queues {
            if let Some(side) = &mut queue.receive {
                side.completes = completes;
            }
            if let Some(program) = &attachment {
                program.add(queue.number, &queue.socket).map_err(|error| self.bpf_error(error))?;
            }
        }
        let caps = self.caps(device, limits, &queues, attachment.as_deref());
        Ok(XdpPort {
            _attachment: attachment,
            _promiscuous: self.promiscuous(ifindex)?,
            queues,
            caps,
            device: owned,
            mtu_calls: 0,
            since_wait: 0,
            frags: self.wishes.frags,
            turn: 0,
            idle_calls: 0,
            state: State::Sound,
        })
    }

    fn promiscuous(&self, ifindex: u32) -> Result<Option<Promiscuous>, OpenError> {
        if !self.wishes.receives || !self.wishes.promiscuous {
            return Ok(None);
        }
        let hold = Promiscuous::hold(ifindex);
        hold.map(Some)
            .map_err(|error| self.error(format!("promiscuous mode: {error}"), "add promisc=no to do without it"))
    }

    fn limits(&self, mtu: usize) -> Result<Limits, OpenError> {
        let longest = longest(mtu);
        let room = Placement::Aligned.receive_len_max(self.pool);
        if self.wishes.receives && !self.wishes.frags && longest > room {
            let cause = format!("an MTU of {mtu} makes packets that one frame cannot take: {room} bytes");
            return Err(
                self.error(cause, format!("add ,frags or `ip link set {} mtu {}`", self.spec.target, room - 18))
            );
        }
        let frags_max = if self.wishes.frags { abi::SEGMENTS_MAX } else { 1 };
        Ok(Limits { frame_len_max: Limits::frame_len_max(mtu, frags_max, self.pool.region()), frags_max })
    }

    /// Coloured where the kernel copies and packets are short enough for it.
    fn placement(&self, limits: Limits, copy_flag: u16) -> Placement {
        let coloured = Placement::coloured(self.pool);
        let fits = self.wishes.frags || longest(limits.frame_len_max - 14) <= coloured.receive_len_max(self.pool);
        if copy_flag == libc::XDP_COPY && fits { coloured } else { Placement::Aligned }
    }

    fn queues(&self, device: &Netdev, ifindex: u32, limits: Limits, copy_flag: u16) -> Result<Vec<Queue>, OpenError> {
        let wishes = &self.wishes;
        let frags_flag = if wishes.frags { libc::XDP_USE_SG } else { 0 };
        let share = match wishes.receives {
            true => umem::receive_share(self.pool, wishes.ring, wishes.queues as usize)
                .map_err(|cause| self.error(cause, "open it on a larger pool, or add ,tx_only to only send"))?,
            false => 0,
        };
        let open = |number: u32| {
            let sends = number == wishes.first_queue;
            let shape = QueueShape {
                ifindex,
                queue: number,
                receive_entries: if wishes.receives { wishes.ring } else { 0 },
                receive_share: share,
                transmit_entries: if sends { wishes.transmit_entries() } else { 0 },
                budget: wishes.budget,
                placement: self.placement(limits, copy_flag),
                flags: copy_flag | frags_flag | libc::XDP_USE_NEED_WAKEUP,
                limits,
            };
            Queue::open(self.pool, shape).map_err(|error| self.queue_error(device, number, error))
        };
        // A sender needs no more than the first queue.
        let last = if wishes.receives { wishes.last_queue() } else { wishes.first_queue };
        (wishes.first_queue..=last).map(open).collect()
    }

    fn attach(&self, ifindex: u32) -> Result<Arc<Attachment>, OpenError> {
        let (wishes, name) = (&self.wishes, &self.spec.target);
        let queues = wishes.last_queue().saturating_add(1);
        Attachment::shared(ifindex, queues, wishes.mode, wishes.frags).map_err(|error| match error {
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
            BpfError::MtuTooLarge { .. } => "add ,frags, or ,generic, or lower the MTU".into(),
            BpfError::Unsupported { .. } => "leave out ,native".into(),
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
            (Step::Bind, Some(libc::EOPNOTSUPP)) => {
                self.error(format!("the driver of {name} has no AF_XDP in this mode"), "leave out ,zerocopy and ,frags")
            }
            (Step::Bind, Some(libc::EINVAL)) => {
                let queues = device.channels().ok().flatten().map(|c| c.rx.0.max(c.tx.0) + c.combined.0);
                match queues {
                    Some(count) if queue >= count => {
                        self.error(format!("{name} has no queue {queue}"), format!("it has {count}, from 0 on"))
                    }
                    _ => self.error(format!("queue {queue} of {name} cannot be bound"), "leave out ,frags"),
                }
            }
            (step, _) => self.error(format!("{step:?}: {}", error.source), ""),
        }
    }

    fn caps(&self, device: &Netdev, limits: Limits, queues: &[Queue], program: Option<&Attachment>) -> Caps {
        let (wishes, zero_copy) = (&self.wishes, queues[0].zero_copy);
        let receives = match (program, queues[0].receive.as_ref()) {
            (Some(program), Some(side)) => {
                let mode = if program.is_native() { "native" } else { "generic" };
                let why = program.native_refused().map(|why| format!(" ({why})")).unwrap_or_default();
                format!("{mode} XDP{why}, {}-entry rings, {} frames to receive into", wishes.ring, side.lent())
            }
            _ => "no program, only sends".into(),
        };
        let speed_mbps = device.speed_mbps().ok().flatten();
        Caps {
            name: match self.spec.to_string() {
                plain if plain == format!("xdp:{}", self.spec.target) => format!("{plain}@{}", wishes.first_queue),
                full => full,
            },
            backend: "xdp",
            receives: wishes.receives,
            transmits: true,
            frame_len_max: limits.frame_len_max,
            frags_max: limits.frags_max,
            zero_copy: true,
            copies: match zero_copy {
                true => "nothing is copied, the device uses the frames",
                false => "the kernel copies each packet between its frame and an skb",
            },
            detail: format!("{receives}, {}, need-wakeup", if zero_copy { "zero-copy" } else { "copy mode" }),
            link_bps: speed_mbps.map(|speed| u64::from(speed) * 1_000_000),
            mac: device.mac().ok(),
            queues: queues.len(),
            timestamps: false,
            async_tx: true,
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
