//! Names to ports, on what every machine has and on veth pairs of namespaces made here.

use linerate_mem::{Batch, Pool};
use linerate_port::{FarSide, Interest, OpenError, OpenOptions, PortSpec};
use linerate_ports::{Interface, Opened, PoolPlan, far_side, interfaces, list, open, open_device, pools, share_out};
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::veth::{self, VethEnd};
use linerate_testkit::or_skip;

fn pool() -> Pool {
    Pool::new(Default::default()).unwrap()
}

/// A namespace with the pair `near` - `far`, both up.
fn pair(queues: u32) -> Option<NetNs> {
    let namespace = or_skip("no network namespace", NetNs::anonymous())?;
    let end = |name| VethEnd { name, namespace: &namespace };
    veth::create(end("near"), end("far"), queues).unwrap();
    namespace.run(|| ["near", "far", "lo"].map(|name| Netdev::open(name).unwrap().set_up(true).unwrap())).unwrap();
    Some(namespace)
}

/// A memif client that lends its frames, beside a server that copies from a pool of its own.
#[test]
fn a_memif_client_that_copies_nothing_opens_on_the_pool_made_for_it() {
    let socket = std::env::temp_dir().join(format!("linerate-ports-{}.sock", std::process::id()));
    let (server, client) =
        (format!("memif:{}", socket.display()), format!("memif:{},role=client,zerocopy", socket.display()));
    let error = refusal(&client);
    assert!(error.cause.contains("a pool made for it") && error.hint.contains("leave out zerocopy"), "{error}");
    let specs = [&server, &client].map(|name| name.parse::<PortSpec>().unwrap());
    let (receive, transmit) = (OpenOptions::receive(), OpenOptions::transmit());
    let mut pools = [(&specs[0], &receive), (&specs[1], &transmit)]
        .map(|port| pools(&PoolPlan { ports: &[port], ..PoolPlan::default() }).unwrap().remove(0));
    let mut receiver = open_device(&specs[0], &receive, &pools[0]).unwrap().into_port();
    let mut sender = open_device(&specs[1], &transmit, &pools[1]).unwrap().into_port();
    assert_eq!([&receiver, &sender].map(|port| port.caps().zero_copy), [false, true]);
    let (mut outgoing, mut incoming) = (Batch::new(&pools[1], 32), Batch::new(&pools[0], 32));
    assert!(pools[1].append(&mut outgoing, &[7; 4000], 0));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while incoming.is_empty() {
        assert!(std::time::Instant::now() < deadline, "nothing came");
        sender.transmit(&mut outgoing).unwrap();
        if receiver.receive(&mut incoming).unwrap() == 0 {
            receiver.wait(Interest::Receive, 10_000_000).unwrap();
        }
    }
    assert_eq!(incoming.iter().flatten().copied().collect::<Vec<u8>>(), [7; 4000]);
    drop((sender, receiver, outgoing, incoming));
    assert!(pools.iter_mut().all(|pool| pool.is_whole()));
}

fn opened(name: &str, options: &OpenOptions, pool: &Pool) -> Result<Opened, OpenError> {
    open_device(&linerate_ports::parse(name)?, options, pool)
}

fn refusal(spec: &str) -> OpenError {
    open(spec, &pool()).err().unwrap()
}

#[test]
fn ports_that_need_nothing_open_by_name() {
    let pool = pool();
    for (spec, backend) in [("null:", "null"), ("pipe:all-test", "pipe")] {
        assert_eq!(open(spec, &pool).unwrap().caps().backend, backend);
    }
    let opened = opened("pipe:all-test-2", &OpenOptions::transmit(), &pool).unwrap();
    assert_eq!(opened.choice, None);
}

#[test]
fn what_cannot_be_opened_says_what_can() {
    let error = refusal("pcaap:eth0");
    assert_eq!(error.cause, "there is no backend pcaap");
    for line in ["packet:IF[@queue]", "pipe:NAME", "file:PATH", "memif:SOCKET[@queue]", "null:", "IF  "] {
        assert!(error.hint.contains(line), "{error}");
    }
    if !std::path::Path::new("/dev/netmap").exists() {
        let error = refusal("netmap:eth0");
        assert!(error.cause.contains("this kernel has no netmap") && error.hint.contains("modprobe netmap"), "{error}");
    }
    #[cfg(not(feature = "dpdk"))]
    {
        let error = refusal("dpdk:net_null0");
        assert!(error.to_string().contains("--features dpdk") && !error.to_string().contains('\n'), "{error}");
    }
    assert!(refusal("no-such-if").hint.contains("there are lo"), "{}", refusal("no-such-if"));
    assert!(refusal("lo,ring=9").hint.contains("packet:lo,ring=9"), "{}", refusal("lo,ring=9"));
    assert!(refusal("").cause.contains("is empty"));
    assert!(refusal("null:,fast").cause.contains("unknown option fast"));
}

#[test]
fn every_backend_of_the_design_is_listed() {
    let list = list();
    let names: Vec<&str> = list.iter().map(|backend| backend.name).collect();
    for name in [
        "pipe", "null", "file", "packet", "xdp", "xdplive", "pcap", "tap", "vxlan", "gre", "memif", "vhost", "netmap",
        "dpdk",
    ] {
        assert!(names.contains(&name), "{name}");
    }
    for backend in &list {
        assert!(backend.syntax.starts_with(backend.name) && !backend.summary.is_empty(), "{backend:?}");
        if let Err(unusable) = &backend.usable {
            assert!(!unusable.cause.is_empty(), "{backend:?}");
        }
    }
    assert!(list.iter().find(|backend| backend.name == "pipe").unwrap().usable.is_ok());
}

#[test]
fn a_tap_device_is_a_port() {
    let Some(namespace) = pair(1) else { return };
    if let Some(Err(unusable)) = list().into_iter().find(|backend| backend.name == "tap").map(|backend| backend.usable)
    {
        return eprintln!("skipped: tap: {}", unusable.cause);
    }
    let opened = namespace.run(|| open("tap:tap7", &pool())).unwrap().unwrap();
    assert_eq!((opened.caps().backend, opened.caps().frame_len_max), ("tap", 1514));
}

/// One packet from `near` to `far`, both opened by these names.
fn carries(namespace: &NetNs, near: &str, far: &str) -> Option<String> {
    let mut pool = pool();
    let both = OpenOptions::default();
    let open = || [near, far].map(|name| opened(name, &both, &pool).unwrap());
    let [near_side, far_side] = namespace.run(open).unwrap();
    let choice = near_side.choice.clone();
    let (mut sender, mut receiver) = (near_side.into_port(), far_side.into_port());
    let mut batch = Batch::new(&pool, 32);
    pool.alloc(&mut batch, 1, 60);
    batch.packet_mut(0).fill(0xff);
    while !batch.is_empty() {
        sender.transmit(&mut batch).unwrap();
    }
    let ours = |packet: &[u8]| packet == [0xff; 60];
    for _ in 0..100 {
        sender.flush().unwrap();
        receiver.wait(Interest::Receive, 100_000_000).unwrap();
        receiver.receive(&mut batch).unwrap();
        if batch.iter().any(ours) {
            return choice;
        }
        pool.free(&mut batch);
    }
    panic!("the packet did not arrive from {near} at {far}");
}

#[test]
fn a_bare_name_takes_the_fastest_that_works_and_says_why() {
    let Some(namespace) = pair(2) else { return };
    let choice = carries(&namespace, "near", "far").unwrap();
    let xdp = list().into_iter().find(|backend| backend.name == "xdp").unwrap();
    match xdp.usable {
        Ok(()) => {
            assert!(choice.starts_with("xdp:near") && choice.contains("queues=2"), "{choice}");
            assert!(choice.contains("AF_XDP in the driver"), "{choice}");
        }
        Err(_) => assert!(choice.starts_with("packet:near"), "{choice}"),
    }
    // Frames of 512 bytes are none for AF_XDP: the next in line, with the reason.
    let shape = linerate_mem::PoolConfig { frames: 512, frame_size: 512 };
    let small = Pool::new(shape).unwrap();
    let opened = namespace.run(|| opened("near", &OpenOptions::default(), &small)).unwrap().unwrap();
    assert_eq!(opened.device.caps().backend, "packet");
    assert!(opened.choice.as_ref().unwrap().contains("; not xdp:near,native"), "{:?}", opened.choice);
}

#[test]
fn an_interface_that_the_host_uses_is_not_taken_away() {
    let Some(namespace) = pair(1) else { return };
    let opened = namespace.run(|| opened("lo", &OpenOptions::receive(), &pool())).unwrap().unwrap();
    assert_eq!(opened.device.caps().backend, "packet");
    assert!(!opened.device.caps().transmits);
    let choice = opened.choice.unwrap();
    assert!(choice.contains("lo has address 127.0.0.1") && choice.contains("xdp:lo does so"), "{choice}");
}

#[test]
fn explicit_backends_carry_packets() {
    let Some(namespace) = pair(1) else { return };
    carries(&namespace, "packet:near", "packet:far");
    let list = list();
    if list.iter().any(|backend| backend.name == "pcap" && backend.usable.is_ok()) {
        carries(&namespace, "pcap:near", "packet:far");
        carries(&namespace, "packet:near", "pcap:far");
    }
    if list.iter().any(|backend| backend.name == "xdp" && backend.usable.is_ok()) {
        carries(&namespace, "xdp:near", "packet:far");
        carries(&namespace, "packet:near", "xdp:far");
    }
}

#[test]
fn interfaces_are_listed_with_what_works_on_them() {
    let Some(namespace) = pair(3) else { return };
    namespace.run(|| Netdev::open("far").unwrap().set_up(false).unwrap()).unwrap();
    let all = namespace.run(interfaces).unwrap().unwrap();
    let get = |name: &str| all.iter().find(|interface| interface.name == name).unwrap();
    let usable = |interface: &Interface, backend: &str| {
        let found = interface.backends.iter().find(|(name, _)| *name == backend);
        found.unwrap().1.clone().map_err(|unusable| unusable.cause + ": " + &unusable.hint)
    };
    let near = get("near");
    assert_eq!((near.driver.as_deref(), near.mtu, near.up, near.queues), (Some("veth"), 1500, true, 3));
    assert_eq!((near.link, near.host_use.as_deref()), (Some(false), None));
    assert_eq!(usable(near, "packet"), Ok(()));
    assert!(near.bare.is_some());
    let far = get("far");
    assert!(!far.up && far.bare.is_none());
    assert!(usable(far, "packet").unwrap_err().contains("`ip link set far up`"));
    assert_eq!(get("lo").bare.as_deref(), Some("packet:lo"));
}

#[test]
fn what_is_said_of_a_name_is_what_its_port_says() {
    let socket = std::env::temp_dir().join(format!("linerate-far-{}.sock", std::process::id()));
    let file = std::env::temp_dir().join(format!("linerate-far-{}.pcap", std::process::id()));
    let names = [
        "null:".into(),
        "pipe:far-side".into(),
        format!("memif:{}", socket.display()),
        format!("vhost:{}.vhost", socket.display()),
        format!("file:{},write", file.display()),
    ];
    for name in names {
        let spec = linerate_ports::parse(&name).unwrap();
        let port = open(&name, &pool()).unwrap();
        assert_eq!(far_side(&spec), port.caps().far_side, "{name}");
    }
    let _ = std::fs::remove_file(file);
    assert_eq!(far_side(&"eth0".parse().unwrap()), FarSide::Interface);
}

/// A device of three queues on two threads: every packet of every queue reaches one of them.
#[test]
fn the_queues_of_a_device_are_shared_out_over_threads() {
    let socket = std::env::temp_dir().join(format!("linerate-share-{}.sock", std::process::id()));
    let mut pool = pool();
    let both = OpenOptions::default();
    let three = |role: &str| opened(&format!("memif:{},rings=3{role}", socket.display()), &both, &pool).unwrap().device;
    let (server, client) = (three(""), three(",role=client"));
    assert_eq!((server.queues(), client.queues()), (3, 3));
    let (mut threads, mut senders) = (share_out(server, 2), client.into_ports());
    assert_eq!(
        threads.iter().map(|port| port.caps().detail.starts_with("2 queues")).collect::<Vec<_>>(),
        [false, true]
    );
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let mut seen = [0u8; 3];
    let (mut batch, mut received) = (Batch::new(&pool, 8), Batch::new(&pool, 8));
    while seen != [1; 3] {
        assert!(std::time::Instant::now() < deadline, "{seen:?}");
        for (queue, sender) in senders.iter_mut().enumerate().filter(|(queue, _)| seen[*queue] == 0) {
            pool.append(&mut batch, &[queue as u8; 60], 0);
            sender.transmit(&mut batch).unwrap();
            pool.free(&mut batch);
        }
        for port in &mut threads {
            port.wait(Interest::Receive, 10_000_000).unwrap();
            port.receive(&mut received).unwrap();
        }
        received.iter().for_each(|packet| seen[usize::from(packet[0])] = 1);
        pool.free(&mut received);
    }
    drop((threads, senders, batch, received));
    assert!(pool.is_whole());
    let error = opened("pipe:one", &OpenOptions { threads: Some(2), ..both.clone() }, &pool).map(|_| ()).unwrap_err();
    assert!(error.cause.contains("one queue, fewer than the 2 threads"), "{error}");
    let threads = OpenOptions { threads: Some(3), ..OpenOptions::transmit() };
    assert_eq!(opened("null:", &threads, &pool).unwrap().device.queues(), 3);
}
