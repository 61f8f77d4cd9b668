//! The way out: free frames, the layer below, and the packets that leave with the next `output`.

mod datagrams;
mod header;

pub(crate) use header::{Ends, Options, Segment, Usual};

use std::cell::Cell;

use linerate_ip::{HopId, Inbound, Ip, NoRoute, Udp};
use linerate_mem::{Batch, Checksum, Pool};

use crate::tuple::Tuple;
use crate::{Now, StackConfig, StackError, Tcb};
use core::net::{IpAddr, Ipv4Addr};

/// Frames that are taken from the pool together.
const FRAMES: usize = 32;
/// Free frames at hand at most. Those of packets that arrived are written into next.
const FRAMES_MAX: usize = 256;
/// Of so many frames of the pool, one is at hand at most, unless these are fewer than [`FRAMES`]: other ports and shards need the rest.
const POOL_SHARE: usize = 64;
/// Room in the output that segments and datagrams leave to the layer below: a neighbour that is never asked, because the output is always full, would
/// count as one that does not answer.
const OWN: usize = 16;

/// The layer below TCP, and frames.
pub(crate) struct Egress {
    pub(crate) ip: Ip,
    pub(crate) udp: Udp,
    pub(crate) pool: Pool,
    /// Packets that leave with the next `output`.
    pub(crate) output: Batch,
    /// Free frames that segments are written into.
    frames: Batch,
    /// Checksums are left to the port.
    partial: bool,
    mtu: u16,
    /// When the layer below has something to do; asked for again after it was called.
    deadline_ns: Cell<Option<u64>>,
    /// Where a packet is built that has to wait for its neighbour.
    parcel: Vec<u8>,
    hops: Hops,
    selected: Selected,
}

/// The hop of the segments that leave now. Its neighbour was marked as used, and as confirmed, since the layer below last looked at neighbours, so that
/// neither has to be done for each segment.
struct Selected {
    /// [`HopId::VACANT`] if there is none.
    hop: HopId,
    confirmed: HopId,
    /// The link header in the first 14 bytes.
    link: [u8; 16],
}

impl Selected {
    const NONE: Selected = Selected { hop: HopId::VACANT, confirmed: HopId::VACANT, link: [0; 16] };
}

/// Hops that were asked for last, by addresses of IPv4. They are all forgotten when the layer below may have learned something.
struct Hops {
    known: Box<[KnownHop; HOPS]>,
    epoch: u32,
}

/// Entries of [`Hops`].
const HOPS: usize = 256;

#[derive(Clone, Copy)]
struct KnownHop {
    local: Ipv4Addr,
    remote: Ipv4Addr,
    hop: HopId,
    epoch: u32,
}

impl Hops {
    fn new() -> Hops {
        let (local, remote) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED);
        Hops { known: Box::new([KnownHop { local, remote, hop: HopId::NONE, epoch: 0 }; HOPS]), epoch: 1 }
    }

    fn entry(&mut self, remote: Ipv4Addr) -> &mut KnownHop {
        let bits = remote.to_bits();
        &mut self.known[(bits ^ bits >> 8) as usize % HOPS]
    }

    /// The hop between these addresses, if it is known.
    fn get(&mut self, local: Ipv4Addr, remote: Ipv4Addr) -> Option<HopId> {
        let epoch = self.epoch;
        let known = self.entry(remote);
        ((known.epoch == epoch) & (known.local == local) & (known.remote == remote)).then_some(known.hop)
    }

    fn forget(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        if self.epoch == 0 {
            *self = Hops::new();
        }
    }
}

impl Egress {
    pub(crate) fn new(config: &StackConfig, pool: Pool) -> Result<Egress, StackError> {
        let mut below = config.ip.clone();
        let room = pool.packet_len_max().saturating_sub(linerate_ip::LinkHeader::LEN_MAX);
        below.mtu = below.mtu.min(room.min(usize::from(u16::MAX)) as u16);
        let mtu = below.mtu;
        Ok(Egress {
            ip: Ip::new(below)?,
            udp: Udp::of_shard(config.udp_sockets_max, config.secret, config.ip.shard),
            output: Batch::new(&pool, config.output_packets + OWN),
            frames: Batch::new(&pool, (pool.region().frames() as usize / POOL_SHARE).clamp(FRAMES, FRAMES_MAX)),
            partial: config.partial_checksums,
            mtu,
            deadline_ns: Cell::new(None),
            parcel: vec![0; usize::from(mtu)],
            hops: Hops::new(),
            selected: Selected::NONE,
            pool,
        })
    }

    /// Longest IP packet, in bytes.
    pub(crate) fn mtu(&self) -> u16 {
        self.mtu
    }

    /// True if a segment can be sent now: there is a free frame, and room in the output.
    #[inline]
    pub(crate) fn can_send(&mut self) -> bool {
        self.output.room() > OWN && (!self.frames.is_empty() || self.take_frames())
    }

    /// Segments that can be sent now.
    #[inline]
    pub(crate) fn ready(&mut self) -> usize {
        if self.can_send() { (self.output.room() - OWN).min(self.frames.len()) } else { 0 }
    }

    /// Frees the packets of a batch. Frames of the stack's pool are the next that are written into: their lines are in the cache, and none goes by
    /// way of what handles of the pool share. Others go back to `pool`, which is theirs.
    #[inline]
    pub(crate) fn free(&mut self, batch: &mut Batch, pool: &mut Pool) {
        let own = &mut self.pool;
        // The frame of a packet that came alone is the next that is written into, without a way through the pool.
        if own.reuse(batch, &mut self.frames) {
            return;
        }
        own.renew(batch, &mut self.frames);
        if batch.is_empty() {
            return;
        }
        let home = if batch.is_of(own.region()) { own } else { pool };
        home.free(batch);
    }

    #[cold]
    fn take_frames(&mut self) -> bool {
        let len = self.pool.packet_len_max();
        self.pool.alloc(&mut self.frames, FRAMES, len) != 0
    }

    /// Sends a segment by way of a hop. [`Egress::can_send`] said true before; otherwise the segment is lost, as on any link. A hop that is
    /// not valid any more is replaced.
    #[inline]
    pub(crate) fn transmit(&mut self, tuple: &Tuple, hop: &mut HopId, segment: &Segment<'_>, now: Now) {
        let partial = self.partial;
        if !self.transmit_by(*hop, |frame, link| header::write(frame, link, tuple, segment, partial)) {
            self.transmit_unresolved(tuple, hop, segment, now);
        }
    }

    /// As [`Egress::transmit`], over IPv4; false if the hop is not known, and nothing was sent.
    #[inline]
    pub(crate) fn transmit_v4(&mut self, ends: Ends, hop: HopId, segment: &Segment<'_>) -> bool {
        let partial = self.partial;
        self.transmit_by(hop, |frame, link| header::write_v4(frame, link, ends, segment, partial))
    }

    /// Makes a hop the one that [`Egress::transmit_usual`] sends to; false if it is not known, or its link header has a tag.
    #[inline(always)]
    pub(crate) fn select(&mut self, hop: HopId) -> bool {
        hop == self.selected.hop || self.select_other(hop)
    }

    #[inline(never)]
    fn select_other(&mut self, hop: HopId) -> bool {
        let Some(link) = self.usual_link(hop) else { return false };
        self.selected.hop = hop;
        self.selected.link[..link.len()].copy_from_slice(&link);
        true
    }

    /// Notes that the neighbour works, because the transport made progress.
    #[inline(always)]
    pub(crate) fn confirm(&mut self, hop: HopId) {
        if hop != self.selected.confirmed {
            self.confirm_other(hop);
        }
    }

    /// True if [`Egress::confirm`] would change nothing.
    #[inline(always)]
    pub(crate) fn is_confirmed(&self, hop: HopId) -> bool {
        hop == self.selected.confirmed
    }

    #[inline(never)]
    fn confirm_other(&mut self, hop: HopId) {
        self.ip.confirm(hop);
        self.selected.confirmed = hop;
    }

    /// The layer below is about to be called with something that may change its deadlines and its neighbours.
    #[inline]
    fn forget(&mut self) {
        self.deadline_ns.set(None);
        self.selected.hop = HopId::VACANT;
        self.selected.confirmed = HopId::VACANT;
    }

    /// The link header of a hop that is known, if it has no tag.
    #[inline]
    fn usual_link(&self, hop: HopId) -> Option<[u8; 14]> {
        self.ip.header(hop)?.as_slice().try_into().ok()
    }

    /// The hop between these addresses, if it was asked for not long ago.
    #[inline]
    pub(crate) fn known_hop(&mut self, local: u32, remote: u32) -> Option<HopId> {
        self.hops.get(Ipv4Addr::from_bits(local), Ipv4Addr::from_bits(remote))
    }

    /// Sends a usual segment of a connection over IPv4 to the hop that was selected. [`Egress::can_send`] said true before.
    #[inline(always)]
    pub(crate) fn transmit_usual(&mut self, tcb: &Tcb, segment: &Usual<'_>) {
        let (link, checksum) = (&self.selected.link, self.checksum());
        let Some(mut slot) = self.frames.begin_move(&mut self.output) else {
            // A copy, so that the segment need not be in memory where none is made.
            return self.transmit_usual_anyhow(tcb, &{ *segment });
        };
        let len = header::write_usual(slot.bytes(), link, tcb, segment, self.partial);
        if len != 0 {
            slot.finish(len, checksum);
        }
    }

    #[cold]
    #[inline(never)]
    fn transmit_usual_anyhow(&mut self, tcb: &Tcb, segment: &Usual<'_>) {
        let (link, checksum) = (&self.selected.link, self.checksum());
        let len = header::write_usual(self.frames.first_mut(), link, tcb, segment, self.partial);
        if len != 0 {
            self.frames.move_written(&mut self.output, len, checksum);
        }
    }

    /// Sends a SYN over IPv4 with these words of options to the hop that was selected. [`Egress::can_send`] said true before.
    #[inline(always)]
    pub(crate) fn transmit_syn(&mut self, ends: Ends, segment: &Segment<'_>, options: [u32; 5]) {
        let (link, checksum) = (&self.selected.link, self.checksum());
        let Some(mut slot) = self.frames.begin_move(&mut self.output) else {
            // A copy, so that the segment need not be in memory where none is made.
            return self.transmit_syn_anyhow(ends, &{ *segment }, options);
        };
        let len = header::write_syn(slot.bytes(), link, ends, segment, options, self.partial);
        if len != 0 {
            slot.finish(len, checksum);
        }
    }

    #[cold]
    #[inline(never)]
    fn transmit_syn_anyhow(&mut self, ends: Ends, segment: &Segment<'_>, options: [u32; 5]) {
        let (link, checksum) = (&self.selected.link, self.checksum());
        let len = header::write_syn(self.frames.first_mut(), link, ends, segment, options, self.partial);
        if len != 0 {
            self.frames.move_written(&mut self.output, len, checksum);
        }
    }

    /// What is known of the checksums of segments that leave.
    #[inline]
    fn checksum(&self) -> Checksum {
        if self.partial { Checksum::Partial } else { Checksum::Unknown }
    }

    /// Sends the frame that `write` makes of free bytes and the link header.
    #[inline]
    fn transmit_by(&mut self, hop: HopId, write: impl FnOnce(&mut [u8], &[u8]) -> usize) -> bool {
        let Some(link) = self.ip.header(hop) else { return false };
        if self.output.room() == 0 {
            return true;
        }
        let len = write(self.frames.first_mut(), link.as_slice());
        if len != 0 {
            let checksum = self.checksum();
            self.frames.move_written(&mut self.output, len, checksum);
        }
        true
    }

    /// Asks for the hop again, and parks the segment if the neighbour's address is not known yet.
    #[cold]
    fn transmit_unresolved(&mut self, tuple: &Tuple, hop: &mut HopId, segment: &Segment<'_>, now: Now) {
        let Ok((found, _)) = self.hop(Some(tuple.local_ip()), tuple.remote_ip(), now) else { return };
        *hop = found;
        if self.ip.header(found).is_some() {
            if self.can_send() {
                self.transmit(tuple, hop, segment, now);
            }
            return;
        }
        let len = header::write(&mut self.parcel, &[], tuple, segment, self.partial);
        self.ip.park(found, &self.parcel[..len], self.checksum());
    }

    /// The next hop to `remote`, and the source address: `local` if it is given.
    pub(crate) fn hop(&mut self, local: Option<IpAddr>, remote: IpAddr, now: Now) -> Result<(HopId, IpAddr), NoRoute> {
        if let (Some(IpAddr::V4(local)), IpAddr::V4(remote)) = (local, remote)
            && let Some(hop) = self.hops.get(local, remote)
            && self.ip.header(hop).is_some()
        {
            return Ok((hop, local.into()));
        }
        self.forget();
        let found = self.ip.hop(local, remote, now.ns, &mut self.output, &mut self.pool);
        if let (Ok((hop, IpAddr::V4(local))), IpAddr::V4(remote)) = (&found, remote) {
            *self.hops.entry(remote) = KnownHop { local: *local, remote, hop: *hop, epoch: self.hops.epoch };
        }
        found
    }

    /// The layer below, about to be called with something that may change its deadlines.
    pub(crate) fn ip_mut(&mut self) -> &mut Ip {
        self.forget();
        self.hops.forget();
        &mut self.ip
    }

    /// When the layer below has something to do, in nanoseconds.
    #[inline]
    pub(crate) fn deadline_ns(&self) -> u64 {
        self.deadline_ns.get().unwrap_or_else(|| {
            let deadline_ns = self.ip.next_deadline_ns();
            self.deadline_ns.set(Some(deadline_ns));
            deadline_ns
        })
    }

    /// Does what is due in the layer below.
    pub(crate) fn tick(&mut self, now: Now) {
        if self.deadline_ns() <= now.ns {
            self.forget();
            self.hops.forget();
            self.ip.tick(now.ns, &mut self.output, &mut self.pool);
        }
    }

    /// Gives a frame to the layer below.
    pub(crate) fn receive(&mut self, frame: &[u8], checksum: Checksum, now: Now) -> Inbound {
        self.forget();
        self.hops.forget();
        self.ip.receive(frame, checksum, now.ns, &mut self.output, &mut self.pool)
    }
}
