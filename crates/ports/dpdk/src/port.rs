//! One queue pair of a device.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use linerate_mem::{Batch, Pool};
use linerate_port::{
    Caps, Drops, FarSide, Interest, LinkState, Port, PortError, PortSpec, Readiness, Stats, complete_checksums,
};

use crate::device::OpenDevice;
use crate::offload::Offload;
use crate::sys::{self, Queue};

/// Bytes of an Ethernet header, and of a VLAN tag.
const ETHERNET_BYTES: usize = 14;
const VLAN_BYTES: usize = 4;
/// mbufs of one packet, at most, where the device takes several.
const FRAGS_MAX: usize = 8;
/// Pause after which a port that was full may have room.
const FULL_PAUSE: Duration = Duration::from_millis(2);
/// Pause between two looks of `wait`, because a driver that is polled wakes nobody.
const NAP: Duration = Duration::from_micros(50);

/// What decides whether packets may be handed on from one port to another.
#[derive(Clone, Copy)]
struct Handing {
    /// Address of the store whose mbufs the device has; 0 if it takes part in no handing on.
    store: usize,
    /// Nobody has to do anything about the checksums of what the device receives.
    gives: bool,
    len_max: usize,
    frags_max: usize,
}

impl Handing {
    fn new(caps: &Caps, device: &OpenDevice) -> Handing {
        let info = &device.info;
        let takes_part = caps.hands_on && info.copies == 0;
        Handing {
            store: if takes_part { Arc::as_ptr(&device.store).addr() } else { 0 },
            gives: takes_part && (info.rx_flags == 0 || info.is_hardware != 0),
            len_max: caps.frame_len_max,
            frags_max: caps.frags_max,
        }
    }

    /// Whether what arrives here can leave there as it is.
    #[inline]
    fn fits(&self, far: &Handing) -> bool {
        self.gives && self.store == far.store && self.len_max <= far.len_max && self.frags_max <= far.frags_max
    }
}

/// The port of one queue pair.
pub struct DpdkPort {
    queue: Queue,
    handing: Handing,
    pool: Pool,
    caps: Caps,
    stats: Stats,
    /// The last `transmit` left packets.
    full: bool,
    index: u16,
    offload: Offload,
    device: Arc<OpenDevice>,
}

impl DpdkPort {
    /// The port of queue pair `index`; `hands_on`: it may hand packets on unseen.
    pub(crate) fn new(spec: &PortSpec, device: &Arc<OpenDevice>, index: u16, pool: &Pool, hands_on: bool) -> DpdkPort {
        let caps = caps(spec, device, index, pool, hands_on);
        let limits = (caps.frame_len_max, caps.frags_max);
        let queue = Queue::new(&device.info, index, &device.store, pool, limits);
        DpdkPort {
            queue,
            handing: Handing::new(&caps, device),
            pool: pool.clone(),
            caps,
            stats: Stats::default(),
            full: false,
            index,
            offload: Offload::of(&device.info),
            device: Arc::clone(device),
        }
    }

    /// The error for the packet at the front of the batch, if it is one that this port never takes.
    #[cold]
    fn refuse_front(&self, batch: &Batch) -> Result<(), PortError> {
        match batch.span(0) {
            Some(span) if span.len > self.caps.frame_len_max || span.slots > self.caps.frags_max => {
                let (port, max) = (self.caps.name.clone(), self.caps.frame_len_max);
                Err(PortError::FrameTooLong { port, len: span.len, max })
            }
            _ => Ok(()),
        }
    }
}

fn caps(spec: &PortSpec, device: &OpenDevice, index: u16, pool: &Pool, hands_on: bool) -> Caps {
    let info = &device.info;
    let driver = info.driver_name();
    let copies = info.copies != 0;
    let frags_max = if copies || info.multi_segment != 0 { FRAGS_MAX } else { 1 };
    let mut frame_len_max = usize::from(info.mtu) + ETHERNET_BYTES + VLAN_BYTES;
    if frags_max == 1 {
        frame_len_max = frame_len_max.min(pool.region().frame_size());
    }
    let name = if info.queues > 1 { spec.at_queue(index.into()) } else { spec.to_string() };
    let unseen = if hands_on { ", hands packets on unseen to another such port" } else { "" };
    let rss = if info.rss != 0 { ", RSS" } else { "" };
    let memory = if copies { "mbufs of its own" } else { "mbufs over the pool's frames" };
    Caps {
        name,
        backend: "dpdk",
        receives: spec.options.receives(),
        transmits: spec.options.transmits(),
        frame_len_max,
        frags_max,
        zero_copy: !copies,
        copies: if copies { "each packet is copied to or from an mbuf" } else { "nothing is copied up to the driver" },
        detail: format!(
            "{}, driver {driver}, {} of {} queues{rss}, {memory}, {}{unseen}",
            sys::version(),
            info.queues,
            info.max_queues,
            Offload::of(info)
        ),
        hands_on,
        link_bps: (1..u32::MAX).contains(&info.speed_mbps).then(|| u64::from(info.speed_mbps) * 1_000_000),
        mac: (info.mac != [0; 6]).then_some(info.mac),
        far_side: match driver.as_str() {
            "net_null" => FarSide::Nothing,
            "net_ring" => FarSide::Process,
            "net_memif" | "net_virtio_user" | "net_vhost" => FarSide::Peer,
            "net_pcap" => FarSide::File,
            _ => FarSide::Interface,
        },
        async_tx: !matches!(driver.as_str(), "net_ring" | "net_memif" | "net_virtio_user" | "net_vhost"),
        ..Caps::default()
    }
}

impl Port for DpdkPort {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        sys::register_thread();
        let moved = self.queue.receive(batch);
        self.stats.rx_packets += moved.packets as u64;
        self.stats.rx_bytes += moved.bytes;
        Ok(moved.packets)
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        sys::register_thread();
        let moved = if self.device.info.offloads != 0 && batch.has_checksum_flags() {
            self.offload.transmit(&mut self.queue, batch, self.caps.frame_len_max)
        } else {
            complete_checksums(batch);
            self.queue.transmit(batch, usize::MAX)
        };
        self.stats.tx_packets += moved.packets as u64;
        self.stats.tx_bytes += moved.bytes;
        self.full = !batch.is_empty();
        if moved.packets == 0 {
            self.refuse_front(batch)?;
        }
        Ok(moved.packets)
    }

    #[inline]
    fn hand_on(&mut self, to: &mut dyn Port) -> usize {
        let Some(far) = to.as_any().and_then(|port| port.downcast_mut::<DpdkPort>()) else { return 0 };
        if !self.handing.fits(&far.handing) {
            return 0;
        }
        sys::register_thread();
        let packets = self.queue.hand_on(&mut far.queue);
        self.stats.rx_packets += packets as u64;
        self.stats.rx_unsized += packets as u64;
        far.stats.tx_packets += packets as u64;
        far.stats.tx_unsized += packets as u64;
        packets
    }

    fn as_any(&mut self) -> Option<&mut dyn Any> {
        Some(self)
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        sys::register_thread();
        let end = Instant::now() + Duration::from_nanos(timeout_ns);
        if interest == Interest::Transmit {
            // Drivers do not say when their ring has room again: after a pause it is worth a try.
            let (asked, pause) =
                (Duration::from_nanos(timeout_ns), if self.full { FULL_PAUSE } else { Duration::ZERO });
            std::thread::sleep(pause.min(asked));
            return Ok(if self.full && asked <= pause { Readiness::TimedOut } else { Readiness::Ready });
        }
        while !self.queue.has_packets() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Readiness::TimedOut);
            }
            std::thread::sleep(NAP.min(left));
        }
        Ok(Readiness::Ready)
    }

    fn link(&mut self) -> Result<LinkState, PortError> {
        let port = self.device.info.port;
        if sys::is_removed(port) {
            return Err(PortError::Gone { port: self.caps.name.clone(), what: "the device was removed".into() });
        }
        Ok(if sys::link_is_up(port).unwrap_or(true) { LinkState::Up } else { LinkState::Down })
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        let mut stats = self.stats.clone();
        let (too_long, no_frame) = self.queue.dropped();
        let row = |cause: &str, packets| Drops { place: self.caps.name.clone(), cause: cause.into(), packets };
        stats.rx_drops = vec![row("longer than a batch takes", too_long), row("no free frame", no_frame)];
        // What counts for the whole device is told by its first queue.
        if self.index == 0 {
            stats.rx_drops.extend(self.device.receive_drops());
            let errors = self.device.transmit_errors().min(stats.tx_packets);
            stats.tx_packets -= errors;
            stats.tx_drops = vec![row("tx_errors of the driver", errors)];
        }
        stats.rx_drops.retain(|row| row.packets > 0);
        stats.tx_drops.retain(|row| row.packets > 0);
        Ok(stats)
    }
}

impl Drop for DpdkPort {
    fn drop(&mut self) {
        sys::register_thread();
        self.queue.close(self.device.keeps_mbufs());
        self.device.store.flush();
    }
}
