//! A connection's bytes: plain TCP, TLS over it, or UDP. Nothing here waits.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use rustls::{ClientConnection, ServerConnection, StreamOwned};

/// Bytes to and from a controller, without waiting.
pub trait ByteStream: Read + Write + Send {
    /// Descriptor to sleep on.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Bytes that were written wait for the socket.
    fn wants_write(&self) -> bool {
        false
    }

    /// The two sides have not agreed on the encryption yet: nothing else can be written.
    fn is_handshaking(&self) -> bool {
        false
    }

    /// Messages may be lost, and overtake each other.
    fn is_datagrams(&self) -> bool {
        false
    }
}

impl ByteStream for TcpStream {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl ByteStream for StreamOwned<ClientConnection, TcpStream> {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.sock.as_fd()
    }

    fn wants_write(&self) -> bool {
        self.conn.wants_write()
    }

    fn is_handshaking(&self) -> bool {
        self.conn.is_handshaking()
    }
}

impl ByteStream for StreamOwned<ServerConnection, TcpStream> {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.sock.as_fd()
    }

    fn wants_write(&self) -> bool {
        self.conn.wants_write()
    }

    fn is_handshaking(&self) -> bool {
        self.conn.is_handshaking()
    }
}
