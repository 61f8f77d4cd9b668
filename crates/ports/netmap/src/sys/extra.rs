//! Extra buffers of an area: those that no ring has, which this process takes as free frames and gives back at its end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use linerate_mem::{LOANED, Pool, Region, SlotFields};

use super::{Area, Control};
use crate::abi::{self, ALL_RINGS, NO_RINGS, PoolsInfo, Register, interface};

/// What holds the extra buffers of an area as long as a frame of its pool may be in use: a descriptor that moves no packet.
pub(crate) struct ExtraBuffers {
    /// The kernel takes the list of buffers back when it is closed; `None` in tests.
    _control: Option<Control>,
    area: Arc<Area>,
    /// Place of the interface header in the area.
    header: usize,
    /// Place of buffer 0 in the area.
    place: usize,
    count: u32,
    /// Bytes of a buffer.
    bytes: usize,
    /// Number of the area.
    pub memory: u16,
}

impl ExtraBuffers {
    /// Takes up to `wanted` extra buffers of the area that port `name` uses. A port of an `interface` has an area that is there without it: a
    /// descriptor without rings holds the buffers then. The area of another one is its own, and it is made as `register` says.
    pub(crate) fn take(
        name: &str,
        interface: bool,
        register: Register,
        wanted: u32,
    ) -> io::Result<(ExtraBuffers, Vec<u32>)> {
        let control = Control::open()?;
        let mut info = PoolsInfo { memory: register.memory, ..PoolsInfo::default() };
        let mut granted = Register { extra_buffers: wanted, mode: ALL_RINGS, ring: 0, flags: 0, ..register };
        if interface {
            control.pools_info(name, &mut info)?;
            // Netmap wants rings even where none is used.
            let (rings, slots) = (1, 64);
            granted = Register {
                mode: NO_RINGS,
                memory: info.memory,
                tx_rings: rings,
                rx_rings: rings,
                tx_slots: slots,
                rx_slots: slots,
                extra_buffers: wanted.min(share(info.buffers)),
                ..Register::default()
            };
            control.register(name, &mut granted)?;
        } else {
            control.register(name, &mut granted)?;
            info.memory = granted.memory;
            control.pools_info(name, &mut info)?;
        }
        let area = Arc::new(Area::map(&control, granted.area_bytes)?);
        let place = |offset: u64| usize::try_from(offset).map_err(io::Error::other);
        let (header, buffers) = (place(granted.offset)?, place(info.buffers_offset)?);
        let memory = granted.memory;
        let bytes = info.buffer_bytes as usize;
        let control = Some(control);
        let extra =
            ExtraBuffers { _control: control, area, header, place: buffers, count: info.buffers, bytes, memory };
        let numbers = extra.take_list();
        Ok((extra, numbers))
    }

    /// The extra buffers of an area of tests, whose interface header is at byte 0.
    #[cfg(test)]
    pub(crate) fn fake(area: &Arc<Area>, place: usize, (count, bytes): (u32, usize)) -> (ExtraBuffers, Vec<u32>) {
        let extra = ExtraBuffers { _control: None, area: Arc::clone(area), header: 0, place, count, bytes, memory: 1 };
        let numbers = extra.take_list();
        (extra, numbers)
    }

    /// A pool whose frames are the buffers of the area, with the same numbers, of which the extra ones are free and all others are
    /// somebody else's. `None` if the buffers are not inside the area, or not of a size that frames have.
    pub(crate) fn pool(self, numbers: &[u32]) -> Option<Pool> {
        let start = self.area.start(self.place, (self.count as usize).checked_mul(self.bytes)?)?;
        let (shape, extra) = ((self.count as usize, self.bytes), Arc::new(self));
        // SAFETY: so many bytes lie inside the mapping, which lives as long as the companion. Buffers that are not this process's to use
        // are written by the kernel and by other users of the area, and the pool does not own their frames; those that are may be
        // written by a broken user, so nobody relies on their bytes. This is the one region of this mapping.
        let region = unsafe { Region::from_raw(start, shape, Box::new(Arc::clone(&extra))) }.ok()?;
        let mut pool = Pool::shared(region, false);
        let table = Arc::clone(pool.ownership()?);
        let mut table = table.lock().ok()?;
        table.at_end(move |frames| extra.give_list(frames));
        for some in numbers.chunks(32) {
            let read = |words: &mut [u64]| {
                let frames = some.iter().map(|frame| SlotFields { frame: *frame, offset: 0, len: 0, more: false });
                words.iter_mut().zip(frames).for_each(|(word, fields)| *word = fields.word());
                some.len()
            };
            table.import_free(&mut pool, read, |note| note == LOANED).ok()?;
        }
        drop(table);
        pool.flush();
        Some(pool)
    }

    /// Gives all of them back at once.
    pub(crate) fn give_back(self, numbers: &[u32]) {
        self.give_list(&mut numbers.iter().copied());
    }

    fn first(&self) -> Option<&AtomicU32> {
        self.area.cell(self.header.checked_add(interface::FIRST_EXTRA)?)
    }

    /// The word of a buffer that names the next one of the list.
    fn link(&self, number: u32) -> Option<&AtomicU32> {
        let known = (abi::FIRST_BUFFER..self.count).contains(&number);
        let place = (number as usize).checked_mul(self.bytes)?.checked_add(self.place)?;
        known.then(|| self.area.cell(place)).flatten()
    }

    /// Takes the list of extra buffers; what it names that cannot be ends it.
    fn take_list(&self) -> Vec<u32> {
        let mut taken = Vec::new();
        let mut next = self.first().map_or(0, |first| first.swap(0, Ordering::Relaxed));
        while let Some(link) = self.link(next).filter(|_| taken.len() < self.count as usize) {
            taken.push(next);
            next = link.load(Ordering::Relaxed);
        }
        taken
    }

    /// Makes these buffers the list of extra ones.
    fn give_list(&self, numbers: &mut dyn Iterator<Item = u32>) {
        let mut last = 0;
        for number in numbers {
            if let Some(link) = self.link(number) {
                link.store(last, Ordering::Relaxed);
                last = number;
            }
        }
        if let Some(first) = self.first() {
            first.store(last, Ordering::Release);
        }
    }
}

/// Extra buffers of an area that interfaces share, at most: the rings of ports that are opened later need some, too.
fn share(of_area: u32) -> u32 {
    of_area / 2
}
