//! Latency by timestamps of network cards, or of the kernel: a few probes a second beside a load, each timestamped as it leaves the one end and
//! as it arrives at the other.
//!
//! ```text
//! message.rs     what a probe is             under_load.rs   the load beside which probes go
//! exchange.rs    one probe after the other   evaluate.rs     from times of two clocks to latencies
//! ```
//! The load has a run of its own for it, after the trial, so that the trial's account has no packet of a probe in it.

mod evaluate;
mod exchange;
mod message;
mod under_load;

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use linerate_experiment::{Addresses6, FlowSpec};
use linerate_report::{Probes, TimestampKind, Timestamps, units};
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::ptp::PtpClock;
use linerate_sys::random;
use linerate_sys::timestamping::{self, Needs, TimestampedBy, TimestampingSocket, TimestampsHeld};

use super::endpoint::Endpoint;
use super::traffic::{Direction, turned};
use super::{Tester, TrialError, TrialSpec};
use crate::Delays;
use evaluate::evaluate;
use exchange::{Clock, Exchange, Exchanged};
use message::{Addresses, Message};

/// After it was told to timestamp, a card may take its link down for a moment.
const LINK_WAIT: Duration = Duration::from_secs(10);

/// The two ends between which probes go, told to timestamp for as long as this lives.
pub struct Prober {
    ends: [ProbeEnd; 2],
    by: TimestampedBy,
    /// Over UDP, because something on the path routes.
    routed: bool,
}

/// One end.
struct ProbeEnd {
    namespace: NetNs,
    name: String,
    index: u32,
    /// Number of the card's clock.
    clock: Option<u32>,
    _held: Option<TimestampsHeld>,
}

/// What probes showed.
#[derive(Debug)]
pub struct Probed {
    /// Latencies of all directions together.
    pub delays: Delays,
    /// Whose timestamps these are, their error, and how many probes there were.
    pub timestamps: Timestamps,
}

impl Tester {
    /// Gets both ends ready for probes that cards (or the kernel) timestamp.
    ///
    /// # Errors
    /// Why they cannot, in a sentence.
    pub fn prober(&self, by: TimestampedBy) -> Result<Prober, String> {
        let [first, second] = &self.ends;
        if [first, second].iter().any(|end| matches!(end.endpoint, Some(Endpoint::Capture { .. }))) {
            return Err("the path ends in a capture, which passes no probe on".into());
        }
        let routed = first.link.destination != second.link.source;
        let needs = if routed { Needs::PtpOverUdp } else { Needs::PtpOverEthernet };
        let ends = match (&self.topology, &self.cards[..]) {
            (Some(topology), _) => [&topology.generator, &topology.receiver]
                .map(|side| (side.namespace.try_clone(), side.interface.name.to_owned())),
            (None, [a, b]) => [a, b].map(|card| (NetNs::current(), card.clone())),
            _ => return Err("the ends of the path are not two interfaces".into()),
        };
        let [first, second] = ends.map(|(namespace, name)| {
            let namespace = namespace.map_err(|error| format!("a network namespace: {error}"))?;
            ProbeEnd::open(namespace, &name, (by == TimestampedBy::Card).then_some(needs))
        });
        Ok(Prober { ends: [first?, second?], by, routed })
    }
}

impl ProbeEnd {
    fn open(namespace: NetNs, name: &str, needs: Option<Needs>) -> Result<ProbeEnd, String> {
        let opened = namespace.run(|| {
            let device = Netdev::open(name).map_err(|error| format!("{name}: {error}"))?;
            let index = device.index().map_err(|error| format!("{name}: {error}"))?;
            let (clock, held) = match needs {
                Some(needs) => turn_on(device, needs).map(|(clock, held)| (Some(clock), Some(held)))?,
                None => (None, None),
            };
            Ok::<_, String>((index, clock, held))
        });
        let (index, clock, held) = opened.map_err(|error| format!("a network namespace: {error}"))??;
        Ok(ProbeEnd { namespace, name: name.to_owned(), index, clock, _held: held })
    }

    fn clock(&self) -> io::Result<Clock> {
        self.clock.map_or(Ok(Clock::System), |number| PtpClock::open(number).map(Clock::Card))
    }

    fn clock_words(&self) -> String {
        match self.clock {
            Some(number) => format!("/dev/ptp{number} of {}", self.name),
            None => format!("CLOCK_REALTIME at {}", self.name),
        }
    }
}

/// In the interface's namespace.
fn turn_on(device: Netdev, needs: Needs) -> Result<(u32, TimestampsHeld), String> {
    let name = device.name().to_owned();
    let can = device.timestamping().ok().flatten().unwrap_or_default();
    let clock = match can.clock {
        Some(clock) if can.sent && can.is_hardware() => clock,
        _ => return Err(format!("{name} has no hardware timestamps of what it sends and receives")),
    };
    PtpClock::open(clock).map_err(|error| format!("/dev/ptp{clock}, the clock of {name}: {error}"))?;
    timestamping::restore_left_behind();
    let held = TimestampsHeld::hold(device, needs);
    let held = held.map_err(|error| format!("{name} cannot be told to timestamp probes: {error}"))?;
    let waited = Netdev::open(&name).and_then(|device| device.wait_until_running(LINK_WAIT));
    match waited {
        Ok(true) => Ok((clock, held)),
        Ok(false) => Err(format!("{name} lost its link when it was told to timestamp")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

impl Prober {
    /// Sends probes beside a load, and says what they showed.
    ///
    /// # Errors
    /// As [`Tester::trial`]; a socket or a clock that cannot be used, a clock that was set meanwhile, no probe with both timestamps.
    pub fn probe(&self, tester: &mut Tester, spec: &TrialSpec<'_>) -> Result<Probed, ProbeError> {
        let ways = [Some(Direction::Forward), spec.backward.map(|_| Direction::Backward)];
        let exchanges = ways.into_iter().flatten().map(|way| self.exchange(tester, spec.flows, way));
        let exchanges =
            exchanges.collect::<io::Result<Vec<_>>>().map_err(|error| ProbeError::Timestamps(error.to_string()))?;
        let same_clock = exchanges.first().is_some_and(|exchange| exchange.clocks[0].is_same(&exchange.clocks[1]));
        let all = tester.probe_under_load(spec, exchanges)?;
        self.judge(all, same_clock)
    }

    fn exchange(&self, tester: &Tester, flows: &FlowSpec, way: Direction) -> io::Result<Exchange> {
        let (from, to) = turned(way, &self.ends[0], &self.ends[1]);
        let mut identity = [0; 8];
        identity.copy_from_slice(&random::secret()?[..8]);
        let message = Message::new(tester.link(way), self.routed.then(|| addresses(flows, way)), identity);
        let sender = from.namespace.run(|| TimestampingSocket::sender(from.index, self.by))??;
        let (ether_type, filter) = (message.ether_type(), message.filter());
        let receiver = to.namespace.run(|| TimestampingSocket::receiver(to.index, ether_type, &filter, self.by))??;
        Ok(Exchange { message, sender, receiver, clocks: [from.clock()?, to.clock()?] })
    }

    fn judge(&self, all: Vec<Exchanged>, same_clock: bool) -> Result<Probed, ProbeError> {
        let no = |why: String| ProbeError::Timestamps(why);
        let (mut delays, mut probes, mut error_ns) = (Delays::default(), Probes::default(), 0);
        for mut exchanged in all {
            if let Some(error) = exchanged.error.take() {
                return Err(no(format!("the probes' sockets or clocks: {error}")));
            }
            let found = evaluate(exchanged, same_clock).map_err(|error| no(error.to_string()))?;
            delays.merge(&Delays::of_thread(&found.latencies));
            probes = probes.with(&found.probes);
            error_ns = error_ns.max(found.error_ns);
        }
        let Probes { sent, lost, without_timestamp, rejected, .. } = probes;
        if sent == 0 {
            return Err(no("no probe was sent: their thread had no core while the load ran".into()));
        }
        if delays.samples() == 0 {
            let [sent, lost, without_timestamp, rejected] = [sent, lost, without_timestamp, rejected].map(units::count);
            return Err(no(format!(
                "of {sent} probes {lost} were lost, {without_timestamp} came without a timestamp, {rejected} with one that cannot be"
            )));
        }
        let is_hardware = self.by == TimestampedBy::Card;
        let timestamps = Timestamps {
            kind: if is_hardware { TimestampKind::Hardware } else { TimestampKind::Kernel },
            error_ns: is_hardware.then_some(error_ns),
            clocks: self.ends.iter().map(ProbeEnd::clock_words).collect(),
            probes: Some(probes),
            fallback_reason: None,
        };
        Ok(Probed { delays, timestamps })
    }
}

/// Those of the load's first flow.
fn addresses(flows: &FlowSpec, way: Direction) -> Addresses {
    match (flows.ip.versions().first(), flows.ip.addresses6()) {
        (Some(linerate_experiment::IpVersion::V6), Some(Addresses6 { source, destination })) => {
            turned(way, IpAddr::V6(source), IpAddr::V6(destination))
        }
        _ => turned(way, IpAddr::V4(flows.source), IpAddr::V4(flows.destination)),
    }
}

/// Why probes gave no latency.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The load could not be made.
    #[error("{0}")]
    Load(#[from] TrialError),
    /// There are no timestamps to trust.
    #[error("{0}")]
    Timestamps(String),
}
