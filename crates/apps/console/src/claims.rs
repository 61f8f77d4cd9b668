//! Cores that Linerates of this machine use, so that two of them do not choose the same one.
//!
//! A process locks a file for each core that it uses (flock(2)), until it ends, however it ends: a lock that a killed process left does not
//! exist, and the empty files do no harm. They lie where every user may make files, since cores are shared by all. A folder
//! that cannot be used means that nobody is known to use a core.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::holder::{FOLDER, holding_pid};

/// Locks of this process. It keeps its cores until it ends.
static KEPT: Mutex<Vec<(usize, File)>> = Mutex::new(Vec::new());

/// The locks of cores.
#[derive(Clone, Debug)]
pub struct Claims {
    folder: PathBuf,
}

/// What came of asking for a core.
#[derive(Debug)]
pub enum Claim {
    /// It is this process's, as long as the file is open; without a file nobody can be asked.
    Free(Option<File>),
    /// Another Linerate uses it: who, in words, where that can be told.
    Used(String),
}

impl Claims {
    /// Those of this machine.
    pub fn of_machine() -> Claims {
        Claims::inside(Path::new(FOLDER))
    }

    /// As [`Claims::of_machine`], in another folder.
    pub fn inside(folder: &Path) -> Claims {
        Claims { folder: folder.into() }
    }

    /// Asks for a core.
    pub fn claim(&self, core: usize) -> Claim {
        let path = self.folder.join(format!("linerate-core-{core}"));
        let Ok(file) = open(&path) else { return Claim::Free(None) };
        match file.try_lock() {
            Ok(()) => Claim::Free(Some(file)),
            Err(fs::TryLockError::WouldBlock) => Claim::Used(holder(&file)),
            Err(fs::TryLockError::Error(_)) => Claim::Free(None),
        }
    }
}

/// Keeps what was claimed until this process ends.
pub fn keep(claimed: impl IntoIterator<Item = (usize, File)>) {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).extend(claimed);
}

/// True for a core that this process keeps.
pub fn is_kept(core: usize) -> bool {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|(kept, _)| *kept == core)
}

/// The file of a core, to be locked. A file of another user is opened to be read, and is not made: in a sticky folder the kernel refuses that
/// (`fs.protected_regular`). Nothing is ever written, so that a link in its place does no harm.
fn open(path: &Path) -> io::Result<File> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        result => return result,
    }
    match File::options().write(true).create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => File::open(path),
        result => result,
    }
}

/// Who holds the lock of a file: `pid 12 (send)`.
fn holder(file: &File) -> String {
    let Some(pid) = holding_pid(file) else { return "another process".to_owned() };
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    // The first word is the program; pkt-gen may be the program's name.
    let mut words = words.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let program = words.next().unwrap_or_default();
    let command = words.next().filter(|word| !word.is_empty() && !program.ends_with("pkt-gen"));
    let command = command.unwrap_or_else(|| program.rsplit('/').next().unwrap_or_default().to_owned().into());
    if command.is_empty() { format!("pid {pid}") } else { format!("pid {pid} ({command})") }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_core_is_free_until_somebody_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let claims = Claims::inside(folder.path());
        let Claim::Free(Some(file)) = claims.claim(3) else { panic!("free") };
        let Claim::Used(by) = claims.claim(3) else { panic!("used") };
        assert!(by.starts_with(&format!("pid {} (", std::process::id())), "{by}");
        assert!(matches!(claims.claim(2), Claim::Free(Some(_))));
        drop(file);
        // A child that another test starts has a copy of the file, and of its lock, from fork(2) to execve(2).
        let deadline = Instant::now() + Duration::from_secs(60);
        while matches!(claims.claim(3), Claim::Used(_)) {
            assert!(Instant::now() < deadline, "the core stays used after its file was closed");
            std::thread::sleep(Duration::from_millis(1));
        }
        // Where nobody can be asked, nobody is known to use it.
        assert!(matches!(Claims::inside(Path::new("/proc/nowhere")).claim(3), Claim::Free(None)));
    }
}
