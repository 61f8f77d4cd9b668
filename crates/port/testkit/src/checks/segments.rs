//! Packets that span several frames: taken, carried and returned as a whole.

use linerate_mem::Batch;

use super::{BLIND, not_applicable, passed};
use crate::packets::{self, Entry};
use crate::session::Session;
use crate::{Harness, Outcome};

pub(super) fn whole_packets(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let mut session = Session::open(harness, 0)?;
    let most = session.frags_max();
    if most < 2 {
        return not_applicable("caps().frags_max is 1");
    }
    let longest = session.len_max();
    let room = session.pool.packet_len_max();
    let mixed = (0..600usize).map(|n| {
        let slots = 1 + n % most.min(7);
        Entry { len: (200 + n * 37 % 1000).min(longest).min(slots * room), slots, tags: 0, partial: false }
    });
    let mixed: Vec<Entry> = mixed.collect();
    // 11 packets of up to 7 slots: batches end anywhere in a ring; `offer` and `collect` see to it that no packet is split.
    session.send_all(&mixed, 11)?;
    if session.receiver.is_none() {
        let seen = if session.is_blind() { BLIND } else { "all of them came back" };
        session.finish(harness)?;
        return passed(format!("600 packets of 1 to {} slots; {seen}", most.min(7)));
    }
    session.settle(harness)?;
    let small = small_room(&mut session, most)?;
    fill_up(&mut session, most)?;
    session.finish(harness)?;
    passed(format!(
        "600 packets of 1 to {} slots, {small} through a batch of 4, and until the ring was full",
        most.min(7)
    ))
}

/// Packets of up to 4 slots into a batch of 4: one that does not fit waits for the next call.
fn small_room(session: &mut Session, most: usize) -> Result<usize, String> {
    let mut entries: Vec<Entry> =
        (0..12usize).map(|n| Entry { len: 400, slots: 1 + n % most.min(4), tags: 0, partial: false }).collect();
    let mut left = session.facts.window;
    entries.retain(|entry| {
        let fits = entry.slots <= left;
        left -= if fits { entry.slots } else { 0 };
        fits
    });
    session.push(&entries)?;
    let mut batch = Batch::new(&session.pool, 4);
    let deadline = std::time::Instant::now() + session.facts.patience;
    let mut arrived = 0;
    while arrived < entries.len() && std::time::Instant::now() < deadline {
        session.receiver()?.receive(&mut batch).map_err(|error| format!("receive failed: {error}"))?;
        let packets = packets::joined(&batch, 0)?;
        arrived += session.account.note(&packets)?;
        session.pool.free(&mut batch);
    }
    Ok(arrived)
}

/// As partial transmit, with packets of several slots: what stays begins with a whole packet.
fn fill_up(session: &mut Session, most: usize) -> Result<(), String> {
    let frames = session.pool.available() / 2;
    let entries: Vec<Entry> =
        (0..frames / 4).map(|n| Entry { len: 300, slots: 1 + n % most.min(5), tags: 0, partial: false }).collect();
    let mut queued = 0;
    while queued < entries.len() {
        queued += session.queue(&entries[queued..]);
        session.offer()?.map_err(|error| format!("transmit failed: {error}; a full ring is no error"))?;
        if !session.outgoing.is_empty() {
            break;
        }
    }
    session.facts.window = usize::MAX;
    session.send_all(&[], 1)
}
