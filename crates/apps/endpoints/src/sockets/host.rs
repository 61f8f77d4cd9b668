//! A host of its own in the network: a stack on a port, and sockets over it.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use linerate_control::StartError;

use super::block::wait;
use super::line::{Command, Line, Mailbox, Queue};
use super::listener::TcpListener;
use super::program::Sockets;
use super::stream::TcpStream;
use crate::run::{Options, Running, start};
use crate::stack::NetworkConfig;

/// A host of its own in the network. Dropping it resets its connections.
pub struct Host {
    running: Running<Sockets>,
    mailbox: Arc<Mailbox>,
}

impl Host {
    /// Opens the port, and waits until the addresses can be used.
    ///
    /// # Errors
    /// A part of the configuration is wrong, the port cannot be opened, or somebody has the address.
    pub fn start(network: &NetworkConfig, options: Options) -> Result<Host, StartError> {
        let mailbox = Arc::new(Mailbox::default());
        let running = start(Sockets::new(Arc::clone(&mailbox)), network, options)?;
        let handle = running.handle();
        mailbox.wakes(move || handle.notify());
        Ok(Host { running, mailbox })
    }

    /// The program, its port and its worker.
    pub fn running(&self) -> &Running<Sockets> {
        &self.running
    }

    /// The address of a name of [`NetworkConfig::names`].
    pub fn address_of(&self, name: &str) -> Option<IpAddr> {
        self.running.address_of(name)
    }

    /// Connects. A future that is dropped gives the connection up.
    ///
    /// # Errors
    /// Nobody listens there, nobody answers, or there is no way.
    pub async fn connect(&self, remote: SocketAddr) -> io::Result<TcpStream> {
        let stream = self.begin(remote);
        poll_fn(|context| stream.poll_connected(context)).await?;
        Ok(stream)
    }

    /// As [`Host::connect`], for a thread.
    ///
    /// # Errors
    /// As there.
    pub fn connect_blocking(&self, remote: SocketAddr) -> io::Result<TcpStream> {
        let stream = self.begin(remote);
        wait(|context| stream.poll_connected(context))?;
        Ok(stream)
    }

    /// Listens; the unspecified address stands for all of the host's.
    ///
    /// # Errors
    /// The address is in use, or not one of this host.
    pub fn listen(&self, address: SocketAddr) -> io::Result<TcpListener> {
        let queue = Arc::new(Queue::default());
        self.mailbox.send(Command::Listen(address, Arc::clone(&queue)));
        wait(|context| queue.lock().poll_begun(context))?;
        Ok(TcpListener::new(queue, Arc::clone(&self.mailbox)))
    }

    /// A stream that is to be. If nobody waits for it any more, it is dropped, which gives the connection up.
    fn begin(&self, remote: SocketAddr) -> TcpStream {
        let line = Arc::new(Line::default());
        self.mailbox.send(Command::Connect(remote, Arc::clone(&line)));
        TcpStream::new(line, Arc::clone(&self.mailbox))
    }
}
