//! Trials for the tests: some as a run on two cores would give, and arbitrary ones.

use linerate_report::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

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

pub fn baseline() -> Trial {
    let counted = Counted { intended: 8_426_913, sent: 8_426_913, delivered: 8_426_913, ..Counted::default() };
    trial("baseline", Purpose::Baseline, 4_300_000.0, Account::new(counted, vec![]).unwrap())
}

pub fn search(number: u32, load: u64, lost: u64) -> Trial {
    let counted = Counted { intended: load, sent: load, delivered: load - lost, ..Counted::default() };
    let losses = vec![Loss::new("dut0", "receive queue full", lost)];
    let account = Account::new(counted, losses).unwrap();
    trial(&format!("search-1-{number}"), Purpose::Search, load as f64, account)
}

/// With losses, cores and latency.
pub fn overload() -> Trial {
    let counted = Counted { intended: 9_000_000, sent: 8_512_345, delivered: 2_730_001, duplicated: 0, reordered: 12 };
    let losses = vec![
        Loss::new("receiver", "socket buffer full", 0).inferred_from("nothing else"),
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
    let words = (option::of(any_text()), option::of(any_text()), option::of(any_text()));
    let loss = (prop_oneof!["[a-c]", any_text()], any_text(), any_count(), words);
    let loss = loss.prop_map(|(place, cause, packets, (counter, hint, inferred_from))| {
        let packets = packets / 8;
        Loss { place, cause, packets, counter, inferred_from, hint }
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

/// Any trial that can be built.
pub fn any_trial() -> impl Strategy<Value = Trial> {
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
