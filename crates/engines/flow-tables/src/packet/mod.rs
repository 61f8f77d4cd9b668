//! Packets as OpenFlow sees them: header positions, the fields that a match compares, the header actions.
//!
//! [`Headers::parse`] finds the headers of a packet once; [`Headers::fill_key`] writes its key, and [`compile_match`] that of a match.

mod actions;
mod buffer;
mod exthdr;
mod fast;
mod flow_hash;
mod fragmentation;
mod headers;
mod key;
mod matching;
mod read;
pub mod shape;

pub use actions::{ActionDrop, apply};
pub use buffer::{PacketBuffer, SlotPacket};
pub use fast::CommonHeaders;
pub use fragmentation::cut_into_fragments;
pub use headers::{Fragment, Headers};
pub use key::{PipelineFields, header_of};
pub(crate) use matching::compile_fields;
pub use matching::{compile_match, fields_of};
