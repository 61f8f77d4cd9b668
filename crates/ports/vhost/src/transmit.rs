//! To the guest: packets copied once from frames of the pool into the buffers that the guest's driver made available.

use linerate_mem::Batch;

use crate::memory::GuestMemory;
use crate::ring::{Budget, Corrupt, Ring, SG_ENTRIES_MAX, SgList};
use crate::sys::Span;
use crate::virtio::{self, descriptor, feature};

/// Entries that are looked at before the first of them is written, so that their lines come at the same time.
const CHUNK: usize = 32;
/// Bytes of an Ethernet header.
pub(crate) const ETHERNET_BYTES: usize = 14;

/// How packets are laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    header_bytes: usize,
    mergeable: bool,
    frame_len_max: usize,
}

impl Layout {
    pub(crate) fn new(features: u64, frame_len_max: usize) -> Layout {
        let mergeable = features & feature::MERGEABLE_BUFFERS != 0;
        Layout { header_bytes: virtio::header_bytes(features), mergeable, frame_len_max }
    }
}

/// What a run of packets came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Slots at the front of the run whose packets are done with.
    pub slots: usize,
    /// Packets that the guest has.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that no buffer of the guest is long enough for.
    pub unfitting: u64,
    /// Packets shorter than an Ethernet header.
    pub too_short: u64,
    /// The next packet is longer than the port takes: its bytes.
    pub too_long: Option<usize>,
}

/// What became of one packet.
enum Step {
    Sent,
    /// It is no Ethernet packet.
    TooShort,
    /// The guest's buffers will never hold it.
    Unfitting,
    /// There are too few of them now.
    Full,
}

/// Sends packets from the slots `run` of the batch, as far as the ring has buffers and the call's budget goes. The batch keeps them. What became of
/// those before a fault is told, too: the guest has them.
#[inline]
pub(crate) fn send(
    ring: &mut Ring,
    memory: &GuestMemory,
    layout: Layout,
    batch: &Batch,
    run: std::ops::Range<usize>,
    budget: &mut Budget,
) -> (Sent, Result<(), Corrupt>) {
    let mut sent = Sent::default();
    let result = send_run(ring, memory, layout, batch, run, budget, &mut sent);
    (sent, result)
}

#[inline]
fn send_run(
    ring: &mut Ring,
    memory: &GuestMemory,
    layout: Layout,
    batch: &Batch,
    run: std::ops::Range<usize>,
    budget: &mut Budget,
    sent: &mut Sent,
) -> Result<(), Corrupt> {
    let mut room = usize::from(ring.waiting()?);
    while sent.slots < run.len() && room > 0 && !budget.is_spent() {
        let at = run.start + sent.slots;
        let wanted = room.min(CHUNK).min(run.end - at);
        let mut plain = [(Span::EMPTY, 0); CHUNK];
        let mut count = 0;
        ring.prefetch(wanted);
        while count < wanted {
            let head = ring.head(count as u16);
            let found = ring.descriptor(head)?;
            let Some(span) = memory.find(found.address, found.len as usize) else { break };
            if found.flags != descriptor::WRITE {
                break;
            }
            span.prefetch_to_write(layout.header_bytes + batch.packet(at + count).len());
            plain[count] = (span, head);
            count += 1;
        }
        let taken = copy(ring, layout, batch, at, &plain[..count], sent);
        budget.spend(count - taken);
        room -= taken;
        if taken < wanted {
            let at = at + taken;
            let Some((slots, len)) = packet_at(batch, at, run.end) else { break };
            if len > layout.frame_len_max {
                sent.too_long = Some(len);
                break;
            }
            let step = if len < ETHERNET_BYTES {
                Step::TooShort
            } else {
                send_odd(ring, memory, layout, batch, at..at + slots, len, budget)?
            };
            match step {
                Step::Full => break,
                Step::Unfitting => sent.unfitting += 1,
                Step::TooShort => sent.too_short += 1,
                Step::Sent => {
                    sent.packets += 1;
                    sent.bytes += len as u64;
                }
            }
            sent.slots += slots;
            room = usize::from(ring.waiting()?);
        }
    }
    Ok(())
}

/// Slots and bytes of the packet at slot `at`; `None` when it is not whole.
fn packet_at(batch: &Batch, at: usize, end: usize) -> Option<(usize, usize)> {
    let span = batch.span(at)?;
    (at + span.slots <= end).then_some((span.slots, span.len))
}

/// Copies packets of one slot into one buffer each; stops at a packet or a buffer for which that does not do.
#[inline]
fn copy(
    ring: &mut Ring,
    layout: Layout,
    batch: &Batch,
    at: usize,
    plain: &[(Span<'_>, u16)],
    sent: &mut Sent,
) -> usize {
    let (mut taken, mut bytes) = (0, 0);
    for (index, (span, head)) in (at..).zip(plain) {
        let packet = batch.packet(index);
        let len = packet.len();
        let fits = (ETHERNET_BYTES..=layout.frame_len_max).contains(&len) && span.len() >= len + layout.header_bytes;
        if !fits || batch.more(index) {
            break;
        }
        let (header, payload) = span.split(layout.header_bytes);
        write_header(header, 1);
        payload.write(packet);
        ring.use_next(*head, (len + layout.header_bytes) as u32);
        bytes += len;
        taken += 1;
    }
    sent.slots += taken;
    sent.packets += taken as u64;
    sent.bytes += bytes as u64;
    taken
}

/// The header of a packet that is complete, in `buffers` buffers: all zeros but their number (5.1.6.4).
#[inline]
fn write_header(header: Span<'_>, buffers: u16) {
    if header.len() == virtio::HEADER_BYTES {
        header.write_12(0, (u32::from(buffers) << 16).to_le());
    } else {
        header.write(&[0; virtio::LEGACY_HEADER_BYTES]);
    }
}

/// Sends the one packet in slots `run`, which has `len` bytes, over several buffers if need be. Buffers that hold it only in more than 256 parts are too
/// short for it.
#[cold]
fn send_odd(
    ring: &mut Ring,
    memory: &GuestMemory,
    layout: Layout,
    batch: &Batch,
    run: std::ops::Range<usize>,
    len: usize,
    budget: &mut Budget,
) -> Result<Step, Corrupt> {
    let room = ring.waiting()?;
    let mut looks = 0;
    let (mut first, mut other) = (SgList::new(), SgList::new());
    let (mut reader, mut left) = (batch.reader(run.start, run.len()), len);
    let mut used = 0;
    while left > 0 {
        if used == room {
            return Ok(if room == ring.size() { Step::Unfitting } else { Step::Full });
        }
        if used == 1 && !layout.mergeable || looks >= SG_ENTRIES_MAX {
            return Ok(Step::Unfitting);
        }
        let head = ring.head(used);
        let sg = if used == 0 { &mut first } else { &mut other };
        ring.gather(memory, head, true, sg)?;
        looks += sg.looks();
        budget.spend(sg.looks());
        let mut cursor = sg.cursor();
        let mut written = 0;
        if used == 0 {
            written = cursor.skip(layout.header_bytes);
            if written < layout.header_bytes {
                return Ok(Step::Unfitting);
            }
        }
        loop {
            let bytes = reader.chunk(sg.bytes() - written);
            if bytes.is_empty() {
                break;
            }
            written += cursor.write(bytes);
            left -= bytes.len();
        }
        ring.write_used(used, head, written as u32);
        used += 1;
    }
    let mut header = [0; virtio::HEADER_BYTES];
    header[10..].copy_from_slice(&used.to_le_bytes());
    first.cursor().write(&header[..layout.header_bytes]);
    ring.use_written(used);
    Ok(Step::Sent)
}
