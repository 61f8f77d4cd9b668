//! DPDK's testpmd: one forwarding core, interactive, its own port counters.

use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use super::process::{self, Running, core_ns};
use super::{Reached, Unable};

/// A testpmd and what it forwards.
pub struct Testpmd {
    running: Running,
}

/// How to start one.
pub struct Setup<'a> {
    /// Core of each of its forwarding threads.
    pub worker_cores: &'a [usize],
    /// Core of its idle main thread.
    pub main_core: usize,
    /// `--vdev` arguments.
    pub vdev: &'a str,
    /// `txonly`, `rxonly`, `flowgen`, `macswap`, `io`.
    pub mode: &'a str,
    /// More arguments for DPDK itself.
    pub eal: &'a [&'a str],
    /// More arguments for testpmd.
    pub more: &'a [&'a str],
    /// Run inside this network namespace. Without one, it goes before others on the machine where that is allowed.
    pub namespace: Option<&'a str>,
}

/// Bursts and the cache of each thread: of the settings tried, the fastest.
const BEST: &[&str] = &["--burst=64", "--mbcache=512"];

const PROMPTLY: Duration = Duration::from_millis(300);
/// Pause before another try: an earlier one's huge pages and sockets are given back meanwhile.
const RECOVERY: Duration = Duration::from_secs(1);

impl Testpmd {
    /// Starts one and its forwarding; once again where it does not come up.
    pub fn start(setup: &Setup) -> Result<Testpmd, Unable> {
        Testpmd::start_once(setup).or_else(|first| {
            std::thread::sleep(RECOVERY);
            Testpmd::start_once(setup).map_err(|again| {
                format!("testpmd {} on {} did not start: {first}; and again: {again}", setup.mode, setup.vdev)
            })
        })
    }

    fn start_once(setup: &Setup) -> Result<Testpmd, Unable> {
        let mut command = match setup.namespace {
            Some(name) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", name, "stdbuf"]);
                command
            }
            None => process::undisturbed("stdbuf"),
        };
        command.args(["-oL", "dpdk-testpmd"]);
        let prefix = format!("linerate{}-{}", std::process::id(), setup.mode);
        // The main thread, which waits for commands, may share its core with one that forwards.
        let mut cores = format!("0@{}", setup.main_core);
        for (number, core) in (1..).zip(setup.worker_cores) {
            let _ = write!(cores, ",{number}@{core}");
        }
        command.args([
            "--lcores",
            &cores,
            "--main-lcore=0",
            "--no-pci",
            "--no-telemetry",
            "-n",
            "1",
            "--file-prefix",
            &prefix,
        ]);
        command.args(["--vdev", setup.vdev]).args(setup.eal);
        command.args(["--", "-i", "--total-num-mbufs=16384"]).arg(format!("--forward-mode={}", setup.mode));
        command.arg(format!("--nb-cores={}", setup.worker_cores.len()));
        command.args(setup.more);
        let mut testpmd = Testpmd { running: Running::start(&mut command)? };
        testpmd.running.tell("show port info 0");
        testpmd.running.read_until(|line| line.contains("MAC address:").then_some(()))?;
        // What only passes packets on needs some to begin with.
        testpmd.running.tell(if matches!(setup.mode, "macswap" | "io") { "start tx_first 8" } else { "start" });
        std::thread::sleep(PROMPTLY);
        Ok(testpmd)
    }

    /// Packets that port 0 has received and sent.
    pub fn counters(&mut self) -> Result<(u64, u64), Unable> {
        self.running.tell("show port stats 0");
        let number = |line: &str, key: &str| {
            let (_, rest) = line.split_once(key)?;
            rest.split_whitespace().next()?.parse::<u64>().ok()
        };
        let said = |why| format!("testpmd, asked for its counters: {why}");
        let received = self.running.read_until(|line| number(line, "RX-packets:")).map_err(said)?;
        let sent = self.running.read_until(|line| number(line, "TX-packets:")).map_err(said)?;
        Ok((received, sent))
    }

    /// Counts what port 0 sends (or receives) for a while.
    pub fn measure(&mut self, sends: bool, duration: Duration) -> Result<Reached, Unable> {
        let first = self.reading(sends)?;
        std::thread::sleep(duration);
        let last = self.reading(sends)?;
        let packets = (last.0 - first.0) as f64;
        if packets == 0.0 {
            return Err("testpmd moved no packet".into());
        }
        Ok(Reached {
            wall_mpps: packets / (last.2 - first.2).as_secs_f64() / 1e6,
            core_ns: (last.1 - first.1) as f64 / packets,
        })
    }

    fn reading(&mut self, sends: bool) -> Result<(u64, u64, Instant), Unable> {
        let (received, sent) = self.counters()?;
        let core_ns = core_ns(self.id(), |thread| thread.contains("worker"));
        Ok((if sends { sent } else { received }, core_ns, Instant::now()))
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.running.id()
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        self.running.tell("quit");
        let _ = self.running.wait(Duration::from_secs(3));
    }
}

/// One core into net_null.
pub fn into_null(mode: &str, more: &[&str], duration: Duration) -> Result<Reached, Unable> {
    let more = [BEST, more].concat();
    let setup = Setup {
        worker_cores: &[1],
        main_core: 0,
        vdev: "net_null0",
        mode,
        eal: &["--in-memory"],
        more: &more,
        namespace: None,
    };
    Testpmd::start(&setup)?.measure(true, duration)
}

/// macswap between two rings that loop back, in both directions: packets circulate, and each has its first line changed.
pub fn over_rings(duration: Duration) -> Result<Reached, Unable> {
    rings("macswap", &[1], duration)
}

/// io with two threads between two rings: the packets of each ring are passed to the other one by a thread of its own, and nobody
/// touches them. Counted is each time that one was passed on.
pub fn around_rings(duration: Duration) -> Result<Reached, Unable> {
    rings("io", &[0, 1], duration)
}

fn rings(mode: &str, worker_cores: &[usize], duration: Duration) -> Result<Reached, Unable> {
    let reached = Testpmd::start(&Setup {
        worker_cores,
        main_core: 0,
        vdev: "net_ring0",
        mode,
        eal: &["--in-memory", "--vdev", "net_ring1"],
        more: BEST,
        namespace: None,
    })?
    .measure(true, duration)?;
    // Port 1 sends as many as port 0 does.
    Ok(Reached { wall_mpps: 2.0 * reached.wall_mpps, core_ns: reached.core_ns / 2.0 })
}

/// txonly -> net_memif -> rxonly, two processes on two cores; what the second receives. The receiver owns the memory (zero
/// copy).
pub fn over_memif(duration: Duration) -> Result<Reached, Unable> {
    let socket = format!("{}/linerate-memif-{}.sock", std::env::temp_dir().display(), std::process::id());
    let _ = std::fs::remove_file(&socket);
    let start = |role: &str, mode, main_core, worker_core| {
        Testpmd::start(&Setup {
            worker_cores: &[worker_core],
            main_core,
            vdev: &format!("net_memif0,role={role},socket={socket},socket-abstract=no"),
            mode,
            eal: &["--in-memory", "--single-file-segments"],
            more: BEST,
            namespace: None,
        })
    };
    let sender = start("server", "txonly", 1, 0)?;
    let mut receiver = start("client,zero-copy=yes", "rxonly", 0, 1)?;
    std::thread::sleep(Duration::from_millis(700));
    let reached = receiver.measure(false, duration);
    drop(sender);
    drop(receiver);
    let _ = std::fs::remove_file(&socket);
    reached
}
