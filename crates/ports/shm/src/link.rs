//! How two processes find each other: a UNIX socket over which the first hands the memory to the second.
//!
//! ```text
//! first     makes the memory, listens on the socket         second    connects, gets memory and listener, maps
//! ```
//! Both have the listener then. When one side dies the other goes on listening on it, with the memory that it has, so the dead
//! side's successor finds it without a gap, whichever side it was. The connection is closed when a side's memory is unmapped,
//! and by the kernel when its process dies: what it had of the frames is then free to be used again.
//!
//! The socket has mode 0600. One that another user owns is refused, and so is a process of another user that connects. One on
//! which nobody listens any more is removed.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use linerate_sys::folder_lock::FolderLock;
use linerate_sys::shared::{is_open_here_alone, open_again};

use crate::layout::{SOCKET_REMOVED, Shape};
use crate::sys::{self, Words};

/// How long the other side may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// First bytes of the message that hands over the memory.
const MAGIC: [u8; 8] = *b"LNRTshm1";
/// Its length: magic, side, ring, frames, frame size.
const MESSAGE: usize = 24;
/// Answer to a third process.
const BUSY: [u8; 8] = *b"LNRTbusy";

/// What a process keeps of a link as long as it maps its memory.
pub struct Link {
    /// Shape of the memory.
    pub shape: Shape,
    /// This process's side.
    pub side: usize,
    /// The shared words.
    pub words: Arc<Words>,
    /// A port has been opened on side 0, on side 1.
    pub opened: [AtomicBool; 2],
    /// `None` for a link inside one process.
    sockets: Option<Mutex<Sockets>>,
}

struct Sockets {
    memory: OwnedFd,
    listener: UnixListener,
    peer: Option<UnixStream>,
    /// The peer closed the connection; its process may still have the memory.
    hung_up: bool,
    /// Another process had the memory since it was last known to be here alone.
    shared: bool,
    path: PathBuf,
    /// Device and inode of the socket's file.
    file: (u64, u64),
}

/// What has become of the other process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerChange {
    /// It is there.
    There,
    /// It has just gone.
    Gone,
    /// There is none.
    Nobody,
    /// One has just come.
    Came,
}

/// Why there is no link: what is wrong, and what to do.
pub type Refusal = (String, &'static str);

/// The memory of a new or an existing link, and what goes with it.
pub struct Joined {
    /// To be mapped.
    pub memory: OwnedFd,
    /// True on the side that made it: all frames are there.
    pub first: bool,
    /// Goes with the mapping.
    pub link: Link,
}

/// Joins the link of this socket, or makes one of shape `wanted`.
pub fn join(path: &Path, wanted: Shape) -> Result<Joined, Refusal> {
    let give_up = Instant::now() + PATIENCE;
    while Instant::now() < give_up {
        let file = match fs::symlink_metadata(path) {
            Ok(metadata) => owned_socket(path, &metadata)?,
            Err(error) if error.kind() == ErrorKind::NotFound => match make(path, wanted)? {
                Some(joined) => return Ok(joined),
                None => continue,
            },
            Err(error) => return Err((format!("{}: {error}", path.display()), "")),
        };
        match UnixStream::connect(path) {
            Ok(stream) => return second(path, stream, file),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => remove_stale(path)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err((format!("cannot connect: {error}"), "")),
        }
    }
    Err(("others keep making and removing the socket".into(), "choose another name"))
}

/// A link inside one process: both sides are opened on one pool.
pub fn inside(memory: &OwnedFd, shape: Shape) -> io::Result<Link> {
    let words = Arc::new(Words::map(memory.as_fd(), shape.rings().frames)?);
    Ok(Link { shape, side: 0, words, opened: Default::default(), sockets: None })
}

/// Device and inode, if it is a socket of this user.
fn owned_socket(path: &Path, metadata: &fs::Metadata) -> Result<(u64, u64), Refusal> {
    if !metadata.file_type().is_socket() {
        return Err((format!("{} is there and no socket", path.display()), "choose another name"));
    }
    if metadata.uid() != sys::own_uid() {
        let what = format!("{} belongs to user {}", path.display(), metadata.uid());
        return Err((what, "both sides must be of one user; choose another name"));
    }
    Ok((metadata.dev(), metadata.ino()))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes memory and socket; `None` when somebody else has just made the socket.
fn make(path: &Path, shape: Shape) -> Result<Option<Joined>, Refusal> {
    let refuse = |what: &str, error: io::Error| (format!("{what}: {error}"), "");
    let memory = sys::sealed_memory(shape.bytes()).and_then(|made| open_again(made.as_fd()));
    let memory = memory.map(OwnedFd::from).map_err(|error| refuse("no shared memory", error))?;
    let words = Words::map(memory.as_fd(), shape.rings().frames).map_err(|error| refuse("no shared memory", error))?;
    // Under its own name it appears with its mode, and listening.
    let folder = folder_of(path);
    let draft = folder.join(format!(".linerate-{}-{}", std::process::id(), linerate_sys::clock::now_ns()));
    let cannot = |error: io::Error| {
        (format!("cannot make a socket in {}: {error}", folder.display()), "is the folder there, and writable?")
    };
    let listener = UnixListener::bind(&draft).map_err(cannot)?;
    let published = fs::set_permissions(&draft, Permissions::from_mode(0o600))
        .and_then(|()| listener.set_nonblocking(true))
        .and_then(|()| fs::hard_link(&draft, path))
        .and_then(|()| fs::symlink_metadata(&draft));
    // Whether or not it has its name, the draft goes.
    let _ = fs::remove_file(&draft);
    let metadata = match published {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
        Err(error) => return Err(cannot(error)),
    };
    let handed = memory.try_clone().map_err(|error| refuse("no descriptor", error))?;
    let file = (metadata.dev(), metadata.ino());
    let sockets =
        Sockets { memory: handed, listener, peer: None, hung_up: false, shared: false, path: path.into(), file };
    let link =
        Link { shape, side: 0, words: Arc::new(words), opened: Default::default(), sockets: Some(Mutex::new(sockets)) };
    Ok(Some(Joined { memory, first: true, link }))
}

/// Gets the memory from the process that listens.
fn second(path: &Path, stream: UnixStream, file: (u64, u64)) -> Result<Joined, Refusal> {
    let refuse = |error: io::Error| (format!("the other side did not hand over its memory: {error}"), "");
    let uid = sys::peer_uid(stream.as_fd()).map_err(refuse)?;
    if uid != sys::own_uid() {
        return Err((format!("user {uid} listens on it"), "both sides must be of one user; choose another name"));
    }
    stream.set_read_timeout(Some(PATIENCE)).map_err(refuse)?;
    let mut message = [0; MESSAGE];
    let (len, descriptors) = match sys::receive_with(stream.as_fd(), &mut message) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            let hint = "does its program still run? it answers while its port is in use";
            return Err(("the other side does not answer".into(), hint));
        }
        other => other.map_err(refuse)?,
    };
    if len >= BUSY.len() && message[..8] == BUSY {
        return Err(("both sides are in use".into(), "choose another name"));
    }
    let number = |at: usize| u32::from_le_bytes([message[at], message[at + 1], message[at + 2], message[at + 3]]);
    let shape = Shape { ring: number(12), frames: number(16), frame_size: number(20) };
    let Ok([memory, listener]) = <[OwnedFd; 2]>::try_from(descriptors) else {
        return Err(("the other side speaks another language".into(), "is it this version of Linerate?"));
    };
    let side = number(8) as usize;
    if len != MESSAGE || message[..8] != MAGIC || side > 1 || !shape.is_possible() {
        return Err(("the other side speaks another language".into(), "is it this version of Linerate?"));
    }
    let listener = UnixListener::from(listener);
    stream.set_nonblocking(true).and_then(|()| listener.set_nonblocking(true)).map_err(refuse)?;
    // Only after the size is known and sealed a word of it may be touched; `Region::map_shared` looks, so it comes first.
    let handed = memory.try_clone().map_err(refuse)?;
    let words = Words::map(memory.as_fd(), shape.rings().frames).map_err(refuse)?;
    let sockets =
        Sockets { memory: handed, listener, peer: Some(stream), hung_up: false, shared: true, path: path.into(), file };
    let link =
        Link { shape, side, words: Arc::new(words), opened: Default::default(), sockets: Some(Mutex::new(sockets)) };
    Ok(Joined { memory, first: false, link })
}

/// Removes a socket on which nobody listens; only one process at a time looks, so that nobody's new one goes.
fn remove_stale(path: &Path) -> Result<(), Refusal> {
    let refuse = |error: io::Error| (format!("cannot remove the stale {}: {error}", path.display()), "remove it");
    let _lock = FolderLock::of(path);
    let refused = |error: io::Error| error.kind() == ErrorKind::ConnectionRefused;
    if UnixStream::connect(path).is_err_and(refused) {
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(refuse(error)),
            _ => {}
        }
    }
    Ok(())
}

impl Link {
    /// True for a link inside one process.
    pub fn is_inside(&self) -> bool {
        self.sockets.is_none()
    }

    fn sockets(&self) -> Option<MutexGuard<'_, Sockets>> {
        self.sockets.as_ref().map(|sockets| sockets.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks whether the other process is still there, and where there is none whether one has come: with `admit`, it gets the
    /// memory.
    pub fn look(&self, admit: bool) -> PeerChange {
        let Some(mut sockets) = self.sockets() else { return PeerChange::There };
        let Some(peer) = &sockets.peer else {
            return if admit && sockets.admit(self.shape, self.side) { PeerChange::Came } else { PeerChange::Nobody };
        };
        if is_open(peer) {
            sockets.refuse_others();
            return PeerChange::There;
        }
        // Who closed the connection may still read and write the memory. Until that is known to be over, no frame of it comes back.
        sockets.hung_up = true;
        if !is_open_here_alone(sockets.memory.as_fd()) {
            return PeerChange::There;
        }
        (sockets.peer, sockets.shared) = (None, false);
        PeerChange::Gone
    }

    /// Wakes the other process, which sleeps on the connection.
    pub fn wake(&self) {
        if let Some(sockets) = self.sockets()
            && let Some(mut peer) = sockets.peer.as_ref()
        {
            // A full socket holds enough bells; a closed one is found out by `look`.
            let _ = io::Write::write(&mut peer, &[0]);
        }
    }

    /// Ends the connection with a peer that breaks the rules.
    pub fn cut_off(&self) {
        if let Some(mut sockets) = self.sockets() {
            sockets.peer = None;
        }
    }

    /// Calls `with` with the descriptor that becomes readable when the other process wakes this one, comes or goes; `None`
    /// inside one process, and as long as only its memory keeps the other process.
    pub fn with_descriptor<T>(&self, with: impl FnOnce(std::os::fd::BorrowedFd<'_>) -> T) -> Option<T> {
        let sockets = self.sockets()?;
        Some(match &sockets.peer {
            Some(_) if sockets.hung_up => return None,
            Some(peer) => with(peer.as_fd()),
            None => with(sockets.listener.as_fd()),
        })
    }
}

/// Takes the bells off the connection, so many at most that a peer that rings without end holds nobody up; false when the other
/// end is closed.
fn is_open(mut peer: &UnixStream) -> bool {
    let mut bells = [0; 256];
    for _ in 0..16 {
        match io::Read::read(&mut peer, &mut bells) {
            Ok(0) => return false,
            // Behind the last bell may be the end.
            Ok(_) => {}
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
    true
}

impl Sockets {
    /// Hands the memory to the first process of this user that waits; true when one has it. No other process has it then.
    fn admit(&mut self, shape: Shape, side: usize) -> bool {
        // One that was cut off may still have the memory. Whoever comes next waits in the queue of the socket.
        if self.shared && !is_open_here_alone(self.memory.as_fd()) {
            return false;
        }
        while let Ok((stream, _)) = self.listener.accept() {
            let ours = sys::peer_uid(stream.as_fd()).is_ok_and(|uid| uid == sys::own_uid());
            if !ours || stream.set_nonblocking(true).is_err() {
                continue;
            }
            let mut message = MAGIC.to_vec();
            for number in [1 - side as u32, shape.ring, shape.frames, shape.frame_size] {
                message.extend(number.to_le_bytes());
            }
            let Ok(memory) = open_again(self.memory.as_fd()) else { return false };
            if sys::send_with(stream.as_fd(), &message, [memory.as_fd(), self.listener.as_fd()]).is_ok() {
                (self.peer, self.hung_up, self.shared) = (Some(stream), false, true);
                return true;
            }
        }
        false
    }

    fn refuse_others(&self) {
        while let Ok((mut stream, _)) = self.listener.accept() {
            // Whoever does not read it sees the connection close.
            let _ = stream.set_nonblocking(true).and_then(|()| io::Write::write(&mut stream, &BUSY));
        }
    }
}

impl Drop for Link {
    /// The last side to leave removes the socket. Sides that leave at once both see each other leave, because each closes its half of
    /// the connection before it looks; a word of the shared memory then says which of them was first.
    fn drop(&mut self) {
        let Some(sockets) = self.sockets() else { return };
        if let Some(peer) = &sockets.peer {
            // An error means that the connection is closed, which `is_open` sees, too.
            let _ = peer.shutdown(Shutdown::Write);
            if is_open(peer) {
                return;
            }
        }
        if self.words.index(SOCKET_REMOVED).swap(1, Ordering::SeqCst) != 0 {
            return;
        }
        let ours = |metadata: fs::Metadata| (metadata.dev(), metadata.ino()) == sockets.file;
        if fs::symlink_metadata(&sockets.path).is_ok_and(ours) {
            // If it stays, the next process finds it stale and removes it.
            let _ = fs::remove_file(&sockets.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    const SHAPE: Shape = Shape { ring: 2, frames: 1, frame_size: 512 };

    /// The two ends of a link, as two processes have them.
    fn both_ends(path: &Path) -> [Link; 2] {
        let first = join(path, SHAPE).map_err(|refusal| refusal.0).unwrap().link;
        std::thread::scope(|scope| {
            let second = scope.spawn(|| join(path, SHAPE).map_err(|refusal| refusal.0).unwrap().link);
            let deadline = Instant::now() + Duration::from_secs(60);
            while first.look(true) != PeerChange::Came {
                assert!(Instant::now() < deadline, "nobody comes");
                std::thread::yield_now();
            }
            let second = second.join().unwrap();
            [first, second]
        })
    }

    #[test]
    fn a_peer_that_hung_up_and_kept_the_memory_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("link");
        for made_it_first in [true, false] {
            let [first, second] = both_ends(&path);
            let (stays, goes) = if made_it_first { (first, second) } else { (second, first) };
            let (mapping, descriptor) = (Arc::clone(&goes.words), goes.sockets().unwrap().memory.try_clone().unwrap());
            drop(goes);
            assert_eq!(stays.look(true), PeerChange::There, "it has a mapping and a descriptor");
            assert!(stays.with_descriptor(|_| ()).is_none(), "a closed connection would wake for ever");
            drop(mapping);
            assert_eq!(stays.look(true), PeerChange::There, "it has a descriptor");
            drop(descriptor);
            assert_eq!([stays.look(true), stays.look(false)], [PeerChange::Gone, PeerChange::Nobody]);
            drop(stays);
        }
    }

    #[test]
    fn two_ends_that_leave_at_once_leave_no_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("link");
        let at_once = Barrier::new(2);
        for round in 0..2000 {
            let [first, second] = both_ends(&path);
            std::thread::scope(|scope| {
                for end in [first, second] {
                    let at_once = &at_once;
                    scope.spawn(move || {
                        at_once.wait();
                        drop(end);
                    });
                }
            });
            assert!(!path.exists(), "round {round}");
        }
    }
}
