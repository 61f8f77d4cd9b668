//! Names to ports, on what every machine has and on veth pairs of namespaces made here.

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Interest, OpenError};
use linerate_ports::{Interface, Opened, Usage, interfaces, list, open, open_for, pool_for};
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
    let mut pools = [&server, &client].map(|spec| match pool_for(spec, PoolConfig::default()).unwrap() {
        Some(own) => own,
        None => pool(),
    });
    let mut receiver = open_for(&server, &pools[0], Usage::Receiving).unwrap().port;
    let mut sender = open_for(&client, &pools[1], Usage::Sending).unwrap().port;
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

fn refusal(spec: &str) -> OpenError {
    open(spec, &pool()).err().unwrap()
}

#[test]
fn ports_that_need_nothing_open_by_name() {
    let pool = pool();
    for (spec, backend) in [("null:", "null"), ("pipe:all-test", "pipe")] {
        assert_eq!(open(spec, &pool).unwrap().caps().backend, backend);
    }
    let opened = open_for("pipe:all-test-2", &pool, Usage::Sending).unwrap();
    assert_eq!(opened.choice, None);
}

#[test]
fn what_cannot_be_opened_says_what_can() {
    let error = refusal("pcaap:eth0");
    assert_eq!(error.cause, "there is no backend pcaap");
    for line in ["packet:IF[@queue]", "pipe:NAME", "file:PATH", "memif:SOCKET[@queue]", "null:", "IF  "] {
        assert!(error.hint.contains(line), "{error}");
    }
    assert!(!error.hint.contains("netmap"), "{error}");
    for spec in ["netmap:eth0", "dpdk:net_null0"] {
        assert_eq!(refusal(spec).cause, "this backend is not built yet");
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
    for name in ["pipe", "null", "file", "packet", "xdp", "xdplive", "pcap", "tap", "memif", "vhost", "netmap", "dpdk"]
    {
        assert!(names.contains(&name), "{name}");
    }
    for backend in &list {
        assert!(backend.syntax.starts_with(backend.name) && !backend.summary.is_empty(), "{backend:?}");
        if let Err(unusable) = &backend.usable {
            assert!(!unusable.why.is_empty(), "{backend:?}");
        }
    }
    assert!(list.iter().find(|backend| backend.name == "pipe").unwrap().usable.is_ok());
}

#[test]
fn a_tap_device_is_a_port() {
    let Some(namespace) = pair(1) else { return };
    if let Some(Err(unusable)) = list().into_iter().find(|backend| backend.name == "tap").map(|backend| backend.usable)
    {
        return eprintln!("skipped: tap: {}", unusable.why);
    }
    let opened = namespace.run(|| open("tap:tap7", &pool())).unwrap().unwrap();
    assert_eq!((opened.caps().backend, opened.caps().frame_len_max), ("tap", 1514));
}

/// One packet from `near` to `far`, both opened by these names.
fn carries(namespace: &NetNs, near: &str, far: &str) -> (Opened, Opened) {
    let mut pool = pool();
    let (mut sender, mut receiver) = namespace
        .run(|| (open_for(near, &pool, Usage::Both).unwrap(), open_for(far, &pool, Usage::Both).unwrap()))
        .unwrap();
    let mut batch = Batch::new(&pool, 32);
    pool.alloc(&mut batch, 1, 60);
    batch.packet_mut(0).fill(0xff);
    while !batch.is_empty() {
        sender.port.transmit(&mut batch).unwrap();
    }
    let ours = |packet: &[u8]| packet == [0xff; 60];
    for _ in 0..100 {
        sender.port.flush().unwrap();
        receiver.port.wait(Interest::Receive, 100_000_000).unwrap();
        receiver.port.receive(&mut batch).unwrap();
        if batch.iter().any(ours) {
            return (sender, receiver);
        }
        pool.free(&mut batch);
    }
    panic!("the packet did not arrive from {near} at {far}");
}

#[test]
fn a_bare_name_takes_the_fastest_that_works_and_says_why() {
    let Some(namespace) = pair(2) else { return };
    let (near, _far) = carries(&namespace, "near", "far");
    let choice = near.choice.unwrap();
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
    let opened = namespace.run(|| open_for("near", &small, Usage::Both)).unwrap().unwrap();
    assert_eq!(opened.port.caps().backend, "packet");
    assert!(opened.choice.as_ref().unwrap().contains("; not xdp:near,native"), "{:?}", opened.choice);
}

#[test]
fn an_interface_that_the_host_uses_is_not_taken_away() {
    let Some(namespace) = pair(1) else { return };
    let opened = namespace.run(|| open_for("lo", &pool(), Usage::Receiving)).unwrap().unwrap();
    assert_eq!(opened.port.caps().backend, "packet");
    assert!(!opened.port.caps().transmits);
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
        found.unwrap().1.clone().map_err(|unusable| unusable.why + ": " + &unusable.what_to_do)
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
