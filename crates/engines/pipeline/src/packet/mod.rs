//! Packets as OpenFlow sees them: header positions, the fields that a match compares, the header actions.

mod buffer;

pub use buffer::{PacketBuffer, SlotPacket};
