//! `-f pong`: sends every packet back to where it came from, with both pairs of addresses swapped.
//!
//! The packets stay in their frames. Swapping the two addresses of IPv4 or IPv6 leaves every checksum right.

use linerate_mem::Batch;
use linerate_port::{Interest, PortError, Readiness};
use linerate_sys::clock;
use linerate_wire::{LayerKind, MacAddress, Parsed, ipv4, ipv6};

use super::format::Counts;
use super::worker::{Outcome, Task};

/// Longest sleep, so that a stop is seen.
const NAP_NS: u64 = 20_000_000;
/// Pings are looked for without sleeping for so long after the last one: a wake-up takes longer than a round trip may.
const SPIN_NS: u64 = 100_000;
/// Packets of one turn.
const BATCH: usize = 256;

/// Replies until enough packets were sent back, or a stop is asked for.
pub fn pong(mut task: Task) -> Outcome {
    let start_ns = clock::now_ns();
    let mut counts = Counts::default();
    let error = run(&mut task, &mut counts).err().map(|error| error.to_string());
    let drops = task.port.stats().map(|stats| [stats.tx_drops, stats.rx_drops].concat()).unwrap_or_default();
    Outcome { counts, start_ns, end_ns: clock::now_ns(), drops, error, ..Outcome::default() }
}

fn run(task: &mut Task, counts: &mut Counts) -> Result<(), PortError> {
    let mut batch = Batch::new(&task.pool, BATCH);
    let mut busy_ns = 0;
    while !task.control.stopping() && (task.count == 0 || counts.packets < task.count) {
        if task.port.receive(&mut batch)? == 0 {
            if clock::now_ns() - busy_ns < SPIN_NS {
                std::thread::yield_now();
            } else if task.port.wait(Interest::Receive, NAP_NS)? == Readiness::Closed {
                break;
            }
            continue;
        }
        task.show(&batch);
        turn_round(&mut batch, task.source_mac);
        send_back(task, &mut batch, counts)?;
        busy_ns = clock::now_ns();
    }
    Ok(())
}

/// Sends the whole batch, waiting for room where need be.
fn send_back(task: &mut Task, batch: &mut Batch, counts: &mut Counts) -> Result<(), PortError> {
    while !batch.is_empty() && !task.control.stopping() {
        let bytes_before = batch.totals().bytes;
        let sent = task.port.transmit(batch)?;
        task.port.flush()?;
        if sent == 0 {
            task.port.wait(Interest::Transmit, NAP_NS)?;
            continue;
        }
        let moved = Counts { packets: sent as u64, bytes: bytes_before - batch.totals().bytes, events: 1 };
        *counts = counts.plus(&moved);
        task.publish(counts);
    }
    task.pool.free(batch);
    Ok(())
}

/// Swaps addresses in every packet; of a packet over several slots the first one has them.
fn turn_round(batch: &mut Batch, own: MacAddress) {
    let mut continued = false;
    for slot in 0..batch.len() {
        if !continued {
            swap_addresses(batch.packet_mut(slot), own);
        }
        continued = batch.more(slot);
    }
}

/// What was sent to all must not come back from all: the source is then the port's own address.
fn swap_addresses(packet: &mut [u8], own: MacAddress) {
    let Some((destination, rest)) = packet.split_first_chunk_mut::<6>() else { return };
    let Some(source) = rest.first_chunk_mut::<6>() else { return };
    std::mem::swap(destination, source);
    if MacAddress(*source).is_multicast() {
        *source = own.0;
    }
    let Ok(Parsed { ip: Some(ip), .. }) = Parsed::parse(packet) else { return };
    let (from, to) = match ip.kind {
        LayerKind::Ipv4 => (ipv4::field::SRC, ipv4::field::DST),
        _ => (ipv6::field::SRC, ipv6::field::DST),
    };
    // The destination follows the source in both headers.
    if let Some(pair) = packet.get_mut(ip.offset + from.start..ip.offset + to.end) {
        let (source, destination) = pair.split_at_mut(from.len());
        source.swap_with_slice(destination);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_wire::{Stack, ethernet, udp, verify_checksums};

    const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x42]);

    #[test]
    fn both_pairs_are_swapped_and_checksums_stay_right() {
        let ethernet = ethernet::Header { src: MacAddress([2; 6]), dst: MacAddress([4; 6]), ..Default::default() };
        let v4 = ipv4::Header { src: [10, 0, 0, 1].into(), dst: [10, 1, 0, 1].into(), ..Default::default() };
        let v6 = ipv6::Header { src: [1; 16].into(), dst: [2; 16].into(), ..Default::default() };
        for stack in [Stack::new().with(ethernet).with(v4), Stack::new().with(ethernet).with(v6)] {
            let mut packet = stack.with(udp::Header::default()).build(80).expect("packet").bytes;
            let before = packet.clone();
            swap_addresses(&mut packet, OWN);
            assert_eq!(packet[..12], [[2u8; 6], [4; 6]].concat());
            assert_ne!(packet[12..], before[12..]);
            verify_checksums(&packet).expect("checksums");
            swap_addresses(&mut packet, OWN);
            assert_eq!(packet, before);
        }
    }

    #[test]
    fn a_broadcast_is_answered_from_our_own_address() {
        let mut packet = [[0xff; 6], [2; 6], [0; 6]].concat();
        swap_addresses(&mut packet, OWN);
        assert_eq!(packet[..12], [[2; 6], OWN.0].concat());
    }

    #[test]
    fn what_is_too_short_or_no_ip_is_left_alone_behind_the_addresses() {
        for len in 0..30 {
            let mut packet = vec![7; len];
            swap_addresses(&mut packet, OWN);
        }
    }
}
