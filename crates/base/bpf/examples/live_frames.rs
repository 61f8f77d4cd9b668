//! What live frames cost on this machine, in a private network namespace: `live_frames [tx|rx|pace] [core]`.
//!
//! The core's clock is measured with a chain of dependent multiplications and additions (4 cycles each on
//! current x86 cores), since virtual machines often have no hardware counters. CPU time is that of the
//! thread (schedstat), which on veth includes the receiver's softirqs. Best of several runs.

use std::error::Error;
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use linerate_bpf::insn::{Reg::R0, action};
use linerate_bpf::programs::count_rx::{CountRx, CountRxSpec};
use linerate_bpf::programs::live_tx::checksum::Checksum;
use linerate_bpf::programs::live_tx::field::{FieldKind, FieldRule};
use linerate_bpf::programs::live_tx::{Exit, LiveTx, LiveTxSpec, Pacing, SignatureSpec, WAIT_MAX_NS};
use linerate_bpf::run::LiveRun;
use linerate_bpf::{Assembler, AttachMode, Program, ProgramOptions, Resident, XdpLink};
use linerate_sys::{affinity, clock, netns};

type Outcome = Result<(), Box<dyn Error>>;

const NEAR: u32 = 10;
const FAR: u32 = 11;
const ROUNDS: usize = 5;

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or("tx".into());
    affinity::pin_to_core(arguments.next().map_or(Ok(0), |core| core.parse())?)?;
    netns::NetNs::anonymous()?.enter()?;
    for command in [
        "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1",
        "ip link add near index 10 type veth peer name far index 11",
        "ip link set near up",
        "ip link set far up",
    ] {
        if !Command::new("sh").args(["-c", command]).status()?.success() {
            return Err(command.into());
        }
    }
    println!("core clock {:.2} GHz", clock_ghz());
    match what.as_str() {
        "tx" => transmit()?,
        "rx" => receive()?,
        "pace" => pace()?,
        _ => return Err("tx, rx or pace".into()),
    }
    println!("core clock {:.2} GHz", clock_ghz());
    Ok(())
}

/// A program that returns `code` and does nothing else.
fn returning(code: i32) -> Result<Program, Box<dyn Error>> {
    let mut asm = Assembler::new();
    asm.mov64(R0, code);
    asm.exit();
    Ok(Program::load_xdp("constant", &asm.assemble()?, ProgramOptions::default())?)
}

/// 60 bytes of Ethernet, IPv4 and UDP.
fn template() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 19, 0, 1]);
    frame.extend([4, 0, 0, 9, 0, 26, 1, 1]);
    frame.resize(60, 0x5a);
    frame
}

/// 100 sources times 100 destinations.
const FLOWS_10K: [FieldRule; 2] = [
    FieldRule { offset: 26, width: 4, kind: FieldKind::Odometer, min: 0xc612_0001, count: 100, step: 1 },
    FieldRule { offset: 30, width: 4, kind: FieldKind::Odometer, min: 0xc613_0001, count: 100, step: 1 },
];

fn spec(template: &[u8]) -> LiveTxSpec<'_> {
    LiveTxSpec {
        template,
        rewrite_bytes: 42,
        rules: &[],
        checksums: Checksum::all_of(template),
        signature: None,
        pacing: Pacing::None,
        exit: Exit::Tx,
        seed: 1,
    }
}

fn signed(clock_every: u32) -> Option<SignatureSpec> {
    Some(SignatureSpec { stream: 0, clock_every })
}

fn transmit() -> Outcome {
    let sink = returning(action::DROP)?;
    let _link = XdpLink::attach(&sink, FAR, AttachMode::Native)?;
    let frame = template();
    let floor = returning(action::TX)?;
    let _resident = Resident::new(&floor)?;
    let base = spec(&frame);
    let flows = LiveTxSpec { rules: &FLOWS_10K, ..base.clone() };
    let random = FLOWS_10K.map(|rule| FieldRule { kind: FieldKind::Random, ..rule });
    let udp_zero = Checksum::all_of(&frame)[1..].to_vec();
    let cases = [
        ("one flow", base.clone()),
        ("10,000 flows, IPv4 checksum only", LiveTxSpec { checksums: udp_zero, ..flows.clone() }),
        ("10,000 flows", flows.clone()),
        ("10,000 flows, all 60 bytes written", LiveTxSpec { rewrite_bytes: 60, ..flows.clone() }),
        ("10,000 flows, device map", LiveTxSpec { exit: Exit::Redirect(NEAR), ..flows.clone() }),
        ("10,000 random flows", LiveTxSpec { rules: &random, ..flows.clone() }),
        ("10,000 flows, signed, clock each", LiveTxSpec { signature: signed(1), ..flows.clone() }),
        ("10,000 flows, signed, clock of 16", LiveTxSpec { signature: signed(16), ..flows.clone() }),
        ("10,000 flows, signed, clock of 256", LiveTxSpec { signature: signed(256), ..flows.clone() }),
    ];
    for batch in [64, 128, 256] {
        report("program that only returns XDP_TX", batch, |repeat| {
            LiveRun { template: &frame, ingress_ifindex: NEAR, repeat, batch_frames: batch }.run(&floor)
        })?;
        for (name, spec) in &cases {
            let sender = LiveTx::load(spec)?;
            report(name, batch, |repeat| sender.run(NEAR, repeat, batch))?;
        }
    }
    Ok(())
}

fn receive() -> Outcome {
    let frame = template();
    let spec = LiveTxSpec { rules: &FLOWS_10K, signature: signed(16), ..spec(&frame) };
    let sink = CountRxSpec { streams: 1, sequences: 1 << 26, several_queues: false, latency: false, frags: false };
    let cases = [
        ("counts, bitmap, order", sink),
        ("the same with latency", CountRxSpec { latency: true, ..sink }),
        ("the same, atomic", CountRxSpec { several_queues: true, ..sink }),
        ("the same, atomic, with latency", CountRxSpec { several_queues: true, latency: true, ..sink }),
        ("the same through bpf_xdp_load_bytes", CountRxSpec { frags: true, ..sink }),
    ];
    {
        let drop = returning(action::DROP)?;
        let _link = XdpLink::attach(&drop, FAR, AttachMode::Native)?;
        let sender = LiveTx::load(&spec)?;
        report("sink that only returns XDP_DROP", 128, |repeat| sender.run(NEAR, repeat, 128))?;
    }
    for (name, case) in cases {
        let sink = CountRx::load(case)?;
        let _link = XdpLink::attach(sink.program(), FAR, AttachMode::Native)?;
        let sender = LiveTx::load(&spec)?;
        report(name, 128, |repeat| sender.run(NEAR, repeat, 128))?;
        let counts = sink.stream(0);
        println!("    sent {} distinct {} duplicates {}", sender.sequence(), counts.distinct, counts.duplicates);
    }
    Ok(())
}

/// Runs `run` several times and prints the least wall and CPU time of a packet.
fn report(
    name: &str,
    batch: u32,
    mut run: impl FnMut(u32) -> Result<(), linerate_bpf::BpfError>,
) -> Result<(), Box<dyn Error>> {
    const REPEAT: u32 = 1 << 20;
    let (mut wall_ns, mut cpu_ns) = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        let (started, cpu) = (Instant::now(), thread_cpu_ns()?);
        run(REPEAT)?;
        cpu_ns = cpu_ns.min((thread_cpu_ns()? - cpu) as f64 / f64::from(REPEAT));
        wall_ns = wall_ns.min(started.elapsed().as_nanos() as f64 / f64::from(REPEAT));
    }
    let cycles = cpu_ns * clock_ghz();
    println!("{name:36} batch {batch:3}: wall {wall_ns:5.1} ns, cpu {cpu_ns:5.1} ns = {cycles:3.0} cycles");
    Ok(())
}

fn pace() -> Outcome {
    let sink = CountRx::load(CountRxSpec {
        streams: 1,
        sequences: 1 << 22,
        several_queues: false,
        latency: true,
        frags: false,
    })?;
    let _link = XdpLink::attach(sink.program(), FAR, AttachMode::Native)?;
    let frame = template();
    for rate_pps in [10_000u64, 100_000, 500_000, 1_000_000, 2_000_000] {
        for (pacing, batch) in [(Pacing::Wait, 1), (Pacing::Wait, 4), (Pacing::Skip, 1)] {
            // Under a real-time policy, others get their share of the core now.
            std::thread::sleep(std::time::Duration::from_millis(1100));
            sink.start(0);
            let spec = LiveTxSpec { rules: &FLOWS_10K, signature: signed(1), pacing, ..spec(&frame) };
            let sender = LiveTx::load(&spec)?;
            let count = rate_pps / 2;
            let start = clock::now_ns() + 1_000_000;
            sender.set_schedule(start, (1_000_000_000u128 << 32).div_euclid(rate_pps.into()) as u64);
            sender.set_limit(count);
            let cpu = thread_cpu_ns()?;
            let span_ns = sender.due_ns(count).saturating_sub(clock::now_ns());
            let held = if pacing == Pacing::Wait { span_ns / WAIT_MAX_NS } else { span_ns / 50 };
            let repeat = u32::try_from(count + held)?;
            sender.run(NEAR, repeat, batch)?;
            let took = (clock::now_ns() - start) as f64;
            let cpu = (thread_cpu_ns()? - cpu) as f64 / took;
            let late = sender.lateness();
            let arrived = sink.latency(0);
            let quantiles = |h: &linerate_bpf::programs::histogram::Histogram| {
                [0.5, 0.99, 0.999, 0.9999, 1.0].map(|q| h.quantile(q).unwrap_or(0))
            };
            let (sent, held, distinct) = (sender.sequence(), sender.held(), sink.stream(0).distinct);
            println!(
                "{rate_pps:8} pps {pacing:?} batch {batch}: sent {sent} of {count}, held {held}, arrived {distinct}"
            );
            println!("    cpu {:.0} %, ns late p50 p99 p99.9 p99.99 max", cpu * 100.0);
            println!("    {:?} handed on, {:?} at the sink", quantiles(&late), quantiles(&arrived));
        }
    }
    Ok(())
}

fn thread_cpu_ns() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split(' ').next().unwrap_or("0").parse()?)
}

fn clock_ghz() -> f64 {
    const STEPS: u32 = 4_000_000;
    let round = |_| {
        let factor = black_box(6_364_136_223_846_793_005u64);
        let started = Instant::now();
        let chain = (0..STEPS).fold(1u64, |value, _| value.wrapping_mul(factor).wrapping_add(factor));
        black_box(chain);
        4.0 * f64::from(STEPS) / started.elapsed().as_nanos() as f64
    };
    (0..ROUNDS).map(round).fold(0.0, f64::max)
}
