//! ICMP errors about segments of this side. They are believed only if the quoted number is in flight (RFC 5927).

use linerate_ip::{ErrorKind, IcmpError};
use linerate_wire::Protocol;

use super::{Engine, IS_TIME_WAIT};
use crate::tuple::Tuple;
use crate::{CloseReason, Seq, SoftError, State, send};

impl Engine {
    /// Takes an ICMP error in.
    pub(crate) fn icmp_error(&mut self, error: &IcmpError) {
        let original = &error.original;
        if original.protocol == Protocol::UDP {
            self.egress.udp.error(error, &mut self.egress.ip, self.now.ns);
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
                let mss = mtu.saturating_sub(if tuple.v6 { 60 } else { 40 }).max(48);
                if mss < tcb.mss {
                    send::mtu_changed(tcb, &mut self.send, mss, self.now);
                    self.touch(index);
                }
            }
            // Hard errors end attempts only; a connection that stands outlives them (RFC 5461, RFC 9293 section 3.9.2.2).
            ErrorKind::PortUnreachable if is_attempt(tcb.state) => self.end(index, CloseReason::Refused),
            ErrorKind::Prohibited if is_attempt(tcb.state) => self.end(index, CloseReason::Unreachable),
            ErrorKind::Unreachable { .. } => self.soft_error(index, SoftError::Unreachable),
            ErrorKind::TimeExceeded => self.soft_error(index, SoftError::TimeExceeded),
            ErrorKind::ParameterProblem => self.soft_error(index, SoftError::ParameterProblem),
            ErrorKind::PortUnreachable | ErrorKind::Prohibited => {}
        }
    }
}

fn is_attempt(state: State) -> bool {
    matches!(state, State::SynSent | State::SynReceived)
}
