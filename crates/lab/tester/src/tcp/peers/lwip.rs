//! lwIP, as Debian's package `liblwip-dev` has it: a program of C (`lwip.c`) that is compiled when it is wanted, with both ends in it, each with
//! its own copy of the library, and a queue of packets in memory between them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use linerate_experiment::{EchoOrder, EchoStack};
use linerate_report::{EchoPoint, EchoesFound};
use linerate_sys::clock;

use crate::tcp::PairError;
use crate::tcp::echo::{EchoOutcome, EchoSpec, account};
use linerate_testbed::cpu::CpuTimes;

const SOURCE: &str = include_str!("lwip.c");
/// Ports that lwIP gives to connections that are begun, with some to spare.
const CONNECTIONS_MAX: usize = 15_000;

/// Makes the test.
///
/// # Errors
/// lwIP or a C compiler is not installed, there are more connections than ports, or nothing comes back.
pub fn run(spec: &EchoSpec<'_>) -> Result<EchoOutcome, PairError> {
    if spec.connections > CONNECTIONS_MAX {
        let why =
            format!("lwIP looks at its connections one by one for each packet: at most {CONNECTIONS_MAX} are tried");
        return Err(PairError::Program(why));
    }
    let folder = Folder::new()?;
    let program = compile(&folder.0)?;
    let cpu_before = CpuTimes::read()?;
    let core = |at: usize| spec.cores[at].map_or("-1".to_owned(), |core| core.to_string());
    let seconds = (spec.duration_ns as f64 / 1e9).to_string();
    let orders = spec.orders.iter().map(|order| order.word());
    let (connections, library) = (spec.connections.to_string(), folder.0.join("end.so"));
    let output =
        Command::new(program).arg(library).args([connections, seconds, core(0), core(1)]).args(orders).output()?;
    let cpu = CpuTimes::read()?.since(&cpu_before);
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(PairError::Program(format!("lwIP: {}", why.trim())));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    read(&text, spec, cpu)
        .ok_or_else(|| PairError::Program("lwIP's program printed other lines than expected".to_owned()))
}

/// A folder of its own, which is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Folder> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("linerate-lwip-{}-{number}-{}", std::process::id(), clock::now_ns());
        let path = std::env::temp_dir().join(name);
        // A folder that somebody else made beforehand is refused.
        fs::create_dir(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Compiles both parts and returns the program.
fn compile(folder: &Path) -> Result<PathBuf, PairError> {
    let source = folder.join("lwip.c");
    fs::write(&source, SOURCE)?;
    let flags = Command::new("pkg-config").args(["--cflags", "--libs", "lwip"]).output();
    let flags = match flags {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        _ => "-I/usr/include/lwip -llwip".to_owned(),
    };
    let program = folder.join("lwip-echo");
    let end = ["-O2", "-shared", "-fPIC", "-DEND", "-o"];
    cc(&end, &folder.join("end.so"), &source, &flags.split_whitespace().collect::<Vec<_>>())?;
    cc(&["-O2", "-o"], &program, &source, &["-ldl", "-lpthread"])?;
    Ok(program)
}

fn cc(options: &[&str], output: &Path, source: &Path, libraries: &[&str]) -> Result<(), PairError> {
    let run = Command::new("cc").args(options).arg(output).arg(source).args(libraries).output();
    let missing = |why: &str| {
        PairError::Missing(format!(
            "lwIP is not installed (its row needs the package liblwip-dev and a C compiler): {why}"
        ))
    };
    let run = run.map_err(|error| missing(&format!("cc: {error}")))?;
    if run.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&run.stderr);
    let first = text.lines().find(|line| line.contains("error") || line.contains("cannot find"));
    Err(missing(first.unwrap_or("cc failed").trim()))
}

/// Numbers of a line `KEY NUMBER...`.
fn numbers<const N: usize>(text: &str, key: &str) -> Option<[f64; N]> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
    let numbers: Vec<f64> = line.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

fn read(text: &str, spec: &EchoSpec<'_>, cpu: CpuTimes) -> Option<EchoOutcome> {
    let point = |order: &EchoOrder| {
        let [echoes, wall_ns, core_ns, segments, data, sent, came, again] = numbers(text, order.word())?;
        let each = |total: f64| total / echoes;
        Some(EchoPoint {
            order: order.word().to_owned(),
            per_second: echoes * 1e9 / wall_ns,
            per_core_second: echoes * 1e9 / core_ns,
            per_ghz: None,
            echoes: account((sent as u64, sent as u64, came as u64), 0, "").ok()?,
            cycles_per_echo: None,
            segments_per_echo: each(segments),
            acks_per_echo: each(segments - data),
            retransmitted: again as u64,
            connections_lost: 0,
        })
    };
    let [connected, closed, set_up_ns, closing_ns] = numbers(text, "connections")?;
    let [client_sent, client_received, server_sent, server_received] = numbers(text, "packets")?;
    let each = |core_ns: f64| spec.connections as f64 * 1e9 / core_ns.max(1.0);
    let counts = (spec.connections as u64, connected as u64, closed as u64);
    let found = EchoesFound {
        stack: EchoStack::Lwip.name().to_owned(),
        connections: spec.connections as u64,
        preallocated_connections: 0,
        connection_account: account(counts, 0, "").ok()?,
        set_up_per_core_second: each(set_up_ns),
        torn_down_per_core_second: each(closing_ns),
        bytes_per_connection: None,
        resident_bytes: None,
        points: spec.orders.iter().map(point).collect::<Option<Vec<_>>>()?,
    };
    Some(EchoOutcome {
        found,
        packets: [(client_sent as u64, client_received as u64), (server_sent as u64, server_received as u64)],
        drops: Vec::new(),
        cpu,
        notes: vec![
            "lwIP: a queue in memory without Ethernet headers, checksums in software, Debian's options".to_owned(),
        ],
    })
}
