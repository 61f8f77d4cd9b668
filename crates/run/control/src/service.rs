//! The trait that a program implements: a datapath, with the commands and settings that only this datapath has.

use linerate_mem::Pool;
use linerate_port::{Caps, Datapath, LinkState, Port, PortIndex};
use linerate_sys::poll::PollSet;
use linerate_worker::{Eagerness, Steered};
use serde_json::Value;

use crate::port_config::PortConfig;
use crate::ports::PortManager;
use crate::protocol::{Answer, ControlError};
use crate::value::Settings;

/// One end of a ring between two workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handoff {
    /// Packets for a port of another worker leave by it. The port is there already.
    ToPort,
    /// Packets for the worker's own port come by it. It is added before the port.
    ForPort,
    /// Packets that arrived at the worker's own port leave by it, to the worker of this number. It is added before the port.
    ToWorker(usize),
    /// Packets that arrived at a port of another worker come by it. It is added after the ring to the port, or the worker's own queue of it.
    FromWorker,
}

impl Handoff {
    /// Tells the steering in front of a datapath what a ring is whose end has number `index` there. `name` and `prefix` are the port's, as for
    /// [`Steered::note_port`].
    pub fn note<D: Datapath>(self, path: &mut Steered<D>, index: PortIndex, name: &str, prefix: usize, pool: &Pool) {
        match self {
            Handoff::ToPort => path.note_port(index, name, prefix),
            Handoff::ForPort => {}
            Handoff::ToWorker(worker) => path.note_ring_to(index, name, worker, pool),
            Handoff::FromWorker => path.note_ring_from(index, name),
        }
    }
}

/// A datapath under control. The first two functions run on the worker's thread, the others on the control thread.
pub trait Service: Sized + Send + 'static {
    /// The datapath of the worker.
    type Datapath: Datapath + Send + 'static;

    /// Adds a port to the datapath, which gives it the lowest number that is free, as the worker does.
    ///
    /// # Errors
    /// A setting is wrong, or the datapath has no room.
    fn add_port(path: &mut Self::Datapath, config: &PortConfig, caps: &Caps) -> Result<PortIndex, ControlError>;

    /// True if packets that arrive at any port may be for any worker: rings lead from each worker that has a queue of the port to all
    /// others, and a port of several queues is divided among the workers. Without it, [`crate::Setup::steers`] says so for ports of few queues.
    const STEERS: bool = false;

    /// True if the datapath sends TCP segments with partial checksums by ports of whose spec [`linerate_ports::offloads`] says so, completed by
    /// [`crate::open_options`]: its ports are opened for that.
    const MERGES_SEGMENTS: bool = false;

    /// True if a port whose interface was deleted is opened again: as soon as an interface of that name is there, as those of containers that start
    /// again, or at once if the port itself makes the interface. Without it, the port is removed.
    const REOPENS_INTERFACES: bool = true;

    /// Adds one end of a ring between two workers. The number is the lowest that is free. Only datapaths of several workers need it.
    ///
    /// # Errors
    /// The datapath has no such rings, or no such port.
    fn add_handoff(
        path: &mut Self::Datapath,
        config: &PortConfig,
        handoff: Handoff,
    ) -> Result<PortIndex, ControlError> {
        let _ = (path, config, handoff);
        Err(ControlError::new("this datapath has one worker", ""))
    }

    /// Tells a worker that has a ring to a port that all settings of the port were changed, by [`Service::set_port`].
    ///
    /// # Errors
    /// There is no such ring.
    fn set_handoff(
        path: &mut Self::Datapath,
        ring: PortIndex,
        settings: &Settings,
        caps: &Caps,
    ) -> Result<(), ControlError> {
        let _ = (path, ring, settings, caps);
        Ok(())
    }

    /// Changes all settings of a port, or, if there is an error, none.
    ///
    /// # Errors
    /// A setting is wrong.
    fn set_port(
        path: &mut Self::Datapath,
        port: PortIndex,
        settings: &Settings,
        caps: &Caps,
    ) -> Result<(), ControlError>;

    /// What its workers do in the first moment after a packet.
    fn eagerness(&self) -> Eagerness {
        Eagerness::default()
    }

    /// Answers a request whose command is not one of [`crate::Command`].
    ///
    /// # Errors
    /// The command is unknown, or cannot be carried out.
    fn answer(&mut self, ports: &mut PortManager<Self>, request: Value) -> Result<Answer, ControlError>;

    /// Changes settings of the datapath itself.
    ///
    /// # Errors
    /// A setting is wrong.
    fn set(&mut self, ports: &mut PortManager<Self>, settings: &Settings) -> Result<(), ControlError>;

    /// A port was opened, for the first time or again after it broke, and is about to be given to the worker, by [`Service::add_port`].
    ///
    /// # Errors
    /// The port must not be added; it is closed. If the worker refuses the port afterwards, [`Service::port_removed`] follows.
    fn port_opened(&mut self, config: &PortConfig, caps: &Caps) -> Result<(), ControlError> {
        let _ = (config, caps);
        Ok(())
    }

    /// All settings of a port were changed, by [`Service::set_port`]; `config` has the new ones.
    ///
    /// # Errors
    /// They cannot be in force now.
    fn port_changed(&mut self, config: &PortConfig, caps: &Caps) -> Result<(), ControlError> {
        let _ = (config, caps);
        Ok(())
    }

    /// Puts something in front of a port that was opened on `pool`, for example a [`linerate_port::Monitor`]; the worker gets the result.
    ///
    /// # Errors
    /// What was to be put there cannot be opened; the port is closed.
    fn wrap(&mut self, port: Box<dyn Port>, pool: &Pool) -> Result<Box<dyn Port>, ControlError> {
        let _ = pool;
        Ok(port)
    }

    /// A queue pair of a port has left its worker, in order or because it broke, and is about to be closed: its last totals can be read.
    fn queue_left(&mut self, port: &mut dyn Port) {
        let _ = port;
    }

    /// A port of that name is gone, for good or until it is opened again ([`PortManager::ports_out`]).
    fn port_removed(&mut self, ports: &mut PortManager<Self>, name: &str) {
        let _ = (ports, name);
    }

    /// The link of a port went down or came up; the port stays.
    fn link_changed(&mut self, ports: &mut PortManager<Self>, name: &str, link: LinkState) {
        let _ = (ports, name, link);
    }

    /// A client asked the instance to stop; the workers still run.
    fn stopping(&mut self, ports: &mut PortManager<Self>) {
        let _ = ports;
    }

    /// Adds the descriptors of the service to those that the control thread is about to sleep on.
    fn arm(&mut self, set: &mut PollSet) {
        let _ = set;
    }

    /// Time at which the control thread must not sleep any more, in nanoseconds of the monotonic clock; `u64::MAX` if there is none.
    fn next_deadline_ns(&self) -> u64 {
        u64::MAX
    }

    /// Does the service's own work after each sleep; `set` has the results of the descriptors that [`Service::arm`] added.
    fn turn(&mut self, ports: &mut PortManager<Self>, set: &PollSet) {
        let _ = (ports, set);
    }
}
