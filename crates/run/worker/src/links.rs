//! Links of a worker's ports: interfaces that are set down and up, carriers and peers that go and come.

use linerate_port::{Datapath, LinkState, PortError, PortIndex};

use crate::ports::{Attached, Event};
use crate::worker::Served;

/// How often ports are asked for their links, if the datapath follows links.
const CHECK_NS: u64 = 10_000_000;
/// Ports that are asked at a time, some microseconds each; of more, others are asked each time.
const CHECKED_MAX: usize = 64;

impl<D> Served<D> {
    /// Whether the link of a port is up, as the datapath knows it; `None` if there is no such port.
    pub fn link(&mut self, port: PortIndex) -> Option<LinkState> {
        self.ports.get_mut(port).map(|attached| attached.link)
    }
}

impl Served<dyn Datapath + '_> {
    /// Asks ports whose interface is not down for their links.
    #[cold]
    pub(crate) fn check_links(&mut self, now_ns: u64) {
        self.links_due_ns = now_ns + CHECK_NS;
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
        let follows = self.links_due_ns < u64::MAX;
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
