//! The socket that clients find: who may have its path, and what is done about one that a dead process left.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use linerate_sys::folder_lock::FolderLock;

use crate::sys::{self, Channel, ListeningSocket};

/// A listening socket and its file, which goes with it.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: ListeningSocket,
    name: String,
    /// Device and inode of the file, so that nobody else's is removed.
    file: Option<(u64, u64)>,
}

/// Why a path cannot be had, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PathRefusal {
    pub(crate) cause: String,
    pub(crate) hint: &'static str,
}

impl Listener {
    /// Listens at `name`. A socket file that a process of this user left when it died is removed; whatever else is there stays.
    pub(crate) fn open(name: &str) -> Result<Listener, PathRefusal> {
        if name.starts_with('@') {
            let socket = ListeningSocket::bind(name).map_err(|error| not_bound(name, &error))?;
            return Ok(Listener { socket, name: name.into(), file: None });
        }
        // Nobody else removes the socket between the moment it is bound and the one from which it answers.
        let _lock = FolderLock::of(Path::new(name));
        remove_stale(name)?;
        let socket = ListeningSocket::bind(name).map_err(|error| not_bound(name, &error))?;
        let file = fs::symlink_metadata(name).ok().map(|file| (file.dev(), file.ino()));
        Ok(Listener { socket, name: name.into(), file })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let now = fs::symlink_metadata(&self.name).ok().map(|file| (file.dev(), file.ino()));
        if self.file.is_some() && now == self.file {
            // Gone already, or not ours to remove: nothing to be done in either case.
            let _ = fs::remove_file(&self.name);
        }
    }
}

/// Looks at what is at the path of a socket: nothing, or a socket of this user (or of root, for a client).
pub(crate) fn check_socket(name: &str, root_may: bool) -> Result<bool, PathRefusal> {
    let file = match fs::symlink_metadata(name) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(PathRefusal { cause: format!("{name}: {error}"), hint: "" }),
    };
    if !file.file_type().is_socket() {
        return Err(PathRefusal { cause: format!("{name} is there, and is no socket"), hint: "take another path" });
    }
    if !trusted(file.uid(), root_may) {
        let cause = format!("the socket {name} belongs to another user (uid {})", file.uid());
        return Err(PathRefusal { cause, hint: "take a path in a directory of your own, or run as that user" });
    }
    Ok(true)
}

/// Whether a process of user `uid` may be at the other end.
pub(crate) fn trusted(uid: u32, root_may: bool) -> bool {
    uid == sys::own_uid() || root_may && uid == 0
}

fn remove_stale(name: &str) -> Result<(), PathRefusal> {
    if !check_socket(name, false)? {
        return Ok(());
    }
    match Channel::connect(name) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(name).map_err(|error| PathRefusal { cause: format!("{name}: {error}"), hint: "" })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // It answered, or has too many to answer, or speaks another kind of socket.
        _ => Err(PathRefusal {
            cause: format!("another process listens at {name}"),
            hint: "end it, take another path, or connect to it with role=client",
        }),
    }
}

fn not_bound(name: &str, error: &io::Error) -> PathRefusal {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "make its directory first",
        io::ErrorKind::PermissionDenied => "take a path in a directory of your own",
        io::ErrorKind::AddrInUse => "another process listens there: take another name",
        _ => "",
    };
    PathRefusal { cause: format!("cannot listen at {name}: {error}"), hint }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_socket_is_private_and_goes_with_its_listener() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s").display().to_string();
        let listener = Listener::open(&path).unwrap();
        assert_eq!(fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let refusal = Listener::open(&path).unwrap_err();
        assert!(refusal.cause.contains("another process listens"), "{refusal:?}");
        assert!(listener.socket.accept().unwrap().is_some(), "the look at whether it is alive");
        drop(listener);
        assert!(!fs::exists(&path).unwrap());
    }

    #[test]
    fn a_file_of_the_dead_is_removed_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s").display().to_string();
        drop(ListeningSocket::bind(&path).unwrap());
        assert!(fs::exists(&path).unwrap(), "nobody removed it");
        let listener = Listener::open(&path).unwrap();
        // Somebody puts another in its place: that one stays.
        fs::remove_file(&path).unwrap();
        let other = ListeningSocket::bind(&path).unwrap();
        drop(listener);
        assert!(fs::exists(&path).unwrap());
        drop(other);
        let plain = folder.path().join("file").display().to_string();
        fs::write(&plain, "precious").unwrap();
        assert!(Listener::open(&plain).unwrap_err().cause.contains("is no socket"));
        let link = folder.path().join("link").display().to_string();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(Listener::open(&link).unwrap_err().cause.contains("is no socket"));
        assert!(Listener::open(&format!("{plain}/s")).unwrap_err().cause.contains("Not a directory"));
        let nowhere = Listener::open(&folder.path().join("none/s").display().to_string()).unwrap_err();
        assert_eq!(nowhere.hint, "make its directory first");
    }

    #[test]
    fn the_socket_of_another_user_is_refused() {
        if sys::own_uid() != 0 {
            eprintln!("skipped: only root can give a file to another user");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s").display().to_string();
        drop(ListeningSocket::bind(&path).unwrap());
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        for refusal in [Listener::open(&path).map(|_| ()), check_socket(&path, true).map(|_| ())] {
            assert!(refusal.unwrap_err().cause.contains("belongs to another user (uid 65534)"));
        }
        assert!(fs::exists(&path).unwrap());
    }

    #[test]
    fn abstract_names_leave_no_file() {
        let name = format!("@linerate-memif-test-{}", std::process::id());
        let listener = Listener::open(&name).unwrap();
        assert!(Listener::open(&name).unwrap_err().cause.contains("cannot listen"));
        assert_eq!(Channel::connect(&name).unwrap().peer_uid().unwrap(), sys::own_uid());
        drop(listener);
        assert!(Channel::connect(&name).is_err());
    }
}
