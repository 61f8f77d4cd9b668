//! `linerate capture`: packets of interfaces, counted or into a file, and where every one of them is.

use std::process::ExitCode;

use linerate_capture::RotationPolicy;
use linerate_units::{bytes, count, positive_duration_ns};

use super::status;
use linerate_recorder::capture::open::{CaptureDirection, CaptureRequest, RINGS_MAX, Rings, expand_any, is_any};
use linerate_recorder::capture::run::{self, Plan};
use linerate_recorder::capture::timestamps::TimestampSource;

const EXAMPLES: &str = "\
Examples:
  linerate capture -i eth2 -i eth3
      counts on two ports at once until Ctrl-C: packets, bytes, rates, losses, capture ratio, for each and in sum
  linerate capture -i eth2 -w trace.pcapng --snaplen 128 udp port 53
      the filter stands at the end, as with tcpdump, or in --filter
  linerate capture -i eth2 -w trace.pcapng --file-bytes 1000000000 --total-bytes 20000000000
      files of a gigabyte, the oldest removed, 20 GB at most
  linerate capture -i eth2 -w trace.pcapng.zst --duration 60s --json
  linerate capture -i eth2 --rings queues --cores 2-5 --ring 268435456
      a ring of 64 MiB for each of four receive queues, each with a core
  linerate capture -i xdp:eth2 -i pcap:eth3 -i file:old.pcapng -w all.pcapng
      ports of any kind, which `linerate ports` lists; xdp: takes the packets away from the host

How to read the account at the end: packets that passed the interface = filtered out (refused by the filter, of the other direction, before the
start or after the end) + offered to the ring. Offered = dropped by the ring (this program was too slow for a while, and the ring too small) +
taken. Taken = counted or written + dropped by the writer (the disk was too slow, or failed). A ring whose level rises says when it would have
been full: such a run was too short to be free of loss. docs/capture.md has more. Exit status: 0 done; 1 a port or the disk failed; 2 could not start.";

/// Arguments of `linerate capture`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Ports: an interface (an AF_PACKET ring, walked in place), or xdp:IF, pcap:IF, tap:NAME, memif:SOCKET, vhost:SOCKET, shm:SOCKET,
    /// file:PATH as `linerate ports` lists them; each has a thread of its own. `any` is every Ethernet interface that is up now
    #[arg(short, long = "interface", value_name = "PORT")]
    interfaces: Vec<String>,
    /// Capture file to take packets from, as -i file:FILE; `linerate read FILE` prints its packets
    #[arg(short, long, value_name = "FILE")]
    read: Vec<String>,
    /// File to write: pcapng, or pcap when its name ends in .pcap, with .zst compressed; - is standard output
    #[arg(short, long, value_name = "FILE")]
    write: Option<String>,
    /// Only packets that pass, in tcpdump's language; the kernel runs it before it copies
    #[arg(short, long, value_name = "EXPRESSION")]
    filter: Option<String>,
    /// The same as --filter, in several words, as tcpdump has it
    #[arg(value_name = "EXPRESSION", conflicts_with = "filter")]
    words: Vec<String>,
    /// Bytes kept of each packet
    #[arg(short, long, value_name = "BYTES", default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(1..=262_144))]
    snaplen: u32,
    /// Take packets for other hardware addresses, too
    #[arg(long)]
    promiscuous: bool,
    /// Which packets: those that this host receives, those that it sends, or both [default: both on an interface, one of the two on
    /// the loopback interface, where each packet goes both ways; other ports show what they receive]
    #[arg(short = 'Q', long, value_name = "DIRECTION", value_enum)]
    direction: Option<CaptureDirection>,
    /// The rings of each port together: of an interface, of pcap:, and of xdp: (in frames); others have what their name says
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = ring_bytes)]
    ring: u64,
    /// Whose clock timestamps packets: kernel; nic, or else it does not start; auto, which is the NIC's if its driver timestamps every packet,
    /// nobody else uses its timestamps and its clock is within a minute of the time of day, and else the kernel's
    #[arg(long, value_name = "WHOSE", value_enum, default_value_t = TimestampSource::Auto)]
    timestamps: TimestampSource,
    /// Rings of each port, each with a thread: a number, which packets are spread over by flow; or queues, a ring for each receive
    /// queue of an interface [default: as many as it has queues and this process cores, by flow]
    #[arg(long, value_name = "N|queues")]
    rings: Option<String>,
    /// Ends after this time: 10s, 500ms, 2m [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = positive_duration_ns)]
    duration: Option<u64>,
    /// Ends after exactly so many packets, of all ports together
    #[arg(short, long, value_name = "N", value_parser = count)]
    count: Option<u64>,
    /// Time between two lines
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = positive_duration_ns)]
    interval: u64,
    /// A new file after so many bytes: 100M, 64MiB
    #[arg(long, value_name = "BYTES", requires = "write", value_parser = bytes)]
    file_bytes: Option<u64>,
    /// A new file after this time
    #[arg(long, value_name = "TIME", requires = "write", value_parser = positive_duration_ns)]
    file_time: Option<u64>,
    /// A new file after so many packets
    #[arg(long, value_name = "N", requires = "write", value_parser = count)]
    file_packets: Option<u64>,
    /// Most bytes of all files; the oldest are removed
    #[arg(long, value_name = "BYTES", requires = "write", value_parser = bytes)]
    total_bytes: Option<u64>,
    /// Most files; the oldest are removed
    #[arg(long, value_name = "N", requires = "write")]
    files: Option<u64>,
    /// Cores of the rings' threads, in the order of the ports: 2,3 or 2-5 [default: where the kernel puts them]
    #[arg(long, value_name = "LIST")]
    cores: Option<String>,
    /// Never sleep: each ring's thread looks for packets all the time, and takes a core for that. For small rings, and
    /// hosts that are slow to wake up; give it cores of its own (--cores)
    #[arg(long)]
    poll: bool,
    /// A line of JSON (linerate.capture/1) for each port at each interval and at the end
    #[arg(long)]
    json: bool,
}

/// Captures. Status 1 when a port or the disk failed, 2 when it could not start.
pub fn run(args: &Args) -> ExitCode {
    status::of("linerate capture", plan(args).and_then(|plan| run::run(&plan)))
}

fn plan(args: &Args) -> Result<Plan, String> {
    if args.json && args.write.as_deref() == Some("-") {
        return Err("-w - and --json both want standard output".into());
    }
    if args.interfaces.is_empty() && args.read.is_empty() {
        return Err(match &args.words[..] {
            // What stands alone at the end is a filter.
            [word] if linerate_sys::netdev::Netdev::open(word).is_ok() || word.contains(':') => {
                format!("-i is missing: linerate capture -i {word}")
            }
            _ => {
                "no port is named: -i eth1, several with -i eth1 -i eth2, all with -i any; -r FILE reads a file".into()
            }
        });
    }
    let mut request = CaptureRequest {
        ring_bytes: args.ring,
        rings: rings(args.rings.as_deref())?,
        promiscuous: args.promiscuous,
        direction: args.direction,
        timestamps: args.timestamps,
        filter: args.filter.clone().or_else(|| (!args.words.is_empty()).then(|| args.words.join(" "))),
        // Nobody reads the bytes of packets that are only counted, so the kernel need not copy them.
        snaplen: if args.write.is_some() { args.snaplen } else { 1 },
    };
    let mut ports = expand_any(&args.interfaces, &mut request)?;
    ports.extend(args.read.iter().map(|path| linerate_ports::file(path).to_string()));
    Ok(Plan {
        ports,
        request,
        path: args.write.clone(),
        policy: RotationPolicy {
            file_bytes: args.file_bytes,
            file_ns: args.file_time,
            file_packets: args.file_packets,
            total_bytes: args.total_bytes,
            files: args.files,
        },
        duration_ns: args.duration,
        packets_max: args.count,
        interval_ns: args.interval.max(10_000_000),
        json: args.json,
        cores: args.cores.clone(),
        polls: args.poll,
        is_any: is_any(&args.interfaces),
    })
}

fn ring_bytes(text: &str) -> Result<u64, String> {
    match bytes(text) {
        Ok(bytes) if !(65_536..=1 << 30).contains(&bytes) => Err("a ring has 64KiB to 1GiB".into()),
        read => read.map_err(|error| error.to_string()),
    }
}

fn rings(text: Option<&str>) -> Result<Rings, String> {
    match (text, text.map(str::parse::<usize>)) {
        (None, _) => Ok(Rings::Auto),
        (Some("queues"), _) => Ok(Rings::Queues),
        (_, Some(Ok(number))) if (1..=RINGS_MAX).contains(&number) => Ok(Rings::Number(number)),
        (Some(text), _) => Err(format!("--rings {text}: a number from 1 to {RINGS_MAX}, or queues")),
    }
}
