//! A segment arrives (RFC 9293 section 3.10.7): whose it is, and what it changes.
//!
//! The fast path of `fast.rs`, and datagrams, are compiled for each program. All else, what begins, ends or disturbs a connection, is compiled once and
//! calls the program as `dyn App`.

mod brief;
mod data;
pub(crate) mod datagram;
mod established;
mod fast;
mod listen;
mod offer;
mod syn_sent;
mod time_wait;

pub(crate) use brief::brief_path;
pub(crate) use data::deliver_ready;
pub(crate) use fast::{Plain, answer_path, fast_path, fast_segment};

use crate::engine::{Engine, Event, IS_TIME_WAIT};
use crate::segment::Segment;
use crate::tuple::Tuple;
use crate::{App, CloseReason, Conn, Flags, Io, State};

/// A segment for a tuple, whose value in the table is `found`.
pub(crate) fn segment(
    engine: &mut Engine,
    app: &mut dyn App,
    tuple: &Tuple,
    found: Option<u32>,
    segment: &Segment<'_>,
) {
    let Some(value) = found else {
        listen::segment(engine, app, tuple, segment);
        return;
    };
    if value & IS_TIME_WAIT != 0 {
        time_wait::segment(engine, tuple, value & !IS_TIME_WAIT, segment);
        return;
    }
    match engine.tcbs[value].state {
        State::SynSent => syn_sent::segment(engine, app, value, segment),
        State::Closed | State::TimeWait => {}
        _ => established::segment(engine, app, tuple, value, segment),
    }
}

/// Tells the program what happened while it could not be called.
pub(crate) fn tell(engine: &mut Engine, app: &mut dyn App) {
    while let Some(event) = engine.events.pop_front() {
        match event {
            Event::Closed(index, why) => {
                let conn = engine.conn(index);
                app.closed(conn, why, &mut Io::new(engine));
                engine.free(index);
            }
            Event::Sendable(index) => {
                let conn = engine.conn(index);
                if is_same(engine, conn) {
                    app.sendable(conn, &mut Io::new(engine));
                }
            }
            Event::Resume(index) => deliver_ready(engine, app, index),
            Event::SoftError(conn, error) => {
                if is_same(engine, conn) {
                    app.soft_error(conn, error, &mut Io::new(engine));
                }
            }
            Event::Undelivered(socket, kind) => app.undelivered(socket, kind, &mut Io::new(engine)),
        }
    }
}

/// True if the connection stands as it did before the program was called.
fn is_same(engine: &Engine, conn: Conn) -> bool {
    engine.index_of(conn).is_some()
}

/// The handshake is over: the program gets to know the connection.
fn connected(engine: &mut Engine, app: &mut dyn App, index: u32) {
    let tcb = &mut engine.tcbs[index];
    tcb.flags.set(Flags::KNOWN);
    let conn = engine.conn(index);
    app.connected(conn, &mut Io::new(engine));
}

/// The connection was reset by the peer.
fn reset(engine: &mut Engine, index: u32) {
    let why = match engine.tcbs[index].state {
        State::SynSent | State::SynReceived => CloseReason::Refused,
        _ => CloseReason::Reset,
    };
    engine.end(index, why);
}
