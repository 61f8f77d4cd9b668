//! The trait that a program implements: a datapath, with the commands and settings that only this datapath has.

use linerate_port::{Caps, Datapath, PortIndex};
use serde_json::Value;

use crate::ports::PortManager;
use crate::protocol::ControlError;
use crate::value::Settings;

/// A datapath under control. The first two functions run on the worker's thread, the others on the control thread.
pub trait Service: Sized + Send + 'static {
    /// The datapath of the worker.
    type Datapath: Datapath + Send + 'static;

    /// Adds a port to the datapath, which gives it the lowest number that is free, as the worker does.
    ///
    /// # Errors
    /// A setting is wrong, or the datapath has no room.
    fn add_port(path: &mut Self::Datapath, settings: &Settings, caps: &Caps) -> Result<PortIndex, ControlError>;

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

    /// Answers a request whose command is not one of [`crate::Command`].
    ///
    /// # Errors
    /// The command is unknown, or cannot be carried out.
    fn answer(&mut self, ports: &mut PortManager<Self>, request: Value) -> Result<Value, ControlError>;

    /// Changes settings of the datapath itself.
    ///
    /// # Errors
    /// A setting is wrong.
    fn set(&mut self, ports: &mut PortManager<Self>, settings: &Settings) -> Result<(), ControlError>;

    /// A port of that name is gone.
    fn port_removed(&mut self, name: &str) {
        let _ = name;
    }
}
