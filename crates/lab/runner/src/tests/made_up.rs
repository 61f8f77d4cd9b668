//! A device that carries so many packets per second and direction, behind a ring of 256, and a tester that sends so many.

use std::collections::BTreeMap;

use linerate_experiment::Direction;
use linerate_report::{
    Account, CapturePort, Counted, Dut, Environment, ExperimentTrial, Latency, Loss, Machine, Noise, Purpose,
    RingTrend, SessionAccount, SessionLoss, SessionPoint, Stalls, TestResult, Timestamps, Trial,
};

use crate::plan::{CellPlan, ways};
use crate::testbed::{Reset, SessionsRequest, Testbed, TestbedError, TestbedFactory, TrialRequest, TrialResult};
use linerate_tester::tcp::SessionLoad;
use linerate_tester::{Load, Recovery, Retry};

const RING: f64 = 256.0;

/// What goes wrong with a device.
pub(super) enum Trouble {
    /// It cannot be built.
    Missing,
    /// It dies in the trials with these numbers, counted over all its lives.
    DiesAt(Vec<usize>),
    /// It dies while warming up, in so many of its lives.
    DiesWarmingUp(usize),
}

pub(super) struct MadeUp {
    pub(super) carries_pps: f64,
    pub(super) sends_pps: f64,
    /// Of which device.
    pub(super) trouble: Option<(&'static str, Trouble)>,
    /// A signal comes in the trial after so many.
    pub(super) stop_after: Option<usize>,
    /// A link of the tester's goes away in the first trials.
    pub(super) flapped: usize,
    /// The first trials are disturbed.
    pub(super) disturbed: usize,
    /// The first trials lose packets whose cause the kernel would have told.
    pub(super) unasked: usize,
    /// In the first paced trials the tester loses its core and sends nine tenths only.
    pub(super) starved: usize,
    /// In the first paced trials of the device an interruption costs as many packets as the ring has slots.
    pub(super) interrupted: usize,
    /// Made so far, baselines apart.
    pub(super) trials: usize,
    pub(super) baselines: usize,
}

impl MadeUp {
    pub(super) fn new(carries_pps: f64, sends_pps: f64) -> Self {
        Self {
            carries_pps,
            sends_pps,
            trouble: None,
            stop_after: None,
            flapped: 0,
            disturbed: 0,
            unasked: 0,
            starved: 0,
            interrupted: 0,
            trials: 0,
            baselines: 0,
        }
    }
}

impl TestbedFactory for MadeUp {
    fn open<'a>(&'a mut self, cell: &CellPlan<'_>) -> Result<Box<dyn Testbed + 'a>, TestbedError> {
        let troubled = self.trouble.as_ref().is_some_and(|(name, _)| *name == cell.dut.name);
        if troubled && matches!(self.trouble, Some((_, Trouble::Missing))) {
            return Err(TestbedError::Cannot("`made-up` is not installed".into()));
        }
        Ok(Box::new(MadeUpRig {
            direction: cell.direction,
            baseline: false,
            troubled,
            captures: cell.dut.kind.captures(),
            maker: self,
        }))
    }

    fn open_baseline<'a>(&'a mut self, cell: &CellPlan<'_>) -> Option<Result<Box<dyn Testbed + 'a>, TestbedError>> {
        self.baselines += 1;
        Some(Ok(Box::new(MadeUpRig {
            direction: cell.direction,
            baseline: true,
            troubled: false,
            captures: false,
            maker: self,
        })))
    }

    fn environment(&self) -> Environment {
        Environment::default()
    }

    fn stop_requested(&self) -> bool {
        self.stop_after.is_some_and(|after| self.trials >= after)
    }
}

struct MadeUpRig<'a> {
    direction: Direction,
    baseline: bool,
    troubled: bool,
    /// Whether it says what it captured.
    captures: bool,
    maker: &'a mut MadeUp,
}

impl Testbed for MadeUpRig<'_> {
    fn describe(&self) -> Dut {
        Dut { name: "made up".into(), ..Dut::default() }
    }

    fn mode(&self) -> String {
        "nowhere".into()
    }

    fn warm_up(&mut self) -> Result<(), TestbedError> {
        match &mut self.maker.trouble {
            Some((_, Trouble::DiesWarmingUp(lives))) if self.troubled && *lives > 0 => {
                *lives -= 1;
                Err(TestbedError::Device("made up died: signal 11".into()))
            }
            _ => Ok(()),
        }
    }

    fn trial(&mut self, order: &TrialRequest) -> Result<TrialResult, TestbedError> {
        if !self.baseline {
            let number = self.maker.trials;
            if self.maker.stop_requested() {
                return Err(TestbedError::Stopped);
            }
            self.maker.trials += 1;
            if let (true, Some((_, Trouble::DiesAt(when)))) = (self.troubled, &self.maker.trouble)
                && when.contains(&number)
            {
                return Err(TestbedError::Device("made up died: signal 9".into()));
            }
        }
        Ok(self.measure(order))
    }

    fn ping(&mut self, duration_ns: u64, interval_ns: u64) -> Result<TestResult, TestbedError> {
        Ok(TestResult::Ping { sent: duration_ns / interval_ns, interval_ns, rtt: None })
    }

    /// It carries as many connections, and requests, a second as packets, and has room for as many connections at a time.
    fn sessions(
        &mut self,
        order: &TrialRequest,
        wanted: &SessionsRequest,
    ) -> Result<(ExperimentTrial, SessionPoint), TestbedError> {
        let (carries, begins) = (self.maker.carries_pps, self.maker.sends_pps);
        let seconds = wanted.duration_ns as f64 / 1e9;
        let (asked, begun, room) = match wanted.load {
            SessionLoad::ConnectionsPerSecond(rate) | SessionLoad::RequestsPerSecond(rate, _) => {
                (rate * seconds, rate.min(begins) * seconds, carries * seconds)
            }
            SessionLoad::Concurrent(count) => (f64::from(count), f64::from(count), carries),
            SessionLoad::ConnectionLoop(_) | SessionLoad::RequestLoop(_) => {
                let most = carries.min(begins) * seconds;
                (most, most, most)
            }
        };
        let (asked, begun, completed) = (asked as u64, begun as u64, begun.min(room) as u64);
        let lost = vec![SessionLoss { cause: "timed out".into(), count: begun - completed }];
        let account = SessionAccount::new((asked, begun, completed), lost).expect("balanced");
        let point = SessionPoint {
            load: 0.0,
            connections: account.clone(),
            requests: account,
            answered_per_second: completed as f64 / seconds,
            handshake: None,
            answer: None,
            retransmitted: 0,
            packets_lost: Vec::new(),
            packets_unexplained: 0,
        };
        Ok((self.trial(order)?.trial, point))
    }
}

impl MadeUpRig<'_> {
    fn measure(&mut self, order: &TrialRequest) -> TrialResult {
        let carries_pps = if self.baseline { f64::INFINITY } else { self.maker.carries_pps };
        let sends_pps = self.maker.sends_pps;
        let (asked, pps, seconds) = match order.load {
            Load::Rate { pps, duration_ns } => (pps, pps.min(sends_pps), duration_ns as f64 / 1e9),
            Load::Full { duration_ns } => (sends_pps, sends_pps, duration_ns as f64 / 1e9),
            Load::Burst { packets } => (sends_pps, sends_pps, packets as f64 / sends_pps),
            Load::Step { before_pps, before_ns, .. } => {
                let pps = before_pps.unwrap_or(sends_pps);
                (pps, pps.min(sends_pps), before_ns as f64 / 1e9)
            }
        };
        let ways = ways(self.direction);
        let all = |count: f64| ((count + 1e-6) * ways) as u64;
        let is_paced = matches!(order.load, Load::Rate { .. }) && !self.baseline;
        let starved = is_paced && self.maker.starved > 0;
        self.maker.starved -= usize::from(starved);
        let interrupted = is_paced && self.maker.interrupted > 0;
        self.maker.interrupted -= usize::from(interrupted);
        let sent = pps * seconds * if starved { 0.9 } else { 1.0 };
        let delivered = if matches!(order.load, Load::Burst { .. }) {
            sent.min(RING + carries_pps * seconds)
        } else {
            sent.min(carries_pps * seconds) - if interrupted { RING } else { 0.0 }
        };
        let counted = Counted {
            intended: all(asked * seconds).max(1),
            sent: all(sent).max(1),
            delivered: all(delivered).max(1),
            ..Counted::default()
        };
        let account = Account::new(counted, vec![Loss::new("ring", "full", counted.sent - counted.delivered)]);
        let disturbed = self.maker.disturbed > 0;
        self.maker.disturbed -= usize::from(disturbed);
        let flapped = self.maker.flapped > 0;
        self.maker.flapped -= usize::from(flapped);
        let unasked = self.maker.unasked > 0;
        self.maker.unasked -= usize::from(unasked);
        let latency = Latency {
            samples: counted.delivered,
            min_ns: 1,
            mean_ns: 2.0,
            p50_ns: 2,
            p90_ns: 3,
            p99_ns: 4,
            p999_ns: 5,
            p9999_ns: 6,
            max_ns: 7,
        };
        TrialResult {
            trial: ExperimentTrial {
                trial: Trial {
                    name: order.name.clone(),
                    purpose: order.purpose,
                    path: Vec::new(),
                    size_wire: 64,
                    flows: 1,
                    load_pps: asked * ways,
                    duration_ns: (seconds * 1e9) as u64,
                    account: account.expect("balanced"),
                    latency: order.latency.then_some(latency),
                    cpu: Vec::new(),
                    baseline_pps: None,
                    notes: Vec::new(),
                },
                machine: Machine {
                    noise: Noise { gap_max_ns: if disturbed { 1_000_000_000 } else { 0 }, ..Noise::default() },
                    stalls: Stalls {
                        lost_in_interruptions: if interrupted { RING as u64 } else { 0 },
                        ..Stalls::default()
                    },
                    work: Vec::new(),
                },
                dut_counters: BTreeMap::new(),
                not_used: None,
            },
            captured: self.captures.then(|| ports(self.direction, &counted)),
            shown: (!self.baseline).then(|| format!("{} packets", counted.delivered)),
            retry: Retry {
                link_flaps: if flapped { vec!["the link of eth9 went away once".to_owned()] } else { Vec::new() },
                reasons: unasked.then(|| "made again: nobody was asked".to_owned()),
            },
            probed: None,
            timestamps: order.latency.then(|| Timestamps::software(None)),
            histogram: Vec::new(),
            pdv_ns: order.latency.then_some(4),
            recovery: matches!(order.load, Load::Step { .. }).then_some(Recovery::After { recovery_ns: 7_000_000 }),
            reset: order.reset_after_ns.map(|_| Reset { how: "made up".into(), outage_ns: Some(1) }),
        }
    }
}

/// A capture whose ring was full as soon as it lost something; a microsecond for each packet.
fn ports(direction: Direction, counted: &Counted) -> Vec<CapturePort> {
    let number = ways(direction) as u64;
    let (captured, dropped_by_ring) = (counted.delivered / number, (counted.sent - counted.delivered) / number);
    let port = |port| CapturePort {
        port: format!("made up {port}"),
        captured,
        dropped_by_ring,
        dropped_by_writer: 0,
        ring_capacity: Some(100),
        ring_high_water: Some(if dropped_by_ring > 0 { 100 } else { 10 }),
        ring_trend: if dropped_by_ring > 0 { RingTrend::Overflowed } else { RingTrend::Steady },
        time_to_full_ns: None,
        cpu_ns: Some(captured * 1000),
    };
    (0..number).map(port).collect()
}

#[test]
fn a_baseline_purpose_is_not_a_trial_of_the_device() {
    let mut maker = MadeUp::new(1.0, 2.0);
    let direction = Direction::OneWay;
    let mut testbed = MadeUpRig { direction, baseline: true, troubled: false, captures: false, maker: &mut maker };
    let order = TrialRequest::new("baseline", Purpose::Baseline, Load::Full { duration_ns: 1_000_000_000 });
    assert!(testbed.trial(&order).is_ok());
    assert_eq!(maker.trials, 0);
}
