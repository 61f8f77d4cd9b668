//! Filters compiled by libpcap, where it is installed.

use linerate_filter::Program;
use linerate_port_pcap::{FilterError, compile, compile_for};

/// The program of a filter for a socket on an interface, or for whole packets; or what is wrong with it. `None` without the library.
pub(crate) fn by_libpcap(expression: &str, interface: Option<&str>, snaplen: u32) -> Option<Result<Program, String>> {
    let made = match interface {
        // Only tags are beside the packet, so only `vlan` asks for more than bytes.
        Some(interface) if expression.contains("vlan") => compile_for(interface, expression, snaplen),
        _ => compile(expression, snaplen),
    };
    match made {
        Ok(program) => Some(Ok(program)),
        Err(FilterError::Refused(why)) => Some(Err(format!("filter `{expression}`: {why}"))),
        Err(FilterError::NoLibrary(_)) => None,
    }
}
