//! Bridges (linux/if_link.h, `IFLA_BR_*`).

use linerate_sys::netlink::{Body, CREATE};

use super::{Netlink, NetlinkError, link_message};

/// linux/if_link.h.
const IFLA_BR_MCAST_SNOOPING: u16 = 23;

impl Netlink {
    /// Makes a bridge, set down, in this socket's namespace. Multicast snooping is off: the bridge says nothing unasked.
    ///
    /// # Errors
    /// `EEXIST` when the name is taken, `EOPNOTSUPP` when the kernel has no bridge, `EPERM` without CAP_NET_ADMIN.
    pub fn create_bridge(&mut self, name: &str) -> Result<(), NetlinkError> {
        let data = Body::default().with(IFLA_BR_MCAST_SNOOPING, &[0]);
        let info = Body::default().with(libc::IFLA_INFO_KIND, b"bridge").with_body(libc::IFLA_INFO_DATA, data);
        let message = link_message(0).with_text(libc::IFLA_IFNAME, name).with_body(libc::IFLA_LINKINFO, info);
        let action = format!("create the bridge {name}");
        self.request(&action, libc::RTM_NEWLINK, CREATE, &message)
    }

    /// Makes an interface a port of a bridge, both by index.
    ///
    /// # Errors
    /// `EBUSY` when it is another's, `EPERM` without CAP_NET_ADMIN.
    pub fn add_to_bridge(&mut self, interface: u32, bridge: u32) -> Result<(), NetlinkError> {
        let message = link_message(interface).with_u32(libc::IFLA_MASTER, bridge);
        let action = format!("make interface {interface} a port of bridge {bridge}");
        self.request(&action, libc::RTM_SETLINK, 0, &message)
    }
}
