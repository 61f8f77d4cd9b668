//! A port made of two closures: the far end of a link for a backend that has only one direction.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use linerate_mem::{Batch, Pool};
use linerate_port::{Caps, Interest, Port, PortError, Readiness, Stats, complete_checksums};

/// Sends one packet; `false` when there is no room now.
pub type SendProbe = Box<dyn FnMut(&[u8]) -> io::Result<bool> + Send>;
/// The next packet that has arrived, if any.
pub type ReceiveProbe = Box<dyn FnMut() -> io::Result<Option<Vec<u8>>> + Send>;

/// A port that copies packets out of and into closures. It keeps the contract, so that checks that fail on a link with a
/// probe at one end speak of the other end.
pub struct ProbePort {
    pool: Pool,
    caps: Caps,
    send: Option<SendProbe>,
    receive: Option<ReceiveProbe>,
    /// Received, but not handed out yet.
    waiting: VecDeque<Vec<u8>>,
    stats: Stats,
}

const NAP_NS: u64 = 100_000;

impl ProbePort {
    /// A port on `pool` for packets of up to `frame_len_max` bytes.
    pub fn new(
        name: &str,
        pool: &Pool,
        frame_len_max: usize,
        send: Option<SendProbe>,
        receive: Option<ReceiveProbe>,
    ) -> ProbePort {
        let caps = Caps {
            name: name.into(),
            backend: "probe",
            receives: receive.is_some(),
            transmits: send.is_some(),
            frame_len_max,
            frags_max: frame_len_max.div_ceil(pool.packet_len_max()),
            copies: "each packet is copied to or from a vector",
            async_tx: true,
            ..Caps::default()
        };
        let (waiting, stats) = (VecDeque::new(), Stats::default());
        ProbePort { pool: pool.clone(), caps, send, receive, waiting, stats }
    }

    /// Fetches one packet if none waits; true when one does.
    fn fetch(&mut self) -> Result<bool, PortError> {
        if self.waiting.is_empty()
            && let Some(receive) = self.receive.as_mut()
        {
            match receive() {
                Ok(packet) => self.waiting.extend(packet),
                Err(source) => return Err(self.caps.io_error("receive", source)),
            }
        }
        Ok(!self.waiting.is_empty())
    }

    /// Lays the oldest waiting packet out in frames at the end of the batch; false when there is no room or no frame for it.
    fn hand_out(&mut self, batch: &mut Batch) -> bool {
        let Some(packet) = self.waiting.front() else { return false };
        if !self.pool.append(batch, packet, 0) {
            return false;
        }
        self.stats.rx_packets += 1;
        self.stats.rx_bytes += packet.len() as u64;
        self.waiting.pop_front();
        true
    }
}

/// The first packet of a batch and the number of its slots.
fn first_packet(batch: &Batch) -> (Vec<u8>, usize) {
    let mut packet = Vec::new();
    for index in 0..batch.len() {
        packet.extend_from_slice(batch.packet(index));
        if !batch.more(index) {
            return (packet, index + 1);
        }
    }
    (packet, batch.len())
}

impl Port for ProbePort {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        let mut count = 0;
        while self.fetch()? && self.hand_out(batch) {
            count += 1;
        }
        Ok(count)
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        complete_checksums(batch);
        let mut count = 0;
        while !batch.is_empty() {
            let (packet, slots) = first_packet(batch);
            if packet.len() > self.caps.frame_len_max {
                let (port, len, max) = (self.caps.name.clone(), packet.len(), self.caps.frame_len_max);
                return Err(PortError::FrameTooLong { port, len, max });
            }
            let Some(send) = self.send.as_mut() else {
                return Err(PortError::Unsupported { port: self.caps.name.clone(), what: "it only receives".into() });
            };
            match send(&packet) {
                Ok(true) => {}
                Ok(false) => break,
                Err(source) => return Err(self.caps.io_error("send", source)),
            }
            self.pool.free_front(batch, slots);
            self.stats.tx_packets += 1;
            self.stats.tx_bytes += packet.len() as u64;
            count += 1;
        }
        Ok(count)
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        if interest == Interest::Transmit {
            return Ok(Readiness::Ready);
        }
        if self.receive.is_none() {
            return Ok(Readiness::Closed);
        }
        let mut left_ns = timeout_ns;
        while !self.fetch()? {
            if left_ns == 0 {
                return Ok(Readiness::TimedOut);
            }
            let nap_ns = left_ns.min(NAP_NS);
            std::thread::sleep(Duration::from_nanos(nap_ns));
            left_ns -= nap_ns;
        }
        Ok(Readiness::Ready)
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        Ok(self.stats.clone())
    }
}
