//! A plain AF_PACKET socket, one system call a frame (packet(7)): for probes and tests. Ports are elsewhere.
#![allow(unsafe_code)]

use crate::checked;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// linux/if_packet.h; since Linux 4.20.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// A raw socket on one interface of the namespace in which it was opened.
#[derive(Debug)]
pub struct RawSocket {
    fd: OwnedFd,
}

impl RawSocket {
    /// A socket that sends on `interface` (its index) and receives nothing.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_RAW, `ENODEV` when there is no such interface.
    pub fn sender(interface: u32) -> io::Result<Self> {
        Self::open(interface, 0)
    }

    /// A socket that also receives whatever arrives on `interface`, but not what leaves by it; [`RawSocket::receive`] waits
    /// for at most `timeout`.
    ///
    /// # Errors
    /// As [`RawSocket::sender`].
    pub fn receiver(interface: u32, timeout: Duration) -> io::Result<Self> {
        Self::filtered_receiver(interface, libc::ETH_P_ALL as u16, &[], timeout)
    }

    /// As [`RawSocket::receiver`], of the frames of one EtherType for which `filter` (instructions of classic BPF: code, jump if true, jump
    /// if false, operand; empty takes all) is not 0.
    pub(crate) fn filtered_receiver(
        interface: u32,
        ether_type: u16,
        filter: &[(u16, u8, u8, u32)],
        timeout: Duration,
    ) -> io::Result<Self> {
        // Bound to no EtherType until the filter is there.
        let socket = Self::open(interface, if filter.is_empty() { ether_type } else { 0 })?;
        socket.set_option(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1_i32)?;
        if !filter.is_empty() {
            let mut program: Vec<libc::sock_filter> =
                filter.iter().map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k }).collect();
            let len = u16::try_from(program.len()).map_err(io::Error::other)?;
            let program = libc::sock_fprog { len, filter: program.as_mut_ptr() };
            socket.set_option(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
            socket.bind(interface, ether_type)?;
        }
        let timeout = libc::timeval {
            tv_sec: timeout.as_secs().try_into().map_err(io::Error::other)?,
            tv_usec: timeout.subsec_micros().into(),
        };
        socket.set_option(libc::SOL_SOCKET, libc::SO_RCVTIMEO, &timeout)?;
        Ok(socket)
    }

    /// Sends one frame, Ethernet header included.
    ///
    /// # Errors
    /// `ENOBUFS` when the interface dropped it, `ENETDOWN` when that is down, `EMSGSIZE` when the frame is too long.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the pointer and the length are those of `frame`.
        checked(unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) }).map(drop)
    }

    /// The next frame, cut to the length of `buffer`; the number of bytes of it.
    ///
    /// # Errors
    /// `WouldBlock` when none came in time, `ENETDOWN` when the interface went down.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the pointer and the length are those of `buffer`.
        let len = unsafe { libc::recv(self.fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        usize::try_from(len).map_err(|_| io::Error::last_os_error())
    }

    /// Frames that found this socket's receive buffer full since the last call (PACKET_STATISTICS).
    ///
    /// # Errors
    /// None that a valid socket gives.
    pub fn take_drops(&self) -> io::Result<u64> {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut len = size_of_val(&statistics) as libc::socklen_t;
        let value = (&raw mut statistics).cast();
        // SAFETY: the value is valid for writing `len` bytes, and `len` for reading and writing.
        let result = unsafe {
            libc::getsockopt(self.fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, value, &raw mut len)
        };
        checked(result)?;
        Ok(statistics.tp_drops.into())
    }

    fn open(interface: u32, protocol: u16) -> io::Result<Self> {
        // Protocol 0 until it is bound: nothing of other interfaces gets in.
        // SAFETY: socket takes constants only.
        let fd = checked(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: `fd` was just made and belongs to nobody else.
        let socket = Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } };
        socket.bind(interface, protocol)?;
        Ok(socket)
    }

    fn bind(&self, interface: u32, protocol: u16) -> io::Result<()> {
        // SAFETY: sockaddr_ll is a plain C structure; all zeros is a value of it.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = i32::try_from(interface).map_err(io::Error::other)?;
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address is valid for reading `len` bytes.
        checked(unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), len) }).map(drop)
    }

    /// To sleep on.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn set_option<T>(&self, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
        let len = size_of_val(value) as libc::socklen_t;
        // SAFETY: the value is valid for reading `len` bytes.
        let result = unsafe { libc::setsockopt(self.fd.as_raw_fd(), level, name, (&raw const *value).cast(), len) };
        checked(result).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netdev::Netdev;
    use crate::netns::NetNs;

    #[test]
    fn what_is_sent_on_the_loopback_comes_back_and_waiting_ends() {
        let namespace = match NetNs::anonymous() {
            Ok(namespace) => namespace,
            Err(error) => return eprintln!("skipped: no network namespace: {error}"),
        };
        let opened = namespace.run(|| -> io::Result<_> {
            Netdev::open("lo")?.set_up(true)?;
            Ok((RawSocket::sender(1)?, RawSocket::receiver(1, Duration::from_millis(200))?))
        });
        let (sender, receiver) = opened.expect("enter").expect("sockets");
        let frame: Vec<u8> = (0..100).collect();
        sender.send(&frame).expect("send");
        let mut buffer = [0; 200];
        let len = receiver.receive(&mut buffer).expect("it comes back");
        assert_eq!(buffer[..len], frame);
        let error = receiver.receive(&mut buffer).expect_err("nothing more");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(RawSocket::sender(4_000).is_err());
    }
}
