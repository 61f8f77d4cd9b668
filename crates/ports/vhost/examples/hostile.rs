//! A guest that sends as much as it can, by the rules of its rings or against them, for `benches/switch-hostile.sh`.
//!
//! ```text
//! hostile SOCKET KIND
//! ```
//!
//! Its sending ring has as many entries as a ring can have, and all of them are always full, with packets to itself, which a switch drops. KIND:
//!
//! ```text
//! plain      packets of 64 bytes in one descriptor each: a guest that behaves, and is busy
//! tiny       of 14 bytes
//! indirect   of 64 bytes in an indirect table of three descriptors
//! chain      in a chain of 256 descriptors, 255 of them of a byte, which the rules allow
//! refused    a byte too short to be packets
//! kicks      as `plain`, notified of without end by a thread
//! empty      chains of 256 descriptors without a byte, which the device takes for a broken ring; the guest connects again at once, for ever
//! ```

#[path = "../tests/common/mod.rs"]
mod common;

use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use common::{Driver, GUEST, Shape};

/// Entries of the sending ring.
const ENTRIES: u16 = 32_768;
/// Bytes in front of each packet: the header of the device.
const HEADER: u32 = 12;
/// The sending ring's parts, in bytes from its start: 16 a descriptor, 2 an available entry, 8 a used one.
const AVAILABLE: u64 = 0x8_0000;
const USED: u64 = 0xa_0000;
const CHAIN: u64 = 0x10_0000;
const BUFFER: u64 = 0x12_0000;

/// What the descriptors of each packet say about its bytes.
fn descriptors(kind: &str) -> Option<Vec<u32>> {
    Some(match kind {
        "plain" | "kicks" => vec![HEADER + 64],
        "tiny" => vec![HEADER + 14],
        "indirect" => vec![HEADER, 14, 50],
        "chain" => [vec![HEADER + 14], vec![1; 255]].concat(),
        "refused" => vec![HEADER + 13],
        "empty" => vec![0; 256],
        _ => return None,
    })
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let parsed = match &arguments[..] {
        [socket, kind] => descriptors(kind).map(|lens| (socket, kind, lens)),
        _ => None,
    };
    let Some((socket, kind, lens)) = parsed else {
        panic!("hostile SOCKET plain|tiny|indirect|chain|refused|kicks|empty");
    };
    let mut attacks = 0u64;
    loop {
        match attack(Path::new(socket), &lens, kind == "kicks") {
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
fn attack(socket: &Path, lens: &[u32], kicks: bool) -> io::Result<()> {
    let mut driver = Driver::connect_only(socket, Shape::default())?;
    let queue = &mut driver.queues[1];
    let start = queue.table;
    (queue.entries, queue.available, queue.used) = (ENTRIES, start + AVAILABLE, start + USED);
    // One chain serves all entries, since the device must not write to it.
    let mut address = GUEST + start + BUFFER;
    for (number, bytes) in (0..).zip(lens) {
        let next = u16::from(usize::from(number) + 1 < lens.len());
        driver.describe(start + CHAIN, number, address, *bytes, next, number + 1);
        address += u64::from(*bytes);
    }
    let entry = |number: u16| {
        // A plain descriptor, or an indirect table (VIRTQ_DESC_F_INDIRECT); entry `number` of the available ring names descriptor `number`.
        let (place, bytes, flags) = match lens {
            [bytes] => (BUFFER, *bytes, 0),
            _ => (CHAIN, 16 * lens.len() as u32, 4),
        };
        let descriptor = [&(GUEST + start + place).to_le_bytes()[..], &bytes.to_le_bytes(), &[flags, 0, 0, 0]].concat();
        (descriptor, number.to_le_bytes())
    };
    let (table, available): (Vec<_>, Vec<_>) = (0..ENTRIES).map(entry).unzip();
    driver.put(start, &table.concat());
    driver.put(start + AVAILABLE + 4, &available.concat());
    driver.start()?;
    // From a guest that the switch cannot have met, to itself.
    let mac = [2, 0, 0, 0, 0xff, 1];
    driver.put(start + BUFFER + u64::from(HEADER), &[&mac[..], &mac, &[0x08, 0x00]].concat());
    if kicks {
        let kick = driver.queues[1].kick.try_clone()?;
        thread::spawn(move || while kick.write(1).is_ok() {});
    }
    // It has no time to empty the ring within a millisecond. An answer says that the connection stands.
    while driver.settle().is_ok() {
        let full = driver.used_index(1).wrapping_add(ENTRIES);
        driver.put16(start + AVAILABLE + 2, full);
        driver.queues[1].kick.write(1)?;
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
