//! A connection as a byte stream, for threads and for tasks.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::block::wait;
use super::line::{Command, Line, LineState, Mailbox};

/// A connection. Dropping it closes the connection after the bytes that were written.
pub struct TcpStream {
    line: Arc<Line>,
    mailbox: Arc<Mailbox>,
}

impl TcpStream {
    pub(super) fn new(line: Arc<Line>, mailbox: Arc<Mailbox>) -> TcpStream {
        TcpStream { line, mailbox }
    }

    /// Own address and port.
    ///
    /// # Errors
    /// The connection never stood.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.line.lock().addresses.map(|(local, _)| local).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Address and port of the peer.
    ///
    /// # Errors
    /// The connection never stood.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.line.lock().addresses.map(|(_, remote)| remote).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Closes this direction after the bytes that were written; bytes may still be read.
    pub fn shut_down_write(&self) {
        self.change(|state| state.shut_down = true);
    }

    /// Changes the line, and has the stack's thread look at it.
    fn change<T>(&self, change: impl FnOnce(&mut LineState) -> T) -> T {
        let mut state = self.line.lock();
        let result = change(&mut state);
        let number = state.number;
        drop(state);
        if let Some(number) = number {
            self.mailbox.send(Command::Look(number));
        }
        result
    }

    pub(super) fn poll_connected(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.line.lock().poll_connected(context)
    }

    fn poll_read_bytes(&self, buffer: &mut [u8], context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut state = self.line.lock();
        let read = state.poll_read(buffer, context);
        // The stack is told when half of a full queue is free.
        let wanted = state.paused && state.incoming.len() <= state.incoming_room();
        drop(state);
        if wanted {
            self.change(|_| ());
        }
        read
    }

    fn poll_write_bytes(&self, bytes: &[u8], context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut state = self.line.lock();
        // If bytes are in the queue already, the stack's thread was told, or goes on when the connection has room.
        let was_empty = state.outgoing.is_empty();
        let written = state.poll_write(bytes, context);
        drop(state);
        if was_empty && matches!(written, Poll::Ready(Ok(_))) {
            self.change(|_| ());
        }
        written
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = self.poll_read_bytes(buffer.initialize_unfilled(), context);
        read.map_ok(|read| buffer.advance(read))
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_bytes(bytes, context)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.line.lock().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shut_down_write();
        self.line.lock().poll_flush(context)
    }
}

impl Read for &TcpStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        wait(|context| self.poll_read_bytes(buffer, context))
    }
}

impl Write for &TcpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        wait(|context| self.poll_write_bytes(bytes, context))
    }

    fn flush(&mut self) -> io::Result<()> {
        wait(|context| self.line.lock().poll_flush(context))
    }
}

impl Read for TcpStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for TcpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        self.change(|state| {
            state.dropped = true;
            state.incoming.clear();
        });
    }
}
