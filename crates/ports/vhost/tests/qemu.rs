//! Virtual machines at both ends: a guest pings another one and sends it a file, through two ports of this process.

mod common;
#[path = "common/program.rs"]
mod program;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Place, pool};
use linerate_mem::{Batch, Pool};
use linerate_port::{Interest, Port, Stats};
use linerate_port_vhost::VhostPort;
use program::{Program, installed};

const QEMU: &str = "qemu-system-x86_64";
/// A machine without hardware support, on cores that others use, takes its time.
const BOOT: Duration = Duration::from_secs(200);

/// The folder of the guest's kernel and first process.
fn guest() -> Option<PathBuf> {
    if !installed(QEMU) {
        eprintln!("skipped: {QEMU} is not installed (apt install qemu-system-x86)");
        return None;
    }
    let folder = std::env::var_os("LINERATE_GUEST").map(PathBuf::from);
    let there = |folder: &PathBuf| folder.join("kernel").is_file() && folder.join("initramfs").is_file();
    if folder.as_ref().is_some_and(there) {
        return folder;
    }
    eprintln!(
        "skipped: no guest; crates/ports/vhost/tests/guest/make.sh FOLDER makes one, LINERATE_GUEST=FOLDER names it"
    );
    None
}

/// How the card of a machine is attached.
#[derive(Clone, Copy, Default)]
struct Card {
    /// QEMU listens.
    server: bool,
    /// Queue pairs.
    pairs: usize,
    /// More about the card itself.
    more: &'static str,
}

fn machine(guest: &Path, socket: &Path, number: u8, card: Card, orders: &str) -> Program {
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

/// Moves what waits at one port to the other.
fn carry(from: &mut VhostPort, to: &mut VhostPort, batch: &mut Batch) -> usize {
    let moved = from.receive(batch).unwrap();
    while !batch.is_empty() {
        if to.transmit(batch).unwrap() == 0 {
            let _ = to.wait(Interest::Transmit, 1_000_000).unwrap();
        }
    }
    moved
}

/// Joins two ports until told to stop; their totals.
fn join(mut ports: [VhostPort; 2], pool: &Pool, stop: &AtomicBool) -> [Stats; 2] {
    let mut batch = Batch::new(pool, 256);
    while !stop.load(Ordering::Relaxed) {
        let [first, second] = &mut ports;
        let moved = carry(first, second, &mut batch) + carry(second, first, &mut batch);
        if moved == 0 {
            let _ = first.wait(Interest::Receive, 1_000_000).unwrap();
        }
    }
    ports.map(|mut port| port.stats().unwrap())
}

/// Two machines, and what they say.
fn between(guest: &Path, options: [&str; 2], cards: [Card; 2], orders: &str) -> [Stats; 2] {
    let (places, pool) = ([Place::new(), Place::new()], pool());
    let ports = [0, 1].map(|n| places[n].open(options[n], &pool));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let joined = scope.spawn(|| join(ports, &pool, &stop));
        let mut answering = machine(guest, &places[1].path(), 2, cards[1], orders);
        let mut asking = machine(guest, &places[0].path(), 1, cards[0], &format!("{orders} ping=10.0.0.2"));
        let done = asking.hear_within(BOOT, |line| line.contains("GUEST: done").then_some(()));
        let sum = |line: &str| Some(line.split_once("GUEST: sum ")?.1.to_string());
        let arrived = done.and_then(|()| answering.hear_within(BOOT, sum));
        stop.store(true, Ordering::Relaxed);
        let stats = joined.join().unwrap();
        let said = |program: &Program| program.said.join("\n");
        let (asked, answered) = (said(&asking), said(&answering));
        assert!(done.is_some(), "the first machine:\n{asked}\nthe second:\n{answered}\n{stats:?}");
        for size in ["small", "large"] {
            let all = format!("{size}: 20 packets transmitted, 20 packets received, 0% packet loss");
            assert!(asked.contains(&all), "{all}:\n{asked}\n{stats:?}");
        }
        let sent = asking.said.iter().find_map(|line| sum(line));
        assert!(sent.is_some() && sent == arrived, "the file sent is {sent:?}, what arrived {arrived:?}\n{answered}");
        stats
    })
}

#[test]
fn a_guest_pings_another_and_sends_it_a_file() {
    let Some(guest) = guest() else { return };
    let plain = Card { more: ",mrg_rxbuf=off", ..Card::default() };
    let stats = between(&guest, ["", ""], [Card::default(), plain], "");
    for end in 0..2 {
        assert_eq!(
            (stats[end].rx_dropped(), stats[end].rx_packets),
            (0, stats[1 - end].tx_packets + stats[1 - end].tx_dropped())
        );
        assert!(stats[end].tx_packets > 100, "{stats:?}");
    }
}

#[test]
fn guests_with_jumbo_packets_queues_and_a_listening_qemu() {
    let Some(guest) = guest() else { return };
    let first = Card { pairs: 2, ..Card::default() };
    let second = Card { server: true, more: ",event_idx=off,indirect_desc=off", ..Card::default() };
    between(&guest, [",queues=2,mtu=4000", ",role=client,mtu=4000"], [first, second], "mtu=4000");
}
