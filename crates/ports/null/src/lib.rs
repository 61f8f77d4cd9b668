//! `null:` - takes every packet and keeps none: what a generator reaches when nothing holds it back.
#![forbid(unsafe_code)]

use linerate_mem::{Batch, Pool};
use linerate_port::{Caps, Interest, OpenError, Port, PortError, PortSpec, Readiness, Stats};

/// The port that discards. It never reads the packets.
pub struct NullPort {
    pool: Pool,
    caps: Caps,
    stats: Stats,
}

/// Opens `null:`, with frames that go back to `pool`.
pub fn open(spec: PortSpec, pool: &Pool) -> Result<NullPort, OpenError> {
    spec.finish(&[]).map_err(|error| OpenError::new(&spec, error.problem, ""))?;
    let caps = Caps {
        name: spec.to_string(),
        backend: "null",
        transmits: true,
        frame_len_max: usize::from(u16::MAX),
        segments_max: usize::MAX,
        zero_copy: true,
        copies: "nothing is copied",
        detail: "discards everything".into(),
        queues: 1,
        drains_itself: true,
        ..Caps::default()
    };
    Ok(NullPort { pool: pool.clone(), caps, stats: Stats::default() })
}

impl Port for NullPort {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, _batch: &mut Batch) -> Result<usize, PortError> {
        Ok(0)
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        if !batch.is_of(self.pool.region()) {
            return Err(PortError::ForeignPool { port: self.caps.name.clone() });
        }
        let totals = batch.totals();
        self.pool.put(batch);
        self.stats.tx_packets += totals.packets;
        self.stats.tx_bytes += totals.bytes;
        Ok(totals.packets as usize)
    }

    fn wait(&mut self, interest: Interest, _timeout_ns: u64) -> Result<Readiness, PortError> {
        Ok(match interest {
            Interest::Transmit => Readiness::Ready,
            Interest::Receive => Readiness::Ended,
        })
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        Ok(self.stats.clone())
    }
}
