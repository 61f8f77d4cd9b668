//! The interpreter: what the kernel does with a program, instruction for instruction.

use crate::instruction::{ANCILLARY, LINK, NETWORK, code, fact};
use crate::program::{CELLS, Program};

/// What a program can ask about a packet beside its bytes. Facts that a capture does not know are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Bytes that the packet had.
    pub original_len: u32,
    /// The VLAN tag that was taken out of it.
    pub tag: Option<Tag>,
    /// `PACKET_HOST` and so on (linux/if_packet.h); 4 = sent by this host.
    pub packet_type: u8,
    /// Index of the interface.
    pub interface: u32,
    /// Receive queue.
    pub queue: u32,
    /// The packet's mark.
    pub mark: u32,
    /// Its hash by the NIC.
    pub hash: u32,
    /// Core that runs the program.
    pub core: u32,
}

/// A VLAN tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// EtherType of the tag: 0x8100 or 0x88a8.
    pub protocol: u16,
    /// Priority and id.
    pub control: u16,
}

impl Facts {
    /// Of a packet of this length, nothing else being known.
    pub fn of_len(original_len: u32) -> Facts {
        Facts { original_len, ..Facts::default() }
    }
}

/// ARPHRD_ETHER (linux/if_arp.h).
const ETHERNET: u32 = 1;
/// Bytes before the network header.
const LINK_LEN: usize = 14;

struct Machine<'a> {
    a: u32,
    x: u32,
    cells: [u32; CELLS],
    packet: &'a [u8],
    facts: &'a Facts,
}

impl Program {
    /// Bytes to keep of an Ethernet packet; 0 = it does not pass. (More than there are means all of them.)
    ///
    /// A load from outside of `packet` and a division by zero end the program with 0, as in the kernel. Facts that are not in
    /// [`Facts`] (netlink attributes, the payload's place, a random number) are 0.
    pub fn run(&self, packet: &[u8], facts: &Facts) -> u32 {
        let mut machine = Machine { a: 0, x: 0, cells: [0; CELLS], packet, facts };
        let mut next = 0;
        // Jumps go forward only, so this ends.
        while let Some(instruction) = self.instructions().get(next) {
            next += 1;
            let (code, k) = (instruction.code, instruction.k);
            match code {
                code::RET_K => return k,
                code::RET_A => return machine.a,
                code::JA => next += k as usize,
                _ if instruction.compares() => {
                    let skip = if machine.compare(code, k) { instruction.jt } else { instruction.jf };
                    next += usize::from(skip);
                }
                _ => {
                    if machine.step(code, k).is_none() {
                        return 0;
                    }
                }
            }
        }
        0
    }
}

impl Machine<'_> {
    #[inline]
    fn compare(&self, code: u16, k: u32) -> bool {
        let operand = if code & code::X != 0 { self.x } else { k };
        match code & !code::X {
            code::JEQ => self.a == operand,
            code::JGT => self.a > operand,
            code::JGE => self.a >= operand,
            _ => self.a & operand != 0,
        }
    }

    /// `None` where the kernel ends the program with 0.
    #[inline]
    fn step(&mut self, code: u16, k: u32) -> Option<()> {
        use code::*;
        let cell = k as usize % CELLS;
        match code {
            LD_W_ABS | LD_H_ABS | LD_B_ABS if k >= ANCILLARY => self.a = self.fact(k - ANCILLARY),
            LD_W_ABS => self.a = u32::from_be_bytes(self.load(k)?),
            LD_H_ABS => self.a = u16::from_be_bytes(self.load(k)?).into(),
            LD_B_ABS => self.a = u8::from_be_bytes(self.load(k)?).into(),
            LD_W_IND => self.a = u32::from_be_bytes(self.load(self.x.wrapping_add(k))?),
            LD_H_IND => self.a = u16::from_be_bytes(self.load(self.x.wrapping_add(k))?).into(),
            LD_B_IND => self.a = u8::from_be_bytes(self.load(self.x.wrapping_add(k))?).into(),
            LD_LEN => self.a = self.facts.original_len,
            LD_IMM => self.a = k,
            LD_MEM => self.a = self.cells[cell],
            LDX_LEN => self.x = self.facts.original_len,
            LDX_IMM => self.x = k,
            LDX_MEM => self.x = self.cells[cell],
            LDX_MSH => self.x = u32::from(u8::from_be_bytes(self.load(k)?) & 15) * 4,
            ST => self.cells[cell] = self.a,
            STX => self.cells[cell] = self.x,
            TAX => self.x = self.a,
            TXA => self.a = self.x,
            NEG => self.a = self.a.wrapping_neg(),
            _ => self.a = self.calculate(code, if code & X != 0 { self.x } else { k })?,
        }
        Some(())
    }

    #[inline]
    fn calculate(&self, code: u16, operand: u32) -> Option<u32> {
        use code::*;
        let a = self.a;
        Some(match code & !X {
            ADD => a.wrapping_add(operand),
            SUB => a.wrapping_sub(operand),
            MUL => a.wrapping_mul(operand),
            DIV => a.checked_div(operand)?,
            MOD => a.checked_rem(operand)?,
            OR => a | operand,
            AND => a & operand,
            XOR => a ^ operand,
            // The kernel shifts by the low five bits.
            LSH => a.wrapping_shl(operand),
            _ => a.wrapping_shr(operand),
        })
    }

    #[inline]
    fn load<const BYTES: usize>(&self, place: u32) -> Option<[u8; BYTES]> {
        let start = match place {
            0..0x8000_0000 => place as usize,
            NETWORK.. => (place - NETWORK) as usize + LINK_LEN,
            LINK.. => (place - LINK) as usize,
            _ => return None,
        };
        self.packet.get(start..)?.first_chunk().copied()
    }

    fn fact(&self, which: u32) -> u32 {
        let Facts { tag, packet_type, interface, queue, mark, hash, core, .. } = *self.facts;
        match which {
            fact::PROTOCOL => self.load::<2>(12).map_or(0, |bytes| u16::from_be_bytes(bytes).into()),
            fact::PACKET_TYPE => packet_type.into(),
            fact::INTERFACE => interface,
            fact::MARK => mark,
            fact::QUEUE => queue,
            fact::HARDWARE_TYPE => ETHERNET,
            fact::HASH => hash,
            fact::CORE => core,
            fact::XOR_X => self.a ^ self.x,
            fact::TAG => tag.unwrap_or_default().control.into(),
            fact::TAG_PRESENT => tag.is_some().into(),
            fact::TAG_PROTOCOL => tag.unwrap_or_default().protocol.into(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Instruction;
    use code::*;

    /// What a program of these instructions leaves in A.
    fn a_after(instructions: &[(u16, u32)], packet: &[u8], facts: &Facts) -> u32 {
        let mut program: Vec<Instruction> = instructions.iter().map(|(code, k)| Instruction::new(*code, *k)).collect();
        program.push(Instruction::new(RET_A, 0));
        Program::new(program).unwrap().run(packet, facts)
    }

    #[test]
    fn arithmetic_wraps_and_divides_as_in_the_kernel() {
        let after = |instructions: &[(u16, u32)]| a_after(instructions, &[], &Facts::default());
        assert_eq!(after(&[(LD_IMM, 7), (SUB, 8)]), u32::MAX);
        assert_eq!(after(&[(LD_IMM, 1 << 31), (MUL, 2), (ADD, 3)]), 3);
        assert_eq!(after(&[(LD_IMM, 9), (LDX_IMM, 33), (LSH | X, 0)]), 18);
        assert_eq!(after(&[(LD_IMM, 9), (DIV | X, 0)]), 0);
        assert_eq!(after(&[(LD_IMM, 9), (LDX_IMM, 4), (MOD | X, 0)]), 1);
        assert_eq!(after(&[(LD_IMM, 9), (NEG, 0)]), 9u32.wrapping_neg());
        assert_eq!(after(&[(LD_IMM, 9), (ST, 15), (LD_IMM, 1), (LDX_MEM, 15), (TXA, 0)]), 9);
    }

    #[test]
    fn comparisons_hold_where_they_should() {
        for (code, below, equal, above) in
            [(JEQ, false, true, false), (JGT, false, false, true), (JGE, false, true, true), (JSET, true, true, false)]
        {
            for (a, expected) in [(6, below), (7, equal), (8, above)] {
                for code in [code, code | X] {
                    let jump = Instruction { code, jt: 0, jf: 1, k: 7 };
                    let [set, index] = [(LD_IMM, a), (LDX_IMM, 7)].map(|(code, k)| Instruction::new(code, k));
                    let [yes, no] = [1, 0].map(|k| Instruction::new(RET_K, k));
                    let program = Program::new(vec![set, index, jump, yes, no]).unwrap();
                    assert_eq!(program.run(&[], &Facts::default()) == 1, expected, "{program}");
                }
            }
        }
    }

    #[test]
    fn loads_stay_inside_of_the_packet() {
        let packet: Vec<u8> = (0..64).collect();
        let facts = Facts::of_len(1500);
        let after = |instructions: &[(u16, u32)]| a_after(instructions, &packet, &facts);
        assert_eq!(after(&[(LD_W_ABS, 60)]), 0x3c3d3e3f);
        for outside in [61, 64, 0x7fff_ffff, 0x8000_0000, ANCILLARY - 1, LINK - 1] {
            assert_eq!(after(&[(LD_W_ABS, outside)]), 0, "{outside:#x}");
        }
        assert_eq!(after(&[(LDX_IMM, u32::MAX), (LD_B_IND, 6)]), 5);
        assert_eq!(after(&[(LD_B_ABS, NETWORK + 3)]), 17);
        assert_eq!(after(&[(LD_B_ABS, LINK + 3)]), 3);
        assert_eq!(after(&[(LDX_MSH, 20), (TXA, 0)]), 16);
        assert_eq!(after(&[(LD_LEN, 0)]), 1500);
        assert_eq!(after(&[(LD_H_ABS, ANCILLARY)]), 0x0c0d);
    }

    #[test]
    fn facts_are_told() {
        let tag = Some(Tag { protocol: 0x8100, control: 0x2064 });
        let facts = Facts { tag, packet_type: 4, interface: 7, queue: 2, mark: 5, hash: 6, core: 1, original_len: 60 };
        let fact = |which| a_after(&[(LD_W_ABS, ANCILLARY + which)], &[], &facts);
        let all: Vec<u32> = fact::all().map(fact).collect();
        assert_eq!(all, [0, 4, 7, 0, 0, 5, 2, 1, 6, 1, 0, 0x2064, 1, 0, 0, 0x8100]);
        let sent = Program::everything(9).for_sent().unwrap();
        assert_eq!(sent.run(&[0; 60], &facts), 9);
        assert_eq!(sent.run(&[0; 60], &Facts { packet_type: 0, ..facts }), 0);
    }
}
