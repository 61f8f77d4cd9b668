//! Conditions to jumps. Programs are made from their end: then every place that a jump leads to is known when it is written.

use super::{Condition, Test};
use crate::Instruction;
use crate::instruction::code;

/// The program that keeps `snaplen` bytes of packets of which the condition holds.
pub(super) fn generate(condition: &Condition, snaplen: u32) -> Vec<Instruction> {
    let mut reversed = vec![Instruction::new(code::RET_K, 0), Instruction::new(code::RET_K, snaplen)];
    write(&mut reversed, condition, 1, 0);
    reversed.reverse();
    reversed
}

/// Writes a condition that leads to `yes` or `no` (places counted from the end) and gives the place where it begins.
fn write(reversed: &mut Vec<Instruction>, condition: &Condition, yes: usize, no: usize) -> usize {
    match condition {
        Condition::Test(test) => write_test(reversed, test, yes, no),
        Condition::Not(inner) => write(reversed, inner, no, yes),
        Condition::And(first, second) => {
            let second = write(reversed, second, yes, no);
            write(reversed, first, second, no)
        }
        Condition::Or(first, second) => {
            let second = write(reversed, second, yes, no);
            write(reversed, first, yes, second)
        }
    }
}

fn write_test(reversed: &mut Vec<Instruction>, test: &Test, yes: usize, no: usize) -> usize {
    let yes = near(reversed, yes);
    let no = near(reversed, no);
    let skip = |to: usize| (reversed.len() - to - 1) as u8;
    reversed.push(Instruction { code: test.jump, jt: skip(yes), jf: skip(no), k: test.k });
    reversed.extend(test.load.iter().rev());
    reversed.len() - 1
}

/// A place that leads to `to` and that the skips of a comparison (8 bits) reach from the next two places.
fn near(reversed: &mut Vec<Instruction>, to: usize) -> usize {
    let distance = reversed.len() - to;
    if distance < usize::from(u8::MAX) {
        return to;
    }
    reversed.push(Instruction::new(code::JA, distance as u32 - 1));
    reversed.len() - 1
}
