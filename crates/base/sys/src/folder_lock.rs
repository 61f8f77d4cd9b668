//! A lock on the folder of a socket (flock(2)): of several processes that find the socket of a dead one, one at a time removes it and
//! listens in its place, so that none removes the new socket of another.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

/// Held for moments only; whoever has it for longer means no good, and is not waited for.
const PATIENCE: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(2);

/// The lock, as long as the value lives.
#[derive(Debug)]
pub struct FolderLock {
    _folder: Option<File>,
}

impl FolderLock {
    /// Locks the folder that `path` is in. Another process that has the lock is waited for, one second at most; a folder that cannot be
    /// opened is not locked, which whatever is done in it will tell.
    pub fn of(path: &Path) -> FolderLock {
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let Ok(folder) = File::open(folder) else { return FolderLock { _folder: None } };
        let give_up = Instant::now() + PATIENCE;
        while matches!(folder.try_lock(), Err(TryLockError::WouldBlock)) && Instant::now() < give_up {
            std::thread::sleep(STEP);
        }
        FolderLock { _folder: Some(folder) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn one_at_a_time_has_it_and_a_folder_that_is_not_there_hurts_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let (inside, most) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let _lock = FolderLock::of(&path);
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(most.load(Ordering::SeqCst), 1);
        drop(FolderLock::of(&folder.path().join("none/socket")));
        drop(FolderLock::of(Path::new("socket")));
    }
}
