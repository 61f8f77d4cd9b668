//! The packets that `-f tx`, `txseq` and `ping` send: from options to a stream of the generator.
//!
//! Ethernet, IPv4 with "don't fragment" or IPv6, UDP, and a text as payload, as the original. The ranges are an odometer:
//! source port fastest, then source address, destination port, destination address; with `-z` or `-Z` that side is random in
//! every packet instead and the other side turns by itself.

use linerate_gen::{Advance, PlanError, Rule, Sizes, StreamPlan, StreamSpec, Values};
use linerate_wire::{Fill, MacAddress, Stack, ethernet, ipv4, ipv6, udp};

use super::checks::payload_offset;
use super::options::{Function, Options};
use super::ranges::{Addresses, EndpointRange};

/// Payload behind what a function writes there.
const PAYLOAD: &[u8] = b"linerate pkt-gen payload ";

/// Hop limit and time to live of the original (IPDEFTTL, IPV6_DEFHLIM).
const HOPS: u8 = 64;
/// Type of service "low delay" (RFC 791), as the original sets it.
const LOW_DELAY: u8 = 0x10;

/// Bytes that the images of a range of sizes may take; of a range that needs more, every second, third, ... size is sent.
const IMAGES_BYTES_MAX: usize = 8 << 20;

/// Which side of a packet an address stands on.
#[derive(Clone, Copy)]
enum Side {
    Source,
    Destination,
}

/// The stream that thread `thread` sends.
///
/// # Errors
/// When the generator cannot make such packets.
pub fn stream(options: &Options, source_mac: MacAddress, thread: usize) -> Result<StreamPlan, PlanError> {
    let (lens, sizes) = sizes(options, thread);
    let spec = StreamSpec {
        stack: stack(options, source_mac),
        lens,
        sizes,
        rules: rules(options, thread),
        signature: options.timestamp.then_some(thread as u16),
    };
    spec.plan()
}

/// The headers of the first packet, and the payload.
pub fn stack(options: &Options, source_mac: MacAddress) -> Stack {
    let Options { source, destination, .. } = options;
    let udp =
        udp::Header { src_port: *source.ports.start(), dst_port: *destination.ports.start(), ..udp::Header::default() };
    let stack = Stack::new().with(ethernet::Header {
        src: source_mac,
        dst: options.destination_mac,
        ..ethernet::Header::default()
    });
    let stack = match (&source.addresses, &destination.addresses) {
        (Addresses::V4(source), Addresses::V4(destination)) => stack.with(ipv4::Header {
            src: *source.start(),
            dst: *destination.start(),
            tos: LOW_DELAY,
            dont_fragment: true,
            ttl: HOPS,
            ..ipv4::Header::default()
        }),
        (Addresses::V6 { first: source, .. }, Addresses::V6 { first: destination, .. }) => {
            stack.with(ipv6::Header { src: *source, dst: *destination, hop_limit: HOPS, ..ipv6::Header::default() })
        }
        // Both ranges were read with one family.
        _ => stack,
    };
    stack.with(udp).fill(Fill::Repeat(PAYLOAD.into()))
}

/// The lengths that occur, and their order.
fn sizes(options: &Options, thread: usize) -> (Vec<usize>, Sizes) {
    match options.len_min {
        Some(least) if least < options.len => {
            let bytes: usize = (least..options.len).sum();
            let step = bytes.div_ceil(IMAGES_BYTES_MAX);
            let lens: Vec<usize> = (least..options.len).step_by(step).collect();
            let sizes = Sizes::Random { count: lens.len(), seed: seed(thread, 0) };
            (lens, sizes)
        }
        _ => (vec![options.len], Sizes::One),
    }
}

fn rules(options: &Options, thread: usize) -> Vec<Rule> {
    let mut rules = Vec::new();
    if options.function == Function::TxSeq {
        let values = Values::Range { first: 0, step: 1, count: 1 << 32 };
        let field = format!("{}+4", payload_offset(options.family));
        rules.push(Rule { field, values, advance: Advance::EachPacket });
    }
    let sides = [
        (Side::Source, &options.source, options.random_source),
        (Side::Destination, &options.destination, options.random_destination),
    ];
    let mut odometer = Vec::new();
    for (side, range, random) in sides {
        match random {
            true => rules.extend(random_rules(side, range, thread)),
            false => odometer.extend(range_rules(side, range)),
        }
    }
    // The first wheel turns with every packet, each further one when the one before it wraps.
    for (wheel, (field, values)) in odometer.into_iter().enumerate() {
        let advance = if wheel == 0 { Advance::EachPacket } else { Advance::WhenPreviousWraps };
        rules.push(Rule { field, values, advance });
    }
    rules
}

/// The wheels of one side: those of its port and its address that have more than one value.
fn range_rules(side: Side, range: &EndpointRange) -> Vec<(String, Values)> {
    let step_through = |first: u64, count: u64| Values::Range { first, step: 1, count };
    let (address, first_address) = address_field(side, range);
    let mut wheels = Vec::new();
    if range.port_count() > 1 {
        wheels.push((port_field(side), step_through(u64::from(*range.ports.start()), range.port_count())));
    }
    if range.address_count() > 1 {
        wheels.push((address, step_through(first_address, range.address_count())));
    }
    wheels
}

/// Random port, and address (the whole of IPv4, the varying word of IPv6), in every packet.
fn random_rules(side: Side, range: &EndpointRange, thread: usize) -> Vec<Rule> {
    let (address, _) = address_field(side, range);
    let address_count = match range.addresses {
        Addresses::V4(_) => 1 << 32,
        Addresses::V6 { .. } => 1 << 16,
    };
    let number = match side {
        Side::Source => 1,
        Side::Destination => 3,
    };
    let rule = |field, count, number| Rule {
        field,
        values: Values::Random { first: 0, step: 1, count, seed: seed(thread, number) },
        advance: Advance::EachPacket,
    };
    vec![rule(port_field(side), 1 << 16, number), rule(address, address_count, number + 1)]
}

fn port_field(side: Side) -> String {
    match side {
        Side::Source => "udp.source".into(),
        Side::Destination => "udp.destination".into(),
    }
}

/// Name of the varying part of an address, and its first value.
fn address_field(side: Side, range: &EndpointRange) -> (String, u64) {
    match &range.addresses {
        Addresses::V4(addresses) => {
            let name = match side {
                Side::Source => "ipv4.source",
                Side::Destination => "ipv4.destination",
            };
            (name.into(), u64::from(u32::from(*addresses.start())))
        }
        Addresses::V6 { first, group, .. } => {
            let header = ethernet::HEADER_LEN;
            let address = match side {
                Side::Source => header + ipv6::field::SRC.start,
                Side::Destination => header + ipv6::field::DST.start,
            };
            let word = usize::from(*group);
            (format!("{}+2", address + 2 * word), u64::from(first.segments()[word]))
        }
    }
}

/// Start of a pseudo-random sequence: the same in every run, another for each thread and field.
fn seed(thread: usize, field: u64) -> u64 {
    (thread as u64) << 8 | field
}

#[cfg(test)]
#[path = "packet_tests.rs"]
mod tests;
