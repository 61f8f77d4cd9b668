//! The subset's compiler and libpcap's agree on what passes.

use std::fmt::Write;

use linerate_filter::{Facts, Program, Tag, Tags};
use linerate_port_pcap::{FilterError, compile, compile_for};
use proptest::prelude::*;

/// libpcap's program, or `None`, with a line that says why.
fn by_libpcap(expression: &str) -> Option<Program> {
    match compile(expression, 262_144) {
        Ok(program) => Some(program),
        Err(FilterError::NoLibrary(why)) => {
            eprintln!("skipped: {why}");
            None
        }
        Err(FilterError::Refused(why)) => panic!("libpcap refuses `{expression}`: {why}"),
    }
}

fn ours(expression: &str) -> Program {
    linerate_filter::compile(expression, Tags::InPacket, 262_144)
        .unwrap_or_else(|error| panic!("`{expression}`: {error}"))
}

/// Few values, so that packets and filters meet.
fn v4() -> impl Strategy<Value = [u8; 4]> {
    prop_oneof![Just([10, 0, 0, 1]), Just([10, 0, 0, 2]), Just([10, 1, 2, 3]), Just([192, 168, 1, 1]), any::<[u8; 4]>()]
}

fn v6() -> impl Strategy<Value = [u8; 16]> {
    let one = |last| {
        let mut address = [0; 16];
        (address[0], address[1], address[15]) = (0x20, 0x01, last);
        address
    };
    prop_oneof![Just(one(1)), Just(one(2)), any::<[u8; 16]>()]
}

fn port() -> impl Strategy<Value = u16> {
    prop_oneof![Just(53), Just(80), Just(443), Just(1000), Just(2000), 900u16..2100]
}

fn protocol() -> impl Strategy<Value = u8> {
    prop_oneof![Just(6), Just(17), Just(132), Just(1), Just(2), Just(58), Just(44), any::<u8>()]
}

fn mac() -> impl Strategy<Value = [u8; 6]> {
    prop_oneof![Just([2, 0, 0, 0, 0, 1]), Just([2, 0, 0, 0, 0, 2]), Just([0xff; 6]), Just([1, 0, 0x5e, 0, 0, 1])]
}

/// A packet whose headers are whole: on cut packets, the compilers may load in another order.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let tags = proptest::collection::vec((prop_oneof![Just(0x8100u16), Just(0x88a8), Just(0x9100)], 0u16..6), 0..3);
    let ethertype = prop_oneof![
        4 => Just(0x0800u16), 4 => Just(0x86dd), 1 => Just(0x0806), 1 => Just(0x8035), 1 => Just(0x88cc), 1 => 0u16..
    ];
    let addresses = (mac(), mac(), v4(), v4(), v6(), v6());
    let rest = (
        protocol(),
        protocol(),
        port(),
        port(),
        5u8..16,
        prop_oneof![4 => Just(0u16), 1 => any::<u16>(), 2 => proptest::sample::select(vec![1u16, 0x1000, 0x2000, 0x4000])],
    );
    (tags, ethertype, addresses, rest, 0usize..200).prop_map(|(tags, ethertype, addresses, rest, more)| {
        let (to, from, source, destination, source6, destination6) = addresses;
        let (protocol, second, source_port, destination_port, header_words, fragment) = rest;
        let mut packet = [to, from].concat();
        for (tag, id) in tags {
            packet.extend(tag.to_be_bytes());
            packet.extend((id | 0x2000).to_be_bytes());
        }
        packet.extend(ethertype.to_be_bytes());
        let start = packet.len();
        packet.resize(start + 120 + more, 0);
        let ports = [source_port.to_be_bytes(), destination_port.to_be_bytes()].concat();
        let at = &mut packet[start..];
        match ethertype {
            0x0800 => {
                at[0] = 0x40 | header_words;
                at[6..8].copy_from_slice(&fragment.to_be_bytes());
                at[9] = protocol;
                at[12..16].copy_from_slice(&source);
                at[16..20].copy_from_slice(&destination);
                let header = usize::from(header_words) * 4;
                at[header..header + 4].copy_from_slice(&ports);
            }
            0x86dd => {
                at[0] = 0x60;
                at[6] = protocol;
                at[8..24].copy_from_slice(&source6);
                at[24..40].copy_from_slice(&destination6);
                at[40..44].copy_from_slice(&ports);
                if protocol == 44 {
                    at[40] = second;
                }
            }
            _ => {
                at[14..18].copy_from_slice(&source);
                at[24..28].copy_from_slice(&destination);
            }
        }
        packet
    })
}

fn dotted(address: [u8; 4]) -> String {
    std::net::Ipv4Addr::from(address).to_string()
}

fn coloned(address: [u8; 16]) -> String {
    std::net::Ipv6Addr::from(address).to_string()
}

/// A comparison of numbers. Indexes stay inside of the packets, because the compilers load in another order behind their ends.
fn relation() -> impl Strategy<Value = String> {
    let bytes = |protocol: &'static [&'static str], last: u32| {
        (proptest::sample::select(protocol), 0..last, proptest::sample::select(&["", ":1", ":2", ":4"][..]))
            .prop_map(|(protocol, index, size)| format!("{protocol}[{index}{size}]"))
    };
    let number = prop_oneof![
        4 => bytes(&["ip", "ip6", "ether", "arp", "tcp", "udp", "sctp", "icmp", "igmp", "icmp6"], 24),
        1 => bytes(&["tcp", "udp", "icmp"], 6).prop_map(|inner| format!("ip[{} & 15]", inner)),
        1 => Just("len".to_string()),
        1 => Just("udp[(ip[0] & 0xf) - 4]".to_string()),
        3 => prop_oneof![0u32..8, 50u32..300, any::<u32>()].prop_map(|number| number.to_string()),
    ];
    let sum = number.prop_recursive(2, 4, 2, |inner| {
        let operator = proptest::sample::select(&["+", "-", "*", "&", "|", "^"][..]);
        // libpcap does not check that the protocol of a right operand is there; this compiler does.
        let operand = prop_oneof![Just("len".to_string()), (0u32..70_000).prop_map(|number| number.to_string())];
        let by = (proptest::sample::select(&["/", "%", "<<", ">>"][..]), 1u32..20);
        prop_oneof![
            (inner.clone(), operator, operand).prop_map(|(a, operator, b)| format!("({a} {operator} {b})")),
            (inner, by).prop_map(|(a, (operator, b))| format!("({a} {operator} {b})")),
        ]
    });
    let compare = proptest::sample::select(&["=", "==", "!=", ">", "<", ">=", "<="][..]);
    (sum.clone(), compare, sum).prop_map(|(a, compare, b)| format!("{a} {compare} {b}"))
}

/// One primitive of the subset.
fn primitive() -> impl Strategy<Value = String> {
    let direction = || prop_oneof![Just(""), Just("src "), Just("dst "), Just("src or dst "), Just("src and dst ")];
    let net = || {
        (v4(), 0u32..=32).prop_map(|(address, bits)| {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            (dotted((u32::from_be_bytes(address) & mask).to_be_bytes()), bits, dotted(mask.to_be_bytes()))
        })
    };
    let net6 = (v6(), 0u32..=128).prop_map(|(address, bits)| {
        let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        format!("{}/{bits}", coloned((u128::from_be_bytes(address) & mask).to_be_bytes()))
    });
    let over4 = || prop_oneof![Just(""), Just("ip "), Just("arp "), Just("rarp ")];
    let transport = || prop_oneof![Just(""), Just("tcp "), Just("udp "), Just("sctp ")];
    let word = |words: &'static [&'static str]| proptest::sample::select(words).prop_map(str::to_string);
    prop_oneof![
        4 => word(&["ip", "ip6", "arp", "rarp", "tcp", "udp", "sctp", "icmp", "icmp6", "igmp"]),
        4 => (over4(), direction(), v4()).prop_map(|(over, way, address)| format!("{over}{way}host {}", dotted(address))),
        1 => v4().prop_map(|address| format!("src {}", dotted(address))),
        2 => (direction(), v6()).prop_map(|(way, address)| format!("{way}host {}", coloned(address))),
        3 => (over4(), direction(), net()).prop_map(|(over, way, net)| format!("{over}{way}net {}/{}", net.0, net.1)),
        1 => (direction(), net()).prop_map(|(way, net)| format!("{way}net {} mask {}", net.0, net.2)),
        1 => word(&["net 10", "net 10.0", "src net 192.168.1", "net 10.1.2.3"]),
        2 => (direction(), net6).prop_map(|(way, net)| format!("ip6 {way}net {net}")),
        4 => (transport(), direction(), port()).prop_map(|(over, way, port)| format!("{over}{way}port {port}")),
        2 => (transport(), direction(), port(), port())
            .prop_map(|(over, way, first, last)| format!("{over}{way}portrange {first}-{last}")),
        2 => (prop_oneof![Just("ip "), Just("ip6 "), Just("")], protocol()).prop_map(|(over, n)| format!("{over}proto {n}")),
        1 => word(&["ip proto \\udp", "ip6 proto \\tcp", "ether proto \\arp", "ether proto 0x88cc", "ether proto \\ip6"]),
        2 => (direction(), mac()).prop_map(|(way, mac)| {
            let mut text = format!("ether {way}host ");
            mac.iter().enumerate().for_each(|(at, byte)| {
                let _ = write!(text, "{}{byte:02x}", if at > 0 { ":" } else { "" });
            });
            text
        }),
        1 => word(&["ether broadcast", "ether multicast", "broadcast", "multicast", "ip multicast", "ip6 multicast"]),
        3 => relation(),
        3 => proptest::option::of(0u16..6).prop_map(|id| id.map_or("vlan".into(), |id| format!("vlan {id}"))),
        1 => (any::<bool>(), 100u32..400).prop_map(|(less, len)| format!("{} {len}", if less { "less" } else { "greater" })),
        1 => (port(), port()).prop_map(|(first, second)| format!("port ({first} or {second})")),
        1 => (transport(), port(), port(), any::<bool>()).prop_map(|(over, first, second, not)| {
            format!("{over}dst port {first} or {}{second}", if not { "not " } else { "" })
        }),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    primitive().prop_recursive(4, 12, 3, |inner| {
        let pair = (inner.clone(), inner.clone(), prop_oneof![Just("and"), Just("or"), Just("&&"), Just("||")]);
        prop_oneof![
            pair.clone().prop_map(|(one, other, word)| format!("{one} {word} {other}")),
            pair.prop_map(|(one, other, word)| format!("{one} {word} ({other})")),
            inner.clone().prop_map(|one| format!("not {one}")),
            inner.prop_map(|one| format!("!({one})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn both_compilers_let_the_same_packets_pass(
        expression in expression(),
        packets in proptest::collection::vec(packet(), 1..40),
    ) {
        // libpcap refuses what can never hold ("expression rejects all packets"); then nothing may pass here either.
        let theirs = match compile(&expression, 262_144) {
            Ok(program) => Some(program),
            Err(FilterError::Refused(why)) if why.contains("rejects all packets") => None,
            Err(FilterError::NoLibrary(_)) => return Ok(()),
            Err(FilterError::Refused(why)) => panic!("libpcap refuses `{expression}`: {why}"),
        };
        let ours = ours(&expression);
        for packet in &packets {
            let facts = Facts::of_len(packet.len() as u32);
            let expected = theirs.as_ref().map_or(0, |theirs| theirs.run(packet, &facts));
            prop_assert_eq!(ours.run(packet, &facts), expected, "`{}` of {:02x?}\n{}", expression, packet, ours);
        }
    }
}

#[test]
fn libpcap_says_what_is_wrong_with_an_expression() {
    if by_libpcap("tcp").is_none() {
        return;
    }
    let refusal = |expression| compile(expression, 65_535).unwrap_err().to_string();
    assert!(refusal("tcp port").contains("syntax error"), "{}", refusal("tcp port"));
    assert!(refusal("a\0b").contains("zero byte"));
    assert!(compile("", 96).unwrap().run(&[0; 60], &Facts::of_len(60)) > 0);
    // Bytes and arithmetic, which the subset leaves to libpcap.
    assert!(compile("tcp[13] & 2 != 0", 65_535).is_ok());
}

#[test]
fn on_an_interface_vlan_asks_the_kernel() {
    let program = match compile_for("lo", "vlan 5 and ip", 65_535) {
        Ok(program) => program,
        Err(error) => {
            eprintln!("skipped: {error}");
            return;
        }
    };
    let mut packet = [0; 100];
    packet[12] = 8;
    let tag = |control| Facts { tag: Some(Tag { protocol: 0x8100, control }), ..Facts::of_len(100) };
    let beside = linerate_filter::compile("vlan 5 and ip", Tags::Beside, 65_535).unwrap();
    for (facts, passes) in [(tag(5), true), (tag(0x6005), true), (tag(6), false), (Facts::of_len(100), false)] {
        assert_eq!(program.run(&packet, &facts) > 0, passes, "{facts:?}\n{program}");
        assert_eq!(beside.run(&packet, &facts) > 0, passes, "{facts:?}\n{beside}");
    }
}

/// Packets behind one to three labels; few expressions, since libpcap knows nothing but IP behind a label.
#[test]
fn both_compilers_look_behind_labels() {
    let packet = |labels: &[u32], version: u8| {
        let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0x47];
        for (at, label) in labels.iter().enumerate() {
            let bottom = u32::from(at + 1 == labels.len());
            packet.extend((label << 12 | bottom << 8 | 64).to_be_bytes());
        }
        packet.push(version << 4 | 5);
        packet.resize(packet.len() + 80, 6);
        packet
    };
    for expression in [
        "mpls",
        "mpls 7",
        "mpls and ip",
        "mpls 7 and mpls 8",
        "mpls and mpls and ip6",
        "mpls and mpls and mpls",
        "mpls and tcp",
        "mpls and ip[8] = 6",
    ] {
        let Some(theirs) = by_libpcap(expression) else { return };
        for labels in [&[7][..], &[8], &[7, 8], &[8, 7], &[7, 8, 9]] {
            for version in [4, 6, 5] {
                let packet = packet(labels, version);
                let facts = Facts::of_len(packet.len() as u32);
                let passed = (ours(expression).run(&packet, &facts), theirs.run(&packet, &facts));
                assert_eq!(passed.0, passed.1, "`{expression}` of {labels:?}, version {version}");
            }
        }
    }
}
