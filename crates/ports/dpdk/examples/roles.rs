//! testpmd's forwarding modes over `dpdk:` ports, for benches/dpdk.sh: packets, and CPU time of the thread that moves them.
//!
//!     roles txonly|rxonly|io|macswap SECONDS DEVICE [DEVICE]
//!
//! `io` and `macswap` forward both ways between two devices, `io` unseen if both have `bytes=no`; where nothing arrives by itself (net_ring), 16 batches of 32 circulate.

use std::time::{Duration, Instant};

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{LinkState, Port};
use linerate_sys::clock::thread_cpu_ns;
use linerate_wire::ethernet;

/// Packets of one call, as `--burst=64` of testpmd.
const BATCH: usize = 64;
/// Packets that circulate where none arrive by themselves.
const CIRCULATING: usize = 512;
/// Rounds between two looks at the clock.
const ROUNDS: usize = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [role, seconds, devices @ ..] = &words[..] else {
        return Err("roles txonly|rxonly|io|macswap SECONDS DEVICE [DEVICE]".into());
    };
    let length = Duration::from_secs_f64(seconds.parse()?);
    let mut pool = Pool::new(PoolConfig { frames: 16_384, frame_size: 2048 })?;
    let mut ports = Vec::new();
    for device in devices {
        let mut port = linerate_port_dpdk::open(device.parse()?, &pool)?.into_port();
        while port.link()? == LinkState::Down {
            std::thread::sleep(Duration::from_millis(1));
        }
        ports.push(port);
    }
    let mut batch = Batch::new(&pool, BATCH);
    if devices.iter().any(|device| device.contains("net_ring")) {
        let each = CIRCULATING / ports.len();
        for port in &mut ports {
            for _ in 0..each / 32 {
                write_packets(&mut pool, &mut batch, 32);
                port.transmit(&mut batch)?;
            }
        }
    }
    let mut counts = [0; 2];
    run(role, &mut ports, &mut pool, &mut batch, Duration::from_millis(300))?;
    let before = (Instant::now(), thread_cpu_ns());
    counts[0] = run(role, &mut ports, &mut pool, &mut batch, length)?;
    counts[1] = thread_cpu_ns() - before.1;
    println!("{} packets {} ns of CPU time {} ns", counts[0], counts[1], before.0.elapsed().as_nanos());
    Ok(())
}

fn write_packets(pool: &mut Pool, batch: &mut Batch, count: usize) {
    const HEADERS: [u8; 60] = [7; 60];
    pool.alloc(batch, count, HEADERS.len());
    batch.iter_mut().for_each(|packet| packet.copy_from_slice(&HEADERS));
}

fn run(
    role: &str,
    ports: &mut [linerate_port_dpdk::DpdkPort],
    pool: &mut Pool,
    batch: &mut Batch,
    length: Duration,
) -> Result<u64, Box<dyn std::error::Error>> {
    let (begin, mut packets) = (Instant::now(), 0);
    while begin.elapsed() < length {
        for _ in 0..ROUNDS {
            match role {
                "txonly" => {
                    write_packets(pool, batch, BATCH);
                    packets += ports[0].transmit(batch)?;
                    // As testpmd, it drops what the ring does not take. To offer it again at once would ring for each packet.
                    pool.free(batch);
                }
                "rxonly" => {
                    packets += ports[0].receive(batch)?;
                    pool.free(batch);
                }
                "io" | "macswap" => {
                    let last = ports.len() - 1;
                    if let [near, far] = ports
                        && near.caps().hands_on
                        && role == "io"
                    {
                        packets += near.hand_on(far) + far.hand_on(near);
                        continue;
                    }
                    for (from, to) in [(0, last), (last, 0)] {
                        ports[from].receive(batch)?;
                        if role == "macswap" {
                            batch.iter_mut().for_each(ethernet::swap_addresses);
                        }
                        packets += ports[to].transmit(batch)?;
                        pool.free(batch);
                    }
                }
                other => return Err(format!("there is no role {other}").into()),
            }
        }
    }
    Ok(packets as u64)
}
