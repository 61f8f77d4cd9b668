//! Traffic with random changes of entries, groups and meters, ports that go and come, and controllers that do, too: the account balances
//! at every rest, memory stays as it is, and no packet takes a way that is over.
//!
//! It takes 12 seconds; `benches/ofswitch-soak.sh SECONDS` runs it for longer, by the variable LINERATE_SOAK_SECONDS.

mod common;

use std::io::Write;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Controller, Station, ask, config, show, snapshot, start_in, stop, wait_until};
use linerate_control::Command;
use linerate_ofswitch::Running;
use linerate_ofswitch::request::What;
use linerate_openflow::{FlowCommand, GroupCommand, Message, MeterCommand, encode};
use linerate_openflow_text::{parse_flow, parse_group, parse_meter};

/// Resident memory may grow by so much after the first fifth of the time: what a thread keeps in hand, and the allocator.
const GROWTH_BYTES: u64 = 24 << 20;
/// Packets of a probe.
const PROBES: usize = 4;
/// Where the kind and the number of a packet stand.
const KIND_AT: usize = 50;
const NUMBER_AT: usize = 52;
const PROBE: u8 = 0xaa;

#[test]
fn everything_changes_and_nothing_is_lost_or_stale() {
    let seconds = std::env::var("LINERATE_SOAK_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(12);
    let folder = tempfile::tempdir().unwrap();
    let fickle = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = config("soak", 3);
    let socket = folder.path().join("m.sock");
    config.add_port(&format!("4=memif:{}", socket.display())).unwrap();
    config.add_port("5=pipe:soak-5").unwrap();
    config.controllers.push(format!("tcp:{}", fickle.local_addr().unwrap()));
    let cores = linerate_sys::affinity::allowed_cores();
    config.cores = vec![cores[0], *cores.last().unwrap()];
    let running = start_in(folder.path(), &config);
    let stopping = AtomicBool::new(false);
    let mut soak = Soak::new(&running, format!("memif:{},role=client", socket.display()));
    std::thread::scope(|scope| {
        scope.spawn(|| come_and_go(&fickle, &stopping));
        let _stop = Stop(&stopping);
        soak.run(Duration::from_secs(seconds));
    });
    let Soak { stations, .. } = soak;
    drop(stations);
    let totals = stop(running).totals;
    eprintln!("{seconds} s: {totals:?}");
}

/// Tells the other thread to end, also if this one panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A controller that takes the switch's connections, changes something, and goes in the midst of it.
fn come_and_go(listener: &TcpListener, stopping: &AtomicBool) {
    let mut random = Random(99);
    listener.set_nonblocking(true).unwrap();
    while !stopping.load(Ordering::Acquire) {
        let Ok((mut stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        let mut bytes = vec![4, 0, 0, 8, 0, 0, 0, 1];
        for _ in 0..random.below(200) {
            encode(&mut bytes, 7, &some_change(&mut random)).unwrap();
        }
        encode(&mut bytes, 8, &Message::BarrierRequest).unwrap();
        // Without a change there are fewer bytes than may be cut off.
        bytes.truncate(bytes.len().saturating_sub(random.below(30) as usize));
        // The switch may be ending.
        let _ = stream.write_all(&bytes);
        std::thread::sleep(Duration::from_millis(random.below(100)));
    }
}

/// A change in ovs-ofctl's words: of an entry below the probes', of a group, of a meter. Some are refused.
fn some_change(random: &mut Random) -> Message {
    let number = random.below(4);
    match random.below(12) {
        0 => {
            let command = random.one_of(&[GroupCommand::Add, GroupCommand::Modify, GroupCommand::Delete]);
            let kind = random.one_of(&["all", "select", "indirect"]);
            let second = if kind == "indirect" { "" } else { ",bucket=weight:1,actions=dec_ttl,output:3" };
            let text = format!("group_id={number},type={kind},bucket=weight:1,actions=output:2{second}");
            let text = if kind == "select" { text } else { text.replace("weight:1,", "") };
            let text = if command == GroupCommand::Delete { format!("group_id={number}") } else { text };
            Message::GroupMod(parse_group(&text, command).unwrap())
        }
        1 => {
            let command = random.one_of(&[MeterCommand::Add, MeterCommand::Modify, MeterCommand::Delete]);
            let rate = 1 + random.below(1000);
            let text = format!("meter={},pktps,bands=type=drop,rate={rate}", 1 + number);
            Message::MeterMod(parse_meter(&text, command).unwrap())
        }
        kind => {
            let command = match kind {
                2 => FlowCommand::Delete,
                3 => FlowCommand::Modify,
                4 => FlowCommand::DeleteStrict,
                5 => FlowCommand::ModifyStrict,
                _ => FlowCommand::Add,
            };
            let is_delete = matches!(command, FlowCommand::Delete | FlowCommand::DeleteStrict);
            let actions = if is_delete { String::new() } else { format!("actions={}", some_actions(random)) };
            Message::FlowMod(parse_flow(&format!("{}{actions}", some_match(random)), command).unwrap())
        }
    }
}

fn some_match(random: &mut Random) -> String {
    let mut text = format!("table={},", random.below(2));
    if random.below(8) > 0 {
        text += &match random.below(4) {
            0 => format!("in_port={},", 1 + random.below(5)),
            1 => format!("ip,nw_dst=10.0.0.{}/{},", random.below(64), 26 + random.below(7)),
            2 => format!("udp,tp_dst={},", random.below(16)),
            _ => format!("in_port={},udp,nw_dst=10.0.0.{},", 1 + random.below(3), random.below(64)),
        };
    } else {
        // The probes' entries stay.
        text += "in_port=9,";
    }
    text
}

fn some_actions(random: &mut Random) -> String {
    let first =
        random.one_of(&["", "", "", "dec_ttl,", "set_field:7->ip_dscp,", "push_vlan:0x8100,", "group:1,", "meter:2,"]);
    // Only UDP packets arrive, but not every match says so.
    let first = if first.contains("ttl") || first.contains("dscp") { "" } else { first };
    let then = random.one_of(&[
        "output:2",
        "output:3",
        "output:4",
        "output:5",
        "flood",
        "all",
        "in_port",
        "controller",
        "drop",
        "goto",
        "2,3,4",
    ]);
    match then {
        "goto" => format!("{first}goto_table:2"),
        "drop" => "drop".into(),
        then => format!("{first}{then}"),
    }
}

struct Soak<'a> {
    running: &'a Running,
    controller: Controller,
    /// Ports 1 to 3, the memif client at port 4, port 5; `None` while one is away.
    stations: [Option<Station>; 5],
    memif: String,
    random: Random,
    sent: u64,
    probes: u32,
    /// Numbers of probes that arrived at ports 2 and 3.
    arrived: [Vec<u32>; 2],
    /// Incarnation of port 5.
    generation: u32,
}

impl<'a> Soak<'a> {
    fn new(running: &'a Running, memif: String) -> Soak<'a> {
        let at = |spec: &str| Some(Station::at(running, spec));
        let pipe = |number: usize| at(&format!("pipe:soak-{number}"));
        let stations = [pipe(1), pipe(2), pipe(3), at(&memif), pipe(5)];
        Soak {
            running,
            controller: Controller::connect(running),
            stations,
            memif,
            random: Random(5),
            sent: 0,
            probes: 0,
            arrived: Default::default(),
            generation: 0,
        }
    }

    fn run(&mut self, time: Duration) {
        let (began, mut settled, mut rest) = (Instant::now(), None, Instant::now());
        while began.elapsed() < time {
            for _ in 0..8 {
                self.send_some();
            }
            self.take_all();
            match self.random.below(400) {
                0 => self.flap_memif(),
                1 => self.flap_pipe(),
                2 => self.reconnect(),
                3..=49 => self.probe(),
                50..=199 => self.change(),
                _ => {}
            }
            if rest.elapsed() > Duration::from_secs(2) {
                self.rest();
                rest = Instant::now();
                let memory = resident_bytes();
                if began.elapsed() * 5 > time {
                    let first = *settled.get_or_insert(memory);
                    assert!(memory < first + GROWTH_BYTES, "memory grew from {first} to {memory} bytes");
                }
            }
        }
        self.rest();
        assert!(self.probes > 0 && self.generation > 0, "{} probes, {} new ports", self.probes, self.generation);
        eprintln!("{} packets, {} probes, port 5 was away {} times", self.sent, self.probes, self.generation);
    }

    /// Sends packets of random flows by one of the ports.
    fn send_some(&mut self) {
        let port = self.random.one_of(&[0, 1, 2]);
        let numbers: Vec<u32> = (0..32).map(|_| self.random.below(1 << 20) as u32).collect();
        self.send(port, 0, &numbers);
    }

    /// Sends packets; those for which the pipe has no room are left out. Returns how many it took.
    fn send(&mut self, port: usize, kind: u8, numbers: &[u32]) -> usize {
        let Some(station) = &mut self.stations[port] else { return 0 };
        for number in numbers {
            assert!(station.pool.append(&mut station.batch, &packet(kind, *number), 0) || kind == 0);
        }
        let sent = station.port.transmit(&mut station.batch).unwrap();
        station.pool.free(&mut station.batch);
        self.sent += sent as u64;
        sent
    }

    /// Takes what arrived everywhere, and notes probes.
    fn take_all(&mut self) -> usize {
        let mut count = 0;
        for (place, station) in self.stations.iter_mut().enumerate() {
            let Some(station) = station else { continue };
            // The memif's server may be gone for a moment.
            let _ = station.port.receive(&mut station.batch);
            count += station.batch.len();
            for packet in station.batch.iter() {
                // A tag may be in front of the rest.
                let shift = packet.len() - 60;
                if packet[KIND_AT + shift] == PROBE {
                    let number = packet[NUMBER_AT + shift..].first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
                    assert!((1..=2).contains(&place), "a probe arrived at port {}", place + 1);
                    self.arrived[place - 1].push(number.unwrap());
                }
            }
            station.pool.free(&mut station.batch);
        }
        count
    }

    /// Changes something, without waiting for it.
    fn change(&mut self) {
        for _ in 0..1 + self.random.below(8) {
            let change = some_change(&mut self.random);
            self.controller.send(&change);
        }
        self.controller.barrier();
        // Errors, packet-ins, removed entries.
        self.controller.waiting.clear();
    }

    /// The probes' entry is led to another port; once that is in force, all probes go there.
    fn probe(&mut self) {
        let place = self.random.below(2) as usize;
        let text = format!("table=0,priority=60000,udp,tp_dst=999,actions=output:{}", place + 2);
        self.controller.add_flow(&text);
        self.controller.waiting.clear();
        self.arrived = Default::default();
        // Some may find a queue full of other packets: others are sent then.
        let first = self.probes;
        wait_until("probes arrive", || {
            self.probes += self.send(0, PROBE, &[self.probes]) as u32;
            self.take_all();
            // Those before may still have been on their way.
            self.arrived.iter_mut().for_each(|numbers| numbers.retain(|number| *number >= first));
            self.arrived[place].len() >= PROBES || !self.arrived[1 - place].is_empty()
        });
        let [to, other] = [&self.arrived[place], &self.arrived[1 - place]];
        assert!(other.is_empty(), "probes from {first} on took the old way from port {}: {other:?}", place + 2);
        assert!(to.is_sorted(), "from {first}: {to:?}");
    }

    fn flap_memif(&mut self) {
        self.stations[3] = match self.stations[3].take() {
            Some(_) => None,
            None => Some(Station::at(self.running, &self.memif)),
        };
    }

    /// The far side of port 5 ends, which removes the port, and it is added again.
    fn flap_pipe(&mut self) {
        self.stations[4] = None;
        self.generation += 1;
        let spec = format!("pipe:soak-5-{}", self.generation);
        let add = Command::AddPort { name: Some("5".into()), spec: spec.clone(), settings: Default::default() };
        wait_until("port 5 is removed", || {
            self.take_all();
            ask(self.running, &add).is_ok()
        });
        self.stations[4] = Some(Station::at(self.running, &spec));
    }

    fn reconnect(&mut self) {
        self.controller = Controller::connect(self.running);
    }

    /// Nothing is sent any more: all that was received is somewhere.
    fn rest(&mut self) {
        let mut last = None;
        wait_until("the switch is at rest", || {
            let taken = self.take_all();
            let totals = snapshot(self.running).totals;
            let is_at_rest = taken == 0 && totals.waiting == 0 && last.as_ref() == Some(&totals);
            last = Some(totals);
            is_at_rest
        });
        let totals = last.unwrap();
        assert_eq!((&totals.unbalanced, totals.received), (&None, self.sent), "{totals:?}");
        // Tables count each packet that is looked up in the first of them once at least.
        let tables = show(self.running, What::Table);
        let lookups = tables[0]["lookups"].as_u64().unwrap_or(0);
        assert!(lookups <= totals.received + totals.packet_outs, "{tables} {totals:?}");
    }
}

/// A UDP packet of 60 bytes. Those of traffic go to one of 64 addresses and 16 ports, probes to port 999.
fn packet(kind: u8, number: u32) -> [u8; 60] {
    let mut packet = [0; 60];
    packet[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    packet[14..34].copy_from_slice(&[
        0x45,
        0,
        0,
        46,
        0,
        0,
        0,
        0,
        64,
        17,
        0,
        0,
        10,
        0,
        1,
        1,
        10,
        0,
        0,
        number as u8 & 63,
    ]);
    let sum: u32 = packet[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    packet[24..26].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    let port = if kind == PROBE { 999 } else { (number >> 6) as u16 & 15 };
    packet[34..36].copy_from_slice(&[1, 2]);
    packet[36..38].copy_from_slice(&port.to_be_bytes());
    packet[38..40].copy_from_slice(&[0, 26]);
    packet[KIND_AT] = kind;
    packet[NUMBER_AT..NUMBER_AT + 4].copy_from_slice(&number.to_be_bytes());
    packet
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// The same numbers on each run (a linear congruential generator with Knuth's constants).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}
