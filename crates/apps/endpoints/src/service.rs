//! A program over TCP under control: its one port, and its requests.

use std::marker::PhantomData;
use std::path::PathBuf;

use linerate_control::{ControlError, PortConfig, PortManager, Service, Settings, read_command};
use linerate_mem::Pool;
use linerate_port::{Caps, Monitor, OpenOptions, Port, PortIndex, Watched};
use linerate_programs::{OverStack, Reports};
use linerate_tcp::Stack;
use serde_json::Value;

use crate::request::{Request, What};
use crate::show;

/// The service of a program `P`.
pub(crate) struct TcpService<P> {
    /// Name of the port.
    port: Option<String>,
    /// Bytes of the longest frame that the stack sends.
    frame_len_max: usize,
    /// File that all frames are written to.
    capture: Option<PathBuf>,
    program: PhantomData<fn() -> P>,
}

impl<P> TcpService<P> {
    pub(crate) fn new(frame_len_max: usize, capture: Option<PathBuf>) -> TcpService<P> {
        TcpService { port: None, frame_len_max, capture, program: PhantomData }
    }
}

impl<P: Reports> Service for TcpService<P> {
    type Datapath = Stack<OverStack<P>>;

    fn add_port(_: &mut Self::Datapath, _: &PortConfig, _: &Caps) -> Result<PortIndex, ControlError> {
        Ok(PortIndex(0))
    }

    fn set_port(_: &mut Self::Datapath, _: PortIndex, settings: &Settings, _: &Caps) -> Result<(), ControlError> {
        match settings.keys().next() {
            Some(key) => Err(ControlError::new(format!("a port of a TCP stack has no setting {key}"), "")),
            None => Ok(()),
        }
    }

    fn answer(&mut self, ports: &mut PortManager<Self>, request: Value) -> Result<Value, ControlError> {
        let document = match read_command(request)? {
            Request::Show { what: What::Connections, after } => {
                let after = after.unwrap_or(0);
                serde_json::to_value(ports.view.call(move |worker| show::connections(worker, after))?)
            }
            Request::Show { what: What::Counters, .. } => {
                serde_json::to_value(ports.view.call(|worker| show::counters(worker, true))?)
            }
            Request::Show { what: What::Stats, .. } => serde_json::to_value(show::snapshot(&ports.view)?),
        };
        document.map_err(|error| ControlError::new(error.to_string(), ""))
    }

    fn set(&mut self, _: &mut PortManager<Self>, _: &Settings) -> Result<(), ControlError> {
        Err(ControlError::new("a TCP stack has no settings that change while it runs", "end it, and start another one"))
    }

    fn port_opened(&mut self, config: &PortConfig, caps: &Caps) -> Result<(), ControlError> {
        if let Some(port) = &self.port {
            return Err(ControlError::new(
                format!("the stack has its port, {port}"),
                "a second stack takes another --name",
            ));
        }
        if caps.frame_len_max < self.frame_len_max {
            let cause =
                format!("it takes frames of {} bytes, and the stack sends {}", caps.frame_len_max, self.frame_len_max);
            return Err(ControlError::new(cause, "raise the MTU of the interface, as for a VLAN: 4 bytes more"));
        }
        self.port = Some(config.name());
        Ok(())
    }

    fn wrap(&mut self, port: Box<dyn Port>, pool: &Pool) -> Result<Box<dyn Port>, ControlError> {
        let Some(path) = &self.capture else { return Ok(port) };
        let file = linerate_ports::file(&path.display().to_string());
        let opened = linerate_ports::open_device(&file, &OpenOptions::transmit(), pool);
        let opened = opened.map_err(|error| ControlError::new(error.to_string(), ""))?;
        Ok(Box::new(Monitor::new(port, opened.into_port(), Watched::Both, pool)))
    }

    fn stopping(&mut self, ports: &mut PortManager<Self>) {
        let _ = ports.view.call(|worker| show::end(worker));
    }

    fn port_removed(&mut self, _: &mut PortManager<Self>, _: &str) {
        self.port = None;
    }
}
