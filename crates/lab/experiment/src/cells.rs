//! The cells of a matrix, in order, each with a stable id.

use crate::names::matches_glob;
use crate::{CellMatch, Cores, CoresSpec, Direction, DutSpec, Experiment, FlowSpec, SizeSpec, TestSpec, TesterPorts};

/// One combination of the matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct CellSpec<'a> {
    /// Unique and stable: `snat/64/10000/both-ways`, and `none/64/1x49/one-way/pcap/apart` where ports and cores are dimensions;
    /// of captures `NAME/64/100/two-ports`; of tests of TCP, which have no sizes and directions unless several are listed,
    /// `direct/256/pipe/apart`.
    pub id: String,
    /// The device.
    pub dut: &'a DutSpec,
    /// The size that was asked for; [`CellSpec::frames`] has what is sent.
    pub size: &'a SizeSpec,
    /// The flows, in each direction.
    pub flows: &'a FlowSpec,
    /// The direction.
    pub direction: Direction,
    /// The tester's ports; `None` = the best that work, or memif where the DUT shares memory with the tester.
    pub tester: Option<&'a TesterPorts>,
    /// What runs on which core.
    pub cores: &'a Cores,
    /// The name of that, where it is a dimension.
    pub placement: Option<&'a str>,
}

impl CellSpec<'_> {
    /// The sizes that are sent: those asked for, or what is needed with IPv6.
    pub fn frames(&self) -> SizeSpec {
        self.size.frames(self.flows)
    }

    /// Whether a test is made in this cell.
    pub fn has(&self, test: &TestSpec) -> bool {
        test.cells.is_empty() || test.cells.iter().any(|row| self.is_matched_by(row))
    }

    /// Whether a row is about this cell.
    pub fn is_matched_by(&self, row: &CellMatch) -> bool {
        row.dut.as_ref().is_none_or(|dut| matches_glob(&self.dut.name, dut))
            && row.size.as_ref().is_none_or(|size| *size == self.size.name())
            && row.flows.is_none_or(|flows| flows == self.flows.count())
            && row.flow_pattern.as_ref().is_none_or(|name| *name == self.flows.name())
            && row.direction.is_none_or(|direction| direction == self.direction)
            && row.tester.as_ref().is_none_or(|name| self.tester.is_some_and(|tester| tester.name() == *name))
            && row.cores.as_ref().is_none_or(|name| self.placement == Some(name))
    }
}

impl Experiment {
    /// The commands that its DUTs run with the rights of who runs the experiment: the DUT's name, and the words of a shell.
    pub fn commands(&self) -> Vec<(String, String)> {
        let of = |dut: &DutSpec| -> Vec<(String, String)> {
            dut.kind.commands().into_iter().map(|command| (dut.name.clone(), command)).collect()
        };
        self.duts.iter().flat_map(of).collect()
    }

    /// The cells in the order in which they are run: all of a DUT together, so that it is set up once; in it by cores, ports,
    /// size, flows and direction (of a switch with flow entries by cores, ports, direction, flows and size, so that its entries are
    /// loaded once for as many cells as they serve). Cells that `skip` names are left out. A DUT that shares memory with the tester has one cell where
    /// others have one for each kind of ports.
    pub fn cells(&self) -> Vec<CellSpec<'_>> {
        let testers: Vec<Option<&TesterPorts>> = match self.testers.as_slice() {
            [] => vec![None],
            testers => testers.iter().map(Some).collect(),
        };
        let placements: Vec<(Option<&str>, &Cores)> = match self.placements.as_slice() {
            [] => vec![(None, &self.cores)],
            placements => placements.iter().map(|CoresSpec { name, cores }| (Some(name.as_str()), cores)).collect(),
        };
        let mut cells = Vec::new();
        for dut in &self.duts {
            for &(placement, cores) in &placements {
                for &tester in testers_of(dut, &testers) {
                    let first = cells.len();
                    for size in &self.sizes {
                        for flows in &self.flows {
                            for &direction in &self.directions {
                                let id = String::new();
                                cells.push(CellSpec { id, dut, size, flows, direction, tester, cores, placement });
                            }
                        }
                    }
                    if dut.kind.flow_entries().is_some() {
                        let place_of = |cell: &CellSpec<'_>| {
                            let direction = self.directions.iter().position(|there| *there == cell.direction);
                            (direction, self.flows.iter().position(|there| there == cell.flows))
                        };
                        cells[first..].sort_by_key(place_of);
                    }
                }
            }
        }
        let shown = Shown {
            size: !self.is_of_tcp() || self.sizes.len() > 1,
            direction: !self.is_of_tcp() || self.directions.len() > 1,
        };
        cells.iter_mut().for_each(|cell| cell.id = id(cell, shown));
        cells.retain(|cell| !self.skip.iter().any(|row| cell.is_matched_by(row)));
        cells
    }

    /// The flows that the device of a cell is set up for: the cell's own, or, of a switch whose flow entries are the same for all flows of the
    /// experiment (none by address, or one for each flow of all), those of which the others are a part.
    pub fn flows_of_device<'a>(&'a self, cell: &CellSpec<'a>) -> &'a FlowSpec {
        let pairs = |flows: &FlowSpec| flows.sources.saturating_mul(flows.destinations);
        let widest = self.flows.iter().max_by_key(|flows| pairs(flows));
        let entries = u64::from(cell.dut.kind.flow_entries().unwrap_or(0));
        let serves_all = |widest: &&FlowSpec| {
            (entries == 0 || entries >= pairs(widest).saturating_mul(2))
                && self.flows.iter().all(|flows| flows.is_part_of(widest))
        };
        widest.filter(|_| cell.dut.kind.flow_entries().is_some()).filter(serves_all).unwrap_or(cell.flows)
    }

    /// Whether the device of the cell `before` serves `cell`, too, as it is: a switch with the same flow entries, between the same ends.
    pub fn keeps_device(&self, before: &CellSpec<'_>, cell: &CellSpec<'_>) -> bool {
        cell.dut.kind.flow_entries().is_some()
            && before.dut == cell.dut
            && (before.direction, before.tester, before.cores) == (cell.direction, cell.tester, cell.cores)
            && self.flows_of_device(before) == self.flows_of_device(cell)
    }
}

fn testers_of<'a, 'b>(dut: &DutSpec, all: &'b [Option<&'a TesterPorts>]) -> &'b [Option<&'a TesterPorts>] {
    if dut.kind.shares_memory() { &[None] } else { all }
}

/// Which parts an id has.
#[derive(Clone, Copy)]
struct Shown {
    size: bool,
    direction: bool,
}

fn id(cell: &CellSpec<'_>, shown: Shown) -> String {
    let CellSpec { dut, size, flows, direction, tester, placement, .. } = cell;
    let tester = tester.map_or(String::new(), |tester| format!("/{}", tester.name()));
    let placement = placement.map_or(String::new(), |name| format!("/{name}"));
    let direction = if dut.kind.captures() { direction.word_for_captures() } else { direction.word() };
    let size = if shown.size { format!("/{}", size.name()) } else { String::new() };
    let direction = if shown.direction { format!("/{direction}") } else { String::new() };
    format!("{}{size}/{}{direction}{tester}{placement}", dut.name, flows.name())
}
