//! A packet socket whose frames are timestamped one by one, as they leave and as they arrive (Documentation/networking/timestamping.rst):
//! for a few probes a second, not for loads.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use super::{RAW_HARDWARE, RX_HARDWARE, TX_HARDWARE};
use crate::raw::RawSocket;

/// linux/net_tstamp.h: SOF_TIMESTAMPING_*.
const TX_SOFTWARE: u32 = 1 << 1;
const RX_SOFTWARE: u32 = 1 << 3;
const SOFTWARE: u32 = 1 << 4;
/// Each frame that is sent has a number, from 0 on.
const OPT_ID: u32 = 1 << 7;
/// A transmit timestamp comes without the frame.
const OPT_TSONLY: u32 = 1 << 11;
/// linux/if_packet.h.
const PACKET_TX_TIMESTAMP: libc::c_int = 16;
/// Bytes of ancillary data that are read: a timestamp and an error need 128.
const CONTROL_WORDS: usize = 64;
/// Transmit timestamps that are kept for `take_sent`.
const SENT_MAX: usize = 64;

/// Who timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampedBy {
    /// The network card, by its own clock.
    Card,
    /// The kernel, by CLOCK_REALTIME: the driver as it hands the frame to the card, the receive path as it takes it over.
    Kernel,
}

/// When a frame left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The number that [`TimestampingSocket::send`] returned.
    pub number: u32,
    /// On the clock of whoever timestamps, in nanoseconds.
    pub time_ns: i64,
}

/// A raw socket on one interface. Its calls do not wait.
#[derive(Debug)]
pub struct TimestampingSocket {
    socket: RawSocket,
    by: TimestampedBy,
    next: u32,
    sent: VecDeque<Sent>,
}

impl TimestampingSocket {
    /// A socket that sends on `interface` (its index) and receives nothing.
    ///
    /// # Errors
    /// As [`RawSocket::sender`]; `EINVAL` from a kernel without timestamps.
    pub fn sender(interface: u32, by: TimestampedBy) -> io::Result<TimestampingSocket> {
        let flags = match by {
            TimestampedBy::Card => TX_HARDWARE | RAW_HARDWARE,
            TimestampedBy::Kernel => TX_SOFTWARE | SOFTWARE,
        };
        TimestampingSocket::with(RawSocket::sender(interface)?, by, flags | OPT_ID | OPT_TSONLY)
    }

    /// A socket that receives the frames of one EtherType that arrive on `interface`, and for which `filter` (a program of classic BPF:
    /// code, jump if true, jump if false, operand; empty takes all) is not 0.
    ///
    /// # Errors
    /// As [`TimestampingSocket::sender`]; `EINVAL` for a filter that the kernel does not take.
    pub fn receiver(
        interface: u32,
        ether_type: u16,
        filter: &[(u16, u8, u8, u32)],
        by: TimestampedBy,
    ) -> io::Result<TimestampingSocket> {
        let flags = match by {
            TimestampedBy::Card => RX_HARDWARE | RAW_HARDWARE,
            TimestampedBy::Kernel => RX_SOFTWARE | SOFTWARE,
        };
        let socket = RawSocket::filtered_receiver(interface, ether_type, filter, Duration::from_micros(1))?;
        TimestampingSocket::with(socket, by, flags)
    }

    fn with(socket: RawSocket, by: TimestampedBy, flags: u32) -> io::Result<TimestampingSocket> {
        socket.set_option(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)?;
        Ok(TimestampingSocket { socket, by, next: 0, sent: VecDeque::new() })
    }

    /// To sleep on: a transmit timestamp shows as an error, a frame as something to read.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }

    /// Sends one frame; returns the number that its timestamp will have.
    ///
    /// # Errors
    /// As [`RawSocket::send`].
    pub fn send(&mut self, frame: &[u8]) -> io::Result<u32> {
        let result = self.socket.send(frame);
        let number = self.next;
        // The kernel numbers a frame before it hands it to the interface, so one that the interface refuses has a number, too.
        if result.as_ref().err().is_none_or(|error| error.raw_os_error() == Some(libc::ENOBUFS)) {
            self.next = self.next.wrapping_add(1);
        }
        result.map(|()| number)
    }

    /// The next transmit timestamp that is there.
    ///
    /// # Errors
    /// What broke the socket: `ENETDOWN` when the interface went down.
    pub fn take_sent(&mut self) -> io::Result<Option<Sent>> {
        // A bound on the work of one call, whatever the queue holds.
        for _ in 0..SENT_MAX {
            if !self.sent.is_empty() {
                break;
            }
            let mut control = Control::default();
            match self.receive_message(&mut [], &mut control, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) {
                Ok(_) => self.sent.extend(control.sent(self.by)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(self.sent.pop_front())
    }

    /// The next frame that is there, cut to the length of `buffer`: its length, and when it arrived on the clock of whoever timestamps,
    /// in nanoseconds; `None` where that did not timestamp it.
    ///
    /// # Errors
    /// As [`TimestampingSocket::take_sent`].
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<(usize, Option<i64>)>> {
        let mut control = Control::default();
        match self.receive_message(buffer, &mut control, libc::MSG_DONTWAIT) {
            Ok(len) => Ok(Some((len, control.time(self.by)))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn receive_message(&self, buffer: &mut [u8], control: &mut Control, flags: libc::c_int) -> io::Result<usize> {
        let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: msghdr is a plain C structure; all zeros is a value of it.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.words.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control.words) as _;
        // SAFETY: the message names `buffer` and `control`, which are valid for writing their lengths during the call.
        let len = unsafe { libc::recvmsg(self.socket.fd().as_raw_fd(), &raw mut message, flags) };
        let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
        control.len = message.msg_controllen as usize;
        Ok(len.min(buffer.len()))
    }
}

/// Ancillary data of a message (cmsg(3)), aligned as its headers are.
struct Control {
    words: [u64; CONTROL_WORDS],
    len: usize,
}

impl Default for Control {
    fn default() -> Control {
        Control { words: [0; CONTROL_WORDS], len: 0 }
    }
}

impl Control {
    fn bytes(&self) -> Vec<u8> {
        let bytes = self.words.iter().flat_map(|word| word.to_ne_bytes());
        bytes.take(self.len).collect()
    }

    /// The timestamp, and the number of the frame that it is of.
    fn sent(&self, by: TimestampedBy) -> Option<Sent> {
        let bytes = self.bytes();
        let error = message(&bytes, libc::SOL_PACKET, PACKET_TX_TIMESTAMP)?;
        // struct sock_extended_err: ee_errno, ee_origin, ee_type, ee_code, ee_pad, ee_info, ee_data.
        let is_timestamp =
            word(error, 0)? == libc::ENOMSG as u32 && error.get(4) == Some(&libc::SO_EE_ORIGIN_TIMESTAMPING);
        // ee_info is SCM_TSTAMP_SND, 0: not when it was scheduled or acknowledged.
        if !is_timestamp || word(error, 8)? != 0 {
            return None;
        }
        Some(Sent { number: word(error, 12)?, time_ns: time_of(&bytes, by)? })
    }

    fn time(&self, by: TimestampedBy) -> Option<i64> {
        time_of(&self.bytes(), by)
    }
}

/// Of `struct scm_timestamping`, three timespecs: software, nothing, hardware. All zeros stands for none.
fn time_of(control: &[u8], by: TimestampedBy) -> Option<i64> {
    let times = message(control, libc::SOL_SOCKET, libc::SCM_TIMESTAMPING)?;
    let place = if by == TimestampedBy::Card { 32 } else { 0 };
    let part = |at: usize| Some(i64::from_ne_bytes(times.get(at..at + 8)?.try_into().ok()?));
    let (seconds, nanoseconds) = (part(place)?, part(place + 8)?);
    let time_ns = seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)?;
    (seconds >= 0 && (0..1_000_000_000).contains(&nanoseconds) && time_ns != 0).then_some(time_ns)
}

/// The data of the first control message of a level and type.
fn message(control: &[u8], level: libc::c_int, kind: libc::c_int) -> Option<&[u8]> {
    const HEADER_LEN: usize = size_of::<libc::cmsghdr>();
    let mut rest = control;
    loop {
        // struct cmsghdr: the length of header and data (size_t), level, type.
        let len = usize::try_from(u64::from_ne_bytes(rest.get(..8)?.try_into().ok()?)).ok()?;
        if len < HEADER_LEN || len > rest.len() {
            return None;
        }
        if (word(rest, 8)?, word(rest, 12)?) == (level as u32, kind as u32) {
            return rest.get(HEADER_LEN..len);
        }
        rest = rest.get(len.next_multiple_of(8)..)?;
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::netdev::Netdev;
    use crate::netns::NetNs;
    use crate::poll::{PollFor, poll};
    use crate::veth::{self, VethEnd};

    fn control(messages: &[(libc::c_int, libc::c_int, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (level, kind, data) in messages {
            bytes.extend((16 + data.len() as u64).to_ne_bytes());
            bytes.extend(level.to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(data);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        bytes
    }

    fn held(bytes: &[u8]) -> Control {
        let mut control = Control { len: bytes.len(), ..Control::default() };
        for (word, part) in control.words.iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..part.len()].copy_from_slice(part);
            *word = u64::from_ne_bytes(whole);
        }
        control
    }

    fn times(software: [i64; 2], hardware: [i64; 2]) -> (libc::c_int, libc::c_int, Vec<u8>) {
        let all = [software, [0, 0], hardware].concat();
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, all.iter().flat_map(|part| part.to_ne_bytes()).collect())
    }

    fn error(errno: i32, origin: u8, info: u32, number: u32) -> (libc::c_int, libc::c_int, Vec<u8>) {
        let mut data = errno.to_ne_bytes().to_vec();
        data.extend([origin, 0, 0, 0]);
        data.extend(info.to_ne_bytes());
        data.extend(number.to_ne_bytes());
        (libc::SOL_PACKET, PACKET_TX_TIMESTAMP, data)
    }

    #[test]
    fn a_timestamp_is_read_as_the_kernel_writes_it() {
        let other = (libc::SOL_SOCKET, libc::SCM_TIMESTAMP, vec![1; 3]);
        let both = control(&[other, times([5, 6], [7, 8]), error(libc::ENOMSG, 4, 0, 9)]);
        assert_eq!(held(&both).sent(TimestampedBy::Card), Some(Sent { number: 9, time_ns: 7_000_000_008 }));
        assert_eq!(held(&both).sent(TimestampedBy::Kernel), Some(Sent { number: 9, time_ns: 5_000_000_006 }));
        assert_eq!(held(&control(&[times([5, 6], [0, 0])])).time(TimestampedBy::Card), None);
        // Another error, another origin, a timestamp of scheduling; times that are none.
        for wrong in [error(libc::ENETDOWN, 4, 0, 9), error(libc::ENOMSG, 1, 0, 9), error(libc::ENOMSG, 4, 1, 9)] {
            assert_eq!(held(&control(&[times([5, 6], [7, 8]), wrong])).sent(TimestampedBy::Card), None);
        }
        for wrong in [[-1, 5], [1, 1_000_000_000], [i64::MAX, 0]] {
            assert_eq!(held(&control(&[times([0, 0], wrong)])).time(TimestampedBy::Card), None);
        }
    }

    /// A frame over a veth has a timestamp of the kernel at both ends; one that the interface refuses takes a number with it.
    #[test]
    fn each_timestamp_has_the_number_of_its_frame() {
        let namespace = match NetNs::anonymous() {
            Ok(namespace) => namespace,
            Err(error) => return eprintln!("skipped: no network namespace: {error}"),
        };
        let tc = |words: &str| std::process::Command::new("tc").args(words.split(' ')).status();
        let refuse_all = namespace.run(|| -> io::Result<_> {
            let [one, other] = ["one", "other"].map(|name| VethEnd { namespace: &namespace, name });
            veth::create(one, other, 1)?;
            let [one, other] = [Netdev::open("one")?, Netdev::open("other")?];
            veth::bring_up(&one, &other)?;
            let mut sender = TimestampingSocket::sender(one.index()?, TimestampedBy::Kernel)?;
            let mut receiver = TimestampingSocket::receiver(other.index()?, 0x88f7, &[], TimestampedBy::Kernel)?;
            let frame = [&[0xff; 12][..], &[0x88, 0xf7], &[7; 46]].concat();
            let mut exchange = || -> io::Result<(u32, Sent, Option<i64>)> {
                let number = sender.send(&frame)?;
                poll(sender.fd(), PollFor::Reading, 1_000_000_000)?;
                let sent = sender.take_sent()?.expect("a transmit timestamp");
                poll(receiver.fd(), PollFor::Reading, 1_000_000_000)?;
                let (len, time_ns) = receiver.receive(&mut [0; 100])?.expect("the frame");
                assert_eq!(len, frame.len());
                Ok((number, sent, time_ns))
            };
            let before_ns = crate::clock::realtime_ns() as i64;
            // The kernel begins to timestamp what it receives some time after it was told.
            let mut received = None;
            let mut next = 0;
            while received.is_none() && next < 1_000 {
                let (number, sent, received_ns) = exchange()?;
                assert_eq!((number, sent.number), (next, next));
                received = received_ns.map(|received_ns| (sent.time_ns, received_ns));
                next += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            let (sent_ns, received_ns) = received.expect("a receive timestamp");
            assert!(before_ns <= sent_ns && sent_ns <= received_ns, "{before_ns} {sent_ns} {received_ns}");
            let refuse_all = tc("qdisc add dev one root pfifo limit 0");
            if refuse_all.as_ref().is_ok_and(|status| status.success()) {
                assert_eq!(exchange().unwrap_err().raw_os_error(), Some(libc::ENOBUFS));
                assert!(tc("qdisc del dev one root")?.success());
                let (number, sent, _) = exchange()?;
                assert_eq!((number, sent.number), (next + 1, next + 1));
            }
            Ok(refuse_all)
        });
        if let Err(error) = refuse_all.expect("enter").expect("sockets") {
            eprintln!("skipped in part: tc is not installed: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
            let control = held(&bytes);
            let _ = (control.sent(TimestampedBy::Card), control.time(TimestampedBy::Kernel));
        }
    }
}
