//! Losses inside a device that carries frames as they are: between what its interfaces received and what they sent.

use linerate_report::Loss;

use super::Path;
use super::neighbours::silent_neighbours;
use super::queued::in_switch;
use super::routed::{chains_at, legacy_in};
use super::segment::{ALL, Segment};
use crate::counters::{DutCounters, InterfaceCounters};
use crate::drops::causes::{Known, Piece};
use crate::drops::reasons::Confidence;
use crate::hooks::Hook;
use linerate_testbed::switches::SwitchCounters;
use linerate_testbed::topology::Remainder;

/// What is lost in Linerate's switch without a word of its own.
pub(super) const SWITCH: &str = "Linerate switch";

impl Path {
    /// What the DUT's interfaces received and did not hand on. (A device that sends packets of its own hides as many.)
    pub(super) fn missing_in(&self, dut: &DutCounters) -> u64 {
        let interfaces = [&dut.ingress, &dut.egress];
        let sum = |of: fn(&InterfaceCounters) -> u64| interfaces.iter().map(|interface| of(interface)).sum::<u64>();
        let earlier = interfaces.iter().map(|interface| self.carried_over.at(interface)).sum::<u64>();
        let took = sum(|interface| interface.rx_packets) + earlier;
        took.saturating_sub(sum(|interface| interface.tx_packets + interface.tx_dropped))
    }

    /// From the DUT's interfaces in to its interfaces out, where so many are missing; `late` of their drops on reception came here.
    pub(super) fn switching(&mut self, dut: &DutCounters, missing: u64, (late, both_ways): ([u64; 2], bool)) {
        let (ingress, egress) = (&dut.ingress, &dut.egress);
        // A program can have set up the kernel to route or filter.
        let (chains, neighbours) = (chains_at(dut, &Hook::ALL, None), silent_neighbours(dut));
        let legacy = legacy_in(dut, "one of its hooks", None);
        let (chains, legacy, neighbours) = (chains.as_deref(), legacy.as_deref(), neighbours.as_deref());
        let known = Known { chains, legacy, neighbours, ..Known::default() };
        let has_copies = dut.switch.is_some() || dut.reads_packet_sockets;
        let piece = if has_copies { Piece::InSwitch } else { Piece::Inside };
        let mut segment = Segment::new(missing, piece, ingress, egress, known);
        self.divide(&mut segment, Confidence::OnlyHere);
        for (interface, late) in [ingress, egress].into_iter().zip(late) {
            let by_program = segment.take_xdp(interface);
            self.take_backlog(&mut segment, late.saturating_sub(by_program));
        }
        segment.take_queue_drops(egress);
        segment.take_queued(egress);
        if both_ways {
            segment.take_queued(ingress);
        }
        let stranger =
            Loss::new(&ingress.name, "left to the kernel's stack, which drops it", ingress.rx_otherhost_dropped);
        let stranger = stranger.counted_by(format!("{} rx_otherhost_dropped", ingress.name));
        for loss in dut.switch.iter().flat_map(SwitchCounters::losses) {
            segment.take(loss.clone());
        }
        if let Some(switch) = &dut.switch {
            segment.take(in_switch(SWITCH, switch));
            let queued = in_switch(SWITCH, switch);
            self.hidden_at(Loss { packets: queued.packets.min(switch.waiting_before), ..queued });
        }
        self.divide(&mut segment, Confidence::Any);
        let totals = format!("the totals of {} and {}", ingress.name, egress.name);
        let kept =
            |name: &str| Loss::new(name, "the device took it in and did not send it on", ALL).inferred_from(&totals);
        match &dut.forwarding.remainder {
            Remainder::Device(name) => {
                segment.take(kept(name));
                if dut.forwarding.switch.is_none() {
                    self.hidden_at(kept(name));
                }
            }
            Remainder::Stack => drop(segment.take(stranger)),
            Remainder::Unnamed => {}
        }
        if !egress.running || egress.carrier_losses > 0 {
            let down = format!("{} was down: there was no way out", egress.name);
            segment.take_rest(&egress.name, Some(down), &format!("the carrier of {}", egress.name));
        }
        self.close(segment, &format!("between {} and {} of the DUT", ingress.name, egress.name));
    }
}

/// Of the drops of the DUT's interfaces (each with its peer), those that the peer does not count too: they came after the packet
/// was counted as received, so they are no more than what is missing inside.
pub(super) fn dropped_after_reception(
    missing: u64,
    entered: &[(&InterfaceCounters, &InterfaceCounters); 2],
) -> [u64; 2] {
    let mut left = missing;
    entered.map(|(from, to)| {
        let late = to.rx_dropped.saturating_sub(from.driver_sum("tx", "xdp_xmit_errors")).min(left);
        left -= late;
        late
    })
}
