//! The control side of a switch: what requests of controllers and of the control socket work on.

use linerate_openflow::{FlowStats, PortNumber};
use linerate_pipeline::Switch;

use crate::channel::Channels;
use crate::config::FailMode;
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

/// A long reply, of which a part is given at a time.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) number: u64,
    pub(crate) flows: std::vec::IntoIter<FlowStats>,
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
