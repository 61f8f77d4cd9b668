//! Fragments that are put together before they are looked up (`OFPC_FRAG_REASM`).

use linerate_mem::{Batch, Pool};
use linerate_port::complete_checksum;
use linerate_reassembly::{GivenUp, Reassembler, Reassembly, ReassemblyLimits};

use super::execute::InHand;
use super::resolve::View;
use super::{Core, SLOTS_OF_A_PACKET};
use crate::drops::DropReason;
use crate::packet::{Headers, cut_into_fragments};
use crate::shared::State;

/// Memory for packets that are cut into fragments again.
#[derive(Default)]
pub(super) struct Cutting {
    /// The bytes of a packet.
    packet: Vec<u8>,
    /// Those of a fragment.
    fragment: Vec<u8>,
    /// That of the next packet of IPv6.
    identification: u32,
}

/// Puts packets together for one worker.
pub(super) struct Fragments {
    reassembler: Reassembler,
    /// What of the reassembler's losses has been counted.
    counted: u64,
    /// The bytes of a fragment of several slots.
    bytes: Vec<u8>,
}

impl Fragments {
    pub(super) fn new() -> Fragments {
        let reassembler = Reassembler::new(ReassemblyLimits::default());
        Fragments { reassembler, counted: 0, bytes: Vec::new() }
    }

    pub(super) fn next_deadline_ns(&self) -> u64 {
        self.reassembler.next_deadline_ns()
    }
}

impl Core {
    /// Takes the fragment that is the first packet of `batch`. If that makes a packet whole, the packet goes its way.
    pub(super) fn fragment(&mut self, view: &View<'_>, hand: &InHand, batch: &mut Batch, pool: &mut Pool) {
        let Some(mut fragments) = self.fragments.take() else { return };
        let Fragments { reassembler, bytes, .. } = &mut fragments;
        let fragment = if hand.slots == 1 {
            batch.packet(0)
        } else {
            bytes.clear();
            (0..hand.slots).for_each(|slot| bytes.extend_from_slice(batch.packet(slot)));
            bytes.as_slice()
        };
        match reassembler.add(fragment, hand.headers.network_offset(), hand.fields.in_port, self.now_ns) {
            Reassembly::Held => {}
            Reassembly::Refused(_) => self.account().drops.add(DropReason::FragmentLost, 1),
            Reassembly::Whole { packet, fragments } => {
                self.account().joined_fragments.add(fragments - 1);
                self.whole(view, packet, hand, pool);
            }
        }
        self.count_lost_fragments(&mut fragments);
        self.fragments = Some(fragments);
        pool.free_front(batch, hand.slots);
    }

    /// A packet that was put together goes through the tables.
    fn whole(&mut self, view: &View<'_>, packet: &[u8], fragment: &InHand, pool: &mut Pool) {
        let mut batch = self.spare.pop().unwrap_or_else(|| Batch::new(&self.pool, SLOTS_OF_A_PACKET));
        let headers = Headers::parse(packet);
        let mut hand = InHand { headers, len: packet.len(), slots: 0, is_joined: true, ..fragment.clone() };
        let end = if pool.append(&mut batch, packet, 0) {
            hand.slots = batch.len();
            let way = self.way_from(view, 0, &hand, &batch);
            self.walk_way(view, way, &mut hand, &mut batch, pool)
        } else {
            Some(DropReason::NoBuffer)
        };
        self.finish(view.state, &mut hand, end, &mut batch, pool);
        pool.free(&mut batch);
        self.spare.push(batch);
    }

    /// Sends a packet that was put together, and is longer than the port takes, in fragments; each is a place where it ends up. Returns
    /// false, and nothing has happened, if it cannot be cut.
    #[cold]
    pub(super) fn output_in_fragments(
        &mut self,
        state: &State,
        slot: u16,
        len_max: usize,
        hand: &mut InHand,
        batch: &mut Batch,
        pool: &mut Pool,
    ) -> bool {
        complete_checksum(batch, 0);
        let mut cutting = std::mem::take(&mut self.cutting);
        let Cutting { packet, fragment, identification } = &mut cutting;
        packet.clear();
        (0..hand.slots).for_each(|slot| packet.extend_from_slice(batch.packet(slot)));
        *identification = identification.wrapping_add(1);
        let mut one = self.spare.pop().unwrap_or_else(|| Batch::new(&self.pool, SLOTS_OF_A_PACKET));
        let headers = hand.headers;
        let is_cut = cut_into_fragments(packet, &headers, len_max, *identification, fragment, |bytes| {
            let mut own = InHand { len: bytes.len(), is_joined: false, is_moved: false, ..hand.clone() };
            if pool.append(&mut one, bytes, 0) {
                own.slots = one.len();
                self.output(state, slot, &mut own, &mut one, pool, true);
            } else {
                self.lose(DropReason::NoBuffer, &mut own);
            }
            hand.places = own.places;
            pool.free(&mut one);
        });
        self.spare.push(one);
        self.cutting = cutting;
        is_cut
    }

    /// Gives up packets that did not become whole in time.
    pub(super) fn expire_fragments(&mut self) {
        if let Some(mut fragments) = self.fragments.take() {
            fragments.reassembler.expire(self.now_ns);
            self.count_lost_fragments(&mut fragments);
            self.fragments = Some(fragments);
        }
    }

    fn count_lost_fragments(&self, fragments: &mut Fragments) {
        let GivenUp { refused, late, displaced, repeated } = fragments.reassembler.given_up();
        let lost = refused + late + displaced + repeated;
        self.account().drops.add(DropReason::FragmentLost, lost - fragments.counted);
        fragments.counted = lost;
        self.account().held_fragments.set(fragments.reassembler.held());
    }
}
