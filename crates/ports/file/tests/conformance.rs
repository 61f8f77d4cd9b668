//! Files keep the contract of ports: what is written is read again.

use linerate_mem::Pool;
use linerate_port::{Port, PortSpec};
use linerate_port_file::open;
use linerate_testkit::{Facts, Harness, Link, Outcome, Report, check_all};
use tempfile::TempDir;

struct Files {
    directory: TempDir,
    extension: &'static str,
    number: usize,
}

impl Files {
    fn new(extension: &'static str) -> Files {
        Files { directory: TempDir::new().unwrap(), extension, number: 0 }
    }
}

fn port(text: &str, pool: &Pool) -> Result<Box<dyn Port>, String> {
    let spec: PortSpec = text.parse().map_err(|error| format!("{error}"))?;
    open(spec, pool).map(|device| device.into_port()).map_err(|error| error.to_string())
}

impl Harness for Files {
    fn name(&self) -> String {
        format!("file, .{}", self.extension)
    }

    fn facts(&self) -> Facts {
        Facts { lossless: true, ..Facts::default() }
    }

    fn open(&mut self, pool: &Pool, _start: u32) -> Result<Link, String> {
        self.number += 1;
        let path = self.directory.path().join(format!("{}.{}", self.number, self.extension));
        let name = format!("file:{}", path.display());
        let sender = port(&format!("{name},write"), pool)?;
        Ok(Link::Store { sender, reopen: Box::new(move |pool| port(&name, pool)) })
    }
}

fn check(extension: &'static str) -> Report {
    let report = check_all(&mut Files::new(extension));
    for check in
        ["order and content", "timestamps", "packets of several slots", "frame too long", "end", "small batches"]
    {
        assert!(matches!(report.outcome(check), Some(Outcome::Passed(_))), "{check}");
    }
    report
}

#[test]
fn pcapng() {
    check("pcapng");
}

#[test]
fn pcap() {
    check("pcap");
}
