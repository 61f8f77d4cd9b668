//! What a netmap port reaches: `netmap_rate tx|rx SPEC [seconds] [batch]`.
//!
//! Sends frames of 60 bytes as they come from the pool, or receives and returns them unread, and prints the rate.

use std::error::Error;

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Interest, Port};
use linerate_sys::clock;

type Outcome<T> = Result<T, Box<dyn Error>>;

const PACKET_LEN: usize = 60;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, spec, rest @ ..] = &arguments[..] else { return Err("tx|rx SPEC [seconds] [batch]".into()) };
    let number = |place: usize, default: usize| rest.get(place).map_or(Ok(default), |text| text.parse());
    let (seconds, batch) = (number(0, 3)?, number(1, 512)?);
    let mut pool = Pool::new(PoolConfig { frames: 4096, ..PoolConfig::default() })?;
    let mut port = linerate_port_netmap::open(spec.parse()?, &pool)?.into_port();
    println!("{}: {}", port.caps().name, port.caps().detail);
    let mut batch = Batch::new(&pool, batch);
    let started_ns = clock::now_ns();
    let until_ns = started_ns + seconds as u64 * 1_000_000_000;
    let mut round = 0u32;
    // The clock is a system call in a user-mode Linux.
    while !round.is_multiple_of(32) || clock::now_ns() < until_ns {
        round += 1;
        match what.as_str() {
            "tx" => {
                let room = batch.room();
                pool.alloc(&mut batch, room, PACKET_LEN);
                batch.iter_mut().for_each(|packet| packet[..6].fill(0xff));
                if port.transmit(&mut batch)? == 0 {
                    port.wait(Interest::Transmit, 100_000_000)?;
                }
            }
            "rx" => {
                if port.receive(&mut batch)? == 0 {
                    port.wait(Interest::Receive, 100_000_000)?;
                    round = 0;
                }
                pool.free(&mut batch);
            }
            _ => return Err("tx or rx".into()),
        }
    }
    let stats = port.stats()?;
    let seconds = (clock::now_ns() - started_ns) as f64 / 1e9;
    println!("sent {} ({:.3} Mpps)", stats.tx_packets, stats.tx_packets as f64 / seconds / 1e6);
    println!("received {} ({:.3} Mpps)", stats.rx_packets, stats.rx_packets as f64 / seconds / 1e6);
    println!("{stats:?}");
    Ok(())
}
