//! The way out: free frames, the layer below, and the packets that leave with the next `output`.

mod header;

pub(crate) use header::{Options, Segment};

use linerate_ip::{HopId, Ip, NoRoute};
use linerate_mem::{Batch, Checksum, Pool};

use crate::tuple::Tuple;
use crate::{Now, StackConfig, StackError};
use core::net::IpAddr;

/// Frames that are taken from the pool together.
const FRAMES: usize = 32;

/// The layer below TCP, and frames.
pub(crate) struct Egress {
    pub(crate) ip: Ip,
    pub(crate) pool: Pool,
    /// Packets that leave with the next `output`.
    pub(crate) output: Batch,
    /// Free frames that segments are written into.
    frames: Batch,
    /// Checksums are left to the port.
    partial: bool,
    mtu: u16,
    /// Where a packet is built that has to wait for its neighbour.
    parcel: Vec<u8>,
}

impl Egress {
    pub(crate) fn new(config: &StackConfig, pool: Pool) -> Result<Egress, StackError> {
        let mut below = config.ip.clone();
        let room = pool.packet_len_max().saturating_sub(linerate_ip::LinkHeader::LEN_MAX);
        below.mtu = below.mtu.min(room.min(usize::from(u16::MAX)) as u16);
        let mtu = below.mtu;
        Ok(Egress {
            ip: Ip::new(below)?,
            output: Batch::new(&pool, config.output_packets),
            frames: Batch::new(&pool, FRAMES),
            partial: config.partial_checksums,
            mtu,
            parcel: vec![0; usize::from(mtu)],
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
        if self.output.room() == 0 {
            return false;
        }
        if self.frames.is_empty() {
            let len = self.pool.packet_len_max();
            self.pool.alloc(&mut self.frames, FRAMES, len);
        }
        !self.frames.is_empty()
    }

    /// Sends a segment by way of a hop. [`Egress::can_send`] said true before; otherwise the segment is lost, as on any link. A hop that is
    /// not valid any more is replaced.
    #[inline]
    pub(crate) fn transmit(&mut self, tuple: &Tuple, hop: &mut HopId, segment: &Segment<'_>, now: Now) {
        let Some(link) = self.ip.header(*hop) else {
            self.transmit_unresolved(tuple, hop, segment, now);
            return;
        };
        if self.frames.is_empty() || self.output.room() == 0 {
            return;
        }
        let frame = self.frames.packet_mut(0);
        let len = header::write(frame, link.as_slice(), tuple, segment, self.partial);
        self.frames.set_len(0, len);
        if self.partial {
            self.frames.set_checksum(0, Checksum::Partial);
        }
        self.frames.move_to(&mut self.output, 1);
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
        let checksum = if self.partial { Checksum::Partial } else { Checksum::Unknown };
        self.ip.park(found, &self.parcel[..len], checksum);
    }

    /// The next hop to `remote`, and the source address: `local` if it is given.
    pub(crate) fn hop(&mut self, local: Option<IpAddr>, remote: IpAddr, now: Now) -> Result<(HopId, IpAddr), NoRoute> {
        self.ip.hop(local, remote, now.ns, &mut self.output, &mut self.pool)
    }
}
