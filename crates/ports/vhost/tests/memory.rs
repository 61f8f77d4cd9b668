//! What a port costs: less than 8 MB, the guest's memory as far as it touched it included, and once it is up, nothing more.

mod common;
#[path = "../../../base/mem/tests/allocations/sys.rs"]
mod sys;

use common::{Driver, Place, Shape, packet, pool, receive, until};
use linerate_mem::Batch;
use linerate_port::{Interest, Port};
use linerate_testkit::memory::resident_bytes;
use sys::allocations;

/// What a port may take in bytes.
const MOST_BYTES: u64 = 8 << 20;

#[test]
fn a_port_takes_less_than_8_mb_and_then_nothing() {
    let (place, mut pool) = (Place::new(), pool());
    let mut batch = Batch::new(&pool, 256);
    let before_bytes = resident_bytes().unwrap();
    let mut port = place.open("", &pool);
    let mut driver = Driver::connect(&place.path(), Shape::default()).unwrap();
    // More packets than there are buffers, each way.
    let mut turn = |number: usize| {
        assert!(driver.send(0, &packet(number, 1514)));
        let mut count = 0;
        let received = until_counted(&mut count, || port.receive(&mut batch).unwrap() > 0);
        let sent = until_counted(&mut count, || {
            port.transmit(&mut batch).unwrap();
            batch.is_empty()
        });
        assert!(received && sent && driver.receive(0) == Some(packet(number, 1514)));
        count + allocations(|| _ = port.wait(Interest::Receive, 1000).unwrap())
    };
    (0..600).for_each(|number| _ = turn(number));
    let up_bytes = resident_bytes().unwrap().saturating_sub(before_bytes);
    println!("{up_bytes} bytes");
    assert!((1 << 20..MOST_BYTES).contains(&up_bytes), "{up_bytes} bytes");
    assert_eq!((0..600).map(turn).sum::<u64>(), 0, "allocations of a port that is up");
    assert_eq!(receive(&mut port, &mut pool, 0).len(), 0);
}

/// Calls until it is true, and counts what the calls allocate.
fn until_counted(count: &mut u64, mut call: impl FnMut() -> bool) -> bool {
    let mut done = false;
    until("a packet", || {
        *count += allocations(|| done = call());
        done
    });
    done
}
