//! The control thread: clients of the socket, ports that come and go, and what the service does beside. It reaches the worker by jobs
//! between two rounds, so a slow client, or a port that takes long to open, delays no packet.

mod client;

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::mpsc::Receiver;

use linerate_sys::clock;
use linerate_sys::poll::PollSet;
use linerate_worker::Wakeup;
use serde_json::{Value, json};

use crate::port_config::PortConfig;
use crate::ports::{LEASES_MAX, PortChange, PortEvent, PortManager};
use crate::protocol::{Answer, Command, ControlError, answer_line, read_request, reply_line};
use crate::runtime_dir::InstanceLock;
use crate::service::Service;
use crate::stop::Stop;

use client::{Client, Input};

/// Most connections at a time. The one that was silent longest makes way for a new one, unless a port lives by it.
const CLIENTS_MAX: usize = 64;
/// Longest sleep. Whoever wants something wakes it.
const SLEEP_NS: u64 = 1_000_000_000;

pub(crate) struct Server<S: Service> {
    pub service: S,
    pub ports: PortManager<S>,
    pub listener: UnixListener,
    pub lock: InstanceLock,
    pub events: Receiver<PortEvent>,
    pub wakeup: Wakeup,
    /// The instance ends when there was no port and no client for so long.
    pub idle_exit_ns: Option<u64>,
    pub stop: Stop,
    pub clients: Vec<Client>,
    pub used_ns: u64,
}

/// The end of the control thread. Dropping it removes the sockets.
pub(crate) struct Closed<S> {
    /// A port broke and was removed, or is still out.
    pub port_lost: bool,
    pub service: S,
    pub lock: InstanceLock,
}

impl<S: Service> Server<S> {
    /// Serves until the instance is to end. Events of the worker that come later are dropped with `self`.
    pub(crate) fn run(mut self) -> Closed<S> {
        let mut set = PollSet::default();
        while !self.stop.stopping() {
            self.sleep(&mut set);
            self.wakeup.clear();
            while let Ok(mut event) = self.events.try_recv() {
                if let PortEvent::Lost { taken, .. } = &mut event {
                    self.service.queue_left(taken.as_mut());
                }
                match self.ports.hear(event) {
                    Some(PortChange::Removed(name)) => self.service.port_removed(&mut self.ports, &name),
                    Some(PortChange::Link(name, link)) => self.service.link_changed(&mut self.ports, &name, link),
                    None => {}
                }
            }
            self.serve(&set);
            self.accept();
            self.ports.reopen(&mut self.service);
            self.service.turn(&mut self.ports, &set);
            self.end_if_unused();
        }
        let port_lost = self.ports.port_lost || !self.ports.reopener.waiting.is_empty();
        Closed { port_lost, service: self.service, lock: self.lock }
    }

    fn sleep(&mut self, set: &mut PollSet) {
        set.clear();
        set.add(self.wakeup.as_fd(), true, false);
        set.add(self.listener.as_fd(), true, false);
        for client in &self.clients {
            set.add(client.descriptor(), client.wants_to_read(), client.wants_to_write());
        }
        self.service.arm(set);
        let now_ns = clock::now_ns();
        let next_ns = self.ports.reopener.next_ns().unwrap_or(u64::MAX).min(self.service.next_deadline_ns());
        let next_ns =
            next_ns.min(self.idle_exit_ns.map_or(u64::MAX, |idle_exit_ns| self.used_ns.saturating_add(idle_exit_ns)));
        let due_ns = next_ns.saturating_sub(now_ns);
        let ready = self.clients.iter().any(Client::has_line);
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
            let clients = &self.clients;
            if clients.iter().filter(|client| client.leases.is_empty()).count() >= CLIENTS_MAX {
                self.make_room();
            }
            if self.clients.len() < CLIENTS_MAX + LEASES_MAX
                && let Ok(client) = Client::new(stream, clock::now_ns())
            {
                self.clients.push(client);
            }
        }
    }

    /// Closes the connection that was silent longest (also where this process has no descriptors left).
    fn make_room(&mut self) {
        let clients = &self.clients;
        let silent = clients.iter().enumerate().filter(|(_, client)| client.leases.is_empty());
        if let Some((place, _)) = silent.min_by_key(|(_, client)| client.active_ns) {
            self.clients.remove(place);
        }
    }

    /// One request of each client that has one. They are in the places after the wakeup and the listener.
    fn serve(&mut self, set: &PollSet) {
        let mut clients = std::mem::take(&mut self.clients);
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
                self.ports.leave(&port);
            }
        }
        self.clients = clients;
    }

    fn serve_one(&mut self, client: &mut Client) {
        match client.read() {
            Input::Nothing => {}
            Input::TooLong => {
                let error =
                    ControlError::new("the line is too long", "a request has at most 65536 bytes, with its end");
                client.reply(reply_line(None, Err(error)));
                client.close();
            }
            Input::Line(line) => {
                client.active_ns = clock::now_ns();
                let envelope = read_request(&line);
                let reply = envelope.request.and_then(|request| self.answer(client, request));
                client.reply(answer_line(envelope.id, reply));
            }
        }
    }

    fn answer(&mut self, client: &mut Client, request: Value) -> Result<Answer, ControlError> {
        let command = match Command::read(&request) {
            Some(command) => command?,
            None => return self.service.answer(&mut self.ports, request),
        };
        match command {
            Command::AddPort { name, spec, settings } => {
                let name = self.ports.add_port(&mut self.service, PortConfig { name, spec, settings })?;
                return Ok(json!({ "port": name }).into());
            }
            Command::RemovePort { port } => {
                if self.ports.remove_port(&port)? {
                    self.service.port_removed(&mut self.ports, &port);
                }
            }
            Command::Set { port: Some(port), settings } => {
                if let Some((config, caps)) = self.ports.set_port(&port, settings)? {
                    self.service.port_changed(&config, &caps)?;
                }
            }
            Command::Set { port: None, settings } => self.service.set(&mut self.ports, &settings)?,
            Command::Attach { port } => {
                let (name, reply) = self.ports.lease(&mut self.service, port)?;
                client.leases.push(name);
                return Ok(reply.into());
            }
            Command::Stop {} => {
                self.service.stopping(&mut self.ports);
                self.stop.stop();
            }
        }
        Ok(json!({}).into())
    }

    fn end_if_unused(&mut self) {
        let Some(idle_exit_ns) = self.idle_exit_ns else { return };
        let now_ns = clock::now_ns();
        if !self.clients.is_empty() || !self.ports.is_unused() {
            self.used_ns = now_ns;
        } else if now_ns.saturating_sub(self.used_ns) >= idle_exit_ns {
            self.stop.stop();
        }
    }
}
