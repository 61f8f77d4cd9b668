//! What is alike of network interfaces on all systems: their names and their addresses (if_nameindex(3), getifaddrs(3)).
#![allow(unsafe_code)]

use crate::checked;
use std::io;
use std::net::IpAddr;

/// The names of all interfaces in the calling thread's namespace, in the order of their indices.
///
/// # Errors
/// When the kernel cannot be asked (no memory, no descriptors).
pub fn names() -> io::Result<Vec<String>> {
    // SAFETY: no arguments; the result is null or an array that ends in an entry with index 0.
    let list = unsafe { libc::if_nameindex() };
    if list.is_null() {
        return Err(io::Error::last_os_error());
    }
    let mut names = Vec::new();
    let mut entry = list;
    // SAFETY: `entry` stays inside the array, whose last entry ends the loop.
    while unsafe { (*entry).if_index } != 0 {
        // SAFETY: the name of an entry before the last is a terminated string that lives as long as the array.
        let name = unsafe { std::ffi::CStr::from_ptr((*entry).if_name) };
        names.push(name.to_string_lossy().into_owned());
        // SAFETY: this entry is not the last one.
        entry = unsafe { entry.add(1) };
    }
    // SAFETY: `list` came from if_nameindex and is not used any more.
    unsafe { libc::if_freenameindex(list) };
    Ok(names)
}

/// The IP addresses of interface `name` in the calling thread's namespace; those of link scope, which the kernel gives to
/// every interface, are left out.
///
/// # Errors
/// When the kernel cannot be asked.
pub fn addresses(name: &str) -> io::Result<Vec<IpAddr>> {
    let all = all_addresses()?.into_iter().filter(|(of, address)| of == name && !is_link_local(address));
    Ok(all.map(|(_, address)| address).collect())
}

/// The addresses of all interfaces in the calling thread's namespace, each with its interface.
pub(crate) fn all_addresses() -> io::Result<Vec<(String, IpAddr)>> {
    let mut list = std::ptr::null_mut();
    // SAFETY: `list` is a valid place for the result.
    checked(unsafe { libc::getifaddrs(&mut list) })?;
    let mut addresses = Vec::new();
    let mut entry = list;
    // SAFETY: `entry` is null or an entry of the list, which lives until freeifaddrs.
    while let Some(found) = unsafe { entry.as_ref() } {
        // SAFETY: the name is a terminated string that lives as long as the list.
        let name = unsafe { std::ffi::CStr::from_ptr(found.ifa_name) }.to_string_lossy().into_owned();
        // SAFETY: the address is null or as the list's maker filled it.
        let address = unsafe { ip_address(found.ifa_addr) };
        addresses.extend(address.map(|address| (name, address)));
        entry = found.ifa_next;
    }
    // SAFETY: `list` came from getifaddrs and is not used any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(addresses)
}

/// # Safety
/// `address` is null or points to a socket address that is as long as its family demands.
unsafe fn ip_address(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: null or valid by the caller's word.
    let family = i32::from(unsafe { address.as_ref() }?.sa_family);
    match family {
        libc::AF_INET => {
            // SAFETY: the family says what the structure is.
            let address = unsafe { &*address.cast::<libc::sockaddr_in>() };
            Some(IpAddr::from(u32::from_be(address.sin_addr.s_addr).to_be_bytes()))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            Some(IpAddr::from(address.sin6_addr.s6_addr))
        }
        _ => None,
    }
}

fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}
