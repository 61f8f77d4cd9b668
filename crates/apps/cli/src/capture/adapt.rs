//! What was asked for, as a kind of port takes it: options of its name, frames for its ring.

use linerate_capture::holds_ns;
use linerate_mem::{Pool, PoolConfig};
use linerate_port::PortSpec;

use super::open::Wishes;
use crate::traffic::open;

/// Frames of a pool beside those of a ring: batches, and what a pool keeps at hand for each thread.
const FRAMES_SPARE: usize = 4096;
/// What `buffer=` of `pcap:` takes, and `ring=` of `xdp:`.
const PCAP_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 30;
const XDP_ENTRIES: std::ops::RangeInclusive<u64> = 64..=1 << 20;

/// Room in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// All of it, in bytes.
    pub bytes: u64,
    /// Bytes that a packet takes beside its own.
    beside: u64,
    /// Bytes that a packet takes at most; those of a frame, where each packet takes a whole one, are `beside` it.
    packet_max: u64,
}

impl Room {
    /// In the ring of an AF_PACKET socket, version 3. tpacket_rcv() of net/packet/af_packet.c: the packet begins at
    /// TPACKET_ALIGN(48 + 20 + 16) - 14 = 82 behind the start of its header, and the next header is at a multiple of 8.
    pub(super) fn of_ring(bytes: u64) -> Room {
        Room { bytes, beside: 86, packet_max: u64::MAX }
    }

    /// Of frames, one for each packet.
    fn of_frames(frames: u64, frame_bytes: u64) -> Room {
        Room { bytes: frames * frame_bytes, beside: frame_bytes, packet_max: 0 }
    }

    /// How long `rings` of them hold what comes at this rate if nobody reads, in nanoseconds; `None` when nothing comes.
    pub fn holds_ns(&self, rings: u64, pps: f64, bytes_ps: f64, snaplen: u32) -> Option<u64> {
        let packet = (bytes_ps / pps.max(1e-9)).min(self.packet_max as f64).min(f64::from(snaplen));
        holds_ns(self.bytes * rings, pps * (packet + self.beside as f64))
    }
}

/// A port's name with what is asked for, and the pool for it.
pub(super) struct Adapted {
    pub spec: PortSpec,
    pub pool: Pool,
    pub room: Option<Room>,
}

/// Adds what the user asked for to the port's name, where that kind of port knows it and the name does not say it already.
pub(super) fn adapt(spec: &PortSpec, wishes: &Wishes, rings: u64) -> Result<Adapted, String> {
    let mut text = spec.to_string();
    let given = |key: &str| spec.options.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
    let backend = spec.backend.as_deref().unwrap_or_default();
    if matches!(backend, "packet" | "xdp" | "pcap") && !wishes.promiscuous && given("promisc").is_none() {
        text += ",promisc=no";
    }
    if let ("pcap", Some(filter)) = (backend, &wishes.filter) {
        if given("filter").is_some() {
            return Err(format!("{spec} has a filter; leave --filter out"));
        }
        text += &format!(",filter={}", escaped(filter));
    }
    let frame_bytes = open::frame_bytes(spec) as u64;
    let (mut room, mut extra) = (None, FRAMES_SPARE);
    match (backend, given("ring"), given("buffer")) {
        ("pcap", _, None) => {
            let bytes = wishes.ring_bytes.clamp(*PCAP_BYTES.start(), *PCAP_BYTES.end());
            text += &format!(",buffer={bytes}");
            room = Some(Room::of_ring(bytes));
        }
        ("packet", None, _) => {
            text += &format!(",ring={}", wishes.ring_bytes);
            room = Some(Room::of_ring(wishes.ring_bytes));
        }
        ("pcap", _, Some(bytes)) | ("packet", Some(bytes), _) => room = bytes.parse().ok().map(Room::of_ring),
        ("xdp", written, _) => {
            let entries = match written.as_deref().map(str::parse::<u64>) {
                None => {
                    let entries =
                        (wishes.ring_bytes / rings / frame_bytes).clamp(*XDP_ENTRIES.start(), *XDP_ENTRIES.end());
                    text += &format!(",ring={}", 1u64 << entries.ilog2());
                    1 << entries.ilog2()
                }
                // What is no number is the port's to complain about.
                Some(number) => number.unwrap_or(*XDP_ENTRIES.start()).min(*XDP_ENTRIES.end()),
            };
            room = Some(Room::of_frames(entries, frame_bytes));
            // The port lends half of the pool's frames to the kernel.
            extra += 2 * entries as usize;
        }
        _ => {}
    }
    let spec: PortSpec = text.parse().map_err(|error: linerate_port::SpecError| error.to_string())?;
    let config = PoolConfig { frames: FRAMES_SPARE + extra, frame_size: frame_bytes as usize };
    let pool = match linerate_ports::pool_for(&text, config).map_err(|error| error.to_string())? {
        Some(own) => own,
        None => Pool::new(config).map_err(|error| format!("{spec}: {error}"))?,
    };
    Ok(Adapted { spec, pool, room })
}

/// As an option's value in a port's name.
fn escaped(value: &str) -> String {
    let escape = |letter| [Some('\\').filter(|_| matches!(letter, ',' | '\\')), Some(letter)];
    value.chars().flat_map(escape).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_survives_the_name_of_a_port() {
        for filter in ["udp", "host 192.0.2.1 or (tcp[0:2] = 5, 6)", "a\\b,,\\", "x@y:z=1"] {
            let spec: PortSpec = format!("pcap:eth0,filter={}", escaped(filter)).parse().unwrap();
            assert_eq!(spec.options, [("filter".to_string(), filter.to_string())]);
        }
    }

    #[test]
    fn a_ring_holds_packets_with_what_stands_around_them() {
        let ring = Room::of_ring(1_464_000);
        // 60 bytes and 86 around them: 10,000 packets a second are 1.46 MB.
        assert_eq!(ring.holds_ns(1, 10_000.0, 600_000.0, 262_144).map(|ns| ns / 1_000_000), Some(1002));
        assert_eq!(ring.holds_ns(2, 10_000.0, 15_000_000.0, 60).map(|ns| ns / 1_000_000), Some(2005));
        assert_eq!(Room::of_frames(1024, 2048).holds_ns(1, 1024.0, 1.0, 9), Some(1_000_000_000));
        assert_eq!(ring.holds_ns(1, 0.0, 0.0, 9), None);
    }
}
