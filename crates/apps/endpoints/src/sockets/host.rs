//! A host of its own in the network: a stack on a port, and sockets over it.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

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

    /// Connects.
    ///
    /// # Errors
    /// Nobody listens there, nobody answers, or there is no way.
    pub async fn connect(&self, remote: SocketAddr) -> io::Result<TcpStream> {
        let line = self.begin(remote);
        poll_fn(|context| self.poll(&line, context)).await?;
        Ok(TcpStream::new(line, Arc::clone(&self.mailbox)))
    }

    /// As [`Host::connect`], for a thread.
    ///
    /// # Errors
    /// As there.
    pub fn connect_blocking(&self, remote: SocketAddr) -> io::Result<TcpStream> {
        let line = self.begin(remote);
        wait(|context| self.poll(&line, context))?;
        Ok(TcpStream::new(line, Arc::clone(&self.mailbox)))
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

    fn begin(&self, remote: SocketAddr) -> Arc<Line> {
        let line = Arc::new(Line::default());
        self.mailbox.send(Command::Connect(remote, Arc::clone(&line)));
        line
    }

    fn poll(&self, line: &Line, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        line.lock().poll_connected(context)
    }
}
