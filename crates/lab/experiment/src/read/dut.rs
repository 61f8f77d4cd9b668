//! `[[dut]]`: the devices under test.

use std::collections::BTreeMap;

use crate::read::capture;
use crate::read::section::{self, Section};
use crate::read::surroundings::Place;
use crate::{
    Command, DutKind, DutSpec, ExpectedLoss, Firewall, FirewallTool, FlowSwitch, SwitchPorts, TopologyKind, words,
};

/// Most devices of an experiment.
const DUTS_MAX: usize = 100;
/// Most firewall rules of a device.
const RULES_MAX: u64 = 100_000;
/// Most flow entries of a device.
const ENTRIES_MAX: u64 = 4_000_000;
const READY_NS_MAX: u64 = 600_000_000_000;
const READY_NS: u64 = 10_000_000_000;

/// Reads all of them; no two have one name.
pub(crate) fn all(file: &Section<'_>, place: &Place) -> Vec<DutSpec> {
    if file.needs_table("dut", "at least one [[dut]] with name and kind") {
        file.value("dut");
        return Vec::new();
    }
    let mut duts: Vec<DutSpec> = Vec::new();
    for table in file.sections("dut", DUTS_MAX) {
        let name = table.needed("name", "\"plain\"").and_then(|value| section::name(value, "name", table.log));
        let name = name.unwrap_or_default();
        if !name.is_empty() && duts.iter().any(|dut| dut.name.eq_ignore_ascii_case(&name)) {
            table.error("name", format!("two DUTs are called {name:?}; each needs its own name"));
        }
        let read = read_kind(&table, &name, place);
        table.finish();
        match read {
            Some(more) if more.len() != 1 || more[0].name != name => add_several(&table, more, &mut duts),
            Some(one) => duts.extend(one),
            None => duts.push(DutSpec { name, kind: DutKind::None }),
        }
    }
    duts
}

/// One device, or one for each combination where settings are lists.
fn add_several(table: &Section<'_>, more: Vec<DutSpec>, duts: &mut Vec<DutSpec>) {
    if duts.len() + more.len() > DUTS_MAX {
        let message = format!("with this there are {} DUTs; expected at most {DUTS_MAX}", duts.len() + more.len());
        return table.error("kind", message);
    }
    for dut in more {
        let is_taken = duts.iter().any(|other| other.name.eq_ignore_ascii_case(&dut.name));
        if table.has("name") && is_taken {
            table.error("name", format!("two DUTs are called {:?}; each needs its own name", dut.name));
        }
        duts.push(dut);
    }
}

fn open_vswitches(table: &Section<'_>, name: &str) -> Vec<DutSpec> {
    let known = [("packet", SwitchPorts::Packet), ("memif", SwitchPorts::Memif)];
    let ports = table.word("ports", "kind of Open vSwitch's ports", &known).unwrap_or_default();
    flow_switches(table, name, ports, DutKind::OpenVswitch)
}

fn of_switches(table: &Section<'_>, name: &str) -> Vec<DutSpec> {
    flow_switches(table, name, switch_ports(table), DutKind::OfSwitch)
}

/// A switch for each number of flow entries.
fn flow_switches(table: &Section<'_>, name: &str, ports: SwitchPorts, kind: fn(FlowSwitch) -> DutKind) -> Vec<DutSpec> {
    let read = |value: &section::Value<'_>| section::integer(value, "entries", 0..=ENTRIES_MAX, table.log);
    let entries = capture::setting(table, "entries", 0, |entries: u64| entries.to_string(), read);
    let dut = |(entries, word): (u64, String)| DutSpec {
        name: format!("{name}{word}"),
        kind: kind(FlowSwitch { ports, entries: entries as u32 }),
    };
    entries.into_iter().map(dut).collect()
}

/// A kind of device: all that the reader knows of it.
struct Kind {
    word: &'static str,
    /// Between which ends it fits: namespaces, ports of this host, a link inside this process.
    fits: [bool; 3],
    read: Read,
}

/// How the keys of a kind are read.
enum Read {
    /// It stands for one device.
    One(fn(&Section<'_>) -> DutKind),
    /// Its settings can be lists, so it can stand for several devices, whose names begin with the one given.
    Several(fn(&Section<'_>, &str) -> Vec<DutSpec>),
}

const KINDS: [Kind; 11] = [
    Kind { word: "router", fits: [true, false, false], read: Read::One(|table| DutKind::Router(firewall(table))) },
    Kind { word: "bridge", fits: [true, false, false], read: Read::One(|_| DutKind::Bridge) },
    Kind { word: "xdp-forwarder", fits: [true, false, false], read: Read::One(|_| DutKind::XdpForwarder) },
    Kind { word: "openvswitch", fits: [true, false, false], read: Read::Several(open_vswitches) },
    Kind { word: "ofswitch", fits: [true, false, false], read: Read::Several(of_switches) },
    Kind { word: "switch", fits: [true, false, false], read: Read::One(|table| DutKind::Switch(switch_ports(table))) },
    Kind { word: "capture", fits: [true, false, false], read: Read::Several(capture::read) },
    Kind { word: "pipe", fits: [false, false, true], read: Read::One(|_| DutKind::Pipe) },
    Kind {
        word: "command",
        fits: [true, true, false],
        read: Read::One(|table| DutKind::Command(command(table, true))),
    },
    Kind { word: "external", fits: [false, true, false], read: Read::One(external) },
    Kind { word: "none", fits: [true, true, true], read: Read::One(|_| DutKind::None) },
];

/// The devices that a table stands for; `None`: its kind is not known.
fn read_kind(table: &Section<'_>, name: &str, place: &Place) -> Option<Vec<DutSpec>> {
    table.needed("kind", "\"router\"")?;
    let known: Vec<(&str, &Kind)> = KINDS.iter().map(|kind| (kind.word, kind)).collect();
    let Some(kind) = table.word("kind", "kind of DUT", &known) else {
        // The keys of all kinds are known where the kind is not, so that one mistake is told once.
        let _ = (firewall(table), of_switches(table, ""), command(table, false), external(table));
        let _ = capture::read(table, "");
        return None;
    };
    check_place(table, kind, place);
    Some(match kind.read {
        Read::One(read) => vec![DutSpec { name: name.to_owned(), kind: read(table) }],
        Read::Several(read) => read(table, name),
    })
}

/// A device has to fit between the ends of the topology.
fn check_place(table: &Section<'_>, kind: &Kind, place: &Place) {
    let (topology, column, why) = match place.kind {
        TopologyKind::Namespaces => ("namespaces", 0, " (pipe needs in-process, external needs ports)"),
        TopologyKind::Ports { .. } => ("ports", 1, " (the others are made in namespaces)"),
        TopologyKind::InProcess => ("in-process", 2, ""),
    };
    if kind.fits[column] {
        return;
    }
    let fitting: Vec<&str> = KINDS.iter().filter(|other| other.fits[column]).map(|other| other.word).collect();
    let (last, others) = fitting.split_last().unwrap_or((&"none", &[]));
    let expected = format!("{} or {last}{why}", others.join(", "));
    let word = kind.word;
    table.error("kind", format!("the DUT {word} contradicts the topology {topology}, which takes {expected}"));
}

fn switch_ports(table: &Section<'_>) -> SwitchPorts {
    let known = [("packet", SwitchPorts::Packet), ("xdp", SwitchPorts::Xdp), ("memif", SwitchPorts::Memif)];
    table.word("ports", "kind of the switch's ports", &known).unwrap_or_default()
}

fn firewall(table: &Section<'_>) -> Firewall {
    let tool = table.word(
        "firewall",
        "firewall",
        &[("iptables", FirewallTool::Iptables), ("nftables", FirewallTool::Nft), ("nft", FirewallTool::Nft)],
    );
    let rules = table.integer("rules", 0..=RULES_MAX).unwrap_or(0) as u32;
    let conntrack = table.boolean("conntrack").unwrap_or(false);
    let snat = table.boolean("snat").unwrap_or(false);
    let key = [("rules", rules > 0), ("conntrack", conntrack), ("snat", snat)].into_iter().find(|(_, set)| *set);
    match key {
        Some((key, _)) if !table.has("firewall") => {
            table.error(key, format!("`{key}` needs firewall = \"iptables\" or \"nft\", which installs the rules"));
        }
        None if tool.is_some() && !["rules", "conntrack", "snat"].iter().any(|key| table.has(key)) => {
            table.error(
                "firewall",
                "a firewall without rules does nothing; expected rules, conntrack or snat beside it",
            );
        }
        _ => {}
    }
    let lines = |key| table.texts(key).unwrap_or_default();
    let (setup, teardown) = (lines("setup"), lines("teardown"));
    Firewall { tool, rules, conntrack, snat, sysctls: sysctls(table), setup, teardown, loses: loses(table) }
}

/// The row that losses are expected in.
fn loses(table: &Section<'_>) -> Option<ExpectedLoss> {
    let value = table.value("loses")?;
    let log = table.log;
    let words = |key| value.get_ref().as_table()?.get(key).and_then(|value| section::text(value, key, log));
    match (words("place"), words("cause")) {
        (Some(place), Some(cause)) => Some(ExpectedLoss { place, cause }),
        _ => {
            log.error(
                value.span(),
                "`loses` needs a place and a cause, as { place = \"DUT, IPv4 input\", cause = \"no route\" }",
            );
            None
        }
    }
}

/// Settings under /proc/sys/net, by path.
fn sysctls(table: &Section<'_>) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    let Some(value) = table.value("sysctls") else { return settings };
    let log = table.log;
    let Some(entries) = value.get_ref().as_table() else {
        log.error(value.span(), "`sysctls` is no table; expected { \"net/netfilter/nf_conntrack_max\" = 1000 }");
        return settings;
    };
    for (key, value) in entries {
        let Some(path) = sysctl_path(key.get_ref()) else {
            let shown: String = key.get_ref().chars().take(80).collect();
            let message = format!("sysctl {shown:?} is not under net/; expected a path as net/ipv4/ip_default_ttl");
            log.error(key.span(), message);
            continue;
        };
        let setting = match value.get_ref() {
            toml::de::DeValue::Integer(_) => {
                section::integer(value, &path, 0..=i64::MAX as u64, log).map(|n| n.to_string())
            }
            _ => section::text(value, &path, log),
        };
        let Some(setting) = setting else { continue };
        if setting.is_empty() || setting.len() > 256 || setting.chars().any(char::is_control) {
            log.error(value.span(), format!("{path}: expected a value of 1 to 256 characters on one line"));
            continue;
        }
        if settings.insert(path.clone(), setting).is_some() {
            log.error(key.span(), format!("{path} is set twice"));
        }
    }
    settings
}

/// `net.ipv4.ip_forward` and `net/ipv4/ip_forward` as a path below /proc/sys; `None` for what leads elsewhere.
fn sysctl_path(key: &str) -> Option<String> {
    let path = if key.contains('/') { key.to_string() } else { key.replace('.', "/") };
    let is_part = |part: &str| {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        !part.is_empty() && part != "." && part != ".." && part.chars().all(is_plain)
    };
    let parts: Vec<&str> = path.split('/').collect();
    let fits = parts.len() >= 3 && path.len() <= 200 && parts.first() == Some(&"net");
    (fits && parts.iter().all(|part| is_part(part))).then_some(path)
}

fn command(table: &Section<'_>, needed: bool) -> Command {
    let words = |key| {
        let words = table.texts(key).unwrap_or_default();
        if words.first().is_some_and(String::is_empty) {
            table.error(key, format!("`{key}` begins with an empty word; expected the program's name"));
        }
        words
    };
    if needed {
        table.needed("start", "[\"forwarder\", \"{in}\", \"{out}\"]");
    }
    let start = words("start");
    if needed && start.is_empty() && table.has("start") {
        table.error(
            "start",
            "`start` is empty; expected a program and its arguments, as [\"forwarder\", \"{in}\", \"{out}\"]",
        );
    }
    for key in ["start", "ready", "counters", "stop", "version"] {
        check_placeholders(table, key);
    }
    Command {
        start,
        ready: words("ready"),
        ready_ns: table.span_ns("ready_within", 1_000_000..=READY_NS_MAX).unwrap_or(READY_NS),
        counters: words("counters"),
        stop: words("stop"),
        version: words("version"),
    }
}

/// `{in}` and `{out}` are all that is put into words; other braces are the program's own (`awk "{print}"`).
fn check_placeholders(table: &Section<'_>, key: &'static str) {
    let Some(words) = table.value(key).and_then(|value| value.get_ref().as_array()) else { return };
    for value in words.iter() {
        let Some(word) = value.get_ref().as_str() else { continue };
        for part in word.split('{').skip(1) {
            let Some((name, _)) = part.split_once('}') else { continue };
            let meant = words::nearest(name, &["in", "out"]).filter(|meant| *meant != name);
            if let Some(meant) = meant {
                let message = format!("`{{{name}}}` is put nowhere; did you mean \"{{{meant}}}\"?");
                table.log.error(value.span(), message);
            }
        }
    }
}

fn external(table: &Section<'_>) -> DutKind {
    DutKind::External {
        description: table.text("description").unwrap_or_default(),
        counters: table.texts("counters").unwrap_or_default(),
    }
}
