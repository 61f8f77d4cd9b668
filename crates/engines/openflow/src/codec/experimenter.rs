//! Messages and parts of experimenters on the wire (sections 7.5.4, 7.2.4, 7.2.5 and 7.3.5.5), which hold bytes that only their maker knows.

use super::wire::{Reader, Writer};
use crate::{ErrorKind, Experimenter, ExperimenterPart};

pub(super) fn take_experimenter(reader: &mut Reader) -> Result<Experimenter, ErrorKind> {
    Ok(Experimenter { experimenter: reader.u32()?, kind: reader.u32()?, data: reader.rest().to_vec() })
}

pub(super) fn put_experimenter(out: &mut Vec<u8>, message: &Experimenter) {
    out.u32(message.experimenter);
    out.u32(message.kind);
    out.extend_from_slice(&message.data);
}

/// Reads the number of an experimenter, and what is behind it.
pub(super) fn take_experimenter_part(reader: &mut Reader) -> Result<ExperimenterPart, ErrorKind> {
    Ok(ExperimenterPart { experimenter: reader.u32()?, data: reader.rest().into() })
}

/// Writes a part that began at `start`, padded to a multiple of 8.
pub(super) fn put_experimenter_part(out: &mut Vec<u8>, start: usize, part: &ExperimenterPart) {
    out.u32(part.experimenter);
    out.extend_from_slice(&part.data);
    out.pad_to_8(start);
}
