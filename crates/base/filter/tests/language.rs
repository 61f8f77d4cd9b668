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
        ("tcp[13] = 2", 4, "libpcap"),
        ("tcp \u{e9}", 5, "libpcap"),
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
