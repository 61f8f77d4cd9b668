//! A listener, for threads and for tasks.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use super::block::wait;
use super::line::{Command, Line, Mailbox, Queue};
use super::stream::TcpStream;

/// Accepts connections; several threads or tasks may wait. Dropping it closes those that nobody accepted, and frees the address.
pub struct TcpListener {
    queue: Arc<Queue>,
    mailbox: Arc<Mailbox>,
}

impl TcpListener {
    pub(super) fn new(queue: Arc<Queue>, mailbox: Arc<Mailbox>) -> TcpListener {
        TcpListener { queue, mailbox }
    }

    /// The next connection, with the address of its peer.
    ///
    /// # Errors
    /// The host has ended.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.accepted(poll_fn(|context| self.queue.lock().poll_accept(context)).await)
    }

    /// As [`TcpListener::accept`], for a thread.
    ///
    /// # Errors
    /// The host has ended.
    pub fn accept_blocking(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.accepted(wait(|context| self.queue.lock().poll_accept(context)))
    }

    fn accepted(&self, line: io::Result<Arc<Line>>) -> io::Result<(TcpStream, SocketAddr)> {
        let stream = TcpStream::new(line?, Arc::clone(&self.mailbox));
        let peer = stream.peer_addr()?;
        Ok((stream, peer))
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.dropped = true;
        let waiting = std::mem::take(&mut state.accepted);
        drop(state);
        // Their streams close them.
        self.mailbox.send(Command::StopListening(Arc::clone(&self.queue)));
        waiting.into_iter().for_each(|line| drop(TcpStream::new(line, Arc::clone(&self.mailbox))));
    }
}
