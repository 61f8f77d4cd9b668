//! Tables on the wire: counters and features (sections 7.3.5.4 and 7.3.5.5).

use super::experimenter::{put_experimenter, take_experimenter};
use super::wire::{Reader, Writer};
use crate::{ErrorKind, TableFeatures, TableProperties, TableStats};

const NAME_BYTES: usize = 32;
const EXPERIMENTER: u16 = 0xffff;

pub(super) fn take_table_stats(reader: &mut Reader) -> Result<TableStats, ErrorKind> {
    let table = reader.u8()?;
    reader.skip(3)?;
    Ok(TableStats { table, active: reader.u32()?, lookups: reader.u64()?, matches: reader.u64()? })
}

pub(super) fn put_table_stats(out: &mut Vec<u8>, stats: &TableStats) {
    out.u8(stats.table);
    out.zeros(3);
    out.u32(stats.active);
    out.u64(stats.lookups);
    out.u64(stats.matches);
}

pub(super) fn take_table_features(reader: &mut Reader) -> Result<TableFeatures, ErrorKind> {
    let short = ErrorKind::TableFeaturesFailedBadLen;
    let length = usize::from(reader.u16()?);
    if !length.is_multiple_of(8) {
        return Err(short);
    }
    let mut part = length.checked_sub(2).and_then(|rest| reader.part(rest, short).ok()).ok_or(short)?;
    let table = part.u8()?;
    part.skip(5)?;
    Ok(TableFeatures {
        table,
        name: part.text(NAME_BYTES)?,
        metadata_match: part.u64()?,
        metadata_write: part.u64()?,
        config: part.u32()?,
        max_entries: part.u32()?,
        properties: take_properties(&mut part)?,
    })
}

pub(super) fn put_table_features(out: &mut Vec<u8>, features: &TableFeatures) {
    let start = out.len();
    out.zeros(2);
    out.u8(features.table);
    out.zeros(5);
    out.text(&features.name, NAME_BYTES);
    out.u64(features.metadata_match);
    out.u64(features.metadata_write);
    out.u32(features.config);
    out.u32(features.max_entries);
    put_properties(out, &features.properties);
    out.set_length(start, start);
}

fn take_properties(part: &mut Reader) -> Result<TableProperties, ErrorKind> {
    let short = ErrorKind::TableFeaturesFailedBadLen;
    let mut properties = TableProperties::default();
    while !part.is_empty() {
        let (kind, length) = (part.u16()?, usize::from(part.u16()?));
        let mut body = length.checked_sub(4).and_then(|rest| part.part(rest, short).ok()).ok_or(short)?;
        part.skip_padding(length.wrapping_neg() % 8);
        let side = usize::from(kind & 1);
        match kind {
            0 | 1 => set(&mut properties.instructions[side], take_types(&mut body)?)?,
            2 | 3 => set(&mut properties.next_tables[side], body.rest().to_vec())?,
            4 | 5 => set(&mut properties.write_actions[side], take_types(&mut body)?)?,
            6 | 7 => set(&mut properties.apply_actions[side], take_types(&mut body)?)?,
            8 => set(&mut properties.matches, take_fields(&mut body)?)?,
            10 => set(&mut properties.wildcards, take_fields(&mut body)?)?,
            12 | 13 => set(&mut properties.write_set_fields[side], take_fields(&mut body)?)?,
            14 | 15 => set(&mut properties.apply_set_fields[side], take_fields(&mut body)?)?,
            0xfffe | 0xffff => properties.experimenters[side].push(take_experimenter(&mut body)?),
            _ => return Err(ErrorKind::TableFeaturesFailedBadType),
        }
    }
    Ok(properties)
}

/// A property that occurs twice is refused.
fn set<T>(place: &mut Option<T>, value: T) -> Result<(), ErrorKind> {
    if place.replace(value).is_some() { Err(ErrorKind::TableFeaturesFailedBadType) } else { Ok(()) }
}

/// Types of instructions or actions. Those of experimenters, which are longer, are left out.
fn take_types(body: &mut Reader) -> Result<Vec<u16>, ErrorKind> {
    let mut types = Vec::with_capacity(body.len() / 4);
    while !body.is_empty() {
        let (kind, length) = (body.u16()?, usize::from(body.u16()?));
        body.skip(length.checked_sub(4).ok_or(ErrorKind::TableFeaturesFailedBadLen)?)?;
        if kind != EXPERIMENTER {
            types.push(kind);
        }
    }
    Ok(types)
}

/// Headers of fields. Those of experimenters, which are longer, are left out.
fn take_fields(body: &mut Reader) -> Result<Vec<u32>, ErrorKind> {
    let mut fields = Vec::with_capacity(body.len() / 4);
    while !body.is_empty() {
        let header = body.u32()?;
        if (header >> 16) as u16 == EXPERIMENTER {
            body.skip(4)?;
        } else {
            fields.push(header);
        }
    }
    Ok(fields)
}

fn put_properties(out: &mut Vec<u8>, properties: &TableProperties) {
    put_types(out, 0, &properties.instructions);
    for (side, tables) in properties.next_tables.iter().enumerate() {
        put_property(out, 2 + side as u16, tables.as_deref(), |out, table| out.u8(*table));
    }
    put_types(out, 4, &properties.write_actions);
    put_types(out, 6, &properties.apply_actions);
    put_property(out, 8, properties.matches.as_deref(), |out, field| out.u32(*field));
    put_property(out, 10, properties.wildcards.as_deref(), |out, field| out.u32(*field));
    put_fields(out, 12, &properties.write_set_fields);
    put_fields(out, 14, &properties.apply_set_fields);
    for (side, experimenters) in properties.experimenters.iter().enumerate() {
        for property in experimenters {
            put_property(out, 0xfffe + side as u16, Some(&[property]), |out, property| put_experimenter(out, property));
        }
    }
}

fn put_types(out: &mut Vec<u8>, kind: u16, sides: &[Option<Vec<u16>>; 2]) {
    for (side, types) in sides.iter().enumerate() {
        put_property(out, kind + side as u16, types.as_deref(), |out, number| {
            out.u16(*number);
            out.u16(4);
        });
    }
}

fn put_fields(out: &mut Vec<u8>, kind: u16, sides: &[Option<Vec<u32>>; 2]) {
    for (side, fields) in sides.iter().enumerate() {
        put_property(out, kind + side as u16, fields.as_deref(), |out, field| out.u32(*field));
    }
}

fn put_property<T>(out: &mut Vec<u8>, kind: u16, items: Option<&[T]>, put: impl Fn(&mut Vec<u8>, &T)) {
    let Some(items) = items else { return };
    let start = out.len();
    out.u16(kind);
    out.zeros(2);
    items.iter().for_each(|item| put(out, item));
    out.set_length(start + 2, start);
    out.pad_to_8(start);
}
