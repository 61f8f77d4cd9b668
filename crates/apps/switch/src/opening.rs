//! From words to open ports: specs, and the memory that they share.

use linerate_mem::{Pool, PoolConfig};
use linerate_port::{FarSide, OnCorrupt, OpenOptions, PortSpec};
use linerate_ports::{FRAME_LEN_MAX, Opened};

use crate::config::Config;
use crate::protocol::Refusal;

/// Most ports of a switch that was not told, those it starts with aside.
const PORTS_MORE: usize = 8;
/// Frames for a port on an interface: rings to ride out a pause of its reader or writer.
const FRAMES_INTERFACE: usize = 3072;
/// Frames for another port: a full egress queue, a batch, and what its threads keep in hand.
const FRAMES_OTHER: usize = 1024;
/// Memory for the frames of a port; of larger frames there are fewer.
const PORT_BYTES_MAX: usize = 6 << 20;

/// Most ports that the switch is to have.
pub(crate) fn ports_max(config: &Config) -> usize {
    let given = config.ports.len() + config.mirrors.len();
    config.ports_max.unwrap_or(given + PORTS_MORE).max(given).max(1)
}

/// The memory of all ports.
pub(crate) fn pool(config: &Config) -> Result<Pool, Refusal> {
    let specs: Vec<PortSpec> = config.ports.iter().filter_map(|port| port.spec.parse().ok()).collect();
    let interfaces = specs.iter().filter(|spec| linerate_ports::far_side(spec) == FarSide::Interface).count();
    let others = ports_max(config).saturating_sub(interfaces);
    if config.frame_len_max.is_some_and(|longest| longest > FRAME_LEN_MAX) {
        let cause = format!("packets of {} bytes are too long for a frame", config.frame_len_max.unwrap_or(0));
        return Err(Refusal::new(cause, format!("the most is {FRAME_LEN_MAX}")));
    }
    let longest = config.frame_len_max.unwrap_or_else(|| linerate_ports::len_max(&specs));
    let frame_size = linerate_ports::frame_bytes(&specs, longest);
    let fitting = |frames: usize| frames.min(PORT_BYTES_MAX / frame_size);
    let frames = fitting(FRAMES_INTERFACE) * interfaces + fitting(FRAMES_OTHER) * others;
    let pool = Pool::new(PoolConfig { frames, frame_size });
    pool.map_err(|error| Refusal::new(error.to_string(), "fewer ports (--ports-max) need less"))
}

/// Opens a port of the switch. A port that listens takes the next peer after one that broke the protocol.
pub(crate) fn open(spec: &str, pool: &Pool) -> Result<Opened, Refusal> {
    opened(spec, &OpenOptions { on_corrupt: Some(OnCorrupt::NextPeer), ..OpenOptions::low_latency() }, pool)
}

/// Opens what a mirror copies to: a file is written.
pub(crate) fn open_mirror(spec: &str, pool: &Pool) -> Result<Opened, Refusal> {
    opened(spec, &OpenOptions::transmit(), pool)
}

fn opened(spec: &str, options: &OpenOptions, pool: &Pool) -> Result<Opened, Refusal> {
    let opened = linerate_ports::parse(spec).and_then(|spec| linerate_ports::open_device(&spec, options, pool));
    opened.map_err(|error| Refusal::new(format!("cannot open {}: {}", error.spec, error.cause), error.hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(specs: &[&str]) -> Config {
        let mut config = Config::default();
        specs.iter().for_each(|spec| config.add_port(spec).unwrap());
        config
    }

    #[test]
    fn a_port_takes_less_than_8_megabytes() {
        for specs in [&["pipe:a", "pipe:b"][..], &["tap:a"], &["memif:/x", "xdp:lo", "packet:lo"], &[]] {
            let config = Config { ports_max: Some(specs.len().max(1)), ..config(specs) };
            let pool = pool(&config).unwrap();
            assert!(
                pool.region().bytes() <= ports_max(&config) * (8 << 20) && pool.region().frames() >= 256,
                "{specs:?}: {}",
                pool.region().bytes()
            );
        }
    }

    #[test]
    fn frames_hold_what_is_asked_for() {
        let jumbo = Config { frame_len_max: Some(9018), ..config(&["pipe:a"]) };
        assert!(pool(&jumbo).unwrap().packet_len_max() >= 9018);
        let mtu = pool(&config(&["tap:linerate-none,mtu=9000"])).unwrap();
        assert!(mtu.packet_len_max() >= 9014);
        assert_eq!(pool(&config(&["xdp:linerate-none,mtu=9000"])).unwrap().region().frame_size(), 4096);
        assert!(pool(&Config { frame_len_max: Some(40_000), ..Config::default() }).is_err());
    }

    #[test]
    fn a_listening_port_survives_its_peers() {
        let folder = tempfile::tempdir().unwrap();
        let pool = Pool::new(PoolConfig::default()).unwrap();
        let survives = |options: &str| {
            let port = open(&format!("memif:{}{options}", folder.path().join("x.sock").display()), &pool).unwrap();
            port.device.caps().survives_peers
        };
        assert!(survives(""));
        assert!(!survives(",corrupt=close") && !survives(",role=client"));
        assert!(!open("null:", &pool).unwrap().device.caps().survives_peers);
    }
}
