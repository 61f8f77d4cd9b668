//! Redirect each frame to the AF_XDP socket of its receive queue; pass it on where there is none.
//!
//! `return bpf_redirect_map(sockets, ctx->rx_queue_index, XDP_PASS)`. The helper's last argument is
//! the verdict for an empty place in the map (Linux 5.3 and later).

use crate::asm::Assembler;
use crate::error::BpfError;
use crate::insn::{Reg::*, Width, action, helper, xdp_md};
use crate::map::Map;
use crate::program::{Program, ProgramOptions};

/// Loads the program for `sockets`, a map made by [`Map::xsk`]. With `frags`, frames in several
/// buffers are let in too.
///
/// # Errors
/// As [`Program::load_xdp`].
pub fn load(sockets: &Map, frags: bool) -> Result<Program, BpfError> {
    let mut asm = Assembler::new();
    asm.load(Width::W, R2, R1, xdp_md::RX_QUEUE_INDEX);
    asm.load_map(R1, sockets);
    asm.mov64(R3, action::PASS);
    asm.call(helper::REDIRECT_MAP);
    asm.exit();
    Program::load_xdp("linerate_xsk", &asm.assemble()?, ProgramOptions { frags })
}
