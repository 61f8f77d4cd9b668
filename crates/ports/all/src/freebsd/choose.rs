//! The backend of a bare interface name: netmap, the only one that opens interfaces, unless the host itself uses the interface.

use linerate_mem::Pool;
use linerate_port::{OpenError, OpenOptions, PortSpec};
use linerate_sys::netdev::{self, Netdev};

use crate::backend::of;
use crate::open::{Opened, open_with};

/// Opens interface `spec.target` with netmap.
pub(crate) fn open_bare(spec: &PortSpec, options: &OpenOptions, pool: &Pool) -> Result<Opened, OpenError> {
    let named = |target: &str| PortSpec::new("netmap", target);
    let target = &spec.target;
    spec.finish(&["@"]).map_err(|_| {
        OpenError::new(spec, "options are a matter of the backend", format!("name it: {}", named(target)))
    })?;
    let device = Netdev::open(target).map_err(|error| {
        let names = netdev::names().unwrap_or_default().join(", ");
        OpenError::new(spec, error.to_string(), format!("there are {names}; or write backend:target, as in pipe:a"))
    })?;
    let chosen = match spec.options.first_queue {
        Some(queue) => named(&format!("{}-{queue}", device.name())),
        None => named(target),
    };
    if let Some(address) = netdev::addresses(target).unwrap_or_default().first() {
        let cause = format!("{target} has address {address}, and netmap would take its packets away from the host");
        return Err(OpenError::new(spec, cause, format!("{chosen} does so")));
    }
    let unknown = || OpenError::new(spec, "this program has no netmap", "");
    let device = open_with(of(&chosen).ok_or_else(unknown)?, &chosen, options, pool)?;
    Ok(Opened { device, choice: Some(format!("{chosen} (netmap opens interfaces here)")) })
}
