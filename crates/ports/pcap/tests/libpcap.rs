//! What is special about libpcap: the library that may be missing, its drops, its timestamps, its refusals.

mod common;

use std::process::Command;

use common::{Wire, pool};
use linerate_mem::Batch;
use linerate_port::{Interest, Port, PortError, Readiness};
use linerate_sys::clock;

#[test]
fn a_full_buffer_is_counted_to_the_packet() {
    let Some(wire) = Wire::new(1500) else { return };
    let mut pool = pool();
    let mut sender = wire.left.open("", &pool).unwrap();
    let mut receiver = wire.right.open(",buffer=65536", &pool).unwrap();
    let mut batch = Batch::new(&pool, 64);
    for _ in 0..200 {
        pool.alloc(&mut batch, 64, 60);
        batch.iter_mut().for_each(|packet| packet.fill(0xff));
        while !batch.is_empty() {
            sender.transmit(&mut batch).unwrap();
        }
    }
    let mut received = 0;
    while receiver.wait(Interest::Receive, 100_000_000).unwrap() == Readiness::Ready {
        received += receiver.receive(&mut batch).unwrap() as u64;
        pool.free(&mut batch);
    }
    let stats = receiver.stats().unwrap();
    assert_eq!((sender.stats().unwrap().tx_packets, stats.rx_packets), (200 * 64, received));
    assert!(stats.rx_dropped() > 0);
    assert_eq!(received + stats.rx_dropped(), 200 * 64);
    assert_eq!(
        (stats.rx_drops[0].place.as_str(), stats.rx_drops[0].cause.as_str()),
        ("libpcap buffer of veth0", "buffer full")
    );
}

#[test]
fn timestamps_are_of_the_monotonic_clock() {
    let Some(wire) = Wire::new(1500) else { return };
    let mut pool = pool();
    let (mut sender, mut receiver) = (wire.left.open("", &pool).unwrap(), wire.right.open("", &pool).unwrap());
    let before_ns = clock::now_ns();
    let mut batch = Batch::with_times(&pool, 8);
    for _ in 0..5 {
        assert!(pool.append(&mut batch, &[0xff; 60], 0));
    }
    while !batch.is_empty() {
        sender.transmit(&mut batch).unwrap();
    }
    while batch.len() < 5 {
        receiver.wait(Interest::Receive, 1_000_000_000).unwrap();
        receiver.receive(&mut batch).unwrap();
    }
    let timestamps: Vec<u64> = (0..5).map(|index| batch.time_ns(index).unwrap()).collect();
    const SLACK_NS: u64 = 5_000_000;
    assert!(timestamps.is_sorted() && before_ns - SLACK_NS <= timestamps[0], "{before_ns} {timestamps:?}");
    assert!(timestamps[4] <= clock::now_ns() + SLACK_NS, "{timestamps:?}");
    pool.free(&mut batch);
}

#[test]
fn the_mtu_may_change_and_promiscuous_mode_is_optional() {
    let Some(wire) = Wire::new(1500) else { return };
    let mut pool = pool();
    let mut port = wire.left.open(",promisc=no", &pool).unwrap();
    assert_ne!(common::promiscuous(&wire.left), Some(true));
    let mut batch = Batch::new(&pool, 8);
    assert!(pool.append(&mut batch, &[0xff; 1514], 0));
    wire.left.device.set_mtu(1000).unwrap();
    let error = port.transmit(&mut batch).unwrap_err();
    assert!(matches!(error, PortError::FrameTooLong { len: 1514, max: 1014, .. }), "{error}");
    wire.left.device.set_mtu(1500).unwrap();
    assert_eq!(port.transmit(&mut batch).unwrap(), 1);
    pool.alloc(&mut batch, 1, 13);
    assert_eq!(port.transmit(&mut batch).unwrap(), 1);
    assert_eq!((port.stats().unwrap().tx_packets, port.stats().unwrap().tx_dropped()), (1, 1));
}

#[test]
fn refusals_say_what_to_do() {
    let Some(wire) = Wire::new(1500) else { return };
    let refused = |text: &str| {
        let spec = text.parse().unwrap();
        wire.left.namespace.run(|| linerate_port_pcap::open(spec, &pool())).unwrap().err().unwrap().to_string()
    };
    assert!(refused("pcap:eth7").contains("there are lo, "), "{}", refused("pcap:eth7"));
    assert!(refused("pcap:veth0@1").contains("leave out the @"));
    assert!(refused("pcap:veth0,buffer=1").contains("65536"));
    assert!(refused("pcap:veth0,colour=red").contains("pcap knows buffer, timeout, promisc"));
    wire.left.device.set_up(false).unwrap();
    assert!(refused("pcap:veth0").contains("`ip link set veth0 up`"));
}

const CHILD: &str = "LINERATE_PCAP_CHILD";

/// Runs in a child process only: says what loading libpcap gave.
#[test]
fn child_that_loads_libpcap() {
    if std::env::var_os(CHILD).is_some() {
        println!("child: {:?}", linerate_port_pcap::probe().map_err(|error| error.to_string()));
    }
}

#[test]
fn a_library_that_is_no_libpcap_is_an_error_with_advice() {
    // A directory in front of the system's, with a file of that name that cannot be loaded.
    let folder = std::env::temp_dir().join(format!("linerate-pcap-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    for name in ["libpcap.so.1", "libpcap.so.0.8", "libpcap.so"] {
        std::fs::write(folder.join(name), "no library").unwrap();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["child_that_loads_libpcap", "--exact", "--nocapture", "--test-threads=1"]);
    let output = command.env(CHILD, "1").env("LD_LIBRARY_PATH", &folder).output();
    std::fs::remove_dir_all(&folder).unwrap();
    let said = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(said.contains("libpcap cannot be loaded") && said.contains("install libpcap0.8"), "{said}");
}
