//! Capture filters in tcpdump's language (pcap-filter(7)), by libpcap's compiler.

use linerate_filter::Program;

use crate::sys::{Handle, PcapError, Settings};

/// Why there is no program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// libpcap is not installed, or too old; what the system's loader says.
    #[error("libpcap cannot be loaded: {0}")]
    NoLibrary(String),
    /// What libpcap says about the expression, or about the interface.
    #[error("filter: {0}")]
    Refused(String),
}

/// Compiles an expression for Ethernet packets that have their VLAN tags inside, as in files. Packets that pass keep `snaplen`
/// bytes. Names of hosts are looked up, as by tcpdump.
///
/// # Errors
/// No libpcap, or what it says about the expression.
pub fn compile(expression: &str, snaplen: u32) -> Result<Program, FilterError> {
    program(&Handle::dead(clamped(snaplen)).map_err(refused)?, expression)
}

/// Compiles an expression for a socket on `interface`: the kernel has the outermost VLAN tag beside the packet there, and `vlan`
/// asks the kernel for it. For this libpcap opens the interface for a moment, which needs CAP_NET_RAW.
///
/// # Errors
/// As [`compile`], and what libpcap says about the interface.
pub fn compile_for(interface: &str, expression: &str, snaplen: u32) -> Result<Program, FilterError> {
    let settings = Settings { snaplen: clamped(snaplen), promiscuous: false, timeout_ms: 1000, buffer_bytes: 65_536 };
    program(&Handle::open(interface, settings).map_err(refused)?, expression)
}

fn program(handle: &Handle, expression: &str) -> Result<Program, FilterError> {
    let instructions = handle.compile(expression, true).map_err(refused)?;
    Program::new(instructions)
        .map_err(|error| FilterError::Refused(format!("libpcap made what the kernel refuses: {error}")))
}

/// `MAXIMUM_SNAPLEN` of libpcap.
fn clamped(snaplen: u32) -> i32 {
    snaplen.clamp(1, 262_144) as i32
}

fn refused(error: PcapError) -> FilterError {
    if error.operation == "loading libpcap" {
        return FilterError::NoLibrary(error.text);
    }
    FilterError::Refused(error.text)
}
