//! Count each frame and drop it.
//!
//! The counters are per CPU, so several queues can run the program without sharing a cache line.

use crate::asm::Assembler;
use crate::error::BpfError;
use crate::insn::{Alu, Cond, Reg::*, Width, action, helper, xdp_md};
use crate::map::Map;
use crate::program::{Program, ProgramOptions};

/// The program with its counters.
#[derive(Debug)]
pub struct DropCount {
    program: Program,
    counters: Map,
}

/// What was dropped since the program was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Frames.
    pub packets: u64,
    /// Their bytes without FCS; of frames in several buffers, all of them.
    pub bytes: u64,
}

impl DropCount {
    /// Loads the program; with `frags` it also takes frames in several buffers.
    ///
    /// # Errors
    /// As [`Map::per_cpu_array`] and [`Program::load_xdp`].
    pub fn load(frags: bool) -> Result<DropCount, BpfError> {
        let counters = Map::per_cpu_array("drop_count", 16, 1)?;
        let mut asm = Assembler::new();
        emit_length(&mut asm, frags);
        asm.store_imm(Width::W, R10, -4, 0);
        asm.mov64(R2, R10);
        asm.alu64(Alu::Add, R2, -4);
        asm.load_map(R1, &counters);
        asm.call(helper::MAP_LOOKUP_ELEM);
        let out = asm.label();
        asm.jump_if(Cond::Eq, R0, 0, out);
        asm.load(Width::Dw, R1, R0, 0);
        asm.alu64(Alu::Add, R1, 1);
        asm.store(Width::Dw, R0, 0, R1);
        asm.load(Width::Dw, R1, R0, 8);
        asm.alu64(Alu::Add, R1, R6);
        asm.store(Width::Dw, R0, 8, R1);
        asm.bind(out);
        asm.mov64(R0, action::DROP);
        asm.exit();
        let insns = asm.assemble()?;
        let program = Program::load_xdp("linerate_drop", &insns, ProgramOptions { frags })?;
        Ok(DropCount { program, counters })
    }

    /// The program, to attach or run.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The counters, summed over the CPUs.
    ///
    /// # Errors
    /// As [`Map::lookup`].
    pub fn dropped(&self) -> Result<Dropped, BpfError> {
        let sums = self.counters.sum_words(0)?;
        Ok(Dropped { packets: sums[0], bytes: sums[1] })
    }
}

/// `R6 = length of the frame`; `R1` to `R5` are lost.
fn emit_length(asm: &mut Assembler, frags: bool) {
    if frags {
        asm.call(helper::XDP_GET_BUFF_LEN);
        asm.mov64(R6, R0);
    } else {
        asm.load(Width::W, R6, R1, xdp_md::DATA_END);
        asm.load(Width::W, R2, R1, xdp_md::DATA);
        asm.alu64(Alu::Sub, R6, R2);
    }
}
