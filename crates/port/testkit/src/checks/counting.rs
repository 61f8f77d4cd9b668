//! Packets that a port counts without handing them out: in order with all others, and no more than were asked for.

use std::time::Instant;

use super::{not_applicable, passed};
use crate::packets::Entry;
use crate::session::Session;
use crate::{Harness, Outcome};

/// How long a call may sleep.
const TIMEOUT_NS: u64 = 1_000_000;

pub(super) fn counted(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let mut session = Session::open(harness, 0)?;
    if session.receiver.as_mut().is_none_or(|receiver| receiver.rx_counter().is_none()) {
        return not_applicable("the port hands all packets out");
    }
    if session.facts.other_traffic {
        return not_applicable("other traffic would be counted, too");
    }
    let parts = session.frags_max().min(3);
    let entries: Vec<Entry> = (0..24usize)
        .map(|n| Entry { len: 60 + 20 * n, slots: if n % 4 == 3 { parts } else { 1 }, tags: 0, partial: false })
        .collect();
    let chunk = entries.len().min(session.facts.window.max(1));
    let mut counted = 0;
    for round in 0..20usize {
        session.push(&entries[..chunk])?;
        // Every third time the rest is received.
        let wanted = if round % 3 == 2 { chunk / 2 } else { chunk };
        counted += count(&mut session, wanted as u64, 1 + round as u64 % 7)?;
        session.send_all(&[Entry::plain(60); 2], 2)?;
        session.settle(harness)?;
    }
    session.finish(harness)?;
    passed(format!("{counted} of {} packets were counted without being handed out", 20 * (chunk + 2)))
}

/// Counts `packets` packets, at most `most` a call; returns how many came.
fn count(session: &mut Session, packets: u64, most: u64) -> Result<u64, String> {
    let (mut done, mut progress) = (0, Instant::now());
    while done < packets && progress.elapsed() < session.facts.patience {
        let most = most.min(packets - done);
        let came = session.count(most, TIMEOUT_NS)?;
        if came > 0 {
            progress = Instant::now();
        }
        done += came;
    }
    Ok(done)
}
