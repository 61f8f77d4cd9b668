//! Listeners: who accepts what.

use core::net::{IpAddr, SocketAddr};
use std::cell::Cell;
use std::collections::BTreeMap;

use crate::{ListenError, ListenOptions, Listener};

/// A listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listening {
    pub(crate) address: SocketAddr,
    pub(crate) options: ListenOptions,
    /// Handshakes that take memory now.
    pub(crate) half_open: u32,
}

/// The listeners of a stack.
#[derive(Default)]
pub(crate) struct Listeners {
    /// By port; several of different addresses.
    ports: BTreeMap<u16, Vec<u32>>,
    all: Vec<Option<Listening>>,
    /// What was found last, while listeners neither come nor go.
    found: Cell<Option<(IpAddr, u16, u32)>>,
}

impl Listeners {
    pub(crate) fn add(&mut self, address: SocketAddr, options: ListenOptions) -> Result<Listener, ListenError> {
        if address.port() == 0 {
            return Err(ListenError::BadPort);
        }
        if self.all.iter().flatten().any(|other| other.address == address) {
            return Err(ListenError::InUse);
        }
        self.found.set(None);
        let number = self.all.len() as u32;
        self.all.push(Some(Listening { address, options, half_open: 0 }));
        self.ports.entry(address.port()).or_default().push(number);
        Ok(Listener(number))
    }

    pub(crate) fn remove(&mut self, listener: Listener) {
        let Some(listening) = self.all.get_mut(listener.0 as usize).and_then(Option::take) else { return };
        self.found.set(None);
        let port = listening.address.port();
        if let Some(numbers) = self.ports.get_mut(&port) {
            numbers.retain(|number| *number != listener.0);
            if numbers.is_empty() {
                self.ports.remove(&port);
            }
        }
    }

    /// The listener of an address and port: the one of this very address, or of all.
    #[inline]
    pub(crate) fn find(&self, address: IpAddr, port: u16) -> Option<u32> {
        if let Some((known_address, known_port, number)) = self.found.get()
            && known_port == port
            && known_address == address
        {
            return Some(number);
        }
        let number = self.look_for(address, port)?;
        self.found.set(Some((address, port, number)));
        Some(number)
    }

    #[inline(never)]
    fn look_for(&self, address: IpAddr, port: u16) -> Option<u32> {
        let numbers = self.ports.get(&port)?;
        let is = |number: &&u32, wanted: IpAddr| self.get(**number).is_some_and(|known| known.address.ip() == wanted);
        let any = match address {
            IpAddr::V4(_) => IpAddr::from([0; 4]),
            IpAddr::V6(_) => IpAddr::from([0; 16]),
        };
        numbers
            .iter()
            .find(|number| is(number, address))
            .or_else(|| numbers.iter().find(|number| is(number, any)))
            .copied()
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Listening> {
        self.all.get(number as usize)?.as_ref()
    }

    /// A handshake to this address and port begins or ends to take memory.
    pub(crate) fn count(&mut self, address: IpAddr, port: u16, begins: bool) {
        if let Some(number) = self.find(address, port)
            && let Some(Some(listening)) = self.all.get_mut(number as usize)
        {
            listening.half_open = if begins { listening.half_open + 1 } else { listening.half_open.saturating_sub(1) };
        }
    }
}
