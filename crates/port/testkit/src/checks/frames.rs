//! Frames go back to their pool, whatever was under way, and a pool that is empty breaks nothing.

use linerate_mem::Batch;

use super::passed;
use crate::packets::Entry;
use crate::session::Session;
use crate::{Harness, Outcome};

/// Ports dropped with packets everywhere: in the batch, in the rings, not flushed, not received; in both orders.
pub(super) fn come_back(harness: &mut dyn Harness) -> Result<Outcome, String> {
    for sender_first in [true, false] {
        for packets in [0, 1, 40] {
            let mut session = Session::open(harness, 0)?;
            session.queue(&vec![Entry::plain(60); packets]);
            session.offer()?.map_err(|error| format!("transmit failed: {error}"))?;
            session.collect()?;
            session.queue(&vec![Entry::plain(60); packets]);
            session.offer()?.map_err(|error| format!("transmit failed: {error}"))?;
            if sender_first {
                session.sender = None;
            } else {
                session.receiver = None;
            }
            session.close().map_err(|error| {
                let first = if sender_first { "sender" } else { "receiver" };
                format!("{packets} packets under way, {first} dropped first: {error}")
            })?;
        }
    }
    passed("dropped with 0, 1 and 40 packets under way, either port first")
}

/// All free frames are taken away for a while.
pub(super) fn pool_runs_dry(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let mut session = Session::open(harness, 0)?;
    session.send_all(&[Entry::plain(60); 16], 8)?;
    session.queue(&[Entry::plain(60); 16]);
    let mut hoard = Batch::new(&session.pool, session.pool.available());
    session.pool.alloc(&mut hoard, usize::MAX, 60);
    let held = hoard.len();
    session.offer()?.map_err(|error| format!("transmit failed without free frames: {error}"))?;
    for _ in 0..50 {
        session.collect().map_err(|error| format!("without free frames: {error}"))?;
    }
    session.pool.free(&mut hoard);
    drop(hoard);
    session.send_all(&[Entry::plain(60); 64], 16)?;
    session.finish(harness)?;
    passed(format!("went on after {held} free frames were taken away and given back"))
}
