//! Datagrams: sockets of the layer below, with the frames of the stack.

use core::net::{IpAddr, SocketAddr};

use linerate_ip::{BindError, ErrorOut, Ip, Output, SendError, Udp, UdpId};

use super::{Egress, OWN};
use crate::Now;

impl Egress {
    /// Binds a socket, connected to `remote` if there is one.
    pub(crate) fn udp_open(
        &mut self,
        local: Option<SocketAddr>,
        remote: Option<SocketAddr>,
        now: Now,
    ) -> Result<UdpId, BindError> {
        self.forget();
        match (local, remote) {
            (local, Some(remote)) => {
                let mut out = Output { now_ns: now.ns, batch: &mut self.output, pool: &mut self.pool };
                self.udp.connect(local, remote, &mut self.ip, &mut out)
            }
            (Some(local), None) => self.udp.bind(local, &self.ip),
            (None, None) => self.udp.bind(SocketAddr::from(([0; 4], 0)), &self.ip),
        }
    }

    /// Sends a datagram, if there is room beside what is left to the layer below.
    #[inline]
    pub(crate) fn udp_send(
        &mut self,
        socket: UdpId,
        from: Option<IpAddr>,
        to: Option<SocketAddr>,
        data: &[u8],
        now: Now,
    ) -> Result<(), SendError> {
        if self.output.room() <= OWN {
            return Err(SendError::NoRoom);
        }
        let mut out = Output { now_ns: now.ns, batch: &mut self.output, pool: &mut self.pool };
        let result = self.udp.send(socket, from, to, data, self.partial, &mut self.ip, &mut out);
        if result.is_err() {
            // A neighbour may be asked for.
            self.forget();
        }
        result
    }

    /// Calls `work` with sockets, the layer below and a way out.
    pub(crate) fn with_udp<R>(&mut self, now: Now, work: impl FnOnce(&mut Udp, &mut Ip, &mut Output<'_>) -> R) -> R {
        self.forget();
        let mut out = Output { now_ns: now.ns, batch: &mut self.output, pool: &mut self.pool };
        work(&mut self.udp, &mut self.ip, &mut out)
    }

    /// Tells the sender of a datagram that nobody listens, if nobody does. `packet` begins with its IP header.
    #[cold]
    pub(crate) fn udp_refuse(&mut self, from: SocketAddr, to: SocketAddr, packet: &[u8], now: Now) {
        if self.udp.is_unreachable(from, to) {
            let (output, pool) = (&mut self.output, &mut self.pool);
            self.ip.send_error(ErrorOut::PortUnreachable, packet, now.ns, output, pool);
        }
    }
}
