//! Peers: who connects, what they say, how far their handshakes are, and how they go.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use linerate_sys::clock;

use super::{Control, PAUSE_NS, RETRY_NS};
use crate::handoff::Delivery;
use crate::handshake::{self, Claims, NAME, Refusal, Speech};
use crate::link::Pair;
use crate::listener;
use crate::message::{Init, Message};
use crate::options::{Key, Role};
use crate::sys::{Channel, Doorbell, Received};

/// A peer has this long for a handshake.
const HANDSHAKE_NS: u64 = 10_000_000_000;
/// Peers of one process that have not said yet what they want.
const UNIDENTIFIED_MAX: usize = 64;
/// Messages taken from one peer before the others get their turn.
const TURN: usize = 64;

/// A peer's control channel.
pub(super) struct Session {
    pub(super) channel: Channel,
    pub(super) part: Part,
    /// Which interface it belongs to, once that is known.
    key: Option<Key>,
    pub(super) deadline_ns: u64,
    /// Once it is up: what ports ring, as it was at the last look.
    pub(super) bells: Vec<(Arc<Doorbell>, u32)>,
}

/// How far a handshake is.
pub(super) enum Part {
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

impl Control {
    pub(super) fn accept(&mut self, name: &str) {
        let unidentified = |control: &Control| {
            control.sessions.values().filter(|session| matches!(session.part, Part::Greeting(_))).count()
        };
        for _ in 0..TURN {
            let Some((listening, listener)) = self.listeners.iter_mut().find(|(other, _)| *other.name == *name) else {
                return;
            };
            match listener.socket.accept() {
                Ok(Some(channel)) if channel.peer_uid().is_ok_and(|uid| listener::trusted(uid, true)) => {
                    // One too many is closed without a word.
                    if unidentified(self) < UNIDENTIFIED_MAX && send(&channel, &handshake::hello(), None).is_ok() {
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

    /// Tries to reach the server of an interface. A pool that another process still has is not lent to the next.
    pub(super) fn connect(&mut self, key: &Key, now_ns: u64) {
        let Some(interface) = self.interface(key) else { return };
        interface.retry_at_ns = now_ns + RETRY_NS;
        if interface.pool.as_ref().is_some_and(|pool| !pool.can_be_lent()) {
            return;
        }
        let allowed = key.socket.starts_with('@') || matches!(listener::check_socket(&key.socket, true), Ok(true));
        let channel = if allowed { Channel::connect(&key.socket).ok() } else { None };
        let trusted = |channel: &Channel| channel.peer_uid().is_ok_and(|uid| listener::trusted(uid, true));
        let session =
            channel.filter(trusted).map(|channel| self.add_session(channel, Part::Listening, Some(key.clone())));
        if let Some(interface) = self.interface(key) {
            interface.session = session;
        }
    }

    fn add_session(&mut self, channel: Channel, part: Part, key: Option<Key>) -> u64 {
        self.last_session += 1;
        let deadline_ns = clock::now_ns() + HANDSHAKE_NS;
        self.sessions.insert(self.last_session, Session { channel, part, key, deadline_ns, bells: Vec::new() });
        self.last_session
    }

    /// Takes what a peer said.
    pub(super) fn pump(&mut self, number: u64) {
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
                let Some(interface) = key.and_then(|key| self.interface(&key)) else { return Ok(Answer::Close) };
                let mut speech = Speech::answer(&hello, &interface.options, interface.pool.as_ref())?;
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
    fn begin(&mut self, number: u64, key: &Key, init: &Init) -> Result<Claims, Refusal> {
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
        if clock::now_ns() < interface.pause.until_ns() {
            return Err(Refusal("Too soon after a fault".into()));
        }
        interface.session = Some(number);
        Ok(Claims::new(&interface.options))
    }

    fn bring_up(&mut self, number: u64, session: &mut Session, mut pairs: Vec<Pair>) {
        session.deadline_ns = u64::MAX;
        let ends = pairs.iter().filter_map(|pair| pair.transmit.as_ref());
        session.bells = ends.filter_map(|end| end.bell().cloned()).map(|bell| (bell, 0)).collect();
        let key = session.key.clone();
        let Some(interface) = key.and_then(|key| self.interface(&key)) else { return };
        pairs.resize_with(usize::from(interface.options.rings).max(pairs.len()), Pair::default);
        interface.spare = pairs;
        for handoff in interface.handoffs.clone() {
            interface.serve(number, &handoff);
        }
    }

    /// Ends the session of a peer that broke the rules; the next one has to wait.
    pub(super) fn punish(&mut self, number: u64, why: &str) {
        let key = self.sessions.get(&number).and_then(|session| session.key.clone());
        self.turn_away(number, why);
        if let Some(interface) = key.and_then(|key| self.interface(&key)) {
            interface.retry_at_ns = interface.pause.fault(clock::now_ns());
        }
    }

    /// Ends a session with a word to the peer.
    pub(super) fn turn_away(&mut self, number: u64, why: &str) {
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
            interface.handoffs.iter().for_each(|handoff| handoff.deliver(Delivery::default()));
        }
    }
}

fn send(channel: &Channel, message: &Message, file: Option<OwnedFd>) -> io::Result<()> {
    channel.send(&message.encode(), file.as_ref().map(OwnedFd::as_fd))
}

/// The last word. If it cannot be said, the closed socket says enough.
fn say_goodbye(channel: &Channel, why: &str) {
    let _ = send(channel, &Message::Disconnect { code: 0, text: why.into() }, None);
}
