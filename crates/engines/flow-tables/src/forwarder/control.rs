//! Packets to the control thread, and packets from it.

use std::sync::atomic::Ordering;

use linerate_mem::{Batch, Pool};
use linerate_openflow::{PacketInReason, PortConfig};

use super::execute::{InHand, NO_SLOT};
use super::path::{Op, ToController};
use super::resolve::{View, flatten};
use super::{Core, SLOTS_OF_A_PACKET};
use crate::action_set::ActionSet;
use crate::drops::DropReason;
use crate::packet::{Headers, PipelineFields};
use crate::records::{PacketInRecord, PacketOutRecord};
use crate::shared::State;

impl Core {
    /// Copies the packet for the controllers.
    pub(super) fn tell_controllers(&mut self, state: &State, to: &ToController, hand: &mut InHand, batch: &Batch) {
        let forbids = |slot| state.port(slot).is_some_and(|port| port.has(PortConfig::NO_PACKET_IN));
        if to.reason == PacketInReason::NoMatch && forbids(hand.in_slot) {
            return self.lose(DropReason::NoPacketIn, hand);
        }
        let mut data = self.packet_ins.memory();
        let mut reader = batch.reader(0, hand.slots);
        loop {
            let chunk = reader.chunk(usize::MAX);
            if chunk.is_empty() {
                break;
            }
            data.extend_from_slice(chunk);
        }
        let record = PacketInRecord {
            fields: PipelineFields { metadata: to.metadata, ..hand.fields },
            reason: Some(to.reason),
            table: to.table,
            cookie: to.cookie,
            max_len: to.max_len,
            data,
        };
        if !self.packet_ins.send(record) {
            return self.lose(DropReason::ControllerFull, hand);
        }
        hand.places += 1;
        self.account().to_controller.add(1);
        self.has_packet_ins = true;
    }

    /// Wakes the control thread if packets for it were put into an empty queue.
    pub(super) fn announce_packet_ins(&mut self) {
        if self.has_packet_ins {
            self.has_packet_ins = false;
            if !self.shared.packet_ins.swap(true, Ordering::SeqCst) {
                (self.wake_control)();
            }
        }
    }

    /// Sends a packet of a controller on its way.
    pub(super) fn packet_out(&mut self, view: &View<'_>, record: PacketOutRecord, pool: &mut Pool) {
        let PacketOutRecord { in_port, actions, data } = record;
        self.account().packet_outs.add(1, data.len() as u64);
        let mut batch = self.spare.pop().unwrap_or_else(|| Batch::new(&self.pool, SLOTS_OF_A_PACKET));
        let mut hand = InHand {
            headers: Headers::default(),
            fields: PipelineFields { in_port: in_port.0, in_phy_port: in_port.0, ..PipelineFields::default() },
            in_slot: view.state.slots.get(&in_port).copied().unwrap_or(NO_SLOT),
            len: data.len(),
            slots: 0,
            queue: None,
            table: 0,
            places: 0,
            is_moved: false,
            is_joined: false,
        };
        if !pool.append(&mut batch, &data, 0) {
            self.lose(DropReason::NoBuffer, &mut hand);
        } else {
            hand.slots = batch.len();
            hand.headers = Headers::parse(batch.packet(0));
            if hand.headers.is_runt() {
                self.lose(DropReason::Runt, &mut hand);
            } else {
                let ops = match actions {
                    Some(actions) => flatten(view, &actions),
                    None => vec![through_tables()],
                };
                let _ = self.walk(view, &ops, &mut hand, &mut batch, pool, true);
            }
        }
        self.finish(view.state, &mut hand, Some(DropReason::NoOutput), &mut batch, pool);
        pool.free(&mut batch);
        self.spare.push(batch);
    }
}

fn through_tables() -> Op {
    Op::Continue(Box::new(super::path::Continuation { table: 0, metadata: 0, set: ActionSet::default() }))
}
