//! A pipe that only one side opened.

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Port, PortSpec};

fn open(name: &str, pool: &Pool) -> linerate_port_pipe::PipePort {
    let spec: PortSpec = format!("pipe:{name}").parse().expect("a name");
    linerate_port_pipe::open(spec, pool).expect("a side").into_port()
}

#[test]
fn what_waited_for_nobody_comes_back_with_the_side_that_sent_it() {
    let mut pool = Pool::new(PoolConfig { frames: 64, frame_size: 512 }).expect("a pool");
    let mut batch = Batch::new(&pool, 32);
    let mut alone = open("alone", &pool);
    assert_eq!(pool.alloc(&mut batch, 16, 60), 16);
    assert_eq!(alone.transmit(&mut batch).expect("room"), 16);
    drop(alone);
    pool.flush();
    assert!(pool.is_whole(), "{} of 64 frames", pool.available());

    // The name is free for two others.
    let (mut one, mut other) = (open("alone", &pool), open("alone", &pool));
    assert_eq!(pool.alloc(&mut batch, 3, 60), 3);
    assert_eq!(one.transmit(&mut batch).expect("room"), 3);
    // The side that has been opened has what was sent, whichever is dropped first.
    drop(one);
    assert_eq!(other.receive(&mut batch).expect("packets"), 3);
}
