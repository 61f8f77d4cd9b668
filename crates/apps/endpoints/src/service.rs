//! A program over TCP under control: its one port, and its requests.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use linerate_control::{Answer, ControlError, Handoff, PortConfig, PortManager, Service, Settings, read_command};
use linerate_mem::Pool;
use linerate_port::{Caps, Monitor, MonitorAccount, Port, PortIndex, WatchSwitch, Watched};
use linerate_programs::{OverStack, Reports};
use linerate_tcp::{App, ShardPort, Sharded};
use linerate_worker::Eagerness;
use serde_json::Value;

use crate::capture::Capture;
use crate::document::CaptureDocument;
use crate::request::{Request, What};
use crate::show::{self, PastPackets, TcpView};

/// The service of a program `P`.
pub(crate) struct TcpService<P> {
    /// Name of the port.
    port: Option<String>,
    /// Bytes of the longest frame that the stack sends.
    frame_len_max: usize,
    /// What its worker does in the first moment after a packet.
    eagerness: Eagerness,
    /// File that all frames are written to from the start, until it is created.
    first_capture: Option<PathBuf>,
    past: PastPackets,
    /// What frames are written to; it goes on when the port was out meanwhile.
    capture: Option<Capture>,
    /// The queues of the port while it is open.
    taps: Vec<Tap>,
    program: PhantomData<fn() -> P>,
}

/// A queue of the open port, whose frames can be watched.
struct Tap {
    switch: WatchSwitch,
    /// Of the watching that goes on.
    account: Arc<Mutex<MonitorAccount>>,
    pool: Pool,
}

impl Tap {
    fn account(&self) -> MonitorAccount {
        self.account.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<P> TcpService<P> {
    pub(crate) fn new(
        frame_len_max: usize,
        eagerness: Eagerness,
        capture: Option<PathBuf>,
        past: PastPackets,
    ) -> TcpService<P> {
        TcpService {
            port: None,
            frame_len_max,
            eagerness,
            first_capture: capture,
            past,
            capture: None,
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
        match (&self.capture, file) {
            (Some(known), Some(_)) => {
                let cause = format!("frames are written to {} already", known.path().display());
                Err(ControlError::new(cause, "end that first: linerate tcp ctl capture --stop"))
            }
            (None, Some(path)) => self.begin_capture(ports, &path),
            (_, None) => self.end_capture(ports),
        }
    }

    fn begin_capture(&mut self, ports: &PortManager<Self>, path: &Path) -> Result<CaptureDocument, ControlError> {
        let out = || ControlError::new("the port is out", "it comes back by itself when its interface or peer does");
        let Some(Tap { pool, .. }) = self.taps.first() else { return Err(out()) };
        let capture = Capture::create(path, pool)?;
        self.taps.iter().for_each(|tap| tap.switch.begin(capture.writer()));
        if flush(ports)? == 0 {
            self.taps.iter().for_each(|tap| _ = tap.switch.withdraw());
            return Err(out());
        }
        self.capture = Some(capture);
        Ok(CaptureDocument { file: path.display().to_string(), ..CaptureDocument::default() })
    }

    fn end_capture(&mut self, ports: &PortManager<Self>) -> Result<CaptureDocument, ControlError> {
        let capture = self.capture.take().ok_or_else(|| ControlError::new("no frames are captured", ""))?;
        self.taps.iter().for_each(|tap| tap.switch.end());
        flush(ports)?;
        Ok(capture.ended(self.taps.iter().filter_map(|tap| tap.switch.take_account())))
    }
}

impl<P> TcpService<P> {
    /// What became of the capture that the program ended with; its ports are closed.
    pub(crate) fn last_capture(mut self) -> Option<CaptureDocument> {
        Some(self.capture.take()?.ended(self.taps.iter().map(Tap::account)))
    }
}

/// Has all queues do as their switches were told; returns how many there are.
fn flush<P: Reports>(ports: &PortManager<TcpService<P>>) -> Result<usize, ControlError> {
    let mut queues = 0;
    for view in ports.views() {
        let flushed = view.call(|worker| {
            let port = worker.datapath.port()?;
            worker.port(port).map(|port| drop(port.flush()))
        })?;
        queues += usize::from(flushed.is_some());
    }
    Ok(queues)
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

    // There is no other port, so the program ends.
    const REOPENS_INTERFACES: bool = false;

    fn set_port(_: &mut Self::Datapath, _: PortIndex, settings: &Settings, _: &Caps) -> Result<(), ControlError> {
        match settings.keys().next() {
            Some(key) => Err(ControlError::new(format!("a port of a TCP stack has no setting {key}"), "")),
            None => Ok(()),
        }
    }

    fn eagerness(&self) -> Eagerness {
        self.eagerness
    }

    fn answer(&mut self, ports: &mut PortManager<Self>, request: Value) -> Result<Answer, ControlError> {
        let document = match read_command(request)? {
            Request::Show { what: What::Connections, after } => {
                return Ok(Answer::Text(show::connections_text(&views(ports), after)?));
            }
            Request::Show { what: What::Counters, .. } => {
                let mut all = BTreeMap::new();
                for view in ports.views() {
                    show::add_counts(&mut all, &show::named(&view.call(|worker| show::counters(worker))?, true));
                }
                serde_json::to_value(all)
            }
            Request::Show { what: What::Stats, .. } => serde_json::to_value(show::snapshot(&views(ports), &self.past)?),
            Request::Capture { file } => serde_json::to_value(self.capture(ports, file)?),
        };
        document.map(Answer::from).map_err(|error| ControlError::new(error.to_string(), ""))
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
        if let Some(path) = self.first_capture.take() {
            self.capture = Some(Capture::create(&path, pool)?);
        }
        let port = match &self.capture {
            Some(capture) => Monitor::new(port, capture.writer(), Watched::Both, pool),
            None => Monitor::switched(port, Watched::Both, pool),
        };
        self.taps.push(Tap { switch: port.switch(), account: port.account(), pool: pool.clone() });
        Ok(Box::new(port))
    }

    fn stopping(&mut self, ports: &mut PortManager<Self>) {
        for view in ports.views() {
            let _ = view.call(|worker| show::end(worker));
        }
    }

    fn queue_left(&mut self, port: &mut dyn Port) {
        self.past.add(port);
    }

    fn port_removed(&mut self, _: &mut PortManager<Self>, _: &str) {
        self.port = None;
        for tap in self.taps.drain(..) {
            if let Some(capture) = &mut self.capture {
                capture.keep(tap.account());
            }
        }
    }
}
