//! A side that sleeps is woken by what the other one sends, and by its end.

use std::io::Read;
use std::os::unix::net::UnixStream;

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::Port;
use linerate_port_pipe::{PipePort, pair};

/// Arms the wakeup of a side, and returns its descriptor.
fn arm(side: &mut PipePort) -> UnixStream {
    let mut line = None;
    assert!(side.arm_wakeup(&mut |descriptor| line = Some(descriptor.try_clone_to_owned().unwrap())));
    line.unwrap().into()
}

/// True if the descriptor was readable; it is not any more.
fn rang(mut line: &UnixStream) -> bool {
    line.read(&mut [0; 8]).is_ok_and(|read| read > 0)
}

#[test]
fn a_side_that_sleeps_is_woken_once_by_each_sleep() {
    let mut pool = Pool::new(PoolConfig { frames: 64, frame_size: 2048 }).unwrap();
    let (mut one, mut other) = pair("wakeup", &pool, 8);
    let mut batch = Batch::new(&pool, 8);
    let mut send = |side: &mut PipePort, pool: &mut Pool| {
        assert!(pool.append(&mut batch, &[1; 60], 0));
        side.transmit(&mut batch).unwrap();
    };
    send(&mut one, &mut pool);
    let line = arm(&mut other);
    assert!(!rang(&line), "what was there before is received before the sleep");
    send(&mut one, &mut pool);
    assert!(rang(&line));
    send(&mut one, &mut pool);
    assert!(!rang(&line), "nobody sleeps");
    arm(&mut other);
    send(&mut one, &mut pool);
    let line = arm(&mut other);
    assert!(!rang(&line), "what ended the sleep before is forgotten");
    drop(one);
    assert!(rang(&line), "the end wakes, too");
}
