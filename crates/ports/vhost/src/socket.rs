//! The socket that front-ends connect to.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use linerate_sys::folder_lock::FolderLock;

use crate::sys;

/// Most bytes of a socket's path (unix(7): 108 with the zero behind it).
pub(crate) const PATH_BYTES_MAX: usize = 107;

/// A socket that listens; its file goes with it.
#[derive(Debug)]
pub(crate) struct ServerSocket {
    pub listener: UnixListener,
    path: PathBuf,
    /// Device and inode: the file may have been replaced.
    identity: Option<(u64, u64)>,
}

/// Why there is no socket, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub cause: String,
    pub hint: String,
}

impl Refusal {
    fn new(cause: impl Into<String>, hint: impl Into<String>) -> Refusal {
        Refusal { cause: cause.into(), hint: hint.into() }
    }
}

impl ServerSocket {
    /// Listens at `path`, with the rights `mode` from the first moment on. A socket that nobody listens at any more is
    /// removed; one of another user, one that is in use and a file that is no socket are left alone.
    pub(crate) fn open(path: &Path, mode: u32) -> Result<ServerSocket, Refusal> {
        // Nobody else removes the socket between the moment it is bound and the one from which it answers.
        let _lock = FolderLock::of(path);
        make_way(path)?;
        // Nobody but this user may connect before the rights are as they should be.
        let failed = |error: io::Error| not_bound(path, &error);
        let listener = sys::listen(path, mode & 0o700).map_err(failed)?;
        let socket = ServerSocket { listener, path: path.into(), identity: identity(path).ok() };
        set_mode(path, mode).map_err(failed)?;
        socket.listener.set_nonblocking(true).map_err(failed)?;
        Ok(socket)
    }
}

impl Drop for ServerSocket {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path).ok() == self.identity {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Gives the socket at `path` its rights. What somebody who may write in the folder puts in its place meanwhile (a link to another file,
/// another name of another socket) keeps its own.
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    let held = OpenOptions::new().read(true).custom_flags(sys::HOLD_WITHOUT_FOLLOWING).open(path)?;
    let status = held.metadata()?;
    if !status.file_type().is_socket() || status.uid() != sys::user() || status.nlink() != 1 {
        return Err(io::Error::other("something else took its place"));
    }
    fs::set_permissions(format!("/proc/self/fd/{}", held.as_raw_fd()), fs::Permissions::from_mode(mode))
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let status = fs::symlink_metadata(path)?;
    Ok((status.dev(), status.ino()))
}

/// Sees to it that nothing is at `path`.
fn make_way(path: &Path) -> Result<(), Refusal> {
    let status = match fs::symlink_metadata(path) {
        Ok(status) => status,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(not_bound(path, &error)),
    };
    let name = path.display();
    if !status.file_type().is_socket() {
        return Err(Refusal::new(format!("{name} is there and is no socket"), "take another path"));
    }
    if status.uid() != sys::user() {
        let cause = format!("{name} belongs to user {}", status.uid());
        return Err(Refusal::new(cause, "take another path; its owner may remove it"));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| not_bound(path, &error))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        _ => Err(Refusal::new(
            format!("another process listens at {name}"),
            "end it, or take another path; with role=client this port connects to it",
        )),
    }
}

fn not_bound(path: &Path, error: &io::Error) -> Refusal {
    let folder = path.parent().unwrap_or(Path::new("."));
    let hint = match error.kind() {
        ErrorKind::NotFound => format!("make the folder {}", folder.display()),
        ErrorKind::PermissionDenied => {
            format!("take a path in a folder that you may write to, not in {}", folder.display())
        }
        ErrorKind::InvalidInput => format!("a socket's path has 1 to {PATH_BYTES_MAX} bytes"),
        _ => String::new(),
    };
    Refusal::new(format!("no socket at {}: {error}", path.display()), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_its_owners_alone_and_goes_when_it_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        for mode in [0o600, 0o660] {
            let socket = ServerSocket::open(&path, mode).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode);
            UnixStream::connect(&path).unwrap();
            drop(socket);
            assert!(!path.exists());
        }
    }

    #[test]
    fn what_is_in_use_or_no_socket_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let held = ServerSocket::open(&path, 0o600).unwrap();
        assert!(ServerSocket::open(&path, 0o600).unwrap_err().cause.contains("another process listens"));
        drop(held);
        fs::write(&path, "text").unwrap();
        assert!(ServerSocket::open(&path, 0o600).unwrap_err().cause.contains("no socket"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(ServerSocket::open(&link, 0o600).unwrap_err().cause.contains("no socket"));
    }

    #[test]
    fn a_link_in_the_place_of_the_socket_gives_no_rights_to_what_it_points_to() {
        let folder = tempfile::tempdir().unwrap();
        let (path, secret) = (folder.path().join("a"), folder.path().join("secret"));
        fs::write(&secret, "text").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&secret, &path).unwrap();
        assert!(set_mode(&path, 0o666).is_err());
        fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(folder.path().join("other")).unwrap();
        fs::hard_link(folder.path().join("other"), &path).unwrap();
        let before = fs::metadata(&path).unwrap().mode();
        assert!(set_mode(&path, 0o666).is_err());
        assert_eq!(fs::metadata(&path).unwrap().mode(), before);
        assert_eq!(fs::metadata(&secret).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_socket_that_nobody_listens_at_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        // std leaves the file when the listener is dropped.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        ServerSocket::open(&path, 0o600).unwrap();
    }

    #[test]
    fn a_file_that_took_the_place_of_the_socket_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let socket = ServerSocket::open(&path, 0o600).unwrap();
        fs::rename(&path, folder.path().join("b")).unwrap();
        fs::write(&path, "text").unwrap();
        drop(socket);
        assert!(path.exists());
    }

    #[test]
    fn the_socket_of_another_user_stays() {
        if sys::user() != 0 {
            eprintln!("skipped: only root can give a file to another user");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        drop(UnixListener::bind(&path).unwrap());
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        assert!(ServerSocket::open(&path, 0o600).unwrap_err().cause.contains("belongs to user 65534"));
        assert!(path.exists());
    }

    #[test]
    fn paths_that_cannot_be_are_explained() {
        let refusal = ServerSocket::open(Path::new("/nowhere/at/all"), 0o600).unwrap_err();
        assert!(refusal.hint.contains("make the folder /nowhere/at"), "{refusal:?}");
        let long = format!("/tmp/{}", "x".repeat(PATH_BYTES_MAX));
        assert!(ServerSocket::open(Path::new(&long), 0o600).unwrap_err().hint.contains("107 bytes"));
    }
}
