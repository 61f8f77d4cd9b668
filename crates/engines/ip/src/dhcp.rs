//! The DHCP client (RFC 2131), without I/O: it is told the time and what arrives, and tells what to send and what changed. The codec is
//! smoltcp's.
//!
//! ```text
//! Init --discover--> Selecting --offer--> Requesting --ack--> Bound --T1--> Renewing --T2--> Rebinding
//!   ^---------------- nak, or the lease is over, or somebody else has the address ----------------+
//! ```

use core::net::Ipv4Addr;

use linerate_wire::MacAddress;
use smoltcp::wire::{DHCP_MAX_DNS_SERVER_COUNT, DhcpMessageType, DhcpOption, DhcpPacket, DhcpRepr, EthernetAddress};

use crate::random::Random;

/// Ports of server and client.
pub const SERVER_PORT: u16 = 67;
/// See [`SERVER_PORT`].
pub const CLIENT_PORT: u16 = 68;

/// True if the UDP header in front of `datagram` says that a server sent it to a client.
#[inline]
pub fn is_for_client(datagram: &[u8]) -> bool {
    datagram.first_chunk() == Some(&[0, SERVER_PORT as u8, 0, CLIENT_PORT as u8])
}

const SECOND_NS: u64 = 1_000_000_000;
/// Longest pause between two tries.
const PAUSE_MAX_NS: u64 = 64 * SECOND_NS;
/// Shortest pause between two requests for a lease that is in use (RFC 2131 section 4.4.5).
const RENEW_PAUSE_MIN_NS: u64 = 60 * SECOND_NS;
/// Requests for an offer before another is sought.
const REQUESTS_MAX: u32 = 4;
/// Pause after an address was declined (RFC 2131 section 3.1).
const DECLINED_NS: u64 = 10 * SECOND_NS;
/// Leases are no shorter, so that a wrong server does not make us busy.
const LEASE_MIN_S: u32 = 60;
/// Options asked for: mask, router, names.
const PARAMETERS: [u8; 3] = [1, 3, 6];
const HOST_NAME: u8 = 12;

/// A lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Our address.
    pub address: Ipv4Addr,
    /// Bits of its prefix.
    pub prefix_len: u8,
    /// Default gateway.
    pub router: Option<Ipv4Addr>,
    /// Servers of names.
    pub name_servers: Vec<Ipv4Addr>,
    /// When it ends, in nanoseconds.
    pub until_ns: u64,
    server: Ipv4Addr,
    renew_ns: u64,
    rebind_ns: u64,
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// UDP payload.
    pub bytes: Vec<u8>,
    /// Our address, or the unspecified one.
    pub src: Ipv4Addr,
    /// A server, or everybody.
    pub dst: Ipv4Addr,
}

/// What a message changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing that others must know.
    Nothing,
    /// The lease is ours, or goes on.
    Bound(Lease),
    /// The address is ours no longer.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Init,
    Selecting,
    Requesting { address: Ipv4Addr, server: Ipv4Addr },
    Bound,
    Renewing,
    Rebinding,
}

/// The client.
pub struct Dhcp {
    mac: MacAddress,
    host_name: String,
    random: Random,
    state: State,
    lease: Option<Lease>,
    transaction: u32,
    tries: u32,
    began_ns: u64,
    next_ns: u64,
}

impl Dhcp {
    /// A client that begins at once.
    pub fn new(mac: MacAddress, host_name: &str, secret: [u8; 16]) -> Dhcp {
        Dhcp {
            mac,
            host_name: host_name.chars().take(63).collect(),
            random: Random::new(secret, "dhcp"),
            state: State::Init,
            lease: None,
            transaction: 0,
            tries: 0,
            began_ns: 0,
            next_ns: 0,
        }
    }

    /// The lease that is in use.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// When [`Dhcp::tick`] has something to do.
    pub fn next_deadline_ns(&self) -> u64 {
        self.next_ns
    }

    /// Does what is due: a message to send, and whether the lease is over.
    pub fn tick(&mut self, now_ns: u64) -> (Option<Message>, Change) {
        if now_ns < self.next_ns {
            return (None, Change::Nothing);
        }
        if self.lease.as_ref().is_some_and(|lease| now_ns >= lease.until_ns) {
            self.restart(now_ns);
            return (None, Change::Lost);
        }
        match self.state {
            State::Init => self.begin(State::Selecting, now_ns),
            State::Requesting { .. } if self.tries >= REQUESTS_MAX => self.begin(State::Selecting, now_ns),
            State::Bound => self.begin(State::Renewing, now_ns),
            State::Renewing if self.lease.as_ref().is_some_and(|lease| now_ns >= lease.rebind_ns) => {
                self.begin(State::Rebinding, now_ns);
            }
            _ => {}
        }
        self.next_ns = self.next_try(now_ns);
        self.tries += 1;
        (Some(self.message(now_ns)), Change::Nothing)
    }

    /// Takes the payload of a datagram to the client's port. `None` if it is none of our exchange.
    pub fn receive(&mut self, bytes: &[u8], now_ns: u64) -> Option<Change> {
        let packet = DhcpPacket::new_checked(bytes).ok()?;
        let reply = DhcpRepr::parse(&packet).ok()?;
        let is_ours = reply.transaction_id == self.transaction && reply.client_hardware_address.0 == self.mac.0;
        let server = reply.server_identifier.filter(|server| is_ours && is_host(*server))?;
        match (self.state, reply.message_type) {
            (State::Selecting, DhcpMessageType::Offer) if is_host(reply.your_ip) => {
                self.state = State::Requesting { address: reply.your_ip, server };
                (self.tries, self.next_ns) = (0, now_ns);
                Some(Change::Nothing)
            }
            (State::Requesting { address, server: chosen }, DhcpMessageType::Ack)
                if reply.your_ip == address && server == chosen =>
            {
                Some(self.bind(&reply, server, now_ns))
            }
            (State::Renewing | State::Rebinding, DhcpMessageType::Ack)
                if self.lease.as_ref().is_some_and(|lease| lease.address == reply.your_ip) =>
            {
                Some(self.bind(&reply, server, now_ns))
            }
            (State::Requesting { server: chosen, .. }, DhcpMessageType::Nak) if server == chosen => {
                self.restart(now_ns + SECOND_NS);
                Some(Change::Nothing)
            }
            (State::Renewing | State::Rebinding, DhcpMessageType::Nak) => {
                self.restart(now_ns);
                Some(Change::Lost)
            }
            _ => None,
        }
    }

    /// Somebody else has the address: the message that tells the server. The client begins anew later.
    pub fn decline(&mut self, now_ns: u64) -> Option<Message> {
        let lease = self.lease.take()?;
        let mut repr = self.repr(DhcpMessageType::Decline, now_ns);
        (repr.requested_ip, repr.server_identifier) = (Some(lease.address), Some(lease.server));
        let bytes = emit(&repr);
        self.restart(now_ns + DECLINED_NS);
        Some(Message { bytes, src: Ipv4Addr::UNSPECIFIED, dst: Ipv4Addr::BROADCAST })
    }

    fn restart(&mut self, at_ns: u64) {
        (self.state, self.lease, self.next_ns) = (State::Init, None, at_ns);
    }

    fn begin(&mut self, state: State, now_ns: u64) {
        self.state = state;
        self.tries = 0;
        if state != State::Rebinding {
            self.transaction = self.random.next() as u32;
            self.began_ns = now_ns;
        }
    }

    /// When the next message is due: 4, 8, 16, 32, then 64 seconds later, give or take one (RFC 2131 section 4.1), or, for a lease in use,
    /// half of the time that is left (section 4.4.5).
    fn next_try(&mut self, now_ns: u64) -> u64 {
        let until_ns = |limit_ns: u64| {
            let half_ns = limit_ns.saturating_sub(now_ns) / 2;
            limit_ns.min(now_ns + half_ns.max(RENEW_PAUSE_MIN_NS))
        };
        match (self.state, &self.lease) {
            (State::Renewing, Some(lease)) => until_ns(lease.rebind_ns),
            (State::Rebinding, Some(lease)) => until_ns(lease.until_ns),
            _ => {
                let pause_ns = ((4 * SECOND_NS) << self.tries.min(4)).min(PAUSE_MAX_NS);
                now_ns + pause_ns - SECOND_NS + self.random.below(2 * SECOND_NS)
            }
        }
    }

    fn bind(&mut self, reply: &DhcpRepr<'_>, server: Ipv4Addr, now_ns: u64) -> Change {
        let mask = reply.subnet_mask.unwrap_or(Ipv4Addr::new(255, 255, 255, 0)).to_bits();
        let lease_s = reply.lease_duration.unwrap_or(86_400).max(LEASE_MIN_S);
        let at_ns = |seconds: u32| match seconds {
            u32::MAX => u64::MAX,
            seconds => now_ns + u64::from(seconds) * SECOND_NS,
        };
        // Times that are not in their order are replaced by the usual ones (RFC 2131 section 4.4.5).
        let usual = |eighths: u64| (u64::from(lease_s) * eighths / 8) as u32;
        let rebind_s = reply.rebind_duration.filter(|rebind| *rebind < lease_s).unwrap_or(usual(7));
        let renew_s = reply.renew_duration.filter(|renew| *renew < rebind_s).unwrap_or(usual(4).min(rebind_s));
        let lease = Lease {
            address: reply.your_ip,
            prefix_len: mask.leading_ones().clamp(1, 32) as u8,
            router: reply.router.filter(|router| is_host(*router)),
            name_servers: reply.dns_servers.iter().flatten().copied().take(DHCP_MAX_DNS_SERVER_COUNT).collect(),
            until_ns: at_ns(lease_s),
            server,
            renew_ns: at_ns(if lease_s == u32::MAX { u32::MAX } else { renew_s }),
            rebind_ns: at_ns(if lease_s == u32::MAX { u32::MAX } else { rebind_s }),
        };
        (self.state, self.next_ns) = (State::Bound, lease.renew_ns);
        self.lease = Some(lease.clone());
        Change::Bound(lease)
    }

    fn message(&self, now_ns: u64) -> Message {
        let everybody = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
        let kind = if self.state == State::Selecting { DhcpMessageType::Discover } else { DhcpMessageType::Request };
        let mut repr = self.repr(kind, now_ns);
        let (src, dst) = match (self.state, &self.lease) {
            (State::Requesting { address, server }, _) => {
                (repr.requested_ip, repr.server_identifier) = (Some(address), Some(server));
                everybody
            }
            (State::Renewing | State::Rebinding, Some(lease)) => {
                (repr.client_ip, repr.broadcast) = (lease.address, false);
                let is_renewing = self.state == State::Renewing;
                (lease.address, if is_renewing { lease.server } else { Ipv4Addr::BROADCAST })
            }
            _ => everybody,
        };
        let name = [DhcpOption { kind: HOST_NAME, data: self.host_name.as_bytes() }];
        if !self.host_name.is_empty() {
            repr.additional_options = &name;
        }
        Message { bytes: emit(&repr), src, dst }
    }

    fn repr(&self, message_type: DhcpMessageType, now_ns: u64) -> DhcpRepr<'static> {
        let seconds = now_ns.saturating_sub(self.began_ns) / SECOND_NS;
        let is_declined = message_type == DhcpMessageType::Decline;
        DhcpRepr {
            message_type,
            transaction_id: self.transaction,
            secs: u16::try_from(seconds).unwrap_or(u16::MAX),
            client_hardware_address: EthernetAddress(self.mac.0),
            client_ip: Ipv4Addr::UNSPECIFIED,
            your_ip: Ipv4Addr::UNSPECIFIED,
            server_ip: Ipv4Addr::UNSPECIFIED,
            router: None,
            subnet_mask: None,
            relay_agent_ip: Ipv4Addr::UNSPECIFIED,
            // An answer to an address that we do not have yet would not be taken in.
            broadcast: !is_declined,
            requested_ip: None,
            client_identifier: Some(EthernetAddress(self.mac.0)),
            server_identifier: None,
            parameter_request_list: (!is_declined).then_some(&PARAMETERS),
            dns_servers: None,
            max_size: (!is_declined).then_some(1500),
            lease_duration: None,
            renew_duration: None,
            rebind_duration: None,
            additional_options: &[],
        }
    }
}

fn emit(repr: &DhcpRepr<'_>) -> Vec<u8> {
    // Servers expect at least the length of BOOTP (RFC 951).
    let mut bytes = vec![0; repr.buffer_len().max(300)];
    // The buffer has the length that the codec asks for.
    let _ = repr.emit(&mut DhcpPacket::new_unchecked(&mut bytes[..]));
    bytes
}

fn is_host(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    (1..224).contains(&first) && first != 127
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
    const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);
    const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 77);

    fn read(message: &Message) -> (DhcpMessageType, u32, Option<Ipv4Addr>, Ipv4Addr) {
        let packet = DhcpPacket::new_checked(&message.bytes[..]).unwrap();
        let repr = DhcpRepr::parse(&packet).unwrap();
        (repr.message_type, repr.transaction_id, repr.requested_ip, repr.client_ip)
    }

    fn answer(kind: DhcpMessageType, transaction: u32, lease_s: u32) -> Vec<u8> {
        let mut repr = Dhcp::new(MAC, "", [0; 16]).repr(kind, 0);
        repr.transaction_id = transaction;
        repr.your_ip = OURS;
        repr.parameter_request_list = None;
        repr.subnet_mask = Some(Ipv4Addr::new(255, 255, 0, 0));
        repr.router = Some(SERVER);
        repr.server_identifier = Some(SERVER);
        repr.lease_duration = Some(lease_s);
        let mut bytes = emit(&repr);
        // An answer is of operation 2, whatever its type says.
        bytes[0] = 2;
        bytes
    }

    fn bound(client: &mut Dhcp) -> Lease {
        let (discover, _) = client.tick(0);
        let (kind, transaction, ..) = read(&discover.unwrap());
        assert_eq!(kind, DhcpMessageType::Discover);
        assert_eq!(client.receive(&answer(DhcpMessageType::Offer, transaction + 1, 600), 1), None, "another exchange");
        assert_eq!(client.receive(&answer(DhcpMessageType::Offer, transaction, 600), 1), Some(Change::Nothing));
        let (request, _) = client.tick(1);
        assert_eq!(read(&request.unwrap()), (DhcpMessageType::Request, transaction, Some(OURS), Ipv4Addr::UNSPECIFIED));
        match client.receive(&answer(DhcpMessageType::Ack, transaction, 600), 2) {
            Some(Change::Bound(lease)) => lease,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_lease_is_taken_renewed_rebound_and_lost() {
        let mut client = Dhcp::new(MAC, "host", [3; 16]);
        let lease = bound(&mut client);
        assert_eq!((lease.address, lease.prefix_len, lease.router), (OURS, 16, Some(SERVER)));
        assert_eq!(client.next_deadline_ns(), 2 + 300 * SECOND_NS);
        let (request, _) = client.tick(2 + 300 * SECOND_NS);
        let request = request.unwrap();
        assert_eq!((request.src, request.dst), (OURS, SERVER), "the server that gave it is asked first");
        let (_, transaction, requested, client_ip) = read(&request);
        assert_eq!((requested, client_ip), (None, OURS));
        let again = client.receive(&answer(DhcpMessageType::Ack, transaction, 600), 301 * SECOND_NS).unwrap();
        assert!(matches!(again, Change::Bound(lease) if lease.until_ns == 901 * SECOND_NS));
        // Nobody answers any more.
        let mut to_all = 0;
        let mut to_server = 0;
        loop {
            let now_ns = client.next_deadline_ns();
            let (message, change) = client.tick(now_ns);
            if change == Change::Lost {
                assert_eq!(now_ns, 901 * SECOND_NS);
                break;
            }
            match message.unwrap().dst {
                SERVER => to_server += 1,
                Ipv4Addr::BROADCAST => to_all += 1,
                other => panic!("{other}"),
            }
        }
        assert!(to_all >= 1 && to_server >= 2, "{to_all} {to_server}");
        let (message, _) = client.tick(901 * SECOND_NS);
        assert_eq!(read(&message.unwrap()).0, DhcpMessageType::Discover);
    }

    #[test]
    fn discovers_slow_down_and_a_refusal_begins_anew() {
        let mut client = Dhcp::new(MAC, "", [3; 16]);
        let mut before = 0;
        for pause_s in [4_u64, 8, 16, 32, 64, 64, 64] {
            let (message, _) = client.tick(before);
            assert_eq!(read(&message.unwrap()).0, DhcpMessageType::Discover);
            let pause_ns = client.next_deadline_ns() - before;
            assert!(pause_ns.abs_diff(pause_s * SECOND_NS) <= SECOND_NS, "{pause_ns} instead of {pause_s} s");
            before = client.next_deadline_ns();
        }
        let mut client = Dhcp::new(MAC, "", [4; 16]);
        bound(&mut client);
        client.tick(2 + 300 * SECOND_NS);
        let transaction = client.transaction;
        assert_eq!(
            client.receive(&answer(DhcpMessageType::Nak, transaction, 600), 301 * SECOND_NS),
            Some(Change::Lost)
        );
        let mut client = Dhcp::new(MAC, "", [5; 16]);
        bound(&mut client);
        assert_eq!(read(&client.decline(5).unwrap()).0, DhcpMessageType::Decline);
        assert_eq!(client.next_deadline_ns(), 5 + DECLINED_NS);
    }
}
