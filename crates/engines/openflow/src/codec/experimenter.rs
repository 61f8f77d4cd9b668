//! Experimenter messages on the wire (section 7.5.4), which hold bytes that only their maker knows.

use super::wire::{Reader, Writer};
use crate::{ErrorKind, Experimenter};

pub(super) fn take_experimenter(reader: &mut Reader) -> Result<Experimenter, ErrorKind> {
    Ok(Experimenter { experimenter: reader.u32()?, kind: reader.u32()?, data: reader.rest().to_vec() })
}

pub(super) fn put_experimenter(out: &mut Vec<u8>, message: &Experimenter) {
    out.u32(message.experimenter);
    out.u32(message.kind);
    out.extend_from_slice(&message.data);
}
