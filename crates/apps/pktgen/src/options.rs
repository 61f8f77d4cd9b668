//! The options of `pkt-gen`: from words to a checked [`Options`], or to one error that says what to write instead.

use std::fmt;

use linerate_wire::MacAddress;

use super::format::Style;
use super::getopt::GetoptError;
use super::interface::Interface;
use super::ranges::{EndpointRange, Family};

/// What `pkt-gen` does (`-f`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Function {
    /// Receives and counts.
    #[default]
    Rx,
    /// Sends.
    Tx,
    /// Sends and measures how long replies take.
    Ping,
    /// Replies to `ping`.
    Pong,
    /// Sends numbered packets.
    TxSeq,
    /// Receives numbered packets and counts lost, duplicated and reordered ones.
    RxSeq,
}

impl Function {
    pub(super) const NAMES: [(&'static str, Function); 6] = [
        ("tx", Function::Tx),
        ("rx", Function::Rx),
        ("ping", Function::Ping),
        ("pong", Function::Pong),
        ("txseq", Function::TxSeq),
        ("rxseq", Function::RxSeq),
    ];

    /// True for `tx` and `txseq`.
    pub fn sends(self) -> bool {
        matches!(self, Function::Tx | Function::TxSeq)
    }

    /// True for `rx` and `rxseq`.
    pub fn receives(self) -> bool {
        matches!(self, Function::Rx | Function::RxSeq)
    }

    /// True for what makes packets of its own.
    pub fn makes_packets(self) -> bool {
        self.sends() || self == Function::Ping
    }
}

impl fmt::Display for Function {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Function::NAMES.iter().find(|(_, function)| function == self);
        out.write_str(name.map_or("", |(name, _)| name))
    }
}

/// Everything that the command line says, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// `-i`.
    pub interface: Interface,
    /// `-f`.
    pub function: Function,
    /// `-n`: packets over all threads; 0 = until told to stop.
    pub count: u64,
    /// `-l`: bytes of a frame without FCS.
    pub len: usize,
    /// The second `-l`: sizes are random from this one up to, and without, the first.
    pub len_min: Option<usize>,
    /// `-b`: most packets of one port call.
    pub burst: usize,
    /// `-4`, `-6`.
    pub family: Family,
    /// `-s`.
    pub source: EndpointRange,
    /// `-d`.
    pub destination: EndpointRange,
    /// `-s` and `-d` as written.
    pub range_texts: (String, String),
    /// `-S`; `None` = the interface's.
    pub source_mac: Option<MacAddress>,
    /// `-D`.
    pub destination_mac: MacAddress,
    /// `-z`.
    pub random_source: bool,
    /// `-Z`.
    pub random_destination: bool,
    /// `-a`: CPU of the first thread.
    pub affinity: Option<usize>,
    /// `-c`: CPUs to use; `Some(0)` = all.
    pub cpus: Option<usize>,
    /// `-p`.
    pub threads: usize,
    /// `-T`.
    pub report_ms: u64,
    /// `-w`.
    pub wait_s: u64,
    /// `-R`: packets per second over all threads; 0 = as fast as the port takes them.
    pub rate_pps: u64,
    /// `-W`.
    pub ends_in_silence: bool,
    /// `-P`.
    pub packet_file: Option<String>,
    /// `-r`.
    pub uninitialized: bool,
    /// `-F`: slots of a packet.
    pub fragments: usize,
    /// `-M`: most bytes of a slot.
    pub fragment_len: Option<usize>,
    /// `-X`.
    pub dump: bool,
    /// `-v`, how often.
    pub verbose: u32,
    /// `-A`.
    pub averages: bool,
    /// `-N` and `-B`.
    pub style: Style,
    /// `-o 16`: packets end in a sequence number and their scheduled time.
    pub timestamp: bool,
    /// What was accepted and has no effect here, in words.
    pub warnings: Vec<String>,
}

/// What is wrong with a command line, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError {
    /// What is wrong.
    pub problem: String,
    /// What to do, on one line.
    pub cure: String,
}

impl UsageError {
    pub(crate) fn new(problem: impl Into<String>, cure: impl Into<String>) -> UsageError {
        UsageError { problem: problem.into(), cure: cure.into() }
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}; {}", self.problem, self.cure)
    }
}

impl From<GetoptError> for UsageError {
    fn from(error: GetoptError) -> UsageError {
        let cure = match &error {
            GetoptError::Unknown('t') => "-t N of old versions is -f tx -n N",
            GetoptError::Unknown('e' | 'E' | 'm') => "options of netmap's memory allocator have no meaning here",
            GetoptError::Operand(_) => "the interface is named by -i",
            _ => "pkt-gen -h lists the options",
        };
        UsageError::new(error.to_string(), cure)
    }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
