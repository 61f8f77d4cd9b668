//! `null:` - takes every packet and keeps none: what a generator reaches when nothing holds it back.
#![forbid(unsafe_code)]

use linerate_mem::{Batch, Pool, Span};
use linerate_port::{Caps, Device, FarSide, Interest, OpenError, Port, PortError, PortSpec, Readiness, Stats};

/// Longest packet in bytes: what a slot's length field can say.
const FRAME_LEN_MAX: usize = u16::MAX as usize;

/// The port that discards. It never reads the packets.
pub struct NullPort {
    pool: Pool,
    caps: Caps,
    stats: Stats,
}

/// Opens `null:`, with frames that go back to `pool`. `queues=N` makes N ports.
///
/// # Errors
/// An unknown option.
pub fn open(spec: PortSpec, pool: &Pool) -> Result<Device<NullPort>, OpenError> {
    spec.finish(&["queues"]).map_err(|error| OpenError::new(&spec, error.problem, ""))?;
    let port = || NullPort { pool: pool.clone(), caps: caps(&spec), stats: Stats::default() };
    Ok(Device::new(spec.to_string(), port(), (1..spec.options.ports()).map(|_| port()).collect()))
}

fn caps(spec: &PortSpec) -> Caps {
    Caps {
        name: spec.to_string(),
        backend: "null",
        transmits: true,
        frame_len_max: FRAME_LEN_MAX,
        frags_max: usize::MAX,
        zero_copy: true,
        copies: "nothing is copied",
        detail: "discards everything".into(),
        far_side: FarSide::Nothing,
        async_tx: true,
        ..Caps::default()
    }
}

impl Port for NullPort {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        Ok(0)
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        let totals = batch.totals();
        if totals.packets != batch.len() as u64 {
            return self.transmit_long(batch);
        }
        self.pool.free(batch);
        self.stats.tx_packets += totals.packets;
        self.stats.tx_bytes += totals.bytes;
        Ok(totals.packets as usize)
    }

    /// It has no need of the packets themselves.
    fn transmit_ref(&mut self, batch: &Batch, from: usize) -> Result<usize, PortError> {
        let (mut at, mut packets) = (from, 0);
        while let Some(Span { slots, len }) = batch.span(at).filter(|span| span.len <= FRAME_LEN_MAX) {
            at += slots;
            packets += 1;
            self.stats.tx_bytes += len as u64;
        }
        self.stats.tx_packets += packets as u64;
        Ok(packets)
    }

    fn wait(&mut self, interest: Interest, _timeout_ns: u64) -> Result<Readiness, PortError> {
        Ok(match interest {
            Interest::Transmit => Readiness::Ready,
            Interest::Receive => Readiness::Closed,
        })
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        Ok(self.stats.clone())
    }
}

impl NullPort {
    /// The batch holds packets of several slots, any of which may be too long.
    #[cold]
    fn transmit_long(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let mut packets = 0;
        while let Some(Span { slots, len }) = batch.span(0) {
            if len > FRAME_LEN_MAX {
                return Err(PortError::FrameTooLong { port: self.caps.name.clone(), len, max: FRAME_LEN_MAX });
            }
            self.pool.free_front(batch, slots);
            self.stats.tx_packets += 1;
            self.stats.tx_bytes += len as u64;
            packets += 1;
        }
        Ok(packets)
    }
}
