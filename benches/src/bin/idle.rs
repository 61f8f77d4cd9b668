//! `idle [SECONDS [PACKETS]]`: what a switch costs that nobody uses, and how long the first packet after a silence takes.
//!
//! ```text
//! this process, one core                            linerate switch, another core
//! sleep 100 ms; t0; memif a: transmit --- eventfd --> wakes up, receives, looks up, transmits
//! memif b: receive, spinning; t1      <-------------- (no bell: b's side is awake)
//! tap c and d the same by AF_PACKET: the kernel's own way from and to the sockets is in it
//! ```
//! Before each such packet, after the same silence, a bare thread on the switch's core is woken by a byte: the ratio of the two medians
//! is what the switch adds to a wake-up.
//! Without cores of their own the kernel may wake the switch on the core where this process spins, and let it wait for a tick of 4 ms.
//! The sender's own wake-up and the making of its packet are not in the time, its system call is. Run as root the switch has two memif and two TAP ports, in a
//! network namespace of its own; else two memif ports.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use linerate_benches::say;
use linerate_gen::Histogram;
use linerate_mem::{Batch, Pool};
use linerate_port::Port;
use linerate_sys::netns::NetNs;
use linerate_sys::{affinity, clock};

type Result<T> = std::result::Result<T, String>;

const SILENCE_NS: u64 = 100_000_000;
/// How long a packet may take that is to come for sure.
const PATIENCE_NS: u64 = 20_000_000_000;
const TAPS: [&str; 2] = ["idle-c", "idle-d"];

fn main() -> ExitCode {
    let number = |place: usize, default: u64| {
        std::env::args().nth(place).and_then(|number| number.parse().ok()).unwrap_or(default)
    };
    match measure(number(1, 10), number(2, 200)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("idle: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(seconds: u64, packets: u64) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("linerate-idle-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(text)?;
    let _folder = Folder(folder.clone());
    let taps = namespace().inspect_err(|error| say!("skipped: TAP ports: {error}")).is_ok();
    let cores = affinity::allowed_cores();
    let switch = Switch::start(&folder, taps, cores.first().filter(|_| cores.len() > 1))?;
    cores.last().map(|core| affinity::pin_to_core(*core)).transpose().map_err(text)?;

    let memif = |name: &str| format!("memif:{},role=client", folder.join(name).display());
    let mut near = Station::join(&memif("a"), 1)?;
    let mut far = Station::join(&memif("b"), 2)?;
    let mut pairs = vec![("memif to memif", &mut near, &mut far)];
    let mut stations = if taps { vec![Station::join(&format!("packet:{},prompt", TAPS[0]), 3)?] } else { Vec::new() };
    let mut others = if taps { vec![Station::join(&format!("packet:{},prompt", TAPS[1]), 4)?] } else { Vec::new() };
    pairs.extend(stations.iter_mut().zip(&mut others).map(|(near, far)| ("TAP to TAP", near, far)));
    for (_, near, far) in &mut pairs {
        near.prepare(far.number);
        near.transmit()?;
        far.await_from(near.number)?;
        far.prepare(near.number);
        far.transmit()?;
        near.await_from(far.number)?;
    }
    switch.show_share(seconds)?;
    let mut bare = cores.first().filter(|_| cores.len() > 1).map(|core| Sleeper::start(*core)).transpose()?;
    for (what, near, far) in &mut pairs {
        let [mut wake_ups, mut times] = [Histogram::default(), Histogram::default()];
        for _ in 0..packets {
            if let Some(bare) = &mut bare {
                clock::sleep_until_ns(clock::now_ns() + SILENCE_NS);
                wake_ups.record(bare.wake_up_ns()?);
            }
            clock::sleep_until_ns(clock::now_ns() + SILENCE_NS);
            near.prepare(far.number);
            let start_ns = clock::now_ns();
            near.transmit()?;
            far.await_from(near.number)?;
            times.record(clock::now_ns() - start_ns);
        }
        show("a bare thread on the switch's core, woken", &wake_ups);
        show(&format!("{what}, first packet"), &times);
        if let (Some(packet_ns), Some(bare_ns)) = (times.percentile_ns(50.0), wake_ups.percentile_ns(50.0)) {
            say!("{what}: {:.2} of the bare thread's wake-up (p50)", packet_ns as f64 / bare_ns as f64);
        }
    }
    switch.show_share(seconds)
}

fn show(what: &str, times: &Histogram) {
    let at = |percent| times.percentile_ns(percent).unwrap_or(0) as f64 / 1e3;
    let (p50, p99, max) = (at(50.0), at(99.0), times.max_ns().unwrap_or(0) as f64 / 1e3);
    say!("{what} after 100 ms: p50 {p50:.1} us, p99 {p99:.1} us, max {max:.1} us, of {}", times.count());
}

/// A thread that sleeps until it has a byte to read.
struct Sleeper {
    near: UnixStream,
    woken_ns: Arc<AtomicU64>,
}

impl Sleeper {
    /// Starts it on a core; it ends when this end is dropped.
    fn start(core: usize) -> Result<Sleeper> {
        let (near, mut far) = UnixStream::pair().map_err(text)?;
        let woken_ns = Arc::new(AtomicU64::new(0));
        let woken = Arc::clone(&woken_ns);
        std::thread::spawn(move || {
            let _ = affinity::pin_to_core(core);
            let mut byte = [0];
            while far.read_exact(&mut byte).is_ok() {
                woken.store(clock::now_ns(), Ordering::Release);
            }
        });
        Ok(Sleeper { near, woken_ns })
    }

    /// How long it takes until the thread runs, once it has something to read.
    fn wake_up_ns(&mut self) -> Result<u64> {
        let start_ns = clock::now_ns();
        self.near.write_all(&[1]).map_err(text)?;
        while self.woken_ns.load(Ordering::Acquire) < start_ns {
            std::hint::spin_loop();
        }
        Ok(self.woken_ns.load(Ordering::Acquire) - start_ns)
    }
}

/// Only what is made here is on its networks, and it ends with this process and its child.
fn namespace() -> Result<()> {
    NetNs::anonymous().and_then(|namespace| namespace.enter()).map_err(text)?;
    // Else the kernel sends packets of its own to look for routers.
    for of in ["all", "default"] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{of}/disable_ipv6"), "1");
    }
    Ok(())
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Switch(Child);

impl Switch {
    fn start(folder: &Path, taps: bool, core: Option<&usize>) -> Result<Switch> {
        let program = std::env::current_exe().map_err(text)?.with_file_name("linerate");
        let mut command = Command::new(&program);
        command.args(["switch", "--name", "idle", "--quiet"]).env("XDG_RUNTIME_DIR", folder).stdin(Stdio::null());
        if let Some(core) = core {
            command.args(["--cores", &core.to_string()]);
        }
        for name in ["a", "b"] {
            command.arg("--port").arg(format!("{name}=memif:{}", folder.join(name).display()));
        }
        for name in TAPS.iter().take(if taps { 2 } else { 0 }) {
            command.arg("--port").arg(format!("tap:{name}"));
        }
        let child = command.spawn().map_err(|error| format!("{}: {error}; build it first", program.display()))?;
        let mut switch = Switch(child);
        let give_up_ns = clock::now_ns() + PATIENCE_NS;
        let last = if taps { Path::new("/proc/net/dev").into() } else { folder.join("b") };
        let is_up = || match taps {
            true => std::fs::read_to_string(&last).is_ok_and(|devices| devices.contains(TAPS[1])),
            false => last.exists(),
        };
        while !is_up() {
            if switch.0.try_wait().map_err(text)?.is_some() || clock::now_ns() > give_up_ns {
                return Err("the switch did not start".into());
            }
            clock::sleep_until_ns(clock::now_ns() + 1_000_000);
        }
        Ok(switch)
    }

    /// Time on a core of all of its threads, from /proc/PID/task/*/schedstat (Documentation/scheduler/sched-stats.rst).
    fn core_ns(&self) -> Result<u64> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).map_err(text)?;
        let of_task = |path: PathBuf| -> Result<u64> {
            let stats = std::fs::read_to_string(path.join("schedstat")).map_err(text)?;
            stats.split_whitespace().next().and_then(|first| first.parse().ok()).ok_or_else(|| "no schedstat".into())
        };
        tasks.flatten().map(|task| of_task(task.path())).sum()
    }

    fn show_share(&self, seconds: u64) -> Result<()> {
        let (start_ns, before_ns) = (clock::now_ns(), self.core_ns()?);
        clock::sleep_until_ns(start_ns + seconds * 1_000_000_000);
        let (end_ns, after_ns) = (clock::now_ns(), self.core_ns()?);
        let percent = (after_ns - before_ns) as f64 * 100.0 / (end_ns - start_ns) as f64;
        say!("idle for {seconds} s: {percent:.3} % of a core");
        Ok(())
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A host behind a port: its address is 02:00:00:00:00:NUMBER.
struct Station {
    port: Box<dyn Port>,
    pool: Pool,
    batch: Batch,
    number: u8,
}

impl Station {
    fn join(spec: &str, number: u8) -> Result<Station> {
        let pool = Pool::new(Default::default()).map_err(text)?;
        let port = linerate_ports::open(spec, &pool).map_err(text)?;
        let batch = Batch::new(&pool, 64);
        Ok(Station { port, pool, batch, number })
    }

    /// Makes a packet for another host.
    fn prepare(&mut self, to: u8) {
        self.pool.alloc(&mut self.batch, 1, 60);
        let packet = self.batch.packet_mut(0);
        packet.fill(0);
        packet[..6].copy_from_slice(&[2, 0, 0, 0, 0, to]);
        packet[6..14].copy_from_slice(&[2, 0, 0, 0, 0, self.number, 0x88, 0xb5]);
    }

    /// Sends what is prepared.
    fn transmit(&mut self) -> Result<()> {
        let give_up_ns = clock::now_ns() + PATIENCE_NS;
        // A memif that has just been opened is not joined yet.
        while self.port.transmit(&mut self.batch).map_err(text)? == 0 {
            if clock::now_ns() > give_up_ns {
                return Err(format!("{} takes nothing", self.port.caps().name));
            }
        }
        self.port.flush().map(drop).map_err(text)
    }

    /// Looks without a pause until a packet of that station is there.
    fn await_from(&mut self, number: u8) -> Result<()> {
        let give_up_ns = clock::now_ns() + PATIENCE_NS;
        loop {
            let came = self.port.receive(&mut self.batch).map_err(text)?;
            let found = came > 0 && self.batch.iter().any(|packet| packet.get(11) == Some(&number));
            self.pool.free(&mut self.batch);
            if found {
                return Ok(());
            }
            if clock::now_ns() > give_up_ns {
                return Err(format!("nothing comes at {}", self.port.caps().name));
            }
        }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
