//! Connections to controllers, on the control thread: those that the switch makes, those that come to it, their requests, and what they
//! are told.
//!
//! ```text
//! Connector (a thread an attempt) --> Channel { ByteStream <-> Session } --> answer --> Switch
//! Listener ------------------------->                                <-- events <-- Switch
//! ```
//!
//! A channel and what messages pass of it are in `linerate-ofswitch-loop`.

mod connector;
mod datagrams;
mod listener;
mod socket;

use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;

use linerate_measure::{Rate, TokenBucket};
use linerate_ofswitch_loop::connection::{Channel, Origin};
use linerate_openflow::{ControllerId, ControllerRole, Controllers, PacketIn, PacketInReason};
use linerate_pipeline::{Event, Switch};
use linerate_sys::poll::PollSet;
use linerate_worker::{Notifier, Wakeup};

use crate::document::ControllerDocument;
use crate::target::{ListenAddress, Target};
use crate::tls::TlsConfigs;
use connector::Connector;
use listener::Listener;
use socket::{Side, Socket, stream};

/// Most connections that controllers make to the switch. One that has not said hello makes way for a new one.
const PASSIVE_MAX: usize = 64;
/// Connections taken in one turn.
const ACCEPTS_MAX: usize = 16;
/// Packets for controllers taken from the workers in one turn.
const PACKET_INS_MAX: usize = 256;
/// How long a barrier waits before the workers are asked again.
const BARRIER_NS: u64 = 50_000;
/// How long packet-outs wait before the workers are asked again.
const PACKET_OUTS_NS: u64 = 100_000;

/// What connections are made of.
pub(crate) struct Setup {
    pub controllers: Vec<Target>,
    pub listen: Vec<ListenAddress>,
    pub tls: Option<TlsConfigs>,
    pub packet_in_rate: Option<u64>,
    /// The control thread is woken by it.
    pub notifier: Notifier,
    pub wakeup: Wakeup,
}

/// A controller of the configuration.
struct Known {
    target: Target,
    /// The main connection, then the auxiliary ones.
    connectors: Vec<Connector>,
    /// Its ID while the main connection is there.
    id: Option<ControllerId>,
    /// What was said last about its main connection.
    said: String,
}

/// All connections to controllers.
pub(crate) struct Channels {
    setup: Setup,
    known: Vec<Known>,
    listeners: Vec<Listener>,
    channels: Vec<Channel>,
    controllers: Controllers,
    /// Place of the first listener in the poll set.
    place: usize,
    /// Chooses among auxiliary connections.
    next_auxiliary: usize,
    on_event: Box<dyn Fn(&str) + Send>,
}

impl Channels {
    /// Begins to listen; connects from the first turn on.
    ///
    /// # Errors
    /// An address cannot be listened at; the error says which.
    pub(crate) fn open(setup: Setup, on_event: Box<dyn Fn(&str) + Send>) -> Result<Channels, String> {
        let open = |address: &ListenAddress| {
            Listener::open(*address)
                .map_err(|error| format!("cannot listen at {address}: {error}; choose another port"))
        };
        let listeners = setup.listen.iter().map(open).collect::<Result<_, _>>()?;
        let known = setup.controllers.iter().map(|target| Known {
            target: target.clone(),
            connectors: (0..=target.auxiliary + target.auxiliary_udp)
                .map(|number| Connector::new(target.clone(), number > target.auxiliary))
                .collect(),
            id: None,
            said: String::new(),
        });
        Ok(Channels {
            known: known.collect(),
            listeners,
            channels: Vec::new(),
            controllers: Controllers::new(),
            place: 0,
            next_auxiliary: 0,
            on_event,
            setup,
        })
    }

    /// Addresses at which it listens, with the ports that it got.
    pub(crate) fn listening(&self) -> impl Iterator<Item = ListenAddress> {
        self.listeners.iter().map(|listener| listener.address)
    }

    /// True if a controller of the configuration is connected.
    pub(crate) fn has_controller(&self) -> bool {
        let main = |channel: &&Channel| matches!(channel.origin, Origin::Active { auxiliary: 0, .. });
        self.channels.iter().filter(main).any(Channel::is_up)
    }

    /// True if a controller wants packets whose TTL is invalid.
    pub(crate) fn wants_invalid_ttl(&self) -> bool {
        let ups = self.channels.iter().filter(|channel| channel.is_up());
        ups.map(Channel::controller).any(|id| {
            let slave = self.controllers.role(id) == ControllerRole::Slave;
            let masks = self.controllers.async_config(id).packet_in;
            masks[usize::from(slave)] & 1 << PacketInReason::InvalidTtl as u32 != 0
        })
    }

    /// Adds all descriptors to the set.
    pub(crate) fn arm(&mut self, set: &mut PollSet, switch: &Switch) {
        let held_back = !switch.takes_packet_outs();
        set.add(self.setup.wakeup.as_fd(), true, false);
        self.place = set.len();
        for listener in &self.listeners {
            set.add(listener.descriptor(), true, false);
        }
        for channel in &mut self.channels {
            let (descriptor, reads, writes) = channel.interest(held_back);
            let place = set.add(descriptor, reads, writes);
            channel.placed(place);
        }
    }

    /// When [`Channels::turn`] has something to do although no descriptor says so.
    pub(crate) fn next_deadline_ns(&self, switch: &Switch, now_ns: u64) -> u64 {
        // Workers wake this thread only for the first packet of a queue.
        if switch.has_packet_ins() || self.channels.iter().any(|channel| channel.has_more(switch)) {
            return 0;
        }
        let waits = |wait_ns: u64, waits: bool| if waits { now_ns + wait_ns } else { u64::MAX };
        let barrier_ns = waits(BARRIER_NS, self.channels.iter().any(|channel| channel.waits_for().is_some()));
        let packet_outs_ns = waits(PACKET_OUTS_NS, !self.channels.is_empty() && !switch.takes_packet_outs());
        let channels = self.channels.iter().map(Channel::next_deadline_ns);
        let connectors = self.known.iter().enumerate().flat_map(|(place, known)| {
            let wanted = known.connectors.iter().enumerate().filter(move |(number, _)| self.wants(place, *number));
            wanted.map(|(_, connector)| connector.next_deadline_ns())
        });
        channels.chain(connectors).min().unwrap_or(u64::MAX).min(barrier_ns).min(packet_outs_ns)
    }

    /// Does all that can be done without waiting.
    pub(crate) fn turn(&mut self, set: &PollSet, switch: &mut Switch, now_ns: u64) {
        self.setup.wakeup.clear();
        for channel in &mut self.channels {
            let polled = set.result(channel.place());
            channel.tick(now_ns);
            channel.turn(polled.readable || polled.failed, switch, &mut self.controllers, now_ns);
        }
        self.accept(set, now_ns);
        self.connect(now_ns);
        self.tell(switch, now_ns);
        self.pass_barriers(switch, now_ns);
        self.sweep(now_ns);
        self.say();
    }

    /// Says which controllers of the configuration came and went, each change once.
    fn say(&mut self) {
        for (place, known) in self.known.iter_mut().enumerate() {
            let main = Origin::Active { controller: place, auxiliary: 0 };
            let now = match self.channels.iter().find(|channel| channel.origin == main) {
                Some(channel) if channel.is_up() => "connected".to_owned(),
                // It has yet to say hello.
                Some(_) => continue,
                None if known.connectors[0].why == connector::NOT_YET => continue,
                None => format!("{}; tried again", known.connectors[0].why),
            };
            if known.said != now {
                (self.on_event)(&format!("controller {}: {now}", known.target));
                known.said = now;
            }
        }
    }

    /// Tells the controllers what happened, and answers barriers of which all workers know; what was removed before is told before.
    fn pass_barriers(&mut self, switch: &mut Switch, now_ns: u64) {
        for place in 0..self.channels.len() {
            let Some(version) = self.channels[place].waits_for() else { continue };
            if !switch.quiesced(version) {
                continue;
            }
            self.tell(switch, now_ns);
            self.channels[place].pass_barrier();
            self.channels[place].turn(false, switch, &mut self.controllers, now_ns);
        }
    }

    /// Tells the controllers what the switch has for them.
    fn tell(&mut self, switch: &mut Switch, now_ns: u64) {
        let events = switch.drain_events(PACKET_INS_MAX, now_ns);
        if events.is_empty() {
            return;
        }
        for event in events {
            match event {
                Event::PacketIn(packet) => self.tell_packet(&packet, now_ns),
                Event::FlowRemoved(removed) => {
                    for channel in self.channels.iter_mut().filter(|channel| channel.is_up()) {
                        channel.session().flow_removed(&self.controllers, &removed);
                    }
                }
                Event::PortStatus(status) => {
                    for channel in self.channels.iter_mut().filter(|channel| channel.is_up()) {
                        channel.session().port_status(&self.controllers, &status);
                    }
                }
            }
        }
        self.channels.iter_mut().for_each(Channel::write);
    }

    /// A packet goes to each controller once: by one of its auxiliary connections, in turn, if it has some.
    fn tell_packet(&mut self, packet: &PacketIn, now_ns: u64) {
        for main in 0..self.channels.len() {
            if !self.channels[main].is_main()
                || !self.channels[main].is_up()
                || !self.channels[main].allows_packet_in(now_ns)
            {
                continue;
            }
            let id = self.channels[main].controller();
            let auxiliary = |channel: &Channel| !channel.is_main() && channel.is_up() && channel.controller() == id;
            let count = self.channels.iter().filter(|channel| auxiliary(channel)).count();
            let mut place = main;
            if count > 0 {
                self.next_auxiliary = self.next_auxiliary.wrapping_add(1);
                let mut places = (0..self.channels.len()).filter(|place| auxiliary(&self.channels[*place]));
                place = places.nth(self.next_auxiliary % count).unwrap_or(main);
            }
            if !self.channels[place].packet_in(&self.controllers, packet) {
                self.channels[main].return_packet_in();
            }
        }
    }

    fn accept(&mut self, set: &PollSet, now_ns: u64) {
        for number in 0..self.listeners.len() {
            if !set.result(self.place + number).readable {
                continue;
            }
            for _ in 0..ACCEPTS_MAX {
                match self.listeners[number].accept() {
                    Ok(Some((socket, peer))) => self.welcome(socket, peer, self.listeners[number].address.tls, now_ns),
                    Ok(None) => break,
                    Err(_) => {
                        self.make_room();
                        break;
                    }
                }
            }
        }
    }

    fn welcome(&mut self, socket: TcpStream, peer: SocketAddr, tls: bool, now_ns: u64) {
        let passive = self.channels.iter().filter(|channel| channel.origin == Origin::Passive);
        if passive.count() >= PASSIVE_MAX && !self.make_room() {
            return;
        }
        let tls = self.setup.tls.as_ref().filter(|_| tls);
        let Ok(stream) = stream(Socket::Tcp(socket), peer, Side::Passive, tls) else { return };
        let (id, limit) = (self.controllers.join(), self.limit());
        self.channels.push(Channel::new(stream, (Origin::Passive, peer), id, limit, now_ns));
    }

    /// The limit of packet-ins of a new connection.
    fn limit(&self) -> Option<TokenBucket> {
        self.setup.packet_in_rate.map(|packets| TokenBucket::new(Rate::per_second(packets)))
    }

    /// Closes the oldest connection that has not said hello; false if there is none.
    fn make_room(&mut self) -> bool {
        let silent = |channel: &Channel| channel.origin == Origin::Passive && !channel.is_up();
        let places = (0..self.channels.len()).filter(|place| silent(&self.channels[*place]));
        let Some(oldest) = places.min_by_key(|place| self.channels[*place].opened_ns) else { return false };
        let gone = self.channels.swap_remove(oldest);
        self.controllers.leave(gone.controller());
        true
    }

    /// True if a connection of a controller is to be made: the main one if there is none, an auxiliary one beside a main one that is up.
    fn wants(&self, place: usize, auxiliary: usize) -> bool {
        let is = |channel: &&Channel, number: usize| {
            channel.origin == Origin::Active { controller: place, auxiliary: number as u8 }
        };
        let there = self.channels.iter().any(|channel| is(&channel, auxiliary));
        let main_up = self.channels.iter().filter(|channel| is(channel, 0)).any(Channel::is_up);
        !there && (auxiliary == 0 || main_up)
    }

    fn connect(&mut self, now_ns: u64) {
        for place in 0..self.known.len() {
            for number in 0..self.known[place].connectors.len() {
                if !self.wants(place, number) {
                    continue;
                }
                let connected = self.known[place].connectors[number].turn(&self.setup.notifier, now_ns);
                if let Some((socket, peer)) = connected {
                    self.connected(place, number, (socket, peer), now_ns);
                }
            }
        }
    }

    fn connected(&mut self, place: usize, number: usize, (socket, peer): (Socket, SocketAddr), now_ns: u64) {
        let known = &mut self.known[place];
        let tls = self.setup.tls.as_ref().filter(|_| known.target.tls);
        let stream = match stream(socket, peer, Side::Active, tls) {
            Ok(stream) => stream,
            Err(error) => return known.connectors[number].failed(error.to_string(), now_ns),
        };
        let id = match known.id.filter(|_| number > 0) {
            Some(id) => id,
            None => self.controllers.join(),
        };
        if number == 0 {
            known.id = Some(id);
        }
        let origin = Origin::Active { controller: place, auxiliary: number as u8 };
        let limit = self.limit();
        self.channels.push(Channel::new(stream, (origin, peer), id, limit, now_ns));
    }

    /// Removes connections that are over; auxiliary ones end with their main one.
    fn sweep(&mut self, now_ns: u64) {
        let gone: Vec<ControllerId> = self
            .channels
            .iter()
            .filter(|channel| channel.is_main() && channel.gone().is_some())
            .map(Channel::controller)
            .collect();
        for channel in self.channels.iter_mut().filter(|channel| gone.contains(&channel.controller())) {
            channel.close("the main connection ended");
        }
        for id in gone {
            self.controllers.leave(id);
        }
        let over: Vec<Channel> = self.channels.extract_if(.., |channel| channel.gone().is_some()).collect();
        for channel in over {
            let Origin::Active { controller, auxiliary } = channel.origin else { continue };
            let why = channel.gone().unwrap_or_default().to_owned();
            let known = &mut self.known[controller];
            let connector = &mut known.connectors[usize::from(auxiliary)];
            if channel.counts.requests > 0 {
                connector.succeeded();
            }
            if auxiliary == 0 {
                known.id = None;
            }
            connector.failed(why, now_ns);
        }
    }

    /// Connections, and controllers of the configuration that have none.
    pub(crate) fn documents(&self, now_ns: u64) -> Vec<ControllerDocument> {
        let mut documents: Vec<ControllerDocument> =
            self.channels.iter().map(|channel| self.document(channel, now_ns)).collect();
        for (place, known) in self.known.iter().enumerate() {
            let main = Origin::Active { controller: place, auxiliary: 0 };
            if !self.channels.iter().any(|channel| channel.origin == main) {
                let (target, why) = (known.target.to_string(), Some(known.connectors[0].why.clone()));
                documents.push(ControllerDocument {
                    target,
                    side: "active".into(),
                    why,
                    ..ControllerDocument::default()
                });
            }
        }
        documents
    }

    /// Why a connection is not up: it has just begun, and perhaps the one before failed.
    fn why(&self, channel: &Channel) -> String {
        let Origin::Active { controller, auxiliary } = channel.origin else { return "no hello yet".into() };
        match self.known[controller].connectors[usize::from(auxiliary)].why.as_str() {
            connector::NOT_YET => "no hello yet".into(),
            before => format!("no hello yet; the connection before: {before}"),
        }
    }

    fn document(&self, channel: &Channel, now_ns: u64) -> ControllerDocument {
        let (target, side, auxiliary) = match channel.origin {
            Origin::Active { controller, auxiliary } => {
                (self.known[controller].target.to_string(), "active", auxiliary)
            }
            Origin::Passive => (channel.peer.to_string(), "passive", 0),
        };
        let role = match self.controllers.role(channel.controller()) {
            ControllerRole::Master => "master",
            ControllerRole::Slave => "slave",
            ControllerRole::Equal | ControllerRole::NoChange => "equal",
        };
        let counts = channel.counts;
        ControllerDocument {
            target,
            side: side.into(),
            auxiliary,
            connected: channel.is_up(),
            why: (!channel.is_up()).then(|| self.why(channel)),
            role: role.into(),
            seconds: now_ns.saturating_sub(channel.opened_ns) as f64 / 1e9,
            received_bytes: counts.received_bytes,
            sent_bytes: counts.sent_bytes,
            requests: counts.requests,
            refused: counts.refused,
            packet_ins: counts.packet_ins,
            packet_ins_dropped: counts.packet_ins_dropped,
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_mem::{Batch, Pool};
    use linerate_openflow::{FlowCommand, PortNumber};
    use linerate_openflow_text::parse_flow;
    use linerate_pipeline::{BindingKind, PortSettings, SwitchOptions};
    use linerate_port::{Caps, Context, Datapath, PortIndex};

    use super::*;
    use crate::settings::port_settings;

    /// Packets for controllers that one turn left behind are due at once, though no worker tells of them.
    #[test]
    fn packets_that_wait_for_controllers_are_taken_without_a_pause() {
        let mut pool = Pool::new(Default::default()).unwrap();
        let mut switch = Switch::new(SwitchOptions::default(), 0);
        let mut forwarder = switch.forwarder(&pool, Box::new(|| ()), Box::new(|| ())).unwrap();
        let settings = port_settings(PortNumber(1), &Default::default(), &Caps::default(), Vec::new()).unwrap();
        switch.add_port(PortSettings { name: "p".into(), ..settings }, true, 0).unwrap();
        assert!(forwarder.bind(PortIndex(0), PortNumber(1), BindingKind::Port));
        let all = parse_flow("actions=controller", FlowCommand::Add).unwrap();
        switch.flow_mod(all, 0).unwrap();
        let (notifier, wakeup) = linerate_worker::notifier().unwrap();
        let (controllers, listen) = (Vec::new(), Vec::new());
        let setup = Setup { controllers, listen, tls: None, packet_in_rate: None, notifier, wakeup };
        let mut channels = Channels::open(setup, Box::new(|_| ())).unwrap();
        let mut set = PollSet::default();
        channels.arm(&mut set, &switch);
        set.wait(0).unwrap();
        channels.turn(&set, &mut switch, 0);
        assert_eq!(channels.next_deadline_ns(&switch, 0), u64::MAX);
        for packets in [PACKET_INS_MAX, 1] {
            let mut batch = Batch::new(&pool, packets);
            pool.alloc(&mut batch, packets, 60);
            let context = &mut Context { now_ns: 0, pool: &mut pool, ports: &mut () };
            forwarder.input(PortIndex(0), &mut batch, context);
        }
        channels.turn(&set, &mut switch, 0);
        assert_eq!(channels.next_deadline_ns(&switch, 0), 0);
        channels.turn(&set, &mut switch, 0);
        assert_eq!(channels.next_deadline_ns(&switch, 0), u64::MAX);
    }
}
