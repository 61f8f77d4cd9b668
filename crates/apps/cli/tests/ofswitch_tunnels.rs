//! Tunnels of `linerate ofswitch` to VXLAN devices of the kernel and to Open vSwitch: keys by entry, both ways. And what `linerate send` sends in
//! tunnels, at both.

use super::common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::Run;
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::veth::{self, VethEnd};
use linerate_testkit::{or_skip, program_or_skip};

/// Longer than anything here takes; reaching it is a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// A host behind the switch, the switch, the far end of the tunnel, and a host behind that.
///
/// ```text
/// near h1 --- p1 switch u1 --- u2 far p2 --- h2 behind
///                192.0.2.1     192.0.2.2
/// ```
struct Site {
    near: NetNs,
    switch: NetNs,
    far: NetNs,
    behind: NetNs,
    /// The switch's runtime directory: a test ends the switch by a signal, after which its socket stays.
    folder: tempfile::TempDir,
}

impl Site {
    fn new() -> Option<Site> {
        let make = || Ok::<_, std::io::Error>([(); 4].map(|()| NetNs::anonymous()));
        program_or_skip("ping", Command::new("ping").arg("-V").output())?;
        let [near, switch, far, behind] = or_skip("network namespaces", make())?;
        let folder = tempfile::tempdir().expect("a folder");
        let made = near.and_then(|near| Ok(Site { near, switch: switch?, far: far?, behind: behind?, folder }));
        let site = or_skip("network namespaces", made)?;
        or_skip(
            "raw sockets",
            linerate_ports::list()
                .into_iter()
                .find(|one| one.name == "vxlan")
                .expect("built")
                .usable
                .map_err(|unusable| std::io::Error::new(std::io::ErrorKind::PermissionDenied, unusable.cause)),
        )?;
        for (one, other) in [
            ((&site.near, "h1"), (&site.switch, "p1")),
            ((&site.switch, "u1"), (&site.far, "u2")),
            ((&site.far, "p2"), (&site.behind, "h2")),
        ] {
            let end = |(namespace, name)| VethEnd { name, namespace };
            veth::create(end(one), end(other), 1).expect("a veth pair");
            for (namespace, name) in [one, other] {
                namespace.run(|| Netdev::open(name)?.set_up(true)).expect("enter").expect("up");
            }
        }
        run(&site.switch, "ip address add 192.0.2.1/24 dev u1")?;
        run(&site.near, "ip address add 10.0.0.1/24 dev h1")?;
        run(&site.near, "ip address add 10.0.1.1/24 dev h1")?;
        Some(site)
    }

    /// `linerate LINE` in the switch's namespace.
    fn linerate(&self, line: &str) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.args(line.split_whitespace()).env("XDG_RUNTIME_DIR", self.folder.path());
        self.switch.run(|| Run::from(&mut command)).expect("enter")
    }

    /// The switch, with entries that choose a key by destination, and let through what comes back with another.
    fn start(&self, tunnel: &str, keys: &[(&str, u32, u32)]) -> Run {
        let switch = self.linerate(&format!("ofswitch --port 1=packet:p1 --port 2={tunnel}"));
        for (address, there, back) in keys {
            for flow in [
                format!("in_port=1,arp,arp_tpa={address},actions=set_field:{there}->tun_id,output:2"),
                format!("in_port=1,ip,nw_dst={address},actions=set_field:{there}->tun_id,output:2"),
                format!("in_port=2,tun_id={back},actions=output:1"),
            ] {
                let ctl = format!("ofswitch ctl add-flow {flow}");
                wait_until("the switch takes the entry", || self.linerate(&ctl).end().status.success());
            }
        }
        switch
    }

    fn pings(&self, address: &str, size: u32) {
        let line = format!("ping -n -c 1 -W 1 -s {size} {address}");
        wait_until(&format!("an answer to a ping of {size} bytes from {address}"), || succeeds(&self.near, &line));
    }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "{what} never came");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn command(namespace: &NetNs, line: &str) -> std::io::Result<std::process::Output> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words).stdin(Stdio::null());
    namespace.run(|| command.output()).expect("enter")
}

fn succeeds(namespace: &NetNs, line: &str) -> bool {
    command(namespace, line).is_ok_and(|output| output.status.success())
}

/// Runs a command that must succeed; `None`, and a line that says why, if the program is missing.
fn run(namespace: &NetNs, line: &str) -> Option<()> {
    let name = line.split_whitespace().next().expect("a program");
    let output = program_or_skip(name, command(namespace, line))?;
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

/// Bytes over TCP from `from` to `address` in `to`, and back.
fn transfers(from: &NetNs, to: &NetNs, address: &str) {
    const BYTES: usize = 300_000;
    let listener = to.run(|| TcpListener::bind((address, 7000))).expect("enter").expect("listen");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut bytes = vec![0; BYTES];
            stream.read_exact(&mut bytes).expect("bytes");
            stream.write_all(&bytes).expect("an echo");
        });
        let mut stream = from.run(|| TcpStream::connect((address, 7000))).expect("enter").expect("connect");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let sent: Vec<u8> = (0..BYTES).map(|place| (place / 7) as u8).collect();
        stream.write_all(&sent).expect("a stream");
        let mut echoed = vec![0; BYTES];
        stream.read_exact(&mut echoed).expect("an echo");
        assert!(echoed == sent);
    });
}

/// Two devices of the kernel, with one key each, at the other end of one port.
#[test]
fn entries_choose_among_vxlan_devices_of_the_kernel() {
    let Some(site) = Site::new() else { return };
    let done = run(&site.far, "ip address add 192.0.2.2/24 dev u2").and_then(|()| {
        for key in [42, 43] {
            run(&site.far, &format!("ip link add vx{key} type vxlan id {key} remote 192.0.2.1 dstport 4789 dev u2"))?;
            run(&site.far, &format!("ip address add 10.0.{}.2/24 dev vx{key}", key - 42))?;
            run(&site.far, &format!("ip link set vx{key} up"))?;
        }
        Some(())
    });
    let Some(()) = done else { return };
    let switch = site.start("vxlan:192.0.2.2,key=flow", &[("10.0.0.2", 42, 42), ("10.0.1.2", 43, 43)]);
    site.pings("10.0.0.2", 56);
    site.pings("10.0.1.2", 56);
    // The outer packets are longer than the MTU of their way.
    site.pings("10.0.0.2", 4000);
    transfers(&site.near, &site.far, "10.0.1.2");
    // The far kernel hands over many segments in one, for a network card to cut.
    let drops = site.linerate("ofswitch ctl drops").end().stdout;
    assert!(!drops.contains("too-long"), "{drops}");
    drop(switch);
    // A port with one key.
    let switch = site.linerate("ofswitch --port 1=packet:p1 --port 2=vxlan:192.0.2.2,key=43 --fail-mode standalone");
    site.pings("10.0.1.2", 56);
    drop(switch);
}

/// Open vSwitch's daemons, which end with the test.
struct Daemons(Vec<Child>);

impl Drop for Daemons {
    fn drop(&mut self) {
        for child in self.0.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Open vSwitch in the namespace of the far end, without bridges.
fn open_vswitch(site: &Site, folder: &Path) -> Option<Daemons> {
    let spawn = |line: String| {
        let mut words = line.split_whitespace().map(str::to_owned);
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).env("OVS_RUNDIR", folder).env("OVS_LOGDIR", folder).env("OVS_DBDIR", folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        site.far.run(|| command.spawn()).expect("enter")
    };
    let path = folder.display();
    run(&site.far, &format!("ovsdb-tool create {path}/conf.db /usr/share/openvswitch/vswitch.ovsschema"))?;
    let database = spawn(format!("ovsdb-server --remote=punix:{path}/db.sock {path}/conf.db"));
    let mut daemons = Daemons(vec![program_or_skip("ovsdb-server", database)?]);
    wait_until("the database", || succeeds(&site.far, &vsctl(folder, "--no-wait init")));
    let switch = spawn(format!("ovs-vswitchd unix:{path}/db.sock --disable-system"));
    daemons.0.push(program_or_skip("ovs-vswitchd", switch)?);
    Some(daemons)
}

fn vsctl(folder: &Path, words: &str) -> String {
    format!("ovs-vsctl --timeout=30 --db=unix:{}/db.sock {words}", folder.display())
}

fn with_open_vswitch(kind: &str, tunnel: &str) {
    let Some(site) = Site::new() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let Some(daemons) = open_vswitch(&site, folder.path()) else { return };
    for words in [
        "add-br br-phy -- set bridge br-phy datapath_type=netdev -- add-port br-phy u2",
        &format!(
            "add-br br-int -- set bridge br-int datapath_type=netdev fail_mode=secure -- add-port br-int p2 \
             -- set interface p2 ofport_request=1 -- add-port br-int t -- set interface t type={kind} \
             options:remote_ip=192.0.2.1 options:key=flow ofport_request=2"
        ),
    ] {
        assert!(succeeds(&site.far, &vsctl(folder.path(), words)), "ovs-vsctl {words}");
    }
    for line in ["ip address add 192.0.2.2/24 dev br-phy", "ip link set br-phy up"] {
        let Some(()) = run(&site.far, line) else { return };
    }
    let Some(()) = run(&site.behind, "ip address add 10.0.0.2/24 dev h2") else { return };
    // Open vSwitch lets packets with the key 42 through, and answers with 43.
    for flow in ["in_port=2,tun_id=42,actions=output:1", "in_port=1,actions=set_field:43->tun_id,output:2"] {
        let line = format!("ovs-ofctl -O OpenFlow13 add-flow {}/br-int.mgmt {flow}", folder.path().display());
        assert!(succeeds(&site.far, &line), "{line}");
    }
    let switch = site.start(tunnel, &[("10.0.0.2", 42, 43)]);
    site.pings("10.0.0.2", 56);
    site.pings("10.0.0.2", 1300);
    drop(switch);
    // A key that no entry of Open vSwitch has: nothing comes back.
    let switch = site.start(tunnel, &[("10.0.0.2", 44, 43)]);
    assert!(!succeeds(&site.near, "ping -n -c 2 -W 1 10.0.0.2"));
    drop((switch, daemons));
}

#[test]
fn open_vswitch_is_the_far_end_of_a_vxlan_tunnel_with_keys_by_entry() {
    with_open_vswitch("vxlan", "vxlan:192.0.2.2,local=192.0.2.1,key=flow");
}

#[test]
fn open_vswitch_is_the_far_end_of_a_gre_tunnel_with_keys_by_entry() {
    with_open_vswitch("gre", "gre:192.0.2.2,key=flow");
}

/// Packets of a stream in a tunnel.
const SENT: u64 = 200;

/// Sends packets in a tunnel from the switch's namespace to the far end's address: `inside` are the layers in the outer IPv4, and what is set.
fn send_in_tunnel(site: &Site, inside: &str, count: u64) {
    let line = format!(
        "send packet:u1 --gateway 192.0.2.2 --count {count} --rate 1kpps --size 200 -q --set ipv4.source=192.0.2.1 \
         --set ipv4.destination=192.0.2.2 --layers ethernet/ipv4/{inside}"
    );
    site.linerate(&line).end().expect_code(0);
}

/// A key or number that the other end knows, one that it does not, and then the first again: how many packets of each kind of tunnel come out of it, by
/// `received`.
fn assert_taken_apart(site: &Site, inside: &str, set: &str, received: impl Fn() -> u64) {
    // Open vSwitch takes a while to see that the outer address is its own.
    wait_until(&format!("a packet in {inside}"), || {
        send_in_tunnel(site, &format!("{inside} --set {set}=42"), 1);
        received() > 0
    });
    std::thread::sleep(Duration::from_millis(200));
    let before = received();
    for (key, so_far) in [(42, SENT), (43, SENT), (42, 2 * SENT)] {
        send_in_tunnel(site, &format!("{inside} --set {set}={key}"), SENT);
        let what = format!("{so_far} packets in {inside}");
        wait_until(&what, || received() - before >= so_far);
        assert_eq!(received() - before, so_far, "{inside}, {set} {key}");
    }
}

/// Packets that an interface has received.
fn received_by(namespace: &NetNs, interface: &str) -> u64 {
    let output = command(namespace, "cat /proc/net/dev").expect("cat");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{interface}:")).map(str::to_owned));
    let packets = line.as_deref().and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    packets.unwrap_or_else(|| panic!("no {interface} in {text}"))
}

#[test]
fn what_send_sends_in_tunnels_comes_out_of_devices_of_the_kernel() {
    let Some(site) = Site::new() else { return };
    let Some(()) = run(&site.far, "ip address add 192.0.2.2/24 dev u2") else { return };
    for (kind, options, inside, set) in [
        ("gre", "local 192.0.2.2 remote 192.0.2.1 key 42", "gre/ipv4/udp", "gre.key"),
        ("gretap", "local 192.0.2.2 remote 192.0.2.1 key 42", "gre/ethernet/ipv4/udp", "gre.key"),
        ("geneve", "id 42 remote 192.0.2.1", "udp/geneve/ethernet/ipv4/udp", "geneve.vni"),
        ("vxlan", "id 42 remote 192.0.2.1 dstport 4789 dev u2", "udp/vxlan/ethernet/ipv4/udp", "vxlan.vni"),
    ] {
        let made = command(&site.far, &format!("ip link add t0 type {kind} {options}")).expect("ip");
        let complaint = String::from_utf8_lossy(&made.stderr).into_owned();
        if complaint.contains("Unknown device type") {
            eprintln!("skipped in part: this kernel has no {kind} devices");
            continue;
        }
        assert!(made.status.success(), "{kind}: {complaint}");
        let Some(()) = run(&site.far, "ip link set t0 up") else { return };
        assert_taken_apart(&site, inside, set, || received_by(&site.far, "t0"));
        let Some(()) = run(&site.far, "ip link del t0") else { return };
    }
}

#[test]
fn what_send_sends_in_gre_and_geneve_comes_out_of_open_vswitch() {
    let Some(site) = Site::new() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let Some(daemons) = open_vswitch(&site, folder.path()) else { return };
    let tunnel = |name: &str, kind: &str, port: u32| {
        format!(
            "-- add-port br-int {name} -- set interface {name} type={kind} options:remote_ip=192.0.2.1 options:key=42 \
             ofport_request={port}"
        )
    };
    for words in [
        "add-br br-phy -- set bridge br-phy datapath_type=netdev -- add-port br-phy u2".to_owned(),
        format!(
            "add-br br-int -- set bridge br-int datapath_type=netdev fail_mode=secure -- add-port br-int p2 \
             -- set interface p2 ofport_request=1 {} {}",
            tunnel("t1", "gre", 2),
            tunnel("t2", "geneve", 3)
        ),
    ] {
        assert!(succeeds(&site.far, &vsctl(folder.path(), &words)), "ovs-vsctl {words}");
    }
    for line in ["ip address add 192.0.2.2/24 dev br-phy", "ip link set br-phy up"] {
        let Some(()) = run(&site.far, line) else { return };
    }
    // The kernel would answer for the address with its own interface below the bridge, too, and packets to that one are not for the tunnels.
    let only_the_bridge = || std::fs::write("/proc/sys/net/ipv4/conf/all/arp_ignore", "1");
    site.far.run(only_the_bridge).expect("enter").expect("answers of the interface that has the address alone");
    // Counted are the entries' packets: what h2 receives can have others among it.
    let ofctl = |words: &str| {
        format!("ovs-ofctl -O OpenFlow13 {words}")
            .replace("BRIDGE", &format!("{}/br-int.mgmt", folder.path().display()))
    };
    for port in [2, 3] {
        let line = ofctl(&format!("add-flow BRIDGE in_port={port},actions=output:1"));
        assert!(succeeds(&site.far, &line), "{line}");
    }
    let received = |port: u32| {
        let output = command(&site.far, &ofctl(&format!("dump-flows BRIDGE in_port={port}"))).expect("ovs-ofctl");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let packets = text.split_once("n_packets=").and_then(|(_, rest)| rest.split(',').next()?.parse().ok());
        packets.unwrap_or_else(|| panic!("no count in {text}"))
    };
    assert_taken_apart(&site, "gre/ethernet/ipv4/udp", "gre.key", || received(2));
    assert_taken_apart(&site, "udp/geneve/ethernet/ipv4/udp", "geneve.vni", || received(3));
    drop(daemons);
}
