//! Comparisons of numbers: `tcp[13] & 2 != 0`, `len > 1000`, `ip[2:2] >= 4 * (ip[0] & 15)`.
//!
//! ```text
//! relation    sum (= | == | != | > | < | >= | <=) sum
//! sum         numbers, `len` and protocol[sum:size] with * / % , + - , << >> , & | ^ : those in front bind stronger
//! ```
//! A byte of a protocol is a byte of its header, and the relation is false for packets of another protocol (libpcap does not check that of the
//! right operand of `+` and the like). Those of tcp, udp, sctp, icmp and
//! igmp are looked for in IPv4 packets that are whole or first fragments, as libpcap does.

use super::lexer::Kind as Sign;
use super::parse::Parser;
use super::primitive::{Link, Protocol, number};
use super::{Condition, DEPTH_MAX, LanguageError, Test};
use crate::Instruction;
use crate::instruction::code;
use crate::program::CELLS;

/// A number that a packet gives.
pub(super) enum Sum {
    Number(u32),
    /// Bytes of the packet.
    Len,
    /// One, two or four bytes of a protocol's header.
    Bytes {
        protocol: Protocol,
        index: Box<Sum>,
        load: Width,
    },
    /// An instruction's code and both operands.
    Binary(u16, Box<Sum>, Box<Sum>),
}

/// How many bytes are loaded.
#[derive(Clone, Copy)]
pub(super) enum Width {
    One,
    Two,
    Four,
}

impl Width {
    /// Codes of the loads from a place, and from a place behind X.
    fn codes(self) -> (u16, u16) {
        match self {
            Width::One => (code::LD_B_ABS, code::LD_B_IND),
            Width::Two => (code::LD_H_ABS, code::LD_H_IND),
            Width::Four => (code::LD_W_ABS, code::LD_W_IND),
        }
    }
}

/// Operators by how strongly they bind, the weakest first.
const OPERATORS: [&[(&str, u16)]; 4] = [
    &[("&", code::AND), ("|", code::OR), ("^", code::XOR)],
    &[("<<", code::LSH), (">>", code::RSH)],
    &[("+", code::ADD), ("-", code::SUB)],
    &[("*", code::MUL), ("/", code::DIV), ("%", code::MOD)],
];

/// Names of numbers.
const NAMES: [(&str, u32); 41] = [
    ("tcpflags", 13),
    ("tcp-fin", 1),
    ("tcp-syn", 2),
    ("tcp-rst", 4),
    ("tcp-push", 8),
    ("tcp-ack", 16),
    ("tcp-urg", 32),
    ("tcp-ece", 64),
    ("tcp-cwr", 128),
    ("icmptype", 0),
    ("icmpcode", 1),
    ("icmp-echoreply", 0),
    ("icmp-unreach", 3),
    ("icmp-sourcequench", 4),
    ("icmp-redirect", 5),
    ("icmp-echo", 8),
    ("icmp-routeradvert", 9),
    ("icmp-routersolicit", 10),
    ("icmp-timxceed", 11),
    ("icmp-paramprob", 12),
    ("icmp-tstamp", 13),
    ("icmp-tstampreply", 14),
    ("icmp-ireq", 15),
    ("icmp-ireqreply", 16),
    ("icmp-maskreq", 17),
    ("icmp-maskreply", 18),
    ("icmp6type", 0),
    ("icmp6code", 1),
    ("icmp6-destinationunreach", 1),
    ("icmp6-packettoobig", 2),
    ("icmp6-timeexceeded", 3),
    ("icmp6-parameterproblem", 4),
    ("icmp6-echo", 128),
    ("icmp6-echoreply", 129),
    ("icmp6-multicastlistenerquery", 130),
    ("icmp6-routersolicit", 133),
    ("icmp6-routeradvert", 134),
    ("icmp6-neighborsolicit", 135),
    ("icmp6-neighboradvert", 136),
    ("icmp6-redirect", 137),
    ("icmp6-routerrenum", 138),
];

type Summed = Result<Sum, LanguageError>;

impl Parser<'_> {
    /// True if a comparison of numbers begins at the next token, not a primitive.
    pub(super) fn at_relation(&self) -> bool {
        let follows = |place: usize| match self.sign(place) {
            Some(Sign::Operator(operator)) => Some(operator),
            _ => None,
        };
        match self.sign(self.next) {
            Some(Sign::Operator("-")) => true,
            Some(Sign::Word("len")) => true,
            Some(Sign::Word(word)) if Protocol::of(word).is_some() => follows(self.next + 1) == Some("["),
            Some(Sign::Word(word)) => {
                value(word).is_some() && follows(self.next + 1).is_some_and(|operator| operator != "[")
            }
            Some(Sign::Open) => self.closing(self.next).is_some_and(|close| follows(close + 1).is_some()),
            _ => false,
        }
    }

    /// The place of the parenthesis that closes the one at `open`.
    fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0;
        for place in open..self.tokens.len() {
            match self.sign(place) {
                Some(Sign::Open) => depth += 1,
                Some(Sign::Close) if depth == 1 => return Some(place),
                Some(Sign::Close) => depth -= 1,
                _ => {}
            }
        }
        None
    }

    /// A comparison of two numbers.
    pub(super) fn relation(&mut self) -> Result<Condition, LanguageError> {
        let at = self.place();
        let left = self.sum(0)?;
        let Some(Sign::Operator(operator @ ("=" | "==" | "!=" | ">" | "<" | ">=" | "<="))) = self.peek() else {
            return Err(self.wrong(self.place(), "here a comparison is missing, such as `!= 0`"));
        };
        self.next += 1;
        let right = self.sum(0)?;
        self.counted(at)?;
        self.last = None;
        self.link.relation(&left, operator, &right).map_err(|problem| self.wrong(at, &problem))
    }

    /// Operands of the operators of `level` and those that bind stronger.
    fn sum(&mut self, level: usize) -> Summed {
        let Some(operators) = OPERATORS.get(level) else { return self.operand() };
        let mut left = self.sum(level + 1)?;
        loop {
            let Some(Sign::Operator(sign)) = self.peek() else { return Ok(left) };
            let Some((_, operation)) = operators.iter().find(|(name, _)| *name == sign) else { return Ok(left) };
            let at = self.place();
            self.next += 1;
            self.counted(at)?;
            let right = self.sum(level + 1)?;
            left = self.binary(*operation, left, right, at)?;
        }
    }

    fn binary(&self, operation: u16, left: Sum, right: Sum, at: usize) -> Summed {
        match (&left, &right, operation) {
            (_, Sum::Number(0), code::DIV | code::MOD) => Err(self.wrong(at, "a division by zero")),
            (_, Sum::Number(32..), code::LSH | code::RSH) => Err(self.wrong(at, "a shift by 32 bits or more")),
            (Sum::Number(a), Sum::Number(b), _) => Ok(Sum::Number(folded(operation, *a, *b))),
            _ => Ok(Sum::Binary(operation, Box::new(left), Box::new(right))),
        }
    }

    fn operand(&mut self) -> Summed {
        let at = self.place();
        match self.peek() {
            Some(Sign::Operator("-")) => {
                let right = self.nested(Self::operand)?;
                self.binary(code::SUB, Sum::Number(0), right, at)
            }
            Some(Sign::Open) => {
                let inner = self.nested(|parser| parser.sum(0))?;
                self.close(at)?;
                Ok(inner)
            }
            Some(Sign::Word("len")) => {
                self.next += 1;
                Ok(Sum::Len)
            }
            Some(Sign::Word(word)) => {
                if let Some(value) = value(word) {
                    self.next += 1;
                    return Ok(Sum::Number(value));
                }
                match Protocol::of(word) {
                    Some(protocol) if self.sign(self.next + 1) == Some(Sign::Operator("[")) => {
                        self.next += 1;
                        self.bytes(protocol)
                    }
                    _ => Err(self.wrong(at, &format!("`{word}` is no number, no `len` and no `protocol[index]`"))),
                }
            }
            _ => Err(self.wrong(at, "here a number is missing")),
        }
    }

    /// `[index]` or `[index:size]`.
    fn bytes(&mut self, protocol: Protocol) -> Summed {
        let index = self.nested(|parser| parser.sum(0))?;
        let mut load = Width::One;
        if self.peek() == Some(Sign::Operator(":")) {
            self.next += 1;
            load = match self.peek() {
                Some(Sign::Word("1")) => Width::One,
                Some(Sign::Word("2")) => Width::Two,
                Some(Sign::Word("4")) => Width::Four,
                _ => return Err(self.wrong(self.place(), "1, 2 or 4 bytes can be compared")),
            };
            self.next += 1;
        }
        if self.peek() != Some(Sign::Operator("]")) {
            return Err(self.wrong(self.place(), "here `]` is missing"));
        }
        self.next += 1;
        Ok(Sum::Bytes { protocol, index: Box::new(index), load })
    }

    /// Takes the sign that is next and goes a level deeper.
    fn nested(&mut self, inner: impl FnOnce(&mut Self) -> Summed) -> Summed {
        if self.depth == DEPTH_MAX {
            return Err(self.wrong(self.place(), &format!("nested more than {DEPTH_MAX} deep")));
        }
        self.depth += 1;
        self.next += 1;
        let sum = inner(self);
        self.depth -= 1;
        sum
    }

    fn sign(&self, place: usize) -> Option<Sign<'_>> {
        self.tokens.get(place).map(|token| token.kind)
    }
}

/// A number, or the name of one.
fn value(word: &str) -> Option<u32> {
    let named = NAMES.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
    named.or_else(|| number(word, u32::MAX).ok())
}

/// What the instruction makes of two constants.
fn folded(operation: u16, a: u32, b: u32) -> u32 {
    match operation {
        code::AND => a & b,
        code::OR => a | b,
        code::XOR => a ^ b,
        code::LSH => a.wrapping_shl(b),
        code::RSH => a.wrapping_shr(b),
        code::ADD => a.wrapping_add(b),
        code::SUB => a.wrapping_sub(b),
        code::MUL => a.wrapping_mul(b),
        code::DIV => a.checked_div(b).unwrap_or(0),
        _ => a.checked_rem(b).unwrap_or(0),
    }
}

impl Link {
    fn relation(&self, left: &Sum, operator: &str, right: &Sum) -> Result<Condition, String> {
        let mut checks = Vec::new();
        let (mut load, mut with, mut k) = (Vec::new(), 0, 0);
        match right {
            Sum::Number(number) => {
                self.load(left, 0, &mut load, &mut checks)?;
                k = *number;
            }
            _ => {
                self.load_both(left, right, 0, &mut load, &mut checks)?;
                with = code::X;
            }
        }
        let (jump, not) = match operator {
            "!=" => (code::JEQ, true),
            ">" => (code::JGT, false),
            "<=" => (code::JGT, true),
            ">=" => (code::JGE, false),
            "<" => (code::JGE, true),
            _ => (code::JEQ, false),
        };
        let test = Condition::Test(Test { load, jump: jump | with, k });
        let test = if not { test.not() } else { test };
        Ok(checks.into_iter().rev().fold(test, |rest, check: Condition| check.and(rest)))
    }

    /// Instructions that leave the number in A. They use cells of memory from `cell` on, and X.
    fn load(
        &self,
        sum: &Sum,
        cell: u32,
        out: &mut Vec<Instruction>,
        checks: &mut Vec<Condition>,
    ) -> Result<(), String> {
        match sum {
            Sum::Number(number) => out.push(Instruction::new(code::LD_IMM, *number)),
            Sum::Len => out.push(Instruction::new(code::LD_LEN, 0)),
            Sum::Binary(operation, left, right) => match **right {
                Sum::Number(number) => {
                    self.load(left, cell, out, checks)?;
                    out.push(Instruction::new(*operation, number));
                }
                _ => {
                    self.load_both(left, right, cell, out, checks)?;
                    out.push(Instruction::new(*operation | code::X, 0));
                }
            },
            Sum::Bytes { protocol, index, load } => self.load_bytes(*protocol, index, *load, cell, out, checks)?,
        }
        Ok(())
    }

    /// Leaves `left` in A and `right` in X.
    fn load_both(
        &self,
        left: &Sum,
        right: &Sum,
        cell: u32,
        out: &mut Vec<Instruction>,
        checks: &mut Vec<Condition>,
    ) -> Result<(), String> {
        if cell as usize == CELLS {
            return Err("this needs more than 16 intermediate results; write it with fewer parentheses".into());
        }
        self.load(left, cell, out, checks)?;
        out.push(Instruction::new(code::ST, cell));
        self.load(right, cell + 1, out, checks)?;
        out.extend([Instruction::new(code::TAX, 0), Instruction::new(code::LD_MEM, cell)]);
        Ok(())
    }

    fn load_bytes(
        &self,
        protocol: Protocol,
        index: &Sum,
        load: Width,
        cell: u32,
        out: &mut Vec<Instruction>,
        checks: &mut Vec<Condition>,
    ) -> Result<(), String> {
        let place = self.header(protocol);
        checks.extend(place.check);
        let (absolute, behind_x) = load.codes();
        match (index, place.behind_ip_header) {
            // Places from there on are no bytes of the packet, but facts about it.
            (Sum::Number(0x7000_0000..), _) => return Err("this byte is outside of every packet".into()),
            (Sum::Number(number), false) => out.push(Instruction::new(absolute, place.at + number)),
            (Sum::Number(number), true) => {
                out.push(Instruction::new(code::LDX_MSH, self.at(0)));
                out.push(Instruction::new(behind_x, place.at + number));
            }
            (_, false) => {
                self.load(index, cell, out, checks)?;
                out.extend([Instruction::new(code::TAX, 0), Instruction::new(behind_x, place.at)]);
            }
            (_, true) => {
                self.load(index, cell, out, checks)?;
                out.extend([
                    Instruction::new(code::LDX_MSH, self.at(0)),
                    Instruction::new(code::ADD | code::X, 0),
                    Instruction::new(code::TAX, 0),
                    Instruction::new(behind_x, place.at),
                ]);
            }
        }
        Ok(())
    }
}
