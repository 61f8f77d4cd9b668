//! A veth pair between two namespaces of their own, for the tools that send and receive over the kernel.

use std::process::Command;

use super::Unable;

/// Two namespaces, joined; removed when dropped.
pub struct Veth {
    /// Namespace of the sender, whose interface is `tx0`.
    pub near: String,
    /// Namespace of the receiver, whose interface is `rx0`.
    pub far: String,
}

impl Veth {
    /// Makes the pair. Frames to other addresses than the far one's are dropped early in its stack.
    pub fn new() -> Result<Veth, Unable> {
        let pid = std::process::id();
        let veth = Veth { near: format!("lrbench{pid}a"), far: format!("lrbench{pid}b") };
        let (near, far) = (&veth.near, &veth.far);
        for line in [
            format!("netns add {near}"),
            format!("netns add {far}"),
            format!(
                "-n {near} link add tx0 address 02:00:00:00:00:01 type veth peer name rx0 address 02:00:00:00:00:02 netns {far}"
            ),
            format!("-n {near} link set lo up"),
            format!("-n {near} link set tx0 up"),
            format!("-n {far} link set rx0 up"),
        ] {
            ip(&line)?;
        }
        for name in [near, far] {
            let quiet = "net.ipv6.conf.all.disable_ipv6=1";
            let _ = Command::new("ip").args(["netns", "exec", name, "sysctl", "-qw", quiet]).status();
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        Ok(veth)
    }

    /// Makes the far interface take live XDP frames: with GRO it runs NAPI.
    pub fn take_live_frames(&self) -> Result<(), Unable> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.far, "ethtool", "-K", "rx0", "gro", "on"]);
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            _ => Err("ethtool cannot turn GRO on at rx0".into()),
        }
    }

    /// Packets that the far interface has received.
    pub fn received(&self) -> Result<u64, Unable> {
        let output = Command::new("ip").args(["netns", "exec", &self.far, "cat", "/proc/net/dev"]).output();
        let text = output.map_err(|error| error.to_string())?.stdout;
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().find_map(|line| line.trim().strip_prefix("rx0:")).ok_or("rx0 is gone")?;
        line.split_whitespace().nth(1).and_then(|count| count.parse().ok()).ok_or_else(|| "no count of rx0".into())
    }

    /// A command inside one of the namespaces, tied to `core`.
    pub fn inside(&self, namespace: &str, core: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, "taskset", "-c", &core.to_string(), program]);
        command
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        for name in [&self.near, &self.far] {
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

fn ip(line: &str) -> Result<(), Unable> {
    let output = Command::new("ip").args(line.split(' ')).output().map_err(|error| format!("ip: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ip {line}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
