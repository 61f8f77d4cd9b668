//! A pool: the free frames of one region, taken and returned by the batch.
#![allow(unsafe_code)]

use std::sync::{Arc, Mutex, Weak};

use crate::depot::{Depot, MAGAZINE, Magazine, Spares, new_magazine};
use crate::{Batch, Checksum, MapError, OwnershipTable, Region, Slot};

/// Shape of a pool's region.
#[derive(Clone, Copy, Debug)]
pub struct PoolConfig {
    /// Number of frames.
    pub frames: usize,
    /// Bytes of a frame, a power of two.
    pub frame_size: usize,
}

/// Bytes that a pool keeps free in front of each packet that it lays out, at least: [`Batch::prepend`] finds room there for a VLAN
/// tag or the header of a tunnel.
pub const HEADROOM: usize = LINE;

impl Default for PoolConfig {
    /// 8,192 frames of 2,048 bytes: 16 MiB, packets of up to 1,600 bytes in one frame.
    fn default() -> PoolConfig {
        PoolConfig { frames: 8192, frame_size: 2048 }
    }
}

/// The note under which frames are loaned to a process that shares their region.
pub const LOANED: u16 = 1;

/// What was written into a frame by [`Pool::fill`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes of the packet; cut to what there was room for.
    pub len: usize,
    /// Its timestamp, for batches that keep timestamps.
    pub time_ns: u64,
    /// What is known about its checksum.
    pub checksum: Checksum,
}

/// One thread's handle on a pool. `clone` makes a handle for another thread (or port) on the same frames.
pub struct Pool {
    region: Arc<Region>,
    depot: Arc<Depot>,
    ownership: Option<Arc<Mutex<OwnershipTable>>>,
    loaded: Magazine,
    previous: Magazine,
    spares: Spares,
    /// Colours of the packets taken last.
    colours: u16,
}

/// Finds a pool again, as long as it has a handle.
#[derive(Clone)]
pub struct WeakPool {
    region: Weak<Region>,
    depot: Weak<Depot>,
    ownership: Option<Weak<Mutex<OwnershipTable>>>,
}

impl WeakPool {
    /// A handle on the pool; `None` if its last one is gone.
    pub fn upgrade(&self) -> Option<Pool> {
        let ownership = self.ownership.as_ref().map(Weak::upgrade);
        if matches!(ownership, Some(None)) {
            return None;
        }
        Some(Pool::handle(self.region.upgrade()?, self.depot.upgrade()?, ownership.flatten()))
    }
}

impl Pool {
    /// Maps a region and puts all of its frames into a new pool.
    ///
    /// # Errors
    /// The shape is not possible, or the kernel refuses.
    pub fn new(config: PoolConfig) -> Result<Pool, MapError> {
        Ok(Pool::on(Region::map(config.frames, config.frame_size)?))
    }

    /// A pool of all frames of a region.
    pub fn on(region: Region) -> Pool {
        let depot = Arc::new(Depot::new(region.frames()));
        Pool::handle(Arc::new(region), depot, None)
    }

    /// A pool on a region that another process maps, too ([`Region::map_shared`]), with a table of which frames this process owns:
    /// all of them (`owned`), or none yet.
    pub fn shared(region: Region, owned: bool) -> Pool {
        let frames = region.frames();
        let (region, depot) = (Arc::new(region), if owned { Depot::new(frames) } else { Depot::empty(frames) });
        let table = OwnershipTable::with(&region, if owned { 0 } else { LOANED });
        Pool::handle(region, Arc::new(depot), Some(Arc::new(Mutex::new(table))))
    }

    /// The table of the frames that this process owns, of a pool that [`Pool::shared`] made. All handles have the same one.
    pub fn ownership(&self) -> Option<&Arc<Mutex<OwnershipTable>>> {
        self.ownership.as_ref()
    }

    /// Finds this pool again without keeping it.
    pub fn downgrade(&self) -> WeakPool {
        WeakPool {
            region: Arc::downgrade(&self.region),
            depot: Arc::downgrade(&self.depot),
            ownership: self.ownership.as_ref().map(Arc::downgrade),
        }
    }

    fn handle(region: Arc<Region>, depot: Arc<Depot>, ownership: Option<Arc<Mutex<OwnershipTable>>>) -> Pool {
        let (loaded, previous) = (new_magazine(), new_magazine());
        Pool { region, depot, ownership, loaded, previous, spares: Spares::default(), colours: COLOURS }
    }

    /// The memory that the pool's frames lie in.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    pub(crate) fn depot(&self) -> &Arc<Depot> {
        &self.depot
    }

    /// Longest packet that fits into one frame of this pool, in bytes.
    pub fn packet_len_max(&self) -> usize {
        self.region.frame_size() - COLOUR_BYTES_MAX
    }

    /// Appends up to `count` packets of `len` bytes (contents as the last owner left them) and returns how many there were
    /// frames and room for. `len` is cut to [`Pool::packet_len_max`]; what is taken for `len` bytes may not hold more.
    #[inline]
    pub fn alloc(&mut self, batch: &mut Batch, count: usize, len: usize) -> usize {
        batch.check_region(&self.region);
        let len = len.min(self.packet_len_max()) as u16;
        self.colours = colours(self.region.frame_size() - usize::from(len));
        let colours = self.colours;
        let wanted = count.min(batch.room());
        let mut taken = 0;
        while taken < wanted {
            if self.loaded.is_empty() && !self.reload() {
                break;
            }
            let spare = batch.spare_words();
            let step = self.loaded.len().min(wanted - taken).min(spare.len());
            let keep = self.loaded.len() - step;
            for (word, frame) in spare.iter_mut().zip(&self.loaded[keep..]) {
                // SAFETY: the frame was free, so the new slot is its only owner; `colours` keeps offset + len inside the
                // frame; frame numbers come from the depot of this very region.
                *word = unsafe { Slot::new(*frame, offset(*frame, colours), len) }.into_word();
            }
            self.loaded.truncate(keep);
            // SAFETY: the loop wrote `step` slots of this region.
            unsafe { batch.grow(step) };
            taken += step;
        }
        taken
    }

    /// Appends up to `count` packets that `write` makes, for ports that copy at their edge; returns how many.
    ///
    /// `write` gets the bytes of a free frame ([`Pool::packet_len_max`] of them, contents as the last owner left them) and
    /// says what it wrote; `None` ends the filling, and that frame stays free.
    #[inline]
    pub fn fill(
        &mut self,
        batch: &mut Batch,
        count: usize,
        mut write: impl FnMut(&mut [u8]) -> Option<Written>,
    ) -> usize {
        batch.check_region(&self.region);
        let len_max = self.packet_len_max();
        let wanted = count.min(batch.room());
        for filled in 0..wanted {
            if self.loaded.is_empty() && !self.reload() {
                return filled;
            }
            let Some(&frame) = self.loaded.last() else { return filled };
            let offset = offset(frame, COLOURS);
            let word = Slot::new_word(frame, offset, len_max as u16);
            // SAFETY: the frame is free and this handle's, so nobody else has its bytes; `packet_len_max` keeps them inside it.
            let Some(written) = write(unsafe { self.region.packet_mut(word) }) else { return filled };
            self.loaded.pop();
            let word = Slot::new_word(frame, offset, written.len.min(len_max) as u16) | written.checksum.flags();
            // SAFETY: as in `alloc`; the frame has just left the free ones.
            unsafe { batch.push_word(word, written.time_ns) };
        }
        wanted
    }

    /// Appends one packet of `len` bytes (at most [`Pool::packet_len_max`]), whose checksum is known so, and returns its bytes to be written: they
    /// are as the last owner left them. `None` if there is no free frame, or no room. Packets begin in as many different lines as those of
    /// [`Pool::alloc`].
    #[inline(always)]
    pub fn alloc_one<'a>(&mut self, batch: &'a mut Batch, len: usize, checksum: Checksum) -> Option<&'a mut [u8]> {
        batch.check_region(&self.region);
        if !batch.has_place() || len > self.packet_len_max() || (self.loaded.is_empty() && !self.reload()) {
            return None;
        }
        let frame = self.loaded.pop()?;
        let colours = colours(self.region.frame_size() - len);
        let word = Slot::new_word(frame, offset(frame, colours), len as u16) | checksum.flags();
        // SAFETY: as in `alloc`: the frame has just left the free ones, `colours` keeps offset + len inside it, and the word is its only owner.
        Some(unsafe { batch.push_in_place(word) })
    }

    /// Takes one free frame, as a slot that spans `len` bytes after the headroom.
    #[inline]
    pub fn alloc_slot(&mut self, len: usize) -> Option<Slot> {
        if self.loaded.is_empty() && !self.reload() {
            return None;
        }
        let len = len.min(self.packet_len_max()) as u16;
        // SAFETY: as in `alloc`, with `packet_len_max` for the length.
        self.loaded.pop().map(|frame| unsafe { Slot::new(frame, offset(frame, COLOURS), len) })
    }

    /// Puts the frame of the only packet of `from` in front of `to`, as a packet of [`Pool::packet_len_max`] bytes, as if it had been freed and
    /// taken again. False, and nothing has happened, if `from` has not one packet, `to` is full, or had no packet before, or one of them is
    /// of another pool.
    #[inline]
    pub fn reuse(&self, from: &mut Batch, to: &mut Batch) -> bool {
        if !to.is_of(&self.region) {
            return false;
        }
        let len = self.packet_len_max() as u16;
        // SAFETY: the word names the same frame, and `packet_len_max` bytes after an offset of one of `COLOURS` are inside it.
        unsafe { to.reuse_only(from, |frame| Slot::new_word(frame, offset(frame, COLOURS), len)) }
    }

    /// Puts the frames of `from` behind those of `to`, from the last packet on and as far as there is room, each as a packet of
    /// [`Pool::packet_len_max`] bytes, as if they had been freed and taken again. The rest stays. Nothing happens if one of the batches is of another
    /// pool, or `to` keeps times.
    #[inline]
    pub fn renew(&self, from: &mut Batch, to: &mut Batch) {
        if !to.is_of(&self.region) {
            return;
        }
        let len = self.packet_len_max() as u16;
        // SAFETY: as in `reuse`.
        unsafe { to.renew_from(from, |frame| Slot::new_word(frame, offset(frame, COLOURS), len)) }
    }

    /// Returns every frame of the batch, which is empty afterwards.
    #[inline]
    pub fn free(&mut self, batch: &mut Batch) {
        let count = batch.len();
        self.free_front(batch, count);
    }

    /// Returns the frames of the first `count` slots of the batch.
    #[inline]
    pub fn free_front(&mut self, batch: &mut Batch, count: usize) {
        batch.check_region(&self.region);
        if count == 1
            && self.loaded.len() < MAGAZINE
            && let Some(slot) = batch.pop_front()
        {
            return self.loaded.push(slot.frame());
        }
        self.free_words(batch.drain_words(count));
    }

    fn free_words(&mut self, mut words: &[u64]) {
        while !words.is_empty() {
            if self.loaded.len() == MAGAZINE {
                self.unload();
            }
            let (fitting, rest) = words.split_at(words.len().min(MAGAZINE - self.loaded.len()));
            self.loaded.extend(fitting.iter().map(|word| crate::slot::frame_of(*word)));
            words = rest;
        }
    }

    /// Returns the frames of the last `count` slots of the batch.
    pub fn free_back(&mut self, batch: &mut Batch, count: usize) {
        batch.check_region(&self.region);
        for _ in 0..count {
            let Some(slot) = batch.pop_back() else { return };
            // SAFETY: a slot of the batch, whose region is this pool's.
            unsafe { self.free_slot(slot) };
        }
    }

    /// Returns one frame.
    ///
    /// # Safety
    /// The slot is of this pool's region.
    #[inline]
    pub unsafe fn free_slot(&mut self, slot: Slot) {
        if self.loaded.len() == MAGAZINE {
            self.unload();
        }
        self.loaded.push(slot.frame());
    }

    /// Frames that are free and can be had by this handle: its own and the depot's.
    pub fn available(&self) -> usize {
        let spare: usize = self.spares.full.iter().map(Vec::len).sum();
        self.loaded.len() + self.previous.len() + spare + self.depot.len()
    }

    /// True when every frame of the pool is free. Other handles must have been dropped, or have flushed.
    pub fn is_whole(&self) -> bool {
        self.available() == self.depot.frames()
    }

    /// Gives the frames that this handle keeps in hand back to the depot, for others to take.
    pub fn flush(&mut self) {
        let spare = self.spares.full.drain(..).flatten();
        self.depot.put_loose(self.loaded.drain(..).chain(self.previous.drain(..)).chain(spare));
    }

    /// Loads a magazine. Of spare ones, the next is made ready, too: frames that another core gave back last come out of its
    /// cache while the packets before them are written.
    #[cold]
    fn reload(&mut self) -> bool {
        std::mem::swap(&mut self.loaded, &mut self.previous);
        if self.loaded.is_empty() && !self.load_spare() && !self.depot.take(&mut self.loaded, &mut self.spares) {
            return false;
        }
        if self.previous.is_empty() && self.spares.shared {
            std::mem::swap(&mut self.loaded, &mut self.previous);
            let _ = self.load_spare() || self.depot.take(&mut self.loaded, &mut self.spares);
            std::mem::swap(&mut self.loaded, &mut self.previous);
            for frame in &self.previous {
                let word = Slot::new_word(*frame, offset(*frame, self.colours), 0);
                crate::prefetch::prefetch_address_to_write(self.region.first_byte(word));
            }
        }
        true
    }

    fn load_spare(&mut self) -> bool {
        let Some(full) = self.spares.full.pop() else { return false };
        self.spares.empty.push(std::mem::replace(&mut self.loaded, full));
        true
    }

    #[cold]
    fn unload(&mut self) {
        if !self.previous.is_empty() {
            if let Some(empty) = self.spares.empty.pop() {
                self.spares.full.push(std::mem::replace(&mut self.previous, empty));
            } else {
                self.depot.give(&mut self.previous, &mut self.spares);
            }
        }
        std::mem::swap(&mut self.loaded, &mut self.previous);
    }
}

impl Clone for Pool {
    fn clone(&self) -> Pool {
        Pool::handle(Arc::clone(&self.region), Arc::clone(&self.depot), self.ownership.clone())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Colours that every frame has room for: its packets begin in so many different cache lines.
const COLOURS: u16 = 8;
const COLOUR_BYTES_MAX: usize = (COLOURS as usize - 1) * LINE;
/// Colours of packets that leave more room. With frames of 2 KiB, half of them a line apart from the other half modulo the
/// size of a cache way (4 KiB), these fill all sets of a first-level cache.
const COLOURS_MAX: u16 = 32;
const LINE: usize = 64;

/// Colours, a power of two, for packets behind which `room` bytes are left.
#[inline]
fn colours(room: usize) -> u16 {
    if room >= (usize::from(COLOURS_MAX) - 1) * LINE {
        return COLOURS_MAX;
    }
    let lines = (room / LINE + 1).min(usize::from(COLOURS_MAX));
    1 << lines.ilog2()
}

/// Start of the packet in its frame, in bytes, by frame number. Frames come in pairs because the lowest bit is in the address
/// already. The first colour would leave no headroom, so its packets begin where those of the second do.
#[inline]
fn offset(frame: u32, colours: u16) -> u16 {
    ((frame >> 1) as u16 & (colours - 1)).max(1) * LINE as u16
}
