//! The OpenFlow switch under control: its ports, its controllers, its requests.

use linerate_control::{Answer, ControlError, Handoff, PortConfig, PortManager, Service, Settings, read_command};
use linerate_ofswitch_loop::SteeredForwarder;
use linerate_openflow::PortNumber;
use linerate_pipeline::PortSettings;
use linerate_port::{Caps, LinkState, PortIndex};
use linerate_sys::clock;
use linerate_sys::poll::PollSet;
use serde_json::Value;

use crate::config::port_number;
use crate::request::Request;
use crate::settings::port_settings;
use crate::state::State;
use crate::{apply, show, steering, trace};

/// An OpenFlow switch under `linerate-control`.
pub(crate) struct OfService(pub(crate) State);

impl Service for OfService {
    type Datapath = SteeredForwarder;

    fn add_port(path: &mut SteeredForwarder, config: &PortConfig, _: &Caps) -> Result<PortIndex, ControlError> {
        steering::add_port(path, &config.name(), number(&config.name())?)
    }

    fn add_handoff(
        path: &mut SteeredForwarder,
        config: &PortConfig,
        handoff: Handoff,
    ) -> Result<PortIndex, ControlError> {
        steering::add_handoff(path, &config.name(), number(&config.name())?, handoff)
    }

    fn set_port(_: &mut SteeredForwarder, _: PortIndex, settings: &Settings, caps: &Caps) -> Result<(), ControlError> {
        // They are the pipeline's: `port_changed` follows.
        port_settings(PortNumber(1), settings, caps, Vec::new()).map(drop)
    }

    fn answer(&mut self, ports: &mut PortManager<Self>, request: Value) -> Result<Answer, ControlError> {
        let document = match read_command(request)? {
            Request::Show { what, after } => show::answer(&mut self.0, ports, what, after),
            Request::Flow { action, flows } => apply::flows(&mut self.0.switch, action, &flows),
            Request::Group { action, group } => apply::group(&mut self.0.switch, action, &group),
            Request::Meter { action, meter } => apply::meter(&mut self.0.switch, action, &meter),
            Request::Trace { packet, in_port } => {
                show::document(trace::trace(&mut self.0.switch, &packet, in_port.as_deref())?)
            }
            Request::Restore { lines } => apply::restore(&mut self.0.switch, &lines),
        };
        document.map(Answer::from)
    }

    fn set(&mut self, _: &mut PortManager<Self>, _: &Settings) -> Result<(), ControlError> {
        Err(ControlError::new("the switch itself has no settings that change while it runs", "set PORT.KEY=VALUE"))
    }

    fn port_opened(&mut self, config: &PortConfig, caps: &Caps) -> Result<(), ControlError> {
        let (number, now_ns) = (number(&config.name())?, clock::now_ns());
        let settings = self.settings(number, config, caps)?;
        // A port that was out is still there, without a link.
        if !self.0.switch.set_link(number, true, now_ns) {
            self.0.switch.add_port(settings, true, now_ns).map_err(|error| ControlError::new(error.to_string(), ""))?;
        }
        Ok(())
    }

    fn port_changed(&mut self, config: &PortConfig, caps: &Caps) -> Result<(), ControlError> {
        let settings = self.settings(number(&config.name())?, config, caps)?;
        self.0.switch.change_port(settings, clock::now_ns());
        Ok(())
    }

    fn port_removed(&mut self, ports: &mut PortManager<Self>, name: &str) {
        let Ok(number) = port_number(name) else { return };
        let comes_back = ports.ports_out().any(|(config, _)| config.name() == name);
        if comes_back {
            self.0.switch.set_link(number, false, clock::now_ns());
        } else {
            self.0.switch.remove_port(number, clock::now_ns());
        }
    }

    fn link_changed(&mut self, _: &mut PortManager<Self>, name: &str, link: LinkState) {
        if let Ok(number) = port_number(name) {
            self.0.switch.link_changed(number, link == LinkState::Up, clock::now_ns());
        }
    }

    fn arm(&mut self, set: &mut PollSet) {
        self.0.channels.arm(set, &self.0.switch);
    }

    fn next_deadline_ns(&self) -> u64 {
        self.0.switch.next_deadline_ns().min(self.0.channels.next_deadline_ns(&self.0.switch, clock::now_ns()))
    }

    fn turn(&mut self, _: &mut PortManager<Self>, set: &PollSet) {
        let now_ns = clock::now_ns();
        self.0.switch.tick(now_ns);
        self.0.channels.turn(set, &mut self.0.switch, now_ns);
        self.0.switch.set_standalone(self.0.stands_alone());
        self.0.switch.set_wants_invalid_ttl(self.0.channels.wants_invalid_ttl());
    }
}

impl OfService {
    /// The pipeline's settings of a port.
    fn settings(&self, number: PortNumber, config: &PortConfig, caps: &Caps) -> Result<PortSettings, ControlError> {
        Ok(PortSettings {
            name: config.spec_name(),
            hw_addr: caps.mac.unwrap_or_else(|| self.0.address(number)),
            ..port_settings(number, &config.settings, caps, self.0.queues.of(&config.name()))?
        })
    }
}

fn number(name: &str) -> Result<PortNumber, ControlError> {
    port_number(name).map_err(|error| ControlError::new(error, "the name of a port is its OpenFlow number"))
}
