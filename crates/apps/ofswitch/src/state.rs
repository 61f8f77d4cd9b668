//! The control side of a switch: what requests of controllers and of the control socket work on.

use linerate_control::ControlError;
use linerate_openflow::{FlowStats, PortNumber};
use linerate_pipeline::Switch;

use crate::channel::Channels;
use crate::config::FailMode;
use crate::document::Part;
use crate::request::PART_MAX;
use crate::settings::SwitchQueues;

/// The control side of a switch.
pub(crate) struct State {
    pub(crate) switch: Switch,
    pub(crate) channels: Channels,
    pub(crate) fail_mode: FailMode,
    pub(crate) queues: SwitchQueues,
    /// What is left of a long reply, for whoever asks on.
    pub(crate) parts: Parts,
}

/// A long reply, of which a part is given at a time. There is one: whoever asks for a new one ends that of others.
#[derive(Default)]
pub(crate) struct Parts {
    number: u64,
    items: Items,
}

/// What is left of a long reply.
#[derive(Default)]
pub(crate) enum Items {
    #[default]
    Nothing,
    Flows(std::vec::IntoIter<FlowStats>),
    Lines(std::vec::IntoIter<String>),
}

impl Items {
    pub(crate) fn flow(&mut self) -> Option<FlowStats> {
        if let Items::Flows(flows) = self { flows.next() } else { None }
    }

    pub(crate) fn line(&mut self) -> Option<String> {
        if let Items::Lines(lines) = self { lines.next() } else { None }
    }

    fn is_empty(&self) -> bool {
        match self {
            Items::Nothing => true,
            Items::Flows(flows) => flows.len() == 0,
            Items::Lines(lines) => lines.len() == 0,
        }
    }
}

impl Parts {
    /// Begins a new reply.
    pub(crate) fn begin(&mut self, items: Items) {
        *self = Parts { number: self.number + 1, items };
    }

    /// The next part of the reply with the number `after`, or the first part of a new one.
    ///
    /// # Errors
    /// Another reply was begun meanwhile.
    pub(crate) fn next<T>(
        &mut self,
        after: Option<u64>,
        item: impl Fn(&mut Items) -> Option<T>,
    ) -> Result<Part<T>, ControlError> {
        if after.is_some_and(|number| number != self.number) {
            return Err(ControlError::new(
                "somebody else asked for a long list meanwhile",
                "ask again, from the start",
            ));
        }
        let items = (0..PART_MAX).map_while(|_| item(&mut self.items)).collect();
        let next = (!self.items.is_empty()).then_some(self.number);
        if next.is_none() {
            self.items = Items::Nothing;
        }
        Ok(Part { items, next })
    }
}

impl State {
    /// True if the switch forwards by itself because no controller is connected.
    pub(crate) fn stands_alone(&self) -> bool {
        self.fail_mode == FailMode::Standalone && !self.channels.has_controller()
    }

    /// A local address for a port whose device has none: the datapath ID's last bytes, and the number's.
    pub(crate) fn address(&self, number: PortNumber) -> [u8; 6] {
        let (dpid, number) = (self.switch.features().datapath_id.to_be_bytes(), number.0.to_be_bytes());
        [0x02, dpid[5], dpid[6], dpid[7] ^ number[1], number[2], number[3]]
    }
}
