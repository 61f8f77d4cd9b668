//! Round trips through a device: the program `ping` at one end of a path asks the kernel at the other end, by ICMPv6 between link-local
//! addresses. IPv6, which is off in the lab's namespaces, is on at both ends meanwhile.

use std::time::{Duration, Instant};

use linerate_report::{Latency, TestResult};

use super::DutError;
use super::tools::Place;
use crate::sysctl;
use crate::topology::{Cut, Side, Topology};

/// Longest wait for the first answer: a device may have to learn where the ends are.
const FIRST_MAX: Duration = Duration::from_secs(5);
/// How long the program may take beside its requests.
const MORE: Duration = Duration::from_secs(10);
/// How long it waits for the last answer.
const LAST_S: u32 = 1;

/// Sends echo requests from the first end to the second for so long, one each interval.
///
/// # Errors
/// A device that does not carry frames as they are; `ping` is not installed; IPv6 is not in this kernel.
pub fn ping(topology: &Topology, duration_ns: u64, interval_ns: u64) -> Result<TestResult, DutError> {
    if topology.dut.as_ref().is_some_and(|dut| dut.forwarding.cut != Cut::Switched) {
        let why = "link-local addresses reach the other end only through a device that carries frames as they are";
        return Err(DutError::Unsupported(why.into()));
    }
    let [here, there] = [&topology.generator, &topology.receiver].map(Speaking::on);
    let (_here, there) = (here?, there?);
    let target = format!("{}%{}", there.address()?, topology.generator.interface.name);
    let place = Place::inside(&topology.generator.namespace);
    let deadline = Instant::now() + FIRST_MAX;
    while round_trips_ns(&place.printed_by(&command(1, interval_ns, &target), MORE)?).is_empty() {
        if Instant::now() >= deadline {
            return Ok(TestResult::Ping { sent: 1, interval_ns, rtt: None });
        }
    }
    let sent = (duration_ns / interval_ns.max(1)).max(1);
    let at_most = Duration::from_nanos(duration_ns) + MORE;
    let printed = place.printed_by(&command(sent, interval_ns, &target), at_most)?;
    Ok(TestResult::Ping { sent, interval_ns, rtt: latency(round_trips_ns(&printed)) })
}

fn command(count: u64, interval_ns: u64, target: &str) -> Vec<String> {
    let interval = format!("{:.3}", interval_ns as f64 / 1e9);
    let words = ["ping", "-6", "-n", "-c", &count.to_string(), "-i", &interval, "-W", &LAST_S.to_string(), target];
    words.map(str::to_owned).into()
}

/// An end whose interface has an address of IPv6, until this is dropped.
struct Speaking<'a>(&'a Side);

impl<'a> Speaking<'a> {
    fn on(side: &'a Side) -> Result<Self, DutError> {
        let interface = side.interface.name;
        let set = || {
            // Nobody has the address, and no router is there.
            for (key, value) in [("accept_dad", "0"), ("router_solicitations", "0"), ("disable_ipv6", "0")] {
                sysctl::set(&format!("net/ipv6/conf/{interface}/{key}"), value)?;
            }
            Ok(())
        };
        let speaking = Self(side);
        side.namespace.run(set).and_then(|set| set).map_err(DutError::system("turn on IPv6"))?;
        Ok(speaking)
    }

    /// Its link-local address.
    fn address(&self) -> Result<String, DutError> {
        let read = || std::fs::read_to_string("/proc/thread-self/net/if_inet6");
        let text = self.0.namespace.run(read).and_then(|text| text).map_err(DutError::system("read the addresses"))?;
        link_local(&text, self.0.interface.name)
            .ok_or_else(|| DutError::Unsupported(format!("{} got no link-local address", self.0.interface.name)))
    }
}

impl Drop for Speaking<'_> {
    fn drop(&mut self) {
        let key = format!("net/ipv6/conf/{}/disable_ipv6", self.0.interface.name);
        let _ = self.0.namespace.run(|| sysctl::set(&key, "1"));
    }
}

/// The address of an interface that begins with fe80, in /proc/net/if_inet6: hexadecimal digits without colons, and the name at the end.
fn link_local(text: &str, interface: &str) -> Option<String> {
    let lines = text.lines().filter(|line| line.split_whitespace().last() == Some(interface));
    let mut digits =
        lines.filter_map(|line| line.split_whitespace().next()).filter(|digits| digits.starts_with("fe80"));
    let number = u128::from_str_radix(digits.next()?, 16).ok()?;
    Some(std::net::Ipv6Addr::from(number).to_string())
}

/// From lines such as `64 bytes from fe80::1%lr-gen: icmp_seq=1 ttl=64 time=0.045 ms`. Duplicates are left out.
fn round_trips_ns(printed: &str) -> Vec<u64> {
    let of_line = |line: &str| {
        let (_, rest) = line.split_once(" time=")?;
        let milliseconds: f64 = rest.strip_suffix(" ms")?.parse().ok()?;
        Some((milliseconds * 1e6).round() as u64)
    };
    printed.lines().filter_map(of_line).collect()
}

fn latency(mut round_trips_ns: Vec<u64>) -> Option<Latency> {
    round_trips_ns.sort_unstable();
    let (min_ns, max_ns) = (*round_trips_ns.first()?, *round_trips_ns.last()?);
    let samples = round_trips_ns.len();
    let at = |share: f64| {
        let rank = (share * samples as f64).ceil() as usize;
        round_trips_ns.get(rank.saturating_sub(1)).copied().unwrap_or(max_ns)
    };
    Some(Latency {
        samples: samples as u64,
        min_ns,
        mean_ns: round_trips_ns.iter().sum::<u64>() as f64 / samples as f64,
        p50_ns: at(0.5),
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        p9999_ns: at(0.9999),
        max_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "PING fe80::1%lr-gen (fe80::1%lr-gen) 56 data bytes\n\
        64 bytes from fe80::1%lr-gen: icmp_seq=1 ttl=64 time=0.200 ms\n\
        64 bytes from fe80::1%lr-gen: icmp_seq=2 ttl=64 time=20.1 ms\n\
        64 bytes from fe80::1%lr-gen: icmp_seq=2 ttl=64 time=20.1 ms (DUP!)\n\
        64 bytes from fe80::1%lr-gen: icmp_seq=3 ttl=64 time=0.045 ms\n\n\
        3 packets transmitted, 3 received, 0% packet loss, time 2012ms\n";

    #[test]
    fn round_trips_are_read_and_ordered() {
        let times = round_trips_ns(PRINTED);
        assert_eq!(times, [200_000, 20_100_000, 45_000]);
        let rtt = latency(times).expect("answers");
        assert_eq!((rtt.samples, rtt.min_ns, rtt.p50_ns, rtt.p99_ns), (3, 45_000, 200_000, 20_100_000));
        assert!(latency(round_trips_ns("time=x ms\n time= ms\ntime=5")).is_none());
    }

    #[test]
    fn the_link_local_address_of_an_interface_is_found() {
        let text = "00000000000000000000000000000001 01 80 10 80 lo\n\
            fe80000000000000004c52fffe000002 02 40 20 80 short\n\
            fe80000000000000004c52fffe00010200 02 40 20 80 long\n\
            fe80000000000000004c52fffe000102 02 40 20 80 lr-recv\n";
        assert_eq!(link_local(text, "lr-recv").as_deref(), Some("fe80::4c:52ff:fe00:102"));
        assert_eq!((link_local(text, "lo"), link_local(text, "lr-gen"), link_local(text, "long")), (None, None, None));
    }
}
