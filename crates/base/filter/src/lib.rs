//! Packet filters: classic BPF, the language that sockets take (`SO_ATTACH_FILTER`, linux/filter.h), and a way into it from
//! tcpdump's language for hosts without libpcap.
//!
//! A [`Program`] is checked when it is made, by the rules of the kernel (`bpf_check_classic` and `check_load_and_stores` in
//! net/core/filter.c), so that whatever made it, the kernel takes it and [`Program::run`] ends, stays inside of the packet and
//! never panics. `run` does what the kernel does, for ports without a filter in the kernel and for files.
//!
//! ```
//! use linerate_filter::{Facts, Tags, compile};
//!
//! let program = compile("udp port 53 or arp", Tags::InPacket, 262_144).unwrap();
//! let mut packet = [0; 60];
//! packet[12..14].copy_from_slice(&[0x08, 0x06]);
//! assert_eq!(program.run(&packet, &Facts::of_len(60)), 262_144);
//! packet[12..14].copy_from_slice(&[0x88, 0xcc]);
//! assert_eq!(program.run(&packet, &Facts::of_len(60)), 0);
//! let error = compile("host www.example.org", Tags::InPacket, 262_144).unwrap_err();
//! assert!(error.to_string().contains("libpcap"));
//! ```
//! ```text
//! instruction.rs  one instruction, and its text     language/lexer.rs       words
//! program.rs      programs, the checker             language/parse.rs       the grammar
//! run.rs          the interpreter                   language/primitive.rs   what each primitive tests
//!                                                   language/arithmetic.rs  comparisons of bytes and lengths
//!                                                   language/chain.rs       headers behind headers
//!                                                   language/generate.rs    tests to jumps
//! ```
#![forbid(unsafe_code)]

mod instruction;
mod language;
mod program;
mod run;

pub use instruction::{Instruction, code};
pub use language::{LanguageError, SUBSET, Tags, compile};
pub use program::{CheckError, PROGRAM_LEN_MAX, Program};
pub use run::{Facts, Tag};
