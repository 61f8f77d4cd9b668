//! How long an interface collects packets before its receive work runs: software interrupt coalescing
//! (Documentation/networking/napi.rst, `/sys/class/net/IF/napi_defer_hard_irqs` and `gro_flush_timeout`).
//!
//! After a round of receive work the interface's interrupt stays off and a timer begins the next round. So what arrives within the time is
//! worked on at once: packets wait longer, and each costs a smaller part of a wake-up. An interface without NAPI ignores it.

use std::fs;
use std::io;

use crate::held::{self, Held, Setting};
use crate::netns::NetNs;

/// Rounds that may find nothing before the interrupt is on again: `napi_defer_hard_irqs`.
const EMPTY_ROUNDS: u64 = 2;

/// Longest time for which packets may be collected, in microseconds.
pub const DEFER_US_MAX: u64 = 10_000;

/// An interface that collects packets, until this is dropped.
#[derive(Debug)]
pub struct Deferral {
    held: Held<Deferred>,
}

impl Deferral {
    /// Lets `interface`, of the calling thread's network namespace, collect packets for `time_us` microseconds; `None` if it does already, or
    /// if no time is given: then what a killed process left set is put back, as far as that is possible.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN or where no sysfs may be mounted, `NotFound` on kernels before 5.7, `ResourceBusy` if another process
    /// has set another time.
    pub fn hold(interface: &str, time_us: Option<u64>) -> io::Result<Option<Deferral>> {
        let deferred = NetNs::current().map(|namespace| Deferred { interface: interface.into(), namespace });
        let Some(time_us) = time_us else {
            let _ = deferred.and_then(|deferred| held::restore(&deferred));
            return Ok(None);
        };
        let deferred = deferred?;
        let wanted = text(EMPTY_ROUNDS, time_us * 1000);
        Ok(Held::hold(deferred, &wanted)?.map(|held| Deferral { held }))
    }

    /// Lets the interface collect packets for `time_us` microseconds from now on; false if somebody chose something else meanwhile, which stays.
    ///
    /// # Errors
    /// As [`Deferral::hold`]; what the kernel says.
    pub fn change(&mut self, time_us: u64) -> io::Result<bool> {
        self.held.change(&text(EMPTY_ROUNDS, time_us * 1000))
    }
}

/// The two settings of an interface of a namespace, as `ROUNDS NANOSECONDS`.
#[derive(Debug)]
struct Deferred {
    interface: String,
    namespace: NetNs,
}

impl Deferred {
    fn paths(&self) -> [String; 2] {
        ["napi_defer_hard_irqs", "gro_flush_timeout"].map(|file| format!("/sys/class/net/{}/{file}", self.interface))
    }
}

impl Setting for Deferred {
    const NAME: &'static str = "napi-deferral";

    fn interface(&self) -> &str {
        &self.interface
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        let paths = self.paths();
        let read = || paths.map(|path| fs::read_to_string(path)?.trim().parse::<u64>().map_err(io::Error::other));
        let [rounds, time_ns]: [io::Result<u64>; 2] = self.namespace.run_with_sysfs(read)?;
        Ok(text(rounds?, time_ns?))
    }

    fn write(&self, value: &[u8]) -> io::Result<()> {
        let value = String::from_utf8_lossy(value);
        let (rounds, time_ns) = value.split_once(' ').ok_or(io::ErrorKind::InvalidData)?;
        let [rounds_path, time_path] = self.paths();
        self.namespace.run_with_sysfs(|| {
            fs::write(rounds_path, rounds)?;
            fs::write(time_path, time_ns)
        })?
    }
}

fn text(rounds: u64, time_ns: u64) -> Vec<u8> {
    format!("{rounds} {time_ns}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::veth::{self, VethEnd};

    #[test]
    fn an_interface_collects_packets_until_the_end() {
        let namespace = match NetNs::anonymous() {
            Ok(namespace) => namespace,
            Err(error) => return eprintln!("skipped: no network namespace: {error}"),
        };
        let end = |name| VethEnd { name, namespace: &namespace };
        veth::create(end("near"), end("far"), 1).unwrap();
        let work = || {
            let near = Deferred { interface: "near".into(), namespace: NetNs::current().unwrap() };
            let plain = match near.read() {
                Ok(plain) => plain,
                Err(error) => return eprintln!("skipped: no fresh sysfs: {error}"),
            };
            let mut held = Deferral::hold("near", Some(200)).unwrap().unwrap();
            assert_eq!(near.read().unwrap(), b"2 200000");
            assert!(held.change(350).unwrap());
            assert_eq!(near.read().unwrap(), b"2 350000");
            assert!(held.change(200).unwrap());
            assert!(Deferral::hold("near", Some(200)).unwrap().is_none());
            drop(held);
            assert_eq!(near.read().unwrap(), plain);
            assert_eq!(Deferral::hold("none", Some(200)).unwrap_err().kind(), io::ErrorKind::NotFound);
        };
        namespace.run(work).unwrap();
    }
}
