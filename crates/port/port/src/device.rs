//! Something opened: queue pairs to one place.

use crate::{Caps, LinkState, Port, PortError, Stats};

/// Something opened, with one port for each queue pair: a NIC, one end of a memif interface, a file.
///
/// `P` is the backend's own type of port, or any port once it is [`boxed`](Device::boxed). Ports may go to different threads; what they
/// share (a program on the interface, a connection) stays as long as one of them does.
#[derive(Debug)]
pub struct Device<P = Box<dyn Port>> {
    name: String,
    first: P,
    more: Vec<P>,
    note: Option<String>,
}

impl<P> Device<P> {
    /// A device called `name`, with the port of its first queue pair and those of the others.
    pub fn new(name: impl Into<String>, first: P, more: Vec<P>) -> Device<P> {
        Device { name: name.into(), first, more, note: None }
    }

    /// The device with one line for the user: what opening it has done beside, or found.
    pub fn with_note(self, note: impl Into<String>) -> Device<P> {
        Device { note: Some(note.into()), ..self }
    }

    /// One line for the user; `None` if there is nothing to say.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// The spec that opens it again.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of its queue pairs, at least 1.
    pub fn queues(&self) -> usize {
        1 + self.more.len()
    }

    /// The port of its first queue pair; the others are closed.
    pub fn into_port(self) -> P {
        self.first
    }

    /// Its ports, one for each queue pair, in the order of their queues.
    pub fn into_ports(self) -> Vec<P> {
        let mut ports = self.more;
        ports.insert(0, self.first);
        ports
    }
}

impl<P> Device<P> {
    /// The device with each port replaced by what `change` makes of it.
    ///
    /// # Errors
    /// The first one of `change`; the ports are closed then.
    pub fn try_map<Q, E>(self, mut change: impl FnMut(P) -> Result<Q, E>) -> Result<Device<Q>, E> {
        let first = change(self.first)?;
        let more = self.more.into_iter().map(change).collect::<Result<_, _>>()?;
        Ok(Device { name: self.name, first, more, note: self.note })
    }
}

impl<P: Port> Device<P> {
    /// A device of one queue pair, called as its port is.
    pub fn of(port: P) -> Device<P> {
        Device::new(port.caps().name.clone(), port, Vec::new())
    }
}

impl<P: Port + 'static> Device<P> {
    /// The device with ports of any backend's type.
    pub fn boxed(self) -> Device {
        let boxed = |port: P| Box::new(port) as Box<dyn Port>;
        let more = self.more.into_iter().map(boxed).collect();
        Device { name: self.name, first: boxed(self.first), more, note: self.note }
    }
}

impl Device {
    /// What its first port is and can do; the others differ by their queue alone.
    pub fn caps(&self) -> &Caps {
        self.first.caps()
    }

    fn ports(&mut self) -> impl Iterator<Item = &mut Box<dyn Port>> {
        std::iter::once(&mut self.first).chain(&mut self.more)
    }

    /// Whether packets can pass now: up if the link of one of its ports is.
    ///
    /// # Errors
    /// As [`Port::link`].
    pub fn link(&mut self) -> Result<LinkState, PortError> {
        for port in self.ports() {
            if port.link()? == LinkState::Up {
                return Ok(LinkState::Up);
            }
        }
        Ok(LinkState::Down)
    }

    /// The totals of each queue pair.
    ///
    /// # Errors
    /// As [`Port::stats`].
    pub fn stats(&mut self) -> Result<Vec<Stats>, PortError> {
        self.ports().map(|port| port.stats()).collect()
    }
}
