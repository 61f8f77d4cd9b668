//! Virtual machines of QEMU, each with one card on a vhost-user socket: one pings the other and sends it a file. Shared by the tests
//! of the port and of the programs that have such ports.
#![allow(dead_code, reason = "each test uses another part")]

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::program::{Program, installed};

const QEMU: &str = "qemu-system-x86_64";
/// A machine without hardware support, on cores that others use, takes its time.
const BOOT: Duration = Duration::from_secs(200);
/// How long Debian's packages of the guest may take to come.
const DOWNLOAD: Duration = Duration::from_secs(120);

/// The folder of the guest's kernel and first process: `LINERATE_GUEST`, else made of Debian's packages, once for all tests.
pub fn guest() -> Option<PathBuf> {
    if !installed(QEMU) {
        eprintln!("skipped: {QEMU} is not installed (apt install qemu-system-x86)");
        return None;
    }
    let named = std::env::var_os("LINERATE_GUEST").map(PathBuf::from);
    let folder = named.clone().unwrap_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest"));
    if is_there(&folder) {
        return Some(folder);
    }
    let why = match named {
        Some(folder) => format!("no guest in {}", folder.display()),
        None => match make(&folder) {
            Ok(()) => return Some(folder),
            Err(why) => why,
        },
    };
    eprintln!(
        "skipped: {why}; crates/ports/vhost/tests/guest/make.sh FOLDER makes a guest, LINERATE_GUEST=FOLDER names it"
    );
    None
}

fn is_there(folder: &Path) -> bool {
    folder.join("kernel").is_file() && folder.join("initramfs").is_file()
}

/// Makes it beside its place and moves it there, so that tests that run at the same time do not meet.
fn make(folder: &Path) -> Result<(), String> {
    if let Some(missing) = ["apt-get", "apt-cache", "dpkg-deb", "gzip"].into_iter().find(|tool| !installed(tool)) {
        return Err(format!("no guest, and no {missing} to make one"));
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find_map(|above| {
        let script = above.join("crates/ports/vhost/tests/guest/make.sh");
        script.is_file().then_some(script)
    });
    let script = script.ok_or("no guest, and make.sh is not there")?;
    let own = folder.with_extension(std::process::id().to_string());
    let failed = |error: std::io::Error| format!("no guest, and make.sh: {error}");
    let mut making = Command::new("sh");
    making.arg(script).arg(&own).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut making = making.spawn().map_err(failed)?;
    let deadline = Instant::now() + DOWNLOAD;
    let ended = loop {
        match making.try_wait().map_err(failed)? {
            Some(status) => break status.success(),
            None if Instant::now() >= deadline => {
                let _ = making.kill();
                let _ = making.wait();
                break false;
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    let made = ended && is_there(&own) && (fs::rename(&own, folder).is_ok() || is_there(folder));
    let _ = fs::remove_dir_all(&own);
    if made { Ok(()) } else { Err("no guest, and Debian's packages for one could not be had".into()) }
}

/// How the card of a machine is attached.
#[derive(Clone, Copy, Default)]
pub struct Card {
    /// QEMU listens.
    pub server: bool,
    /// Queue pairs.
    pub pairs: usize,
    /// More about the card itself.
    pub more: &'static str,
}

/// Starts machine `number`, 10.0.0.`number`.
fn start(guest: &Path, socket: &Path, number: u8, card: Card, orders: &str) -> Program {
    let role = if card.server { ",server=on,wait=on" } else { ",reconnect=1" };
    let pairs = card.pairs.max(1);
    let mut command = Command::new(QEMU);
    command.args(["-machine", "q35,accel=tcg,memory-backend=mem", "-cpu", "max", "-m", "192M", "-nodefaults"]);
    command.args(["-object", "memory-backend-memfd,id=mem,size=192M,share=on", "-display", "none", "-no-reboot"]);
    command.args(["-smp", &pairs.to_string(), "-serial", "stdio"]);
    command.arg("-kernel").arg(guest.join("kernel")).arg("-initrd").arg(guest.join("initramfs"));
    command.args(["-append", &format!("console=ttyS0 quiet panic=-1 address=10.0.0.{number}/24 {orders}")]);
    command.args(["-chardev", &format!("socket,id=char,path={}{role}", socket.display())]);
    command.args(["-netdev", &format!("vhost-user,id=net,chardev=char,queues={pairs}")]);
    let queues = if pairs > 1 { ",mq=on" } else { "" };
    let mac = format!("02:00:00:00:00:{number:02x}");
    // Without interrupt vectors: some versions of QEMU (Debian's 7.2.22) look for a peer of the control queue, which has none, when
    // its vector is masked, and crash.
    command.args(["-device", &format!("virtio-net-pci,netdev=net,mac={mac},romfile=,vectors=0{queues}{}", card.more)]);
    Program::start(&mut command)
}

/// What two machines said to each other.
pub struct Talk {
    asking: Program,
    answering: Program,
    done: bool,
    /// Sum of the file that arrived.
    arrived: Option<String>,
}

/// Lets the first machine ping the second and send it a file of 2 MiB, each behind a socket that something serves.
pub fn talk(guest: &Path, sockets: [&Path; 2], cards: [Card; 2], orders: &str) -> Talk {
    let mut answering = start(guest, sockets[1], 2, cards[1], orders);
    let mut asking = start(guest, sockets[0], 1, cards[0], &format!("{orders} ping=10.0.0.2"));
    let done = asking.hear_within(BOOT, |line| line.contains("GUEST: done").then_some(())).is_some();
    let arrived = if done { answering.hear_within(BOOT, sum) } else { None };
    Talk { asking, answering, done, arrived }
}

impl Talk {
    /// All pings of both sizes were answered, and the file that arrived is the one that was sent. `more` is told otherwise.
    pub fn check(&self, more: &dyn Debug) {
        let said = |program: &Program| program.said.join("\n");
        let (asked, answered) = (said(&self.asking), said(&self.answering));
        assert!(self.done, "the first machine:\n{asked}\nthe second:\n{answered}\n{more:?}");
        for size in ["small", "large"] {
            let all = format!("{size}: 20 packets transmitted, 20 packets received, 0% packet loss");
            assert!(asked.contains(&all), "{all}:\n{asked}\n{more:?}");
        }
        let sent = self.asking.said.iter().find_map(|line| sum(line));
        let arrived = &self.arrived;
        assert!(sent.is_some() && sent == *arrived, "the file sent is {sent:?}, what arrived {arrived:?}\n{answered}");
    }
}

fn sum(line: &str) -> Option<String> {
    Some(line.split_once("GUEST: sum ")?.1.to_string())
}
