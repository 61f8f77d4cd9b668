//! The interface is set down or deleted during a run: a clear error, totals kept, nothing leaked.

use std::time::{Duration, Instant};

use linerate_port::{Interest, LinkState, PortError, Stats};

use super::{not_applicable, passed};
use crate::packets::Entry;
use crate::session::Session;
use crate::{Disturbance, Harness, Hit, Outcome};

pub(super) fn down(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let mut session = Session::open(harness, 0)?;
    session.send_all(&[Entry::plain(60); 100], 20)?;
    session.flush()?;
    let both = Hit { sender: true, receiver: session.receiver.is_some() };
    until_link(&mut session, both, LinkState::Up)?;
    let Some(hit) = harness.disturb(Disturbance::Down)? else {
        return not_applicable("no interface that could be set down");
    };
    until_link(&mut session, hit, LinkState::Down)?;
    let said = must_fail(&mut session, hit, "down", |error| matches!(error, PortError::Down { .. }))?;
    let recovered = harness.disturb(Disturbance::Up)?.is_some();
    if recovered {
        goes_on(&mut session)?;
        until_link(&mut session, both, LinkState::Up)?;
    }
    session.close()?;
    let after = if recovered { "; works again after up" } else { "" };
    passed(format!("{said}{after}"))
}

pub(super) fn deleted(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let mut session = Session::open(harness, 0)?;
    session.send_all(&[Entry::plain(60); 100], 20)?;
    session.flush()?;
    let Some(hit) = harness.disturb(Disturbance::Delete)? else {
        return not_applicable("no interface that could be deleted");
    };
    let said = must_fail(&mut session, hit, "deleted", |error| matches!(error, PortError::Gone { .. }))?;
    session.close()?;
    passed(said)
}

/// Uses the ports that were hit until they fail in the way that is right, and checks their totals afterwards.
fn must_fail(session: &mut Session, hit: Hit, what: &str, right: fn(&PortError) -> bool) -> Result<String, String> {
    let mut said = Vec::new();
    let judge = |side: &str, error: Option<PortError>| match error {
        Some(error) if right(&error) => Ok(format!("{side}: {error}")),
        Some(error) => Err(format!("the interface was {what}, and the {side} says: {error}")),
        None => Err(format!("the interface was {what}, and the {side} does not notice")),
    };
    if hit.receiver && session.receiver.is_some() {
        let before = stats_of(session, false)?;
        said.push(judge("receiver", receive_until_error(session)?)?);
        let after = stats_of(session, false)?;
        if after.rx_packets < before.rx_packets {
            return Err(format!("the receiver's totals were lost: {before:?}, then {after:?}"));
        }
        session.check_receiver()?;
    }
    if hit.sender {
        let before = stats_of(session, true)?;
        said.push(judge("sender", transmit_until_error(session)?)?);
        let after = stats_of(session, true)?;
        if after.tx_packets < before.tx_packets {
            return Err(format!("the sender's totals were lost: {before:?}, then {after:?}"));
        }
        // What was under way is sent or lost, but counted; flush may repeat the error.
        let _ = session.sender()?.flush();
        let _ = session.sender()?.wait(Interest::Transmit, 1_000_000);
        session.check_sender()?;
    }
    Ok(said.join("; "))
}

/// Waits until the ports that were hit say that their link is in this state.
fn until_link(session: &mut Session, hit: Hit, wanted: LinkState) -> Result<(), String> {
    let deadline = Instant::now() + session.facts.patience;
    for side in [hit.sender, hit.receiver && session.receiver.is_some()].iter().enumerate().filter(|(_, hit)| **hit) {
        loop {
            let port = if side.0 == 0 { session.sender()? } else { session.receiver()? };
            let said = port.link().map_err(|error| format!("the link's state cannot be told: {error}"))?;
            if said == wanted {
                break;
            }
            if Instant::now() > deadline {
                return Err(format!("{}: the link is {wanted:?}, and the port says {said:?}", port.caps().name));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}

fn stats_of(session: &mut Session, sender: bool) -> Result<Stats, String> {
    let port = if sender { session.sender()? } else { session.receiver()? };
    port.stats().map_err(|error| format!("the totals of the broken port cannot be read: {error}"))
}

fn receive_until_error(session: &mut Session) -> Result<Option<PortError>, String> {
    let deadline = Instant::now() + session.facts.patience;
    while Instant::now() < deadline {
        if let Err(error) = session.try_collect()? {
            return Ok(Some(error));
        }
        if let Err(error) = session.receiver()?.wait(Interest::Receive, 1_000_000) {
            return Ok(Some(error));
        }
    }
    Ok(None)
}

fn transmit_until_error(session: &mut Session) -> Result<Option<PortError>, String> {
    let deadline = Instant::now() + session.facts.patience;
    while Instant::now() < deadline {
        if session.outgoing.is_empty() {
            session.queue(&[Entry::plain(60); 4]);
        }
        if let Err(error) = session.offer()? {
            return Ok(Some(error));
        }
        if let Err(error) = session.sender()?.flush() {
            return Ok(Some(error));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(None)
}

/// After the interface came up again packets flow, once the kernel has noticed.
fn goes_on(session: &mut Session) -> Result<(), String> {
    let arrived_before = session.account.arrived;
    let deadline = Instant::now() + session.facts.patience;
    let mut last = "nothing was received".to_string();
    while Instant::now() < deadline {
        if session.outgoing.is_empty() {
            session.queue(&[Entry::plain(60)]);
        }
        if let Err(error) = session.offer()? {
            last = error.to_string();
        }
        let _ = session.sender()?.flush();
        if session.receiver.is_none() {
            if session.outgoing.is_empty() {
                return Ok(());
            }
        } else {
            match session.try_collect()? {
                Ok(_) if session.account.arrived > arrived_before => return Ok(()),
                Ok(_) => {}
                Err(error) => last = error.to_string(),
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(format!("the interface is up again, but the port does not work: {last}"))
}
