//! One connection to a controller: bytes between its stream and its session, and the requests that come out of it.
//!
//! Nothing is read while the session has no room, while a barrier waits for the workers, or while the workers take no packet-outs, so a
//! controller that floods the switch waits in its own socket.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use linerate_measure::TokenBucket;
use linerate_openflow::{
    ControllerId, Controllers, Delivery, MultipartReply, PacketIn, Reply, Request, RequestBody, Session, SessionConfig,
};
use linerate_pipeline::{FlowDump, Switch};

use crate::answer::{Outcome, answer};
use crate::stream::ByteStream;

/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// Flows that are listed at once: about what a message holds.
const FLOWS_OF_PART: usize = 512;
/// Reads of one turn, after which other connections have theirs.
const READS_MAX: usize = 4;
/// How long a connection that is over may still take what was written to it.
const LINGER_NS: u64 = 1_000_000_000;

/// How long a connection by UDP on which nothing came is kept: less than 5 s (OpenFlow 1.3.5 section 6.3.7).
const HELLO_BY_UDP_NS: u64 = 4_000_000_000;

/// Who began a connection, and which one it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The switch, to the controller with this place in the configuration; 0 is the main connection, others are auxiliary.
    Active {
        /// Place in the configuration.
        controller: usize,
        /// Number of the connection.
        auxiliary: u8,
    },
    /// A controller, at an address of the switch.
    Passive,
}

/// What has happened on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes that were read.
    pub received_bytes: u64,
    /// Bytes that the socket took.
    pub sent_bytes: u64,
    /// Requests that were worked on.
    pub requests: u64,
    /// Requests that were answered by an error.
    pub refused: u64,
    /// Packet-ins that were queued.
    pub packet_ins: u64,
    /// Packet-ins that the limit or a full queue cost.
    pub packet_ins_dropped: u64,
}

/// A connection to a controller.
pub struct Channel {
    stream: Box<dyn ByteStream>,
    session: Session,
    /// Who began it.
    pub origin: Origin,
    /// The address of the controller.
    pub peer: SocketAddr,
    /// When it was made, by the clock that `now_ns` is of.
    pub opened_ns: u64,
    /// What has happened on it.
    pub counts: Counts,
    /// Packet-ins that the controller may get, on its main connection; `None`: as many as there are.
    limit: Option<TokenBucket>,
    /// A barrier, and the version of the switch that all workers must see before it is answered.
    barrier: Option<(Request, u64)>,
    /// A request for a list of flows, and what is left of it.
    dump: Option<(Request, FlowDump)>,
    /// Place in the poll set.
    place: usize,
    /// The stream may have bytes that no descriptor tells of.
    unread: bool,
    /// Nothing more will come.
    ended: bool,
    /// Since when nothing but the rest of the output keeps it open.
    lingers_since_ns: Option<u64>,
    /// Why it is over.
    gone: Option<String>,
}

impl Channel {
    /// Makes a channel of a new connection. An auxiliary one has the controller of its main one.
    pub fn new(
        stream: Box<dyn ByteStream>,
        (origin, peer): (Origin, SocketAddr),
        controller: ControllerId,
        limit: Option<TokenBucket>,
        now_ns: u64,
    ) -> Channel {
        let auxiliary_id = if let Origin::Active { auxiliary, .. } = origin { auxiliary } else { 0 };
        let mut config = SessionConfig { auxiliary_id, ..SessionConfig::default() };
        if stream.is_datagrams() {
            (config.is_unreliable, config.hello_timeout_ns) = (true, HELLO_BY_UDP_NS);
        }
        let session = Session::new(config, controller, now_ns);
        Channel {
            stream,
            session,
            origin,
            peer,
            opened_ns: now_ns,
            counts: Counts::default(),
            limit,
            barrier: None,
            dump: None,
            place: 0,
            unread: true,
            ended: false,
            lingers_since_ns: None,
            gone: None,
        }
    }

    /// The controller, by which its connections are known.
    pub fn controller(&self) -> ControllerId {
        self.session.controller()
    }

    /// True unless it is an auxiliary one.
    pub fn is_main(&self) -> bool {
        !matches!(self.origin, Origin::Active { auxiliary: 1.., .. })
    }

    /// True once both sides have said hello.
    pub fn is_up(&self) -> bool {
        self.session.is_up() && self.gone.is_none()
    }

    /// Why it is over, if it is.
    pub fn gone(&self) -> Option<&str> {
        self.gone.as_deref()
    }

    /// Ends it now.
    pub fn close(&mut self, why: &str) {
        self.gone.get_or_insert_with(|| why.into());
    }

    /// Descriptor to sleep on, and for what: reading, writing. `held_back`: no requests are taken now.
    pub fn interest(&mut self, held_back: bool) -> (BorrowedFd<'_>, bool, bool) {
        let output = !self.session.output().is_empty() && !self.stream.is_handshaking();
        let writes = output || self.stream.wants_write();
        let reads = self.reads() && !held_back;
        (self.stream.descriptor(), reads, writes)
    }

    /// Notes its place in the poll set.
    pub fn placed(&mut self, place: usize) {
        self.place = place;
    }

    /// Its place in the poll set.
    pub fn place(&self) -> usize {
        self.place
    }

    fn reads(&self) -> bool {
        !self.ended && self.barrier.is_none() && self.session.closed().is_none() && self.session.room() > 0
    }

    /// True if it has work to do although no descriptor says so.
    pub fn has_more(&self, switch: &Switch) -> bool {
        let works = self.session.has_work() || self.dump.is_some() && self.session.wants_part();
        let may_work = self.gone.is_none() && self.barrier.is_none() && switch.takes_packet_outs();
        may_work && (works || self.unread && self.reads())
    }

    /// When [`Channel::tick`] has something to do.
    pub fn next_deadline_ns(&self) -> u64 {
        let linger_ns = self.lingers_since_ns.map(|since_ns| since_ns + LINGER_NS);
        let session_ns = self.session.next_deadline_ns();
        linger_ns.unwrap_or(u64::MAX).min(session_ns.unwrap_or(u64::MAX))
    }

    /// Does what is due by the time: echo requests, connections that say nothing.
    pub fn tick(&mut self, now_ns: u64) {
        if self.session.next_deadline_ns().is_some_and(|deadline_ns| deadline_ns <= now_ns) {
            self.session.tick(now_ns);
        }
    }

    /// Reads, works on requests, and writes. `readable`: the descriptor says that there is something to read.
    pub fn turn(&mut self, readable: bool, switch: &mut Switch, controllers: &mut Controllers, now_ns: u64) {
        self.unread |= readable;
        for reads in 0.. {
            self.work(switch, controllers, now_ns);
            self.write();
            if reads == READS_MAX || !self.has_more(switch) {
                break;
            }
            if self.unread && self.reads() {
                self.read(now_ns);
            }
        }
        self.look_for_end(now_ns);
    }

    fn read(&mut self, now_ns: u64) {
        let mut bytes = [0; READ_BYTES];
        let room = self.session.room().min(READ_BYTES);
        match self.stream.read(&mut bytes[..room]) {
            Ok(0) => (self.ended, self.unread) = (true, false),
            Ok(len) => {
                self.counts.received_bytes += len as u64;
                self.session.receive(&bytes[..len], now_ns);
            }
            Err(error) => self.stopped(&error, false),
        }
    }

    fn stopped(&mut self, error: &io::Error, writing: bool) {
        match error.kind() {
            io::ErrorKind::WouldBlock => self.unread &= writing,
            io::ErrorKind::Interrupted => {}
            _ => self.close(&error.to_string()),
        }
    }

    /// Works on requests, as long as they come.
    fn work(&mut self, switch: &mut Switch, controllers: &mut Controllers, now_ns: u64) {
        self.list_flows(switch, now_ns);
        while self.barrier.is_none()
            && switch.takes_packet_outs()
            && let Some(mut request) = self.session.next_request(controllers)
        {
            self.counts.requests += 1;
            let body = std::mem::replace(&mut request.body, RequestBody::Features);
            match answer(switch, body, now_ns) {
                Outcome::Done => {}
                Outcome::Reply(reply) => self.session.reply(&request, reply),
                Outcome::Dump(dump) => {
                    self.dump = Some((request, dump));
                    self.list_flows(switch, now_ns);
                }
                Outcome::Refuse(error) => {
                    self.counts.refused += 1;
                    self.session.refuse(&request, error);
                }
                Outcome::Barrier => {
                    request.body = RequestBody::Barrier;
                    self.barrier = Some((request, switch.version()));
                }
            }
        }
    }

    /// Goes on with a list of flows, as far as the controller has read it.
    fn list_flows(&mut self, switch: &mut Switch, now_ns: u64) {
        while self.session.wants_part()
            && let Some((request, mut dump)) = self.dump.take()
        {
            let part = MultipartReply::Flow(switch.flow_part(&mut dump, FLOWS_OF_PART, now_ns));
            if dump.is_done() {
                self.session.reply(&request, Reply::Multipart(part));
            } else {
                self.session.reply_part(&request, part);
                self.dump = Some((request, dump));
            }
        }
    }

    /// The version that the barrier at hand waits for.
    pub fn waits_for(&self) -> Option<u64> {
        self.barrier.as_ref().map(|(_, version)| *version)
    }

    /// Answers the barrier.
    pub fn pass_barrier(&mut self) {
        if let Some((request, _)) = self.barrier.take() {
            self.session.reply(&request, Reply::Barrier);
        }
    }

    /// Writes what waits, as far as the socket takes it.
    pub fn write(&mut self) {
        loop {
            let bytes = self.session.output();
            if bytes.is_empty() || self.gone.is_some() {
                break;
            }
            match self.stream.write(bytes) {
                Ok(len) => {
                    self.counts.sent_bytes += len as u64;
                    self.session.consume(len);
                }
                Err(error) => {
                    let blocked = error.kind() == io::ErrorKind::WouldBlock;
                    self.stopped(&error, true);
                    if blocked {
                        break;
                    }
                }
            }
        }
        if self.gone.is_none()
            && self.stream.wants_write()
            && let Err(error) = self.stream.flush()
        {
            self.stopped(&error, true);
        }
    }

    /// A connection whose session is over, or to which nothing more comes, ends when its requests are worked on and its output is written.
    fn look_for_end(&mut self, now_ns: u64) {
        let closed = self.session.closed().map(|reason| reason.to_string());
        let over = closed.or_else(|| self.ended.then(|| "the controller closed the connection".into()));
        let Some(why) = over.filter(|_| self.barrier.is_none() && !self.session.has_work()) else { return };
        let since_ns = *self.lingers_since_ns.get_or_insert(now_ns);
        let written = self.session.output().is_empty() && !self.stream.wants_write();
        if written || now_ns.saturating_sub(since_ns) >= LINGER_NS {
            self.close(&why);
        }
    }

    /// True if the limit of this controller, whose main connection it is, allows another packet-in now; a refusal is counted.
    pub fn allows_packet_in(&mut self, now_ns: u64) -> bool {
        let Some(bucket) = &mut self.limit else { return true };
        bucket.fill(now_ns);
        let allows = bucket.take(1);
        self.counts.packet_ins_dropped += u64::from(!allows);
        allows
    }

    /// Notes that a packet-in, which the limit allowed, was not sent after all.
    pub fn return_packet_in(&mut self) {
        if let Some(bucket) = &mut self.limit {
            bucket.give(1);
        }
    }

    /// Sends a packet to the controller, if it wants it; true if it was queued.
    pub fn packet_in(&mut self, controllers: &Controllers, packet: &PacketIn) -> bool {
        let delivery = self.session.packet_in(controllers, packet);
        self.counts.packet_ins += u64::from(delivery == Delivery::Queued);
        self.counts.packet_ins_dropped += u64::from(delivery == Delivery::Dropped);
        delivery == Delivery::Queued
    }

    /// The session, to tell the controller of something else than a packet.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }
}
