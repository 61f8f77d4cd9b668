//! Devices under test, as a plan knows them. Which kinds there are, what each can be told and how it is built is elsewhere: whoever reads a
//! file says which kinds it may name ([`DutReader`]).

use std::any::Any;
use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use crate::section::Section;

/// A device under test.
#[derive(Debug, Clone, PartialEq)]
pub struct DutSpec {
    /// Unique in the experiment.
    pub name: String,
    /// What it is.
    pub kind: DutKind,
}

/// The settings of a kind of device: what a plan has to know of them.
pub trait DutSettings: Any + Debug + Send + Sync {
    /// Whether it is no device: the two ends are joined directly, which is what a baseline measures.
    fn is_direct(&self) -> bool {
        false
    }

    /// Whether it shares memory with the tester, instead of being joined to it by interfaces.
    fn shares_memory(&self) -> bool {
        false
    }

    /// Of a switch with flow entries: how many by address it is given.
    fn flow_entries(&self) -> Option<u32> {
        None
    }

    /// Whether it leaves its core to others while no packet comes, instead of polling without end.
    fn sleeps_at_rest(&self) -> bool {
        true
    }

    /// Whether it only takes packets in, each interface for itself: a direction of the load is then one port of it.
    fn captures(&self) -> bool {
        false
    }

    /// The commands that it runs with the rights of who runs the experiment, as words of a shell.
    fn commands(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What a device is: the settings of one kind.
#[derive(Debug, Clone)]
pub struct DutKind {
    settings: Arc<dyn DutSettings>,
    is_same: fn(&DutKind, &DutKind) -> bool,
}

impl<K: DutSettings + PartialEq> From<K> for DutKind {
    fn from(settings: K) -> Self {
        Self { settings: Arc::new(settings), is_same: |one, other| one.settings::<K>() == other.settings::<K>() }
    }
}

impl DutKind {
    /// The settings, where they are those of kind `K`.
    pub fn settings<K: DutSettings>(&self) -> Option<&K> {
        let settings: &dyn Any = &*self.settings;
        settings.downcast_ref()
    }
}

impl Deref for DutKind {
    type Target = dyn DutSettings;

    fn deref(&self) -> &Self::Target {
        &*self.settings
    }
}

impl PartialEq for DutKind {
    fn eq(&self, other: &Self) -> bool {
        (self.is_same)(self, other)
    }
}

/// A kind of device, as the reader of a file knows it.
#[derive(Debug, Clone, Copy)]
pub struct DutReader {
    /// Its name in files.
    pub word: &'static str,
    /// Between the ends of which topologies it fits: words of [`crate::TopologyKind::word`].
    pub topologies: &'static [&'static str],
    /// Reads the keys of its table. One device, or where settings are lists one for each combination, with what each adds to the name.
    pub read: fn(&Section<'_>) -> Vec<(String, DutKind)>,
}

/// Words as a line that a shell takes back; `None` of none.
pub fn shell_line(words: &[String]) -> Option<String> {
    (!words.is_empty()).then(|| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
}

/// A word as a shell takes it back.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,+@%".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
