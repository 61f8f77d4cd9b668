//! Looks up the names that a user gave, by the stack itself, before its program starts.

use std::collections::BTreeMap;
use std::net::IpAddr;

use linerate_control::{ControlError, StartError, View, refused};
use linerate_programs::{OverStack, Reports};
use linerate_sys::clock;
use linerate_tcp::Sharded;

use crate::ready::HostAddresses;
use crate::stack::NetworkConfig;

/// Time between two looks.
const LOOK_NS: u64 = 5_000_000;

/// The address of each name, of a family that the stack has an address of; the program gets to know them.
///
/// # Errors
/// No name server is known or answers, or a name has no such address.
pub(crate) fn look_up<P: Reports>(
    views: &[View<Sharded<OverStack<P>>>],
    network: &NetworkConfig,
    found: HostAddresses,
    secret: [u8; 16],
) -> Result<BTreeMap<String, IpAddr>, StartError> {
    let Some(view) = views.first().filter(|_| !network.names.is_empty()) else { return Ok(BTreeMap::new()) };
    let servers: Vec<IpAddr> = network.name_servers.iter().copied().chain(found.name_servers).collect();
    let names = network.names.clone();
    let begun = view.call(move |worker| {
        let now_ns = clock::now_ns();
        worker.datapath.with(now_ns, |app, _| app.look_up(&names, &servers, secret, now_ns))
    });
    let wrong = |name: &str, why: String| {
        let hint = "name servers are those of --dns, of DHCP and of routers; an address needs none";
        refused("the names")(ControlError::new(format!("{name}: {why}"), hint))
    };
    let all = network.names.join(", ");
    let lookups = begun.map_err(refused("the stack"))?.map_err(|error| wrong(&all, error.to_string()))?;
    let mut addresses = BTreeMap::new();
    while addresses.len() < lookups.len() {
        let answer = view.call(|worker| worker.datapath.with(clock::now_ns(), |app, _| app.next_answer()));
        let Some((id, result)) = answer.map_err(refused("the stack"))? else {
            clock::sleep_until_ns(clock::now_ns() + LOOK_NS);
            continue;
        };
        let Some(name) = lookups.iter().position(|lookup| *lookup == id).map(|at| &network.names[at]) else { continue };
        let all = result.map_err(|error| wrong(name, error.to_string()))?;
        let usable = all.into_iter().find(|address| if address.is_ipv4() { found.v4 } else { found.v6 });
        let address = usable.ok_or_else(|| wrong(name, "it has no address of a family that the stack has".into()))?;
        addresses.insert(name.clone(), address);
    }
    for view in views {
        let told = addresses.clone();
        let tell = view.call(move |worker| {
            worker.datapath.with(clock::now_ns(), |app, _| {
                told.iter().for_each(|(name, address)| app.program.resolved(name, *address));
            });
        });
        tell.map_err(refused("the stack"))?;
    }
    Ok(addresses)
}
