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
mod socket;

pub use held::{Needs, TimestampsHeld, restore_left_behind};
pub use socket::{Sent, TimestampedBy, TimestampingSocket};

/// linux/ethtool.h.
const GET_TIMESTAMPING: u32 = 0x41;
/// linux/sockios.h.
const SIOCSHWTSTAMP: libc::c_ulong = 0x89b0;
const SIOCGHWTSTAMP: libc::c_ulong = 0x89b1;
/// linux/net_tstamp.h: SOF_TIMESTAMPING_*.
const TX_HARDWARE: u32 = 1 << 0;
const RX_HARDWARE: u32 = 1 << 2;
const RAW_HARDWARE: u32 = 1 << 6;
/// linux/net_tstamp.h: `enum hwtstamp_tx_types`.
const SENT_OFF: i32 = 0;
const SENT_ON: i32 = 1;
/// linux/net_tstamp.h: `enum hwtstamp_rx_filters`.
const FILTER_NONE: i32 = 0;
const FILTER_ALL: i32 = 1;
const FILTER_PTP_V2_L4_EVENT: i32 = 6;
const FILTER_PTP_V2_L4_SYNC: i32 = 7;
const FILTER_PTP_V2_L2_EVENT: i32 = 9;
const FILTER_PTP_V2_L2_SYNC: i32 = 10;
const FILTER_PTP_V2_EVENT: i32 = 12;
const FILTER_PTP_V2_SYNC: i32 = 13;
/// Their names, as ethtool prints them.
const FILTERS: [&str; 16] = [
    "none",
    "all",
    "some",
    "ptpv1-l4-event",
    "ptpv1-l4-sync",
    "ptpv1-l4-delay-req",
    "ptpv2-l4-event",
    "ptpv2-l4-sync",
    "ptpv2-l4-delay-req",
    "ptpv2-l2-event",
    "ptpv2-l2-sync",
    "ptpv2-l2-delay-req",
    "ptpv2-event",
    "ptpv2-sync",
    "ptpv2-delay-req",
    "ntp-all",
];

/// What a driver says about its timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamping {
    /// It can timestamp every packet that it receives.
    pub all_received: bool,
    /// It can timestamp single packets that it sends.
    pub sent: bool,
    /// Which received packets it can timestamp: bit N for value N of `enum hwtstamp_rx_filters`. 0 if it timestamps none.
    pub filters: u32,
    /// Number of its clock: /dev/ptpN.
    pub clock: Option<u32>,
}

impl Timestamping {
    /// True if the card itself timestamps packets that it sends, or some that it receives.
    pub fn is_hardware(&self) -> bool {
        self.sent || self.filters & !1 != 0
    }

    /// Names of the received packets that it can timestamp, as ethtool has them: `all`, `ptpv2-event`.
    pub fn filter_names(&self) -> Vec<&'static str> {
        let names = FILTERS.iter().enumerate().skip(1);
        names.filter(|(bit, _)| self.filters & 1 << bit != 0).map(|(_, name)| *name).collect()
    }
}

impl std::fmt::Display for Timestamping {
    /// `by the card (clock /dev/ptp0), sent and received: all`.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.is_hardware() {
            return out.write_str("by software only");
        }
        match self.clock {
            Some(number) => write!(out, "by the card (clock /dev/ptp{number})")?,
            None => out.write_str("by the card (no clock that can be read)")?,
        }
        let received = self.filter_names();
        match (self.sent, received.is_empty()) {
            (true, true) => out.write_str(", sent"),
            (sent, _) => write!(out, ", {}received: {}", if sent { "sent and " } else { "" }, received.join(" ")),
        }
    }
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

impl Config {
    /// Whether both timestamp the same packets.
    fn is_like(self, other: Config) -> bool {
        (self.sent, self.received) == (other.sent, other.received)
    }
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
    let hardware = |what| words[1] & what != 0 && words[1] & RAW_HARDWARE != 0;
    let filters = if hardware(RX_HARDWARE) { words[7] } else { 0 };
    Timestamping {
        all_received: filters & 1 << FILTER_ALL != 0,
        sent: hardware(TX_HARDWARE) && words[3] & 1 << SENT_ON != 0,
        filters,
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
        let told = timestamping_of(&words);
        assert_eq!(told, Timestamping { all_received: true, sent: true, filters: 3, clock: Some(0) });
        assert_eq!(told.to_string(), "by the card (clock /dev/ptp0), sent and received: all");
        // Only PTP's packets; a software device; timestamps that are not raw.
        let only = |so_timestamping, clock: i32, filters| {
            timestamping_of(&[GET_TIMESTAMPING, so_timestamping, clock as u32, 0, 0, 0, 0, filters, 0, 0, 0])
        };
        let ptp_only = only(0x5f, 1, 1 | 1 << 12);
        assert_eq!(ptp_only, Timestamping { filters: 1 | 1 << 12, clock: Some(1), ..Timestamping::default() });
        assert_eq!(ptp_only.to_string(), "by the card (clock /dev/ptp1), received: ptpv2-event");
        assert_eq!(only(0x18, -1, 0), Timestamping::default());
        assert_eq!(only(0x18, -1, 1 | 1 << 12).to_string(), "by software only");
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
        assert!(TimestampsHeld::hold(device, Needs::AllReceived).is_err());
        assert!(clock_ahead_ns(4_000_000).is_err());
    }
}
