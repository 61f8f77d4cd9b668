//! A connection's bytes: plain TCP, or TLS over it. Nothing here waits.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection, StreamOwned};

use crate::tls::TlsConfigs;

/// Bytes to and from a controller, without waiting.
pub(crate) trait ByteStream: Read + Write + Send {
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

/// Which side began a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The switch connected to a controller.
    Active,
    /// A controller connected to the switch.
    Passive,
}

/// Makes a stream of a connected socket, encrypted if there is a configuration for that.
pub(crate) fn stream(
    socket: TcpStream,
    peer: SocketAddr,
    side: Side,
    tls: Option<&TlsConfigs>,
) -> io::Result<Box<dyn ByteStream>> {
    socket.set_nonblocking(true)?;
    // Replies are small and waited for.
    socket.set_nodelay(true)?;
    let Some(configs) = tls else { return Ok(Box::new(socket)) };
    match side {
        Side::Active => {
            let name = ServerName::IpAddress(peer.ip().into());
            let connection = ClientConnection::new(Arc::clone(&configs.client), name).map_err(io::Error::other)?;
            Ok(Box::new(StreamOwned::new(connection, socket)))
        }
        Side::Passive => {
            let connection = ServerConnection::new(Arc::clone(&configs.server)).map_err(io::Error::other)?;
            Ok(Box::new(StreamOwned::new(connection, socket)))
        }
    }
}
