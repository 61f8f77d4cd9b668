//! Documents for the tests: one as a run on two cores would give, and arbitrary ones.

use linerate_report::*;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

/// A run with two flow counts, an overload trial with loss, and goals.
pub fn sample() -> Document {
    let started = Timestamp::from_unix_ms(1_795_258_743_125);
    let mut document = Document::new("kernel-router", Tool::new("linerate bench", "0.1.0"), started);
    document.ended = Timestamp::from_unix_ms(started.unix_ms() + 41_200);
    document.mode = "DUT NAPI threaded on core 1, generator on core 0".to_owned();
    let configuration = [("net.ipv4.ip_forward", "1"), ("routes", "1")];
    document.dut = Some(Dut {
        name: "Linux kernel router".to_owned(),
        version: Some("6.18.44".to_owned()),
        configuration: configuration.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
    });
    document.trials = vec![baseline(), search(1, 3_100_000, 1_730_112), search(2, 1_363_000, 0), overload()];
    document.baseline = Some(Baseline { pps: 4_213_456.5, size_wire: 64, flows: 1, trial: "baseline".to_owned() });
    document.throughput = vec![throughput(1, LimitedBy::Loss), throughput(10_000, LimitedBy::Maximum)];
    document.goals = vec![Goal {
        name: "throughput, 1 flow".to_owned(),
        wanted: "at least 1.200 Mpps".to_owned(),
        measured: Some("1.363 Mpps".to_owned()),
        met: true,
    }];
    document.environment = Environment {
        kernel: Some("Linux 6.18.44".to_owned()),
        cpu_model: Some("AMD EPYC 9R45".to_owned()),
        cores_online: Some(2),
        governor: None,
        hypervisor: Some("KVM".to_owned()),
        mitigations: [("spectre_v2".to_owned(), "Enhanced / Automatic IBRS".to_owned())].into(),
        sysctls: [("net.core.netdev_max_backlog".to_owned(), "1000".to_owned())].into(),
        cache_line: Some(CacheLine { cores: [0, 1], before_ns: Some(96.5), after_ns: Some(411.0) }),
        ..Environment::default()
    };
    document.warnings = vec!["core 1 lost 2.4 % of its time to the hypervisor".to_owned()];
    document
}

fn trial(name: &str, purpose: Purpose, load_pps: f64, account: Account) -> Trial {
    Trial {
        name: name.to_owned(),
        purpose,
        path: ["pacer", "gen0", "dut0", "ip", "dut1", "receiver"].map(str::to_owned).into(),
        size_wire: 64,
        flows: 1,
        load_pps,
        duration_ns: 2_000_000_000,
        account,
        latency: None,
        cpu: Vec::new(),
        baseline_pps: Some(4_213_456.5),
        notes: Vec::new(),
    }
}

fn baseline() -> Trial {
    let counted = Counted { intended: 8_426_913, sent: 8_426_913, delivered: 8_426_913, ..Counted::default() };
    trial("baseline", Purpose::Baseline, 4_300_000.0, Account::new(counted, vec![]).unwrap())
}

fn search(number: u32, load: u64, lost: u64) -> Trial {
    let counted = Counted { intended: load, sent: load, delivered: load - lost, ..Counted::default() };
    let losses = vec![Loss::new("dut0", "receive queue full", lost)];
    let account = Account::new(counted, losses).unwrap();
    trial(&format!("search-1-{number}"), Purpose::Search, load as f64, account)
}

fn overload() -> Trial {
    let counted = Counted { intended: 9_000_000, sent: 8_512_345, delivered: 2_730_001, duplicated: 0, reordered: 12 };
    let losses = vec![
        Loss::new("receiver", "socket buffer full", 0).by_elimination(),
        Loss::new("ip", "no route to the destination", 41)
            .counted_by("/proc/net/snmp Ip OutNoRoutes")
            .with_hint("add a route"),
        Loss::new("dut0", "receive queue full (rx_dropped of the veth)", 5_782_300),
    ];
    let account = Account::new(counted, losses).unwrap();
    let account =
        account.with_unsent_by(vec![Loss::new("pacer", "more than a batch behind schedule", 487_655)]).unwrap();
    let core = |core, role: &str, user, system, softirq, steal| CoreUse {
        core,
        role: Some(role.to_owned()),
        user,
        system,
        softirq,
        irq: 0.0,
        steal,
        idle: 0.011,
    };
    Trial {
        cpu: vec![core(0, "generator", 0.612, 0.204, 0.173, 0.0), core(1, "DUT NAPI", 0.0, 0.013, 0.952, 0.024)],
        latency: Some(Latency {
            samples: 27_300,
            min_ns: 8_123,
            mean_ns: 31_234.5,
            p50_ns: 29_000,
            p90_ns: 44_000,
            p99_ns: 120_000,
            p999_ns: 900_000,
            p9999_ns: 1_200_000,
            max_ns: 1_250_001,
        }),
        notes: vec!["the receiver's socket buffer is 4 MiB".to_owned()],
        ..trial("overload", Purpose::Overload, 4_500_000.0, account)
    }
}

fn throughput(flows: u64, limited_by: LimitedBy) -> Throughput {
    Throughput {
        size_wire: 64,
        flows,
        bounds: Bounds { lower_pps: Some(1_363_000), upper_pps: (limited_by == LimitedBy::Loss).then_some(1_376_000) },
        loss_ratio: 0.0,
        resolution: 0.01,
        duration_ns: 1_000_000_000,
        confirmations: 1,
        overturned: 0,
        irregular: false,
        limited_by,
        baseline_pps: Some(4_213_456.5),
        trials: vec!["search-1-1".to_owned(), "search-1-2".to_owned()],
    }
}

/// Any text: what a terminal must not get is likely in it.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9 -]{0,12}", "\\PC{0,30}", "(?s).{0,20}", "[a-z]{60,90}", Just("\x1b[2J\r\n\u{202e}".to_owned())]
}

/// Any share, and what a broken counter makes of it.
fn any_share() -> impl Strategy<Value = f64> {
    prop_oneof![0.0f64..=1.0, any::<f64>(), Just(f64::NAN)]
}

fn any_count() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..2_000, 0u64..10_000_000_000, 0..=i64::MAX as u64 / 4]
}

fn any_losses() -> impl Strategy<Value = Vec<Loss>> {
    let words = (option::of(any_text()), option::of(any_text()), any::<bool>());
    let loss = (prop_oneof!["[a-c]", any_text()], any_text(), any_count(), words);
    let loss = loss.prop_map(|(place, cause, packets, (counter, hint, by_elimination))| {
        let packets = packets / 8;
        Loss { place, cause, packets, counter, by_elimination, hint }
    });
    vec(loss, 0..5)
}

/// Any account that real counters could give.
pub fn any_account() -> impl Strategy<Value = Account> {
    (any_count(), any_count(), any_count(), any_count(), any_count(), any_losses(), any_losses()).prop_map(
        |(sent, unsent, delivered, duplicated, reordered, lost, unsent_by)| {
            let counted = Counted { intended: sent + unsent, sent, delivered, duplicated, reordered };
            let account = Account::new(counted, lost).unwrap();
            account.clone().with_unsent_by(unsent_by).unwrap_or(account)
        },
    )
}

fn any_cpu() -> impl Strategy<Value = CoreUse> {
    let shares = [any_share(), any_share(), any_share(), any_share(), any_share(), any_share()];
    (any::<u32>(), option::of(any_text()), shares).prop_map(
        |(core, role, [user, system, softirq, irq, steal, idle])| CoreUse {
            core,
            role,
            user,
            system,
            softirq,
            irq,
            steal,
            idle,
        },
    )
}

fn any_purpose() -> impl Strategy<Value = Purpose> {
    prop_oneof![Just(Purpose::Baseline), Just(Purpose::Search), Just(Purpose::Throughput), Just(Purpose::Overload)]
}

fn any_latency() -> impl Strategy<Value = Latency> {
    (any::<[u64; 7]>(), any::<u64>(), any_share()).prop_map(
        |([min, p50, p90, p99, p999, p9999, max], samples, mean)| Latency {
            samples,
            min_ns: min,
            mean_ns: mean,
            p50_ns: p50,
            p90_ns: p90,
            p99_ns: p99,
            p999_ns: p999,
            p9999_ns: p9999,
            max_ns: max,
        },
    )
}

fn any_trial() -> impl Strategy<Value = Trial> {
    let texts = (any_text(), vec(prop_oneof!["[a-c]", any_text()], 0..4), vec(any_text(), 0..3));
    let numbers = (any::<u32>(), any::<u64>(), any_share(), any_count(), option::of(any_share()));
    (texts, any_purpose(), numbers, any_account(), option::of(any_latency()), vec(any_cpu(), 0..3)).prop_map(
        |(
            (name, path, notes),
            purpose,
            (size_wire, flows, load_pps, duration_ns, baseline_pps),
            account,
            latency,
            cpu,
        )| Trial {
            name,
            purpose,
            path,
            size_wire,
            flows,
            load_pps,
            duration_ns,
            account,
            latency,
            cpu,
            baseline_pps,
            notes,
        },
    )
}

fn any_throughput() -> impl Strategy<Value = Throughput> {
    let limits =
        prop_oneof![Just(LimitedBy::Loss), Just(LimitedBy::Tester), Just(LimitedBy::Maximum), Just(LimitedBy::Unknown)];
    let bounds = (option::of(any::<u64>()), option::of(any::<u64>()));
    let numbers = (any::<u32>(), any::<u64>(), any_share(), any_share(), any::<u64>(), any::<u32>(), any::<u32>());
    (numbers, bounds, any::<bool>(), limits, option::of(any_share()), vec(any_text(), 0..3)).prop_map(
        |(numbers, (lower_pps, upper_pps), irregular, limited_by, baseline_pps, trials)| {
            let (size_wire, flows, loss_ratio, resolution, duration_ns, confirmations, overturned) = numbers;
            let bounds = Bounds { lower_pps, upper_pps };
            Throughput {
                size_wire,
                flows,
                bounds,
                loss_ratio,
                resolution,
                duration_ns,
                confirmations,
                overturned,
                irregular,
                limited_by,
                baseline_pps,
                trials,
            }
        },
    )
}

fn any_environment() -> impl Strategy<Value = Environment> {
    let map = || btree_map(any_text(), any_text(), 0..3);
    let cache_line = (any::<[u32; 2]>(), option::of(any_share()), option::of(any_share()));
    let cache_line = cache_line.prop_map(|(cores, before_ns, after_ns)| CacheLine { cores, before_ns, after_ns });
    let texts = [option::of(any_text()), option::of(any_text()), option::of(any_text()), option::of(any_text())];
    (texts, option::of(any::<u32>()), map(), map(), option::of(cache_line)).prop_map(
        |([kernel, cpu_model, governor, hypervisor], cores_online, sysctls, other, cache_line)| Environment {
            kernel,
            cpu_model,
            cores_online,
            governor,
            hypervisor,
            offloads: other.clone(),
            sysctls,
            other,
            cache_line,
            ..Environment::default()
        },
    )
}

/// Any document that can be built.
pub fn any_document() -> impl Strategy<Value = Document> {
    let baseline = (any_share(), any::<u32>(), any::<u64>(), any_text());
    let baseline = baseline.prop_map(|(pps, size_wire, flows, trial)| Baseline { pps, size_wire, flows, trial });
    let dut = (any_text(), option::of(any_text()), btree_map(any_text(), any_text(), 0..3));
    let dut = dut.prop_map(|(name, version, configuration)| Dut { name, version, configuration });
    let goal = (any_text(), any_text(), option::of(any_text()), any::<bool>());
    let goal = goal.prop_map(|(name, wanted, measured, met)| Goal { name, wanted, measured, met });
    let head = (any_text(), any_text(), any::<u64>(), any_text(), option::of(dut), option::of(baseline));
    let body = (
        vec(any_throughput(), 0..3),
        vec(any_trial(), 0..4),
        vec(goal, 0..3),
        any_environment(),
        vec(any_text(), 0..3),
    );
    (head, body).prop_map(
        |((name, version, started, mode, dut, baseline), (throughput, trials, goals, environment, warnings))| {
            let started = Timestamp::from_unix_ms(started);
            Document {
                mode,
                dut,
                baseline,
                throughput,
                trials,
                goals,
                environment,
                warnings,
                ..Document::new(name, Tool::new("linerate", version), started)
            }
        },
    )
}
