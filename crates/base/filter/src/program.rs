//! A program that was checked as the kernel checks it (net/core/filter.c: `bpf_check_classic`, `check_load_and_stores`).

use std::fmt;

use crate::instruction::{ANCILLARY, Instruction, code, fact};

/// Most instructions of a program (BPF_MAXINSNS).
pub const PROGRAM_LEN_MAX: usize = 4096;

/// Cells of memory (BPF_MEMWORDS).
pub(crate) const CELLS: usize = 16;

/// A filter that the kernel takes and that always ends: jumps go forward only, to an instruction of the program, and the last
/// one returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    instructions: Vec<Instruction>,
}

/// Why the kernel would refuse a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// No instruction, or too many.
    #[error("a filter has from 1 to {PROGRAM_LEN_MAX} instructions, not {0}")]
    Length(usize),
    /// What one instruction cannot be.
    #[error("instruction {at} ({instruction}): {problem}")]
    Instruction {
        /// Its number, from 0.
        at: usize,
        /// The instruction.
        instruction: Instruction,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl Program {
    /// Checks the instructions.
    ///
    /// # Errors
    /// Which instruction the kernel would not take, and why.
    pub fn new(instructions: Vec<Instruction>) -> Result<Program, CheckError> {
        let count = instructions.len();
        if count == 0 || count > PROGRAM_LEN_MAX {
            return Err(CheckError::Length(count));
        }
        for (at, instruction) in instructions.iter().enumerate() {
            check(instruction, count - at - 1).map_err(|problem| refuse(&instructions, at, problem))?;
        }
        if !matches!(instructions[count - 1].code, code::RET_K | code::RET_A) {
            return Err(refuse(&instructions, count - 1, "the last instruction has to return"));
        }
        check_memory(&instructions)?;
        Ok(Program { instructions })
    }

    /// Takes `snaplen` bytes of every packet.
    pub fn everything(snaplen: u32) -> Program {
        Program { instructions: vec![Instruction::new(code::RET_K, snaplen)] }
    }

    /// The same program for packets that this host sends; it takes nothing of others.
    ///
    /// # Errors
    /// The program becomes too long.
    pub fn for_sent(&self) -> Result<Program, CheckError> {
        /// linux/if_packet.h.
        const PACKET_OUTGOING: u32 = 4;
        let mut instructions = vec![
            Instruction::new(code::LD_W_ABS, ANCILLARY + fact::PACKET_TYPE),
            Instruction { code: code::JEQ, jt: 1, jf: 0, k: PACKET_OUTGOING },
            Instruction::new(code::RET_K, 0),
        ];
        instructions.extend(&self.instructions);
        Program::new(instructions)
    }

    /// The instructions, as a socket takes them.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }
}

impl fmt::Display for Program {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, instruction) in self.instructions.iter().enumerate() {
            writeln!(out, "({at:03}) {instruction}")?;
        }
        Ok(())
    }
}

fn refuse(instructions: &[Instruction], at: usize, problem: &'static str) -> CheckError {
    CheckError::Instruction { at, instruction: instructions[at], problem }
}

/// What is wrong with an instruction that `behind` others follow.
fn check(instruction: &Instruction, behind: usize) -> Result<(), &'static str> {
    use code::*;
    let k = instruction.k;
    let holds = |condition: bool, problem| if condition { Ok(()) } else { Err(problem) };
    match instruction.code {
        LD_W_ABS | LD_H_ABS | LD_B_ABS => {
            let known = k < ANCILLARY || fact::all().any(|fact| fact == k - ANCILLARY);
            holds(known, "no such fact about a packet")
        }
        DIV | MOD => holds(k != 0, "division by zero"),
        LSH | RSH => holds(k < 32, "a shift by 32 bits or more"),
        LD_MEM | LDX_MEM | ST | STX => holds((k as usize) < CELLS, "no such cell of memory"),
        JA => holds((k as usize) < behind, "a jump out of the program"),
        _ if instruction.compares() => {
            let farthest = usize::from(instruction.jt.max(instruction.jf));
            holds(farthest < behind, "a jump out of the program")
        }
        LD_W_IND | LD_H_IND | LD_B_IND | LD_LEN | LD_IMM | LDX_LEN | LDX_IMM | LDX_MSH | NEG | RET_K | RET_A | TAX
        | TXA | ADD | SUB | MUL | OR | AND | XOR => Ok(()),
        other => {
            const WITH_X: [u16; 10] = [ADD, SUB, MUL, DIV, OR, AND, LSH, RSH, MOD, XOR];
            holds(other & X != 0 && WITH_X.contains(&(other & !X)), "no such instruction")
        }
    }
}

/// A cell is written on every way to an instruction that reads it.
fn check_memory(instructions: &[Instruction]) -> Result<(), CheckError> {
    // Cells that are written on all ways to an instruction that come by jumps.
    let mut written_at = vec![u16::MAX; instructions.len()];
    let mut written: u16 = 0;
    for (at, instruction) in instructions.iter().enumerate() {
        written &= written_at[at];
        match instruction.code {
            code::ST | code::STX => written |= 1 << instruction.k,
            code::LD_MEM | code::LDX_MEM if written & 1 << instruction.k == 0 => {
                return Err(refuse(instructions, at, "reads a cell of memory that was not written"));
            }
            code::JA => {
                written_at[at + 1 + instruction.k as usize] &= written;
                written = u16::MAX;
            }
            _ if instruction.compares() => {
                written_at[at + 1 + usize::from(instruction.jt)] &= written;
                written_at[at + 1 + usize::from(instruction.jf)] &= written;
                written = u16::MAX;
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(instructions: &[Instruction]) -> String {
        Program::new(instructions.to_vec()).err().map_or(String::new(), |error| error.to_string())
    }

    #[test]
    fn what_the_kernel_would_refuse_is_named() {
        use code::*;
        let end = Instruction::new(RET_K, 1);
        let alone = |code, k| problem(&[Instruction::new(code, k), end]);
        assert!(problem(&[]).contains("not 0"));
        assert!(problem(&vec![end; 4097]).contains("not 4097"));
        assert_eq!(problem(&vec![end; 4096]), "");
        assert!(alone(0xffff, 0).contains("no such instruction"));
        assert!(alone(NEG | X, 0).contains("no such instruction"));
        assert!(alone(LDX_LEN | X, 0).contains("no such instruction"));
        assert!(alone(DIV, 0).contains("zero") && alone(MOD, 0).contains("zero"));
        assert_eq!(alone(DIV | X, 0), "");
        assert!(alone(LSH, 32).contains("shift") && alone(RSH, 32).contains("shift"));
        assert!(alone(ST, 16).contains("cell"));
        assert!(alone(LD_MEM, 3).contains("not written"));
        assert!(alone(JA, 1).contains("out of the program") && alone(JA, u32::MAX).contains("out of the program"));
        assert_eq!(alone(JA, 0), "");
        assert!(problem(&[Instruction { code: JEQ, jt: 0, jf: 1, k: 0 }, end]).contains("jf 1"));
        assert!(alone(LD_W_ABS, ANCILLARY + 64).contains("fact") && alone(LD_W_ABS, ANCILLARY + 1).contains("fact"));
        assert_eq!(alone(LD_W_ABS, ANCILLARY + 60), "");
        assert!(problem(&[Instruction::new(LD_LEN, 0)]).contains("has to return"));
    }

    #[test]
    fn a_cell_has_to_be_written_on_every_way() {
        use code::*;
        let jump = Instruction { code: JEQ, jt: 1, jf: 0, k: 5 };
        let (store, load, end) = (Instruction::new(ST, 2), Instruction::new(LD_MEM, 2), Instruction::new(RET_A, 0));
        assert!(problem(&[jump, store, load, end]).contains("instruction 2 (ld M[2])"));
        assert_eq!(problem(&[store, jump, store, load, end]), "");
    }
}
