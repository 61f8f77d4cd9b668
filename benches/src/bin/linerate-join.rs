//! `linerate-join PORT PORT [SECONDS]`: joins two ports on core 1 and prints the packets that went through, the seconds that took,
//! the core's nanoseconds for each (of this thread, so that others on the core do not count; polls that found nothing do), and
//! the same of the middle round among those that moved a full batch. Begins with the first packet; gives up after a minute.

use std::process::ExitCode;

use linerate_mem::{Batch, Pool};
use linerate_port::Port;
use linerate_sys::{affinity, clock};

/// Packets that one round moves in each direction.
const BATCH: usize = 64;
/// Longest wait for the first packet.
const PATIENCE_NS: u64 = 60_000_000_000;
/// The core, if there are two.
const CORE: usize = 1;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (ports, seconds) = match &arguments[..] {
        [a, b] => ([a, b], 2),
        [a, b, seconds] => ([a, b], seconds.parse().unwrap_or(2)),
        _ => {
            eprintln!("linerate-join PORT PORT [SECONDS]");
            return ExitCode::from(2);
        }
    };
    match join(ports, seconds * 1_000_000_000) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn join([a, b]: [&String; 2], duration_ns: u64) -> Result<(), String> {
    let _ = affinity::pin_to_core(CORE);
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let pool = Pool::new(Default::default()).map_err(|error| text(&error))?;
    let open = |spec: &str| linerate_ports::open(spec, &pool).map_err(|error| text(&error));
    let (mut a, mut b) = (open(a)?, open(b)?);
    let (mut there, mut back) = (Batch::new(&pool, BATCH), Batch::new(&pool, BATCH));
    let mut step = || -> Result<u64, String> {
        Ok(carry(&mut *a, &mut *b, &mut there).map_err(|error| text(&error))?
            + carry(&mut *b, &mut *a, &mut back).map_err(|error| text(&error))?)
    };
    let given_up_ns = clock::now_ns() + PATIENCE_NS;
    while step()? == 0 {
        if clock::now_ns() > given_up_ns {
            return Err("no packet in a minute".into());
        }
    }
    let (start_ns, start_core_ns) = (clock::now_ns(), clock::thread_cpu_ns());
    let (mut now_ns, mut packets) = (start_ns, 0);
    let mut rounds_ns = Vec::new();
    while now_ns < start_ns + duration_ns {
        let moved = step()?;
        let then_ns = std::mem::replace(&mut now_ns, clock::now_ns());
        packets += moved;
        if moved >= BATCH as u64 {
            rounds_ns.push((now_ns - then_ns) as f64 / moved as f64);
        }
    }
    let core_ns = (clock::thread_cpu_ns() - start_core_ns) as f64 / packets.max(1) as f64;
    rounds_ns.sort_by(f64::total_cmp);
    let middle_ns = rounds_ns.get(rounds_ns.len() / 2).copied().unwrap_or_default();
    println!("{packets} {:.3} {core_ns:.2} {middle_ns:.2}", (now_ns - start_ns) as f64 / 1e9);
    Ok(())
}

/// Moves what waits at `from` to `to`; returns how many packets `to` took.
fn carry(from: &mut dyn Port, to: &mut dyn Port, batch: &mut Batch) -> Result<u64, linerate_port::PortError> {
    if batch.is_empty() {
        from.receive(batch)?;
    }
    if batch.is_empty() {
        return Ok(0);
    }
    Ok(to.transmit(batch)? as u64)
}
