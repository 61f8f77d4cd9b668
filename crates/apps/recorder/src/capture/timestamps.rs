//! Whose clock timestamps the packets of an interface.

use std::fmt;

use linerate_sys::netdev::Netdev;
use linerate_sys::timestamping::{Needs, Timestamped, Timestamping, TimestampsHeld, clock_ahead_ns};
use linerate_units::show::nanoseconds;

/// Farther from the time of day a NIC's clock is not taken unasked: it was never set. (International atomic time, which PTP has, is
/// 37 s ahead.)
const AHEAD_MAX_NS: u64 = 60_000_000_000;

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TimestampSource {
    /// The NIC where it can, nobody else needs its timestamps, and its clock was set; else the kernel.
    Auto,
    /// The kernel.
    Kernel,
    /// The NIC.
    Nic,
}

/// The clock of an interface's timestamps.
#[derive(Debug, Default)]
pub struct Clock {
    /// The NIC timestamps as long as this is held.
    nic: Option<Nic>,
    fallback_reason: Option<String>,
}

#[derive(Debug)]
struct Nic {
    _held: TimestampsHeld,
    number: Option<u32>,
    ahead_ns: Option<i64>,
}

/// What is known about the timestamps of an interface.
#[derive(Clone, Copy, Debug)]
struct Facts {
    can: Option<Timestamping>,
    now: Option<Timestamped>,
    ahead_ns: Option<i64>,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Nic,
    /// With the reason, where it is worth a word.
    Kernel(Option<&'static str>),
    Refused(&'static str),
}

impl Clock {
    /// Turns the NIC's timestamps on if they are to be used.
    ///
    /// # Errors
    /// The NIC's timestamps are wanted and cannot be had.
    pub fn choose(interface: &str, wanted: TimestampSource) -> Result<Clock, String> {
        if wanted == TimestampSource::Kernel {
            return Ok(Clock::default());
        }
        // What cannot be asked about, the ring's opening complains about.
        let Ok(device) = Netdev::open(interface) else { return Ok(Clock::default()) };
        let can = device.timestamping().ok().flatten();
        let number = can.and_then(|can| can.clock);
        let ahead_ns = number.and_then(|number| clock_ahead_ns(number).ok());
        let facts = Facts { can, now: device.timestamped().ok().flatten(), ahead_ns };
        let refused = |why: &str| format!("{interface}: no timestamps of the NIC: {why}; leave --timestamps nic out");
        match choice(wanted, &facts) {
            Choice::Kernel(why) => Ok(Clock { nic: None, fallback_reason: why.map(str::to_string) }),
            Choice::Refused(why) => Err(refused(why)),
            Choice::Nic => match TimestampsHeld::hold(device, Needs::AllReceived) {
                Ok(held) => Ok(Clock { nic: Some(Nic { _held: held, number, ahead_ns }), fallback_reason: None }),
                Err(error) if wanted == TimestampSource::Nic => Err(refused(&error.to_string())),
                Err(error) => {
                    Ok(Clock { nic: None, fallback_reason: Some(format!("the NIC's cannot be turned on: {error}")) })
                }
            },
        }
    }

    /// True when the NIC was told to timestamp.
    pub fn is_nic(&self) -> bool {
        self.nic.is_some()
    }

    /// Why it is not the NIC, where it could have been.
    pub fn fallback_reason(&self) -> Option<&str> {
        self.fallback_reason.as_deref()
    }
}

impl fmt::Display for Clock {
    /// For the file.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(nic) = &self.nic else { return out.write_str("the kernel's receive path, CLOCK_REALTIME") };
        out.write_str("the NIC's clock")?;
        if let Some(number) = nic.number {
            write!(out, " /dev/ptp{number}")?;
        }
        match nic.ahead_ns {
            Some(ns) if ns < 0 => write!(out, ", {} behind CLOCK_REALTIME at the start", nanoseconds(-(ns as f64)))?,
            Some(ns) => write!(out, ", {} ahead of CLOCK_REALTIME at the start", nanoseconds(ns as f64))?,
            None => out.write_str(", whose difference to CLOCK_REALTIME is not known")?,
        }
        out.write_str("; packets without a timestamp of it: the kernel's receive path, CLOCK_REALTIME")
    }
}

fn choice(wanted: TimestampSource, facts: &Facts) -> Choice {
    let can = facts.can.is_some_and(|can| can.all_received);
    match (wanted, can) {
        (TimestampSource::Kernel, _) | (TimestampSource::Auto, false) => Choice::Kernel(None),
        (TimestampSource::Nic, false) => Choice::Refused("its driver does not timestamp every packet that it receives"),
        (TimestampSource::Nic, true) => Choice::Nic,
        (TimestampSource::Auto, true) => match (facts.now, facts.ahead_ns) {
            (None, _) => Choice::Kernel(Some("the driver does not tell which timestamps it makes now")),
            (Some(Timestamped::Some), _) => Choice::Kernel(Some("another program uses the NIC's")),
            (_, None) => Choice::Kernel(Some("the NIC's clock cannot be read")),
            (_, Some(ns)) if ns.unsigned_abs() > AHEAD_MAX_NS => Choice::Kernel(Some("the NIC's clock was not set")),
            _ => Choice::Nic,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nic_is_chosen_where_that_does_no_harm() {
        const ALL: Option<Timestamping> =
            Some(Timestamping { all_received: true, clock: Some(0), sent: true, filters: 3 });
        const SOME: Option<Timestamping> =
            Some(Timestamping { all_received: false, clock: Some(0), sent: true, filters: 1 | 1 << 12 });
        let at = |can, now, ahead_ns| Facts { can, now, ahead_ns };
        let good = at(ALL, Some(Timestamped::Nothing), Some(37_000_000_000));
        let kernel = |facts| matches!(choice(TimestampSource::Auto, &facts), Choice::Kernel(Some(_)));
        assert_eq!(choice(TimestampSource::Auto, &good), Choice::Nic);
        assert_eq!(choice(TimestampSource::Auto, &at(ALL, Some(Timestamped::All), Some(-5))), Choice::Nic);
        assert_eq!(choice(TimestampSource::Kernel, &good), Choice::Kernel(None));
        assert_eq!(choice(TimestampSource::Auto, &at(SOME, None, None)), Choice::Kernel(None));
        assert_eq!(choice(TimestampSource::Auto, &at(None, None, None)), Choice::Kernel(None));
        assert!(kernel(at(ALL, None, Some(0))) && kernel(at(ALL, Some(Timestamped::Some), Some(0))));
        assert!(kernel(at(ALL, Some(Timestamped::Nothing), None)));
        assert!(kernel(at(ALL, Some(Timestamped::Nothing), Some(-1_700_000_000_000_000_000))));
        // Who asks for it gets it, also where it was never set.
        assert_eq!(choice(TimestampSource::Nic, &at(ALL, None, None)), Choice::Nic);
        assert!(matches!(choice(TimestampSource::Nic, &at(SOME, None, None)), Choice::Refused(_)));
    }

    #[test]
    fn an_interface_without_a_clock_has_the_kernels() {
        let clock = Clock::choose("lo", TimestampSource::Auto).unwrap();
        assert!(!clock.is_nic() && clock.fallback_reason().is_none() && clock.to_string().contains("CLOCK_REALTIME"));
        assert!(Clock::choose("lo", TimestampSource::Nic).unwrap_err().contains("--timestamps nic"));
    }
}
