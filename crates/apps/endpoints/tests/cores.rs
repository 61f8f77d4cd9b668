//! Programs on several cores: a stack each, over ports of one queue and of several.

use super::link;

use std::sync::Arc;
use std::time::{Duration, Instant};

use linerate_control::{Connection, QueueDocument};
use linerate_endpoints::document::{CaptureDocument, ConnectionsDocument, PacketsDocument, Snapshot};
use linerate_endpoints::request::{Request, What};
use linerate_endpoints::{Ended, NetworkConfig, Options, Running, start_shards};
use linerate_programs::Reports;
use linerate_programs::load::{Client, Config, LoadDocument};
use linerate_programs::serve::{Addresses, Echo, HttpServer, Site};
use link::{LONG, Link, any, frames_of};

/// The end of a memif of so many queues.
fn network(link: &Link, end: u8, queues: usize) -> NetworkConfig {
    let network = link.network(end);
    NetworkConfig { port: format!("{},queues={queues}", network.port), ..network }
}

fn options(link: &Link, end: u8) -> Options {
    Options { capture: None, ..link.options(&format!("end{end}")) }
}

fn load(link: &Link, text: &str, cores: usize, queues: usize) -> Running<Client> {
    let plans = Config::parse(text).unwrap().plan().unwrap().divided(cores).unwrap();
    let clients = plans.into_iter().map(|plan| Client::new(Arc::new(plan))).collect();
    start_shards(clients, &network(link, 2, queues), options(link, 2)).unwrap()
}

fn ended<P: Reports>(running: Running<P>) -> Ended<P> {
    let began = Instant::now();
    while !running.has_ended() {
        assert!(began.elapsed() < LONG, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    running.stop().unwrap()
}

/// What the cores did makes up the whole.
fn assert_sums(snapshot: &Snapshot<LoadDocument>, cores: usize) {
    let whole = &snapshot.program;
    assert_eq!(snapshot.cores.len(), cores);
    assert!(whole.is_well() && whole.requests.unexplained == 0 && whole.connections.unexplained == 0, "{whole:?}");
    type Count = fn(&LoadDocument) -> u64;
    let counts: [Count; 6] = [
        |load| load.requests.intended,
        |load| load.requests.completed,
        |load| load.connections.begun,
        |load| load.connections.completed,
        |load| load.latency.count,
        |load| load.rx_bytes,
    ];
    for count in counts {
        assert_eq!(count(whole), snapshot.cores.iter().map(|core| count(&core.program)).sum::<u64>());
    }
    for core in &snapshot.cores {
        assert!(core.program.is_well() && core.program.requests.completed > 0, "{core:?}");
    }
    let sum = |count: fn(&linerate_endpoints::document::SteeringDocument) -> u64| {
        snapshot.cores.iter().map(|core| count(&core.steering)).sum::<u64>()
    };
    assert_eq!(sum(|one| one.arrived), snapshot.packets.received);
    assert_eq!((sum(|one| one.handed_over), sum(|one| one.lost)), (sum(|one| one.taken_over), 0));
}

/// Each queue of the port is there, and they make up the whole.
fn assert_queues(packets: &PacketsDocument, queues: usize) {
    let sum = |count: fn(&QueueDocument) -> u64| packets.queues.iter().map(count).sum::<u64>();
    assert_eq!(
        (packets.queues.len(), sum(|one| one.received), sum(|one| one.sent)),
        (queues, packets.received, packets.sent)
    );
    assert!(packets.queues.iter().all(|queue| queue.received > 0), "{packets:?}");
}

#[test]
fn loads_and_servers_of_several_cores_balance() {
    for (cores, queues) in [(2, 1), (2, 2), (3, 2)] {
        let link = Link::new();
        let make = || HttpServer::new(any(80), Site::of_len(2000), 0);
        let servers = (0..cores).map(|_| make()).collect();
        let server = start_shards(servers, &network(&link, 1, queues), options(&link, 1)).unwrap();
        for host in ["198.18.5.1", "[fd00:5::1]"] {
            let text = format!(
                "connections = 31\nrequests-per-connection = 20\ncount = 3001\n[[request]]\nurl = \"http://{host}/\"\n\
                 expect-bytes = 2000\n"
            );
            let client = ended(load(&link, &text, cores, queues));
            let snapshot = &client.snapshot;
            assert_sums(snapshot, cores);
            assert_queues(&snapshot.packets, queues);
            assert_eq!(snapshot.program.requests.completed, 3001);
            assert_eq!((client.frames_missing, client.port_lost), (0, false));
            assert_eq!(snapshot.counters["TcpActiveOpens"], snapshot.program.connections.begun);
        }
        let server = server.stop().unwrap();
        let snapshot = &server.snapshot;
        assert_queues(&snapshot.packets, queues);
        assert_eq!((snapshot.program.served.requests, server.frames_missing), (6002, 0));
        let by_core: Vec<u64> = snapshot.cores.iter().map(|core| core.program.served.connections).collect();
        assert!(by_core.len() == cores && by_core.iter().all(|connections| *connections > 10), "{by_core:?}");
        assert_eq!(by_core.iter().sum::<u64>(), snapshot.program.served.connections);
    }
}

/// Both ends have the hash in common, so that queues of a device that keeps them apart need no steering.
#[test]
fn queues_of_two_linerates_need_no_steering() {
    let link = Link::new();
    let echo = || Echo::new(Addresses { tcp: any(7), udp: any(7) });
    let server = start_shards(vec![echo(), echo()], &network(&link, 1, 2), options(&link, 1)).unwrap();
    for url in ["tcp://198.18.5.1:7", "tcp://[fd00:5::1]:7", "udp://198.18.5.1:7"] {
        let text = format!("connections = 20\ncount = 2000\n[[request]]\nurl = \"{url}\"\n");
        let client = ended(load(&link, &text, 2, 2));
        assert_sums(&client.snapshot, 2);
        for core in &client.snapshot.cores {
            // Neighbours are everybody's.
            assert!(core.steering.handed_over < 20 && core.steering.arrived > 900, "{core:?}");
        }
    }
    // Datagrams in fragments reach their owners, too.
    let text = "connections = 20\ncount = 200\n[[request]]\nurl = \"udp://198.18.5.1:7\"\nrequest = \"4000\"\n";
    let client = ended(load(&link, text, 2, 2));
    assert_sums(&client.snapshot, 2);
    assert_eq!(client.snapshot.program.requests.completed, 200);
    server.stop().unwrap();
}

#[test]
fn connections_of_all_cores_are_listed() {
    let link = Link::new();
    let echo = || Echo::new(Addresses { tcp: any(7), udp: any(7) });
    let server = start_shards(vec![echo(), echo()], &network(&link, 1, 1), options(&link, 1)).unwrap();
    let text = "connections = 40\nthink = \"5ms\"\nduration = \"600s\"\n[[request]]\nurl = \"tcp://198.18.5.1:7\"\n";
    let client = load(&link, text, 2, 1);
    let began = Instant::now();
    while client.snapshot().unwrap().program.requests.completed < 400 {
        assert!(began.elapsed() < LONG, "no answers");
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut control = Connection::to(server.dir()).unwrap();
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let value = control.ask(&Request::Show { what: What::Connections, after }).unwrap();
        let part: ConnectionsDocument = serde_json::from_value(value).unwrap();
        all.extend(part.connections.into_iter().map(|one| one.remote));
        after = part.next;
        if after.is_none() {
            break;
        }
    }
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!((all.len(), count), (40, 40));
    // The client is asked to come to its end, and everything under way does.
    client.ask_to_stop();
    assert_sums(&ended(client).snapshot, 2);
    assert_eq!(server.stop().unwrap().frames_missing, 0);
}

#[test]
fn what_cannot_be_divided_is_refused() {
    let link = Link::new();
    let echo = || Echo::new(Addresses { tcp: any(7), udp: any(7) });
    let refused = |programs: Vec<Echo>, network: &NetworkConfig| {
        start_shards(programs, network, options(&link, 1)).err().map(|error| error.to_string()).unwrap()
    };
    let many = (0..65).map(|_| echo()).collect();
    assert!(refused(many, &network(&link, 1, 1)).contains("65 cores are too many"));
    assert!(refused(Vec::new(), &network(&link, 1, 1)).contains("no program"));
    let plan = |text: &str| Config::parse(text).unwrap().plan().unwrap();
    let few = plan("connections = 2\n[[request]]\nurl = \"tcp://198.18.5.1:7\"\n");
    assert!(few.divided(3).is_err() && few.divided(2).is_ok() && few.divided(0).is_err());
}

/// The file has the packets of all cores, over a port of one queue and of several; also one that begins and ends meanwhile.
#[test]
fn a_capture_has_the_packets_of_all_cores() {
    for queues in [1, 2] {
        let link = Link::new();
        let echo = || Echo::new(Addresses { tcp: any(7), udp: any(7) });
        let server = start_shards(vec![echo(), echo()], &network(&link, 1, queues), options(&link, 1)).unwrap();
        let path = link.0.path().join("server.pcapng");
        let mut control = Connection::to(server.dir()).unwrap();
        let mut capture = |file: Option<&std::path::Path>| -> CaptureDocument {
            let value = control.ask(&Request::Capture { file: file.map(Into::into) }).unwrap();
            serde_json::from_value(value).unwrap()
        };
        let before = server.snapshot().unwrap().packets;
        capture(Some(&path));
        let text = "connections = 10\ncount = 500\n[[request]]\nurl = \"tcp://198.18.5.1:7\"\n";
        let plans = Config::parse(text).unwrap().plan().unwrap().divided(2).unwrap();
        let clients = plans.into_iter().map(|plan| Client::new(Arc::new(plan))).collect();
        let client = ended(start_shards(clients, &network(&link, 2, queues), link.options("end2")).unwrap());
        assert_sums(&client.snapshot, 2);
        let packets = &client.snapshot.packets;
        assert_eq!(frames_of(&link.0.path().join("frames.pcapng")), packets.sent + packets.received);
        let document = capture(None);
        let packets = server.stop().unwrap().snapshot.packets;
        // No more than what passed since it began, and all that the client got and sent.
        let passed = packets.sent + packets.received - before.sent - before.received;
        assert!(document.written <= passed && document.written >= client.snapshot.packets.received, "{document:?}");
        assert_eq!((frames_of(&path), document.missed), (document.written, 0));
    }
}
