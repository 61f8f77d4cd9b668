//! memif: our ports and testpmd's, each at both ends and beside each other. 64-byte packets (60 without FCS) where nothing else is
//! said, not read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Port, PortSpec};
use linerate_port_memif::MemifPort;
use linerate_sys::{affinity, clock};

use super::testpmd::{Setup, Testpmd};
use super::{Reached, Unable};

const PACKET_LEN: usize = 60;
const BATCH: usize = 64;
/// Until both sides run at their pace.
const WARM_UP: Duration = Duration::from_millis(700);
const CONNECTING: Duration = Duration::from_secs(10);
/// Core of our side (or of our receiver), and of the other.
const CORES: [usize; 2] = [1, 0];

/// What our thread does with the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Frames as they come from the pool.
    Send,
    /// They go back unread.
    Receive,
    /// They are counted where they lie.
    Count,
}

/// Our server receives what testpmd's zero-copy client makes (`txonly`), or sends what that receives (`rxonly`).
pub fn beside_testpmd(work: Work, duration: Duration) -> Result<Reached, Unable> {
    let socket = socket();
    let (mut port, mut pool) = open(&socket, "server")?;
    let vdev = format!("net_memif0,role=client,zero-copy=yes,socket={socket},socket-abstract=no");
    let testpmd = Testpmd::start(&Setup {
        worker_cores: &CORES[1..],
        main_core: CORES[0],
        vdev: &vdev,
        mode: if work == Work::Send { "rxonly" } else { "txonly" },
        eal: &["--in-memory", "--single-file-segments"],
        more: &["--burst=64", "--mbcache=512"],
        namespace: None,
    })?;
    let reached = measure(&mut port, &mut pool, work, duration);
    drop(testpmd);
    reached
}

/// Our client sends to our server, each with a pool and a thread of its own; what the server receives.
pub fn ours(duration: Duration) -> Result<Reached, Unable> {
    let socket = socket();
    let (mut server, mut pool) = open(&socket, "server")?;
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = affinity::pin_to_core(CORES[1]);
            let Ok((mut client, mut pool)) = open(&socket, "client") else { return };
            let mut batch = Batch::new(&pool, BATCH);
            while !ended.load(Ordering::Relaxed) {
                // A peer that is gone takes nothing.
                if step(&mut client, &mut pool, &mut batch, Work::Send, PACKET_LEN).is_ok_and(|moved| moved == 0) {
                    std::hint::spin_loop();
                }
            }
        });
        let reached = measure(&mut server, &mut pool, Work::Receive, duration);
        ended.store(true, Ordering::Relaxed);
        reached
    })
}

/// Our client, which copies or lends its frames, sends to or receives from our server, packets of `len` bytes. What calls cost
/// that moved something: the server, which copies, is slower, and waiting for it is no work.
pub fn client(work: Work, zero_copy: bool, len: usize, duration: Duration) -> Result<Reached, Unable> {
    let socket = socket();
    let (mut server, mut server_pool) = open(&socket, "server")?;
    let (mut port, mut pool) = open(&socket, if zero_copy { "client,zerocopy" } else { "client" })?;
    let ended = AtomicBool::new(false);
    let other = if work == Work::Send { Work::Receive } else { Work::Send };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = affinity::pin_to_core(CORES[1]);
            let mut batch = Batch::new(&server_pool, BATCH);
            while !ended.load(Ordering::Relaxed) {
                if step(&mut server, &mut server_pool, &mut batch, other, len).is_ok_and(|moved| moved == 0) {
                    std::hint::spin_loop();
                }
            }
        });
        let reached = (|| {
            wait_for_peer(&mut port)?;
            let mut batch = Batch::new(&pool, BATCH);
            busy(&mut port, &mut pool, &mut batch, work, len, WARM_UP)?;
            busy(&mut port, &mut pool, &mut batch, work, len, duration)
        })();
        ended.store(true, Ordering::Relaxed);
        reached
    })
}

/// Runs for so long; counts the time of the calls that moved something.
fn busy(
    port: &mut MemifPort,
    pool: &mut Pool,
    batch: &mut Batch,
    work: Work,
    len: usize,
    length: Duration,
) -> Result<Reached, Unable> {
    let (begin, mut busy_ns, mut moved) = (Instant::now(), 0, 0u64);
    let mut before_ns = clock::now_ns();
    while begin.elapsed() < length {
        for _ in 0..64 {
            let count = step(port, pool, batch, work, len)? as u64;
            let now_ns = clock::now_ns();
            busy_ns += if count > 0 { now_ns - before_ns } else { 0 };
            moved += count;
            before_ns = now_ns;
        }
    }
    if moved == 0 {
        return Err("no packet came through".into());
    }
    let moved = moved as f64;
    Ok(Reached { wall_mpps: moved / begin.elapsed().as_secs_f64() / 1e6, core_ns: busy_ns as f64 / moved })
}

fn socket() -> String {
    format!("{}/linerate-bench-memif-{}.sock", std::env::temp_dir().display(), std::process::id())
}

fn open(socket: &str, role: &str) -> Result<(MemifPort, Pool), Unable> {
    let spec: PortSpec = format!("memif:{socket},role={role},mode=poll").parse().map_err(|error| format!("{error}"))?;
    let pool = if linerate_port_memif::has_own_memory(&spec) {
        linerate_port_memif::pool(&spec, PoolConfig::default()).map_err(|error| error.to_string())?
    } else {
        Pool::new(PoolConfig::default()).map_err(|error| error.to_string())?
    };
    let device = linerate_port_memif::open(spec, &pool).map_err(|error| error.to_string())?;
    Ok((device.into_port(), pool))
}

fn step(port: &mut MemifPort, pool: &mut Pool, batch: &mut Batch, work: Work, len: usize) -> Result<usize, Unable> {
    let moved = match work {
        Work::Send => {
            let room = batch.room();
            pool.alloc(batch, room, len);
            port.transmit(batch)
        }
        Work::Receive => {
            let received = port.receive(batch);
            pool.free(batch);
            received
        }
        Work::Count => {
            let counter = port.rx_counter().ok_or("the port hands all packets out")?;
            counter.count(u64::MAX, 0).map(|counted| counted.packets as usize)
        }
    };
    moved.map_err(|error| error.to_string())
}

fn wait_for_peer(port: &mut MemifPort) -> Result<(), Unable> {
    let _ = affinity::pin_to_core(CORES[0]);
    let deadline = Instant::now() + CONNECTING;
    while !port.is_connected().map_err(|error| error.to_string())? {
        if Instant::now() > deadline {
            return Err("no peer connected".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn measure(port: &mut MemifPort, pool: &mut Pool, work: Work, duration: Duration) -> Result<Reached, Unable> {
    wait_for_peer(port)?;
    let mut batch = Batch::new(pool, BATCH);
    let mut run = |length: Duration| -> Result<Reached, Unable> {
        let (begin, begin_ns, mut moved) = (Instant::now(), clock::thread_cpu_ns(), 0u64);
        while begin.elapsed() < length {
            for _ in 0..64 {
                moved += step(port, pool, &mut batch, work, PACKET_LEN)? as u64;
            }
        }
        let core_ns = (clock::thread_cpu_ns() - begin_ns) as f64;
        let moved = moved as f64;
        Ok(Reached { wall_mpps: moved / begin.elapsed().as_secs_f64() / 1e6, core_ns: core_ns / moved })
    };
    run(WARM_UP)?;
    let reached = run(duration)?;
    if reached.core_ns.is_finite() { Ok(reached) } else { Err("no packet came through".into()) }
}
