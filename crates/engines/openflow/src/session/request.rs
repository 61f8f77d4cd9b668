//! Requests of a controller that the switch works on, and its answers.

use crate::{
    FlowMod, GroupMod, MeterMod, MultipartReply, MultipartRequest, PacketOut, PortMod, PortNumber, QueueConfigReply,
    SwitchConfig, SwitchFeatures, TableMod,
};

/// Bytes of a refused request that an error message repeats: as many as the specification wants at least.
const HEAD_BYTES: usize = 64;

/// A request, checked as far as no state of the switch is needed.
#[derive(Clone, Debug)]
pub struct Request {
    /// Transaction, which the answer repeats.
    pub xid: u32,
    /// What is asked. It may be taken out; the answer needs it no more.
    pub body: RequestBody,
    head: [u8; HEAD_BYTES],
    head_len: u8,
    /// The session may hold other requests back until this one is answered.
    holds: bool,
}

/// What a controller asks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the specification's name")]
pub enum RequestBody {
    Features,
    GetConfig,
    SetConfig(SwitchConfig),
    PacketOut(PacketOut),
    FlowMod(FlowMod),
    GroupMod(GroupMod),
    PortMod(PortMod),
    TableMod(TableMod),
    MeterMod(MeterMod),
    Multipart(MultipartRequest),
    /// No other request comes out of the session until this one was answered.
    Barrier,
    QueueGetConfig(PortNumber),
}

/// An answer. Changes that succeed have none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each answers the request of its name")]
pub enum Reply {
    /// The session fills in the number of its auxiliary connection.
    Features(SwitchFeatures),
    Config(SwitchConfig),
    /// The session splits it into messages as the controller reads them.
    Multipart(MultipartReply),
    Barrier,
    QueueConfig(QueueConfigReply),
}

impl Request {
    pub(super) fn new(xid: u32, body: RequestBody, message: &[u8]) -> Request {
        let mut head = [0; HEAD_BYTES];
        let length = message.len().min(HEAD_BYTES);
        head[..length].copy_from_slice(&message[..length]);
        let holds = matches!(body, RequestBody::Barrier | RequestBody::Multipart(_));
        Request { xid, body, head, head_len: length as u8, holds }
    }

    pub(super) fn holds(&self) -> bool {
        self.holds
    }

    /// The first bytes of the message.
    pub(super) fn head(&self) -> &[u8] {
        &self.head[..usize::from(self.head_len)]
    }
}

/// The first bytes of a message, for an error that answers it.
pub(super) fn head_of(message: &[u8]) -> &[u8] {
    &message[..message.len().min(HEAD_BYTES)]
}
