//! Flows of IPv4, of IPv6, and of both.

use linerate_experiment::{Experiment, FlowIp, IpVersion};
use linerate_testbed::dut::parse;

fn file(matrix: &str) -> String {
    format!(
        "name = \"x\"\ntitle = \"X\"\n[[dut]]\nname = \"d\"\nkind = \"router\"\n[matrix]\n{matrix}\n[[test]]\nkind = \"throughput\"\n"
    )
}

fn read(matrix: &str) -> Experiment {
    parse(&file(matrix), "x.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

fn errors(matrix: &str) -> Vec<String> {
    let errors = parse(&file(matrix), "x.toml").expect_err("refused");
    errors.problems.into_iter().map(|problem| problem.message).collect()
}

#[test]
fn each_pattern_stands_for_one_of_each_version_and_its_id_says_which() {
    let experiment = read("sizes = [64]\nflows = [2, 10000]\nip = [\"4\", \"6\", \"dual\"]");
    let ids: Vec<String> = experiment.cells().into_iter().map(|cell| cell.id).collect();
    let expected = ["2", "2-ipv6", "2-dual", "10000", "10000-ipv6", "10000-dual"];
    assert_eq!(ids, expected.map(|flows| format!("d/64/{flows}/one-way")));
    let dual = &experiment.flows[5];
    assert_eq!((dual.count(), dual.count_of_one(), dual.ip.words()), (10_000, 5_000, "IPv4 and IPv6"));
    assert_eq!(dual.ip.versions(), [IpVersion::V4, IpVersion::V6]);
}

#[test]
fn a_pattern_can_name_its_own_version_and_addresses() {
    let experiment = read(
        "sizes = [64]\nflows = [1, { ip = \"6\", source6 = \"2001:2:0:9::1\", sources = 3 }, { ip = \"dual\", sources = 2 }]",
    );
    let names: Vec<String> = experiment.flows.iter().map(|flows| flows.name()).collect();
    assert_eq!(names, ["1", "3-ipv6", "4-dual"]);
    let FlowIp::V6(addresses) = experiment.flows[1].ip else { panic!("of IPv6") };
    assert_eq!(
        (addresses.source.to_string(), addresses.destination.to_string()),
        ("2001:2:0:9::1".into(), "2001:db8:0:2::101".into())
    );
}

/// 64 bytes hold no Ethernet, IPv6, UDP and signature.
#[test]
fn frames_with_ipv6_have_room_for_their_headers() {
    let experiment = read("sizes = [64, 128, \"imix\"]\nflows = [2]\nip = [\"4\", \"dual\"]");
    let frames: Vec<_> = experiment.cells().into_iter().map(|cell| cell.frames()).collect();
    assert_eq!(frames[0].parts, [(64, 1)]);
    assert_eq!(
        (frames[1].parts.as_slice(), frames[1].label.as_str()),
        ([(82, 1)].as_slice(), "64 (frames of 82 bytes, the least with IPv6)")
    );
    assert_eq!(frames[1].name(), "64");
    assert_eq!((frames[3].parts.as_slice(), frames[3].label.as_str()), ([(128, 1)].as_slice(), "128"));
    assert_eq!(frames[5].parts, [(82, 28), (570, 16), (1518, 4)]);
}

#[test]
fn what_cannot_be_is_told() {
    for (matrix, expected) in [
        ("sizes = [64]\nflows = [1]\nip = [\"dual\"]", "1 flows cannot be dual; expected an even number"),
        ("sizes = [64]\nflows = [1]\nip = [\"5\"]", "unknown version of IP \"5\"; expected one of 4, 6, dual"),
        ("sizes = [64]\nflows = [1]\nip = [\"6\", \"6\"]", "this version of IP is there twice"),
        ("sizes = [64]\nflows = [1]\nip = []", "`ip` has 0 entries"),
        (
            "sizes = [64]\nflows = [{ ip = \"6\", source = \"192.0.2.1\" }]",
            "`source` is an address of IPv4, and the flows are of IPv6; expected `source6`",
        ),
        (
            "sizes = [64]\nflows = [{ source6 = \"2001:db8::1\" }]",
            "`source6` is an address of IPv6, and the flows are of IPv4",
        ),
        (
            "sizes = [64]\nflows = [{ ip = \"6\", source6 = \"192.0.2.1\" }]",
            "expected an IPv6 address, as 2001:db8:0:1::1",
        ),
        (
            "sizes = [64]\nflows = [{ ip = \"6\", source6 = \"2a00::1\" }]",
            "`source6` 2a00::1 is in no test block; expected one of 2001:db8::/32, 2001:2::/48, fc00::/7",
        ),
        ("sizes = [64]\nflows = [{ ip = \"6\", source6 = \"2001:2:0:1::9\" }]", "is on the lab's own links"),
        (
            "sizes = [64]\nflows = [{ ip = \"6\", source6 = \"2001:db8::ffff:ffff:ffff:ffff\", sources = 2 }]",
            "leave its /64",
        ),
        ("sizes = [64]\nflows = [{ ip = \"6\", source6 = \"2001:db8:0:2::1\", sources = 257 }]", "overlap the sources"),
    ] {
        let found = errors(matrix);
        assert!(found.len() == 1 && found[0].contains(expected), "{matrix}: {found:#?}");
    }
    let of_tcp = file("sizes = [64]\nflows = [1]\nip = [\"6\"]").replace("throughput", "connection-rate");
    let message = parse(&of_tcp, "x.toml").expect_err("refused").to_string();
    assert!(message.contains("tests of TCP are made over IPv4"), "{message}");
}
