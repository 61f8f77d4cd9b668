//! Links of a worker's ports: interfaces that are set down and up, carriers and peers that go and come.

use linerate_port::{Datapath, LinkState, PortError, PortIndex};

use crate::ports::{Attached, Event};
use crate::worker::Served;

/// How often ports are asked for their links, if the datapath follows links.
const CHECK_NS: u64 = 10_000_000;
/// Ports that are asked at a time, some microseconds each; of more, others are asked each time.
const CHECKED_MAX: usize = 64;
/// How often a port that took a packet for too long is asked whether it takes longer ones again.
const LEN_MAX_NS: u64 = 100_000_000;

impl<D> Served<D> {
    /// Whether the link of a port is up, as the datapath knows it; `None` if there is no such port.
    pub fn link(&mut self, port: PortIndex) -> Option<LinkState> {
        self.ports.get_mut(port).map(|attached| attached.link)
    }
}

impl Served<dyn Datapath + '_> {
    /// Asks ports that took a packet for too long for their MTU, and if the datapath follows links, ports whose interface is not down for theirs.
    #[cold]
    pub(crate) fn check_links(&mut self, now_ns: u64) {
        let is_limited = self.check_len_max(now_ns);
        let asked_again_ns = if is_limited { now_ns + LEN_MAX_NS } else { u64::MAX };
        self.links_due_ns = if self.follows_links { now_ns + CHECK_NS } else { asked_again_ns };
        if !self.follows_links {
            return;
        }
        let (ports, first) = (self.ports.0.len(), self.links_next);
        self.links_next = (first + CHECKED_MAX) % ports.max(1);
        for place in (first..first + ports.min(CHECKED_MAX)).map(|place| place % ports) {
            let index = PortIndex(place as u16);
            let Some(attached) = self.ports.get_mut(index).filter(|attached| attached.usable) else { continue };
            match attached.port.link() {
                Ok(link) if link != attached.link => {
                    self.tell_link(index, link, now_ns);
                    (self.on_event)(Event::Link { port: index, link });
                }
                Ok(_) => {}
                Err(error) => self.failed(index, error, now_ns),
            }
        }
    }

    /// A port took a packet for too long, and the datapath knows: it is asked again.
    pub(crate) fn ask_again_for_len_max(&mut self, index: PortIndex, len_max: usize, now_ns: u64) {
        if let Some(attached) = self.ports.get_mut(index) {
            attached.len_max_told = Some(len_max);
            self.links_due_ns = self.links_due_ns.min(now_ns + LEN_MAX_NS);
        }
    }

    /// Tells the datapath of ports that take longer packets again. Returns true if others are still to be asked.
    fn check_len_max(&mut self, now_ns: u64) -> bool {
        let mut is_limited = false;
        for place in 0..self.ports.0.len() {
            let index = PortIndex(place as u16);
            let Some(attached) = self.ports.get_mut(index).filter(|attached| attached.usable) else { continue };
            let Some(told) = attached.len_max_told else { continue };
            let len_max = attached.port.current_frame_len_max();
            if len_max > told {
                attached.len_max_told = None;
                self.tell_datapath(index, now_ns, |datapath, context| datapath.takes_longer(index, len_max, context));
            } else {
                is_limited = true;
            }
        }
        is_limited
    }

    /// The interface of a port is down.
    #[cold]
    pub(crate) fn interface_down(&mut self, index: PortIndex, error: PortError, now_ns: u64) {
        self.set_usable(index, false);
        self.tell_link(index, LinkState::Down, now_ns);
        (self.on_event)(Event::Down { port: index, error });
    }

    /// The interface of a port works again. Its carrier may come later.
    #[cold]
    pub(crate) fn interface_up(&mut self, index: PortIndex, now_ns: u64) {
        let follows = self.follows_links;
        let Some(attached) = self.set_usable(index, true) else { return };
        // An error shows when the port is served.
        let up = !follows || attached.port.link().is_ok_and(|link| link == LinkState::Up);
        let link = if up { LinkState::Up } else { LinkState::Down };
        self.tell_link(index, link, now_ns);
        (self.on_event)(if up { Event::Up { port: index } } else { Event::Link { port: index, link } });
    }

    fn set_usable(&mut self, index: PortIndex, usable: bool) -> Option<&mut Attached> {
        let attached = self.ports.get_mut(index)?;
        attached.usable = usable;
        attached.settle();
        Some(attached)
    }

    fn tell_link(&mut self, index: PortIndex, link: LinkState, now_ns: u64) {
        let Some(attached) = self.ports.get_mut(index).filter(|attached| attached.link != link) else { return };
        attached.link = link;
        self.tell_datapath(index, now_ns, |datapath, context| datapath.link_changed(index, link, context));
    }
}
