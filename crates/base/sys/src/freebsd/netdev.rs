//! A network interface by name: index, flags, MTU, link, hardware address (netintro(4), getifaddrs(3)).
#![allow(unsafe_code)]

use crate::checked;
use crate::interface::no_such_device;
use std::ffi::CStr;
use std::io;
use std::time::{Duration, Instant};

pub use crate::interface::{NAME_LEN_MAX, Netdev, Presence};
pub use crate::interfaces::{addresses, names};

/// sys/sockio.h. The numbers hold the size of the request.
const SIOCSIFFLAGS: libc::c_ulong = 0x8020_6910;
const SIOCGIFFLAGS: libc::c_ulong = 0xc020_6911;
const SIOCGIFINDEX: libc::c_ulong = 0xc020_6920;
const SIOCGIFMTU: libc::c_ulong = 0xc020_6933;
const _: () = assert!(size_of::<libc::ifreq>() == 0x20 && size_of::<libc::if_data>() == 152);

impl Netdev {
    /// Its index.
    ///
    /// # Errors
    /// `ENXIO` when the interface is gone.
    pub fn index(&self) -> io::Result<u32> {
        let request = self.ask(SIOCGIFINDEX)?;
        // SAFETY: SIOCGIFINDEX filled this member of the union.
        Ok(u32::from(unsafe { request.ifr_ifru.ifru_index } as u16))
    }

    /// Whether the interface that had `index` when it was opened is still there under its name, and up.
    pub fn presence(&self, index: u32) -> Presence {
        match self.index() {
            Ok(now) if now == index => {}
            _ => return Presence::Gone,
        }
        if self.is_up().unwrap_or(false) { Presence::Up } else { Presence::Down }
    }

    /// Its `IFF_*` flags, the lower sixteen.
    ///
    /// # Errors
    /// `ENXIO` when the interface is gone.
    pub fn flags(&self) -> io::Result<u16> {
        let request = self.ask(SIOCGIFFLAGS)?;
        // SAFETY: SIOCGIFFLAGS filled this member of the union.
        Ok(unsafe { request.ifr_ifru.ifru_flags }[0] as u16)
    }

    /// Whether it is up, its driver runs, and its link is not known to be down.
    ///
    /// # Errors
    /// `ENXIO` when the interface is gone.
    pub fn is_running(&self) -> io::Result<bool> {
        let wanted = (libc::IFF_UP | libc::IFF_RUNNING) as u16;
        Ok(self.flags()? & wanted == wanted && self.link()? != Some(false))
    }

    /// Waits until it is up and has a link; false when that took longer than `timeout`.
    ///
    /// # Errors
    /// `ENXIO` when the interface is gone.
    pub fn wait_until_running(&self, timeout: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + timeout;
        while !self.is_running()? {
            if Instant::now() >= deadline {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(true)
    }

    /// Sets it administratively up or down.
    ///
    /// # Errors
    /// `EPERM` without PRIV_NET_SETIFFLAGS; whatever its driver answers.
    pub fn set_up(&self, up: bool) -> io::Result<()> {
        // Both halves go back as they came.
        let mut request = self.ask(SIOCGIFFLAGS)?;
        let bit = libc::IFF_UP as libc::c_short;
        // SAFETY: SIOCGIFFLAGS filled this member of the union.
        let [low, high] = unsafe { request.ifr_ifru.ifru_flags };
        request.ifr_ifru.ifru_flags = [if up { low | bit } else { low & !bit }, high];
        self.ioctl(SIOCSIFFLAGS, &mut request)
    }

    /// Its MTU: bytes of layer 3 in one frame.
    ///
    /// # Errors
    /// `ENXIO` when the interface is gone.
    pub fn mtu(&self) -> io::Result<u32> {
        let request = self.ask(SIOCGIFMTU)?;
        // SAFETY: SIOCGIFMTU filled this member of the union.
        u32::try_from(unsafe { request.ifr_ifru.ifru_mtu }).map_err(io::Error::other)
    }

    /// Its Ethernet address.
    ///
    /// # Errors
    /// `NotFound` when the interface is gone, or has none.
    pub fn mac(&self) -> io::Result<[u8; 6]> {
        self.link_level()?.mac.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no Ethernet address"))
    }

    /// Whether its driver sees a link; `None` when it does not tell.
    ///
    /// # Errors
    /// `NotFound` when the interface is gone.
    pub fn link(&self) -> io::Result<Option<bool>> {
        Ok(match libc::c_int::from(self.link_level()?.data.ifi_link_state) {
            libc::LINK_STATE_UP => Some(true),
            libc::LINK_STATE_DOWN => Some(false),
            _ => None,
        })
    }

    /// The link's speed in Mbit/s; `None` when unknown.
    ///
    /// # Errors
    /// `NotFound` when the interface is gone.
    pub fn speed_mbps(&self) -> io::Result<Option<u32>> {
        let speed = u32::try_from(self.link_level()?.data.ifi_baudrate / 1_000_000).unwrap_or(0);
        Ok((speed > 0).then_some(speed))
    }

    /// What the kernel keeps of its link level: an entry of the list of addresses.
    fn link_level(&self) -> io::Result<LinkLevel> {
        let mut list = std::ptr::null_mut();
        // SAFETY: `list` is a valid place for the result.
        checked(unsafe { libc::getifaddrs(&mut list) })?;
        let mut found = None;
        let mut entry = list;
        // SAFETY: `entry` is null or an entry of the list, which lives until freeifaddrs.
        while let Some(one) = unsafe { entry.as_ref() } {
            // SAFETY: the name is a terminated string that lives as long as the list.
            let is_this = unsafe { CStr::from_ptr(one.ifa_name) }.to_bytes() == self.name().as_bytes();
            if is_this && found.is_none() {
                // SAFETY: the entry is as the list's maker filled it.
                found = unsafe { LinkLevel::of(one) };
            }
            entry = one.ifa_next;
        }
        // SAFETY: `list` came from getifaddrs and is not used any more.
        unsafe { libc::freeifaddrs(list) };
        found.ok_or_else(|| no_such_device(self.name(), io::Error::from_raw_os_error(libc::ENXIO)))
    }
}

/// An entry of family AF_LINK.
struct LinkLevel {
    data: libc::if_data,
    /// `None` where addresses have another length.
    mac: Option<[u8; 6]>,
}

impl LinkLevel {
    /// Of an entry of the list; `None` if it is of another family.
    ///
    /// # Safety
    /// The entry is one of a list that getifaddrs made, and that was not freed.
    unsafe fn of(entry: &libc::ifaddrs) -> Option<LinkLevel> {
        // SAFETY: the address is null or valid by the caller's word.
        let address = unsafe { entry.ifa_addr.as_ref() }?;
        if libc::c_int::from(address.sa_family) != libc::AF_LINK || entry.ifa_data.is_null() {
            return None;
        }
        // SAFETY: an entry of this family comes with an `if_data`.
        let data = unsafe { entry.ifa_data.cast::<libc::if_data>().read_unaligned() };
        let link = entry.ifa_addr.cast::<libc::sockaddr_dl>();
        // SAFETY: the fields before the name and the address, which are there in each address of this family.
        let (name_len, len) = unsafe { ((*link).sdl_nlen, (*link).sdl_alen) };
        let mut mac = None;
        if usize::from(len) == 6 {
            let mut bytes = [0u8; 6];
            // SAFETY: the address is behind the name, as long as its length says.
            unsafe {
                let from = (&raw const (*link).sdl_data).cast::<u8>().add(usize::from(name_len));
                std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len());
            }
            mac = Some(bytes);
        }
        Some(LinkLevel { data, mac })
    }
}
