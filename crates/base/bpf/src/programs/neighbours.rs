//! Counts the packets that had to wait for the address of a next hop, by network namespace, interface and next hop.
//!
//! The program stands at the tracepoint `neigh:neigh_event_send_done`, which the kernel passes for each packet to a neighbour that has
//! no confirmed address. Only packets that were not sent then count (the tracepoint's `rc` is 1): they wait in the neighbour's queue, or
//! push others out of it. Of a neighbour that never answers all of them are lost.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::OnceLock;

use super::device_key::{self, DeviceLayout};
use crate::asm::Assembler;
use crate::btf::{Btf, BtfError};
use crate::error::BpfError;
use crate::insn::{Cond, Insn, Reg::*, Width};
use crate::tally::Tally;
use crate::tracepoint::Tracepoint;

/// Different next hops that are kept apart.
const ENTRIES_MAX: u32 = 1024;

// The key on the stack: namespace, interface, family, zero, address.
const KEY: i16 = -48;
const KEY_BYTES: u32 = 32;
const KEY_FAMILY: i16 = KEY + 8;
const KEY_ZERO: i16 = KEY + 12;
const KEY_ADDRESS: i16 = KEY + 16;
const SCRATCH: i16 = -56;

const IPV4_BYTES: i32 = 4;
const IPV6_BYTES: i32 = 16;

/// The program, attached; gone when dropped.
#[derive(Debug)]
pub struct NeighbourWaits {
    _tracepoint: Tracepoint,
    tally: Tally,
}

/// A next hop on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NeighbourKey {
    /// The inode number of the network namespace.
    pub namespace: u32,
    /// The interface's index in it.
    pub interface: u32,
    /// The next hop.
    pub address: IpAddr,
}

impl NeighbourWaits {
    /// Loads and attaches the program for the namespaces with these inode numbers.
    ///
    /// # Errors
    /// As [`super::drop_reasons::DropReasons::attach`].
    pub fn attach(namespaces: &[u32]) -> Result<NeighbourWaits, BpfError> {
        device_key::check(namespaces)?;
        let tally = Tally::new("neighbours", KEY_BYTES, ENTRIES_MAX)?;
        let insns = emit(Layout::known()?, namespaces, &tally)?;
        let tracepoint = Tracepoint::attach(c"neigh_event_send_done", "linerate_neigh", &insns)?;
        Ok(NeighbourWaits { _tracepoint: tracepoint, tally })
    }

    /// Packets since the program was attached.
    ///
    /// # Errors
    /// [`BpfError::System`].
    pub fn read(&self) -> Result<BTreeMap<NeighbourKey, u64>, BpfError> {
        let entries = self.tally.read()?;
        Ok(entries.into_iter().filter_map(|(key, count)| Some((NeighbourKey::from_bytes(&key)?, count))).collect())
    }
}

impl NeighbourKey {
    fn from_bytes(bytes: &[u8]) -> Option<NeighbourKey> {
        let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let address = bytes.get(16..32)?;
        let address = match i32::try_from(word(8)?).ok()? {
            libc::AF_INET => IpAddr::from(<[u8; 4]>::try_from(address.get(..4)?).ok()?),
            libc::AF_INET6 => IpAddr::from(<[u8; 16]>::try_from(address).ok()?),
            _ => return None,
        };
        Some(NeighbourKey { namespace: word(0)?, interface: word(4)?, address })
    }
}

/// Where this kernel keeps what the program reads, in bytes.
struct Layout {
    device: DeviceLayout,
    neighbour_argument: i16,
    result_argument: i16,
    neighbour_device: u32,
    neighbour_table: u32,
    neighbour_key: u32,
    table_family: u32,
}

impl Layout {
    fn known() -> Result<&'static Layout, BpfError> {
        static KNOWN: OnceLock<Layout> = OnceLock::new();
        Ok(Btf::once(&KNOWN, Layout::read)?)
    }

    fn read(btf: &Btf) -> Result<Layout, BtfError> {
        Ok(Layout {
            device: DeviceLayout::read(btf)?,
            neighbour_argument: device_key::argument(btf, "neigh_event_send_done", "neighbour *")?,
            result_argument: device_key::argument(btf, "neigh_event_send_done", "int")?,
            neighbour_device: btf.offset_bytes("neighbour", &["dev"])?,
            neighbour_table: btf.offset_bytes("neighbour", &["tbl"])?,
            neighbour_key: btf.offset_bytes("neighbour", &["primary_key"])?,
            table_family: btf.offset_bytes("neigh_table", &["family"])?,
        })
    }
}

fn emit(layout: &Layout, namespaces: &[u32], tally: &Tally) -> Result<Vec<Insn>, BpfError> {
    let mut asm = Assembler::new();
    let (out, count) = (asm.label(), asm.label());
    asm.load(Width::Dw, R7, R1, layout.result_argument);
    asm.jump_if32(Cond::Ne, R7, 1, out);
    asm.load(Width::Dw, R8, R1, layout.neighbour_argument);
    device_key::emit_pointer(&mut asm, R9, R8, layout.neighbour_device, out);
    layout.device.emit(&mut asm, namespaces, KEY, out);
    device_key::emit_pointer(&mut asm, R7, R8, layout.neighbour_table, out);
    device_key::emit_read(&mut asm, KEY_FAMILY, 4, R7, layout.table_family, out);
    asm.store_imm(Width::W, R10, KEY_ZERO, 0);
    asm.store_imm(Width::Dw, R10, KEY_ADDRESS, 0);
    asm.store_imm(Width::Dw, R10, KEY_ADDRESS + 8, 0);
    device_key::emit_read(&mut asm, KEY_ADDRESS, IPV4_BYTES, R8, layout.neighbour_key, out);
    asm.load(Width::W, R7, R10, KEY_FAMILY);
    asm.jump_if32(Cond::Ne, R7, libc::AF_INET6, count);
    device_key::emit_read(&mut asm, KEY_ADDRESS, IPV6_BYTES, R8, layout.neighbour_key, out);
    asm.bind(count);
    tally.emit_count(&mut asm, KEY, SCRATCH);
    asm.bind(out);
    asm.mov64(R0, 0);
    asm.exit();
    Ok(asm.assemble()?)
}
