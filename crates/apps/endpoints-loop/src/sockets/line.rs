//! What a stream and the stack's thread share of a connection: bytes on the way, and who waits for them.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use linerate_tcp::{CloseReason, ConnectError, ListenError};

/// Bytes on the way in a direction, at most.
const QUEUE_MAX: usize = 256 * 1024;

/// A connection, or one that is to be.
#[derive(Default)]
pub(super) struct Line(Mutex<LineState>);

#[derive(Default)]
pub(super) struct LineState {
    /// Number of the connection in the program's table, once it is begun.
    pub(super) number: Option<u32>,
    pub(super) addresses: Option<(SocketAddr, SocketAddr)>,
    pub(super) incoming: VecDeque<u8>,
    pub(super) outgoing: VecDeque<u8>,
    /// The peer closed its direction.
    pub(super) peer_closed: bool,
    /// The stream closes its direction after what it wrote.
    pub(super) shut_down: bool,
    /// The stream is gone.
    pub(super) dropped: bool,
    /// The stack's thread knows that.
    pub(super) orphaned: bool,
    /// Bytes were not taken, because the queue was full.
    pub(super) paused: bool,
    /// The connection ended.
    pub(super) ended: Option<CloseReason>,
    /// It could not be begun.
    pub(super) refused: Option<ConnectError>,
    reader: Waiters,
    writer: Waiters,
}

/// Those who wait for something: several threads or tasks may share a stream or a listener.
#[derive(Default)]
struct Waiters(Vec<Waker>);

/// Most wakers that are kept. Those of tasks that gave up stay until the next event, and nothing else bounds them.
const WAITERS_MAX: usize = 1024;

impl Waiters {
    fn add(&mut self, context: &Context<'_>) {
        if self.0.iter().any(|waker| waker.will_wake(context.waker())) {
            return;
        }
        if self.0.len() >= WAITERS_MAX {
            // Those who still wait ask again.
            self.wake();
        }
        self.0.push(context.waker().clone());
    }

    fn wake(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}

impl Line {
    pub(super) fn lock(&self) -> MutexGuard<'_, LineState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LineState {
    /// Room for bytes that arrive.
    pub(super) fn incoming_room(&self) -> usize {
        if self.dropped { usize::MAX } else { QUEUE_MAX - self.incoming.len().min(QUEUE_MAX) }
    }

    /// The reader, or whoever waits for the connection, is to look again.
    pub(super) fn wake_reader(&mut self) {
        self.reader.wake();
    }

    /// The writer is to look again.
    pub(super) fn wake_writer(&mut self) {
        self.writer.wake();
    }

    /// Whether the connection stands.
    pub(super) fn poll_connected(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(error) = self.refused {
            return Poll::Ready(Err(io::Error::other(error)));
        }
        if let Some(why) = self.ended {
            return Poll::Ready(Err(error_of(why)));
        }
        if self.addresses.is_some() {
            return Poll::Ready(Ok(()));
        }
        self.reader.add(context);
        Poll::Pending
    }

    /// Takes bytes that arrived into `buffer`; 0 at their end.
    pub(super) fn poll_read(&mut self, buffer: &mut [u8], context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if !self.incoming.is_empty() {
            let (front, _) = self.incoming.as_slices();
            let taken = front.len().min(buffer.len());
            buffer[..taken].copy_from_slice(&front[..taken]);
            self.incoming.drain(..taken);
            return Poll::Ready(Ok(taken));
        }
        match self.ended {
            _ if self.peer_closed => Poll::Ready(Ok(0)),
            Some(CloseReason::Normal) => Poll::Ready(Ok(0)),
            Some(why) => Poll::Ready(Err(error_of(why))),
            None => {
                self.reader.add(context);
                Poll::Pending
            }
        }
    }

    /// Takes bytes that are to leave.
    pub(super) fn poll_write(&mut self, bytes: &[u8], context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if let Some(why) = self.ended {
            return Poll::Ready(Err(if why == CloseReason::Normal {
                io::ErrorKind::BrokenPipe.into()
            } else {
                error_of(why)
            }));
        }
        if self.shut_down {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let taken = bytes.len().min(QUEUE_MAX - self.outgoing.len().min(QUEUE_MAX));
        if taken == 0 && !bytes.is_empty() {
            self.writer.add(context);
            return Poll::Pending;
        }
        self.outgoing.extend(&bytes[..taken]);
        Poll::Ready(Ok(taken))
    }

    /// Whether the stack has taken everything.
    pub(super) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.ended {
            _ if self.outgoing.is_empty() => Poll::Ready(Ok(())),
            Some(why) => Poll::Ready(Err(error_of(why))),
            None => {
                self.writer.add(context);
                Poll::Pending
            }
        }
    }
}

fn error_of(why: CloseReason) -> io::Error {
    let kind = match why {
        CloseReason::Normal => io::ErrorKind::NotConnected,
        CloseReason::Reset => io::ErrorKind::ConnectionReset,
        CloseReason::Refused => io::ErrorKind::ConnectionRefused,
        CloseReason::TimedOut => io::ErrorKind::TimedOut,
        CloseReason::Unreachable => io::ErrorKind::HostUnreachable,
        CloseReason::Aborted => io::ErrorKind::ConnectionAborted,
    };
    kind.into()
}

/// What a listener and the stack's thread share.
#[derive(Default)]
pub(super) struct Queue(Mutex<QueueState>);

#[derive(Default)]
pub(super) struct QueueState {
    pub(super) accepted: VecDeque<Arc<Line>>,
    /// What came of listening.
    pub(super) begun: Option<Result<(), ListenError>>,
    /// The listener is gone.
    pub(super) dropped: bool,
    /// The stack has ended.
    pub(super) ended: bool,
    waiters: Waiters,
}

impl Queue {
    pub(super) fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    /// Whoever waits is to look again.
    pub(super) fn wake(&mut self) {
        self.waiters.wake();
    }

    /// What came of listening.
    pub(super) fn poll_begun(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.begun {
            Some(begun) => Poll::Ready(begun.map_err(io::Error::other)),
            None if self.ended => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            None => {
                self.waiters.add(context);
                Poll::Pending
            }
        }
    }

    /// The next connection.
    pub(super) fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Arc<Line>>> {
        match self.accepted.pop_front() {
            Some(line) => Poll::Ready(Ok(line)),
            None if self.ended => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            None => {
                self.waiters.add(context);
                Poll::Pending
            }
        }
    }
}

/// Something that the stack's thread is to do.
pub(super) enum Command {
    /// Begin a connection.
    Connect(SocketAddr, Arc<Line>),
    /// Listen.
    Listen(SocketAddr, Arc<Queue>),
    /// Listen no more.
    StopListening(Arc<Queue>),
    /// Look at a connection: it has bytes to send, room for bytes, or is to be closed.
    Look(u32),
}

impl Command {
    /// Nobody will do it.
    fn refuse(self) {
        match self {
            Command::Connect(_, line) => {
                let mut state = line.lock();
                state.ended = Some(CloseReason::Aborted);
                state.wake_reader();
            }
            Command::Listen(_, queue) => {
                let mut state = queue.lock();
                state.ended = true;
                state.wake();
            }
            Command::StopListening(_) | Command::Look(_) => {}
        }
    }
}

/// Commands on their way to the stack's thread.
pub(super) struct Mailbox {
    /// `None` after the end of the stack.
    commands: Mutex<Option<Vec<Command>>>,
    waiting: AtomicBool,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Default for Mailbox {
    fn default() -> Mailbox {
        Mailbox { commands: Mutex::new(Some(Vec::new())), waiting: AtomicBool::new(false), wake: OnceLock::new() }
    }
}

impl Mailbox {
    /// Sends a command, and wakes the stack's thread.
    pub(super) fn send(&self, command: Command) {
        match &mut *self.lock() {
            Some(commands) => commands.push(command),
            None => {
                command.refuse();
                return;
            }
        }
        self.waiting.store(true, Ordering::Release);
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    /// How the stack's thread is woken.
    pub(super) fn wakes(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }

    pub(super) fn has_mail(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    pub(super) fn take(&self) -> Vec<Command> {
        self.waiting.store(false, Ordering::Release);
        self.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The stack has ended: commands that wait, and those that follow, are refused.
    pub(super) fn close(&self) {
        let waiting = self.lock().take();
        waiting.into_iter().flatten().for_each(Command::refuse);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<Command>>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
