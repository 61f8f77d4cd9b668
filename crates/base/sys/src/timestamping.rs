//! Timestamps of the NIC: what a driver can, and turning them on for as long as somebody wants them (linux/net_tstamp.h,
//! Documentation/networking/timestamping.rst).
#![allow(unsafe_code)]

use crate::checked;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::clock;
use crate::netdev::Netdev;

mod held;

pub use held::{TimestampsHeld, restore_left_behind};

/// linux/ethtool.h.
const GET_TIMESTAMPING: u32 = 0x41;
/// linux/sockios.h.
const SIOCSHWTSTAMP: libc::c_ulong = 0x89b0;
const SIOCGHWTSTAMP: libc::c_ulong = 0x89b1;
/// linux/net_tstamp.h: SOF_TIMESTAMPING_*.
const RX_HARDWARE: u32 = 1 << 2;
const RAW_HARDWARE: u32 = 1 << 6;
/// linux/net_tstamp.h: `enum hwtstamp_rx_filters`.
const FILTER_NONE: i32 = 0;
const FILTER_ALL: i32 = 1;

/// What a driver says about its timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamping {
    /// It can timestamp every packet that it receives.
    pub all_received: bool,
    /// Number of its clock: /dev/ptpN.
    pub clock: Option<u32>,
}

/// `struct hwtstamp_config`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Config {
    flags: i32,
    /// What it timestamps of what it sends.
    sent: i32,
    /// What it timestamps of what it receives.
    received: i32,
}

/// Which packets a NIC timestamps now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timestamped {
    /// None of those that it receives.
    Nothing,
    /// All of those.
    All,
    /// Some: another program (PTP) has asked for them.
    Some,
}

impl Netdev {
    /// What the driver can; `None` when it does not tell.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn timestamping(&self) -> io::Result<Option<Timestamping>> {
        // struct ethtool_ts_info: command, so_timestamping, phc_index, tx_types, 3 reserved, rx_filters, 3 reserved.
        let mut words = [0_u32; 11];
        words[0] = GET_TIMESTAMPING;
        // SAFETY: ETHTOOL_GET_TS_INFO reads and writes eleven words.
        match unsafe { self.ethtool(words.as_mut_ptr().cast()) } {
            Ok(()) => Ok(Some(timestamping_of(&words))),
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Which received packets the NIC timestamps now; `None` where nobody can know.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn timestamped(&self) -> io::Result<Option<Timestamped>> {
        match held::Device::config(self) {
            Ok(config) => Ok(Some(match config.received {
                FILTER_NONE => Timestamped::Nothing,
                FILTER_ALL => Timestamped::All,
                _ => Timestamped::Some,
            })),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOTTY)) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn timestamping_config(&self, command: libc::c_ulong, config: &mut Config) -> io::Result<()> {
        // SAFETY: both commands read and write one struct hwtstamp_config behind the pointer, which is what `Config` is.
        unsafe { self.ioctl_on(command, (config as *mut Config).cast()) }
    }
}

fn timestamping_of(words: &[u32; 11]) -> Timestamping {
    let hardware = words[1] & RX_HARDWARE != 0 && words[1] & RAW_HARDWARE != 0;
    Timestamping {
        all_received: hardware && words[7] & 1 << FILTER_ALL != 0,
        clock: (words[2] as i32 >= 0).then_some(words[2]),
    }
}

impl held::Device for Netdev {
    fn interface(&self) -> &str {
        self.name()
    }

    fn config(&self) -> io::Result<Config> {
        let mut config = Config::default();
        self.timestamping_config(SIOCGHWTSTAMP, &mut config)?;
        Ok(config)
    }

    fn set_config(&self, config: &mut Config) -> io::Result<()> {
        self.timestamping_config(SIOCSHWTSTAMP, config)
    }
}

/// How far the clock of a NIC (/dev/ptpN) is ahead of CLOCK_REALTIME, in nanoseconds, to some microseconds.
///
/// # Errors
/// No such clock, no right to read it.
pub fn clock_ahead_ns(number: u32) -> io::Result<i64> {
    let file = File::open(format!("/dev/ptp{number}"))?;
    // FD_TO_CLOCKID of Documentation/driver-api/ptp.rst's testptp.c: a dynamic clock is named by a descriptor.
    let clock_id = (!file.as_raw_fd() << 3) | 3;
    let before_ns = clock::realtime_ns();
    // SAFETY: a timespec is two integers; all zeros is a value of it.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: `time` is valid for writing.
    checked(unsafe { libc::clock_gettime(clock_id, &mut time) })?;
    let between_ns = before_ns.midpoint(clock::realtime_ns());
    let nic_ns = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    i64::try_from(nic_ns - i128::from(between_ns)).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_structures_are_read_as_they_are() {
        assert_eq!(size_of::<Config>(), 12);
        // As an Intel I210 answers: all flags, clock 0, no filter or all.
        let words = [GET_TIMESTAMPING, 0x5f, 0, 3, 0, 0, 0, 3, 0, 0, 0];
        assert_eq!(timestamping_of(&words), Timestamping { all_received: true, clock: Some(0) });
        // Only PTP's packets; a software device; timestamps that are not raw.
        let only = |so_timestamping, clock: i32, filters| {
            timestamping_of(&[GET_TIMESTAMPING, so_timestamping, clock as u32, 0, 0, 0, 0, filters, 0, 0, 0])
        };
        assert_eq!(only(0x5f, 1, 1 | 1 << 12), Timestamping { all_received: false, clock: Some(1) });
        assert_eq!(only(0x18, -1, 0), Timestamping { all_received: false, clock: None });
        assert!(!only(0x1c, 0, 3).all_received);
    }

    #[test]
    fn the_loopback_has_no_timestamps_of_its_own() {
        let device = Netdev::open("lo").unwrap();
        assert!(
            device
                .timestamping()
                .unwrap()
                .is_none_or(|timestamping| !timestamping.all_received && timestamping.clock.is_none())
        );
        assert_eq!(device.timestamped().unwrap(), None);
        assert!(TimestampsHeld::hold(device).is_err());
        assert!(clock_ahead_ns(4_000_000).is_err());
    }
}
