//! The interface that a packet is on, as a part of a key: found in kernel memory by the offsets of the running kernel.

use crate::asm::{Assembler, Label};
use crate::btf::{Btf, BtfError};
use crate::error::BpfError;
use crate::insn::{Alu, Cond, Reg, Reg::*, Width, helper};

/// Most namespaces that one program watches.
pub const NAMESPACES_MAX: usize = 16;

/// Where a program keeps the pointers that it reads.
const POINTER: i16 = -8;

/// Where `struct net_device` keeps the interface's index and its namespace's number, in bytes.
pub(super) struct DeviceLayout {
    ifindex: u32,
    net: u32,
    inum: u32,
}

impl DeviceLayout {
    pub(super) fn read(btf: &Btf) -> Result<DeviceLayout, BtfError> {
        Ok(DeviceLayout {
            ifindex: btf.offset_bytes("net_device", &["ifindex"])?,
            net: btf.offset_bytes("net_device", &["nd_net", "net"])?,
            inum: btf.offset_bytes("net", &["ns", "inum"])?,
        })
    }

    /// Emits: 32 bits of the namespace's number at `key` from the frame pointer and of the interface's index behind them, by the
    /// pointer to the device in `R9`; or goes to `out`, if the namespace is none of these. Uses `R6`, the 8 bytes below the frame
    /// pointer, and what calls use.
    pub(super) fn emit(&self, asm: &mut Assembler, namespaces: &[u32], key: i16, out: Label) {
        let wanted = asm.label();
        asm.jump_if(Cond::Eq, R9, 0, out);
        emit_read(asm, POINTER, 8, R9, self.net, out);
        asm.load(Width::Dw, R6, R10, POINTER);
        emit_read(asm, key, 4, R6, self.inum, out);
        asm.load(Width::W, R1, R10, key);
        for namespace in namespaces {
            asm.jump_if32(Cond::Eq, R1, *namespace as i32, wanted);
        }
        asm.jump(out);
        asm.bind(wanted);
        emit_read(asm, key + 4, 4, R9, self.ifindex, out);
    }
}

/// Reads a pointer of kernel memory, `offset` after the address in `base`, into `to`; goes to `failed` if there is none.
pub(super) fn emit_pointer(asm: &mut Assembler, to: Reg, base: Reg, offset: u32, failed: Label) {
    emit_read(asm, POINTER, 8, base, offset, failed);
    asm.load(Width::Dw, to, R10, POINTER);
}

/// Reads `bytes` bytes of kernel memory, `offset` after the address in `base`, to the stack; goes to `failed` if there is none.
pub(super) fn emit_read(asm: &mut Assembler, to: i16, bytes: i32, base: Reg, offset: u32, failed: Label) {
    asm.mov64(R1, R10);
    asm.alu64(Alu::Add, R1, i32::from(to));
    asm.mov64(R2, bytes);
    asm.mov64(R3, base);
    asm.alu64(Alu::Add, R3, offset as i32);
    asm.call(helper::PROBE_READ_KERNEL);
    asm.jump_if(Cond::Ne, R0, 0, failed);
}

/// Refuses lists of namespaces that no program can watch.
pub(super) fn check(namespaces: &[u32]) -> Result<(), BpfError> {
    if namespaces.is_empty() || namespaces.len() > NAMESPACES_MAX {
        let text = format!("drops of {} namespaces: 1 to {NAMESPACES_MAX} are possible", namespaces.len());
        return Err(BpfError::Argument(text));
    }
    Ok(())
}

/// Where a tracepoint's program finds an argument of a type, in bytes of its context. The first parameter is the tracepoint's own and
/// no argument.
pub(super) fn argument(btf: &Btf, tracepoint: &str, wanted: &str) -> Result<i16, BtfError> {
    let parameters = btf.parameters(&format!("btf_trace_{tracepoint}"))?;
    let position = parameters.iter().skip(1).position(|parameter| parameter == wanted);
    let offset = position.and_then(|position| i16::try_from(position * 8).ok());
    offset.ok_or_else(|| BtfError::Missing(format!("argument `{wanted}` of the tracepoint {tracepoint}")))
}
