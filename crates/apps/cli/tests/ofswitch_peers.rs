//! `linerate ofswitch` under the programs that people use with OpenFlow switches: ovs-ofctl, ovs-testcontroller, applications of Ryu on os-ken.
//! Those of os-ken run where `conformance/ryu_apps.py --install simple_switch_13` has made them.

use super::common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{INTERFACE, Run};
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::veth::{self, VethEnd};
use linerate_testkit::{or_skip, program_or_skip};

/// Longer than anything here takes; reaching it is a failure.
const PATIENCE: Duration = Duration::from_secs(120);
/// Where the switch listens.
const SWITCH: &str = "tcp:127.0.0.1:16653";
/// An ARP request to port 1.
const PACKET_OUT: &str = "in_port=controller,\
    packet=ffffffffffff02000000000108060001080006040001020000000001c0000201000000000000c0000202,actions=output:1";

/// Two hosts with addresses, and between them the namespace of switch and controller.
struct Site {
    hosts: [NetNs; 2],
    middle: NetNs,
    /// The switch's runtime directory: a test ends the switch by a signal, after which its socket stays.
    folder: tempfile::TempDir,
}

impl Site {
    fn new() -> Option<Site> {
        let namespaces = || Ok::<_, std::io::Error>([NetNs::anonymous()?, NetNs::anonymous()?, NetNs::anonymous()?]);
        let [one, two, middle] = or_skip("network namespaces", namespaces())?;
        let site = Site { hosts: [one, two], middle, folder: tempfile::tempdir().expect("a folder") };
        site.middle.run(|| Netdev::open("lo")?.set_up(true)).expect("enter").expect("up");
        for (host, name, number) in [(&site.hosts[0], "p1", 1), (&site.hosts[1], "p2", 2)] {
            let inside = VethEnd { name, namespace: &site.middle };
            veth::create(VethEnd { name: INTERFACE, namespace: host }, inside, 1).expect("a veth pair");
            site.middle.run(|| Netdev::open(name)?.set_up(true)).expect("enter").expect("up");
            host.run(|| Netdev::open(INTERFACE)?.set_up(true)).expect("enter").expect("up");
            let line = format!("address add 192.0.2.{number}/24 dev {INTERFACE}");
            let status = host.run(|| Command::new("ip").args(line.split_whitespace()).status()).expect("enter");
            assert!(program_or_skip("ip", status)?.success(), "ip {line}");
        }
        Some(site)
    }

    fn switch(&self, more: &str) -> Run {
        let line = format!("ofswitch --dpid 1 --port 1=packet:p1 --port 2=packet:p2 {more}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.args(line.split_whitespace()).env("XDG_RUNTIME_DIR", self.folder.path());
        self.middle.run(|| Run::from(&mut command)).expect("enter")
    }

    fn start(&self, command: &mut Command) -> std::io::Result<Child> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.middle.run(|| command.spawn()).expect("enter")
    }

    /// What `ovs-ofctl WORDS` writes.
    fn ofctl(&self, words: &[&str], input: &str) -> std::io::Result<(bool, String)> {
        let mut command = Command::new("ovs-ofctl");
        command.args(["-O", "OpenFlow13", "--timeout=60"]).args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.middle.run(|| command.spawn()).expect("enter")?;
        child.stdin.take().expect("piped").write_all(input.as_bytes())?;
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        Ok((output.status.success(), said.into_owned()))
    }

    /// Repeats pings from one host to the other until an answer comes. `None` if there is nothing to ping with.
    fn wait_for_ping(&self) -> Option<()> {
        has_ping()?;
        let ping = || {
            let mut command = Command::new("ping");
            let command = command.args(["-c", "1", "-W", "1", "192.0.2.2"]).stdout(Stdio::null());
            self.hosts[0].run(|| command.status()).expect("enter").is_ok_and(|status| status.success())
        };
        wait_until("an answer to a ping", ping);
        Some(())
    }
}

/// `None`, and a line that says why, if there is no ping.
fn has_ping() -> Option<()> {
    program_or_skip("ping", Command::new("ping").arg("-V").output()).map(drop)
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "{what} never came");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A program that ends with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Each command of ovs-ofctl that OpenFlow 1.3 has, what it reads, and what it must write.
const COMMANDS: &[(&[&str], &str, &str)] = &[
    (&["show", SWITCH], "", "OFPT_FEATURES_REPLY (OF1.3)"),
    (&["show", SWITCH], "", "dpid:0000000000000001"),
    (&["dump-desc", SWITCH], "", "Linerate"),
    (&["dump-tables", SWITCH], "", "table 0"),
    (&["dump-table-features", SWITCH], "", "table 0"),
    (&["dump-ports", SWITCH], "", "rx pkts="),
    (&["dump-ports", SWITCH, "1"], "", "port  "),
    (&["dump-ports-desc", SWITCH], "", "1("),
    (&["mod-port", SWITCH, "2", "no-flood"], "", ""),
    (&["mod-port", SWITCH, "2", "no-forward"], "", ""),
    (&["dump-ports-desc", SWITCH], "", "NO_FWD"),
    (&["mod-port", SWITCH, "2", "forward"], "", ""),
    (&["get-frags", SWITCH], "", "normal"),
    (&["set-frags", SWITCH, "drop"], "", ""),
    (&["get-frags", SWITCH], "", "drop"),
    (
        &["add-flow", SWITCH, "priority=5,tcp,tp_dst=80,send_flow_rem,actions=set_field:192.0.2.9->ip_dst,output:2"],
        "",
        "",
    ),
    (&["add-flows", SWITCH, "-"], "table=1,ip,actions=dec_ttl,1\ntable=2,arp,actions=drop\n", ""),
    (&["dump-flows", SWITCH], "", "priority=5,tcp,tp_dst=80 actions=set_field:192.0.2.9->ip_dst,output:2"),
    (&["dump-flows", SWITCH, "table=1"], "", "ip actions=dec_ttl,output:1"),
    (&["dump-aggregate", SWITCH], "", "flow_count=3"),
    (&["mod-flows", SWITCH, "table=2,arp,actions=output:1"], "", ""),
    (&["dump-flows", SWITCH, "table=2"], "", "arp actions=output:1"),
    (&["replace-flows", SWITCH, "-"], "priority=7,actions=output:1\n", ""),
    (&["dump-flows", SWITCH], "", "priority=7 actions=output:1"),
    (&["del-flows", SWITCH, "--strict", "priority=7"], "", ""),
    (&["dump-aggregate", SWITCH], "", "flow_count=0"),
    (&["add-group", SWITCH, "group_id=1,type=select,bucket=weight:2,output:1,bucket=weight:1,output:2"], "", ""),
    (&["dump-groups", SWITCH], "", "group_id=1,type=select,bucket=weight:2,actions=output:1"),
    (&["mod-group", SWITCH, "group_id=1,type=all,bucket=output:2"], "", ""),
    (&["dump-groups", SWITCH, "1"], "", "group_id=1,type=all,bucket=actions=output:2"),
    (&["dump-group-stats", SWITCH], "", "ref_count=0,packet_count=0"),
    (&["dump-group-features", SWITCH], "", "Types:"),
    (&["del-groups", SWITCH, "group_id=1"], "", ""),
    (&["add-meter", SWITCH, "meter=1,kbps,burst,stats,bands=type=drop,rate=100,burst_size=10"], "", ""),
    (&["mod-meter", SWITCH, "meter=1,pktps,bands=type=drop,rate=7"], "", ""),
    (&["dump-meters", SWITCH], "", "meter=1 pktps bands="),
    (&["meter-stats", SWITCH], "", "flow_count:0"),
    (&["meter-features", SWITCH], "", "max_meter:"),
    (&["del-meters", SWITCH], "", ""),
    (&["queue-stats", SWITCH], "", "0 queues"),
    (&["queue-get-config", SWITCH, "1"], "", "OFPT_QUEUE_GET_CONFIG_REPLY"),
    (&["packet-out", SWITCH, PACKET_OUT], "", ""),
    (&["dump-ports", SWITCH, "1"], "", "tx pkts="),
    (&["probe", SWITCH], "", ""),
    (&["ping", SWITCH, "100"], "", "100 bytes from"),
    (&["benchmark", SWITCH, "10", "100"], "", "Finished in"),
];

#[test]
fn ovs_ofctl_drives_it() {
    let Some(site) = Site::new() else { return };
    let switch = site.switch("--listen ptcp:16653:127.0.0.1");
    wait_until("the switch", || {
        site.middle.run(|| std::net::TcpStream::connect("127.0.0.1:16653")).expect("enter").is_ok()
    });
    for (words, input, wanted) in COMMANDS {
        let Some((succeeded, said)) = program_or_skip("ovs-ofctl", site.ofctl(words, input)) else { return };
        assert!(succeeded && said.contains(wanted), "ovs-ofctl {}: wanted {wanted:?} of\n{said}", words.join(" "));
        assert!(!said.contains("OFPT_ERROR"), "ovs-ofctl {}: {said}", words.join(" "));
    }
    let (succeeded, said) = site.ofctl(&["add-flow", SWITCH, "actions=group:77"], "").expect("it ran before");
    assert!(!succeeded || said.contains("OFPBAC_BAD_OUT_GROUP"), "a group that is not there is refused: {said}");
    drop(switch);
}

/// Both sides show a certificate, which both check.
#[test]
fn ovs_ofctl_drives_it_over_tls() {
    let Some(site) = Site::new() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let certificate = |name: &str, by: &str| {
        let (key, pem) = (path(&format!("{name}.key")), path(&format!("{name}.pem")));
        let by = match by {
            "" => String::new(),
            by => {
                format!("-extensions usr_cert -CA {} -CAkey {}", path(&format!("{by}.pem")), path(&format!("{by}.key")))
            }
        };
        let line = format!(
            "req -x509 {by} -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={name} -keyout {key} -out {pem}"
        );
        let output = Command::new("openssl").args(line.split_whitespace()).output();
        program_or_skip("openssl", output).map(|output| assert!(output.status.success(), "openssl {line}"))
    };
    let made = [("ca", ""), ("one", "ca"), ("other", "")].into_iter().try_for_each(|(name, by)| certificate(name, by));
    let Some(()) = made else { return };
    let tls = |name: &str| {
        format!(
            "--private-key={} --certificate={} --ca-cert={}",
            path(&format!("{name}.key")),
            path(&format!("{name}.pem")),
            path("ca.pem")
        )
    };
    let files = tls("one").replace('=', " ");
    let switch = site.switch(&format!("--listen pssl:16654:127.0.0.1 {files}"));
    wait_until("the switch", || {
        site.middle.run(|| std::net::TcpStream::connect("127.0.0.1:16654")).expect("enter").is_ok()
    });
    let ofctl = |name: &str, words: &str| {
        let line = format!("{} {words}", tls(name));
        site.ofctl(&line.split_whitespace().collect::<Vec<_>>(), "")
    };
    for (words, wanted) in [
        ("show ssl:127.0.0.1:16654", "OFPT_FEATURES_REPLY (OF1.3)"),
        ("add-flow ssl:127.0.0.1:16654 priority=5,actions=output:2", ""),
        ("dump-flows ssl:127.0.0.1:16654", "priority=5 actions=output:2"),
    ] {
        let Some((succeeded, said)) = program_or_skip("ovs-ofctl", ofctl("one", words)) else { return };
        assert!(succeeded && said.contains(wanted), "ovs-ofctl {words}: {said}");
    }
    let (succeeded, said) = ofctl("other", "show ssl:127.0.0.1:16654").expect("it ran before");
    assert!(!succeeded, "a certificate of another authority is refused: {said}");
    drop(switch);
}

#[test]
fn packets_for_controllers_are_seen_by_ovs_ofctl_monitor() {
    let Some(site) = Site::new() else { return };
    let switch = site.switch("--listen ptcp:16653:127.0.0.1");
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("monitor");
    let out = std::fs::File::create(&log).expect("a file");
    wait_until("the switch", || {
        site.middle.run(|| std::net::TcpStream::connect("127.0.0.1:16653")).expect("enter").is_ok()
    });
    let mut command = Command::new("ovs-ofctl");
    command
        .args(["-O", "OpenFlow13", "monitor", SWITCH, "65534"])
        .stdin(Stdio::null())
        .env("OVS_RUNDIR", folder.path());
    command.stdout(out.try_clone().expect("a second handle")).stderr(out);
    let Some(monitor) = program_or_skip("ovs-ofctl", site.middle.run(|| command.spawn()).expect("enter")) else {
        return;
    };
    let _monitor = Ends(monitor);
    let (succeeded, said) = site.ofctl(&["add-flow", SWITCH, "actions=CONTROLLER"], "").expect("ovs-ofctl");
    assert!(succeeded, "{said}");
    wait_until("a packet-in", || {
        let mut ping = Command::new("ping");
        let ping = ping.args(["-c", "1", "-W", "1", "192.0.2.2"]).stdout(Stdio::null());
        let _ = site.hosts[0].run(|| ping.status()).expect("enter");
        std::fs::read_to_string(&log).expect("the log").contains("OFPT_PACKET_IN (OF1.3)")
    });
    drop(switch);
}

#[test]
fn ovs_testcontroller_makes_it_learn() {
    let Some(site) = Site::new() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new("ovs-testcontroller");
    command.args(["-O", "OpenFlow13", "ptcp:6653:127.0.0.1"]).env("OVS_RUNDIR", folder.path());
    let Some(controller) = program_or_skip("ovs-testcontroller", site.start(&mut command)) else { return };
    let _controller = Ends(controller);
    let switch = site.switch("--controller tcp:127.0.0.1:6653");
    let Some(()) = site.wait_for_ping() else { return };
    drop(switch);
}

/// The Python with os-ken and the script that runs applications, if they are installed.
fn osken() -> Option<(PathBuf, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let python = root.join("target/conformance/venv/bin/python");
    let apps = root.join("target/conformance/ryu/ryu_app/ofctl_rest.py");
    let found = std::fs::metadata(&python).and(std::fs::metadata(apps));
    program_or_skip("os-ken (by conformance/ryu_apps.py --install simple_switch_13)", found)?;
    Some((python, root))
}

#[test]
fn simple_switch_13_makes_it_learn() {
    let Some(((python, root), site)) = osken().zip(Site::new()) else { return };
    let mut command = Command::new(python);
    command.arg(root.join("conformance/ryu_apps.py")).arg("simple_switch_13");
    let _controller = Ends(site.start(&mut command).expect("a controller"));
    let switch = site.switch("--controller tcp:127.0.0.1:6653");
    let Some(()) = site.wait_for_ping() else { return };
    drop(switch);
}

#[test]
fn the_controller_of_the_examples_makes_it_learn() {
    let Some(((python, root), site)) = osken().zip(Site::new()) else { return };
    let mut command = Command::new(python);
    command.arg(root.join("examples/openflow/controller.py")).arg("learning");
    let _controller = Ends(site.start(&mut command).expect("a controller"));
    let switch = site.switch("--controller tcp:127.0.0.1:6653");
    let Some(()) = site.wait_for_ping() else { return };
    drop(switch);
}

#[test]
fn ofctl_rest_drives_it() {
    let Some(((python, root), site)) = osken().zip(Site::new()) else { return };
    let mut command = Command::new(python);
    command.arg(root.join("conformance/ryu_apps.py")).arg("ofctl_rest");
    let _controller = Ends(site.start(&mut command).expect("a controller"));
    let switch = site.switch("--controller tcp:127.0.0.1:6653");
    let http = |request: &str, body: &str| {
        let ask = || -> std::io::Result<String> {
            let mut stream = std::net::TcpStream::connect("127.0.0.1:8080")?;
            let length = body.len();
            write!(
                stream,
                "{request} HTTP/1.0\r\nContent-Length: {length}\r\nContent-Type: application/json\r\n\r\n{body}"
            )?;
            let mut said = String::new();
            std::io::Read::read_to_string(&mut stream, &mut said).map(|_| said)
        };
        site.middle.run(ask).expect("enter").unwrap_or_default()
    };
    wait_until("the switch at the controller", || http("GET /stats/switches", "").ends_with("[1]"));
    for (from, to) in [(1, 2), (2, 1)] {
        let flow = format!(
            r#"{{"dpid":1,"priority":3,"match":{{"in_port":{from}}},"actions":[{{"type":"OUTPUT","port":{to}}}]}}"#
        );
        assert!(http("POST /stats/flowentry/add", &flow).contains(" 200 "));
    }
    let Some(()) = site.wait_for_ping() else { return };
    for what in
        ["desc", "table", "port", "portdesc", "group", "groupdesc", "groupfeatures", "meter", "meterconfig", "queue"]
    {
        let said = http(&format!("GET /stats/{what}/1"), "");
        assert!(said.contains(" 200 ") && said.contains(r#"{"1":"#), "{what}: {said}");
    }
    let flows = http("GET /stats/flow/1", "");
    assert!(flows.contains(r#""in_port": 1"#) && flows.contains("OUTPUT:2"), "{flows}");
    drop(switch);
}
