//! Packets of any contents: copied into a map, and from there into live frames by a program.
//!
//! ```text
//! shared   | next u64 | limit u64 | unwritten u64 | ... | slot 0: length u64, bytes | slot 1 | ... slot 255
//! program  n = next; drop if n >= limit; next = n + 1; cut the frame to the slot's length; copy; redirect
//! ```
//! Frames are made at the longest length and cut, since a frame that grows is cleared first.

use std::sync::atomic::{AtomicU64, Ordering};

use linerate_bpf::insn::{Alu, Cond, Reg::*, Width, action, helper, xdp_md};
use linerate_bpf::run::LiveRun;
use linerate_bpf::{Assembler, BpfError, Map, MapView, Program, ProgramOptions, Resident};

/// Packets of one run.
pub(crate) const SLOTS: usize = 256;

/// Longest packet: what one page holds beside the kernel's headroom of 256 bytes, its own state and the tail that a socket
/// buffer needs (3,392 on Linux 6.18), with some room to spare.
pub(crate) const LEN_MAX: usize = 3328;

/// Shortest packet that the kernel makes: an Ethernet header.
pub(crate) const LEN_MIN: usize = 14;

const NEXT: usize = 0;
const LIMIT: usize = 8;
const UNWRITTEN: usize = 16;
const SLOTS_AT: usize = 64;
const STRIDE: usize = 8 + LEN_MAX;
const BYTES: usize = SLOTS_AT + SLOTS * STRIDE;

/// Helpers that only this program calls (`enum bpf_func_id`).
const XDP_ADJUST_TAIL: i32 = 65;
const XDP_STORE_BYTES: i32 = 190;

/// The program with its map.
pub(crate) struct Copier {
    program: Program,
    view: MapView,
    template: Vec<u8>,
    _resident: Option<Resident>,
}

/// What one run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    /// Packets taken from the slots, from the first on.
    pub(crate) taken: u64,
    /// Of these: packets that could not be written into a frame.
    pub(crate) unwritten: u64,
}

impl Copier {
    /// Loads the program; frames go to the interface at place 0 of `device`.
    pub(crate) fn load(device: &Map) -> Result<Copier, BpfError> {
        let shared = Map::shared("live_copy", BYTES as u32)?;
        let view = shared.view()?;
        let options = ProgramOptions::default();
        let program = Program::load_xdp("linerate_copy", &assemble(&shared, device)?.assemble()?, options)?;
        // Without a place in the dispatcher, each run takes some 20 ms more.
        let resident = Resident::new(&program).ok();
        Ok(Copier { program, view, template: vec![0; LEN_MAX], _resident: resident })
    }

    /// Writes packet `index` of the next run, which the parts make together; they were checked to fit.
    #[inline]
    pub(crate) fn put<'a>(&self, index: usize, parts: impl Iterator<Item = &'a [u8]>) {
        let slot = SLOTS_AT + (index % SLOTS) * STRIDE;
        let mut at = slot + 8;
        for part in parts {
            store(self.view.words(), at, part);
            at += part.len();
        }
        self.view.store(slot, (at - slot - 8) as u64);
    }

    /// Sends the packets of slots `0..count`, `batch_frames` between flushes.
    #[inline]
    pub(crate) fn run(&self, count: usize, batch_frames: u32) -> (Copied, Result<(), BpfError>) {
        let unwritten_before = self.view.load(UNWRITTEN);
        self.view.store(NEXT, 0);
        self.view.store(LIMIT, count as u64);
        let run = LiveRun {
            template: &self.template,
            // The loopback interface of whatever namespace this thread is in: the way out is the map's.
            ingress_ifindex: 0,
            repeat: count as u32,
            batch_frames,
        };
        let result = run.run(&self.program);
        let unwritten = self.view.load(UNWRITTEN).wrapping_sub(unwritten_before);
        (Copied { taken: self.view.load(NEXT), unwritten }, result)
    }
}

/// Stores bytes, by words where they fill one.
#[inline]
fn store(words: &[AtomicU64], mut at: usize, mut bytes: &[u8]) {
    while let Some(word) = words.get(at / 8)
        && !bytes.is_empty()
    {
        let from = at % 8;
        let (now, rest) = bytes.split_at(bytes.len().min(8 - from));
        let mut image = if now.len() == 8 { [0; 8] } else { word.load(Ordering::Relaxed).to_ne_bytes() };
        image[from..from + now.len()].copy_from_slice(now);
        word.store(u64::from_ne_bytes(image), Ordering::Relaxed);
        (at, bytes) = (at + now.len(), rest);
    }
}

/// Bytes of the longest frame, without FCS, for an interface with this MTU.
#[inline]
pub(crate) fn frame_len_max(mtu: usize) -> usize {
    (mtu + 14).min(LEN_MAX)
}

/// `R6` context, `R7` slot, `R8` number then length, `R9` shared memory.
fn assemble(shared: &Map, device: &Map) -> Result<Assembler, BpfError> {
    let mut asm = Assembler::new();
    let (unwritten, drop) = (asm.label(), asm.label());
    const { assert!(xdp_md::SIZE > 0 && SLOTS.is_power_of_two() && BYTES < i32::MAX as usize) };
    asm.mov64(R6, R1);
    asm.load_map_value(R9, shared, 0);
    asm.load(Width::Dw, R8, R9, NEXT as i16);
    asm.load(Width::Dw, R1, R9, LIMIT as i16);
    asm.jump_if(Cond::Ge, R8, R1, drop);
    asm.load_map_value(R7, shared, SLOTS_AT as u32);
    asm.mov64(R1, R8);
    asm.alu64(Alu::And, R1, SLOTS as i32 - 1);
    asm.alu64(Alu::Mul, R1, STRIDE as i32);
    asm.alu64(Alu::Add, R7, R1);
    asm.alu64(Alu::Add, R8, 1);
    asm.store(Width::Dw, R9, NEXT as i16, R8);
    asm.load(Width::Dw, R8, R7, 0);
    asm.jump_if(Cond::Lt, R8, LEN_MIN as i32, unwritten);
    asm.jump_if(Cond::Gt, R8, LEN_MAX as i32, unwritten);
    asm.mov64(R1, R6);
    asm.mov64(R2, R8);
    asm.alu64(Alu::Sub, R2, LEN_MAX as i32);
    asm.call(XDP_ADJUST_TAIL);
    asm.jump_if(Cond::Ne, R0, 0, unwritten);
    asm.mov64(R1, R6);
    asm.mov64(R2, 0);
    asm.mov64(R3, R7);
    asm.alu64(Alu::Add, R3, 8);
    asm.mov64(R4, R8);
    asm.call(XDP_STORE_BYTES);
    asm.jump_if(Cond::Ne, R0, 0, unwritten);
    asm.load_map(R1, device);
    asm.mov64(R2, 0);
    asm.mov64(R3, action::DROP);
    asm.call(helper::REDIRECT_MAP);
    asm.exit();
    asm.bind(unwritten);
    asm.load(Width::Dw, R1, R9, UNWRITTEN as i16);
    asm.alu64(Alu::Add, R1, 1);
    asm.store(Width::Dw, R9, UNWRITTEN as i16, R1);
    asm.bind(drop);
    asm.mov64(R0, action::DROP);
    asm.exit();
    Ok(asm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_stored_at_any_place() {
        let words: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(u64::MAX)).collect();
        for at in 0..20 {
            for len in 0..30 {
                words.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
                let bytes: Vec<u8> = (0..len).map(|n| n as u8).collect();
                store(&words, at, &bytes);
                let image: Vec<u8> = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
                assert!(image[..at].iter().chain(&image[at + len..]).all(|byte| *byte == 0xff), "{at} {len}");
                assert_eq!(image[at..at + len], bytes, "{at} {len}");
            }
        }
        // What is beyond the end is left out.
        store(&words, 60, &[1; 8]);
    }
}
