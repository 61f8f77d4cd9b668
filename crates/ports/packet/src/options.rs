//! The options of `packet:`, taken from a port name.

use linerate_port::{PortSpec, SpecError};

use crate::sys::{PAGE_BYTES, RingShape};

/// The names of all options, for error messages.
pub(crate) const NAMES: &[&str] =
    &["ring", "retire", "prompt", "promisc", "fanout", "qdisc", "refused", "tx_only", "rx_only"];

/// Bytes of the receive ring unless `ring=` says otherwise: at 1 Mpps of 64-byte frames 110 ms of them, and four such
/// ports and a pool stay under 100 MB.
const RING_BYTES_DEFAULT: u64 = 16 << 20;
const RING_BYTES_MIN: u64 = 64 << 10;
const RING_BYTES_MAX: u64 = 1 << 30;

/// Blocks that a ring is cut into where it is large enough. A reader may sleep for `BLOCKS * retire` before packets that
/// come one by one fill the ring (a second).
const BLOCKS: u64 = 128;

/// Milliseconds after which a block is handed over half full: how long a packet may wait for its reader. Waking up is what a
/// reader of less than a million packets a second mostly pays for (about 20 us each time on a virtual machine), so this
/// is long; who answers packets wants none (`prompt`).
const RETIRE_MS_DEFAULT: u64 = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub receives: bool,
    pub transmits: bool,
    pub ring_bytes: u64,
    pub retire_ms: u32,
    /// Packets are handed over one by one, at once.
    pub prompt: bool,
    pub promiscuous: bool,
    pub fanout: Option<Fanout>,
    /// Send through the queueing discipline.
    pub qdisc: bool,
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
            ring_bytes: ring_bytes.clamp(RING_BYTES_MIN, RING_BYTES_MAX),
            retire_ms: retire_ms.clamp(1, 1000),
            prompt: false,
            promiscuous: false,
            fanout: None,
            qdisc: false,
            drop_refused: false,
        }
    }

    /// Takes all options out of the spec; complains about any that is unknown or out of range.
    pub(crate) fn take(spec: &mut PortSpec) -> Result<Options, SpecError> {
        let ring_bytes = spec.take_number("ring", RING_BYTES_MIN, RING_BYTES_MAX)?;
        let retire_ms = spec.take_number("retire", 1, 1000)?;
        let prompt = spec.take_flag("prompt")?;
        let promiscuous = take_switch(spec, "promisc", true)?;
        let fanout = spec.take("fanout").map(|value| fanout(spec, &value)).transpose()?;
        let qdisc = spec.take_flag("qdisc")?;
        let drop_refused = match spec.take("refused").as_deref() {
            None | Some("retry") => false,
            Some("drop") => true,
            Some(other) => return Err(spec.error(format!("refused={other}: refused takes retry or drop"))),
        };
        let (tx_only, rx_only) = (spec.take_flag("tx_only")?, spec.take_flag("rx_only")?);
        spec.finish(NAMES)?;
        if tx_only && rx_only {
            return Err(spec.error("tx_only and rx_only exclude each other; leave both out to do both"));
        }
        if prompt && retire_ms.is_some() {
            return Err(
                spec.error("prompt hands over each packet at once, so there is nothing to retire; leave one out")
            );
        }
        let receive_option =
            prompt || ring_bytes.is_some() || retire_ms.is_some() || fanout.is_some() || spec.queue.is_some();
        if tx_only && receive_option {
            return Err(
                spec.error("@queue, ring, retire, prompt and fanout are about receiving; leave out tx_only, or them")
            );
        }
        if rx_only && (qdisc || drop_refused) {
            return Err(spec.error("qdisc and refused are about sending; leave out rx_only, or them"));
        }
        Ok(Options {
            receives: !tx_only,
            transmits: !rx_only,
            ring_bytes: ring_bytes.unwrap_or(RING_BYTES_DEFAULT),
            retire_ms: retire_ms.unwrap_or(RETIRE_MS_DEFAULT) as u32,
            prompt,
            promiscuous,
            fanout,
            qdisc,
            drop_refused,
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

/// A switch with a default of its own.
fn take_switch(spec: &mut PortSpec, key: &str, default: bool) -> Result<bool, SpecError> {
    match spec.take(key).as_deref() {
        None => Ok(default),
        Some("yes") => Ok(true),
        Some("no") => Ok(false),
        Some(other) => Err(spec.error(format!("{key}={other}: {key} takes yes or no"))),
    }
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
    use super::*;

    fn take(text: &str) -> Result<Options, SpecError> {
        Options::take(&mut text.parse().unwrap())
    }

    fn blocks(block_bytes: usize, blocks: usize, retire_ms: u32) -> RingShape {
        RingShape { block_bytes, blocks, retire_ms, prompt: false }
    }

    #[test]
    fn defaults_and_every_option() {
        let options = take("packet:a").unwrap();
        assert!(options.receives && options.transmits && options.promiscuous && !options.qdisc);
        assert_eq!(options.ring_shape(1518), blocks(128 << 10, 128, 8));
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
            "packet:a,qdisc,rx_only",
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
