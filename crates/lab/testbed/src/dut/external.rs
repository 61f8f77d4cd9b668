//! A box cabled to two ports of this host: nothing of it is seen but what its counters command prints.

use std::collections::BTreeMap;
use std::time::Duration;

use linerate_experiment::section::Section;
use linerate_experiment::{DutSettings, TopologyKind, shell_line};
use linerate_report::Dut;

use super::kind::{Settings, one};
use super::tools::Place;
use super::{Built, Device, DutError, Path, readings};
use crate::topology::TopologySpec;

/// Longest run of the counters command, which may log in somewhere first.
const COUNTERS_MAX: Duration = Duration::from_secs(30);

/// A box cabled to the two ports.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct External {
    /// What it is, for the report.
    pub description: String,
    /// Prints `name value` lines; run before and after each trial. Empty: none.
    pub counters: Vec<String>,
}

impl DutSettings for External {
    fn commands(&self) -> Vec<String> {
        shell_line(&self.counters).into_iter().collect()
    }
}

impl Settings for External {
    const WORD: &str = "external";
    const ABOUT: &str = "a box cabled to the two ports; a command reads its counters";
    const TOPOLOGIES: &[&str] = &["ports"];

    fn read(table: &Section<'_>) -> Vec<(String, Self)> {
        one(Self {
            description: table.text("description").unwrap_or_default(),
            counters: table.texts("counters").unwrap_or_default(),
        })
    }

    fn build(&self, spec: &TopologySpec) -> Result<Built, DutError> {
        let TopologyKind::Ports { a, b } = spec.ends.clone() else {
            return Err(DutError::Unsupported("an external device is cabled to two ports".into()));
        };
        let mut configuration = BTreeMap::from([("cabled to".to_owned(), format!("{} and {}", a.port, b.port))]);
        if !self.counters.is_empty() {
            configuration.insert("counters from".into(), self.counters.join(" "));
        }
        Ok(Built {
            path: Path::Ports { a, b },
            device: Box::new(ExternalDevice { settings: self.clone(), configuration }),
        })
    }
}

struct ExternalDevice {
    settings: External,
    configuration: BTreeMap<String, String>,
}

impl Device for ExternalDevice {
    fn describe(&self) -> Dut {
        Dut { name: self.settings.description.clone(), version: None, configuration: self.configuration.clone() }
    }

    fn counters(&mut self) -> Result<BTreeMap<String, u64>, DutError> {
        readings::read(&Place::default(), &self.settings.counters, COUNTERS_MAX)
    }

    /// What can be known from here: that it answers, if it has a counters command.
    fn check(&mut self) -> Result<(), DutError> {
        self.counters().map(drop)
    }

    fn reset(&mut self) -> Result<String, DutError> {
        Err(DutError::NoReset("an external device".into()))
    }
}
