//! Where an instance keeps its sockets: a folder of the user's own, one set of names an instance, one process a name.
//!
//! ```text
//! FOLDER        $XDG_RUNTIME_DIR/linerate, or /run/user/UID/linerate, or (as root) /run/linerate; mode 0700
//! NAME.lock     held (flock(2)) by the process that is the instance: whoever gets it may remove what a killed one left
//! NAME.ctl      control socket, mode 0600          NAME.memif    memif socket of the ports attached by name
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A socket's path has at most 107 bytes and a 0 (unix(7)).
const SOCKET_PATH_LEN_MAX: usize = 107;
const NAME_LEN_MAX: usize = 48;
/// How often a folder is made again that others remove.
const FOLDER_TRIES: usize = 8;

/// Why an instance gets no runtime directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeDirError {
    /// The name has characters that a name must not have.
    #[error("not a name: {0:?} (letters, digits, - and _, at most 48 of them)")]
    Name(String),
    /// Somebody else's.
    #[error(
        "{path} belongs to user {owner}, not to user {own}; remove it, or choose another folder with XDG_RUNTIME_DIR"
    )]
    Foreign {
        /// The file or folder.
        path: String,
        /// Its owner.
        owner: u32,
        /// Who asks.
        own: u32,
    },
    /// Neither a folder nor a socket where one should be.
    #[error("{path} is {found}, and a socket is needed there; remove it or choose another name")]
    InTheWay {
        /// The file.
        path: String,
        /// What it is.
        found: &'static str,
    },
    /// An instance of that name is running.
    #[error(
        "{program} {name:?} is running already; `linerate {program} ctl --name {name} show` asks it, --name gives this one another name"
    )]
    Running {
        /// The program.
        program: &'static str,
        /// Its name.
        name: String,
    },
    /// The path does not fit into a socket address.
    #[error("{0} is too long for a socket (107 bytes); choose a shorter name or XDG_RUNTIME_DIR")]
    TooLong(String),
    /// The system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: String,
        /// What the kernel answered.
        source: io::Error,
    },
}

/// The paths of one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeDir {
    program: &'static str,
    name: String,
    folder: PathBuf,
}

impl RuntimeDir {
    /// The place of the instance `name` of this user. Makes the folder if need be. `program` is the subcommand of `linerate` that
    /// messages tell the user to call.
    ///
    /// # Errors
    /// The name has characters that a name must not have; the folder cannot be made, or is another user's.
    pub fn of(program: &'static str, name: &str) -> Result<RuntimeDir, RuntimeDirError> {
        let own = own_user()?;
        RuntimeDir::inside(&runtime_folder(own), program, name)
    }

    /// As [`RuntimeDir::of`], to talk to an instance: makes no folder, so one that is not there stays away.
    ///
    /// # Errors
    /// As [`RuntimeDir::of`].
    pub fn existing(program: &'static str, name: &str) -> Result<RuntimeDir, RuntimeDirError> {
        let folder = runtime_folder(own_user()?).join("linerate");
        if folder.exists() {
            check_folder(&folder)?;
        }
        RuntimeDir::named(folder, program, name)
    }

    /// As [`RuntimeDir::of`], in a folder of the caller's choice instead of the runtime folder.
    ///
    /// # Errors
    /// As [`RuntimeDir::of`].
    pub fn inside(parent: &Path, program: &'static str, name: &str) -> Result<RuntimeDir, RuntimeDirError> {
        check_name(name)?;
        let folder = parent.join("linerate");
        own_folder(&folder)?;
        RuntimeDir::named(folder, program, name)
    }

    fn named(folder: PathBuf, program: &'static str, name: &str) -> Result<RuntimeDir, RuntimeDirError> {
        check_name(name)?;
        let dir = RuntimeDir { program, name: name.into(), folder };
        for path in [dir.control(), dir.memif()] {
            let text = path.to_string_lossy();
            if text.len() > SOCKET_PATH_LEN_MAX {
                return Err(RuntimeDirError::TooLong(text.into_owned()));
            }
        }
        Ok(dir)
    }

    /// The subcommand of `linerate` that runs the instance.
    pub fn program(&self) -> &'static str {
        self.program
    }

    /// Name of the instance.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its control socket.
    pub fn control(&self) -> PathBuf {
        self.folder.join(format!("{}.ctl", self.name))
    }

    /// The memif socket of the ports that are attached by name.
    pub fn memif(&self) -> PathBuf {
        self.folder.join(format!("{}.memif", self.name))
    }

    /// The file that is locked while somebody starts this instance (not by the instance itself).
    pub fn starting(&self) -> PathBuf {
        self.folder.join(format!("{}.start", self.name))
    }

    fn lock(&self) -> PathBuf {
        self.folder.join(format!("{}.lock", self.name))
    }

    /// Makes this process the instance of that name, and removes the sockets that a killed one left.
    ///
    /// # Errors
    /// There is one already; something of somebody else is in the way.
    pub fn lock_instance(&self) -> Result<InstanceLock, RuntimeDirError> {
        // The last instance of this user may remove the folder at this moment.
        let taken = (0..FOLDER_TRIES).find_map(|_| match FileLock::take(&self.lock(), false) {
            Err(RuntimeDirError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                own_folder(&self.folder).err().map(Err)
            }
            taken => Some(taken),
        });
        let taken = taken.unwrap_or_else(|| FileLock::take(&self.lock(), false))?;
        let Some(lock) = taken else {
            return Err(RuntimeDirError::Running { program: self.program, name: self.name.clone() });
        };
        for path in [self.control(), self.memif()] {
            remove_socket(&path)?;
        }
        Ok(InstanceLock { dir: self.clone(), lock: Some(lock) })
    }
}

/// The right to be the instance of a name. Dropping it removes the sockets.
#[derive(Debug)]
pub struct InstanceLock {
    dir: RuntimeDir,
    /// Removed before the folder is.
    lock: Option<FileLock>,
}

impl InstanceLock {
    /// The paths.
    pub fn dir(&self) -> &RuntimeDir {
        &self.dir
    }
}

impl Drop for InstanceLock {
    fn drop(&mut self) {
        for path in [self.dir.control(), self.dir.memif()] {
            // The next start removes a socket that cannot be removed now.
            let _ = remove_socket(&path);
        }
        self.lock.take();
        if let Ok(own) = own_user() {
            remove_empty(&self.dir.folder, &temporary_folder(own));
        }
    }
}

/// Removes the instances' folder and `temporary`, which is around it, if both are empty. A folder of a session stays, and goes with the session.
fn remove_empty(folder: &Path, temporary: &Path) {
    if folder.parent() == Some(temporary) {
        // An error means that another instance is there.
        let _ = fs::remove_dir(folder).and_then(|()| fs::remove_dir(temporary));
    }
}

/// A locked file, removed (still locked) when dropped.
#[derive(Debug)]
pub struct FileLock {
    file: File,
    path: PathBuf,
}

impl FileLock {
    /// Locks a file of this user; makes it if need be. `Ok(None)`: another process has it, and `wait` was false.
    ///
    /// # Errors
    /// The file is not this user's, or cannot be opened or locked.
    pub fn take(path: &Path, wait: bool) -> Result<Option<FileLock>, RuntimeDirError> {
        loop {
            let mut options = OpenOptions::new();
            // A symbolic link in the place of a lock is refused.
            options.write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
            let file = options.open(path).map_err(io_error(path))?;
            let opened = file.metadata().map_err(io_error(path))?;
            check_owner(path, opened.uid())?;
            if wait {
                file.lock().map_err(io_error(path))?;
            } else {
                match file.try_lock() {
                    Ok(()) => {}
                    Err(TryLockError::WouldBlock) => return Ok(None),
                    Err(TryLockError::Error(error)) => return Err(io_error(path)(error)),
                }
            }
            // The one before may have removed the file between the opening and the locking.
            let same =
                fs::symlink_metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == (opened.dev(), opened.ino()));
            if same {
                return Ok(Some(FileLock { file, path: path.into() }));
            }
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Removed first: whoever waits for the lock then sees that the name is another file's.
        let _ = fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

/// Removes a socket of this user.
///
/// # Errors
/// It is another user's, or no socket.
pub fn remove_socket(path: &Path) -> Result<(), RuntimeDirError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error(path)(error)),
    };
    check_owner(path, found.uid())?;
    if !found.file_type().is_socket() {
        let found = if found.is_dir() { "a folder" } else { "no socket" };
        return Err(RuntimeDirError::InTheWay { path: path.display().to_string(), found });
    }
    fs::remove_file(path).map_err(io_error(path))
}

/// Refuses a file of another user, who would be at the other end of the connection.
///
/// # Errors
/// [`RuntimeDirError::Foreign`]; the file cannot be looked at.
pub fn check_own(path: &Path) -> Result<(), RuntimeDirError> {
    let found = fs::symlink_metadata(path).map_err(io_error(path))?;
    check_owner(path, found.uid())
}

fn check_owner(path: &Path, owner: u32) -> Result<(), RuntimeDirError> {
    let own = own_user()?;
    if owner == own {
        return Ok(());
    }
    Err(RuntimeDirError::Foreign { path: path.display().to_string(), owner, own })
}

fn check_name(name: &str) -> Result<(), RuntimeDirError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !name.is_empty() && name.len() <= NAME_LEN_MAX && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(RuntimeDirError::Name(name.chars().take(NAME_LEN_MAX).collect()))
}

/// The folder whose contents end with the user's session, or at the latest with the machine.
fn runtime_folder(own: u32) -> PathBuf {
    let is_own = |path: &Path| fs::metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == own);
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let given = given.filter(|path| path.is_absolute() && is_own(path));
    if let Some(path) = given {
        return path;
    }
    let of_session = PathBuf::from(format!("/run/user/{own}"));
    if is_own(&of_session) {
        return of_session;
    }
    if is_own(Path::new("/run")) {
        return PathBuf::from("/run");
    }
    // A user without a session (a container): a folder of the user's own where temporary files go; `own_folder` checks whose.
    temporary_folder(own)
}

fn temporary_folder(own: u32) -> PathBuf {
    std::env::temp_dir().join(format!("linerate-{own}"))
}

/// Makes a folder for this user alone, or checks that it is one.
fn own_folder(folder: &Path) -> Result<(), RuntimeDirError> {
    let parent = folder.parent().filter(|parent| !parent.exists());
    for path in parent.into_iter().chain([folder]) {
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io_error(path)(error)),
        }
    }
    check_folder(folder)
}

/// Checks that a folder is this user's, and is for this user alone.
fn check_folder(folder: &Path) -> Result<(), RuntimeDirError> {
    let temporary = std::env::temp_dir();
    let checked = folder.ancestors().take_while(|path| path.starts_with(&temporary) && *path != temporary);
    for path in checked.chain([folder]) {
        let found = fs::symlink_metadata(path).map_err(io_error(path))?;
        check_owner(path, found.uid())?;
        if !found.is_dir() {
            return Err(RuntimeDirError::InTheWay { path: path.display().to_string(), found: "no folder" });
        }
    }
    let found = fs::symlink_metadata(folder).map_err(io_error(folder))?;
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(io_error(folder))?;
    }
    Ok(())
}

/// The user that this process acts for: owner of its folder in /proc.
fn own_user() -> Result<u32, RuntimeDirError> {
    let path = Path::new("/proc/self");
    fs::metadata(path).map(|found| found.uid()).map_err(io_error(path))
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> RuntimeDirError {
    let path = path.display().to_string();
    move |source| RuntimeDirError::Io { path: path.clone(), source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn one_process_a_name_and_what_a_killed_one_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RuntimeDir::inside(folder.path(), "switch", "s").unwrap();
        // A killed switch leaves its sockets and its lock file, unlocked.
        let left = UnixListener::bind(dir.control()).unwrap();
        drop(left);
        fs::write(dir.lock(), "").unwrap();
        let locked = dir.lock_instance().unwrap();
        assert!(!dir.control().exists());
        assert!(matches!(dir.lock_instance(), Err(RuntimeDirError::Running { .. })));
        let _socket = UnixListener::bind(dir.control()).unwrap();
        drop(locked);
        assert_eq!(fs::read_dir(&dir.folder).unwrap().count(), 0, "nothing stays");
        dir.lock_instance().unwrap();
    }

    #[test]
    fn an_empty_temporary_folder_is_not_left_behind() {
        let parent = tempfile::tempdir().unwrap();
        let temporary = parent.path().join("linerate-0");
        let dir = RuntimeDir::inside(&temporary, "switch", "s").unwrap();
        let other = RuntimeDir::inside(&temporary, "switch", "other").unwrap().lock_instance().unwrap();
        remove_empty(&dir.folder, &temporary);
        assert!(other.dir().lock().exists(), "another instance keeps it");
        remove_empty(&dir.folder, &temporary.join("else"));
        drop(other);
        assert!(dir.folder.exists(), "it is no folder of temporary files");
        remove_empty(&dir.folder, &temporary);
        assert!(!temporary.exists() && parent.path().exists());
        // Whoever was about to use it makes it again.
        let lock = dir.lock_instance().unwrap();
        assert!(dir.lock().exists());
        drop(lock);
    }

    #[test]
    fn what_is_in_the_way_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RuntimeDir::inside(folder.path(), "switch", "s").unwrap();
        fs::write(dir.control(), "important").unwrap();
        assert!(matches!(dir.lock_instance(), Err(RuntimeDirError::InTheWay { .. })));
        assert!(dir.control().exists() && !dir.lock().exists());
    }

    #[test]
    fn the_folder_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RuntimeDir::inside(folder.path(), "switch", "s").unwrap();
        assert_eq!(fs::metadata(&dir.folder).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&dir.folder, fs::Permissions::from_mode(0o777)).unwrap();
        RuntimeDir::inside(folder.path(), "switch", "s").unwrap();
        assert_eq!(fs::metadata(&dir.folder).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn names_that_are_paths_are_none() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["", "a/b", "..", ".", "a b", "ä", &"x".repeat(49)] {
            assert!(
                matches!(RuntimeDir::inside(folder.path(), "switch", name), Err(RuntimeDirError::Name(_))),
                "{name:?}"
            );
        }
        let deep = folder.path().join("x".repeat(100));
        fs::create_dir(&deep).unwrap();
        assert!(matches!(RuntimeDir::inside(&deep, "switch", "s"), Err(RuntimeDirError::TooLong(_))));
    }

    #[test]
    fn a_file_of_another_user_is_refused() {
        let root_owned = Path::new("/proc/1/cmdline");
        let foreign = fs::metadata(root_owned).is_ok_and(|found| own_user().is_ok_and(|own| own != found.uid()));
        if foreign {
            return assert!(matches!(check_own(root_owned), Err(RuntimeDirError::Foreign { .. })));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "").unwrap();
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_err() {
            return eprintln!("skipped: no other user's file to look at");
        }
        assert!(matches!(check_own(&path), Err(RuntimeDirError::Foreign { .. })));
        assert!(matches!(remove_socket(&path), Err(RuntimeDirError::Foreign { .. })));
        assert!(matches!(FileLock::take(&path, false), Err(RuntimeDirError::Foreign { .. })));
    }

    #[test]
    fn a_lock_that_was_removed_meanwhile_is_taken_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = FileLock::take(&path, false).unwrap().unwrap();
        let (from, second) = (path.clone(), std::sync::mpsc::channel());
        let waiting = std::thread::spawn(move || second.0.send(FileLock::take(&from, true).unwrap().is_some()));
        drop(first);
        assert!(second.1.recv().unwrap());
        waiting.join().unwrap().unwrap();
        assert!(!path.exists());
    }
}
