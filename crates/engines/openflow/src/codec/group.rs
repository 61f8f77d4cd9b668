//! Groups on the wire (sections 7.3.4.3 and 7.3.5.8 to 7.3.5.10).

use super::action::{put_actions, take_actions};
use super::wire::{Reader, Writer};
use crate::{
    Bucket, BucketStats, ErrorKind, GroupCommand, GroupDescription, GroupFeatures, GroupKind, GroupMod, GroupStats,
    PortNumber,
};

pub(super) fn take_group_mod(reader: &mut Reader) -> Result<GroupMod, ErrorKind> {
    let command = match reader.u16()? {
        0 => GroupCommand::Add,
        1 => GroupCommand::Modify,
        2 => GroupCommand::Delete,
        _ => return Err(ErrorKind::GroupModFailedBadCommand),
    };
    let kind = take_kind(reader)?;
    reader.skip(1)?;
    Ok(GroupMod { command, kind, group: reader.u32()?, buckets: take_buckets(reader)? })
}

pub(super) fn put_group_mod(out: &mut Vec<u8>, change: &GroupMod) {
    out.u16(change.command as u16);
    out.u8(change.kind as u8);
    out.zeros(1);
    out.u32(change.group);
    put_buckets(out, &change.buckets);
}

pub(super) fn take_group_stats(reader: &mut Reader) -> Result<GroupStats, ErrorKind> {
    let length = usize::from(reader.u16()?).checked_sub(2).ok_or(ErrorKind::BadRequestBadLen)?;
    let mut part = reader.part(length, ErrorKind::BadRequestBadLen)?;
    part.skip(2)?;
    let (group, references) = (part.u32()?, part.u32()?);
    part.skip(4)?;
    let (packets, bytes, duration_ns) = (part.u64()?, part.u64()?, part.duration_ns()?);
    let mut buckets = Vec::with_capacity(part.len() / 16);
    while !part.is_empty() {
        buckets.push(BucketStats { packets: part.u64()?, bytes: part.u64()? });
    }
    Ok(GroupStats { group, references, packets, bytes, duration_ns, buckets })
}

pub(super) fn put_group_stats(out: &mut Vec<u8>, stats: &GroupStats) {
    let start = out.len();
    out.zeros(4);
    out.u32(stats.group);
    out.u32(stats.references);
    out.zeros(4);
    out.u64(stats.packets);
    out.u64(stats.bytes);
    out.duration_ns(stats.duration_ns);
    for bucket in &stats.buckets {
        out.u64(bucket.packets);
        out.u64(bucket.bytes);
    }
    out.set_length(start, start);
}

pub(super) fn take_group_description(reader: &mut Reader) -> Result<GroupDescription, ErrorKind> {
    let length = usize::from(reader.u16()?).checked_sub(2).ok_or(ErrorKind::BadRequestBadLen)?;
    let mut part = reader.part(length, ErrorKind::BadRequestBadLen)?;
    let kind = take_kind(&mut part)?;
    part.skip(1)?;
    Ok(GroupDescription { kind, group: part.u32()?, buckets: take_buckets(&mut part)? })
}

pub(super) fn put_group_description(out: &mut Vec<u8>, description: &GroupDescription) {
    let start = out.len();
    out.zeros(2);
    out.u8(description.kind as u8);
    out.zeros(1);
    out.u32(description.group);
    put_buckets(out, &description.buckets);
    out.set_length(start, start);
}

pub(super) fn take_group_features(reader: &mut Reader) -> Result<GroupFeatures, ErrorKind> {
    let (kinds, capabilities) = (reader.u32()?, reader.u32()?);
    let mut four = || Ok::<_, ErrorKind>([reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?]);
    Ok(GroupFeatures { kinds, capabilities, max_groups: four()?, actions: four()? })
}

pub(super) fn put_group_features(out: &mut Vec<u8>, features: &GroupFeatures) {
    out.u32(features.kinds);
    out.u32(features.capabilities);
    for number in features.max_groups.iter().chain(&features.actions) {
        out.u32(*number);
    }
}

fn take_kind(reader: &mut Reader) -> Result<GroupKind, ErrorKind> {
    match reader.u8()? {
        0 => Ok(GroupKind::All),
        1 => Ok(GroupKind::Select),
        2 => Ok(GroupKind::Indirect),
        3 => Ok(GroupKind::FastFailover),
        _ => Err(ErrorKind::GroupModFailedBadType),
    }
}

fn take_buckets(reader: &mut Reader) -> Result<Vec<Bucket>, ErrorKind> {
    let mut buckets = Vec::new();
    while !reader.is_empty() {
        let length = usize::from(reader.u16()?);
        if length < 16 || !length.is_multiple_of(8) || length - 2 > reader.len() {
            return Err(ErrorKind::GroupModFailedBadBucket);
        }
        let mut part = reader.part(length - 2, ErrorKind::GroupModFailedBadBucket)?;
        let (weight, watch_port, watch_group) = (part.u16()?, PortNumber(part.u32()?), part.u32()?);
        part.skip(4)?;
        let actions = take_actions(&mut Reader::new(part.rest(), ErrorKind::BadActionBadLen))?;
        buckets.push(Bucket { weight, watch_port, watch_group, actions });
    }
    Ok(buckets)
}

fn put_buckets(out: &mut Vec<u8>, buckets: &[Bucket]) {
    for bucket in buckets {
        let start = out.len();
        out.zeros(2);
        out.u16(bucket.weight);
        out.u32(bucket.watch_port.0);
        out.u32(bucket.watch_group);
        out.zeros(4);
        put_actions(out, &bucket.actions);
        out.set_length(start, start);
    }
}
