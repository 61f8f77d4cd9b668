//! Counters from `/proc/net` of one namespace, and the machine-wide ones beside them.
//!
//! `/proc/net` is that of the process's first thread; a thread's own is `/proc/thread-self/net` (proc(5)). A file keeps the
//! namespace in which it was opened, so it is opened once, inside, and then read from anywhere.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek};

/// Counters by name.
pub type Counters = BTreeMap<String, u64>;

/// An open file of `/proc`, read again from its start each time.
#[derive(Debug)]
pub struct ProcFile(File);

impl ProcFile {
    /// Opens `/proc/thread-self/net/NAME`.
    ///
    /// # Errors
    /// As the file system says, for example because the kernel lacks what the file tells of.
    pub fn of_this_thread(name: &str) -> io::Result<Self> {
        File::open(format!("/proc/thread-self/net/{name}")).map(Self)
    }

    /// Reads the whole file.
    ///
    /// # Errors
    /// As the file system says.
    pub fn read(&mut self) -> io::Result<String> {
        let mut text = String::new();
        self.0.rewind()?;
        self.0.read_to_string(&mut text)?;
        Ok(text)
    }
}

/// Whether a packet socket takes what arrives on one of these interfaces, by `/proc/net/packet`. (One without a protocol only sends.)
pub fn has_packet_socket(text: &str, interfaces: [u32; 2]) -> bool {
    let takes = |line: &str| -> Option<bool> {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (protocol, interface, running) = (columns.get(3)?, columns.get(4)?.parse::<u32>().ok()?, columns.get(5)?);
        let is_meant = interface == 0 || interfaces.contains(&interface);
        Some(is_meant && *running == "1" && protocol.bytes().any(|digit| digit != b'0'))
    };
    text.lines().skip(1).any(|line| takes(line) == Some(true))
}

/// The IPv4, ICMP, UDP and TCP counters of a namespace (`snmp`, `netstat`), IPv6's (`snmp6`), connection tracking's and
/// IPsec's (`xfrm_stat`).
#[derive(Debug)]
pub struct ProcNet {
    snmp: ProcFile,
    netstat: ProcFile,
    snmp6: Option<ProcFile>,
    conntrack: Option<ProcFile>,
    xfrm: Option<ProcFile>,
}

impl ProcNet {
    /// Those of the calling thread's namespace.
    ///
    /// # Errors
    /// When `snmp` or `netstat` cannot be opened; the others are optional.
    pub fn of_this_thread() -> io::Result<Self> {
        Ok(Self {
            snmp: ProcFile::of_this_thread("snmp")?,
            netstat: ProcFile::of_this_thread("netstat")?,
            snmp6: ProcFile::of_this_thread("snmp6").ok(),
            conntrack: ProcFile::of_this_thread("stat/nf_conntrack").ok(),
            xfrm: ProcFile::of_this_thread("xfrm_stat").ok(),
        })
    }

    /// All of them: `Ip.InReceives`, `IpExt.InNoRoutes`, `Ip6InReceives`, `conntrack.drop`, `XfrmInPolBlock`.
    ///
    /// # Errors
    /// As the file system says.
    pub fn read(&mut self) -> io::Result<Counters> {
        let mut counters = parse_paired(&self.snmp.read()?);
        counters.extend(parse_paired(&self.netstat.read()?));
        for file in [&mut self.snmp6, &mut self.xfrm].into_iter().flatten() {
            counters.extend(parse_lines(&file.read()?));
        }
        if let Some(file) = &mut self.conntrack {
            let columns = sum_columns(&file.read()?);
            counters.extend(columns.into_iter().map(|(name, value)| (format!("conntrack.{name}"), value)));
        }
        Ok(counters)
    }
}

/// What one core's receive path dropped or put off (`/proc/net/softnet_stat`; machine-wide).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Softnet {
    /// Packets dropped because the core's backlog was full.
    pub dropped: u64,
    /// Times the receive softirq ran out of its time or packet budget.
    pub time_squeeze: u64,
}

/// Softnet counters by core, from the text of `softnet_stat`.
pub fn parse_softnet(text: &str) -> BTreeMap<usize, Softnet> {
    let core = |(number, line): (usize, &str)| {
        let field =
            |index: usize| line.split_whitespace().nth(index).and_then(|word| u64::from_str_radix(word, 16).ok());
        // The core's number is column 12 since Linux 5.14; before, the line's own.
        let core = field(12).map_or(number, |core| core as usize);
        Some((core, Softnet { dropped: field(1)?, time_squeeze: field(2)? }))
    };
    text.lines().enumerate().filter_map(core).collect()
}

/// `snmp` and `netstat`: a line of names and a line of values, both starting with the group.
fn parse_paired(text: &str) -> Counters {
    let lines: Vec<&str> = text.lines().collect();
    let mut counters = Counters::new();
    for pair in lines.chunks_exact(2) {
        let (Some((group, names)), Some((_, values))) = (pair[0].split_once(':'), pair[1].split_once(':')) else {
            continue;
        };
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
            // A few entries are settings that may be negative (Tcp MaxConn); they are no counters.
            if let Ok(value) = value.parse() {
                counters.insert(format!("{group}.{name}"), value);
            }
        }
    }
    counters
}

/// `snmp6`: a name and a value in each line.
fn parse_lines(text: &str) -> Counters {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// `/proc/net/stat/*`: a line of names, then one line of hexadecimal values for each core.
pub(crate) fn sum_columns(text: &str) -> Counters {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let mut counters: Counters = names.iter().map(|name| ((*name).to_owned(), 0)).collect();
    for line in lines {
        for (name, word) in names.iter().zip(line.split_whitespace()) {
            if let (Some(sum), Ok(value)) = (counters.get_mut(*name), u64::from_str_radix(word, 16)) {
                *sum += value;
            }
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_sockets_that_receive_are_told_from_those_that_send() {
        let head = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n";
        let line = |protocol, interface, running| {
            format!("{head}ffff8881 3      3    {protocol}   {interface}     {running} 0      0      4242\n")
        };
        assert!(has_packet_socket(&line("0003", 7, 1), [7, 8]) && has_packet_socket(&line("0800", 0, 1), [7, 8]));
        for other in [line("0000", 7, 1), line("0003", 9, 1), line("0003", 7, 0), head.to_owned(), "x\ny z".to_owned()]
        {
            assert!(!has_packet_socket(&other, [7, 8]), "{other}");
        }
    }

    #[test]
    fn names_and_values_are_paired_by_group() {
        let text = "Ip: Forwarding InReceives\nIp: 1 17\nTcp: MaxConn InSegs\nTcp: -1 4\n";
        let counters = parse_paired(text);
        assert_eq!(counters["Ip.InReceives"], 17);
        assert_eq!(counters["Tcp.InSegs"], 4);
        assert!(!counters.contains_key("Tcp.MaxConn"));
        assert_eq!(parse_paired("Ip: A B\n"), Counters::new());
    }

    #[test]
    fn columns_are_summed_over_the_cores() {
        let text = "entries  drop early_drop\n00000002  0000000a 00000000\n00000002  00000001 00000003\n";
        let counters = sum_columns(text);
        assert_eq!((counters["drop"], counters["early_drop"]), (11, 3));
        assert_eq!(sum_columns(""), Counters::new());
    }

    #[test]
    fn softnet_lines_carry_their_core() {
        let line = |core: u32| format!("0000000a 00000005 00000002 0 0 0 0 0 0 0 0 00000000 {core:08x} 0 0");
        let cores = parse_softnet(&format!("{}\n{}\n", line(0), line(3)));
        assert_eq!(cores.keys().copied().collect::<Vec<_>>(), [0, 3]);
        assert_eq!(cores[&3], Softnet { dropped: 5, time_squeeze: 2 });
        // Before Linux 5.14 there is no core number.
        assert_eq!(parse_softnet("1 2 3\n1 4 5\n")[&1], Softnet { dropped: 4, time_squeeze: 5 });
    }

    #[test]
    fn this_machines_files_have_the_counters_that_the_ledger_reads() {
        let Ok(mut files) = ProcNet::of_this_thread() else { return eprintln!("skipped: no /proc/net") };
        let counters = files.read().expect("read");
        for name in ["Ip.InReceives", "Ip.ForwDatagrams", "Ip.InHdrErrors", "IpExt.InNoRoutes"] {
            assert!(counters.contains_key(name), "{name} is missing");
        }
        assert!(files.read().is_ok(), "they can be read again");
    }
}
