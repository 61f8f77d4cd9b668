//! A program over TCP under control: its one port, and its requests.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use linerate_control::{ControlError, Handoff, PortConfig, PortManager, Service, Settings, read_command};
use linerate_mem::Pool;
use linerate_port::{Caps, Monitor, OpenOptions, Port, PortIndex, WatchSwitch, Watched, drops_that_happened};
use linerate_programs::{OverStack, Reports};
use linerate_tcp::{App, ShardPort, Sharded};
use linerate_worker::Eagerness;
use serde_json::Value;

use crate::document::CaptureDocument;
use crate::request::{Request, What};
use crate::show::{self, TcpView};

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
    /// The queues of the port, and what their frames are written to.
    taps: Vec<Tap>,
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
        TcpService {
            port: None,
            frame_len_max,
            eagerness,
            first_capture: capture,
            taps: Vec::new(),
            program: PhantomData,
        }
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
        let tap = match self.taps.as_mut_slice() {
            [] => return Err(out()),
            [tap] => tap,
            _ => return Err(several_queues()),
        };
        let flush = || {
            ports.view.call(|worker| {
                let port = worker.datapath.port()?;
                worker.port(port).map(|port| drop(port.flush()))
            })
        };
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

/// A file has one writer, and each queue one of its own.
fn several_queues() -> ControlError {
    ControlError::new("frames of a port of several queues cannot be captured", "open it with queues=1")
}

fn capture_file(path: &Path, pool: &Pool) -> Result<Box<dyn Port>, ControlError> {
    let file = linerate_ports::file(&path.display().to_string());
    let opened = linerate_ports::open_device(&file, &OpenOptions::transmit(), pool);
    Ok(opened.map_err(|error| ControlError::new(error.to_string(), ""))?.into_port())
}

fn bind<A: App>(path: &mut Sharded<A>, port: ShardPort) -> Result<PortIndex, ControlError> {
    path.bind(port).ok_or_else(|| ControlError::new("the stack has its port", "please report this"))
}

fn views<P: Reports>(ports: &PortManager<TcpService<P>>) -> Vec<TcpView<P>> {
    ports.views().cloned().collect()
}

impl<P: Reports> Service for TcpService<P> {
    type Datapath = Sharded<OverStack<P>>;

    const STEERS: bool = true;
    const MERGES_SEGMENTS: bool = true;

    fn add_port(path: &mut Self::Datapath, _: &PortConfig, _: &Caps) -> Result<PortIndex, ControlError> {
        bind(path, ShardPort::Port)
    }

    fn add_handoff(path: &mut Self::Datapath, _: &PortConfig, handoff: Handoff) -> Result<PortIndex, ControlError> {
        let port = match handoff {
            Handoff::ToPort => ShardPort::ToPort,
            Handoff::ForPort => ShardPort::ForPort,
            // Worker and shard have one number.
            Handoff::ToWorker(worker) => ShardPort::ToShard(u16::try_from(worker).unwrap_or(u16::MAX)),
            Handoff::FromWorker => ShardPort::FromShards,
        };
        bind(path, port)
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
                serde_json::to_value(show::connections(&views(ports), after)?)
            }
            Request::Show { what: What::Counters, .. } => {
                let mut all = BTreeMap::new();
                for view in ports.views() {
                    show::add_counts(&mut all, &view.call(|worker| show::counters(worker, true))?);
                }
                serde_json::to_value(all)
            }
            Request::Show { what: What::Stats, .. } => serde_json::to_value(show::snapshot(&views(ports))?),
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
        if file.is_some() && !self.taps.is_empty() {
            return Err(several_queues());
        }
        let port = match &file {
            Some(path) => Monitor::new(port, capture_file(path, pool)?, Watched::Both, pool),
            None => Monitor::switched(port, Watched::Both, pool),
        };
        self.taps.push(Tap { switch: port.switch(), pool: pool.clone(), file });
        Ok(Box::new(port))
    }

    fn stopping(&mut self, ports: &mut PortManager<Self>) {
        for view in ports.views() {
            let _ = view.call(|worker| show::end(worker));
        }
    }

    fn port_removed(&mut self, _: &mut PortManager<Self>, _: &str) {
        self.port = None;
        self.taps.clear();
    }
}
