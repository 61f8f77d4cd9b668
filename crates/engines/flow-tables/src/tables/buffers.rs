//! Packets that wait for a controller's word, each under a number.

use std::collections::{HashMap, VecDeque};

use linerate_openflow::{ErrorKind, NO_BUFFER, OfError};

use crate::packet::PipelineFields;

/// How long a packet waits, in nanoseconds.
const AGE_NS: u64 = 5_000_000_000;

/// A packet that waits.
pub(super) struct Buffered {
    pub(super) fields: PipelineFields,
    pub(super) data: Vec<u8>,
    since_ns: u64,
}

/// A bounded number of packets.
pub(super) struct Buffers {
    capacity: usize,
    next: u32,
    packets: HashMap<u32, Buffered>,
    /// Numbers in the order in which they were given, also of packets that are gone.
    order: VecDeque<(u32, u64)>,
}

impl Buffers {
    pub(super) fn new(capacity: u32) -> Buffers {
        Buffers { capacity: capacity as usize, next: 1, packets: HashMap::new(), order: VecDeque::new() }
    }

    /// Keeps a packet and returns its number; `None`, and the packet comes back, if there is no room.
    pub(super) fn keep(&mut self, fields: PipelineFields, data: Vec<u8>, now_ns: u64) -> Result<u32, Vec<u8>> {
        if self.packets.len() >= self.capacity {
            return Err(data);
        }
        let number = self.next;
        self.next = if self.next >= NO_BUFFER - 1 { 1 } else { self.next + 1 };
        self.packets.insert(number, Buffered { fields, data, since_ns: now_ns });
        self.order.push_back((number, now_ns));
        Ok(number)
    }

    pub(super) fn get(&self, number: u32) -> Option<&[u8]> {
        self.packets.get(&number).map(|buffered| buffered.data.as_slice())
    }

    /// # Errors
    /// No packet waits under this number.
    pub(super) fn check(&self, number: u32) -> Result<(), OfError> {
        if self.packets.contains_key(&number) { Ok(()) } else { Err(ErrorKind::BadRequestBufferUnknown.into()) }
    }

    /// Takes a packet out.
    pub(super) fn take(&mut self, number: u32) -> Option<Buffered> {
        self.packets.remove(&number)
    }

    /// Forgets packets that have waited for too long.
    pub(super) fn age(&mut self, now_ns: u64) {
        while let Some((number, since_ns)) = self.order.front().copied() {
            if since_ns + AGE_NS > now_ns {
                return;
            }
            self.order.pop_front();
            if self.packets.get(&number).is_some_and(|buffered| buffered.since_ns == since_ns) {
                self.packets.remove(&number);
            }
        }
    }

    pub(super) fn next_deadline_ns(&self) -> u64 {
        self.order.front().map_or(u64::MAX, |(_, since_ns)| since_ns + AGE_NS)
    }
}
