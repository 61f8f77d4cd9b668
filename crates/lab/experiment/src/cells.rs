//! The cells of a matrix, in order, each with a stable id.

use crate::{CellMatch, Direction, DutSpec, Experiment, FlowSpec, SizeSpec, TesterPorts};

/// One combination of the matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct CellSpec<'a> {
    /// Unique and stable: `snat/64/10000/both-ways`, and `none/64/1x49/one-way/pcap` where the ports are a dimension.
    pub id: String,
    /// The device.
    pub dut: &'a DutSpec,
    /// The size.
    pub size: &'a SizeSpec,
    /// The flows, in each direction.
    pub flows: &'a FlowSpec,
    /// The direction.
    pub direction: Direction,
    /// The tester's ports; `None` = the best that work.
    pub tester: Option<&'a TesterPorts>,
}

impl CellSpec<'_> {
    /// Whether a row is about this cell.
    pub fn is_matched_by(&self, row: &CellMatch) -> bool {
        row.dut.as_ref().is_none_or(|dut| *dut == self.dut.name)
            && row.size.as_ref().is_none_or(|size| *size == self.size.name())
            && row.flows.is_none_or(|flows| flows == self.flows.count())
            && row.direction.is_none_or(|direction| direction == self.direction)
            && row.tester.as_ref().is_none_or(|name| self.tester.is_some_and(|tester| tester.name() == *name))
    }
}

impl Experiment {
    /// The cells in the order in which they are run: all of a DUT together, so that it is set up once; in it by ports, size,
    /// flows and direction. Cells that `skip` names are left out.
    pub fn cells(&self) -> Vec<CellSpec<'_>> {
        let testers: Vec<Option<&TesterPorts>> = match self.testers.as_slice() {
            [] => vec![None],
            testers => testers.iter().map(Some).collect(),
        };
        let mut cells = Vec::new();
        for dut in &self.duts {
            for &tester in &testers {
                for size in &self.sizes {
                    for flows in &self.flows {
                        for &direction in &self.directions {
                            let id = id(dut, size, flows, direction, tester);
                            cells.push(CellSpec { id, dut, size, flows, direction, tester });
                        }
                    }
                }
            }
        }
        cells.retain(|cell| !self.skip.iter().any(|row| cell.is_matched_by(row)));
        cells
    }
}

fn id(dut: &DutSpec, size: &SizeSpec, flows: &FlowSpec, direction: Direction, tester: Option<&TesterPorts>) -> String {
    let tester = tester.map_or(String::new(), |tester| format!("/{}", tester.name()));
    format!("{}/{}/{}/{}{tester}", dut.name, size.name(), flows.name(), direction.word())
}
