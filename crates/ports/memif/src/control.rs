//! The control channels of all memif ports of a process: one thread, which sleeps but for handshakes and hang-ups.
//!
//! ```text
//! listener (one a socket)  --accept-->  session (one a peer)  --init names it-->  interface (one an id)  -->  handoffs of ports
//! ```
//! All of it lies behind one lock, which ports take when they open and close, and when a peer broke the protocol; never
//! otherwise. No call here waits for a peer.
//!
//! ```text
//! control.rs     the thread, and what becomes due
//! interface.rs   the ids of sockets, and the places of ports there      session.rs   peers and their handshakes
//! ```

mod interface;
mod session;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linerate_sys::clock;
use linerate_sys::poll::PollSet;

use crate::handoff::QueueHandoff;
use crate::link::RING_WATCH;
use crate::listener::{Listener, PathRefusal};
use crate::options::{Key, Options, Role};
use crate::pool::PoolMemory;
use interface::Interface;
use session::Session;

/// A client tries to connect this often.
const RETRY_NS: u64 = 50_000_000;
/// A listener that could not accept (no descriptors are left) is left alone for this long.
const PAUSE_NS: u64 = 100_000_000;
/// While ports ring peers, a look this often at whether one hangs in it.
const WATCH_NS: u64 = 100_000_000;
/// Looks in a row at which no port had rung, after which there are no more. Until then a port that rings sets no alarm, which would take 2 to
/// 5 us from the packet for which it rings.
const QUIET_LOOKS: u32 = 10;

/// Everything about control channels.
struct Control {
    listeners: Vec<(Listening, Listener)>,
    interfaces: Vec<Interface>,
    sessions: BTreeMap<u64, Session>,
    last_session: u64,
    /// The thread is there.
    running: bool,
    /// When the bells are looked at.
    watch_at_ns: u64,
    /// Looks since the last one at which some port had rung.
    quiet_looks: u32,
}

/// A socket that clients connect to.
struct Listening {
    name: Arc<str>,
    paused_until_ns: u64,
}

/// Why a port cannot have a place.
pub(crate) enum AttachError {
    Path(PathRefusal),
    /// In words.
    Taken(String),
    Io(&'static str, io::Error),
}

static CONTROL: Mutex<Control> = Mutex::new(Control {
    listeners: Vec::new(),
    interfaces: Vec::new(),
    sessions: BTreeMap::new(),
    last_session: 0,
    running: false,
    watch_at_ns: 0,
    quiet_looks: 0,
});

fn lock() -> MutexGuard<'static, Control> {
    CONTROL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a place for a port at the interface of these options, which is made if there is none.
/// `pool` is what its peers are lent, if packets are not copied.
pub(crate) fn attach(
    options: &Options,
    queue: u16,
    pool: Option<Arc<PoolMemory>>,
) -> Result<Arc<QueueHandoff>, AttachError> {
    let handoff = Arc::new(QueueHandoff::new(queue).map_err(|error| AttachError::Io("make an eventfd", error))?);
    RING_WATCH.prepare().map_err(|error| AttachError::Io("make an eventfd", error))?;
    let mut control = lock();
    control.add_handoff(options, &handoff, pool)?;
    if !control.running {
        let thread = std::thread::Builder::new().name("memif control".into());
        if let Err(error) = thread.spawn(run) {
            control.remove_handoff(&options.key, &handoff);
            return Err(AttachError::Io("start a thread", error));
        }
        control.running = true;
    }
    drop(control);
    RING_WATCH.wake();
    Ok(handoff)
}

/// Gives a place back. Its connection ends; with its last port goes the interface, and with its last interface the socket.
pub(crate) fn detach(key: &Key, handoff: &Arc<QueueHandoff>) {
    lock().remove_handoff(key, handoff);
    RING_WATCH.wake();
}

/// Ends connection `connection` because its peer broke the protocol; `closing` when the port takes no other.
pub(crate) fn end(key: &Key, connection: u64, what: &str, closing: bool) {
    let mut control = lock();
    if let Some(interface) = control.interface(key) {
        interface.closed |= closing;
        if interface.session == Some(connection) {
            control.punish(connection, what);
        }
    }
    drop(control);
    RING_WATCH.wake();
}

/// The thread: sleeps until a socket or a time needs it.
fn run() {
    let mut sleeping = PollSet::default();
    let mut whose = Vec::new();
    loop {
        let timeout_ns = {
            let mut control = lock();
            let now_ns = clock::now_ns();
            let wake_at_ns = control.look_at_times(now_ns);
            if control.interfaces.is_empty() && control.sessions.is_empty() {
                control.running = false;
                return;
            }
            control.list_descriptors(now_ns, &mut sleeping, &mut whose);
            wake_at_ns.saturating_sub(now_ns)
        };
        if sleeping.wait(timeout_ns).is_err() {
            // No memory for the call: there will be some, or nothing helps.
            clock::sleep_until_ns(clock::now_ns() + PAUSE_NS);
        }
        RING_WATCH.silence();
        let mut control = lock();
        for (index, who) in whose.iter().enumerate() {
            let found = sleeping.result(index);
            match who {
                _ if !found.readable && !found.failed => {}
                Who::Bell => {}
                Who::Listener(name) => control.accept(name),
                Who::Session(number) => control.pump(*number),
            }
        }
    }
}

/// Whose descriptor it is.
enum Who {
    Bell,
    Listener(Arc<str>),
    Session(u64),
}

impl Control {
    fn interface(&mut self, key: &Key) -> Option<&mut Interface> {
        self.interfaces.iter_mut().find(|interface| interface.options.key == *key)
    }

    /// Does what has become due; returns when something is due next.
    fn look_at_times(&mut self, now_ns: u64) -> u64 {
        let late = |session: &&u64| self.sessions.get(session).is_some_and(|session| session.deadline_ns <= now_ns);
        let late: Vec<u64> = self.sessions.keys().filter(late).copied().collect();
        for session in late {
            self.turn_away(session, "Too slow");
        }
        let watch_at_ns = self.watch_bells(now_ns);
        let due = |interface: &&Interface| {
            interface.options.key.role == Role::Client
                && interface.session.is_none()
                && !interface.closed
                && interface.retry_at_ns <= now_ns
        };
        let due: Vec<Key> = self.interfaces.iter().filter(due).map(|interface| interface.options.key.clone()).collect();
        for key in due {
            self.connect(&key, now_ns);
        }
        let deadlines = self.sessions.values().map(|session| session.deadline_ns);
        let retries = self.interfaces.iter().filter(|interface| {
            interface.options.key.role == Role::Client && interface.session.is_none() && !interface.closed
        });
        let pauses = self.listeners.iter().map(|(listening, _)| listening.paused_until_ns).filter(|at| *at > now_ns);
        deadlines.chain(retries.map(|interface| interface.retry_at_ns)).chain(pauses).fold(watch_at_ns, u64::min)
    }

    /// Looks for a port that hangs while it rings its peer, lets it go on, and ends that connection. The next look is due at the
    /// time that it returns: never, if no port rang before the last [`QUIET_LOOKS`] looks, because the next one that rings sets the alarm.
    fn watch_bells(&mut self, now_ns: u64) -> u64 {
        if now_ns >= self.watch_at_ns {
            self.watch_at_ns = now_ns + WATCH_NS;
            let (mut jammed, mut rang) = (Vec::new(), false);
            for (number, session) in &mut self.sessions {
                for (bell, before) in &mut session.bells {
                    let rings = bell.rings();
                    if rings % 2 == 1 && rings == *before && bell.is_full() {
                        bell.free();
                        jammed.push(*number);
                    }
                    rang |= rings % 2 == 1 || rings != *before;
                    *before = rings;
                }
            }
            self.quiet_looks = if rang { 0 } else { self.quiet_looks + 1 };
            let goes_on = self.quiet_looks < QUIET_LOOKS;
            RING_WATCH.set(goes_on);
            let rings = |session: &Session| session.bells.iter().any(|(bell, before)| bell.rings() != *before);
            if !goes_on && self.sessions.values().any(rings) {
                RING_WATCH.set(true);
            }
            jammed.into_iter().for_each(|session| self.punish(session, "You jam your eventfd"));
        }
        if RING_WATCH.looks() { self.watch_at_ns } else { u64::MAX }
    }

    fn list_descriptors(&self, now_ns: u64, sleeping: &mut PollSet, whose: &mut Vec<Who>) {
        sleeping.clear();
        whose.clear();
        if let Some((bell, alarm)) = RING_WATCH.bells() {
            sleeping.add(bell.as_fd(), true, false);
            sleeping.add(alarm.as_fd(), true, false);
            whose.extend([Who::Bell, Who::Bell]);
        }
        for (listening, listener) in &self.listeners {
            if listening.paused_until_ns <= now_ns {
                sleeping.add(listener.socket.as_fd(), true, false);
                whose.push(Who::Listener(Arc::clone(&listening.name)));
            }
        }
        for (number, session) in &self.sessions {
            sleeping.add(session.channel.as_fd(), true, false);
            whose.push(Who::Session(*number));
        }
    }
}
