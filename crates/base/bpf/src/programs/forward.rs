//! Redirect each frame to one other interface, as it is, and count what came of it.
//!
//! `bpf_redirect_map(out, 0, XDP_ABORTED)` over a device map: the kernel hands frames over in bulks. Whether the other
//! interface then had room is that interface's to count (`xdp_xmit_errors` of a veth). The counters are per CPU.

use crate::asm::Assembler;
use crate::error::BpfError;
use crate::insn::{Alu, Cond, Reg::*, Width, action, helper};
use crate::map::Map;
use crate::program::{Program, ProgramOptions};

/// The program with its counters.
#[derive(Debug)]
pub struct Forward {
    program: Program,
    counters: Map,
}

/// What became of the frames since the program was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// Handed to the other interface.
    pub redirected: u64,
    /// Dropped, because the interface is gone.
    pub refused: u64,
}

impl Forward {
    /// Loads the program for frames that go to interface `out` of the calling thread's namespace; with `frags` it also takes frames
    /// in several buffers.
    ///
    /// # Errors
    /// As [`Map::device`] and [`Program::load_xdp`]; EINVAL where there is no such interface.
    pub fn load(out: u32, frags: bool) -> Result<Forward, BpfError> {
        let devices = Map::device("forward_to", 1)?;
        devices.set_u32(0, out)?;
        let counters = Map::per_cpu_array("forward_count", 16, 1)?;
        let mut asm = Assembler::new();
        asm.load_map(R1, &devices);
        asm.mov64(R2, 0);
        asm.mov64(R3, action::ABORTED);
        asm.call(helper::REDIRECT_MAP);
        asm.mov64(R6, R0);
        asm.store_imm(Width::W, R10, -4, 0);
        asm.mov64(R2, R10);
        asm.alu64(Alu::Add, R2, -4);
        asm.load_map(R1, &counters);
        asm.call(helper::MAP_LOOKUP_ELEM);
        let (out, refused) = (asm.label(), asm.label());
        asm.jump_if(Cond::Eq, R0, 0, out);
        asm.jump_if(Cond::Ne, R6, action::REDIRECT, refused);
        emit_add_one(&mut asm, 0);
        asm.jump(out);
        asm.bind(refused);
        emit_add_one(&mut asm, 8);
        asm.bind(out);
        asm.mov64(R0, R6);
        asm.exit();
        let program = Program::load_xdp("linerate_fwd", &asm.assemble()?, ProgramOptions { frags })?;
        Ok(Forward { program, counters })
    }

    /// The program, to attach or run.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The counters, summed over the CPUs.
    ///
    /// # Errors
    /// As [`Map::lookup`].
    pub fn forwarded(&self) -> Result<Forwarded, BpfError> {
        let sums = self.counters.sum_words(0)?;
        let word = |at: usize| sums.get(at).copied().unwrap_or_default();
        Ok(Forwarded { redirected: word(0), refused: word(1) })
    }
}

/// Adds 1 to the word at `offset` of the value that `R0` points to.
fn emit_add_one(asm: &mut Assembler, offset: i16) {
    asm.load(Width::Dw, R1, R0, offset);
    asm.alu64(Alu::Add, R1, 1);
    asm.store(Width::Dw, R0, offset, R1);
}
