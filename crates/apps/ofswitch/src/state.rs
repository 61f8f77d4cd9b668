//! The control side of a switch: what requests of controllers and of the control socket work on.

use linerate_control::ControlError;
use linerate_openflow::{FlowStats, PortNumber};
use linerate_pipeline::{FlowDump, Switch};

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
pub(crate) struct Items {
    /// Lines that come before the entries.
    lines: std::vec::IntoIter<String>,
    /// The entries, which are listed as they are asked for.
    flows: Option<FlowDump>,
}

impl Items {
    pub(crate) fn new(lines: Vec<String>, flows: FlowDump) -> Items {
        Items { lines: lines.into_iter(), flows: Some(flows) }
    }

    fn is_empty(&self) -> bool {
        self.lines.len() == 0 && self.flows.as_ref().is_none_or(FlowDump::is_done)
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
        switch: &mut Switch,
        now_ns: u64,
        line: impl Fn(String) -> Option<T>,
        flow: impl Fn(FlowStats) -> T,
    ) -> Result<Part<T>, ControlError> {
        if after.is_some_and(|number| number != self.number) {
            return Err(ControlError::new(
                "somebody else asked for a long list meanwhile",
                "ask again, from the start",
            ));
        }
        let mut items: Vec<T> = self.items.lines.by_ref().take(PART_MAX).filter_map(line).collect();
        if let Some(dump) = &mut self.items.flows {
            items.extend(switch.flow_part(dump, PART_MAX - items.len(), now_ns).into_iter().map(flow));
        }
        let next = (!self.items.is_empty()).then_some(self.number);
        if next.is_none() {
            self.items = Items::default();
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
