//! What passes between workers and the control thread: packets for controllers, and packets from them.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use linerate_openflow::{Action, PacketInReason, PortNumber};

use crate::packet::PipelineFields;

/// A packet for the controllers, as a worker found it.
#[derive(Debug, Default)]
pub(crate) struct PacketInRecord {
    pub(crate) fields: PipelineFields,
    pub(crate) reason: Option<PacketInReason>,
    pub(crate) table: u8,
    pub(crate) cookie: u64,
    /// Bytes for the controllers; 0xffff: all, unbuffered.
    pub(crate) max_len: u16,
    pub(crate) data: Vec<u8>,
}

/// A packet from a controller, or one that waited in a buffer.
#[derive(Debug)]
pub(crate) struct PacketOutRecord {
    pub(crate) in_port: PortNumber,
    /// `None`: through the tables from the first one on.
    pub(crate) actions: Option<Arc<Vec<Action>>>,
    pub(crate) data: Vec<u8>,
}

/// A bounded queue whose records are used again: the consumer sends them back, emptied.
pub(crate) struct RecordSender {
    records: SyncSender<PacketInRecord>,
    used: Receiver<PacketInRecord>,
}

pub(crate) struct RecordReceiver {
    records: Receiver<PacketInRecord>,
    used: SyncSender<PacketInRecord>,
}

/// Makes such a queue.
pub(crate) fn record_queue(capacity: usize) -> (RecordSender, RecordReceiver) {
    let (records, received) = sync_channel(capacity);
    let (used, emptied) = sync_channel(capacity);
    (RecordSender { records, used: emptied }, RecordReceiver { records: received, used })
}

impl RecordSender {
    /// Memory for the bytes of a record.
    pub(crate) fn memory(&self) -> Vec<u8> {
        self.used.try_recv().unwrap_or_default().data
    }

    /// False if the queue is full, or nobody reads it.
    pub(crate) fn send(&self, record: PacketInRecord) -> bool {
        self.records.try_send(record).is_ok()
    }
}

impl RecordReceiver {
    pub(crate) fn receive(&self) -> Option<PacketInRecord> {
        self.records.try_recv().ok()
    }

    /// Gives the memory of a record back.
    pub(crate) fn give_back(&self, mut memory: Vec<u8>) {
        memory.clear();
        let _ = self.used.try_send(PacketInRecord { data: memory, ..PacketInRecord::default() });
    }
}
