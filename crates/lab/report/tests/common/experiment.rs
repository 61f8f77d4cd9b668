//! Experiments for the tests: the twelve cells of the 2019 router experiment as a simulated device would give them, and a small one.

use linerate_report::*;
use std::collections::BTreeMap;

/// A repeatable source of noise.
pub struct Random(pub u64);

impl Random {
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About normal, with a standard deviation of 1.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// What the simulated device can do.
#[derive(Clone, Copy)]
pub struct Device {
    pub capacity_pps: f64,
    /// Standard deviation between repetitions, relative.
    pub noise: f64,
    pub baseline_pps: f64,
}

const PATH: [&str; 8] = ["pacer", "lr-gen", "lr-in", "IPv4 in", "forward", "IPv4 out", "lr-out", "lr-recv"];

/// A trial of `load_pps` for one second on a device that carries `carries_pps` now.
pub fn trial(
    name: &str,
    size_wire: u32,
    flows: u64,
    load_pps: f64,
    carries_pps: f64,
    device: &Device,
) -> ExperimentTrial {
    let sendable = device.baseline_pps * 1.02;
    let intended = load_pps as u64;
    let sent = load_pps.min(sendable) as u64;
    let delivered = (sent as f64).min(carries_pps) as u64;
    let lost = sent - delivered;
    let (ring, backlog, table) = (lost * 8 / 10, lost / 10, lost - lost * 8 / 10 - lost / 10);
    let rest = table.min(2);
    let losses = vec![
        Loss::new("forward", "connection table full", table - rest).counted_by("nf_conntrack drop"),
        Loss::new("lr-in", "receive ring full", ring)
            .counted_by("lr-gen tx_dropped")
            .with_hint("raise the ring: rx=4096"),
        Loss::new("IPv4 in", "no route to the destination", 0)
            .counted_by("IpExt InNoRoutes")
            .inferred_from("the routes that there are"),
        Loss::new("IPv4 in", "backlog of core 1 full", backlog).counted_by("softnet_stat dropped, core 1"),
    ];
    let counted = Counted { intended, sent, delivered, duplicated: 0, reordered: if flows > 1 { 3 } else { 0 } };
    let unsent = intended - sent;
    let account = Account::new(counted, losses).unwrap();
    let account = account.with_unsent_by(vec![Loss::new("pacer", "behind schedule", unsent)]).unwrap();
    let busy = (delivered as f64 / device.capacity_pps).min(0.99);
    let core = |core, role: &str, user: f64, system: f64, softirq: f64| CoreUse {
        core,
        role: Some(role.to_owned()),
        user,
        system,
        softirq,
        irq: 0.001,
        steal: 0.004,
        idle: (0.995 - user - system - softirq).max(0.0),
    };
    let trial = Trial {
        name: name.to_owned(),
        purpose: Purpose::Search,
        path: PATH.map(str::to_owned).into(),
        size_wire,
        flows,
        load_pps,
        duration_ns: 1_000_000_000,
        account,
        latency: None,
        cpu: vec![core(0, "generator", 0.41, 0.33, 0.2), core(1, "DUT", 0.0, 0.004, busy * 0.98)],
        baseline_pps: Some(device.baseline_pps),
        notes: Vec::new(),
    };
    let work = |of: &str, cycles| Work {
        of: of.to_owned(),
        cycles_per_packet: Some(cycles),
        instructions_per_packet: Some(cycles * 1.7),
    };
    ExperimentTrial {
        trial,
        machine: Machine {
            noise: Noise { steal_share: 0.004, gap_max_ns: 41_000, cache_line_ns: Some(97.0), ..Noise::default() },
            stalls: stalls(),
            work: vec![work("generator", 420.0), work("DUT", 3.1e9 / device.capacity_pps)],
        },
        dut_counters: BTreeMap::from([("nf_conntrack_count".to_owned(), flows)]),
        not_used: None,
    }
}

fn carried(device: &Device, random: &mut Random) -> f64 {
    device.capacity_pps * (1.0 + device.noise * random.normal())
}

/// A throughput search with two goals; the width of its bounds is 0.5 %.
pub fn throughput(repetition: u32, size_wire: u32, flows: u64, device: &Device, random: &mut Random) -> Finding {
    let carries = carried(device, random).min(device.baseline_pps);
    let loads = [device.baseline_pps, carries * 1.3, carries * 0.9, carries * 1.002, carries * 0.997];
    let names = (1u32..).map(|number| format!("throughput-{repetition}-{number}"));
    let trials: Vec<_> =
        names.zip(loads).map(|(name, load)| trial(&name, size_wire, flows, load, carries, device)).collect();
    let tester_limited = carries * 0.997 >= 0.95 * device.baseline_pps;
    let goal = |name: &str, loss_ratio, exceed_ratio, factor: f64| GoalFound {
        name: name.to_owned(),
        loss_ratio,
        exceed_ratio,
        lower_pps: Some(carries * 0.997 * factor),
        upper_pps: (!tester_limited).then_some(carries * 1.002 * factor),
        conditional_pps: Some(carries * 0.9969 * factor),
        width: 0.005,
        irregular: false,
        limited_by: if tester_limited { LimitedBy::Tester } else { LimitedBy::Loss },
        tester_limited,
        stop: SearchStop::Resolved,
        confirmations: 0,
        overturned: 0,
        outside_interruptions: loss_ratio == 0.0,
        with_interruptions: (loss_ratio == 0.0)
            .then_some(GoalBounds { lower_pps: Some(carries * 0.2), upper_pps: Some(carries * 0.21) }),
    };
    let goals = vec![goal("NDR", 0.0, 0.0, 1.0), goal("PDR", 0.005, 0.5, if tester_limited { 1.0 } else { 1.012 })];
    finding(repetition, TestResult::Throughput { goals }, trials)
}

pub fn finding(repetition: u32, found: TestResult, trials: Vec<ExperimentTrial>) -> Finding {
    let test = serde_json::to_value(&found).unwrap()["test"].as_str().unwrap().to_owned();
    Finding { test, repetition, result: Some(found), error: None, goals: Vec::new(), trials }
}

fn latency_point(share: f64, load_pps: f64, random: &mut Random) -> LatencyPoint {
    let base = 9_000.0 * (1.0 + share * 3.0) * (1.0 + 0.03 * random.normal());
    let tail = |factor: f64| (base * factor) as u64;
    let latency = Latency {
        samples: 1_000_000,
        min_ns: tail(0.6),
        mean_ns: base * 1.08,
        p50_ns: tail(1.0),
        p90_ns: tail(1.5),
        p99_ns: tail(3.2),
        p999_ns: tail(11.0),
        p9999_ns: tail(60.0),
        max_ns: tail(180.0),
    };
    let edges = [(0.7, 100_000), (1.0, 400_000), (1.2, 250_000), (1.5, 150_000), (2.0, 70_000), (3.2, 20_000)];
    let tails = [(5.0, 7_000), (8.0, 1_900), (11.0, 1_000), (30.0, 80), (60.0, 11), (180.0, 9)];
    let histogram = edges.iter().chain(&tails).map(|(factor, packets)| (tail(*factor), *packets)).collect();
    let pdv_ns = Some(latency.p999_ns - latency.min_ns);
    let timestamps = Some(Timestamps {
        kind: TimestampKind::Hardware,
        error_ns: Some(850),
        clocks: vec!["/dev/ptp0 of eth0".into(), "/dev/ptp1 of eth2".into()],
        probes: Some(Probes { sent: 1_000_003, lost: 2, without_timestamp: 1, rejected: 0, strays: 1 }),
        fallback_reason: None,
    });
    LatencyPoint { share, load_pps, latency: Some(latency), timestamps, histogram, pdv_ns }
}

fn latency(repetition: u32, size_wire: u32, device: &Device, random: &mut Random) -> Finding {
    let shares = [0.0, 0.1, 0.5, 0.9];
    let load = |share: f64| if share == 0.0 { 1_000.0 } else { share * device.capacity_pps.min(device.baseline_pps) };
    let points = shares.iter().map(|share| latency_point(*share, load(*share), random)).collect();
    let name = format!("latency-{repetition}");
    let trials = vec![trial(&name, size_wire, 1, load(0.5), device.capacity_pps, device)];
    finding(repetition, TestResult::Latency { points }, trials)
}

fn frame_loss(repetition: u32, size_wire: u32, device: &Device, random: &mut Random) -> Finding {
    let carries = carried(device, random);
    let mut trials = Vec::new();
    let mut points = Vec::new();
    for step in (1..=10).rev() {
        let load_pps = device.baseline_pps * f64::from(step) / 10.0;
        let delivered_pps = load_pps.min(carries);
        let loss_ratio = 1.0 - delivered_pps / load_pps;
        points.push(LossPoint { load_pps, sent_pps: load_pps, delivered_pps, loss_ratio });
        let name = format!("frame-loss-{repetition}-{}", 11 - step);
        trials.push(trial(&name, size_wire, 1, load_pps, carries, device));
    }
    finding(repetition, TestResult::FrameLoss { points }, trials)
}

fn capture_point(pps: f64) -> CapturePoint {
    let port = CapturePort {
        port: "lr-in".to_owned(),
        captured: 1_000_000,
        dropped_by_ring: 10,
        dropped_by_writer: 0,
        ring_capacity: Some(524_288),
        ring_high_water: Some(400_000),
        ring_trend: RingTrend::FullIn,
        time_to_full_ns: Some(2_100_000_000),
        cpu_ns: Some(310_000_000),
    };
    CapturePoint {
        load_pps: pps,
        sent_pps: pps,
        captured_pps: pps * 0.999,
        capture_ratio: port.capture_ratio(),
        captured_of_sent: 0.999,
        idle_share: Some(0.31),
        cpu_ns_per_packet: Some(310.0),
        ports: vec![port],
    }
}

fn no_loss(capacity: f64, pps: Option<f64>) -> TestResult {
    let point = |share: f64, loss_ratio| LossPoint {
        load_pps: share * capacity,
        sent_pps: share * capacity,
        delivered_pps: share * capacity * (1.0 - loss_ratio),
        loss_ratio,
    };
    TestResult::NoLoss {
        pps,
        duration_ns: 500_000_000,
        points: vec![point(0.9, 0.001), point(0.5, if pps.is_some() { 0.0 } else { 0.0001 })],
        why: pps.is_none().then(|| "each of the 2 loads tried lost packets".to_owned()),
    }
}

fn ping(median_ns: Option<u64>) -> TestResult {
    let rtt = |p50_ns: u64| linerate_report::Latency {
        samples: 199,
        min_ns: p50_ns / 2,
        mean_ns: p50_ns as f64 * 1.1,
        p50_ns,
        p90_ns: p50_ns * 2,
        p99_ns: p50_ns * 3,
        p999_ns: p50_ns * 4,
        p9999_ns: p50_ns * 4,
        max_ns: p50_ns * 4,
    };
    TestResult::Ping { sent: 200, interval_ns: 10_000_000, rtt: median_ns.map(rtt) }
}

/// Loads of connections of which the last one meets a table that is full.
fn sessions(highest: f64) -> SessionsFound {
    let account = |intended: u64, begun: u64, lost: u64| {
        let losses = vec![SessionLoss { cause: "timed out".to_owned(), count: lost }];
        let losses = if lost > 0 { losses } else { Vec::new() };
        SessionAccount::new((intended, begun, begun - lost), losses).unwrap()
    };
    let times = Latency {
        samples: 100,
        min_ns: 10_000,
        mean_ns: 21_000.0,
        p50_ns: 20_000,
        p90_ns: 40_000,
        p99_ns: 90_000,
        p999_ns: 95_000,
        p9999_ns: 95_000,
        max_ns: 95_000,
    };
    let point = |load: f64, lost: u64| SessionPoint {
        load,
        connections: account(load as u64, load as u64 - lost / 2, lost),
        requests: account(load as u64 - lost, load as u64 - lost, 0),
        answered_per_second: load - lost as f64,
        handshake: Some(times),
        answer: (lost == 0).then_some(times),
        retransmitted: lost * 2,
        packets_lost: vec![Loss::new("DUT, IPv4 input", "connection tracking table full", lost * 3)],
        packets_unexplained: 0,
    };
    SessionsFound {
        highest: Some(highest),
        fails_at: Some(highest * 2.0),
        tester_limited: false,
        points: vec![point(highest, 0), point(highest * 2.0, 40)],
    }
}

fn whole(count: u64) -> SessionAccount {
    SessionAccount::new((count, count, count), Vec::new()).expect("an account")
}

fn echoes(stack: &str) -> TestResult {
    let point = |order: &str, per_second: f64| EchoPoint {
        order: order.to_owned(),
        per_second,
        per_core_second: per_second * 0.99,
        per_ghz: Some(per_second / 2.6),
        echoes: whole(per_second as u64),
        cycles_per_echo: Some(2.6e9 / per_second),
        segments_per_echo: 2.0,
        acks_per_echo: 0.01,
        retransmitted: 0,
        connections_lost: 1,
    };
    let lost = vec![SessionLoss { cause: "reset".to_owned(), count: 1 }];
    TestResult::TcpEcho(EchoesFound {
        stack: stack.to_owned(),
        connections: 10_000,
        preallocated_connections: 10_000,
        connection_account: SessionAccount::new((10_000, 10_000, 9_999), lost).expect("an account"),
        set_up_per_core_second: 900_000.0,
        torn_down_per_core_second: 1_100_000.0,
        bytes_per_connection: Some(612.0),
        resident_bytes: Some(4_100_000_000),
        points: vec![point("reply", 2.1e6), point("round-robin", 1.4e6)],
    })
}

fn udp_loop() -> TestResult {
    TestResult::UdpLoop(UdpFound {
        per_second: 42.5e6,
        per_core_second: 43e6,
        per_ghz: None,
        window: 64,
        datagrams: whole(85_000_000),
    })
}

/// One of each other kind, those with something missing too.
fn others(device: &Device) -> Vec<Finding> {
    let one = |name: &str| vec![trial(name, 64, 1, device.capacity_pps * 0.9, device.capacity_pps, device)];
    let capacity = device.capacity_pps;
    let bursts = vec![812, 820, 799, 805];
    let back_to_back = TestResult::BackToBack {
        bursts,
        sent_pps: device.baseline_pps,
        throughput_pps: Some(capacity),
        buffer_seconds: Some(0.000_31),
        at_maximum: false,
    };
    let recovery = |recovery_ns| TestResult::SystemRecovery {
        recovery_ns,
        overload_pps: capacity * 1.1,
        after_pps: capacity * 0.5,
    };
    let reset = TestResult::Reset {
        how: "interface down and up".to_owned(),
        outage_ns: Some(212_000_000),
        outage_by_loss_ns: 212_400_000,
    };
    let noise = Noise { steal_share: 0.06, gap_max_ns: 12_400_000, disturbed: true, ..Noise::default() };
    let mut disturbed = one("load-1");
    // The one before it was made again, and would have been by far the best.
    let mut before = disturbed[0].clone();
    before.trial.name.push_str(", attempt 1");
    before.trial.duration_ns /= 100;
    before.not_used = Some("disturbed (6 % of the time stolen, sender away for 12.4 ms): made again".to_owned());
    (before.machine.noise, disturbed[0].machine.noise) = (noise, Noise { repeated: 1, ..noise });
    disturbed.insert(0, before);
    let error = "the DUT stopped: exit status 1".to_owned();
    let missed = linerate_report::Goal {
        name: "rate".to_owned(),
        wanted: "at least 1.000 Mpps".to_owned(),
        measured: Some("900.0 kpps".to_owned()),
        met: false,
    };
    vec![
        finding(
            1,
            TestResult::Capture { points: [0.5, 1.0].map(|share| capture_point(share * capacity)).into() },
            one("capture-1"),
        ),
        finding(
            1,
            TestResult::Capacity {
                delivered_pps: [0.9, 0.95, 0.85].map(|share| share * capacity).into(),
                sent_pps: vec![capacity * 1.3; 3],
            },
            one("capacity-1"),
        ),
        finding(1, no_loss(capacity, Some(capacity * 0.5)), one("no-loss-1")),
        finding(2, no_loss(capacity, None), one("no-loss-2")),
        finding(1, back_to_back, one("back-to-back-1")),
        finding(1, recovery(Some(1_700_000)), one("recovery-1")),
        finding(2, recovery(None), one("recovery-2")),
        finding(1, reset, one("reset-1")),
        finding(1, TestResult::Soak { load_pps: capacity * 0.9, loss_ratio: 0.000_000_2 }, one("soak-1")),
        finding(1, TestResult::ConnectionRate(sessions(1_000.0)), one("connection-rate-1")),
        finding(1, TestResult::ConcurrentConnections(sessions(500.0)), one("concurrent-connections-1")),
        finding(1, TestResult::RequestRate(SessionsFound { highest: None, ..sessions(800.0) }), one("request-rate-1")),
        finding(1, echoes("Linerate"), one("tcp-echo-1")),
        finding(1, echoes("Linux"), one("tcp-echo-1")),
        finding(1, udp_loop(), one("udp-loop-1")),
        finding(1, ping(Some(210_000)), Vec::new()),
        finding(2, ping(None), Vec::new()),
        finding(1, TestResult::MaxForwardingRate { pps: capacity * 1.01, load_pps: capacity * 1.4 }, one("mfr-1")),
        finding(1, TestResult::Load { sent_pps: capacity * 0.9, delivered_pps: capacity * 0.9 }, disturbed),
        Finding {
            test: "load".to_owned(),
            repetition: 2,
            result: None,
            error: Some(error),
            goals: vec![missed],
            trials: Vec::new(),
        },
    ]
}

fn published(dut: &str, flows: u64, direction: &str) -> Vec<PublishedRow> {
    let row = |what: &str, value: f64, text: &str| PublishedRow {
        source: "toonk.io 2019".to_owned(),
        what: what.to_owned(),
        value: Some(value),
        per_ghz: None,
        text: text.to_owned(),
    };
    match (dut, flows, direction) {
        ("snat", 10_000, "one way") => vec![row("throughput", 3.2e6, "3.2 Mpps"), row("cores", 13.0, "13")],
        ("snat", 10_000, _) => vec![row("throughput", 5.9e6, "5.9 Mpps in all")],
        ("snat", ..) => Vec::new(),
        (_, 1, "one way") => vec![row("throughput", 1.4e6, "1.4 Mpps (one core full)"), row("cores", 1.0, "1")],
        (_, 1, _) => Vec::new(),
        (_, _, "one way") => vec![row("throughput", 14e6, "14 Mpps (line rate)"), row("cores", 16.0, "16")],
        _ => vec![row("throughput", 24e6, "24 Mpps in all"), row("cores", 26.0, "26")],
    }
}

pub fn cell(dut: &str, size_wire: u32, flows: u64, direction: &str, baseline_pps: f64, findings: Vec<Finding>) -> Cell {
    let configuration = BTreeMap::from([("net.ipv4.ip_forward".to_owned(), "1".to_owned())]);
    Cell {
        id: format!("{dut}/{size_wire}/{flows}/{}", direction.replace(' ', "-")),
        dut_name: dut.to_owned(),
        dut: Dut { name: format!("Linux kernel router, {dut}"), version: Some("6.18.44".to_owned()), configuration },
        size: size_wire.to_string(),
        size_wire: f64::from(size_wire),
        flows,
        ip: None,
        flow_pattern: if flows == 1 { "1 source x 1 destination" } else { "100 sources x 100 destinations, odometer" }
            .to_owned(),
        direction: direction.to_owned(),
        ports: Some("xdp".to_owned()),
        cores: Some("apart".to_owned()),
        mode: "DUT on core 1; generator and receiver on core 0".to_owned(),
        baseline_pps: Some(baseline_pps),
        findings,
        published: published(dut, flows, direction),
    }
}

fn document(name: &str, title: &str, cells: Vec<Cell>) -> Results {
    let started = Timestamp::from_unix_ms(1_795_258_743_125);
    Results {
        schema: EXPERIMENT_SCHEMA.to_owned(),
        name: name.to_owned(),
        title: title.to_owned(),
        about: "The Linux kernel as a router: plain, with two conntrack rules, and with source NAT.".to_owned(),
        file: format!("name = \"{name}\"\n"),
        tool: Tool::new("linerate lab", "0.1.0"),
        started,
        ended: Timestamp::from_unix_ms(started.unix_ms() + 640_000),
        complete: true,
        cells,
        environment: Environment {
            kernel: Some("Linux 6.18.44".to_owned()),
            cpu_model: Some("AMD EPYC 9R45".to_owned()),
            cores_online: Some(2),
            governor: None,
            hypervisor: Some("KVM".to_owned()),
            mitigations: BTreeMap::from([("spectre_v2".to_owned(), "Enhanced / Automatic IBRS".to_owned())]),
            sysctls: BTreeMap::from([("net.core.netdev_max_backlog".to_owned(), "1000".to_owned())]),
            cache_line: Some(CacheLine { cores: [0, 1], before_ns: Some(96.5), after_ns: Some(104.0) }),
            ..Environment::default()
        },
        warnings: Vec::new(),
        bounds: None,
        recommendation: Vec::new(),
    }
}

/// The twelve cells, three repetitions, and one of every other test in the first cell.
pub fn rich(seed: u64) -> Results {
    let mut random = Random(seed);
    let mut cells = Vec::new();
    for (dut, single, many) in [("plain", 1.42e6, 1.31e6), ("conntrack", 1.08e6, 0.97e6), ("snat", 0.91e6, 0.62e6)] {
        for flows in [1, 10_000] {
            for direction in ["one way", "both ways"] {
                let capacity_pps = if flows == 1 { single } else { many };
                // The plain router with one flow one way is faster than what the tester can send.
                let limited = dut == "plain" && flows == 1 && direction == "one way";
                let baseline_pps = if limited { 1.40e6 } else { 2.1e6 };
                let device = Device { capacity_pps, noise: 0.008, baseline_pps };
                let mut findings: Vec<_> =
                    (1..=3).map(|repetition| throughput(repetition, 64, flows, &device, &mut random)).collect();
                findings.extend((1..=3).map(|repetition| latency(repetition, 64, &device, &mut random)));
                findings.push(frame_loss(1, 64, &device, &mut random));
                if cells.is_empty() {
                    findings.extend(others(&device));
                }
                cells.push(cell(dut, 64, flows, direction, baseline_pps, findings));
            }
        }
    }
    let mut results = document("linux-router-2019", "Linux as a router, 2019", cells);
    results.warnings = vec!["core 1 lost 2.4 % of its time to the hypervisor".to_owned()];
    results.recommendation = capture_recommendation(&results);
    // Of the second device on, the fixed loop took longer.
    for (number, cell) in results.cells.iter_mut().enumerate() {
        let trials = cell.findings.iter_mut().flat_map(|finding| &mut finding.trials);
        trials.for_each(|made| made.machine.noise.dut_pace_ns = Some(if number < 4 { 27e3 } else { 30e3 }));
    }
    results.bounds = stated_bounds(&results);
    results
}

/// One device, several sizes, `repetitions` throughput searches each.
pub fn sizes(seed: u64, repetitions: u32, capacity_pps: f64, noise: f64) -> Results {
    let mut random = Random(seed);
    let make = |size_wire: u32| {
        let device = Device { capacity_pps, noise, baseline_pps: 2.4e6 };
        let device = Device { capacity_pps: device.capacity_pps / (1.0 + f64::from(size_wire) / 9_000.0), ..device };
        let mut find = |repetition| throughput(repetition, size_wire, 1, &device, &mut random);
        let findings = (1..=repetitions).map(&mut find).collect();
        Cell { published: Vec::new(), ..cell("bridge", size_wire, 1, "one way", device.baseline_pps, findings) }
    };
    let cells = [64, 128, 256, 512, 1024, 1280, 1518].map(make).into();
    document("bridge-sizes", "Kernel bridge by frame size", cells)
}

/// One cell, one search.
pub fn small() -> Results {
    let mut results = sizes(7, 1, 1.2e6, 0.01);
    results.cells.truncate(1);
    results
}

/// One stall of each cause, and when packets were lost.
fn stalls() -> Stalls {
    let stall = |part, start_ns, by, lost| Stall {
        core: Some(1),
        part,
        start_ns,
        duration_ns: 2_300_000,
        by,
        exact: lost > 0,
        interruption: true,
        lost,
    };
    let task = StallCause::Task { name: "backup".into(), process: 4711, thread: 4712, switches: 1 };
    let interrupt = StallCause::Interrupt { name: "timer interrupt".into() };
    Stalls {
        list: vec![
            stall(StalledPart::Generator, 1_000_000, interrupt, 0),
            stall(StalledPart::Dut, 5_000_000, task, 40),
            stall(StalledPart::Dut, 9_000_000, StallCause::Hypervisor, 0),
            stall(StalledPart::Generator, 12_000_000, StallCause::Unknown, 0),
        ],
        others: 2,
        others_ns: 130_000,
        lost_in_interruptions: 40,
        loss: Some(LossTimes { bin_ns: 3_906_250, lost: vec![0, 40, 0, 7] }),
        unknown: vec!["which tasks and interrupts took the cores is not known: not permitted".into()],
    }
}
