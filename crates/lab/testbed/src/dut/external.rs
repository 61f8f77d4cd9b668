//! A box cabled to two ports of this host: nothing of it is seen but what its counters command prints.

use std::collections::BTreeMap;
use std::time::Duration;

use linerate_experiment::TopologyKind;
use linerate_report::Dut;

use super::tools::Place;
use super::{Built, Device, DutError, Path, readings};
use crate::topology::TopologySpec;

/// Longest run of the counters command, which may log in somewhere first.
const COUNTERS_MAX: Duration = Duration::from_secs(30);

pub(super) fn build(description: &str, counters: &[String], spec: &TopologySpec) -> Result<Built, DutError> {
    let TopologyKind::Ports { a, b } = &spec.ends else {
        return Err(DutError::Unsupported(
            "an external device needs the topology `ports`, with the two it is cabled to".into(),
        ));
    };
    let mut configuration = BTreeMap::from([("cabled to".to_owned(), format!("{} and {}", a.port, b.port))]);
    if !counters.is_empty() {
        configuration.insert("counters from".into(), counters.join(" "));
    }
    let external = External { description: description.to_owned(), counters: counters.to_vec(), configuration };
    Ok(Built { path: Path::Ports { a: a.clone(), b: b.clone() }, device: Box::new(external) })
}

struct External {
    description: String,
    counters: Vec<String>,
    configuration: BTreeMap<String, String>,
}

impl Device for External {
    fn describe(&self) -> Dut {
        Dut { name: self.description.clone(), version: None, configuration: self.configuration.clone() }
    }

    fn counters(&mut self) -> Result<BTreeMap<String, u64>, DutError> {
        match self.counters.is_empty() {
            true => Ok(BTreeMap::new()),
            false => readings::read(&Place::default(), &self.counters, COUNTERS_MAX),
        }
    }

    /// What can be known from here: that it answers, if it has a counters command.
    fn check(&mut self) -> Result<(), DutError> {
        self.counters().map(drop)
    }

    fn reset(&mut self) -> Result<String, DutError> {
        Err(DutError::NoReset("an external device".into()))
    }

    fn needs_warm_up(&self) -> bool {
        true
    }
}
