//! An impaired port keeps the contract of ports, whether packets pass through its queues or not.

use linerate_impair::Impaired;
use linerate_mem::Pool;
use linerate_port::Port;
use linerate_port_pipe::pair_from;
use linerate_testkit::{Link, Rings};

fn pool(config: linerate_mem::PoolConfig, _: usize) -> Result<Pool, String> {
    Pool::new(config).map_err(|error| error.to_string())
}

/// A pipe with these impairments on both ends, in both directions.
fn open(pool: &Pool, ring: usize, start: u32, words: Option<&str>) -> Result<Link, String> {
    let settings = words.map(str::parse).transpose()?;
    let (sender, receiver) = pair_from("conformance", pool, ring, start);
    let impaired =
        |port| -> Box<dyn Port> { Box::new(Impaired::new(Box::new(port), settings.as_ref(), settings.as_ref(), pool)) };
    Ok(Link::Pair { sender: impaired(sender), receiver: impaired(receiver) })
}

const UNIMPAIRED: Rings =
    Rings { backend: "pipe, unimpaired", make_pool: pool, open: |pool, ring, start| open(pool, ring, start, None) };

/// Each packet waits in two queues.
const DELAYED: Rings = Rings {
    backend: "pipe, delayed",
    make_pool: pool,
    open: |pool, ring, start| open(pool, ring, start, Some("delay 20us 10us ordered limit 5k")),
};

/// Each packet passes through the queues, and none waits there.
const PASSING: Rings = Rings {
    backend: "pipe, through empty queues",
    make_pool: pool,
    open: |pool, ring, start| open(pool, ring, start, Some("loss 0% limit 5k")),
};

#[test]
fn unimpaired() {
    UNIMPAIRED.check_default();
    UNIMPAIRED.check_small();
}

#[test]
fn delayed() {
    DELAYED.check_default();
    DELAYED.check_small();
}

#[test]
fn through_empty_queues() {
    PASSING.check_default();
    PASSING.check_small();
    PASSING.check_long();
}
