//! OpenFlow as text: the syntax of Open vSwitch's `ovs-ofctl` for flows, groups, meters and packets, as ovs-ofctl(8), ovs-fields(7) and ovs-actions(7)
//! describe it, limited to OpenFlow 1.3; and the lines of Lagopus's `show flow`.
//!
//! Fields and actions that Open vSwitch lacks have the specification's names in lower case: `pbb_isid`, `push_pbb`, `copy_ttl_out`.
#![forbid(unsafe_code)]

mod actions;
mod error;
mod flow;
mod group;
mod lagopus;
mod matching;
mod meter;
mod names;
mod packet;
mod show_actions;
mod show_match;
mod value;
mod words;

pub use actions::{parse_actions, parse_instructions};
pub use error::TextError;
pub use flow::{flow_text, parse_flow};
pub use group::{group_text, parse_group};
pub use lagopus::lagopus_flow_line;
pub use matching::parse_match;
pub use meter::{meter_text, parse_meter};
pub use packet::{TextPacket, parse_packet};
pub use show_actions::{actions_text, instructions_text};
pub use show_match::match_text;
pub use value::{parse_port, port_text};
