//! `linerate read`: what is in capture files.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;

use linerate_capture::{FLOWS_MAX_DEFAULT, FlowTable};
use linerate_filter::{Facts, Program};
use linerate_pcapng::{ETHERNET, PACKET_LEN_MAX};
use linerate_ports::{FilterPlace, compile_filter};
use linerate_units::count;

use super::status;
use linerate_console::note;
use linerate_reader::cut::Cut;
use linerate_reader::output::Output;
use linerate_reader::packets::{Packet, Packets};
use linerate_reader::{flows, line};

const EXAMPLES: &str = "\
Examples:
  linerate read capture.pcapng
      one line for each packet
  linerate read capture_*.pcapng --filter 'udp port 53' --json
      tcpdump's language; by libpcap where it is installed, else a documented subset
  linerate read capture.pcapng --flows
      5-tuples with packets, bytes, first and last; loss of packets signed by `linerate send`
  linerate read a.pcapng b.pcapng --merge -w both.pcapng.zst
      by time, into one file
  linerate capture -i eth2 -w - | linerate read - -l | grep 10.0.0.1
      packets as they come
  linerate read capture.pcapng --json | jq -r '[.time, .layers.ipv4.source, .layers[\"vlan#2\"].id] | @tsv'
      every field of every header (docs/schema/packet-1.json); the second layer of a kind is NAME#2
  linerate read capture.pcapng --cut 1000..2000 -w part.pcap
  linerate read capture.pcapng --cut +10s..+12s --filter tcp -w part.pcapng
      a part, by number or by time

Reads pcapng, and pcap with us or ns, in either byte order, plain or zstd. A file that is cut or corrupt is read up to its last
whole record. Exit status: 0 done; 1 a file was not whole, or could not be read or written;
2 could not start.";

/// Arguments of `linerate read`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Capture files; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "read")]
    files: Vec<String>,
    /// Capture file, as tcpdump names it
    #[arg(short, long, value_name = "FILE")]
    read: Vec<String>,
    /// Only packets that pass, in tcpdump's language (VLAN tags are in the packet here: `vlan and tcp`)
    #[arg(short, long, value_name = "EXPRESSION")]
    filter: Option<String>,
    /// Only packets FROM..TO: numbers from 1 (10..20), times since the first packet (+1s..+2500ms), times in UTC
    /// (2026-11-21T10:59:03Z..)
    #[arg(long, value_name = "FROM..TO")]
    cut: Option<String>,
    /// Ends after so many packets that pass
    #[arg(short, long, value_name = "N", value_parser = count)]
    count: Option<u64>,
    /// All files together, by time, instead of one after the other
    #[arg(long)]
    merge: bool,
    /// Write the packets into this file instead of printing them: pcapng, .pcap, with .zst compressed
    #[arg(short, long, value_name = "FILE")]
    write: Option<String>,
    /// Count by flow instead of printing packets
    #[arg(long, conflicts_with_all = ["write", "hex"])]
    flows: bool,
    /// Flows that are shown, those with the most bytes first; with --json all are
    #[arg(long, value_name = "N", default_value_t = 50)]
    top: usize,
    /// Flows that are told apart; packets of further ones are counted together
    #[arg(long, value_name = "N", default_value_t = FLOWS_MAX_DEFAULT)]
    flows_max: usize,
    /// Print the bytes of each packet, too
    #[arg(long, conflicts_with_all = ["write", "json"])]
    hex: bool,
    /// Print each packet at once, also into a pipe or file (a terminal always gets it at once)
    #[arg(short, long)]
    line_buffered: bool,
    /// JSON: a line for each packet (linerate.packet/1: all fields of all headers), or with --flows a document (linerate.flows/1)
    #[arg(long)]
    json: bool,
}

/// Reads. Status 1 when a file was not whole, or could not be read or written; 2 when it could not start.
pub fn run(args: &Args) -> ExitCode {
    status::of("linerate read", try_run(args))
}

/// What becomes of the packets.
enum Use {
    Print(Printer),
    Write(Output),
    Count(Box<FlowTable>),
}

/// Standard output, with many lines in one write unless somebody watches.
struct Printer {
    out: BufWriter<io::Stdout>,
    flushes: bool,
}

impl Printer {
    fn new(flushes: bool) -> Printer {
        let out = BufWriter::with_capacity(64 << 10, io::stdout());
        Printer { flushes: flushes || io::stdout().is_terminal(), out }
    }

    fn print(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        if self.flushes { self.out.flush() } else { Ok(()) }
    }
}

fn try_run(args: &Args) -> Result<bool, String> {
    let cut = args.cut.as_deref().map(Cut::parse).transpose().map_err(|error| format!("--cut {error}"))?;
    let compile = |text: &String| compile_filter(text, FilterPlace::WholePackets, PACKET_LEN_MAX as u32);
    let filter = args.filter.as_ref().map(compile).transpose()?.map(|(program, _)| program);
    let files: Vec<String> = args.files.iter().chain(&args.read).cloned().collect();
    all_there(&files)?;
    let mut used = match &args.write {
        Some(path) => Use::Write(Output::create(path, &files)?),
        None if args.flows => Use::Count(Box::new(FlowTable::new(args.flows_max))),
        None => Use::Print(Printer::new(args.line_buffered)),
    };
    let mut packets = Packets::new(&files, args.merge);
    let read = go_through(&mut packets, &mut used, args, cut, filter.as_ref());
    let ended = read.and_then(|()| end(used, args));
    let mut errors = packets.take_errors();
    errors.extend(ended.err());
    errors.iter().for_each(|error| note(&format!("linerate read: {error}")));
    Ok(errors.is_empty() && packets.all_whole())
}

/// Nothing is read or written if a file is missing. One behind others may be a filter, as the arguments of tcpdump end with one.
fn all_there(files: &[String]) -> Result<(), String> {
    let is_missing = |file: &&String| {
        *file != "-" && std::fs::metadata(file).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    match files.iter().position(|file| is_missing(&file)) {
        None => Ok(()),
        Some(0) => Err(format!("{}: there is no such file", files[0])),
        Some(at) => Err(format!("{0}: there is no such file; a filter is written as --filter '{0}'", files[at])),
    }
}

fn go_through(
    packets: &mut Packets,
    used: &mut Use,
    args: &Args,
    cut: Option<Cut>,
    filter: Option<&Program>,
) -> Result<(), String> {
    let (mut number, mut first_ns, mut left) = (0, None, args.count.unwrap_or(u64::MAX));
    while left > 0 && packets.advance() {
        packets.take_errors().iter().for_each(|error| note(&format!("linerate read: {error}")));
        let Some(packet) = packets.packet() else { break };
        number += 1;
        let time_ns = packet.head.time_ns;
        let first_ns = *first_ns.get_or_insert(time_ns);
        let wanted = cut.is_none_or(|cut| cut.has(number, time_ns, first_ns))
            && filter.is_none_or(|filter| passes(filter, &packet));
        left -= u64::from(wanted);
        let more = !wanted || use_packet(used, args, number, &packet)?;
        if !more || cut.is_some_and(|cut| cut.is_over(number)) {
            break;
        }
    }
    Ok(())
}

fn passes(filter: &Program, packet: &Packet<'_>) -> bool {
    packet.head.link_type == ETHERNET && filter.run(packet.bytes, &Facts::of_len(packet.head.original_len)) > 0
}

/// False when nobody wants more.
fn use_packet(used: &mut Use, args: &Args, number: u64, packet: &Packet<'_>) -> Result<bool, String> {
    match used {
        Use::Write(output) => output.packet(packet)?,
        Use::Count(table) => {
            // Of other links, nothing is known of flows.
            let bytes = if packet.head.link_type == ETHERNET { packet.bytes } else { &[] };
            table.note(bytes, packet.head.original_len, packet.head.time_ns);
        }
        Use::Print(out) => {
            let text = if args.json { line::json(number, packet) } else { line::text(number, packet) };
            let bytes = if args.hex { line::bytes(packet) } else { String::new() };
            if let Err(error) = out.print(&format!("{text}\n{bytes}")) {
                return gone(error).map(|()| false);
            }
        }
    }
    Ok(true)
}

fn end(used: Use, args: &Args) -> Result<(), String> {
    match used {
        Use::Write(output) => output.finish().map(drop),
        Use::Print(mut out) => out.out.flush().or_else(gone),
        Use::Count(table) => {
            let text = if args.json { flows::json(&table) } else { flows::text(&table, args.top) };
            writeln!(io::stdout(), "{text}").or_else(gone)
        }
    }
}

/// A reader that has seen enough (`| head`) is no error.
fn gone(error: io::Error) -> Result<(), String> {
    if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(format!("standard output: {error}")) }
}
