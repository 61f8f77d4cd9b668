//! The experiments that come with Linerate: all can be read, and take as long as their heads say.

use std::path::PathBuf;

use linerate_experiment::{Experiment, TestKind, matches_glob};
use linerate_testbed::dut::parse;

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "..", "..", "experiments"].iter().collect()
}

fn read(name: &str) -> Experiment {
    let text = std::fs::read_to_string(folder().join(name)).expect("the file");
    parse(&text, &format!("experiments/{name}")).unwrap_or_else(|errors| panic!("{errors}"))
}

fn ids(experiment: &Experiment) -> Vec<String> {
    experiment.cells().into_iter().map(|cell| cell.id).collect()
}

fn minutes(experiment: &Experiment) -> f64 {
    experiment.estimate().duration_ns as f64 / 60e9
}

#[test]
fn every_file_can_be_read_and_is_named_as_its_experiment() {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .expect("the folder")
        .map(|entry| entry.expect("its entries").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".toml"))
        .collect();
    names.sort();
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        let experiment = read(&name);
        assert_eq!(format!("{}.toml", experiment.name), name);
        let estimate = experiment.estimate();
        println!("{name}: {} cells, {} trials, {:.1} min", estimate.cells, estimate.trials, minutes(&experiment));
        assert!(estimate.duration_ns > 0 && minutes(&experiment) < 45.0);
        let cells = experiment.cells();
        for row in &experiment.published {
            assert!(cells.iter().any(|cell| cell.is_matched_by(&row.cells)), "{name}: {row:?}");
        }
    }
}

#[test]
fn the_quick_one_is_quick() {
    let experiment = read("quick.toml");
    assert_eq!(ids(&experiment), ["plain/64/1/one-way", "plain/64/10000/one-way"]);
    assert!(minutes(&experiment) < 1.0);
}

#[test]
fn the_router_of_2019_has_all_its_cells_within_15_minutes() {
    let experiment = read("linux-router-2019.toml");
    let expected: Vec<String> = ["plain", "conntrack", "snat", "conntrack-nft", "snat-nft"]
        .iter()
        .flat_map(|dut| ["1/one-way", "10000/one-way", "10000/both-ways"].map(|rest| format!("{dut}/64/{rest}")))
        .filter(|id| !(id.starts_with("snat") && id.contains("/1/")))
        .collect();
    assert_eq!(ids(&experiment), expected);
    assert!((4.0..14.0).contains(&minutes(&experiment)), "{}", minutes(&experiment));
    // Rates and cores of the published table: 3 + 3, 3 + 1, 2 + 1, and what it says of nft.
    assert_eq!(experiment.published.len(), 14);
    let cells = experiment.cells();
    for cell in cells.iter().filter(|cell| !cell.dut.name.starts_with("conntrack-nft")) {
        let rows = experiment.published.iter().filter(|row| cell.is_matched_by(&row.cells));
        assert_eq!(rows.filter(|row| row.what == "throughput").count(), 1, "{}", cell.id);
    }
}

#[test]
fn netmap_and_bpf_differ_in_their_ports_only() {
    let experiment = read("netmap-bpf-2013.toml");
    let expected: Vec<String> = ["xdp", "packet", "pcap"]
        .iter()
        .flat_map(|ports| ["64", "1450"].map(|size| format!("path/{size}/1x49/one-way/{ports}")))
        .collect();
    assert_eq!(ids(&experiment), expected);
    let wire: Vec<_> = experiment.sizes.iter().map(|size| size.parts.clone()).collect();
    assert_eq!(wire, [[(68, 1)], [(1454, 1)]]);
}

#[test]
fn the_captures_of_2009_have_every_combination_and_a_quick_selection() {
    let experiment = read("bpf-capture-2009.toml");
    // Tools x cores x receptions x buffers, sizes, ports; AF_XDP on one core without a NAPI thread is left out.
    assert_eq!((experiment.duts.len(), experiment.cells().len()), (3 * 2 * 3 * 3, (54 - 2 * 3) * 2 * 2));
    let quick = |id: &&String| matches_glob(id, "*-512KiB/64/*");
    assert_eq!(ids(&experiment).iter().filter(quick).count(), 32);
    let all = ids(&experiment);
    assert!(all.contains(&"capture-xdp-all-threaded-napi-10MiB/512/100/two-ports".to_owned()), "{all:?}");
    // The six rows of the published table, and what it says of idle time.
    assert_eq!(experiment.published.len(), 9);
}

#[test]
fn lagopus_of_2014_has_all_exams_beside_the_published_ones_and_a_quick_selection() {
    let experiment = read("lagopus-2014.toml");
    let wire: Vec<_> = experiment.sizes.iter().map(|size| size.parts.clone()).collect();
    assert_eq!(wire, [64, 128, 256, 512, 1024, 1280, 1518].map(|bytes| vec![(bytes, 1)]));
    let patterns: Vec<_> = experiment.flows.iter().map(|flows| (flows.sources, flows.destinations)).collect();
    assert_eq!(patterns, [(1, 1), (100, 1), (1, 100), (100, 100)]);
    let all = ids(&experiment);
    // Devices x numbers of entries x sizes x patterns x directions, and the path itself.
    assert_eq!(all.len(), 4 * 5 * 7 * 4 * 2 + 1);
    assert!(all.contains(&"ovs-dpdk-1000000/1514/1x100/both-ways".to_owned()), "{all:?}");
    // Every published exam stands beside each of Linerate's ports once; round trips beside the path and the switch.
    let cells = experiment.cells();
    let published = |id: &str, what: &str| {
        let cell = cells.iter().find(|cell| cell.id == id).expect(id);
        experiment.published.iter().filter(|row| row.what == what && cell.is_matched_by(&row.cells)).count()
    };
    for id in all.iter().filter(|id| id.starts_with("ofswitch")) {
        let is_published = id.contains("-0/") && id.ends_with("/one-way");
        assert_eq!(published(id, "rate"), usize::from(is_published), "{id}");
    }
    assert_eq!(
        (published("back-to-back-0/60/1/one-way", "ping"), published("ofswitch-0/60/1/one-way", "ping")),
        (1, 1)
    );
    assert_eq!(experiment.published.len(), 7 * 4 + 2);
    let pinged: Vec<&str> =
        cells.iter().filter(|cell| cell.has(&experiment.tests[1])).map(|cell| cell.id.as_str()).collect();
    let devices = ["back-to-back-0", "ofswitch-0", "ofswitch-1000000", "ovs-0", "ovs-1000000"];
    assert_eq!(pinged, devices.map(|dut| format!("{dut}/60/1/one-way")));
    let mut quick = experiment.clone();
    let is_quick = |id: &String| matches_glob(id, "*-0/60/*/one-way");
    assert_eq!(all.iter().filter(|id| is_quick(id)).count(), 4 * 4 + 1);
    quick.duts.retain(|dut| dut.name.ends_with("-0"));
    quick.sizes.truncate(1);
    quick.directions.truncate(1);
    assert!(minutes(&quick) < 2.0, "{}", minutes(&quick));
}

#[test]
fn the_full_one_has_every_test_of_the_rfc() {
    let experiment = read("full-rfc2544.toml");
    assert_eq!(experiment.sizes.len(), 8);
    assert_eq!(experiment.cells().len(), 16);
    let has = |is: fn(&TestKind) -> bool| experiment.tests.iter().any(|test| is(&test.kind));
    assert!(has(|kind| matches!(kind, TestKind::Throughput { .. })));
    assert!(has(|kind| matches!(kind, TestKind::Latency { .. })));
    assert!(has(|kind| matches!(kind, TestKind::FrameLoss { .. })));
    assert!(has(|kind| matches!(kind, TestKind::BackToBack { .. })));
    assert!(has(|kind| matches!(kind, TestKind::SystemRecovery)));
    assert!(has(|kind| matches!(kind, TestKind::Reset)));
    assert!(has(|kind| matches!(kind, TestKind::Soak { .. })));
}

#[test]
fn the_example_of_the_documentation_can_be_read() {
    let documentation = include_str!("../../../../docs/experiments.md");
    let (_, rest) = documentation.split_once("```toml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let experiment = parse(example, "docs").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(experiment.cells().len(), 18);
}

/// Every key that a message can offer is described.
#[test]
fn the_documentation_names_every_key() {
    let documentation = include_str!("../../../../docs/experiments.md");
    for (text, title) in [
        ("x = 1", "the file"),
        ("topology.x = 1\n", "[topology]"),
        ("cores.x = 1\n", "[cores]"),
        ("phases.x = 1\n", "[phases]"),
        ("noise.x = 1\n", "[noise]"),
        ("matrix.x = 1\n", "[matrix]"),
        ("dut = [{ kind = 'x', x = 1 }]", "[[dut]]"),
        ("test = [{ kind = 'throughput', search = 'x', x = 1 }]", "[[test]]"),
        ("test = [{ kind = 'latency', x = 1 }]", "[[test]]"),
        ("test = [{ kind = 'back-to-back', x = 1 }]", "[[test]]"),
        ("published = [{ x = 1 }]", "[[published]]"),
    ] {
        let errors = parse(text, "x").expect_err("an unknown key");
        let start = format!("unknown key in {title} \"x\"; expected one of ");
        let told = errors.problems.iter().find_map(|problem| problem.message.strip_prefix(start.as_str()));
        let keys = told.unwrap_or_else(|| panic!("{errors}")).split("; ").next().unwrap_or_default();
        for key in keys.split(", ") {
            let named = ["`", ".", "[", "[["]
                .iter()
                .any(|before| ["`", "]"].iter().any(|after| documentation.contains(&format!("{before}{key}{after}"))));
            assert!(named, "{title}: {key}");
        }
    }
}
