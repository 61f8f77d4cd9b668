//! Addresses at which controllers are waited for.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use crate::target::ListenAddress;

/// A socket that listens.
pub(crate) struct Listener {
    socket: TcpListener,
    /// Where it listens, with the port that it got.
    pub(crate) address: ListenAddress,
}

impl Listener {
    /// Begins to listen.
    ///
    /// # Errors
    /// The address is in use, or not one of this host.
    pub(crate) fn open(address: ListenAddress) -> io::Result<Listener> {
        let socket = TcpListener::bind(address.address)?;
        socket.set_nonblocking(true)?;
        let bound = socket.local_addr()?;
        Ok(Listener { socket, address: ListenAddress { address: bound, ..address } })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The next connection, if there is one.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub(crate) fn accept(&self) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        loop {
            return match self.socket.accept() {
                Ok(connected) => Ok(Some(connected)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                // The peer is gone again already (accept(2)).
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {
                    continue;
                }
                Err(error) => Err(error),
            };
        }
    }
}
