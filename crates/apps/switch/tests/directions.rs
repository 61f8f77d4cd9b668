//! Ten million packets in each of the twelve directions of four ports, between threads, while ports are removed and added: each
//! direction has a VLAN of its own, so that the switch's count of it can be held beside that of those who sent and received.
//!
//! ```text
//! sent = received by the switch = passed on + dropped, by reason           of each direction
//! passed on = received by its station + thrown away with ports that went     of all of them
//! ```
//! A debug build moves a five-hundredth of them, with the same events.

use super::common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use common::{ask, show, snapshot, start_in, wait_until};
use linerate_control::{Command, SettingValue, Settings};
use linerate_mem::{Batch, Pool};
use linerate_port::{Interest, Port, Readiness};
use linerate_switch::request::{Request, What};
use linerate_switch::{Config, Running};

const EACH_WAY: u64 = if cfg!(debug_assertions) { 20_000 } else { 10_000_000 };
/// Times that each port goes and comes.
const TIMES: u64 = 8;
const STATIONS: usize = 4;
const BURST: usize = 32;

fn vlan(from: usize, to: usize) -> u16 {
    100 + (from * STATIONS + to) as u16
}

fn others(station: usize) -> impl Iterator<Item = usize> {
    (0..STATIONS).filter(move |other| *other != station)
}

fn address(station: usize) -> [u8; 6] {
    [2, 0, 0, 0, 2, station as u8]
}

/// A host behind a port that goes and comes.
struct Host<'a> {
    running: &'a Running,
    number: usize,
    /// How often its port went.
    times: u64,
    port: Box<dyn Port>,
    pool: Pool,
    batch: Batch,
    /// By the other station; of what was sent through the port that is there now, too.
    sent: [u64; STATIONS],
    received: [u64; STATIONS],
    last: [u64; STATIONS],
    sent_here: u64,
}

/// Adds the port of a station to the switch, and its addresses; returns the far end.
fn join(running: &Running, number: usize, times: u64) -> Box<dyn Port> {
    let (name, pipe) = (format!("s{number}"), format!("way-{number}-{times}"));
    let vlans: Vec<String> = others(number)
        .flat_map(|other| [vlan(number, other), vlan(other, number)])
        .map(|vlan| vlan.to_string())
        .collect();
    let settings: Settings = [("trunk".to_string(), SettingValue(vlans.join(",")))].into();
    ask(running, &Command::AddPort { name: Some(name.clone()), spec: format!("pipe:{pipe}"), settings }).unwrap();
    for other in others(number) {
        let mac = format!("02:00:00:00:02:{number:02x}");
        ask(running, &Request::AddMac { mac, port: name.clone(), vlan: Some(vlan(other, number)) }).unwrap();
    }
    linerate_ports::open(&format!("pipe:{pipe}"), running.pool()).unwrap()
}

impl Host<'_> {
    fn new(running: &Running, number: usize) -> Host<'_> {
        let (pool, port) = (running.pool().clone(), join(running, number, 0));
        let batch = Batch::new(&pool, 256);
        let [sent, received, last] = [[0; STATIONS]; 3];
        Host { running, number, times: 0, port, pool, batch, sent, received, last, sent_here: 0 }
    }

    fn send(&mut self, to: usize) {
        let count = (EACH_WAY - self.sent[to]).min(BURST as u64) as usize;
        self.pool.alloc(&mut self.batch, count, 60);
        for (packet, number) in self.batch.iter_mut().zip(self.sent[to] + 1..) {
            packet[..6].copy_from_slice(&address(to));
            packet[6..12].copy_from_slice(&address(self.number));
            packet[12..14].copy_from_slice(&[0x81, 0x00]);
            packet[14..16].copy_from_slice(&vlan(self.number, to).to_be_bytes());
            packet[16..18].copy_from_slice(&[0x88, 0xb5]);
            packet[18..26].copy_from_slice(&number.to_be_bytes());
        }
        let taken = self.port.transmit(&mut self.batch).unwrap() as u64;
        self.pool.free(&mut self.batch);
        self.sent[to] += taken;
        self.sent_here += taken;
    }

    fn receive(&mut self) -> usize {
        let came = self.port.receive(&mut self.batch).unwrap();
        for packet in self.batch.iter() {
            let from = usize::from(packet[11]);
            let (way, number) = (u16::from_be_bytes([packet[14], packet[15]]), &packet[18..26]);
            assert_eq!((way & 0xfff, &packet[..6]), (vlan(from, self.number), &address(self.number)[..]));
            let number = u64::from_be_bytes(number.try_into().unwrap());
            assert!(number > self.last[from], "{from} to {}: {number} after {}", self.number, self.last[from]);
            self.last[from] = number;
            self.received[from] += 1;
        }
        self.pool.free(&mut self.batch);
        came
    }

    /// The port goes, while the others send on, and a new one comes.
    fn leave_and_come(&mut self) {
        let name = format!("s{}", self.number);
        wait_until("all that was sent is in the switch", || {
            self.receive();
            let seen = snapshot(self.running);
            seen.ports.iter().any(|port| port.name == name && port.counters.received == self.sent_here)
        });
        ask(self.running, &Command::RemovePort { port: name }).unwrap();
        wait_until("the port is gone", || {
            while self.receive() > 0 {}
            self.port.wait(Interest::Receive, 0).unwrap() == Readiness::Closed && self.receive() == 0
        });
        self.times += 1;
        self.sent_here = 0;
        self.port = join(self.running, self.number, self.times);
    }

    fn run(&mut self, done: &AtomicUsize, over: &AtomicBool) {
        while self.sent.iter().sum::<u64>() < EACH_WAY * (STATIONS as u64 - 1) {
            others(self.number).for_each(|to| self.send(to));
            if self.receive() == 0 {
                std::thread::yield_now();
            }
            if self.sent[(self.number + 1) % STATIONS] >= EACH_WAY * (self.times + 1) / (TIMES + 1)
                && self.times < TIMES
            {
                self.leave_and_come();
            }
        }
        done.fetch_add(1, Ordering::AcqRel);
        while !over.load(Ordering::Acquire) {
            if self.receive() == 0 {
                std::thread::yield_now();
            }
        }
        while self.receive() > 0 {}
        self.pool.flush();
    }
}

#[test]
fn every_packet_of_every_direction_is_accounted_for_while_ports_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_in(folder.path(), &Config { ports_max: Some(8), ..Config::default() });
    let mut hosts: Vec<Host<'_>> = (0..STATIONS).map(|number| Host::new(&running, number)).collect();
    let (done, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (running, done, over) = (&running, &done, &over);
        for host in &mut hosts {
            scope.spawn(move || host.run(done, over));
        }
        while done.load(Ordering::Acquire) < STATIONS {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        wait_until("nothing waits", || {
            let totals = snapshot(running).totals;
            totals.received == EACH_WAY * 12 && totals.waiting == 0
        });
        over.store(true, Ordering::Release);
    });
    let vlans = show(&running, What::Vlans);
    let row = |wanted: u16| vlans.as_array().unwrap().iter().find(|row| row["vlan"] == wanted).unwrap();
    let (mut passed_on, mut received) = (0, 0);
    for (from, to) in (0..STATIONS).flat_map(|from| others(from).map(move |to| (from, to))) {
        let row = row(vlan(from, to));
        let of = |key: &str| row[key].as_u64().unwrap();
        let dropped: u64 = row["dropped"].as_object().unwrap().values().map(|packets| packets.as_u64().unwrap()).sum();
        println!("{from} to {to}: {} received of {}; {row}", hosts[to].received[from], hosts[from].sent[to]);
        assert_eq!(hosts[from].sent[to], of("received"), "{from} to {to}");
        assert_eq!(of("received"), of("unicast") + of("flooded") + dropped, "{from} to {to}");
        assert!(hosts[to].received[from] <= of("unicast") + of("flooded"));
        passed_on += of("unicast") + of("flooded");
        received += hosts[to].received[from];
    }
    let seen = snapshot(&running);
    let lost = show(&running, What::Drops);
    let behind = lost.as_array().unwrap().iter().filter(|row| row["at"] == "flood-copy" || row["at"] == "egress-queue");
    let behind: u64 = behind.map(|row| row["packets"].as_u64().unwrap()).sum();
    assert_eq!(passed_on, received + behind, "{lost}");
    assert_eq!((&seen.totals.unbalanced, seen.totals.sent, seen.totals.received), (&None, received, EACH_WAY * 12));
    assert!(hosts.iter().all(|host| host.times == TIMES));
    drop(hosts);
    assert_eq!(running.stop().unwrap().frames_missing, 0);
}
