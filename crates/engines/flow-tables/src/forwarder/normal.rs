//! Forwarding without OpenFlow: addresses are learned, known ones reached, others flooded (`NORMAL`, and a switch without a controller).

use linerate_mem::{Batch, Pool};

use super::Core;
use super::execute::{InHand, NO_SLOT};
use super::resolve::View;
use crate::drops::DropReason;

/// The bit of group addresses.
const GROUP: u64 = 1 << 40;
const SECOND_NS: u64 = 1_000_000_000;
/// 01-80-C2-00-00-00 to -0F, which bridges do not forward (IEEE 802.1Q table 8-1).
const LINK_LOCAL: u64 = 0x0180_c200_0000;

impl Core {
    pub(super) fn normal(
        &mut self,
        view: &View<'_>,
        hand: &mut InHand,
        batch: &mut Batch,
        pool: &mut Pool,
        last: bool,
    ) {
        let bytes = batch.packet(0);
        let Some(header) = bytes.first_chunk::<14>() else { return self.lose(DropReason::Runt, hand) };
        let address = |at: usize| header[at..at + 6].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let (destination, source) = (address(0), address(6));
        let vlan = match (u16::from_be_bytes([header[12], header[13]]), bytes.get(14..16)) {
            (0x8100 | 0x88a8, Some(tag)) => u16::from_be_bytes([tag[0], tag[1]]) & 0xfff,
            _ => 0,
        };
        if source & GROUP != 0 {
            return self.lose(DropReason::MulticastSource, hand);
        }
        let now_s = (self.now_ns / SECOND_NS) as u32;
        let macs = &self.shared.macs;
        if hand.in_slot != NO_SLOT {
            macs.learn(vlan, source, hand.in_slot, now_s);
        }
        if destination & !0xf == LINK_LOCAL {
            return self.lose(DropReason::LinkLocal, hand);
        }
        let known = if destination & GROUP == 0 { macs.lookup(vlan, destination, now_s) } else { None };
        match known.filter(|slot| view.state.port(*slot).is_some()) {
            Some(slot) if slot == hand.in_slot => self.lose(DropReason::Hairpin, hand),
            Some(slot) => self.output(view.state, slot, hand, batch, pool, last),
            None => self.flood(view.state, hand, batch, pool, last),
        }
    }
}
