//! Ports of the in-process switch keep the contract of ports.

use linerate_l2::{PortSettings, SwitchConfig};
use linerate_mem::{Pool, PoolConfig};
use linerate_switch::{Clocks, InlineSwitch};
use linerate_testkit::{Facts, Harness, Link, Outcome, check_all};

struct Inline {
    ring: usize,
    isolated: bool,
    pool: PoolConfig,
}

impl Harness for Inline {
    fn name(&self) -> String {
        let pools = if self.isolated { "two pools" } else { "one pool" };
        format!("in-process switch, rings of {} slots, {pools}, frames of {} bytes", self.ring, self.pool.frame_size)
    }

    fn facts(&self) -> Facts {
        Facts { window: self.ring, ..Facts::default() }
    }

    fn pool(&self) -> PoolConfig {
        self.pool
    }

    fn open(&mut self, pool: &Pool, _start: u32) -> Result<Link, String> {
        let settings = PortSettings::default;
        let between =
            if self.isolated { Pool::new(self.pool).map_err(|error| error.to_string())? } else { pool.clone() };
        let switch = InlineSwitch::new(SwitchConfig::default(), &between, Clocks::one(|| 0))
            .map_err(|error| error.to_string())?;
        let attach = |name| match self.isolated {
            true => switch.attach_isolated(name, settings(), self.ring, pool),
            false => switch.attach_with(name, settings(), self.ring),
        };
        let [sender, receiver] = [attach("a"), attach("b")].map(|port| port.map_err(|error| error.to_string()));
        Ok(Link::Pair { sender: Box::new(sender?), receiver: Box::new(receiver?) })
    }
}

#[test]
fn ports_that_share_a_pool() {
    let pool = PoolConfig { frames: 4096, ..PoolConfig::default() };
    let report = check_all(&mut Inline { ring: 1024, isolated: false, pool });
    assert!(matches!(report.outcome("packets of several slots"), Some(Outcome::Passed(_))));
}

#[test]
fn small_rings_and_small_frames() {
    let pool = PoolConfig { frames: 2048, frame_size: 1024 };
    check_all(&mut Inline { ring: 8, isolated: false, pool });
}

#[test]
fn isolated_ports() {
    let pool = PoolConfig { frames: 4096, ..PoolConfig::default() };
    let report = check_all(&mut Inline { ring: 1024, isolated: true, pool });
    assert!(matches!(report.outcome("packets of several slots"), Some(Outcome::Passed(_))));
}
