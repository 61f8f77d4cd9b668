//! A network interface by name: index, flags, MTU, hardware address (netdevice(7)).
//!
//! [`Netdev`] owns a socket of the namespace in which it was opened and keeps speaking about that
//! namespace from any thread. Driver statistics, offloads and rings are in [`crate::ethtool`].
#![allow(unsafe_code)]

use crate::interfaces::all_addresses;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

pub use crate::interface::{NAME_LEN_MAX, Netdev, Presence};
pub use crate::interfaces::{addresses, names};

impl Netdev {
    /// Its index in its namespace.
    ///
    /// # Errors
    /// `ENODEV` when the interface is gone.
    pub fn index(&self) -> io::Result<u32> {
        let request = self.ask(libc::SIOCGIFINDEX)?;
        // SAFETY: SIOCGIFINDEX filled this member of the union.
        Ok(unsafe { request.ifr_ifru.ifru_ifindex } as u32)
    }

    /// Whether the interface that had `index` when it was opened is still there under its name, and up.
    ///
    /// An interface that is being deleted is set down first; this waits for the end of that and says `Gone`.
    pub fn presence(&self, index: u32) -> Presence {
        let same = || self.index().is_ok_and(|now| now == index);
        if !same() {
            return Presence::Gone;
        }
        if self.is_up().unwrap_or(false) {
            return Presence::Up;
        }
        // SIOCETHTOOL takes the lock that a deletion holds; reading flags does not.
        let _ = self.link();
        if same() { Presence::Down } else { Presence::Gone }
    }

    /// Its `IFF_*` flags, the sixteen that this interface of the kernel knows.
    ///
    /// # Errors
    /// `ENODEV` when the interface is gone.
    pub fn flags(&self) -> io::Result<u16> {
        let request = self.ask(libc::SIOCGIFFLAGS)?;
        // SAFETY: SIOCGIFFLAGS filled this member of the union.
        Ok(unsafe { request.ifr_ifru.ifru_flags } as u16)
    }

    /// Whether it is up and has a carrier.
    ///
    /// # Errors
    /// `ENODEV` when the interface is gone.
    pub fn is_running(&self) -> io::Result<bool> {
        Ok(self.flags()? & libc::IFF_RUNNING as u16 != 0)
    }

    /// Waits until it is up, has a carrier and its queueing discipline takes packets; false when that took longer than `timeout`.
    ///
    /// A virtual interface gets its carrier when its peer comes up, and its queueing discipline from a worker of the kernel some
    /// time later (net/core/link_watch.c). What is sent before is lost without being counted.
    ///
    /// # Errors
    /// `ENODEV` when the interface is gone.
    pub fn wait_until_running(&self, timeout: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + timeout;
        while !self.is_running()? {
            if Instant::now() >= deadline {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // The worker holds the lock that SIOCETHTOOL takes until it is done; reading flags does not wait for it.
        let _ = self.link();
        Ok(true)
    }

    /// Sets it administratively up or down.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN; whatever its driver answers.
    pub fn set_up(&self, up: bool) -> io::Result<()> {
        let flags = self.flags()?;
        let bit = libc::IFF_UP as u16;
        self.set_flags(if up { flags | bit } else { flags & !bit })
    }

    /// Its MTU: bytes of layer 3 in one frame.
    ///
    /// # Errors
    /// `ENODEV` when the interface is gone.
    pub fn mtu(&self) -> io::Result<u32> {
        let request = self.ask(libc::SIOCGIFMTU)?;
        // SAFETY: SIOCGIFMTU filled this member of the union.
        Ok(unsafe { request.ifr_ifru.ifru_mtu } as u32)
    }

    /// Sets its MTU.
    ///
    /// # Errors
    /// `EINVAL` when the driver does not take that size (an attached XDP program limits it too),
    /// `EPERM` without CAP_NET_ADMIN.
    pub fn set_mtu(&self, mtu: u32) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_mtu = i32::try_from(mtu).map_err(io::Error::other)?;
        self.ioctl(libc::SIOCSIFMTU, &mut request)
    }

    /// Its Ethernet address.
    ///
    /// # Errors
    /// `ENODEV` when the interface is gone.
    pub fn mac(&self) -> io::Result<[u8; 6]> {
        let request = self.ask(libc::SIOCGIFHWADDR)?;
        // SAFETY: SIOCGIFHWADDR filled this member of the union.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr };
        let mut mac = [0; 6];
        for (to, from) in mac.iter_mut().zip(address.sa_data) {
            *to = from as u8;
        }
        Ok(mac)
    }

    /// What kind of link it is: an `ARPHRD_*` number (linux/if_arp.h), 1 for Ethernet, 772 for loopback.
    ///
    /// # Errors
    /// `ENODEV` when the interface is gone.
    pub fn hardware_type(&self) -> io::Result<u16> {
        let request = self.ask(libc::SIOCGIFHWADDR)?;
        // SAFETY: SIOCGIFHWADDR filled this member of the union.
        Ok(unsafe { request.ifr_ifru.ifru_hwaddr }.sa_family)
    }

    /// One SIOCETHTOOL call: `data` starts with the command word and is as long as the command's
    /// answer can be.
    ///
    /// # Safety
    /// `data` must be valid for reads and writes of everything that the command in its first word
    /// reads and writes.
    pub(crate) unsafe fn ethtool(&self, data: *mut libc::c_void) -> io::Result<()> {
        // SAFETY: the caller vouches for what the command does with `data`.
        unsafe { self.ioctl_on(SIOCETHTOOL, data) }
    }

    /// One call whose request points to `data`.
    ///
    /// # Safety
    /// `data` must be valid for reads and writes of everything that the command reads and writes.
    pub(crate) unsafe fn ioctl_on(&self, command: libc::c_ulong, data: *mut libc::c_void) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_data = data.cast();
        self.ioctl(command, &mut request)
    }

    fn set_flags(&self, flags: u16) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_flags = flags as i16;
        self.ioctl(libc::SIOCSIFFLAGS, &mut request)
    }
}

/// linux/sockios.h; not in libc for every target.
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// The index of interface `name` in the calling thread's namespace.
///
/// # Errors
/// As [`Netdev::open`].
pub fn index_of(name: &str) -> io::Result<u32> {
    Netdev::open(name)?.index()
}

/// The interface of the calling thread's namespace that has `address`; `None` if this host does not own it. A stack of its own must not
/// use an address that the host owns: the kernel answers for it as well, and its resets end every connection.
///
/// # Errors
/// When the kernel cannot be asked.
pub fn owner_of(address: IpAddr) -> io::Result<Option<String>> {
    if address.is_loopback() {
        return Ok(Some("lo".into()));
    }
    Ok(all_addresses()?.into_iter().find(|(_, found)| *found == address).map(|(name, _)| name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::NetNs;

    #[test]
    fn names_that_cannot_be_are_refused() {
        for name in ["", "sixteen-bytes-xx", "a/b", "a b", "a\0b"] {
            let error = Netdev::open(name).expect_err("not a name");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
        let error = Netdev::open("no-such-dev").expect_err("not there");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_loopback_of_a_new_namespace_can_be_read_and_changed() {
        let namespace = match NetNs::anonymous() {
            Ok(namespace) => namespace,
            Err(error) => return eprintln!("skipped: no network namespace: {error}"),
        };
        // Opened inside, used outside: the socket remembers.
        let lo = namespace.run(|| Netdev::open("lo")).expect("enter").expect("lo");
        assert_eq!(lo.index().expect("index"), 1);
        assert!(!lo.is_up().expect("flags"));
        lo.set_up(true).expect("up");
        assert!(lo.is_up().expect("flags") && lo.is_running().expect("flags"));
        let addresses = namespace.run(|| addresses("lo")).expect("enter").expect("addresses");
        assert!(addresses.contains(&IpAddr::from([127, 0, 0, 1])), "{addresses:?}");
        let owner = |address: [u8; 4]| namespace.run(|| owner_of(address.into())).expect("enter").expect("addresses");
        assert_eq!(owner([127, 0, 0, 1]).as_deref(), Some("lo"));
        assert_eq!(owner([192, 0, 2, 1]), None);
        let none = namespace.run(|| super::addresses("other")).expect("enter").expect("addresses");
        assert!(none.is_empty());
        lo.set_mtu(1400).expect("set mtu");
        assert_eq!(lo.mtu().expect("mtu"), 1400);
        assert_eq!(lo.mac().expect("mac"), [0; 6]);
        assert_eq!(lo.hardware_type().expect("type"), libc::ARPHRD_LOOPBACK);
        assert!(namespace.run(names).expect("enter").expect("names").contains(&"lo".to_owned()));
        lo.set_up(false).expect("down");
        assert!(!lo.is_up().expect("flags"));
    }
}
