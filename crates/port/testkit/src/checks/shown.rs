//! Packets that a port sends from where they lie: they arrive as all others do, and stay with whoever showed them.

use super::{not_applicable, passed};
use crate::packets::Entry;
use crate::session::Session;
use crate::{Harness, Outcome};

pub(super) fn shown(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let mut session = Session::open(harness, 0)?;
    session.send_all(&[Entry::plain(60); 4], 4)?;
    let parts = if session.frags_max() > 1 { 2 } else { 1 };
    let entries: Vec<Entry> = (0..12)
        .map(|n| Entry { len: 60 + 20 * n, slots: if n % 4 == 3 { parts } else { 1 }, tags: 0, partial: false })
        .collect();
    let chunk = entries.len().min(session.facts.window.max(1));
    let mut shown = 0;
    for _ in 0..20 {
        session.queue(&entries[..chunk]);
        shown += session.show()?;
        // The others, and what there was no room for, go the usual way; and in order.
        session.send_all(&[], 1)?;
    }
    session.finish(harness)?;
    match shown {
        0 => not_applicable("the port hands packets over, or cannot send them from where they lie"),
        _ => passed(format!("{shown} of {} packets were sent from where they lay", 20 * chunk)),
    }
}
