//! The C interface of `packetdrill.h` (google/packetdrill, commit 2c4001c), and nothing but conversions between it and [`Host`].
#![allow(unsafe_code)]

mod interface;

use std::ffi::{CStr, c_char, c_int, c_long, c_longlong, c_uint, c_ulong, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::{ptr, slice};

use crate::calls::{self, Outcome};
use crate::host::Host;
use crate::settings::Settings;

pub use interface::Interface;

type Data = *mut c_void;

/// The process's host, for [`getsockopt`] by its own name.
static HOST: AtomicPtr<Host> = AtomicPtr::new(ptr::null_mut());

/// What packetdrill calls first: fills its interface in. `flags` is the text of `--so_flags` (docs/packetdrill.md), or null. A flag that
/// is wrong ends the process, as packetdrill's own errors do.
///
/// # Safety
/// `flags` is null or a C string, and `interface` points to memory for an [`Interface`].
#[unsafe(no_mangle)] // SAFETY: no other function of this library has the name.
pub unsafe extern "C" fn packetdrill_interface_init(flags: *const c_char, interface: *mut Interface) {
    // SAFETY: the caller gives a C string or null.
    let flags = if flags.is_null() { "".into() } else { unsafe { CStr::from_ptr(flags) }.to_string_lossy() };
    let settings = Settings::read(&flags).unwrap_or_else(|problem| {
        eprintln!("--so_flags: {problem}");
        std::process::exit(2);
    });
    let host = Box::into_raw(Box::new(Host::new(settings)));
    HOST.store(host, Ordering::Release);
    let functions = Interface {
        userdata: host.cast(),
        free,
        socket,
        bind,
        listen,
        accept,
        connect,
        read,
        readv,
        recv,
        recvfrom,
        recvmsg,
        write,
        writev,
        send,
        sendto,
        sendmsg,
        fcntl,
        ioctl,
        close,
        shutdown,
        getsockopt: get_option,
        setsockopt,
        poll,
        netdev_send,
        netdev_receive,
        usleep,
        gettimeofday,
        epoll_create,
        epoll_ctl,
        epoll_wait,
        pipe,
        splice,
    };
    // SAFETY: the caller gives memory for it.
    unsafe { interface.write(functions) };
}

/// The host behind the caller's word.
///
/// # Safety
/// `data` is what [`packetdrill_interface_init`] filled in, and was not freed.
unsafe fn host<'a>(data: Data) -> &'a Host {
    // SAFETY: by the contract above; the host is shared by two threads and has its own mutex.
    unsafe { &*data.cast::<Host>() }
}

unsafe extern "C" fn free(data: Data) {
    HOST.store(ptr::null_mut(), Ordering::Release);
    // SAFETY: packetdrill frees what it was given, once and last.
    drop(unsafe { Box::from_raw(data.cast::<Host>()) });
}

/// Result of a call: a number, or -1 with errno(3).
fn result<T: TryInto<isize>>(outcome: Outcome<T>) -> isize {
    let number = outcome.and_then(|value| value.try_into().map_err(|_| libc::EOVERFLOW));
    number.unwrap_or_else(|error| {
        // SAFETY: errno is the calling thread's own.
        unsafe { *libc::__errno_location() = error };
        -1
    })
}

fn done(outcome: Outcome<()>) -> c_int {
    result(outcome.map(|()| 0_i32)) as c_int
}

/// A descriptor that is really one, because packetdrill closes those that are left.
fn descriptor() -> Outcome<c_int> {
    // SAFETY: the path is a C string.
    match unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) } {
        -1 => Err(libc::EMFILE),
        number => Ok(number),
    }
}

/// # Safety
/// `address` is null or points to `len` bytes.
unsafe fn address(address: *const libc::sockaddr, len: libc::socklen_t) -> Outcome<SocketAddr> {
    if address.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: the caller gives `len` bytes, and each structure is read only if these are enough; alignment is not assumed.
    unsafe {
        let len = len as usize;
        if len < size_of::<libc::sa_family_t>() {
            return Err(libc::EINVAL);
        }
        match c_int::from(ptr::read_unaligned(address.cast::<libc::sa_family_t>())) {
            libc::AF_INET if len >= size_of::<libc::sockaddr_in>() => {
                let address = ptr::read_unaligned(address.cast::<libc::sockaddr_in>());
                let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
                Ok(SocketAddr::new(ip.into(), u16::from_be(address.sin_port)))
            }
            libc::AF_INET6 if len >= size_of::<libc::sockaddr_in6>() => {
                let address = ptr::read_unaligned(address.cast::<libc::sockaddr_in6>());
                Ok(SocketAddr::new(Ipv6Addr::from(address.sin6_addr.s6_addr).into(), u16::from_be(address.sin6_port)))
            }
            libc::AF_INET | libc::AF_INET6 => Err(libc::EINVAL),
            _ => Err(libc::EAFNOSUPPORT),
        }
    }
}

/// # Safety
/// `to` is null or points to `*len` bytes.
unsafe fn put_address(from: Option<SocketAddr>, to: *mut libc::sockaddr, len: *mut libc::socklen_t) {
    let Some(from) = from.filter(|_| !to.is_null() && !len.is_null()) else { return };
    let IpAddr::V4(ip) = from.ip() else { return };
    // SAFETY: all zeroes is a valid address structure.
    let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    address.sin_family = libc::AF_INET as libc::sa_family_t;
    address.sin_port = from.port().to_be();
    address.sin_addr.s_addr = u32::from(ip).to_be();
    // SAFETY: at most `*len` bytes are written there, and at most the structure's are read.
    unsafe {
        let count = (*len as usize).min(size_of::<libc::sockaddr_in>());
        ptr::copy_nonoverlapping((&raw const address).cast::<u8>(), to.cast::<u8>(), count);
        *len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    }
}

unsafe extern "C" fn socket(data: Data, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: packetdrill passes what it was given.
    let host = unsafe { host(data) };
    let flags = libc::O_RDWR | kind & libc::SOCK_NONBLOCK;
    let made = match (domain, kind & 0xf, protocol) {
        (libc::AF_INET, libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => {
            descriptor().and_then(|number| host.now(|state| calls::socket(state, number, flags)).map(|()| number))
        }
        (libc::AF_INET, ..) => Err(libc::EPROTONOSUPPORT),
        _ => Err(libc::EAFNOSUPPORT),
    };
    result(made) as c_int
}

/// # Safety
/// As for every function of the interface: `data` is what it was filled in with, and pointers are those of the system call of this name.
unsafe extern "C" fn bind(data: Data, socket: c_int, to: *const libc::sockaddr, len: libc::socklen_t) -> c_int {
    // SAFETY: packetdrill passes what it was given, and an address of the length it says.
    let (host, to) = unsafe { (host(data), address(to, len)) };
    done(to.and_then(|to| host.now(|state| calls::bind(state, socket, to))))
}

unsafe extern "C" fn listen(data: Data, socket: c_int, backlog: c_int) -> c_int {
    // SAFETY: packetdrill passes what it was given.
    done(unsafe { host(data) }.now(|state| calls::listen(state, socket, backlog)))
}

/// For how long a call on the descriptor waits: not at all, or until something comes.
fn patience(host: &Host, socket: c_int, flags: c_int) -> Option<u64> {
    let waits = flags & libc::MSG_DONTWAIT == 0 && host.now(|state| calls::waits(state, socket));
    if waits { None } else { Some(0) }
}

unsafe extern "C" fn accept(data: Data, socket: c_int, from: *mut libc::sockaddr, len: *mut libc::socklen_t) -> c_int {
    // SAFETY: packetdrill passes what it was given.
    let host = unsafe { host(data) };
    let accepted = host.until(patience(host, socket, 0), |state| calls::accept(state, socket));
    let outcome = accepted.unwrap_or(Err(libc::EAGAIN)).and_then(|(conn, peer)| {
        let number = descriptor()?;
        host.now(|state| calls::adopt(state, socket, number, conn));
        // SAFETY: packetdrill gives room for an address, or null.
        unsafe { put_address(peer, from, len) };
        Ok(number)
    });
    result(outcome) as c_int
}

unsafe extern "C" fn connect(data: Data, socket: c_int, to: *const libc::sockaddr, len: libc::socklen_t) -> c_int {
    // SAFETY: packetdrill passes what it was given, and an address of the length it says.
    let (host, to) = unsafe { (host(data), address(to, len)) };
    let begun = to.and_then(|to| host.now(|state| calls::connect(state, socket, to)));
    done(begun.and_then(|()| {
        let stands = host.until(patience(host, socket, 0), |state| calls::connected(state, socket));
        stands.unwrap_or(Err(libc::EINPROGRESS))
    }))
}

/// A buffer without memory, which scripts pass to see what happens.
fn is_nowhere(buffer: &libc::iovec) -> bool {
    buffer.iov_len > 0 && buffer.iov_base.is_null()
}

/// Reads into memory of the caller.
///
/// # Safety
/// `data` is packetdrill's word, and each buffer points to as many bytes as it says.
unsafe fn read_into(data: Data, socket: c_int, buffers: &[libc::iovec], flags: c_int) -> isize {
    // SAFETY: by the contract above.
    let host = unsafe { host(data) };
    if buffers.iter().any(is_nowhere) {
        return result::<isize>(Err(libc::EFAULT));
    }
    let len = buffers.iter().map(|buffer| buffer.iov_len).sum();
    let peeks = flags & libc::MSG_PEEK != 0;
    let read = host.until(patience(host, socket, flags), |state| calls::read(state, socket, len, peeks));
    result(read.unwrap_or(Err(libc::EAGAIN)).map(|bytes| {
        let mut rest = bytes.as_slice();
        for buffer in buffers {
            let (now, later) = rest.split_at(rest.len().min(buffer.iov_len));
            // SAFETY: the buffer has room for `iov_len` bytes, of which these are no more.
            unsafe { ptr::copy_nonoverlapping(now.as_ptr(), buffer.iov_base.cast::<u8>(), now.len()) };
            rest = later;
        }
        bytes.len()
    }))
}

/// Writes all of the caller's bytes, or what there is room for if the descriptor does not wait.
///
/// # Safety
/// As for [`read_into`].
unsafe fn write_from(data: Data, socket: c_int, buffers: &[libc::iovec], flags: c_int) -> isize {
    // SAFETY: by the contract above.
    let host = unsafe { host(data) };
    if buffers.iter().any(is_nowhere) {
        return result::<isize>(Err(libc::EFAULT));
    }
    // SAFETY: each buffer points to as many bytes as it says.
    let part = |buffer: &libc::iovec| unsafe { slice::from_raw_parts(buffer.iov_base.cast::<u8>(), buffer.iov_len) };
    let filled = buffers.iter().filter(|buffer| buffer.iov_len > 0);
    let bytes: Vec<u8> = filled.flat_map(part).copied().collect();
    let patience = patience(host, socket, flags);
    let mut sent = 0;
    let wrote = host.until(patience, |state| match calls::write(state, socket, &bytes[sent..])? {
        Ok(count) => {
            sent += count;
            (sent == bytes.len() || patience == Some(0)).then_some(Ok(()))
        }
        Err(error) => Some(Err(error)),
    });
    result(match wrote {
        Some(Err(error)) if sent == 0 => Err(error),
        None if sent == 0 => Err(libc::EAGAIN),
        _ => Ok(sent),
    })
}

/// # Safety
/// As for [`bind`].
unsafe extern "C" fn read(data: Data, socket: c_int, to: *mut c_void, len: usize) -> isize {
    // SAFETY: packetdrill gives a buffer of this length.
    unsafe { read_into(data, socket, &[libc::iovec { iov_base: to, iov_len: len }], 0) }
}

/// # Safety
/// `count` buffers are at `first`, which may be null if there are none.
unsafe fn vector<'a>(first: *const libc::iovec, count: usize) -> &'a [libc::iovec] {
    // SAFETY: by the contract above.
    if first.is_null() { &[] } else { unsafe { slice::from_raw_parts(first, count) } }
}

unsafe extern "C" fn readv(data: Data, socket: c_int, first: *const libc::iovec, count: c_int) -> isize {
    // SAFETY: packetdrill gives `count` buffers.
    unsafe { read_into(data, socket, vector(first, count.max(0) as usize), 0) }
}

unsafe extern "C" fn recv(data: Data, socket: c_int, to: *mut c_void, len: usize, flags: c_int) -> isize {
    // SAFETY: packetdrill gives a buffer of this length.
    unsafe { read_into(data, socket, &[libc::iovec { iov_base: to, iov_len: len }], flags) }
}

unsafe extern "C" fn recvfrom(
    data: Data,
    socket: c_int,
    to: *mut c_void,
    len: usize,
    flags: c_int,
    _: *mut libc::sockaddr,
    _: *mut libc::socklen_t,
) -> isize {
    // SAFETY: packetdrill gives a buffer of this length. The address of a connection's peer is not given (recvfrom(2)).
    unsafe { read_into(data, socket, &[libc::iovec { iov_base: to, iov_len: len }], flags) }
}

unsafe extern "C" fn recvmsg(data: Data, socket: c_int, message: *mut libc::msghdr, flags: c_int) -> isize {
    // SAFETY: packetdrill gives a message with its buffers.
    unsafe {
        (*message).msg_controllen = 0;
        (*message).msg_flags = 0;
        read_into(data, socket, vector((*message).msg_iov, (*message).msg_iovlen), flags)
    }
}

unsafe extern "C" fn write(data: Data, socket: c_int, from: *const c_void, len: usize) -> isize {
    // SAFETY: packetdrill gives a buffer of this length, which is only read.
    unsafe { write_from(data, socket, &[libc::iovec { iov_base: from.cast_mut(), iov_len: len }], 0) }
}

unsafe extern "C" fn writev(data: Data, socket: c_int, first: *const libc::iovec, count: c_int) -> isize {
    // SAFETY: packetdrill gives `count` buffers.
    unsafe { write_from(data, socket, vector(first, count.max(0) as usize), 0) }
}

unsafe extern "C" fn send(data: Data, socket: c_int, from: *const c_void, len: usize, flags: c_int) -> isize {
    // SAFETY: packetdrill gives a buffer of this length, which is only read.
    unsafe { write_from(data, socket, &[libc::iovec { iov_base: from.cast_mut(), iov_len: len }], flags) }
}

unsafe extern "C" fn sendto(
    data: Data,
    socket: c_int,
    from: *const c_void,
    len: usize,
    flags: c_int,
    _: *const libc::sockaddr,
    _: libc::socklen_t,
) -> isize {
    // A SYN with data (RFC 7413) is not spoken.
    if flags & libc::MSG_FASTOPEN != 0 {
        return result::<isize>(Err(libc::EOPNOTSUPP));
    }
    // SAFETY: packetdrill gives a buffer of this length, which is only read.
    unsafe { write_from(data, socket, &[libc::iovec { iov_base: from.cast_mut(), iov_len: len }], flags) }
}

unsafe extern "C" fn sendmsg(data: Data, socket: c_int, message: *const libc::msghdr, flags: c_int) -> isize {
    // SAFETY: packetdrill gives a message with its buffers.
    unsafe { write_from(data, socket, vector((*message).msg_iov, (*message).msg_iovlen), flags) }
}

/// The C declaration ends in `...`: on the machines that Linux runs on, a word among the variable arguments is passed as one among the named
/// ones; if the caller gave none, it is not looked at.
unsafe extern "C" fn fcntl(data: Data, socket: c_int, command: c_int, value: c_long) -> c_int {
    // SAFETY: packetdrill passes what it was given.
    let host = unsafe { host(data) };
    let outcome = host.now(|state| match command {
        libc::F_GETFL => calls::flags(state, socket),
        libc::F_SETFL => calls::with_socket(state, socket, |socket| {
            socket.flags = value as c_int;
            Ok(0)
        }),
        libc::F_GETFD | libc::F_SETFD => Ok(0),
        _ => Err(libc::EINVAL),
    });
    result(outcome) as c_int
}

/// See [`fcntl`] for the third argument.
///
/// # Safety
/// As for [`bind`].
unsafe extern "C" fn ioctl(data: Data, socket: c_int, request: c_ulong, value: *mut c_int) -> c_int {
    // SAFETY: packetdrill passes what it was given.
    let host = unsafe { host(data) };
    let outwards = match request {
        libc::FIONREAD => false,
        libc::TIOCOUTQ => true,
        _ => return done(Err(libc::EINVAL)),
    };
    done(host.now(|state| calls::queued(state, socket, outwards)).map(|count| {
        if !value.is_null() {
            // SAFETY: these requests take a pointer to a number.
            unsafe { value.write(count) };
        }
    }))
}

unsafe extern "C" fn close(data: Data, socket: c_int) -> c_int {
    // SAFETY: packetdrill passes what it was given.
    let closed = unsafe { host(data) }.now(|state| calls::close(state, socket));
    if closed.is_ok() {
        // SAFETY: the descriptor is one that `descriptor` opened.
        unsafe { libc::close(socket) };
    }
    done(closed)
}

unsafe extern "C" fn shutdown(data: Data, socket: c_int, how: c_int) -> c_int {
    // SAFETY: packetdrill passes what it was given.
    done(unsafe { host(data) }.now(|state| calls::shutdown(state, socket, how)))
}

/// `getsockopt(2)` in place of libc's, where this library is preloaded as well: packetdrill's blocks of code ask by that name what the state
/// of a connection is, also of one that is not the kernel's. Descriptors that are not this library's are the kernel's.
///
/// # Safety
/// As for `getsockopt(2)`.
#[unsafe(no_mangle)] // SAFETY: it does for all other descriptors what libc's function of this name does.
pub unsafe extern "C" fn getsockopt(
    socket: c_int,
    level: c_int,
    name: c_int,
    to: *mut c_void,
    len: *mut libc::socklen_t,
) -> c_int {
    let host = HOST.load(Ordering::Acquire);
    // SAFETY: the host lives until `free`, which packetdrill calls last.
    let is_ours = unsafe { host.as_ref() }.is_some_and(|host| host.now(|state| calls::flags(state, socket)).is_ok());
    // SAFETY: the caller keeps to the contract of getsockopt(2).
    unsafe {
        match is_ours {
            true => get_option(host.cast(), socket, level, name, to, len),
            false => libc::syscall(libc::SYS_getsockopt, socket, level, name, to, len) as c_int,
        }
    }
}

unsafe extern "C" fn get_option(
    data: Data,
    socket: c_int,
    level: c_int,
    name: c_int,
    to: *mut c_void,
    len: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: packetdrill passes what it was given.
    let value = unsafe { host(data) }.now(|state| calls::option(state, socket, level, name));
    done(value.map(|bytes| {
        // SAFETY: there is room for `*len` bytes, and no more are written.
        unsafe {
            let count = bytes.len().min(*len as usize);
            ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast::<u8>(), count);
            *len = count as libc::socklen_t;
        }
    }))
}

unsafe extern "C" fn setsockopt(
    data: Data,
    socket: c_int,
    level: c_int,
    name: c_int,
    from: *const c_void,
    len: libc::socklen_t,
) -> c_int {
    let numbers = if from.is_null() { 0 } else { (len as usize / size_of::<c_int>()).min(2) };
    // SAFETY: `len` bytes are at `from`; alignment is not assumed.
    let number = |at: usize| unsafe { ptr::read_unaligned(from.cast::<c_int>().add(at)) };
    let values: Vec<c_int> = (0..numbers).map(number).collect();
    // SAFETY: packetdrill passes what it was given.
    done(unsafe { host(data) }.now(|state| calls::set_option(state, socket, level, name, &values)))
}

/// A time-out in milliseconds, of which a negative one never ends.
fn time_ns(timeout_ms: c_int) -> Option<u64> {
    u64::try_from(timeout_ms).ok().map(|ms| ms * 1_000_000)
}

unsafe extern "C" fn poll(data: Data, first: *mut libc::pollfd, count: libc::nfds_t, timeout_ms: c_int) -> c_int {
    // SAFETY: packetdrill passes what it was given, and `count` entries.
    let (host, all) = unsafe { (host(data), slice::from_raw_parts_mut(first, count as usize)) };
    let asked: Vec<(i32, i16)> = all.iter().map(|one| (one.fd, one.events)).collect();
    let events = host.until(time_ns(timeout_ms), |state| calls::poll(state, &asked));
    let events = events.unwrap_or_else(|| vec![0; all.len()]);
    all.iter_mut().zip(&events).for_each(|(one, events)| one.revents = *events);
    events.iter().filter(|events| **events != 0).count() as c_int
}

unsafe extern "C" fn epoll_create(data: Data, _: c_int) -> c_int {
    // SAFETY: packetdrill passes what it was given.
    let host = unsafe { host(data) };
    let made = descriptor().and_then(|number| host.now(|state| calls::epoll(state, number)).map(|()| number));
    result(made) as c_int
}

unsafe extern "C" fn epoll_ctl(
    data: Data,
    epoll: c_int,
    call: c_int,
    socket: c_int,
    event: *mut libc::epoll_event,
) -> c_int {
    // SAFETY: packetdrill gives an event, or null where none is needed.
    let event = if event.is_null() { (0, 0) } else { unsafe { ((*event).events, (*event).u64) } };
    // SAFETY: packetdrill passes what it was given.
    done(unsafe { host(data) }.now(|state| calls::epoll_control(state, epoll, call, socket, event)))
}

unsafe extern "C" fn epoll_wait(
    data: Data,
    epoll: c_int,
    to: *mut libc::epoll_event,
    most: c_int,
    timeout_ms: c_int,
) -> c_int {
    let Some(room) = usize::try_from(most).ok().filter(|most| *most > 0) else { return done(Err(libc::EINVAL)) };
    // SAFETY: packetdrill passes what it was given.
    let host = unsafe { host(data) };
    let found = host.until(time_ns(timeout_ms), |state| calls::epoll_events(state, epoll, room));
    let outcome = found.unwrap_or(Ok(Vec::new())).map(|found| {
        for (at, (events, word)) in found.iter().enumerate() {
            // SAFETY: there is room for `most` events, and there are no more.
            unsafe { to.add(at).write_unaligned(libc::epoll_event { events: *events, u64: *word }) };
        }
        found.len()
    });
    result(outcome) as c_int
}

unsafe extern "C" fn netdev_send(data: Data, packet: *const c_void, len: usize) -> c_int {
    // SAFETY: packetdrill passes what it was given, and a packet of this length.
    let (host, packet) = unsafe { (host(data), slice::from_raw_parts(packet.cast::<u8>(), len)) };
    if host.now(|state| state.deliver(packet)) { 0 } else { done(Err(libc::EINVAL)) }
}

unsafe extern "C" fn netdev_receive(data: Data, to: *mut c_void, len: *mut usize, time_us: *mut c_longlong) -> c_int {
    // SAFETY: packetdrill passes what it was given.
    let packet = unsafe { host(data) }.next_packet();
    // SAFETY: there is room for `*len` bytes, and no more are written; the other pointers are packetdrill's variables.
    unsafe {
        let Some((time_ns, bytes)) = packet else {
            // Nothing left: packetdrill takes the empty packet for an error, and ends.
            *len = 0;
            return 0;
        };
        let count = bytes.len().min(*len);
        ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast::<u8>(), count);
        *len = count;
        *time_us = (time_ns / 1000) as c_longlong;
    }
    0
}

/// # Safety
/// As for [`bind`].
unsafe extern "C" fn usleep(data: Data, time_us: c_uint) -> c_int {
    // SAFETY: packetdrill passes what it was given.
    unsafe { host(data) }.sleep(u64::from(time_us) * 1000);
    0
}

unsafe extern "C" fn gettimeofday(data: Data, to: *mut libc::timeval, _: *mut c_void) -> c_int {
    // SAFETY: packetdrill passes what it was given.
    let now_ns = unsafe { host(data) }.look();
    let time = libc::timeval {
        tv_sec: (now_ns / 1_000_000_000) as libc::time_t,
        tv_usec: (now_ns % 1_000_000_000 / 1000) as libc::suseconds_t,
    };
    // SAFETY: packetdrill gives a variable for it.
    unsafe { to.write(time) };
    0
}

unsafe extern "C" fn pipe(_: Data, _: *mut c_int) -> c_int {
    done(Err(libc::ENOSYS))
}

unsafe extern "C" fn splice(_: Data, _: c_int, _: *mut i64, _: c_int, _: *mut i64, _: usize, _: c_uint) -> isize {
    result::<isize>(Err(libc::ENOSYS))
}
