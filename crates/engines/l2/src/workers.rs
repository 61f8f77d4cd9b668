//! A switch that several workers serve, each its own ports, or its own queues of a port that has several.
//!
//! ```text
//! worker 0: [ Switch ]  port a: its number is 0        queue of a --> port a
//!             |     ^   port b: its number is 1        queue of b --> ring to b ---+
//!             | MAC table, names of ports: shared                                  |
//! worker 1: [ Switch ]  port a                         queue of a --> ring to a    v
//!                       port b                         queue of b <----------- take_over
//! ```
//! Every worker knows every port by the same number, with its settings, so the worker at which a packet came in decides on it alone. The
//! number of a port in a worker ([`Datapath`](linerate_port::Datapath)) is another one, since rings have numbers there, too.

use linerate_mem::{Batch, Pool};
use linerate_port::PortIndex;

use crate::binding::{Binding, BindingKind};
use crate::counters::DropReason;
use crate::queue::Run;
use crate::settings::{PortSettings, SettingsError};
use crate::switch::Switch;

impl Switch {
    /// Another worker of the same switch: both have one MAC table, and the ports that are added to either by name
    /// ([`Switch::add_named_port`]) are ports of both. To be called before there are ports.
    ///
    /// # Errors
    /// As [`Switch::new`].
    pub fn another_worker(&mut self) -> Result<Switch, crate::ConfigError> {
        let spare = crate::SwitchConfig { mac_entries: 1, ..self.config.clone() };
        let mut other = Switch::new(spare, self.pool())?;
        other.config = self.config.clone();
        other.table = self.table.share();
        other.names = self.names.clone();
        other.is_steered = self.is_steered;
        Ok(other)
    }

    /// Adds a port of this worker, or its queues of a port of which other workers have queues already. Returns the number that the worker gives
    /// it, the lowest that is free.
    ///
    /// # Errors
    /// A setting is wrong, or the switch has as many ports as it was made for, or a port whose queues several workers have is to have limits.
    pub fn add_named_port(&mut self, name: &str, settings: PortSettings) -> Result<PortIndex, SettingsError> {
        settings.check()?;
        let names = self.names.clone();
        let mut ports = names.lock();
        let number = ports.number_of(name);
        let divided = self.is_steered || ports.get_mut(number).is_some_and(|port| port.workers > 0);
        let added = if divided { settings.check_divided() } else { Ok(()) }
            .and_then(|()| self.add_member(number, settings.clone()));
        let Some(port) = ports.get_mut(number) else {
            return Err(SettingsError::NoPort { port: PortIndex(number as u16) });
        };
        if let Err(error) = added {
            port.gone |= port.workers == 0;
            ports.release(number, 0);
            return Err(error);
        }
        (port.settings, port.bindings, port.workers) = (Some(settings), port.bindings + 1, port.workers + 1);
        Ok(self.bind(Binding { port: number as u16, kind: BindingKind::Port }))
    }

    /// Adds the end of a ring by which another worker sends to a port of this one, before the port itself. Returns the worker's number.
    pub fn add_ring_from_worker(&mut self, name: &str) -> PortIndex {
        let names = self.names.clone();
        let mut ports = names.lock();
        let number = ports.number_of(name);
        if let Some(port) = ports.get_mut(number) {
            port.bindings += 1;
        }
        self.bind(Binding { port: number as u16, kind: BindingKind::From })
    }

    /// Adds the end of a ring that leads to a port of another worker, which has the port already. Returns the worker's number.
    ///
    /// # Errors
    /// There is no such port, or the switch has as many as it was made for.
    pub fn add_ring_to_worker(&mut self, name: &str) -> Result<PortIndex, SettingsError> {
        let names = self.names.clone();
        let mut ports = names.lock();
        let number = ports.find(name);
        let unknown = || SettingsError::NoPortNamed { name: name.into() };
        let number = number.ok_or_else(unknown)?;
        let port = ports.get_mut(number).ok_or_else(unknown)?;
        let settings = port.settings.clone().ok_or_else(unknown)?;
        self.add_member(number, settings)?;
        port.bindings += 1;
        Ok(self.bind(Binding { port: number as u16, kind: BindingKind::To }))
    }

    /// Keeps the lowest number of the worker that is free for something that is not the switch's, for example a ring of
    /// `linerate_worker::Steered`. [`Datapath::removed`](linerate_port::Datapath::removed) frees it.
    pub fn reserve(&mut self) -> PortIndex {
        self.bind(Binding { port: u16::MAX, kind: BindingKind::Reserved })
    }

    /// Number in the switch of a port or ring of the worker.
    #[inline]
    pub fn port_of(&self, index: PortIndex) -> Option<PortIndex> {
        self.binding(index)
            .filter(|binding| binding.kind != BindingKind::Reserved)
            .map(|binding| PortIndex(binding.port))
    }

    /// Numbers of the worker that are in use.
    pub fn bound(&self) -> Vec<PortIndex> {
        let bound = self.bindings.iter().enumerate().filter(|(_, binding)| binding.is_some());
        bound.map(|(index, _)| PortIndex(index as u16)).collect()
    }

    /// Number in the worker of a port of the switch; `None` if another worker has it.
    pub fn index_of(&self, port: PortIndex) -> Option<PortIndex> {
        let own = |binding: &Option<Binding>| *binding == Some(Binding { port: port.0, kind: BindingKind::Port });
        self.bindings.iter().position(own).map(|index| PortIndex(index as u16))
    }

    /// Number in the switch of the port of that name, of whichever worker.
    pub fn port_named(&self, name: &str) -> Option<PortIndex> {
        self.names.lock().find(name).map(|number| PortIndex(number as u16))
    }

    /// Numbers in the switch and names of the ports of all workers.
    pub fn named_ports(&self) -> Vec<(PortIndex, String)> {
        let ports = self.names.lock();
        ports.there().map(|(number, port)| (PortIndex(number as u16), port.name.clone())).collect()
    }

    /// Changes what further workers learn of a port's settings that get a ring to it later.
    pub(crate) fn note_settings(&self, port: PortIndex, settings: &PortSettings) {
        if let Some(named) = self.names.lock().get_mut(usize::from(port.0)) {
            named.settings = Some(settings.clone());
        }
    }

    /// Notes that several workers decide on what arrives at each port, so that ports have no limits of rates. To be called before there are
    /// ports.
    pub fn set_steered(&mut self, is_steered: bool) {
        self.is_steered = is_steered;
    }

    /// True if several workers have queues of the port, or decide on what arrives at it.
    pub(crate) fn is_divided(&self, port: PortIndex) -> bool {
        self.is_steered || self.names.lock().get_mut(usize::from(port.0)).is_some_and(|named| named.workers > 1)
    }

    #[inline]
    pub(crate) fn binding(&self, index: PortIndex) -> Option<Binding> {
        *self.bindings.get(usize::from(index.0))?
    }

    /// The port whose packets leave by a port of the worker.
    #[inline]
    pub(crate) fn way_out(&self, index: PortIndex) -> Option<PortIndex> {
        let leads = |binding: &Binding| matches!(binding.kind, BindingKind::Port | BindingKind::To);
        self.binding(index).filter(leads).map(|binding| PortIndex(binding.port))
    }

    /// Gives the lowest number of the worker that is free.
    pub(crate) fn bind(&mut self, binding: Binding) -> PortIndex {
        let free = self.bindings.iter().position(Option::is_none).unwrap_or(self.bindings.len());
        if free == self.bindings.len() {
            self.bindings.push(None);
        }
        self.bindings[free] = Some(binding);
        PortIndex(free as u16)
    }

    /// Frees the number of a port of this worker.
    pub(crate) fn unbind(&mut self, port: PortIndex) {
        if let Some(place) = self.index_of(port).and_then(|index| self.bindings.get_mut(usize::from(index.0))) {
            *place = None;
            self.unname(port, true);
        }
    }

    /// One part less of a named port; `gone`: it was the port itself.
    fn unname(&self, port: PortIndex, gone: bool) {
        let mut ports = self.names.lock();
        if let Some(named) = ports.get_mut(usize::from(port.0)) {
            named.gone |= gone;
            named.workers -= usize::from(gone).min(named.workers);
        }
        ports.release(usize::from(port.0), 1);
    }

    /// A port or a ring was taken out of the worker.
    pub(crate) fn remove_binding(&mut self, index: PortIndex, pool: &mut Pool) {
        let Some(Binding { port, kind }) = self.binding(index) else { return };
        if kind == BindingKind::Port {
            self.remove_port(PortIndex(port), pool);
            return;
        }
        if kind == BindingKind::To {
            self.remove_member(PortIndex(port), pool);
        }
        self.bindings[usize::from(index.0)] = None;
        if kind != BindingKind::Reserved {
            self.unname(PortIndex(port), false);
        }
    }

    /// Notes that the worker that has the port took packets.
    pub(crate) fn handed_over(&mut self, port: PortIndex, packets: usize) {
        self.tx_done_at(port, packets, None);
        if let Some(counters) = self.counters.get_mut(usize::from(port.0)) {
            (counters.handed_over_packets, counters.handed_over_bytes) = (counters.sent_packets, counters.sent_bytes);
        }
    }

    /// Queues packets on which another worker decided. Those for which there is no room stay in `batch`.
    pub(crate) fn take_over(&mut self, port: PortIndex, batch: &mut Batch, pool: &mut Pool, now_ns: u64) {
        self.now_ns = now_ns;
        let index = usize::from(port.0);
        let Some(Some(member)) = self.members.get_mut(index) else { return self.drop_handed_in(batch, pool) };
        let (queue, len_max, counters) = (&mut member.queue, member.settings.frame_len_max, &mut self.counters[index]);
        loop {
            let run = fitting_run(batch, queue.batch.room(), len_max);
            if run.packets > 0 {
                let before = queue.batch.len();
                batch.move_to(&mut queue.batch, run.slots);
                queue.note(Run::GONE, run.packets, now_ns);
                self.busy.set(port.0);
                counters.hand_in(u64::from(run.packets), queue.batch.totals_after(before).bytes);
            }
            // The port takes shorter packets than its worker told the others.
            let Some(span) = batch.span(0).filter(|span| span.len > len_max) else { return };
            counters.hand_in(1, span.len as u64);
            counters.discarded.add(DropReason::TooLong, 1);
            counters.discarded_bytes += span.len as u64;
            pool.free_front(batch, span.slots);
        }
    }

    /// The port is gone.
    #[cold]
    fn drop_handed_in(&mut self, batch: &mut Batch, pool: &mut Pool) {
        let totals = batch.totals();
        self.retired.hand_in(totals.packets, totals.bytes);
        self.retired.discarded.add(DropReason::PortRemoved, totals.packets);
        self.retired.discarded_bytes += totals.bytes;
        pool.free(batch);
    }
}

/// Packets at the front of a batch that are moved at once.
struct FittingRun {
    packets: u32,
    slots: usize,
}

fn fitting_run(batch: &Batch, room: usize, len_max: usize) -> FittingRun {
    let mut run = FittingRun { packets: 0, slots: 0 };
    while let Some(span) = batch.span(run.slots) {
        if run.slots + span.slots > room || span.len > len_max {
            break;
        }
        run.packets += 1;
        run.slots += span.slots;
    }
    run
}
