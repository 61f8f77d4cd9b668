//! Interfaces, and the places that ports have at them.

use std::sync::Arc;

use linerate_port::FaultPause;

use super::session::Part;
use super::{AttachError, Control, Listening};
use crate::handoff::{Delivery, QueueHandoff};
use crate::link::Pair;
use crate::listener::{self, Listener};
use crate::options::{Key, Options, Role};
use crate::pool::PoolMemory;

/// An id of a socket, in one role.
pub(super) struct Interface {
    pub(super) options: Options,
    pub(super) handoffs: Vec<Arc<QueueHandoff>>,
    /// What its peers are lent, where packets are not copied.
    pub(super) pool: Option<Arc<PoolMemory>>,
    /// The peer that has it, whether the handshake is done or not.
    pub(super) session: Option<u64>,
    /// A client tries again then.
    pub(super) retry_at_ns: u64,
    /// After faults of peers it takes no other for a while.
    pub(super) pause: FaultPause,
    /// Its port was closed by a fault of a peer.
    pub(super) closed: bool,
    /// While a peer is connected: the rings of all queues, those that a port serves taken out.
    pub(super) spare: Vec<Pair>,
}

impl Control {
    pub(super) fn add_handoff(
        &mut self,
        options: &Options,
        handoff: &Arc<QueueHandoff>,
        pool: Option<Arc<PoolMemory>>,
    ) -> Result<(), AttachError> {
        let key = &options.key;
        if let Some(interface) = self.interface(key) {
            return interface.add_another_handoff(options, handoff, pool.as_ref());
        }
        let listens = self.listeners.iter().any(|(listening, _)| *listening.name == *key.socket);
        match key.role {
            Role::Server if !listens => {
                let listener = Listener::open(&key.socket).map_err(AttachError::Path)?;
                self.listeners.push((Listening { name: key.socket.as_str().into(), paused_until_ns: 0 }, listener));
            }
            Role::Client if !key.socket.starts_with('@') => {
                listener::check_socket(&key.socket, true).map_err(AttachError::Path)?;
            }
            _ => {}
        }
        self.interfaces.push(Interface {
            options: options.clone(),
            handoffs: vec![Arc::clone(handoff)],
            pool,
            session: None,
            retry_at_ns: 0,
            pause: FaultPause::default(),
            closed: false,
            spare: Vec::new(),
        });
        Ok(())
    }

    pub(super) fn remove_handoff(&mut self, key: &Key, handoff: &Arc<QueueHandoff>) {
        let Some(interface) = self.interface(key) else { return };
        interface.handoffs.retain(|other| !Arc::ptr_eq(other, handoff));
        let (session, empty) = (interface.session, interface.handoffs.is_empty());
        if let Some(session) = session {
            // Its rings are gone with the port; other ports of the interface get new ones with the next connection.
            self.turn_away(session, "Port closed");
        }
        if !empty {
            return;
        }
        self.interfaces.retain(|interface| interface.options.key != *key);
        let used = |name: &str| {
            self.interfaces
                .iter()
                .any(|other| other.options.key.socket == name && other.options.key.role == Role::Server)
        };
        let (kept, gone): (Vec<_>, Vec<_>) = self.listeners.drain(..).partition(|(listening, _)| used(&listening.name));
        self.listeners = kept;
        for (listening, _) in gone {
            self.sessions
                .retain(|_, session| !matches!(&session.part, Part::Greeting(name) if **name == *listening.name));
        }
    }
}

impl Interface {
    /// A port beside others that serve other queues of the interface.
    fn add_another_handoff(
        &mut self,
        options: &Options,
        handoff: &Arc<QueueHandoff>,
        pool: Option<&Arc<PoolMemory>>,
    ) -> Result<(), AttachError> {
        let id = options.key.id;
        if self.handoffs.iter().any(|other| other.queue == handoff.queue) {
            return Err(AttachError::Taken(format!("id {id} of this socket is open already in this process")));
        }
        if (Options { queues: options.queues.clone(), ..self.options.clone() }) != *options {
            return Err(AttachError::Taken(format!("other queues of id {id} were opened with other options")));
        }
        if self.pool.as_ref().map(Arc::as_ptr) != pool.map(Arc::as_ptr) {
            return Err(AttachError::Taken(format!("other queues of id {id} were opened on another pool")));
        }
        self.handoffs.push(Arc::clone(handoff));
        if let (Some(connection), false) = (self.session, self.spare.is_empty()) {
            self.serve(connection, handoff);
        }
        Ok(())
    }

    /// Gives a port the rings of its queues.
    pub(super) fn serve(&mut self, connection: u64, handoff: &QueueHandoff) {
        let pair = self.spare.get_mut(usize::from(handoff.queue)).map(std::mem::take).unwrap_or_default();
        handoff.deliver(Delivery { connection, pair });
    }
}
