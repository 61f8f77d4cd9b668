//! Documents of a switch, from the pipeline, the connections and the worker.

use std::collections::BTreeMap;

use linerate_control::{ControlError, PortManager, Service, View, add_port_stats, port_documents, worker_document};
use linerate_measure::CoarseHistogram;
use linerate_ofswitch_loop::SteeredForwarder;
use linerate_openflow::{
    FlowFilter, FlowStats, Fragments, GROUP_ALL, GROUP_ANY, GroupMod, METER_ALL, Match, MeterMod, MultipartReply,
    MultipartRequest, PortConfig, PortNumber, PortState, TABLE_ALL,
};
use linerate_openflow_text::{flow_text, group_text, instructions_text, lagopus_flow_line, match_text, meter_text};
use linerate_pipeline::{FlowDump, Forwarder, Switch, saved_flow};
use linerate_sys::clock;
use linerate_worker::{End, Worker};
use serde::Serialize;
use serde_json::Value;

use crate::config::{FailMode, port_name, port_number};
use crate::document::{
    BridgeDocument, BridgePortDocument, CountersDocument, DropDocument, FlowDocument, FlowcacheDocument, GroupDocument,
    LatencyDocument, MeterDocument, OfWorkerDocument, PairDocument, PortDocument, QueueDocument, SCHEMA, Snapshot,
    TableDocument, TotalsDocument,
};
use crate::request::What;
use crate::state::{Items, State};

/// All entries of all tables.
const ALL_FLOWS: FlowFilter = FlowFilter {
    table: TABLE_ALL,
    out_port: PortNumber::ANY,
    out_group: GROUP_ANY,
    cookie: 0,
    cookie_mask: 0,
    matching: Match::new(Vec::new()),
};

/// Answers a request for a document.
pub(crate) fn answer(
    state: &mut State,
    ports: &PortManager<impl Service<Datapath = SteeredForwarder>>,
    what: What,
    after: Option<u64>,
) -> Result<Value, ControlError> {
    let now_ns = clock::now_ns();
    match what {
        What::Flow => flows(state, after, now_ns),
        What::Table => document(tables(&mut state.switch, now_ns)),
        What::Flowcache => document(flowcache(&state.switch)),
        What::Interface | What::Port => document(port_list(state, ports, now_ns)?),
        What::BridgeDomains => document(bridge(state, ports)),
        What::Controller => document(state.channels.documents(now_ns)),
        What::Group => document(groups(&mut state.switch, now_ns)),
        What::Meter => document(meters(&mut state.switch, now_ns)),
        What::Queue => document(queues(state, now_ns)),
        What::Stats => document(snapshot(state, ports, now_ns)?),
        What::Drops => document(drops(state, ports, now_ns)?),
        What::Latency => document(latency(ports)?),
        What::State => saved(state, after, now_ns),
    }
}

pub(crate) fn document(value: impl Serialize) -> Result<Value, ControlError> {
    serde_json::to_value(value).map_err(|error| ControlError::new(error.to_string(), ""))
}

fn flows(state: &mut State, after: Option<u64>, now_ns: u64) -> Result<Value, ControlError> {
    if after.is_none() {
        state.parts.begin(Items::new(Vec::new(), all_flows(&state.switch)?));
    }
    let State { parts, switch, .. } = state;
    document(parts.next(after, switch, now_ns, |_| None, |entry| flow(&entry))?)
}

fn all_flows(switch: &Switch) -> Result<FlowDump, ControlError> {
    switch.flow_dump(ALL_FLOWS).map_err(|error| ControlError::new(error.to_string(), ""))
}

fn flow(flow: &FlowStats) -> FlowDocument {
    FlowDocument {
        table: flow.table,
        priority: flow.priority,
        cookie: flow.cookie,
        seconds: flow.duration_ns as f64 / 1e9,
        idle_timeout_s: flow.idle_timeout_s,
        hard_timeout_s: flow.hard_timeout_s,
        packets: flow.packets,
        bytes: flow.bytes,
        matching: match_text(&flow.matching),
        actions: instructions_text(&flow.instructions),
        line: lagopus_flow_line(flow),
    }
}

/// Lines that make the same entries again: meters, then groups, then flow entries.
fn saved(state: &mut State, after: Option<u64>, now_ns: u64) -> Result<Value, ControlError> {
    if after.is_none() {
        let (meters, groups) = (state.switch.saved_meters(), state.switch.saved_groups());
        let meter = |meter: &MeterMod| format!("meter {}", meter_text(meter.meter, meter.flags, &meter.bands));
        let group = |group: &GroupMod| format!("group {}", group_text(group.kind, group.group, &group.buckets));
        let lines = meters.iter().map(meter).chain(groups.iter().map(group)).collect();
        state.parts.begin(Items::new(lines, all_flows(&state.switch)?));
    }
    let State { parts, switch, .. } = state;
    let flow = |entry| format!("flow {}", flow_text(&saved_flow(entry)));
    document(parts.next(after, switch, now_ns, Some, flow)?)
}

fn tables(switch: &mut Switch, now_ns: u64) -> Vec<TableDocument> {
    let most: BTreeMap<u8, u32> = match switch.multipart(MultipartRequest::TableFeatures(Vec::new()), now_ns) {
        Ok(MultipartReply::TableFeatures(features)) => {
            features.iter().map(|features| (features.table, features.max_entries)).collect()
        }
        _ => BTreeMap::new(),
    };
    let Ok(MultipartReply::Table(stats)) = switch.multipart(MultipartRequest::Table, now_ns) else { return Vec::new() };
    let used = stats.iter().filter(|stats| stats.active > 0 || stats.lookups > 0);
    let document = |stats: &linerate_openflow::TableStats| TableDocument {
        table: stats.table,
        entries: stats.active.into(),
        entries_max: most.get(&stats.table).copied().unwrap_or(0).into(),
        lookups: stats.lookups,
        matches: stats.matches,
    };
    used.map(document).collect()
}

fn flowcache(switch: &Switch) -> FlowcacheDocument {
    let totals = switch.totals();
    FlowcacheDocument {
        entries: totals.cache_entries,
        ways: totals.ways,
        hits: totals.cache_hits,
        misses: totals.cache_misses,
    }
}

fn groups(switch: &mut Switch, now_ns: u64) -> Vec<GroupDocument> {
    let Ok(MultipartReply::GroupDescription(all)) = switch.multipart(MultipartRequest::GroupDescription, now_ns) else {
        return Vec::new();
    };
    let Ok(MultipartReply::Group(stats)) = switch.multipart(MultipartRequest::Group(GROUP_ALL), now_ns) else {
        return Vec::new();
    };
    let document = |group: &linerate_openflow::GroupDescription| {
        let stats = stats.iter().find(|stats| stats.group == group.group)?;
        let pair =
            |bucket: &linerate_openflow::BucketStats| PairDocument { packets: bucket.packets, bytes: bucket.bytes };
        Some(GroupDocument {
            group: group.group,
            text: group_text(group.kind, group.group, &group.buckets),
            references: stats.references,
            seconds: stats.duration_ns as f64 / 1e9,
            packets: stats.packets,
            bytes: stats.bytes,
            buckets: stats.buckets.iter().map(pair).collect(),
        })
    };
    all.iter().filter_map(document).collect()
}

fn meters(switch: &mut Switch, now_ns: u64) -> Vec<MeterDocument> {
    let Ok(MultipartReply::MeterConfig(all)) = switch.multipart(MultipartRequest::MeterConfig(METER_ALL), now_ns)
    else {
        return Vec::new();
    };
    let Ok(MultipartReply::Meter(stats)) = switch.multipart(MultipartRequest::Meter(METER_ALL), now_ns) else {
        return Vec::new();
    };
    let document = |meter: &linerate_openflow::MeterConfig| {
        let stats = stats.iter().find(|stats| stats.meter == meter.meter)?;
        let pair = |band: &linerate_openflow::BandStats| PairDocument { packets: band.packets, bytes: band.bytes };
        Some(MeterDocument {
            meter: meter.meter,
            text: meter_text(meter.meter, meter.flags, &meter.bands),
            flows: stats.flows,
            seconds: stats.duration_ns as f64 / 1e9,
            packets: stats.packets,
            bytes: stats.bytes,
            bands: stats.bands.iter().map(pair).collect(),
        })
    };
    all.iter().filter_map(document).collect()
}

fn queues(state: &mut State, now_ns: u64) -> Vec<QueueDocument> {
    let all = MultipartRequest::Queue(PortNumber::ANY, u32::MAX);
    let Ok(MultipartReply::Queue(stats)) = state.switch.multipart(all, now_ns) else { return Vec::new() };
    let document = |stats: &linerate_openflow::QueueStats| {
        let port = port_name(stats.port);
        let settings = state.queues.of(&port).into_iter().find(|queue| queue.id == stats.queue);
        QueueDocument {
            port,
            queue: stats.queue,
            min_rate_bps: settings.and_then(|queue| queue.min_rate_bps),
            max_rate_bps: settings.and_then(|queue| queue.max_rate_bps),
            packets: stats.tx_packets,
            bytes: stats.tx_bytes,
            dropped: stats.tx_errors,
        }
    };
    stats.iter().map(document).collect()
}

/// All ports, with those that are out.
fn port_list(
    state: &mut State,
    ports: &PortManager<impl Service<Datapath = SteeredForwarder>>,
    now_ns: u64,
) -> Result<Vec<PortDocument>, ControlError> {
    let mut documents = Vec::new();
    for view in ports.views() {
        let table = view.table.clone();
        let none = |_: &SteeredForwarder, _| CountersDocument::default();
        let mut own = view.call(move |worker| port_documents(worker, &table, none))?;
        add_port_stats(view, &mut own)?;
        add_documents(&mut documents, own);
    }
    documents.extend(ports.ports_out().map(|(config, why)| PortDocument {
        name: config.name(),
        spec: config.spec.clone(),
        state: format!("down: {why}"),
        ..PortDocument::default()
    }));
    fill(&mut state.switch, &mut documents, now_ns);
    Ok(documents)
}

/// Adds the ports of a worker, of which it may have some queues and others the rest.
fn add_documents(documents: &mut Vec<PortDocument>, own: Vec<PortDocument>) {
    for document in own {
        match documents.iter_mut().find(|known| known.name == document.name) {
            Some(known) => known.add_queues(&document),
            None => documents.push(document),
        }
    }
}

/// Adds what OpenFlow knows of the ports, and sorts them by number.
fn fill(switch: &mut Switch, documents: &mut [PortDocument], now_ns: u64) {
    let descriptions = switch.ports();
    let stats = match switch.multipart(MultipartRequest::Port(PortNumber::ANY), now_ns) {
        Ok(MultipartReply::Port(stats)) => stats,
        _ => Vec::new(),
    };
    for document in documents.iter_mut() {
        let Ok(number) = port_number(&document.name) else { continue };
        let counters = &mut document.counters;
        if let Some(port) = descriptions.iter().find(|port| port.number == number) {
            counters.of_name = port.name.clone();
            counters.hw_addr = port.hw_addr.map(|byte| format!("{byte:02x}")).join(":");
            counters.config = config_bits(port.config);
            counters.link_up = port.state.0 & PortState::LINK_DOWN == 0;
            counters.live = port.state.0 & PortState::LIVE != 0;
            counters.speed_kbps = port.current_kbps;
        }
        if let Some(stats) = stats.iter().find(|stats| stats.port == number) {
            counters.rx_packets = stats.rx_packets;
            counters.rx_bytes = stats.rx_bytes;
            counters.tx_packets = stats.tx_packets;
            counters.tx_bytes = stats.tx_bytes;
            counters.rx_dropped = stats.rx_dropped;
            counters.tx_dropped = stats.tx_dropped;
        }
    }
    documents.sort_by_key(|document| port_number(&document.name).map(|number| number.0));
}

fn config_bits(config: PortConfig) -> Vec<String> {
    let bits = [
        (PortConfig::PORT_DOWN, "PORT_DOWN"),
        (PortConfig::NO_RECV, "NO_RECV"),
        (PortConfig::NO_FWD, "NO_FWD"),
        (PortConfig::NO_PACKET_IN, "NO_PACKET_IN"),
    ];
    bits.iter().filter(|(bit, _)| config.0 & bit != 0).map(|(_, name)| (*name).into()).collect()
}

fn bridge(state: &State, ports: &PortManager<impl Service<Datapath = SteeredForwarder>>) -> BridgeDocument {
    let (switch, features) = (&state.switch, state.switch.features());
    let names = [
        ("flow_statistics", 0),
        ("table_statistics", 1),
        ("port_statistics", 2),
        ("group_statistics", 3),
        ("ip_reassembly", 5),
        ("queue_statistics", 6),
        ("port_blocked", 8),
    ];
    let capability = |(name, bit): &(&str, u32)| ((*name).to_owned(), features.capabilities & 1 << bit != 0);
    let document = |port: &linerate_openflow::PortDescription| {
        let number = port_name(port.number);
        let index = ports.index(&number).map_or(0, |index| u32::from(index.0));
        BridgePortDocument { name: port.name.clone(), ifindex: index, number }
    };
    BridgeDocument {
        name: ports.view.dir.name().into(),
        dpid: dpid(switch),
        buffers: features.buffers,
        tables: features.tables,
        capabilities: names.iter().map(capability).collect(),
        fail_mode: if state.fail_mode == FailMode::Secure { "secure" } else { "standalone" }.into(),
        standalone: state.stands_alone(),
        fragments: match switch.config().fragments {
            Fragments::Normal => "normal",
            Fragments::Drop => "drop",
            Fragments::Reassemble => "reassemble",
        }
        .into(),
        ports: switch.ports().iter().map(document).collect(),
    }
}

fn dpid(switch: &Switch) -> String {
    format!("{:016x}", switch.features().datapath_id)
}

/// Everything at one moment.
fn snapshot(
    state: &mut State,
    ports: &PortManager<impl Service<Datapath = SteeredForwarder>>,
    now_ns: u64,
) -> Result<Snapshot, ControlError> {
    let documents = port_list(state, ports, now_ns)?;
    let worker = |view: &View<SteeredForwarder>| {
        let own = view.clone();
        view.call(move |worker| of_worker(worker, &own))
    };
    let workers = ports.views().map(worker).collect::<Result<_, _>>()?;
    Ok(compose(state, &ports.view, documents, workers, now_ns))
}

/// The last snapshot, when the workers and all connections have ended.
pub(crate) fn last(
    state: &mut State,
    workers: &mut [(Worker<SteeredForwarder>, End)],
    views: &[View<SteeredForwarder>],
) -> Snapshot {
    let now_ns = clock::now_ns();
    let (mut documents, mut of_workers) = (Vec::new(), Vec::new());
    for ((worker, end), view) in workers.iter_mut().zip(views) {
        let mut own = port_documents(worker, &view.table, |_, _| CountersDocument::default());
        for document in &mut own {
            if let Some(end) = view.table.index(&document.name).and_then(|index| end.port(index)) {
                document.set_stats(end.stats.clone(), end.queues.clone());
            }
        }
        add_documents(&mut documents, own);
        // This is another thread.
        let mut of_worker = of_worker(worker, view);
        of_worker.worker.cpu_ns = end.core_ns;
        of_workers.push(of_worker);
    }
    fill(&mut state.switch, &mut documents, now_ns);
    let mut snapshot = compose(state, &views[0], documents, of_workers, now_ns);
    snapshot.last = true;
    let waiting = snapshot.totals.waiting;
    if waiting != 0 && snapshot.totals.unbalanced.is_none() {
        snapshot.totals.unbalanced = Some(format!("{waiting} packets wait at the end"));
    }
    snapshot
}

/// Runs on the worker's thread, or after its end.
fn of_worker(worker: &Worker<SteeredForwarder>, view: &View<SteeredForwarder>) -> OfWorkerDocument {
    let (totals, steering) = (worker.datapath.totals(), worker.datapath.steering_counters());
    OfWorkerDocument {
        worker: worker_document(worker, view.core),
        ports: view.table.names().into_iter().map(|(_, name)| name).collect(),
        received: totals.received,
        sent: totals.sent,
        handed_over: totals.handed_over,
        handed_in: totals.taken_over,
        steered_out: steering.steered_out,
        steered_in: steering.steered_in,
    }
}

fn compose(
    state: &mut State,
    view: &View<SteeredForwarder>,
    ports: Vec<PortDocument>,
    workers: Vec<OfWorkerDocument>,
    now_ns: u64,
) -> Snapshot {
    Snapshot {
        schema: SCHEMA.into(),
        name: view.dir.name().into(),
        dpid: dpid(&state.switch),
        seconds: now_ns.saturating_sub(view.started_ns) as f64 / 1e9,
        ports,
        totals: totals(&state.switch),
        tables: tables(&mut state.switch, now_ns),
        flowcache: flowcache(&state.switch),
        controllers: state.channels.documents(now_ns),
        workers,
        last: false,
    }
}

fn totals(switch: &Switch) -> TotalsDocument {
    let totals = switch.totals();
    let drops = switch.drops().into_iter().map(|(reason, packets)| (reason.name().to_owned(), packets)).collect();
    let came = totals.received + totals.packet_outs + totals.copies;
    let went = totals.sent + totals.to_controller + totals.dropped;
    TotalsDocument {
        received: totals.received,
        packet_outs: totals.packet_outs,
        copies: totals.copies,
        sent: totals.sent,
        waiting: came.saturating_sub(went),
        to_controller: totals.to_controller,
        dropped: totals.dropped,
        drops,
        unbalanced: (went > came).then(|| format!("{came} packets came and {went} went")),
    }
}

fn drops(
    state: &mut State,
    ports: &PortManager<impl Service<Datapath = SteeredForwarder>>,
    now_ns: u64,
) -> Result<Vec<DropDocument>, ControlError> {
    let row = |at: &str, reason: String, packets| DropDocument { at: at.into(), reason, packets };
    let of_switch = state.switch.drops().into_iter();
    let mut rows: Vec<DropDocument> =
        of_switch.map(|(reason, packets)| row("switch", reason.name().into(), packets)).collect();
    for port in port_list(state, ports, now_ns)? {
        let own = port.port_rx_drops.iter().chain(&port.port_tx_drops);
        rows.extend(own.map(|lost| row(&port.name, format!("{}: {}", lost.place, lost.cause), lost.packets)));
    }
    for controller in state.channels.documents(now_ns) {
        if controller.packet_ins_dropped > 0 {
            let at = format!("controller {}", controller.target);
            rows.push(row(&at, "packet-in-limit".into(), controller.packet_ins_dropped));
        }
    }
    Ok(rows)
}

fn latency(
    ports: &PortManager<impl Service<Datapath = SteeredForwarder>>,
) -> Result<Vec<LatencyDocument>, ControlError> {
    // A port may have queues at several workers.
    let mut sums: BTreeMap<String, CoarseHistogram> = BTreeMap::new();
    for view in ports.views() {
        let names: Vec<String> = view.table.names().into_iter().map(|(_, name)| name).collect();
        for (to, latency) in view.call(move |worker| latencies(&worker.datapath, names))? {
            sums.entry(to).or_default().merge(&latency);
        }
    }
    Ok(sums.into_iter().filter(|(_, latency)| latency.count() > 0).map(latency_document).collect())
}

fn latencies(datapath: &Forwarder, names: Vec<String>) -> Vec<(String, CoarseHistogram)> {
    let own = |name: String| {
        let latency = datapath.latency(port_number(&name).ok()?)?.clone();
        Some((name, latency))
    };
    names.into_iter().filter_map(own).collect()
}

fn latency_document((to, latency): (String, CoarseHistogram)) -> LatencyDocument {
    let at = |share| latency.percentile_ns(share).unwrap_or(0);
    LatencyDocument {
        to,
        packets: latency.count(),
        p50_ns: at(50.0),
        p99_ns: at(99.0),
        p999_ns: at(99.9),
        max_ns: latency.max_ns().unwrap_or(0),
    }
}
