//! `linerate ports`: every port that can be opened here, and for each backend that cannot be used why, and what to do; the network cards
//! on the PCI bus, and who has them.

use std::fmt::Write;
use std::process::ExitCode;

use linerate_ports::{Backend, Interface, Unusable};
use linerate_sys::rss::Rss;
use linerate_sys::timestamping::Timestamping;
use linerate_wire::MacAddress;
use serde::Serialize;

use super::ports_pci::{self, Card};
use super::status;
use linerate_console::print;

/// Arguments of `linerate ports`.
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Version of the JSON document; rises when a reader must change.
const SCHEMA: u32 = 1;

/// Names that are no backend's.
const VALE: Backend = Backend {
    name: "vale",
    syntax: "valeS:P",
    summary: "port P of the software switch valeS (linerate switch), which is started if need be",
    usable: Ok(()),
};

/// Lists backends and interfaces. Status 2 when the kernel does not tell them.
pub fn run(args: &Args) -> ExitCode {
    status::of("linerate ports", try_run(args))
}

fn try_run(args: &Args) -> Result<bool, String> {
    let interfaces = linerate_ports::interfaces();
    let interfaces = interfaces.map_err(|error| format!("the interfaces cannot be listed: {error}"))?;
    let mut backends = linerate_ports::list();
    backends.push(VALE);
    let cards = ports_pci::cards();
    let text = match args.json {
        true => json(&backends, &interfaces, &cards).map_err(|error| error.to_string())?,
        false => text(&backends, &interfaces, &cards),
    };
    print(text.trim_end());
    Ok(true)
}

fn text(backends: &[Backend], interfaces: &[Interface], cards: &[Card]) -> String {
    let mut out = String::from("interfaces of this network namespace\n");
    interfaces.iter().for_each(|interface| interface_text(interface, backends, &mut out));
    out += &ports_pci::text(cards, linerate_ports::has_pci_cards());
    let (usable, unusable): (Vec<&Backend>, Vec<&Backend>) = backends.iter().partition(|one| one.usable.is_ok());
    out += "\nbackends\n";
    for Backend { syntax, summary, .. } in usable {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {syntax:<20} {summary}");
    }
    if !unusable.is_empty() {
        out += "\nbackends that cannot be used\n";
    }
    for Backend { syntax, usable, .. } in unusable {
        if let Err(reason) = usable {
            let _ = writeln!(out, "  {syntax:<20} {}", reason_text(reason));
        }
    }
    out
}

fn interface_text(interface: &Interface, all: &[Backend], out: &mut String) {
    let Interface { name, mtu, queues, .. } = interface;
    let driver = interface.driver.as_deref().unwrap_or("no driver");
    let speed = interface.speed_mbps.map_or(String::new(), |speed| format!(", {speed} Mbit/s"));
    let plural = if *queues == 1 { "queue" } else { "queues" };
    let _ = writeln!(out, "  {name:<20} {driver}, {}, {queues} {plural}, MTU {mtu}{speed}", state(interface));
    if *queues > 1 {
        let _ = writeln!(out, "  {:<20} {}", "", rss_text(interface.rss.as_ref()));
    }
    if let Some(timestamps) = interface.timestamps.filter(Timestamping::is_hardware) {
        let _ = writeln!(out, "  {:<20} timestamps: {timestamps}", "");
    }
    if let Some(host_use) = &interface.host_use {
        let _ = writeln!(out, "  {:<20} used by the host: {host_use}", "");
    }
    match &interface.bare {
        Some(spec) => *out += &format!("  {:<20} {name} opens as {spec}\n", ""),
        None => *out += &format!("  {:<20} no usable backend for {name}\n", ""),
    }
    for (backend, usable) in &interface.backends {
        let everywhere = all.iter().find(|one| one.name == *backend).map(|one| &one.usable);
        let usable = match usable {
            Ok(()) => "usable".to_string(),
            // A reason that holds for every interface is told once.
            Err(_) if everywhere == Some(usable) => "not usable, see below".to_string(),
            Err(reason) => reason_text(reason),
        };
        let _ = writeln!(out, "  {:<20} {:<24} {usable}", "", format!("{backend}:{name}"));
    }
}

fn rss_text(rss: Option<&Rss>) -> String {
    let Some(rss) = rss else { return "RSS: none, or the driver does not tell".into() };
    let shares: Vec<String> = rss.shares().iter().map(ToString::to_string).collect();
    let symmetric = if rss.is_symmetric() { ", both directions of a flow by one queue" } else { "" };
    let key = if rss.key.is_empty() { "not told".into() } else { rss.key_text() };
    format!("RSS: {}{symmetric}, table entries by queue: {}, key {key}", rss.function(), shares.join(" "))
}

fn state(interface: &Interface) -> &'static str {
    match (interface.up, interface.link) {
        (false, _) => "down",
        (true, Some(false)) => "up without a link",
        (true, _) => "up",
    }
}

fn reason_text(reason: &Unusable) -> String {
    match reason.hint.as_str() {
        "" => reason.cause.clone(),
        hint => format!("{}: {hint}", reason.cause),
    }
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    interfaces: Vec<InterfaceRow<'a>>,
    pci_cards: Vec<ports_pci::Row<'a>>,
    backends: Vec<BackendRow<'a>>,
}

#[derive(Serialize)]
struct InterfaceRow<'a> {
    name: &'a str,
    driver: Option<&'a str>,
    mtu: u32,
    up: bool,
    link: Option<bool>,
    speed_mbps: Option<u32>,
    mac: Option<String>,
    queues: u32,
    rss: Option<RssRow>,
    timestamps: Option<TimestampsRow>,
    host_use: Option<&'a str>,
    stands_for: Option<&'a str>,
    backends: Vec<UsableRow<'a>>,
}

#[derive(Serialize)]
struct RssRow {
    function: &'static str,
    key: String,
    symmetric: bool,
    indirection_table: Vec<u32>,
}

#[derive(Serialize)]
struct TimestampsRow {
    hardware: bool,
    sent: bool,
    received: Vec<&'static str>,
    clock: Option<String>,
}

#[derive(Serialize)]
struct BackendRow<'a> {
    syntax: &'a str,
    summary: &'a str,
    #[serde(flatten)]
    usable: UsableRow<'a>,
}

#[derive(Serialize)]
struct UsableRow<'a> {
    name: &'a str,
    usable: bool,
    cause: Option<&'a str>,
    hint: Option<&'a str>,
}

fn usable_row<'a>(name: &'a str, usable: &'a Result<(), Unusable>) -> UsableRow<'a> {
    let reason = usable.as_ref().err();
    let hint = reason.map(|reason| reason.hint.as_str()).filter(|text| !text.is_empty());
    UsableRow { name, usable: reason.is_none(), cause: reason.map(|reason| reason.cause.as_str()), hint }
}

fn json(backends: &[Backend], interfaces: &[Interface], cards: &[Card]) -> serde_json::Result<String> {
    let rows = interfaces.iter().map(|one| InterfaceRow {
        name: &one.name,
        driver: one.driver.as_deref(),
        mtu: one.mtu,
        up: one.up,
        link: one.link,
        speed_mbps: one.speed_mbps,
        mac: one.mac.map(|mac| MacAddress(mac).to_string()),
        queues: one.queues,
        rss: one.rss.as_ref().map(|rss| RssRow {
            function: rss.function(),
            key: rss.key_text(),
            symmetric: rss.is_symmetric(),
            indirection_table: rss.table.clone(),
        }),
        timestamps: one.timestamps.map(|can| TimestampsRow {
            hardware: can.is_hardware(),
            sent: can.sent,
            received: can.filter_names(),
            clock: can.clock.map(|number| format!("/dev/ptp{number}")),
        }),
        host_use: one.host_use.as_deref(),
        stands_for: one.bare.as_deref(),
        backends: one.backends.iter().map(|(name, usable)| usable_row(name, usable)).collect(),
    });
    let backends = backends.iter().map(|one| BackendRow {
        syntax: one.syntax,
        summary: one.summary,
        usable: usable_row(one.name, &one.usable),
    });
    serde_json::to_string_pretty(&Document {
        schema: SCHEMA,
        interfaces: rows.collect(),
        pci_cards: ports_pci::rows(cards),
        backends: backends.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unusable(hint: &str) -> Result<(), Unusable> {
        Err(Unusable { cause: "needs CAP_NET_RAW".into(), hint: hint.into() })
    }

    fn example() -> (Vec<Backend>, Vec<Interface>) {
        let backend = |name, usable| Backend { name, syntax: "x:IF", summary: "what it is", usable };
        let interface = Interface {
            name: "eth1".into(),
            driver: Some("ixgbe".into()),
            mtu: 1500,
            up: true,
            link: Some(true),
            speed_mbps: Some(10_000),
            mac: Some([2, 0, 0, 0, 0, 1]),
            queues: 8,
            rss: Some(Rss {
                functions: 1,
                table: (0..16).map(|entry| entry % 8).collect(),
                key: Rss::symmetric_key(4),
                ..Rss::default()
            }),
            timestamps: Some(Timestamping {
                sent: true,
                filters: 1 | 1 << 12,
                clock: Some(3),
                ..Timestamping::default()
            }),
            host_use: Some("eth1 has address 192.0.2.1".into()),
            backends: vec![("xdp", unusable("run with sudo")), ("packet", Ok(())), ("tap", unusable(""))],
            bare: Some("packet:eth1".into()),
        };
        (vec![backend("null", Ok(())), backend("tap", unusable(""))], vec![interface])
    }

    #[test]
    fn text_says_what_is_usable_and_why_the_rest_is_not() {
        let (backends, interfaces) = example();
        let text = text(&backends, &interfaces, &[]);
        assert!(text.contains("  eth1                 ixgbe, up, 8 queues, MTU 1500, 10000 Mbit/s\n"), "{text}");
        let rss = "RSS: Toeplitz, both directions of a flow by one queue, table entries by queue: 2 2 2 2 2 2 2 2, key 6d:5a:6d:5a\n";
        assert!(text.contains(rss), "{text}");
        let timestamps = "timestamps: by the card (clock /dev/ptp3), sent and received: ptpv2-event\n";
        assert!(text.contains(timestamps), "{text}");
        assert!(text.contains("eth1 opens as packet:eth1\n") && text.contains("used by the host: eth1 has address"));
        assert!(text.contains("xdp:eth1                 needs CAP_NET_RAW: run with sudo\n"), "{text}");
        assert!(text.contains("packet:eth1              usable\n"));
        assert!(text.contains("tap:eth1                 not usable, see below\n"), "{text}");
        let (usable, cannot) = text.split_once("backends that cannot be used").expect("both parts");
        assert!(usable.contains("what it is") && cannot.contains("needs CAP_NET_RAW\n"), "{text}");
    }

    #[test]
    fn json_has_the_same() {
        let (backends, interfaces) = example();
        let value: serde_json::Value =
            serde_json::from_str(&json(&backends, &interfaces, &[]).expect("JSON")).expect("JSON");
        assert_eq!((&value["schema"], &value["interfaces"][0]["mac"]), (&1.into(), &"02:00:00:00:00:01".into()));
        let rss = &value["interfaces"][0]["rss"];
        assert_eq!((&rss["key"], rss["indirection_table"].as_array().unwrap().len()), (&"6d:5a:6d:5a".into(), 16));
        assert_eq!(value["interfaces"][0]["backends"][0]["hint"], "run with sudo");
        assert_eq!(value["backends"][0]["usable"], true);
        assert_eq!(value["backends"][1]["cause"], "needs CAP_NET_RAW");
        assert!(value["backends"][1]["hint"].is_null());
    }
}
