//! What threads and tasks ask the stack's thread for.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use super::block::wait;
use super::line::{Command, Line, Mailbox, Queue};
use super::listener::TcpListener;
use super::program::Sockets;
use super::stream::TcpStream;

/// Connects and listens by the program under sockets.
pub struct Caller {
    mailbox: Arc<Mailbox>,
}

impl Caller {
    /// The program under sockets, and what asks it.
    pub fn new() -> (Sockets, Caller) {
        let mailbox = Arc::new(Mailbox::default());
        (Sockets::new(Arc::clone(&mailbox)), Caller { mailbox })
    }

    /// How the stack's thread is woken.
    pub fn wakes(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.mailbox.wakes(wake);
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

    /// As [`Caller::connect`], for a thread.
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
