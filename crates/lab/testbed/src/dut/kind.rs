//! What a kind of device is to all others: a row of the table of kinds.

use linerate_experiment::section::Section;
use linerate_experiment::{DutKind, DutReader, DutSettings};

use super::{Built, DutError};
use crate::topology::TopologySpec;

/// The settings of a kind of device, from the keys of its table in a file to the device on its path.
pub(super) trait Settings: DutSettings + PartialEq + Default {
    /// Its name in files.
    const WORD: &'static str;
    /// What it is, in a line.
    const ABOUT: &'static str;
    /// Between the ends of which topologies it fits (`TopologyKind::word`).
    const TOPOLOGIES: &'static [&'static str] = &["namespaces"];

    /// Reads the keys of its table, if it has some: one device, or where settings can be lists one for each combination, with what it
    /// adds to the name.
    fn read(_: &Section<'_>) -> Vec<(String, Self)> {
        one(Self::default())
    }

    /// Builds the path, which is between ends of one of its topologies, with the device in its middle.
    fn build(&self, path: &TopologySpec) -> Result<Built, DutError>;
}

/// A device whose settings are no lists.
pub(super) fn one<K>(settings: K) -> Vec<(String, K)> {
    vec![(String::new(), settings)]
}

/// A kind of device.
pub struct Kind {
    /// Its name in files, where it fits, and how its keys are read.
    pub reader: DutReader,
    /// What it is, in a line.
    pub about: &'static str,
    /// `None`: the settings are those of another kind.
    pub(super) build: fn(&DutKind, &TopologySpec) -> Option<Result<Built, DutError>>,
}

impl Kind {
    pub(super) const fn of<K: Settings>() -> Self {
        let reader = DutReader { word: K::WORD, topologies: K::TOPOLOGIES, read: read::<K> };
        Self { reader, about: K::ABOUT, build: build::<K> }
    }
}

fn read<K: Settings>(table: &Section<'_>) -> Vec<(String, DutKind)> {
    K::read(table).into_iter().map(|(more, settings)| (more, settings.into())).collect()
}

fn build<K: Settings>(kind: &DutKind, path: &TopologySpec) -> Option<Result<Built, DutError>> {
    let settings = kind.settings::<K>()?;
    Some(match K::TOPOLOGIES.contains(&path.ends.word()) {
        true => settings.build(path),
        false => {
            let needed = K::TOPOLOGIES.join("` or `");
            Err(DutError::Unsupported(format!("the DUT {} needs the topology `{needed}`", K::WORD)))
        }
    })
}
