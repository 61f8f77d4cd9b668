//! What is known of connections, and what programs set.

use super::Engine;
use crate::receive::Settings;
use crate::{Flags, Info, Keepalive, Origin, State, send};

impl Engine {
    /// What is known of a connection.
    pub(crate) fn info(&self, index: u32) -> Info {
        let (tcb, tuple) = (&self.tcbs[index], self.tuple(index));
        let has = |flag| tcb.flags.has(flag);
        Info {
            local: tuple.local_address(),
            remote: tuple.remote_address(),
            origin: if has(Flags::PASSIVE) { Origin::Accepted } else { Origin::Connected },
            state: tcb.state,
            token: tcb.token,
            srtt_us: tcb.srtt_us,
            rttvar_us: tcb.rttvar_us,
            rto_ms: send::rto_ms(tcb, &self.send),
            cwnd: tcb.cwnd,
            ssthresh: tcb.ssthresh,
            mss: tcb.mss,
            in_flight: tcb.in_flight(),
            queued: tcb.queued,
            receive_queued: self.receive.get(tcb.recv).map_or(0, |record| record.ready.bytes),
            send_window: tcb.snd_wnd,
            receive_window: tcb.rcv_edge - tcb.rcv_nxt,
            scales: (tcb.snd_scale() as u8, tcb.rcv_scale() as u8),
            timestamps: has(Flags::TIMESTAMPS),
            sack: has(Flags::SACK),
            ecn: has(Flags::ECN),
            backoffs: send::backoffs(tcb, &self.send),
        }
    }

    /// Number of connections, without those in TIME-WAIT.
    pub(crate) fn connections(&self) -> usize {
        self.tcbs.len()
    }

    /// The connection with this index, if there is one.
    pub(crate) fn connection_at(&self, index: u32) -> Option<crate::Conn> {
        let tcb = self.tcbs.get(index)?;
        (tcb.state != State::Closed).then(|| self.conn(index))
    }

    /// Changes what the program sets for a connection; false if there is no memory for it.
    pub(crate) fn set(&mut self, index: u32, change: impl FnOnce(&mut Settings)) -> bool {
        let tcb = &mut self.tcbs[index];
        let Some(record) = self.receive.record(&mut tcb.recv) else { return false };
        change(&mut record.settings);
        self.receive.clean(&mut tcb.recv, self.now.tick);
        true
    }

    /// Sets when a silent peer is probed.
    pub(crate) fn set_keepalive(&mut self, index: u32, keepalive: Option<Keepalive>) {
        let tcb = &mut self.tcbs[index];
        let Some(record) = self.receive.record(&mut tcb.recv) else { return };
        (record.keepalive, record.heard, record.probes) = (keepalive, self.now.tick, 0);
        match keepalive {
            Some(keepalive) => self.file_keepalive(index, self.now.in_ms(keepalive.idle_ms)),
            None => self.receive.clean(&mut tcb.recv, self.now.tick),
        }
    }
}
