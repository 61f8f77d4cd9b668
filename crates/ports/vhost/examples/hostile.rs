//! A guest that breaks the rules of its rings as fast as it can, for `benches/switch-hostile.sh`.
//!
//! ```text
//! hostile SOCKET empty|pieces
//! ```
//!
//! Its sending ring has as many entries as a ring can have, and all of them are always full. `empty`: each is a chain of 256 descriptors
//! without a byte, which the device takes for a broken ring; the guest connects again at once, for ever. `pieces`: each is a packet in 256
//! pieces, 255 of them of a byte, which the rules allow.

#[path = "../tests/common/mod.rs"]
mod common;

use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use common::{Driver, GUEST, Shape};

/// Entries of the sending ring.
const ENTRIES: u16 = 32_768;
/// Descriptors of each packet.
const PIECES: u16 = 256;
/// The sending ring's parts, in bytes from its start: 16 a descriptor, 2 an available entry, 8 a used one.
const AVAILABLE: u64 = 0x8_0000;
const USED: u64 = 0xa_0000;
const CHAIN: u64 = 0x10_0000;
const BUFFER: u64 = 0x12_0000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, kind] = &arguments[..] else { panic!("hostile SOCKET empty|pieces") };
    let piece_bytes = match kind.as_str() {
        "empty" => 0,
        "pieces" => 1,
        _ => panic!("hostile SOCKET empty|pieces"),
    };
    let mut attacks = 0u64;
    loop {
        match attack(Path::new(socket), piece_bytes) {
            Ok(()) => attacks += 1,
            // The device lets those who broke a ring wait.
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
        if attacks.is_power_of_two() {
            println!("connected {attacks} times");
        }
    }
}

/// Connects and keeps the sending ring full until the device hangs up.
fn attack(socket: &Path, piece_bytes: u32) -> io::Result<()> {
    let mut driver = Driver::connect_only(socket, Shape::default())?;
    let queue = &mut driver.queues[1];
    let start = queue.table;
    (queue.entries, queue.available, queue.used) = (ENTRIES, start + AVAILABLE, start + USED);
    // One chain serves all entries, since the device must not write to it. Its first piece has the header and the MAC addresses.
    for number in 0..PIECES {
        let bytes = if number == 0 && piece_bytes > 0 { 26 } else { piece_bytes };
        let next = u16::from(number + 1 < PIECES);
        driver.describe(start + CHAIN, number, GUEST + start + BUFFER, bytes, next, number + 1);
    }
    let entry = |number: u16| {
        let mut bytes = (GUEST + start + CHAIN).to_le_bytes().to_vec();
        bytes.extend_from_slice(&(16 * u32::from(PIECES)).to_le_bytes());
        // An indirect table (VIRTQ_DESC_F_INDIRECT); entry `number` of the available ring names descriptor `number`.
        bytes.extend_from_slice(&[4, 0, 0, 0]);
        (bytes, number.to_le_bytes())
    };
    let (table, available): (Vec<_>, Vec<_>) = (0..ENTRIES).map(entry).unzip();
    driver.put(start, &table.concat());
    driver.put(start + AVAILABLE + 4, &available.concat());
    driver.start()?;
    // From a guest that the switch cannot have met, to one that is not there.
    driver.put(start + BUFFER + 12, &[2, 0, 0, 0, 0xff, 1, 2, 0, 0, 0, 0xff, 2, 0x08, 0x00]);
    // It has no time to empty the ring within a millisecond. An answer says that the connection stands.
    while driver.settle().is_ok() {
        let full = driver.used_index(1).wrapping_add(ENTRIES);
        driver.put16(start + AVAILABLE + 2, full);
        driver.queues[1].kick.write(1)?;
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
