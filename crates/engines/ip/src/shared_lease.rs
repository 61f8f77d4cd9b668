//! The lease of a stack of several shards: the first one asks for it, and the others are told of it.
//!
//! Shards have nothing else in common. Here it is a lock, because it is taken when a lease begins, goes on or ends (once in half a minute
//! at most), and looked at once a second by each of the others, by a version that is read without the lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::dhcp::Lease;

/// A lease that several shards use. All of them are configured with clones of one.
#[derive(Clone, Debug, Default)]
pub struct SharedLease(Arc<Board>);

#[derive(Debug, Default)]
struct Board {
    /// Changes with the lease; 0 before the first one.
    version: AtomicU64,
    lease: Mutex<Option<Lease>>,
}

impl SharedLease {
    /// Tells the others what they may use from now on; `None`: nothing.
    pub(crate) fn tell(&self, lease: Option<Lease>) {
        let mut told = self.0.lease.lock().unwrap_or_else(PoisonError::into_inner);
        if *told != lease {
            *told = lease;
            self.0.version.fetch_add(1, Ordering::Release);
        }
    }

    /// What was told since `version`, which becomes the present one; `None` if nothing was.
    pub(crate) fn news(&self, version: &mut u64) -> Option<Option<Lease>> {
        if self.0.version.load(Ordering::Acquire) == *version {
            return None;
        }
        let told = self.0.lease.lock().unwrap_or_else(PoisonError::into_inner);
        *version = self.0.version.load(Ordering::Acquire);
        Some(told.clone())
    }
}
