//! Requests over UDP. A connection is a socket of its own, with one request under way.
//!
//! A socket whose request is not answered in time is given up, because a late answer could be taken for that of the next request. An echo that
//! the load makes itself begins with the request's number, so that a second copy of an answer is known as well; other answers that are copied by
//! the network count for the next request of their socket.

use core::net::SocketAddr;

use linerate_load::{Answer, Kind, NUMBER_LEN};
use linerate_tcp::{BindError, ErrorKind, SendError, UdpId};

use super::account::Cause;
use super::answer::Whole;
use super::client::{Client, Stage};
use super::connection::Phase;
use super::wrong::Wrong;
use crate::network::Network;

/// A datagram that found no room is sent again after this time.
const AGAIN_NS: u64 = 1_000_000;

impl Client {
    /// Opens the socket of a connection.
    ///
    /// # Errors
    /// What the stack says.
    pub(super) fn open_socket<N: Network>(
        &mut self,
        number: u32,
        source: Option<SocketAddr>,
        address: SocketAddr,
        network: &mut N,
    ) -> Result<(), BindError> {
        let socket = network.udp_open(source, Some(address))?;
        self.sockets.insert(socket, number);
        self.meters.connections.begin();
        if let Some(connection) = self.connections.get_mut(number) {
            (connection.socket, connection.phase) = (Some(socket), Phase::Open);
            self.targets[connection.target as usize].open += 1;
        }
        self.go_on(number, network);
        Ok(())
    }

    /// Sends the request of a socket.
    pub(super) fn push_datagram<N: Network>(&mut self, number: u32, socket: UdpId, network: &mut N) {
        let Client { connections, plan, meters, scratch, .. } = self;
        let Some(connection) = connections.get_mut(number).filter(|connection| connection.unsent > 0) else { return };
        let Some(request) = connection.requests.back() else { return };
        let kind = &plan.kinds[request.kind as usize];
        let bytes = if kind.is_numbered {
            scratch.clear();
            scratch.extend_from_slice(&request.number.to_be_bytes());
            scratch.extend_from_slice(&kind.bytes[NUMBER_LEN..]);
            scratch
        } else {
            &kind.bytes
        };
        match network.udp_send(socket, None, None, bytes) {
            Ok(()) => {
                meters.tx_bytes += bytes.len() as u64;
                connection.unsent = 0;
            }
            Err(SendError::NoRoom) => self.arm(number, network.time_ns() + AGAIN_NS),
            Err(_) => self.fail(number, Cause::Unreachable, network),
        }
    }

    /// A datagram came.
    pub(super) fn answer_of<N: Network>(&mut self, socket: UdpId, data: &[u8], network: &mut N) {
        let Some(number) = self.sockets.get(&socket).copied() else { return };
        self.count_received(data, network.time_ns());
        let request = self.connections.get(number).and_then(|connection| connection.requests.front()).copied();
        // It can only answer a request that has left.
        let Some(request) = request.filter(|_| self.connections.get(number).is_some_and(|one| one.unsent == 0)) else {
            self.meters.strays += 1;
            return;
        };
        match judge(&self.plan.kinds[request.kind as usize], request.number, data) {
            None => self.meters.strays += 1,
            Some(is_right) => {
                let wrong = (!is_right).then_some(Wrong::Datagram);
                self.answered(number, Whole { status: 0, keep_alive: true, wrong }, data, network);
                self.fill(network);
            }
        }
    }

    /// Somebody says that the request of a socket was not delivered.
    pub(super) fn refused<N: Network>(&mut self, socket: UdpId, why: ErrorKind, network: &mut N) {
        let Some(number) = self.sockets.get(&socket).copied() else { return };
        let cause = if why == ErrorKind::PortUnreachable { Cause::Refused } else { Cause::Unreachable };
        self.end_socket(number, Some(cause), network);
        self.fill(network);
    }

    /// Ends a connection that is a socket; false if it is none. Without a cause it has done what it was to do.
    pub(super) fn end_socket<N: Network>(&mut self, number: u32, cause: Option<Cause>, network: &mut N) -> bool {
        let Some(connection) = self.connections.get_mut(number) else { return false };
        let (socket, target) = (connection.socket.take(), connection.target as usize);
        let Some(socket) = socket else { return false };
        network.udp_close(socket);
        self.sockets.remove(&socket);
        match cause {
            Some(cause) => self.meters.connections.lose(cause, 1),
            None => self.meters.connections.complete(),
        }
        let now_ns = network.time_ns();
        self.lose_requests(number, cause.unwrap_or(Cause::Closed));
        self.leave(number, now_ns);
        if matches!(cause, Some(Cause::Refused | Cause::Unreachable)) && self.stage == Stage::Running {
            self.pause(number, target, now_ns);
        } else {
            self.connections.remove(number);
        }
        true
    }
}

/// Whether a datagram is the right answer; `None` if it answers another request.
fn judge(kind: &Kind, number: u64, data: &[u8]) -> Option<bool> {
    match kind.answer {
        Answer::Echo if kind.is_numbered => match data.split_first_chunk::<NUMBER_LEN>() {
            Some((first, rest)) if u64::from_be_bytes(*first) == number => Some(*rest == kind.bytes[NUMBER_LEN..]),
            // An earlier one; a number that was not given yet is a wrong answer.
            Some((first, _)) if u64::from_be_bytes(*first) < number => None,
            _ => Some(false),
        },
        Answer::Echo => Some(data == kind.bytes),
        Answer::Bytes(len) => Some(data.len() as u64 == len),
        Answer::Http(_) => Some(false),
    }
}
