//! Totals that balance, and timestamps where they are promised.

use linerate_mem::Batch;

use super::{BLIND, not_applicable, passed};
use crate::packets::{self, Entry};
use crate::session::Session;
use crate::{Harness, Outcome};

/// taken = sent + dropped; sent = returned + dropped; read in between and at the end.
pub(super) fn balance(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let mut session = Session::open(harness, 0)?;
    let most = session.len_max().min(session.pool.packet_len_max());
    let least = session.facts.len_min.max(packets::HEADER_LEN);
    let span = most - least + 1;
    let mut before = session.sender()?.stats().map_err(|error| format!("stats failed: {error}"))?;
    if (before.tx_packets, before.rx_packets, before.tx_dropped()) != (0, 0, 0) {
        return Err(format!("a fresh port counts already: {before:?}"));
    }
    for round in 0..10usize {
        let entries: Vec<Entry> = (0..50).map(|n| Entry::plain(least + (round * 997 + n * 7919) % span)).collect();
        session.send_all(&entries, 1 + round * 5)?;
        let now = session.sender()?.stats().map_err(|error| format!("stats failed: {error}"))?;
        let accounted = now.tx_packets + now.tx_dropped();
        if now.tx_packets < before.tx_packets || now.tx_bytes < before.tx_bytes {
            return Err(format!("totals went back from {before:?} to {now:?}"));
        }
        if accounted > session.account.taken.packets {
            return Err(format!("{accounted} packets sent or dropped, of {} taken", session.account.taken.packets));
        }
        before = now;
    }
    let blind = session.is_blind();
    let account = session.finish(harness)?;
    let side = if blind { "the sender's" } else { "both" };
    passed(format!("{side} totals after {} packets, {} bytes", account.taken.packets, account.taken.bytes))
}

pub(super) fn timestamps(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let mut session = Session::open(harness, 0)?;
    if session.is_store() {
        session.send_all(&[Entry::plain(60); 8], 8)?;
        session.finish_sending()?;
    }
    let Some(receiver) = session.receiver.as_ref() else { return not_applicable(BLIND) };
    if !receiver.caps().timestamps {
        return not_applicable("caps().timestamps is false");
    }
    if session.sender.is_some() {
        session.push(&[Entry::plain(60); 8])?;
    }
    let mut batch = Batch::with_times(&session.pool, 16);
    let deadline = std::time::Instant::now() + session.facts.patience;
    while batch.is_empty() && std::time::Instant::now() < deadline {
        session.receiver()?.receive(&mut batch).map_err(|error| format!("receive failed: {error}"))?;
    }
    let timestamped = (0..batch.len()).filter(|index| batch.time_ns(*index) != Some(0)).count();
    let count = batch.len();
    drop(batch);
    session.close()?;
    if count == 0 || timestamped < count {
        return Err(format!("{timestamped} of {count} packets carry a timestamp, though caps().timestamps is true"));
    }
    passed(format!("{count} packets timestamped"))
}
