//! The UNIX sockets of control channels, and the descriptors that their messages carry (unix(7)).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::check;
use crate::message::MESSAGE_BYTES;

/// Connections that may wait to be accepted.
const BACKLOG: libc::c_int = 64;

/// Descriptors taken from one message; the kernel closes what is beyond.
const FILES_MAX: usize = 4;

/// Bytes of a socket's name, the zero at its end (or start) included.
pub(crate) const NAME_BYTES_MAX: usize = 108;

/// A socket address: a path, or (after `@`) a name in the abstract namespace.
fn address_of(name: &str) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: a structure of integers, for which all zeros is a value.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let (skip, text) = match name.strip_prefix('@') {
        Some(rest) => (1, rest),
        None => (0, name),
    };
    if text.is_empty() || text.len() + 1 > address.sun_path.len() || text.contains('\0') {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    for (to, from) in address.sun_path[skip..].iter_mut().zip(text.bytes()) {
        *to = from as libc::c_char;
    }
    // A path counts with the zero at its end, an abstract name with the one at its start.
    let len = std::mem::offset_of!(libc::sockaddr_un, sun_path) + text.len() + 1;
    Ok((address, len as libc::socklen_t))
}

fn new_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes constants only.
    let fd = check(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    // SAFETY: `fd` was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A socket that clients connect to.
#[derive(Debug)]
pub(crate) struct ListeningSocket {
    fd: OwnedFd,
}

impl ListeningSocket {
    /// Binds and listens; the socket's file has mode 0600 from its first moment on.
    pub(crate) fn bind(name: &str) -> io::Result<ListeningSocket> {
        let (address, len) = address_of(name)?;
        let fd = new_socket()?;
        // SAFETY: takes a descriptor and a number. bind(2) takes over the mode of the socket.
        check(unsafe { libc::fchmod(fd.as_raw_fd(), 0o600) })?;
        // SAFETY: the address is live and of the length given.
        check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
        // SAFETY: takes a descriptor and a number.
        check(unsafe { libc::listen(fd.as_raw_fd(), BACKLOG) })?;
        Ok(ListeningSocket { fd })
    }

    /// The next client; `None` when there is none.
    pub(crate) fn accept(&self) -> io::Result<Option<Channel>> {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no address is asked for.
        let fd = unsafe { libc::accept4(self.fd.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags) };
        match check(fd) {
            // SAFETY: `fd` was just made and belongs to nobody else.
            Ok(fd) => Ok(Some(Channel { fd: unsafe { OwnedFd::from_raw_fd(fd) } })),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for ListeningSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// One end of a control channel; never blocks.
#[derive(Debug)]
pub(crate) struct Channel {
    fd: OwnedFd,
}

/// What came over a channel.
#[derive(Debug)]
pub(crate) enum Received {
    /// One message, as long as it was, and the first descriptor that came with it.
    Message { bytes: [u8; MESSAGE_BYTES], len: usize, file: Option<OwnedFd> },
    /// The other end is closed.
    End,
    /// Nothing yet.
    Nothing,
}

impl Channel {
    /// Connects to who listens at `name`.
    pub(crate) fn connect(name: &str) -> io::Result<Channel> {
        let (address, len) = address_of(name)?;
        let fd = new_socket()?;
        // SAFETY: the address is live and of the length given.
        check(unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
        Ok(Channel { fd })
    }

    /// User of the process at the other end.
    pub(crate) fn peer_uid(&self) -> io::Result<u32> {
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut len = size_of_val(&peer) as libc::socklen_t;
        let fd = self.fd.as_raw_fd();
        // SAFETY: the structure is live and as long as said.
        let result =
            unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut peer).cast(), &mut len) };
        check(result).map(|_| peer.uid)
    }

    /// Sends one message, and a descriptor with it.
    pub(crate) fn send(&self, bytes: &[u8; MESSAGE_BYTES], file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.send_part(bytes, file)
    }

    fn send_part(&self, bytes: &[u8], file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut control = ControlBuffer::default();
        let mut part = libc::iovec { iov_base: bytes.as_ptr() as *mut libc::c_void, iov_len: bytes.len() };
        // SAFETY: a structure of integers and pointers, for which all zeros is a value.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        (header.msg_iov, header.msg_iovlen) = (&mut part, 1);
        if let Some(file) = file {
            let payload = size_of::<libc::c_int>() as libc::c_uint;
            header.msg_control = control.bytes.as_mut_ptr().cast();
            // SAFETY: computes a number.
            header.msg_controllen = unsafe { libc::CMSG_SPACE(payload) } as _;
            // SAFETY: the buffer is aligned, and longer than one header with one descriptor.
            unsafe {
                let first = libc::CMSG_FIRSTHDR(&header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(payload) as _;
                libc::CMSG_DATA(first).cast::<libc::c_int>().write_unaligned(file.as_raw_fd());
            }
        }
        // SAFETY: the header points to live memory of the lengths in it; nothing is written.
        let sent = unsafe { libc::sendmsg(self.fd.as_raw_fd(), &header, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) };
        check(sent as libc::c_int).map(|_| ())
    }

    /// Takes the next message.
    pub(crate) fn receive(&self) -> io::Result<Received> {
        let mut bytes = [0; MESSAGE_BYTES];
        let mut control = ControlBuffer::default();
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        // SAFETY: as in `send`.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        (header.msg_iov, header.msg_iovlen) = (&mut part, 1);
        header.msg_control = control.bytes.as_mut_ptr().cast();
        header.msg_controllen = control.bytes.len() as _;
        let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC | libc::MSG_TRUNC;
        // SAFETY: the header points to live buffers of the lengths in it.
        let len = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &mut header, flags) };
        match check(len as libc::c_int) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Received::Nothing),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(Received::End),
            Err(error) => return Err(error),
        }
        // All descriptors are owned from here on, those of a message without a byte too, which looks like the end; the first is
        // wanted.
        let mut files = received_files(&header);
        if len == 0 {
            return Ok(Received::End);
        }
        let file = if files.is_empty() { None } else { Some(files.remove(0)) };
        Ok(Received::Message { bytes, len: len as usize, file })
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Room for the descriptors of a message, aligned as a `cmsghdr` must be.
#[repr(C, align(8))]
struct ControlBuffer {
    bytes: [u8; 64],
}

// The header and the descriptors fit.
const _: () = assert!(size_of::<libc::cmsghdr>() + FILES_MAX * size_of::<libc::c_int>() <= 64);

impl Default for ControlBuffer {
    fn default() -> ControlBuffer {
        ControlBuffer { bytes: [0; 64] }
    }
}

fn received_files(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut files = Vec::new();
    // SAFETY: the kernel filled the control buffer that the header points to, and said how far.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        while !next.is_null() {
            if (*next).cmsg_level == libc::SOL_SOCKET && (*next).cmsg_type == libc::SCM_RIGHTS {
                let bytes = ((*next).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                for index in 0..bytes / size_of::<libc::c_int>() {
                    let fd = libc::CMSG_DATA(next).cast::<libc::c_int>().add(index).read_unaligned();
                    files.push(OwnedFd::from_raw_fd(fd));
                }
            }
            next = libc::CMSG_NXTHDR(header, next);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use linerate_sys::poll::{PollFor, poll};

    use super::*;

    #[test]
    fn a_message_without_a_byte_leaves_no_descriptor_behind() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("s").display().to_string();
        let listening = ListeningSocket::bind(&name).unwrap();
        let peer = Channel::connect(&name).unwrap();
        let channel = listening.accept().unwrap().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        peer.send_part(&[], Some(writer.as_fd())).unwrap();
        drop(writer);
        assert!(matches!(channel.receive().unwrap(), Received::End));
        // The pipe ends only when nobody has its other end any more.
        assert!(poll(reader.as_fd(), PollFor::Reading, 0).unwrap().failed, "a descriptor was left open");
        assert_eq!(reader.read(&mut [0; 1]).unwrap(), 0);
    }
}
