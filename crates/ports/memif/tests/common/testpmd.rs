//! dpdk-testpmd with one memif port, in a process of its own, told what to do over its standard input.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Starting takes a second on an idle machine, and a minute on one where twenty others want each core.
const PATIENCE: Duration = Duration::from_secs(240);

pub struct Testpmd {
    process: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    /// Everything it said, for when something is missing.
    said: Vec<String>,
    /// Its `--file-prefix`.
    prefix: String,
}

/// Why there is no testpmd here, if there is none.
pub fn missing() -> Option<String> {
    let found = |program: &str| {
        let mut command = Command::new(program);
        let ran = command.arg("--help").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        ran.err().map(|error| format!("{program} cannot be run: {error}"))
    };
    found("stdbuf").or_else(|| found("dpdk-testpmd"))
}

/// Free huge pages of 2 MiB.
pub fn free_huge_pages() -> u32 {
    let text = std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

impl Testpmd {
    /// Starts one that forwards in this mode: `rxonly`, `txonly`, `io`. Without huge pages, unless `huge`.
    pub fn start(vdev: &str, mode: &str, more: &[&str], huge: bool) -> Result<Testpmd, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("memif-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut command = Command::new("stdbuf");
        command.args(["-oL", "dpdk-testpmd"]);
        command.args(["-l", "0,1", "--no-pci", "--no-telemetry", "-n", "1", "--file-prefix", &prefix, "--vdev", vdev]);
        let memory: &[&str] =
            if huge { &["--in-memory", "--single-file-segments", "-m", "100"] } else { &["--no-huge", "-m", "100"] };
        command.args(memory).args(["--", "-i", "--total-num-mbufs=4096", "--port-topology=loop", "--no-flush-rx"]);
        command.arg(format!("--forward-mode={mode}")).args(more);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().map_err(|error| error.to_string())?;
        let (sender, lines) = channel();
        let input = process.stdin.take().ok_or("no input")?;
        let outputs: [Box<dyn std::io::Read + Send>; 2] =
            [Box::new(process.stdout.take().ok_or("no output")?), Box::new(process.stderr.take().ok_or("no errors")?)];
        for output in outputs {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        let mut testpmd = Testpmd { process, input, lines, said: Vec::new(), prefix };
        testpmd.tell("show port info 0");
        testpmd.wait_for("MAC address")?;
        Ok(testpmd)
    }

    pub fn tell(&mut self, command: &str) {
        // One that ended is noticed by what it does not answer.
        let _ = writeln!(self.input, "{command}");
    }

    fn wait_for(&mut self, text: &str) -> Result<String, String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(text) => return Ok(line),
                Ok(line) => self.said.push(line),
                Err(_) => return Err(format!("testpmd did not say {text:?}, but:\n{}", self.said.join("\n"))),
            }
        }
    }

    /// Packets that its port has received and sent.
    pub fn counters(&mut self) -> Result<(u64, u64), String> {
        self.tell("show port stats 0");
        let mut number = |key: &str| -> Result<u64, String> {
            let line = self.wait_for(key)?;
            let digits = line.split_once(key).and_then(|(_, rest)| rest.split_whitespace().next());
            digits.and_then(|digits| digits.parse().ok()).ok_or(format!("no number in {line:?}"))
        };
        Ok((number("RX-packets:")?, number("TX-packets:")?))
    }

    pub fn kill(mut self) {
        let _ = self.process.kill();
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        self.tell("quit");
        let deadline = Instant::now() + Duration::from_secs(10);
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        // Without huge pages it leaves a folder behind, in root's place or in that of another user.
        let own = std::env::var("XDG_RUNTIME_DIR").unwrap_or_else(|_| "/tmp".into());
        for folder in ["/var/run", &own] {
            let _ = std::fs::remove_dir_all(format!("{folder}/dpdk/{}", self.prefix));
        }
    }
}
