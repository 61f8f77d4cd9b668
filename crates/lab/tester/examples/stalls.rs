//! Provokes stalls and looks how well they are found: a process of a higher priority takes the DUT's core for 1, 3 and 10 ms, many
//! times, while the kernel's router forwards at a part of its rate.
//!
//! ```sh
//! cargo run --release -p linerate-tester --example stalls [SHARE_OF_THE_RATE]      # as root, on two cores
//! ```
//! It prints, for each length: how many of the provoked stalls were found, how far their lengths are off, what they cost by the
//! ledger, and what one would expect: what was sent meanwhile less what the ring holds.

use std::error::Error;
use std::fs;
use std::net::Ipv4Addr;
use std::process::Command;

use linerate_experiment::{FlowOrder, FlowSpec};
use linerate_report::{Stall, StallCause, StalledPart, units};
use linerate_sys::{affinity, clock};
use linerate_testbed::placement::Placement;
use linerate_testbed::topology::{Topology, TopologySpec};
use linerate_tester::{Cores, Load, Outcome, Tester, TesterSpec, TrialSpec, fixed_size};

const MS: u64 = 1_000_000;
/// From one provoked stall to the next, and how many.
const PERIOD_NS: u64 = 60 * MS;
const TIMES: u64 = 80;
/// Short enough for the real-time class, in which nothing else disturbs a trial.
const LOAD_NS: u64 = 450 * MS;
const RING_PACKETS: f64 = 256.0;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["spin", core, for_ns, file] => spin(core.parse()?, for_ns.parse()?, file),
        ["spin", ..] => Err("spin CORE NANOSECONDS FILE".into()),
        [share, ..] => measure(share.parse()?),
        [] => measure(0.5),
    }
}

/// Takes a core again and again, and writes down from when to when.
fn spin(core: usize, for_ns: u64, file: &str) -> Result<(), Box<dyn Error>> {
    affinity::pin_to_core(core)?;
    affinity::set_fifo(0, 50)?;
    let begin_ns = clock::now_ns();
    let mut text = String::new();
    for number in 1..=TIMES {
        clock::sleep_until_ns(begin_ns + number * PERIOD_NS);
        let start_ns = clock::now_ns();
        while clock::now_ns() < start_ns + for_ns {
            std::hint::spin_loop();
        }
        text += &format!("{start_ns} {}\n", clock::now_ns());
    }
    Ok(fs::write(file, text)?)
}

fn measure(share: f64) -> Result<(), Box<dyn Error>> {
    let [generator, dut] = affinity::allowed_cores().get(..2).and_then(|two| two.try_into().ok()).ok_or("two cores")?;
    let placement = Placement::Thread { core: Some(dut) };
    let topology = Topology::router(&TopologySpec { placement, ..TopologySpec::default() })?;
    let mut tester = Tester::open(topology, &TesterSpec::new("xdp", "sink"))?;
    tester.place(placement)?;
    let cores = Cores { generator: Some(generator), dut: Some(dut), ..Cores::default() };
    let full = trial(&mut tester, cores, Load::Full { duration_ns: 500 * MS })?;
    let capacity_pps = full.ledger.account.delivered() as f64 * 1e9 / full.duration_ns as f64;
    let pps = capacity_pps * share;
    println!("delivered under overload {}, load {}", units::pps(capacity_pps), units::pps(pps));
    show(&full);
    let quiet = trial(&mut tester, cores, Load::Rate { pps, duration_ns: LOAD_NS })?;
    println!("\nnothing provoked:");
    show(&quiet);
    for for_ns in [MS, 3 * MS, 10 * MS] {
        provoke(&mut tester, cores, (pps, for_ns), dut)?;
    }
    Ok(())
}

fn provoke(tester: &mut Tester, cores: Cores, (pps, for_ns): (f64, u64), core: usize) -> Result<(), Box<dyn Error>> {
    let file = std::env::temp_dir().join(format!("linerate-stalls-{}", std::process::id()));
    let program = std::env::current_exe()?;
    // The shell ends at once, so the spinning process is nobody's of ours.
    let words = format!("{} spin {core} {for_ns} {} &", program.display(), file.display());
    Command::new("sh").args(["-c", &words]).status()?;
    let end_ns = clock::now_ns() + TIMES * PERIOD_NS;
    println!("\nprovoked {}:", units::nanoseconds(for_ns as f64));
    let mut outcomes = Vec::new();
    while clock::now_ns() < end_ns {
        outcomes.push(trial(tester, cores, Load::Rate { pps, duration_ns: LOAD_NS })?);
    }
    outcomes.iter().take(1).for_each(show);
    clock::sleep_until_ns(end_ns + 500 * MS);
    let text = fs::read_to_string(&file)?;
    fs::remove_file(&file)?;
    judge(&outcomes, &spun(&text)?, pps);
    Ok(())
}

fn spun(text: &str) -> Result<Vec<u64>, Box<dyn Error>> {
    let length = |line: &str| -> Result<u64, Box<dyn Error>> {
        let (start, end) = line.split_once(' ').ok_or("two numbers a line")?;
        Ok(end.parse::<u64>()? - start.parse::<u64>()?)
    };
    text.lines().map(length).collect()
}

fn judge(outcomes: &[Outcome], spun_ns: &[u64], pps: f64) {
    let ours = |stall: &&Stall| {
        stall.part == StalledPart::Dut && matches!(&stall.by, StallCause::Task { name, .. } if name == "stalls")
    };
    let found: Vec<&Stall> =
        outcomes.iter().flat_map(|outcome| &outcome.readings.machine.stalls.list).filter(ours).collect();
    let median = |mut all: Vec<u64>| {
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or(0)
    };
    let real_ns = median(spun_ns.to_vec()) as f64;
    let mut off: Vec<f64> = found.iter().map(|stall| (stall.duration_ns as f64 / real_ns - 1.0) * 100.0).collect();
    off.sort_by(f64::total_cmp);
    let [least, middle, most] =
        [0, off.len() / 2, off.len().saturating_sub(1)].map(|at| off.get(at).copied().unwrap_or(f64::NAN));
    let expected: f64 = found.iter().map(|stall| (stall.duration_ns as f64 * pps / 1e9 - RING_PACKETS).max(0.0)).sum();
    let lost: u64 = found.iter().map(|stall| stall.lost).sum();
    let count = found.len();
    println!(
        "  of the task: {count} stalls, lengths off by {least:+.1} / {middle:+.1} / {most:+.1} % (least, median, most)"
    );
    println!("  they cost {lost} packets; sent meanwhile less a ring each: {expected:.0}");
    let all: u64 = outcomes.iter().map(|outcome| outcome.ledger.account.lost_total()).sum();
    let inside: u64 = outcomes.iter().map(|outcome| outcome.readings.machine.stalls.lost_in_interruptions).sum();
    let unexplained: i64 = outcomes.iter().map(|outcome| outcome.ledger.account.unexplained()).sum();
    println!("  all {} trials lost {all}, {inside} of it in interruptions; unexplained {unexplained}", outcomes.len());
}

fn show(outcome: &Outcome) {
    let (account, stalls) = (&outcome.ledger.account, &outcome.readings.machine.stalls);
    for loss in account.unsent_by().iter().chain(account.lost()) {
        println!("  {:>9}  {}: {}", loss.packets, loss.place, loss.cause);
    }
    println!("  lost in interruptions {} of {}", stalls.lost_in_interruptions, account.lost_total());
    for stall in &stalls.list {
        let at = units::nanoseconds(stall.start_ns as f64);
        let length = units::nanoseconds(stall.duration_ns as f64);
        let exact = if stall.exact { "" } else { ", not exactly" };
        println!("    at {at}: {:?} away for {length} ({}{exact}), {} lost", stall.part, stall.by.words(), stall.lost);
    }
    println!("    and {} more ({})", stalls.others, units::nanoseconds(stalls.others_ns as f64));
    stalls.unknown.iter().for_each(|unknown| println!("    {unknown}"));
}

fn trial(tester: &mut Tester, cores: Cores, load: Load) -> Result<Outcome, Box<dyn Error>> {
    let (source, destination) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 101));
    let flows = FlowSpec {
        source,
        sources: 1,
        destination,
        destinations: 1,
        ports: 1,
        order: FlowOrder::Odometer,
        ip: linerate_experiment::FlowIp::V4,
    };
    let size = fixed_size(64);
    Ok(tester.trial(&TrialSpec { cores, ..TrialSpec::new(&size, &flows, load) })?)
}
