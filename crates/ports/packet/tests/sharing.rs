//! Several ports on one interface, queues, promiscuous mode, and rights.

mod common;

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Wire, packet, pool, promiscuous, receive, send};
use linerate_port::Port;

#[test]
fn a_fanout_group_shares_every_packet_once() {
    let Some(wire) = Wire::new(1) else { return };
    let mut pool = pool(2048);
    let mut out = wire.left.open(",tx_only", &pool);
    let mut one = wire.right.open(",fanout=7:lb", &pool);
    let mut two = wire.right.open(",fanout=7:lb", &pool);
    for number in 0..500 {
        assert!(send(&mut out, &mut pool, &packet(number, 60)).unwrap());
    }
    let mut all = receive(&mut one, &mut pool, 250);
    assert_eq!(all.len(), 250);
    all.extend(receive(&mut two, &mut pool, 250));
    all.sort();
    assert_eq!(all, (0..500).map(|number| packet(number, 60)).collect::<Vec<_>>());
    let error = wire.right.try_open(",fanout=7:cpu", &pool).err().unwrap();
    assert!(error.hint.contains("another number"), "{error}");
}

#[test]
fn a_queue_number_takes_that_queue_only() {
    let Some(wire) = Wire::new(2) else { return };
    let mut pool = pool(512);
    let mut out = wire.left.open(",tx_only", &pool);
    let mut queues = [wire.right.open("@0", &pool), wire.right.open("@1", &pool)];
    let mut all = wire.right.open("", &pool);
    for number in 0..20 {
        assert!(send(&mut out, &mut pool, &packet(number, 60)).unwrap());
    }
    assert_eq!(receive(&mut all, &mut pool, 20).len(), 20);
    // What the whole interface has seen, the queues have seen as well; the kernel chose one of them.
    let mut batch = linerate_mem::Batch::new(&pool, 64);
    let mut counts = [0; 2];
    let mut naps = 0;
    while counts.iter().sum::<usize>() < 20 && naps < 6000 {
        for (port, count) in queues.iter_mut().zip(&mut counts) {
            port.wait(linerate_port::Interest::Receive, 5_000_000).unwrap();
            *count += port.receive(&mut batch).unwrap();
            pool.free(&mut batch);
        }
        naps += 1;
    }
    assert_eq!(counts[0] + counts[1], 20, "{counts:?}");
    let error = wire.right.try_open("@2", &pool).err().unwrap();
    assert!(error.cause.contains("has 2 receive queues"), "{error}");
}

#[test]
fn promiscuous_mode_is_optional_and_ends_with_the_port() {
    let Some(wire) = Wire::new(1) else { return };
    let pool = pool(64);
    if promiscuous(&wire.left).is_none() {
        return eprintln!("skipped: no fresh sysfs");
    }
    let quiet = wire.left.open(",promisc=no", &pool);
    assert_eq!(promiscuous(&wire.left), Some(false));
    let sender = wire.left.open(",tx_only", &pool);
    assert_eq!(promiscuous(&wire.left), Some(false));
    let loud = wire.left.open("", &pool);
    assert_eq!(promiscuous(&wire.left), Some(true));
    drop(loud);
    // A process that another test starts just now has this one's descriptors, too, until its program begins.
    let deadline = Instant::now() + Duration::from_secs(60);
    while promiscuous(&wire.left) != Some(false) {
        assert!(Instant::now() < deadline, "promiscuous mode outlives its port");
    }
    drop((quiet, sender));
}

const CHILD: &str = "LINERATE_PACKET_CHILD";

/// Runs in a child process only: says what opening the port gave.
#[test]
fn child_that_opens_a_port() {
    if std::env::var_os(CHILD).is_some() {
        let opened = linerate_port_packet::open("packet:veth0".parse().unwrap(), &pool(64));
        println!("child: {}", opened.err().map_or("open".to_string(), |error| error.to_string()));
    }
}

#[test]
fn without_the_right_the_error_says_what_to_do() {
    let Some(wire) = Wire::new(1) else { return };
    const NOBODY: u32 = 65_534;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["child_that_opens_a_port", "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, "1").uid(NOBODY);
    let output = match wire.left.namespace.run(|| command.output()).unwrap() {
        Ok(output) => String::from_utf8(output.stdout).unwrap(),
        Err(error) => return eprintln!("skipped: another user cannot run this test: {error}"),
    };
    assert!(output.contains("needs CAP_NET_RAW") && output.contains("sudo"), "{output}");
}

#[test]
fn a_wrong_or_sleeping_interface_is_named_with_what_there_is() {
    let Some(wire) = Wire::new(1) else { return };
    let pool = pool(64);
    let open = |text: &str| {
        let spec = text.parse().unwrap();
        wire.left.namespace.run(|| linerate_port_packet::open(spec, &pool)).unwrap().err().unwrap().to_string()
    };
    let error = open("packet:eth7");
    assert!(
        error.contains("no interface eth7") && error.contains("there are lo, ") && error.contains("veth0"),
        "{error}"
    );
    assert!(open("packet:").contains("names no interface"));
    assert!(open("packet:veth0,rings=1").contains("unknown option rings; packet knows ring, retire"));
    wire.left.device.set_up(false).unwrap();
    assert!(open("packet:veth0").contains("`ip link set veth0 up`"));
}
