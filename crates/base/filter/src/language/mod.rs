//! A subset of tcpdump's language (pcap-filter(7)), compiled as libpcap compiles it, for hosts without libpcap.

mod arithmetic;
mod chain;
mod generate;
mod lexer;
mod parse;
mod primitive;

use crate::Program;

/// What the subset has, for messages and help.
pub const SUBSET: &str = "\
host, net, port, portrange with src, dst, src or dst, src and dst; ip, ip6, arp, rarp, tcp, udp, sctp, icmp, icmp6, igmp, alone \
or in front of those; proto NUMBER, protochain NUMBER; ether host, ether proto NUMBER, ether broadcast, ether multicast, \
ip multicast, ip6 multicast; vlan [ID], mpls [LABEL]; less, greater; comparisons of len, numbers and bytes, such as \
tcp[13] & 2 != 0; and, or, not, parentheses. Addresses and ports are numbers.";

/// Where the packets that are filtered have their VLAN tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tags {
    /// In the packet, as on the wire: files, and ports that deliver whole packets.
    InPacket,
    /// The outermost one beside the packet: AF_PACKET sockets. There `tcp` is true of packets with one tag, too, as with
    /// tcpdump on Linux, and `vlan` asks the kernel.
    Beside,
}

/// Why a text is no filter, or none of the subset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("filter, at character {at}: {problem}")]
pub struct LanguageError {
    /// Where, from 1; one past the end when something is missing.
    pub at: usize,
    /// What is wrong, and what to do.
    pub problem: String,
}

/// Longest text, and most primitives: a filter larger than this does not fit into a program anyway.
const TEXT_LEN_MAX: usize = 65_536;
const PRIMITIVES_MAX: usize = 1024;
/// Deepest nesting of parentheses and `not`.
const DEPTH_MAX: usize = 64;

/// Compiles an expression of the subset ([`SUBSET`]) for Ethernet. The program keeps `snaplen` bytes of packets that pass. An
/// empty expression passes everything.
///
/// # Errors
/// Where the text is wrong or outside of the subset; in that case the message says that libpcap is needed.
pub fn compile(expression: &str, tags: Tags, snaplen: u32) -> Result<Program, LanguageError> {
    if expression.trim().is_empty() {
        return Ok(Program::everything(snaplen));
    }
    if expression.len() > TEXT_LEN_MAX {
        let problem = format!("the text has {} bytes, more than {TEXT_LEN_MAX}", expression.len());
        return Err(LanguageError { at: TEXT_LEN_MAX, problem });
    }
    let tokens = lexer::tokens(expression)?;
    let tests = parse::parse(&tokens, tags, expression.len() + 1)?;
    let instructions = generate::generate(&tests, snaplen);
    Program::new(instructions).map_err(|error| LanguageError { at: 1, problem: error.to_string() })
}

/// A condition on a packet.
enum Condition {
    Test(Test),
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
}

/// Load a value into the accumulator, then compare it.
struct Test {
    load: Vec<crate::Instruction>,
    /// JEQ, JGT, JGE or JSET, of k or (with `code::X`) of X.
    jump: u16,
    k: u32,
}

impl Condition {
    fn and(self, other: Condition) -> Condition {
        Condition::And(Box::new(self), Box::new(other))
    }

    fn or(self, other: Condition) -> Condition {
        Condition::Or(Box::new(self), Box::new(other))
    }

    fn not(self) -> Condition {
        Condition::Not(Box::new(self))
    }
}
