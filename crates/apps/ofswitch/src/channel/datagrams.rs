//! An auxiliary connection by UDP: each datagram holds whole messages, one or more (OpenFlow 1.3.5 section 6.3.7).

use std::io::{self, Read, Write};
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};

use linerate_ofswitch_loop::stream::ByteStream;
use linerate_openflow::{HEADER_BYTES, Header};

/// Messages share a datagram up to this length, which fits a frame of Ethernet beside the headers of IPv6 and UDP. A longer message has a
/// datagram of its own.
const SHARED_BYTES: usize = 1_440;
/// What the longest datagram holds behind the headers of IPv4 and UDP.
const DATAGRAM_BYTES_MAX: usize = 65_507;

/// The messages of a connected socket, as a stream of bytes. What is read at once is a datagram at most.
pub(crate) struct Datagrams {
    socket: UdpSocket,
    /// The datagram at hand.
    received: Vec<u8>,
    /// Bytes of it that were read.
    start: usize,
    /// Bytes of it.
    end: usize,
}

impl Datagrams {
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Datagrams> {
        socket.set_nonblocking(true)?;
        Ok(Datagrams { socket, received: vec![0; 1 << 16], start: 0, end: 0 })
    }
}

impl Read for Datagrams {
    /// Datagrams that do not hold whole messages are dropped, because what follows them could not be told apart.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.start == self.end {
            let len = self.socket.recv(&mut self.received)?;
            if whole_messages(&self.received[..len], usize::MAX) == len {
                (self.start, self.end) = (0, len);
            }
        }
        let len = bytes.len().min(self.end - self.start);
        bytes[..len].copy_from_slice(&self.received[self.start..self.start + len]);
        self.start += len;
        Ok(len)
    }
}

impl Write for Datagrams {
    /// Sends the first messages of `bytes`, which begin with one. A message that no datagram can hold is lost, as any datagram may be.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = match whole_messages(bytes, SHARED_BYTES) {
            0 => first_message(bytes).unwrap_or(bytes.len()),
            len => len,
        };
        if len <= DATAGRAM_BYTES_MAX {
            self.socket.send(&bytes[..len])?;
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ByteStream for Datagrams {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn is_datagrams(&self) -> bool {
        true
    }
}

/// Length of the first message; `None` if it is not whole.
fn first_message(bytes: &[u8]) -> Option<usize> {
    let len = usize::from(Header::read(bytes)?.length);
    (HEADER_BYTES..=bytes.len()).contains(&len).then_some(len)
}

/// Bytes of the whole messages at the front that are no longer than `most` together.
fn whole_messages(bytes: &[u8], most: usize) -> usize {
    let mut end = 0;
    while let Some(len) = first_message(&bytes[end..])
        && end + len <= most
    {
        end += len;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(len: u16) -> Vec<u8> {
        let mut message = vec![4, 2, 0, 0, 0, 0, 0, 1];
        message[2..4].copy_from_slice(&len.to_be_bytes());
        message.resize(len.into(), 7);
        message
    }

    fn joined() -> (Datagrams, UdpSocket) {
        let (near, far) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        near.connect(far.local_addr().unwrap()).unwrap();
        far.connect(near.local_addr().unwrap()).unwrap();
        (Datagrams::new(near).unwrap(), far)
    }

    #[test]
    fn messages_that_fit_share_a_datagram_and_none_is_split() {
        let (mut near, far) = joined();
        let bytes = [message(700), message(740), message(8), message(3000), message(65_535), message(9)].concat();
        let mut sent = 0;
        while sent < bytes.len() {
            sent += near.write(&bytes[sent..]).unwrap();
        }
        let mut datagram = vec![0; 1 << 16];
        let lens: Vec<usize> = (0..4).map(|_| far.recv(&mut datagram).unwrap()).collect();
        assert_eq!(lens, [1440, 8, 3000, 9], "the longest message fits no datagram");
    }

    #[test]
    fn a_datagram_is_read_in_parts_and_one_that_is_cut_is_dropped() {
        let (mut near, far) = joined();
        let whole = [message(8), message(20)].concat();
        for datagram in [&whole[..], &whole[..27], &[], &[0; 8], &message(12)] {
            far.send(datagram).unwrap();
        }
        let mut bytes = [0; 28];
        assert_eq!((near.read(&mut bytes[..10]).unwrap(), near.read(&mut bytes[10..]).unwrap()), (10, 18));
        assert_eq!(bytes[..], whole[..]);
        assert_eq!(near.read(&mut bytes).unwrap(), 12);
        assert_eq!(near.read(&mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
