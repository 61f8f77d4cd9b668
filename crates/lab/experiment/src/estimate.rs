//! How long an experiment will take, for people: what the trials add up to if searches go as they usually do.

use crate::{CellSpec, EchoStack, Experiment, LossGoal, Phases, Search, TestKind, TestSpec, TimestampSource};

/// Making and removing a topology with its device, and resolving addresses.
const SETUP_NS: u64 = 1_500_000_000;
/// Adding a flow entry to a switch: what Open vSwitch takes.
const ENTRY_NS: u64 = 50_000;
/// Longest trial without the DUT, which precedes the first cell of each size, flow pattern, direction and kind of port.
const BASELINE_MAX_NS: u64 = 1_000_000_000;
/// What a trial takes beside its load and its phases: threads, the machine's pace, counters read at rest, results kept (115 ms by the times of
/// 19 runs of the shipped experiment `quick` on a shared machine, 102 to 151 trials each).
const TRIAL_NS: u64 = 115_000_000;
/// What more a trial takes with a switch that has flow entries: what it shows of itself before and after, with the entries' counters. By a run of
/// `lagopus-2014` (1,121 cells) Linerate's takes 0.2 to 0.6 s, Open vSwitch 0.8 to 1.9 s, and 3 s with a million entries; its 2,348 s are met with this.
const SHOWN_NS: u64 = 650_000_000;
/// Setting a connection up and closing it: of Linerate's stack 1.4 to 2.3 us by one core for both ends (6,000,000 of them), of others,
/// which make a few thousand, ten times that and more.
const CONNECTION_NS: u64 = 2_000;
const CONNECTION_OF_OTHERS_NS: u64 = 50_000;
/// Loads of a bisection that starts from a guess: the maximum, two around the guess, and halvings.
const BISECTION_LOADS: u64 = 5;

/// What an experiment comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Cells of the matrix.
    pub cells: usize,
    /// Trials in all of them, without those of repetitions for which there is time left.
    pub trials: u64,
    /// Time for which the trials send, in nanoseconds.
    pub sending_ns: u64,
    /// Time of the trials with all that surrounds them, in nanoseconds.
    pub duration_ns: u64,
}

impl Experiment {
    /// The expected number of trials and their time. Searches on a quiet device end sooner, on a noisy one later.
    pub fn estimate(&self) -> Estimate {
        let cells = self.cells();
        let mut known_paths = Vec::new();
        let baseline_ns = self.tests.iter().map(|test| test.trial_ns).min().unwrap_or(0).min(BASELINE_MAX_NS);
        let (mut total, mut surroundings_ns) = (Work::default(), 0u64);
        for cell in &cells {
            let path = (&cell.size.label, cell.flows, cell.direction, cell.tester, cell.cores);
            // Tests of TCP have no baseline.
            if !known_paths.contains(&path) && !self.is_of_tcp() {
                known_paths.push(path);
                total.add(1, baseline_ns);
                surroundings_ns = surroundings_ns.saturating_add(around_ns(&self.phases));
            }
            for test in self.tests.iter().filter(|test| cell.has(test)) {
                let (work, times) = (work(test, cell.flows.count()), u64::from(self.repetitions));
                total.add_times(&work, times);
                let trials = work.trials.saturating_mul(times);
                surroundings_ns = surroundings_ns.saturating_add(self.around_ns(cell).saturating_mul(trials));
            }
        }
        let paths = known_paths.len() as u64;
        let setups = cells.iter().zip(before(&cells));
        let setups = setups.fold(0, |sum: u64, (cell, before)| sum.saturating_add(self.setup_ns(before, cell)));
        let setups = setups.saturating_add(paths.saturating_mul(SETUP_NS));
        let asked_ns = total.sending_ns.saturating_add(surroundings_ns).saturating_add(setups);
        // What is done sooner goes on with more repetitions.
        let given_ns = self.cell_time_ns.unwrap_or(0).saturating_mul(cells.len() as u64);
        let duration_ns = asked_ns.max(given_ns);
        Estimate { cells: cells.len(), trials: total.trials, sending_ns: total.sending_ns, duration_ns }
    }

    /// The expected time to make a cell's device and its surroundings, in nanoseconds, or to go on with those of the cell before it.
    pub fn setup_ns(&self, before: Option<&CellSpec<'_>>, cell: &CellSpec<'_>) -> u64 {
        if before.is_some_and(|before| self.keeps_device(before, cell)) {
            return self.phases.warm_up_ns;
        }
        let entries = u64::from(cell.dut.kind.flow_entries().unwrap_or(0));
        SETUP_NS.saturating_add(self.phases.warm_up_ns).saturating_add(entries.saturating_mul(ENTRY_NS))
    }

    /// The expected time of one repetition of a test in a cell, in nanoseconds.
    pub fn test_ns(&self, test: &TestSpec, cell: &CellSpec<'_>) -> u64 {
        let work = work(test, cell.flows.count());
        work.sending_ns.saturating_add(self.around_ns(cell).saturating_mul(work.trials))
    }

    /// What surrounds a trial in this cell.
    fn around_ns(&self, cell: &CellSpec<'_>) -> u64 {
        let shown_ns = if cell.dut.kind.flow_entries().is_some() { SHOWN_NS } else { 0 };
        around_ns(&self.phases).saturating_add(shown_ns)
    }
}

/// The cell before each.
fn before<'a, 'b>(cells: &'b [CellSpec<'a>]) -> impl Iterator<Item = Option<&'b CellSpec<'a>>> {
    std::iter::once(None).chain(cells.iter().map(Some))
}

fn around_ns(phases: &Phases) -> u64 {
    phases.wait_ns.saturating_add(phases.drain_ns).saturating_add(phases.rest_ns).saturating_add(TRIAL_NS)
}

/// Trials, and how long they send.
#[derive(Default)]
struct Work {
    trials: u64,
    sending_ns: u64,
}

impl Work {
    fn add(&mut self, trials: u64, trial_ns: u64) {
        self.add_times(&Work { trials, sending_ns: trials.saturating_mul(trial_ns) }, 1);
    }

    fn add_times(&mut self, other: &Work, times: u64) {
        self.trials = self.trials.saturating_add(other.trials.saturating_mul(times));
        self.sending_ns = self.sending_ns.saturating_add(other.sending_ns.saturating_mul(times));
    }
}

fn work(test: &TestSpec, flows: u64) -> Work {
    let mut work = Work::default();
    match &test.kind {
        TestKind::Throughput { search: Search::Bisection { resolution, confirmations, .. }, .. } => {
            let halvings = halvings(*resolution);
            work.add(
                BISECTION_LOADS.saturating_add(halvings / 2).saturating_add(u64::from(*confirmations)),
                test.trial_ns,
            );
        }
        TestKind::Throughput { search: Search::Mlr { goals }, .. } => add_goals(&mut work, goals),
        TestKind::Capacity { trials } => work.add(u64::from(*trials), test.trial_ns),
        // The first share passes on a quiet machine, and the last one on a busy one.
        TestKind::NoLoss { shares } => work.add((shares.len() as u64).div_ceil(2), test.trial_ns),
        // Probes have a load of their own after each trial.
        TestKind::Latency { shares, timestamps: TimestampSource::Hardware | TimestampSource::Kernel, .. } => {
            work.add(shares.len() as u64 * 2, test.trial_ns)
        }
        TestKind::Latency { shares, .. } => work.add(shares.len() as u64, test.trial_ns),
        // Half of the steps of a tenth until two in a row lose nothing.
        TestKind::FrameLoss { loads_pps } if loads_pps.is_empty() => work.add(6, test.trial_ns),
        TestKind::FrameLoss { loads_pps } | TestKind::Capture { loads_pps } => {
            work.add(loads_pps.len() as u64, test.trial_ns)
        }
        // The search for the length sends bursts of half the longest, on average.
        TestKind::BackToBack { burst_max_ns, bursts } => {
            work.add(u64::from(*bursts).saturating_mul(8), burst_max_ns / 8);
        }
        // The overload, then the watch.
        TestKind::SystemRecovery => work.add(2, test.trial_ns),
        TestKind::MaxForwardingRate => work.add(6, test.trial_ns),
        TestKind::Sessions(sessions) => {
            let trials = if sessions.loads.is_empty() {
                1 + 4 + halvings(sessions.resolution)
            } else {
                sessions.loads.len() as u64
            };
            work.add(trials, test.trial_ns);
        }
        TestKind::TcpEcho { orders, stack } => {
            let each_ns = if *stack == EchoStack::Linerate { CONNECTION_NS } else { CONNECTION_OF_OTHERS_NS };
            // A fifth of each order's time goes before what counts.
            let echoes_ns = test.trial_ns.saturating_mul(orders.len() as u64).saturating_mul(6) / 5;
            work.add(1, echoes_ns.saturating_add(flows.saturating_mul(each_ns)));
        }
        TestKind::UdpLoop => work.add(1, test.trial_ns.saturating_mul(6) / 5),
        TestKind::Reset | TestKind::Soak { .. } | TestKind::Load { .. } | TestKind::Ping { .. } => {
            work.add(1, test.trial_ns)
        }
    }
    work
}

/// RFC 9971: initial trials towards the bounds, then each goal's two bounds. A lower bound is decided by `1 - exceed` of its
/// duration sum without loss, an upper one by `exceed` of it with loss. Devices without noise take two thirds of this.
fn add_goals(work: &mut Work, goals: &[LossGoal]) {
    for (number, goal) in goals.iter().enumerate() {
        // Initial trials of full length decide the bounds along with the others, but for those of the first goal, which are far from them.
        let towards = if number == 0 || goal.initial_trial_ns < goal.final_trial_ns { 3 } else { 0 };
        let initial_trials = if number == 0 { towards + halvings(goal.width) } else { towards };
        work.add(initial_trials, goal.initial_trial_ns);
        let sum_trials = goal.duration_sum_ns as f64 / goal.final_trial_ns.max(1) as f64;
        let trials = |share: f64| (share * sum_trials).ceil().max(1.0) as u64;
        let bounds = trials(1.0 - goal.exceed_ratio).saturating_add(trials(goal.exceed_ratio));
        work.add(bounds, goal.final_trial_ns);
    }
}

/// Halvings of a range of a fifth, in which a first guess lies.
fn halvings(width: f64) -> u64 {
    (0.2 / width.max(1e-9)).log2().ceil().clamp(1.0, 40.0) as u64
}
