//! Maps: memory that programs and this process share.
//!
//! An array of one element created with [`Map::shared`] is the cheapest to use: programs address it
//! directly ([`crate::asm::Assembler::load_map_value`]) and this process reads it through a
//! [`MapView`] without system calls. Source: `include/uapi/linux/bpf.h`, `kernel/bpf/arraymap.c`.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::BpfError;
use crate::sys::{self, MapShape, Mapping, RawMap};

const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_MAP_TYPE_PERCPU_HASH: u32 = 5;
const BPF_MAP_TYPE_PERCPU_ARRAY: u32 = 6;
const BPF_MAP_TYPE_DEVMAP: u32 = 14;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_F_MMAPABLE: u32 = 1 << 10;

/// A map. Closed on drop; programs that use it keep it alive.
#[derive(Debug)]
pub struct Map {
    raw: RawMap,
}

/// The memory of a mappable array, as 64-bit words that a program may change at any time.
#[derive(Debug)]
pub struct MapView {
    mapping: Mapping,
}

impl Map {
    /// An array of `entries` values of `value_bytes` bytes each, zeroed.
    ///
    /// # Errors
    /// [`BpfError::Permission`] without CAP_BPF, [`BpfError::System`] if the kernel refuses the sizes.
    pub fn array(name: &str, value_bytes: u32, entries: u32) -> Result<Map, BpfError> {
        Map::create(BPF_MAP_TYPE_ARRAY, name, value_bytes, entries, 0)
    }

    /// An array of one element that [`Map::view`] can map and programs address directly.
    ///
    /// # Errors
    /// As [`Map::array`].
    pub fn shared(name: &str, value_bytes: u32) -> Result<Map, BpfError> {
        Map::create(BPF_MAP_TYPE_ARRAY, name, value_bytes, 1, BPF_F_MMAPABLE)
    }

    /// An array with one copy of each value for each possible CPU.
    ///
    /// # Errors
    /// As [`Map::array`].
    pub fn per_cpu_array(name: &str, value_bytes: u32, entries: u32) -> Result<Map, BpfError> {
        Map::create(BPF_MAP_TYPE_PERCPU_ARRAY, name, value_bytes, entries, 0)
    }

    /// A map from receive queue to AF_XDP socket ([`Map::set_fd`]).
    ///
    /// # Errors
    /// As [`Map::array`].
    pub fn xsk(name: &str, entries: u32) -> Result<Map, BpfError> {
        Map::create(BPF_MAP_TYPE_XSKMAP, name, 4, entries, 0)
    }

    /// A map from number to interface ([`Map::set_u32`] with the interface's index).
    ///
    /// # Errors
    /// As [`Map::array`].
    pub fn device(name: &str, entries: u32) -> Result<Map, BpfError> {
        Map::create(BPF_MAP_TYPE_DEVMAP, name, 4, entries, 0)
    }

    /// A hash table with one copy of each value for each possible CPU. Its keys are not numbers: see [`crate::tally`].
    pub(crate) fn per_cpu_hash(name: &str, key_bytes: u32, value_bytes: u32, entries: u32) -> Result<Map, BpfError> {
        Map::create_keyed(BPF_MAP_TYPE_PERCPU_HASH, name, key_bytes, value_bytes, entries, 0)
    }

    fn create(kind: u32, name: &str, value_bytes: u32, entries: u32, flags: u32) -> Result<Map, BpfError> {
        Map::create_keyed(kind, name, 4, value_bytes, entries, flags)
    }

    fn create_keyed(
        kind: u32,
        name: &str,
        key_bytes: u32,
        value_bytes: u32,
        entries: u32,
        flags: u32,
    ) -> Result<Map, BpfError> {
        let moved_bytes = match kind {
            BPF_MAP_TYPE_PERCPU_HASH | BPF_MAP_TYPE_PERCPU_ARRAY => {
                (value_bytes as usize).next_multiple_of(8) * possible_cpus()?
            }
            _ => value_bytes as usize,
        };
        let name = object_name(name);
        let shape = MapShape { kind, key_bytes, value_bytes, entries, flags, name, moved_bytes };
        let raw = sys::map_create(shape).map_err(|e| BpfError::system("create a BPF map", e))?;
        Ok(Map { raw })
    }

    /// The number of elements.
    pub fn entries(&self) -> u32 {
        self.raw.shape().entries
    }

    /// Reads the value at `index`. Of a per-CPU array: the values of all possible CPUs one after
    /// the other, each padded to 8 bytes.
    ///
    /// # Errors
    /// [`BpfError::System`] with ENOENT where there is no such element.
    pub fn lookup(&self, index: u32) -> Result<Vec<u8>, BpfError> {
        let mut value = vec![0; self.raw.shape().moved_bytes];
        self.raw
            .lookup(&index.to_ne_bytes(), &mut value)
            .map_err(|e| BpfError::system("look up a BPF map element", e))?;
        Ok(value)
    }

    /// Reads the value at `index` of an array of u64 words, summed over the CPUs if it is a
    /// per-CPU array.
    ///
    /// # Errors
    /// As [`Map::lookup`].
    pub fn sum_words(&self, index: u32) -> Result<Vec<u64>, BpfError> {
        let words_per_value = self.raw.shape().value_bytes.div_ceil(8) as usize;
        let mut sums = vec![0u64; words_per_value];
        for (position, word) in self.lookup(index)?.chunks_exact(8).enumerate() {
            let word = word.try_into().map(u64::from_ne_bytes).unwrap_or(0);
            let sum = &mut sums[position % words_per_value];
            *sum = sum.wrapping_add(word);
        }
        Ok(sums)
    }

    /// Writes the value at `index`; of a per-CPU array, all copies in the layout of [`Map::lookup`].
    ///
    /// # Errors
    /// [`BpfError::System`]: EINVAL if `value` has not the length of the map's values, E2BIG if
    /// there is no such element.
    pub fn update(&self, index: u32, value: &[u8]) -> Result<(), BpfError> {
        self.raw.update(&index.to_ne_bytes(), value).map_err(|e| BpfError::system("update a BPF map element", e))
    }

    /// Writes a 32-bit value at `index`, for instance an interface's index into a device map.
    ///
    /// # Errors
    /// As [`Map::update`]; EINVAL also if a device map is given no interface of this namespace.
    pub fn set_u32(&self, index: u32, value: u32) -> Result<(), BpfError> {
        self.update(index, &value.to_ne_bytes())
    }

    /// Puts a socket or program into a map of descriptors.
    ///
    /// # Errors
    /// As [`Map::update`]; EOPNOTSUPP or EBADF if the descriptor is of the wrong kind.
    pub fn set_fd(&self, index: u32, fd: BorrowedFd<'_>) -> Result<(), BpfError> {
        self.update(index, &fd.as_raw_fd().to_ne_bytes())
    }

    /// Deletes the element at `index` (maps of sockets and devices; arrays refuse).
    ///
    /// # Errors
    /// [`BpfError::System`] with ENOENT, or EINVAL for an array.
    pub fn delete(&self, index: u32) -> Result<(), BpfError> {
        self.raw.delete(&index.to_ne_bytes()).map_err(|e| BpfError::system("delete a BPF map element", e))
    }

    /// Maps the memory of a map made by [`Map::shared`].
    ///
    /// # Errors
    /// [`BpfError::System`] with ENOTSUPP or ENODEV for other maps.
    pub fn view(&self) -> Result<MapView, BpfError> {
        let mapping = self.raw.map_memory().map_err(|e| BpfError::system("mmap a BPF map", e))?;
        Ok(MapView { mapping })
    }

    pub(crate) fn raw(&self) -> &RawMap {
        &self.raw
    }

    pub(crate) fn raw_fd(&self) -> RawFd {
        self.raw.fd().as_raw_fd()
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.raw.fd()
    }
}

impl MapView {
    /// All words of the array. A program's plain 64-bit stores and loads are relaxed atomics here.
    pub fn words(&self) -> &[AtomicU64] {
        self.mapping.words()
    }

    /// The word at byte `offset`, which must be a multiple of 8 inside the array, or else 0 is read.
    pub fn load(&self, offset: usize) -> u64 {
        self.word(offset).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Stores a word at byte `offset`; false if that is not a multiple of 8 inside the array.
    pub fn store(&self, offset: usize, value: u64) -> bool {
        self.word(offset).map(|word| word.store(value, Ordering::Relaxed)).is_some()
    }

    /// Sets all words to zero.
    pub fn clear(&self) {
        self.words().iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    fn word(&self, offset: usize) -> Option<&AtomicU64> {
        if offset.is_multiple_of(8) { self.words().get(offset / 8) } else { None }
    }
}

/// A name as `bpf_attr` takes it: at most 15 bytes, others than letters, digits, `_` and `.`
/// replaced.
pub(crate) fn object_name(name: &str) -> [u8; 16] {
    let mut field = [0; 16];
    for (place, byte) in field[..15].iter_mut().zip(name.bytes()) {
        let allowed = byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
        *place = if allowed { byte } else { b'_' };
    }
    field
}

/// The number of CPUs that the kernel reserves per-CPU memory for.
fn possible_cpus() -> Result<usize, BpfError> {
    let path = "/sys/devices/system/cpu/possible";
    let text = fs::read_to_string(path)
        .map_err(|source| BpfError::System { action: "read the list of possible CPUs", source })?;
    count_cpus(text.trim()).ok_or_else(|| BpfError::Argument(format!("{path}: cannot read {:?}", text.trim())))
}

/// Counts a list such as `0-3,8`.
fn count_cpus(list: &str) -> Option<usize> {
    let mut count = 0usize;
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_lists_of_cpus() {
        assert_eq!(count_cpus("0"), Some(1));
        assert_eq!(count_cpus("0-1"), Some(2));
        assert_eq!(count_cpus("0-3,8,10-11"), Some(7));
        assert_eq!(count_cpus(""), None);
        assert_eq!(count_cpus("3-1"), None);
    }

    #[test]
    fn names_are_cut_and_cleaned() {
        assert_eq!(&object_name("live-tx"), b"live_tx\0\0\0\0\0\0\0\0\0");
        assert_eq!(&object_name("0123456789abcdefXYZ"), b"0123456789abcde\0");
    }
}
