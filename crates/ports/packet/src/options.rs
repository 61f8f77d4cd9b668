//! The options of `packet:`, taken from a port name.

use linerate_port::{PortSpec, SpecError, TxFull};
use linerate_sys::napi::DEFER_US_MAX;

use crate::sys::{PAGE_BYTES, RingShape};

/// The names of all options, for error messages.
pub(crate) const NAMES: &[&str] = &[
    "@",
    "ring",
    "retire",
    "prompt",
    "promisc",
    "fanout",
    "defer",
    "queues",
    "qdisc",
    "no_offload",
    "refused",
    "tx_only",
    "rx_only",
];

/// Bytes of the receive ring unless `ring=` says otherwise: at 1 Mpps of 64-byte frames 110 ms of them, and four such
/// ports and a pool stay under 100 MB.
const RING_BYTES_DEFAULT: u64 = 16 << 20;
const RING_BYTES_MIN: u64 = 64 << 10;
const RING_BYTES_MAX: u64 = 1 << 30;

/// Blocks that a ring is cut into where it is large enough. A reader is woken once for a block, so few are better; and it may be away for
/// `BLOCKS * retire` before packets that come one by one fill the ring (half a second), so many are.
const BLOCKS: u64 = 32;

/// Milliseconds after which a block is handed over half full: how long a packet may wait for its reader. Waking up is what a
/// reader of less than a million packets a second mostly pays for (20 to 50 us each time on a virtual machine), so this
/// is long; who answers packets wants none (`prompt`).
const RETIRE_MS_DEFAULT: u64 = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub receives: bool,
    pub transmits: bool,
    /// Sockets in each direction, which share the interface's packets if they are several.
    pub sockets: usize,
    /// Bytes of one receive ring.
    pub ring_bytes: u64,
    pub retire_ms: u32,
    /// Packets are handed over one by one, at once.
    pub prompt: bool,
    pub promiscuous: bool,
    pub fanout: Option<Fanout>,
    /// Microseconds for which the interface collects packets.
    pub defer_us: Option<u64>,
    /// Send through the queueing discipline.
    pub qdisc: bool,
    /// Checksums and the cutting of TCP segments are left to the kernel.
    pub offload: bool,
    /// A packet that the driver refuses is lost, and counted so, instead of being sent again.
    pub drop_refused: bool,
}

/// A group of sockets that share an interface's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fanout {
    pub group: u16,
    /// A `PACKET_FANOUT_*` number.
    pub mode: u32,
    pub mode_name: &'static str,
}

impl Options {
    /// Receiving only, with a ring of about this size.
    pub(crate) fn for_ring(ring_bytes: u64, retire_ms: u32) -> Options {
        Options {
            receives: true,
            transmits: false,
            sockets: 1,
            ring_bytes: ring_bytes.clamp(RING_BYTES_MIN, RING_BYTES_MAX),
            retire_ms: retire_ms.clamp(1, 1000),
            prompt: false,
            promiscuous: false,
            fanout: None,
            defer_us: None,
            qdisc: false,
            offload: false,
            drop_refused: false,
        }
    }

    /// Takes all options out of the spec; complains about any that is unknown or out of range.
    pub(crate) fn take(spec: &mut PortSpec) -> Result<Options, SpecError> {
        let ring_bytes = spec.take_number("ring", RING_BYTES_MIN, RING_BYTES_MAX)?;
        let retire_ms = spec.take_number("retire", 1, 1000)?;
        let fanout = spec.take("fanout").map(|value| fanout(spec, &value)).transpose()?;
        let defer_us = spec.take_number("defer", 1, DEFER_US_MAX)?;
        let qdisc = spec.take_flag("qdisc")?;
        let offload = !spec.take_flag("no_offload")?;
        spec.finish(NAMES)?;
        let asked = &spec.options;
        let prompt = asked.low_latency == Some(true) && retire_ms.is_none();
        if spec.wrote("prompt") && asked.low_latency == Some(true) && retire_ms.is_some() {
            return Err(
                spec.error("prompt hands over each packet at once, so there is nothing to retire; leave one out")
            );
        }
        let receive_option = ring_bytes.is_some() || retire_ms.is_some() || fanout.is_some() || defer_us.is_some();
        if spec.wrote("tx_only") && !asked.receives() && (receive_option || spec.wrote("@") || spec.wrote("prompt")) {
            return Err(spec.error(
                "@queue, ring, retire, prompt, fanout and defer are about receiving; leave out tx_only, or them",
            ));
        }
        if spec.wrote("rx_only") && !asked.transmits() && (qdisc || !offload || spec.wrote("refused")) {
            return Err(spec.error("qdisc, no_offload and refused are about sending; leave out rx_only, or them"));
        }
        let sockets = asked.ports();
        let share = asked.ring_bytes.map(|bytes| (bytes / sockets as u64).clamp(RING_BYTES_MIN, RING_BYTES_MAX));
        Ok(Options {
            receives: asked.receives(),
            transmits: asked.transmits(),
            sockets,
            ring_bytes: ring_bytes.or(share).unwrap_or(RING_BYTES_DEFAULT),
            retire_ms: retire_ms.unwrap_or(RETIRE_MS_DEFAULT) as u32,
            prompt,
            promiscuous: asked.promiscuous.unwrap_or(true),
            fanout,
            defer_us,
            qdisc,
            offload,
            drop_refused: asked.tx_full == Some(TxFull::Drop),
        })
    }

    /// The ring cut into blocks, each with room for a packet of `frame_len_max` bytes.
    pub(crate) fn ring_shape(&self, frame_len_max: usize) -> RingShape {
        // Block header, packet header and padding, tags.
        const OVERHEAD: u64 = 512;
        const PAGE: u64 = PAGE_BYTES as u64;
        let longest = (frame_len_max as u64 + OVERHEAD).next_power_of_two();
        if self.prompt {
            let pages = (self.ring_bytes / longest.max(PAGE)).max(2);
            let blocks = pages * longest.max(PAGE) / longest;
            return RingShape { block_bytes: longest as usize, blocks: blocks as usize, retire_ms: 0, prompt: true };
        }
        let least = longest.max(PAGE);
        let block_bytes = previous_power_of_two(self.ring_bytes / BLOCKS).max(least);
        let blocks = (self.ring_bytes / block_bytes).max(2);
        RingShape {
            block_bytes: block_bytes as usize,
            blocks: blocks as usize,
            retire_ms: self.retire_ms,
            prompt: false,
        }
    }
}

fn previous_power_of_two(number: u64) -> u64 {
    if number == 0 { 1 } else { 1 << number.ilog2() }
}

/// Modes of sharing, by the names that `fanout=` takes.
const MODES: &[(&str, u32)] = &[
    ("hash", libc::PACKET_FANOUT_HASH),
    ("lb", libc::PACKET_FANOUT_LB),
    ("cpu", libc::PACKET_FANOUT_CPU),
    ("qm", libc::PACKET_FANOUT_QM),
];

fn fanout(spec: &PortSpec, value: &str) -> Result<Fanout, SpecError> {
    let (group, mode) = value.split_once(':').unwrap_or((value, "hash"));
    let known = MODES.iter().find(|(name, _)| *name == mode);
    match (group.parse(), known) {
        (Ok(group), Some(&(mode_name, mode))) => Ok(Fanout { group, mode, mode_name }),
        _ => Err(spec.error(format!(
            "fanout={value}: write fanout=GROUP or fanout=GROUP:MODE, GROUP from 0 to 65535, MODE one of hash, lb, cpu, qm"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use linerate_port::OpenOptions;

    use super::*;

    fn take(text: &str) -> Result<Options, SpecError> {
        Options::take(&mut text.parse()?)
    }

    fn blocks(block_bytes: usize, blocks: usize, retire_ms: u32) -> RingShape {
        RingShape { block_bytes, blocks, retire_ms, prompt: false }
    }

    #[test]
    fn defaults_and_every_option() {
        let options = take("packet:a").unwrap();
        assert!(options.receives && options.transmits && options.promiscuous && !options.qdisc);
        assert_eq!(options.ring_shape(1518), blocks(512 << 10, 32, 16));
        let options = take("packet:a@1,ring=65536,retire=1,promisc=no,fanout=7:lb,rx_only").unwrap();
        assert!(!options.transmits && !options.promiscuous);
        assert_eq!(options.fanout, Some(Fanout { group: 7, mode: 1, mode_name: "lb" }));
        assert_eq!(options.ring_shape(1518), blocks(4096, 16, 1));
        // A block always has room for the longest packet, even if the ring grows for that.
        assert_eq!(options.ring_shape(65_549), blocks(128 << 10, 2, 1));
        // One packet a block: its size is that of the longest packet, whole pages of them.
        let single = |block_bytes, blocks| RingShape { block_bytes, blocks, retire_ms: 0, prompt: true };
        let options = take("packet:a,prompt").unwrap();
        assert_eq!((options.ring_shape(1518), options.ring_shape(9018)), (single(2048, 8192), single(16_384, 1024)));
        assert_eq!(take("packet:a,prompt,ring=70000").unwrap().ring_shape(1518), single(2048, 34));
        assert!(take("packet:a,qdisc,tx_only").unwrap().qdisc);
        assert!(take("packet:a").unwrap().offload && !take("packet:a,no_offload").unwrap().offload);
        assert_eq!(take("packet:a,queues=3").unwrap().sockets, 3);
        assert_eq!(take("packet:a,defer=200").unwrap().defer_us, Some(200));
    }

    #[test]
    fn what_a_program_asks_for_gives_way_to_what_the_user_wrote() {
        let narrowed = |text: &str, asked: &OpenOptions| {
            let mut spec: PortSpec = text.parse().unwrap();
            spec.options = spec.options.or(asked);
            Options::take(&mut spec).unwrap()
        };
        let (transmit, low_latency) = (OpenOptions::transmit(), OpenOptions::low_latency());
        assert!(!narrowed("packet:a,ring=99999", &transmit).receives);
        assert!(!narrowed("packet:a,qdisc", &OpenOptions::receive()).transmits);
        assert!(narrowed("packet:a", &low_latency).prompt && !narrowed("packet:a,retire=4", &low_latency).prompt);
        let rings = OpenOptions { ring_bytes: Some(1 << 20), threads: Some(4), ..OpenOptions::receive() };
        assert_eq!(narrowed("packet:a", &rings).ring_bytes, 1 << 18);
        assert_eq!(narrowed("packet:a,ring=65536", &rings).ring_bytes, 65_536);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in [
            "packet:a,ring=1",
            "packet:a,fanout=x",
            "packet:a,fanout=1:best",
            "packet:a,fanout=65536",
            "packet:a,promisc=maybe",
            "packet:a,tx_only,rx_only",
            "packet:a@0,tx_only",
            "packet:a,fanout=1,tx_only",
            "packet:a,defer=0",
            "packet:a,defer=100,tx_only",
            "packet:a,qdisc,rx_only",
            "packet:a,no_offload,rx_only",
            "packet:a,prompt,retire=1",
            "packet:a,prompt,tx_only",
            "packet:a,refused=maybe",
            "packet:a,refused=drop,rx_only",
            "packet:a,rings=5",
        ] {
            assert!(take(bad).is_err(), "{bad}");
        }
    }
}
