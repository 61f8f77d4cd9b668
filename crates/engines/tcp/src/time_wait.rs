//! TIME-WAIT (RFC 9293 section 3.3.2, RFC 6191): what is remembered of a connection that ended, in 48 bytes.

use linerate_slab::{Fifo, PopulateError, ReserveError, Slab};

use crate::{Flags, Now, Seq, Tcb};

/// What is remembered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) local: u32,
    pub(crate) remote: u32,
    local_port: u16,
    remote_port: u16,
    pub(crate) snd_nxt: Seq,
    pub(crate) rcv_nxt: Seq,
    pub(crate) ts_recent: u32,
    pub(crate) ts_offset: u32,
    /// Tick at which it is forgotten.
    pub(crate) until: u32,
    /// Number of the record, never 0; 0 in a place that is free.
    serial: u32,
    pub(crate) timestamps: bool,
    /// The addresses are this pair of IPv6 addresses.
    pub(crate) pair: Option<u32>,
}

impl Record {
    pub(crate) fn of(tcb: &Tcb, until: u32) -> Record {
        Record {
            local: tcb.local,
            remote: tcb.remote,
            local_port: tcb.local_port,
            remote_port: tcb.remote_port,
            snd_nxt: tcb.snd_nxt,
            rcv_nxt: tcb.rcv_nxt,
            ts_recent: tcb.ts_recent,
            ts_offset: tcb.ts_offset,
            until,
            serial: 0,
            timestamps: tcb.flags.has(Flags::TIMESTAMPS),
            pair: tcb.flags.has(Flags::V6).then_some(tcb.remote),
        }
    }

    pub(crate) fn ports(&self) -> u32 {
        u32::from(self.local_port) << 16 | u32::from(self.remote_port)
    }

    /// The first number of a connection with the same addresses and ports: `isn`, if it is behind all that were used, else the least that is.
    pub(crate) fn next_start(&self, isn: u32) -> Seq {
        let least = self.snd_nxt + 0x1_0001;
        if Seq(isn).after(least) { Seq(isn) } else { least }
    }

    /// Addresses of IPv4.
    pub(crate) fn addresses(&self) -> [u128; 2] {
        [self.local.into(), self.remote.into()]
    }

    pub(crate) fn local_port(&self) -> u16 {
        self.local_port
    }

    pub(crate) fn remote_port(&self) -> u16 {
        self.remote_port
    }
}

/// An entry of the queue.
#[derive(Clone, Copy)]
struct Queued {
    index: u32,
    serial: u32,
    until: u32,
}

/// The records, and a queue of them in the order in which they run out.
pub(crate) struct TimeWaits {
    records: Slab<Record>,
    queue: Fifo<Queued>,
    serial: u32,
}

impl TimeWaits {
    pub(crate) fn new(capacity: usize) -> Result<TimeWaits, ReserveError> {
        Ok(TimeWaits { records: Slab::new(capacity)?, queue: Fifo::new(2 * capacity)?, serial: 0 })
    }

    /// Takes memory for so many records in advance.
    pub(crate) fn populate(&mut self, count: usize) -> Result<(), PopulateError> {
        self.records.populate(count)?;
        self.queue.populate(2 * count)
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.records.len() == self.records.capacity() || self.queue.len() == self.queue_capacity()
    }

    fn queue_capacity(&self) -> usize {
        2 * self.records.capacity()
    }

    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        self.records.prefetch(index);
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> &Record {
        &self.records[index]
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Record {
        &mut self.records[index]
    }

    #[inline]
    pub(crate) fn is_v4(&self, index: u32, local: u32, remote: u32, ports: u32) -> bool {
        let record = &self.records[index];
        record.remote == remote && record.local == local && record.ports() == ports && record.pair.is_none()
    }

    /// Remembers; `None` if there is no room.
    pub(crate) fn add(&mut self, record: Record) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        self.serial = self.serial.wrapping_add(1).max(1);
        let index = self.records.insert(Record { serial: self.serial, ..record })?;
        self.queue.push(Queued { index, serial: self.serial, until: record.until });
        Some(index)
    }

    /// Forgets; the table must not name the record any more.
    pub(crate) fn remove(&mut self, index: u32) -> Record {
        let record = self.records.remove(index);
        self.records[index].serial = 0;
        record
    }

    /// The record that runs out first, if its time has come (or in any case, if `in_any_case`). The caller removes it.
    pub(crate) fn expired(&mut self, now: Now, in_any_case: bool) -> Option<u32> {
        loop {
            let first = *self.queue.front()?;
            let record = &self.records[first.index];
            if record.serial != first.serial {
                self.queue.pop();
                continue;
            }
            if !in_any_case && !now.is_due(first.until) {
                return None;
            }
            self.queue.pop();
            if record.until == first.until || in_any_case {
                return Some(first.index);
            }
            // It was prolonged meanwhile.
            self.queue.push(Queued { until: record.until, ..first });
        }
    }

    /// The record that is to run out behind so many others, or that did so early.
    pub(crate) fn later(&self, ahead: usize) -> Option<u32> {
        self.queue.nth(ahead).map(|queued| queued.index)
    }

    /// Tick at which the first entry comes up.
    pub(crate) fn next_tick(&self) -> Option<u32> {
        self.queue.front().map(|first| first.until)
    }
}
