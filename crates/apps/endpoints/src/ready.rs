//! Waits until the addresses of a stack can be used: nobody else has them, and those that are asked for have come.

use std::net::IpAddr;

use linerate_control::{ControlError, StartError, View, refused};
use linerate_ip::{AddressState, Event};
use linerate_programs::{OverStack, Reports};
use linerate_sys::clock;
use linerate_tcp::Sharded;

use crate::stack::NetworkConfig;

/// How long addresses may take.
const WAIT_NS: u64 = 20_000_000_000;
/// Time between two looks.
const LOOK_NS: u64 = 10_000_000;
/// After this time the user is told what is waited for.
const SAY_NS: u64 = 1_500_000_000;

/// What is known of the addresses.
#[derive(Default)]
pub(crate) struct HostAddresses {
    tentative: Option<IpAddr>,
    duplicate: Option<(IpAddr, String)>,
    pub(crate) v4: bool,
    /// An IPv6 address that is not link-local.
    pub(crate) v6: bool,
    /// Those that DHCP or a router gave, with the bits of their prefixes.
    pub(crate) given: Vec<(IpAddr, u8)>,
    /// Name servers that DHCP or a router told.
    pub(crate) name_servers: Vec<IpAddr>,
}

/// Waits, and tells what there is then; `say` gets a line if that takes its time.
///
/// # Errors
/// Somebody else has an address, no DHCP server or no router answers.
pub(crate) fn wait<P: Reports>(
    view: &View<Sharded<OverStack<P>>>,
    network: &NetworkConfig,
    say: &dyn Fn(&str),
) -> Result<HostAddresses, StartError> {
    let mut name_servers = Vec::new();
    let began_ns = clock::now_ns();
    let end_ns = began_ns + WAIT_NS;
    let mut said = String::new();
    loop {
        let found = view.call(|worker| worker.datapath.with(clock::now_ns(), |_, io| look(io.ip())));
        let mut found = found.map_err(refused("the stack"))?;
        name_servers.append(&mut found.name_servers);
        let wrong = |cause: String, hint: &str| refused("the addresses")(ControlError::new(cause, hint));
        if let Some((address, owner)) = found.duplicate {
            let cause = format!("{owner} on this link has {address} already");
            return Err(wrong(cause, "give the stack another address, or --no-dad if the two never meet"));
        }
        if found.tentative.is_none() && (found.v4 || !network.dhcp) && (found.v6 || !network.slaac) {
            let given = if network.dhcp || network.slaac { std::mem::take(&mut found.given) } else { Vec::new() };
            let is_given = |address: &IpAddr| network.all_addresses().all(|configured| configured != *address);
            let given = given.into_iter().filter(|(address, _)| is_given(address)).collect();
            return Ok(HostAddresses { name_servers, given, ..found });
        }
        let now_ns = clock::now_ns();
        if now_ns >= end_ns {
            return Err(match found.tentative {
                Some(address) => wrong(format!("{address} is still being probed for"), "is the link of the port up?"),
                None if !found.v4 && network.dhcp => wrong("no DHCP server answered".into(), "give an address"),
                None => wrong("no router advertised a prefix".into(), "give an address"),
            });
        }
        let waits_for = match found.tentative {
            Some(address) => format!("asking whether somebody else has {address}, for some 5 s (--no-dad: not at all)"),
            None if !found.v4 && network.dhcp => "waiting for a DHCP server".into(),
            None => "waiting for a router that advertises a prefix".into(),
        };
        if now_ns >= began_ns + SAY_NS && said != waits_for {
            say(&waits_for);
            said = waits_for;
        }
        clock::sleep_until_ns(now_ns + LOOK_NS);
    }
}

fn look(ip: &mut linerate_ip::Ip) -> HostAddresses {
    let mut found = HostAddresses::default();
    while let Some(event) = ip.next_event() {
        match event {
            Event::AddressDuplicate(address, owner) => found.duplicate = Some((address, owner.to_string())),
            Event::NameServer(server) => found.name_servers.push(server),
            _ => {}
        }
    }
    for (address, prefix_len, state) in ip.addresses() {
        if !matches!(address, IpAddr::V6(address) if address.is_unicast_link_local()) {
            found.given.push((address, prefix_len));
        }
        match (state, address) {
            (AddressState::Tentative, _) => found.tentative = Some(address),
            (AddressState::Duplicate, _) => {
                found.duplicate.get_or_insert_with(|| (address, "somebody".into()));
            }
            (_, IpAddr::V4(_)) => found.v4 = true,
            (_, IpAddr::V6(address)) => found.v6 |= !address.is_unicast_link_local(),
        }
    }
    found
}
