//! AF_XDP beside AF_PACKET: TCP segments that can leave as one packet do so, where the kernel copies each AF_XDP frame.
//!
//! In copy mode the kernel makes a packet of each AF_XDP frame by itself, and runs the receiver of a veth pair for each of them. AF_PACKET hands
//! over many segments of a connection in one piece, which the kernel cuts behind the queueing discipline. All other packets leave by AF_XDP, which
//! costs less for each. A program asks for it (`OpenOptions::merges_segments`) when it sends such segments.
//!
//! AF_PACKET sends by a queue of the kernel's choice (XPS, else a hash of the flow). The far end of a veth may receive from the queue of the port
//! alone, so an interface of several transmit queues is left to AF_XDP unless the user wrote `merge=yes`.

use std::os::fd::BorrowedFd;

use linerate_mem::{Batch, Pool};
use linerate_port::{
    Caps, Device, Interest, LinkState, OpenError, OpenOptions, Port, PortError, PortSpec, Readiness, Stats, merge_at,
};
use linerate_port_packet::PacketPort;
use linerate_port_xdp::XdpPort;
use linerate_sys::netdev::Netdev;

/// Segments of fewer bytes, headers included, do not pay for another system call.
const LONG_BYTES: usize = 1000;

/// Opens AF_XDP, and a socket that sends beside each of its ports if segments are to be merged. In zero-copy mode nothing is gained by it.
///
/// # Errors
/// Those of either backend.
pub(crate) fn open(spec: PortSpec, pool: &Pool) -> Result<Device, OpenError> {
    let options = spec.options.clone();
    let wanted = options.merges_segments == Some(true) && options.receives() && options.transmits();
    if !wanted || !(spec.wrote("merge") || has_one_queue(&spec.target)) {
        return Ok(linerate_port_xdp::open(spec, pool)?.boxed());
    }
    let beside = PortSpec::new("packet", &spec.target)
        .completed(&OpenOptions { tx_full: options.tx_full, ..OpenOptions::transmit() });
    let merging = |port: XdpPort| -> Result<Box<dyn Port>, OpenError> {
        if port.is_zero_copy() {
            return Ok(Box::new(port));
        }
        let merged = linerate_port_packet::open(beside.clone(), pool)?.into_port();
        Ok(Box::new(Merging::new(port, merged)))
    };
    linerate_port_xdp::open(spec, pool)?.try_map(merging)
}

/// True if the interface has one transmit queue in use, or none that it tells of.
fn has_one_queue(interface: &str) -> bool {
    let channels = Netdev::open(interface).and_then(|device| device.channels()).ok().flatten();
    channels.is_none_or(|all| all.tx.0 + all.combined.0 <= 1)
}

/// The port of a queue.
struct Merging {
    caps: Caps,
    xdp: XdpPort,
    merged: PacketPort,
    /// What is left of the last batch waits for AF_PACKET.
    waits_for_merged: bool,
}

impl Merging {
    fn new(xdp: XdpPort, merged: PacketPort) -> Merging {
        let detail = format!("{}; TCP segments merged by AF_PACKET", xdp.caps().detail);
        let caps = Caps { detail, ..xdp.caps().clone() };
        Merging { caps, xdp, merged, waits_for_merged: false }
    }

    /// True if the batch has segments that leave in one piece, and nothing that was sent before is still on its way, which they would overtake.
    #[inline]
    fn merges(&mut self, batch: &Batch) -> bool {
        batch.has_partial_checksums(0) && has_run(batch) && self.xdp.flush().is_ok_and(|pending| pending == 0)
    }
}

/// True if two long segments of a connection follow each other.
fn has_run(batch: &Batch) -> bool {
    (0..batch.len()).any(|at| batch.packet(at).len() >= LONG_BYTES && merge_at(batch, at, 2).is_some())
}

impl Port for Merging {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.xdp.receive(batch)
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.waits_for_merged = false;
        if !self.merges(batch) {
            return self.xdp.transmit(batch);
        }
        match self.merged.transmit(batch) {
            Ok(packets) => {
                self.waits_for_merged = !batch.is_empty();
                Ok(packets)
            }
            // What is wrong with the interface or a packet is wrong for AF_XDP as well, whose error names the port by its own name.
            Err(_) => self.xdp.transmit(batch),
        }
    }

    fn flush(&mut self) -> Result<usize, PortError> {
        self.xdp.flush()
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        match interest {
            Interest::Transmit if self.waits_for_merged => self.merged.wait(interest, timeout_ns),
            _ => self.xdp.wait(interest, timeout_ns),
        }
    }

    fn arm_wakeup(&mut self, add: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        self.xdp.arm_wakeup(add)
    }

    fn rx_occupancy(&self) -> Option<(u64, u64)> {
        self.xdp.rx_occupancy()
    }

    fn link(&mut self) -> Result<LinkState, PortError> {
        self.xdp.link()
    }

    fn current_frame_len_max(&mut self) -> usize {
        self.xdp.current_frame_len_max()
    }

    /// Each packet was taken by one of them, and is in its counters alone.
    fn stats(&mut self) -> Result<Stats, PortError> {
        let mut stats = self.xdp.stats()?;
        stats.add(self.merged.stats()?);
        Ok(stats)
    }
}
