//! Every message of OpenFlow 1.3, in both directions (`OFPT_*`, section 7.1).

use super::connection::{
    put_async, put_config, put_error, put_features, put_hello, put_role, put_table_mod, take_async, take_config,
    take_error, take_features, take_hello, take_role, take_table_mod,
};
use super::experimenter::{put_experimenter, take_experimenter};
use super::flow::{put_flow_mod, put_flow_removed, take_flow_mod, take_flow_removed};
use super::group::{put_group_mod, take_group_mod};
use super::header::{HEADER_BYTES, Header, MESSAGE_BYTES_MAX, VERSION};
use super::meter::{put_meter_mod, take_meter_mod};
use super::multipart::{Part, ReplyPart, RequestPart, put_reply, put_request, take_head, take_reply, take_request};
use super::packet::{put_packet_in, put_packet_out, take_packet_in, take_packet_out};
use super::port::{
    put_port_mod, put_port_status, put_queue_config, take_port_mod, take_port_status, take_queue_config,
};
use super::wire::{Reader, Writer};
use crate::{
    AsyncConfig, ErrorKind, ErrorMessage, Experimenter, FlowMod, FlowRemoved, GroupMod, Hello, MeterMod, PacketIn,
    PacketOut, PortMod, PortNumber, PortStatus, QueueConfigReply, RoleMessage, SwitchConfig, SwitchFeatures, TableMod,
};

/// A message without its header.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the specification's name")]
pub enum Message {
    Hello(Hello),
    Error(ErrorMessage),
    EchoRequest(Vec<u8>),
    EchoReply(Vec<u8>),
    Experimenter(Experimenter),
    FeaturesRequest,
    FeaturesReply(SwitchFeatures),
    GetConfigRequest,
    GetConfigReply(SwitchConfig),
    SetConfig(SwitchConfig),
    PacketIn(PacketIn),
    FlowRemoved(FlowRemoved),
    PortStatus(PortStatus),
    PacketOut(PacketOut),
    FlowMod(FlowMod),
    GroupMod(GroupMod),
    PortMod(PortMod),
    TableMod(TableMod),
    MultipartRequest(RequestPart),
    MultipartReply(ReplyPart),
    BarrierRequest,
    BarrierReply,
    QueueGetConfigRequest(PortNumber),
    QueueGetConfigReply(QueueConfigReply),
    RoleRequest(RoleMessage),
    RoleReply(RoleMessage),
    GetAsyncRequest,
    GetAsyncReply(AsyncConfig),
    SetAsync(AsyncConfig),
    MeterMod(MeterMod),
}

/// A message needs more than 65,535 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message is longer than the 65,535 bytes that OpenFlow allows; split it")]
pub struct TooLong;

/// Decodes one whole message of version 4: `bytes` are as long as its header says.
///
/// The error is what a switch answers to such a message. Lengths and ranges of values are checked here; what belongs together (prerequisites,
/// ports, tables) is checked by the `check` methods of the values.
pub fn decode(bytes: &[u8]) -> Result<(u32, Message), ErrorKind> {
    let header = Header::read(bytes).ok_or(ErrorKind::BadRequestBadLen)?;
    if usize::from(header.length) != bytes.len() {
        return Err(ErrorKind::BadRequestBadLen);
    }
    let mut body = Reader::new(&bytes[HEADER_BYTES..], ErrorKind::BadRequestBadLen);
    if header.kind == 0 {
        return Ok((header.xid, Message::Hello(take_hello(&mut body))));
    }
    if header.version != VERSION {
        return Err(ErrorKind::BadRequestBadVersion);
    }
    let message = decode_body(header.kind, &mut body)?;
    body.end()?;
    Ok((header.xid, message))
}

/// Appends one message with its header. If the message is too long, `out` stays as it was.
pub fn encode(out: &mut Vec<u8>, xid: u32, message: &Message) -> Result<(), TooLong> {
    encode_with(out, message.kind(), xid, |out| put_body(out, message))
}

/// Appends a message of this type whose body `put` writes.
pub(crate) fn encode_with(
    out: &mut Vec<u8>,
    kind: u8,
    xid: u32,
    put: impl FnOnce(&mut Vec<u8>),
) -> Result<(), TooLong> {
    let start = out.len();
    Header { version: VERSION, kind, length: 0, xid }.write(out);
    put(out);
    if out.len() - start > MESSAGE_BYTES_MAX {
        out.truncate(start);
        return Err(TooLong);
    }
    out.set_length(start + 2, start);
    Ok(())
}

/// A message that a switch sends by itself.
#[derive(Clone, Copy)]
pub(crate) enum Event<'a> {
    PacketIn(&'a PacketIn),
    FlowRemoved(&'a FlowRemoved),
    PortStatus(&'a PortStatus),
}

/// Appends an event, as [`encode`] does.
pub(crate) fn encode_event(out: &mut Vec<u8>, xid: u32, event: Event) -> Result<(), TooLong> {
    match event {
        Event::PacketIn(packet) => encode_with(out, 10, xid, |out| put_packet_in(out, packet)),
        Event::FlowRemoved(removed) => encode_with(out, 11, xid, |out| put_flow_removed(out, removed)),
        Event::PortStatus(status) => encode_with(out, 12, xid, |out| put_port_status(out, status)),
    }
}

impl Message {
    /// Type on the wire.
    pub fn kind(&self) -> u8 {
        match self {
            Message::Hello(_) => 0,
            Message::Error(_) => 1,
            Message::EchoRequest(_) => 2,
            Message::EchoReply(_) => 3,
            Message::Experimenter(_) => 4,
            Message::FeaturesRequest => 5,
            Message::FeaturesReply(_) => 6,
            Message::GetConfigRequest => 7,
            Message::GetConfigReply(_) => 8,
            Message::SetConfig(_) => 9,
            Message::PacketIn(_) => 10,
            Message::FlowRemoved(_) => 11,
            Message::PortStatus(_) => 12,
            Message::PacketOut(_) => 13,
            Message::FlowMod(_) => 14,
            Message::GroupMod(_) => 15,
            Message::PortMod(_) => 16,
            Message::TableMod(_) => 17,
            Message::MultipartRequest(_) => 18,
            Message::MultipartReply(_) => 19,
            Message::BarrierRequest => 20,
            Message::BarrierReply => 21,
            Message::QueueGetConfigRequest(_) => 22,
            Message::QueueGetConfigReply(_) => 23,
            Message::RoleRequest(_) => 24,
            Message::RoleReply(_) => 25,
            Message::GetAsyncRequest => 26,
            Message::GetAsyncReply(_) => 27,
            Message::SetAsync(_) => 28,
            Message::MeterMod(_) => 29,
        }
    }
}

fn decode_body(kind: u8, body: &mut Reader) -> Result<Message, ErrorKind> {
    Ok(match kind {
        1 => Message::Error(take_error(body)?),
        2 => Message::EchoRequest(body.rest().to_vec()),
        3 => Message::EchoReply(body.rest().to_vec()),
        4 => Message::Experimenter(take_experimenter(body)?),
        5 => Message::FeaturesRequest,
        6 => Message::FeaturesReply(take_features(body)?),
        7 => Message::GetConfigRequest,
        8 => Message::GetConfigReply(take_config(body)?),
        9 => Message::SetConfig(take_config(body)?),
        10 => Message::PacketIn(take_packet_in(body)?),
        11 => Message::FlowRemoved(take_flow_removed(body)?),
        12 => Message::PortStatus(take_port_status(body)?),
        13 => Message::PacketOut(take_packet_out(body)?),
        14 => Message::FlowMod(take_flow_mod(body)?),
        15 => Message::GroupMod(take_group_mod(body)?),
        16 => Message::PortMod(take_port_mod(body)?),
        17 => Message::TableMod(take_table_mod(body)?),
        18 => {
            let (kind, more) = take_head(body)?;
            Message::MultipartRequest(Part { more, body: take_request(kind, body)? })
        }
        19 => Message::MultipartReply(take_reply(body)?),
        20 => Message::BarrierRequest,
        21 => Message::BarrierReply,
        22 => {
            let port = PortNumber(body.u32()?);
            body.skip(4)?;
            Message::QueueGetConfigRequest(port)
        }
        23 => Message::QueueGetConfigReply(take_queues(body)?),
        24 => Message::RoleRequest(take_role(body)?),
        25 => Message::RoleReply(take_role(body)?),
        26 => Message::GetAsyncRequest,
        27 => Message::GetAsyncReply(take_async(body)?),
        28 => Message::SetAsync(take_async(body)?),
        29 => Message::MeterMod(take_meter_mod(body)?),
        _ => return Err(ErrorKind::BadRequestBadType),
    })
}

fn put_body(out: &mut Vec<u8>, message: &Message) {
    match message {
        Message::Hello(hello) => put_hello(out, *hello),
        Message::Error(error) => put_error(out, error),
        Message::EchoRequest(data) | Message::EchoReply(data) => out.extend_from_slice(data),
        Message::Experimenter(message) => put_experimenter(out, message),
        Message::FeaturesReply(features) => put_features(out, features),
        Message::GetConfigReply(config) | Message::SetConfig(config) => put_config(out, *config),
        Message::PacketIn(packet) => put_packet_in(out, packet),
        Message::FlowRemoved(removed) => put_flow_removed(out, removed),
        Message::PortStatus(status) => put_port_status(out, status),
        Message::PacketOut(packet) => put_packet_out(out, packet),
        Message::FlowMod(change) => put_flow_mod(out, change),
        Message::GroupMod(change) => put_group_mod(out, change),
        Message::PortMod(change) => put_port_mod(out, change),
        Message::TableMod(change) => put_table_mod(out, *change),
        Message::MultipartRequest(part) => put_request(out, part),
        Message::MultipartReply(part) => put_reply(out, part),
        Message::QueueGetConfigRequest(port) => put_port_padded(out, *port),
        Message::QueueGetConfigReply(reply) => {
            put_port_padded(out, reply.port);
            reply.queues.iter().for_each(|queue| put_queue_config(out, queue));
        }
        Message::RoleRequest(role) | Message::RoleReply(role) => put_role(out, *role),
        Message::GetAsyncReply(config) | Message::SetAsync(config) => put_async(out, config),
        Message::MeterMod(change) => put_meter_mod(out, change),
        Message::FeaturesRequest
        | Message::GetConfigRequest
        | Message::BarrierRequest
        | Message::BarrierReply
        | Message::GetAsyncRequest => {}
    }
}

fn take_queues(body: &mut Reader) -> Result<QueueConfigReply, ErrorKind> {
    let port = PortNumber(body.u32()?);
    body.skip(4)?;
    let mut queues = Vec::new();
    while !body.is_empty() {
        queues.push(take_queue_config(body)?);
    }
    Ok(QueueConfigReply { port, queues })
}

fn put_port_padded(out: &mut Vec<u8>, port: PortNumber) {
    out.u32(port.0);
    out.zeros(4);
}
