//! What measures: a testbed for each cell, made by a maker of testbeds.

use linerate_experiment::{EchoOrder, EchoStack, TimestampSource};
use linerate_report::{
    CapturePort, Dut, Environment, ExperimentTrial, Latency, Purpose, Results, SessionPoint, TestResult, Timestamps,
};

use super::plan::CellPlan;
use linerate_tester::tcp::SessionLoad;
use linerate_tester::{Load, Recovery, Retry};

/// Makes testbeds. The lab's own builds namespaces and devices ([`super::lab`]).
pub trait TestbedFactory {
    /// The path of a cell with its device, ready to carry packets.
    ///
    /// # Errors
    /// What is missing, in words: the cell cannot be measured.
    fn open<'a>(&'a mut self, cell: &CellPlan<'_>) -> Result<Box<dyn Testbed + 'a>, TestbedError>;

    /// The same path without a device; `None` where there is no such path (a cabled box without ports for it, a link inside this
    /// process).
    ///
    /// # Errors
    /// As [`TestbedFactory::open`].
    fn open_baseline<'a>(&'a mut self, cell: &CellPlan<'_>) -> Option<Result<Box<dyn Testbed + 'a>, TestbedError>>;

    /// Where it measures.
    fn environment(&self) -> Environment;

    /// Before the first cell.
    fn before(&mut self, _results: &mut Results) {}

    /// After the last cell.
    fn after(&mut self, _results: &mut Results) {}

    /// Whether a signal asked to stop.
    fn stop_requested(&self) -> bool;
}

/// A path with a device, on which one trial after another is made. Dropping it takes everything down.
pub trait Testbed {
    /// What the device is.
    fn describe(&self) -> Dut;

    /// Where its work runs and which threads share a core, in words.
    fn mode(&self) -> String;

    /// What is known of the place only now that the path is there.
    fn environment(&self) -> Option<Environment> {
        None
    }

    /// Sends what a stateful device has to see before the first trial that counts.
    ///
    /// # Errors
    /// As [`Testbed::trial`].
    fn warm_up(&mut self) -> Result<(), TestbedError>;

    /// Makes one trial.
    ///
    /// # Errors
    /// Why there is no account of it.
    fn trial(&mut self, order: &TrialRequest) -> Result<TrialResult, TestbedError>;

    /// Sends echo requests through the device for a time, one each interval.
    ///
    /// # Errors
    /// As [`Testbed::trial`].
    fn ping(&mut self, duration_ns: u64, interval_ns: u64) -> Result<TestResult, TestbedError>;

    /// Makes a trial of connections and requests between TCP stacks at both ends. The point's load is the caller's to set.
    ///
    /// # Errors
    /// As [`Testbed::trial`]; the ends are no TCP stacks.
    fn sessions(
        &mut self,
        _order: &TrialRequest,
        _wanted: &SessionsRequest,
    ) -> Result<(ExperimentTrial, SessionPoint), TestbedError> {
        Err(TestbedError::Cannot("the tester's ends are no TCP stacks".into()))
    }

    /// Sends datagrams back and forth between the stacks at both ends.
    ///
    /// # Errors
    /// As [`Testbed::sessions`].
    fn udp_loop(
        &mut self,
        _order: &TrialRequest,
        _duration_ns: u64,
    ) -> Result<(ExperimentTrial, TestResult), TestbedError> {
        Err(TestbedError::Cannot("the tester's ends are no stacks of UDP".into()))
    }

    /// Echoes single bytes between TCP stacks at both ends, Linerate's or another's, each order for a time.
    ///
    /// # Errors
    /// As [`Testbed::sessions`]; the other stack is not there, or cannot do it.
    fn echo(
        &mut self,
        _order: &TrialRequest,
        _stack: EchoStack,
        _orders: &[EchoOrder],
        _duration_ns: u64,
    ) -> Result<(ExperimentTrial, TestResult), TestbedError> {
        Err(TestbedError::Cannot("the tester's ends are no TCP stacks".into()))
    }
}

/// A testbed that is lent for a cell.
impl<R: Testbed + ?Sized> Testbed for &mut R {
    fn describe(&self) -> Dut {
        (**self).describe()
    }

    fn mode(&self) -> String {
        (**self).mode()
    }

    fn environment(&self) -> Option<Environment> {
        (**self).environment()
    }

    fn warm_up(&mut self) -> Result<(), TestbedError> {
        (**self).warm_up()
    }

    fn trial(&mut self, order: &TrialRequest) -> Result<TrialResult, TestbedError> {
        (**self).trial(order)
    }

    fn ping(&mut self, duration_ns: u64, interval_ns: u64) -> Result<TestResult, TestbedError> {
        (**self).ping(duration_ns, interval_ns)
    }
}

/// A trial of connections and requests to make.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SessionsRequest {
    /// What is asked for.
    pub load: SessionLoad,
    /// For how long.
    pub duration_ns: u64,
    /// Bytes of a request.
    pub bytes: u64,
    /// Longest time of a handshake, and of an answer.
    pub timeout_ns: u64,
}

/// A trial to make.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialRequest {
    /// Its name, unique in its cell.
    pub name: String,
    /// What for.
    pub purpose: Purpose,
    /// The load in each direction.
    pub load: Load,
    /// Whether to measure delays.
    pub latency: bool,
    /// Of whose timestamps the delays are to be.
    pub timestamps: TimestampSource,
    /// Whether to note when packets arrive (recovery, reset).
    pub timeline: bool,
    /// Resets the device this long after the start of the load.
    pub reset_after_ns: Option<u64>,
}

impl TrialRequest {
    /// Without delays, times or resets.
    pub fn new(name: impl Into<String>, purpose: Purpose, load: Load) -> Self {
        Self {
            name: name.into(),
            purpose,
            load,
            latency: false,
            timestamps: TimestampSource::Software,
            timeline: false,
            reset_after_ns: None,
        }
    }
}

/// What a trial showed.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialResult {
    /// For the results. `noise.disturbed` and `noise.repeated` are the runner's to set.
    pub trial: ExperimentTrial,
    /// Latencies by probes, where probes carried the timestamps that were asked for.
    pub probed: Option<Latency>,
    /// Whose timestamps the delays are of, where delays were asked for.
    pub timestamps: Option<Timestamps>,
    /// Upper edges of the delays' buckets in nanoseconds, with packets.
    pub histogram: Vec<(u64, u64)>,
    /// RFC 8219 section 7.3's packet delay variation.
    pub pdv_ns: Option<u64>,
    /// When loss stopped after a step of the load; of both directions the later.
    pub recovery: Option<Recovery>,
    /// Of a trial with a reset.
    pub reset: Option<Reset>,
    /// What each port of a capture says of itself, where the device is one.
    pub captured: Option<Vec<CapturePort>>,
    /// What the device showed before and after, where it shows anything.
    pub shown: Option<String>,
    /// Why it should be made again. Links that go away when the trial resets the device are none of the reasons.
    pub retry: Retry,
}

/// A reset and what followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reset {
    /// What was done.
    pub how: String,
    /// Longest silence; `None`: packets did not come back.
    pub outage_ns: Option<u64>,
}

/// Why there is no testbed, or no trial of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestbedError {
    /// A signal asked to stop.
    Stopped,
    /// The device does not work any more: it may be built anew.
    Device(String),
    /// It cannot be measured here.
    Cannot(String),
}

impl std::fmt::Display for TestbedError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stopped => formatter.write_str("stopped by a signal"),
            Self::Device(why) | Self::Cannot(why) => formatter.write_str(why),
        }
    }
}

impl TrialResult {
    /// Packets per second over both directions: sent, delivered.
    pub fn rates(&self) -> (f64, f64) {
        self.trial.trial.rates().map_or((0.0, 0.0), |rates| (rates.sent_pps, rates.delivered_pps))
    }

    /// Share of the sent packets that did not arrive.
    pub fn loss_ratio(&self) -> f64 {
        let account = &self.trial.trial.account;
        account.sent().saturating_sub(account.delivered()) as f64 / account.sent().max(1) as f64
    }
}

/// The rate that a load asks for at first, in packets per second and direction; `None`: as fast as the port takes them.
pub(super) fn rate_pps(load: &Load) -> Option<f64> {
    match load {
        Load::Rate { pps, .. } => Some(*pps),
        Load::Step { before_pps, .. } => *before_pps,
        Load::Full { .. } | Load::Burst { .. } => None,
    }
}
