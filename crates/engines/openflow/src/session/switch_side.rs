//! The session itself.

use super::assembly::{Assembled, Assemblies};
use super::controllers::{ControllerId, Controllers};
use super::keepalive::{Due, KeepAlive};
use super::output::Output;
use super::request::{Reply, Request, RequestBody, head_of};
use crate::codec::{Event, Framer, HEADER_BYTES, Header, Message, VERSION, decode, decode_request, split_head};
use crate::{
    ControllerRole, ErrorKind, FlowRemoved, Hello, MultipartReply, MultipartRequest, OfError, PacketIn, PortStatus,
    TableFeatures,
};

/// Settings of a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionConfig {
    /// Number of an auxiliary connection; 0 for a main one (section 6.3.7). Auxiliary connections get packet-ins only.
    pub auxiliary_id: u8,
    /// Messages may be lost and overtake each other, as by UDP: a hello may be missing, and only messages that stand for themselves are taken
    /// (section 6.3.7).
    pub is_unreliable: bool,
    /// A peer that was silent for so long gets an echo request, and after as long again is given up. 0: never.
    pub echo_interval_ns: u64,
    /// A peer that has not said hello after so long is given up. 0: never.
    pub hello_timeout_ns: u64,
    /// Packet-ins are dropped while so many bytes wait for the controller.
    pub packet_in_limit_bytes: usize,
    /// Flow-removed and port-status messages are dropped while so many bytes wait for the controller.
    pub event_limit_bytes: usize,
}

impl Default for SessionConfig {
    fn default() -> SessionConfig {
        SessionConfig {
            auxiliary_id: 0,
            is_unreliable: false,
            echo_interval_ns: 5_000_000_000,
            hello_timeout_ns: 10_000_000_000,
            packet_in_limit_bytes: 1024 * 1024,
            event_limit_bytes: 32 * 1024 * 1024,
        }
    }
}

/// Why a session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The peer does not speak OpenFlow 1.3.
    #[error("the controller speaks no version that this switch speaks (OpenFlow 1.3)")]
    Version,
    /// The first message was no hello.
    #[error("the controller's first message was no hello")]
    NoHello,
    /// A message gave a length below 8.
    #[error("the controller sent a message with a length below 8 bytes")]
    BadLength,
    /// The peer was silent.
    #[error("the controller did not answer in time")]
    Silent,
    /// The peer could not go on and said so before its hello.
    #[error("the controller refused the connection")]
    Refused,
}

/// What became of an asynchronous message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It waits for the connection.
    Queued,
    /// The controller does not want it, by its role or its masks, or it has not said hello yet.
    Filtered,
    /// It was dropped because the controller reads too slowly, or because it is too long for a message.
    Dropped,
}

/// The switch's side of one connection.
pub struct Session {
    frames: Framer,
    peer: Peer,
}

/// All of a session but the bytes that came in.
struct Peer {
    config: SessionConfig,
    controller: ControllerId,
    state: State,
    output: Output,
    assemblies: Assemblies,
    /// A barrier, or a multipart request of which parts were answered, waits for the switch.
    answering: bool,
    keep_alive: KeepAlive,
    /// The connection took some of a long output, so the peer lives although it may be too busy to answer.
    progress: bool,
    started_ns: u64,
    own_xid: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    WaitsForHello,
    Up,
    Closed(CloseReason),
}

impl Session {
    /// A session on a new connection; its hello waits in the output.
    pub fn new(config: SessionConfig, controller: ControllerId, now_ns: u64) -> Session {
        let mut peer = Peer {
            config,
            controller,
            state: State::WaitsForHello,
            output: Output::default(),
            assemblies: Assemblies::default(),
            answering: false,
            keep_alive: KeepAlive::new(config.echo_interval_ns, now_ns),
            progress: false,
            started_ns: now_ns,
            own_xid: 1,
        };
        peer.put(1, &Message::Hello(Hello { versions: Some(1 << VERSION) }));
        Session { frames: Framer::default(), peer }
    }

    /// Takes bytes from the connection and returns how many it took: at most [`Session::room`]. Call [`Session::next_request`] until it yields nothing
    /// after it.
    pub fn receive(&mut self, bytes: &[u8], now_ns: u64) -> usize {
        if !bytes.is_empty() {
            self.peer.keep_alive.heard(now_ns);
        }
        self.frames.receive(bytes)
    }

    /// Bytes that [`Session::receive`] would take now. 0: read from the connection again when output was written.
    pub fn room(&self) -> usize {
        self.frames.room()
    }

    /// The next request for the switch. `None`: more bytes are needed, or the controller must read its output first, or a barrier was not answered yet.
    ///
    /// Hellos, echoes, roles, async masks, broken and unknown messages are answered here.
    pub fn next_request(&mut self, controllers: &mut Controllers) -> Option<Request> {
        while self.peer.accepts_requests() {
            match self.frames.next_message() {
                Ok(None) => return None,
                Ok(Some((header, message))) => {
                    if let Some(request) = self.peer.take(header, message, controllers) {
                        return Some(request);
                    }
                }
                Err(bad) => {
                    self.peer.output.put_error(bad.0.xid, ErrorKind::BadRequestBadLen, &[]);
                    self.peer.state = State::Closed(CloseReason::BadLength);
                }
            }
        }
        None
    }

    /// True if [`Session::next_request`] has work to do: messages wait, and the output has room for answers to them.
    pub fn has_work(&self) -> bool {
        self.peer.accepts_requests() && self.frames.has_message()
    }

    /// Answers a request. An answer that is too long for a message becomes an error (`OFPBRC_BAD_LEN`).
    pub fn reply(&mut self, request: &Request, reply: Reply) {
        self.peer.reply(request, reply);
    }

    /// Answers a multipart request by a part of the reply; [`Session::reply`] with the last part must follow. With it the switch can list many entries
    /// piece by piece, as [`Session::wants_part`] says.
    pub fn reply_part(&mut self, request: &Request, part: MultipartReply) {
        self.peer.answering = true;
        self.peer.output.put_multipart(request.xid, part, true);
    }

    /// True if the parts of a multipart reply so far have been written, or nearly.
    pub fn wants_part(&self) -> bool {
        self.peer.output.has_room()
    }

    /// Answers a request by an error, with the first bytes of the request.
    pub fn refuse(&mut self, request: &Request, error: OfError) {
        self.peer.answered(request);
        self.peer.output.put_error(request.xid, error.0, request.head());
    }

    /// Sends a packet to the controller.
    pub fn packet_in(&mut self, controllers: &Controllers, packet: &PacketIn) -> Delivery {
        let wanted = controllers.wanted(self.peer.controller, |config| config.packet_in) >> packet.reason as u8 & 1;
        let limit = self.peer.config.packet_in_limit_bytes;
        self.peer.send(wanted == 1, limit, Event::PacketIn(packet))
    }

    /// Tells the controller that a flow entry ended.
    pub fn flow_removed(&mut self, controllers: &Controllers, removed: &FlowRemoved) -> Delivery {
        let wanted = controllers.wanted(self.peer.controller, |config| config.flow_removed) >> removed.reason as u8 & 1;
        let limit = self.peer.config.event_limit_bytes;
        self.peer.send(wanted == 1 && self.is_main(), limit, Event::FlowRemoved(removed))
    }

    /// Tells the controller that a port changed.
    pub fn port_status(&mut self, controllers: &Controllers, status: &PortStatus) -> Delivery {
        let wanted = controllers.wanted(self.peer.controller, |config| config.port_status) >> status.reason as u8 & 1;
        let limit = self.peer.config.event_limit_bytes;
        self.peer.send(wanted == 1 && self.is_main(), limit, Event::PortStatus(status))
    }

    /// The controller of this connection.
    pub fn controller(&self) -> ControllerId {
        self.peer.controller
    }

    /// True once both sides have said hello.
    pub fn is_up(&self) -> bool {
        self.peer.state == State::Up
    }

    /// Bytes for the connection.
    pub fn output(&mut self) -> &[u8] {
        self.peer.output.bytes()
    }

    /// The connection took the first `count` bytes of the output.
    pub fn consume(&mut self, count: usize) {
        self.peer.progress |= count > 0 && !self.peer.output.has_room();
        self.peer.output.consume(count);
    }

    /// When [`Session::tick`] has something to do.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        match self.peer.state {
            State::WaitsForHello => self.peer.hello_deadline_ns(),
            State::Up => self.peer.keep_alive.deadline_ns(),
            State::Closed(_) => None,
        }
    }

    /// Asks a silent peer whether it lives, or gives it up.
    pub fn tick(&mut self, now_ns: u64) {
        self.peer.tick(now_ns);
    }

    /// Why the session is over. Write what is left of the output, then close the connection.
    pub fn closed(&self) -> Option<CloseReason> {
        match self.peer.state {
            State::Closed(reason) => Some(reason),
            _ => None,
        }
    }

    fn is_main(&self) -> bool {
        self.peer.config.auxiliary_id == 0
    }
}

impl Peer {
    fn accepts_requests(&self) -> bool {
        !matches!(self.state, State::Closed(_)) && !self.answering && self.output.has_room()
    }

    fn hello_deadline_ns(&self) -> Option<u64> {
        let timeout_ns = self.config.hello_timeout_ns;
        (timeout_ns > 0).then(|| self.started_ns.saturating_add(timeout_ns))
    }

    fn tick(&mut self, now_ns: u64) {
        if std::mem::take(&mut self.progress) {
            self.keep_alive.heard(now_ns);
        }
        match self.state {
            State::WaitsForHello if self.hello_deadline_ns().is_some_and(|deadline_ns| deadline_ns <= now_ns) => {
                self.state = State::Closed(CloseReason::Silent);
            }
            State::Up => match self.keep_alive.tick(now_ns) {
                Due::Nothing => {}
                Due::Ask => {
                    self.own_xid = self.own_xid.wrapping_add(1);
                    self.put(self.own_xid, &Message::EchoRequest(Vec::new()));
                }
                Due::GiveUp => self.state = State::Closed(CloseReason::Silent),
            },
            _ => {}
        }
    }

    /// Works on a message; returns it if the switch must.
    fn take(&mut self, header: Header, message: &[u8], controllers: &mut Controllers) -> Option<Request> {
        if self.state == State::WaitsForHello {
            if !self.stands_without_hello(header) {
                self.first(header, message);
                return None;
            }
            self.state = State::Up;
        }
        if header.version != VERSION && header.kind > KIND_ERROR {
            self.error(header.xid, ErrorKind::BadRequestBadVersion, message);
            return None;
        }
        match self.dispatch(header, message, controllers) {
            Ok(body) => body.map(|body| Request::new(header.xid, body, message)),
            Err(error) => {
                self.error(header.xid, error, message);
                None
            }
        }
    }

    /// True if the hello before this message was lost, and both speak its version.
    fn stands_without_hello(&self, header: Header) -> bool {
        self.config.is_unreliable && header.version == VERSION && header.kind > KIND_ERROR
    }

    /// The first message must be a hello of a version that both speak (section 6.3.1).
    fn first(&mut self, header: Header, message: &[u8]) {
        let failed = match decode(message) {
            Ok((_, Message::Hello(hello))) if speaks(header.version, hello) => {
                self.state = State::Up;
                return;
            }
            Ok((_, Message::Hello(_))) => CloseReason::Version,
            Ok((_, Message::Error(_))) => CloseReason::Refused,
            _ if header.version != VERSION => CloseReason::Version,
            _ => CloseReason::NoHello,
        };
        if failed != CloseReason::Refused {
            let text = failed.to_string();
            self.output.put_error(header.xid, ErrorKind::HelloFailedIncompatible, text.as_bytes());
        }
        self.state = State::Closed(failed);
    }

    fn dispatch(
        &mut self,
        header: Header,
        message: &[u8],
        controllers: &mut Controllers,
    ) -> Result<Option<RequestBody>, ErrorKind> {
        let body = &message[HEADER_BYTES..];
        match header.kind {
            kind if self.config.is_unreliable && !KINDS_UNRELIABLE.contains(&kind) => Err(ErrorKind::BadRequestBadType),
            KIND_HELLO | KIND_ERROR | KIND_ECHO_REPLY => Ok(None),
            KIND_ECHO_REQUEST => {
                self.output.put_raw(KIND_ECHO_REPLY, header.xid, body);
                Ok(None)
            }
            KIND_MULTIPART_REQUEST => self.multipart(header.xid, body, controllers),
            _ => self.request(header.xid, decode(message)?.1, message.len(), controllers),
        }
    }

    fn request(
        &mut self,
        xid: u32,
        message: Message,
        length: usize,
        controllers: &mut Controllers,
    ) -> Result<Option<RequestBody>, ErrorKind> {
        let slave = controllers.role(self.controller) == ControllerRole::Slave;
        let body = match message {
            Message::FeaturesRequest => RequestBody::Features,
            Message::GetConfigRequest => RequestBody::GetConfig,
            Message::BarrierRequest => {
                self.answering = true;
                RequestBody::Barrier
            }
            Message::QueueGetConfigRequest(port) => RequestBody::QueueGetConfig(port),
            Message::RoleRequest(wanted) => {
                let role = controllers.request_role(self.controller, wanted)?;
                self.put(xid, &Message::RoleReply(role));
                return Ok(None);
            }
            Message::GetAsyncRequest => {
                self.put(xid, &Message::GetAsyncReply(controllers.async_config(self.controller)));
                return Ok(None);
            }
            Message::SetAsync(wanted) => {
                controllers.set_async_config(self.controller, wanted);
                return Ok(None);
            }
            Message::Experimenter(_) => return Err(ErrorKind::BadRequestBadExperimenter),
            change => {
                let body = checked_change(change, length)?;
                return if slave { Err(ErrorKind::BadRequestIsSlave) } else { Ok(Some(body)) };
            }
        };
        Ok(Some(body))
    }

    fn multipart(
        &mut self,
        xid: u32,
        body: &[u8],
        controllers: &Controllers,
    ) -> Result<Option<RequestBody>, ErrorKind> {
        let (kind, more, body) = split_head(body)?;
        let request = if more || self.assemblies.has(xid) {
            match self.assemblies.add(xid, kind, more, body)? {
                Assembled::Whole(bytes) => decode_request(kind, &bytes)?,
                Assembled::Nothing => return Ok(None),
            }
        } else {
            decode_request(kind, body)?
        };
        let request = request.map_err(|_| ErrorKind::BadRequestBadExperimenter)?;
        match &request {
            MultipartRequest::Flow(filter) | MultipartRequest::Aggregate(filter) => filter.check()?,
            MultipartRequest::TableFeatures(tables) => tables.iter().try_for_each(TableFeatures::check)?,
            _ => {}
        }
        let slave = controllers.role(self.controller) == ControllerRole::Slave;
        if slave && matches!(&request, MultipartRequest::TableFeatures(tables) if !tables.is_empty()) {
            return Err(ErrorKind::BadRequestIsSlave);
        }
        Ok(Some(RequestBody::Multipart(request)))
    }

    /// Requests may come out again, if it was this one that held them back.
    fn answered(&mut self, request: &Request) {
        self.answering &= !request.holds();
    }

    fn reply(&mut self, request: &Request, reply: Reply) {
        self.answered(request);
        let message = match reply {
            Reply::Features(mut features) => {
                features.auxiliary_id = self.config.auxiliary_id;
                Message::FeaturesReply(features)
            }
            Reply::Config(config) => Message::GetConfigReply(config),
            Reply::Multipart(reply) => return self.output.put_multipart(request.xid, reply, false),
            Reply::Barrier => Message::BarrierReply,
            Reply::QueueConfig(queues) => Message::QueueGetConfigReply(queues),
        };
        if self.output.put(request.xid, &message).is_err() {
            self.output.put_error(request.xid, ErrorKind::BadRequestBadLen, request.head());
        }
    }

    fn send(&mut self, wanted: bool, limit: usize, event: Event) -> Delivery {
        if !wanted || self.state != State::Up {
            return Delivery::Filtered;
        }
        if self.output.len() >= limit || self.output.put_event(event).is_err() {
            return Delivery::Dropped;
        }
        Delivery::Queued
    }

    fn error(&mut self, xid: u32, error: ErrorKind, message: &[u8]) {
        self.output.put_error(xid, error, head_of(message));
    }

    fn put(&mut self, xid: u32, message: &Message) {
        let written = self.output.put(xid, message);
        debug_assert!(written.is_ok(), "messages of the session itself are short");
    }
}

const KIND_HELLO: u8 = 0;
const KIND_ERROR: u8 = 1;
const KIND_ECHO_REQUEST: u8 = 2;
const KIND_ECHO_REPLY: u8 = 3;
const KIND_MULTIPART_REQUEST: u8 = 18;
/// Requests and answers of controllers that unreliable connections take: hello, error, echoes, experimenter, features, packet-out.
const KINDS_UNRELIABLE: [u8; 7] = [KIND_HELLO, KIND_ERROR, KIND_ECHO_REQUEST, KIND_ECHO_REPLY, 4, 5, 13];

/// Statistics of an entry, a group or a meter have a longer head than the message that made it, and must fit into a message, too.
const CHANGE_BYTES_MAX: usize = crate::codec::MESSAGE_BYTES_MAX - 64;

/// With bitmaps both sides speak the highest version of both, without one the smaller of the two in the hellos' headers: it must be this one.
fn speaks(version: u8, hello: Hello) -> bool {
    match hello.versions {
        Some(versions) => versions & 1 << VERSION != 0,
        None => version >= VERSION,
    }
}

/// A change of the switch's state, or a packet to send; others are refused.
fn checked_change(message: Message, length: usize) -> Result<RequestBody, ErrorKind> {
    let fits = |error| if length <= CHANGE_BYTES_MAX { Ok(()) } else { Err(error) };
    Ok(match message {
        Message::SetConfig(config) => RequestBody::SetConfig(config),
        Message::PacketOut(packet) => {
            packet.check()?;
            RequestBody::PacketOut(packet)
        }
        Message::FlowMod(change) => {
            fits(ErrorKind::BadActionTooMany)?;
            change.check()?;
            RequestBody::FlowMod(change)
        }
        Message::GroupMod(change) => {
            fits(ErrorKind::GroupModFailedOutOfBuckets)?;
            change.check()?;
            RequestBody::GroupMod(change)
        }
        Message::MeterMod(change) => {
            fits(ErrorKind::MeterModFailedOutOfBands)?;
            change.check()?;
            RequestBody::MeterMod(change)
        }
        Message::PortMod(change) => RequestBody::PortMod(change),
        Message::TableMod(change) => RequestBody::TableMod(change),
        _ => return Err(ErrorKind::BadRequestBadType),
    })
}
