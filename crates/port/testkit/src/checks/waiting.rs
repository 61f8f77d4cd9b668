//! What `wait` says: nothing yet, worth a try, never again.

use std::time::Instant;

use linerate_port::{Interest, Readiness};

use super::{not_applicable, passed};
use crate::packets::Entry;
use crate::session::Session;
use crate::{Harness, Outcome};

const SHORT_NS: u64 = 2_000_000;

pub(super) fn wait(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let mut session = Session::open(harness, 0)?;
    let mut said = Vec::new();
    idle(&mut session)?;
    said.push("an idle port is ready to transmit");
    if session.receiver.is_some() && !session.is_store() {
        silence(&mut session)?;
        arrival(&mut session)?;
        said.push("times out while nothing comes, is ready when something did");
    }
    if full(&mut session)? {
        said.push("times out while full, is ready when not");
    }
    session.finish(harness)?;
    passed(said.join("; "))
}

fn expect(
    session: &mut Session,
    interest: Interest,
    timeout_ns: u64,
    wanted: &[Readiness],
    when: &str,
) -> Result<(), String> {
    let port = if interest == Interest::Receive { session.receiver()? } else { session.sender()? };
    match port.wait(interest, timeout_ns) {
        Ok(found) if wanted.contains(&found) => Ok(()),
        other => Err(format!("wait({interest:?}, {timeout_ns} ns) {when}: wanted {wanted:?}, got {other:?}")),
    }
}

fn idle(session: &mut Session) -> Result<(), String> {
    for timeout_ns in [0, SHORT_NS, u64::MAX] {
        expect(session, Interest::Transmit, timeout_ns, &[Readiness::Ready], "on an idle port")?;
    }
    Ok(())
}

fn silence(session: &mut Session) -> Result<(), String> {
    // Strangers may make it ready at any time.
    let wanted: &[Readiness] =
        if session.facts.other_traffic { &[Readiness::TimedOut, Readiness::Ready] } else { &[Readiness::TimedOut] };
    for timeout_ns in [0, SHORT_NS] {
        expect(session, Interest::Receive, timeout_ns, wanted, "with nothing to receive")?;
    }
    Ok(())
}

fn arrival(session: &mut Session) -> Result<(), String> {
    session.push(&[Entry::plain(60)])?;
    let deadline = Instant::now() + session.facts.patience;
    let patience_ns = session.facts.patience.as_nanos() as u64;
    // Readiness may be for a stranger, or too early; the packet itself must come.
    while session.account.arrived == 0 {
        expect(session, Interest::Receive, patience_ns, &[Readiness::Ready], "with a packet under way")?;
        if session.collect()? == 0 && Instant::now() > deadline {
            return Err("wait says ready, but the packet does not come".into());
        }
    }
    // A timeout that never ends must not end wrongly, either.
    session.push(&[Entry::plain(60)])?;
    expect(session, Interest::Receive, u64::MAX, &[Readiness::Ready], "with a packet under way and no time limit")
}

/// Fills a port whose far side does not empty by itself; false when it never gets full.
fn full(session: &mut Session) -> Result<bool, String> {
    if session.receiver.is_none() || session.sender()?.caps().async_tx {
        return Ok(false);
    }
    let frames = session.pool.available() / 2;
    let mut queued = 0;
    while queued < frames && session.outgoing.is_empty() {
        queued += session.queue(&vec![Entry::plain(60); (frames - queued).min(64)]);
        session.offer()?.map_err(|error| format!("transmit failed: {error}"))?;
    }
    if session.outgoing.is_empty() {
        return Ok(false);
    }
    for timeout_ns in [0, SHORT_NS] {
        expect(session, Interest::Transmit, timeout_ns, &[Readiness::TimedOut], "on a full port")?;
    }
    let deadline = Instant::now() + session.facts.patience;
    while session.collect()? == 0 && Instant::now() < deadline {}
    let patience_ns = session.facts.patience.as_nanos() as u64;
    expect(session, Interest::Transmit, patience_ns, &[Readiness::Ready], "after the receiver made room")?;
    session.facts.window = usize::MAX;
    session.send_all(&[], 1)?;
    Ok(true)
}

/// `Ended`: not before everything was received, and for ever after.
pub(super) fn end(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let mut session = Session::open(harness, 0)?;
    if session.is_blind() {
        return blind_end(session);
    }
    if !session.facts.ends && !session.is_store() {
        return not_applicable("the receiver cannot know that nothing more will come");
    }
    let count = 20.min(session.facts.window);
    session.push(&vec![Entry::plain(60); count])?;
    session.finish_sending()?;
    session.sender = None;
    let deadline = Instant::now() + session.facts.patience;
    while session.account.arrived < count as u64 {
        match session.receiver()?.wait(Interest::Receive, SHORT_NS) {
            Ok(Readiness::Closed) => return Err(format!("Ended after {} of {count} packets", session.account.arrived)),
            Ok(_) => {}
            Err(error) => return Err(format!("wait failed: {error}")),
        }
        session.collect()?;
        if Instant::now() > deadline {
            return Err(format!("{} of {count} packets came", session.account.arrived));
        }
    }
    let patience_ns = session.facts.patience.as_nanos() as u64;
    for timeout_ns in [patience_ns, SHORT_NS, 0] {
        expect(&mut session, Interest::Receive, timeout_ns, &[Readiness::Closed], "after the last packet")?;
        if session.collect()? != 0 {
            return Err("a packet came after Ended".into());
        }
    }
    session.close()?;
    passed(format!("Ended once the last of {count} packets was received, and from then on"))
}

/// A port that never receives says so.
fn blind_end(mut session: Session) -> Result<Outcome, String> {
    if session.sender()?.caps().receives {
        return not_applicable("nothing that the suite sends comes back");
    }
    match session.sender()?.wait(Interest::Receive, SHORT_NS) {
        Ok(Readiness::Closed) => {}
        other => return Err(format!("the port never receives, but wait says {other:?}, not Ended")),
    }
    session.close()?;
    passed("a port that never receives says Ended at once")
}
