//! Two machines, a link, one clock.

use core::net::SocketAddr;

use linerate_ip::{AddressRange, IpConfig};
use linerate_mem::PoolConfig;
use linerate_tcp::{ListenOptions, StackConfig};
use linerate_wire::MacAddress;

use super::life::{Ends, Habits, Life};
use super::link::{Faults, Link};
use super::support::Machine;

/// How much of everything there is.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub v6: bool,
    pub connections_max: usize,
    pub at_once: usize,
    pub budget: usize,
    pub buffer: u32,
    pub frames: usize,
    pub time_wait_max: usize,
    pub backlog: u32,
}

impl Shape {
    pub const AMPLE: Shape = Shape {
        v6: false,
        connections_max: 4096,
        at_once: 256,
        budget: 64 << 20,
        buffer: 1 << 20,
        frames: 8192,
        time_wait_max: 65_536,
        backlog: 4096,
    };
    pub const SCARCE: Shape = Shape {
        v6: false,
        connections_max: 100,
        at_once: 200,
        budget: 128 << 10,
        buffer: 8 << 10,
        frames: 512,
        time_wait_max: 50,
        backlog: 8,
    };
}

/// Virtual time after which a world that has not ended is stuck.
const END_NS: u64 = 24 * 3_600_000_000_000;
/// Events between checks of all connections.
const CHECK_EVERY: u64 = 4096;
const PORT: u16 = 80;

/// The world.
pub struct World {
    machines: [Machine<Life>; 2],
    link: Link,
    now_ns: u64,
    seed: u64,
    batch: Vec<Vec<u8>>,
}

impl World {
    pub fn new(shape: Shape, habits: Habits, faults: Faults, seed: u64, lives: u64) -> World {
        // Clocks begin anywhere in 60 days, because counts of milliseconds wrap after 49, and half of that matters as well.
        let start_ns = 1_000_000_000 + seed.wrapping_mul(3_888_888_777_777_777) % (60 * 86_400_000_000_000);
        let machine = |end: u8| {
            let mut secret = [0; 16];
            secret[..8].copy_from_slice(&seed.to_le_bytes());
            secret[8] = end;
            let mut life = Life::new(habits, seed * 2 + u64::from(end));
            if end == 0 {
                life.remotes = (0..4).map(|number| address(shape.v6, 1, number)).collect();
                life.left = lives;
                life.at_once = shape.at_once;
            }
            Machine::new(
                config(shape, end, secret),
                PoolConfig { frames: shape.frames, ..PoolConfig::default() },
                start_ns,
                life,
            )
            .expect("a stack")
        };
        let mut machines = [machine(0), machine(1)];
        let any: SocketAddr = if shape.v6 { ([0u16; 8], PORT).into() } else { ([0u8; 4], PORT).into() };
        machines[1]
            .with(|_, io| io.listen(any, ListenOptions { backlog: shape.backlog, ..Default::default() }).map(drop))
            .expect("listening");
        World { machines, link: Link::new(faults, seed), now_ns: start_ns, seed, batch: Vec::new() }
    }

    /// Runs to the end, and returns what became of the connections.
    pub fn run(mut self) -> (Ends, Ends) {
        let end_ns = self.now_ns + END_NS;
        let mut events = 0_u64;
        loop {
            let next_ns = self.link.next_ns().min(self.deadline_ns(0)).min(self.deadline_ns(1));
            let over = self.machines.iter().all(|machine| machine.stack.app().is_over());
            if next_ns == u64::MAX || over {
                break;
            }
            self.now_ns = self.now_ns.max(next_ns);
            if self.now_ns >= end_ns {
                let state = self.state();
                panic!("seed {}: not over after a day; {state}", self.seed);
            }
            for end in 0..2 {
                self.serve(end);
            }
            events += 1;
            if events.is_multiple_of(CHECK_EVERY) {
                self.check();
            }
        }
        if !self.machines.iter().all(|machine| machine.stack.app().is_over()) {
            let state = self.state();
            panic!("seed {}: nothing is due, but {state}", self.seed);
        }
        self.end()
    }

    fn deadline_ns(&self, end: usize) -> u64 {
        self.machines[end].next_deadline_ns()
    }

    /// Delivers what arrives now, does what is due, and sends what leaves.
    fn serve(&mut self, end: usize) {
        while let Some(frame) = self.link.take(self.now_ns, end) {
            self.batch.push(frame);
        }
        let machine = &mut self.machines[end];
        if !self.batch.is_empty() || machine.next_deadline_ns() <= self.now_ns {
            machine.advance_to(self.now_ns);
            if !self.batch.is_empty() {
                machine.deliver(self.batch.iter().map(Vec::as_slice));
                self.batch.clear();
            }
        }
        while let Some(frame) = machine.take_left() {
            self.link.send(self.now_ns, 1 - end, frame);
        }
    }

    /// Numbers in order, and a timer for what is outstanding.
    fn check(&mut self) {
        for machine in &mut self.machines {
            let deadline_ns = machine.next_deadline_ns();
            machine.with(|life, io| {
                let mut outstanding = 0;
                for conn in life.conns() {
                    let Some(info) = io.info(conn) else {
                        panic!("a connection that the program knows has no account")
                    };
                    assert!(info.in_flight <= info.queued + 2, "{info:?}");
                    outstanding += info.in_flight;
                }
                assert!(
                    outstanding == 0 || deadline_ns != u64::MAX,
                    "{outstanding} bytes are outstanding without a timer"
                );
            });
        }
    }

    fn state(&mut self) -> String {
        let of = |machine: &mut Machine<Life>| {
            machine.with(|life, io| {
                let some: Vec<_> = life.conns().take(3).map(|conn| io.info(conn)).collect();
                format!("{} connections live, {} to be begun, for example {some:?}", life.alive(), life.left)
            })
        };
        let [a, b] = &mut self.machines;
        format!("{}; {}", of(a), of(b))
    }

    /// Time passes until TIME-WAIT is over; then nothing may be held.
    fn end(self) -> (Ends, Ends) {
        let World { machines, now_ns, seed, .. } = self;
        let ends: Vec<Ends> = machines
            .into_iter()
            .map(|mut machine| {
                while machine.next_frame(now_ns + 600_000_000_000).is_some() {}
                let held = machine.with(|_, io| (io.connections(), io.time_waits(), io.memory_bytes()));
                assert_eq!(held, (0, 0, (0, 0)), "seed {seed}: connections, TIME-WAIT records or buffers remain");
                let ends = machine.stack.app().ends;
                machine.end().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                ends
            })
            .collect();
        (ends[0], ends[1])
    }
}

/// Address `number` of an end, with the port of the service.
fn address(v6: bool, end: u8, number: u8) -> SocketAddr {
    if v6 {
        ([0xfd00, 0, 0, 0, 0, 0, u16::from(end), 1 + u16::from(number)], PORT).into()
    } else {
        ([10, 0, end, 1 + number], PORT).into()
    }
}

fn config(shape: Shape, end: u8, secret: [u8; 16]) -> StackConfig {
    let first = address(shape.v6, end, 0).ip();
    let ip = IpConfig {
        mac: MacAddress([2, 0, 0, 0, 0, 1 + end]),
        addresses: vec![AddressRange { first, count: 4, prefix_len: if shape.v6 { 64 } else { 16 } }],
        ipv6: shape.v6,
        duplicate_detection: false,
        secret,
        ..IpConfig::default()
    };
    let mut config = StackConfig {
        ip,
        connections_max: shape.connections_max,
        time_wait_max: shape.time_wait_max,
        receive_budget_bytes: shape.budget,
        receive_window_max: shape.buffer,
        secret,
        output_packets: shape.frames / 4,
        ..StackConfig::default()
    };
    config.send.budget_bytes = shape.budget;
    config.send.buffer_max = shape.buffer;
    config
}
