//! `linerate ofswitch` as a program: a file of entries between two memif peers, `ofswitch ctl`, errors, ovs-ofctl where it is installed, and
//! switches that are killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long something may take that is to come for sure.
const LONG: Duration = Duration::from_secs(120);

/// A folder for the sockets of one test; XDG_RUNTIME_DIR of all that it starts.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("a folder"))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.args(words).env("XDG_RUNTIME_DIR", self.0.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("linerate runs")
    }

    fn ctl(&self, words: &[&str]) -> Output {
        self.run(&[&["ofswitch", "ctl"], words].concat())
    }

    /// What `ctl` prints; it must succeed.
    fn said(&self, words: &[&str]) -> String {
        let output = self.ctl(words);
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{words:?}: {}", said(&output.stderr));
        said(&output.stdout)
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.said(&[words, &["--json"]].concat())).expect("a document")
    }

    /// A switch, once it answers.
    fn switch(&self, words: &[&str]) -> Started {
        let words = [&["ofswitch", "--quiet"], words].concat();
        let mut switch = Started(self.command(&words).stderr(Stdio::null()).spawn().expect("linerate starts"));
        wait_until("the switch answers", || {
            assert_eq!(switch.0.try_wait().expect("its state"), None, "the switch ended");
            self.ctl(&["show", "bridge-domains"]).status.success()
        });
        switch
    }
}

/// A child that does not outlive the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < deadline, "it does not come: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_file_is_replayed_through_entries_and_every_command_shows_its_part() {
    let place = Place::new();
    let flows = place.file("start.flows");
    std::fs::write(&flows, "priority=3,in_port=1,actions=output:2\n").unwrap();
    let (left, right) = (place.file("left"), place.file("right"));
    let ports = [format!("1=memif:{}", text(&left)), format!("2=memif:{}", text(&right))];
    let words = ["--port", &ports[0], "--port", &ports[1], "--flows", &text(&flows), "--dpid", "0x17"];
    let mut switch = place.switch(&words);
    let receiver = format!("memif:{},role=client", text(&right));
    let receiver = place.command(&["receive", &receiver, "--duration", "60s", "--json"]).spawn().unwrap();
    let mut receiver = Started(receiver);
    let sender = format!("memif:{},role=client", text(&left));
    wait_until("all packets of one sender are forwarded", || {
        let sent = place.run(&["send", &sender, "--count", "1000", "--rate", "50kpps"]);
        assert!(sent.status.success(), "{}", stderr(&sent));
        place.json(&["show", "stats"])["totals"]["sent"].as_u64().unwrap() >= 1000
    });
    let _ = receiver.0.kill();

    let stats = place.json(&["show", "stats"]);
    assert_eq!((&stats["totals"]["unbalanced"], stats["dpid"].as_str()), (&Value::Null, Some("0000000000000017")));
    let flow = place.said(&["show", "flow"]);
    assert!(flow.starts_with("Bridge: ofswitch\n Table id: 0\n  priority=3,idle_timeout=0,"), "{flow}");
    assert!(flow.contains("in_port=1") && flow.contains("actions=output:2"), "{flow}");
    for (what, word) in [
        ("table", "  lookup count: "),
        ("flowcache", "  hit: "),
        ("interface", " Description:\n  OpenFlow Port: 1"),
        ("bridge-domains", "  fail-mode: secure"),
        ("controller", "Datapath ID: 0000000000000017"),
        ("group", "Bridge: ofswitch"),
        ("meter", "Bridge: ofswitch"),
        ("port", "memif:"),
        ("queue", "no queues"),
        ("stats", "the account balances"),
    ] {
        let shown = place.said(&["show", what]);
        assert!(shown.contains(word), "{what}: {shown}");
        place.json(&["show", what]);
    }
    assert!(place.said(&["latency"]).starts_with("to  packets"));
    place.said(&["drops"]);
    place.said(&["stop"]);
    assert_eq!(switch.0.wait().unwrap().code(), Some(0));
}

#[test]
fn entries_are_changed_traced_saved_and_restored() {
    let place = Place::new();
    let _switch = place.switch(&["--port", "1=null:", "--port", "2=null:"]);
    place.said(&["add-meter", "meter=1,kbps,bands=type=drop,rate=1000"]);
    place.said(&["add-group", "group_id=1,type=all,bucket=output:1,bucket=output:2"]);
    place.said(&["add-flow", "priority=7,tcp,tcp_dst=80,actions=meter:1,group:1"]);
    place.said(&["mod-flows", "--strict", "priority=7,tcp,tcp_dst=80,actions=output:2"]);
    let walked = place.said(&["trace", "in_port=1,tcp,tcp_dst=80"]);
    assert!(walked.ends_with("verdict: leaves by 2\n"), "{walked}");
    let saved = place.file("saved");
    place.said(&["save", &text(&saved)]);
    assert_eq!(std::fs::read_to_string(&saved).unwrap().lines().count(), 3);
    for command in ["del-flows", "del-groups", "del-meters"] {
        place.said(&[command]);
    }
    assert_eq!(place.json(&["show", "flow"])["flows"], serde_json::json!([]));
    place.said(&["restore", &text(&saved)]);
    assert_eq!(place.json(&["show", "flow"])["flows"].as_array().unwrap().len(), 1);
    assert_eq!(place.json(&["show", "group"]).as_array().unwrap().len(), 1);

    let refused = place.ctl(&["add-flow", "tcp_dst=80,actions=drop"]);
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(place.ctl(&["show", "interface", "9"]).status.code() == Some(1));
    let other = place.ctl(&["--name", "other", "show", "flow"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(
        stderr(&other).contains("`linerate ofswitch --help` tells how to start one, with --name other"),
        "{}",
        stderr(&other)
    );
}

#[test]
fn mistakes_on_the_command_line_say_what_to_write() {
    let place = Place::new();
    for (words, word) in [
        (&["--port", "null:"][..], "NUMBER=SPEC"),
        (&["--port", "1=null:", "--controller", "127.0.0.1"], "tcp:HOST:PORT"),
        (&["--listen", "6634"], "ptcp:PORT"),
        (&["--listen", "pssl:6634"], "--private-key"),
        (&["--fail-mode", "open"], "standalone"),
        (&["--dpid", "x"], "hexadecimal"),
        (&["--port", "1=null:", "--set", "2.speed=1"], "there are 1"),
        (&["--port", "1=null:", "--set", "1.sped=1"], "valid keys: speed"),
        (&["--flows", "/none.flows"], "/none.flows"),
    ] {
        let output = place.run(&[&["ofswitch"], words].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(stderr(&output).contains(word), "{words:?}: {}", stderr(&output));
    }
}

#[test]
fn a_switch_that_was_killed_leaves_nothing_that_the_next_start_minds() {
    let place = Place::new();
    let words = ["--port", "1=null:", "--listen", "ptcp:0:127.0.0.1"];
    drop(place.switch(&words));
    assert!(place.file("linerate").join("ofswitch.ctl").exists(), "it was killed");
    let mut again = place.switch(&words);
    let second = place.run(&["ofswitch", "--port", "1=null:"]);
    assert_eq!(second.status.code(), Some(2));
    assert!(stderr(&second).contains("ofswitch \"ofswitch\" is running already"), "{}", stderr(&second));
    place.said(&["stop"]);
    again.0.wait().unwrap();
    assert_eq!(std::fs::read_dir(place.file("linerate")).unwrap().count(), 0);
}

#[test]
fn ovs_ofctl_drives_it() {
    let place = Place::new();
    let config = place.file("switch.toml");
    // A port of this host that was free a moment ago.
    let number = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    std::fs::write(
        &config,
        format!("dpid = \"2a\"\nlisten = [\"ptcp:{number}:127.0.0.1\"]\n[[port]]\nname = 1\nspec = \"null:\"\n[[queue]]\nport = 1\nid = 3\nmax-rate = \"1M\"\n"),
    )
    .unwrap();
    let _switch = place.switch(&["--config", &text(&config)]);
    let target = format!("tcp:127.0.0.1:{number}");
    let ofctl = |words: &[&str]| {
        let (command, rest) = words.split_first().unwrap();
        let words = [&["-O", "OpenFlow13", "--timeout=60", *command, &target][..], rest].concat();
        Command::new("ovs-ofctl").args(&words).output()
    };
    let Some(shown) = linerate_testkit::program_or_skip("ovs-ofctl", ofctl(&["show"])) else { return };
    let said = |output: Output| {
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let shown = said(shown);
    assert!(shown.contains("dpid:000000000000002a") && shown.contains(" 1(null): addr:02:"), "{shown}");
    said(ofctl(&["add-flow", "priority=4,udp,actions=set_queue:3,output:1"]).unwrap());
    said(ofctl(&["add-group", "group_id=5,type=select,bucket=actions=output:1"]).unwrap());
    said(ofctl(&["add-meter", "meter=6,pktps,bands=type=drop,rate=10"]).unwrap());
    assert!(said(ofctl(&["dump-flows"]).unwrap()).contains("priority=4,udp actions=set_queue:3,output:1"));
    for (command, word) in [
        ("dump-desc", "Linerate"),
        ("dump-tables", "table 0"),
        ("dump-ports", "port  1"),
        ("dump-ports-desc", "1(null)"),
        ("dump-groups", "group_id=5,type=select"),
        ("dump-group-stats", "group_id=5"),
        ("dump-meters", "meter=6"),
        ("meter-stats", "meter:6"),
        ("meter-features", "max_meter"),
        ("dump-group-features", "Group table"),
        ("queue-stats", "port 1 queue 3"),
        ("dump-aggregate", "flow_count=1"),
        ("dump-table-features", "table 0"),
        ("probe", ""),
    ] {
        let shown = said(ofctl(&[command]).unwrap());
        assert!(shown.contains(word), "{command}: {shown}");
    }
    said(ofctl(&["mod-port", "1", "no-forward"]).unwrap());
    assert_eq!(place.json(&["show", "port"])[0]["config"], serde_json::json!(["NO_FWD"]));
    said(ofctl(&["del-flows"]).unwrap());
    assert_eq!(place.json(&["show", "flow"])["flows"], serde_json::json!([]));
}
