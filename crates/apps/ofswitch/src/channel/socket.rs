//! Streams of connected sockets.

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;

use linerate_ofswitch_loop::stream::ByteStream;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection, StreamOwned};

use super::datagrams::Datagrams;
use crate::tls::TlsConfigs;

/// Which side began a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The switch connected to a controller.
    Active,
    /// A controller connected to the switch.
    Passive,
}

/// A socket that is connected.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

/// Makes a stream of a connected socket, encrypted if there is a configuration for that.
pub(crate) fn stream(
    socket: Socket,
    peer: SocketAddr,
    side: Side,
    tls: Option<&TlsConfigs>,
) -> io::Result<Box<dyn ByteStream>> {
    let socket = match socket {
        Socket::Tcp(socket) => socket,
        Socket::Udp(socket) => return Ok(Box::new(Datagrams::new(socket)?)),
    };
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
