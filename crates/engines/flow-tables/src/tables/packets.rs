//! Packets to controllers, and packets from them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use linerate_openflow::{Action, ErrorKind, NO_BUFFER, OfError, PacketIn, PacketInReason, PacketOut, PortNumber};

use super::{Event, FlowTables};
use crate::records::{PacketInRecord, PacketOutRecord};

/// The controller wants the whole packet (`OFPCML_NO_BUFFER`).
const WHOLE: u16 = 0xffff;

impl FlowTables {
    /// Sends a packet of a controller.
    ///
    /// # Errors
    /// What the specification says of the request; nothing has happened then.
    pub fn packet_out(&mut self, request: PacketOut) -> Result<(), OfError> {
        let in_port = request.in_port;
        let valid = in_port == PortNumber::CONTROLLER || in_port == PortNumber::LOCAL;
        if !valid && (in_port.0 == 0 || in_port > PortNumber::MAX) {
            return Err(ErrorKind::BadRequestBadPort.into());
        }
        self.state().check_packet_out(&request.actions)?;
        let data = if request.buffer_id == NO_BUFFER {
            request.data
        } else {
            let buffered = self.buffers.take(request.buffer_id);
            buffered.ok_or(OfError(ErrorKind::BadRequestBufferUnknown))?.data
        };
        let state = self.state();
        let to = request.actions.iter().find_map(|action| match action {
            Action::Output { port, .. } => state.port_by_number(*port),
            _ => None,
        });
        let worker = to.or_else(|| state.port_by_number(in_port)).map_or(0, |port| port.shared.home());
        self.give_to_worker(worker, PacketOutRecord { in_port, actions: Some(Arc::new(request.actions)), data });
        Ok(())
    }

    /// True if a packet-out would find room in the queue of each worker. A program that reads no requests meanwhile holds a controller
    /// back that sends packets faster than the worker takes them.
    pub fn takes_packet_outs(&self) -> bool {
        let waiting = |worker: &super::WorkerEnd| worker.packet_outs_waiting.load(Ordering::Acquire);
        self.workers.iter().all(|worker| waiting(worker) < self.options.packet_outs_max)
    }

    /// Sends a packet that waited in a buffer through the tables.
    pub(super) fn send_buffered(&mut self, number: u32) {
        let Some(buffered) = self.buffers.take(number) else { return };
        let in_port = PortNumber(buffered.fields.in_port);
        let worker = self.state().port_by_number(in_port).map_or(0, |port| port.shared.home());
        self.give_to_worker(worker, PacketOutRecord { in_port, actions: None, data: buffered.data });
    }

    fn give_to_worker(&mut self, worker: usize, record: PacketOutRecord) {
        // The packet meets the changes of requests before it.
        self.begin_version();
        let Some(worker) = self.workers.get(worker) else {
            self.refused_packet_outs += 1;
            return;
        };
        worker.packet_outs_waiting.fetch_add(1, Ordering::AcqRel);
        if worker.packet_outs.try_send(record).is_err() {
            worker.packet_outs_waiting.fetch_sub(1, Ordering::AcqRel);
            self.refused_packet_outs += 1;
        }
        (worker.wake)();
    }

    /// Takes packets that workers have for controllers, at most `most`.
    pub(super) fn take_packet_ins(&mut self, most: usize) {
        // Before the queues are looked at, so that a packet that comes meanwhile is announced again.
        self.shared.packet_ins.store(false, Ordering::SeqCst);
        let mut taken = 0;
        for worker in 0..self.workers.len() {
            while taken < most
                && let Some(record) = self.workers[worker].packet_ins.receive()
            {
                taken += 1;
                let (packet_in, memory) = self.packet_in(record);
                self.workers[worker].packet_ins.give_back(memory);
                self.events.push(Event::PacketIn(packet_in));
            }
        }
        if taken == most {
            self.shared.packet_ins.store(true, Ordering::SeqCst);
        }
    }

    /// The message about a packet, and memory that is free again.
    fn packet_in(&mut self, record: PacketInRecord) -> (PacketIn, Vec<u8>) {
        let PacketInRecord { fields, reason, table, cookie, max_len, data } = record;
        let total_len = data.len().min(usize::from(u16::MAX)) as u16;
        let keep = max_len != WHOLE;
        let kept = if keep { self.buffers.keep(fields, data, self.now_ns) } else { Err(data) };
        let (buffer_id, sent, memory) = match kept {
            Ok(number) => {
                let whole = self.buffers.get(number).unwrap_or_default();
                (number, whole[..whole.len().min(usize::from(max_len))].to_vec(), Vec::new())
            }
            Err(data) => (NO_BUFFER, data.clone(), data),
        };
        let packet_in = PacketIn {
            buffer_id,
            total_len,
            reason: reason.unwrap_or(PacketInReason::NoMatch),
            table,
            cookie,
            matching: fields.to_match(),
            data: sent,
        };
        (packet_in, memory)
    }
}
