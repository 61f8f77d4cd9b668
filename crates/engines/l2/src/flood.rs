//! One packet to many ports: all but the last get copies, the last gets the packet itself.

use linerate_mem::{Batch, Pool};

use crate::counters::DropReason;
use crate::member::copy_slots;
use crate::packet::{IngressContext, Packet};
use crate::switch::Switch;
use crate::vlan::apply;

/// Floods the first packet of `arrived` to every other port of its VLAN.
pub(crate) fn flood(
    switch: &mut Switch,
    origin: &IngressContext,
    packet: &Packet,
    arrived: &mut Batch,
    pool: &mut Pool,
) {
    let (ingress, vlan) = (usize::from(origin.port.0), packet.verdict.vlan());
    let slots = packet.slots as usize;
    let Some(mut target) = next_target(switch, origin, vlan, 0) else {
        switch.counters[ingress].drop(DropReason::FloodSetEmpty, 1, u64::from(packet.len));
        switch.vlans[usize::from(vlan)].dropped.add(DropReason::FloodSetEmpty, 1);
        pool.free_front(arrived, slots);
        return;
    };
    switch.counters[ingress].flooded += 1;
    switch.vlans[usize::from(vlan)].flooded += 1;
    while let Some(next) = next_target(switch, origin, vlan, target + 1) {
        let queued = copy(switch, origin, packet, target, arrived, pool);
        note(switch, origin, target, queued, pool);
        target = next;
    }
    let queued = switch.hand_over_one(origin, packet, target, arrived).map(|()| slots);
    if queued.is_err() {
        pool.free_front(arrived, slots);
    }
    note(switch, origin, target, queued, pool);
}

/// The first port from `from` on that a flooded packet goes to.
fn next_target(switch: &Switch, origin: &IngressContext, vlan: u16, from: u16) -> Option<u16> {
    let members = switch.members.iter().enumerate().skip(usize::from(from));
    let goes = members.filter(|(index, _)| *index != usize::from(origin.port.0)).find(|(_, member)| {
        let settings = member.as_ref().map(|member| &member.settings);
        settings.is_some_and(|settings| settings.vlan.has(vlan) && !(origin.isolated && settings.isolated))
    });
    goes.map(|(index, _)| index as u16)
}

/// Copies the first packet of `arrived` into a port's queue; returns the slots of the copy.
fn copy(
    switch: &mut Switch,
    origin: &IngressContext,
    packet: &Packet,
    port: u16,
    arrived: &Batch,
    pool: &mut Pool,
) -> Result<usize, DropReason> {
    let Some(Some(member)) = switch.members.get_mut(usize::from(port)) else { return Err(DropReason::FloodSetEmpty) };
    let edit = member.admit(origin, packet, copy_slots(packet.len as usize, pool))?;
    let queue = &mut member.queue.batch;
    let start = queue.len();
    if !pool.copy(arrived, 0, queue) {
        return Err(DropReason::NoBuffer);
    }
    let slots = queue.len() - start;
    if !apply(edit, queue, start) {
        pool.free_back(queue, slots);
        return Err(DropReason::TooLong);
    }
    switch.note_queued(origin, port, slots);
    Ok(slots)
}

/// Counts a copy as queued, or as refused with its reason.
fn note(switch: &mut Switch, origin: &IngressContext, port: u16, queued: Result<usize, DropReason>, pool: &mut Pool) {
    match queued {
        Ok(slots) => {
            switch.counters[usize::from(origin.port.0)].flood_copies += 1;
            switch.mirror_queued(origin, port, slots, pool);
        }
        Err(reason) => switch.counters[usize::from(port)].refused.add(reason, 1),
    }
}
