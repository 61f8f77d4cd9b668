//! A small eBPF assembler: instructions appended one by one, jumps to labels resolved at the end.
//!
//! ```
//! use linerate_bpf::asm::Assembler;
//! use linerate_bpf::insn::{action, Cond, Reg::*, Width, xdp_md};
//!
//! let mut asm = Assembler::new();
//! let pass = asm.label();
//! asm.load(Width::W, R2, R1, xdp_md::RX_QUEUE_INDEX);
//! asm.mov64(R0, action::PASS);
//! asm.jump_if(Cond::Ne, R2, 0, pass);
//! asm.mov64(R0, action::DROP);
//! asm.bind(pass);
//! asm.exit();
//! assert_eq!(asm.assemble().unwrap().len(), 5);
//! ```
//!
//! Source: RFC 9669.

use std::os::fd::RawFd;

use crate::assemble_error::AssembleError;
use crate::insn::{Alu, Atomic, Cond, Insn, Operand, Reg, Width, class, helper};
use crate::map::Map;

/// A place in the program that jumps can name before it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// A program under construction.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    slots: Vec<Insn>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
    error: Option<AssembleError>,
}

impl Assembler {
    /// An empty program.
    pub fn new() -> Assembler {
        Assembler::default()
    }

    /// Resolves the jumps and returns the program.
    ///
    /// # Errors
    /// The first mistake made while appending, an unbound label, or a jump out of range.
    pub fn assemble(mut self) -> Result<Vec<Insn>, AssembleError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        for (slot, label) in self.jumps {
            let target = self.labels.get(label.0).copied().flatten();
            let target = target.ok_or(AssembleError::Unbound { slot, label: label.0 })?;
            let distance = target as i64 - slot as i64 - 1;
            self.slots[slot].off = i16::try_from(distance).map_err(|_| AssembleError::TooFar { slot, distance })?;
        }
        Ok(self.slots)
    }

    /// A new label, not yet bound.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Binds `label` to the next instruction.
    pub fn bind(&mut self, label: Label) {
        let here = self.slots.len();
        match self.labels.get_mut(label.0) {
            Some(place @ None) => *place = Some(here),
            _ => self.fail(AssembleError::BoundTwice { label: label.0 }),
        }
    }

    /// `dst = dst OP operand` on 64 bits.
    pub fn alu64(&mut self, op: Alu, dst: Reg, operand: impl Into<Operand>) {
        self.operation(class::ALU64 | op as u8, dst, operand.into(), 0);
    }

    /// `dst = dst OP operand` on 32 bits; the upper half of `dst` becomes 0.
    pub fn alu32(&mut self, op: Alu, dst: Reg, operand: impl Into<Operand>) {
        self.operation(class::ALU | op as u8, dst, operand.into(), 0);
    }

    /// `dst = operand` on 64 bits; an immediate is sign-extended.
    pub fn mov64(&mut self, dst: Reg, operand: impl Into<Operand>) {
        self.alu64(Alu::Mov, dst, operand);
    }

    /// `dst = operand` on 32 bits; the upper half of `dst` becomes 0.
    pub fn mov32(&mut self, dst: Reg, operand: impl Into<Operand>) {
        self.alu32(Alu::Mov, dst, operand);
    }

    /// Converts the low `bits` of `dst` between host and big-endian order, and clears the rest.
    pub fn to_big_endian(&mut self, dst: Reg, bits: i32) {
        self.swap(class::ALU | class::END | class::SOURCE_REG, dst, bits);
    }

    /// `dst = *(src + off)`, zero-extended.
    pub fn load(&mut self, width: Width, dst: Reg, src: Reg, off: i16) {
        self.push(class::LDX | class::MODE_MEM | width as u8, dst as u8, src as u8, off, 0);
    }

    /// `*(dst + off) = src`.
    pub fn store(&mut self, width: Width, dst: Reg, off: i16, src: Reg) {
        self.push(class::STX | class::MODE_MEM | width as u8, dst as u8, src as u8, off, 0);
    }

    /// `*(dst + off) = imm`; eight bytes are sign-extended.
    pub fn store_imm(&mut self, width: Width, dst: Reg, off: i16, imm: i32) {
        self.push(class::ST | class::MODE_MEM | width as u8, dst as u8, 0, off, imm);
    }

    /// Atomically `*(dst + off) OP= src`; the width must be `W` or `Dw`, which the kernel checks.
    pub fn atomic(&mut self, op: Atomic, width: Width, dst: Reg, off: i16, src: Reg) {
        let code = class::STX | class::MODE_ATOMIC | width as u8;
        self.push(code, dst as u8, src as u8, off, op as i32);
    }

    /// `dst = value`, in two slots.
    pub fn load_imm64(&mut self, dst: Reg, value: u64) {
        self.wide(dst, 0, value as u32 as i32, (value >> 32) as i32);
    }

    /// `dst = map`, as helpers take it.
    pub fn load_map(&mut self, dst: Reg, map: &Map) {
        self.load_map_fd(dst, map.raw_fd());
    }

    /// `dst = address of byte `offset` in the only element of `map``, an array of one element.
    pub fn load_map_value(&mut self, dst: Reg, map: &Map, offset: u32) {
        self.wide(dst, class::PSEUDO_MAP_VALUE, map.raw_fd(), offset as i32);
    }

    /// Goes to `label`.
    pub fn jump(&mut self, label: Label) {
        self.branch(class::JMP, Reg::R0, Operand::Imm(0), label);
    }

    /// Goes to `label` if `dst COND operand` on 64 bits.
    pub fn jump_if(&mut self, cond: Cond, dst: Reg, operand: impl Into<Operand>, label: Label) {
        self.branch(class::JMP | cond as u8, dst, operand.into(), label);
    }

    /// Goes to `label` if `dst COND operand` on the low 32 bits.
    pub fn jump_if32(&mut self, cond: Cond, dst: Reg, operand: impl Into<Operand>, label: Label) {
        self.branch(class::JMP32 | cond as u8, dst, operand.into(), label);
    }

    /// Calls a kernel function of [`helper`]; `R0` is the result and `R1` to `R5` are lost.
    pub fn call(&mut self, function: i32) {
        self.push(class::JMP | class::CALL, 0, 0, 0, function);
    }

    /// Ends the program with `R0` as its result.
    pub fn exit(&mut self) {
        self.push(class::JMP | class::EXIT, 0, 0, 0, 0);
    }

    /// `R0 = CLOCK_MONOTONIC` in ns; `R1` to `R5` are lost.
    pub fn ktime(&mut self) {
        self.call(helper::KTIME_GET_NS);
    }

    fn load_map_fd(&mut self, dst: Reg, fd: RawFd) {
        self.wide(dst, class::PSEUDO_MAP_FD, fd, 0);
    }

    fn wide(&mut self, dst: Reg, src: u8, low: i32, high: i32) {
        let code = class::LD | class::MODE_IMM | Width::Dw as u8;
        self.push(code, dst as u8, src, 0, low);
        self.push(0, 0, 0, 0, high);
    }

    fn swap(&mut self, code: u8, dst: Reg, bits: i32) {
        if !matches!(bits, 16 | 32 | 64) {
            let slot = self.slots.len();
            self.fail(AssembleError::SwapWidth { slot, bits });
        }
        self.push(code, dst as u8, 0, 0, bits);
    }

    fn branch(&mut self, code: u8, dst: Reg, operand: Operand, label: Label) {
        self.jumps.push((self.slots.len(), label));
        self.operation(code, dst, operand, 0);
    }

    fn operation(&mut self, code: u8, dst: Reg, operand: Operand, off: i16) {
        match operand {
            Operand::Reg(src) => self.push(code | class::SOURCE_REG, dst as u8, src as u8, off, 0),
            Operand::Imm(imm) => self.push(code, dst as u8, 0, off, imm),
        }
    }

    fn push(&mut self, code: u8, dst: u8, src: u8, off: i16, imm: i32) {
        self.slots.push(Insn { code, dst, src, off, imm });
    }

    fn fail(&mut self, error: AssembleError) {
        self.error.get_or_insert(error);
    }
}

#[cfg(test)]
mod tests;
