//! The guest's memory: regions of files that the front-end sent, and the way from an address of the guest to bytes.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

use linerate_sys::shared::MemoryFile;

use crate::sys::{Mapping, Place, Span};

/// Most regions: what the front-end can send in one message.
pub(crate) const REGIONS_MAX: usize = 32;

/// What the front-end says about a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionAt {
    /// First address in descriptors.
    pub guest: u64,
    /// First address in the front-end's process, for the addresses of rings.
    pub user: u64,
    /// Bytes.
    pub bytes: u64,
    /// Where it begins in its file.
    pub file_offset: u64,
}

/// A region, mapped.
#[derive(Clone, Debug)]
struct Region {
    at: RegionAt,
    mapping: Arc<Mapping>,
    /// Where it begins in the mapping.
    offset: usize,
}

/// All regions. It never changes; a new table of regions is a new value.
#[derive(Clone, Debug, Default)]
pub(crate) struct GuestMemory {
    regions: Vec<Region>,
}

impl GuestMemory {
    /// Maps the regions.
    ///
    /// # Errors
    /// What is wrong with them, in words.
    pub(crate) fn map(regions: impl IntoIterator<Item = (RegionAt, File)>) -> Result<GuestMemory, String> {
        let mut memory = GuestMemory::default();
        for (at, file) in regions {
            memory = memory.with(at, &file)?;
        }
        Ok(memory)
    }

    /// The same memory and one region more.
    pub(crate) fn with(&self, at: RegionAt, file: &File) -> Result<GuestMemory, String> {
        if self.regions.len() >= REGIONS_MAX {
            return Err(format!("more than {REGIONS_MAX} memory regions"));
        }
        let mut regions = self.regions.clone();
        regions.push(Region::map(at, file)?);
        Ok(GuestMemory { regions })
    }

    /// The same memory without one region; `None` when there is none like it.
    pub(crate) fn without(&self, guest: u64, user: u64, bytes: u64) -> Option<GuestMemory> {
        let same = |region: &Region| (region.at.guest, region.at.user, region.at.bytes) == (guest, user, bytes);
        let at = self.regions.iter().position(same)?;
        let mut regions = self.regions.clone();
        regions.remove(at);
        Some(GuestMemory { regions })
    }

    /// Bytes at an address of the guest that lie in one region, which nearly all do; `None` for others.
    #[inline]
    pub(crate) fn find(&self, guest: u64, len: usize) -> Option<Span<'_>> {
        let span = self.find_start(guest, len)?;
        (span.len() == len).then_some(span)
    }

    /// As many of `len` bytes as lie in the region of the first one; `None` when not even that lies in one.
    #[inline]
    pub(crate) fn find_start(&self, guest: u64, len: usize) -> Option<Span<'_>> {
        for region in &self.regions {
            let offset = guest.wrapping_sub(region.at.guest);
            if offset < region.at.bytes {
                let len = len.min((region.at.bytes - offset) as usize);
                return region.mapping.span(region.offset + offset as usize, len);
            }
        }
        None
    }

    /// Where `len` bytes at an address of the front-end's process are.
    pub(crate) fn place(&self, user: u64, len: usize) -> Option<Place> {
        let region = self.regions.iter().find(|region| user.wrapping_sub(region.at.user) < region.at.bytes)?;
        let offset = user - region.at.user;
        let fits = len as u64 <= region.at.bytes - offset;
        fits.then(|| (Arc::clone(&region.mapping), region.offset + offset as usize))
    }

    /// True when the guest took memory away that was mapped.
    #[inline]
    pub(crate) fn is_broken(&self) -> bool {
        self.regions.iter().any(|region| region.mapping.is_broken())
    }
}

impl Region {
    fn map(at: RegionAt, file: &File) -> Result<Region, String> {
        let facts = MemoryFile::of(file.as_fd()).map_err(|error| {
            format!(
                "a memory region that is neither a memfd nor a file of /dev/shm or of huge pages (with QEMU: \
                 -object memory-backend-memfd,share=on): {error}"
            )
        })?;
        let page = facts.page_bytes as u64;
        let end = at.file_offset.checked_add(at.bytes).filter(|end| *end <= i64::MAX as u64 - page);
        let addresses_end = at.guest.checked_add(at.bytes).and(at.user.checked_add(at.bytes));
        let (Some(end), Some(_), 1..) = (end, addresses_end, at.bytes) else {
            return Err(format!("a memory region of {} bytes, which wraps or is empty", at.bytes));
        };
        if facts.bytes < end {
            return Err(format!("a memory region up to byte {end} of a file of {}", facts.bytes));
        }
        let first = at.file_offset & !(page - 1);
        let bytes = usize::try_from(end - first).map_err(|error| error.to_string())?;
        let mapping = Mapping::new(file, first, bytes)
            .map_err(|error| format!("a memory region that cannot be mapped: {error}"))?;
        let offset = (at.file_offset - first) as usize;
        Ok(Region { at, mapping: Arc::new(mapping), offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: u64) -> File {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        file.set_len(bytes).unwrap();
        file
    }

    fn at(guest: u64, bytes: u64, file_offset: u64) -> RegionAt {
        RegionAt { guest, user: guest + (1 << 40), bytes, file_offset }
    }

    #[test]
    fn addresses_are_found_and_only_those() {
        let regions = [(at(0, 0x3000, 0x1800), file(0x8000)), (at(0x3000, 0x1000, 0), file(0x1000))];
        let memory = GuestMemory::map(regions).unwrap();
        assert_eq!(memory.find(0x10, 0x20).unwrap().len(), 0x20);
        assert_eq!(memory.find(0x2fff, 1).unwrap().len(), 1);
        // Over the border of two regions there are two parts.
        assert!(memory.find(0x2fff, 2).is_none());
        assert_eq!(memory.find_start(0x2fff, 2).unwrap().len(), 1);
        for (guest, len) in [(0x4000, 1), (0x3fff, 2), (u64::MAX, 1), (u64::MAX, usize::MAX), (0, usize::MAX)] {
            assert!(memory.find(guest, len).is_none(), "{guest:x} {len}");
        }
        assert!(memory.place((1 << 40) + 0x3000, 0x1000).is_some());
        assert!(memory.place((1 << 40) + 0x3000, 0x1001).is_none() && memory.place(0x10, 1).is_none());
        let less = memory.without(0x3000, 0x3000 + (1 << 40), 0x1000).unwrap();
        assert!(less.find(0x3000, 1).is_none() && less.find(0, 1).is_some());
        assert!(less.without(0x3000, 0, 0x1000).is_none());
    }

    #[test]
    fn regions_that_cannot_be_are_refused() {
        let refused = |at: RegionAt, file: File| GuestMemory::map([(at, file)]).unwrap_err();
        assert!(refused(at(0, 0x2000, 0), file(0x1000)).contains("up to byte 8192"));
        assert!(refused(at(0, 0x1000, u64::MAX - 10), file(0x1000)).contains("wraps"));
        assert!(refused(at(0, 0, 0), file(0x1000)).contains("wraps or is empty"));
        assert!(refused(at(u64::MAX - 0x800 - (1 << 40), 0x1000, 0), file(0x1000)).contains("wraps"));
        assert!(refused(at(0, 0x1000, 0), File::open("/proc/self/status").unwrap()).contains("neither a memfd"));
        assert!(refused(at(0, 0x1000, 0), File::open("/dev/null").unwrap()).contains("memory region"));
        let all = (0..REGIONS_MAX as u64 + 1).map(|n| (at(n << 12, 0x1000, 0), file(0x1000)));
        assert!(GuestMemory::map(all).unwrap_err().contains("more than 32"));
    }

    #[test]
    fn memory_that_is_cut_away_reads_as_zeros() {
        use std::os::unix::fs::FileExt;
        let file = file(0x4000);
        file.write_all_at(&[7; 0x4000], 0).unwrap();
        let memory = GuestMemory::map([(at(0, 0x4000, 0), file.try_clone().unwrap())]).unwrap();
        let mut bytes = [0; 4];
        memory.find(0x3000, 4).unwrap().read(&mut bytes);
        assert_eq!((bytes, memory.is_broken()), ([7; 4], false));
        file.set_len(0).unwrap();
        memory.find(0x3000, 4).unwrap().read(&mut bytes);
        assert_eq!((bytes, memory.is_broken()), ([0; 4], true));
        memory.find(0, 4).unwrap().write(&[1; 4]);
        // Another one is not concerned.
        let other = GuestMemory::map([(at(0, 0x1000, 0), tests::file(0x1000))]).unwrap();
        assert!(!other.is_broken());
    }
}
