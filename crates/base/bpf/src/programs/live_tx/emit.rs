//! Generates the transmit program for one template, its rules and its checksums.
//!
//! ```text
//! R7 frame   R8 sequence   R9 shared state   R6 time for the signature   R1-R5 scratch
//! ```
//! Every frame is written anew as far as asked for: its page comes back as the receiver left it.

use super::checksum::Checksum;
use super::field::{Field, FieldKind, FieldRule};
use super::{Exit, LiveTxSpec, Pacing, state};
use crate::asm::{Assembler, Label};
use crate::error::BpfError;
use crate::insn::{Alu, Cond, Insn, Reg, Reg::*, Width, action, helper, xdp_md};
use crate::map::Map;
use crate::programs::histogram;
use crate::programs::signature::{MAGIC, SEQUENCE_BITS, SIGNATURE_BYTES, TIME_BITS};

/// Reads of the clock in one wait; at some 25 ns each, more than [`super::WAIT_MAX_NS`].
const CLOCK_READS_MAX: i32 = 4096;

/// The program. `spec` has been checked.
pub(super) fn program(spec: &LiveTxSpec<'_>, shared: &Map, device: Option<&Map>) -> Result<Vec<Insn>, BpfError> {
    let mut asm = Assembler::new();
    let (malformed, hold) = (asm.label(), asm.label());
    open_frame(&mut asm, spec.template.len(), malformed);
    asm.load_map_value(R9, shared, 0);
    asm.load(Width::Dw, R8, R9, state::SEQUENCE as i16);
    asm.load(Width::Dw, R1, R9, state::LIMIT as i16);
    asm.jump_if(Cond::Ge, R8, R1, hold);
    match spec.pacing {
        Pacing::None => read_clock_sometimes(&mut asm, spec),
        Pacing::Wait => pace(&mut asm, shared, true, hold),
        Pacing::Skip => pace(&mut asm, shared, false, hold),
    }
    write_template(&mut asm, spec);
    write_rules(&mut asm, spec.rules);
    write_signature(&mut asm, spec);
    write_checksums(&mut asm, spec)?;
    asm.alu64(Alu::Add, R8, 1);
    asm.store(Width::Dw, R9, state::SEQUENCE as i16, R8);
    leave(&mut asm, spec.exit, device);
    asm.bind(hold);
    count_and_drop(&mut asm, state::HELD);
    asm.bind(malformed);
    asm.load_map_value(R9, shared, 0);
    count_and_drop(&mut asm, state::MALFORMED);
    Ok(asm.assemble()?)
}

/// `R7 = frame`, of which `bytes` may be accessed.
fn open_frame(asm: &mut Assembler, bytes: usize, malformed: Label) {
    asm.load(Width::W, R7, R1, xdp_md::DATA);
    asm.load(Width::W, R2, R1, xdp_md::DATA_END);
    asm.mov64(R3, R7);
    asm.alu64(Alu::Add, R3, bytes as i32);
    asm.jump_if(Cond::Gt, R3, R2, malformed);
}

/// `R6 = the clock`, read once in `clock_every` packets.
fn read_clock_sometimes(asm: &mut Assembler, spec: &LiveTxSpec<'_>) {
    let Some(signature) = &spec.signature else { return };
    if signature.clock_every > 1 {
        let (stale, known) = (asm.label(), asm.label());
        asm.mov64(R1, R8);
        asm.alu64(Alu::And, R1, signature.clock_every as i32 - 1);
        asm.jump_if(Cond::Eq, R1, 0, stale);
        asm.load(Width::Dw, R6, R9, state::CLOCK as i16);
        asm.jump(known);
        asm.bind(stale);
        asm.ktime();
        asm.mov64(R6, R0);
        asm.store(Width::Dw, R9, state::CLOCK as i16, R6);
        asm.bind(known);
    } else {
        asm.ktime();
        asm.mov64(R6, R0);
    }
}

/// `R6 = when this packet was due`; goes on when it is, counts how late that is, and sets the next time. Before
/// that it goes to `hold`: at once, or with `wait` when [`super::WAIT_MAX_NS`] have passed.
fn pace(asm: &mut Assembler, shared: &Map, wait: bool, hold: Label) {
    let due = asm.label();
    asm.load(Width::Dw, R6, R9, state::DUE as i16);
    asm.ktime();
    asm.jump_if(Cond::Ge, R0, R6, due);
    if wait {
        wait_until_due(asm, shared, due);
    }
    asm.jump(hold);
    asm.bind(due);
    asm.alu64(Alu::Sub, R0, R6);
    asm.mov64(R2, R9);
    histogram::emit_count(asm, R0, R1, R2, state::LATENESS as i16, false);
    asm.load(Width::Dw, R8, R9, state::SEQUENCE as i16);
    asm.load(Width::Dw, R1, R9, state::DUE_FRACTION as i16);
    asm.load(Width::Dw, R2, R9, state::GAP_FRACTION as i16);
    asm.alu64(Alu::Add, R1, R2);
    asm.load(Width::Dw, R3, R9, state::GAP as i16);
    asm.alu64(Alu::Add, R3, R6);
    asm.mov64(R2, R1);
    asm.alu64(Alu::Rsh, R2, 32);
    asm.alu64(Alu::Add, R3, R2);
    asm.mov32(R1, R1);
    asm.store(Width::Dw, R9, state::DUE_FRACTION as i16, R1);
    asm.store(Width::Dw, R9, state::DUE as i16, R3);
}

/// Goes to `due` when the clock reaches `R6`, and on when [`super::WAIT_MAX_NS`] have passed since `R0`. `R8` is lost.
fn wait_until_due(asm: &mut Assembler, shared: &Map, due: Label) {
    let (again, near, enough) = (asm.label(), asm.label(), asm.label());
    asm.mov64(R9, R0);
    asm.alu64(Alu::Add, R9, super::WAIT_MAX_NS as i32);
    asm.jump_if(Cond::Lt, R9, R6, near);
    asm.mov64(R9, R6);
    asm.bind(near);
    asm.mov64(R8, CLOCK_READS_MAX);
    asm.bind(again);
    asm.ktime();
    asm.jump_if(Cond::Ge, R0, R9, enough);
    asm.alu64(Alu::Sub, R8, 1);
    asm.jump_if(Cond::Ne, R8, 0, again);
    asm.bind(enough);
    asm.load_map_value(R9, shared, 0);
    asm.jump_if(Cond::Ge, R0, R6, due);
}

fn write_template(asm: &mut Assembler, spec: &LiveTxSpec<'_>) {
    let mut at = 0;
    while at < spec.rewrite_bytes {
        let left = spec.rewrite_bytes - at;
        let bytes = [8, 4, 2, 1].into_iter().find(|bytes| *bytes <= left).unwrap_or(1);
        write_constant(asm, at, &spec.template[at..at + bytes]);
        at += bytes;
    }
}

/// Writes 8, 4, 2 or 1 bytes.
fn write_constant(asm: &mut Assembler, at: usize, bytes: &[u8]) {
    let at = at as i16;
    match *bytes {
        [a] => asm.store_imm(Width::B, R7, at, a.into()),
        [a, b] => asm.store_imm(Width::H, R7, at, u16::from_ne_bytes([a, b]).into()),
        [a, b, c, d] => asm.store_imm(Width::W, R7, at, i32::from_ne_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => {
            let value = i64::from_ne_bytes([a, b, c, d, e, f, g, h]);
            match i32::try_from(value) {
                Ok(short) => asm.store_imm(Width::Dw, R7, at, short),
                Err(_) => {
                    asm.load_imm64(R1, value as u64);
                    asm.store(Width::Dw, R7, at, R1);
                }
            }
        }
        _ => {}
    }
}

/// Writes each rule's field and moves its index.
fn write_rules(asm: &mut Assembler, rules: &[FieldRule]) {
    for (number, rule) in rules.iter().enumerate() {
        if rule.kind == FieldKind::Random {
            draw_index(asm, rule.count);
        } else {
            asm.load(Width::Dw, R1, R9, index_of(number));
        }
        write_value(asm, rule);
    }
    let odometer: Vec<usize> = numbers(rules, FieldKind::Odometer);
    let turned = asm.label();
    for number in odometer {
        advance(asm, number, rules[number].count, Some(turned));
    }
    asm.bind(turned);
    for number in numbers(rules, FieldKind::Independent) {
        advance(asm, number, rules[number].count, None);
    }
}

fn numbers(rules: &[FieldRule], kind: FieldKind) -> Vec<usize> {
    (0..rules.len()).filter(|number| rules[*number].kind == kind).collect()
}

fn index_of(number: usize) -> i16 {
    (state::INDICES + 8 * number) as i16
}

/// `R1 = a number from 0 to count - 1`, by multiplying the upper half of a random word.
fn draw_index(asm: &mut Assembler, count: u64) {
    asm.load(Width::Dw, R1, R9, state::RANDOM as i16);
    for (shift, distance) in [(Alu::Lsh, 13), (Alu::Rsh, 7), (Alu::Lsh, 17)] {
        asm.mov64(R2, R1);
        asm.alu64(shift, R2, distance);
        asm.alu64(Alu::Xor, R1, R2);
    }
    asm.store(Width::Dw, R9, state::RANDOM as i16, R1);
    asm.alu64(Alu::Rsh, R1, 32);
    if count < 1 << 32 {
        with_constant(asm, Alu::Mul, R1, count);
        asm.alu64(Alu::Rsh, R1, 32);
    }
}

/// Writes the value at index `R1`.
fn write_value(asm: &mut Assembler, rule: &FieldRule) {
    match rule.step {
        1 => {}
        step => with_constant(asm, Alu::Mul, R1, step as u64),
    }
    if rule.min != 0 {
        with_constant(asm, Alu::Add, R1, rule.min.into());
    }
    let at = rule.offset as i16;
    match rule.width {
        1 => asm.store(Width::B, R7, at, R1),
        2 => {
            asm.to_big_endian(R1, 16);
            asm.store(Width::H, R7, at, R1);
        }
        _ => {
            asm.to_big_endian(R1, 32);
            asm.store(Width::W, R7, at, R1);
        }
    }
}

/// Moves the index of rule `number` on; unless it wraps, goes to `no_wrap` if there is one.
fn advance(asm: &mut Assembler, number: usize, count: u64, no_wrap: Option<Label>) {
    let (inside, done) = (asm.label(), asm.label());
    asm.load(Width::Dw, R1, R9, index_of(number));
    asm.alu64(Alu::Add, R1, 1);
    compare_constant(asm, Cond::Lt, R1, count, inside);
    asm.store_imm(Width::Dw, R9, index_of(number), 0);
    asm.jump(done);
    asm.bind(inside);
    asm.store(Width::Dw, R9, index_of(number), R1);
    if let Some(no_wrap) = no_wrap {
        asm.jump(no_wrap);
    }
    asm.bind(done);
}

fn write_signature(asm: &mut Assembler, spec: &LiveTxSpec<'_>) {
    let Some(signature) = &spec.signature else { return };
    let at = (spec.template.len() - SIGNATURE_BYTES) as i16;
    asm.load_imm64(R1, (1 << SEQUENCE_BITS) - 1);
    asm.alu64(Alu::And, R1, R8);
    asm.load_imm64(R2, MAGIC << SEQUENCE_BITS);
    asm.alu64(Alu::Or, R1, R2);
    asm.to_big_endian(R1, 64);
    asm.store(Width::Dw, R7, at, R1);
    asm.load_imm64(R1, (1 << TIME_BITS) - 1);
    asm.alu64(Alu::And, R1, R6);
    asm.load_imm64(R2, u64::from(signature.stream) << TIME_BITS);
    asm.alu64(Alu::Or, R1, R2);
    asm.to_big_endian(R1, 64);
    asm.store(Width::Dw, R7, at + 8, R1);
}

/// Writes all checksums; those that no field varies are constants.
fn write_checksums(asm: &mut Assembler, spec: &LiveTxSpec<'_>) -> Result<(), BpfError> {
    let mut fields = spec.fields();
    for checksum in &spec.checksums {
        let mut covered = Vec::new();
        for field in &fields {
            let range = checksum.range_of(field).map_err(|()| {
                BpfError::Argument(format!("field at {}: in part under the checksum at {}", field.offset, checksum.at))
            })?;
            covered.extend(range.map(|range| (*field, (field.offset - range.start) % 2 == 1)));
        }
        let constant = checksum.constant_part(spec.template, &fields);
        if covered.is_empty() {
            let value = if checksum.zero_is_none && constant == 0xffff { 0xffff } else { !constant };
            asm.store_imm(Width::H, R7, checksum.at as i16, value.into());
        } else {
            write_checksum(asm, checksum, constant, &covered);
        }
        fields.push(Field { offset: checksum.at, bytes: 2 });
    }
    Ok(())
}

/// Adds the varying fields to the constant part, folds to 16 bits and stores the complement.
/// At an odd place, bytes have changed weights, which a factor of 256 expresses (modulo 65535).
fn write_checksum(asm: &mut Assembler, checksum: &Checksum, constant: u16, covered: &[(Field, bool)]) {
    asm.mov64(R1, i32::from(constant));
    for (field, odd) in covered {
        let step = field.bytes.min(4);
        for at in field.range().step_by(step) {
            asm.load(Width::from_bytes(step).unwrap_or(Width::B), R2, R7, at as i16);
            let swapped = if cfg!(target_endian = "big") && step == 1 { !odd } else { *odd };
            if swapped {
                asm.alu64(Alu::Lsh, R2, 8);
            }
            asm.alu64(Alu::Add, R1, R2);
        }
    }
    for _ in 0..3 {
        asm.mov64(R2, R1);
        asm.alu64(Alu::Rsh, R2, 16);
        asm.alu64(Alu::And, R1, 0xffff);
        asm.alu64(Alu::Add, R1, R2);
    }
    asm.alu64(Alu::Xor, R1, 0xffff);
    if checksum.zero_is_none {
        let some = asm.label();
        asm.jump_if(Cond::Ne, R1, 0, some);
        asm.mov64(R1, 0xffff);
        asm.bind(some);
    }
    asm.store(Width::H, R7, checksum.at as i16, R1);
}

fn leave(asm: &mut Assembler, exit: Exit, device: Option<&Map>) {
    match (exit, device) {
        (Exit::Redirect(_), Some(device)) => {
            asm.load_map(R1, device);
            asm.mov64(R2, 0);
            asm.mov64(R3, action::DROP);
            asm.call(helper::REDIRECT_MAP);
        }
        _ => asm.mov64(R0, action::TX),
    }
    asm.exit();
}

fn count_and_drop(asm: &mut Assembler, counter: usize) {
    histogram::emit_increment(asm, R1, R9, counter as i16, false);
    asm.mov64(R0, action::DROP);
    asm.exit();
}

/// `reg = reg OP constant`; `R2` is lost if the constant is wide.
fn with_constant(asm: &mut Assembler, op: Alu, reg: Reg, constant: u64) {
    match i32::try_from(constant as i64) {
        Ok(short) => asm.alu64(op, reg, short),
        Err(_) => {
            asm.load_imm64(R2, constant);
            asm.alu64(op, reg, R2);
        }
    }
}

/// Goes to `label` if `reg COND constant`; `R2` is lost if the constant is wide.
fn compare_constant(asm: &mut Assembler, cond: Cond, reg: Reg, constant: u64, label: Label) {
    match i32::try_from(constant as i64) {
        Ok(short) => asm.jump_if(cond, reg, short, label),
        Err(_) => {
            asm.load_imm64(R2, constant);
            asm.jump_if(cond, reg, R2, label);
        }
    }
}
