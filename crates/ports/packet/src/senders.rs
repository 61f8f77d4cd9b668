//! The sockets that a port sends by.

use std::io;

use crate::sys::Socket;

/// One for packets that are whole, and one for those of which something is left to the kernel.
pub(crate) struct Senders {
    plain: Socket,
    /// Its messages begin with a note (PACKET_VNET_HDR), by which checksums and the cutting of segments are left to the kernel, and which costs a
    /// copy and a look at the headers for each message. `None` where nothing is left to it.
    noted: Option<Socket>,
}

impl Senders {
    pub(crate) fn new(plain: Socket, noted: Option<Socket>) -> Senders {
        Senders { plain, noted }
    }

    /// True where checksums and the cutting of segments may be left to the kernel.
    #[inline]
    pub(crate) fn offload(&self) -> bool {
        self.noted.is_some()
    }

    /// The socket for messages with notes, or without.
    #[inline]
    pub(crate) fn socket(&self, notes: bool) -> &Socket {
        match &self.noted {
            Some(noted) if notes => noted,
            _ => &self.plain,
        }
    }

    /// From now on all packets go through the queueing discipline, so that none overtakes another.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn go_through_qdisc(&self) -> io::Result<()> {
        self.plain.set(libc::PACKET_QDISC_BYPASS, 0)?;
        self.noted.as_ref().map_or(Ok(()), |noted| noted.set(libc::PACKET_QDISC_BYPASS, 0))
    }
}
