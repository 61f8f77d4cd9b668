//! Which port of the switch a port of a worker is, and the ports of all workers by name.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::settings::PortSettings;

/// What a port of the worker is to the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// Number of the port in the switch.
    pub(crate) port: u16,
    pub(crate) kind: BindingKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BindingKind {
    /// The port itself.
    Port,
    /// A ring to the worker that has the port. Packets that come from it arrived at the port, and this worker decides on them.
    To,
    /// A ring by which another worker sends to the port.
    From,
    /// A number that is something else of the worker's: its packets are dropped.
    Reserved,
}

/// A port by its name.
pub(crate) struct Named {
    pub(crate) name: String,
    /// Known as soon as its worker has it.
    pub(crate) settings: Option<PortSettings>,
    /// What the workers still have of it: itself, and ends of rings.
    pub(crate) bindings: usize,
    /// Workers that have queues of it.
    pub(crate) workers: usize,
    /// It was removed, and rings are left, or queues of other workers.
    pub(crate) gone: bool,
}

/// The ports of all workers, by their numbers in the switch.
#[derive(Default)]
pub(crate) struct Names(Vec<Option<Named>>);

/// The names that all workers share. Only changes of ports lock them.
#[derive(Clone, Default)]
pub(crate) struct SharedPorts(Arc<Mutex<Names>>);

impl SharedPorts {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Names> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Names {
    /// The ports that were not removed.
    pub(crate) fn there(&self) -> impl Iterator<Item = (usize, &Named)> {
        let known = self.0.iter().enumerate().filter_map(|(number, port)| Some((number, port.as_ref()?)));
        known.filter(|(_, port)| !port.gone)
    }

    /// The number of the port of that name.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.there().find(|(_, port)| port.name == name).map(|(number, _)| number)
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut Named> {
        self.0.get_mut(number)?.as_mut()
    }

    /// The number of the port of that name, which gets the lowest that is free if it is new.
    pub(crate) fn number_of(&mut self, name: &str) -> usize {
        if let Some(number) = self.find(name) {
            return number;
        }
        let number = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        if number == self.0.len() {
            self.0.push(None);
        }
        self.0[number] = Some(Named { name: name.into(), settings: None, bindings: 0, workers: 0, gone: false });
        number
    }

    /// Takes `bindings` from a port. Its number is given again when no worker has a packet for it any more.
    pub(crate) fn release(&mut self, number: usize, bindings: usize) {
        let Some(place) = self.0.get_mut(number) else { return };
        if let Some(named) = place {
            named.bindings = named.bindings.saturating_sub(bindings);
            if named.bindings == 0 {
                *place = None;
            }
        }
    }
}
