//! What a packet costs on both ends together, in one thread: `memif_cost to-server|to-client [PACKETS] [BYTES]`.

use std::time::Instant;

use linerate_mem::{Batch, Pool};
use linerate_port::Port;
use linerate_sys::clock;

const BATCH: usize = 64;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |index: usize, otherwise: u64| arguments.get(index).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let (packets, bytes) = (number(1, 10_000_000), number(2, 60) as usize);
    let to_server = arguments.first().is_none_or(|way| way == "to-server");
    let path = format!("{}/memif-cost-{}", std::env::temp_dir().display(), std::process::id());
    let mut pool = Pool::new(Default::default()).expect("memory for packets");
    let open = |role: &str| {
        let spec = format!("memif:{path},role={role},mode=poll").parse().expect("a spec");
        linerate_port_memif::open(spec, &pool).unwrap_or_else(|error| panic!("{error}")).into_port()
    };
    let (mut server, mut client) = (open("server"), open("client"));
    while !(server.is_connected().expect("a sound peer") && client.is_connected().expect("a sound peer")) {
        clock::sleep_until_ns(clock::now_ns() + 1_000_000);
    }
    let (sender, receiver): (&mut dyn Port, &mut dyn Port) =
        if to_server { (&mut client, &mut server) } else { (&mut server, &mut client) };
    let (mut out, mut back) = (Batch::new(&pool, BATCH), Batch::new(&pool, BATCH));
    let (mut sending_ns, mut receiving_ns, mut moved) = (0, 0, 0u64);
    let start = (Instant::now(), clock::thread_cpu_ns());
    while moved < packets {
        // Eight batches at a time, so that the clock costs nothing.
        let begin_ns = clock::now_ns();
        for _ in 0..8 {
            let room = out.room();
            pool.alloc(&mut out, room, bytes);
            sender.transmit(&mut out).expect("a sound peer");
        }
        let middle_ns = clock::now_ns();
        for _ in 0..8 {
            moved += receiver.receive(&mut back).expect("a sound peer") as u64;
            pool.free(&mut back);
        }
        sending_ns += middle_ns - begin_ns;
        receiving_ns += clock::now_ns() - middle_ns;
    }
    let core_ns = (clock::thread_cpu_ns() - start.1) as f64 / moved as f64;
    let each = |ns: u64| ns as f64 / moved as f64;
    let (sending, receiving) = (each(sending_ns), each(receiving_ns));
    println!(
        "{moved} packets of {bytes} bytes: {core_ns:.1} ns of a core each, sending {sending:.1}, receiving {receiving:.1} by the clock"
    );
}
