//! Partial checksums: complete when they arrive, or still marked as partial where the packet did not leave the process.

use super::{BLIND, not_applicable, passed};
use crate::packets::Entry;
use crate::session::Session;
use crate::{Harness, Outcome};

pub(super) fn completed(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let mut session = Session::open(harness, 0)?;
    if session.is_blind() {
        return not_applicable(BLIND);
    }
    let (least, most) = (session.facts.len_min.max(42), session.len_max().min(session.pool.packet_len_max()));
    let slots_max = session.frags_max().min(3);
    let entry = |n: usize| {
        let len = (least + n * 97 % 1400).min(most);
        Entry { len, slots: 1 + n % slots_max, tags: 0, partial: true }
    };
    let entries: Vec<Entry> = (0..200).map(entry).collect();
    session.send_all(&entries, 16)?;
    let account = session.finish(harness)?;
    passed(format!("{} packets with a partial checksum", account.arrived))
}
