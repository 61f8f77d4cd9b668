//! Counts by key, kept by programs: a hash table of bounded size, each CPU with its own counts.
//!
//! A key that finds the table full is counted as such, so that what is missing is known.

use crate::asm::Assembler;
use crate::error::BpfError;
use crate::insn::{Alu, Cond, Reg::*, Width, helper};
use crate::map::Map;

const BPF_NOEXIST: i32 = 1;

/// A table of counts.
#[derive(Debug)]
pub struct Tally {
    counts: Map,
    overflow: Map,
    key_bytes: u32,
}

impl Tally {
    /// A table for `entries` keys of `key_bytes` bytes each.
    ///
    /// # Errors
    /// As [`Map::array`].
    pub fn new(name: &str, key_bytes: u32, entries: u32) -> Result<Tally, BpfError> {
        let counts = Map::per_cpu_hash(name, key_bytes, 8, entries)?;
        Ok(Tally { counts, overflow: Map::per_cpu_array(name, 8, 1)?, key_bytes })
    }

    /// Every key with its count, summed over the CPUs, in no order. Keys that come meanwhile may be missed.
    ///
    /// # Errors
    /// [`BpfError::System`].
    pub fn read(&self) -> Result<Vec<(Vec<u8>, u64)>, BpfError> {
        let failed = |source| BpfError::system("read a table of counts", source);
        let raw = self.counts.raw();
        let mut value = vec![0; raw.shape().moved_bytes];
        let mut found = Vec::new();
        let mut key = raw.next_key(None).map_err(failed)?;
        // Nothing is ever deleted, so the walk ends.
        while let Some(at) = key {
            raw.lookup(&at, &mut value).map_err(failed)?;
            let words = value.chunks_exact(8).filter_map(|word| word.try_into().ok().map(u64::from_ne_bytes));
            let count = words.fold(0, u64::wrapping_add);
            key = raw.next_key(Some(&at)).map_err(failed)?;
            found.push((at, count));
        }
        Ok(found)
    }

    /// What was not counted, because the table was full.
    ///
    /// # Errors
    /// As [`Map::lookup`].
    pub fn overflow(&self) -> Result<u64, BpfError> {
        Ok(self.overflow.sum_words(0)?.first().copied().unwrap_or_default())
    }

    /// Emits: count the key that lies `key` bytes from the frame pointer. Uses 8 bytes of stack at `scratch`, which must be a
    /// multiple of 8; `R0` to `R5` are lost.
    pub fn emit_count(&self, asm: &mut Assembler, key: i16, scratch: i16) {
        let (add, done) = (asm.label(), asm.label());
        self.emit_lookup(asm, key);
        asm.jump_if(Cond::Ne, R0, 0, add);
        asm.store_imm(Width::Dw, R10, scratch, 1);
        asm.load_map(R1, &self.counts);
        emit_stack_address(asm, R2, key);
        emit_stack_address(asm, R3, scratch);
        asm.mov64(R4, BPF_NOEXIST);
        asm.call(helper::MAP_UPDATE_ELEM);
        asm.jump_if(Cond::Eq, R0, 0, done);
        // Another CPU may have been first.
        self.emit_lookup(asm, key);
        asm.jump_if(Cond::Ne, R0, 0, add);
        asm.store_imm(Width::Dw, R10, scratch, 0);
        asm.load_map(R1, &self.overflow);
        emit_stack_address(asm, R2, scratch);
        asm.call(helper::MAP_LOOKUP_ELEM);
        asm.jump_if(Cond::Eq, R0, 0, done);
        asm.bind(add);
        asm.load(Width::Dw, R1, R0, 0);
        asm.alu64(Alu::Add, R1, 1);
        asm.store(Width::Dw, R0, 0, R1);
        asm.bind(done);
    }

    /// How long keys are.
    pub fn key_bytes(&self) -> u32 {
        self.key_bytes
    }

    fn emit_lookup(&self, asm: &mut Assembler, key: i16) {
        asm.load_map(R1, &self.counts);
        emit_stack_address(asm, R2, key);
        asm.call(helper::MAP_LOOKUP_ELEM);
    }
}

fn emit_stack_address(asm: &mut Assembler, register: crate::insn::Reg, offset: i16) {
    asm.mov64(register, R10);
    asm.alu64(Alu::Add, register, i32::from(offset));
}
