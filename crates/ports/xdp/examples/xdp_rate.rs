//! What an AF_XDP port reaches: `xdp_rate tx|rx SPEC [seconds] [core] [batch]`, in the network namespace of the caller.
//!
//! Sends frames of 60 bytes as they come from the pool, or receives and returns them unread, and prints the rate by the
//! clock and by this thread's CPU time (schedstat), which on veth includes the softirqs that run in it.

use std::error::Error;

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::Port;
use linerate_sys::{affinity, clock};

type Outcome<T> = Result<T, Box<dyn Error>>;

const PACKET_LEN: usize = 60;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, spec, rest @ ..] = &arguments[..] else { return Err("tx|rx SPEC [seconds] [core] [batch]".into()) };
    let number = |place: usize, default: usize| rest.get(place).map_or(Ok(default), |text| text.parse());
    let (seconds, core, batch) = (number(0, 3)?, number(1, 0)?, number(2, 64)?);
    affinity::pin_to_core(core)?;
    let mut pool = Pool::new(PoolConfig { frames: 1 << 15, ..PoolConfig::default() })?;
    let mut port = linerate_port_xdp::open(spec.parse()?, &pool)?.into_port();
    println!("{}: {}", port.caps().name, port.caps().detail);
    for round in 0..=seconds {
        let (started_ns, cpu_ns, before) = (clock::now_ns(), thread_cpu_ns()?, count(&mut port, what)?);
        let until_ns = started_ns + 1_000_000_000;
        match what.as_str() {
            "tx" => send(&mut port, &mut pool, batch, until_ns)?,
            "rx" => receive(&mut port, &mut pool, batch, until_ns)?,
            _ => return Err("tx or rx".into()),
        }
        let packets = (count(&mut port, what)? - before) as f64;
        let (wall, cpu) = ((clock::now_ns() - started_ns) as f64, (thread_cpu_ns()? - cpu_ns) as f64);
        // The first second warms up.
        if round > 0 {
            println!("{:.3} Mpps, {:.3} Mpps per CPU second", packets * 1e3 / wall, packets * 1e3 / cpu);
        }
    }
    println!("{:?}", port.stats()?);
    Ok(())
}

fn count(port: &mut dyn Port, what: &str) -> Outcome<u64> {
    let stats = port.stats()?;
    Ok(if what == "tx" { stats.tx_packets } else { stats.rx_packets })
}

fn send(port: &mut dyn Port, pool: &mut Pool, size: usize, until_ns: u64) -> Outcome<()> {
    let mut batch = Batch::new(pool, size);
    while clock::now_ns() < until_ns {
        for _ in 0..16 {
            let room = batch.room();
            pool.alloc(&mut batch, room, PACKET_LEN);
            port.transmit(&mut batch)?;
        }
    }
    Ok(())
}

fn receive(port: &mut dyn Port, pool: &mut Pool, size: usize, until_ns: u64) -> Outcome<()> {
    let mut batch = Batch::new(pool, size);
    while clock::now_ns() < until_ns {
        for _ in 0..64 {
            port.receive(&mut batch)?;
            pool.free(&mut batch);
        }
    }
    Ok(())
}

fn thread_cpu_ns() -> Outcome<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split(' ').next().unwrap_or("0").parse()?)
}
