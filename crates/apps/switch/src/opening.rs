//! From words to open ports: specs, and the memory that they share.

use linerate_mem::{Pool, PoolConfig};
use linerate_port::{Port, PortSpec};
use linerate_ports::Usage;
use linerate_sys::netdev::Netdev;

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
/// Bytes that a pool keeps in front of packets, at most, to spread them over cache lines.
const SPREAD: usize = 448;
/// Header, FCS' place and two VLAN tags on top of an MTU.
const HEADERS: usize = 26;
/// Longest packet that a frame can hold.
const FRAME_LEN_MAX: usize = 32_768 - SPREAD;

/// Most ports that the switch is to have.
pub(crate) fn ports_max(config: &Config) -> usize {
    let given = config.ports.len() + config.mirrors.len();
    config.ports_max.unwrap_or(given + PORTS_MORE).max(given).max(1)
}

/// The memory of all ports.
pub(crate) fn pool(config: &Config) -> Result<Pool, Refusal> {
    let specs: Vec<PortSpec> = config.ports.iter().filter_map(|port| port.spec.parse().ok()).collect();
    let interfaces = specs.iter().filter(|spec| on_interface(spec)).count();
    let others = ports_max(config).saturating_sub(interfaces);
    let longest = config.frame_len_max.unwrap_or_else(|| longest(&specs));
    if config.frame_len_max.is_some_and(|longest| longest > FRAME_LEN_MAX) {
        let cause = format!("packets of {longest} bytes are too long for a frame");
        return Err(Refusal::new(cause, format!("the most is {FRAME_LEN_MAX}")));
    }
    // AF_XDP takes frames of a page at most; longer packets go over several.
    let most = if interfaces > 0 { 4096 } else { 32_768 };
    let frame_size = (longest + SPREAD).next_power_of_two().clamp(2048, most);
    let fitting = |frames: usize| frames.min(PORT_BYTES_MAX / frame_size);
    let frames = fitting(FRAMES_INTERFACE) * interfaces + fitting(FRAMES_OTHER) * others;
    let pool = Pool::new(PoolConfig { frames, frame_size });
    pool.map_err(|error| Refusal::new(error.to_string(), "fewer ports (--ports-max) need less"))
}

fn on_interface(spec: &PortSpec) -> bool {
    matches!(spec.backend.as_deref(), None | Some("xdp" | "packet" | "pcap" | "tap"))
}

/// Longest packet that the interfaces among them carry, in bytes.
fn longest(specs: &[PortSpec]) -> usize {
    let mtu = |spec: &&PortSpec| Netdev::open(&spec.target).and_then(|device| device.mtu()).ok();
    let given = |spec: &PortSpec| spec.clone().take("mtu").and_then(|mtu| mtu.parse::<u32>().ok());
    let mtus = specs.iter().filter(|spec| on_interface(spec)).filter_map(|spec| given(spec).or_else(|| mtu(&spec)));
    mtus.map(|mtu| mtu as usize + HEADERS).fold(1500 + HEADERS, usize::max)
}

/// Opens a port of the switch. Returns it, and which backend a bare interface got.
pub(crate) fn open(spec: &str, pool: &Pool) -> Result<(Box<dyn Port>, Option<String>), Refusal> {
    let spec = with_peers_forgiven(spec);
    let opened = linerate_ports::open_for(&spec, pool, Usage::LowLatency);
    let opened =
        opened.map_err(|error| Refusal::new(format!("cannot open {}: {}", error.spec, error.cause), error.hint))?;
    Ok((opened.port, opened.choice))
}

/// Opens what a mirror copies to: a file is written.
pub(crate) fn open_mirror(spec: &str, pool: &Pool) -> Result<(Box<dyn Port>, Option<String>), Refusal> {
    let is = |spec: &PortSpec, key: &str| spec.options.iter().any(|(name, _)| name == key);
    match spec.parse::<PortSpec>() {
        Ok(parsed) if parsed.backend.as_deref() == Some("file") && !is(&parsed, "write") => {
            open(&format!("{spec},write"), pool)
        }
        _ => open(spec, pool),
    }
}

/// A port that listens takes the next peer after one that broke the protocol, where the backend can.
fn with_peers_forgiven(spec: &str) -> String {
    match spec.parse::<PortSpec>() {
        Ok(parsed) if is_memif_server(&parsed) && !parsed.options.iter().any(|(key, _)| key == "corrupt") => {
            format!("{spec},corrupt=next")
        }
        _ => spec.into(),
    }
}

fn is_memif_server(spec: &PortSpec) -> bool {
    let client = spec.options.iter().any(|(key, value)| key == "role" && value == "client");
    spec.backend.as_deref() == Some("memif") && !client
}

/// Whether a port goes on by itself after a peer that broke the protocol.
pub(crate) fn forgives(spec: &str) -> bool {
    let keeps = |spec: &PortSpec| spec.options.iter().any(|(key, value)| key == "corrupt" && value != "next");
    spec.parse::<PortSpec>().is_ok_and(|spec| is_memif_server(&spec) && !keeps(&spec))
}

/// Whether a port waits for peers, so that the next one may be sound when one broke it.
pub(crate) fn listens(spec: &str) -> bool {
    spec.parse::<PortSpec>().is_ok_and(|spec| matches!(spec.backend.as_deref(), Some("memif" | "vhost")))
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
        assert_eq!(mtu.region().frame_size(), 4096);
        assert!(pool(&Config { frame_len_max: Some(40_000), ..Config::default() }).is_err());
    }

    #[test]
    fn a_listening_port_forgives_its_peers() {
        assert_eq!(with_peers_forgiven("memif:/x,id=1"), "memif:/x,id=1,corrupt=next");
        for kept in ["memif:/x,corrupt=close", "memif:/x,role=client", "tap:x", "a,,"] {
            assert_eq!(with_peers_forgiven(kept), kept);
        }
        assert!(listens("memif:/x") && listens("vhost:/x") && !listens("tap:x"));
    }
}
