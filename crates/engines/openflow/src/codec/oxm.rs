//! Matches on the wire: OXM fields (section 7.2.3).

use super::wire::{Reader, Writer};
use crate::{ErrorKind, ExperimenterField, Field, FieldMatch, Match};

/// The class of all fields of the specification (`OFPXMC_OPENFLOW_BASIC`).
const CLASS_BASIC: u16 = 0x8000;
const MATCH_TYPE_OXM: u16 = 1;

/// The 32-bit header of a field: class, number, has-mask, length of the payload.
pub fn oxm_header(field: Field, masked: bool) -> u32 {
    let length = field.bytes() << u32::from(masked);
    u32::from(CLASS_BASIC) << 16 | (field as u32) << 9 | u32::from(masked) << 8 | length as u32
}

/// Reads `ofp_match` with its padding.
pub(super) fn take_match(reader: &mut Reader) -> Result<Match, ErrorKind> {
    let kind = reader.u16()?;
    let length = usize::from(reader.u16()?);
    if kind != MATCH_TYPE_OXM {
        return Err(ErrorKind::BadMatchBadType);
    }
    if length < 4 || length - 4 > reader.len() {
        return Err(ErrorKind::BadMatchBadLen);
    }
    let mut part = reader.part(length - 4, ErrorKind::BadMatchBadLen)?;
    let matching = take_fields(&mut part)?;
    if length.wrapping_neg() % 8 > reader.len() {
        return Err(ErrorKind::BadMatchBadLen);
    }
    reader.skip(length.wrapping_neg() % 8)?;
    Ok(matching)
}

/// Writes `ofp_match` with its padding.
pub(super) fn put_match(out: &mut Vec<u8>, matching: &Match) {
    let start = out.len();
    out.u16(MATCH_TYPE_OXM);
    out.u16(0);
    if matching.experimenter_fields.is_empty() {
        for wanted in &matching.fields {
            put_field(out, wanted.field, wanted.value, wanted.mask);
        }
    } else {
        put_mixed_fields(out, matching);
    }
    out.set_length(start + 2, start);
    out.pad_to_8(start);
}

/// Writes the fields of a match that has some of experimenters between them.
#[cold]
fn put_mixed_fields(out: &mut Vec<u8>, matching: &Match) {
    let mut others = matching.experimenter_fields.iter().peekable();
    for (place, wanted) in matching.fields.iter().enumerate() {
        while let Some((_, other)) = others.next_if(|(behind, _)| *behind <= place) {
            put_experimenter_field(out, other);
        }
        put_field(out, wanted.field, wanted.value, wanted.mask);
    }
    others.for_each(|(_, other)| put_experimenter_field(out, other));
}

/// The field of a set-field action.
pub(super) enum SetField {
    Basic(Field, u128),
    Experimenter(ExperimenterField),
}

/// Reads the field of a set-field action: without a mask, unless it is an experimenter's.
pub(super) fn take_set_field(reader: &mut Reader) -> Result<SetField, ErrorKind> {
    let header = Header::take(reader)?;
    let Some(field) = header.field() else {
        if !ExperimenterField::has_class(header.class) {
            return Err(ErrorKind::BadActionBadSetType);
        }
        return header.take_rest(reader, ErrorKind::BadActionBadSetLen).map(SetField::Experimenter);
    };
    if header.masked {
        return Err(ErrorKind::BadActionBadSetType);
    }
    if header.length != field.bytes() || header.length > reader.len() {
        return Err(ErrorKind::BadActionBadSetLen);
    }
    let value = take_number(reader, field.bytes())?;
    if value & !field.full_mask() != 0 {
        return Err(ErrorKind::BadActionBadSetArgument);
    }
    Ok(SetField::Basic(field, value))
}

#[inline(always)]
pub(super) fn put_field(out: &mut Vec<u8>, field: Field, value: u128, mask: Option<u128>) {
    out.u32(oxm_header(field, mask.is_some()));
    put_number(out, value, field.bytes());
    if let Some(mask) = mask {
        put_number(out, mask, field.bytes());
    }
}

/// Data beyond the 255 bytes that a header can tell are left out.
pub(super) fn put_experimenter_field(out: &mut Vec<u8>, field: &ExperimenterField) {
    let data = &field.data[..field.data.len().min(255)];
    out.u16(field.class);
    out.u8(field.number << 1 | u8::from(field.masked));
    out.u8(data.len() as u8);
    out.extend_from_slice(data);
}

fn take_fields(reader: &mut Reader) -> Result<Match, ErrorKind> {
    // No field takes fewer bytes: a header of four, and one of the value.
    let mut fields = Vec::with_capacity((reader.len() / 5).min(Field::COUNT));
    let mut experimenter_fields = Vec::new();
    let mut seen = 0_u64;
    while !reader.is_empty() {
        let header = Header::take(reader)?;
        let Some(field) = header.field() else {
            experimenter_fields.push((fields.len(), header.take_unknown(reader)?));
            continue;
        };
        let wanted = take_field(&header, field, reader)?;
        let bit = 1 << wanted.field as u8;
        if seen & bit != 0 {
            return Err(ErrorKind::BadMatchDupField);
        }
        seen |= bit;
        fields.push(wanted);
    }
    Ok(Match { fields, experimenter_fields })
}

/// Reads what is behind a header. A VLAN ID may lack its `OFPVID_PRESENT` here: messages of other programs hold such ones.
fn take_field(header: &Header, field: Field, reader: &mut Reader) -> Result<FieldMatch, ErrorKind> {
    if header.masked && !field.is_maskable() {
        return Err(ErrorKind::BadMatchBadMask);
    }
    if header.length != field.bytes() << u32::from(header.masked) {
        return Err(ErrorKind::BadMatchBadLen);
    }
    let value = take_number(reader, field.bytes())?;
    let mask = if header.masked { Some(take_number(reader, field.bytes())?) } else { None };
    let wanted = FieldMatch { field, value, mask };
    wanted.check_bits().map(|()| wanted)
}

struct Header {
    class: u16,
    number: u8,
    masked: bool,
    length: usize,
}

impl Header {
    #[inline]
    fn take(reader: &mut Reader) -> Result<Header, ErrorKind> {
        let [high, low, field, length] = reader.array()?;
        let class = u16::from_be_bytes([high, low]);
        Ok(Header { class, number: field >> 1, masked: field & 1 == 1, length: usize::from(length) })
    }

    fn field(&self) -> Option<Field> {
        (self.class == CLASS_BASIC).then(|| Field::from_number(self.number)).flatten()
    }

    /// Reads what is behind the header of a field of a match that the specification does not define.
    #[cold]
    fn take_unknown(&self, reader: &mut Reader) -> Result<ExperimenterField, ErrorKind> {
        if !ExperimenterField::has_class(self.class) {
            return Err(ErrorKind::BadMatchBadField);
        }
        self.take_rest(reader, ErrorKind::BadMatchBadLen)
    }

    /// Reads what is behind the header of an experimenter's field.
    fn take_rest(&self, reader: &mut Reader, short: ErrorKind) -> Result<ExperimenterField, ErrorKind> {
        let data = reader.bytes(self.length).map_err(|_| short)?.into();
        Ok(ExperimenterField { class: self.class, number: self.number, masked: self.masked, data })
    }
}

/// Reads a number of so many bytes.
#[inline]
pub(super) fn take_number(reader: &mut Reader, bytes: usize) -> Result<u128, ErrorKind> {
    Ok(match bytes {
        1 => reader.u8()?.into(),
        2 => reader.u16()?.into(),
        4 => reader.u32()?.into(),
        8 => reader.u64()?.into(),
        16 => u128::from_be_bytes(reader.array()?),
        _ => reader.bytes(bytes)?.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)).into(),
    })
}

#[inline]
fn put_number(out: &mut Vec<u8>, value: u128, bytes: usize) {
    out.extend_from_slice(&value.to_be_bytes()[16 - bytes..]);
}
