//! Encodings against RFC 9669 and `include/uapi/linux/bpf.h`, written out byte by byte.

use super::*;
use crate::insn::Reg::*;

/// Checks what `write` appends against bytes in little-endian layout.
fn check(write: impl FnOnce(&mut Assembler), expected: &[[u8; 8]]) {
    if cfg!(target_endian = "big") {
        return;
    }
    let mut asm = Assembler::new();
    write(&mut asm);
    let bytes: Vec<[u8; 8]> = asm.assemble().unwrap().into_iter().map(Insn::encode).collect();
    assert_eq!(bytes, expected);
}

#[test]
fn arithmetic_on_64_bits() {
    check(|a| a.alu64(Alu::Add, R1, R2), &[[0x0f, 0x21, 0, 0, 0, 0, 0, 0]]);
    check(|a| a.alu64(Alu::Add, R1, -1), &[[0x07, 0x01, 0, 0, 0xff, 0xff, 0xff, 0xff]]);
    check(|a| a.alu64(Alu::Sub, R3, 7), &[[0x17, 0x03, 0, 0, 7, 0, 0, 0]]);
    check(|a| a.alu64(Alu::Mul, R4, R5), &[[0x2f, 0x54, 0, 0, 0, 0, 0, 0]]);
    check(|a| a.alu64(Alu::Div, R4, 3), &[[0x37, 0x04, 0, 0, 3, 0, 0, 0]]);
    check(|a| a.alu64(Alu::Mod, R4, 3), &[[0x97, 0x04, 0, 0, 3, 0, 0, 0]]);
    check(|a| a.alu64(Alu::Rsh, R9, 16), &[[0x77, 0x09, 0, 0, 16, 0, 0, 0]]);
    check(|a| a.alu64(Alu::Neg, R9, 0), &[[0x87, 0x09, 0, 0, 0, 0, 0, 0]]);
    check(|a| a.mov64(R6, R1), &[[0xbf, 0x16, 0, 0, 0, 0, 0, 0]]);
    check(|a| a.mov64(R0, 2), &[[0xb7, 0, 0, 0, 2, 0, 0, 0]]);
}

#[test]
fn arithmetic_on_32_bits() {
    check(|a| a.alu32(Alu::And, R2, 0xffff), &[[0x54, 0x02, 0, 0, 0xff, 0xff, 0, 0]]);
    check(|a| a.alu32(Alu::Or, R2, R3), &[[0x4c, 0x32, 0, 0, 0, 0, 0, 0]]);
    check(|a| a.alu32(Alu::Xor, R2, R3), &[[0xac, 0x32, 0, 0, 0, 0, 0, 0]]);
    check(|a| a.alu32(Alu::Lsh, R2, 13), &[[0x64, 0x02, 0, 0, 13, 0, 0, 0]]);
    check(|a| a.alu32(Alu::Arsh, R2, 1), &[[0xc4, 0x02, 0, 0, 1, 0, 0, 0]]);
    check(|a| a.mov32(R2, R2), &[[0xbc, 0x22, 0, 0, 0, 0, 0, 0]]);
}

#[test]
fn byte_order() {
    check(|a| a.to_big_endian(R3, 16), &[[0xdc, 0x03, 0, 0, 16, 0, 0, 0]]);
    check(|a| a.to_big_endian(R3, 64), &[[0xdc, 0x03, 0, 0, 64, 0, 0, 0]]);
}

#[test]
fn memory() {
    check(|a| a.load(Width::W, R2, R1, 16), &[[0x61, 0x12, 16, 0, 0, 0, 0, 0]]);
    check(|a| a.load(Width::H, R2, R1, -2), &[[0x69, 0x12, 0xfe, 0xff, 0, 0, 0, 0]]);
    check(|a| a.load(Width::B, R2, R1, 1), &[[0x71, 0x12, 1, 0, 0, 0, 0, 0]]);
    check(|a| a.load(Width::Dw, R2, R1, 8), &[[0x79, 0x12, 8, 0, 0, 0, 0, 0]]);
    check(|a| a.store(Width::W, R10, -4, R2), &[[0x63, 0x2a, 0xfc, 0xff, 0, 0, 0, 0]]);
    check(|a| a.store(Width::H, R7, 2, R2), &[[0x6b, 0x27, 2, 0, 0, 0, 0, 0]]);
    check(|a| a.store(Width::B, R7, 2, R2), &[[0x73, 0x27, 2, 0, 0, 0, 0, 0]]);
    check(|a| a.store(Width::Dw, R7, 2, R2), &[[0x7b, 0x27, 2, 0, 0, 0, 0, 0]]);
    check(|a| a.store_imm(Width::W, R7, 4, 9), &[[0x62, 0x07, 4, 0, 9, 0, 0, 0]]);
    check(|a| a.store_imm(Width::H, R7, 4, 9), &[[0x6a, 0x07, 4, 0, 9, 0, 0, 0]]);
    check(|a| a.store_imm(Width::B, R7, 4, 9), &[[0x72, 0x07, 4, 0, 9, 0, 0, 0]]);
    check(|a| a.store_imm(Width::Dw, R7, 4, 9), &[[0x7a, 0x07, 4, 0, 9, 0, 0, 0]]);
}

#[test]
fn atomics() {
    let add = |a: &mut Assembler| a.atomic(Atomic::Add, Width::Dw, R1, 8, R2);
    check(add, &[[0xdb, 0x21, 8, 0, 0, 0, 0, 0]]);
    let fetch_add = |a: &mut Assembler| a.atomic(Atomic::FetchAdd, Width::W, R1, 8, R2);
    check(fetch_add, &[[0xc3, 0x21, 8, 0, 1, 0, 0, 0]]);
    let fetch_or = |a: &mut Assembler| a.atomic(Atomic::FetchOr, Width::Dw, R1, 0, R2);
    check(fetch_or, &[[0xdb, 0x21, 0, 0, 0x41, 0, 0, 0]]);
    let swap = |a: &mut Assembler| a.atomic(Atomic::CompareExchange, Width::Dw, R1, 0, R2);
    check(swap, &[[0xdb, 0x21, 0, 0, 0xf1, 0, 0, 0]]);
}

#[test]
fn constants_of_64_bits() {
    check(
        |a| a.load_imm64(R1, 0x1122_3344_5566_7788),
        &[[0x18, 0x01, 0, 0, 0x88, 0x77, 0x66, 0x55], [0, 0, 0, 0, 0x44, 0x33, 0x22, 0x11]],
    );
    check(|a| a.load_map_fd(R1, 5), &[[0x18, 0x11, 0, 0, 5, 0, 0, 0], [0; 8]]);
    check(|a| a.wide(R1, class::PSEUDO_MAP_VALUE, 5, 24), &[[0x18, 0x21, 0, 0, 5, 0, 0, 0], [0, 0, 0, 0, 24, 0, 0, 0]]);
}

#[test]
fn calls_and_exit() {
    check(|a| a.call(helper::REDIRECT_MAP), &[[0x85, 0, 0, 0, 51, 0, 0, 0]]);
    check(|a| a.exit(), &[[0x95, 0, 0, 0, 0, 0, 0, 0]]);
}

#[test]
fn jumps_forward_and_back() {
    let program = |a: &mut Assembler| {
        let (top, out) = (a.label(), a.label());
        a.bind(top);
        a.jump_if(Cond::Ge, R2, R3, out);
        a.load_imm64(R2, 0);
        a.jump_if32(Cond::Ne, R2, 1, top);
        a.jump(top);
        a.bind(out);
        a.exit();
    };
    let expected = [
        [0x3d, 0x32, 4, 0, 0, 0, 0, 0],
        [0x18, 0x02, 0, 0, 0, 0, 0, 0],
        [0; 8],
        [0x56, 0x02, 0xfc, 0xff, 1, 0, 0, 0],
        [0x05, 0, 0xfb, 0xff, 0, 0, 0, 0],
        [0x95, 0, 0, 0, 0, 0, 0, 0],
    ];
    check(program, &expected);
}

#[test]
fn mistakes_are_errors() {
    let mut asm = Assembler::new();
    let nowhere = asm.label();
    asm.jump(nowhere);
    assert_eq!(asm.assemble(), Err(AssembleError::Unbound { slot: 0, label: 0 }));

    let mut asm = Assembler::new();
    let here = asm.label();
    asm.bind(here);
    asm.bind(here);
    assert_eq!(asm.assemble(), Err(AssembleError::BoundTwice { label: 0 }));

    let mut asm = Assembler::new();
    asm.to_big_endian(R1, 24);
    assert_eq!(asm.assemble(), Err(AssembleError::SwapWidth { slot: 0, bits: 24 }));

    let mut asm = Assembler::new();
    let far = asm.label();
    asm.jump(far);
    (0..32_768).for_each(|_| asm.exit());
    asm.bind(far);
    assert_eq!(asm.assemble(), Err(AssembleError::TooFar { slot: 0, distance: 32_768 }));
}
