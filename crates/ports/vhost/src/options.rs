//! What a port's name says.

use std::path::PathBuf;

use linerate_port::{OpenError, PortSpec, SpecError};

/// Queue pairs at most.
const QUEUE_PAIRS_MAX: u32 = 64;
/// Smallest MTU of IPv4, and the largest that virtio-net knows.
const MTU_MIN: u64 = 68;
const MTU_MAX: u64 = 65_521;
const KNOWN: [&str; 4] = ["role", "queues", "mtu", "mode"];

/// A spec, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub path: PathBuf,
    /// The front-end listens, and this side connects.
    pub client: bool,
    pub queue_pairs: usize,
    /// Bytes.
    pub mtu: usize,
    /// Rights of the socket.
    pub mode: u32,
}

impl Options {
    pub(crate) fn read(mut spec: PortSpec) -> Result<Options, OpenError> {
        if spec.target.is_empty() {
            return Err(OpenError::new(
                &spec,
                "names no socket",
                "write vhost:PATH, where virtual machines will find it",
            ));
        }
        read(&mut spec).map_err(|error| OpenError::new(&spec, error.problem, ""))
    }
}

fn read(spec: &mut PortSpec) -> Result<Options, SpecError> {
    let client = spec.take_choice("role", &[("server", false), ("client", true)])?;
    let queue_pairs = spec.queues_up_to(QUEUE_PAIRS_MAX)?.unwrap_or(1) as usize;
    let mtu = spec.take_number("mtu", MTU_MIN, MTU_MAX)?.unwrap_or(1500) as usize;
    let mode = match spec.take("mode") {
        None => 0o600,
        Some(_) if client => return Err(spec.error("mode is for a socket that this side makes, not for role=client")),
        Some(text) => match u32::from_str_radix(&text, 8) {
            Ok(mode) if mode <= 0o777 && mode & 0o600 == 0o600 => mode,
            _ => return Err(spec.error(format!("mode={text}: mode takes rights as chmod does, from 600 to 777"))),
        },
    };
    spec.finish(&KNOWN)?;
    Ok(Options { path: spec.target.clone().into(), client, queue_pairs, mtu, mode })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let read = |text: &str| {
            let parsed = text.parse().map_err(|error: SpecError| OpenError::new(text, error.problem, ""));
            parsed.and_then(Options::read)
        };
        let plain = Options { path: "/tmp/a".into(), client: false, queue_pairs: 1, mtu: 1500, mode: 0o600 };
        assert_eq!(read("vhost:/tmp/a,role=server").unwrap(), plain);
        let all = Options { client: true, queue_pairs: 4, mtu: 9000, ..plain.clone() };
        assert_eq!(read("vhost:/tmp/a,role=client,queues=4,mtu=9000").unwrap(), all);
        assert_eq!(read("vhost:/tmp/a,mode=666").unwrap(), Options { mode: 0o666, ..plain });
        for bad in [
            "vhost:",
            "vhost:/a@1",
            "vhost:/a,role=x",
            "vhost:/a,queues=0",
            "vhost:/a,mtu=67",
            "vhost:/a,mode=400",
            "vhost:/a,mode=1777",
            "vhost:/a,role=client,mode=600",
            "vhost:/a,ring=1",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
