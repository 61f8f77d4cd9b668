//! A plan knows no kinds of devices: a kind of this file's own is read, placed, compared and told with its errors.

use linerate_experiment::section::Section;
use linerate_experiment::{DutKind, DutReader, DutSettings, Experiment, parse};

#[derive(Debug, PartialEq)]
struct Toaster {
    slots: u64,
}

impl DutSettings for Toaster {
    fn captures(&self) -> bool {
        true
    }
}

#[derive(Debug, PartialEq)]
struct Kettle;

impl DutSettings for Kettle {}

const KINDS: [DutReader; 2] = [
    DutReader { word: "toaster", topologies: &["namespaces"], read: toasters },
    DutReader { word: "kettle", topologies: &["in-process"], read: |_| vec![(String::new(), Kettle.into())] },
];

/// One, and one that is twice as large.
fn toasters(table: &Section<'_>) -> Vec<(String, DutKind)> {
    let slots = table.integer("slots", 1..=4).unwrap_or(2);
    [("", slots), ("-large", 2 * slots)].map(|(word, slots)| (word.to_owned(), Toaster { slots }.into())).to_vec()
}

fn file(lines: &str) -> String {
    format!(
        "name = \"x\"\ntitle = \"X\"\n[[dut]]\nname = \"t\"\n{lines}\n[matrix]\nsizes = [64]\nflows = [1]\n[[test]]\nkind = \"capture\"\nloads = [\"1kpps\"]\n"
    )
}

fn read(lines: &str) -> Experiment {
    parse(&file(lines), "x.toml", &KINDS).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn a_kind_reads_its_own_keys_and_says_what_a_plan_asks() {
    let experiment = read("kind = \"toaster\"\nslots = 3");
    let ids: Vec<String> = experiment.cells().into_iter().map(|cell| cell.id).collect();
    assert_eq!(ids, ["t/64/1/one-port", "t-large/64/1/one-port"]);
    let [one, large] = experiment.duts.as_slice() else { panic!("two") };
    assert_eq!(large.kind.settings(), Some(&Toaster { slots: 6 }));
    assert!(one.kind == Toaster { slots: 3 }.into() && one.kind != large.kind && one.kind != Kettle.into());
    assert_eq!(one.kind.settings::<Kettle>(), None);
    assert_eq!(experiment, read("kind = \"toaster\"\nslots = 3"));
}

#[test]
fn what_is_wrong_with_a_kind_of_ones_own_is_told_with_its_place() {
    for (lines, place, message) in [
        ("kind = \"toaster\"\nslots = 9", "6:9", "`slots` is 9; expected a whole number from 1 to 4"),
        ("kind = \"toaster\"\nslits = 1", "6:1", "unknown key in [[dut]] \"slits\"; expected one of name, kind, slots"),
        ("kind = \"toast\"\nslots = 1", "5:8", "unknown kind of DUT \"toast\"; expected one of toaster, kettle"),
        ("kind = \"toastr\"\nslots = 9", "6:9", "`slots` is 9; expected a whole number from 1 to 4"),
        (
            "kind = \"kettle\"",
            "5:8",
            "the DUT kettle contradicts the topology namespaces, which takes toaster (kettle needs in-process)",
        ),
    ] {
        let text = parse(&file(lines), "x.toml", &KINDS).expect_err(lines).to_string();
        assert!(text.contains(&format!("error: x.toml:{place}: {message}")), "{text}");
    }
}
