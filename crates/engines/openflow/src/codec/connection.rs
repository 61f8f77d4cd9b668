//! Hello, errors, configuration and roles on the wire (sections 7.3.1, 7.3.2, 7.3.9, 7.3.10, 7.4.4, 7.5.1).

use super::wire::{Reader, Writer};
use crate::{
    AsyncConfig, ControllerRole, ErrorKind, ErrorMessage, Fragments, Hello, RoleMessage, SwitchConfig, SwitchFeatures,
    TableMod,
};

const ELEMENT_VERSION_BITMAP: u16 = 1;

/// Reads the elements of a hello. Unknown elements are skipped, and everything behind one with a wrong length: a peer is not sent away for what
/// a later version may have put there.
pub(super) fn take_hello(reader: &mut Reader) -> Hello {
    let mut hello = Hello { versions: None };
    while let Some((kind, mut body)) = take_element(reader) {
        if kind == ELEMENT_VERSION_BITMAP && hello.versions.is_none() {
            hello.versions = body.u32().ok();
        }
    }
    hello
}

fn take_element<'a>(reader: &mut Reader<'a>) -> Option<(u16, Reader<'a>)> {
    let (kind, length) = (reader.u16().ok()?, usize::from(reader.u16().ok()?));
    let body = reader.part(length.checked_sub(4)?, ErrorKind::BadRequestBadLen).ok()?;
    reader.skip_padding(length.wrapping_neg() % 8);
    Some((kind, body))
}

pub(super) fn put_hello(out: &mut Vec<u8>, hello: Hello) {
    if let Some(versions) = hello.versions {
        out.u16(ELEMENT_VERSION_BITMAP);
        out.u16(8);
        out.u32(versions);
    }
}

pub(super) fn take_error(reader: &mut Reader) -> Result<ErrorMessage, ErrorKind> {
    Ok(ErrorMessage { kind: reader.u16()?, code: reader.u16()?, data: reader.rest().to_vec() })
}

pub(super) fn put_error(out: &mut Vec<u8>, error: &ErrorMessage) {
    out.u16(error.kind);
    out.u16(error.code);
    out.extend_from_slice(&error.data);
}

pub(super) fn take_features(reader: &mut Reader) -> Result<SwitchFeatures, ErrorKind> {
    let (datapath_id, buffers, tables, auxiliary_id) = (reader.u64()?, reader.u32()?, reader.u8()?, reader.u8()?);
    reader.skip(2)?;
    let capabilities = reader.u32()?;
    reader.skip(4)?;
    Ok(SwitchFeatures { datapath_id, buffers, tables, auxiliary_id, capabilities })
}

pub(super) fn put_features(out: &mut Vec<u8>, features: &SwitchFeatures) {
    out.u64(features.datapath_id);
    out.u32(features.buffers);
    out.u8(features.tables);
    out.u8(features.auxiliary_id);
    out.zeros(2);
    out.u32(features.capabilities);
    out.zeros(4);
}

pub(super) fn take_config(reader: &mut Reader) -> Result<SwitchConfig, ErrorKind> {
    let fragments = match reader.u16()? {
        0 => Fragments::Normal,
        1 => Fragments::Drop,
        2 => Fragments::Reassemble,
        _ => return Err(ErrorKind::SwitchConfigFailedBadFlags),
    };
    Ok(SwitchConfig { fragments, miss_send_len: reader.u16()? })
}

pub(super) fn put_config(out: &mut Vec<u8>, config: SwitchConfig) {
    out.u16(config.fragments as u16);
    out.u16(config.miss_send_len);
}

pub(super) fn take_role(reader: &mut Reader) -> Result<RoleMessage, ErrorKind> {
    let role = match reader.u32()? {
        0 => ControllerRole::NoChange,
        1 => ControllerRole::Equal,
        2 => ControllerRole::Master,
        3 => ControllerRole::Slave,
        _ => return Err(ErrorKind::RoleRequestFailedBadRole),
    };
    reader.skip(4)?;
    Ok(RoleMessage { role, generation_id: reader.u64()? })
}

pub(super) fn put_role(out: &mut Vec<u8>, message: RoleMessage) {
    out.u32(message.role as u32);
    out.zeros(4);
    out.u64(message.generation_id);
}

pub(super) fn take_async(reader: &mut Reader) -> Result<AsyncConfig, ErrorKind> {
    let mut pair = || Ok::<_, ErrorKind>([reader.u32()?, reader.u32()?]);
    Ok(AsyncConfig { packet_in: pair()?, port_status: pair()?, flow_removed: pair()? })
}

pub(super) fn put_async(out: &mut Vec<u8>, config: &AsyncConfig) {
    for bits in [config.packet_in, config.port_status, config.flow_removed].as_flattened() {
        out.u32(*bits);
    }
}

pub(super) fn take_table_mod(reader: &mut Reader) -> Result<TableMod, ErrorKind> {
    let table = reader.u8()?;
    reader.skip(3)?;
    Ok(TableMod { table, config: reader.u32()? })
}

pub(super) fn put_table_mod(out: &mut Vec<u8>, change: TableMod) {
    out.u8(change.table);
    out.zeros(3);
    out.u32(change.config);
}
