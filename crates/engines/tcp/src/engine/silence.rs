//! Connections whose peer has been silent for 24 days: what is known of its clock says nothing any more, and any timestamp is taken (RFC 7323
//! section 5.5).
//!
//! Control blocks have no place for the time of the last segment. Every six hours all connections are looked at, a few at a time, beside
//! an array of what was seen before.

use super::Engine;
use crate::{Flags, Now, State};

/// Milliseconds between two looks at a connection.
const LOOK_MS: u32 = 6 * 3_600_000;
/// Looks in a row that saw the same timestamp: 24 days lie between the first and the last.
const LOOKS_MAX: u8 = 97;
/// Connections that are looked at in one call.
const CALL_MAX: usize = 1024;

/// What was seen of all connections.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// By the index of the block; made at the first look.
    seen: Vec<Seen>,
    /// Index of the block that is looked at next.
    next: usize,
    /// Tick from which on the next look is due; `None` before the first connection.
    due: Option<u32>,
}

/// What was seen of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    ts_recent: u32,
    /// Low 16 bits.
    generation: u16,
    /// Looks in a row at which this was seen.
    looks: u8,
}

impl Silence {
    /// A connection begins; true if this is the first one, and so sets the time of the next look.
    #[inline]
    pub(super) fn begin(&mut self, now: Now) -> bool {
        let is_first = self.due.is_none();
        if is_first {
            self.due = Some(now.in_ms(LOOK_MS));
        }
        is_first
    }

    /// Tick of the next look.
    #[inline]
    pub(super) fn next_tick(&self) -> Option<u32> {
        self.due
    }
}

impl Engine {
    /// Looks at some connections, if it is time.
    pub(super) fn look_for_silence(&mut self) {
        if !self.silence.due.is_some_and(|due| self.now.is_due(due)) {
            return;
        }
        let count = self.tcbs.high_water();
        let from = self.silence.next.min(count);
        let to = count.min(from + CALL_MAX);
        if self.silence.seen.len() < count {
            self.silence.seen.resize(count, Seen::default());
        }
        for index in from..to {
            self.look_at(index);
        }
        let is_done = to == count;
        self.silence.next = if is_done { 0 } else { to };
        if is_done {
            self.silence.due = Some(self.now.in_ms(LOOK_MS));
        }
    }

    fn look_at(&mut self, index: usize) {
        let (Some(seen), Some(tcb)) = (self.silence.seen.get_mut(index), self.tcbs.get_mut(index as u32)) else {
            return;
        };
        if tcb.state == State::Closed || !tcb.flags.has(Flags::TIMESTAMPS) {
            return;
        }
        let generation = tcb.generation as u16;
        if (seen.ts_recent, seen.generation) != (tcb.ts_recent, generation) {
            *seen = Seen { ts_recent: tcb.ts_recent, generation, looks: 0 };
        }
        seen.looks = seen.looks.saturating_add(1);
        if seen.looks >= LOOKS_MAX {
            tcb.flags.set(Flags::SILENT);
        }
    }
}
