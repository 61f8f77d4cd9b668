//! Rings that wrap and rings that are full, and batches that are small or in use already.

use linerate_mem::Batch;

use super::{BLIND, not_applicable, passed};
use crate::packets::{self, Entry};
use crate::session::Session;
use crate::{Harness, Outcome};

pub(super) fn ring_wrap(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let facts = harness.facts();
    let entries: Vec<Entry> = (0..facts.wrap_packets).map(|n| Entry::plain(60 + n % 7)).collect();
    for start in &facts.starts {
        let mut session = Session::open(harness, *start)?;
        // Batches of a prime number of packets end at every place of a ring.
        session
            .send_all(&entries, 13)
            .and_then(|()| session.finish(harness).map(|_| ()))
            .map_err(|error| format!("from index {start}: {error}"))?;
    }
    passed(format!("{} packets from each of the indices {:?}", entries.len(), facts.starts))
}

/// Far more than the window, offered without receiving until nothing more is taken.
pub(super) fn partial_transmit(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let mut session = Session::open(harness, 0)?;
    let frames = session.pool.available() / 2;
    let entries: Vec<Entry> = (0..frames).map(|n| Entry::plain(60 + n % 5)).collect();
    let mut queued = 0;
    let mut refused = None;
    while queued < entries.len() && refused.is_none() {
        queued += session.queue(&entries[queued..]);
        let took = session.offer()?.map_err(|error| format!("transmit failed: {error}; a full ring is no error"))?;
        if !session.outgoing.is_empty() {
            // The rest stays, in order: `offer` has compared it with the plan.
            refused = Some((took, session.outgoing.len()));
        }
    }
    session.facts.window = usize::MAX;
    session.send_all(&[], 1)?;
    session.send_all(&entries[queued..entries.len().min(queued + 64)], 16)?;
    let account = session.finish(harness)?;
    match refused {
        Some((_, left)) => {
            passed(format!("full after {} packets, {left} stayed in the batch, and followed", queued - left))
        }
        None => passed(format!("took all {} packets at once: it was never full", account.taken.packets)),
    }
}

/// `receive` appends behind what is there, and never more than there is room for.
pub(super) fn small_batches(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let mut session = Session::open(harness, 0)?;
    if session.is_blind() {
        return not_applicable(BLIND);
    }
    let entries = vec![Entry::plain(60); 24.min(session.facts.window)];
    session.push(&entries)?;
    if session.is_store() {
        session.finish_sending()?;
    }
    let mut batch = Batch::new(&session.pool, 5);
    let held = packets::append(&mut batch, &mut session.pool, !session.account.run, 0, Entry::plain(77));
    let mark = batch.packet(0).to_vec();
    let mut arrived = 0;
    let deadline = std::time::Instant::now() + session.facts.patience;
    while held && arrived < entries.len() && std::time::Instant::now() < deadline {
        let room = batch.room();
        let count = session.receiver()?.receive(&mut batch).map_err(|error| format!("receive failed: {error}"))?;
        if count > room || batch.packet(0) != mark {
            return Err(format!("receive returned {count} for a batch with room for {room}, or changed what it held"));
        }
        let packets = packets::joined(&batch, 1)?;
        arrived += session.account.note(&packets)?;
        if batch.room() == 0 {
            let count = session.receiver()?.receive(&mut batch).map_err(|error| format!("receive failed: {error}"))?;
            if count != 0 {
                return Err(format!("receive returned {count} for a batch that is full"));
            }
        }
        // Keeps the mark, gives back the others.
        let mut kept = Batch::new(&session.pool, 5);
        batch.move_to(&mut kept, 1);
        session.pool.free(&mut batch);
        std::mem::swap(&mut batch, &mut kept);
    }
    drop(batch);
    session.finish(harness)?;
    passed(format!("{arrived} packets through a batch of 5 that held one already"))
}
