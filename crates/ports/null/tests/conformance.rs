//! `null:` keeps the contract of ports.

use linerate_mem::Pool;
use linerate_port_null::open;
use linerate_testkit::{Harness, Link, Outcome, check_all};

struct Null;

impl Harness for Null {
    fn name(&self) -> String {
        "null:".into()
    }

    fn open(&mut self, pool: &Pool, _start: u32) -> Result<Link, String> {
        let spec = "null:".parse().map_err(|error| format!("{error}"))?;
        let device = open(spec, pool).map_err(|error| error.to_string())?;
        Ok(Link::Sender(device.boxed().into_port()))
    }
}

#[test]
fn null() {
    let report = check_all(&mut Null);
    for check in ["frame too long", "packets of several slots", "counters balance", "end"] {
        assert!(matches!(report.outcome(check), Some(Outcome::Passed(_))), "{check}");
    }
}
