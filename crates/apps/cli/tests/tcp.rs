//! `linerate tcp` against the kernel's TCP and programs of others over a veth pair: curl, Python's sockets, wrk, ab, nginx.

use super::common;

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{INTERFACE, Run, Wire};
use linerate_sys::netns::NetNs;
use linerate_testkit::program_or_skip;
use serde_json::Value;

/// A veth pair: `left` has the kernel's 198.18.5.2 and fd00:5::2, `right` has a stack's .1 and ::1; and a folder for sockets and files.
struct Place {
    wire: Wire,
    folder: tempfile::TempDir,
}

/// A program of others, which ends with the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const SERVER: &str = "--address 198.18.5.1/24 --address fd00:5::1/64 --no-dad";

impl Place {
    fn new() -> Option<Place> {
        let wire = Wire::new(1)?;
        let place = Place { wire, folder: tempfile::tempdir().unwrap() };
        place.program("sh", &["-c", &format!("echo 0 > /proc/sys/net/ipv6/conf/{INTERFACE}/disable_ipv6")])?;
        place.program("ip", &["addr", "add", "198.18.5.2/24", "dev", INTERFACE])?;
        place.program("ip", &["addr", "add", "fd00:5::2/64", "dev", INTERFACE, "nodad"])?;
        place.program("ip", &["link", "set", "lo", "up"])?;
        Some(place)
    }

    /// `linerate` with these words, in a namespace.
    fn linerate(&self, namespace: &NetNs, line: &str) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.args(line.split_whitespace()).env("XDG_RUNTIME_DIR", self.folder.path());
        namespace.run(|| Run::from(&mut command)).expect("enter the namespace")
    }

    /// A server of the stack, once it serves.
    fn serve(&self, words: &str) -> Run {
        let run = self.linerate(&self.wire.right, &format!("tcp serve {words} --port packet:{INTERFACE} {SERVER}"));
        run.wait_for("server", |text| text.contains(" serves at "));
        run
    }

    /// What a program of others prints beside the kernel's stack; `None` if it is not installed.
    fn program(&self, program: &str, words: &[&str]) -> Option<String> {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null());
        let output = program_or_skip(program, self.wire.left.run(|| command.output()).expect("enter"))?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{program} {words:?}: {}{}", said(&output.stdout), said(&output.stderr));
        Some(said(&output.stdout))
    }

    /// nginx at 198.18.5.2:8080 with a file of 615 bytes.
    fn nginx(&self) -> Option<Started> {
        let folder = self.folder.path();
        std::fs::write(folder.join("index.html"), "a".repeat(615)).unwrap();
        let config = format!(
            "worker_processes 1; daemon off; master_process off; pid {0}/pid; error_log {0}/error.log;\n\
             events {{ worker_connections 1000; }}\n\
             http {{ access_log off; server {{ listen 8080; listen [::]:8080; root {0}; }} }}\n",
            folder.display()
        );
        std::fs::write(folder.join("nginx.conf"), config).unwrap();
        let mut command = Command::new("nginx");
        command.args(["-e", "stderr", "-c"]).arg(folder.join("nginx.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = program_or_skip("nginx", self.wire.left.run(|| command.spawn()).expect("enter"))?;
        let started = Started(child);
        let path = folder.join("pid");
        wait_for(&path);
        Some(started)
    }
}

fn wait_for(path: &Path) {
    for _ in 0..3000 {
        if std::fs::read_to_string(path).is_ok_and(|text| text.ends_with('\n')) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("no {}", path.display());
}

/// The last document of a load.
fn last(ended: &common::Ended) -> Value {
    let document: Value = serde_json::from_str(ended.stdout.lines().last().unwrap_or_default()).expect("a document");
    assert_eq!((&document["schema"], &document["last"]), (&"linerate.tcp-load/1".into(), &true.into()));
    for what in ["connections", "requests"] {
        let account = &document[what];
        let lost: i64 = account["lost"].as_array().unwrap().iter().map(|loss| loss["count"].as_i64().unwrap()).sum();
        let number = |name: &str| account[name].as_i64().unwrap();
        assert_eq!(number("unexplained"), 0, "{account}");
        assert_eq!(number("intended"), number("unbegun") + number("begun"), "{account}");
        assert_eq!(number("begun"), number("completed") + number("open") + lost, "{account}");
    }
    document
}

#[test]
fn curl_gets_files_and_python_half_a_request() {
    let Some(place) = Place::new() else { return };
    let site = tempfile::tempdir().unwrap();
    let long: Vec<u8> = (0..2_000_000u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(site.path().join("index.html"), "hello\n").unwrap();
    std::fs::write(site.path().join("long"), &long).unwrap();
    let server = place.serve(&format!("http --root {}", site.path().display()));
    let copy = place.folder.path().join("copy");
    let to = copy.display().to_string();
    let Some(text) = place.program("curl", &["-sS", "-m", "60", "http://198.18.5.1/", "http://[fd00:5::1]/"]) else {
        return;
    };
    assert_eq!(text, "hello\nhello\n");
    place.program("curl", &["-sSf", "-m", "60", "-o", &to, "http://198.18.5.1/long"]).unwrap();
    assert!(std::fs::read(&copy).unwrap() == long, "every byte arrived");
    let missing =
        place.program("curl", &["-s", "-m", "60", "-o", "/dev/null", "-w", "%{http_code}", "http://198.18.5.1/none"]);
    assert_eq!(missing.unwrap(), "404");
    let script = "import socket, time\n\
        s = socket.create_connection(('198.18.5.1', 80), 60)\n\
        s.sendall(b'GET / HTTP/1.1\\r\\nHo'); time.sleep(0.05)\n\
        s.sendall(b'st: x\\r\\n\\r\\nGET / HTTP/1.1\\r\\nConnection: close\\r\\n\\r\\n')\n\
        d = b''\n\
        while True:\n    x = s.recv(65536)\n    if not x: break\n    d += x\n\
        print(d.count(b'HTTP/1.1 200 OK'), d.count(b'hello'))";
    if let Some(text) = place.program("python3", &["-c", script]) {
        assert_eq!(text, "2 2\n");
    }
    server.signal("INT");
    let ended = server.end();
    ended.expect_code(0);
    assert!(ended.stdout.contains("requests"), "{}", ended.stdout);
}

#[test]
fn wrk_and_ab_find_no_error() {
    let Some(place) = Place::new() else { return };
    let _server = place.serve("http --body 500");
    if let Some(text) = place.program("wrk", &["-t1", "-c10", "-d1s", "http://198.18.5.1/"]) {
        assert!(text.contains("requests in") && !text.contains("Socket errors") && !text.contains("Non-2xx"), "{text}");
    }
    for keep_alive in [&["-k"][..], &[]] {
        let words = [keep_alive, &["-q", "-n", "300", "-c", "5", "http://198.18.5.1/"]].concat();
        if let Some(text) = place.program("ab", &words) {
            assert!(
                text.contains("Complete requests:      300") && text.contains("Failed requests:        0"),
                "{text}"
            );
        }
    }
}

#[test]
fn nginx_is_loaded_and_every_request_accounted_for() {
    let Some(place) = Place::new() else { return };
    let Some(_nginx) = place.nginx() else { return };
    let load = |words: &str| {
        let network = format!("--port packet:{INTERFACE} {SERVER} --json -q");
        place.linerate(&place.wire.right, &format!("tcp load {words} {network}")).end()
    };
    for host in ["198.18.5.2", "[fd00:5::2]"] {
        let ended = load(&format!(
            "http://{host}:8080/ -c 5 -n 400 --expect-bytes 615 --expect-file {}/index.html",
            place.folder.path().display()
        ));
        let document = last(ended.expect_code(0));
        assert_eq!((&document["requests"]["completed"], &document["statuses"]["200"]), (&400.into(), &400.into()));
        assert_eq!(document["latency"]["count"], 400);
    }
    let ended = load("http://198.18.5.2:8080/ --connection-rate 200 -d 1s");
    let document = last(ended.expect_code(0));
    assert_eq!((&document["connections"]["completed"], &document["requests"]["completed"]), (&200.into(), &200.into()));
    let ended = load("http://198.18.5.2:8080/none -n 10");
    assert_eq!(last(ended.expect_code(1))["statuses"]["404"], 10);
    let ended = load("http://198.18.5.2:8081/ -d 300ms");
    assert_eq!(last(ended.expect_code(1))["connections"]["lost"][0]["cause"], "refused");
}

/// Cores of this process, as `--cores` takes them; none where there is only one.
fn two_cores() -> Option<String> {
    let allowed = linerate_sys::affinity::allowed_cores();
    match allowed.as_slice() {
        [one, other, ..] => Some(format!("{one},{other}")),
        _ => {
            eprintln!("skipped: this process has one core");
            None
        }
    }
}

/// Curl and wrk against a server of two cores over an interface of one queue; then a load of two cores against nginx.
#[test]
fn two_cores_share_the_connections_of_others() {
    let (Some(place), Some(cores)) = (Place::new(), two_cores()) else { return };
    let server = place.serve(&format!("http --body 3000 --name cores --cores {cores}"));
    for host in ["198.18.5.1", "[fd00:5::1]"] {
        for _ in 0..12 {
            let url = format!("http://{host}/");
            let words = ["-g", "-s", "-m", "60", "-o", "/dev/null", "-w", "%{http_code} %{size_download}", &url];
            if let Some(text) = place.program("curl", &words) {
                assert_eq!(text, "200 3000");
            }
        }
    }
    if let Some(text) = place.program("wrk", &["-t1", "-c20", "-d1s", "http://198.18.5.1/"]) {
        assert!(text.contains("requests in") && !text.contains("Socket errors") && !text.contains("Non-2xx"), "{text}");
    }
    let words = "-c 2 -i 0.2 -w 20 -s 4000 198.18.5.1";
    if let Some(text) = place.program("ping", &words.split(' ').collect::<Vec<_>>()) {
        assert!(text.contains("2 received") && !text.contains("duplicates"), "a long ping has one answer: {text}");
    }
    let ended = place.linerate(&place.wire.right, "tcp ctl --name cores show stats").end();
    ended.expect_code(0);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let of_cores = document["cores"].as_array().unwrap();
    let accepted = |core: &Value| core["served"]["connections"].as_u64().unwrap();
    assert!(of_cores.len() == 2 && of_cores.iter().all(|core| accepted(core) > 3), "{document}");
    assert_eq!(of_cores.iter().map(accepted).sum::<u64>(), accepted(&document));
    let ended = place.linerate(&place.wire.right, "tcp ctl --name cores stop").end();
    ended.expect_code(0);
    let ended = server.end();
    ended.expect_code(0);
    let text = &ended.stdout;
    assert!(text.contains("handed over") && text.contains("of a core"), "{text}");
    let Some(_nginx) = place.nginx() else { return };
    let load = |words: &str| {
        let network = format!("--port packet:{INTERFACE} {SERVER} --cores {cores} --json -q");
        place.linerate(&place.wire.right, &format!("tcp load {words} {network}")).end()
    };
    let ended = load("http://198.18.5.2:8080/ -c 10 -n 401 --expect-bytes 615 -k 20");
    let document = last(ended.expect_code(0));
    assert_eq!(document["requests"]["completed"], 401);
    let completed = document["cores"].as_array().unwrap().iter().map(|core| core["requests"]["completed"].as_u64());
    assert_eq!(completed.collect::<Vec<_>>(), [Some(201), Some(200)]);
    let ended = load("http://198.18.5.2:8081/ -c 4 -d 300ms");
    assert_eq!(last(ended.expect_code(1))["connections"]["lost"][0]["cause"], "refused");
    let ended = load("http://198.18.5.2:8080/ -c 1");
    assert!(ended.expect_code(2).stderr.contains("name fewer cores"), "{}", ended.stderr);
}

/// Both cores use the address that DHCP gave the first one, and their captures have the packets of both.
#[test]
fn two_cores_use_one_lease() {
    let (Some(place), Some(cores)) = (Place::new(), two_cores()) else { return };
    let log = place.folder.path().join("dnsmasq.log");
    let words = format!(
        "--no-daemon --conf-file=/dev/null --no-resolv --no-hosts --user=root --group=root --interface={INTERFACE} \
         --bind-interfaces --dhcp-authoritative --dhcp-range=198.18.5.50,198.18.5.50,255.255.255.0,120 \
         --dhcp-leasefile={0}/leases --pid-file={0}/dnsmasq.pid --log-facility={1}",
        place.folder.path().display(),
        log.display()
    );
    let mut command = Command::new("dnsmasq");
    command.args(words.split_whitespace()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = place.wire.left.run(|| command.spawn()).expect("enter");
    let Some(_dnsmasq) = program_or_skip("dnsmasq", started).map(Started) else { return };
    let capture = place.folder.path().join("frames.pcapng");
    let line = format!("tcp serve http --body 3000 --port packet:{INTERFACE} --dhcp --cores {cores} --name leased");
    let server = place.linerate(&place.wire.right, &format!("{line} --capture {}", capture.display()));
    server.wait_for("server", |text| text.contains("leased serves at 198.18.5.50/24;"));
    for _ in 0..12 {
        let url = "http://198.18.5.50/";
        let words = ["-s", "-m", "60", "-o", "/dev/null", "-w", "%{http_code} %{size_download}", url];
        if let Some(text) = place.program("curl", &words) {
            assert_eq!(text, "200 3000");
        }
    }
    let ended = place.linerate(&place.wire.right, "tcp ctl --name leased show stats").end();
    let document: Value = serde_json::from_str(&ended.expect_code(0).stdout).unwrap();
    let accepted: Vec<u64> = document["cores"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|core| core["served"]["connections"].as_u64())
        .collect();
    assert!(accepted.len() == 2 && accepted.iter().all(|connections| *connections > 0), "{document}");
    place.linerate(&place.wire.right, "tcp ctl --name leased stop").end().expect_code(0);
    let ended = server.end();
    let text = &ended.expect_code(0).stdout;
    assert!(text.contains(&format!("{}: ", capture.display())) && !text.contains("missing"), "{text}");
}

/// It has no other port, and its account has what passed the one that is gone.
/// Answers to 100 connections take longer than 200 us, so the interface of a closed loop collects packets, unless it is told not to.
#[test]
fn the_interface_of_a_closed_loop_collects_packets() {
    let Some(place) = Place::new() else { return };
    let probe = || linerate_sys::napi::Deferral::hold(INTERFACE, Some(100)).map(drop);
    if let Err(error) = place.wire.left.run(probe).expect("enter") {
        return eprintln!("skipped: no fresh sysfs: {error}");
    }
    let server = place.serve("echo");
    let deferred = |words: &str| {
        let line =
            format!("tcp load tcp://198.18.5.1:7 --port packet:{INTERFACE} --address 198.18.5.3/24 --no-dad --json");
        let document = last(place.linerate(&place.wire.left, &format!("{line} {words}")).end().expect_code(0));
        document.get("deferred_us").map(|us| us.as_u64().unwrap())
    };
    let of_closed_loop = deferred("-c 100 -d 1s");
    assert!(of_closed_loop.is_some_and(|us| (20..=500).contains(&us)), "{of_closed_loop:?}");
    for words in ["-c 100 -d 1s --no-defer", "-c 100 --rate 2k -d 1s", "-c 100 --think 1ms -d 1s"] {
        assert_eq!(deferred(words), None, "{words}");
    }
    drop(server);
}

#[test]
fn a_server_whose_interface_is_deleted_ends() {
    let Some(place) = Place::new() else { return };
    let server = place.serve("http --body 3000");
    let Some(text) = place.program("curl", &["-s", "-m", "60", "http://198.18.5.1/"]) else { return };
    assert_eq!(text.len(), 3000);
    place.program("ip", &["link", "del", INTERFACE]).unwrap();
    let ended = server.end();
    let text = &ended.expect_code(1).stdout;
    let account = text.split_once("packets of packet:").unwrap().1;
    let sent: Vec<&str> = account.lines().find(|line| line.contains("sent")).unwrap().split_whitespace().collect();
    assert!(sent[1].parse::<u64>().unwrap() >= 5, "{text}");
}

#[test]
fn ctl_shows_a_connection_that_echoes() {
    let Some(place) = Place::new() else { return };
    let server = place.serve("echo --name shown");
    let script = "import socket, sys\n\
        s = socket.create_connection(('198.18.5.1', 7), 60); s.sendall(b'x' * 1000)\n\
        n = 0\n\
        while n < 1000: n += len(s.recv(4096))\n\
        print('echoed', flush=True); sys.stdin.read()";
    let mut command = Command::new("python3");
    command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Some(child) = program_or_skip("python3", place.wire.left.run(|| command.spawn()).expect("enter")) else {
        return;
    };
    let mut python = Started(child);
    let mut line = String::new();
    let out = python.0.stdout.as_mut().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
    assert_eq!(line, "echoed\n");
    let ctl = |words: &str| {
        let ended = place.linerate(&place.wire.right, &format!("tcp ctl --name shown {words}")).end();
        ended.expect_code(0);
        ended.stdout
    };
    let table = ctl("show connections");
    assert!(table.contains("ESTAB") && table.contains("198.18.5.1:7") && table.contains("rto:"), "{table}");
    assert!(ctl("show counters").contains("TcpPassiveOpens                  1"));
    let document: Value = serde_json::from_str(&ctl("show stats")).unwrap();
    assert_eq!(document["served"]["connections"], 1);
    python.0.stdin.as_mut().unwrap().flush().unwrap();
    drop(python);
    ctl("stop");
    server.end().expect_code(0);
}

#[test]
fn an_address_of_this_hosts_kernel_is_refused() {
    let Some(place) = Place::new() else { return };
    let line = format!("tcp serve echo --port packet:{INTERFACE} --address 198.18.5.2/24");
    let ended = place.linerate(&place.wire.left, &line).end();
    ended.expect_code(2);
    assert!(
        ended.stderr.contains("198.18.5.2")
            && ended.stderr.contains(INTERFACE)
            && ended.stderr.contains("an address that nobody has"),
        "{}",
        ended.stderr
    );
    let line = format!("tcp serve echo --port packet:{INTERFACE}");
    assert!(place.linerate(&place.wire.left, &line).end().expect_code(2).stderr.contains("--address"));
}
