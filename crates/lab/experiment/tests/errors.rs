//! Bad experiment files: each mistake is told at its place, with what was expected.

use linerate_testbed::dut::parse;

const GOOD: &str = r#"name = "x"
title = "X"

[topology]
kind = "namespaces"
mtu = 1500

[[dut]]
name = "plain"
kind = "router"

[[dut]]
name = "snat"
kind = "router"
firewall = "iptables"
snat = true

[matrix]
sizes = [64, 1518]
flows = [1, 10000]
directions = ["one-way", "both-ways"]

[[test]]
kind = "throughput"
goals = ["NDR", "PDR"]

[[test]]
kind = "latency"

[[published]]
source = "A. Body, 2020"
dut = "plain"
flows = 1
what = "throughput"
value = 1.4e6
text = "1.4 Mpps"
"#;

/// The errors, without the lines that show the place.
fn errors(text: &str) -> Vec<String> {
    let Err(errors) = parse(text, "x.toml") else { return Vec::new() };
    assert_eq!(errors.to_string().lines().count(), 3 * errors.problems.len());
    let at = |problem: &linerate_units::TextError| format!("{}:{} {}", problem.line, problem.column, problem.message);
    errors.problems.iter().map(at).collect()
}

#[test]
fn the_good_file_is_good() {
    assert_eq!(errors(GOOD), Vec::<String>::new());
}

/// What was changed, to what, where the error is, and how it begins or what is in it.
const MISTAKES: &[(&str, &str, &str, &[&str])] = &[
    (
        "dut = \"plain\"",
        "dut = \"plein\"",
        "32:7",
        &["unknown DUT \"plein\"; expected one of plain, snat; did you mean \"plain\"?"],
    ),
    (
        "kind = \"router\"",
        "kind = \"rooter\"",
        "10:8",
        &["unknown kind of DUT \"rooter\"", "external, none; did you mean \"router\"?"],
    ),
    (
        "kind = \"router\"\n\n",
        "kind = \"switch\"\nports = \"mimif\"\n\n",
        "11:9",
        &["unknown kind of the switch's ports \"mimif\"; expected one of packet, xdp, memif; did you mean \"memif\"?"],
    ),
    ("kind = \"router\"\n\n", "kind = \"bridge\"\nports = \"xdp\"\n\n", "11:1", &["unknown key in [[dut]] \"ports\""]),
    ("mtu = 1500", "mut = 1500", "6:1", &["unknown key in [topology] \"mut\"", "did you mean \"mtu\"?"]),
    ("mtu = 1500", "mtu = 9001", "6:7", &["`mtu` is 9001; expected a whole number from 46 to 9000"]),
    ("mtu = 1500", "mtu = 1499", "19:14", &["a frame of 1518 B on the wire carries 1500 B", "expected mtu = 1500"]),
    ("name = \"x\"\n", "", "1:1", &["the file needs `name`"]),
    ("name = \"x\"", "name = \"../x\"", "1:8", &["letters, digits, dots and dashes"]),
    ("name = \"snat\"", "name = \"Plain\"", "13:8", &["two DUTs are called"]),
    ("firewall = \"iptables\"\n", "", "15:8", &["`snat` needs firewall"]),
    ("snat = true", "snat = true\nloses = { place = \"a\" }", "17:9", &["`loses` needs a place and a cause"]),
    ("snat = true", "snat = true\nsetup = \"true\"", "17:9", &["`setup`"]),
    ("snat = true", "snat = 1", "16:8", &["`snat` is a whole number; expected true or false"]),
    ("snat = true", "", "15:12", &["a firewall without rules does nothing"]),
    (
        "snat = true",
        "snat = true\nsysctls = { \"kernel.panic\" = 1 }",
        "17:13",
        &["\"kernel.panic\" is not under net/"],
    ),
    ("snat = true", "snat = true\nsysctls = { \"net/../kernel/panic\" = 1 }", "17:13", &["is not under net/"]),
    (
        "snat = true",
        "snat = true\nsysctls = { \"net.ipv4.x\" = 1, \"net/ipv4/x\" = 2 }",
        "17:",
        &["net/ipv4/x is set twice"],
    ),
    (
        "kind = \"router\"",
        "kind = \"pipe\"",
        "10:8",
        &["the DUT pipe contradicts the topology namespaces", "pipe needs in-process"],
    ),
    ("kind = \"router\"", "kind = \"external\"", "10:8", &["the DUT external contradicts"]),
    ("kind = \"router\"", "kind = \"command\"", "8:1", &["[[dut]] needs `start`"]),
    (
        "kind = \"router\"",
        "kind = \"command\"\nstart = [\"f\", \"{inn}\"]",
        "11:15",
        &["`{inn}` is put nowhere; did you mean \"{in}\"?"],
    ),
    ("sizes = [64, 1518]", "sizes = [63]", "19:10", &["`sizes` is 63; expected a whole number from 64 to 9018"]),
    ("sizes = [64, 1518]", "fcs = false\nsizes = [59]", "20:10", &["from 60 to 9014"]),
    ("sizes = [64, 1518]", "sizes = [9018]", "19:10", &["more than the mtu of 1500"]),
    ("sizes = [64, 1518]", "sizes = [64, 64]", "19:14", &["64 is in `sizes` twice"]),
    (
        "sizes = [64, 1518]",
        "sizes = [\"imx\"]",
        "19:10",
        &["unknown size \"imx\"; expected a number of bytes", "did you mean \"imix\"?"],
    ),
    ("sizes = [64, 1518]", "sizes = [{ name = \"m\", mix = [[64, 0]] }]", "19:36", &["`weight` is 0"]),
    ("sizes = [64, 1518]", "sizes = []", "19:9", &["`sizes` has 0 entries; expected 1 to 100"]),
    ("sizes = [64, 1518]", "sizes = [99999999999999999999999999]", "19:10", &["`sizes` is 99999999999999999999999999"]),
    ("[1, 10000]", "[1, 0]", "20:13", &["`flows` is 0"]),
    ("[1, 10000]", "[1, 16777217]", "20:13", &["from 1 to 16777216"]),
    ("[1, 10000]", "[1, 1000003]", "20:13", &["1000003 flows cannot be divided"]),
    ("[1, 10000]", "[1, { sources = 101 }]", "20:", &["overlap the sources 192.0.2.1-192.0.2.101"]),
    ("[1, 10000]", "[1, { sources = 256 }]", "20:", &["in no test block; expected one of 192.0.2.0/24"]),
    ("[1, 10000]", "[7, { source = \"8.8.8.8\" }]", "20:24", &["the sources 8.8.8.8 are in no test block"]),
    ("[1, 10000]", "[7, { source = \"198.18.1.1\" }]", "20:24", &["on the lab's own links"]),
    ("[1, 10000]", "[7, { source = \"192.0.2\" }]", "20:24", &["expected an IPv4 address"]),
    (
        "[1, 10000]",
        "[1, { source = \"10.0.0.1\", sources = 5000, destinations = 5000, destination = \"10.1.0.1\" }]",
        "20:",
        &["has 25000000 flows"],
    ),
    ("[1, 10000]", "[7, { seed = 1 }]", "20:22", &["`seed` needs order"]),
    ("\"both-ways\"]", "\"both\"]", "21:26", &["unknown direction \"both\"; expected one of one-way, both-ways"]),
    ("\"both-ways\"]", "\"one-way\"]", "21:26", &["this direction is there twice"]),
    (
        "\"both-ways\"]",
        "\"both-ways\"]\nports = [\"dpkd\"]",
        "22:10",
        &["unknown kind of ports \"dpkd\"; expected one of xdp, packet, pcap"],
    ),
    ("\"both-ways\"]", "\"both-ways\"]\nrepetitions = 1001", "22:15", &["from 1 to 1000"]),
    (
        "\"both-ways\"]",
        "\"both-ways\"]\nskip = [{ flows = 2 }]",
        "22:19",
        &["no flow pattern has 2 flows; expected one of 1, 10000"],
    ),
    ("\"both-ways\"]", "\"both-ways\"]\nskip = [{ flows = 1 }, { flows = 10000 }]", "18:1", &["leaves out every cell"]),
    ("kind = \"throughput\"", "kind = \"troughput\"", "24:8", &["unknown kind of test \"troughput\""]),
    (
        "kind = \"throughput\"\ngoals = [\"NDR\", \"PDR\"]",
        "kind = \"max-forwarding-rate\"",
        "27:8",
        &["a latency test starts from the throughput"],
    ),
    ("kind = \"latency\"", "kind = \"throughput\"", "28:8", &["the second throughput test"]),
    (
        "kind = \"latency\"",
        "kind = \"latency\"\nshares = [0.5, 1.0]",
        "29:16",
        &["`shares` is 1.0; expected a share from 0 to below 1"],
    ),
    ("kind = \"latency\"", "kind = \"latency\"\nshares = [nan]", "29:11", &["`shares` is nan"]),
    ("kind = \"latency\"", "kind = \"latency\"\nidle = \"0pps\"", "29:8", &["below 1pps"]),
    (
        "kind = \"latency\"",
        "kind = \"latency\"\nidle = 1000",
        "29:8",
        &["`idle` is a whole number; expected a rate in quotes"],
    ),
    ("kind = \"latency\"", "kind = \"latency\"\ntrial = \"1\"", "29:9", &["write 1s"]),
    ("kind = \"latency\"", "kind = \"latency\"\ntrial = \"0s\"", "29:9", &["`trial` is \"0s\"; expected 1ms to 24h"]),
    (
        "kind = \"latency\"",
        "kind = \"frame-loss\"\nloads = [\"1kpps\", \"2kpps\"]",
        "29:19",
        &["expected the highest first"],
    ),
    ("kind = \"latency\"", "kind = \"soak\"\nshare = 0", "29:9", &["a share above 0 up to 1"]),
    ("kind = \"latency\"", "kind = \"load\"\nrate = \"1e9pps\"", "29:8", &["not a packet rate"]),
    (
        "[\"NDR\", \"PDR\"]",
        "[\"PDR\", \"NDR\"]",
        "25:17",
        &["the goal NDR (loss ratio 0) is stricter than PDR before it"],
    ),
    ("[\"NDR\", \"PDR\"]", "[\"NDR\", \"NDR\"]", "25:17", &["two goals are called \"NDR\""]),
    (
        "[\"NDR\", \"PDR\"]",
        "[\"NDR\", { name = \"zero\", loss_ratio = 0 }]",
        "25:17",
        &["the goals NDR and zero look for the same"],
    ),
    ("[\"NDR\", \"PDR\"]", "[{ name = \"own\", loss_ratio = 1.0 }]", "25:39", &["`loss_ratio` is 1.0"]),
    (
        "[\"NDR\", \"PDR\"]",
        "[\"NDR\"]\nexceed_ratio = 1",
        "26:16",
        &["`exceed_ratio` is 1; expected a share from 0 to below 1"],
    ),
    ("[\"NDR\", \"PDR\"]", "[\"NDR\"]\nwidth = inf", "26:9", &["`width` is inf"]),
    (
        "[\"NDR\", \"PDR\"]",
        "[\"NDR\"]\nduration_sum = \"500ms\"",
        "26:16",
        &["the duration sum 500ms is shorter than one trial of 1s"],
    ),
    (
        "[\"NDR\", \"PDR\"]",
        "[\"NDR\"]\ninitial_trial = \"2s\"",
        "26:17",
        &["the initial trial of 2s is longer than the final one of 1s"],
    ),
    ("[\"NDR\", \"PDR\"]", "[\"NDR\"]\nsearch = \"bisection\"", "25:1", &["unknown key in [[test]] \"goals\""]),
    ("value = 1.4e6", "value = -1", "35:9", &["`value` is -1"]),
    (
        "what = \"throughput\"",
        "what = \"speed\"",
        "34:8",
        &["unknown figure \"speed\"; expected one of throughput, rate, cores"],
    ),
    ("[[published]]", "[published]", "30:1", &["expected [[published]], with two brackets"]),
    ("flows = 1\n", "flows = 1\nflows = 1\n", "34:1", &["this is not TOML: duplicate key"]),
    (
        "\"both-ways\"]",
        "\"both-ways\"]\nskip = [{ dut = \"plain\", flows = 1 }]",
        "31:1",
        &["this published row matches no cell"],
    ),
    (
        "\"both-ways\"]",
        "\"both-ways\"]\nskip = [{ flows = 1 }, { dut = \"snat\", flows = 1, size = 65 }]",
        "22:58",
        &["unknown size \"65\"; expected one of 64, 1518"],
    ),
];

#[test]
fn one_mistake_is_one_error_at_its_place() {
    let mut wrong = Vec::new();
    for (from, to, place, expected) in MISTAKES {
        assert!(GOOD.contains(from), "{from}");
        let found = errors(&GOOD.replacen(from, to, 1));
        let fits = |error: &String| error.starts_with(place) && expected.iter().all(|words| error.contains(words));
        if !(found.len() == 1 && found.iter().all(fits)) {
            wrong.push(format!("{to:?}: expected {place} {expected:?}, found {found:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn all_mistakes_are_told_at_once() {
    let text =
        GOOD.replace("[matrix]", "[matrx]").replace("\"latency\"", "\"latncy\"").replace("snat = true", "snat = 1");
    let found = errors(&text);
    let expected = [
        "1:1 the file needs a table [matrix] with sizes and flows",
        "16:8 `snat` is a whole number; expected true or false",
        "18:2 unknown key in the file \"matrx\"",
        "28:8 unknown kind of test \"latncy\"",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    assert!(found.iter().zip(expected).all(|(found, expected)| found.starts_with(expected)), "{found:#?}");
}

/// The good file with other lines for its matrix.
fn with_matrix(lines: &str) -> String {
    let (before, rest) = GOOD.split_once("sizes =").unwrap();
    let (_, after) = rest.split_once("\n\n[[test]]").unwrap();
    let (tests, _) = after.split_once("[[published]]").unwrap();
    format!("{before}{lines}\n\n[[test]]{tests}")
}

#[test]
fn a_matrix_too_large_is_told_with_its_size() {
    let sizes: Vec<String> = (64..164).map(|size| size.to_string()).collect();
    let flows: Vec<String> = (1..=100).map(|count| count.to_string()).collect();
    let lines = format!("sizes = [{}]\nflows = [{}]", sizes.join(", "), flows.join(", "));
    let found = errors(&with_matrix(&lines));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].contains("20000 cells (2 DUTs x 100 sizes x 100 flow patterns x 1 directions"), "{found:#?}");
    let (sizes, flows) = (sizes[..40].join(", "), flows[..40].join(", "));
    let found = errors(&with_matrix(&format!("sizes = [{sizes}]\nflows = [{flows}]\nrepetitions = 1000")));
    assert!(found[0].contains("3200 cells x 2 tests x 1000 repetitions are 6400000 tests"), "{found:#?}");
}

#[test]
fn dut_and_topology_have_to_fit() {
    let file = |topology: &str, kind: &str, matrix: &str| {
        let head = GOOD.split_once("[topology]").unwrap().0;
        format!(
            "{head}[topology]\n{topology}\n[[dut]]\nname = \"d\"\nkind = {kind:?}\n\
             [matrix]\nsizes = [64]\nflows = [1]\n{matrix}\n[[test]]\nkind = \"throughput\"\n"
        )
    };
    let (ports, inside) = ("kind = \"ports\"\na = \"xdp:eth1\"\nb = \"xdp:eth2\"", "kind = \"in-process\"");
    for (topology, kinds) in [
        ("", &["router", "bridge", "xdp-forwarder", "openvswitch", "ofswitch", "switch", "none"][..]),
        (ports, &["external", "none"][..]),
        (inside, &["pipe", "none"][..]),
    ] {
        let all =
            ["router", "bridge", "xdp-forwarder", "openvswitch", "ofswitch", "switch", "none", "external", "pipe"];
        for kind in all {
            let found = errors(&file(topology, kind, ""));
            assert_eq!(found.is_empty(), kinds.contains(&kind), "{topology} {kind}: {found:#?}");
            assert!(found.is_empty() || found[0].contains("contradicts the topology"), "{found:#?}");
        }
    }
    let found = errors(&file(inside, "pipe", "ports = [\"xdp\"]"));
    assert!(found.len() == 1 && found[0].contains("`ports` is for namespaces"), "{found:#?}");
    let found = errors(&file(&ports.replace("eth2", "eth1"), "none", ""));
    assert!(found.len() == 1 && found[0].contains("both ends are \"xdp:eth1\""), "{found:#?}");
    for (cable, words) in [
        ("[\"xdp:eth3\", \"xdp:eth4\"]", ""),
        ("[\"xdp:eth3\"]", "needs two ports"),
        ("[\"xdp:eth3\", \"xdp:eth3\"]", "needs two ports"),
        ("[\"xdp:eth3\", \"\"]", "needs two ports"),
        ("[\"xdp:eth3\", \"xdp:eth2\"]", "\"xdp:eth2\" is cabled to the device"),
    ] {
        let found = errors(&file(&format!("{ports}\nbaseline_ports = {cable}"), "external", ""));
        assert_eq!((found.is_empty(), found.len() <= 1), (words.is_empty(), true), "{cable}: {found:#?}");
        assert!(found.iter().all(|error| error.contains(words)), "{cable}: {found:#?}");
    }
    let found = errors(&file("baseline_ports = [\"xdp:eth3\", \"xdp:eth4\"]", "none", ""));
    assert!(found.len() == 1 && found[0].contains("unknown key in [topology] \"baseline_ports\""), "{found:#?}");
    let found = errors(&file("kind = \"ports\"\na = \"xdp:eth1\"", "none", ""));
    assert!(found.len() == 1 && found[0].contains("[topology] needs `b`"), "{found:#?}");
}

#[test]
fn a_placement_on_cores_can_be() {
    let file = |head: &str, matrix: &str| {
        format!(
            "name = \"x\"\ntitle = \"X\"\n{head}\n[[dut]]\nname = \"d\"\nkind = \"none\"\n[matrix]\nsizes = [64]\nflows = [1]\n{matrix}\n[[test]]\nkind = \"throughput\"\n"
        )
    };
    let ports = "[topology]\nkind = \"ports\"\na = \"xdp:eth1\"\nb = \"xdp:eth2\"";
    let inside = "[topology]\nkind = \"in-process\"";
    for (head, matrix) in [
        ("[cores]\ndut = [1, 2]", ""),
        ("[cores]\ndut_count = 2", ""),
        ("", "cores = [\"apart\", \"shared\", { name = \"two\", generator = 0, dut = [1, 2], receiver = 3 }]"),
        (ports, "cores = [{ name = \"a\", generator = 0 }]"),
        (inside, "cores = [\"apart\"]"),
        ("", "cores = [\"apart\", \"shared\"]\nskip = [{ cores = \"shared\" }]"),
    ] {
        assert_eq!(errors(&file(head, matrix)), Vec::<String>::new(), "{head} {matrix}");
    }
    for (head, matrix, expected) in [
        ("[cores]\nshared = true\ndut = 1", "", ":7 `dut` names a core, but with shared = true"),
        ("[cores]\nshared = true\ndut_count = 1", "", "on no core of its own"),
        ("[cores]\ndut = 1\ndut_count = 2", "", "`dut` names the device's cores"),
        ("[cores]\ndut = [1, 1]", "", "core 1 is in `dut` twice"),
        ("[cores]\ndut = []", "", "`dut` has 0 entries"),
        ("[cores]\ndut = \"all\"", "", "`dut` is a text; expected a whole number from 0 to 4095"),
        ("[cores]\ndut_count = 0", "", "`dut_count` is 0"),
        ("", "cores = [\"apart\", \"apart\"]", "apart is in `cores` twice"),
        ("", "cores = [\"alone\"]", "unknown placement \"alone\"; expected one of apart, shared"),
        ("", "cores = [{ dut = 1 }]", "needs `name`"),
        ("", "cores = [2]", "an entry of `cores` is a whole number; expected a table"),
        ("", "cores = [\"apart\"]\nskip = [{ cores = \"shared\" }]", "unknown placement \"shared\""),
        ("[cores]\ngenerator = 0", "cores = [\"apart\"]", "expected one of them"),
        (ports, "cores = [\"apart\"]", "between two ports of this host the device is not the lab's to place"),
        (inside, "cores = [{ name = \"two\", dut_count = 2 }]", "one thread serves a device inside this process"),
    ] {
        let found = errors(&file(head, matrix));
        assert!(found.iter().any(|error| error.contains(expected)), "{head} {matrix}: {found:#?}");
    }
}

#[test]
fn a_switch_that_shares_memory_with_the_tester_has_one_cell_whatever_ports_others_are_tested_with() {
    let file = "name = \"x\"\ntitle = \"X\"\n[[dut]]\nname = \"cards\"\nkind = \"switch\"\n[[dut]]\nname = \"memory\"\nkind = \"switch\"\n\
        ports = \"memif\"\n[matrix]\nsizes = [64]\nflows = [1]\nports = [\"xdp\", \"packet\"]\n[[test]]\nkind = \"throughput\"\n";
    let experiment = parse(file, "x.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let ids: Vec<String> = experiment.cells().into_iter().map(|cell| cell.id).collect();
    assert_eq!(ids, ["cards/64/1/one-way/xdp", "cards/64/1/one-way/packet", "memory/64/1/one-way"]);
}

#[test]
fn a_next_hop_is_a_station() {
    let file = |line: &str| {
        format!(
            "name = \"x\"\ntitle = \"X\"\n[topology]\nkind = \"ports\"\na = \"xdp:eth1\"\nb = \"xdp:eth2\"\n{line}\n[[dut]]\nname = \"d\"\nkind = \"external\"\n[matrix]\nsizes = [64]\nflows = [1]\n[[test]]\nkind = \"throughput\"\n"
        )
    };
    for good in [
        "a_next_hop = \"02:00:5e:00:00:0A\"",
        "a_next_hop = { gateway = \"198.18.0.1\", own = \"198.18.0.2\" }\nb_next_hop = { gateway = \"fd00::1\", own = \"fd00::2\" }",
    ] {
        assert_eq!(errors(&file(good)), Vec::<String>::new(), "{good}");
    }
    for (bad, expected) in [
        ("a_next_hop = \"02:00:00:00:00\"", "7:14 `a_next_hop` is \"02:00:00:00:00\"; expected an Ethernet address"),
        ("b_next_hop = \"ff:ff:ff:ff:ff:ff\"", "which is no single station's address"),
        ("a_next_hop = \"198.18.0.1\"", "or { gateway ="),
        ("a_next_hop = 1", "is a whole number; expected an Ethernet address"),
        ("a_next_hop = { gateway = \"198.18.0.1\" }", "needs `own`"),
        ("a_next_hop = { gateway = \"198.18.0.1\", own = \"fd00::2\" }", "are of two families"),
        ("a_next_hop = { gateway = \"198.18.0.1\", own = \"198.18.0.1\" }", "are both 198.18.0.1"),
        ("a_next_hop = { gateway = \"224.0.0.1\", own = \"198.18.0.2\" }", "expected the address of a station"),
        (
            "a_next_hop = { gateway = \"198.18.0.1\", own = \"198.18.0.2\", mac = 1 }",
            "unknown key in a_next_hop \"mac\"",
        ),
    ] {
        let found = errors(&file(bad));
        assert!(found.len() == 1 && found[0].contains(expected), "{bad}: {found:#?}");
    }
    let found = errors(&GOOD.replace("mtu = 1500", "a_next_hop = \"02:00:00:00:00:01\""));
    assert!(found.len() == 1 && found[0].contains("unknown key in [topology] \"a_next_hop\""), "{found:#?}");
}

#[test]
fn limits_are_of_the_figures_that_a_test_has() {
    let file = |test: &str| GOOD.replace("[[published]]", &format!("{test}\n[[published]]"));
    for good in [
        "p99_at_most = \"1ms\"\np50_at_most = \"10us\"",
        "[[test]]\nkind = \"soak\"\nloss_at_most = 0",
        "[[test]]\nkind = \"load\"\nrate = \"1kpps\"\nat_least = \"900pps\"\nloss_at_most = 0.01",
        "[[test]]\nkind = \"reset\"\nwithin = \"2s\"",
    ] {
        assert_eq!(errors(&file(good)), Vec::<String>::new(), "{good}");
    }
    let goals = "goals = [\"NDR\", { name = \"own\", loss_ratio = 0.01, at_least = \"2Mpps\" }]\nat_least = \"1Mpps\"";
    let experiment = parse(&GOOD.replace("goals = [\"NDR\", \"PDR\"]", goals), "x.toml").expect("good");
    let limits: Vec<_> = experiment.tests[0].limits.iter().map(|limit| (limit.goal.as_deref(), limit.bound)).collect();
    assert_eq!(limits, [(None, 1e6), (Some("own"), 2e6)]);
    for (bad, expected) in [
        ("p99_at_most = 1", "`p99_at_most` is a whole number; expected a time in quotes"),
        ("at_least = \"1Mpps\"", "unknown key in [[test]] \"at_least\""),
        ("[[test]]\nkind = \"soak\"\nloss_at_most = 1", "`loss_at_most` is 1; expected a share from 0 to below 1"),
        ("[[test]]\nkind = \"frame-loss\"\nloss_at_most = 0.1", "unknown key in [[test]] \"loss_at_most\""),
        ("[[test]]\nkind = \"reset\"\nwithin = \"0s\"", "`within` is \"0s\""),
    ] {
        let found = errors(&file(bad));
        assert!(found.iter().any(|error| error.contains(expected)), "{bad}: {found:#?}");
    }
}

#[test]
fn mistakes_in_tests_of_tcp_are_told() {
    let with = |test: &str| {
        let start = GOOD.find("[[test]]").expect("tests");
        let published = GOOD.find("[[published]]").expect("published");
        format!("{}[[test]]\n{test}\n{}", &GOOD[..start], &GOOD[published..])
    };
    for good in [
        "kind = \"connection-rate\"",
        "kind = \"udp-loop\"\ntrial = \"20ms\"",
        "kind = \"tcp-echo\"\nstack = \"linux\"",
        "kind = \"request-rate\"\nconnections = 4\nloads = [100, 2.5e3]\ntimeout = \"2s\"",
        "kind = \"concurrent-connections\"\nbytes = 1\n[[test]]\nkind = \"tcp-echo\"\norders = [\"round-robin\"]",
    ] {
        assert_eq!(errors(&with(good)), Vec::<String>::new(), "{good}");
    }
    for (bad, expected) in [
        (
            "kind = \"connection-rate\"\n[[test]]\nkind = \"load\"",
            "tests of TCP and tests of packets are in one experiment",
        ),
        ("kind = \"tcp-echo\"\norders = [\"reply\", \"reply\"]", "reply is in `orders` twice"),
        ("kind = \"tcp-echo\"\norders = [\"replay\"]", "did you mean \"reply\"?"),
        ("kind = \"tcp-echo\"\nstack = \"smalltcp\"", "did you mean \"smoltcp\"?"),
        ("kind = \"udp-loop\"\norders = [\"reply\"]", "unknown key in [[test]] \"orders\""),
        ("kind = \"connection-rate\"\nloads = [0]", "a number from 1 to 1e9"),
        ("kind = \"connection-rate\"\nloads = [\"5k\"]", "a number from 1 to 1e9"),
        ("kind = \"request-rate\"\nconnections = 0", "`connections` is 0"),
        ("kind = \"request-rate\"\nbytes = 2000000", "`bytes` is 2000000"),
        ("kind = \"request-rate\"\ntimeout = \"20m\"", "`timeout` is \"20m\""),
        ("kind = \"request-rate\"\nat_least = \"1Mpps\"", "unknown key in [[test]] \"at_least\""),
    ] {
        let found = errors(&with(bad));
        assert!(found.iter().any(|error| error.contains(expected)), "{bad}: {found:#?}");
    }
    let pipe = GOOD.replace("sizes = [64, 1518]", "sizes = [64, 1518]\nports = [\"pipe\"]");
    let found = errors(&pipe);
    assert!(found.iter().any(|error| error.contains("pipe or memif only in tests of TCP")), "{found:#?}");
}

#[test]
fn hostile_texts_are_refused() {
    let deep = format!("{GOOD}\n[cores]\ngenerator = {}", "[".repeat(100_000));
    let long = format!("{GOOD}# {}", "x".repeat(1 << 20));
    let many: String = (0..2_000).map(|number| format!("[[dut]]\nname{number} = 1\n")).collect();
    for (text, expected) in [
        (deep.as_str(), "this is not TOML"),
        (long.as_str(), "at most 262144 are read"),
        (many.as_str(), "`dut` has 2000 entries"),
        ("", "the file needs `name`"),
        ("\0", "this is not TOML"),
        ("name = 1979-05-27T07:32:00Z", "`name` is a date"),
    ] {
        let message = parse(text, "x.toml").expect_err("refused").to_string();
        assert!(message.contains(expected), "{message}");
    }
}
