//! What counting drop reasons costs: one thread sends frames through a router in its own context, in turns with and without the
//! program attached, and its CPU time is divided by the frames.
//!
//! ```sh
//! cargo run -p linerate-ledger --example drop_cost
//! ```

use std::error::Error;
use std::net::Ipv4Addr;

use linerate_bpf::programs::drop_count::DropCount;
use linerate_bpf::{AttachMode, XdpLink};
use linerate_ledger::counters::CounterSources;
use linerate_sys::raw::RawSocket;
use linerate_testbed::topology::{Topology, TopologySpec};
use linerate_wire::{MacAddress, Stack, ethernet, ipv4, udp};

const FRAMES: u64 = 20_000;
const TURNS: usize = 25;

fn main() -> Result<(), Box<dyn Error>> {
    let topology = Topology::router(&TopologySpec::default())?;
    let receiver = &topology.receiver;
    let destination = Ipv4Addr::new(192, 0, 2, 101);
    measure(&topology, "dropped by the DUT (its own source address)", Ipv4Addr::new(198, 18, 1, 1), destination)?;
    measure(&topology, "delivered, dropped at last as OTHERHOST", Ipv4Addr::new(192, 0, 2, 1), destination)?;
    let program = DropCount::load(false)?;
    let attach = || XdpLink::attach(program.program(), receiver.interface.index, AttachMode::Native);
    let _link = receiver.namespace.run(attach)??;
    measure(&topology, "delivered to an XDP program that drops", Ipv4Addr::new(192, 0, 2, 1), destination)
}

fn measure(topology: &Topology, what: &str, source: Ipv4Addr, destination: Ipv4Addr) -> Result<(), Box<dyn Error>> {
    let side = &topology.generator;
    let socket = side.namespace.run(|| RawSocket::sender(side.interface.index))??;
    let frame = frame(topology, source, destination)?;
    let mut times_ns = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        for (times_ns, counts) in times_ns.iter_mut().zip([false, true]) {
            let open = if counts { CounterSources::open } else { CounterSources::without_drop_reasons };
            let _sources = open(topology)?;
            let before_ns = on_core_ns()?;
            for _ in 0..FRAMES {
                socket.send(&frame)?;
            }
            times_ns.push((on_core_ns()? - before_ns) as f64 / FRAMES as f64);
        }
    }
    for (times_ns, words) in times_ns.iter_mut().zip(["without", "with"]) {
        times_ns.sort_by(f64::total_cmp);
        let (least, middle) = (times_ns[0], times_ns[TURNS / 2]);
        println!("{what}: {words} drop reasons {least:.0} ns a frame at least, {middle:.0} ns in the middle");
    }
    Ok(())
}

/// Time that this thread has had on a core (first number of schedstat; brought up to date when the thread gives its core away).
fn on_core_ns() -> Result<u64, Box<dyn Error>> {
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split_ascii_whitespace().next().ok_or("no schedstat")?.parse()?)
}

fn frame(topology: &Topology, source: Ipv4Addr, destination: Ipv4Addr) -> Result<Vec<u8>, Box<dyn Error>> {
    let link = ethernet::Header {
        src: MacAddress::from(topology.generator.interface.mac),
        dst: MacAddress::from(topology.next_hop_mac()),
        ..ethernet::Header::default()
    };
    let network = ipv4::Header { src: source, dst: destination, ttl: 64, ..ipv4::Header::default() };
    let ports = udp::Header { src_port: 1024, dst_port: 1234, ..udp::Header::default() };
    Ok(Stack::new().with(link).with(network).with(ports).build(60)?.bytes)
}
