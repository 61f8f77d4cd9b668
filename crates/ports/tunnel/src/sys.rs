//! Raw IP sockets (raw(7)), and what keeps the kernel from answering their packets (udp(7)).
#![allow(unsafe_code)]

use linerate_sys::checked;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Bytes of received packets that wait in the socket, at most (the kernel may allow fewer).
const RECEIVE_BYTES: libc::c_int = 4 << 20;
/// Words that SO_MEMINFO returns, and the place of the drops among them (linux/sock_diag.h).
const MEMINFO_WORDS: usize = 9;
const MEMINFO_DROPS: usize = 8;

/// A socket for packets of an IP protocol between this host and `remote`. `udp_port`: only UDP packets for this port.
pub(crate) fn open(
    protocol: libc::c_int,
    local: Option<Ipv4Addr>,
    remote: Ipv4Addr,
    udp_port: Option<u16>,
) -> io::Result<File> {
    let socket = socket(libc::SOCK_RAW, protocol)?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &RECEIVE_BYTES)?;
    // The kernel cuts outer packets that are longer than the MTU of their way.
    set_option(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &libc::IP_PMTUDISC_DONT)?;
    if let Some(port) = udp_port {
        // x = length of the IP header; destination port == port ? all : nothing.
        filter(
            &socket,
            &mut [
                instruction(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0, 0, 0),
                instruction(libc::BPF_LD | libc::BPF_H | libc::BPF_IND, 0, 0, 2),
                instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, port.into()),
                instruction(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
                instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
            ],
        )?;
    }
    if let Some(local) = local {
        with_address(SocketAddrV4::new(local, 0), |address, len| {
            // SAFETY: `address` points at a sockaddr_in of `len` bytes.
            unsafe { libc::bind(socket.as_raw_fd(), address, len) }
        })?;
    }
    with_address(SocketAddrV4::new(remote, 0), |address, len| {
        // SAFETY: `address` points at a sockaddr_in of `len` bytes.
        unsafe { libc::connect(socket.as_raw_fd(), address, len) }
    })?;
    Ok(File::from(socket))
}

/// Takes a UDP port, so that the kernel does not answer packets for it with "port unreachable". The socket drops all of them.
///
/// # Errors
/// `EADDRINUSE` if somebody else has the port, for example a VXLAN device of the kernel.
pub(crate) fn reserve(local: Option<Ipv4Addr>, port: u16) -> io::Result<OwnedFd> {
    let socket = socket(libc::SOCK_DGRAM, libc::IPPROTO_UDP)?;
    // Other tunnels of this user may have it, too.
    set_option(&socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, &1)?;
    filter(&socket, &mut [instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0)])?;
    with_address(SocketAddrV4::new(local.unwrap_or(Ipv4Addr::UNSPECIFIED), port), |address, len| {
        // SAFETY: `address` points at a sockaddr_in of `len` bytes.
        unsafe { libc::bind(socket.as_raw_fd(), address, len) }
    })?;
    Ok(socket)
}

/// Packets that found the queue of the socket full.
pub(crate) fn dropped(socket: &File) -> io::Result<u64> {
    let mut words = [0u32; MEMINFO_WORDS];
    let mut len = size_of_val(&words) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `words`.
    let done = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, words.as_mut_ptr().cast(), &mut len)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(words[MEMINFO_DROPS].into()) }
}

fn socket(kind: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: socket(2) takes no pointers.
    let fd =
        checked(unsafe { libc::socket(libc::AF_INET, kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: `fd` was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set_option<T>(socket: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of `value`, which the kernel reads.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn instruction(code: u32, jump_true: u8, jump_false: u8, value: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: jump_true, jf: jump_false, k: value }
}

fn filter(socket: &OwnedFd, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn with_address(
    address: SocketAddrV4,
    call: impl FnOnce(*const libc::sockaddr, libc::socklen_t) -> libc::c_int,
) -> io::Result<()> {
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
        sin_zero: [0; 8],
    };
    match call(std::ptr::from_ref(&address).cast(), size_of_val(&address) as libc::socklen_t) {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
