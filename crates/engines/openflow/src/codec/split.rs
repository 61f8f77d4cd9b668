//! A multipart reply as several messages, made one by one as there is room for them.

use std::vec::IntoIter;

use super::flow::put_flow_stats;
use super::group::{put_group_description, put_group_stats};
use super::header::MESSAGE_BYTES_MAX;
use super::message::encode_with;
use super::meter::{put_meter_config, put_meter_stats};
use super::multipart::{Part, put_head, put_reply, reply_kind, set_more};
use super::port::{put_port, put_port_stats, put_queue_stats};
use super::table::{put_table_features, put_table_stats};
use crate::{
    FlowStats, GroupDescription, GroupStats, MeterConfig, MeterStats, MultipartReply, PortDescription, PortStats,
    QueueStats, TableFeatures, TableStats,
};

const MESSAGE_MULTIPART_REPLY: u8 = 19;

/// What is left of a reply. Items that were written are freed.
pub(crate) struct Splitter {
    xid: u32,
    kind: u16,
    items: Items,
    /// The caller will add to the reply, so that even the last message says that more follow.
    continues: bool,
}

enum Items {
    One(Box<MultipartReply>),
    Flow(IntoIter<FlowStats>),
    Table(IntoIter<TableStats>),
    Port(IntoIter<PortStats>),
    Queue(IntoIter<QueueStats>),
    Group(IntoIter<GroupStats>),
    GroupDescription(IntoIter<GroupDescription>),
    Meter(IntoIter<MeterStats>),
    MeterConfig(IntoIter<MeterConfig>),
    TableFeatures(IntoIter<TableFeatures>),
    PortDescription(IntoIter<PortDescription>),
}

impl Splitter {
    pub(crate) fn new(xid: u32, reply: MultipartReply, continues: bool) -> Splitter {
        let kind = reply_kind(&reply);
        let items = match reply {
            MultipartReply::Flow(items) => Items::Flow(items.into_iter()),
            MultipartReply::Table(items) => Items::Table(items.into_iter()),
            MultipartReply::Port(items) => Items::Port(items.into_iter()),
            MultipartReply::Queue(items) => Items::Queue(items.into_iter()),
            MultipartReply::Group(items) => Items::Group(items.into_iter()),
            MultipartReply::GroupDescription(items) => Items::GroupDescription(items.into_iter()),
            MultipartReply::Meter(items) => Items::Meter(items.into_iter()),
            MultipartReply::MeterConfig(items) => Items::MeterConfig(items.into_iter()),
            MultipartReply::TableFeatures(items) => Items::TableFeatures(items.into_iter()),
            MultipartReply::PortDescription(items) => Items::PortDescription(items.into_iter()),
            one => Items::One(Box::new(one)),
        };
        Splitter { xid, kind, items, continues }
    }

    /// Appends the next message; returns true if there is another one after it.
    pub(crate) fn next_message(&mut self, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let (kind, continues, items) = (self.kind, self.continues, &mut self.items);
        let mut left = false;
        let written = encode_with(out, MESSAGE_MULTIPART_REPLY, self.xid, |out| {
            if let Items::One(reply) = items {
                let body = Ok(std::mem::replace(&mut **reply, MultipartReply::Flow(Vec::new())));
                put_reply(out, &Part { more: continues, body });
                return;
            }
            put_head(out, kind, false);
            left = items.fill(out, start);
            set_more(out, start, left || continues);
        });
        debug_assert!(written.is_ok(), "items that do not fit are put back");
        left
    }
}

impl Items {
    /// Appends items while the message has room for them; returns true if some are left.
    fn fill(&mut self, out: &mut Vec<u8>, start: usize) -> bool {
        match self {
            Items::One(_) => false,
            Items::Flow(items) => fill(items, out, start, put_flow_stats),
            Items::Table(items) => fill(items, out, start, put_table_stats),
            Items::Port(items) => fill(items, out, start, put_port_stats),
            Items::Queue(items) => fill(items, out, start, put_queue_stats),
            Items::Group(items) => fill(items, out, start, put_group_stats),
            Items::GroupDescription(items) => fill(items, out, start, put_group_description),
            Items::Meter(items) => fill(items, out, start, put_meter_stats),
            Items::MeterConfig(items) => fill(items, out, start, put_meter_config),
            Items::TableFeatures(items) => fill(items, out, start, put_table_features),
            Items::PortDescription(items) => fill(items, out, start, put_port),
        }
    }
}

fn fill<T>(items: &mut IntoIter<T>, out: &mut Vec<u8>, start: usize, put: fn(&mut Vec<u8>, &T)) -> bool {
    let first_at = out.len();
    while let Some(item) = items.as_slice().first() {
        let at = out.len();
        put(out, item);
        if out.len() - start > MESSAGE_BYTES_MAX {
            out.truncate(at);
            if at > first_at {
                return true;
            }
            // An item that no message can hold: it is left out. The session refuses the requests that would make one.
        }
        items.next();
    }
    false
}
