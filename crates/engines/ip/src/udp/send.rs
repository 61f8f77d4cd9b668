//! Sending: the headers of a destination are prepared once, and each datagram adds lengths, checksums and data.

use core::net::{IpAddr, SocketAddr};

use linerate_mem::Checksum;
use linerate_wire::{Protocol, Sum, ipv4, ipv6, udp};

use super::table::{Ends, any_of, bits, mapped};
use super::{SendError, Udp, UdpId};
use crate::ip::Ip;
use crate::link::LinkHeader;
use crate::neighbour::HopId;
use crate::output::Output;

/// Destinations of sockets that are not connected whose headers are kept.
const RECENT: usize = 256;
/// Longest headers of IP and UDP.
const HEADERS_MAX: usize = ipv6::HEADER_LEN + udp::HEADER_LEN;

/// Bytes of the headers of a datagram over IPv4 without a VLAN tag.
const USUAL_LEN: usize = 14 + ipv4::HEADER_LEN + udp::HEADER_LEN;

/// Headers to one destination, without lengths and checksums.
#[derive(Clone, Debug)]
pub(super) struct Path {
    hop: HopId,
    ends: Ends,
    dst: IpAddr,
    headers: [u8; HEADERS_MAX],
    /// Bytes of the headers.
    len: u8,
    /// The sum of the IPv4 header without its length.
    header_sum: Sum,
    /// The sum of the pseudo-header without the length.
    pseudo: Sum,
    /// The same two, folded, with the first byte lowest.
    header_sum16: u16,
    pseudo16: u16,
}

impl Path {
    pub fn new(hop: HopId, ends: Ends, hop_limit: u8) -> Path {
        let mut headers = [0; HEADERS_MAX];
        let udp = udp::Header { src_port: ends.local_port, dst_port: ends.remote_port, ..Default::default() };
        let (len, header_sum, pseudo) = match (bits(ends.local), bits(ends.remote)) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                // Nobody fragments it on the way, so it needs no identification (RFC 6864).
                let header = ipv4::Header {
                    total_len: 0,
                    dont_fragment: true,
                    protocol: Protocol::UDP,
                    src,
                    dst,
                    ..Default::default()
                };
                header.emit(&mut headers);
                udp.emit(&mut headers[ipv4::HEADER_LEN..]);
                let field = ipv4::field::CHECKSUM;
                headers[field].fill(0);
                let sum = Sum::new().add_slice(&headers[..ipv4::HEADER_LEN]);
                (ipv4::HEADER_LEN, sum, Sum::pseudo_ipv4(src, dst, Protocol::UDP.0, 0))
            }
            (src, dst) => {
                let [src, dst] = [src, dst].map(|address| match address {
                    IpAddr::V4(four) => four.to_ipv6_mapped(),
                    IpAddr::V6(six) => six,
                });
                let header = ipv6::Header { next_header: Protocol::UDP, hop_limit, src, dst, ..Default::default() };
                header.emit(&mut headers);
                udp.emit(&mut headers[ipv6::HEADER_LEN..]);
                (ipv6::HEADER_LEN, Sum::new(), Sum::pseudo_ipv6(src, dst, Protocol::UDP.0, 0))
            }
        };
        let [header_sum16, pseudo16] = [header_sum, pseudo].map(|sum| sum.fold().swap_bytes());
        let len = (len + udp::HEADER_LEN) as u8;
        Path { hop, ends, dst: bits(ends.remote), headers, len, header_sum, pseudo, header_sum16, pseudo16 }
    }

    /// Writes the headers of a datagram that [`emit_usual`] sends.
    #[inline(always)]
    fn write_usual(&self, link: &[u8; 14], headers: &mut [u8; USUAL_LEN], data: &[u8], is_partial: bool) {
        let udp_len = (udp::HEADER_LEN + data.len()) as u16;
        // Words as they lie in memory, the first byte lowest, so that nothing has to be turned round but the lengths.
        let word = |at: usize| self.headers[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let total_len = (udp_len + ipv4::HEADER_LEN as u16).swap_bytes();
        let header_checksum = !add(self.header_sum16, total_len);
        let udp_len_le = udp_len.swap_bytes();
        let checksum = match is_partial {
            true => add(self.pseudo16, udp_len_le),
            false => self.checksum(udp_len, data, false).swap_bytes(),
        };
        headers[..14].copy_from_slice(link);
        headers[14..22].copy_from_slice(&(word(0) | u64::from(total_len) << 16).to_le_bytes());
        headers[22..30].copy_from_slice(&(word(8) | u64::from(header_checksum) << 16).to_le_bytes());
        headers[30..38].copy_from_slice(&word(16).to_le_bytes());
        headers[38..42].copy_from_slice(&(u32::from(udp_len_le) | u32::from(checksum) << 16).to_le_bytes());
    }

    /// The link header, if the neighbour is known and the path takes the data whole.
    #[inline]
    fn link<'a>(&self, data: &[u8], ip: &'a Ip) -> Option<&'a LinkHeader> {
        let fits = usize::from(self.len) + data.len() <= usize::from(ip.path_mtu(self.dst));
        if fits { ip.header(self.hop) } else { None }
    }

    #[inline]
    fn is_v4(&self) -> bool {
        usize::from(self.len) == ipv4::HEADER_LEN + udp::HEADER_LEN
    }

    /// Writes headers and data to `packet`, which has their length. `is_partial` leaves the sum of the data out.
    #[inline(always)]
    fn write(&self, packet: &mut [u8], data: &[u8], is_partial: bool) {
        let udp_len = (udp::HEADER_LEN + data.len()) as u16;
        let body = if self.is_v4() {
            let Some((headers, body)) = packet.split_first_chunk_mut::<28>() else { return };
            let Some(prepared) = self.headers.first_chunk() else { return };
            *headers = *prepared;
            let total_len = udp_len + ipv4::HEADER_LEN as u16;
            headers[2..4].copy_from_slice(&total_len.to_be_bytes());
            headers[10..12].copy_from_slice(&self.header_sum.add_u16(total_len).finish().to_be_bytes());
            headers[24..26].copy_from_slice(&udp_len.to_be_bytes());
            headers[26..28].copy_from_slice(&self.checksum(udp_len, data, is_partial).to_be_bytes());
            body
        } else {
            let Some((headers, body)) = packet.split_first_chunk_mut::<HEADERS_MAX>() else { return };
            *headers = self.headers;
            headers[4..6].copy_from_slice(&udp_len.to_be_bytes());
            headers[44..46].copy_from_slice(&udp_len.to_be_bytes());
            headers[46..48].copy_from_slice(&self.checksum(udp_len, data, is_partial).to_be_bytes());
            body
        };
        copy(body, data);
    }

    #[inline]
    fn checksum(&self, udp_len: u16, data: &[u8], is_partial: bool) -> u16 {
        let pseudo = self.pseudo.add_u16(udp_len);
        if is_partial {
            return pseudo.fold();
        }
        // The length stands in the header as well.
        let sum = pseudo.add_u16(udp_len).add_u16(self.ends.local_port).add_u16(self.ends.remote_port);
        sum.add_slice(data).finish_udp()
    }
}

/// Copies `data` to `body`, which has its length. Short data are not worth a call.
#[inline]
fn copy(body: &mut [u8], data: &[u8]) {
    if let ([place], [byte]) = (&mut *body, data) {
        *place = *byte;
    } else {
        body.copy_from_slice(data);
    }
}

/// The path of a connected socket.
#[derive(Clone)]
struct Connected {
    /// That of the socket.
    generation: u32,
    path: Path,
}

/// Paths of connected sockets, and those of recent destinations of others.
#[derive(Default)]
pub(super) struct Paths {
    connected: Vec<Option<Connected>>,
    recent: Vec<Option<Path>>,
}

impl Paths {
    pub fn connect(&mut self, socket: UdpId, path: Path) {
        let index = socket.index as usize;
        if self.connected.len() <= index {
            self.connected.resize(index + 1, None);
        }
        self.connected[index] = Some(Connected { generation: socket.generation, path });
    }

    pub fn disconnect(&mut self, index: u32) {
        if let Some(path) = self.connected.get_mut(index as usize) {
            *path = None;
        }
    }

    /// The path of a connected socket, if it is still that socket.
    #[inline]
    fn of(&self, socket: UdpId) -> Option<&Path> {
        let connected = self.connected.get(socket.index as usize)?.as_ref()?;
        (connected.generation == socket.generation).then_some(&connected.path)
    }

    /// The place of the path to a destination.
    #[inline]
    fn place(&mut self, ends: &Ends) -> &mut Option<Path> {
        if self.recent.is_empty() {
            self.recent.resize(RECENT, None);
        }
        let ports = u32::from(ends.local_port) << 16 | u32::from(ends.remote_port);
        let mixed =
            (ends.remote as u32 ^ (ends.remote >> 64) as u32 ^ ends.local as u32).wrapping_add(ports.rotate_left(7));
        &mut self.recent[mixed.wrapping_mul(0x9e37_79b1) as usize >> 24]
    }
}

impl Udp {
    /// Sends a datagram: by a connected socket, or to `to`. `from` chooses one of our addresses for a socket of all addresses; an answer
    /// takes the address that its question came to. A datagram that is longer than the path MTU leaves in fragments. `trusted`: the port
    /// keeps packets in this process, so the checksum is left partial.
    ///
    /// # Errors
    /// See [`SendError`].
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the packet path hands everything down")]
    pub fn send(
        &mut self,
        socket: UdpId,
        from: Option<IpAddr>,
        to: Option<SocketAddr>,
        data: &[u8],
        trusted: bool,
        ip: &mut Ip,
        out: &mut Output<'_>,
    ) -> Result<(), SendError> {
        if let Some(path) = self.paths.of(socket)
            && emit_usual(path, data, trusted, ip, out)
        {
            self.counters.sent += 1;
            return Ok(());
        }
        self.send_any(socket, from, to, data, trusted, ip, out)
    }

    /// Sends by a socket that is not connected, or a datagram that is not usual.
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "the packet path hands everything down")]
    fn send_any(
        &mut self,
        socket: UdpId,
        from: Option<IpAddr>,
        to: Option<SocketAddr>,
        data: &[u8],
        trusted: bool,
        ip: &mut Ip,
        out: &mut Output<'_>,
    ) -> Result<(), SendError> {
        let result = self.try_send(socket, from, to, data, trusted, ip, out);
        self.counters.sent += u64::from(result.is_ok());
        self.counters.send_failed += u64::from(result.is_err());
        result
    }

    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the packet path hands everything down")]
    fn try_send(
        &mut self,
        socket: UdpId,
        from: Option<IpAddr>,
        to: Option<SocketAddr>,
        data: &[u8],
        trusted: bool,
        ip: &mut Ip,
        out: &mut Output<'_>,
    ) -> Result<(), SendError> {
        let ends = self.table.ends(socket).ok_or(SendError::Closed)?;
        let is_connected = ends.remote_port != 0;
        let (place, wanted) = if is_connected {
            // The path of a connected socket is its own.
            (self.paths.of(socket), *ends)
        } else {
            let to = to.ok_or(SendError::NotConnected)?;
            let from = from.filter(|_| ends.local == any_of(ends.local));
            let local = from.map_or(ends.local, mapped);
            let wanted = Ends { local, remote: mapped(to.ip()), remote_port: to.port(), ..*ends };
            (self.paths.place(&wanted).as_ref().filter(|path| path.ends == wanted), wanted)
        };
        if let Some(path) = place
            && !is_connected
            && emit_recent(path, data, trusted, ip, out)
        {
            return Ok(());
        }
        if let Some(path) = place
            && let Some(link) = path.link(data, ip)
        {
            return emit(path, link, data, trusted, out);
        }
        self.send_slowly(socket, is_connected, wanted, data, ip, out)
    }

    /// Sends a datagram to a destination that is not prepared, not resolved, or takes fragments.
    #[cold]
    fn send_slowly(
        &mut self,
        socket: UdpId,
        is_connected: bool,
        wanted: Ends,
        data: &[u8],
        ip: &mut Ip,
        out: &mut Output<'_>,
    ) -> Result<(), SendError> {
        let (src, dst) = (bits(wanted.local), bits(wanted.remote));
        let (hop, src) = ip.resolve((!src.is_unspecified()).then_some(src), dst, out)?;
        let path = Path::new(hop, Ends { local: mapped(src), ..wanted }, ip.hop_limit());
        let len = usize::from(path.len) + data.len();
        // IPv6 counts its payload only; that of fragments must still be numbered by 13 bits of 8 bytes.
        if len > usize::from(u16::MAX) {
            return Err(SendError::TooLong);
        }
        let mut packet = core::mem::take(&mut self.scratch);
        packet.clear();
        packet.resize(len, 0);
        path.write(&mut packet, data, false);
        if path.is_v4() && len > usize::from(ip.path_mtu(dst)) {
            let identification = ip.next_identification();
            let mut header = ipv4::Packet::new_unchecked(&mut packet[..]);
            header.set_identification(identification);
            header.set_fragment(false, false, 0);
            header.fill_checksum();
        }
        let is_sent = ip.send_packet(hop, dst, &packet, Checksum::Unknown, out);
        self.scratch = packet;
        match is_connected {
            true => self.paths.connect(socket, path),
            false if wanted.local == mapped(src) => *self.paths.place(&wanted) = Some(path),
            false => {}
        }
        if is_sent { Ok(()) } else { Err(SendError::NoRoom) }
    }
}

/// Appends a frame of a prepared destination over IPv4 without a VLAN tag, if the neighbour is known and the datagram passes whole; otherwise
/// false, and nothing has happened.
#[inline(always)]
fn emit_usual(path: &Path, data: &[u8], trusted: bool, ip: &Ip, out: &mut Output<'_>) -> bool {
    if !path.is_v4() || !ip.passes4(usize::from(path.len) + data.len()) {
        return false;
    }
    let Some(link) = ip.header(path.hop).and_then(LinkHeader::untagged) else { return false };
    let checksum = if trusted { Checksum::Partial } else { Checksum::Unknown };
    let Some(frame) = out.pool.alloc_one(out.batch, USUAL_LEN + data.len(), checksum) else { return false };
    if let Some((headers, body)) = frame.split_first_chunk_mut() {
        path.write_usual(link, headers, data, trusted);
        copy(body, data);
    }
    true
}

/// As [`emit_usual`], once for all that do not send by a connected socket.
#[inline(never)]
fn emit_recent(path: &Path, data: &[u8], trusted: bool, ip: &Ip, out: &mut Output<'_>) -> bool {
    emit_usual(path, data, trusted, ip, out)
}

/// One's complement sum of two halves.
#[inline(always)]
fn add(one: u16, other: u16) -> u16 {
    let (sum, carry) = one.overflowing_add(other);
    sum.wrapping_add(u16::from(carry))
}

/// Appends a frame of a prepared destination.
#[inline]
fn emit(path: &Path, link: &LinkHeader, data: &[u8], trusted: bool, out: &mut Output<'_>) -> Result<(), SendError> {
    let link = link.as_slice();
    let len = link.len() + usize::from(path.len) + data.len();
    let checksum = if trusted { Checksum::Partial } else { Checksum::Unknown };
    if len > out.pool.packet_len_max() {
        return emit_long(path, link, data, trusted, out);
    }
    let Some(frame) = out.pool.alloc_one(out.batch, len, checksum) else { return Err(SendError::NoRoom) };
    if let Some((place, packet)) = frame.split_at_mut_checked(link.len()) {
        place.copy_from_slice(link);
        path.write(packet, data, trusted);
    }
    Ok(())
}

/// As [`emit`], for a frame that needs several frames of the pool.
#[cold]
fn emit_long(path: &Path, link: &[u8], data: &[u8], trusted: bool, out: &mut Output<'_>) -> Result<(), SendError> {
    let checksum = if trusted { Checksum::Partial } else { Checksum::Unknown };
    let mut packet = vec![0; usize::from(path.len) + data.len()];
    path.write(&mut packet, data, trusted);
    if out.frame(&[link, &packet], checksum) { Ok(()) } else { Err(SendError::NoRoom) }
}
