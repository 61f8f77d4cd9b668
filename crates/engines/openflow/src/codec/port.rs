//! Ports and their queues on the wire (sections 7.2.1, 7.2.2, 7.3.4.3, 7.3.5.6, 7.3.5.7, 7.3.6, 7.4.3).

use super::wire::{Reader, Writer};
use crate::{
    ErrorKind, ExperimenterPart, PortConfig, PortDescription, PortMod, PortNumber, PortState, PortStats, PortStatus,
    PortStatusReason, QueueConfig, QueueStats,
};

const NAME_BYTES: usize = 16;

pub(super) fn take_port(reader: &mut Reader) -> Result<PortDescription, ErrorKind> {
    let number = PortNumber(reader.u32()?);
    reader.skip(4)?;
    let hw_addr = reader.array()?;
    reader.skip(2)?;
    Ok(PortDescription {
        number,
        hw_addr,
        name: reader.text(NAME_BYTES)?,
        config: PortConfig(reader.u32()?),
        state: PortState(reader.u32()?),
        current: reader.u32()?,
        advertised: reader.u32()?,
        supported: reader.u32()?,
        peer: reader.u32()?,
        current_kbps: reader.u32()?,
        max_kbps: reader.u32()?,
    })
}

pub(super) fn put_port(out: &mut Vec<u8>, port: &PortDescription) {
    out.u32(port.number.0);
    out.zeros(4);
    out.extend_from_slice(&port.hw_addr);
    out.zeros(2);
    out.text(&port.name, NAME_BYTES);
    out.u32(port.config.0);
    out.u32(port.state.0);
    for number in [port.current, port.advertised, port.supported, port.peer, port.current_kbps, port.max_kbps] {
        out.u32(number);
    }
}

pub(super) fn take_port_status(reader: &mut Reader) -> Result<PortStatus, ErrorKind> {
    let reason = match reader.u8()? {
        0 => PortStatusReason::Add,
        1 => PortStatusReason::Delete,
        2 => PortStatusReason::Modify,
        _ => return Err(ErrorKind::BadRequestBadType),
    };
    reader.skip(7)?;
    Ok(PortStatus { reason, port: take_port(reader)? })
}

pub(super) fn put_port_status(out: &mut Vec<u8>, status: &PortStatus) {
    out.u8(status.reason as u8);
    out.zeros(7);
    put_port(out, &status.port);
}

pub(super) fn take_port_mod(reader: &mut Reader) -> Result<PortMod, ErrorKind> {
    let number = PortNumber(reader.u32()?);
    reader.skip(4)?;
    let hw_addr = reader.array()?;
    reader.skip(2)?;
    let (config, mask, advertise) = (PortConfig(reader.u32()?), reader.u32()?, reader.u32()?);
    reader.skip(4)?;
    Ok(PortMod { number, hw_addr, config, mask, advertise })
}

pub(super) fn put_port_mod(out: &mut Vec<u8>, change: &PortMod) {
    out.u32(change.number.0);
    out.zeros(4);
    out.extend_from_slice(&change.hw_addr);
    out.zeros(2);
    out.u32(change.config.0);
    out.u32(change.mask);
    out.u32(change.advertise);
    out.zeros(4);
}

pub(super) fn take_port_stats(reader: &mut Reader) -> Result<PortStats, ErrorKind> {
    let port = PortNumber(reader.u32()?);
    reader.skip(4)?;
    Ok(PortStats {
        port,
        rx_packets: reader.u64()?,
        tx_packets: reader.u64()?,
        rx_bytes: reader.u64()?,
        tx_bytes: reader.u64()?,
        rx_dropped: reader.u64()?,
        tx_dropped: reader.u64()?,
        rx_errors: reader.u64()?,
        tx_errors: reader.u64()?,
        rx_frame_errors: reader.u64()?,
        rx_over_errors: reader.u64()?,
        rx_crc_errors: reader.u64()?,
        collisions: reader.u64()?,
        duration_ns: reader.duration_ns()?,
    })
}

pub(super) fn put_port_stats(out: &mut Vec<u8>, stats: &PortStats) {
    out.u32(stats.port.0);
    out.zeros(4);
    out.u64(stats.rx_packets);
    out.u64(stats.tx_packets);
    out.u64(stats.rx_bytes);
    out.u64(stats.tx_bytes);
    out.u64(stats.rx_dropped);
    out.u64(stats.tx_dropped);
    out.u64(stats.rx_errors);
    out.u64(stats.tx_errors);
    out.u64(stats.rx_frame_errors);
    out.u64(stats.rx_over_errors);
    out.u64(stats.rx_crc_errors);
    out.u64(stats.collisions);
    out.duration_ns(stats.duration_ns);
}

pub(super) fn take_queue_stats(reader: &mut Reader) -> Result<QueueStats, ErrorKind> {
    Ok(QueueStats {
        port: PortNumber(reader.u32()?),
        queue: reader.u32()?,
        tx_bytes: reader.u64()?,
        tx_packets: reader.u64()?,
        tx_errors: reader.u64()?,
        duration_ns: reader.duration_ns()?,
    })
}

pub(super) fn put_queue_stats(out: &mut Vec<u8>, stats: &QueueStats) {
    out.u32(stats.port.0);
    out.u32(stats.queue);
    out.u64(stats.tx_bytes);
    out.u64(stats.tx_packets);
    out.u64(stats.tx_errors);
    out.duration_ns(stats.duration_ns);
}

const PROPERTY_MIN_RATE: u16 = 1;
const PROPERTY_MAX_RATE: u16 = 2;
const PROPERTY_EXPERIMENTER: u16 = 0xffff;

/// Reads `ofp_packet_queue`. Unknown properties are skipped.
pub(super) fn take_queue_config(reader: &mut Reader) -> Result<QueueConfig, ErrorKind> {
    let (queue, port) = (reader.u32()?, PortNumber(reader.u32()?));
    let length = usize::from(reader.u16()?).checked_sub(10).ok_or(ErrorKind::BadRequestBadLen)?;
    let mut part = reader.part(length, ErrorKind::BadRequestBadLen)?;
    part.skip(6)?;
    let mut config = QueueConfig { port, queue, min_rate: None, max_rate: None, experimenters: Vec::new() };
    while !part.is_empty() {
        let (kind, length) = (part.u16()?, usize::from(part.u16()?));
        let length = length.checked_sub(4).ok_or(ErrorKind::BadRequestBadLen)?;
        let mut property = part.part(length, ErrorKind::BadRequestBadLen)?;
        property.skip(4)?;
        match kind {
            PROPERTY_MIN_RATE => config.min_rate = Some(property.u16()?),
            PROPERTY_MAX_RATE => config.max_rate = Some(property.u16()?),
            PROPERTY_EXPERIMENTER => {
                let experimenter = property.u32()?;
                property.skip(4)?;
                config.experimenters.push(ExperimenterPart { experimenter, data: property.rest().into() });
            }
            _ => {}
        }
    }
    Ok(config)
}

pub(super) fn put_queue_config(out: &mut Vec<u8>, config: &QueueConfig) {
    let start = out.len();
    out.u32(config.queue);
    out.u32(config.port.0);
    out.zeros(8);
    for (kind, rate) in [(PROPERTY_MIN_RATE, config.min_rate), (PROPERTY_MAX_RATE, config.max_rate)] {
        if let Some(rate) = rate {
            out.u16(kind);
            out.u16(16);
            out.zeros(4);
            out.u16(rate);
            out.zeros(6);
        }
    }
    for property in &config.experimenters {
        let start = out.len();
        out.u16(PROPERTY_EXPERIMENTER);
        out.zeros(6);
        out.u32(property.experimenter);
        out.zeros(4);
        out.extend_from_slice(&property.data);
        out.set_length(start + 2, start);
    }
    out.set_length(start + 8, start);
}
