//! The flags that say what to send. They are turned into the text of a stream file, so that both say the same and are
//! checked in one place; `--dry-run` prints that text.

use std::fmt::Write;
use std::path::PathBuf;

use linerate_gen::Stream;
use linerate_streams::{FCS_BYTES, StreamEntry, StreamFile, TEXT_LEN_MAX, parse};
use linerate_units::Rate;
use linerate_units::TextError;
use linerate_wire::Summary;

use super::rules::{self, Setting};

/// Flags for what is sent.
#[derive(clap::Args, Default)]
pub struct StreamFlags {
    /// Stream file (TOML; docs/streams.md). The flags for load go with it and win over it, the others for packets do not
    #[arg(short, long, value_name = "FILE", help_heading = "Packets",
        conflicts_with_all = ["size", "layers", "set", "vary", "flows", "id", "no_signature", "fill", "no_udp_checksum"])]
    pub file: Option<PathBuf>,
    /// Bytes on the wire, FCS included: 64, a list 64,128, a range 64-1518[/STEP], imix, imix-csit, or a mix 64:7,594:4,1518:1
    #[arg(short = 'l', long, value_name = "SIZE", help_heading = "Packets")]
    size: Option<String>,
    /// Layers from the outside in [default: ethernet/ipv4/udp]; also vlan, qinq, mpls, ipv6, tcp, icmp, icmpv6, vxlan, gre, geneve
    #[arg(long, value_name = "A/B/C", help_heading = "Packets")]
    layers: Option<String>,
    /// Sets a field: ipv4.destination=192.0.2.1, ethernet.destination=02:00:00:00:00:07, vlan#2.id=100
    #[arg(long, value_name = "LAYER.FIELD=VALUE", help_heading = "Packets")]
    set: Vec<String>,
    /// Varies a field: udp.source=1024..65535,random=7 or ipv4.source=198.18.1.1..198.18.1.100 or vlan.id=5+7+9; with ,cycle it
    /// goes on when the rule before it has been through its values
    #[arg(long, value_name = "FIELD=VALUES", help_heading = "Packets")]
    vary: Vec<String>,
    /// So many flows: the outermost UDP or TCP source port takes so many values, from 1024 on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=64_512), help_heading = "Packets")]
    flows: Option<u64>,
    /// Stream id in the signatures [default: 0]
    #[arg(long, value_name = "N", help_heading = "Packets")]
    id: Option<u16>,
    /// Packets without signature: a receiver can only count them
    #[arg(long, help_heading = "Packets")]
    no_signature: bool,
    /// What is behind the headers: zero, increment, a byte (0xa5) or random[=SEED]
    #[arg(long, value_name = "FILL", help_heading = "Packets")]
    fill: Option<String>,
    /// UDP over IPv4 without checksum
    #[arg(long, help_heading = "Packets")]
    no_udp_checksum: bool,
    /// Packets or bits per second, for each port: 1.5Mpps, 10Gbit/s (everything on the link), l2:1Gbit/s (frames only), 50%
    /// (of the link) [default: as fast as the port takes them]
    #[arg(short, long, value_name = "RATE", help_heading = "Load")]
    rate: Option<String>,
    /// Gaps between packets: constant, poisson[=SEED] or burst=PACKETS [default: constant]
    #[arg(long, value_name = "HOW", help_heading = "Load")]
    arrival: Option<String>,
    /// Ends after this time: 10s, 500ms, 2m [default: at Ctrl-C]
    #[arg(short, long, value_name = "TIME", help_heading = "Load")]
    duration: Option<String>,
    /// Ends after so many packets on each port
    #[arg(short = 'n', long, value_name = "N", value_parser = linerate_units::count, help_heading = "Load")]
    count: Option<u64>,
}

/// What is to be sent, and at which rate.
pub struct Wanted {
    /// The streams and their schedule, but for the rate.
    pub file: StreamFile,
    /// The rate; `None` = as fast as the port takes packets.
    pub rate: Option<Rate>,
    /// The text of the stream file.
    pub text: String,
}

impl StreamFlags {
    /// Reads the stream file, or makes it from the flags.
    ///
    /// # Errors
    /// What is wrong, for people, with the place where that is known.
    pub fn read(&self) -> Result<Wanted, String> {
        let Some(path) = &self.file else {
            let text = self.text()?;
            return wanted(text, "in the stream file that these flags make");
        };
        let shown = path.display();
        let length = std::fs::metadata(path).map(|metadata| metadata.len()).unwrap_or(0);
        if length > TEXT_LEN_MAX as u64 {
            return Err(format!("{shown}: {length} bytes; a stream file has at most {TEXT_LEN_MAX}"));
        }
        let text = std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
        let mut wanted = wanted(text, &shown.to_string())?;
        let (load, rate) = self.load_alone()?;
        wanted.rate = rate.or(wanted.rate);
        let file = &mut wanted.file;
        file.packets = load.packets.or(file.packets);
        file.duration_ns = load.duration_ns.or(file.duration_ns);
        if self.arrival.is_some() {
            file.arrival = load.arrival;
        }
        Ok(wanted)
    }

    /// The flags about the load without those about packets: ends, arrival and rate.
    ///
    /// # Errors
    /// As [`StreamFlags::read`].
    pub fn load_alone(&self) -> Result<(StreamFile, Option<Rate>), String> {
        let load = parse(&format!("{}[[stream]]\n", self.load(true)?));
        let load = load.map_err(|error| format!("in the flags: {error}"))?;
        let rate = self.rate.as_ref().map(|rate| rate.parse::<Rate>()).transpose();
        Ok((load, rate.map_err(|error| format!("--rate: {error}"))?))
    }

    /// The stream file that the flags stand for.
    fn text(&self) -> Result<String, String> {
        let mut text = self.load(false)?;
        text += "\n[[stream]]\n";
        if let Some(id) = self.id {
            writeln!(text, "id = {id}").map_err(|error| error.to_string())?;
        }
        if self.no_signature {
            text += "signature = false\n";
        }
        if let Some(size) = &self.size {
            text += &format!("size = {}\n", size_words(size)?);
        }
        if let Some(fill) = &self.fill {
            text += &format!("fill = {}\n", fill_words(fill)?);
        }
        if self.no_udp_checksum {
            text += "udp_checksum = false\n";
        }
        let layers = self.layer_words()?;
        text += &format!("layers = [\n{}]\n", layers.iter().map(|layer| format!("  {layer},\n")).collect::<String>());
        let mut rules = self.vary.iter().map(|rule| rules::vary(rule)).collect::<Result<Vec<_>, _>>()?;
        if let Some(flows) = self.flows {
            rules.push(self.flow_rule(flows)?);
        }
        if !rules.is_empty() {
            text += &format!("vary = [\n{}]\n", rules.iter().map(|rule| format!("  {rule},\n")).collect::<String>());
        }
        Ok(text)
    }

    /// The lines about the load. Beside a file, an arrival goes with the file's rate, so it needs none of its own.
    fn load(&self, beside_file: bool) -> Result<String, String> {
        let mut text = String::new();
        let rate = self.rate.clone().or_else(|| (beside_file && self.arrival.is_some()).then(|| "1pps".into()));
        for (key, value) in [("rate", &rate), ("duration", &self.duration)] {
            if let Some(value) = value {
                text += &format!("{key} = {}\n", rules::quoted(value));
            }
        }
        if let Some(count) = self.count {
            text += &format!("count = {count}\n");
        }
        if let Some(arrival) = &self.arrival {
            text += &format!("arrival = {}\n", arrival_words(arrival)?);
        }
        Ok(text)
    }

    fn layer_names(&self) -> Vec<&str> {
        self.layers.as_deref().unwrap_or("ethernet/ipv4/udp").split('/').collect()
    }

    /// The layers with what `--set` says about them.
    fn layer_words(&self) -> Result<Vec<String>, String> {
        let names = self.layer_names();
        let mut fields: Vec<Vec<String>> = vec![Vec::new(); names.len()];
        for text in &self.set {
            let setting = rules::set(text)?;
            let at = layer_of(&names, &setting).ok_or_else(|| {
                let Setting { layer, number, .. } = &setting;
                format!(
                    "--set {text}: the packet has no layer {layer} number {number}; it has {}; --layers adds more",
                    names.join("/")
                )
            })?;
            fields[at].push(format!("{} = {}", setting.field, setting.value));
        }
        let word = |(name, fields): (&&str, Vec<String>)| match fields.is_empty() {
            true => rules::quoted(name),
            false => format!("{{ {name} = {{ {} }} }}", fields.join(", ")),
        };
        Ok(names.iter().zip(fields).map(word).collect())
    }

    fn flow_rule(&self, flows: u64) -> Result<String, String> {
        let names = self.layer_names();
        let layer = names.iter().find(|name| matches!(**name, "udp" | "tcp"));
        let layer = layer.ok_or("--flows: the packet has neither UDP nor TCP; --vary makes flows of other fields")?;
        Ok(format!("{{ field = \"{layer}.source\", first = 1024, count = {flows} }}"))
    }
}

/// Which of the layers is meant. Rules call both kinds of tag `vlan`, so the same is possible here.
fn layer_of(names: &[&str], setting: &Setting) -> Option<usize> {
    let is_it = |name: &str| name == setting.layer || setting.layer == "vlan" && name == "qinq";
    names.iter().enumerate().filter(|(_, name)| is_it(name)).map(|(at, _)| at).nth(setting.number - 1)
}

fn wanted(text: String, place: &str) -> Result<Wanted, String> {
    let words = |error: TextError| format!("{place}: {error}");
    let file = parse(&text).map_err(words)?;
    let rate = match &file.rate {
        None => None,
        Some(rate) => Some(
            rate.text
                .parse::<Rate>()
                .map_err(|error| words(TextError::at(&text, rate.span.clone(), error.to_string())))?,
        ),
    };
    Ok(Wanted { file, rate, text })
}

fn size_words(text: &str) -> Result<String, String> {
    let refuse = || {
        format!("--size {text}: a size is 64, 64,128 (in turn), 64-1518[/STEP], imix, imix-csit or 64:7,594:4 (a mix)")
    };
    let number = |word: &str| word.parse::<u64>().map_err(|_| refuse());
    if matches!(text, "imix" | "imix-csit") {
        return Ok(rules::quoted(text));
    }
    if let Some((from, rest)) = text.split_once('-') {
        let (to, step) = rest.split_once('/').unwrap_or((rest, "1"));
        return Ok(format!("{{ from = {}, to = {}, step = {} }}", number(from)?, number(to)?, number(step)?));
    }
    if text.contains(':') {
        let entry = |entry: &str| {
            let (size, share) = entry.split_once(':').ok_or_else(refuse)?;
            Ok::<String, String>(format!("[{}, {}]", number(size)?, number(share)?))
        };
        let entries = text.split(',').map(entry).collect::<Result<Vec<_>, _>>()?;
        return Ok(format!("{{ mix = [{}] }}", entries.join(", ")));
    }
    let sizes = text.split(',').map(|size| number(size).map(|size| size.to_string())).collect::<Result<Vec<_>, _>>()?;
    Ok(match &sizes[..] {
        [size] => size.clone(),
        sizes => format!("[{}]", sizes.join(", ")),
    })
}

fn fill_words(text: &str) -> Result<String, String> {
    let (word, seed) = text.split_once('=').unwrap_or((text, "1"));
    match (word, rules::value(word), seed.parse::<u64>()) {
        ("zero" | "increment", word, _) if !text.contains('=') => Ok(word),
        ("random", _, Ok(seed)) => Ok(format!("{{ random = {seed} }}")),
        (_, byte, _) if byte.parse::<u8>().is_ok() && !text.contains('=') => Ok(format!("{{ byte = {byte} }}")),
        _ => Err(format!("--fill {text}: a fill is zero, increment, a byte from 0 to 255 (0xa5) or random[=SEED]")),
    }
}

fn arrival_words(text: &str) -> Result<String, String> {
    let (word, number) = text.split_once('=').unwrap_or((text, ""));
    match (word, number.parse::<u64>()) {
        ("constant" | "poisson", _) if !text.contains('=') => Ok(rules::quoted(word)),
        ("poisson", Ok(seed)) => Ok(format!("{{ poisson = {{ seed = {seed} }} }}")),
        ("burst", Ok(packets)) => Ok(format!("{{ burst = {packets} }}")),
        _ => Err(format!("--arrival {text}: an arrival is constant, poisson[=SEED] or burst=PACKETS")),
    }
}

/// What a stream looks like, in a line or two: sizes with their shares, layers, the first packets.
pub fn describe(position: usize, entry: &StreamEntry) -> Vec<String> {
    let name = entry.name.as_ref().map_or(String::new(), |name| format!(" {name:?}"));
    let signature = entry.spec.signature.map_or("no signature".into(), |id| format!("signature id {id}"));
    let mut lines = vec![format!("stream {position}{name}: {}, {signature}, weight {}", sizes(entry), entry.weight)];
    if let Ok(plan) = entry.spec.plan() {
        let mut stream = Stream::new(&plan);
        let (image, len) = stream.next_image();
        let mut packet = vec![0; len];
        stream.write(image, &mut packet, 0);
        lines.push(format!("  first packet: {}", Summary(&packet)));
    }
    for rule in &entry.spec.rules {
        lines.push(format!("  varies {}: {}", rule.field, values(&rule.values)));
    }
    lines
}

/// Most sizes that are listed one by one.
const SIZES_LISTED: usize = 8;

fn sizes(entry: &StreamEntry) -> String {
    let list = &entry.sizes_wire;
    if let [(size, _)] = list[..] {
        return format!("{size} B on the wire ({} without FCS)", size as usize - FCS_BYTES);
    }
    let mean = entry.mean_size_wire();
    let (least, most) = list.iter().fold((u32::MAX, 0), |(least, most), (size, _)| (least.min(*size), most.max(*size)));
    if list.len() > SIZES_LISTED {
        return format!("{} sizes from {least} to {most} B on the wire, mean {mean:.1}", list.len());
    }
    let shares: Vec<String> = list.iter().map(|(size, share)| format!("{share} x {size}")).collect();
    format!("{} B on the wire, mean {mean:.1}", shares.join(", "))
}

fn values(values: &linerate_gen::Values) -> String {
    use linerate_gen::Values;
    match values {
        Values::List(list) if list.len() == 1 => "one value".into(),
        Values::List(list) => format!("{} values in turn", list.len()),
        Values::Range { step, count, .. } if *step < 0 => format!("{count} values, {} down each", step.unsigned_abs()),
        Values::Range { step, count, .. } => format!("{count} values, {step} up each"),
        Values::Random { count, seed, .. } => format!("{count} values at random, seed {seed}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        flags: StreamFlags,
    }

    fn read(words: &str) -> Result<Wanted, String> {
        let command = Command::try_parse_from(std::iter::once("send").chain(words.split_whitespace()))
            .map_err(|error| error.to_string())?;
        command.flags.read()
    }

    #[test]
    fn flags_make_a_stream_file() {
        let wanted = read(
            "--size 78:7,594:4 --layers ethernet/vlan/ipv4/tcp --set vlan.id=7 --set tcp.flags=SYN --vary ipv4.source=198.18.1.1..198.18.1.9 \
             --flows 10 --rate 1kpps --arrival burst=4 --duration 2s --count 9 --id 3 --fill 0xa5",
        )
        .unwrap();
        assert_eq!(wanted.rate, Some(Rate::PacketsPerSecond(1000.0)));
        assert_eq!((wanted.file.packets, wanted.file.duration_ns), (Some(9), Some(2_000_000_000)));
        assert_eq!(wanted.file.arrival, linerate_gen::Arrival::Burst { packets: 4 });
        let stream = &wanted.file.streams[0];
        assert_eq!((stream.spec.signature, stream.spec.rules.len()), (Some(3), 2));
        assert_eq!(stream.sizes_wire, [(78, 7), (594, 4)]);
    }

    #[test]
    fn every_size_and_fill_has_its_words() {
        for (size, words) in [
            ("64", "64"),
            ("64,128", "[64, 128]"),
            ("64-1518", "{ from = 64, to = 1518, step = 1 }"),
            ("64-1518/8", "{ from = 64, to = 1518, step = 8 }"),
            ("imix", "\"imix\""),
            ("64:7,594:4", "{ mix = [[64, 7], [594, 4]] }"),
        ] {
            assert_eq!(size_words(size).as_deref(), Ok(words));
        }
        for bad in ["", "x", "64,", "64-", "-64", "64:", "64:1,65", "64-65/x"] {
            assert!(size_words(bad).is_err(), "{bad}");
        }
        assert_eq!(fill_words("0xa5").unwrap(), "{ byte = 165 }");
        assert_eq!(fill_words("random=4").unwrap(), "{ random = 4 }");
        for bad in ["", "256", "zero=1", "7=1", "random=x"] {
            assert!(fill_words(bad).is_err(), "{bad}");
        }
        for bad in ["", "burst", "burst=x", "constant=1", "poisson=x"] {
            assert!(arrival_words(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn errors_say_which_flag() {
        for (flags, words) in [
            ("--set vlan.id=7", "--layers adds more"),
            ("--size 40", "42 bytes of headers"),
            ("--rate 10", "its unit is missing"),
            ("--rate 1kpps --duration 5", "write 5s"),
            ("--layers ethernet/ipv4/icmp --flows 5", "neither UDP nor TCP"),
            ("--layers ethernet/ip", "unknown variant `ip`"),
            ("--arrival poisson", "needs a rate"),
            ("--file /dev/null --size 64", "cannot be used with"),
            ("--file /nonexistent", "No such file"),
        ] {
            let error = read(flags).map(|_| ()).unwrap_err();
            assert!(error.contains(words), "{flags}: {error}");
        }
    }

    #[test]
    fn load_flags_win_over_the_file() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/streams/10000-flows.toml");
        let wanted = read(&format!("--file {path} --rate 7pps --arrival poisson=3 --count 5")).unwrap();
        assert_eq!(wanted.rate, Some(Rate::PacketsPerSecond(7.0)));
        assert_eq!((wanted.file.packets, wanted.file.duration_ns), (Some(5), Some(10_000_000_000)));
        assert_eq!(wanted.file.arrival, linerate_gen::Arrival::Poisson { seed: 3 });
        let wanted = read(&format!("--file {path} --arrival burst=2")).unwrap();
        assert_eq!(wanted.rate, Some(Rate::PacketsPerSecond(500_000.0)));
    }
}
