//! Settings of a port, from text to the engine's. This file is the one place that documents the keys.
//!
//! | key | value | what it does |
//! |---|---|---|
//! | `access` | VLAN | the port belongs to one VLAN and knows nothing of it: packets go in and out without a tag |
//! | `trunk` | `all`, `none`, `10,20-30` | packets carry the tag of their VLAN, which is one of these |
//! | `native` | VLAN, `none` | of a trunk: the VLAN of packets without a tag; none drops them |
//! | `qinq` | VLAN | the customer's side of a provider: everything goes into this VLAN, with its own tags inside |
//! | `ethertype` | `0x8100`, `0x88a8` | of a trunk: the kind of its tags; 0x88a8 towards a provider |
//! | `isolated` | yes, no | nothing goes from one isolated port to another |
//! | `learning` | yes, no | addresses are learned here |
//! | `learn-limit` | number | most addresses that are learned here; above that, a new one takes the place of an older one |
//! | `monitor` | yes, no | in no VLAN: the port gets what mirrors copy to it, and nothing else |
//! | `storm-broadcast`, `storm-multicast`, `storm-unknown` | packets a second | limit of ingress packets that are flooded |
//! | `rate` | bit/s | ingress limit |
//! | `rate-packets` | packets a second | ingress limit |

use linerate_control::{ControlError, SettingValue, Settings, yes_or_no};
use linerate_l2::{CUSTOMER_TAG, PortSettings, Rate, SERVICE_TAG, StormLimits, VlanMode, VlanSet};
use linerate_port::Caps;
use linerate_units::{self as units, UnitError};

const KEYS: [&str; 14] = [
    "access",
    "trunk",
    "native",
    "qinq",
    "ethertype",
    "isolated",
    "learning",
    "learn-limit",
    "monitor",
    "storm-broadcast",
    "storm-multicast",
    "storm-unknown",
    "rate",
    "rate-packets",
];

/// Settings of a port for the engine.
///
/// # Errors
/// A key is unknown, a value is wrong, or two settings exclude each other.
pub(crate) fn port_settings(settings: &Settings, caps: &Caps) -> Result<PortSettings, ControlError> {
    if let Some(unknown) = settings.keys().find(|key| !KEYS.contains(&key.as_str())) {
        let hint = format!("valid keys: {}", KEYS.join(", "));
        return Err(ControlError::new(format!("there is no setting {unknown}"), hint));
    }
    let engine = Reader(settings).settings()?;
    Ok(PortSettings { frame_len_max: caps.frame_len_max, ..engine })
}

/// Checks settings before there is a port.
///
/// # Errors
/// What is wrong, and with which key if it is one alone.
pub(crate) fn check_settings(settings: &Settings) -> Result<(), (Option<String>, String)> {
    let check = |settings: &Settings| port_settings(settings, &Caps::default()).map(drop);
    for (key, value) in settings {
        let alone = Settings::from([(key.clone(), value.clone())]);
        check(&alone).map_err(|error| (Some(key.clone()), error.to_string()))?;
    }
    check(settings).map_err(|error| (None, error.to_string()))
}

struct Reader<'a>(&'a Settings);

impl Reader<'_> {
    fn settings(&self) -> Result<PortSettings, ControlError> {
        let learning = self.read("learning", yes_or_no)?;
        let monitor = self.read("monitor", yes_or_no)?.unwrap_or(false);
        let packets = |text: &str| units::packets_per_second(text).map_err(say);
        let bits = |text: &str| units::bits_per_second(text).map_err(say);
        let rate = |per_second: f64| Rate::per_second(per_second.round() as u64);
        Ok(PortSettings {
            vlan: self.vlan(monitor)?,
            isolated: self.read("isolated", yes_or_no)?.unwrap_or(false),
            learning: learning.unwrap_or(!monitor),
            learn_limit: self.read("learn-limit", addresses)?,
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
    fn vlan(&self, monitor: bool) -> Result<VlanMode, ControlError> {
        let access = self.read("access", vlan)?;
        let tunnel = self.read("qinq", vlan)?;
        let allowed = self.read("trunk", vlans)?;
        let native = self.read("native", |text| if text == "none" { Ok(None) } else { vlan(text).map(Some) })?;
        let ethertype = self.read("ethertype", ethertype)?;
        let trunk = allowed.is_some() || native.is_some() || ethertype.is_some();
        let ways = [access.is_some(), tunnel.is_some(), trunk, monitor];
        if ways.iter().filter(|way| **way).count() > 1 {
            let cause = "access, trunk (with native and ethertype), qinq and monitor exclude each other";
            return Err(ControlError::new(cause, "take one back with the value default"));
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

    fn read<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, ControlError> {
        let Some(SettingValue(text)) = self.0.get(key) else { return Ok(None) };
        parse(text).map(Some).map_err(|problem| ControlError::new(format!("{key}: {problem}"), ""))
    }
}

/// A number of addresses.
fn addresses(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("not a number of addresses: `{text}` (0 to {})", u32::MAX))
}

/// A VLAN ID, 1 to 4094 (IEEE 802.1Q table 9-2).
fn vlan(text: &str) -> Result<u16, String> {
    let number = text.trim().parse::<u16>().ok().filter(|number| (1..=4094).contains(number));
    number.ok_or_else(|| format!("not a VLAN ID: `{text}` (1 to 4094)"))
}

/// VLAN IDs and ranges of them, with both ends: `10,20-30`; or `all`, or `none`.
fn vlans(text: &str) -> Result<Vec<(u16, u16)>, String> {
    match text.trim() {
        "all" => return Ok(vec![(1, 4094)]),
        "none" | "" => return Ok(Vec::new()),
        _ => {}
    }
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (vlan(first)?, vlan(last)?);
        if first <= last {
            Ok((first, last))
        } else {
            Err(format!("not a range of VLAN IDs: `{part}` ends before it begins"))
        }
    };
    text.split(',').map(range).collect()
}

fn say(error: UnitError) -> String {
    error.to_string()
}

fn ethertype(text: &str) -> Result<u16, String> {
    match text.to_ascii_lowercase().as_str() {
        "0x8100" => Ok(CUSTOMER_TAG),
        "0x88a8" => Ok(SERVICE_TAG),
        _ => Err(format!("not an EtherType of a tag: `{text}` (0x8100 or 0x88a8)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(list: &[(&str, &str)]) -> Result<PortSettings, ControlError> {
        let values = list.iter().map(|(key, value)| (key.to_string(), SettingValue(value.to_string()))).collect();
        port_settings(&values, &Caps::default())
    }

    fn vlan_of(list: &[(&str, &str)]) -> VlanMode {
        settings(list).unwrap().vlan
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
        let all = settings(&[
            ("isolated", "yes"),
            ("learning", "no"),
            ("learn-limit", "100"),
            ("storm-broadcast", "1k"),
            ("storm-multicast", "20pps"),
            ("storm-unknown", "30"),
            ("rate", "10 Mbit/s"),
            ("rate-packets", "5k"),
        ])
        .unwrap();
        assert!(all.isolated && !all.learning && all.learn_limit == Some(100));
        let rates = [all.storm.broadcast, all.storm.multicast, all.storm.unknown, all.rate_bits, all.rate_packets];
        assert_eq!(rates.map(|rate| rate.unwrap().per_second), [1_000, 20, 30, 10_000_000, 5_000]);
    }

    #[test]
    fn settings_that_exclude_each_other_and_wrong_values_are_refused() {
        assert!(settings(&[("access", "10"), ("trunk", "all")]).is_err());
        let error = settings(&[("acess", "1")]).unwrap_err();
        assert!(error.cause.contains("acess") && error.hint.contains("access"));
        for (key, value) in
            [("access", "0"), ("isolated", "maybe"), ("rate", "fast"), ("ethertype", "0x0800"), ("learn-limit", "many")]
        {
            assert!(settings(&[(key, value)]).is_err());
        }
        assert_eq!(settings(&[("access", "5000")]).unwrap_err().cause, "access: not a VLAN ID: `5000` (1 to 4094)");
    }

    #[test]
    fn vlans_are_single_or_ranges() {
        assert_eq!(vlans("10,20-30"), Ok(vec![(10, 10), (20, 30)]));
        assert_eq!((vlans("all"), vlans("none")), (Ok(vec![(1, 4094)]), Ok(vec![])));
        for text in ["0", "4095", "30-20", "10,", "a", "1-2-3"] {
            assert!(vlans(text).is_err(), "{text}");
        }
    }
}
