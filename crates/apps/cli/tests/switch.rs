//! `linerate switch` as a program, between processes: names of VALE, peers that are killed, switches that are killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::veth::{self, VethEnd};
use serde_json::Value;

/// How long something may take that is to come for sure.
const LONG: Duration = Duration::from_secs(120);

/// A folder for the sockets of one test; XDG_RUNTIME_DIR of all that it starts.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("a folder"))
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("linerate")
    }

    fn socket(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.args(line.split_whitespace()).env("XDG_RUNTIME_DIR", self.0.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }

    fn start(&self, line: &str) -> Started {
        Started(self.command(line).spawn().expect("linerate starts"))
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().expect("linerate runs")
    }

    /// A switch of this name, once it answers.
    fn switch(&self, name: &str, line: &str) -> Started {
        let mut switch = self.start(&format!("switch --name {name} --quiet {line}"));
        wait_until("the switch answers", || {
            assert_eq!(switch.0.try_wait().expect("its state"), None, "the switch ended");
            self.run(&format!("switch ctl --name {name} show ports")).status.success()
        });
        switch
    }

    fn show(&self, name: &str, what: &str) -> Value {
        let output = self.run(&format!("switch ctl --name {name} show {what} --json"));
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }

    fn has_port(&self, name: &str, port: &str) -> bool {
        let ports = self.show(name, "ports");
        ports.as_array().is_some_and(|ports| ports.iter().any(|shown| shown["name"] == port))
    }
}

/// A child that does not outlive the test.
struct Started(Child);

impl Started {
    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// SIGTERM, and its status.
    fn stop(&mut self) -> Option<i32> {
        let id = self.0.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &id]).status();
        self.ended()
    }

    fn ended(&mut self) -> Option<i32> {
        let deadline = Instant::now() + LONG;
        loop {
            if let Some(status) = self.0.try_wait().expect("its state") {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.kill();
    }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < deadline, "it does not come: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} is not in {value}"))
}

#[test]
fn a_switch_has_more_ports_than_the_shell_allows_files() {
    let place = Place::new();
    let ports: String = (0..40).map(|port| format!(" --port memif:{}", place.socket(&format!("m{port}")))).collect();
    let line = format!("ulimit -Sn 30 && exec \"$0\" switch --name wide --quiet --duration 100ms{ports}");
    let mut command = Command::new("sh");
    command.args(["-c", &line, env!("CARGO_BIN_EXE_linerate")]).env("XDG_RUNTIME_DIR", place.0.path());
    let output = command.stdin(Stdio::null()).output().expect("sh runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn two_shells_meet_at_a_name_and_the_switch_ends_after_them() {
    let place = Place::new();
    let mut receiver = place.start("pkt-gen -i vale7:a -f rx -n 20000");
    wait_until("its port is there", || place.has_port("vale7", "a"));
    let mut sender = place.start("pkt-gen -i vale7:b -f tx -R 50000");
    assert_eq!(receiver.ended(), Some(0));
    sender.stop();
    let mut seen = Value::Null;
    wait_until("both ports are gone", || {
        seen = place.show("vale7", "stats");
        seen["ports"].as_array().is_some_and(Vec::is_empty)
    });
    assert_eq!(seen["totals"]["unbalanced"], Value::Null, "{seen}");
    assert!(number(&seen, "/totals/received") >= 20_000, "{seen}");
    wait_until("the switch has ended", || files(&place.folder()).is_empty());
}

#[test]
fn ping_and_pong_meet_by_name_alone() {
    let place = Place::new();
    let mut pong = place.start("pkt-gen -i vale8:far -f pong");
    wait_until("its port is there", || place.has_port("vale8", "far"));
    // A third port gets the pings, which go to all, and none of the replies.
    let mut other = place.start("pkt-gen -i vale8:other -f rx");
    wait_until("its port is there", || place.has_port("vale8", "other"));
    let ping = place.command("pkt-gen -i vale8:near -f ping -n 500").stderr(Stdio::piped()).output().expect("it runs");
    assert_eq!(ping.status.code(), Some(0));
    let said = String::from_utf8_lossy(&ping.stderr).into_owned() + &String::from_utf8_lossy(&ping.stdout);
    assert!(said.contains("500 sent, 500 replies, 0 missing"), "{said}");
    assert_eq!(pong.stop(), Some(0));
    assert_eq!(other.stop(), Some(0));
    let mut seen = Value::Null;
    wait_until("all ports are gone", || {
        seen = place.show("vale8", "stats");
        seen["ports"].as_array().is_some_and(Vec::is_empty)
    });
    assert_eq!((number(&seen, "/totals/received"), &seen["totals"]["unbalanced"]), (1_000, &Value::Null), "{seen}");
    assert_eq!((&seen["totals"]["drops"]["hairpin"], number(&seen, "/totals/unicast")), (&Value::Null, 500), "{seen}");
}

#[test]
fn every_packet_between_processes_is_accounted_for() {
    let place = Place::new();
    let mut switch = place.start("switch --name valelab --quiet --duration 600s --ports-max 4");
    wait_until("the switch answers", || place.run("switch ctl --name valelab show ports").status.success());
    let mut sent_in_all = 0;
    for round in 0..3 {
        let mut receiver = place.start("receive valelab:r --json --quiet");
        wait_until("its port is there", || place.has_port("valelab", "r"));
        let sent = place.run("send valelab:s --count 200000 --json --quiet");
        let sent: Value = serde_json::from_slice(&sent.stdout).expect("a document");
        sent_in_all += number(&sent, "/ports/0/sent");
        assert_eq!(receiver.stop(), Some(0), "round {round}");
        wait_until("both ports are gone", || !place.has_port("valelab", "r") && !place.has_port("valelab", "s"));
    }
    let mut seen = Value::Null;
    wait_until("all ports are gone", || {
        seen = place.show("valelab", "stats");
        seen["ports"].as_array().is_some_and(Vec::is_empty)
    });
    assert_eq!(number(&seen, "/totals/received"), sent_in_all, "{seen}");
    assert_eq!(seen["totals"]["unbalanced"], Value::Null);
    assert_eq!(switch.stop(), Some(0));
    assert_eq!(files(&place.folder()), Vec::<String>::new());
}

#[test]
fn a_peer_that_is_killed_loses_its_own_port_only() {
    let place = Place::new();
    let sockets = ["a", "b", "c"].map(|name| place.socket(name));
    let ports: Vec<String> =
        ["a", "b", "c"].iter().zip(&sockets).map(|(name, socket)| format!("--port {name}=memif:{socket}")).collect();
    let mut switch = place.switch("kill", &ports.join(" "));
    let client = |socket: &str| format!("memif:{socket},role=client");
    let mut receiver = place.start(&format!("receive {} --json --quiet", client(&sockets[1])));
    let mut victim = place.start(&format!("receive {} --json --quiet", client(&sockets[2])));
    let mut sender = place.start(&format!("send {} --rate 20kpps --duration 600s --quiet", client(&sockets[0])));
    let sent = |name: usize| number(&place.show("kill", "ports"), &format!("/{name}/sent"));
    wait_until("packets reach both", || sent(1) > 1_000 && sent(2) > 1_000);
    for _ in 0..3 {
        victim.kill();
        let before = sent(1);
        wait_until("the other goes on", || sent(1) > before + 1_000);
        victim = place.start(&format!("receive {} --json --quiet", client(&sockets[2])));
        let before = sent(2);
        wait_until("a new peer gets packets", || sent(2) > before + 1_000);
    }
    // The sender is killed in the middle of it.
    sender.kill();
    receiver.stop();
    let seen = place.show("kill", "stats");
    assert_eq!(seen["totals"]["unbalanced"], Value::Null, "{seen}");
    assert_eq!(seen["ports"].as_array().map(Vec::len), Some(3), "{seen}");
    assert_eq!(switch.stop(), Some(0));
    assert!(files(&place.folder()).is_empty() && sockets.iter().all(|socket| !Path::new(socket).exists()));
}

#[test]
fn peers_that_hang_or_flood_do_not_hold_the_others_up() {
    let place = Place::new();
    let names = ["a", "b", "c", "d"];
    let sockets = names.map(|name| place.socket(name));
    let ports = names.iter().zip(&sockets).map(|(name, socket)| format!("--port {name}=memif:{socket}"));
    let mut switch = place.switch("hang", &ports.collect::<Vec<_>>().join(" "));
    let client = |index: usize| format!("memif:{},role=client", sockets[index]);
    let _receiver = place.start(&format!("receive {} --json --quiet", client(1)));
    let hung = place.start(&format!("receive {} --json --quiet", client(2)));
    let mut flood = place.start(&format!("send {} --quiet", client(3)));
    let mut sender = place.start(&format!("send {} --rate 2kpps --quiet", client(0)));
    let count = |pointer: &str| number(&place.show("hang", "ports"), pointer);
    wait_until("all have joined in", || count("/2/sent") > 0 && count("/0/received") > 0 && count("/3/received") > 0);
    let stopped = Command::new("kill").args(["-STOP", &hung.0.id().to_string()]).status().expect("kill");
    assert!(stopped.success());
    let lost = |port: usize| {
        let seen = place.show("hang", "ports");
        seen.pointer(&format!("/{port}/refused"))
            .and_then(Value::as_object)
            .map_or(0, |lost| lost.values().filter_map(Value::as_u64).sum::<u64>())
    };
    wait_until("the ring and the queue of the hung one are full", || lost(2) > 10_000);
    // Both senders, the slow one, too, are served on, and the other receiver gets packets.
    let before = (count("/0/received"), count("/1/sent"));
    wait_until("the others go on", || count("/0/received") > before.0 + 2_000 && count("/1/sent") > before.1 + 10_000);
    let continued = Command::new("kill").args(["-CONT", &hung.0.id().to_string()]).status().expect("kill");
    assert!(continued.success());
    let before = count("/2/sent");
    wait_until("the hung one is back", || count("/2/sent") > before + 1_000);
    flood.kill();
    sender.stop();
    let seen = place.show("hang", "stats");
    assert_eq!(seen["totals"]["unbalanced"], Value::Null, "{seen}");
    assert_eq!(switch.stop(), Some(0));
}

#[test]
fn a_switch_that_is_killed_leaves_only_what_the_next_start_removes() {
    let place = Place::new();
    let mut switch = place.switch("again", "--port a=null:");
    switch.kill();
    assert!(files(&place.folder()).contains(&"again.ctl".to_string()));
    let refused = place.run("switch ctl --name again show ports");
    assert_eq!(refused.status.code(), Some(2));
    let mut switch = place.switch("again", "--port a=null:");
    let second = place.run("switch --name again --port b=null:");
    assert_eq!(second.status.code(), Some(2), "two of one name");
    assert_eq!(switch.stop(), Some(0));
    assert_eq!(files(&place.folder()), Vec::<String>::new());
}

#[test]
fn control_from_the_shell() {
    let place = Place::new();
    let mut switch = place.switch("ctl", "--port a=null: --ports-max 8");
    let ctl = |line: &str| place.run(&format!("switch ctl --name ctl {line}"));
    assert!(ctl("add-port b=null: access=10 isolated=yes").status.success());
    assert!(ctl("set a.access=10 b.isolated=default").status.success());
    assert!(ctl("add-mac 02:00:00:00:00:01=b,vlan=10").status.success());
    let refused = ctl("set a.access=5000");
    assert_eq!(refused.status.code(), Some(1));
    let text = String::from_utf8(ctl("show ports").stdout).expect("text");
    assert!(text.contains("access=10") && text.lines().count() == 3, "{text}");
    assert_eq!(place.show("ctl", "macs")["macs"][0]["port"], "b");
    for what in ["macs", "stats", "drops", "vlans", "latency", "mirrors"] {
        assert!(!ctl(&format!("show {what}")).stdout.is_empty(), "{what}");
    }
    assert!(ctl("remove-port b").status.success() && ctl("flush-macs").status.success());
    assert!(ctl("stop").status.success());
    assert_eq!(switch.ended(), Some(0));
    let file = place.socket("switch.toml");
    std::fs::write(
        &file,
        "[[port]]\nname = \"x\"\nspec = \"null:\"\naccess = 7\n[[mirror]]\nfrom = \"z\"\nto = \"x\"\n",
    )
    .expect("a file");
    let wrong = place.run(&format!("switch --config {file} --quiet --duration 1s"));
    assert_eq!(wrong.status.code(), Some(2), "a mirror of a port that is not there");
}

/// As a container that starts again has its end of the pair: deleted, and made by the same name.
#[test]
fn an_interface_that_was_deleted_and_made_again_has_its_port_again() {
    let make = || {
        let namespaces = [NetNs::anonymous()?, NetNs::anonymous()?];
        let pair = |namespaces: &[NetNs; 2]| {
            let end = |name, namespace| VethEnd { name, namespace };
            veth::create(end("p0", &namespaces[0]), end("p1", &namespaces[1]), 1)?;
            namespaces[0].run(|| Netdev::open("p0")?.set_up(true))??;
            namespaces[1].run(|| Netdev::open("p1")?.set_up(true))?
        };
        pair(&namespaces)?;
        Ok::<_, std::io::Error>((namespaces, pair))
    };
    let (namespaces, pair) = match make() {
        Ok(made) => made,
        Err(error) => return eprintln!("skipped: no veth pair: {error}"),
    };
    let place = Place::new();
    let start = || place.switch("again", "--port 1=packet:p0 --port 2=null: --set 1.isolated=yes");
    let mut switch = namespaces[0].run(start).expect("enter");
    let port = || {
        let ports = place.show("again", "ports");
        ports.as_array().into_iter().flatten().find(|port| port["name"] == "1").cloned().unwrap_or(Value::Null)
    };
    assert_eq!(port()["state"], "up");
    let received = |port: &Value| number(port, "/received");
    for round in 0..2 {
        let delete = || Command::new("ip").args(["link", "delete", "p0"]).status();
        assert!(namespaces[0].run(delete).expect("enter").expect("ip").success());
        wait_until("it is out", || port()["state"] != "up");
        pair(&namespaces).expect("made again");
        wait_until("it is up again", || port()["state"] == "up");
        assert_eq!(port()["settings"]["isolated"], "yes", "round {round}: {}", port());
        let before = received(&port());
        let send = || place.run("send packet:p1 --count 10 --rate 1kpps -q");
        assert!(namespaces[1].run(send).expect("enter").status.success());
        wait_until("packets arrive", || received(&port()) >= before + 10);
    }
    assert_eq!(switch.stop(), Some(0));
}

/// `--idle-exit` goes by ports that there are: one that waits for a deleted interface, perhaps for ever, is none.
#[test]
fn a_switch_whose_only_interface_was_deleted_is_unused() {
    let namespace = match NetNs::anonymous() {
        Ok(namespace) => namespace,
        Err(error) => return eprintln!("skipped: no network namespace: {error}"),
    };
    let end = |name| VethEnd { name, namespace: &namespace };
    if let Err(error) = veth::create(end("p0"), end("p1"), 1) {
        return eprintln!("skipped: no veth pair: {error}");
    }
    for name in ["p0", "p1"] {
        namespace.run(|| Netdev::open(name)?.set_up(true)).expect("enter").expect("up");
    }
    let place = Place::new();
    let start = || place.switch("idle", "--port 1=packet:p0 --idle-exit 300ms");
    let mut switch = namespace.run(start).expect("enter");
    std::thread::sleep(Duration::from_secs(1));
    assert!(place.has_port("idle", "1"), "it ended with a port");
    let delete = || Command::new("ip").args(["link", "delete", "p0"]).status();
    assert!(namespace.run(delete).expect("enter").expect("ip").success());
    assert_eq!(switch.ended(), Some(1), "a port was lost");
}

/// A smaller MTU costs the packets that are too long for it, and no longer than it lasts.
#[test]
fn packets_pass_again_when_the_mtu_has_grown_again() {
    let namespace = match NetNs::anonymous() {
        Ok(namespace) => namespace,
        Err(error) => return eprintln!("skipped: no network namespace: {error}"),
    };
    let end = |name| VethEnd { name, namespace: &namespace };
    for names in [["p0", "p1"], ["q0", "q1"]] {
        if let Err(error) = veth::create(end(names[0]), end(names[1]), 1) {
            return eprintln!("skipped: no veth pair: {error}");
        }
        for name in names {
            namespace.run(|| Netdev::open(name)?.set_up(true)).expect("enter").expect("up");
        }
    }
    let place = Place::new();
    for backend in ["packet", "xdp"] {
        let start = || place.switch("mtu", &format!("--port 1={backend}:p0 --port 2=packet:q0"));
        let mut switch = namespace.run(start).expect("enter");
        let port = || place.show("mtu", "ports")[0].clone();
        let sent = || number(&port(), "/sent");
        let send = || {
            let send = || place.run("send packet:q1 --size 1400 --count 10 --rate 1kpps -q");
            assert!(namespace.run(send).expect("enter").status.success());
        };
        let set_mtu = |mtu| namespace.run(|| Netdev::open("p0")?.set_mtu(mtu)).expect("enter").expect("an MTU");
        send();
        wait_until("they pass", || sent() >= 10);
        set_mtu(1000);
        let before = sent();
        let too_long = || place.run("switch ctl --name mtu show drops").stdout;
        while !String::from_utf8_lossy(&too_long()).contains("too-long") {
            send();
        }
        set_mtu(1500);
        wait_until("they pass again", || {
            send();
            sent() >= before + 10
        });
        assert_eq!(switch.stop(), Some(0));
    }
}

/// A port whose interface is down keeps its device, says what is wrong, and goes on; the far side of a TAP device may be set down by whoever
/// has it, as it is when it is moved.
#[test]
fn a_port_that_is_down_stays_and_comes_back() {
    let namespace = match NetNs::anonymous() {
        Ok(namespace) => namespace,
        Err(error) => return eprintln!("skipped: no network namespace: {error}"),
    };
    if let Some(Err(missing)) =
        linerate_ports::list().into_iter().find(|listed| listed.name == "tap").map(|tap| tap.usable)
    {
        return eprintln!("skipped: tap: {}", missing.cause);
    }
    let place = Place::new();
    let start = || place.switch("down", "--port t=tap:lr0 --port n=null:");
    let mut switch = namespace.run(start).expect("enter");
    let device = namespace.run(|| Netdev::open("lr0")).expect("enter").expect("made by the switch");
    let index = device.index().expect("there");
    let state = || place.show("down", "ports")[0]["state"].as_str().unwrap_or_default().to_owned();
    assert_eq!(state(), "up");
    for _ in 0..2 {
        device.set_up(false).expect("down");
        wait_until("it is told to be down", || state().starts_with("down: tap:lr0"));
        device.set_up(true).expect("up");
        wait_until("it is told to be up", || state() == "up");
        assert_eq!(device.index().ok(), Some(index), "it is another device");
    }
    // One that is deleted was made by the switch, and is made again; packets pass it as before.
    let ip = |words: &[&str]| {
        let run = || Command::new("ip").args(words).status();
        assert!(namespace.run(run).expect("enter").expect("ip").success(), "{words:?}");
    };
    ip(&["link", "delete", "lr0"]);
    wait_until("it is made again", || state() == "up" && device.index().is_ok_and(|now| now != index));
    let received = || number(&place.show("down", "ports"), "/0/received");
    let before = received();
    let send = || place.run("send packet:lr0 --count 10 --rate 1kpps -q");
    assert!(namespace.run(send).expect("enter").status.success());
    wait_until("packets arrive", || received() >= before + 10);
    assert_eq!(switch.stop(), Some(0));
}

#[test]
fn errors_of_a_file_have_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lab.toml");
    for (text, place, words) in [
        ("[switch\n", "line 1, column 8", "expected"),
        ("name = 'a'\nagein = '3s'\n", "line 2, column 1", "agein"),
        ("[[port]]\nspec = 'null:'\nfoo = 1\n", "line 3, column 1", "no setting foo"),
        (
            "[[port]]\nspec = 'null:'\n\n[[port]]\nname = 'b'\nspec = 'null:'\naccess = 4096\n",
            "line 7, column 1",
            "4096",
        ),
        ("[[port]]\nspec = 'null:'\naccess = 4\nqinq = 5\n", "line 1, column 1", "exclude each other"),
    ] {
        std::fs::write(&path, text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_linerate")).args(["switch", "-f"]).arg(&path).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        for words in [&format!("lab.toml: {place}: "), words] {
            assert!(stderr.contains(words), "{words}: {stderr}");
        }
    }
}

#[test]
fn a_port_of_several_queues_has_a_row_for_each() {
    let place = Place::new();
    let [a, b] = ["a.sock", "b.sock"].map(|name| place.socket(name));
    let mut switch = place.start(&format!("switch --name q --port a=memif:{a},queues=2 --port b=memif:{b}"));
    wait_until("the switch answers", || place.has_port("q", "b"));
    let flags = "--set ethernet.destination=02:00:00:00:00:07 --queues 2 --cores none --flows 20 -q";
    let sent = place.run(&format!("send memif:{a},role=client --count 4000 --rate 50kpps {flags}"));
    assert!(sent.status.success(), "{sent:?}");
    let rows = |port: &Value| {
        let rows = port["queues"].as_array().unwrap_or_else(|| panic!("no queues: {port}"));
        rows.iter().map(|row| row["received"].as_u64().unwrap()).collect::<Vec<u64>>()
    };
    let ports = place.show("q", "stats")["ports"].clone();
    let received = rows(&ports[0]);
    assert_eq!((received.len(), rows(&ports[1]).len()), (2, 1), "{ports}");
    assert!(received.iter().all(|packets| *packets > 0), "{ports}");
    assert_eq!(received.iter().sum::<u64>(), ports[0]["received"].as_u64().unwrap(), "{ports}");
    let text = place.run("switch ctl --name q show stats");
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("rx queue 1 ") && text.contains("tx queue 0 "), "{text}");
    switch.stop();
}

#[test]
fn queue_pairs_are_divided_among_workers() {
    let place = Place::new();
    let [a, b] = ["a.sock", "b.sock"].map(|name| place.socket(name));
    let core = linerate_sys::affinity::allowed_cores()[0];
    let ports = format!("--port a=memif:{a} --port b=memif:{b} --queues 2 --cores {core},{core}");
    let mut switch = place.start(&format!("switch --name divided {ports}"));
    wait_until("the switch answers", || place.has_port("divided", "b"));
    let flags = "--set ethernet.destination=02:00:00:00:00:07 --queues 2 --cores none --flows 20 -q";
    let sent = place.run(&format!("send memif:{a},role=client --count 4000 --rate 50kpps {flags}"));
    assert!(sent.status.success(), "{sent:?}");
    let stats = place.show("divided", "stats");
    for worker in stats["workers"].as_array().unwrap_or_else(|| panic!("no workers: {stats}")) {
        let of = |count: &str| worker[count].as_u64();
        assert!(of("received") > Some(0) && of("handed_over") == Some(0), "{worker}");
        assert_eq!(worker["ports"], serde_json::json!(["a", "b"]));
    }
    assert_eq!(stats["ports"].as_array().map(Vec::len), Some(2), "{stats}");
    let text = place.run("switch ctl --name divided show stats");
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("tx queue 1 ") && text.contains("from others  CPU ns/packet"), "{text}");
    switch.stop();
    let refused = place.run("switch --port a=null: --queues 0");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}
