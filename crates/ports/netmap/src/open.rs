//! From a spec to an open device: the requests to netmap, and what their errors mean.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use linerate_mem::Pool;
use linerate_port::{Caps, Device, FarSide, OpenError, PortSpec, RxRing};
use linerate_sys::netdev::{self, Netdev};
use linerate_sys::promiscuous::Promiscuous;

use crate::abi::{self, Register};
use crate::exchange::Exchange;
use crate::name::{Kind, PortName, Rings};
use crate::port::{FRAGS_MAX, Held, NetmapPort};
use crate::receive::Receiver;
use crate::ring::{Ring, Taker};
use crate::sys::{Area, BUFFERS_SETTING, Control, INSTALL, RingMemory};
use crate::transmit::Sender;

/// Bytes of an Ethernet header, and of a VLAN tag.
const ETHERNET_BYTES: usize = 14;
const VLAN_BYTES: usize = 4;
/// Longest packet of ports without an MTU.
const LEN_MAX: usize = 65_535;
/// How long an interface may take to get its carrier back: a driver stops and starts it when netmap takes it.
const CARRIER_WAIT: Duration = Duration::from_secs(4);
/// Options of this backend, for its error about others.
const KNOWN: [&str; 15] = [
    "queues",
    "promisc",
    "zerocopy",
    "tx_only",
    "rx_only",
    "slots",
    "tx-slots",
    "rx-slots",
    "rings",
    "tx-rings",
    "rx-rings",
    "host-rings",
    "host-tx-rings",
    "host-rx-rings",
    "mem",
];

/// Whether this kernel has netmap, and this process may use it.
///
/// # Errors
/// What is missing, and what to do.
pub fn probe() -> Result<(), OpenError> {
    Control::open().map(drop).map_err(|error| missing(&"netmap:", &error))
}

/// Opens the ring pairs of the port that the spec's target names, each as a port, in the calling thread's network namespace.
///
/// # Errors
/// This kernel has no netmap, or netmap does not give the port: with what to do.
pub fn open(mut spec: PortSpec, pool: &Pool) -> Result<Device<NetmapPort>, OpenError> {
    let request = Request::take(&mut spec)?;
    Control::open().map_err(|error| missing(&spec, &error))?;
    let opener = Opener { spec: &spec, request: &request, pool };
    let device = opener.interface()?;
    let was_running = device.as_ref().is_some_and(|(device, _)| device.is_running().unwrap_or(false));
    let bound = opener.bind_all()?;
    if let Some((device, _)) = device.as_ref().filter(|_| was_running) {
        // One that stays down is seen by the link.
        let _ = device.wait_until_running(CARRIER_WAIT);
    }
    let promiscuous = opener.promiscuous(device.as_ref())?;
    let single = bound.len() == 1;
    let mut ports = Vec::with_capacity(bound.len());
    for one in bound {
        let interface = opener.interface()?;
        ports.push(opener.port(one, interface, promiscuous.clone(), single)?);
    }
    let more = ports.split_off(1.min(ports.len()));
    let first = ports.pop().ok_or_else(|| OpenError::new(&spec, "it has no rings", ""))?;
    let name = if more.is_empty() { first.caps.name.clone() } else { spec.to_string() };
    Ok(Device::new(name, first, more))
}

/// What a spec asks for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) name: PortName,
    /// Numbers of slots and rings, and the area; 0 where the kernel chooses.
    pub(crate) register: Register,
    receives: bool,
    transmits: bool,
    promiscuous: bool,
    /// The number of ring pairs to open; `None` for all.
    pairs: Option<usize>,
}

impl Request {
    pub(crate) fn take(spec: &mut PortSpec) -> Result<Request, OpenError> {
        if let Some(queue) = spec.options.first_queue.filter(|_| spec.wrote("@")) {
            let cause = format!("@{queue} could be a ring pair or a memory area");
            let hint =
                format!("write netmap:{}-{queue} for ring pair {queue}, or mem={queue} for the area", spec.target);
            return Err(OpenError::new(&*spec, cause, hint));
        }
        let name = PortName::parse(&spec.target).map_err(|problem| {
            let hint =
                "write netmap:eth1, netmap:eth1-0, netmap:eth1^, netmap:vale0:a or netmap:eth1{1 (docs/netmap.md)";
            OpenError::new(&*spec, format!("{:?} {problem}", spec.target), hint)
        })?;
        let mut number = |names: &[&str], most: u64| {
            let mut found = 0;
            for name in names {
                // As netmap's library, with dashes or underscores.
                let written = [*name, &name.replace('-', "_")].map(|name| spec.take_number(name, 0, most));
                for given in written {
                    found = given.map_err(|error| OpenError::new(&error.text, error.problem, ""))?.unwrap_or(found);
                }
            }
            Ok::<u64, OpenError>(found)
        };
        let slots = number(&["slots"], 1 << 20)? as u32;
        let (rings, host_rings) = (number(&["rings"], 4094)? as u16, number(&["host-rings"], 4094)? as u16);
        let or = |given: u64, general: u64| if given == 0 { general } else { given };
        let register = Register {
            tx_slots: or(number(&["tx-slots"], 1 << 20)?, slots.into()) as u32,
            rx_slots: or(number(&["rx-slots"], 1 << 20)?, slots.into()) as u32,
            tx_rings: or(number(&["tx-rings"], 4094)?, rings.into()) as u16,
            rx_rings: or(number(&["rx-rings"], 4094)?, rings.into()) as u16,
            host_tx_rings: or(number(&["host-tx-rings"], 4094)?, host_rings.into()) as u16,
            host_rx_rings: or(number(&["host-rx-rings"], 4094)?, host_rings.into()) as u16,
            memory: number(&["mem"], u64::from(u16::MAX))? as u16,
            flags: name.flags,
            ..Register::default()
        };
        spec.finish(&KNOWN).map_err(|error| OpenError::new(error.text, error.problem, ""))?;
        let options = &spec.options;
        let receives = options.receives() && name.flags & abi::TX_RINGS_ONLY == 0;
        let transmits = options.transmits() && name.flags & abi::RX_RINGS_ONLY == 0 && name.kind != Kind::Monitor;
        if !receives && !transmits {
            return Err(OpenError::new(
                &*spec,
                "no ring is left in this direction",
                "leave out the flag or the option",
            ));
        }
        let pairs = options.queues.map(|queues| queues as usize);
        let pairs = pairs.or_else(|| (!receives).then(|| options.threads.unwrap_or(1)));
        let promiscuous = options.promiscuous.unwrap_or(true) && receives;
        Ok(Request { name, register, receives, transmits, promiscuous, pairs })
    }
}

/// A descriptor that is bound to one ring pair.
struct Bound {
    control: Control,
    area: Arc<Area>,
    granted: Register,
    /// Indices of the rings among those of the port, the host's behind the interface's; `None` where there is none.
    transmit: Option<u32>,
    receive: Option<u32>,
    /// What names the pair alone: `-0`, `^1`.
    suffix: String,
}

struct Opener<'a> {
    spec: &'a PortSpec,
    request: &'a Request,
    pool: &'a Pool,
}

impl Opener<'_> {
    fn error(&self, cause: impl Into<String>, hint: impl Into<String>) -> OpenError {
        OpenError::new(self.spec, cause, hint)
    }

    /// The interface that the port stands on, and its index.
    fn interface(&self) -> Result<Option<(Netdev, u32)>, OpenError> {
        let name = &self.request.name;
        let stands_on_one =
            matches!(name.kind, Kind::Interface | Kind::Monitor) && !name.port.contains([':', '{', '}']);
        if !stands_on_one {
            return Ok(None);
        }
        let open = || Netdev::open(&name.port).and_then(|device| device.index().map(|index| (device, index)));
        open().map(Some).map_err(|error| {
            let names = netdev::names().unwrap_or_default().join(", ");
            self.error(error.to_string(), format!("there are {names}; a switch's port is netmap:valeS:P"))
        })
    }

    fn promiscuous(&self, device: Option<&(Netdev, u32)>) -> Result<Option<Arc<Promiscuous>>, OpenError> {
        let Some((_, index)) = device.filter(|_| self.request.promiscuous) else { return Ok(None) };
        Promiscuous::hold(*index)
            .map(|hold| Some(Arc::new(hold)))
            .map_err(|error| self.error(format!("promiscuous mode: {error}"), "add promisc=no to do without it"))
    }

    /// Binds a descriptor to each ring pair that was asked for.
    fn bind_all(&self) -> Result<Vec<Bound>, OpenError> {
        let mut bound = match self.request.name.rings {
            Rings::All => self.all(abi::ALL_RINGS)?,
            Rings::One(ring) => vec![self.one(abi::ONE_RING, ring)?],
            Rings::Host => self.all(abi::ONE_HOST_RING)?,
            Rings::OneHost(ring) => vec![self.one(abi::ONE_HOST_RING, ring)?],
            Rings::AllAndHost => {
                let mut both = self.all(abi::ALL_RINGS)?;
                both.extend(self.all(abi::ONE_HOST_RING)?);
                both
            }
        };
        if let Some(pairs) = self.request.pairs {
            if self.spec.wrote("queues") && bound.len() < pairs {
                let cause = format!("it has {} ring pairs, fewer than {pairs}", bound.len());
                return Err(self.error(cause, "ask for fewer with queues=N"));
            }
            bound.truncate(pairs.max(1));
        }
        Ok(bound)
    }

    /// All ring pairs of the interface, or of the host's stack. Where there is more than one, each gets a descriptor of its own.
    fn all(&self, mode: u32) -> Result<Vec<Bound>, OpenError> {
        let first = self.one(mode, 0)?;
        let granted = first.granted;
        let (transmit, receive) = match mode {
            abi::ALL_RINGS => (granted.tx_rings, granted.rx_rings),
            _ => (granted.host_tx_rings, granted.host_rx_rings),
        };
        let pairs = u32::from(if self.request.receives { receive } else { transmit });
        if pairs <= 1 && transmit <= 1 {
            return Ok(vec![first]);
        }
        // The port stays in being for as long as one descriptor is bound to it; who wants rings alone cannot bind them twice.
        let _kept = (self.request.name.flags & abi::EXCLUSIVE == 0).then_some(first);
        let mode = if mode == abi::ALL_RINGS { abi::ONE_RING } else { mode };
        (0..pairs).map(|ring| self.one(mode, ring)).collect()
    }

    fn one(&self, mode: u32, ring: u32) -> Result<Bound, OpenError> {
        let control = Control::open().map_err(|error| missing(self.spec, &error))?;
        let mut granted = Register { mode, ring: ring as u16, ..self.request.register };
        control
            .register(&self.request.name.port, &mut granted)
            .map_err(|error| refused(self.spec, &self.request.name, &error))?;
        let area = Area::map(&control, granted.area_bytes)
            .map_err(|error| self.error(format!("cannot map netmap's memory: {error}"), ""))?;
        area.forget_extra(granted.offset);
        let is_host = mode == abi::ONE_HOST_RING;
        let (transmit, receive, before) = if is_host {
            (granted.host_tx_rings, granted.host_rx_rings, (granted.tx_rings, granted.rx_rings))
        } else {
            (granted.tx_rings, granted.rx_rings, (0, 0))
        };
        let index = |wanted: bool, count: u16, before: u16| {
            (wanted && ring < u32::from(count)).then(|| u32::from(before) + ring)
        };
        let transmit = index(self.request.transmits, transmit, before.0);
        let receive = index(self.request.receives, receive, before.1);
        if transmit.is_none() && receive.is_none() {
            return Err(self.error(format!("it has no ring {ring} in this direction"), "rings are counted from 0"));
        }
        let suffix = format!("{}{ring}", if is_host { '^' } else { '-' });
        Ok(Bound { control, area: Arc::new(area), granted, transmit, receive, suffix })
    }

    fn port(
        &self,
        bound: Bound,
        interface: Option<(Netdev, u32)>,
        promiscuous: Option<Arc<Promiscuous>>,
        single: bool,
    ) -> Result<NetmapPort, OpenError> {
        let broken = |what: String| self.error(format!("netmap's memory holds {what}"), "");
        let area = &bound.area;
        let ring = |receives: bool, index: u32| {
            let place = area.ring_place(bound.granted.offset, receives, index);
            let place = place.ok_or_else(|| broken(format!("no ring {index}")))?;
            let memory = RingMemory::new(area, place).map_err(broken)?;
            Ring::new(memory).map_err(|corrupt| broken(corrupt.0))
        };
        // Two veth interfaces in netmap's native mode are joined as the ends of a pipe are.
        let is_veth = |(device, _): &(Netdev, u32)| {
            device.driver_info().is_ok_and(|info| info.is_some_and(|info| info.driver == "veth"))
        };
        let joined = self.request.name.kind == Kind::Pipe || interface.as_ref().is_some_and(is_veth);
        let taker = match self.request.name.kind {
            _ if joined => Taker::Reader,
            Kind::Vale => Taker::Switch,
            _ => Taker::Device,
        };
        let exchange = Exchange::of(self.pool, bound.granted.memory);
        if exchange.is_none() && self.spec.options.zero_copy == Some(true) {
            let hint = "zerocopy is for bridge, send, receive, pkt-gen and capture, whose frames can be its buffers; leave it out";
            return Err(self.error("this pool is not made of the port's buffers", hint));
        }
        let receiver = bound
            .receive
            .map(|index| ring(true, index).map(|ring| Receiver::new(ring, joined, exchange.clone())))
            .transpose()?;
        let mtu = interface.as_ref().map(|(device, _)| device.mtu().unwrap_or(1500) as usize);
        let wanted = mtu.map_or(LEN_MAX, |mtu| mtu + ETHERNET_BYTES + VLAN_BYTES);
        let sender = bound
            .transmit
            .map(|index| ring(false, index).map(|ring| Sender::new(ring, wanted, taker, exchange.clone())))
            .transpose()?;
        let mut caps = self.caps(&bound, interface.as_ref(), single, wanted, (receiver.as_ref(), sender.as_ref()));
        if exchange.is_some() {
            caps.zero_copy = true;
            caps.copies =
                "buffers of netmap change hands; packets that do not begin at the first byte of theirs are copied";
        }
        Ok(NetmapPort {
            caps,
            receiver,
            sender,
            pool: self.pool.clone(),
            control: bound.control,
            held: Held { _promiscuous: promiscuous, interface },
            sleeps: false,
            patient: false,
            corrupt: None,
            lost: None,
        })
    }

    fn caps(
        &self,
        bound: &Bound,
        interface: Option<&(Netdev, u32)>,
        single: bool,
        len_max: usize,
        (receiver, sender): (Option<&Receiver>, Option<&Sender>),
    ) -> Caps {
        let name = &self.request.name;
        let device = interface.map(|(device, _)| device);
        let granted = &bound.granted;
        let text = match name.rings {
            _ if single => self.spec.to_string(),
            _ => format!("netmap:{}{}", name.port, bound.suffix),
        };
        let what = match name.kind {
            Kind::Interface => "interface",
            Kind::Vale => "port of the kernel's VALE switch",
            Kind::Pipe => "end of a pipe",
            Kind::Monitor => "monitor",
        };
        Caps {
            name: text,
            backend: "netmap",
            receives: receiver.is_some(),
            transmits: sender.is_some(),
            frame_len_max: sender.map_or(len_max, |side| side.frame_len_max),
            frags_max: FRAGS_MAX,
            zero_copy: false,
            copies: "each packet is copied to or from a buffer of netmap",
            detail: format!(
                "{what}, {} and {} rings, {} and {} slots to send and to receive, memory area {}",
                granted.tx_rings, granted.rx_rings, granted.tx_slots, granted.rx_slots, granted.memory
            ),
            link_bps: device
                .and_then(|device| device.speed_mbps().ok().flatten())
                .map(|speed| u64::from(speed) * 1_000_000),
            mac: device.and_then(|device| device.mac().ok()),
            far_side: if device.is_some() { FarSide::Interface } else { FarSide::Peer },
            rx_ring: receiver.map(|side| {
                let memory = &side.ring.memory;
                RxRing::of_frames(u64::from(memory.slots() - 1), memory.buffer_bytes() as u64)
            }),
            async_tx: name.kind != Kind::Pipe,
            sleep_syncs: true,
            ..Caps::default()
        }
    }
}

/// Why netmap does not give a port.
pub(crate) fn refused(spec: &PortSpec, name: &PortName, error: &io::Error) -> OpenError {
    let refuse = |cause: String, hint: &str| OpenError::new(spec, cause, hint);
    match error.raw_os_error() {
        Some(libc::ENXIO | libc::ENODEV | libc::ENOENT) => refuse(
            format!("netmap finds no port {}", name.port),
            "name an interface, vale0:a for a port of the kernel's switch, or eth1{1 for a pipe",
        ),
        Some(libc::EBUSY) => refuse(
            "its rings are in use: somebody has them alone (/x), or it is attached to a switch of the kernel".into(),
            "end the other user; `vale-ctl` shows what is attached",
        ),
        Some(libc::ENOMEM) => refuse(
            "netmap has no memory left for its rings and buffers".into(),
            &format!("close other ports, ask for fewer slots or rings, or raise {BUFFERS_SETTING}"),
        ),
        Some(libc::EINVAL) if name.kind == Kind::Monitor => refuse(
            format!("nobody has {} in netmap mode, and only then its packets can be copied", name.port),
            "open the port that is to be watched first, as it is to be opened here: all rings, or one",
        ),
        Some(libc::EINVAL) if matches!(name.rings, Rings::One(_) | Rings::OneHost(_)) => refuse(
            format!("{} has no ring pair of this number", name.port),
            "ring pairs are counted from 0; without a number all of them are opened",
        ),
        Some(libc::EOPNOTSUPP) => refuse(
            "this netmap was built without what the name asks for (VALE, pipes, monitors)".into(),
            "configure netmap with it (docs/netmap.md)",
        ),
        _ => refuse(
            format!("netmap refuses it: {error}"),
            "the kernel's log (dmesg) says why; a version of netmap's interface other than 14 is refused like this",
        ),
    }
}

/// Why this process cannot use netmap.
pub(crate) fn missing(spec: &dyn std::fmt::Display, error: &io::Error) -> OpenError {
    let (cause, hint) = match error.kind() {
        io::ErrorKind::NotFound => {
            (format!("this kernel has no netmap ({} is missing)", abi::DEVICE), INSTALL.to_string())
        }
        io::ErrorKind::PermissionDenied => {
            (format!("{} may not be opened", abi::DEVICE), format!("run as root, or `chmod` {}", abi::DEVICE))
        }
        _ => (format!("{}: {error}", abi::DEVICE), "load netmap's module (docs/netmap.md)".to_string()),
    };
    OpenError::new(spec, cause, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_calls_invalid_is_said_in_words() {
        for (name, words) in
            [("eth1/r", "in netmap mode"), ("eth1-7", "ring pair"), ("eth1^3", "ring pair"), ("eth1", "a version")]
        {
            let parsed = PortName::parse(name).expect(name);
            let invalid = io::Error::from_raw_os_error(libc::EINVAL);
            let error = refused(&PortSpec::new("netmap", name), &parsed, &invalid).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
