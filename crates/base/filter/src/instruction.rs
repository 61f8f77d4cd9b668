//! One instruction of classic BPF (linux/bpf_common.h, linux/filter.h).

use std::fmt;

/// `struct sock_filter`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// What to do; see [`code`].
    pub code: u16,
    /// Instructions to skip if a comparison holds.
    pub jt: u8,
    /// Instructions to skip if it does not.
    pub jf: u8,
    /// A constant: value, place in the packet, number of a memory cell, or instructions to skip.
    pub k: u32,
}

/// The codes that there are. `A` is the accumulator, `X` the index, `M` the 16 cells of memory, `P` the packet.
pub mod code {
    #![allow(missing_docs, reason = "each line says what its code does, in the same words for all")]
    /// A = P\[k\], of four, two, one bytes.
    pub const LD_W_ABS: u16 = 0x20;
    pub const LD_H_ABS: u16 = 0x28;
    pub const LD_B_ABS: u16 = 0x30;
    /// A = P\[X + k\].
    pub const LD_W_IND: u16 = 0x40;
    pub const LD_H_IND: u16 = 0x48;
    pub const LD_B_IND: u16 = 0x50;
    /// A = length of the packet; k; M\[k\].
    pub const LD_LEN: u16 = 0x80;
    pub const LD_IMM: u16 = 0x00;
    pub const LD_MEM: u16 = 0x60;
    /// X = length; k; M\[k\]; 4 * (P\[k\] & 15), the length of an IPv4 header.
    pub const LDX_LEN: u16 = 0x81;
    pub const LDX_IMM: u16 = 0x01;
    pub const LDX_MEM: u16 = 0x61;
    pub const LDX_MSH: u16 = 0xb1;
    /// M\[k\] = A; X.
    pub const ST: u16 = 0x02;
    pub const STX: u16 = 0x03;
    /// A = A op k; with [`X`] added, A op X.
    pub const ADD: u16 = 0x04;
    pub const SUB: u16 = 0x14;
    pub const MUL: u16 = 0x24;
    pub const DIV: u16 = 0x34;
    pub const OR: u16 = 0x44;
    pub const AND: u16 = 0x54;
    pub const LSH: u16 = 0x64;
    pub const RSH: u16 = 0x74;
    pub const MOD: u16 = 0x94;
    pub const XOR: u16 = 0xa4;
    /// A = -A.
    pub const NEG: u16 = 0x84;
    /// Skip k.
    pub const JA: u16 = 0x05;
    /// Skip jt if A op k, else jf; with [`X`] added, A op X.
    pub const JEQ: u16 = 0x15;
    pub const JGT: u16 = 0x25;
    pub const JGE: u16 = 0x35;
    pub const JSET: u16 = 0x45;
    /// The other operand is X instead of k.
    pub const X: u16 = 0x08;
    /// The result: bytes to keep of the packet, k or A; 0 = none of it.
    pub const RET_K: u16 = 0x06;
    pub const RET_A: u16 = 0x16;
    /// X = A; A = X.
    pub const TAX: u16 = 0x07;
    pub const TXA: u16 = 0x87;
}

/// Places from here on are no bytes of the packet but facts about it (SKF_AD_OFF).
pub(crate) const ANCILLARY: u32 = -0x1000_i32 as u32;
/// Places relative to the network header (SKF_NET_OFF), and to the link header (SKF_LL_OFF).
pub(crate) const NETWORK: u32 = -0x10_0000_i32 as u32;
pub(crate) const LINK: u32 = -0x20_0000_i32 as u32;

/// Facts (SKF_AD_...), as distances from [`ANCILLARY`].
pub(crate) mod fact {
    pub const PROTOCOL: u32 = 0;
    pub const PACKET_TYPE: u32 = 4;
    pub const INTERFACE: u32 = 8;
    pub const MARK: u32 = 20;
    pub const QUEUE: u32 = 24;
    pub const HARDWARE_TYPE: u32 = 28;
    pub const HASH: u32 = 32;
    pub const CORE: u32 = 36;
    pub const XOR_X: u32 = 40;
    pub const TAG: u32 = 44;
    pub const TAG_PRESENT: u32 = 48;
    pub const TAG_PROTOCOL: u32 = 60;

    /// All that the kernel knows, at multiples of 4. Those without a name are 0 here.
    pub fn all() -> impl Iterator<Item = u32> {
        (PROTOCOL..=TAG_PROTOCOL).step_by(4)
    }
}

impl Instruction {
    /// An instruction that does not jump.
    pub const fn new(code: u16, k: u32) -> Instruction {
        Instruction { code, jt: 0, jf: 0, k }
    }

    /// True for comparisons, which jump.
    pub(crate) fn compares(&self) -> bool {
        matches!(self.code & !code::X, code::JEQ | code::JGT | code::JGE | code::JSET)
    }
}

impl fmt::Display for Instruction {
    /// As `tcpdump -d` writes it, with numbers of instructions to skip instead of lines.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        use code::*;
        let k = self.k;
        let operand = if self.code & X != 0 { "x".to_string() } else { format!("#{k:#x}") };
        let word = match self.code & !X {
            ADD => "add",
            SUB => "sub",
            MUL => "mul",
            DIV => "div",
            OR => "or",
            AND => "and",
            LSH => "lsh",
            RSH => "rsh",
            MOD => "mod",
            XOR => "xor",
            JEQ => "jeq",
            JGT => "jgt",
            JGE => "jge",
            JSET => "jset",
            _ => "",
        };
        match self.code {
            _ if self.compares() => write!(out, "{word} {operand} jt {} jf {}", self.jt, self.jf),
            LD_W_ABS => write!(out, "ld [{}]", k as i32),
            LD_H_ABS => write!(out, "ldh [{}]", k as i32),
            LD_B_ABS => write!(out, "ldb [{}]", k as i32),
            LD_W_IND => write!(out, "ld [x + {}]", k as i32),
            LD_H_IND => write!(out, "ldh [x + {}]", k as i32),
            LD_B_IND => write!(out, "ldb [x + {}]", k as i32),
            LD_LEN => write!(out, "ld #pktlen"),
            LD_IMM => write!(out, "ld #{k:#x}"),
            LD_MEM => write!(out, "ld M[{k}]"),
            LDX_LEN => write!(out, "ldx #pktlen"),
            LDX_IMM => write!(out, "ldx #{k:#x}"),
            LDX_MEM => write!(out, "ldx M[{k}]"),
            LDX_MSH => write!(out, "ldxb 4*([{}]&0xf)", k as i32),
            ST => write!(out, "st M[{k}]"),
            STX => write!(out, "stx M[{k}]"),
            NEG => write!(out, "neg"),
            JA => write!(out, "ja {k}"),
            RET_K => write!(out, "ret #{k}"),
            RET_A => write!(out, "ret a"),
            TAX => write!(out, "tax"),
            TXA => write!(out, "txa"),
            _ if !word.is_empty() => write!(out, "{word} {operand}"),
            other => write!(out, "unknown {other:#06x} {k:#x}"),
        }
    }
}
