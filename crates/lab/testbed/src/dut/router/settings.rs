//! What a router can be told: the keys of its table.

use std::collections::BTreeMap;

use linerate_experiment::DutSettings;
use linerate_experiment::section::{self, Section};

use super::super::kind::{Settings, one};
use super::super::{Built, DutError, ExpectedLoss};
use crate::topology::TopologySpec;

/// Most firewall rules of a router.
const RULES_MAX: u64 = 100_000;

/// The Linux kernel, routing between the two links: its rules, and the commands that set it up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Router {
    /// Which tool makes them; needed when anything below is set.
    pub tool: Option<FirewallTool>,
    /// So many rules that no packet of the test matches, before all others.
    pub rules: u32,
    /// The two rules of the 2019 experiment: accept RELATED and ESTABLISHED towards each side.
    pub conntrack: bool,
    /// Source addresses are translated, one rule for each direction.
    pub snat: bool,
    /// Settings of the DUT's namespace, by path under /proc/sys: `net/netfilter/nf_conntrack_max` and the like.
    pub sysctls: BTreeMap<String, String>,
    /// Command lines for `sh -c` in the DUT's namespace, run one after another once all else is set.
    pub setup: Vec<String>,
    /// The same, run before the namespace goes; what they answer does not matter.
    pub teardown: Vec<String>,
    /// The row of the ledger that its losses are expected in.
    pub loses: Option<ExpectedLoss>,
}

/// What installs rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirewallTool {
    /// `iptables`.
    Iptables,
    /// `nft`.
    Nft,
}

impl DutSettings for Router {
    fn commands(&self) -> Vec<String> {
        [self.setup.as_slice(), &self.teardown].concat()
    }
}

impl Settings for Router {
    const WORD: &str = "router";
    const ABOUT: &str = "the Linux kernel, routing between the two links, with firewall rules or without";

    fn read(table: &Section<'_>) -> Vec<(String, Self)> {
        let tool = table.word(
            "firewall",
            "firewall",
            &[("iptables", FirewallTool::Iptables), ("nftables", FirewallTool::Nft), ("nft", FirewallTool::Nft)],
        );
        let rules = table.integer("rules", 0..=RULES_MAX).unwrap_or(0) as u32;
        let conntrack = table.boolean("conntrack").unwrap_or(false);
        let snat = table.boolean("snat").unwrap_or(false);
        let key = [("rules", rules > 0), ("conntrack", conntrack), ("snat", snat)].into_iter().find(|(_, set)| *set);
        match key {
            Some((key, _)) if !table.has("firewall") => {
                table.error(key, format!("`{key}` needs firewall = \"iptables\" or \"nft\", which installs the rules"));
            }
            None if tool.is_some() && !["rules", "conntrack", "snat"].iter().any(|key| table.has(key)) => {
                table.error(
                    "firewall",
                    "a firewall without rules does nothing; expected rules, conntrack or snat beside it",
                );
            }
            _ => {}
        }
        let lines = |key| table.texts(key).unwrap_or_default();
        let (setup, teardown) = (lines("setup"), lines("teardown"));
        one(Self { tool, rules, conntrack, snat, sysctls: sysctls(table), setup, teardown, loses: loses(table) })
    }

    fn build(&self, path: &TopologySpec) -> Result<Built, DutError> {
        super::build(self, path)
    }
}

/// The row that losses are expected in.
fn loses(table: &Section<'_>) -> Option<ExpectedLoss> {
    let value = table.value("loses")?;
    let log = table.log;
    let words = |key| value.get_ref().as_table()?.get(key).and_then(|value| section::text(value, key, log));
    match (words("place"), words("cause")) {
        (Some(place), Some(cause)) => Some(ExpectedLoss { place, cause }),
        _ => log.refuse(
            value.span(),
            "`loses` needs a place and a cause, as { place = \"DUT, IPv4 input\", cause = \"no route\" }",
        ),
    }
}

/// Settings under /proc/sys/net, by path.
fn sysctls(table: &Section<'_>) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    let Some(value) = table.value("sysctls") else { return settings };
    let log = table.log;
    let Some(entries) = value.get_ref().as_table() else {
        log.error(value.span(), "`sysctls` is no table; expected { \"net/netfilter/nf_conntrack_max\" = 1000 }");
        return settings;
    };
    for (key, value) in entries {
        let Some(path) = sysctl_path(key.get_ref()) else {
            let shown: String = key.get_ref().chars().take(80).collect();
            let message = format!("sysctl {shown:?} is not under net/; expected a path as net/ipv4/ip_default_ttl");
            log.error(key.span(), message);
            continue;
        };
        let setting = match value.get_ref().is_integer() {
            true => section::integer(value, &path, 0..=i64::MAX as u64, log).map(|n| n.to_string()),
            false => section::text(value, &path, log),
        };
        let Some(setting) = setting else { continue };
        if setting.is_empty() || setting.len() > 256 || setting.chars().any(char::is_control) {
            log.error(value.span(), format!("{path}: expected a value of 1 to 256 characters on one line"));
            continue;
        }
        if settings.insert(path.clone(), setting).is_some() {
            log.error(key.span(), format!("{path} is set twice"));
        }
    }
    settings
}

/// `net.ipv4.ip_forward` and `net/ipv4/ip_forward` as a path below /proc/sys; `None` for what leads elsewhere.
fn sysctl_path(key: &str) -> Option<String> {
    let path = if key.contains('/') { key.to_string() } else { key.replace('.', "/") };
    let is_part = |part: &str| {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        !part.is_empty() && part != "." && part != ".." && part.chars().all(is_plain)
    };
    let parts: Vec<&str> = path.split('/').collect();
    let fits = parts.len() >= 3 && path.len() <= 200 && parts.first() == Some(&"net");
    (fits && parts.iter().all(|part| is_part(part))).then_some(path)
}
