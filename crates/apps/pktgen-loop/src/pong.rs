//! `-f pong`: sends every packet back to where it came from, with both pairs of addresses swapped.
//!
//! The packets stay in their frames. Swapping the two addresses of IPv4 or IPv6 leaves every checksum right.

use linerate_mem::Batch;
use linerate_port::{Context, Datapath, PortIndex};
use linerate_wire::{LayerKind, MacAddress, Parsed, ethernet, ipv4, ipv6};

use super::counts::Counts;
use super::dump;
use super::worker::{Outcome, Task, publish, serve};

/// Slots of one turn.
const BATCH: usize = 256;
/// Time for which pings that have arrived are still answered after a stop was asked for.
const DRAIN_NS: u64 = 50_000_000;

/// Replies until enough packets were sent back, or a stop is asked for.
pub fn pong(task: Task) -> Outcome {
    let Task { dump: shown, thread, count, port, pool, source_mac, control, .. } = task;
    let pong = Pong {
        show: &|batch| {
            if shown {
                dump::batch(thread, batch, batch.len());
            }
        },
        publish: &|counts| publish(&control, counts),
        count,
        own: source_mac,
        replies: Batch::new(&pool, BATCH),
        queued: Counts::default(),
        sent: Counts::default(),
    };
    match serve(pong, port, &pool, &control, BATCH, DRAIN_NS) {
        Ok((pong, outcome)) => Outcome { counts: pong.sent, ..outcome },
        Err(error) => Outcome { error: Some(error), ..Outcome::default() },
    }
}

struct Pong<'a> {
    show: &'a dyn Fn(&Batch),
    publish: &'a dyn Fn(&Counts),
    /// Replies that end the run; 0: none do.
    count: u64,
    own: MacAddress,
    replies: Batch,
    /// Everything that was put into `replies`, and what the port took of it.
    queued: Counts,
    sent: Counts,
}

impl Datapath for Pong<'_> {
    /// The last replies leave before new pings are taken.
    #[inline]
    fn input(&mut self, _: PortIndex, batch: &mut Batch, _: &mut Context<'_>) {
        if !self.replies.is_empty() {
            return;
        }
        (self.show)(batch);
        turn_round(batch, self.own);
        let totals = batch.totals();
        self.queued = self.queued.plus(&Counts { packets: totals.packets, bytes: totals.bytes, events: 0 });
        batch.move_to(&mut self.replies, batch.len());
    }

    #[inline]
    fn output(&mut self, _: PortIndex) -> Option<&mut Batch> {
        Some(&mut self.replies)
    }

    #[inline]
    fn tx_done(&mut self, _: PortIndex, packets: usize, _: u64) {
        let bytes = self.queued.bytes - self.replies.totals().bytes;
        let (packets, events) = (self.sent.packets + packets as u64, self.sent.events + 1);
        self.sent = Counts { packets, bytes, events };
        (self.publish)(&self.sent);
    }

    fn waiting(&self, _: PortIndex) -> u64 {
        self.queued.packets - self.sent.packets
    }

    fn too_long(&mut self, _: PortIndex, _: usize, context: &mut Context<'_>) {
        if let Some(span) = self.replies.span(0) {
            self.queued.packets -= 1;
            self.queued.bytes -= span.len as u64;
            context.pool.free_front(&mut self.replies, span.slots);
        }
    }

    fn is_done(&self) -> bool {
        self.count > 0 && self.sent.packets >= self.count
    }
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
    ethernet::swap_addresses(packet);
    let Ok(mut frame) = ethernet::Packet::new_checked(&mut *packet) else { return };
    if frame.src().is_multicast() {
        frame.set_src(own);
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
    use linerate_wire::{Stack, udp, verify_checksums};

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
