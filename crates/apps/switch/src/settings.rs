//! Settings of a port, from words to what the engine takes. This file is the one place that documents the words.
//!
//! | word | value | what it does |
//! |---|---|---|
//! | `access` | VLAN | the port belongs to one VLAN and knows nothing of it: packets go in and out without a tag |
//! | `trunk` | `all`, `none`, `10,20-30` | packets carry the tag of their VLAN, which is one of these |
//! | `native` | VLAN, `none` | of a trunk: the VLAN of packets without a tag; none drops them |
//! | `qinq` | VLAN | the customer's side of a provider: everything goes into this VLAN, with its own tags inside |
//! | `ethertype` | `0x8100`, `0x88a8` | of a trunk: the kind of its tags; 0x88a8 towards a provider |
//! | `isolated` | yes, no | nothing goes from one isolated port to another |
//! | `learning` | yes, no | addresses are learned here |
//! | `monitor` | yes, no | in no VLAN: the port gets what mirrors copy to it, and nothing else |
//! | `storm-broadcast`, `storm-multicast`, `storm-unknown` | packets a second | of what comes in here, no more is flooded |
//! | `rate` | bit/s | no more comes in here |
//! | `rate-packets` | packets a second | no more comes in here |
//!
//! A value of `default` takes a setting back.

use std::collections::BTreeMap;

use linerate_l2::{CUSTOMER_TAG, PortSettings, Rate, SERVICE_TAG, StormLimits, VlanMode, VlanSet};
use linerate_port::Caps;

use crate::protocol::Refusal;
use crate::words::{Word, scaled, vlan, vlans, yes_or_no};

const KEYS: [&str; 13] = [
    "access",
    "trunk",
    "native",
    "qinq",
    "ethertype",
    "isolated",
    "learning",
    "monitor",
    "storm-broadcast",
    "storm-multicast",
    "storm-unknown",
    "rate",
    "rate-packets",
];

/// Checked settings of a port: the words, and what they mean to the engine.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    words: BTreeMap<String, Word>,
    engine: PortSettings,
}

impl Settings {
    pub(crate) fn new(words: &BTreeMap<String, Word>) -> Result<Settings, Refusal> {
        let words: BTreeMap<_, _> = words.iter().filter(|(_, word)| word.0 != "default").collect();
        if let Some(unknown) = words.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(Refusal::new(
                format!("there is no setting {unknown}"),
                format!("there are {}", KEYS.join(", ")),
            ));
        }
        let words: BTreeMap<String, Word> = words.into_iter().map(|(key, word)| (key.clone(), word.clone())).collect();
        let engine = Reader(&words).settings()?;
        Ok(Settings { words, engine })
    }

    /// These settings with some changed.
    pub(crate) fn with(&self, changes: &BTreeMap<String, Word>) -> Result<Settings, Refusal> {
        let mut words = self.words.clone();
        words.extend(changes.iter().map(|(key, word)| (key.clone(), word.clone())));
        Settings::new(&words)
    }

    /// What the engine takes, for a port that can do this.
    pub(crate) fn engine(&self, caps: &Caps) -> PortSettings {
        PortSettings { frame_len_max: caps.frame_len_max, ..self.engine.clone() }
    }

    /// The words, as they were given.
    pub(crate) fn words(&self) -> BTreeMap<String, String> {
        self.words.iter().map(|(key, word)| (key.clone(), word.0.clone())).collect()
    }
}

struct Reader<'a>(&'a BTreeMap<String, Word>);

impl Reader<'_> {
    fn settings(&self) -> Result<PortSettings, Refusal> {
        let learning = self.read("learning", yes_or_no)?;
        let monitor = self.read("monitor", yes_or_no)?.unwrap_or(false);
        let packets = |text: &str| scaled(text, &["pps", "packets/s"]);
        let bits = |text: &str| scaled(text, &["bit/s", "bps"]);
        let rate = |per_second: u64| Rate::per_second(per_second);
        Ok(PortSettings {
            vlan: self.vlan(monitor)?,
            isolated: self.read("isolated", yes_or_no)?.unwrap_or(false),
            learning: learning.unwrap_or(!monitor),
            storm: StormLimits {
                unknown: self.read("storm-unknown", packets)?.map(rate),
                broadcast: self.read("storm-broadcast", packets)?.map(rate),
                multicast: self.read("storm-multicast", packets)?.map(rate),
            },
            rate_bits: self.read("rate", bits)?.map(rate),
            rate_packets: self.read("rate-packets", packets)?.map(rate),
            ..PortSettings::default()
        })
    }

    /// Of access, trunk (with native and ethertype), qinq and monitor one is possible.
    fn vlan(&self, monitor: bool) -> Result<VlanMode, Refusal> {
        let access = self.read("access", vlan)?;
        let tunnel = self.read("qinq", vlan)?;
        let allowed = self.read("trunk", vlans)?;
        let native = self.read("native", |text| if text == "none" { Ok(None) } else { vlan(text).map(Some) })?;
        let ethertype = self.read("ethertype", ethertype)?;
        let trunk = allowed.is_some() || native.is_some() || ethertype.is_some();
        let ways = [access.is_some(), tunnel.is_some(), trunk, monitor];
        if ways.iter().filter(|way| **way).count() > 1 {
            let cause = "access, trunk (with native and ethertype), qinq and monitor exclude each other";
            return Err(Refusal::new(cause, "take one back with the value default"));
        }
        if let Some(vlan) = access {
            return Ok(VlanMode::Access { vlan });
        }
        if let Some(vlan) = tunnel {
            return Ok(VlanMode::Tunnel { vlan });
        }
        if monitor {
            return Ok(VlanMode::None);
        }
        if !trunk {
            return Ok(VlanMode::default());
        }
        let listed = |ranges: Vec<(u16, u16)>| ranges.into_iter().flat_map(|(first, last)| first..=last).collect();
        Ok(VlanMode::Trunk {
            // A trunk with a list has no VLAN for packets without a tag unless it is named.
            native: native.unwrap_or(if allowed.is_some() { None } else { Some(0) }),
            allowed: allowed.map_or_else(VlanSet::all, listed),
            ethertype: ethertype.unwrap_or(CUSTOMER_TAG),
        })
    }

    fn read<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, Refusal> {
        let Some(Word(text)) = self.0.get(key) else { return Ok(None) };
        parse(text).map(Some).map_err(|problem| Refusal::new(format!("{key}: {problem}"), ""))
    }
}

fn ethertype(text: &str) -> Result<u16, String> {
    match text.to_ascii_lowercase().as_str() {
        "0x8100" => Ok(CUSTOMER_TAG),
        "0x88a8" => Ok(SERVICE_TAG),
        _ => Err(format!("{text:?} is neither 0x8100 nor 0x88a8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[(&str, &str)]) -> BTreeMap<String, Word> {
        list.iter().map(|(key, value)| (key.to_string(), Word(value.to_string()))).collect()
    }

    fn vlan_of(list: &[(&str, &str)]) -> VlanMode {
        Settings::new(&words(list)).unwrap().engine.vlan
    }

    #[test]
    fn every_word_reaches_the_engine() {
        assert_eq!(vlan_of(&[]), VlanMode::default());
        assert_eq!(vlan_of(&[("access", "10")]), VlanMode::Access { vlan: 10 });
        assert_eq!(vlan_of(&[("qinq", "7")]), VlanMode::Tunnel { vlan: 7 });
        assert_eq!(vlan_of(&[("monitor", "yes")]), VlanMode::None);
        let trunk =
            VlanMode::Trunk { native: None, allowed: [10, 20, 21].into_iter().collect(), ethertype: CUSTOMER_TAG };
        assert_eq!(vlan_of(&[("trunk", "10,20-21")]), trunk);
        let provider = VlanMode::Trunk { native: Some(5), allowed: VlanSet::all(), ethertype: SERVICE_TAG };
        assert_eq!(vlan_of(&[("native", "5"), ("ethertype", "0x88A8")]), provider);
        let all = words(&[
            ("isolated", "yes"),
            ("learning", "no"),
            ("storm-broadcast", "1k"),
            ("storm-multicast", "20pps"),
            ("storm-unknown", "30"),
            ("rate", "10 Mbit/s"),
            ("rate-packets", "5k"),
        ]);
        let all = Settings::new(&all).unwrap().engine;
        assert!(all.isolated && !all.learning);
        let rates = [all.storm.broadcast, all.storm.multicast, all.storm.unknown, all.rate_bits, all.rate_packets];
        assert_eq!(rates.map(|rate| rate.unwrap().per_second), [1_000, 20, 30, 10_000_000, 5_000]);
    }

    #[test]
    fn changes_are_checked_as_a_whole_and_can_be_taken_back() {
        let settings = Settings::new(&words(&[("access", "10")])).unwrap();
        assert!(settings.with(&words(&[("trunk", "all")])).is_err());
        let trunk = settings.with(&words(&[("access", "default"), ("trunk", "all")])).unwrap();
        assert_eq!(trunk.words(), [("trunk".to_string(), "all".to_string())].into());
        let error = settings.with(&words(&[("acess", "1")])).unwrap_err();
        assert!(error.cause.contains("acess") && error.hint.contains("access"));
        for (key, value) in [("access", "0"), ("isolated", "maybe"), ("rate", "fast"), ("ethertype", "0x0800")] {
            assert!(Settings::new(&words(&[(key, value)])).is_err());
        }
    }
}
