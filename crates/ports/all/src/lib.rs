//! Port spec text -> open port. The only crate that names backends.
#![forbid(unsafe_code)]

use linerate_mem::Pool;
use linerate_port::{OpenError, Port, PortSpec};

type Opened = Result<Box<dyn Port>, OpenError>;

/// A backend: its word in a spec, and how to open it.
struct Backend {
    name: &'static str,
    open: fn(PortSpec, &Pool) -> Opened,
}

const BACKENDS: [Backend; 6] = [
    Backend { name: "pipe", open: |spec, pool| Ok(Box::new(linerate_port_pipe::open(spec, pool)?)) },
    Backend { name: "null", open: |spec, pool| Ok(Box::new(linerate_port_null::open(spec, pool)?)) },
    Backend { name: "file", open: |spec, pool| Ok(Box::new(linerate_port_file::open(spec, pool)?)) },
    Backend { name: "packet", open: |spec, pool| Ok(Box::new(linerate_port_packet::open(spec, pool)?)) },
    Backend { name: "xdp", open: |spec, pool| Ok(Box::new(linerate_port_xdp::open(spec, pool)?)) },
    Backend { name: "xdplive", open: |spec, pool| Ok(Box::new(linerate_port_xdplive::open(spec, pool)?)) },
];

/// Backends that a bare interface name is tried with, fastest first: AF_XDP moves about twice as many small packets a core
/// as AF_PACKET, which works on every interface and with fewer capabilities.
const FOR_INTERFACES: [&str; 2] = ["xdp", "packet"];

/// Opens the port that `spec` names (grammar: `linerate_port::PortSpec`), with frames of `pool`.
///
/// # Errors
/// What is missing, and what to do.
pub fn open(spec: &str, pool: &Pool) -> Result<Box<dyn Port>, OpenError> {
    let parsed: PortSpec = spec.parse().map_err(|error: linerate_port::SpecError| {
        OpenError::new(spec, error.problem, "a port is backend:target, or an interface")
    })?;
    match &parsed.backend {
        Some(name) => open_with(name, parsed.clone(), pool),
        None => open_interface(spec, pool),
    }
}

fn open_with(name: &str, spec: PortSpec, pool: &Pool) -> Result<Box<dyn Port>, OpenError> {
    match BACKENDS.iter().find(|backend| backend.name == name) {
        Some(backend) => (backend.open)(spec, pool),
        None => {
            let known: Vec<&str> = BACKENDS.iter().map(|backend| backend.name).collect();
            Err(OpenError::new(
                &spec,
                format!("there is no backend {name}"),
                format!("backends are {}", known.join(", ")),
            ))
        }
    }
}

/// The first backend that works on the interface; if none does, the last one's complaint.
fn open_interface(spec: &str, pool: &Pool) -> Result<Box<dyn Port>, OpenError> {
    let mut complaint = None;
    for name in FOR_INTERFACES {
        match open(&format!("{name}:{spec}"), pool) {
            Ok(port) => return Ok(port),
            Err(error) => complaint = Some(error),
        }
    }
    Err(complaint.unwrap_or_else(|| OpenError::new(spec, "no backend for interfaces", "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_by_name_and_says_what_there_is() {
        let pool = Pool::new(Default::default()).unwrap();
        assert_eq!(open("null:", &pool).unwrap().caps().backend, "null");
        let refused = |spec: &str| open(spec, &pool).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused("nul:").contains("backends are pipe, null"));
        assert!(refused("pipe:a,colour=red").contains("unknown option colour"));
        assert!(refused("").contains("a port is backend:target"));
        assert!(refused("no-such-interface").contains("no-such-interface"));
    }
}
