//! The counting XDP program on the receiver's interface: it checks each frame's signature, marks its number in a bitmap and
//! drops the frame, in the soft interrupt that brought it. No receiving thread takes part, so none can be late.

use std::io;

use linerate_bpf::programs::count_rx::{CountRx, CountRxSpec};
use linerate_bpf::{AttachMode, BpfError, XdpLink};

use super::endpoint::Arrivals;
use crate::topology::Side;

/// Numbers of a trial that are told apart: 33 million packets, a bitmap of 4 MiB.
pub(crate) const SEQUENCES: u64 = 1 << 25;

/// The program, and its hold on the interface: gone when dropped, or with the process.
pub struct Sink {
    program: CountRx,
    _link: XdpLink,
    interface: &'static str,
}

impl Sink {
    pub(crate) fn attach(side: &Side) -> io::Result<Result<Sink, BpfError>> {
        let spec =
            CountRxSpec { streams: 1, sequences: SEQUENCES, several_queues: false, latency: false, frags: false };
        side.namespace.run(|| {
            let program = CountRx::load(spec)?;
            let link = XdpLink::attach(program.program(), side.interface.index, AttachMode::Any)?;
            Ok(Sink { program, _link: link, interface: side.interface.name })
        })
    }

    pub(crate) fn describe(&self) -> String {
        format!("XDP program on {} that checks, counts and drops", self.interface)
    }

    /// Forgets what was counted.
    pub(crate) fn clear(&self) {
        self.program.clear();
    }

    /// What was counted since the last `clear`.
    pub(crate) fn arrivals(&self) -> Arrivals {
        let stream = self.program.stream(0);
        let others = self.program.others();
        Arrivals {
            delivered: stream.distinct,
            duplicated: stream.duplicates,
            reordered: stream.reordered,
            received: stream.packets + others.unsigned_packets + others.foreign_packets,
            latency: None,
            drops: Vec::new(),
        }
    }
}
