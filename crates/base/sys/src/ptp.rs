//! Clocks of network cards (/dev/ptpN) beside the system's clock: both read as one (linux/ptp_clock.h), and times of the one turned into
//! times of the other.
//!
//! ```text
//! ptp.rs   reading both clocks together, with a bound of the error       map.rs   between such readings
//! ```
#![allow(unsafe_code)]

mod map;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::{checked, clock};
pub use map::{ClockMap, MapError};

/// Readings of one call, of which the best is taken. The kernel's limit is 25.
const SAMPLES: usize = 10;
/// PTP_MAX_SAMPLES.
const SAMPLES_MAX: usize = 25;
/// linux/ptp_clock.h: _IOW('=', 5, struct ptp_sys_offset), _IOWR('=', 8, struct ptp_sys_offset_precise), _IOWR('=', 9, struct
/// ptp_sys_offset_extended).
const SYS_OFFSET: libc::c_ulong = 0x4340_3d05;
const SYS_OFFSET_PRECISE: libc::c_ulong = 0xc040_3d08;
const SYS_OFFSET_EXTENDED: libc::c_ulong = 0xc4c0_3d09;

/// Two clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The clock that is read, in nanoseconds.
    pub clock_ns: i64,
    /// The system's clock at that moment, in nanoseconds.
    pub system_ns: i64,
    /// `system_ns` is wrong by at most this.
    pub error_ns: u64,
}

impl Reading {
    /// What the clock went on by until a later reading, as a share of what the system's clock did; `None` where one of them did not go on.
    pub fn pace(self, later: Reading) -> Option<f64> {
        let (clock, system) = self.moved(later);
        (clock > 0 && system > 0).then(|| clock as f64 / system as f64)
    }

    /// Whether both clocks went on until a later reading, this one by `pace` times as much as the system's, give or take a share of `drift`
    /// and the readings' errors.
    pub fn keeps_pace(self, later: Reading, pace: f64, drift: f64) -> bool {
        let (clock, system) = self.moved(later);
        let meant = system as f64 * pace;
        let allowed = meant * drift + (self.error_ns as f64 + later.error_ns as f64) * pace;
        clock > 0 && system > 0 && (clock as f64 - meant).abs() <= allowed
    }

    fn moved(self, later: Reading) -> (i128, i128) {
        let moved = |from: i64, to: i64| to as i128 - from as i128;
        (moved(self.clock_ns, later.clock_ns), moved(self.system_ns, later.system_ns))
    }
}

/// A clock that timestamps packets.
#[derive(Debug)]
pub struct PtpClock {
    number: u32,
    file: File,
}

impl PtpClock {
    /// Opens /dev/ptpN.
    ///
    /// # Errors
    /// No such clock, no right to read it.
    pub fn open(number: u32) -> io::Result<PtpClock> {
        Ok(PtpClock { number, file: File::open(format!("/dev/ptp{number}"))? })
    }

    /// N of /dev/ptpN.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// This clock beside CLOCK_REALTIME, in the best way that the driver has: both latched by hardware, or this one between two readings of
    /// the other, the closest pair of ten.
    ///
    /// # Errors
    /// The card is gone; times that contradict each other.
    pub fn read(&self) -> io::Result<Reading> {
        read(&self.file)
    }
}

/// CLOCK_REALTIME beside CLOCK_MONOTONIC, the closest pair of ten.
pub fn realtime() -> Reading {
    let sample = || {
        let before_ns = clock::now_ns() as i64;
        let realtime_ns = clock::realtime_ns() as i64;
        [before_ns, realtime_ns, clock::now_ns() as i64]
    };
    let first = sample();
    let best =
        (1..SAMPLES).map(|_| sample()).fold(first, |best, other| if width(other) < width(best) { other } else { best });
    bracketed(best).unwrap_or(Reading { clock_ns: first[1], system_ns: first[0], error_ns: 0 })
}

/// What a clock's driver is asked; times in nanoseconds.
trait Driver {
    /// The clock and CLOCK_REALTIME, latched together.
    fn precise(&self) -> io::Result<[i64; 2]>;
    /// CLOCK_REALTIME, the clock, CLOCK_REALTIME, several times, read by the driver.
    fn extended(&self) -> io::Result<Vec<[i64; 3]>>;
    /// The same, read around the driver.
    fn plain(&self) -> io::Result<Vec<[i64; 3]>>;
}

fn read(driver: &impl Driver) -> io::Result<Reading> {
    match driver.precise() {
        // Both fields are whole nanoseconds.
        Ok([clock_ns, system_ns]) => return Ok(Reading { clock_ns, system_ns, error_ns: 1 }),
        Err(error) if !is_unknown(&error) => return Err(error),
        Err(_) => {}
    }
    let samples = match driver.extended() {
        Err(error) if is_unknown(&error) => driver.plain()?,
        other => other?,
    };
    // Around a step of the system's clock the second reading may be before the first.
    let best = samples.into_iter().filter(|sample| sample[2] >= sample[0]).min_by_key(|sample| width(*sample));
    best.and_then(bracketed)
        .ok_or_else(|| io::Error::other("the system's clock went backwards while the card's was read"))
}

/// The kernel or the driver does not have the call.
fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::EINVAL | libc::ENOSYS))
}

fn width([before, _, after]: [i64; 3]) -> u64 {
    after.saturating_sub(before).unsigned_abs()
}

fn bracketed(sample: [i64; 3]) -> Option<Reading> {
    let [before, clock_ns, after] = sample;
    let system_ns = before.midpoint(after);
    (after >= before).then_some(Reading { clock_ns, system_ns, error_ns: width(sample).div_ceil(2) })
}

/// `struct ptp_clock_time`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Time {
    seconds: i64,
    nanoseconds: u32,
    reserved: u32,
}

impl Time {
    fn ns(self) -> io::Result<i64> {
        let ns = self.seconds.checked_mul(1_000_000_000).and_then(|ns| ns.checked_add(self.nanoseconds.into()));
        ns.ok_or_else(|| io::Error::other("a clock's time is out of range"))
    }
}

/// `struct ptp_sys_offset`.
#[repr(C)]
struct Offset {
    samples: u32,
    reserved: [u32; 3],
    times: [Time; 2 * SAMPLES_MAX + 1],
}

/// `struct ptp_sys_offset_precise`.
#[repr(C)]
#[derive(Default)]
struct Precise {
    device: Time,
    realtime: Time,
    monotonic_raw: Time,
    reserved: [u32; 4],
}

/// `struct ptp_sys_offset_extended`.
#[repr(C)]
struct Extended {
    samples: u32,
    reserved: [u32; 3],
    times: [[Time; 3]; SAMPLES_MAX],
}

impl Driver for File {
    fn precise(&self) -> io::Result<[i64; 2]> {
        let mut told = Precise::default();
        // SAFETY: the command writes one struct ptp_sys_offset_precise, which is what `told` is.
        checked(unsafe { libc::ioctl(self.as_raw_fd(), SYS_OFFSET_PRECISE, &raw mut told) })?;
        Ok([told.device.ns()?, told.realtime.ns()?])
    }

    fn extended(&self) -> io::Result<Vec<[i64; 3]>> {
        let mut told =
            Extended { samples: SAMPLES as u32, reserved: [0; 3], times: [[Time::default(); 3]; SAMPLES_MAX] };
        // SAFETY: the command reads and writes one struct ptp_sys_offset_extended, which is what `told` is.
        checked(unsafe { libc::ioctl(self.as_raw_fd(), SYS_OFFSET_EXTENDED, &raw mut told) })?;
        let sample = |[before, device, after]: [Time; 3]| Ok([before.ns()?, device.ns()?, after.ns()?]);
        told.times.into_iter().take(SAMPLES).map(sample).collect()
    }

    fn plain(&self) -> io::Result<Vec<[i64; 3]>> {
        let mut told =
            Offset { samples: SAMPLES as u32, reserved: [0; 3], times: [Time::default(); 2 * SAMPLES_MAX + 1] };
        // SAFETY: the command reads and writes one struct ptp_sys_offset, which is what `told` is.
        checked(unsafe { libc::ioctl(self.as_raw_fd(), SYS_OFFSET, &raw mut told) })?;
        // System, device, system, device, ... system.
        let times = told.times.into_iter().take(2 * SAMPLES + 1).map(Time::ns).collect::<io::Result<Vec<_>>>()?;
        Ok(times.windows(3).step_by(2).map(|three| [three[0], three[1], three[2]]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A driver that has some of the calls.
    #[derive(Default)]
    struct Made {
        precise: Option<[i64; 2]>,
        extended: Option<Vec<[i64; 3]>>,
        plain: Option<Vec<[i64; 3]>>,
        errno: i32,
    }

    impl Made {
        fn answer<T: Clone>(&self, answer: &Option<T>) -> io::Result<T> {
            answer.clone().ok_or_else(|| io::Error::from_raw_os_error(self.errno))
        }
    }

    impl Driver for Made {
        fn precise(&self) -> io::Result<[i64; 2]> {
            self.answer(&self.precise)
        }
        fn extended(&self) -> io::Result<Vec<[i64; 3]>> {
            self.answer(&self.extended)
        }
        fn plain(&self) -> io::Result<Vec<[i64; 3]>> {
            self.answer(&self.plain)
        }
    }

    #[test]
    fn the_structures_and_commands_are_the_kernels() {
        assert_eq!((size_of::<Offset>(), size_of::<Precise>(), size_of::<Extended>()), (0x340, 0x40, 0x4c0));
        for (command, size) in [(SYS_OFFSET, 0x340), (SYS_OFFSET_PRECISE, 0x40), (SYS_OFFSET_EXTENDED, 0x4c0)] {
            assert_eq!((command >> 16 & 0x3fff, command >> 8 & 0xff), (size, u64::from(b'=')));
        }
    }

    #[test]
    fn the_best_call_that_the_driver_has_is_taken_and_of_it_the_closest_pair() {
        let samples = vec![[100, 7_000, 200], [300, 7_200, 321], [400, 7_300, 500]];
        let made = Made { errno: libc::EOPNOTSUPP, plain: Some(samples.clone()), ..Made::default() };
        let closest = Reading { clock_ns: 7_200, system_ns: 310, error_ns: 11 };
        assert_eq!(read(&made).unwrap(), closest);
        let extended = Made { extended: Some(samples), plain: Some(vec![[0, 1, 0]]), ..made };
        assert_eq!(read(&extended).unwrap(), closest);
        let precise = Made { precise: Some([9, 8]), ..extended };
        assert_eq!(read(&precise).unwrap(), Reading { clock_ns: 9, system_ns: 8, error_ns: 1 });
        // The card is gone; the system's clock was stepped back during one sample, and during all.
        assert_eq!(
            read(&Made { errno: libc::ENODEV, ..Made::default() }).unwrap_err().raw_os_error(),
            Some(libc::ENODEV)
        );
        let stepped = |samples| Made { errno: libc::ENOTTY, plain: Some(samples), ..Made::default() };
        let one = read(&stepped(vec![[100, 5, 50], [50, 6, 150]])).unwrap();
        assert_eq!(one, Reading { clock_ns: 6, system_ns: 100, error_ns: 50 });
        assert!(read(&stepped(vec![[100, 5, 50]])).is_err() && read(&stepped(vec![])).is_err());
    }

    #[test]
    fn the_systems_two_clocks_are_read_together() {
        let [one, other] = [realtime(), realtime()];
        assert!(other.system_ns >= one.system_ns && one.error_ns < 1_000_000_000);
        assert!(PtpClock::open(4_000_000).is_err());
        assert!(Time { seconds: i64::MAX, ..Time::default() }.ns().is_err());
    }
}
