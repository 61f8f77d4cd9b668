//! The file behind a pool that a peer is lent, and the question whether somebody else has it still.

use std::any::Any;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use linerate_mem::{MapError, Pool, PoolConfig, Region};
use linerate_sys::shared::{is_open_here_alone, memory_file, open_again};

/// Memory of a pool, which one other process at a time may map.
///
/// Whoever is given the memory gets an open file of its own, not a copy of this one.
#[derive(Debug)]
pub(crate) struct PoolFile {
    file: File,
    bytes: usize,
}

impl PoolFile {
    /// Memory for these frames, of a size that nobody can change.
    pub(crate) fn new(config: PoolConfig) -> io::Result<PoolFile> {
        let too_big = || io::Error::from_raw_os_error(libc::EFBIG);
        let bytes = config.frames.checked_mul(config.frame_size).ok_or_else(too_big)?.next_multiple_of(4096);
        // The file as it was made does not count among the open ones; one that was opened does.
        let file = open_again(memory_file(c"linerate memif pool", bytes)?.as_fd())?;
        Ok(PoolFile { file, bytes })
    }

    /// The pool in this memory, all of whose frames are here. `companion` lives as long as its memory is mapped.
    pub(crate) fn pool(&self, config: PoolConfig, companion: Box<dyn Any + Send + Sync>) -> Result<Pool, MapError> {
        let shape = (config.frames, config.frame_size);
        // SAFETY: the file was made here, and this is the one place where its memory becomes a region; `open` calls it once.
        let region = unsafe { Region::map_shared(self.file.as_fd(), 0, shape, companion) }?;
        Ok(Pool::on(region))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// An open file for another process.
    pub(crate) fn lend(&self) -> io::Result<OwnedFd> {
        open_again(self.file.as_fd()).map(OwnedFd::from)
    }

    /// True when no other process has the memory any more. False also where the kernel cannot tell.
    pub(crate) fn is_here_alone(&self) -> bool {
        is_open_here_alone(self.file.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use linerate_sys::shared::SharedMapping;

    use super::*;

    #[test]
    fn it_is_known_whether_somebody_has_the_memory() {
        let config = PoolConfig { frames: 16, frame_size: 512 };
        let file = PoolFile::new(config).unwrap();
        let pool = file.pool(config, Box::new(())).unwrap();
        assert!(file.is_here_alone());
        let lent = file.lend().unwrap();
        assert!(!file.is_here_alone(), "a descriptor");
        let copy = lent.try_clone().unwrap();
        drop(lent);
        assert!(!file.is_here_alone(), "a copy of it");
        let mapping = SharedMapping::map(copy.as_fd(), file.bytes()).unwrap();
        drop(copy);
        assert!(!file.is_here_alone(), "a mapping without a descriptor");
        let read_only = File::open(format!("/proc/self/fd/{}", file.file.as_raw_fd())).unwrap();
        drop(mapping);
        assert!(!file.is_here_alone(), "one who only reads");
        drop(read_only);
        assert!(file.is_here_alone());
        assert!(pool.is_whole());
    }
}
