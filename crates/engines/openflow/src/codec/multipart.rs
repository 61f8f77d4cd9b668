//! Multipart requests and replies on the wire (section 7.3.5).

use super::experimenter::{put_experimenter, take_experimenter};
use super::flow::{put_filter, put_flow_stats, take_filter, take_flow_stats};
use super::group::{
    put_group_description, put_group_features, put_group_stats, take_group_description, take_group_features,
    take_group_stats,
};
use super::header::HEADER_BYTES;
use super::meter::{
    put_meter_config, put_meter_features, put_meter_stats, take_meter_config, take_meter_features, take_meter_stats,
};
use super::port::{put_port, put_port_stats, put_queue_stats, take_port, take_port_stats, take_queue_stats};
use super::table::{put_table_features, put_table_stats, take_table_features, take_table_stats};
use super::wire::{Reader, Writer};
use crate::{AggregateStats, ErrorKind, Experimenter, MultipartReply, MultipartRequest, PortNumber, SwitchDescription};

/// One message of a multipart request or reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<T> {
    /// More messages with the same transaction follow.
    pub more: bool,
    /// The contents of this message.
    pub body: T,
}

/// Body of a request, or an experimenter's.
pub type RequestPart = Part<Result<MultipartRequest, Experimenter>>;
/// Body of a reply, or an experimenter's.
pub type ReplyPart = Part<Result<MultipartReply, Experimenter>>;

/// Types on the wire (`OFPMP_*`).
const DESCRIPTION: u16 = 0;
const FLOW: u16 = 1;
const AGGREGATE: u16 = 2;
const TABLE: u16 = 3;
const PORT: u16 = 4;
const QUEUE: u16 = 5;
const GROUP: u16 = 6;
const GROUP_DESCRIPTION: u16 = 7;
const GROUP_FEATURES: u16 = 8;
const METER: u16 = 9;
const METER_CONFIG: u16 = 10;
const METER_FEATURES: u16 = 11;
const TABLE_FEATURES: u16 = 12;
const PORT_DESCRIPTION: u16 = 13;
const EXPERIMENTER: u16 = 0xffff;

const FLAG_MORE: u16 = 1;

/// Decodes the body of a request of this type, put together from all of its messages.
pub(crate) fn decode_request(kind: u16, body: &[u8]) -> Result<Result<MultipartRequest, Experimenter>, ErrorKind> {
    let mut reader = Reader::new(body, ErrorKind::BadRequestBadLen);
    let request = take_request(kind, &mut reader)?;
    reader.end()?;
    Ok(request)
}

/// Splits the body of a multipart message into type, whether more messages follow, and the rest.
pub(crate) fn split_head(body: &[u8]) -> Result<(u16, bool, &[u8]), ErrorKind> {
    let mut reader = Reader::new(body, ErrorKind::BadRequestBadLen);
    let (kind, more) = take_head(&mut reader)?;
    Ok((kind, more, reader.rest()))
}

/// Reads the head of a multipart message: type, and whether more follow.
pub(super) fn take_head(reader: &mut Reader) -> Result<(u16, bool), ErrorKind> {
    let (kind, flags) = (reader.u16()?, reader.u16()?);
    reader.skip(4)?;
    Ok((kind, flags & FLAG_MORE != 0))
}

pub(super) fn put_head(out: &mut Vec<u8>, kind: u16, more: bool) {
    out.u16(kind);
    out.u16(if more { FLAG_MORE } else { 0 });
    out.zeros(4);
}

/// Sets or clears the flag in a reply whose message begins at `start`.
pub(super) fn set_more(out: &mut [u8], start: usize, more: bool) {
    out[start + HEADER_BYTES + 3] = u8::from(more);
}

/// Reads the body of a request of this type.
pub(super) fn take_request(kind: u16, body: &mut Reader) -> Result<Result<MultipartRequest, Experimenter>, ErrorKind> {
    Ok(Ok(match kind {
        DESCRIPTION => MultipartRequest::Description,
        FLOW => MultipartRequest::Flow(take_filter(body)?),
        AGGREGATE => MultipartRequest::Aggregate(take_filter(body)?),
        TABLE => MultipartRequest::Table,
        PORT => MultipartRequest::Port(PortNumber(take_padded(body)?)),
        QUEUE => MultipartRequest::Queue(PortNumber(body.u32()?), body.u32()?),
        GROUP => MultipartRequest::Group(take_padded(body)?),
        GROUP_DESCRIPTION => MultipartRequest::GroupDescription,
        GROUP_FEATURES => MultipartRequest::GroupFeatures,
        METER => MultipartRequest::Meter(take_padded(body)?),
        METER_CONFIG => MultipartRequest::MeterConfig(take_padded(body)?),
        METER_FEATURES => MultipartRequest::MeterFeatures,
        TABLE_FEATURES => MultipartRequest::TableFeatures(take_all(body, take_table_features)?),
        PORT_DESCRIPTION => MultipartRequest::PortDescription,
        EXPERIMENTER => return Ok(Err(take_experimenter(body)?)),
        _ => return Err(ErrorKind::BadRequestBadMultipart),
    }))
}

pub(super) fn put_request(out: &mut Vec<u8>, part: &RequestPart) {
    let kind = part.body.as_ref().map_or(EXPERIMENTER, request_kind);
    put_head(out, kind, part.more);
    match &part.body {
        Ok(MultipartRequest::Flow(filter) | MultipartRequest::Aggregate(filter)) => put_filter(out, filter),
        Ok(MultipartRequest::Port(PortNumber(number)))
        | Ok(
            MultipartRequest::Group(number) | MultipartRequest::Meter(number) | MultipartRequest::MeterConfig(number),
        ) => {
            out.u32(*number);
            out.zeros(4);
        }
        Ok(MultipartRequest::Queue(port, queue)) => {
            out.u32(port.0);
            out.u32(*queue);
        }
        Ok(MultipartRequest::TableFeatures(tables)) => tables.iter().for_each(|table| put_table_features(out, table)),
        Ok(
            MultipartRequest::Description
            | MultipartRequest::Table
            | MultipartRequest::GroupDescription
            | MultipartRequest::GroupFeatures
            | MultipartRequest::MeterFeatures
            | MultipartRequest::PortDescription,
        ) => {}
        Err(experimenter) => put_experimenter(out, experimenter),
    }
}

fn request_kind(request: &MultipartRequest) -> u16 {
    match request {
        MultipartRequest::Description => DESCRIPTION,
        MultipartRequest::Flow(_) => FLOW,
        MultipartRequest::Aggregate(_) => AGGREGATE,
        MultipartRequest::Table => TABLE,
        MultipartRequest::Port(_) => PORT,
        MultipartRequest::Queue(..) => QUEUE,
        MultipartRequest::Group(_) => GROUP,
        MultipartRequest::GroupDescription => GROUP_DESCRIPTION,
        MultipartRequest::GroupFeatures => GROUP_FEATURES,
        MultipartRequest::Meter(_) => METER,
        MultipartRequest::MeterConfig(_) => METER_CONFIG,
        MultipartRequest::MeterFeatures => METER_FEATURES,
        MultipartRequest::TableFeatures(_) => TABLE_FEATURES,
        MultipartRequest::PortDescription => PORT_DESCRIPTION,
    }
}

pub(super) fn take_reply(reader: &mut Reader) -> Result<ReplyPart, ErrorKind> {
    let (kind, more) = take_head(reader)?;
    let body = match kind {
        DESCRIPTION => MultipartReply::Description(take_description(reader)?),
        FLOW => MultipartReply::Flow(take_all(reader, take_flow_stats)?),
        AGGREGATE => MultipartReply::Aggregate(take_aggregate(reader)?),
        TABLE => MultipartReply::Table(take_all(reader, take_table_stats)?),
        PORT => MultipartReply::Port(take_all(reader, take_port_stats)?),
        QUEUE => MultipartReply::Queue(take_all(reader, take_queue_stats)?),
        GROUP => MultipartReply::Group(take_all(reader, take_group_stats)?),
        GROUP_DESCRIPTION => MultipartReply::GroupDescription(take_all(reader, take_group_description)?),
        GROUP_FEATURES => MultipartReply::GroupFeatures(take_group_features(reader)?),
        METER => MultipartReply::Meter(take_all(reader, take_meter_stats)?),
        METER_CONFIG => MultipartReply::MeterConfig(take_all(reader, take_meter_config)?),
        METER_FEATURES => MultipartReply::MeterFeatures(take_meter_features(reader)?),
        TABLE_FEATURES => MultipartReply::TableFeatures(take_all(reader, take_table_features)?),
        PORT_DESCRIPTION => MultipartReply::PortDescription(take_all(reader, take_port)?),
        EXPERIMENTER => return Ok(Part { more, body: Err(take_experimenter(reader)?) }),
        _ => return Err(ErrorKind::BadRequestBadMultipart),
    };
    Ok(Part { more, body: Ok(body) })
}

pub(super) fn put_reply(out: &mut Vec<u8>, part: &ReplyPart) {
    let kind = part.body.as_ref().map_or(EXPERIMENTER, reply_kind);
    put_head(out, kind, part.more);
    match &part.body {
        Ok(MultipartReply::Description(description)) => put_description(out, description),
        Ok(MultipartReply::Flow(items)) => items.iter().for_each(|item| put_flow_stats(out, item)),
        Ok(MultipartReply::Aggregate(stats)) => put_aggregate(out, stats),
        Ok(MultipartReply::Table(items)) => items.iter().for_each(|item| put_table_stats(out, item)),
        Ok(MultipartReply::Port(items)) => items.iter().for_each(|item| put_port_stats(out, item)),
        Ok(MultipartReply::Queue(items)) => items.iter().for_each(|item| put_queue_stats(out, item)),
        Ok(MultipartReply::Group(items)) => items.iter().for_each(|item| put_group_stats(out, item)),
        Ok(MultipartReply::GroupDescription(items)) => items.iter().for_each(|item| put_group_description(out, item)),
        Ok(MultipartReply::GroupFeatures(features)) => put_group_features(out, features),
        Ok(MultipartReply::Meter(items)) => items.iter().for_each(|item| put_meter_stats(out, item)),
        Ok(MultipartReply::MeterConfig(items)) => items.iter().for_each(|item| put_meter_config(out, item)),
        Ok(MultipartReply::MeterFeatures(features)) => put_meter_features(out, features),
        Ok(MultipartReply::TableFeatures(items)) => items.iter().for_each(|item| put_table_features(out, item)),
        Ok(MultipartReply::PortDescription(items)) => items.iter().for_each(|item| put_port(out, item)),
        Err(experimenter) => put_experimenter(out, experimenter),
    }
}

pub(super) fn reply_kind(reply: &MultipartReply) -> u16 {
    match reply {
        MultipartReply::Description(_) => DESCRIPTION,
        MultipartReply::Flow(_) => FLOW,
        MultipartReply::Aggregate(_) => AGGREGATE,
        MultipartReply::Table(_) => TABLE,
        MultipartReply::Port(_) => PORT,
        MultipartReply::Queue(_) => QUEUE,
        MultipartReply::Group(_) => GROUP,
        MultipartReply::GroupDescription(_) => GROUP_DESCRIPTION,
        MultipartReply::GroupFeatures(_) => GROUP_FEATURES,
        MultipartReply::Meter(_) => METER,
        MultipartReply::MeterConfig(_) => METER_CONFIG,
        MultipartReply::MeterFeatures(_) => METER_FEATURES,
        MultipartReply::TableFeatures(_) => TABLE_FEATURES,
        MultipartReply::PortDescription(_) => PORT_DESCRIPTION,
    }
}

/// Items until the part ends.
fn take_all<T>(reader: &mut Reader, take: impl Fn(&mut Reader) -> Result<T, ErrorKind>) -> Result<Vec<T>, ErrorKind> {
    let mut items = Vec::new();
    while !reader.is_empty() {
        items.push(take(reader)?);
    }
    Ok(items)
}

/// A number, and four bytes of padding.
fn take_padded(reader: &mut Reader) -> Result<u32, ErrorKind> {
    let number = reader.u32()?;
    reader.skip(4)?;
    Ok(number)
}

const TEXT_BYTES: usize = 256;
const SERIAL_BYTES: usize = 32;

fn take_description(reader: &mut Reader) -> Result<SwitchDescription, ErrorKind> {
    Ok(SwitchDescription {
        manufacturer: reader.text(TEXT_BYTES)?,
        hardware: reader.text(TEXT_BYTES)?,
        software: reader.text(TEXT_BYTES)?,
        serial: reader.text(SERIAL_BYTES)?,
        datapath: reader.text(TEXT_BYTES)?,
    })
}

fn put_description(out: &mut Vec<u8>, description: &SwitchDescription) {
    out.text(&description.manufacturer, TEXT_BYTES);
    out.text(&description.hardware, TEXT_BYTES);
    out.text(&description.software, TEXT_BYTES);
    out.text(&description.serial, SERIAL_BYTES);
    out.text(&description.datapath, TEXT_BYTES);
}

fn take_aggregate(reader: &mut Reader) -> Result<AggregateStats, ErrorKind> {
    let stats = AggregateStats { packets: reader.u64()?, bytes: reader.u64()?, flows: reader.u32()? };
    reader.skip(4)?;
    Ok(stats)
}

fn put_aggregate(out: &mut Vec<u8>, stats: &AggregateStats) {
    out.u64(stats.packets);
    out.u64(stats.bytes);
    out.u32(stats.flows);
    out.zeros(4);
}
