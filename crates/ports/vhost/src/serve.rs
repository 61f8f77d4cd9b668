//! The thread that talks with the front-end: waits for one, answers it until it goes, waits for the next.

use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linerate_port::FaultPause;
use linerate_sys::clock;
use vhost::vhost_user::{BackendReqHandler, Error};

use crate::control::Control;
use crate::device::{Device, Shared};
use crate::enable;
use crate::interrupts::Watch;
use crate::socket::ServerSocket;
use crate::sys;

/// A client looks for its server so often, and so long after a connection that was given up.
const RETRY_MS: i32 = 100;
/// So long the packets of a front-end that is gone are kept for a port that does not come to receive them.
const DRAIN: Duration = Duration::from_secs(10);
const DRAIN_STEP_MS: i32 = 5;

/// What a front-end did that had a port wait for it.
const JAM: &str = "an eventfd that makes whoever writes to it wait, and filled it";

/// Where front-ends come from.
#[derive(Debug)]
pub(crate) enum Role {
    /// They connect to this socket.
    Server(ServerSocket),
    /// The front-end listens at this path.
    Client(PathBuf),
}

/// What became of the front-ends so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peers {
    /// A front-end is connected.
    pub connected: bool,
    /// Front-ends that connected so far.
    pub connections: u64,
    /// Connections that this side gave up because of what the peer did.
    pub faults: u64,
    /// What the last of those did, in words.
    pub last_fault: Option<String>,
}

/// The running thread; it ends with this value.
#[derive(Debug)]
pub(crate) struct Server {
    shared: Arc<Shared>,
    peers: Arc<Mutex<Peers>>,
    stop: io::PipeWriter,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(shared: &Arc<Shared>, role: Role, queue_pairs: usize) -> io::Result<Server> {
        let (stopped, stop) = io::pipe()?;
        let peers = Arc::new(Mutex::new(Peers::default()));
        let work = Work { shared: Arc::clone(shared), peers: Arc::clone(&peers), stopped, role, queue_pairs };
        let thread = std::thread::Builder::new().name("vhost".into()).spawn(move || work.run())?;
        Ok(Server { shared: Arc::clone(shared), peers, stop, thread: Some(thread) })
    }

    pub(crate) fn peers(&self) -> Peers {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        use std::io::Write;
        self.shared.stopping.store(true, Ordering::Release);
        // A message of which only a part came is not waited for.
        self.shared.change(|device| device.connection.as_ref().map(|stream| stream.shutdown(Shutdown::Both)));
        let _ = self.stop.write(&[1]);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How a front-end left.
enum Leaving {
    /// By itself, or it was sent away for what it said or wrote, which costs the port nothing.
    Went,
    /// It was sent away because it held the port up.
    HeldUp,
}

struct Work {
    shared: Arc<Shared>,
    peers: Arc<Mutex<Peers>>,
    stopped: io::PipeReader,
    role: Role,
    queue_pairs: usize,
}

impl Work {
    fn run(self) {
        let mut pause = FaultPause::default();
        while !self.shared.stopping.load(Ordering::Acquire) {
            let stream = match &self.role {
                Role::Server(socket) => {
                    let _ = sys::readable([socket.listener.as_fd(), self.stopped.as_fd()], -1);
                    // Without a descriptor left (EMFILE) the connection stays in the queue.
                    socket.listener.accept().map(|(stream, _)| stream)
                }
                Role::Client(path) => UnixStream::connect(path),
            };
            let served = stream.and_then(|stream| self.serve(stream));
            let pause_ms = match served {
                // Whoever connects meanwhile waits in the queue of the socket.
                Ok(Leaving::HeldUp) => {
                    let now_ns = clock::now_ns();
                    i32::try_from((pause.fault(now_ns) - now_ns) / 1_000_000).unwrap_or(i32::MAX)
                }
                Ok(Leaving::Went) if matches!(self.role, Role::Server(_)) => 0,
                _ => RETRY_MS,
            };
            if pause_ms > 0 {
                let _ = sys::readable([self.stopped.as_fd()], pause_ms);
            }
        }
    }

    /// Answers one front-end until it goes, or is sent away.
    fn serve(&self, stream: UnixStream) -> io::Result<Leaving> {
        // An accepted socket waits for whole messages.
        stream.set_nonblocking(false)?;
        let (polled, closable) = (stream.try_clone()?, stream.try_clone()?);
        // It outlives the set-up, which cannot be changed while the port hangs.
        let _watch = Watch::start(&self.shared, stream.try_clone()?)?;
        self.shared.change(|device| device.connection = Some(closable));
        self.note(|peers| {
            peers.connected = true;
            peers.connections += 1;
        });
        let control = Arc::new(Mutex::new(Control::new(&self.shared, self.queue_pairs)));
        let mut handler = BackendReqHandler::from_stream(stream, Arc::clone(&control));
        let error = loop {
            if let Err(error) = self.wait_for_request(&polled) {
                break Error::SocketBroken(error);
            }
            let handled = match enable::take_request(&polled) {
                Ok(Some(request)) => request.handle(&control, &polled),
                Ok(None) => handler.handle_request(),
                Err(error) => Err(Error::SocketBroken(error)),
            };
            match handled {
                Ok(()) | Err(Error::SocketRetry(_)) => {}
                Err(error) => break error,
            }
        };
        let jammed = self.shared.interrupts.take_jam();
        let jam = || jammed.then(|| JAM.to_string());
        let fault = self.shared.device().fault.take().or_else(jam).or_else(|| fault_of(&error));
        if fault.is_none() {
            self.drain();
        }
        // Forgets the set-up.
        drop((handler, control));
        let _ = polled.shutdown(Shutdown::Both);
        self.note(|peers| {
            peers.connected = false;
            if let Some(fault) = fault {
                peers.faults += 1;
                peers.last_fault = Some(fault);
            }
        });
        Ok(if jammed { Leaving::HeldUp } else { Leaving::Went })
    }

    /// Sleeps until there is a request; who else wants to connect meanwhile is sent away. An error when the port is closed.
    fn wait_for_request(&self, stream: &UnixStream) -> io::Result<()> {
        loop {
            let (request, other) = match &self.role {
                Role::Server(socket) => {
                    let fds = [stream.as_fd(), self.stopped.as_fd(), socket.listener.as_fd()];
                    let [request, _, other] = sys::readable(fds, -1)?;
                    (request, other)
                }
                Role::Client(_) => (sys::readable([stream.as_fd(), self.stopped.as_fd()], -1)?[0], false),
            };
            if self.shared.stopping.load(Ordering::Acquire) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if request {
                return Ok(());
            }
            if let (true, Role::Server(socket)) = (other, &self.role) {
                drop(socket.listener.accept());
            }
        }
    }

    /// The front-end is gone, maybe killed. What its driver had sent before that is still received, if the port is polled and
    /// nobody else wants to connect.
    fn drain(&self) {
        self.shared.change(Device::stop_receiving);
        let deadline = Instant::now() + DRAIN;
        while self.shared.change(|device| device.has_packets()) && Instant::now() < deadline {
            let ended = match &self.role {
                Role::Server(socket) => sys::readable([self.stopped.as_fd(), socket.listener.as_fd()], DRAIN_STEP_MS),
                Role::Client(_) => sys::readable([self.stopped.as_fd()], DRAIN_STEP_MS).map(|[stopped]| [stopped; 2]),
            };
            if !matches!(ended, Ok([false, false])) {
                return;
            }
        }
    }

    fn note(&self, change: impl FnOnce(&mut Peers)) {
        change(&mut self.peers.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// What was wrong with the messages of a peer; a peer that only went away did nothing wrong.
fn fault_of(error: &Error) -> Option<String> {
    match error {
        Error::Disconnected | Error::PartialMessage | Error::SocketBroken(_) | Error::SocketError(_) => None,
        other => Some(format!("a message: {other}")),
    }
}
