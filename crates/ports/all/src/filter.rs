//! Capture filters: libpcap's compiler where it is installed, else the subset of `linerate_filter`.

use linerate_filter::{Program, SUBSET, Tags};

use crate::libpcap::by_libpcap;

/// Who made a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterCompiler {
    /// libpcap.
    Libpcap,
    /// This workspace's own, which knows a part of the language (`linerate_filter::SUBSET`).
    Subset,
}

/// What will run the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterPlace<'a> {
    /// Something that sees packets as they were on the wire, VLAN tags inside: a file, a port of whole packets.
    WholePackets,
    /// An AF_PACKET socket on this interface: the outermost tag is beside the packet.
    Socket(&'a str),
}

/// Compiles a capture filter in tcpdump's language (pcap-filter(7)). Packets that pass keep `snaplen` bytes.
///
/// # Errors
/// What is wrong with the expression; without libpcap also what of it the subset does not have.
pub fn compile_filter(
    expression: &str,
    place: FilterPlace<'_>,
    snaplen: u32,
) -> Result<(Program, FilterCompiler), String> {
    // libpcap makes a loop of it, which no kernel takes.
    if expression.split(|letter: char| !letter.is_ascii_alphanumeric()).any(|word| word == "protochain") {
        return by_subset(expression, place, snaplen).map_err(|error| format!("{error} (protochain is compiled here)"));
    }
    let interface = match place {
        FilterPlace::Socket(interface) => Some(interface),
        FilterPlace::WholePackets => None,
    };
    match by_libpcap(expression, interface, snaplen) {
        Some(made) => made.map(|program| (program, FilterCompiler::Libpcap)),
        None => by_subset(expression, place, snaplen),
    }
}

fn by_subset(expression: &str, place: FilterPlace<'_>, snaplen: u32) -> Result<(Program, FilterCompiler), String> {
    let tags = if place == FilterPlace::WholePackets { Tags::InPacket } else { Tags::Beside };
    linerate_filter::compile(expression, tags, snaplen)
        .map(|program| (program, FilterCompiler::Subset))
        .map_err(|error| format!("{error}\n(without libpcap these filters are known: {SUBSET})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_always_a_compiler() {
        let (program, compiler) = compile_filter("udp port 53", FilterPlace::WholePackets, 96).unwrap();
        assert!(!program.instructions().is_empty(), "{compiler:?}");
        assert!(compile_filter("no such thing at all", FilterPlace::WholePackets, 96).is_err());
        let (_, compiler) = by_subset("vlan 5", FilterPlace::Socket("lo"), 96).unwrap();
        assert_eq!(compiler, FilterCompiler::Subset);
        let error = by_subset("gateway a", FilterPlace::Socket("lo"), 96).unwrap_err();
        assert!(error.contains("without libpcap") && error.contains("portrange"), "{error}");
        // Of libpcap's loop no kernel makes a program.
        let (_, compiler) = compile_filter("ip6 protochain 6 and len > 60", FilterPlace::Socket("lo"), 96).unwrap();
        assert_eq!(compiler, FilterCompiler::Subset);
    }
}
