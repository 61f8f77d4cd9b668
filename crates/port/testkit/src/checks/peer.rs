//! The other end goes away.

use linerate_port::Interest;

use super::{not_applicable, passed};
use crate::packets::Entry;
use crate::session::Session;
use crate::{Harness, Outcome};

/// The sender goes on: it may say that nobody is there, or lose packets and count them; it must not hang or panic.
pub(super) fn receiver_gone(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let mut session = Session::open(harness, 0)?;
    if session.receiver.is_none() {
        return not_applicable("no receiver is open while packets are sent");
    }
    session.send_all(&[Entry::plain(60); 40], 20)?;
    session.receiver = None;
    let mut said = "took".to_string();
    for _ in 0..100 {
        if session.outgoing.is_empty() {
            session.queue(&[Entry::plain(60); 10]);
        }
        match session.offer()? {
            Ok(0) => drop(session.sender()?.wait(Interest::Transmit, 10_000)),
            Ok(_) => {}
            Err(error) => {
                said = format!("\"{error}\" after");
                break;
            }
        }
    }
    for _ in 0..1000 {
        match session.sender()?.flush() {
            Ok(pending) if pending > 0 => drop(session.sender()?.wait(Interest::Transmit, 100_000)),
            _ => break,
        }
    }
    let stats = session.check_sender()?;
    let taken = session.account.taken.packets;
    session.close()?;
    passed(format!("{said} {taken} packets, of which {} are reported lost", stats.tx_dropped()))
}

/// What was sent before the sender went away is complete.
pub(super) fn sender_gone(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let mut session = Session::open(harness, 0)?;
    if session.receiver.is_none() {
        return not_applicable("no receiver is open while packets are sent");
    }
    let count = 30.min(session.facts.window);
    session.push(&vec![Entry::plain(60); count])?;
    let sent = session.check_sender()?.tx_packets;
    session.sender = None;
    session.collect_all(sent)?;
    let stats = session.check_receiver()?;
    let arrived = session.account.arrived;
    if arrived + stats.rx_dropped() + harness.lost_on_path() < sent {
        return Err(format!("{arrived} of {sent} packets arrived after the sender was dropped"));
    }
    session.close()?;
    passed(format!("{arrived} of {sent} packets arrived after the sender was dropped"))
}
