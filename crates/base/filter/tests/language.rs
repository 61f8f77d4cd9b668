//! What the subset's compiler lets pass, and what it refuses, with the place. (That it agrees with libpcap's is tested beside
//! libpcap, in `ports/pcap`.)

use linerate_filter::{Facts, Tag, Tags, compile};

/// A UDP packet from 10.0.0.1:1000 to 10.0.0.2:53, behind these tags.
fn packet(tags: &[u16]) -> Vec<u8> {
    let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    for id in tags {
        packet.extend([0x81, 0x00]);
        packet.extend(id.to_be_bytes());
    }
    packet.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend([0x03, 0xe8, 0, 53, 0, 26, 0, 0]);
    packet.resize(packet.len() + 18, 0);
    packet
}

fn passes(expression: &str, packet: &[u8]) -> bool {
    let program = compile(expression, Tags::InPacket, 96).unwrap_or_else(|error| panic!("`{expression}`: {error}"));
    program.run(packet, &Facts::of_len(packet.len() as u32)) == 96
}

#[test]
fn primitives_mean_what_they_say() {
    for expression in [
        "",
        "  ",
        "udp",
        "ip",
        "host 10.0.0.1",
        "src 10.0.0.1",
        "dst host 10.0.0.2",
        "src and dst net 10.0.0.0/24",
        "net 10",
        "port 53",
        "udp dst port 53",
        "src port 1000",
        "portrange 2000-900",
        "ip proto 17",
        "ip proto \\udp",
        "ether src 02:00:00:00:00:01",
        "ether proto 0x0800",
        "ether proto \\ip",
        "greater 60",
        "less 60",
        "not tcp",
        "!tcp",
        "port (80 or 53)",
        "port 80 or 53",
        "tcp or udp and port 53",
        "not (tcp or arp) && ip",
        "src net 10.0.0.0 mask 255.0.0.0",
        "not ether broadcast",
        "dst port 80 or not 81",
    ] {
        assert!(passes(expression, &packet(&[])), "{expression}");
    }
    for expression in [
        "tcp",
        "ip6",
        "arp",
        "dst 10.0.0.1",
        "src and dst host 10.0.0.1",
        "net 11",
        "tcp port 53",
        "src port 53",
        "vlan",
        "portrange 54-999",
        "greater 61",
        "less 59",
        "not udp",
        "host ::1",
        "ether multicast",
        // Alike in strength, from left to right: (udp or tcp) and port 80.
        "udp or tcp and port 80",
    ] {
        assert!(!passes(expression, &packet(&[])), "{expression}");
    }
}

#[test]
fn bytes_and_lengths_are_compared() {
    for (expression, is_true) in [
        ("len = 60", true),
        ("len-1 = 59 or len - 1 = 59", true),
        ("len > 60 or len < 60", false),
        ("ip[8] = 64", true),
        ("ip[0] & 0xf = 5", true),
        ("(ip[0] & 0xf) << 2 = 20", true),
        ("ip[2:2] + 14 = len", true),
        ("ip[12:4] = 0x0a000001", true),
        ("udp[2:2] = 53", true),
        ("udp[(ip[0] & 0xf) - 3] = 0", true),
        ("udp[0:2] > udp[2:2]", true),
        ("tcp[13] != 2", false),
        ("not tcp[13] = 2", true),
        ("ether[12:2] = 0x800", true),
        ("ip[9] * 2 == 34 && (udp)", true),
        ("icmp[icmptype] != icmp-echo", false),
        ("ip6[6] = 17", false),
        ("-1 = 0xffffffff", true),
    ] {
        if expression.starts_with("len-1") {
            assert!(compile(expression, Tags::InPacket, 96).is_err(), "`len-1` is a word, as in libpcap");
            continue;
        }
        assert_eq!(passes(expression, &packet(&[])), is_true, "{expression}");
    }
    // Behind a tag, when `vlan` was named.
    assert!(passes("vlan and udp[2:2] = 53", &packet(&[5])));
}

#[test]
fn groups_and_labels() {
    let mut group = packet(&[]);
    group[30] = 239;
    assert!(passes("ip multicast", &group) && !passes("ip multicast", &packet(&[])));
    assert!(!passes("ip6 multicast", &group));
    // Two labels, 100 and 200, in front of the packet.
    let mut labelled = packet(&[]);
    labelled[12..14].copy_from_slice(&[0x88, 0x47]);
    labelled.splice(14..14, [0, 0x06, 0x40, 64, 0, 0x0c, 0x81, 64]);
    for (expression, is_true) in [
        ("mpls", true),
        ("mpls 100", true),
        ("mpls 200", false),
        ("mpls 100 and mpls 200 and udp port 53", true),
        ("mpls and mpls and mpls", false),
        ("mpls and udp", false),
        ("mpls and mpls and ip6", false),
        ("mpls and mpls and arp", false),
        ("udp", false),
        ("mpls and mpls and ip[8] = 64", true),
    ] {
        assert_eq!(passes(expression, &labelled), is_true, "{expression}");
    }
    assert!(!passes("mpls", &packet(&[])));
}

#[test]
fn a_protocol_is_found_behind_headers() {
    // Ethernet, IPv6, then these headers (number of the next one, length field), then TCP.
    let chain = |headers: &[(u8, u8)]| {
        let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 0];
        packet.extend([headers.first().map_or(6, |(own, _)| *own), 64]);
        packet.extend([0; 32]);
        for (at, (own, len)) in headers.iter().enumerate() {
            let bytes = if *own == 51 { (usize::from(*len) + 2) * 4 } else { (usize::from(*len) + 1) * 8 };
            let start = packet.len();
            packet.resize(start + bytes, 0);
            packet[start..start + 2].copy_from_slice(&[headers.get(at + 1).map_or(6, |(own, _)| *own), *len]);
        }
        packet.resize(packet.len() + 20, 0);
        packet
    };
    for headers in [&[][..], &[(0, 0)], &[(0, 1), (43, 2)], &[(44, 0), (51, 4), (60, 0)], &[(0, 0); 8]] {
        assert!(passes("ip6 protochain 6", &chain(headers)), "{headers:?}");
        assert!(passes("protochain \\tcp", &chain(headers)), "{headers:?}");
        assert!(!passes("ip6 protochain 17", &chain(headers)), "{headers:?}");
        assert!(!passes("ip protochain 6", &chain(headers)), "{headers:?}");
    }
    assert!(!passes("ip6 protochain 6", &chain(&[(0, 0); 9])), "eight headers are passed");
    assert!(!passes("ip6 protochain 6", &chain(&[(50, 0)])), "an encrypted packet shows no more");
    assert!(passes("ip protochain 17", &packet(&[])) && passes("protochain 17", &packet(&[])));
}

#[test]
fn what_comes_after_vlan_looks_behind_the_tag() {
    let (one, two) = (packet(&[5]), packet(&[5, 0x2006]));
    for (expression, of_one, of_two) in [
        ("udp", false, false),
        ("vlan", true, true),
        ("vlan 5", true, true),
        ("vlan 6", false, false),
        ("vlan and udp", true, false),
        ("vlan 5 and vlan 6 and udp port 53", false, true),
        ("vlan and vlan", false, true),
        ("udp or vlan 5", true, true),
    ] {
        assert_eq!((passes(expression, &one), passes(expression, &two)), (of_one, of_two), "{expression}");
    }
    // A socket has the outermost tag beside the packet.
    let beside = |expression: &str, tag: Option<u16>, packet: &[u8]| {
        let tag = tag.map(|control| Tag { protocol: 0x8100, control });
        compile(expression, Tags::Beside, 96).unwrap().run(packet, &Facts { tag, ..Facts::of_len(60) }) > 0
    };
    assert!(beside("vlan 5 and udp", Some(0x6005), &packet(&[])));
    assert!(!beside("vlan 5 and udp", Some(6), &packet(&[])) && !beside("vlan", None, &packet(&[])));
    assert!(beside("udp", Some(5), &packet(&[])), "as with tcpdump");
    assert!(beside("vlan 5 and vlan 6 and udp", Some(5), &packet(&[6])));
}

#[test]
fn errors_have_their_place_and_say_what_to_do() {
    for (expression, at, words) in [
        ("tcp and", 8, "missing"),
        ("and tcp", 1, "missing"),
        ("tcp udp", 5, "`and`"),
        ("(tcp", 5, "character 1 is not closed"),
        ("tcp)", 4, "ends before this"),
        ("host", 5, "an address is missing"),
        ("host www.example.org", 6, "libpcap"),
        ("host 10.0.0", 6, "no address"),
        ("net 10.0.0.1/8", 5, "outside of the mask"),
        ("net ip6", 5, "no network"),
        ("host 10.0.0.0/8", 6, "prefix"),
        ("port http", 6, "names need libpcap"),
        ("port 70000", 6, "0 to 65535"),
        ("portrange 1", 11, "no range"),
        ("icmp port 5", 11, "tcp, udp and sctp only"),
        ("tcp host 10.0.0.1", 10, "addresses are of"),
        ("ip6 host 10.0.0.1", 10, "no IPv6"),
        ("ip host ::1", 9, "IPv6 address"),
        ("ip6 net ::1/64", 9, "outside of the first 64"),
        ("ether host 1:2:3", 12, "MAC"),
        ("ether proto 1000", 13, "libpcap"),
        ("ether", 1, "needs host"),
        ("vlan 4096", 6, "0 to 4095"),
        ("greater", 8, "needs a length"),
        ("gateway foo", 1, "libpcap"),
        ("foo", 1, "not known"),
        ("80 or tcp", 1, "not known"),
        ("tcp or 80", 8, "not known"),
        ("tcp[13]", 8, "a comparison is missing"),
        ("tcp[13] & 2", 12, "a comparison is missing"),
        ("tcp[13] = ", 11, "a number is missing"),
        ("tcp[13:3] = 2", 8, "1, 2 or 4"),
        ("tcp[13 = 2", 8, "`]`"),
        ("len = foo", 7, "no number"),
        ("len / 0 = 1", 5, "division by zero"),
        ("len << 32 = 1", 5, "32 bits"),
        ("ip[0xffffffff] = 1", 1, "outside of every packet"),
        ("ip broadcast", 1, "dst host"),
        ("mpls and vlan", 10, "in front of mpls"),
        ("tcp \u{e9}", 5, "no sign"),
    ] {
        let error = compile(expression, Tags::InPacket, 96).unwrap_err();
        assert_eq!(error.at, at, "{expression}: {error}");
        assert!(error.to_string().contains(words), "{expression}: {error}");
    }
}

#[test]
fn no_text_is_too_much() {
    let refusal = |text: String| compile(&text, Tags::InPacket, 96).unwrap_err().to_string();
    assert!(refusal("(".repeat(5000)).contains("deep"));
    assert!(refusal("not ".repeat(5000)).contains("deep"));
    assert!(refusal(format!("port {}", "(".repeat(5000))).contains("deep"));
    assert!(refusal(vec!["tcp"; 1025].join(" or ")).contains("primitives"));
    assert!(refusal(format!("port 1{}", " or 1".repeat(2000))).contains("primitives"));
    assert!(refusal(vec!["net 2001::/3"; 1000].join(" or ")).contains("outside"));
    assert!(refusal(vec!["host 2001::1"; 1000].join(" or ")).contains("4096"));
    assert!(refusal(" ".repeat(100_000) + "tcp").contains("bytes"));
    assert!(compile(&vec!["tcp"; 200].join(" or "), Tags::InPacket, 96).is_ok());
}
