//! What live frames reach: `live_rate SPEC [seconds] [core] [flows]`, in the network namespace of the caller; with `-` for
//! SPEC, into a veth pair of its own in a private namespace, whose far end drops in XDP.
//!
//! Sends frames of 60 bytes (UDP over IPv4, right checksums, unsigned) of 1 or 10,000 flows and prints the rate by the clock
//! and the cost of a packet in this thread's CPU time (schedstat), which on veth includes the receiver's softirqs.

use std::error::Error;

use linerate_bpf::programs::drop_count::DropCount;
use linerate_bpf::programs::live_tx::checksum::Checksum;
use linerate_bpf::{AttachMode, XdpLink};
use linerate_mem::{Pool, PoolConfig};
use linerate_port::{ChecksumFix, FieldRule, FieldRuleKind, GeneratorStream, Port};
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::veth::{self, VethEnd};
use linerate_sys::{affinity, clock};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [spec, rest @ ..] = &arguments[..] else { return Err("SPEC [seconds] [core] [flows]".into()) };
    let number = |place: usize, default: usize| rest.get(place).map_or(Ok(default), |text| text.parse());
    let (seconds, core, flows) = (number(0, 3)?, number(1, 0)?, number(2, 10_000)?);
    affinity::pin_to_core(core)?;
    let far_end = if spec == "-" { Some(own_pair()?) } else { None };
    let spec = if far_end.is_some() { "xdplive:near" } else { spec };
    let pool = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() })?;
    let mut port = linerate_port_xdplive::open(spec.parse()?, &pool)?.into_port();
    let generator = port.tx_generator().ok_or("no generator")?;
    generator.load(&stream(flows > 1))?;
    for round in 0..=seconds {
        let (started_ns, cpu_ns) = (clock::now_ns(), thread_cpu_ns()?);
        let (mut made, mut sent) = (0, 0);
        while clock::now_ns() < started_ns + 1_000_000_000 {
            let done = generator.run(generator.packets_per_run())?;
            made += done.made;
            sent += done.sent;
        }
        let (wall, cpu) = ((clock::now_ns() - started_ns) as f64, (thread_cpu_ns()? - cpu_ns) as f64);
        // The first second warms up.
        if round > 0 {
            let (made, sent) = (made as f64, sent as f64);
            let (rate, taken) = (made * 1e3 / wall, sent * 1e3 / wall);
            println!("{rate:.3} Mpps made, {taken:.3} taken, {:.1} ns of CPU a packet", cpu / made);
        }
    }
    println!("{:?}", port.stats()?);
    Ok(())
}

/// Moves this thread into a new namespace with a veth pair whose far end drops.
fn own_pair() -> Outcome<(DropCount, XdpLink)> {
    let namespace = NetNs::anonymous()?;
    namespace.enter()?;
    let end = |name| VethEnd { name, namespace: &namespace };
    veth::create(end("near"), end("far"), 1)?;
    for name in ["near", "far"] {
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1")?;
        Netdev::open(name)?.set_up(true)?;
    }
    let sink = DropCount::load(false)?;
    let link = XdpLink::attach(sink.program(), Netdev::open("far")?.index()?, AttachMode::Native)?;
    Ok((sink, link))
}

fn stream(flows: bool) -> GeneratorStream {
    let mut template = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    template.extend([0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 1]);
    template.extend([4, 0, 0, 9, 0, 26, 1, 1]);
    template.resize(60, 0x5a);
    let rule = |offset, kind| FieldRule { offset, width: 1, kind, first: 1, count: 100, step: 1 };
    let rules = if flows { vec![rule(29, FieldRuleKind::Each), rule(33, FieldRuleKind::Carry)] } else { Vec::new() };
    let fix = |checksum: &Checksum| ChecksumFix {
        offset: checksum.at as u16,
        rules: (0..rules.len()).collect(),
        covers_signature: false,
        zero_as_ones: checksum.zero_is_none,
    };
    let checksums = Checksum::all_of(&template).iter().map(fix).collect();
    GeneratorStream { template, rules, checksums, signature: None, first_sequence: 0, gap_ns_fixed: 0 }
}

fn thread_cpu_ns() -> Outcome<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split(' ').next().unwrap_or("0").parse()?)
}
