//! The contract of ports, for devices that are used as one port: of several queues, or AF_XDP with AF_PACKET beside it.

use std::time::{Duration, Instant};

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Interest, LinkState, OpenOptions, Port, Readiness};
use linerate_ports::{open_device, parse, share_out};
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::veth::{self, VethEnd};
use linerate_testkit::{Disturbance, Facts, Harness, Hit, Link, check_all, or_skip};

/// Two queues each of both ends, or two sockets.
enum Queues {
    /// Of an interface of so many queues, by this backend with these options.
    Veth { backend: &'static str, options: &'static str, queues: u32, namespace: Option<NetNs> },
    /// Of a memif interface.
    Memif { folder: tempfile::TempDir, links: usize },
}

impl Queues {
    fn names(&mut self) -> Result<[String; 2], String> {
        match self {
            Queues::Veth { backend, options, queues, namespace } => {
                *namespace = Some(pair(*queues).map_err(|error| error.to_string())?);
                Ok(["near", "far"].map(|name| format!("{backend}:{name},{options}")))
            }
            Queues::Memif { folder, links } => {
                *links += 1;
                let socket = folder.path().join(format!("{links}.sock"));
                Ok(["server", "client"].map(|role| format!("memif:{},queues=2,role={role}", socket.display())))
            }
        }
    }
}

fn pair(queues: u32) -> std::io::Result<NetNs> {
    let namespace = NetNs::anonymous()?;
    let end = |name| VethEnd { name, namespace: &namespace };
    veth::create(end("near"), end("far"), queues)?;
    let prepare = || {
        for scope in ["all", "default", "near", "far"] {
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1");
        }
        veth::bring_up(&Netdev::open("near")?, &Netdev::open("far")?)
    };
    namespace.run(prepare)??;
    Ok(namespace)
}

impl Harness for Queues {
    fn name(&self) -> String {
        match self {
            Queues::Veth { backend, options, .. } => format!("{backend} over veth, {options}, as one port"),
            Queues::Memif { .. } => "memif, two queues as one port".into(),
        }
    }

    fn facts(&self) -> Facts {
        match self {
            Queues::Veth { .. } => Facts { window: 128, ..Facts::default() },
            Queues::Memif { .. } => Facts { window: 128, lossless: true, len_min: 14, ..Facts::default() },
        }
    }

    fn pool(&self) -> PoolConfig {
        PoolConfig { frames: 4096, ..PoolConfig::default() }
    }

    fn open(&mut self, pool: &Pool, _start: u32) -> Result<Link, String> {
        let names = self.names()?;
        let port = |name: &String| -> Result<Box<dyn Port>, String> {
            let opened = parse(name).and_then(|spec| open_device(&spec, &OpenOptions::default(), pool));
            let opened = opened.map_err(|error| error.to_string())?;
            assert_eq!(opened.device.queues(), if name.contains("queues=2") { 2 } else { 1 });
            Ok(share_out(opened.device, 1).remove(0))
        };
        let [sender, receiver] = match self {
            Queues::Veth { namespace: Some(namespace), .. } => {
                namespace.run(|| names.each_ref().map(port)).map_err(|error| error.to_string())?
            }
            _ => names.each_ref().map(port),
        };
        let (mut sender, mut receiver) = (sender?, receiver?);
        if matches!(self, Queues::Memif { .. }) {
            // Each side lays out its buffers when it is called.
            let deadline = Instant::now() + Duration::from_secs(30);
            let ready =
                |port: &mut dyn Port, interest| port.wait(interest, 1_000_000).map_err(|error| error.to_string());
            while ready(&mut *sender, Interest::Transmit)? != Readiness::Ready {
                ready(&mut *receiver, Interest::Receive)?;
                assert!(Instant::now() < deadline, "the two ends do not meet");
            }
        }
        Ok(Link::Pair { sender, receiver })
    }

    fn disturb(&mut self, what: Disturbance) -> Result<Option<Hit>, String> {
        let Queues::Veth { namespace: Some(namespace), .. } = self else { return Ok(None) };
        let set_up = |up| Netdev::open("near").and_then(|device| device.set_up(up));
        let done = namespace.run(|| match what {
            Disturbance::Down => set_up(false),
            Disturbance::Up => set_up(true),
            Disturbance::Delete => veth::delete(namespace, "near"),
        });
        done.and_then(|done| done).map_err(|error| error.to_string())?;
        Ok(Some(Hit { sender: true, receiver: what == Disturbance::Delete }))
    }
}

#[test]
fn two_queues_of_memif() {
    check_all(&mut Queues::Memif { folder: tempfile::tempdir().unwrap(), links: 0 });
}

#[test]
fn several_queues_or_sockets_of_an_interface() {
    if or_skip("no network namespace", NetNs::anonymous()).is_none() {
        return;
    }
    // AF_PACKET sends by a queue of the kernel's choice, and the far end receives from one queue: so there is one.
    for (backend, options, queues) in [("packet", "queues=2", 2), ("xdp", "queues=2", 2), ("xdp", "merge=yes", 1)] {
        let usable = linerate_ports::list().into_iter().find(|listed| listed.name == backend);
        match usable.map(|listed| listed.usable) {
            Some(Ok(())) => {
                check_all(&mut Queues::Veth { backend, options, queues, namespace: None });
            }
            Some(Err(missing)) => eprintln!("skipped: {backend}: {}", missing.cause),
            None => panic!("there is no backend {backend}"),
        }
    }
}

#[test]
fn a_device_says_when_its_link_goes_and_comes_and_what_each_queue_did() {
    let Some(namespace) = or_skip("no network namespace", pair(2)) else { return };
    let mut pool = Pool::new(PoolConfig { frames: 4096, ..PoolConfig::default() }).unwrap();
    let spec = parse("packet:near,queues=2").unwrap();
    let opened = namespace.run(|| open_device(&spec, &OpenOptions::default(), &pool)).unwrap().unwrap();
    let mut device = opened.device;
    let deadline = Instant::now() + Duration::from_secs(30);
    for (up, wanted) in [(true, LinkState::Up), (false, LinkState::Down), (true, LinkState::Up)] {
        namespace.run(|| Netdev::open("far").unwrap().set_up(up).unwrap()).unwrap();
        // Its peer is down: the interface itself is up, and has no carrier.
        while device.link().unwrap() != wanted {
            assert!(Instant::now() < deadline, "the link is not {wanted:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let mut device = device
        .try_map(|mut port| {
            let mut batch = Batch::new(&pool, 1);
            pool.append(&mut batch, &[0xff; 60], 0);
            port.transmit(&mut batch).map(|_| port)
        })
        .unwrap();
    let sent: Vec<u64> = device.stats().unwrap().iter().map(|stats| stats.tx_packets).collect();
    assert_eq!(sent, [1, 1]);
    drop(device);
    pool.flush();
    assert!(pool.is_whole());
}
