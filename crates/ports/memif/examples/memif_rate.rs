//! Sends or receives on a memif port as fast as it goes, and prints what that cost:
//! `memif_rate send|receive|reflect SPEC [PACKETS] [BYTES]`. Ends after so many packets, or when the other side has gone.

use std::time::{Duration, Instant};

use linerate_mem::{Batch, Pool};
use linerate_port::{Interest, Port};
use linerate_sys::clock;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (work, spec) = match arguments.as_slice() {
        [work, spec, ..] => (work.as_str(), spec.as_str()),
        _ => return eprintln!("usage: memif_rate send|receive|reflect SPEC [PACKETS] [BYTES]"),
    };
    let number =
        |index: usize, otherwise: u64| arguments.get(index).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let (packets, bytes) = (number(2, 10_000_000), number(3, 60) as usize);
    let mut pool = Pool::new(Default::default()).expect("memory for packets");
    let mut port = linerate_port_memif::open(spec.parse().expect("a spec"), &pool)
        .unwrap_or_else(|error| panic!("{error}"))
        .into_port();
    let mut batch = Batch::new(&pool, 64);
    while !port.is_connected().expect("a sound peer") {
        port.wait(Interest::Transmit, 10_000_000).expect("a sound peer");
    }
    let (start, start_ns) = (Instant::now(), clock::thread_cpu_ns());
    let (mut moved, mut calls, mut idle) = (0u64, 0u64, Instant::now());
    while moved < packets {
        let step = match work {
            "send" => {
                let wanted = batch.room().min((packets - moved) as usize - batch.len());
                pool.alloc(&mut batch, wanted, bytes);
                port.transmit(&mut batch).expect("a sound peer")
            }
            "receive" => {
                let count = port.receive(&mut batch).expect("a sound peer");
                pool.free(&mut batch);
                count
            }
            _ => {
                port.receive(&mut batch).expect("a sound peer");
                port.transmit(&mut batch).expect("a sound peer")
            }
        };
        moved += step as u64;
        calls += u64::from(step > 0);
        if step > 0 {
            idle = Instant::now();
        } else if idle.elapsed() > Duration::from_secs(2) {
            break;
        } else {
            std::hint::spin_loop();
        }
    }
    let (wall, core_ns) = (start.elapsed().as_secs_f64(), clock::thread_cpu_ns() - start_ns);
    let stats = port.stats().expect("totals");
    println!(
        "{work}: {moved} packets in {calls} calls, {:.2} Mpps, {:.1} ns of a core each; {stats:?}",
        moved as f64 / wall / 1e6,
        core_ns as f64 / moved.max(1) as f64
    );
}
