//! `protochain`: a protocol behind any number of extension headers of IPv6, or authentication headers of IPv4 (pcap-filter(7)).
//!
//! libpcap makes a loop of it, which no kernel takes. Here the loop is written out for [`HEADERS_MAX`] headers; a protocol behind more of them is
//! not found.

use super::primitive::{IP, IP6, Link};
use super::{Condition, Test};
use crate::Instruction;
use crate::instruction::code;

/// Most headers that are passed.
pub(super) const HEADERS_MAX: usize = 8;

/// Hop-by-hop options, routing, fragment, destination options; authentication. Their lengths are in units of 8 bytes, and of 4.
const IN_EIGHTS: [u32; 4] = [0, 43, 44, 60];
const AUTHENTICATION: u32 = 51;

/// Cells of memory: where the header begins, from the network header; its protocol; scratch.
const START: u32 = 0;
const PROTOCOL: u32 = 1;
const SCRATCH: u32 = 2;
const NOT_AUTHENTICATION: u32 = 3;

impl Link {
    /// The protocol in the chain of IPv4 or IPv6.
    pub(super) fn chain(&self, ethertype: u32, number: u32) -> Condition {
        let passed: &[u32] = if ethertype == IP6 { &IN_EIGHTS } else { &[] };
        let is = |load: Vec<Instruction>, k| Condition::Test(Test { load, jump: code::JEQ, k });
        let current = || vec![Instruction::new(code::LD_MEM, PROTOCOL)];
        let is_passed = || passed.iter().fold(is(current(), AUTHENTICATION), |any, kind| any.or(is(current(), *kind)));
        // From the last header to the first.
        let mut found = is(self.next_header(), number);
        for _ in 1..HEADERS_MAX {
            found = is(self.next_header(), number).or(is_passed().and(found));
        }
        let first = is(self.first_header(ethertype), number).or(is_passed().and(found));
        self.ethertype(ethertype).and(first)
    }

    /// Leaves the protocol behind the fixed header in A.
    fn first_header(&self, ethertype: u32) -> Vec<Instruction> {
        let (start, protocol_at) = match ethertype {
            IP => (Instruction::new(code::LDX_MSH, self.at(0)), 9),
            _ => (Instruction::new(code::LDX_IMM, 40), 6),
        };
        vec![
            start,
            Instruction::new(code::STX, START),
            Instruction::new(code::LD_B_ABS, self.at(protocol_at)),
            Instruction::new(code::ST, PROTOCOL),
        ]
    }

    /// Goes on from a header to the one behind it, and leaves its protocol in A. The header has (L + 2) << 2 bytes if it is one of
    /// authentication, else (L + 1) << 3, where L is its second byte.
    fn next_header(&self) -> Vec<Instruction> {
        let of = Instruction::new;
        vec![
            // 0 for a header of authentication, 1 for others.
            of(code::LD_MEM, PROTOCOL),
            of(code::XOR, AUTHENTICATION),
            of(code::ADD, 255),
            of(code::RSH, 8),
            of(code::ST, NOT_AUTHENTICATION),
            of(code::LDX_MEM, START),
            of(code::LD_B_IND, self.at(1)),
            of(code::ADD, 2),
            of(code::LDX_MEM, NOT_AUTHENTICATION),
            of(code::SUB | code::X, 0),
            of(code::ST, SCRATCH),
            of(code::TXA, 0),
            of(code::ADD, 2),
            of(code::TAX, 0),
            of(code::LD_MEM, SCRATCH),
            of(code::LSH | code::X, 0),
            of(code::LDX_MEM, START),
            of(code::ADD | code::X, 0),
            of(code::ST, START),
            of(code::LD_B_IND, self.at(0)),
            of(code::ST, PROTOCOL),
        ]
    }
}
