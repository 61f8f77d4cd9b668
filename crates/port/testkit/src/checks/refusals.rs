//! What a port must refuse, with the numbers, and go on.

use linerate_mem::{Batch, Pool};
use linerate_port::PortError;

use super::{not_applicable, passed};
use crate::packets::{self, Entry};
use crate::session::Session;
use crate::{Harness, Outcome};

/// Two good packets, one that is too long, one good: the first two go, the long one stays in front and is named.
pub(super) fn frame_too_long(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let mut session = Session::open(harness, 0)?;
    let caps = session.sender()?.caps().clone();
    let room = session.pool.packet_len_max();
    let too_long = caps.frame_len_max.saturating_add(1);
    if caps.frame_len_max > room * 200 {
        return not_applicable(format!("no pool packet is longer than {} bytes", caps.frame_len_max));
    }
    let long = Entry::fitting(too_long, room);
    refused(&mut session, long, too_long, caps.frame_len_max)?;
    let mut tried = format!("{too_long} bytes where {} fit", caps.frame_len_max);
    if caps.frags_max == 1 {
        let parts = Entry { len: 100, slots: 2, tags: 0, partial: false };
        refused(&mut session, parts, 100, caps.frame_len_max)?;
        tried += ", and 2 slots where 1 is taken";
    }
    session.finish(harness)?;
    passed(tried)
}

fn refused(session: &mut Session, long: Entry, len: usize, max: usize) -> Result<(), String> {
    let good = Entry::plain(60);
    let first = session.account.taken.packets;
    session.queue(&[good, good, long, good]);
    let error = loop {
        match session.offer()? {
            Err(error) => break error,
            Ok(_) if session.account.taken.packets > first + 2 => {
                return Err(format!("a packet of {len} bytes was taken, though caps().frame_len_max is {max}"));
            }
            Ok(0) => drop(session.collect()?),
            Ok(_) => {}
        }
    };
    match error {
        PortError::FrameTooLong { len: said, max: limit, .. } if (said, limit) == (len, max) => {}
        other => return Err(format!("wanted FrameTooLong with {len} and {max}, got: {other}")),
    }
    if session.account.taken.packets != first + 2 {
        return Err(format!("{} packets were taken before the long one, not 2", session.account.taken.packets - first));
    }
    // It is not the port that is broken: without the long packet it goes on.
    session.forget_queued();
    session.send_all(&[good; 4], 2)
}

pub(super) fn foreign_pool(harness: &mut dyn Harness) -> Result<Outcome, String> {
    let mut session = Session::open(harness, 0)?;
    let mut other = Pool::new(harness.pool()).map_err(|error| error.to_string())?;
    let mut batch = Batch::new(&other, 8);
    packets::append(&mut batch, &mut other, 0, 0, Entry::plain(60));
    let sender = session.sender()?;
    let result = sender.transmit(&mut batch);
    if !matches!(result, Err(PortError::ForeignPool { .. })) || batch.len() != 1 {
        return Err(format!("transmit of another pool's packet gave {result:?} and left {} of 1 packets", batch.len()));
    }
    other.free(&mut batch);
    session.send_all(&[Entry::plain(60); 4], 4)?;
    session.settle(harness)?;
    if let Some(receiver) = session.receiver.as_mut() {
        let result = receiver.receive(&mut batch);
        if !matches!(result, Err(PortError::ForeignPool { .. })) || !batch.is_empty() {
            return Err(format!("receive into another pool's batch gave {result:?}"));
        }
    }
    session.close()?;
    drop(batch);
    if !other.is_whole() {
        return Err("the other pool lost a frame".into());
    }
    passed("refused in both directions, and went on with its own")
}
