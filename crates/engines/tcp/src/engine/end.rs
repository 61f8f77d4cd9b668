//! How connections end: at once, or by way of TIME-WAIT.

use super::timers::UNKNOWN;
use super::{Engine, Event, IS_TIME_WAIT, tuple_of};
use crate::time::NEVER;
use crate::time_wait::Record;
use crate::tuple::Tuple;
use crate::{CloseReason, Flags, State, send};

/// TIME-WAIT records that are asked for ahead when the oldest one is forgotten.
const RECORDS_AHEAD: usize = 16;

impl Engine {
    /// The connection is over. The program is told if it knows the connection, and the block is freed afterwards.
    pub(crate) fn end(&mut self, index: u32, why: CloseReason) {
        let tcb = &self.tcbs[index];
        match tcb.state {
            State::Closed => return,
            State::SynSent | State::SynReceived => self.counters.attempt_fails += 1,
            State::Established | State::CloseWait if why != CloseReason::Normal => self.counters.estab_resets += 1,
            _ => {}
        }
        if tcb.state == State::SynReceived && tcb.flags.has(Flags::PASSIVE) {
            self.no_longer_half_open(index);
        }
        self.table.remove(self.hash_of(index), index);
        if why == CloseReason::Normal && self.lingers(index) {
            return;
        }
        if self.tcbs[index].flags.has(Flags::V6) {
            self.pairs.remove(self.tcbs[index].remote);
        }
        self.release(index, why);
    }

    /// A connection of a listener leaves the handshake.
    pub(crate) fn no_longer_half_open(&mut self, index: u32) {
        let tuple = self.tuple(index);
        self.listeners.count(tuple.local_ip(), tuple.local_port, false);
    }

    /// True if the program has not taken all bytes of a connection that is over. Its block stays, outside of the table, until the program
    /// has, and is told of the end then.
    fn lingers(&mut self, index: u32) -> bool {
        let tcb = &mut self.tcbs[index];
        let Some(record) = self.receive.get_mut(tcb.recv).filter(|record| !record.ready.is_empty()) else {
            return false;
        };
        record.keepalive = None;
        send::ended(tcb, &mut self.send);
        tcb.state = State::TimeWait;
        tcb.send_deadline = NEVER;
        true
    }

    /// The connection enters TIME-WAIT: a record takes its place. Without room the oldest record makes room. An acknowledgment that the connection
    /// owes is the record's now.
    pub(crate) fn time_wait(&mut self, index: u32) {
        let owes = self.tcbs[index].flags.has(Flags::ACK_NOW);
        let until = self.now.in_ms(self.config.time_wait_ms);
        if self.time_waits.is_full()
            && let Some(oldest) = self.time_waits.expired(self.now, true)
        {
            self.counters.time_wait_overflow += 1;
            self.forget(oldest);
        }
        let record = Record::of(&self.tcbs[index], until);
        self.counters.time_wait += 1;
        self.due_ns.set(UNKNOWN);
        let Some(place) = self.time_waits.add(record) else {
            self.end(index, CloseReason::Normal);
            return;
        };
        let hash = self.hash_of(index);
        self.table.replace(hash, index, place | IS_TIME_WAIT);
        // The port takes nothing now and then. Of more connections than there can be, the last ones have to acknowledge a FIN that comes again.
        if owes && self.owing.len() < self.tcbs.capacity() {
            self.owing.push_back((self.tuple_of_record(place), record));
        }
        if self.lingers(index) {
            let tcb = &mut self.tcbs[index];
            if tcb.flags.has(Flags::V6) {
                // The pair of addresses is the record's now. There is room for one more, because blocks and records have one each.
                let pair = self.pairs[tcb.remote];
                match self.pairs.insert(pair) {
                    Some(own) => tcb.remote = own,
                    None => tcb.flags.clear(Flags::V6),
                }
            }
            return;
        }
        self.release(index, CloseReason::Normal);
    }

    /// The table does not lead to the block any more, and no bytes are left for the program, or it does not want them.
    pub(crate) fn release(&mut self, index: u32, why: CloseReason) {
        let tcb = &mut self.tcbs[index];
        if tcb.state == State::TimeWait && tcb.flags.has(Flags::V6) {
            self.pairs.remove(tcb.remote);
        }
        send::ended(tcb, &mut self.send);
        self.receive.end(&mut tcb.recv);
        tcb.state = State::Closed;
        // `filed` stays, because the entry of the wheel does: the next connection with this block need not file a deadline behind it.
        tcb.send_deadline = NEVER;
        if tcb.flags.has(Flags::KNOWN) {
            self.events.push_back(Event::Closed(index, why));
        } else {
            self.free(index);
        }
    }

    /// The block can be used again.
    pub(crate) fn free(&mut self, index: u32) {
        self.tcbs[index].flags = Flags(0);
        self.tcbs.remove(index);
    }

    /// Takes a TIME-WAIT record out of the table.
    pub(crate) fn forget(&mut self, place: u32) {
        if self.config.prefetch {
            self.prefetch_oldest();
        }
        let record = self.time_waits.get(place);
        let hash = match record.pair {
            None => self.hash_v4(record.local, record.remote, record.ports()),
            Some(_) => self.hash(&self.tuple_of_record(place)),
        };
        self.table.remove(hash, place | IS_TIME_WAIT);
        let record = self.time_waits.remove(place);
        if let Some(pair) = record.pair {
            self.pairs.remove(pair);
        }
    }

    /// Asks for what the records need that are forgotten after the next ones: of one the line, of another one before it the bucket.
    fn prefetch_oldest(&self) {
        if let Some(place) = self.time_waits.later(RECORDS_AHEAD) {
            self.time_waits.prefetch(place);
        }
        if let Some(place) = self.time_waits.later(RECORDS_AHEAD / 2) {
            let record = self.time_waits.get(place);
            self.prefetch_bucket(self.hash_v4(record.local, record.remote, record.ports()));
        }
    }

    /// Addresses and ports of a TIME-WAIT record.
    pub(crate) fn tuple_of_record(&self, place: u32) -> Tuple {
        let record = self.time_waits.get(place);
        let [local, remote] = record.pair.map_or(record.addresses(), |pair| self.pairs[pair]);
        let (local_port, remote_port) = (record.local_port(), record.remote_port());
        Tuple { local, remote, local_port, remote_port, v6: record.pair.is_some() }
    }

    /// This side closes its direction.
    pub(crate) fn close(&mut self, index: u32) {
        let tcb = &mut self.tcbs[index];
        match tcb.state {
            State::SynSent => {
                self.end(index, CloseReason::Aborted);
                return;
            }
            State::SynReceived => {}
            State::Established => tcb.state = State::FinWait1,
            State::CloseWait => tcb.state = State::LastAck,
            _ => return,
        }
        send::close(&mut self.tcbs[index], &mut self.send);
        self.touch(index);
    }

    /// Ends a connection at once, with RST if the peer knows of it.
    pub(crate) fn abort(&mut self, index: u32, why: CloseReason) {
        let tcb = &self.tcbs[index];
        if tcb.state != State::SynSent && tcb.state != State::TimeWait {
            let (tuple, seq, ack) = (tuple_of(tcb, &self.pairs), tcb.snd_nxt, tcb.rcv_nxt);
            self.send_reset(&tuple, seq, Some(ack));
        }
        if self.tcbs[index].state == State::TimeWait {
            self.release(index, why);
        } else {
            self.end(index, why);
        }
    }
}
