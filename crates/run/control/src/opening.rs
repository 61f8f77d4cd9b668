//! Opens ports from specs, and sizes the memory that they share.

use linerate_mem::{Pool, PoolConfig};
use linerate_port::{FarSide, OnCorrupt, OpenOptions, PortSpec};
use linerate_ports::{FRAME_LEN_MAX, Opened};

use crate::protocol::ControlError;

/// Frames for a port on an interface: rings to ride out a pause of its reader or writer.
const FRAMES_INTERFACE: usize = 3072;
/// Frames for another port: a full egress queue, a batch, and what its threads keep in hand.
const FRAMES_OTHER: usize = 1024;
/// Memory for the frames of a port; of larger frames there are fewer.
const PORT_BYTES_MAX: usize = 6 << 20;

/// The ports and packets that the memory must be large enough for.
#[derive(Clone, Debug, Default)]
pub struct PoolShape {
    /// Specs of the ports that are known.
    pub specs: Vec<String>,
    /// Most ports at a time, those that are known included.
    pub ports_max: usize,
    /// Queue pairs of each port: each queue of an interface has a ring to fill.
    pub queues: usize,
    /// Longest packet in bytes, without FCS; `None`: as the interfaces have it.
    pub frame_len_max: Option<usize>,
}

/// Makes the memory of all ports.
///
/// # Errors
/// The packets are too long for a frame, or the system has no such memory.
pub fn pool(shape: &PoolShape) -> Result<Pool, ControlError> {
    let specs: Vec<PortSpec> = shape.specs.iter().filter_map(|spec| spec.parse().ok()).collect();
    let interfaces = specs.iter().filter(|spec| linerate_ports::far_side(spec) == FarSide::Interface).count();
    let others = shape.ports_max.saturating_sub(interfaces);
    let queues = shape.queues.max(1);
    let longest = shape.frame_len_max.unwrap_or_else(|| linerate_ports::len_max(&specs));
    if shape.frame_len_max.is_some() && longest > FRAME_LEN_MAX {
        let cause = format!("packets of {longest} bytes are too long for a frame");
        return Err(ControlError::new(cause, format!("the most is {FRAME_LEN_MAX}")));
    }
    let frame_size = linerate_ports::frame_bytes(&specs, longest);
    let fitting = |frames: usize| frames.min(PORT_BYTES_MAX / frame_size);
    let frames = fitting(FRAMES_INTERFACE) * interfaces * queues + fitting(FRAMES_OTHER) * others;
    let pool = Pool::new(PoolConfig { frames, frame_size });
    pool.map_err(|error| ControlError::new(error.to_string(), "fewer ports (--ports-max) need less"))
}

/// What a port of a program is opened for, with so many queue pairs where its spec does not say; `merges_segments` as in [`OpenOptions`]. A port
/// that listens takes the next peer after one that broke the protocol.
pub fn open_options(queues: Option<u32>, merges_segments: bool) -> OpenOptions {
    let merges_segments = Some(merges_segments);
    OpenOptions { queues, merges_segments, on_corrupt: Some(OnCorrupt::NextPeer), ..OpenOptions::low_latency() }
}

/// Opens a port.
pub(crate) fn open(spec: &str, options: &OpenOptions, pool: &Pool) -> Result<Opened, ControlError> {
    let opened = linerate_ports::parse(spec).and_then(|spec| linerate_ports::open_device(&spec, options, pool));
    opened.map_err(|error| ControlError::new(format!("cannot open {}: {}", error.spec, error.cause), error.hint))
}

/// Opens a port that only gets packets: a file is written.
pub(crate) fn open_output(spec: &str, pool: &Pool) -> Result<Opened, ControlError> {
    open(spec, &OpenOptions::transmit(), pool)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(specs: &[&str]) -> PoolShape {
        let specs: Vec<String> = specs.iter().map(|spec| spec.to_string()).collect();
        PoolShape { ports_max: specs.len().max(1), specs, ..PoolShape::default() }
    }

    #[test]
    fn a_port_takes_less_than_8_megabytes() {
        for specs in [&["pipe:a", "pipe:b"][..], &["tap:a"], &["memif:/x", "xdp:lo", "packet:lo"], &[]] {
            let shape = shape(specs);
            let pool = pool(&shape).unwrap();
            assert!(
                pool.region().bytes() <= shape.ports_max * (8 << 20) && pool.region().frames() >= 256,
                "{specs:?}: {}",
                pool.region().bytes()
            );
        }
    }

    #[test]
    fn frames_hold_what_is_asked_for() {
        let jumbo = PoolShape { frame_len_max: Some(9018), ..shape(&["pipe:a"]) };
        assert!(pool(&jumbo).unwrap().packet_len_max() >= 9018);
        let mtu = pool(&shape(&["tap:linerate-none,mtu=9000"])).unwrap();
        assert!(mtu.packet_len_max() >= 9014);
        assert_eq!(pool(&shape(&["xdp:linerate-none,mtu=9000"])).unwrap().region().frame_size(), 4096);
        assert!(pool(&PoolShape { frame_len_max: Some(40_000), ..shape(&[]) }).is_err());
    }

    #[test]
    fn a_listening_port_survives_its_peers() {
        let folder = tempfile::tempdir().unwrap();
        let pool = Pool::new(PoolConfig::default()).unwrap();
        let survives = |options: &str| {
            let spec = format!("memif:{}{options}", folder.path().join("x.sock").display());
            open(&spec, &open_options(None, false), &pool).unwrap().device.caps().survives_peers
        };
        assert!(survives(""));
        assert!(!survives(",corrupt=close") && !survives(",role=client"));
        assert!(!open("null:", &open_options(None, false), &pool).unwrap().device.caps().survives_peers);
    }
}
