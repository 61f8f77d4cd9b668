//! Messages as bytes and back.
//!
//! ```text
//! bytes   | version type length xid | body ...                     |     all numbers in network byte order
//! Framer  cuts a stream into messages
//! decode  bytes of one message -> (xid, Message), or the error that a switch answers
//! encode  Message -> bytes
//! ```

mod action;
mod connection;
mod experimenter;
mod flow;
mod frame;
mod group;
mod header;
mod instruction;
mod message;
mod meter;
mod multipart;
mod oxm;
mod packed;
mod packet;
mod port;
mod split;
mod table;
mod wire;

pub use frame::{BadLength, Framer};
pub use header::{HEADER_BYTES, Header, MESSAGE_BYTES_MAX, VERSION};
pub use message::{Message, TooLong, decode, encode};
pub use multipart::{Part, ReplyPart, RequestPart};
pub use oxm::oxm_header;
pub use packed::{PackedInstructions, PackedMatch};

pub(crate) use message::{Event, encode_event, encode_with};
pub(crate) use multipart::{decode_request, split_head};
pub(crate) use split::Splitter;
