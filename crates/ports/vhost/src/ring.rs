//! One virtqueue, as the device sees it: which entries the driver made available, what their chains of descriptors say, and
//! who wants to be told (virtio 1.2, 2.7).
//!
//! ```text
//! available   . . . [next ........ available index) . . .       entries that the driver offers
//! used        . . . [published .. next)                         entries written, of which the driver is not told yet
//! ```
//! Entries are used in the order in which they came, and none is held back over a call; so one index does for both rings.

use crate::interrupts::Interrupt;
use crate::memory::GuestMemory;
use crate::sys::{DESCRIPTOR_BYTES, Descriptor, Span, SplitRing};
use crate::virtio::{self, descriptor, feature};

/// What the driver wrote that cannot be, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt(pub String);

/// Most buffers of a chain. The specification sets the queue's size as the limit, which would be memory without bounds;
/// drivers use 20 at most.
pub(crate) const SG_ENTRIES_MAX: usize = 256;

/// Descriptors that one call of the port looks at and does not turn into a packet of one buffer: those of chains, of packets that are
/// refused, and those that are looked at again. A driver of Linux makes three or four for a packet.
pub(crate) const LOOKS_MAX: usize = 512;

/// Bounds the work that a driver can cause in one call. A call begins no further packet once it is spent, so that it looks at fewer
/// than `LOOKS_MAX` descriptors and those of one packet. The rest waits for the next call.
#[derive(Debug)]
pub(crate) struct Budget(usize);

impl Budget {
    /// What one call may spend.
    pub(crate) fn new() -> Budget {
        Budget(LOOKS_MAX)
    }

    #[inline]
    pub(crate) fn spend(&mut self, looks: usize) {
        self.0 = self.0.saturating_sub(looks);
    }

    #[inline]
    pub(crate) fn is_spent(&self) -> bool {
        self.0 == 0
    }
}

/// A ring that runs.
#[derive(Debug)]
pub(crate) struct Ring {
    split: SplitRing,
    next: u16,
    published: u16,
    indirect: bool,
    event_index: bool,
    /// The driver was asked to notify.
    asked: bool,
}

impl Ring {
    /// A ring whose entries before `next` are used. The driver is told that it need not notify.
    pub(crate) fn new(split: SplitRing, next: u16, features: u64) -> Ring {
        let mut ring = Ring { split, next, published: next, indirect: false, event_index: false, asked: false };
        ring.set_features(features);
        ring
    }

    pub(crate) fn set_features(&mut self, features: u64) {
        self.indirect = features & feature::INDIRECT != 0;
        self.event_index = features & feature::EVENT_INDEX != 0;
        self.refuse_notifications();
    }

    /// First entry that is not used yet.
    pub(crate) fn next(&self) -> u16 {
        self.next
    }

    pub(crate) fn size(&self) -> u16 {
        self.split.size()
    }

    /// Entries that the driver made available and that are not used.
    #[inline]
    pub(crate) fn waiting(&self) -> Result<u16, Corrupt> {
        let index = self.split.available_index();
        let waiting = index.wrapping_sub(self.next);
        if waiting > self.split.size() {
            return Err(jumped(index, self.next, self.split.size()));
        }
        Ok(waiting)
    }

    /// Number of the first descriptor of the entry `offset` behind the next one; may be any number.
    #[inline]
    pub(crate) fn head(&self, offset: u16) -> u16 {
        self.split.available_entry(self.next.wrapping_add(offset))
    }

    /// Asks for what the next `count` entries need.
    #[inline]
    pub(crate) fn prefetch(&self, count: usize) {
        self.split.prefetch(self.next, count.min(usize::from(self.size())) as u16);
    }

    /// The descriptor of that number.
    #[inline]
    pub(crate) fn descriptor(&self, number: u16) -> Result<Descriptor, Corrupt> {
        #[cfg(test)]
        crate::hostile_tests::count_look();
        self.split.descriptor(number).ok_or_else(|| no_descriptor(number, self.split.size()))
    }

    /// Uses the next entry, into which `bytes` were written.
    #[inline]
    pub(crate) fn use_next(&mut self, head: u16, bytes: u32) {
        self.split.write_used(self.next, head, bytes);
        self.next = self.next.wrapping_add(1);
    }

    /// Writes the used entry `offset` behind the next one, to be used with [`Ring::use_written`].
    pub(crate) fn write_used(&self, offset: u16, head: u16, bytes: u32) {
        self.split.write_used(self.next.wrapping_add(offset), head, bytes);
    }

    /// Uses `count` entries that [`Ring::write_used`] wrote.
    pub(crate) fn use_written(&mut self, count: u16) {
        self.next = self.next.wrapping_add(count);
    }

    /// Tells the driver what was used since the last call, and interrupts it if it asked for that. A driver that was asked to
    /// notify need not from then on.
    #[inline]
    pub(crate) fn finish(&mut self, call: Option<&Interrupt>) {
        if self.next == self.published {
            return;
        }
        if self.asked {
            self.refuse_notifications();
        }
        let before = std::mem::replace(&mut self.published, self.next);
        self.split.publish(self.next);
        let Some(call) = call else { return };
        SplitRing::fence();
        let wanted = if self.event_index {
            virtio::crosses(self.split.used_event(), self.next, before)
        } else {
            self.split.available_flags() & virtio::NO_INTERRUPT == 0
        };
        if wanted {
            call.raise();
        }
    }

    /// Asks the driver to notify of the next entry. What it made available before it saw this has to be looked for afterwards.
    pub(crate) fn ask_for_notification(&mut self) {
        self.asked = true;
        if self.event_index {
            self.split.set_available_event(self.next);
        } else {
            self.split.set_used_flags(0);
        }
        SplitRing::fence();
    }

    /// Tells the driver that this side looks by itself.
    fn refuse_notifications(&mut self) {
        self.asked = false;
        // With event indices the driver notifies at one index only, which lies behind.
        self.split.set_used_flags(if self.event_index { 0 } else { virtio::NO_NOTIFY });
    }

    /// Gathers the buffers of the chain that begins with descriptor `head`. They are all to be written by the device, or all to be
    /// read. The specification (virtio 1.2, 2.7.5) does not name empty buffers; QEMU's devices break off over them, so no driver makes
    /// any, and they are corrupt here: without them the bytes of a chain bound its length.
    pub(crate) fn gather<'m>(
        &self,
        memory: &'m GuestMemory,
        head: u16,
        writable: bool,
        sg: &mut SgList<'m>,
    ) -> Result<(), Corrupt> {
        sg.clear();
        let (mut number, mut table) = (head, None);
        for _ in 0..=SG_ENTRIES_MAX {
            sg.looks += 1;
            let found = match table {
                None => self.descriptor(number)?,
                Some(table) => in_table(table, number)?,
            };
            if found.flags & descriptor::INDIRECT != 0 {
                table = Some(self.indirect_table(memory, found, table.is_some())?);
                number = 0;
                continue;
            }
            if (found.flags & descriptor::WRITE != 0) != writable {
                let (is, wanted) = if writable { ("read", "written") } else { ("written", "read") };
                return Err(Corrupt(format!("a buffer to be {is} into a ring of buffers to be {wanted}")));
            }
            if found.len == 0 {
                return Err(Corrupt("a buffer without a byte".into()));
            }
            sg.push(memory, found)?;
            if found.flags & descriptor::NEXT == 0 {
                return Ok(());
            }
            number = found.next;
        }
        Err(too_many())
    }

    /// The table that an indirect descriptor points to.
    fn indirect_table<'m>(
        &self,
        memory: &'m GuestMemory,
        found: Descriptor,
        nested: bool,
    ) -> Result<Span<'m>, Corrupt> {
        let len = found.len as usize;
        let wrong = if !self.indirect {
            "without having agreed on them"
        } else if nested {
            "inside of another"
        } else if found.flags & descriptor::NEXT != 0 {
            "with a next descriptor"
        } else if len == 0 || !len.is_multiple_of(DESCRIPTOR_BYTES) {
            "of a length that no table has"
        } else {
            return memory.find(found.address, len).ok_or_else(|| outside(found.address, len));
        };
        Err(Corrupt(format!("a table of descriptors {wrong}")))
    }
}

/// Descriptor `number` of an indirect table.
fn in_table(table: Span<'_>, number: u16) -> Result<Descriptor, Corrupt> {
    #[cfg(test)]
    crate::hostile_tests::count_look();
    let (_, rest) = table.split(usize::from(number) * DESCRIPTOR_BYTES);
    let halves = rest.read_u64_pair();
    let size = (table.len() / DESCRIPTOR_BYTES).min(usize::from(u16::MAX)) as u16;
    halves.map(Descriptor::from_halves).ok_or_else(|| no_descriptor(number, size))
}

/// The scatter-gather list of a descriptor chain: where its bytes lie in the guest's memory.
pub(crate) struct SgList<'m> {
    spans: [Span<'m>; SG_ENTRIES_MAX],
    count: usize,
    bytes: usize,
    looks: usize,
}

impl<'m> SgList<'m> {
    pub(crate) fn new() -> SgList<'m> {
        SgList { spans: [Span::EMPTY; SG_ENTRIES_MAX], count: 0, bytes: 0, looks: 0 }
    }

    fn clear(&mut self) {
        (self.count, self.bytes, self.looks) = (0, 0, 0);
    }

    /// What it cost to find them, in descriptors.
    pub(crate) fn looks(&self) -> usize {
        self.looks.max(self.count)
    }

    /// Bytes in all of them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// From the first byte on.
    pub(crate) fn cursor(&self) -> Cursor<'_, 'm> {
        Cursor { rest: &self.spans[..self.count], current: Span::EMPTY }
    }

    /// Appends a buffer, which may lie in several regions.
    fn push(&mut self, memory: &'m GuestMemory, buffer: Descriptor) -> Result<(), Corrupt> {
        let (mut address, mut left) = (buffer.address, buffer.len as usize);
        while left > 0 {
            let span = memory.find_start(address, left).ok_or_else(|| outside(address, left))?;
            let place = self.spans.get_mut(self.count).ok_or_else(too_many)?;
            *place = span;
            self.count += 1;
            self.bytes += span.len();
            left -= span.len();
            address = address.wrapping_add(span.len() as u64);
        }
        Ok(())
    }
}

/// A place in the bytes of a chain.
pub(crate) struct Cursor<'p, 'm> {
    rest: &'p [Span<'m>],
    current: Span<'m>,
}

impl<'m> Cursor<'_, 'm> {
    /// Calls `each` with the next bytes, in parts, until `len` of them went by or there are no more; returns how many.
    fn go(&mut self, len: usize, mut each: impl FnMut(Span<'m>, usize)) -> usize {
        let mut gone = 0;
        while gone < len {
            if self.current.len() == 0 {
                let Some((first, rest)) = self.rest.split_first() else { break };
                (self.current, self.rest) = (*first, rest);
                continue;
            }
            let (part, later) = self.current.split(len - gone);
            each(part, gone);
            self.current = later;
            gone += part.len();
        }
        gone
    }

    pub(crate) fn skip(&mut self, len: usize) -> usize {
        self.go(len, |_, _| ())
    }

    pub(crate) fn read(&mut self, into: &mut [u8]) -> usize {
        self.go(into.len(), |part, at| _ = part.read(&mut into[at..]))
    }

    pub(crate) fn write(&mut self, from: &[u8]) -> usize {
        self.go(from.len(), |part, at| _ = part.write(&from[at..]))
    }
}

#[cold]
fn jumped(index: u16, next: u16, size: u16) -> Corrupt {
    Corrupt(format!("available index {index} into a ring of {size} entries of which {next} is the next"))
}

#[cold]
fn no_descriptor(number: u16, size: u16) -> Corrupt {
    Corrupt(format!("descriptor {number} into a table of {size}"))
}

#[cold]
fn outside(address: u64, len: usize) -> Corrupt {
    Corrupt(format!("address {address:#x} (and {len} bytes) outside of its memory"))
}

#[cold]
fn too_many() -> Corrupt {
    Corrupt(format!("a loop of descriptors, or a chain of more than {SG_ENTRIES_MAX}"))
}
