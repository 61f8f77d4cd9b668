//! A program over TCP under control: its one port, and its requests.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use linerate_control::{ControlError, PortConfig, PortManager, Service, Settings, read_command};
use linerate_mem::Pool;
use linerate_port::{Caps, Monitor, OpenOptions, Port, PortIndex, WatchSwitch, Watched, drops_that_happened};
use linerate_programs::{OverStack, Reports};
use linerate_tcp::Stack;
use linerate_worker::Eagerness;
use serde_json::Value;

use crate::document::CaptureDocument;
use crate::request::{Request, What};
use crate::show;

/// The service of a program `P`.
pub(crate) struct TcpService<P> {
    /// Name of the port.
    port: Option<String>,
    /// Bytes of the longest frame that the stack sends.
    frame_len_max: usize,
    /// What its worker does in the first moment after a packet.
    eagerness: Eagerness,
    /// File that all frames are written to from the start.
    first_capture: Option<PathBuf>,
    /// The port, and what its frames are written to.
    tap: Option<Tap>,
    program: PhantomData<fn() -> P>,
}

/// The open port's frames on their way into a file.
struct Tap {
    switch: WatchSwitch,
    pool: Pool,
    /// The file that they are written to now.
    file: Option<PathBuf>,
}

impl<P> TcpService<P> {
    pub(crate) fn new(frame_len_max: usize, eagerness: Eagerness, capture: Option<PathBuf>) -> TcpService<P> {
        TcpService { port: None, frame_len_max, eagerness, first_capture: capture, tap: None, program: PhantomData }
    }
}

impl<P: Reports> TcpService<P> {
    /// Begins a capture, or ends it.
    fn capture(
        &mut self,
        ports: &mut PortManager<Self>,
        file: Option<PathBuf>,
    ) -> Result<CaptureDocument, ControlError> {
        let out = || ControlError::new("the port is out", "it comes back by itself when its interface or peer does");
        let tap = self.tap.as_mut().ok_or_else(out)?;
        let flush = || ports.view.call(|worker| worker.port(PortIndex(0)).map(|port| drop(port.flush())));
        match (tap.file.clone(), file) {
            (Some(known), Some(_)) => {
                let cause = format!("frames are written to {} already", known.display());
                Err(ControlError::new(cause, "end that first: linerate tcp ctl capture --stop"))
            }
            (None, None) => Err(ControlError::new("no frames are captured", "")),
            (None, Some(path)) => {
                tap.switch.begin(capture_file(&path, &tap.pool)?);
                if flush()?.is_none() {
                    tap.switch.withdraw();
                    return Err(out());
                }
                tap.file = Some(path.clone());
                Ok(CaptureDocument { file: path.display().to_string(), ..CaptureDocument::default() })
            }
            (Some(path), None) => {
                tap.switch.end();
                flush()?;
                tap.file = None;
                let account = tap.switch.take_account().unwrap_or_default();
                let (counts, causes) = (account.counts, drops_that_happened(&account.stats.tx_drops));
                Ok(CaptureDocument {
                    file: path.display().to_string(),
                    written: counts.shown + counts.taken,
                    missed: counts.no_frame + counts.refused,
                    causes,
                })
            }
        }
    }
}

fn capture_file(path: &Path, pool: &Pool) -> Result<Box<dyn Port>, ControlError> {
    let file = linerate_ports::file(&path.display().to_string());
    let opened = linerate_ports::open_device(&file, &OpenOptions::transmit(), pool);
    Ok(opened.map_err(|error| ControlError::new(error.to_string(), ""))?.into_port())
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

    fn eagerness(&self) -> Eagerness {
        self.eagerness
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
            Request::Capture { file } => serde_json::to_value(self.capture(ports, file)?),
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
        let file = self.first_capture.clone();
        let port = match &file {
            Some(path) => Monitor::new(port, capture_file(path, pool)?, Watched::Both, pool),
            None => Monitor::switched(port, Watched::Both, pool),
        };
        self.tap = Some(Tap { switch: port.switch(), pool: pool.clone(), file });
        Ok(Box::new(port))
    }

    fn stopping(&mut self, ports: &mut PortManager<Self>) {
        let _ = ports.view.call(|worker| show::end(worker));
    }

    fn port_removed(&mut self, _: &mut PortManager<Self>, _: &str) {
        (self.port, self.tap) = (None, None);
    }
}
