//! Body of the fuzz target `vhost_rings`: any bytes as the rings of a guest. Also run by the tests of `linerate-port-vhost`.

use std::cell::RefCell;
use std::fs::File;

use linerate_port_vhost::fuzzing::Rings;

thread_local!(static RINGS: RefCell<Rings> = RefCell::new(Rings::new(memory()).expect("rings in /dev/shm")));

/// Receives and transmits; whatever the bytes are, it ends, and what was moved adds up.
pub fn run(data: &[u8]) {
    RINGS.with_borrow_mut(|rings| _ = rings.run(data));
}

/// A file without a name.
fn memory() -> File {
    let path = format!("/dev/shm/linerate-fuzz-{}-{:?}", std::process::id(), std::thread::current().id());
    let file = File::options().read(true).write(true).create_new(true).open(&path).expect("a file in /dev/shm");
    std::fs::remove_file(&path).expect("removing its name");
    file
}
