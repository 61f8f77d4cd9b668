//! Body of the fuzz target `openflow_message`: any bytes as a message, to a switch or to a controller. Also run by the tests of `linerate-openflow`.

use linerate_openflow::{Message, decode, encode};

/// What can be decoded is the same message again when it is encoded, and is checked as a switch does.
pub fn run(data: &[u8]) {
    let mut bytes = data.to_vec();
    // The fuzzer need not find out the length.
    if let (Some(length), Ok(wanted)) = (bytes.get_mut(2..4), u16::try_from(data.len())) {
        length.copy_from_slice(&wanted.to_be_bytes());
    }
    let Ok((xid, message)) = decode(&bytes) else { return };
    let mut again = Vec::new();
    if encode(&mut again, xid, &message).is_ok() {
        assert_eq!(decode(&again).as_ref(), Ok(&(xid, message.clone())));
    }
    let _ = match &message {
        Message::FlowMod(change) => change.check(),
        Message::GroupMod(change) => change.check(),
        Message::MeterMod(change) => change.check(),
        Message::PacketOut(packet) => packet.check(),
        _ => Ok(()),
    };
}
