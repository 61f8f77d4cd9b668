//! The control thread: clients of the socket, and ports that come and go. It talks to the worker by jobs between two rounds, so
//! whatever happens here - a slow client, a port that takes long to open - delays no packet.
//!
//! ```text
//! client.rs    one connection, bounded          requests.rs   a request -> its answer          show.rs   documents
//! mirrors.rs   mirrors and their ports          table.rs      ageing and size of the MAC table
//! ```

mod client;
mod mirrors;
mod requests;
pub(crate) mod show;
pub(crate) mod table;

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use linerate_mem::Pool;
use linerate_port::FarSide;
use linerate_sys::clock;
use linerate_sys::poll::PollSet;

use crate::bell::Ear;
use crate::config::PortConfig;
use crate::hub::{ENDED, Event, Line};
use crate::keeper::Keeper;
use crate::opening;
use crate::place::Occupied;
use crate::protocol::{Refusal, read_request, reply_line};
use crate::settings::Settings;
use crate::worker::Handle;

use client::{Client, Input};
use mirrors::Mirrors;

/// Most connections at a time. The one that was silent longest makes way for a new one, unless a port lives by it.
const CLIENTS_MAX: usize = 64;
/// Most connections that ports live by.
const LEASES_MAX: usize = 1024;
/// Longest sleep, so that a stop is seen.
const SLEEP_NS: u64 = 200_000_000;

/// What happens is told to people in lines.
pub(crate) type Tell = Box<dyn Fn(&str) + Send>;

pub(crate) struct Server {
    pub listener: UnixListener,
    pub occupied: Occupied,
    pub handle: Handle,
    pub events: Receiver<Event>,
    pub ear: Ear,
    pub pool: Pool,
    pub core_pinned: Option<usize>,
    pub started_ns: u64,
    /// The switch ends when there was no port and no client for so long.
    pub until_unused_ns: Option<u64>,
    pub stop: Arc<AtomicBool>,
    pub tell: Tell,
    pub state: State,
}

/// What changes while it runs.
#[derive(Default)]
pub(crate) struct State {
    clients: Vec<Client>,
    keeper: Keeper,
    mirrors: Mirrors,
    /// Ports whose connection ended, or that somebody wanted removed, until the worker lets go of them.
    leaving: Vec<String>,
    used_ns: u64,
    port_lost: bool,
}

/// What is left of the control thread. Dropping it removes the sockets.
pub(crate) struct Closed {
    /// A port broke and was removed, or is still out.
    pub port_lost: bool,
    _occupied: Occupied,
}

impl Server {
    /// Serves until the switch is to end. What then still comes from the worker is dropped with `self`.
    pub(crate) fn run(mut self) -> Closed {
        let mut set = PollSet::default();
        self.state.used_ns = clock::now_ns();
        while !self.stop.load(Ordering::Relaxed) {
            self.sleep(&mut set);
            self.ear.hush();
            while let Ok(event) = self.events.try_recv() {
                self.hear(event);
            }
            self.serve(&set);
            self.accept();
            self.bring_back();
            self.end_if_unused();
        }
        Closed { port_lost: self.state.port_lost || !self.state.keeper.waiting.is_empty(), _occupied: self.occupied }
    }

    fn sleep(&mut self, set: &mut PollSet) {
        set.clear();
        set.add(self.ear.as_fd(), true, false);
        set.add(self.listener.as_fd(), true, false);
        for client in &self.state.clients {
            set.add(client.descriptor(), client.wants_to_read(), client.wants_to_write());
        }
        let now_ns = clock::now_ns();
        let due_ns = self.state.keeper.next_ns().map_or(SLEEP_NS, |next_ns| next_ns.saturating_sub(now_ns));
        let ready = self.state.clients.iter().any(Client::has_line);
        let timeout_ns = if ready { 0 } else { due_ns.min(SLEEP_NS) };
        if set.wait(timeout_ns).is_err() {
            clock::sleep_until_ns(now_ns + 10_000_000);
        }
    }

    fn accept(&mut self) {
        // A few at a time, so that a flood of connections does not keep others from their turn.
        for _ in 0..16 {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return self.make_room(),
            };
            let clients = &self.state.clients;
            if clients.iter().filter(|client| client.leases.is_empty()).count() >= CLIENTS_MAX {
                self.make_room();
            }
            if self.state.clients.len() < CLIENTS_MAX + LEASES_MAX
                && let Ok(client) = Client::new(stream, clock::now_ns())
            {
                self.state.clients.push(client);
            }
        }
    }

    /// Closes the connection that was silent longest (also where this process has no descriptors left).
    fn make_room(&mut self) {
        let clients = &self.state.clients;
        let silent = clients.iter().enumerate().filter(|(_, client)| client.leases.is_empty());
        if let Some((place, _)) = silent.min_by_key(|(_, client)| client.active_ns) {
            self.state.clients.remove(place);
        }
    }

    /// One request of each client that has one. They are in the places after the bell and the listener.
    fn serve(&mut self, set: &PollSet) {
        let mut clients = std::mem::take(&mut self.state.clients);
        for (place, client) in clients.iter_mut().enumerate() {
            let found = set.result(place + 2);
            if found.writable || found.failed {
                client.write();
            }
            if client.has_line() || client.wants_to_read() && (found.readable || found.failed) {
                self.serve_one(client);
            }
        }
        for over in clients.extract_if(.., |client| client.is_over()) {
            for port in over.leases {
                self.leave(&port);
            }
        }
        self.state.clients = clients;
    }

    fn serve_one(&mut self, client: &mut Client) {
        match client.read() {
            Input::Nothing => {}
            Input::TooLong => {
                let refusal = Refusal::new("the line is too long", "a request has at most 65536 bytes, with its end");
                client.reply(reply_line(None, Err(refusal)));
                client.close();
            }
            Input::Line(line) => {
                client.active_ns = clock::now_ns();
                let envelope = read_request(&line);
                let reply = envelope.request.and_then(|request| self.answer(client, request));
                client.reply(reply_line(envelope.id, reply));
            }
        }
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::PeerLost { port, error } => {
                (self.tell)(&format!("port {port}: {error}; it waits for the next peer"))
            }
            Event::Left(line) => {
                self.state.leaving.retain(|name| name != line.name());
                self.close(*line);
            }
            Event::Down { port, error } => (self.tell)(&format!("port {port}: {error}; it stays and waits for that")),
            Event::Back { port } => (self.tell)(&format!("port {port}: works again")),
            Event::Broken { line, error } => {
                // The next peer may be sound.
                let listens = line.port.caps().far_side == FarSide::Peer;
                let again = listens && !self.state.leaving.iter().any(|name| name == line.name());
                self.state.port_lost |= !again && !error.ends_with(ENDED);
                let what = if again { "opened again as soon as that works" } else { "removed" };
                (self.tell)(&format!("port {}: {error}; {what}", line.name()));
                self.state.leaving.retain(|name| name != line.name());
                let (config, memif) = (line.config.clone(), line.memif);
                self.close(*line);
                if again {
                    self.state.keeper.add(config, error, memif, clock::now_ns());
                }
            }
        }
    }

    /// Closes a port that the worker let go of; what it drops now is added to the account of those that are gone.
    fn close(&mut self, line: Line) {
        self.state.mirrors.forget_port(line.name());
        drop(line);
    }

    /// Opens again what is due.
    fn bring_back(&mut self) {
        let now_ns = clock::now_ns();
        while let Some(waiting) = self.state.keeper.due(now_ns) {
            match self.open_port(waiting.config.clone(), waiting.memif) {
                Ok(_) => (self.tell)(&format!("port {}: up again", waiting.config.name())),
                Err(refusal) => self.state.keeper.failed(waiting, refusal.to_string(), clock::now_ns()),
            }
        }
    }

    /// Opens a port and joins it to the switch.
    fn open_port(&mut self, config: PortConfig, memif: Option<u32>) -> Result<(), Refusal> {
        let settings = Settings::new(&config.settings)?;
        let opened = opening::open(&config.spec, &self.pool)?;
        if let Some(choice) = &opened.choice {
            (self.tell)(&format!("port {}: {choice}", config.name()));
        }
        let port = opened.into_port();
        let joined = self.handle.call(move |hub| hub.attach(config, settings, port, memif))?;
        joined.map(drop).map_err(|error| Refusal::new(error, ""))
    }

    /// Lets a port go, in order.
    fn leave(&mut self, name: &str) {
        if self.state.keeper.forget(name) {
            return;
        }
        let owned = name.to_owned();
        if self.handle.call(move |hub| hub.leave(&owned)) == Ok(true) {
            self.state.leaving.push(name.into());
        }
    }

    fn end_if_unused(&mut self) {
        let Some(until_unused_ns) = self.until_unused_ns else { return };
        let state = &self.state;
        let empty = state.clients.is_empty() && state.keeper.waiting.is_empty() && state.leaving.is_empty();
        let now_ns = clock::now_ns();
        if !empty || self.handle.call(|hub| !hub.lines.is_empty()).unwrap_or(false) {
            self.state.used_ns = now_ns;
        } else if now_ns.saturating_sub(self.state.used_ns) >= until_unused_ns {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}
