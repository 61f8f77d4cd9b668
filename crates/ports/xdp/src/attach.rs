//! The redirect program on an interface: one for all ports of this process on it.
//!
//! An interface takes one program. The first port that receives on it attaches one, with a map for all of its queues; the
//! next ones put their sockets into that map; the program goes with the last of them.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;

use linerate_bpf::programs::redirect_xsk;
use linerate_bpf::{AttachMode, BpfError, Map, XdpLink};

use crate::sys::XdpSocket;
use crate::umem::patiently;

/// Where a program may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModeWanted {
    Native,
    Generic,
    /// In the driver if it can, else in the stack.
    Best,
}

/// A program that is attached, and the sockets that it knows.
#[derive(Debug)]
pub(crate) struct Attachment {
    _link: XdpLink,
    sockets: Map,
    frags: bool,
    native: bool,
    /// Why it is not native, where that was tried.
    native_refused: Option<String>,
}

/// Why a program could not be attached.
#[derive(Debug)]
pub(crate) enum AttachError {
    Bpf(BpfError),
    /// A port of this process attached a program that is loaded or runs in another way.
    Differs(&'static str),
    /// The program that is attached has no place for this queue.
    NoPlace {
        queues: u32,
    },
}

impl From<BpfError> for AttachError {
    fn from(error: BpfError) -> AttachError {
        AttachError::Bpf(error)
    }
}

/// Network namespace (inode) and interface index.
type Place = (u64, u32);

static ATTACHED: LazyLock<Mutex<HashMap<Place, Weak<Attachment>>>> = LazyLock::new(Mutex::default);

/// Places in the map of sockets: at least these, so that another port may open a further queue.
const MAP_ENTRIES_MIN: u32 = 64;

/// How long another process's program may take to go away with it.
const DETACHMENT: Duration = Duration::from_millis(500);

impl Attachment {
    /// The program on interface `ifindex` of the calling thread's namespace: the one of this process, or a new one.
    pub(crate) fn shared(
        ifindex: u32,
        queues: u32,
        wanted: ModeWanted,
        frags: bool,
    ) -> Result<Arc<Attachment>, AttachError> {
        let place = (namespace_inode(), ifindex);
        let mut attached = ATTACHED.lock().unwrap_or_else(PoisonError::into_inner);
        attached.retain(|_, attachment| attachment.strong_count() > 0);
        if let Some(existing) = attached.get(&place).and_then(Weak::upgrade) {
            existing.check_shareable(queues, wanted, frags)?;
            return Ok(existing);
        }
        let made = Arc::new(Attachment::new(ifindex, queues, wanted, frags)?);
        attached.insert(place, Arc::downgrade(&made));
        Ok(made)
    }

    fn check_shareable(&self, queues: u32, wanted: ModeWanted, frags: bool) -> Result<(), AttachError> {
        match wanted {
            ModeWanted::Native if !self.native => return Err(AttachError::Differs("in generic mode")),
            ModeWanted::Generic if self.native => return Err(AttachError::Differs("in native mode")),
            _ => {}
        }
        match (self.frags, frags) {
            (false, true) => Err(AttachError::Differs("without frags")),
            (true, false) => Err(AttachError::Differs("with frags")),
            _ if queues > self.sockets.entries() => Err(AttachError::NoPlace { queues: self.sockets.entries() }),
            _ => Ok(()),
        }
    }

    fn new(ifindex: u32, queues: u32, wanted: ModeWanted, frags: bool) -> Result<Attachment, AttachError> {
        let sockets = Map::xsk("linerate_xsk", queues.max(MAP_ENTRIES_MIN))?;
        let program = redirect_xsk::load(&sockets, frags)?;
        let attach = |mode| {
            let busy = |error: &BpfError| matches!(error, BpfError::Busy { .. });
            patiently(DETACHMENT, || XdpLink::attach(&program, ifindex, mode), busy)
        };
        let (link, native, native_refused) = match wanted {
            ModeWanted::Native => (attach(AttachMode::Native)?, true, None),
            ModeWanted::Generic => (attach(AttachMode::Generic)?, false, None),
            ModeWanted::Best => match attach(AttachMode::Native) {
                Ok(link) => (link, true, None),
                Err(error @ (BpfError::Busy { .. } | BpfError::Permission { .. } | BpfError::NoInterface { .. })) => {
                    return Err(error.into());
                }
                Err(refusal) => (attach(AttachMode::Generic)?, false, Some(refusal.to_string())),
            },
        };
        Ok(Attachment { _link: link, sockets, frags, native, native_refused })
    }

    /// Sends what arrives on `queue` to the socket from now on. The kernel forgets it when the socket is closed.
    pub(crate) fn add(&self, queue: u32, socket: &XdpSocket) -> Result<(), BpfError> {
        self.sockets.set_fd(queue, socket.as_fd())
    }

    pub(crate) fn is_native(&self) -> bool {
        self.native
    }

    pub(crate) fn native_refused(&self) -> Option<&str> {
        self.native_refused.as_deref()
    }
}

/// Tells the namespaces of this process's threads apart; 0 where `/proc` is not mounted.
fn namespace_inode() -> u64 {
    std::fs::metadata("/proc/thread-self/ns/net").map_or(0, |metadata| metadata.ino())
}
