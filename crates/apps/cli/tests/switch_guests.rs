//! Two virtual machines on a real `linerate switch`, each behind a vhost-user port: one pings the other and sends it a file.

#[path = "../../../ports/vhost/tests/common/machine.rs"]
mod machine;
#[path = "../../../ports/vhost/tests/common/program.rs"]
mod program;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use machine::{Card, guest, talk};
use serde_json::Value;

/// How long something may take that is to come for sure.
const LONG: Duration = Duration::from_secs(120);

/// A switch that does not outlive the test.
struct Switch {
    child: Child,
    folder: tempfile::TempDir,
}

impl Switch {
    fn command(folder: &tempfile::TempDir, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.args(words).env("XDG_RUNTIME_DIR", folder.path()).stdin(Stdio::null());
        command
    }

    /// Started with the ports `a` and `b`.
    fn start() -> Switch {
        let folder = tempfile::tempdir().expect("a folder");
        let port = |name: &str| format!("{name}=vhost:{}", folder.path().join(name).display());
        let words = ["switch", "--quiet", "--port", &port("a"), "--port", &port("b")];
        let child = Switch::command(&folder, &words).spawn().expect("linerate starts");
        let mut switch = Switch { child, folder };
        let deadline = Instant::now() + LONG;
        while switch.show("ports") == Value::Null {
            assert_eq!(switch.child.try_wait().expect("its state"), None, "the switch ended");
            assert!(Instant::now() < deadline, "it does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        switch
    }

    fn show(&self, what: &str) -> Value {
        let asked = Switch::command(&self.folder, &["switch", "ctl", "show", what, "--json"]).output();
        serde_json::from_slice(&asked.expect("linerate runs").stdout).unwrap_or(Value::Null)
    }

    /// Stops it; whether all went well.
    fn stop(&mut self) -> bool {
        let asked = Switch::command(&self.folder, &["switch", "ctl", "stop"]).output();
        assert!(asked.expect("linerate runs").status.success(), "it takes no order");
        self.child.wait().expect("its end").success()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn two_guests_ping_each_other_and_send_a_file_through_the_switch() {
    let Some(guest) = guest() else { return };
    let mut switch = Switch::start();
    let sockets = ["a", "b"].map(|name| switch.folder.path().join(name));
    let said = talk(&guest, [&sockets[0], &sockets[1]], [Card::default(); 2], "");
    let stats = switch.show("stats");
    said.check(&stats);
    drop(said);
    // 2 MiB in packets of 1,500 bytes at most, unless the guests' kernels send longer ones.
    let count = |path: &str| stats.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    assert!(count("/ports/0/received") > 40 && count("/ports/1/received") > 40, "{stats}");
    assert!(count("/ports/0/received_bytes") > 2 << 20 && count("/ports/1/sent_bytes") > 2 << 20, "{stats}");
    assert_eq!(stats["totals"]["unbalanced"], Value::Null, "{stats}");
    let macs = switch.show("macs").to_string();
    assert!(macs.contains("02:00:00:00:00:01") && macs.contains("02:00:00:00:00:02"), "{macs}");
    println!(
        "the switch: {} packets received, {} sent, dropped {}",
        count("/totals/received"),
        count("/totals/sent"),
        stats["totals"]["drops"]
    );
    assert!(switch.stop(), "the account does not balance, or a port was lost");
}
