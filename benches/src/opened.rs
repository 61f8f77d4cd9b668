//! Ports as programs have them: opened by name, behind `dyn Port`. What is compiled of a backend in the crate that opens it shows here alone.

use std::thread;
use std::time::{Duration, Instant};

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_sys::affinity;

use crate::measure::{Run, Stopwatch};
use crate::traffic::PACKET_LEN;

const BATCH: usize = 64;
/// A peer that has not connected by then never will.
const CONNECTING: Duration = Duration::from_secs(30);

/// A memif client sends to a memif server of the same process, both on one core, packets that nobody reads.
pub fn memif(core: usize, packets: u64) -> Run {
    let _ = affinity::pin_to_core(core);
    let socket = std::env::temp_dir().join(format!("linerate-loop-memif-{}.sock", std::process::id()));
    let open = |role: &str| {
        let spec = format!("memif:{},role={role},mode=poll", socket.display());
        let pool = Pool::new(PoolConfig::default()).expect("16 MiB of packet memory");
        (linerate_ports::open(&spec, &pool).expect("a socket"), pool)
    };
    let ((mut server, mut server_pool), (mut client, mut client_pool)) = (open("server"), open("client"));
    let (mut out, mut into) = (Batch::new(&client_pool, BATCH), Batch::new(&server_pool, BATCH));
    let mut pass = || {
        let room = out.room();
        client_pool.alloc(&mut out, room, PACKET_LEN);
        // Until they are connected nothing is taken.
        let _ = client.transmit(&mut out);
        let received = server.receive(&mut into).unwrap_or(0) as u64;
        server_pool.free(&mut into);
        received
    };
    let begin = Instant::now();
    while pass() == 0 {
        assert!(begin.elapsed() < CONNECTING, "no peer connected");
        // Trying costs instructions, which are counted.
        thread::sleep(Duration::from_millis(20));
    }
    let watch = Stopwatch::start();
    let mut received = 0;
    while received < packets {
        received += pass();
    }
    watch.stop(received)
}
