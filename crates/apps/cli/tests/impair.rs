//! Impaired ports from the outside: captures, which need no rights, and hosts that talk TCP through `linerate bridge`.

use super::common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Chain, INTERFACE, Run};
use linerate_sys::netns::NetNs;
use serde_json::Value;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// What was lost for a cause that begins with `cause`.
fn lost(rows: &Value, cause: &str) -> u64 {
    let rows = rows.as_array().unwrap().iter().filter(|row| row["cause"].as_str().unwrap().starts_with(cause));
    rows.map(|row| number(&row["packets"])).sum()
}

#[test]
fn the_same_seed_lets_the_same_packets_through() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    Run::start(&format!("send file:{} --count 5000 --rate 1Mpps -q", path("in.pcapng"))).end().expect_code(0);
    let bridge = |words: &str, out: &str| {
        let (near, far) = (format!("file:{}", path("in.pcapng")), format!("file:{}", path(out)));
        let arguments = ["bridge", &near, &far, "--impair", words, "--json", "-q"];
        let ended = Run::from(Command::new(env!("CARGO_BIN_EXE_linerate")).args(arguments)).end();
        ended.expect_code(0);
        let document: Value = serde_json::from_str(&ended.stdout).unwrap();
        let lane = document["lanes"][0].clone();
        let came = number(&lane["received"]) + number(&lane["duplicated"]);
        assert_eq!(came, number(&lane["forwarded"]) + lost(&lane["drops"], ""), "{lane}");
        (lane, std::fs::read(path(out)).unwrap())
    };
    let words = "loss 5% duplicate 3% corrupt 2% seed 3";
    let (lane, once) = bridge(words, "once.pcapng");
    assert!((180..=320).contains(&lost(&lane["drops"], "random loss")), "{lane}");
    assert!((90..=210).contains(&number(&lane["duplicated"])), "{lane}");
    assert!((55..=145).contains(&number(&lane["corrupted"])), "{lane}");
    assert!(once == bridge(words, "again.pcapng").1);
    assert!(once != bridge("loss 5% duplicate 3% corrupt 2% seed 4", "other.pcapng").1);
}

#[test]
fn a_name_carries_impairments_and_mistakes_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.pcapng").display().to_string();
    Run::start(&format!("send file:{path} --count 1000 --rate 1Mpps -q")).end().expect_code(0);
    let bridge = |arguments: &[&str]| {
        Run::from(Command::new(env!("CARGO_BIN_EXE_linerate")).arg("bridge").args(arguments)).end()
    };
    let ended =
        bridge(&[&format!("file:{path},impair-rx=loss gemodel 5% 50%"), "null:,impair=delay 1ms limit 50", "--json"]);
    ended.expect_code(0);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let lane = &document["lanes"][0];
    let received = number(&lane["received"]);
    assert_eq!(received + lost(&lane["rx_missed"], "random loss"), 1000, "{lane}");
    assert_eq!(number(&lane["forwarded"]) + lost(&lane["drops"], "queue full"), received, "{lane}");
    for (name, words) in [
        ("null:,impair=los 1%", "did you mean loss?"),
        ("null:,impair=loss 1", "write 1%"),
        ("null:,impair-rx=loss 1%", "only sends"),
        ("null:,impair=loss 1%,impair-tx=loss 1%", "write impair-rx and impair-tx"),
        ("null:,impiar=loss 1%", "unknown option impiar"),
    ] {
        let ended = bridge(&[&format!("file:{path}"), name]);
        ended.expect_code(2);
        assert!(ended.stderr.contains(words), "{name}: {}", ended.stderr);
    }
    let ended = bridge(&[&format!("file:{path}"), "null:", "--impair-reverse", "loss 1%"]);
    assert!(ended.expect_code(2).stderr.contains("--impair-reverse"), "{}", ended.stderr);
}

/// Gives the two hosts addresses; false where there is no ip(8).
fn address(chain: &Chain) -> bool {
    [(&chain.left, "10.9.0.1/24"), (&chain.right, "10.9.0.2/24")].into_iter().all(|(host, address)| {
        let ip = || Command::new("ip").args(["address", "add", address, "dev", INTERFACE]).status();
        match host.run(ip).expect("enter") {
            Ok(status) => status.success(),
            Err(error) => {
                eprintln!("skipped: ip(8) cannot be run: {error}");
                false
            }
        }
    })
}

const BYTES: usize = 4 << 20;
const PATIENCE: Duration = Duration::from_secs(120);

fn connection(host: &NetNs) -> TcpStream {
    let connect = || TcpStream::connect_timeout(&"10.9.0.2:9000".parse().unwrap(), PATIENCE);
    let stream = host.run(connect).expect("enter").expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

#[test]
fn tcp_gets_through_loss_and_delay() {
    let Some(chain) = Chain::new() else { return };
    if !address(&chain) {
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.args(["bridge", "packet:near", "packet:far", "--json", "--impair"]);
    command.arg("delay 10ms 1ms ordered loss 1% duplicate 1% limit 20k seed 5");
    let bridge = chain.middle.run(|| Run::from(&mut command)).expect("enter");
    bridge.wait_for("both ports", |text| text.lines().filter(|line| line.contains(';')).count() >= 2);
    let listener = chain.right.run(|| TcpListener::bind("10.9.0.2:9000")).expect("enter").expect("listening");
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            stream.write_all(&bytes[..count]).unwrap();
        }
    });
    let mut stream = connection(&chain.left);
    // No answer comes before both its ways were delayed.
    for _ in 0..20 {
        let (asked, mut answer) = (Instant::now(), [0; 64]);
        stream.write_all(&[7; 64]).unwrap();
        stream.read_exact(&mut answer).unwrap();
        assert!(asked.elapsed() >= Duration::from_millis(18), "{:?}", asked.elapsed());
    }
    let mut sender = stream.try_clone().unwrap();
    let sent: Vec<u8> = (0..BYTES as u32).map(|at| (at.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
    let sending = std::thread::spawn({
        let sent = sent.clone();
        move || sender.write_all(&sent).unwrap()
    });
    let mut received = vec![0; BYTES];
    stream.read_exact(&mut received).unwrap();
    assert!(received == sent, "TCP carries what was sent, whatever happens to its packets");
    sending.join().unwrap();
    drop(stream);
    echo.join().unwrap();
    bridge.signal("INT");
    let ended = bridge.end();
    ended.expect_code(0);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    for lane in document["lanes"].as_array().unwrap() {
        let came = number(&lane["received"]) + number(&lane["duplicated"]);
        let gone = number(&lane["forwarded"]) + lost(&lane["drops"], "") + number(&lane["tx_pending"]);
        assert_eq!((came, lane["unexplained"].as_i64()), (gone, Some(0)), "{lane}");
        // 4 MiB are 2,900 packets.
        assert!(lost(&lane["drops"], "random loss") > 0 && number(&lane["duplicated"]) > 0, "{lane}");
        assert_eq!(lost(&lane["drops"], "queue full"), 0, "{lane}");
    }
}
