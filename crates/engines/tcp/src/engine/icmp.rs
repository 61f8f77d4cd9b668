//! ICMP errors about segments of this side. They are believed only if the quoted number is in flight (RFC 5927).

use linerate_ip::{ErrorKind, IcmpError};
use linerate_wire::Protocol;

use super::{Engine, Event, IS_TIME_WAIT};
use crate::tuple::Tuple;
use crate::{CloseReason, Seq, SoftError, send};

impl Engine {
    /// Takes an ICMP error in.
    pub(crate) fn icmp_error(&mut self, error: &IcmpError) {
        let original = &error.original;
        if original.protocol == Protocol::UDP {
            let socket = self.egress.udp.error(error, &mut self.egress.ip, self.now.ns);
            if let Some(socket) = socket.filter(|_| !matches!(error.kind, ErrorKind::PacketTooBig { .. })) {
                self.events.push_back(Event::Undelivered(socket, error.kind));
            }
            return;
        }
        let Some(sequence) = original.sequence.filter(|_| original.protocol == Protocol::TCP) else { return };
        let tuple = Tuple::new(original.local, original.remote);
        let Some(index) = self.find(&tuple).filter(|value| value & IS_TIME_WAIT == 0) else { return };
        let tcb = &mut self.tcbs[index];
        if !Seq(sequence).is_in(tcb.snd_una, tcb.snd_nxt) {
            return;
        }
        match error.kind {
            ErrorKind::PacketTooBig { mtu } => {
                let mtu = self.egress.ip.packet_too_big(tuple.remote_ip(), mtu, self.now.ns);
                let mss = mtu.saturating_sub(header_len(&tuple)).max(48);
                if mss < tcb.mss {
                    send::mtu_changed(tcb, &mut self.send, mss, self.now);
                    self.touch(index);
                }
            }
            // Hard errors end attempts only; a connection that stands outlives them (RFC 5461, RFC 9293 section 3.9.2.2).
            ErrorKind::PortUnreachable if tcb.state.is_attempt() => self.end(index, CloseReason::Refused),
            ErrorKind::Prohibited if tcb.state.is_attempt() => self.end(index, CloseReason::Unreachable),
            ErrorKind::Unreachable { .. } => self.soft_error(index, SoftError::Unreachable),
            ErrorKind::TimeExceeded => self.soft_error(index, SoftError::TimeExceeded),
            ErrorKind::ParameterProblem => self.soft_error(index, SoftError::ParameterProblem),
            ErrorKind::PortUnreachable | ErrorKind::Prohibited => {}
        }
    }
}

impl Engine {
    /// Nothing of the connection is acknowledged any more. If the first segment in flight is longer than every path should pass, that may be
    /// why (RFC 8899 section 4.3, RFC 4821 section 7.7).
    pub(super) fn suspect_black_hole(&mut self, index: u32) {
        let tuple = self.tuple(index);
        let tcb = &mut self.tcbs[index];
        if !tcb.is_synchronized() {
            return;
        }
        let options = tcb.mss - tcb.payload_max() as u16;
        let len = send::first_len(tcb, &self.send).saturating_add(options + header_len(&tuple));
        let mtu = self.egress.ip.path_black_hole(tuple.remote_ip(), len, self.now.ns);
        let mss = mtu.saturating_sub(header_len(&tuple)).max(48);
        if mss < tcb.mss {
            self.counters.mtu_black_holes += 1;
            send::mtu_changed(tcb, &mut self.send, mss, self.now);
        }
    }

    /// Goes on with the search for the longest segment of the path, if the connection's segments are shorter than both sides would take. Of a path
    /// that was forgotten, because nobody probed, nothing is known but the link.
    #[inline]
    pub(super) fn search_mtu(&mut self, index: u32) {
        if let Some((mss_max, fate)) = send::mtu_search(&self.tcbs[index], &mut self.send) {
            self.go_on_searching(index, mss_max, fate);
        }
    }

    #[cold]
    fn go_on_searching(&mut self, index: u32, mss_max: u16, fate: Option<(u16, bool)>) {
        let tuple = self.tuple(index);
        let (remote, header) = (tuple.remote_ip(), header_len(&tuple));
        match fate {
            Some((mss, true)) => {
                self.counters.mtu_probes_arrived += 1;
                self.egress.ip.mtu_probe_acked(remote, mss + header);
            }
            Some((mss, false)) => {
                self.counters.mtu_probes_lost += 1;
                self.egress.ip.mtu_probe_lost(remote, mss + header);
            }
            None => {}
        }
        let longest = |mtu: u16| mtu.saturating_sub(header).min(mss_max);
        let known = longest(self.egress.ip.path_mtu(remote));
        if known > self.tcbs[index].mss {
            send::mtu_changed(&mut self.tcbs[index], &mut self.send, known, self.now);
        }
        let target = self.egress.ip.mtu_probe(remote, self.now.ns).map_or(0, longest);
        send::probe_mtu(&self.tcbs[index], &mut self.send, target);
    }
}

/// Bytes of the headers of IP and TCP, without options.
fn header_len(tuple: &Tuple) -> u16 {
    if tuple.v6 { 60 } else { 40 }
}
