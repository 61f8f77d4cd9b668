//! The letters of a command line: each checked alone, then put together to [`Options`].

use linerate_wire::MacAddress;

use super::format::{FRAMING_BITS, Style};
use super::getopt::{GetoptError, Given};
use super::interface::Interface;
use super::options::{Function, Options, UsageError};
use super::ranges::{EndpointRange, Family};

/// Packets of one port call. The original's 512 packets and their templates do not fit into a first-level cache together: into
/// `null` they go at two thirds of the rate of 128.
const BURST_DEFAULT: usize = 128;
/// Most packets of one port call.
const BURST_MAX: usize = 4096;
/// Longest frame, without FCS.
const LEN_MAX: usize = 65_535;
/// Shortest frame that the original takes, without FCS.
const LEN_MIN: usize = 16;
/// Most threads.
const THREADS_MAX: usize = 256;

/// The letters as given, each checked alone.
#[derive(Default)]
pub struct Letters {
    interface: Option<Interface>,
    function: Function,
    count: u64,
    len: Option<usize>,
    len_min: Option<usize>,
    burst: usize,
    v6: bool,
    source: Option<String>,
    destination: Option<String>,
    source_mac: Option<MacAddress>,
    destination_mac: Option<MacAddress>,
    affinity: Option<usize>,
    cpus: Option<usize>,
    threads: Option<usize>,
    report_ms: Option<u64>,
    wait_s: Option<u64>,
    rate_pps: u64,
    ends_in_silence: bool,
    packet_file: Option<String>,
    fragments: Option<usize>,
    fragment_len: Option<usize>,
    verbose: u32,
    raw: bool,
    framing: bool,
    bits: u64,
    warnings: Vec<String>,
}

/// The bits of `-o` that mean something here, and the letters that set the same.
const TIMESTAMP: u64 = 16;
const INDIRECT: u64 = 32;
const DUMP: u64 = 64;
const UNINITIALIZED: u64 = 256;
const RANDOM_SOURCE: u64 = 512;
const RANDOM_DESTINATION: u64 = 1024;
const AVERAGES: u64 = 2048;
/// Prefetch, access, copy, memcpy: how the original moves bytes. Update checksums: always done here.
const WITHOUT_EFFECT: u64 = 1 | 2 | 4 | 8 | 4096;
const ALL_BITS: u64 =
    WITHOUT_EFFECT | TIMESTAMP | INDIRECT | DUMP | UNINITIALIZED | RANDOM_SOURCE | RANDOM_DESTINATION | AVERAGES;

impl Letters {
    /// Takes one option of the command line.
    pub fn take(&mut self, given: &Given) -> Result<(), UsageError> {
        match given.letter {
            '4' => self.v6 = false,
            '6' => self.v6 = true,
            'a' => self.affinity = Some(number(given, 0, 4095, "a CPU")? as usize),
            'A' => self.bits |= AVERAGES,
            'b' => self.burst = number(given, 0, BURST_MAX as u64, "packets in one call")? as usize,
            'B' => self.framing = true,
            'c' => self.cpus = Some(number(given, 0, 4096, "CPUs")? as usize),
            'C' => self.ring_sizes(&given.argument)?,
            'd' => self.destination = Some(given.argument.clone()),
            'D' => self.destination_mac = Some(mac(given)?),
            'f' => self.function = function(&given.argument)?,
            'F' => self.fragments = Some(number(given, 1, 63, "fragments")? as usize),
            'H' => virtio_header(given)?,
            'i' => self.interface = Some(interface(given)?),
            'I' => self.bits |= INDIRECT,
            'l' if self.len.is_none() => self.len = Some(len(given)?),
            'l' => self.len_min = Some(len(given)?),
            'M' => self.fragment_len = Some(number(given, 1, LEN_MAX as u64, "bytes")? as usize),
            'n' => self.count = number(given, 0, u64::MAX, "packets")?,
            'N' => self.raw = true,
            'o' => self.bits |= option_bits(given)?,
            'p' => self.threads = Some(number(given, 1, THREADS_MAX as u64, "threads")? as usize),
            'P' => self.packet_file = Some(given.argument.clone()),
            'r' => self.bits |= UNINITIALIZED,
            'R' => self.rate_pps = number(given, 0, 1_000_000_000, "packets per second")?,
            's' => self.source = Some(given.argument.clone()),
            'S' => self.source_mac = Some(mac(given)?),
            'T' => self.report_ms = Some(number(given, 10, 3_600_000, "milliseconds")?),
            'v' => self.verbose += 1,
            'w' => self.wait_s = Some(number(given, 0, 86_400, "seconds")?),
            'W' => self.ends_in_silence = true,
            'X' => self.bits |= DUMP,
            'z' => self.bits |= RANDOM_SOURCE,
            'Z' => self.bits |= RANDOM_DESTINATION,
            other => return Err(GetoptError::Unknown(other).into()),
        }
        Ok(())
    }

    /// `-C`: checked as the original reads it, then left to the port.
    fn ring_sizes(&mut self, text: &str) -> Result<(), UsageError> {
        let fields: Vec<&str> = text.split(',').collect();
        if fields.len() > 4 || fields.iter().any(|field| field.parse::<u32>().is_err()) {
            return Err(UsageError::new(
                format!("-C {text:?} is no list of one to four numbers"),
                "leave it away, or set ring sizes by the port: -i packet:eth1,ring=8192",
            ));
        }
        self.warnings.push(
            "WARNING: the 'C' option is deprecated and has no effect here, ring sizes are options of ports: \
             -i xdp:eth1,ring=8192"
                .into(),
        );
        Ok(())
    }

    /// Checks what the letters say together.
    pub fn check(mut self) -> Result<Options, UsageError> {
        let Some(interface) = self.interface.take() else {
            return Err(UsageError::new("missing ifname", "name an interface or a port, as -i eth1"));
        };
        self.warn();
        let family = if self.v6 { Family::V6 } else { Family::V4 };
        let (source_text, destination_text) = self.range_texts(family);
        let options = Options {
            source: range('s', &source_text, family)?,
            destination: range('d', &destination_text, family)?,
            range_texts: (source_text, destination_text),
            function: self.function,
            count: self.count,
            len: self.len.unwrap_or_else(|| len_default(self.function, family)),
            len_min: self.len_min,
            burst: match (self.burst, self.function) {
                (0, Function::Ping | Function::Pong) => 1,
                (0, _) => BURST_DEFAULT,
                (burst, _) => burst,
            },
            family,
            source_mac: self.source_mac,
            destination_mac: self.destination_mac.unwrap_or(MacAddress::BROADCAST),
            random_source: self.bits & RANDOM_SOURCE != 0,
            random_destination: self.bits & RANDOM_DESTINATION != 0,
            affinity: self.affinity,
            cpus: self.cpus,
            threads: self.threads.unwrap_or(1),
            report_ms: self.report_ms.unwrap_or(1000),
            wait_s: self.wait_s.unwrap_or(if interface.has_link() { 2 } else { 0 }),
            rate_pps: self.rate_pps,
            ends_in_silence: self.ends_in_silence,
            packet_file: self.packet_file,
            uninitialized: self.bits & UNINITIALIZED != 0,
            fragments: self.fragments.unwrap_or(1),
            fragment_len: self.fragment_len,
            dump: self.bits & DUMP != 0,
            verbose: self.verbose,
            averages: self.bits & AVERAGES != 0,
            style: Style { raw: self.raw, framing_bits: if self.framing { FRAMING_BITS } else { 0 } },
            timestamp: self.bits & TIMESTAMP != 0,
            warnings: self.warnings,
            interface,
        };
        super::checks::check(&options, self.len.is_some())?;
        Ok(options)
    }

    fn warn(&mut self) {
        if self.bits & INDIRECT != 0 {
            self.warnings.push("-I has no effect: ports take packets without a copy wherever they can".into());
        }
        let without_effect = self.bits & WITHOUT_EFFECT;
        if without_effect != 0 {
            let what = "packets are always written and their checksums always kept right";
            self.warnings.push(format!("-o {without_effect} has no effect: {what}"));
        }
    }

    fn range_texts(&mut self, family: Family) -> (String, String) {
        let defaults = match family {
            Family::V4 => ("10.0.0.1", "10.1.0.1"),
            // The IPv6 addresses set aside for benchmarks, RFC 5180 section 8.
            Family::V6 => ("2001:2::1", "2001:2:0:1::1"),
        };
        (
            self.source.take().unwrap_or_else(|| defaults.0.into()),
            self.destination.take().unwrap_or_else(|| defaults.1.into()),
        )
    }
}

/// 60 bytes, as the original, where the headers fit into them.
fn len_default(function: Function, family: Family) -> usize {
    super::checks::len_least(function, family).max(60)
}

fn number(given: &Given, least: u64, most: u64, what: &str) -> Result<u64, UsageError> {
    let Given { letter, argument } = given;
    let cure = match most {
        u64::MAX => format!("-{letter} takes a number of {what}"),
        _ => format!("-{letter} takes a number of {what} from {least} to {most}"),
    };
    let digits = !argument.is_empty() && argument.bytes().all(|byte| byte.is_ascii_digit());
    match argument.parse::<u64>() {
        Ok(number) if digits && (least..=most).contains(&number) => Ok(number),
        Ok(_) if digits => Err(UsageError::new(format!("-{letter} {argument} is out of range"), cure)),
        _ => Err(UsageError::new(format!("-{letter} {argument:?} is no number"), cure)),
    }
}

fn len(given: &Given) -> Result<usize, UsageError> {
    Ok(number(given, LEN_MIN as u64, LEN_MAX as u64, "bytes without FCS")? as usize)
}

fn function(name: &str) -> Result<Function, UsageError> {
    let found = Function::NAMES.iter().find(|(known, _)| *known == name);
    found.map(|(_, function)| *function).ok_or_else(|| {
        UsageError::new(format!("unrecognised function {name:?}"), "-f takes tx, rx, ping, pong, txseq or rxseq")
    })
}

fn interface(given: &Given) -> Result<Interface, UsageError> {
    Interface::parse(&given.argument).map_err(|error| UsageError::new(error.problem, error.cure))
}

fn mac(given: &Given) -> Result<MacAddress, UsageError> {
    let cure = format!("-{} takes one address, as 02:00:00:00:00:01", given.letter);
    given.argument.parse().map_err(|_| UsageError::new(format!("{:?} is no MAC address", given.argument), cure))
}

fn range(letter: char, text: &str, family: Family) -> Result<EndpointRange, UsageError> {
    EndpointRange::parse(text, family)
        .map_err(|error| UsageError::new(format!("-{letter} {}", error.problem), error.cure))
}

fn virtio_header(given: &Given) -> Result<(), UsageError> {
    match number(given, 0, 12, "bytes: 0, 10 or 12")? {
        0 => Ok(()),
        10 | 12 => Err(UsageError::new(
            format!("-H {}: no port of this version carries a virtio header", given.argument),
            "leave -H away; a tap: or interface port adds what its far side needs",
        )),
        _ => Err(UsageError::new("bad virtio-net-header length", "-H takes 0, 10 or 12")),
    }
}

fn option_bits(given: &Given) -> Result<u64, UsageError> {
    let bits = number(given, 0, u64::from(u32::MAX), "a bit mask")?;
    match bits & !ALL_BITS {
        0 => Ok(bits),
        unknown => Err(UsageError::new(
            format!("-o {bits}: bits {unknown} mean nothing"),
            format!("the bits that there are add up to {ALL_BITS}"),
        )),
    }
}
