//! `--replay`: packets of a capture, or of any receiving port, instead of streams.

use linerate_gen::{BATCH_DEFAULT, CatchUp, ReplayPlan, Speed};
use linerate_mem::Pool;
use linerate_pcapng::ETHERNET;
use linerate_port::{Direction, FarSide, Port, PortSpec};
use linerate_streams::StreamFile;
use linerate_units::Rate;
use linerate_units::show::{count, nanoseconds};

use linerate_console::open;
use linerate_reader::packets::Packets;

/// Flags for a replay.
#[derive(clap::Args, Default)]
pub struct ReplayFlags {
    /// Sends the packets of a capture file (pcap, pcapng), or of a port, instead of streams
    #[arg(long, value_name = "FILE", help_heading = "Replay",
        conflicts_with_all = ["file", "size", "layers", "set", "vary", "flows", "id", "no_signature", "fill", "no_udp_checksum"])]
    pub replay: Option<String>,
    /// When: recorded (default), a factor as 2x or 0.5x, or full; --rate with packets per second sends at that rate
    #[arg(long, value_name = "SPEED", requires = "replay", conflicts_with = "rate", help_heading = "Replay")]
    speed: Option<String>,
    /// How often the file is sent; 0 = over and over [default: once]
    #[arg(long, value_name = "N", requires = "replay", help_heading = "Replay")]
    loops: Option<u64>,
}

/// A replay, checked.
pub struct ReplayRequest {
    /// Where the packets come from.
    pub source: PortSpec,
    /// When they go.
    pub plan: ReplayPlan,
    /// The same in words.
    pub words: String,
    /// How often a file is sent; `None` = over and over.
    loops: Option<u64>,
}

impl ReplayFlags {
    /// What is to be replayed, if anything is; `load` has the ends and the arrival.
    ///
    /// # Errors
    /// What is wrong with the flags.
    pub fn request(
        &self,
        load: &StreamFile,
        rate: Option<Rate>,
        batch: Option<usize>,
        catch_up: CatchUp,
    ) -> Result<Option<ReplayRequest>, String> {
        let Some(text) = &self.replay else { return Ok(None) };
        let speed = match rate {
            Some(Rate::PacketsPerSecond(rate_pps)) => Speed::Rate { rate_pps, arrival: load.arrival },
            Some(rate) => {
                return Err(format!("--rate {rate}: a replay knows no mean size, so its rate is in packets: 10kpps"));
            }
            None => self.speed()?,
        };
        let words = match speed {
            Speed::Full => "as fast as it goes".into(),
            Speed::Recorded(1.0) => "at its recorded times".into(),
            Speed::Recorded(factor) => format!("at its recorded times, {factor} times as fast"),
            Speed::Rate { rate_pps, .. } => format!("at {}", linerate_units::show::pps(rate_pps)),
        };
        let plan = ReplayPlan {
            speed,
            packets: load.packets,
            duration_ns: load.duration_ns,
            catch_up,
            batch: batch.unwrap_or(BATCH_DEFAULT),
        };
        let source = source(text, self.loops)?;
        let words = format!("replays {source} {words}");
        let loops = Some(self.loops.unwrap_or(1)).filter(|loops| *loops > 0);
        Ok(Some(ReplayRequest { source, plan, words, loops }))
    }

    fn speed(&self) -> Result<Speed, String> {
        let text = self.speed.as_deref().unwrap_or("recorded");
        let factor = text.strip_suffix('x').and_then(|factor| factor.parse::<f64>().ok());
        match (text, factor) {
            ("recorded", _) => Ok(Speed::Recorded(1.0)),
            ("full", _) => Ok(Speed::Full),
            (_, Some(factor)) if factor > 0.0 && factor.is_finite() => Ok(Speed::Recorded(factor)),
            _ => Err(format!("--speed {text}: a speed is recorded, full, or a factor as 2x or 0.5x")),
        }
    }
}

impl ReplayRequest {
    /// Opens the source.
    ///
    /// # Errors
    /// As its backend.
    pub fn open_source(&self, pool: &Pool) -> Result<Box<dyn Port>, String> {
        open::open_noted(&self.source, Direction::Receive, pool, true)
    }

    /// What would be sent, in lines; a file is read to its end for this.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn intention(&self) -> Result<Vec<String>, String> {
        let mut lines = vec![self.words.clone()];
        if linerate_ports::far_side(&self.source) != FarSide::File {
            lines.push("how many packets that port will receive is not known before".into());
            return Ok(lines);
        }
        let recorded = Recorded::of(&self.source.target)?;
        lines.push(format!(
            "the file has {} packets of Ethernet, {} bytes, recorded over {}",
            count(recorded.packets),
            count(recorded.bytes),
            nanoseconds(recorded.span_ns as f64)
        ));
        lines.push(self.total(&recorded));
        Ok(lines)
    }

    /// How many packets go in which time.
    fn total(&self, recorded: &Recorded) -> String {
        let ReplayPlan { speed, packets, duration_ns, .. } = self.plan;
        let of_file = self.loops.map(|loops| recorded.packets.saturating_mul(loops));
        let most = [of_file, packets].into_iter().flatten().min();
        // Time that a packet takes on average.
        let gap_ns = match speed {
            Speed::Full => None,
            Speed::Rate { rate_pps, .. } => Some(1e9 / rate_pps),
            Speed::Recorded(factor) => {
                Some(recorded.span_ns as f64 / factor / recorded.packets.saturating_sub(1).max(1) as f64)
            }
        };
        let limit_ns = duration_ns.map(|duration_ns| duration_ns as f64);
        let in_time =
            |gap_ns: f64| limit_ns.map(|limit_ns| if gap_ns > 0.0 { (limit_ns / gap_ns) as u64 } else { u64::MAX });
        let most = [most, gap_ns.and_then(in_time)].into_iter().flatten().min();
        let time = match (gap_ns, most) {
            (Some(gap_ns), Some(packets)) => {
                format!(", in about {}", nanoseconds(packets.saturating_sub(1) as f64 * gap_ns))
            }
            (None, _) => limit_ns.map_or(String::new(), |limit_ns| format!(", for {} at most", nanoseconds(limit_ns))),
            (Some(_), None) => String::new(),
        };
        match most {
            Some(packets) => format!("intended: {} packets{time}", count(packets)),
            None => format!("intended: packets until Ctrl-C{time}"),
        }
    }
}

/// What a capture file has.
#[derive(Default)]
struct Recorded {
    packets: u64,
    bytes: u64,
    /// From the first packet to the last.
    span_ns: u64,
}

impl Recorded {
    fn of(path: &str) -> Result<Recorded, String> {
        let mut packets = Packets::new(&[path.to_string()], false);
        let (mut recorded, mut first_ns) = (Recorded::default(), None);
        while packets.advance() {
            let Some(packet) = packets.packet() else { break };
            if packet.head.link_type != ETHERNET {
                continue;
            }
            let first_ns = *first_ns.get_or_insert(packet.head.time_ns);
            recorded.packets += 1;
            recorded.bytes += packet.head.len as u64;
            recorded.span_ns = recorded.span_ns.max(packet.head.time_ns.saturating_sub(first_ns));
        }
        match packets.take_errors().into_iter().next() {
            Some(error) => Err(error),
            None => Ok(recorded),
        }
    }
}

/// A port name, or a path.
fn source(text: &str, loops: Option<u64>) -> Result<PortSpec, String> {
    let is_backend = |spec: &PortSpec| {
        spec.backend.as_ref().is_some_and(|name| linerate_ports::list().iter().any(|backend| backend.name == name))
    };
    let spec = match text.parse::<PortSpec>() {
        Ok(spec) if is_backend(&spec) => spec,
        _ => linerate_ports::file(text),
    };
    let times = match loops {
        None => return Ok(spec),
        Some(_) if linerate_ports::far_side(&spec) != FarSide::File => {
            return Err(format!("--loops: {spec} is no file"));
        }
        Some(0) => "yes".into(),
        Some(loops) => loops.to_string(),
    };
    spec.with("loop", &times).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_ports() {
        let text = |text: &str, loops| source(text, loops).map(|spec| spec.to_string());
        assert_eq!(text("/tmp/a.pcap", None).as_deref(), Ok("file:/tmp/a.pcap"));
        assert_eq!(text("a,b@c.pcap", Some(3)).as_deref(), Ok("file:a\\,b\\@c.pcap,loop=3"));
        assert_eq!(source("a,b@c.pcap", None).unwrap().target, "a,b@c.pcap");
        assert_eq!(text("file:x.pcap,pad", Some(0)).as_deref(), Ok("file:x.pcap,pad,loop"));
        assert_eq!(text("packet:r0", None).as_deref(), Ok("packet:r0"));
        assert!(text("packet:r0", Some(2)).is_err());
        // A colon in a path is no backend.
        assert_eq!(source("2026:trace.pcap", None).unwrap().target, "2026:trace.pcap");
    }

    #[test]
    fn speeds() {
        let speed = |text: &str| ReplayFlags { speed: Some(text.into()), ..ReplayFlags::default() }.speed();
        assert_eq!((speed("recorded"), speed("full")), (Ok(Speed::Recorded(1.0)), Ok(Speed::Full)));
        assert_eq!(speed("0.5x"), Ok(Speed::Recorded(0.5)));
        for bad in ["", "x", "0x", "-1x", "infx", "2", "fast"] {
            assert!(speed(bad).is_err(), "{bad}");
        }
    }
}
