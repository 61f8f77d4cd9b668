//! Socket calls over the stack. Errors are numbers of errno(3); `None` says that the call would wait.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use linerate_tcp::{Conn, ConnectError, ConnectOptions, Io, ListenError, ListenOptions, State as TcpState};

use crate::host::State;
use crate::info;
use crate::sockets::{Interest, Kind, Options, Socket, Sockets, Stream, apply};

/// What a call returns: a value, or a number of errno(3).
pub type Outcome<T> = Result<T, i32>;

/// Puts a socket behind a descriptor.
pub fn socket(state: &mut State, descriptor: i32, flags: i32) -> Outcome<()> {
    let socket = Socket { kind: Kind::Fresh, flags, local: None, options: Options::default() };
    state.with(|sockets, _| sockets.of.insert(descriptor, socket)).map(drop).ok_or(libc::ENOMEM)
}

/// Puts an epoll instance behind a descriptor.
pub fn epoll(state: &mut State, descriptor: i32) -> Outcome<()> {
    let kind = Kind::Epoll(BTreeMap::new());
    let socket = Socket { kind, flags: 0, local: None, options: Options::default() };
    state.with(|sockets, _| sockets.of.insert(descriptor, socket)).map(drop).ok_or(libc::ENOMEM)
}

/// Flags of a descriptor.
pub fn flags(state: &mut State, descriptor: i32) -> Outcome<i32> {
    with_socket(state, descriptor, |socket| Ok(socket.flags))
}

/// True if calls on the descriptor wait.
pub fn waits(state: &mut State, descriptor: i32) -> bool {
    flags(state, descriptor).is_ok_and(|flags| flags & libc::O_NONBLOCK == 0)
}

/// Does something with the socket of a descriptor.
pub fn with_socket<R>(state: &mut State, descriptor: i32, work: impl FnOnce(&mut Socket) -> Outcome<R>) -> Outcome<R> {
    state.with(|sockets, _| work(sockets.of.get_mut(&descriptor).ok_or(libc::EBADF)?)).unwrap_or(Err(libc::ENOMEM))
}

pub fn listen(state: &mut State, descriptor: i32, backlog: i32) -> Outcome<()> {
    let listening = state.with(|sockets, io| {
        let socket = sockets.of.get_mut(&descriptor).ok_or(libc::EBADF)?;
        let address = socket.local.ok_or(libc::EINVAL)?;
        let options = ListenOptions { backlog: backlog.max(1) as u32, ..ListenOptions::default() };
        let listener = io.listen(address, options).map_err(|error| match error {
            ListenError::InUse => libc::EADDRINUSE,
            ListenError::NotLocal => libc::EADDRNOTAVAIL,
            ListenError::BadPort => libc::EINVAL,
        })?;
        socket.kind = Kind::Listening { listener, address, queue: VecDeque::new() };
        Ok(())
    });
    listening.unwrap_or(Err(libc::ENOMEM))
}

/// Takes the oldest connection of a listener: it, and its peer.
pub fn accept(state: &mut State, descriptor: i32) -> Option<Outcome<(Conn, Option<SocketAddr>)>> {
    let accepted = state.with(|sockets, io| {
        let Some(socket) = sockets.of.get_mut(&descriptor) else { return Some(Err(libc::EBADF)) };
        let Kind::Listening { queue, .. } = &mut socket.kind else { return Some(Err(libc::EINVAL)) };
        let conn = queue.pop_front()?;
        Some(Ok((conn, io.info(conn).map(|info| info.remote))))
    });
    accepted.unwrap_or(Some(Err(libc::ENOMEM)))
}

/// Puts an accepted connection behind a descriptor of its own.
pub fn adopt(state: &mut State, listener: i32, descriptor: i32, conn: Conn) {
    state.with(|sockets, _| {
        let options = sockets.of.get(&listener).map(|socket| socket.options).unwrap_or_default();
        sockets.of.insert(descriptor, Socket { kind: Kind::Stream(conn), flags: libc::O_RDWR, local: None, options });
    });
}

/// Begins a connection, or says how one that was begun is.
pub fn connect(state: &mut State, descriptor: i32, to: SocketAddr) -> Outcome<()> {
    let begun = state.with(|sockets, io| {
        let socket = sockets.of.get_mut(&descriptor).ok_or(libc::EBADF)?;
        match socket.kind {
            Kind::Fresh => {}
            Kind::Stream(conn) => {
                let stream = sockets.streams.get_mut(&conn).ok_or(libc::EBADF)?;
                return Err(match stream.error.take() {
                    Some(error) => error,
                    None if stream.connected => libc::EISCONN,
                    None => libc::EALREADY,
                });
            }
            _ => return Err(libc::EINVAL),
        }
        let mut options = ConnectOptions::new(to);
        if let Some(local) = socket.local {
            options.local = Some(local.ip()).filter(|address| !address.is_unspecified());
            options.local_port = local.port();
        }
        let conn = io.connect(options).map_err(|error| match error {
            ConnectError::Full => libc::ENOMEM,
            ConnectError::NoRoute => libc::ENETUNREACH,
            ConnectError::NotLocal => libc::EADDRNOTAVAIL,
            ConnectError::InUse | ConnectError::NoPort => libc::EADDRNOTAVAIL,
            ConnectError::BadAddress => libc::EINVAL,
        })?;
        apply(&socket.options, conn, io);
        socket.kind = Kind::Stream(conn);
        sockets.streams.entry(conn).or_default();
        Ok(())
    });
    begun.unwrap_or(Err(libc::ENOMEM))
}

/// How a connection that was begun ended its beginning.
pub fn connected(state: &mut State, descriptor: i32) -> Option<Outcome<()>> {
    let outcome = state.with(|sockets, _| {
        let Some((_, stream)) = sockets.stream_of(descriptor) else { return Some(Err(libc::EBADF)) };
        match stream.error.take() {
            Some(error) => Some(Err(error)),
            None => stream.connected.then_some(Ok(())),
        }
    });
    outcome.unwrap_or(Some(Err(libc::ENOMEM)))
}

/// Reads up to `len` bytes; with `peeks` they stay.
pub fn read(state: &mut State, descriptor: i32, len: usize, peeks: bool) -> Option<Outcome<Vec<u8>>> {
    let asked = state.with(|sockets, io| {
        let (conn, stream) = sockets.stream_of(descriptor).ok_or(libc::ENOTCONN)?;
        stream.wants = len.saturating_sub(stream.received.len());
        if stream.wants > 0 && stream.offered > 0 {
            io.resume(conn);
        }
        Ok(())
    });
    match asked {
        None => return Some(Err(libc::ENOMEM)),
        Some(Err(error)) => return Some(Err(error)),
        Some(Ok(())) => {}
    }
    let read = state.with(|sockets, _| {
        let (_, stream) = sockets.stream_of(descriptor)?;
        stream.wants = 0;
        if !stream.received.is_empty() {
            let count = len.min(stream.received.len());
            let bytes = stream.received.iter().copied().take(count).collect();
            if !peeks {
                stream.received.drain(..count);
                stream.read_total += count as u64;
            }
            return Some(Ok(bytes));
        }
        match stream.error.take() {
            Some(error) => Some(Err(error)),
            None => (stream.peer_closed || stream.ended || len == 0).then(|| Ok(Vec::new())),
        }
    });
    read.flatten()
}

/// Sends what there is room for: `None` if there is none now.
pub fn write(state: &mut State, descriptor: i32, bytes: &[u8]) -> Option<Outcome<usize>> {
    let wrote = state.with(|sockets, io| {
        let Some((conn, stream)) = sockets.stream_of(descriptor) else {
            return Some(Err(if sockets.of.contains_key(&descriptor) { libc::EPIPE } else { libc::EBADF }));
        };
        if let Some(error) = stream.error.take() {
            return Some(Err(error));
        }
        if stream.ended || stream.shut_write {
            return Some(Err(libc::EPIPE));
        }
        if !stream.connected {
            return None;
        }
        match io.send(conn, bytes) {
            0 if !bytes.is_empty() => None,
            count => Some(Ok(count)),
        }
    });
    wrote.unwrap_or(Some(Err(libc::ENOMEM)))
}

/// Closes the direction of this side.
pub fn shutdown(state: &mut State, descriptor: i32, how: i32) -> Outcome<()> {
    let shut = state.with(|sockets, io| {
        let (conn, stream) = sockets.stream_of(descriptor).ok_or(libc::ENOTCONN)?;
        if stream.ended {
            return Err(libc::ENOTCONN);
        }
        if how != libc::SHUT_WR {
            stream.peer_closed = true;
        }
        if how != libc::SHUT_RD {
            stream.shut_write = true;
            io.close(conn);
        }
        Ok(())
    });
    shut.unwrap_or(Err(libc::ENOMEM))
}

/// Closes a descriptor. A connection whose bytes nobody read is reset (RFC 2525 section 2.17), others are closed.
pub fn close(state: &mut State, descriptor: i32) -> Outcome<()> {
    let closed = state.with(|sockets, io| {
        let socket = sockets.of.remove(&descriptor).ok_or(libc::EBADF)?;
        match socket.kind {
            Kind::Fresh | Kind::Epoll(_) => {}
            Kind::Listening { listener, queue, .. } => {
                io.stop_listening(listener);
                queue.into_iter().for_each(|conn| io.abort(conn));
            }
            Kind::Stream(conn) => {
                let Some(stream) = sockets.streams.get_mut(&conn) else { return Ok(()) };
                stream.closed = true;
                if stream.ended {
                    sockets.streams.remove(&conn);
                } else if socket.options.resets || !stream.received.is_empty() || stream.offered > 0 {
                    io.abort(conn);
                } else {
                    // What comes from now on is for nobody; the stack resets it by itself, or the program here would keep it for ever.
                    stream.wants = usize::MAX;
                    io.close(conn);
                }
            }
        }
        Ok(())
    });
    closed.unwrap_or(Err(libc::ENOMEM))
}

/// Bytes that can be read (`SIOCINQ`), or are not acknowledged (`SIOCOUTQ`).
pub fn queued(state: &mut State, descriptor: i32, outwards: bool) -> Outcome<i32> {
    let count = state.with(|sockets, io| {
        let (conn, stream) = sockets.stream_of(descriptor).ok_or(libc::EINVAL)?;
        let received = stream.received.len() as i32;
        let Some(info) = io.info(conn) else { return Ok(if outwards { 0 } else { received }) };
        Ok(if outwards { info.queued as i32 } else { received + info.receive_queued as i32 })
    });
    count.unwrap_or(Err(libc::ENOMEM))
}

/// An option's value, in the bytes of the C interface.
pub fn option(state: &mut State, descriptor: i32, level: i32, name: i32) -> Outcome<Vec<u8>> {
    let value = state.with(|sockets, io| {
        let options = sockets.of.get(&descriptor).ok_or(libc::EBADF)?.options;
        let number = |value: i32| Ok(value.to_ne_bytes().to_vec());
        let stream = sockets.stream_of(descriptor);
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => {
                number(stream.and_then(|(_, stream)| stream.error.take()).unwrap_or(0))
            }
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => number(options.send_buffer),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => number(options.keeps_alive.into()),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => number(options.nodelay.into()),
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => number(options.user_timeout_ms as i32),
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
                let info = stream.and_then(|(conn, _)| io.info(conn));
                number(info.map_or(536, |info| info.mss.into()))
            }
            (libc::IPPROTO_TCP, libc::TCP_INFO) => {
                let Some((conn, _)) = stream else { return Err(libc::EINVAL) };
                let Some(known) = io.info(conn) else {
                    let mut nothing = vec![0; info::LEN];
                    nothing[0] = info::state(TcpState::Closed);
                    return Ok(nothing);
                };
                Ok(info::bytes(&known, io.send_info(conn).as_ref()).to_vec())
            }
            // Members of congestion controls that the stack does not have, and of memory that it does not count.
            (libc::IPPROTO_TCP, libc::TCP_CC_INFO) => Ok(Vec::new()),
            (libc::SOL_SOCKET, libc::SO_MEMINFO) => Ok(vec![0; 36]),
            _ => Err(libc::ENOPROTOOPT),
        }
    });
    value.unwrap_or(Err(libc::ENOMEM))
}

/// Sets an option that is a number, or `SO_LINGER`'s two.
pub fn set_option(state: &mut State, descriptor: i32, level: i32, name: i32, values: &[i32]) -> Outcome<()> {
    let set = state.with(|sockets, io| {
        let socket = sockets.of.get_mut(&descriptor).ok_or(libc::EBADF)?;
        let value = *values.first().ok_or(libc::EINVAL)?;
        let options = &mut socket.options;
        match (level, name) {
            // What the stack does in any case, or does not depend on.
            (libc::SOL_SOCKET, libc::SO_REUSEADDR | libc::SO_REUSEPORT | libc::SO_RCVBUF) => {}
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => options.send_buffer = value.saturating_mul(2),
            (libc::SOL_SOCKET, libc::SO_LINGER) => options.resets = value != 0 && values.get(1) == Some(&0),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => options.keeps_alive = value != 0,
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => options.nodelay = value != 0,
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => options.user_timeout_ms = value.max(0) as u32,
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => options.keepalive.idle_ms = value.max(1) as u32 * 1000,
            (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => options.keepalive.interval_ms = value.max(1) as u32 * 1000,
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => options.keepalive.probes = value.clamp(1, 127) as _,
            (libc::IPPROTO_IP, libc::IP_TOS) => options.dscp = (value >> 2) as u8 & 0x3f,
            _ => return Err(libc::ENOPROTOOPT),
        }
        let (options, kind) = (*options, &socket.kind);
        if let Kind::Stream(conn) = kind {
            apply(&options, *conn, io);
        }
        Ok(())
    });
    set.unwrap_or(Err(libc::ENOMEM))
}

/// Bits of `poll(2)`, which are those of `epoll(7)`, that hold for a descriptor now.
/// The second number changes when something new happened there.
fn ready(sockets: &Sockets, descriptor: i32, io: &Io<'_>) -> (u32, u64) {
    let bit = |bit: i16, holds: bool| if holds { bit as u32 } else { 0 };
    match sockets.of.get(&descriptor).map(|socket| &socket.kind) {
        None => (bit(libc::POLLNVAL, true), 0),
        Some(Kind::Listening { queue, .. }) => (bit(libc::POLLIN, !queue.is_empty()), queue.len() as u64),
        Some(Kind::Fresh | Kind::Epoll(_)) => (bit(libc::POLLOUT, true) | bit(libc::POLLHUP, true), 0),
        Some(Kind::Stream(conn)) => {
            let conn = *conn;
            let Some(stream) = sockets.streams.get(&conn) else { return (bit(libc::POLLHUP, true), 0) };
            let Stream { connected, received, offered, peer_closed, ended, error, shut_write, .. } = stream;
            let is_over = *ended || error.is_some();
            let readable = !received.is_empty() || *offered > 0 || *peer_closed || is_over;
            let events = bit(libc::POLLIN | libc::POLLRDNORM, readable)
                | bit(libc::POLLOUT | libc::POLLWRNORM, is_over || *connected && io.send_room(conn) > 0)
                | bit(libc::POLLRDHUP, *peer_closed || is_over)
                | bit(libc::POLLHUP, is_over || *peer_closed && *shut_write)
                | bit(libc::POLLERR, error.is_some());
            let kept = io.info(conn).map_or(0, |info| u64::from(info.receive_queued));
            (events, stream.edges + stream.read_total + received.len() as u64 + kept)
        }
    }
}

/// Bits that are reported whether or not they were asked for.
const ALWAYS: u32 = (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) as u32;

/// `poll(2)`: the events of each, if there is any.
pub fn poll(state: &mut State, asked: &[(i32, i16)]) -> Option<Vec<i16>> {
    state.with(|sockets, io| {
        let mut events = |(descriptor, events): &(i32, i16)| {
            let (ready, _) = ready(sockets, *descriptor, io);
            (ready & (*events as u16 as u32 | ALWAYS)) as i16
        };
        let events: Vec<i16> = asked.iter().map(&mut events).collect();
        events.iter().any(|event| *event != 0).then_some(events)
    })?
}

/// `epoll_ctl(2)`.
pub fn epoll_control(state: &mut State, epoll: i32, call: i32, descriptor: i32, event: (u32, u64)) -> Outcome<()> {
    with_socket(state, epoll, |socket| {
        let Kind::Epoll(interests) = &mut socket.kind else { return Err(libc::EINVAL) };
        let is_known = interests.contains_key(&descriptor);
        match call {
            libc::EPOLL_CTL_ADD if is_known => return Err(libc::EEXIST),
            libc::EPOLL_CTL_ADD => {}
            _ if !is_known => return Err(libc::ENOENT),
            libc::EPOLL_CTL_DEL => {
                interests.remove(&descriptor);
                return Ok(());
            }
            libc::EPOLL_CTL_MOD => {}
            _ => return Err(libc::EINVAL),
        }
        interests.insert(descriptor, Interest { events: event.0, data: event.1, reported: None });
        Ok(())
    })
}

/// `epoll_wait(2)`: events and words of at most `most` descriptors, if there are any.
pub fn epoll_events(state: &mut State, epoll: i32, most: usize) -> Option<Outcome<Vec<(u32, u64)>>> {
    let found = state.with(|sockets, io| {
        let interests = match sockets.of.get(&epoll).map(|socket| &socket.kind) {
            Some(Kind::Epoll(interests)) => interests.clone(),
            Some(_) => return Some(Err(libc::EINVAL)),
            None => return Some(Err(libc::EBADF)),
        };
        let mut found = Vec::new();
        for (descriptor, interest) in interests {
            let (ready, edges) = ready(sockets, descriptor, io);
            let ready = ready & (interest.events | ALWAYS);
            let by_edge = interest.events & libc::EPOLLET as u32 != 0;
            if ready == 0 || found.len() == most || by_edge && interest.reported == Some(edges) {
                continue;
            }
            found.push((ready, interest.data));
            if let Some(Socket { kind: Kind::Epoll(interests), .. }) = sockets.of.get_mut(&epoll)
                && let Some(interest) = interests.get_mut(&descriptor)
            {
                interest.reported = Some(edges);
                if interest.events & libc::EPOLLONESHOT as u32 != 0 {
                    interest.events = 0;
                }
            }
        }
        (!found.is_empty()).then_some(Ok(found))
    });
    found.flatten()
}

/// The address that a socket is bound to; the unspecified one is all addresses of the stack.
pub fn bind(state: &mut State, descriptor: i32, address: SocketAddr) -> Outcome<()> {
    let own = state.own_address();
    if !address.ip().is_unspecified() && address.ip() != own {
        return Err(libc::EADDRNOTAVAIL);
    }
    let any = IpAddr::from([0, 0, 0, 0]);
    let address = if address.ip() == any { SocketAddr::new(own, address.port()) } else { address };
    with_socket(state, descriptor, |socket| {
        socket.local = Some(address);
        Ok(())
    })
}
