//! Stream files: the examples of the repository, every error with its place, and text that nobody wrote.

use std::path::Path;

use linerate_gen::{Advance, Arrival, Signature, Sizes, Stream, Values};
use linerate_streams::{StreamFile, parse};
use linerate_wire::{Summary, verify_checksums};
use proptest::prelude::*;

fn packets(file: &StreamFile, stream: usize, count: usize) -> Vec<Vec<u8>> {
    let mut stream = Stream::new(&file.streams[stream].spec.plan().unwrap());
    let make = |number: usize| {
        let (image, len) = stream.next_image();
        let mut packet = vec![0; len];
        stream.write(image, &mut packet, number as u64);
        packet
    };
    (0..count).map(make).collect()
}

fn summaries(text: &str, count: usize) -> Vec<String> {
    packets(&parse(text).unwrap(), 0, count).iter().map(|packet| Summary(packet).to_string()).collect()
}

#[test]
fn every_example_makes_right_packets() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/streams");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file = parse(&std::fs::read_to_string(&path).unwrap())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for (number, entry) in file.streams.iter().enumerate() {
            for packet in packets(&file, number, 500) {
                verify_checksums(&packet).unwrap();
                assert_eq!(Signature::read(&packet).map(|signature| signature.stream), entry.spec.signature);
            }
        }
        seen += 1;
    }
    assert!(seen >= 6, "{seen} examples");
}

/// What the manual shows is right.
#[test]
fn the_manual_shows_files_that_parse() {
    let manual = include_str!("../../../../docs/streams.md");
    let blocks: Vec<&str> = manual.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 2);
    for block in blocks {
        let text = if block.contains("[[stream]]") { block.to_string() } else { format!("[[stream]]\n{block}") };
        parse(&text).unwrap_or_else(|error| panic!("{error}\n{block}"));
    }
}

#[test]
fn the_example_of_10000_flows_has_them() {
    let file = parse(include_str!("../../../../examples/streams/10000-flows.toml")).unwrap();
    let addresses: std::collections::HashSet<Vec<u8>> =
        packets(&file, 0, 20_000).iter().map(|packet| packet[26..34].to_vec()).collect();
    assert_eq!(addresses.len(), 10_000);
    assert!(addresses.contains(&vec![198, 18, 1, 1, 198, 19, 1, 100]));
    assert_eq!((file.rate.as_ref().unwrap().text.as_str(), file.duration_ns), ("500kpps", Some(10_000_000_000)));
    assert_eq!((file.mean_size_wire(), file.len_max()), (64.0, 60));
}

#[test]
fn layers_and_their_fields_become_headers() {
    let text = r#"
        [[stream]]
        layers = [
            { ethernet = { source = "02:00:00:00:00:0a", destination = "02:00:00:00:00:0b" } },
            { vlan = { id = 100, priority = 3 } },
            { ipv6 = { source = "2001:db8::1", destination = "2001:db8::2", hop_limit = 9 } },
            { tcp = { source = 1000, destination = 80, flags = "syn+ACK" } },
        ]"#;
    assert_eq!(
        summaries(text, 1)[0],
        "94 B 02:00:00:00:00:0a > 02:00:00:00:00:0b vlan 100 IPv6 2001:db8::1 > 2001:db8::2 hop limit 9 TCP 1000 > 80 [SYN,ACK] seq 0 ack 0 win 65535 data 16 B"
    );
    let file = parse(text).unwrap();
    assert!(file.streams[0].source_mac_given);
    assert_eq!(file.streams[0].sizes_wire, [(98, 1)], "the smallest frame that has room for headers and signature");
    assert!(!parse("[[stream]]").unwrap().streams[0].source_mac_given);
    // A tunnel's UDP goes to the port of VXLAN unless told otherwise.
    let tunnel =
        summaries(r#"stream = [{ layers = ["ethernet", "ipv4", "udp", "vxlan", "ethernet", "ipv4", "udp"] }]"#, 1);
    assert!(tunnel[0].contains("49184 > 4789"), "{}", tunnel[0]);
}

#[test]
fn rules_say_their_values() {
    let ports = |rule: &str| -> Vec<u16> {
        let text = format!("[[stream]]\nvary = [{{ field = 'udp.source', {rule} }}]");
        packets(&parse(&text).unwrap(), 0, 5)
            .iter()
            .map(|packet| u16::from_be_bytes([packet[34], packet[35]]))
            .collect()
    };
    assert_eq!(ports("value = 7"), [7, 7, 7, 7, 7]);
    assert_eq!(ports("values = [5, 3, 5]"), [5, 3, 5, 5, 3]);
    assert_eq!(ports("first = 10, count = 3"), [10, 11, 12, 10, 11]);
    assert_eq!(ports("first = 10, last = 15, step = 2"), [10, 12, 14, 10, 12]);
    assert_eq!(ports("first = 10, last = 0, step = 5, order = 'decrement'"), [10, 5, 0, 10, 5]);
    assert!(
        ports("first = 100, count = 3, step = 50, order = 'random'").iter().all(|port| [100, 150, 200].contains(port))
    );
    let random = |seed: u64| ports(&format!("first = 0, last = 65535, order = 'random', seed = {seed}"));
    assert_eq!((random(1), random(1) == random(2)), (random(1), false));
}

#[test]
fn each_says_when() {
    let file = parse(
        "[[stream]]\nvary = [{ field = 'udp.source', first = 1, count = 2 }, \
         { field = 'ipv4.ttl', first = 1, count = 3, each = 'cycle' }, { field = '42+2', first = 0, count = 9, each = 'packet' }]\nsignature = false",
    )
    .unwrap();
    let rules = &file.streams[0].spec.rules;
    let advances: Vec<Advance> = rules.iter().map(|rule| rule.advance).collect();
    assert_eq!(advances, [Advance::EachPacket, Advance::WhenPreviousWraps, Advance::EachPacket]);
    assert_eq!(rules[2].values, Values::Range { first: 0, step: 1, count: 9 });
    let ttls: Vec<u8> = packets(&file, 0, 7).iter().map(|packet| packet[22]).collect();
    assert_eq!(ttls, [1, 1, 2, 2, 3, 3, 1]);
}

#[test]
fn an_ipv6_address_of_a_rule_is_the_layers_too() {
    let text = r#"stream = [{ layers = ["ethernet", "ipv6", "udp"], vary = [{ field = "ipv6.source", first = "2001:db8:1::ff", count = 2 }] }]"#;
    let seen = summaries(text, 2);
    assert!(seen[0].contains("2001:db8:1::ff >") && seen[1].contains("2001:db8:1::100 >"), "{seen:?}");
}

#[test]
fn arrivals_ids_and_weights() {
    let arrival = |text: &str| parse(&format!("rate = '1kpps'\narrival = {text}\n[[stream]]")).map(|file| file.arrival);
    assert_eq!(arrival("'constant'"), Ok(Arrival::Constant));
    assert_eq!(arrival("'poisson'"), Ok(Arrival::Poisson { seed: 1 }));
    assert_eq!(arrival("{ poisson = { seed = 3 } }"), Ok(Arrival::Poisson { seed: 3 }));
    assert_eq!(arrival("{ burst = 8 }"), Ok(Arrival::Burst { packets: 8 }));
    assert!(
        arrival("{ burst = 0 }").is_err()
            && arrival("{ burst = 8, poisson = {} }").is_err()
            && arrival("'steady'").is_err()
    );
    let file =
        parse("[[stream]]\nweight = 3\n[[stream]]\nid = 9\n[[stream]]\nsignature = false\nsize = 'imix'").unwrap();
    let ids: Vec<Option<u16>> = file.streams.iter().map(|stream| stream.spec.signature).collect();
    assert_eq!((ids, file.streams[0].weight), (vec![Some(0), Some(9), None], 3));
    assert!(matches!(&file.streams[2].spec.sizes, Sizes::Pattern(order) if order.len() == 12));
    let mean = (64.0 * 4.0 + (7.0 * 64.0 + 4.0 * 594.0 + 1518.0) / 12.0) / 5.0;
    assert!((file.mean_size_wire() - mean).abs() < 1e-9);
}

/// Text, line and column of the error, and words that it says.
const WRONG: &[(&str, usize, usize, &str)] = &[
    ("", 1, 1, "stream"),
    ("stream = []", 1, 10, "0 streams"),
    ("[[stream]]\nsise = 64", 2, 1, "unknown field `sise`"),
    ("[[stream]]\nsize = 64\nsize = 65", 3, 1, "duplicate key"),
    ("[[stream]]\nsize = ", 2, 8, "value"),
    ("[[stream]]\nsize = 'imux'", 2, 8, "imix-csit"),
    ("[[stream]]\nsize = [64, 'x']", 2, 13, "invalid type"),
    ("[[stream]]\nsize = 50", 2, 8, "at least 62"),
    ("[[stream]]\nsize = 40", 2, 8, "42 bytes of headers"),
    ("[[stream]]\nlayers = ['ethernet', 'ip']", 2, 23, "unknown variant `ip`"),
    ("[[stream]]\nlayers = ['ethernet', { ipv4 = { sorce = '192.0.2.1' } }]", 2, 34, "unknown field `sorce`"),
    ("[[stream]]\nlayers = ['ethernet', { ipv4 = { source = '192.0.2' } }]", 2, 43, "is not an IPv4 address"),
    ("[[stream]]\nlayers = ['ethernet', { ipv4 = {}, udp = {} }]", 2, 23, "a table of its own"),
    ("[[stream]]\nlayers = ['ethernet', {}]", 2, 23, "a layer without a name"),
    ("[[stream]]\nlayers = ['ethernet', { vlan = { id = 4096 } }, 'ipv4']", 2, 10, "4096"),
    ("[[stream]]\nlayers = ['ethernet', { ipv4 = { tos = 1, dscp = 1 } }]", 2, 23, "same bits"),
    ("[[stream]]\nlayers = ['udp']", 2, 10, "start"),
    ("[[stream]]\nlayers = ['ethernet', 'ipv4', { tcp = { flags = 'SYN+FOO' } }]", 2, 49, "FOO"),
    ("[[stream]]\nvary = [{ field = 'udp.port', value = 1 }]", 2, 19, "source, destination"),
    ("[[stream]]\nvary = [{ field = 'tcp.source', value = 1 }]", 2, 19, "no such layer"),
    ("[[stream]]\nvary = [{ field = 'udp.source', value = 65536 }]", 2, 41, "at most 65535"),
    ("[[stream]]\nvary = [{ field = 'udp.source', value = -1 }]", 2, 41, "negative"),
    ("[[stream]]\nvary = [{ field = 'udp.source', first = 65000, count = 1000 }]", 2, 41, "beyond"),
    ("[[stream]]\nvary = [{ field = 'udp.source', first = 1, count = 3, order = 'decrement' }]", 2, 41, "below 0"),
    ("[[stream]]\nvary = [{ field = 'udp.source', first = 9, last = 1 }]", 2, 51, "decrement"),
    ("[[stream]]\nvary = [{ field = 'udp.source', first = 9 }]", 2, 19, "count, or last"),
    ("[[stream]]\nvary = [{ field = 'udp.source', value = 9, count = 2 }]", 2, 52, "belongs to first"),
    ("[[stream]]\nvary = [{ field = 'udp.source', first = 9, count = 2, seed = 2 }]", 2, 62, "random"),
    ("[[stream]]\nvary = [{ field = 'udp.source', first = 9, count = 0 }]", 2, 52, "at least 1"),
    ("[[stream]]\nvary = [{ field = 'udp.source', first = 9, count = 2, step = 0 }]", 2, 62, "step"),
    ("[[stream]]\nvary = [{ field = 'udp.source', first = 9, count = 2, each = 'cycle' }]", 2, 62, "first rule"),
    ("[[stream]]\nvary = [{ field = 'ipv4.source', value = 'x' }]", 2, 42, "IPv4 address"),
    ("[[stream]]\nvary = [{ field = 'udp.source', value = '9' }]", 2, 41, "without quotes"),
    ("[[stream]]\nvary = [{ field = '50+4', value = 1 }]", 2, 19, "signature"),
    ("[[stream]]\nvary = [{ field = '40+2', value = 1 }]", 2, 19, "checksums are kept right"),
    ("rate = '1kpps'\nduration = '10'\n[[stream]]", 2, 12, "write 10s"),
    ("count = 0\n[[stream]]", 1, 9, "at least 1"),
    ("arrival = 'poisson'\n[[stream]]", 1, 11, "needs a rate"),
    ("[[stream]]\nid = 4\n[[stream]]\nid = 4", 3, 1, "two streams have id 4"),
    ("[[stream]]\nid = 4\nsignature = false", 1, 1, "an id"),
    ("[[stream]]\nweight = 0", 2, 10, "weight"),
    ("[[stream]]\nname = \"a\\u0007\"", 1, 1, "control"),
    ("[[stream]]\nfill = { hex = 'abc' }", 2, 8, "a fill is"),
    ("[[stream]]\nsize = { from = 64, to = 9018 }", 1, 1, "16 MiB"),
    (
        "stream = [{ layers = ['ethernet', { ipv6 = { source = '2001:db8::1' } }], vary = [{ field = 'ipv6.source', value = '2001:db9::1' }] }]",
        1,
        116,
        "upper",
    ),
];

#[test]
fn errors_point_at_their_place() {
    for (text, line, column, words) in WRONG {
        let error = parse(text).map(|_| ()).expect_err(text);
        assert_eq!((error.line, error.column), (*line, *column), "{text}\n{error}");
        assert!(error.message.contains(words), "{text}\n{error}");
    }
}

#[test]
fn hostile_files_need_little_memory() {
    assert!(parse(&" ".repeat(300_000)).is_err());
    assert!(parse(&"[[stream]]\n".repeat(300)).unwrap_err().message.contains("300 streams"));
    let mixed = "[[stream]]\nsize = { from = 64, to = 4000 }\n".repeat(3);
    assert!(parse(&mixed).unwrap_err().message.contains("16 MiB"));
    let nested = format!("a = {}{}", "[".repeat(20_000), "]".repeat(20_000));
    assert!(parse(&nested).is_err());
    let values = format!("[[stream]]\nvary = [{{ field = 'udp.source', values = [{}] }}]", "1,".repeat(70_000));
    assert!(parse(&values).unwrap_err().message.contains("65,536"));
    let layers = format!("[[stream]]\nlayers = [{}]", "'vlan',".repeat(33));
    assert!(parse(&layers).unwrap_err().message.contains("33 layers"));
}

/// Texts that are nearly stream files: true keys with odd values, in odd places.
fn near_text() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "size",
        "layers",
        "vary",
        "field",
        "first",
        "last",
        "count",
        "step",
        "order",
        "seed",
        "each",
        "values",
        "value",
        "id",
        "weight",
        "fill",
        "signature",
        "rate",
        "arrival",
        "duration",
        "stream",
        "name",
        "from",
        "to",
        "mix",
        "list",
        "udp_checksum",
    ]);
    let leaf = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        (0u32..2000).prop_map(|number| number.to_string()),
        prop::sample::select(vec![
            "'imix'",
            "'ethernet'",
            "'ipv4'",
            "'udp'",
            "'vxlan'",
            "'udp.source'",
            "'ipv4#2.source'",
            "'42+2'",
            "'random'",
            "'cycle'",
            "true",
            "'2001:2::7'",
            "'198.18.0.9'",
            "'1s'",
            "1.5",
            "'increment'",
            "[[64, 7]]",
            "1979-05-27",
        ])
        .prop_map(String::from),
    ];
    let value = leaf.prop_recursive(4, 24, 4, move |inner| {
        let table = prop::collection::vec((key.clone(), inner.clone()), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(|values| format!("[{}]", values.join(", "))),
            table.prop_map(|pairs| {
                let pairs: Vec<String> = pairs.into_iter().map(|(key, value)| format!("{key} = {value}")).collect();
                format!("{{ {} }}", pairs.join(", "))
            }),
        ]
    });
    let name = prop::sample::select(vec!["size", "layers", "vary", "fill", "weight", "id", "signature"]);
    prop::collection::vec((name, value), 0..4).prop_map(|pairs| {
        let lines: Vec<String> = pairs.into_iter().map(|(key, value)| format!("{key} = {value}")).collect();
        format!("[[stream]]\n{}", lines.join("\n"))
    })
}

/// Files that are right, with all kinds of layers, sizes and rules.
fn right_text() -> impl Strategy<Value = String> {
    let network = prop::sample::select(vec![
        "'ipv4'",
        "'ipv6'",
        "{ ipv4 = { ttl = 3, dscp = 10 } }",
        "{ ipv6 = { flow_label = 9 } }",
    ]);
    let below = prop::sample::select(vec!["", "'vlan',", "'qinq', 'vlan',", "'mpls',", "'vlan', 'mpls', 'mpls',"]);
    let size = prop::sample::select(vec![
        "200",
        "'imix-csit'",
        "[150, 151, 1518]",
        "{ from = 140, to = 200, step = 7, order = 'random' }",
    ]);
    let rule = (0u64..60_000, 1u64..500, 1u64..9, prop::sample::select(vec!["increment", "random"])).prop_map(
        |(first, count, step, order)| format!("first = {first}, count = {count}, step = {step}, order = '{order}'"),
    );
    let transport = prop::sample::select(vec!["udp", "tcp"]);
    (below, network, transport, size, rule, any::<bool>()).prop_map(|(below, network, transport, size, rule, signature)| {
        // The headers take more than the mix's smallest size.
        let size = if size.contains("imix") { "{ mix = [[170, 3], [570, 2]] }" } else { size };
        format!(
            "[[stream]]\nsize = {size}\nsignature = {signature}\nlayers = ['ethernet', {below} {network}, '{transport}']\n\
             vary = [{{ field = '{transport}.source', {rule} }}]"
        )
    })
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}", near in near_text()) {
        let _ = parse(&text);
        if let Err(error) = parse(&near) {
            prop_assert!(error.to_string().lines().count() >= 3);
        }
    }

    #[test]
    fn what_parses_makes_right_packets(text in right_text()) {
        let file = parse(&text).map_err(|error| TestCaseError::fail(format!("{text}\n{error}")))?;
        for packet in packets(&file, 0, 40) {
            prop_assert!(verify_checksums(&packet).is_ok(), "{text} {}", Summary(&packet));
            prop_assert_eq!(Signature::read(&packet).is_some(), file.streams[0].spec.signature.is_some());
        }
    }
}
