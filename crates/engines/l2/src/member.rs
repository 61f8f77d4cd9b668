//! A port of the switch: its settings, its queue, its limits.

use linerate_measure::{CoarseHistogram, Rate, TokenBucket};
use linerate_mem::Pool;

use crate::counters::DropReason;
use crate::packet::{IngressContext, Packet};
use crate::queue::EgressQueue;
use crate::settings::{PORTS_MAX, PortSettings};
use crate::vlan::{Edit, TAG_LEN, VlanMode};

/// A port of the switch.
pub(crate) struct Member {
    pub(crate) settings: PortSettings,
    pub(crate) queue: EgressQueue,
    /// Time from a packet's arrival to its departure here, by the port that it came from.
    pub(crate) latency: Vec<CoarseHistogram>,
    pub(crate) limits: Limits,
    /// Directions in which a mirror may want packets.
    pub(crate) mirrored: Mirrored,
}

/// Whether a port takes every packet whose destination is there, in one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// It takes every packet: it has all VLANs, and is not isolated.
    Open,
    /// The VLAN and the isolation decide for each packet, or the port does not exist.
    Restricted,
}

impl Gate {
    pub(crate) fn of(settings: &PortSettings) -> Gate {
        let open = !settings.isolated && settings.vlan == VlanMode::default();
        if open { Gate::Open } else { Gate::Restricted }
    }
}

/// A bit for each port.
#[derive(Default)]
pub(crate) struct PortBitmap([u64; PORTS_MAX / 64]);

impl PortBitmap {
    #[inline]
    pub(crate) fn set(&mut self, port: u16) {
        if let Some(word) = self.0.get_mut(usize::from(port) / 64) {
            *word |= 1 << (port % 64);
        }
    }

    #[inline]
    pub(crate) fn clear(&mut self, port: u16) {
        if let Some(word) = self.0.get_mut(usize::from(port) / 64) {
            *word &= !(1 << (port % 64));
        }
    }

    /// The first port from `from` on whose bit is set.
    #[inline]
    pub(crate) fn next(&self, from: u16) -> Option<u16> {
        let mut mask = u64::MAX << (from % 64);
        for (at, word) in self.0.iter().enumerate().skip(usize::from(from) / 64) {
            if word & mask != 0 {
                return Some((at * 64) as u16 + (word & mask).trailing_zeros() as u16);
            }
            mask = u64::MAX;
        }
        None
    }
}

/// Directions of a port in which a mirror wants packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mirrored {
    pub(crate) ingress: bool,
    pub(crate) egress: bool,
}

/// The token buckets of a port.
#[derive(Default)]
pub(crate) struct Limits {
    pub(crate) bits: Option<TokenBucket>,
    pub(crate) packets: Option<TokenBucket>,
    /// Unknown, broadcast, multicast.
    pub(crate) storm: [Option<TokenBucket>; 3],
}

impl Limits {
    /// True when there is one, so that the time must be exact.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.bits.is_some() || self.packets.is_some() || self.storm.iter().any(Option::is_some)
    }

    pub(crate) fn new(settings: &PortSettings) -> Limits {
        let bucket = |rate: Option<Rate>| rate.map(TokenBucket::new);
        let storm = settings.storm;
        Limits {
            bits: bucket(settings.rate_bits),
            packets: bucket(settings.rate_packets),
            storm: [bucket(storm.unknown), bucket(storm.broadcast), bucket(storm.multicast)],
        }
    }

    /// Adds the tokens that came since the last batch; false when there are no limits.
    #[inline]
    pub(crate) fn fill(&mut self, now_ns: u64) -> bool {
        let mut limited = false;
        let rates = [&mut self.bits, &mut self.packets];
        for bucket in rates.into_iter().chain(&mut self.storm).flatten() {
            bucket.fill(now_ns);
            limited = true;
        }
        limited
    }

    /// Drops packets above the rate limits.
    pub(crate) fn police(&mut self, packets: &mut [Packet]) {
        for packet in packets.iter_mut().filter(|packet| !packet.verdict.is_drop()) {
            let bits = u64::from(packet.len) * 8;
            let bits_pass = self.bits.as_mut().is_none_or(|bucket| bucket.take(bits));
            let passes = bits_pass && self.packets.as_mut().is_none_or(|bucket| bucket.take(1));
            if passes {
                continue;
            }
            if bits_pass && let Some(bucket) = &mut self.bits {
                bucket.give(bits);
            }
            packet.verdict = packet.verdict.drop(DropReason::RateLimit);
        }
    }

    /// Drops flooded packets above the storm limits.
    pub(crate) fn storm_control(&mut self, packets: &mut [Packet]) {
        for packet in packets {
            let bucket = packet.verdict.storm().and_then(|kind| self.storm.get_mut(kind)?.as_mut());
            if bucket.is_some_and(|bucket| !bucket.take(1)) {
                packet.verdict = packet.verdict.drop(DropReason::StormLimit);
            }
        }
    }
}

impl Member {
    /// The change of tag with which the queue takes the packet in `slots` slots, or the reason why it does not.
    pub(crate) fn admit(&self, origin: &IngressContext, packet: &Packet, slots: usize) -> Result<Edit, DropReason> {
        let edit = self.settings.vlan.edit(packet.verdict.vlan(), packet.verdict.tag(), origin.ethertype);
        let shrinkage = if edit == Edit::Pop { TAG_LEN } else { 0 };
        if packet.len as usize + edit.growth() > self.settings.frame_len_max + shrinkage {
            return Err(DropReason::TooLong);
        }
        if self.queue.batch.room() < slots {
            return Err(DropReason::EgressFull);
        }
        Ok(edit)
    }
}

/// Slots of a copy of a packet of `len` bytes.
pub(crate) fn copy_slots(len: usize, pool: &Pool) -> usize {
    len.div_ceil(pool.packet_len_max().max(1)).max(1)
}
