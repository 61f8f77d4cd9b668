//! Against the Linux kernel over a TAP device in a namespace: ping, arping, tracepath, UDP sockets, a VLAN device, dnsmasq.

use super::support;

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use linerate_ip::{AddressState, DhcpMode, ErrorKind as IcmpKind, ErrorOut, Event, Inbound, IpConfig, Resolver, UdpId};
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::Port;
use linerate_port_tap::TapPort;
use linerate_sys::clock;
use linerate_sys::netns::NetNs;
use linerate_testkit::{or_skip, program_or_skip};
use support::*;

/// The kernel's side and ours.
const KERNEL: [&str; 2] = ["10.77.0.1", "fd77::1"];
const OURS: &[&str] = &["10.77.0.2/24", "fd77::2/64"];
/// Longer than anything here takes on a machine that others use, too.
const PATIENCE: Duration = Duration::from_secs(60);

/// A host behind a TAP device, and the kernel before it.
struct Rig {
    namespace: NetNs,
    port: TapPort,
    host: Host,
    input: Batch,
    /// Sockets whose datagrams are answered with their data.
    echo: Vec<UdpId>,
    errors: Vec<IcmpKind>,
    resolver: Option<Resolver>,
}

impl Rig {
    fn new(config: IpConfig) -> Option<Rig> {
        or_skip("no TAP devices", linerate_port_tap::probe())?;
        let namespace = or_skip("no network namespace", NetNs::anonymous())?;
        let pool = Pool::new(PoolConfig { frames: 1024, frame_size: 2048 }).unwrap();
        let spec = "tap:tap0".parse().unwrap();
        let port = namespace.run(|| linerate_port_tap::open(spec, &pool)).unwrap().unwrap().into_port();
        let mut host = Host::new(config);
        host.out = Batch::new(&pool, 512);
        host.pool = pool.clone();
        let input = Batch::new(&pool, 64);
        let rig = Rig { namespace, port, host, input, echo: Vec::new(), errors: Vec::new(), resolver: None };
        for arguments in
            ["link set lo up", "address add 10.77.0.1/24 dev tap0", "-6 address add fd77::1/64 dev tap0 nodad"]
        {
            // The host is not awake yet, so that it finds the kernel with its addresses.
            let output = rig.start("ip", arguments)?.wait_with_output().unwrap();
            assert!(output.status.success(), "ip {arguments}: {output:?}");
        }
        // The kernel joins its groups a moment after the link is up; until then it would not see a probe.
        let start = Instant::now();
        loop {
            let output = rig.start("ip", "-6 address show dev tap0")?.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            if text.contains("fe80::") && !text.contains("tentative") {
                return Some(rig);
            }
            assert!(start.elapsed() < PATIENCE, "the kernel's addresses stay tentative: {text}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Starts a program in the namespace.
    fn start(&self, program: &str, arguments: &str) -> Option<Child> {
        let mut command = Command::new(program);
        command.args(arguments.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
        program_or_skip(program, self.namespace.run(move || command.spawn()).unwrap())
    }

    /// Runs a program in the namespace while the host works, until it ends.
    fn program(&mut self, program: &str, arguments: &str) -> Option<Output> {
        let mut child = self.start(program, arguments)?;
        self.until(|_| child.try_wait().unwrap().is_some());
        Some(child.wait_with_output().unwrap())
    }

    /// Works until something is so.
    fn until(&mut self, mut is_so: impl FnMut(&mut Rig) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            self.turn();
            assert!(start.elapsed() < PATIENCE, "it takes too long; {:?}", self.host.ip.counters());
        }
    }

    fn turn(&mut self) {
        self.host.now_ns = clock::now_ns();
        let arrived = self.port.receive(&mut self.input).unwrap();
        for index in 0..self.input.len() {
            let frame = self.input.packet(index).to_vec();
            self.frame(&frame, index);
        }
        self.host.pool.free(&mut self.input);
        self.host.tick();
        if let Some(mut resolver) = self.resolver.take() {
            let Host { ip, udp, out, pool, now_ns } = &mut self.host;
            resolver.tick(udp, ip, &mut linerate_ip::Output { now_ns: *now_ns, batch: out, pool });
            self.resolver = Some(resolver);
        }
        while !self.host.out.is_empty() && self.port.transmit(&mut self.host.out).unwrap() > 0 {}
        if arrived == 0 {
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    fn frame(&mut self, frame: &[u8], index: usize) {
        let checksum = self.input.checksum(index);
        let Host { ip, udp, out, pool, now_ns } = &mut self.host;
        let packet = match ip.receive(frame, checksum, *now_ns, out, pool) {
            Inbound::Udp(packet) => packet,
            Inbound::Error(error) => {
                if udp.error(&error, ip, *now_ns).is_some() {
                    self.errors.push(error.kind);
                }
                return;
            }
            _ => return,
        };
        let bytes = ip.bytes(&packet, frame).to_vec();
        let Some(datagram) = udp.receive(&packet, &bytes) else {
            return ip.send_error(ErrorOut::PortUnreachable, &bytes[packet.network..], *now_ns, out, pool);
        };
        let data = &bytes[datagram.data.clone()];
        if let Some(resolver) = self.resolver.as_mut().filter(|resolver| resolver.owns(datagram.socket)) {
            return resolver.receive(&datagram, data, udp, *now_ns);
        }
        if self.echo.contains(&datagram.socket) {
            let mut out = linerate_ip::Output { now_ns: *now_ns, batch: out, pool };
            let from = Some(datagram.to.ip());
            udp.send(datagram.socket, from, Some(datagram.from), data, false, ip, &mut out).unwrap();
        }
    }

    /// A socket of the kernel that does not wait.
    fn socket(&self, local: &str) -> UdpSocket {
        let socket = self.namespace.run(|| UdpSocket::bind(local)).unwrap().unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    }

    /// What the kernel's socket receives next.
    fn receive(&mut self, socket: &UdpSocket) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; 70_000];
        let mut result = None;
        self.until(|_| match socket.recv(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            outcome => {
                result = Some(outcome);
                true
            }
        });
        result.unwrap().map(|len| bytes[..len].to_vec())
    }
}

fn assert_success(name: &str, output: &Output) {
    let text = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    assert!(output.status.success(), "{name}: {text}");
}

#[test]
fn pings_of_all_lengths_are_answered() {
    let Some(mut rig) = Rig::new(config(2, OURS)) else { return };
    for arguments in [
        "-n -c 3 -i 0.2 10.77.0.2",
        "-n -c 2 -i 0.2 -M do -s 1472 10.77.0.2",
        "-n -c 2 -i 0.2 -s 4000 10.77.0.2",
        "-n -c 2 -i 0.2 -s 60000 10.77.0.2",
        "-n -c 3 -i 0.2 fd77::2",
        "-n -c 2 -i 0.2 -s 4000 fd77::2",
        "-n -c 2 -i 0.2 -s 60000 fd77::2",
        "-n -c 2 -i 0.2 -I tap0 fe80::ff:fe00:2",
    ] {
        let Some(output) = rig.program("ping", arguments) else { return };
        assert_success(arguments, &output);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(" 0% packet loss"), "{arguments}: {text}");
    }
    // What the kernel's neighbour table says of us.
    let Some(output) = rig.program("ip", "neighbour show dev tap0") else { return };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in ["10.77.0.2 lladdr 02:00:00:00:00:02", "fd77::2 lladdr 02:00:00:00:00:02"] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn arping_and_tracepath_find_the_host() {
    let Some(mut rig) = Rig::new(config(2, OURS)) else { return };
    if let Some(output) = rig.program("arping", "-c 2 -w 5 -I tap0 10.77.0.2") {
        assert_success("arping", &output);
        // There are two programs of this name, and the one of iputils looks for duplicates by -D; its status is 1 if there is one.
        let version = rig.program("arping", "-V").unwrap();
        if String::from_utf8_lossy(&version.stdout).contains("iputils") {
            let output = rig.program("arping", "-D -c 2 -w 3 -I tap0 10.77.0.2").unwrap();
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            let output = rig.program("arping", "-D -c 2 -w 3 -I tap0 10.77.0.3").unwrap();
            assert_eq!(output.status.code(), Some(0), "{output:?}");
        } else {
            eprintln!("skipped in part: the arping of iputils is not installed");
        }
    }
    for dst in ["10.77.0.2", "fd77::2"] {
        let Some(output) = rig.program("tracepath", &format!("-n {dst}")) else { return };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("reached") && text.contains("pmtu 1500"), "{dst}: {text}");
    }
}

#[test]
fn datagrams_go_both_ways_whole_and_in_fragments() {
    let Some(mut rig) = Rig::new(config(2, OURS)) else { return };
    for (local, ours, kernel) in [("0.0.0.0:7", "10.77.0.2:7", KERNEL[0]), ("[::]:7", "[fd77::2]:7", KERNEL[1])] {
        let echo = rig.host.bind(local);
        rig.echo.push(echo);
        let socket = rig.socket(&SocketAddr::new(kernel.parse().unwrap(), 0).to_string());
        socket.connect(ours).unwrap();
        for len in [0, 1, 18, 1452, 1453, 1472, 1473, 9000, 60_000] {
            let data: Vec<u8> = (0..len).map(|at: usize| (at ^ at >> 8) as u8).collect();
            socket.send(&data).unwrap();
            assert_eq!(rig.receive(&socket).unwrap(), data, "{ours} {len}");
        }
        // Nobody listens here: the kernel is told.
        let socket = rig.socket(&SocketAddr::new(kernel.parse().unwrap(), 0).to_string());
        socket.connect(ours.replace("2:7", "2:9").replace("]:7", "]:9")).unwrap();
        socket.send(b"x").unwrap();
        assert_eq!(rig.receive(&socket).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        // Nobody listens there: we are told.
        let before = rig.errors.len();
        rig.host.send(echo, &SocketAddr::new(kernel.parse().unwrap(), 9).to_string(), b"x").unwrap();
        rig.until(|rig| rig.errors.len() > before);
        assert_eq!(rig.errors.last(), Some(&IcmpKind::PortUnreachable));
    }
}

#[test]
fn the_kernels_addresses_are_found_to_be_taken() {
    let config = IpConfig { duplicate_detection: true, ..config(2, &["10.77.0.1/24", "fd77::1/64", "10.77.0.9/24"]) };
    let Some(mut rig) = Rig::new(config) else { return };
    rig.until(|rig| {
        rig.host.ip.is_ours(ip("10.77.0.9"))
            && rig.host.ip.addresses().all(|(.., state)| state != AddressState::Tentative)
    });
    for (address, _, state) in rig.host.ip.addresses() {
        let is_taken = KERNEL.iter().any(|kernel| address == ip(kernel));
        assert_eq!(state == AddressState::Duplicate, is_taken, "{address}: {state:?}");
    }
}

#[test]
fn a_vlan_device_reaches_a_host_in_the_vlan() {
    let Some(mut rig) = Rig::new(IpConfig { vlan: Some(7), ..config(2, &["10.78.0.2/24", "fd78::2/64"]) }) else {
        return;
    };
    for arguments in [
        "link add link tap0 name tap0.7 type vlan id 7",
        "link set tap0.7 up",
        "address add 10.78.0.1/24 dev tap0.7",
        "-6 address add fd78::1/64 dev tap0.7 nodad",
    ] {
        let output = rig.program("ip", arguments).unwrap();
        if String::from_utf8_lossy(&output.stderr).contains("Unknown device type") {
            eprintln!("skipped: no VLAN devices (CONFIG_VLAN_8021Q)");
            return;
        }
        assert_success(arguments, &output);
    }
    for dst in ["10.78.0.2", "fd78::2"] {
        let Some(output) = rig.program("ping", &format!("-n -c 2 -i 0.2 -s 3000 {dst}")) else { return };
        assert_success(dst, &output);
    }
}

#[test]
fn dnsmasq_gives_addresses_prefixes_and_names() {
    let dhcp = DhcpMode::On { host_name: "linerate".into() };
    let config = IpConfig { dhcp, slaac: true, duplicate_detection: true, ..config(2, &[]) };
    let Some(mut rig) = Rig::new(config) else { return };
    let folder = tempfile::tempdir().unwrap();
    let arguments = format!(
        "--no-daemon --conf-file=/dev/null --no-resolv --no-hosts --user=root --group=root --interface=tap0 --bind-interfaces \
         --dhcp-authoritative --dhcp-range=10.77.0.50,10.77.0.60,255.255.255.0,120 --dhcp-range=fd77::,ra-only,64 --enable-ra \
         --dhcp-leasefile={0}/leases --pid-file={0}/pid --host-record=web.test,192.0.2.80,2001:db8::80 \
         --cname=www.test,web.test --log-facility={0}/log",
        folder.path().display()
    );
    let Some(mut server) = rig.start("dnsmasq", &arguments) else { return };
    let start = Instant::now();
    let made = ip("fd77::ff:fe00:2");
    let leased = |rig: &Rig| {
        rig.host.ip.addresses().any(|(address, _, state)| address.is_ipv4() && state == AddressState::Ready)
    };
    while !(leased(&rig) && rig.host.ip.is_ours(made)) {
        rig.turn();
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        assert!(server.try_wait().unwrap().is_none(), "dnsmasq ended: {log}");
        assert!(start.elapsed() < PATIENCE, "no address: {:?} {log}", rig.host.ip.counters());
    }
    let mut events = Vec::new();
    while let Some(event) = rig.host.ip.next_event() {
        events.push(event);
    }
    let servers: Vec<IpAddr> = events
        .iter()
        .filter_map(|event| if let Event::NameServer(server) = event { Some(*server) } else { None })
        .collect();
    assert!(servers.contains(&ip(KERNEL[0])), "{events:?}");
    let mut resolver = Resolver::new(&servers, [5; 16]);
    for (name, expected) in [("web.test", 2), ("WWW.test", 2), ("192.0.2.1", 1)] {
        let lookup = resolver.resolve(name, clock::now_ns()).unwrap();
        rig.resolver = Some(resolver);
        let mut answer = None;
        rig.until(|rig| {
            answer = rig.resolver.as_mut().unwrap().next_answer();
            answer.is_some()
        });
        resolver = rig.resolver.take().unwrap();
        let (id, addresses) = answer.unwrap();
        assert_eq!((id, addresses.unwrap().len()), (lookup, expected), "{name}");
    }
    let lookup = resolver.resolve("no.test", clock::now_ns()).unwrap();
    rig.resolver = Some(resolver);
    let mut answer = None;
    rig.until(|rig| {
        answer = rig.resolver.as_mut().unwrap().next_answer();
        answer.is_some()
    });
    assert_eq!(answer.as_ref().unwrap().0, lookup);
    assert!(answer.unwrap().1.is_err());
    server.kill().unwrap();
    server.wait().unwrap();
}
