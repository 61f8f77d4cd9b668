//! The device: how it is made, what it refuses, what its queue loses.

mod common;

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{DEVICE, allowed, namespace, open_packet, open_packet_on, open_tap, pool};
use linerate_mem::{Batch, Pool};
use linerate_port::{Interest, Port, PortError, Readiness};
use linerate_port_tap::TapPort;
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::veth::{self, VethEnd};

#[test]
fn the_device_is_up_while_the_port_is_open_and_gone_after() {
    if !allowed() {
        return;
    }
    let Some(namespace) = namespace() else { return };
    let port = open_tap(&namespace, ",mtu=1400", &pool()).unwrap();
    let device = namespace.run(|| Netdev::open(DEVICE)).unwrap().unwrap();
    assert!(device.is_up().unwrap());
    assert_eq!((device.mtu().unwrap(), port.caps().frame_len_max), (1400, 1414));
    assert_eq!(port.caps().mac, device.mac().ok());
    let taken = open_tap(&namespace, "", &pool()).err().unwrap();
    assert_eq!(taken.cause, "another process has TAP device tap0");
    drop(port);
    // A process that another test starts just now has this one's descriptors, too, until its program begins.
    let deadline = Instant::now() + Duration::from_secs(60);
    while device.index().is_ok() {
        assert!(Instant::now() < deadline, "the device outlives its port");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_full_queue_is_counted() {
    if !allowed() {
        return;
    }
    let Some(namespace) = namespace() else { return };
    let mut pool = pool();
    let mut tap = open_tap(&namespace, "", &pool).unwrap();
    let mut kernel_side = open_packet(&namespace, &pool).unwrap();
    let mut batch = Batch::new(&pool, 64);
    for _ in 0..30 {
        pool.alloc(&mut batch, 64, 60);
        batch.iter_mut().for_each(|packet| packet.fill(0xff));
        while !batch.is_empty() {
            kernel_side.transmit(&mut batch).unwrap();
        }
    }
    let sent = kernel_side.stats().unwrap().tx_packets;
    let mut received = 0;
    while tap.wait(Interest::Receive, 1_000_000).unwrap() == Readiness::Ready {
        received += tap.receive(&mut batch).unwrap() as u64;
        pool.free(&mut batch);
    }
    let stats = tap.stats().unwrap();
    assert_eq!(stats.rx_packets, received);
    assert!(stats.rx_dropped() > 0);
    assert_eq!(received + stats.rx_dropped(), sent);
    assert_eq!(stats.rx_drops[0].place, "queue of TAP device tap0");
}

#[test]
fn the_mtu_may_change_and_what_is_no_frame_is_counted() {
    if !allowed() {
        return;
    }
    let Some(namespace) = namespace() else { return };
    let mut pool = pool();
    let mut tap = open_tap(&namespace, "", &pool).unwrap();
    let device = namespace.run(|| Netdev::open(DEVICE)).unwrap().unwrap();
    let mut batch = Batch::new(&pool, 8);
    assert!(pool.append(&mut batch, &[0xff; 1600], 0));
    let error = tap.transmit(&mut batch).unwrap_err();
    assert!(matches!(error, PortError::FrameTooLong { len: 1600, max: 1514, .. }), "{error}");
    device.set_mtu(2000).unwrap();
    assert_eq!(tap.transmit(&mut batch).unwrap(), 1);
    for len in [13, 0, 14] {
        pool.alloc(&mut batch, 1, len);
    }
    assert_eq!(tap.transmit(&mut batch).unwrap(), 3);
    let stats = tap.stats().unwrap();
    assert_eq!((stats.tx_packets, stats.tx_dropped()), (2, 2));
}

/// As for a container: the device is made here and moved there.
#[test]
fn a_device_that_is_moved_and_renamed_keeps_its_port() {
    if !allowed() {
        return;
    }
    let (Some(here), Some(there)) = (namespace(), namespace()) else { return };
    let mut pool = pool();
    let mut tap = open_tap(&here, "", &pool).unwrap();
    veth::move_to(&here, DEVICE, VethEnd { name: DEVICE, namespace: &there }).unwrap();
    let error = until_error(&mut tap, &pool);
    assert!(matches!(error, PortError::Down { .. }), "{error}");
    let device = there.run(|| Netdev::open(DEVICE)).unwrap().unwrap();
    device.set_up(true).unwrap();
    passes_both_ways(&mut tap, &there, DEVICE, &mut pool);
    // What only its namespace knows: the MTU, and what its queue lost.
    device.set_mtu(2000).unwrap();
    let mut batch = Batch::new(&pool, 64);
    assert!(pool.append(&mut batch, &[0xff; 1900], 0));
    assert_eq!(tap.transmit(&mut batch).unwrap(), 1);
    let mut kernel_side = open_packet_on(&there, DEVICE, &pool).unwrap();
    for _ in 0..30 {
        pool.alloc(&mut batch, 64, 60);
        batch.iter_mut().for_each(|packet| packet.fill(0xff));
        while !batch.is_empty() {
            kernel_side.transmit(&mut batch).unwrap();
        }
    }
    assert!(tap.stats().unwrap().rx_dropped() > 0);
    drop(kernel_side);
    while tap.receive(&mut batch).unwrap() > 0 {
        pool.free(&mut batch);
    }
    // Back again, under another name.
    veth::move_to(&there, DEVICE, VethEnd { name: "other", namespace: &here }).unwrap();
    here.run(|| Netdev::open("other")).unwrap().unwrap().set_up(true).unwrap();
    passes_both_ways(&mut tap, &here, "other", &mut pool);
    veth::delete(&here, "other").unwrap();
    let error = until_error(&mut tap, &pool);
    assert!(matches!(error, PortError::Gone { .. }), "{error}");
}

fn until_error(tap: &mut TapPort, pool: &Pool) -> PortError {
    let (deadline, mut batch) = (Instant::now() + Duration::from_secs(60), Batch::new(pool, 64));
    while Instant::now() < deadline {
        let outcome = tap.receive(&mut batch).and_then(|_| tap.wait(Interest::Receive, 1_000_000));
        if let Err(error) = outcome {
            return error;
        }
    }
    panic!("the port does not notice");
}

fn passes_both_ways(tap: &mut TapPort, namespace: &NetNs, name: &str, pool: &mut Pool) {
    let mut kernel_side = open_packet_on(namespace, name, pool).unwrap();
    let ports: [&mut dyn Port; 2] = [tap, &mut kernel_side];
    let [tap, kernel_side] = ports;
    one_packet(tap, kernel_side, pool);
    one_packet(kernel_side, tap, pool);
}

fn one_packet(from: &mut dyn Port, to: &mut dyn Port, pool: &mut Pool) {
    let mut batch = Batch::new(pool, 8);
    assert!(pool.append(&mut batch, &[0xff; 60], 0));
    assert_eq!(from.transmit(&mut batch).unwrap(), 1);
    while to.receive(&mut batch).unwrap() == 0 {
        assert_eq!(to.wait(Interest::Receive, 60_000_000_000).unwrap(), Readiness::Ready);
    }
    assert_eq!(batch.packet(0), [0xff; 60]);
    pool.free(&mut batch);
}

#[test]
fn names_that_cannot_be_are_refused() {
    if !allowed() {
        return;
    }
    let Some(namespace) = namespace() else { return };
    let refused = |text: &str| {
        let spec = text.parse().unwrap();
        namespace.run(|| linerate_port_tap::open(spec, &pool())).unwrap().err().unwrap()
    };
    assert!(refused("tap:").hint.contains("write tap:NAME"));
    assert!(refused("tap:lo").cause.contains("no TAP device"));
    assert!(refused("tap:a-name-of-sixteen").cause.contains("too long"));
    assert!(refused("tap:a@1").cause.contains("no queue to choose"));
    assert!(refused("tap:a,mtu=1").cause.contains("68"));
    assert!(refused("tap:a,colour=red").cause.contains("tap knows mtu"));
}

const CHILD: &str = "LINERATE_TAP_CHILD";

/// Runs in a child process only: says what opening the port gave.
#[test]
fn child_that_opens_a_port() {
    if std::env::var_os(CHILD).is_some() {
        let opened = linerate_port_tap::open("tap:tap0".parse().unwrap(), &pool());
        println!("child: {}", opened.err().map_or("open".to_string(), |error| error.to_string()));
    }
}

#[test]
fn without_the_right_the_error_says_what_to_do() {
    if !allowed() {
        return;
    }
    let Some(namespace) = namespace() else { return };
    const NOBODY: u32 = 65_534;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["child_that_opens_a_port", "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, "1").uid(NOBODY);
    let output = match namespace.run(|| command.output()).unwrap() {
        Ok(output) => String::from_utf8(output.stdout).unwrap(),
        Err(error) => return eprintln!("skipped: another user cannot run this test: {error}"),
    };
    // Where the file of all TAP devices is root's alone, that is what is missing first.
    let wanted = if is_for_all("/dev/net/tun") { "needs CAP_NET_ADMIN" } else { "cannot open /dev/net/tun" };
    assert!(output.contains(wanted) && output.contains("sudo"), "{output}");
}

fn is_for_all(path: &str) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o006 == 0o006)
}
