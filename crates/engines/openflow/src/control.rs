//! Messages of the connection itself: hello, errors, roles (sections 7.3.9, 7.4.4, 7.5).

use crate::{ControllerRole, ErrorKind};

/// `OFPT_HELLO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Bit N is set if the sender speaks version N, for versions below 32. `None`: the sender gave no bitmap and speaks the versions up to that of
    /// the message's header.
    pub versions: Option<u32>,
}

/// `OFPT_ERROR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMessage {
    /// Type; `0xffff` for experimenters, whose code is the experimenter's type and whose data begin with the experimenter's number.
    pub kind: u16,
    /// Code.
    pub code: u16,
    /// The first bytes of the refused message, or a text for a failed hello.
    pub data: Vec<u8>,
}

impl ErrorMessage {
    /// The error by name; `None` if the specification does not know it.
    pub fn error(&self) -> Option<ErrorKind> {
        ErrorKind::from_numbers(self.kind, self.code)
    }
}

/// `OFPT_ROLE_REQUEST` and `OFPT_ROLE_REPLY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleMessage {
    /// The role.
    pub role: ControllerRole,
    /// Number of the election of a master.
    pub generation_id: u64,
}

/// `OFPT_TABLE_MOD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMod {
    /// Table, or [`crate::TABLE_ALL`].
    pub table: u8,
    /// `OFPTC_*` bits, which version 1.3 has deprecated.
    pub config: u32,
}

/// `OFPT_QUEUE_GET_CONFIG_REPLY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfigReply {
    /// The port that was asked for, or [`crate::PortNumber::ANY`].
    pub port: crate::PortNumber,
    /// Its queues.
    pub queues: Vec<crate::QueueConfig>,
}
