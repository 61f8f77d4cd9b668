//! The control channels of all memif ports of a process: one thread, which sleeps but for handshakes and hang-ups.
//!
//! ```text
//! listener (one a socket)  --accept-->  session (one a peer)  --init names it-->  interface (one an id)  -->  seats of ports
//! ```
//! All of it lies behind one lock, which ports take when they open and close, and when a peer broke the protocol; never
//! otherwise. No call here waits for a peer.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use linerate_sys::clock;
use linerate_sys::poll::PollSet;

use crate::handshake::{self, Claims, NAME, Refusal, Speech};
use crate::link::Pair;
use crate::listener::{self, Listener, PathRefusal};
use crate::message::Message;
use crate::options::{Key, Options, Role};
use crate::seat::{Delivery, Seat};
use crate::sys::{Channel, Doorbell, Received};

/// A peer has this long for a handshake.
const HANDSHAKE_NS: u64 = 10_000_000_000;
/// A client tries to connect this often.
const RETRY_NS: u64 = 50_000_000;
/// A listener that could not accept (no descriptors are left) is left alone for this long.
const PAUSE_NS: u64 = 100_000_000;
/// Where ports ring peers, a look this often at whether one hangs in it.
const WATCH_NS: u64 = 100_000_000;
/// Peers of one process that have not said yet what they want.
const STRANGERS_MAX: usize = 64;
/// Messages taken from one peer before the others get their turn.
const TURN: usize = 64;

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
}

struct Listening {
    name: String,
    paused_until_ns: u64,
}

struct Interface {
    options: Options,
    seats: Vec<Arc<Seat>>,
    /// The peer that has it, whether the handshake is done or not.
    session: Option<u64>,
    /// A client tries again then.
    retry_at_ns: u64,
    /// Its port was closed by a fault of a peer.
    closed: bool,
    /// While a peer is connected: the rings of all queues, those that a port serves taken out.
    spare: Vec<Pair>,
}

struct Session {
    channel: Channel,
    part: Part,
    /// Which interface it belongs to, once that is known.
    key: Option<Key>,
    deadline_ns: u64,
    /// Once it is up: what ports ring, as it was at the last look.
    bells: Vec<(Arc<Doorbell>, u32)>,
}

/// How far a handshake is.
enum Part {
    /// Of a server: said hello at this socket.
    Greeting(String),
    /// Of a server: takes claims.
    Claiming(Claims),
    /// Of a client: waits for hello.
    Listening,
    /// Of a client: says what it has.
    Speaking(Speech),
    Up,
}

/// What a message leads to.
enum Answer {
    Nothing,
    Say(Message, Option<OwnedFd>),
    /// The peer said goodbye.
    Close,
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
});
/// Wakes the thread.
static BELL: OnceLock<Doorbell> = OnceLock::new();

fn lock() -> MutexGuard<'static, Control> {
    CONTROL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a place for a port at the interface of these options, which is made if there is none.
pub(crate) fn attach(options: &Options, queue: Option<u16>) -> Result<Arc<Seat>, AttachError> {
    let queues = queue.map_or(0..options.rings, |queue| queue..queue + 1);
    let seat = Arc::new(Seat::new(queues).map_err(|error| AttachError::Io("make an eventfd", error))?);
    if BELL.get().is_none() {
        // A second one, made at the same time by another thread, is closed again.
        let _ = BELL.set(Doorbell::new().map_err(|error| AttachError::Io("make an eventfd", error))?);
    }
    let mut control = lock();
    control.add_seat(options, &seat)?;
    if !control.running {
        let thread = std::thread::Builder::new().name("memif control".into());
        if let Err(error) = thread.spawn(run) {
            control.remove_seat(&options.key, &seat);
            return Err(AttachError::Io("start a thread", error));
        }
        control.running = true;
    }
    drop(control);
    wake();
    Ok(seat)
}

/// Gives a place back. Its connection ends; with its last port goes the interface, and with its last interface the socket.
pub(crate) fn detach(key: &Key, seat: &Arc<Seat>) {
    lock().remove_seat(key, seat);
    wake();
}

/// Ends connection `connection` because its peer broke the protocol; `closing` when the port takes no other.
pub(crate) fn end(key: &Key, connection: u64, what: &str, closing: bool) {
    let mut control = lock();
    if let Some(interface) = control.interface(key) {
        interface.closed |= closing;
        if interface.session == Some(connection) {
            control.turn_away(connection, what);
        }
    }
    drop(control);
    wake();
}

fn wake() {
    if let Some(bell) = BELL.get() {
        bell.ring();
    }
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
        if let Some(bell) = BELL.get() {
            bell.silence();
        }
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
    Listener(String),
    Session(u64),
}

impl Control {
    fn interface(&mut self, key: &Key) -> Option<&mut Interface> {
        self.interfaces.iter_mut().find(|interface| interface.options.key == *key)
    }

    fn add_seat(&mut self, options: &Options, seat: &Arc<Seat>) -> Result<(), AttachError> {
        let key = &options.key;
        if let Some(interface) = self.interface(key) {
            return interface.seat_another(options, seat);
        }
        let listens = self.listeners.iter().any(|(listening, _)| listening.name == key.socket);
        match key.role {
            Role::Server if !listens => {
                let listener = Listener::open(&key.socket).map_err(AttachError::Path)?;
                self.listeners.push((Listening { name: key.socket.clone(), paused_until_ns: 0 }, listener));
            }
            Role::Client if !key.socket.starts_with('@') => {
                listener::check_socket(&key.socket, true).map_err(AttachError::Path)?;
            }
            _ => {}
        }
        self.interfaces.push(Interface {
            options: options.clone(),
            seats: vec![Arc::clone(seat)],
            session: None,
            retry_at_ns: 0,
            closed: false,
            spare: Vec::new(),
        });
        Ok(())
    }

    fn remove_seat(&mut self, key: &Key, seat: &Arc<Seat>) {
        let Some(interface) = self.interface(key) else { return };
        interface.seats.retain(|other| !Arc::ptr_eq(other, seat));
        let (session, empty) = (interface.session, interface.seats.is_empty());
        if let Some(session) = session {
            // Its rings are gone with the port; other ports of the interface get new ones with the next connection.
            self.turn_away(session, "Port closed");
        }
        if !empty {
            return;
        }
        self.interfaces.retain(|interface| interface.options.key != *key);
        let used = |name: &str| {
            self.interfaces
                .iter()
                .any(|other| other.options.key.socket == name && other.options.key.role == Role::Server)
        };
        let (kept, gone): (Vec<_>, Vec<_>) = self.listeners.drain(..).partition(|(listening, _)| used(&listening.name));
        self.listeners = kept;
        for (listening, _) in gone {
            self.sessions
                .retain(|_, session| !matches!(&session.part, Part::Greeting(name) if *name == listening.name));
        }
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
    /// time that it returns.
    fn watch_bells(&mut self, now_ns: u64) -> u64 {
        if now_ns >= self.watch_at_ns {
            self.watch_at_ns = now_ns + WATCH_NS;
            let mut jammed = Vec::new();
            for (number, session) in &mut self.sessions {
                for (bell, before) in &mut session.bells {
                    let rings = bell.rings();
                    if rings % 2 == 1 && rings == *before && bell.is_full() {
                        bell.free();
                        jammed.push(*number);
                    }
                    *before = rings;
                }
            }
            jammed.into_iter().for_each(|session| self.turn_away(session, "You jam your eventfd"));
        }
        if self.sessions.values().all(|session| session.bells.is_empty()) { u64::MAX } else { self.watch_at_ns }
    }

    fn list_descriptors(&self, now_ns: u64, sleeping: &mut PollSet, whose: &mut Vec<Who>) {
        sleeping.clear();
        whose.clear();
        if let Some(bell) = BELL.get() {
            sleeping.add(bell.as_fd(), true, false);
            whose.push(Who::Bell);
        }
        for (listening, listener) in &self.listeners {
            if listening.paused_until_ns <= now_ns {
                sleeping.add(listener.socket.as_fd(), true, false);
                whose.push(Who::Listener(listening.name.clone()));
            }
        }
        for (number, session) in &self.sessions {
            sleeping.add(session.channel.as_fd(), true, false);
            whose.push(Who::Session(*number));
        }
    }

    fn accept(&mut self, name: &str) {
        let strangers = |control: &Control| {
            control.sessions.values().filter(|session| matches!(session.part, Part::Greeting(_))).count()
        };
        for _ in 0..TURN {
            let Some((listening, listener)) = self.listeners.iter_mut().find(|(other, _)| other.name == name) else {
                return;
            };
            match listener.socket.accept() {
                Ok(Some(channel)) if channel.peer_uid().is_ok_and(|uid| listener::trusted(uid, true)) => {
                    // One too many is closed without a word.
                    if strangers(self) < STRANGERS_MAX && send(&channel, &handshake::hello(), None).is_ok() {
                        self.add_session(channel, Part::Greeting(name.into()), None);
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(_) => {
                    listening.paused_until_ns = clock::now_ns() + PAUSE_NS;
                    return;
                }
            }
        }
    }

    fn connect(&mut self, key: &Key, now_ns: u64) {
        let allowed = key.socket.starts_with('@') || matches!(listener::check_socket(&key.socket, true), Ok(true));
        let channel = if allowed { Channel::connect(&key.socket).ok() } else { None };
        let trusted = |channel: &Channel| channel.peer_uid().is_ok_and(|uid| listener::trusted(uid, true));
        let session =
            channel.filter(trusted).map(|channel| self.add_session(channel, Part::Listening, Some(key.clone())));
        if let Some(interface) = self.interface(key) {
            interface.session = session;
            interface.retry_at_ns = now_ns + RETRY_NS;
        }
    }

    fn add_session(&mut self, channel: Channel, part: Part, key: Option<Key>) -> u64 {
        self.last_session += 1;
        let deadline_ns = clock::now_ns() + HANDSHAKE_NS;
        self.sessions.insert(self.last_session, Session { channel, part, key, deadline_ns, bells: Vec::new() });
        self.last_session
    }

    /// Takes what a peer said.
    fn pump(&mut self, number: u64) {
        for _ in 0..TURN {
            let Some(mut session) = self.sessions.remove(&number) else { return };
            let answer = match session.channel.receive() {
                Ok(Received::Nothing) => {
                    self.sessions.insert(number, session);
                    return;
                }
                Ok(Received::End) | Err(_) => Ok(Answer::Close),
                Ok(Received::Message { bytes, len, file }) => match Message::decode(&bytes) {
                    _ if len != bytes.len() => Err(Refusal("Invalid message size".into())),
                    None => Err(Refusal("Unknown message type".into())),
                    Some(message) => self.answer(number, &mut session, message, file),
                },
            };
            let goes_on = match answer {
                Ok(Answer::Nothing) => true,
                Ok(Answer::Say(message, file)) => send(&session.channel, &message, file).is_ok(),
                Ok(Answer::Close) => false,
                Err(refusal) => {
                    say_goodbye(&session.channel, &refusal.0);
                    false
                }
            };
            if !goes_on {
                self.release(number, session);
                return;
            }
            self.sessions.insert(number, session);
        }
    }

    /// What a message of this peer leads to.
    fn answer(
        &mut self,
        number: u64,
        session: &mut Session,
        message: Message,
        file: Option<OwnedFd>,
    ) -> Result<Answer, Refusal> {
        match (&mut session.part, message) {
            (_, Message::Disconnect { .. }) => Ok(Answer::Close),
            (Part::Greeting(socket), Message::Init(init)) => {
                let key = Key { socket: std::mem::take(socket), id: init.id, role: Role::Server };
                let claims = self.begin(number, &key, &init)?;
                (session.part, session.key) = (Part::Claiming(claims), Some(key));
                Ok(Answer::Say(Message::Ack, None))
            }
            (Part::Claiming(claims), Message::AddRegion { index, bytes }) => {
                claims.add_region(index, bytes, file)?;
                Ok(Answer::Say(Message::Ack, None))
            }
            (Part::Claiming(claims), Message::AddRing(ring)) => {
                claims.add_ring(ring, file)?;
                Ok(Answer::Say(Message::Ack, None))
            }
            (Part::Claiming(_), Message::Connect { .. }) => {
                let Part::Claiming(claims) = std::mem::replace(&mut session.part, Part::Up) else {
                    return Ok(Answer::Close);
                };
                self.bring_up(number, session, claims.finish()?);
                Ok(Answer::Say(Message::Connected { name: NAME.into() }, None))
            }
            (Part::Listening, Message::Hello(hello)) => {
                let key = session.key.clone();
                let options = key.and_then(|key| self.interface(&key)).map(|interface| interface.options.clone());
                let Some(options) = options else { return Ok(Answer::Close) };
                let mut speech = Speech::answer(&hello, &options)?;
                let first = speech.next();
                session.part = Part::Speaking(speech);
                Ok(first.map_or(Answer::Close, |(message, file)| Answer::Say(message, file)))
            }
            (Part::Speaking(speech), Message::Ack) => match speech.next() {
                Some((message, file)) => Ok(Answer::Say(message, file)),
                None => Err(Refusal("Unexpected ack".into())),
            },
            (Part::Speaking(_), Message::Connected { .. }) => {
                let Part::Speaking(speech) = std::mem::replace(&mut session.part, Part::Up) else {
                    return Ok(Answer::Close);
                };
                self.bring_up(number, session, speech.finish()?);
                Ok(Answer::Nothing)
            }
            _ => Err(Refusal("Unexpected message".into())),
        }
    }

    /// Gives the interface that a client asks for to it.
    fn begin(&mut self, number: u64, key: &Key, init: &crate::message::Init) -> Result<Claims, Refusal> {
        // Whoever had it may be gone without having been looked at yet.
        if let Some(before) = self.interface(key).and_then(|interface| interface.session) {
            self.pump(before);
        }
        let Some(interface) = self.interface(key) else { return Err(Refusal("ID not found".into())) };
        handshake::check_init(init, &interface.options)?;
        if interface.closed {
            return Err(Refusal("Port closed".into()));
        }
        if interface.session.is_some() {
            return Err(Refusal("Already connected".into()));
        }
        interface.session = Some(number);
        Ok(Claims::new(&interface.options))
    }

    fn bring_up(&mut self, number: u64, session: &mut Session, mut pairs: Vec<Pair>) {
        session.deadline_ns = u64::MAX;
        let ends = pairs.iter().filter_map(|pair| pair.transmit.as_ref());
        session.bells = ends.filter_map(|end| end.bell.clone()).map(|bell| (bell, 0)).collect();
        let key = session.key.clone();
        let Some(interface) = key.and_then(|key| self.interface(&key)) else { return };
        pairs.resize_with(usize::from(interface.options.rings).max(pairs.len()), Pair::default);
        interface.spare = pairs;
        for seat in interface.seats.clone() {
            interface.serve(number, &seat);
        }
    }

    /// Ends a session with a word to the peer.
    fn turn_away(&mut self, number: u64, why: &str) {
        if let Some(session) = self.sessions.remove(&number) {
            say_goodbye(&session.channel, why);
            self.release(number, session);
        }
    }

    /// Takes the rings of a session that ended away from its ports.
    fn release(&mut self, number: u64, session: Session) {
        let Some(interface) = session.key.as_ref().and_then(|key| self.interface(key)) else { return };
        if interface.session != Some(number) {
            return;
        }
        interface.session = None;
        interface.retry_at_ns = clock::now_ns() + RETRY_NS;
        interface.spare.clear();
        if matches!(session.part, Part::Up) {
            interface.seats.iter().for_each(|seat| seat.deliver(Delivery::default()));
        }
    }
}

impl Interface {
    /// A port beside others that serve other queues of the interface.
    fn seat_another(&mut self, options: &Options, seat: &Arc<Seat>) -> Result<(), AttachError> {
        let id = options.key.id;
        let overlaps = |other: &Arc<Seat>| other.queues.start < seat.queues.end && seat.queues.start < other.queues.end;
        if self.seats.iter().any(overlaps) {
            return Err(AttachError::Taken(format!("id {id} of this socket is open already in this process")));
        }
        if self.options != *options {
            return Err(AttachError::Taken(format!("other queues of id {id} were opened with other options")));
        }
        self.seats.push(Arc::clone(seat));
        if let (Some(connection), false) = (self.session, self.spare.is_empty()) {
            self.serve(connection, seat);
        }
        Ok(())
    }

    /// Gives a port the rings of its queues.
    fn serve(&mut self, connection: u64, seat: &Seat) {
        let queues = seat.queues.clone();
        let taken = queues.filter_map(|queue| self.spare.get_mut(usize::from(queue)).map(std::mem::take));
        let pairs = taken.collect();
        seat.deliver(Delivery { connection, pairs });
    }
}

fn send(channel: &Channel, message: &Message, file: Option<OwnedFd>) -> io::Result<()> {
    channel.send(&message.encode(), file.as_ref().map(OwnedFd::as_fd))
}

/// The last word. If it cannot be said, the closed socket says enough.
fn say_goodbye(channel: &Channel, why: &str) {
    let _ = send(channel, &Message::Disconnect { code: 0, text: why.into() }, None);
}
