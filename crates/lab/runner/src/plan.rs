//! What is to be measured: the cells of the matrix, and in each the findings to make, in order.

use linerate_experiment::{
    CellSpec, Direction, Experiment, FlowIp, FlowOrder, FlowSpec, SessionKind, TestKind, TestSpec, matches_glob,
};
use linerate_report::{Cell, Dut, Finding, PublishedRow, Results, units};

use super::RunError;
use linerate_tester::mean_size;

/// A cell of the matrix.
pub type CellPlan<'a> = CellSpec<'a>;

/// A test of a cell, in one repetition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slot<'a> {
    /// What to find.
    pub test: &'a TestSpec,
    /// From 1.
    pub repetition: u32,
}

/// Cells that an error names, at most; of more it names examples from all over the experiment.
const NAMED_MAX: usize = 12;

/// The names of cells as the end of a sentence that begins with "its cells are".
fn examples(ids: &[String]) -> String {
    if ids.len() <= NAMED_MAX {
        return ids.join(", ");
    }
    let some: Vec<&str> = (0..NAMED_MAX).map(|at| ids[at * ids.len() / NAMED_MAX].as_str()).collect();
    format!("{}, and {} more", some.join(", "), units::count((ids.len() - NAMED_MAX) as u64))
}

/// The whole work.
pub(super) struct Plan<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) cells: Vec<CellPlan<'a>>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(experiment: &'a Experiment, only: Option<&str>) -> Result<Self, RunError> {
        let all = experiment.cells();
        let ids: Vec<String> = all.iter().map(|cell| cell.id.clone()).collect();
        let cells: Vec<CellPlan<'a>> =
            all.into_iter().filter(|cell| only.is_none_or(|pattern| matches_pattern(&cell.id, pattern))).collect();
        if cells.is_empty() {
            return Err(RunError::NoCell { pattern: only.unwrap_or("*").to_owned(), cells: examples(&ids) });
        }
        Ok(Self { experiment, cells })
    }

    /// The cells that the results name.
    pub(super) fn resume(experiment: &'a Experiment, results: &Results) -> Self {
        let mut cells = experiment.cells();
        cells.retain(|cell| results.cells.iter().any(|there| there.id == cell.id));
        Self { experiment, cells }
    }

    /// What is to be found in a cell. Repetitions are the outer loop: a disturbance of some seconds spoils one of them, not all.
    pub(super) fn slots(&self, cell: &CellPlan<'_>) -> Vec<Slot<'a>> {
        let tests: Vec<&TestSpec> = self.experiment.tests.iter().filter(|test| cell.has(test)).collect();
        let repetition = |repetition| tests.iter().map(move |test| Slot { test, repetition });
        (1..=self.experiment.repetitions.max(1)).flat_map(repetition).collect()
    }

    /// Forgets findings that a stopped run had begun: their trials are made again.
    pub(super) fn drop_unfinished(&self, results: &mut Results) {
        for cell in &mut results.cells {
            cell.findings.retain(|finding| finding.result.is_some() || finding.error.is_some());
        }
    }

    /// How long each finding is expected to take, in nanoseconds, in order; what makes a cell counts with its first one.
    pub(super) fn expected_ns<'b>(&'b self) -> Vec<u64> {
        let mut before = None;
        let of_cell = |cell: &'b CellPlan<'a>| {
            let mut setup_ns = self.experiment.setup_ns(before.replace(cell), cell);
            let times = self.slots(cell).into_iter().map(|slot| self.experiment.test_ns(slot.test, cell));
            times.map(|time| time.saturating_add(std::mem::take(&mut setup_ns))).collect::<Vec<_>>()
        };
        self.cells.iter().flat_map(of_cell).collect()
    }

    /// Findings that are there, of those that the experiment asks for: not the repetitions for which there was time.
    pub(super) fn found(&self, results: &Results) -> usize {
        self.progress(results).map(|(found, slots)| found.min(slots)).sum()
    }

    /// Cells that lack findings.
    pub(super) fn lacking(&self, results: &Results) -> usize {
        self.progress(results).filter(|(found, slots)| found < slots).count()
    }

    /// The time that the experiment gives to so many cells, in nanoseconds; 0 where it gives none.
    pub(super) fn given_ns(&self, cells: usize) -> u64 {
        self.experiment.cell_time_ns.unwrap_or(0).saturating_mul(cells as u64)
    }

    /// Of each cell, the findings there are and those that are asked for.
    fn progress(&self, results: &Results) -> impl Iterator<Item = (usize, usize)> {
        self.cells.iter().map(|cell| {
            let there = results.cells.iter().find(|there| there.id == cell.id);
            (there.map_or(0, |there| there.findings.len()), self.slots(cell).len())
        })
    }

    pub(super) fn findings(&self) -> usize {
        self.cells.iter().map(|cell| self.slots(cell).len()).sum()
    }

    pub(super) fn is_complete(&self, results: &Results) -> bool {
        let done = |finding: &&Finding| finding.result.is_some() || finding.error.is_some();
        let all = |cell: &CellPlan<'_>| {
            let there = results.cells.iter().find(|there| there.id == cell.id);
            there.is_some_and(|there| there.findings.iter().filter(done).count() >= self.slots(cell).len())
        };
        self.cells.iter().all(all)
    }
}

/// Results of a cell before anything was measured.
pub(super) fn empty_cell(cell: &CellPlan<'_>, experiment: &Experiment) -> Cell {
    let frames = cell.frames();
    // TCP makes the packets itself.
    let of_tcp = experiment.is_of_tcp();
    let published = experiment.published.iter().filter(|row| cell.is_matched_by(&row.cells));
    Cell {
        id: cell.id.clone(),
        dut_name: cell.dut.name.clone(),
        dut: Dut { name: cell.dut.name.clone(), ..Dut::default() },
        size_wire: if of_tcp { 0.0 } else { mean_size(&frames) },
        size: if of_tcp { String::new() } else { frames.label },
        flows: cell.flows.count(),
        ip: (cell.flows.ip != FlowIp::V4).then(|| cell.flows.ip.words().to_owned()),
        flow_pattern: pattern_words(cell.flows),
        direction: if of_tcp { String::new() } else { direction_words(cell).to_owned() },
        ports: cell.tester.filter(|_| experiment.testers.len() > 1).map(|ports| ports.name()),
        cores: cell.placement.map(str::to_owned),
        mode: String::new(),
        baseline_pps: None,
        findings: Vec::new(),
        published: published
            .map(|row| PublishedRow {
                source: row.source.clone(),
                what: row.what.clone(),
                value: row.value,
                per_ghz: row.value.zip(row.clock_ghz).map(|(value, ghz)| value / ghz),
                text: row.text.clone(),
            })
            .collect(),
    }
}

fn direction_words(cell: &CellPlan<'_>) -> &'static str {
    match (cell.direction, cell.dut.kind.captures()) {
        (Direction::OneWay, false) => "one way",
        (Direction::BothWays, false) => "both ways",
        (Direction::OneWay, true) => "one port",
        (Direction::BothWays, true) => "two ports",
    }
}

/// `100 sources x 100 destinations, odometer`.
fn pattern_words(flows: &FlowSpec) -> String {
    let counted = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let mut words = format!("{} x {}", counted(flows.sources, "source"), counted(flows.destinations, "destination"));
    if flows.ports > 1 {
        words += &format!(" x {}", counted(flows.ports, "port"));
    }
    words += match flows.ip {
        FlowIp::V4 => "",
        FlowIp::V6(_) => " of IPv6",
        FlowIp::Dual(_) => ", of IPv4 and of IPv6 in turn",
    };
    match flows.order {
        FlowOrder::Odometer => words + ", odometer",
        FlowOrder::Random(seed) => words + &format!(", random order (seed {seed})"),
    }
}

/// Directions under load.
pub(super) fn ways(direction: Direction) -> f64 {
    match direction {
        Direction::OneWay => 1.0,
        Direction::BothWays => 2.0,
    }
}

/// What findings call a test: the tag of [`linerate_report::TestResult`].
pub fn test_name(kind: &TestKind) -> &'static str {
    match kind {
        TestKind::Throughput { .. } => "throughput",
        TestKind::Capacity { .. } => "capacity",
        TestKind::NoLoss { .. } => "no-loss",
        TestKind::Latency { .. } => "latency",
        TestKind::FrameLoss { .. } => "frame-loss",
        TestKind::BackToBack { .. } => "back-to-back",
        TestKind::SystemRecovery => "system-recovery",
        TestKind::Reset => "reset",
        TestKind::Soak { .. } => "soak",
        TestKind::MaxForwardingRate => "max-forwarding-rate",
        TestKind::Capture { .. } => "capture",
        TestKind::Ping { .. } => "ping",
        TestKind::Sessions(sessions) => match sessions.of {
            SessionKind::ConnectionRate => "connection-rate",
            SessionKind::ConcurrentConnections => "concurrent-connections",
            SessionKind::RequestRate => "request-rate",
        },
        TestKind::TcpEcho { .. } => "tcp-echo",
        TestKind::UdpLoop => "udp-loop",
        TestKind::Load { .. } => "load",
    }
}

/// Whether a cell's id matches: `*` stands for any text; a pattern without one matches whatever contains it.
pub fn matches_pattern(id: &str, pattern: &str) -> bool {
    if !pattern.contains('*') {
        return id.contains(pattern);
    }
    matches_glob(id, pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_examples_of_many_cells() {
        let ids = |count: usize| (0..count).map(|at| format!("c{at}")).collect::<Vec<String>>();
        assert_eq!(examples(&ids(2)), "c0, c1");
        let of_many = examples(&ids(1_121));
        assert!(of_many.starts_with("c0, c93, c186, ") && of_many.ends_with(", c1027, and 1,109 more"), "{of_many}");
    }
}
