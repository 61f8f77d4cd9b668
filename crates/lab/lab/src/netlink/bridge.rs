//! Bridges (linux/if_link.h, `IFLA_BR_*`).

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoBridge, InfoData, InfoKind, LinkAttribute, LinkInfo};

use super::{Netlink, NetlinkError, link_message};

impl Netlink {
    /// Makes a bridge, set down, in this socket's namespace. Multicast snooping is off: the bridge says nothing unasked.
    ///
    /// # Errors
    /// `EEXIST` when the name is taken, `EOPNOTSUPP` when the kernel has no bridge, `EPERM` without CAP_NET_ADMIN.
    pub fn create_bridge(&mut self, name: &str) -> Result<(), NetlinkError> {
        let mut message = link_message(0);
        let data = InfoData::Bridge(vec![InfoBridge::MulticastSnooping(false)]);
        let info = vec![LinkInfo::Kind(InfoKind::Bridge), LinkInfo::Data(data)];
        message.attributes = vec![LinkAttribute::IfName(name.to_owned()), LinkAttribute::LinkInfo(info)];
        let action = format!("create the bridge {name}");
        self.request(&action, RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Makes an interface a port of a bridge, both by index.
    ///
    /// # Errors
    /// `EBUSY` when it is another's, `EPERM` without CAP_NET_ADMIN.
    pub fn add_to_bridge(&mut self, interface: u32, bridge: u32) -> Result<(), NetlinkError> {
        let mut message = link_message(interface);
        message.attributes.push(LinkAttribute::Controller(bridge));
        let action = format!("make interface {interface} a port of bridge {bridge}");
        self.request(&action, RouteNetlinkMessage::SetLink(message), 0)
    }
}
