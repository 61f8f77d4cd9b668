//! The contract of ports, inside a kernel that has netmap: over pipes, the kernel's VALE switch and veth pairs.
//!
//! Where this kernel has none, these tests run themselves in a user-mode Linux.

use std::process::Command;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Caps, GeneratorStream, Interest, Port, PortError, Readiness, Stats};
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::veth::{self, VethEnd};
use linerate_testkit::{Disturbance, Facts, Harness, Hit, Link, check_all};

/// All ports of a kernel without much memory share it.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What comes on this path comes at once.
const PATIENCE: Duration = Duration::from_secs(3);

/// A number that no other name of this process has.
fn number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn open(text: &str, pool: &Pool) -> Result<Vec<Box<dyn Port>>, String> {
    let spec = text.parse().map_err(|error: linerate_port::SpecError| error.to_string())?;
    let opened = linerate_port_netmap::open(spec, pool).map_err(|error| error.to_string())?;
    Ok(opened.boxed().into_ports())
}

fn one(text: &str, pool: &Pool) -> Result<Box<dyn Port>, String> {
    Ok(open(text, pool)?.remove(0))
}

fn check(test: &str, harness: &mut dyn Harness) {
    in_kernel(test, || {
        check_all(harness);
    });
}

/// Does the work of a test: here, where this kernel has netmap, else in the user-mode Linux that `LINERATE_UML` names (docs/netmap.md), in
/// which this program runs `test` alone.
fn in_kernel(test: &str, work: impl FnOnce()) {
    let Err(error) = linerate_port_netmap::probe() else {
        let _alone = alone();
        work();
        return;
    };
    let Some(folder) = std::env::var_os("LINERATE_UML").filter(|_| std::env::var_os("UML").is_none()) else {
        println!("skipped: {}, and LINERATE_UML names no user-mode Linux with it", error.cause);
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/uml/run.sh");
    let mut command = Command::new(script);
    command.args(["-t", "400"]).arg(folder).arg(std::env::current_exe().unwrap());
    let output = command.args(["--exact", test, "--nocapture"]).output().unwrap();
    print!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed") && !text.contains("skipped"), "{test} in {script}");
}

/// The two ends of a pipe, whose parent needs not be an interface.
struct Pipe;

impl Harness for Pipe {
    fn name(&self) -> String {
        "netmap pipe".into()
    }

    fn facts(&self) -> Facts {
        Facts { lossless: true, wrap_packets: 5_000, ..Facts::default() }
    }

    fn open(&mut self, pool: &Pool, _start: u32) -> Result<Link, String> {
        let number = number();
        let receiver = one(&format!("netmap:lr{number}{{1"), pool)?;
        Ok(Link::Pair { sender: one(&format!("netmap:lr{number}}}1"), pool)?, receiver })
    }
}

#[test]
fn pipe() {
    check("pipe", &mut Pipe);
}

/// The same, where the buffers of the pipe's area are the frames of the pool.
#[derive(Default)]
struct PipeWithoutCopies {
    number: u32,
}

impl Harness for PipeWithoutCopies {
    fn name(&self) -> String {
        "netmap pipe without copies".into()
    }

    fn facts(&self) -> Facts {
        Pipe.facts()
    }

    fn make_pool(&mut self) -> Result<Pool, String> {
        self.number = number();
        let spec = format!("netmap:lr{}{{1,zerocopy", self.number).parse().map_err(|error| format!("{error}"))?;
        linerate_port_netmap::pool(&spec, self.pool()).map_err(|error| error.to_string())
    }

    fn open(&mut self, pool: &Pool, _start: u32) -> Result<Link, String> {
        let receiver = one(&format!("netmap:lr{}{{1,zerocopy", self.number), pool)?;
        let sender = one(&format!("netmap:lr{}}}1,zerocopy", self.number), pool)?;
        assert!(receiver.caps().zero_copy && sender.caps().zero_copy);
        Ok(Link::Pair { sender, receiver })
    }
}

#[test]
fn pipe_without_copies() {
    check("pipe_without_copies", &mut PipeWithoutCopies::default());
}

/// A port that counts what passes.
struct Counted {
    port: Box<dyn Port>,
    /// Packets sent, less those received.
    under_way: Arc<AtomicI64>,
}

impl Port for Counted {
    fn caps(&self) -> &Caps {
        self.port.caps()
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let packets = self.port.receive(batch)?;
        self.under_way.fetch_sub(packets as i64, Ordering::Relaxed);
        Ok(packets)
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let packets = self.port.transmit(batch)?;
        self.under_way.fetch_add(packets as i64, Ordering::Relaxed);
        Ok(packets)
    }

    fn flush(&mut self) -> Result<usize, PortError> {
        self.port.flush()
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        self.port.wait(interest, timeout_ns)
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        self.port.stats()
    }
}

/// Two ports of a switch.
struct Vale {
    options: &'static str,
    queue: usize,
    under_way: Arc<AtomicI64>,
}

impl Vale {
    fn with(options: &'static str) -> Vale {
        Vale { options, queue: 0, under_way: Arc::default() }
    }
}

impl Harness for Vale {
    fn name(&self) -> String {
        format!("netmap VALE {}, ring pair {}", self.options, self.queue)
    }

    fn facts(&self) -> Facts {
        Facts { wrap_packets: 5_000, patience: PATIENCE, ..Facts::default() }
    }

    fn open(&mut self, pool: &Pool, _start: u32) -> Result<Link, String> {
        let number = number();
        let receivers = open(&format!("netmap:vale{number}:r{}", self.options), pool)?;
        let senders = open(&format!("netmap:vale{number}:s{}", self.options), pool)?;
        self.under_way = Arc::default();
        let counted = |ports: Vec<Box<dyn Port>>| -> Vec<Box<dyn Port>> {
            let count = |port| Box::new(Counted { port, under_way: Arc::clone(&self.under_way) }) as Box<dyn Port>;
            ports.into_iter().map(count).collect()
        };
        Ok(Link::Queues { senders: counted(senders), receivers: counted(receivers), queue: self.queue })
    }

    /// The switch drops what a full port has no room for, and counts it nowhere.
    fn lost_on_path(&mut self) -> u64 {
        self.under_way.load(Ordering::Relaxed).max(0) as u64
    }
}

#[test]
fn vale() {
    check("vale", &mut Vale::with(""));
}

#[test]
fn vale_with_small_rings() {
    check("vale_with_small_rings", &mut Vale::with(",slots=128"));
}

/// A veth pair in a namespace of its own, both ends in netmap's native mode.
#[derive(Default)]
struct Veth {
    namespace: Option<NetNs>,
    /// The frames of the pool are buffers of the area that all interfaces have.
    zero_copy: bool,
}

impl Veth {
    fn make_pair(&mut self) -> Result<(), String> {
        let namespace = NetNs::anonymous().map_err(|error| error.to_string())?;
        let end = |name| VethEnd { name, namespace: &namespace };
        veth::create(end("near"), end("far"), 1).map_err(|error| error.to_string())?;
        let up = namespace.run(|| {
            let device = |name: &str| Netdev::open(name).map_err(|error| error.to_string());
            veth::bring_up(&device("near")?, &device("far")?).map_err(|error| error.to_string())
        });
        self.namespace = Some(namespace);
        up.map_err(|error| error.to_string())?
    }

    fn spec(&self, interface: &str) -> String {
        format!("netmap:{interface}{}", if self.zero_copy { ",zerocopy" } else { "" })
    }

    fn inside<T: Send>(&self, work: impl FnOnce(&NetNs) -> T + Send) -> Result<T, String> {
        let namespace = self.namespace.as_ref().ok_or("no link was opened")?;
        namespace.run(|| work(namespace)).map_err(|error| error.to_string())
    }
}

impl Harness for Veth {
    fn name(&self) -> String {
        format!("netmap over veth{}", if self.zero_copy { " without copies" } else { "" })
    }

    fn facts(&self) -> Facts {
        Facts { wrap_packets: 5_000, patience: PATIENCE, ..Facts::default() }
    }

    fn make_pool(&mut self) -> Result<Pool, String> {
        self.make_pair()?;
        if !self.zero_copy {
            return Pool::new(self.pool()).map_err(|error| error.to_string());
        }
        let (spec, config) = (self.spec("near").parse().map_err(|error| format!("{error}"))?, self.pool());
        let pool = self.inside(|_| linerate_port_netmap::pool(&spec, config))?;
        pool.map_err(|error| error.to_string())
    }

    fn open(&mut self, pool: &Pool, _start: u32) -> Result<Link, String> {
        let (receiver, sender) = (self.spec("far"), self.spec("near"));
        let opened = self.inside(|_| Ok::<_, String>((one(&receiver, pool)?, one(&sender, pool)?)))?;
        let (receiver, sender) = opened?;
        assert_eq!((receiver.caps().zero_copy, sender.caps().zero_copy), (self.zero_copy, self.zero_copy));
        Ok(Link::Pair { sender, receiver })
    }

    fn disturb(&mut self, what: Disturbance) -> Result<Option<Hit>, String> {
        self.inside(|_| match what {
            Disturbance::Down => Netdev::open("near").and_then(|device| device.set_up(false)),
            Disturbance::Up => Netdev::open("near").and_then(|device| device.set_up(true)),
            // Who deletes an interface waits until its ports are closed.
            Disturbance::Delete => Command::new("ip").args(["link", "delete", "near"]).spawn().map(drop),
        })?
        .map_err(|error| error.to_string())?;
        Ok(Some(Hit { sender: true, receiver: what == Disturbance::Delete }))
    }
}

#[test]
fn veth_pair() {
    check("veth_pair", &mut Veth::default());
}

#[test]
fn veth_pair_without_copies() {
    check("veth_pair_without_copies", &mut Veth { zero_copy: true, ..Veth::default() });
}

/// While somebody else uses the area, so that netmap does not make it anew.
#[test]
fn extra_buffers_come_back() {
    in_kernel("extra_buffers_come_back", || {
        let mut veth = Veth { zero_copy: true, ..Veth::default() };
        veth.make_pair().unwrap();
        let plain = Pool::new(veth.pool()).unwrap();
        let spec = veth.spec("near").parse().unwrap();
        let made = |frames| linerate_port_netmap::pool(&spec, PoolConfig { frames, ..veth.pool() });
        veth.inside(|_| {
            let mut user = one("netmap:far", &plain).unwrap();
            // Of some 160,000: nothing may be missing ten times.
            const FRAMES: usize = 16_384;
            for round in 0..30 {
                let pool = made(FRAMES).unwrap();
                assert_eq!(pool.available(), FRAMES, "after {round} rounds");
                let mut near = one("netmap:near,zerocopy", &pool).unwrap();
                // The second pool of the area is the first.
                assert_eq!(made(4096).unwrap().region().frames(), pool.region().frames());
                let (mut sent, mut batch) = (Batch::new(&pool, 64), Batch::new(&plain, 64));
                let mut own = pool.clone();
                assert_eq!(own.alloc(&mut sent, 64, 60), 64);
                sent.iter_mut().for_each(|packet| packet.fill(round));
                assert_eq!(near.transmit(&mut sent).unwrap(), 64);
                near.flush().unwrap();
                let mut came = 0;
                while came < 64 {
                    assert_ne!(user.wait(Interest::Receive, 3_000_000_000).unwrap(), Readiness::TimedOut);
                    came += user.receive(&mut batch).unwrap();
                    // It sends them back, and they are dropped where they are.
                    user.transmit(&mut batch).unwrap();
                }
                user.flush().unwrap();
                let mut back = Batch::new(&pool, 64);
                let mut seen = 0;
                while seen < 64 {
                    assert_ne!(near.wait(Interest::Receive, 3_000_000_000).unwrap(), Readiness::TimedOut);
                    seen += near.receive(&mut back).unwrap();
                    assert!(back.iter().all(|packet| packet == [round; 60]));
                    own.free(&mut back);
                }
            }
        })
        .unwrap();
    });
}

/// A generator over each kind of path; a full pipe, whose reader has no turn, ends its call.
#[test]
fn one_packet_is_repeated() {
    in_kernel("one_packet_is_repeated", || {
        const PACKETS: u64 = 5_000;
        // The packets of the first call: more than a pipe holds, and what a switch does not drop.
        for (sender, receiver, wanted, first) in [("lrg}1", "lrg{1", 2_000, 1023), ("vale77:s", "vale77:r", 700, 700)] {
            let pool = Pool::new(PoolConfig { frames: 4096, frame_size: 2048 }).unwrap();
            let mut receiver = one(&format!("netmap:{receiver}"), &pool).unwrap();
            let mut sender = one(&format!("netmap:{sender}"), &pool).unwrap();
            let stream = |len: u8| GeneratorStream {
                template: (0..len).collect(),
                rules: vec![],
                checksums: vec![],
                signature: None,
                first_sequence: 0,
                gap_ns_fixed: 0,
            };
            let generator = sender.tx_generator().unwrap();
            assert!(generator.run(1).is_err() && generator.is_shortcut());
            for refused in [
                stream(0),
                GeneratorStream { signature: Some(1), ..stream(60) },
                GeneratorStream { gap_ns_fixed: 1, ..stream(60) },
            ] {
                assert!(generator.load(&refused).is_err());
            }
            generator.load(&stream(60)).unwrap();
            let (mut own, mut batch) = (pool.clone(), Batch::new(&pool, 512));
            let (mut made, mut came) = (0, 0);
            while made < PACKETS || came < PACKETS {
                let wanted = if made == 0 { wanted } else { 700 };
                let run = sender.tx_generator().unwrap().run(wanted.min(PACKETS - made)).unwrap();
                assert!(run.made == run.sent && (made > 0 || run.made == first), "{run:?}");
                made += run.made;
                sender.flush().unwrap();
                while receiver.receive(&mut batch).unwrap() > 0 {
                    assert!(batch.iter().all(|packet| packet == stream(60).template));
                    came += batch.len() as u64;
                    own.free(&mut batch);
                }
            }
            assert_eq!((made, came, sender.stats().unwrap().tx_packets), (PACKETS, PACKETS, PACKETS));
        }
    });
}
