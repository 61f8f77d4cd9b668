//! The sending side of one socket: transmit ring out, completion ring in.
//!
//! In copy mode the kernel sends within `sendto`: it copies each packet into an skb, hands that to the driver, and completes
//! the frame when the skb is freed. One call sends as much as the budget allows, and stops early at a packet that the driver
//! refuses: `EBUSY` stands for exactly one packet that was taken and lost.

use std::sync::atomic::AtomicU64;

use linerate_mem::{Batch, Region, Span};

use crate::abi::PACKET_CONTINUES;
use crate::fault::{Corrupt, Fault};
use crate::loans::Loans;
use crate::rings::{ConsumerEnd, ProducerEnd};
use crate::sys::{DescriptorCell, XdpSocket};

/// Bytes of an Ethernet header; shorter packets are none.
const PACKET_LEN_MIN: usize = 14;

pub(crate) struct TransmitSide {
    ring: ProducerEnd<DescriptorCell>,
    completion: ConsumerEnd<AtomicU64>,
    /// First place of the ring that the kernel has not taken, as far as its answers tell.
    head: u32,
    zero_copy: bool,
    pub(crate) limits: Limits,
    pub(crate) totals: Transmitted,
}

/// What one packet may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes without FCS; a packet with a VLAN tag may have [`TAG_BYTES`] more.
    pub(crate) frame_len_max: usize,
    pub(crate) frags_max: usize,
}

/// What became of the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Transmitted {
    /// Packets taken from batches.
    pub(crate) taken: u64,
    /// Packets whose frames came back, and their bytes.
    pub(crate) completed: u64,
    pub(crate) completed_bytes: u64,
    /// Among those: packets that the driver refused.
    pub(crate) refused: u64,
    pub(crate) refused_bytes: u64,
}

/// Why the packet at the front of a batch cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Long { len: usize },
    Segments { segments: usize, len: usize },
    Short { len: usize },
}

impl TransmitSide {
    pub(crate) fn new(
        ring: ProducerEnd<DescriptorCell>,
        completion: ConsumerEnd<AtomicU64>,
        zero_copy: bool,
        limits: Limits,
    ) -> TransmitSide {
        let head = ring.tail();
        TransmitSide { ring, completion, head, zero_copy, limits, totals: Transmitted::default() }
    }

    /// Moves packets from the front of the batch into the ring, as many as fit; stops at one that cannot be sent.
    #[inline]
    pub(crate) fn submit(&mut self, loans: &mut Loans, batch: &mut Batch) -> Result<(usize, Option<Refusal>), Corrupt> {
        let mut room = self.ring.room(batch.len() as u32)?;
        let (mut slots, mut packets, mut refusal) = (0, 0, None);
        while slots < batch.len() {
            match self.limits.check(batch, slots) {
                Ok(frags) if frags <= room => {
                    slots += frags as usize;
                    room -= frags;
                    packets += 1;
                }
                Ok(_) => break,
                Err(reason) => {
                    refusal = reason;
                    break;
                }
            }
        }
        if packets > 0 {
            let ring = &mut self.ring;
            loans.lend_to_send(batch, slots, |descriptor| ring.put(descriptor));
            self.ring.publish();
            self.totals.taken += packets;
        }
        Ok((packets as usize, refusal))
    }

    /// Takes back the frames that have been sent; returns how many.
    #[inline]
    pub(crate) fn reclaim(&mut self, loans: &mut Loans) -> Result<u32, Corrupt> {
        let available = self.completion.available()?;
        if available == 0 {
            return Ok(0);
        }
        let completed = loans.complete(available, |place| self.completion.peek(place))?;
        self.totals.completed += completed.packets;
        self.totals.completed_bytes += completed.bytes;
        self.completion.release(available);
        Ok(available)
    }

    /// Makes the kernel send what is in the ring, as far as it can now.
    #[inline]
    pub(crate) fn kick(&mut self, loans: &mut Loans, socket: &XdpSocket) -> Result<(), Fault> {
        if self.zero_copy {
            return self.wake_driver(socket);
        }
        while self.head != self.ring.tail() {
            let before = self.head;
            let answer = socket.kick_transmit();
            self.follow(before)?;
            let Err(error) = answer else {
                if self.head == before {
                    break;
                }
                continue;
            };
            match error.raw_os_error() {
                Some(libc::EBUSY) => self.count_refused(before),
                Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => {
                    if self.reclaim(loans)? == 0 && self.head == before {
                        break;
                    }
                }
                _ => return Err(Fault::from_kick("send", error)),
            }
        }
        Ok(())
    }

    /// Notes how far the kernel says that it went; it does not say so when it only refused a packet.
    #[inline]
    fn follow(&mut self, before: u32) -> Result<(), Corrupt> {
        let (told, tail) = (self.ring.head()?, self.ring.tail());
        if tail.wrapping_sub(told) < tail.wrapping_sub(before) {
            self.head = told;
        }
        Ok(())
    }

    /// Counts the packet that made the kernel stop: the last one that it took.
    #[cold]
    fn count_refused(&mut self, before: u32) {
        if self.head == before {
            self.head = self.end_of_packet(before);
        }
        let mut place = self.head.wrapping_sub(1);
        self.totals.refused_bytes += u64::from(self.ring.at(place).len);
        while place != before && self.ring.at(place.wrapping_sub(1)).options & PACKET_CONTINUES != 0 {
            place = place.wrapping_sub(1);
            self.totals.refused_bytes += u64::from(self.ring.at(place).len);
        }
        self.totals.refused += 1;
    }

    fn end_of_packet(&self, first: u32) -> u32 {
        let mut place = first;
        while self.ring.at(place).options & PACKET_CONTINUES != 0 && place.wrapping_add(1) != self.ring.tail() {
            place = place.wrapping_add(1);
        }
        place.wrapping_add(1)
    }

    fn wake_driver(&mut self, socket: &XdpSocket) -> Result<(), Fault> {
        self.head = self.ring.head()?;
        if self.head == self.ring.tail() || !self.ring.needs_wakeup() {
            return Ok(());
        }
        match socket.kick_transmit() {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS)) => Ok(()),
            result => result.map_err(|error| Fault::from_kick("send", error)),
        }
    }

    /// True when packets lie in the ring that the kernel has not taken.
    pub(crate) fn has_unsent(&self) -> bool {
        self.head != self.ring.tail()
    }

    /// True when [`TransmitSide::submit`] would take a packet.
    pub(crate) fn has_room(&mut self) -> Result<bool, Corrupt> {
        Ok(self.ring.room(self.limits.frags_max as u32)? >= self.limits.frags_max as u32)
    }
}

impl Limits {
    /// What an interface with this MTU takes from frames of `region`.
    pub(crate) fn frame_len_max(mtu: usize, frags_max: usize, region: &Region) -> usize {
        let len = mtu + PACKET_LEN_MIN;
        if frags_max == 1 { len.min(region.frame_size()) } else { len }
    }

    /// Slots of the packet that begins in slot `at` of the batch, if it may be sent; `Err(None)` when it is not complete yet.
    #[inline]
    fn check(&self, batch: &Batch, at: usize) -> Result<u32, Option<Refusal>> {
        let len = batch.packet(at).len();
        if !batch.more(at) && (PACKET_LEN_MIN..=self.frame_len_max).contains(&len) {
            return Ok(1);
        }
        self.check_unusual(batch, at)
    }

    #[cold]
    fn check_unusual(&self, batch: &Batch, at: usize) -> Result<u32, Option<Refusal>> {
        let Some(Span { slots: segments, len }) = batch.span(at) else { return Err(None) };
        let tag = if is_tagged(batch.packet(at)) { TAG_BYTES } else { 0 };
        let empty = (at..at + segments).any(|index| batch.packet(index).is_empty());
        match () {
            () if len > self.frame_len_max + tag => Err(Some(Refusal::Long { len })),
            () if segments > self.frags_max => Err(Some(Refusal::Segments { segments, len })),
            () if len < PACKET_LEN_MIN || empty => Err(Some(Refusal::Short { len })),
            () => Ok(segments as u32),
        }
    }
}

/// Bytes of a VLAN tag.
pub(crate) const TAG_BYTES: usize = 4;

/// Whether the packet starts with an 802.1Q or 802.1ad tag.
fn is_tagged(packet: &[u8]) -> bool {
    matches!(packet.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]))
}
