//! What is due: time-outs of the send side, delayed acknowledgments, keep-alive, TIME-WAIT.

use linerate_slab::Expired;

use super::{Engine, Event};
use crate::send::{self, TimerOutcome};
use crate::time::NEVER;
use crate::{CloseReason, Flags, SoftError, State};

/// Value of [`Engine::due_ns`] when it has to be found out.
pub(super) const UNKNOWN: u64 = 0;
/// Entries worked on in one call, at most; the rest is due at once.
const CALL_MAX: usize = 4096;
/// Entries whose blocks are asked for together.
const GROUP: usize = 32;
/// Bit of an id of the wheel: the entry is one of keep-alive.
pub(super) const IS_KEEPALIVE: u32 = 1 << 31;

impl Engine {
    /// Does what is due.
    pub(crate) fn run_timers(&mut self) {
        self.egress.tick(self.now);
        self.expire_delayed_acks();
        self.expire_fresh();
        self.expire_wheel();
        self.look_for_silence();
        for _ in 0..CALL_MAX {
            let Some(place) = self.time_waits.expired(self.now, false) else { break };
            self.forget(place);
        }
        self.due_ns.set(UNKNOWN);
    }

    /// When something is due next, in nanoseconds; it may be too early.
    #[inline]
    pub(crate) fn next_deadline_ns(&self) -> u64 {
        if self.has_touched() || !self.events.is_empty() {
            return self.now.ns;
        }
        let known_ns = self.due_ns.get();
        let own_ns = if known_ns == UNKNOWN { self.find_due() } else { known_ns };
        own_ns.min(self.egress.deadline_ns())
    }

    /// When a timer of this layer is due, in nanoseconds. It is remembered until something is filed, or timers ran: what is taken out before leaves a
    /// time that is too early.
    #[inline(never)]
    fn find_due(&self) -> u64 {
        // Ticks from now on; none is ahead by so many.
        let mut ahead = i32::MAX;
        let mut is_next = |tick: Option<u32>| {
            if let Some(tick) = tick {
                ahead = ahead.min(tick.wrapping_sub(self.now.tick) as i32);
            }
        };
        is_next(self.wheel.next_tick());
        is_next(self.fresh.next_tick());
        is_next(self.acks.front().map(|delayed| self.ack_tick(delayed.due)));
        is_next(self.time_waits.next_tick());
        is_next(self.silence.next_tick());
        let due_ns = match ahead {
            i32::MAX => u64::MAX,
            ahead => (self.now.ns / 1_000_000 + ahead.max(0) as u64) * 1_000_000,
        };
        self.due_ns.set(due_ns);
        due_ns
    }

    /// The tick near now whose low 16 bits are these.
    fn ack_tick(&self, low: u16) -> u32 {
        self.now.tick.wrapping_add((low.wrapping_sub(self.now.tick as u16) as i16) as u32)
    }

    fn expire_delayed_acks(&mut self) {
        for _ in 0..CALL_MAX {
            let Some(delayed) = self.acks.front().copied() else { return };
            if (self.ack_tick(delayed.due).wrapping_sub(self.now.tick) as i32) > 0 {
                return;
            }
            self.acks.pop();
            if self.config.prefetch
                && let Some(later) = self.acks.nth(GROUP)
            {
                self.tcbs.prefetch(later.index);
            }
            let now = self.now.tick as u16;
            let tcb = &mut self.tcbs[delayed.index];
            if tcb.generation as u16 != delayed.generation || tcb.state == State::Closed {
                continue;
            }
            tcb.flags.clear(Flags::ACK_FILED);
            if !tcb.flags.has(Flags::ACK_DELAYED) {
                continue;
            }
            if (tcb.ack_due.wrapping_sub(now) as i16) <= 0 {
                // One segment of full size says nothing of the program: more of them may have been expected.
                let is_small = tcb.rcv_nxt - tcb.ack_sent < u32::from(tcb.rcv_mss);
                tcb.flags.set(if is_small { Flags::ACK_NOW | Flags::ACK_AT_ONCE } else { Flags::ACK_NOW });
                self.counters.delayed_acks += 1;
                self.touch(delayed.index);
            } else {
                self.file(delayed.index);
            }
        }
    }

    pub(super) fn expire_wheel(&mut self) {
        let mut done = 0;
        while done < CALL_MAX {
            let mut group = [None; GROUP];
            let mut count = 0;
            while count < GROUP
                && let Some(expired) = self.wheel.pop(self.now.tick)
            {
                if self.config.prefetch {
                    self.tcbs.prefetch(expired.id & !IS_KEEPALIVE);
                }
                group[count] = Some(expired);
                count += 1;
            }
            group.into_iter().flatten().for_each(|expired| self.expire(expired));
            if count < GROUP {
                return;
            }
            done += count;
        }
    }

    /// Files an entry of the wheel, and returns its tick. A wheel that is full is freed of the entries that blocks do not go by any more,
    /// because they were filed again for earlier; each block has two at most that count, so there is room then.
    #[inline]
    pub(super) fn file_entry(&mut self, id: u32, due: u32) -> u32 {
        self.due_ns.set(UNKNOWN);
        let tick = self.wheel.add(id, due).or_else(|| {
            self.drop_stale_entries();
            self.wheel.add(id, due)
        });
        match tick {
            Some(NEVER) => 1,
            Some(tick) => tick,
            None => NEVER,
        }
    }

    #[cold]
    fn drop_stale_entries(&mut self) {
        let Engine { wheel, tcbs, receive, .. } = self;
        wheel.retain(|entry| {
            // A block that is free keeps its entry for the next connection.
            let Some(tcb) = tcbs.get(entry.id & !IS_KEEPALIVE) else { return false };
            let filed = match entry.id & IS_KEEPALIVE {
                0 => tcb.filed,
                _ => receive.get(tcb.recv).map_or(NEVER, |record| record.filed),
            };
            filed != NEVER && entry.covers(filed)
        });
    }

    /// Files the next question whether the peer is silent.
    pub(super) fn file_keepalive(&mut self, index: u32, due: u32) {
        let filed = self.file_entry(index | IS_KEEPALIVE, due);
        if let Some(record) = self.receive.get_mut(self.tcbs[index].recv) {
            record.filed = filed;
        }
    }

    /// An entry of the wheel came out: it is stale, too early, or due.
    fn expire(&mut self, expired: Expired) {
        if expired.id & IS_KEEPALIVE != 0 {
            self.expire_keepalive(expired);
            return;
        }
        let Some(tcb) = self.tcbs.get_mut(expired.id) else { return };
        if tcb.filed == NEVER || !expired.covers(tcb.filed) {
            return;
        }
        tcb.filed = NEVER;
        if tcb.state != State::Closed && send::deadline(tcb) != NEVER {
            self.expire_block(expired.id);
        }
    }

    /// The entry of a connection that waits for something came out: it goes into the wheel if it is too early.
    pub(super) fn expire_block(&mut self, index: u32) {
        let tcb = &mut self.tcbs[index];
        let due = send::deadline(tcb);
        if !self.now.is_due(due) {
            self.tcbs[index].filed = self.file_entry(index, due);
            return;
        }
        if tcb.state.is_attempt() && self.egress.ip.has_failed(tcb.hop) {
            // Nobody is there to answer. Like Linux, only an attempt ends for it.
            self.end(index, CloseReason::Unreachable);
            return;
        }
        let patience_ms = self.receive.get(tcb.recv).and_then(|record| record.settings.user_timeout_ms);
        match send::on_timer(tcb, &mut self.send, patience_ms, self.now) {
            TimerOutcome::Nothing => self.file(index),
            TimerOutcome::Send => self.touch(index),
            TimerOutcome::Doubt => {
                self.soft_error(index, SoftError::NoAnswer);
                self.suspect_black_hole(index);
                self.touch(index);
            }
            TimerOutcome::Room => {
                self.events.push_back(Event::Sendable(index));
                self.touch(index);
            }
            TimerOutcome::GiveUp => self.give_up(index),
        }
    }

    /// The peer does not answer.
    fn give_up(&mut self, index: u32) {
        self.abort(index, CloseReason::TimedOut);
    }

    /// Probes a silent peer, or ends the connection after too many probes (RFC 9293 section 3.8.4).
    fn expire_keepalive(&mut self, expired: Expired) {
        let index = expired.id & !IS_KEEPALIVE;
        let Some(tcb) = self.tcbs.get(index).filter(|tcb| tcb.is_synchronized() && tcb.state != State::TimeWait) else {
            return;
        };
        let Some(record) = self.receive.get_mut(tcb.recv) else { return };
        let Some(keepalive) = record.keepalive.filter(|_| record.filed != NEVER && expired.covers(record.filed)) else {
            return;
        };
        record.filed = NEVER;
        let wait = keepalive.idle_ms.saturating_add(keepalive.interval_ms.saturating_mul(record.probes));
        let due = record.heard.wrapping_add(wait.min(i32::MAX as u32));
        if (due.wrapping_sub(self.now.tick) as i32) > 0 {
            self.file_keepalive(index, due);
            return;
        }
        if record.probes >= keepalive.probes {
            self.counters.keepalive_fails += 1;
            self.give_up(index);
            return;
        }
        record.probes += 1;
        self.file_keepalive(index, self.now.in_ms(keepalive.interval_ms));
        self.counters.keepalive_probes += 1;
        self.send_probe(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::fresh::tests as fresh;

    const MS: u64 = 1_000_000;

    fn engine() -> Engine {
        fresh::engine(4)
    }

    /// A connection whose next deadline is in so many milliseconds, filed in the wheel if it has to be.
    fn begin(engine: &mut Engine, ms: u32) -> u32 {
        let index = fresh::begin(engine, 3, ms);
        engine.settle(1);
        index
    }

    /// Connections with the same block, one after the other, share one entry, which finds the deadline of the last one.
    #[test]
    fn an_entry_outlives_its_connection() {
        let mut engine = engine();
        for life in 0..100 {
            let index = begin(&mut engine, 200 + life);
            assert_eq!((index, engine.wheel.len()), (0, 1));
            engine.end(index, CloseReason::Aborted);
        }
        // Nor is the entry of a free block taken for one that nobody needs.
        engine.drop_stale_entries();
        let index = begin(&mut engine, 400);
        assert_eq!(engine.wheel.len(), 1);
        engine.set_now(5_200 * MS);
        engine.expire_wheel();
        // The deadline was not yet due; it is found at its own tick at the latest.
        assert!(engine.wheel.len() == 1 && engine.tcbs[index].filed != NEVER);
        let deadline = engine.tcbs[index].send_deadline;
        for ms in 5_201..=5_400 {
            assert_eq!((engine.tcbs[index].send_deadline, deadline), (deadline, 5_400));
            engine.set_now(ms * MS);
            engine.expire_wheel();
        }
        assert_ne!(engine.tcbs[index].send_deadline, deadline);
    }

    /// What was found to be due next is found out again when something earlier is filed, and when timers ran.
    #[test]
    fn a_deadline_that_is_earlier_than_the_one_that_is_known_is_found() {
        let mut engine = engine();
        let index = begin(&mut engine, 400);
        let first_ns = engine.next_deadline_ns();
        assert!((5_100 * MS..=5_400 * MS).contains(&first_ns), "{first_ns}");
        assert_eq!(engine.next_deadline_ns(), first_ns);
        engine.tcbs[index].send_deadline = engine.now.in_ms(100);
        engine.file(index);
        assert_eq!(engine.next_deadline_ns(), 5_100 * MS);
        let tcb = &mut engine.tcbs[index];
        tcb.ack_due = (5_040 & 0xffff) as u16;
        tcb.flags.set(Flags::ACK_DELAYED);
        engine.file(index);
        assert_eq!(engine.next_deadline_ns(), 5_040 * MS);
        engine.set_now(5_040 * MS);
        engine.expire_delayed_acks();
        engine.touched.clear();
        engine.run_timers();
        assert_eq!(engine.next_deadline_ns(), 5_100 * MS);
    }

    /// An entry of a free block that came out is not counted on by the next connection.
    #[test]
    fn a_block_whose_entry_came_out_while_it_was_free_is_filed_again() {
        let mut engine = engine();
        let index = begin(&mut engine, 200);
        engine.end(index, CloseReason::Aborted);
        engine.set_now(5_300 * MS);
        engine.expire_wheel();
        assert!(engine.wheel.is_empty() && engine.tcbs[index].filed == NEVER);
        begin(&mut engine, 200);
        assert_eq!(engine.wheel.len(), 1);
    }
}
