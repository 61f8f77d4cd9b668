//! Meters on the wire (sections 7.3.4.4 and 7.3.5.11 to 7.3.5.13).

use super::experimenter::{put_experimenter_part, take_experimenter_part};
use super::wire::{Reader, Writer};
use crate::{
    Band, BandKind, BandStats, ErrorKind, MeterCommand, MeterConfig, MeterFeatures, MeterFlags, MeterMod, MeterStats,
};

const BAND_DROP: u16 = 1;
const BAND_DSCP_REMARK: u16 = 2;
const BAND_EXPERIMENTER: u16 = 0xffff;
/// Bytes of a band, without an experimenter's data.
const BAND_BYTES: usize = 16;

pub(super) fn take_meter_mod(reader: &mut Reader) -> Result<MeterMod, ErrorKind> {
    let command = match reader.u16()? {
        0 => MeterCommand::Add,
        1 => MeterCommand::Modify,
        2 => MeterCommand::Delete,
        _ => return Err(ErrorKind::MeterModFailedBadCommand),
    };
    Ok(MeterMod { command, flags: MeterFlags(reader.u16()?), meter: reader.u32()?, bands: take_bands(reader)? })
}

pub(super) fn put_meter_mod(out: &mut Vec<u8>, change: &MeterMod) {
    out.u16(change.command as u16);
    out.u16(change.flags.0);
    out.u32(change.meter);
    put_bands(out, &change.bands);
}

pub(super) fn take_meter_stats(reader: &mut Reader) -> Result<MeterStats, ErrorKind> {
    let (meter, length) = (reader.u32()?, usize::from(reader.u16()?));
    let length = length.checked_sub(6).ok_or(ErrorKind::BadRequestBadLen)?;
    let mut part = reader.part(length, ErrorKind::BadRequestBadLen)?;
    part.skip(6)?;
    let (flows, packets, bytes, duration_ns) = (part.u32()?, part.u64()?, part.u64()?, part.duration_ns()?);
    let mut bands = Vec::with_capacity(part.len() / 16);
    while !part.is_empty() {
        bands.push(BandStats { packets: part.u64()?, bytes: part.u64()? });
    }
    Ok(MeterStats { meter, flows, packets, bytes, duration_ns, bands })
}

pub(super) fn put_meter_stats(out: &mut Vec<u8>, stats: &MeterStats) {
    let start = out.len();
    out.u32(stats.meter);
    out.zeros(8);
    out.u32(stats.flows);
    out.u64(stats.packets);
    out.u64(stats.bytes);
    out.duration_ns(stats.duration_ns);
    for band in &stats.bands {
        out.u64(band.packets);
        out.u64(band.bytes);
    }
    out.set_length(start + 4, start);
}

pub(super) fn take_meter_config(reader: &mut Reader) -> Result<MeterConfig, ErrorKind> {
    let length = usize::from(reader.u16()?).checked_sub(2).ok_or(ErrorKind::BadRequestBadLen)?;
    let mut part = reader.part(length, ErrorKind::BadRequestBadLen)?;
    Ok(MeterConfig { flags: MeterFlags(part.u16()?), meter: part.u32()?, bands: take_bands(&mut part)? })
}

pub(super) fn put_meter_config(out: &mut Vec<u8>, config: &MeterConfig) {
    let start = out.len();
    out.zeros(2);
    out.u16(config.flags.0);
    out.u32(config.meter);
    put_bands(out, &config.bands);
    out.set_length(start, start);
}

pub(super) fn take_meter_features(reader: &mut Reader) -> Result<MeterFeatures, ErrorKind> {
    let features = MeterFeatures {
        max_meters: reader.u32()?,
        band_kinds: reader.u32()?,
        capabilities: reader.u32()?,
        max_bands: reader.u8()?,
        max_colors: reader.u8()?,
    };
    reader.skip(2)?;
    Ok(features)
}

pub(super) fn put_meter_features(out: &mut Vec<u8>, features: &MeterFeatures) {
    out.u32(features.max_meters);
    out.u32(features.band_kinds);
    out.u32(features.capabilities);
    out.u8(features.max_bands);
    out.u8(features.max_colors);
    out.zeros(2);
}

fn take_bands(reader: &mut Reader) -> Result<Vec<Band>, ErrorKind> {
    let mut bands = Vec::with_capacity(reader.len() / BAND_BYTES);
    while !reader.is_empty() {
        let (kind, length) = (reader.u16()?, usize::from(reader.u16()?));
        let longer = kind == BAND_EXPERIMENTER && length > BAND_BYTES && length.is_multiple_of(8);
        if !matches!(kind, BAND_DROP | BAND_DSCP_REMARK | BAND_EXPERIMENTER) {
            return Err(ErrorKind::MeterModFailedBadBand);
        }
        if length != BAND_BYTES && !longer {
            return Err(ErrorKind::BadRequestBadLen);
        }
        let mut band = reader.part(length - 4, ErrorKind::BadRequestBadLen)?;
        let (rate, burst_size) = (band.u32()?, band.u32()?);
        let kind = match kind {
            BAND_DROP => BandKind::Drop,
            BAND_DSCP_REMARK => BandKind::DscpRemark(band.u8()?),
            _ => BandKind::Experimenter(Box::new(take_experimenter_part(&mut band)?)),
        };
        bands.push(Band { kind, rate, burst_size });
    }
    Ok(bands)
}

fn put_bands(out: &mut Vec<u8>, bands: &[Band]) {
    for band in bands {
        let start = out.len();
        out.u16(match band.kind {
            BandKind::Drop => BAND_DROP,
            BandKind::DscpRemark(_) => BAND_DSCP_REMARK,
            BandKind::Experimenter(_) => BAND_EXPERIMENTER,
        });
        out.zeros(2);
        out.u32(band.rate);
        out.u32(band.burst_size);
        match &band.kind {
            BandKind::Drop => out.zeros(4),
            BandKind::DscpRemark(level) => {
                out.u8(*level);
                out.zeros(3);
            }
            BandKind::Experimenter(part) => put_experimenter_part(out, start, part),
        }
        out.set_length(start + 2, start);
    }
}
