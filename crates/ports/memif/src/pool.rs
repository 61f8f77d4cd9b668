//! The pool of a port that copies nothing: memory of its own, which the peer maps, too.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use linerate_mem::{Pool, PoolConfig};
use linerate_port::{OpenError, PortSpec};

use crate::options::{Key, Options};
use crate::sys::PoolFile;

/// Bytes that a descriptor's offset of 32 bits reaches.
const BYTES_MAX: usize = 1 << 32;

/// True for a spec whose port must be opened on the pool that [`pool`] makes: one with `zerocopy`.
pub fn has_own_memory(spec: &PortSpec) -> bool {
    spec.options.zero_copy == Some(true)
}

/// The pool for a port that copies nothing. Its peer reads and writes all frames of it, so it is for the packets of this port, and of
/// those that exchange packets with it.
///
/// # Errors
/// The spec is wrong, or there is no memory; with what to do.
pub fn pool(spec: &PortSpec, config: PoolConfig) -> Result<Pool, OpenError> {
    let key = Options::take(&mut spec.clone())?.key;
    let refuse = |cause: String| OpenError::new(spec, cause, "fewer or smaller frames need less");
    if config.frames.saturating_mul(config.frame_size) >= BYTES_MAX {
        return Err(refuse("a pool that is shared has less than 4 GiB".into()));
    }
    let file = PoolFile::new(config).map_err(|error| refuse(format!("cannot make shared memory: {error}")))?;
    let memory = Arc::new(PoolMemory { key, file, lent: AtomicBool::new(false) });
    let companion: Box<Companion> = Box::new(Arc::clone(&memory));
    memory.file.pool(config, companion).map_err(|error| refuse(error.to_string()))
}

type Companion = Arc<PoolMemory>;

/// What is known of a pool's memory.
#[derive(Debug)]
pub(crate) struct PoolMemory {
    /// Whose it is.
    key: Key,
    file: PoolFile,
    /// Some peer was given it.
    lent: AtomicBool,
}

impl PoolMemory {
    /// That of a pool which [`pool`] made for this interface.
    pub(crate) fn of(pool: &Pool, key: &Key) -> Option<Arc<PoolMemory>> {
        let memory = pool.region().companion()?.downcast_ref::<Companion>()?;
        (memory.key == *key).then(|| Arc::clone(memory))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.file.bytes()
    }

    /// True when a peer may be given it: no other process has it any more. So no peer sees what is for the next one.
    pub(crate) fn can_be_lent(&self) -> bool {
        !self.lent.load(Ordering::Acquire) || self.file.is_here_alone()
    }

    /// A descriptor of it for a peer.
    pub(crate) fn lend(&self) -> io::Result<std::os::fd::OwnedFd> {
        self.lent.store(true, Ordering::Release);
        self.file.lend()
    }
}
