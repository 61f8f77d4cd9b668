//! Network namespaces: make them, hold them, run code inside them.
//!
//! A namespace is held by a descriptor of `/proc/thread-self/ns/net` (namespaces(7)). An anonymous
//! one has no other reference, so the kernel frees it, with every interface in it, when the
//! process is gone, however it went. A named one is bound to `/run/netns/NAME`, where `ip netns`
//! looks, and outlives a killed process; [`remove_named`] deletes it.
//!
//! `setns(2)` changes the calling thread only, so [`NetNs::run`] runs its closure on a thread of
//! its own. Sockets and open files of `/proc/net` stay in the namespace in which they were opened.
#![allow(unsafe_code)]

use crate::checked;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

/// Where `ip netns` keeps the names of namespaces.
pub const NAMED_DIRECTORY: &str = "/run/netns";

const THIS_THREAD: &str = "/proc/thread-self/ns/net";

/// A network namespace, held open.
///
/// Dropping the last descriptor of an anonymous namespace frees it; dropping a named one that this
/// value created also removes the name.
#[derive(Debug)]
pub struct NetNs {
    fd: OwnedFd,
    name: Option<String>,
    remove_on_drop: bool,
}

impl NetNs {
    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// When `/proc` is not mounted.
    pub fn current() -> io::Result<Self> {
        Ok(Self { fd: File::open(THIS_THREAD)?.into(), name: None, remove_on_drop: false })
    }

    /// A new namespace that nothing but the returned value refers to.
    ///
    /// # Errors
    /// `EPERM` without CAP_SYS_ADMIN in the current user namespace; `ENOSPC` when
    /// `user.max_net_namespaces` is used up.
    pub fn anonymous() -> io::Result<Self> {
        on_new_thread(|| {
            unshare(libc::CLONE_NEWNET)?;
            Self::current()
        })
    }

    /// A new namespace under `/run/netns/NAME`, as `ip netns add` makes it; removed when the
    /// returned value is dropped.
    ///
    /// # Errors
    /// As [`NetNs::anonymous`]; `AlreadyExists` when the name is taken, `InvalidInput` when it
    /// is not a file name.
    pub fn create_named(name: &str) -> io::Result<Self> {
        let path = named_path(name)?;
        fs::create_dir_all(NAMED_DIRECTORY)?;
        OpenOptions::new().write(true).create_new(true).open(&path)?;
        let made = on_new_thread(|| {
            unshare(libc::CLONE_NEWNET)?;
            Self::current()
        });
        let bound = made.and_then(|namespace| {
            let source = format!("/proc/self/fd/{}", namespace.fd.as_raw_fd());
            mount(&source, &path, "", libc::MS_BIND)?;
            Ok(namespace)
        });
        match bound {
            Ok(mut namespace) => {
                namespace.name = Some(name.to_owned());
                namespace.remove_on_drop = true;
                Ok(namespace)
            }
            Err(error) => {
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// An existing namespace under `/run/netns/NAME`; dropping the value leaves it there.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    pub fn open_named(name: &str) -> io::Result<Self> {
        Ok(Self { fd: File::open(named_path(name)?)?.into(), name: Some(name.to_owned()), remove_on_drop: false })
    }

    /// Another handle of the same namespace. Dropping it removes no name.
    ///
    /// # Errors
    /// `EMFILE` when this process has no descriptors left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, name: self.name.clone(), remove_on_drop: false })
    }

    /// The name under `/run/netns`, or `None` for an anonymous namespace.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The number by which the kernel tells namespaces apart (`/proc/PID/ns/net`, lsns(8)).
    ///
    /// # Errors
    /// None that a valid descriptor gives.
    pub fn inode(&self) -> io::Result<u64> {
        Ok(File::from(self.fd.try_clone()?).metadata()?.ino())
    }

    /// Moves the calling thread into this namespace for the rest of its life.
    ///
    /// # Errors
    /// `EPERM` without CAP_SYS_ADMIN in the namespace's user namespace and in one's own.
    pub fn enter(&self) -> io::Result<()> {
        // SAFETY: setns takes a descriptor, which `self.fd` keeps open, and a constant.
        checked(unsafe { libc::setns(self.fd.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
    }

    /// Runs `work` on a new thread inside this namespace and returns what it returned. A panic
    /// of `work` continues in the caller.
    ///
    /// # Errors
    /// As [`NetNs::enter`], or when no thread can be started.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_new_thread(|| {
            self.enter()?;
            Ok(work())
        })
    }

    /// As [`NetNs::run`], with `/sys` showing this namespace's interfaces to `work` and to nobody
    /// else (a private mount namespace of that thread).
    ///
    /// # Errors
    /// As [`NetNs::run`]; also when the kernel does not allow a fresh sysfs here (`EPERM` in a
    /// container that hides parts of `/sys`).
    pub fn run_with_sysfs<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_new_thread(|| {
            self.enter()?;
            unshare(libc::CLONE_NEWNS)?;
            mount_fresh_sysfs()?;
            Ok(work())
        })
    }
}

impl From<OwnedFd> for NetNs {
    /// The namespace that a descriptor of the kernel's is of.
    fn from(fd: OwnedFd) -> NetNs {
        NetNs { fd, name: None, remove_on_drop: false }
    }
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for NetNs {
    fn drop(&mut self) {
        if let (true, Some(name)) = (self.remove_on_drop, &self.name) {
            let _ = remove_named(name);
        }
    }
}

/// Removes the name `/run/netns/NAME`; the namespace goes when nothing else holds it.
///
/// # Errors
/// `NotFound` when there is none, `EPERM` without the right to unmount.
pub fn remove_named(name: &str) -> io::Result<()> {
    let path = named_path(name)?;
    let path_c = c_path(&path)?;
    // SAFETY: `path_c` is a valid, terminated string for the duration of the call.
    let unmounted = unsafe { libc::umount2(path_c.as_ptr(), libc::MNT_DETACH) };
    if unmounted != 0 {
        let error = io::Error::last_os_error();
        // EINVAL: the file is there but nothing is mounted on it (a run killed in between).
        if error.raw_os_error() != Some(libc::EINVAL) {
            return Err(error);
        }
    }
    fs::remove_file(path)
}

/// The names under `/run/netns`, in alphabetical order; none when the directory is missing.
pub fn named() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(NAMED_DIRECTORY)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Puts a sysfs of the current network namespace over `/sys`, visible only in the current mount
/// namespace, which must be private to the caller (`unshare(CLONE_NEWNS)` came before).
pub(crate) fn mount_fresh_sysfs() -> io::Result<()> {
    mount("none", Path::new("/"), "", libc::MS_REC | libc::MS_PRIVATE)?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    match mount("sysfs", Path::new("/sys"), "sysfs", flags) {
        // The one that is there is this namespace's (do_add_mount of fs/namespace.c).
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(()),
        mounted => mounted,
    }
}

/// Puts the calling thread into new namespaces, which `flags` name (unshare(2)).
///
/// # Errors
/// As unshare(2).
pub fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: unshare takes flags only; it changes no memory of this process.
    checked(unsafe { libc::unshare(flags) }).map(drop)
}

fn mount(source: &str, target: &Path, kind: &str, flags: libc::c_ulong) -> io::Result<()> {
    let source = CString::new(source)?;
    let target = c_path(target)?;
    let kind = CString::new(kind)?;
    // SAFETY: the three strings are valid and terminated for the duration of the call, and a null
    // data pointer is what file systems without options expect.
    let result = unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) };
    checked(result).map(drop)
}

fn on_new_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let mut work = Some(work);
    let mut result = None;
    run_on_new_thread(&mut || result = work.take().map(|work| work()))?;
    result.unwrap_or_else(|| Err(io::Error::other("the thread did nothing")))
}

/// Starts a thread and waits for its end. It has no type parameters: a thread is much code to compile for each work.
fn run_on_new_thread(work: &mut (dyn FnMut() + Send)) -> io::Result<()> {
    thread::scope(|scope| {
        let handle = thread::Builder::new().name("netns".to_owned()).spawn_scoped(scope, work)?;
        handle.join().map_err(|panic| std::panic::resume_unwind(panic))
    })
}

fn named_path(name: &str) -> io::Result<PathBuf> {
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
        let text = format!("`{name}` is not a name for a network namespace");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(Path::new(NAMED_DIRECTORY).join(name))
}

fn c_path(path: &Path) -> io::Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inode(namespace: &NetNs) -> u64 {
        namespace.inode().expect("own descriptor")
    }

    #[test]
    fn an_anonymous_namespace_has_only_lo_and_leaves_the_caller_where_it_was() {
        let before = inode(&NetNs::current().expect("/proc"));
        let namespace = match NetNs::anonymous() {
            Ok(namespace) => namespace,
            Err(error) => return eprintln!("skipped: no network namespace: {error}"),
        };
        assert_ne!(inode(&namespace), before);
        assert_eq!(inode(&NetNs::current().expect("/proc")), before);
        let devices = namespace.run(|| fs::read_to_string("/proc/thread-self/net/dev")).expect("enter").expect("read");
        let names: Vec<&str> =
            devices.lines().skip(2).filter_map(|line| line.split_once(':').map(|(name, _)| name.trim())).collect();
        assert!(names.contains(&"lo"), "{names:?}");
        assert!(!names.contains(&"eth0"), "{names:?}");
    }

    #[test]
    fn a_fresh_sysfs_shows_the_namespace() {
        let namespace = match NetNs::anonymous() {
            Ok(namespace) => namespace,
            Err(error) => return eprintln!("skipped: no network namespace: {error}"),
        };
        let names = namespace.run_with_sysfs(|| {
            fs::read_dir("/sys/class/net")
                .expect("sysfs")
                .flatten()
                .filter_map(|entry| entry.file_name().into_string().ok())
                .collect::<Vec<_>>()
        });
        match names {
            Ok(names) => assert!(names.contains(&"lo".to_owned()) && !names.contains(&"eth0".to_owned()), "{names:?}"),
            Err(error) => return eprintln!("skipped: no fresh sysfs: {error}"),
        }
        // Also where the sysfs that is there is of the namespace.
        let again = namespace.run_with_sysfs(|| NetNs::current().and_then(|here| here.run_with_sysfs(|| ())));
        again.expect("a sysfs").expect("another one");
    }

    #[test]
    fn a_named_namespace_goes_with_its_owner_and_names_are_checked() {
        let name = format!("linerate-test-{}", std::process::id());
        match NetNs::create_named(&name) {
            Ok(namespace) => {
                assert!(named().contains(&name));
                let again = NetNs::open_named(&name).expect("it is there");
                assert_eq!(inode(&again), inode(&namespace));
                let taken = NetNs::create_named(&name).expect_err("taken");
                assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
                drop(again);
                assert!(named().contains(&name));
                drop(namespace);
                assert!(!named().contains(&name));
            }
            Err(error) => eprintln!("skipped: no named network namespace: {error}"),
        }
        for bad in ["", ".", "..", "a/b", ".hidden"] {
            let error = NetNs::create_named(bad).expect_err("not a name");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{bad}");
        }
    }

    #[test]
    fn a_panic_inside_reaches_the_caller() {
        let Ok(namespace) = NetNs::current() else {
            return eprintln!("skipped: no /proc");
        };
        if namespace.run(|| ()).is_err() {
            return eprintln!("skipped: setns is not allowed");
        }
        let result = std::panic::catch_unwind(|| namespace.run(|| panic!("inside")));
        assert!(result.is_err());
    }
}
