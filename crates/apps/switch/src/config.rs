//! The configuration of a switch, from flags or from a file with the same keys.
//!
//! ```toml
//! name = "lab"
//! ageing = "300s"
//!
//! [[port]]
//! name = "a"
//! spec = "tap:lab-a"
//! access = 10
//!
//! [[mac]]
//! mac = "02:00:00:00:00:01"
//! port = "a"
//! vlan = 10
//!
//! [[mirror]]
//! from = "a"
//! to = "file:a.pcapng"
//! ```

use std::num::NonZeroU32;
use std::ops::Range;

use linerate_control::{PortConfig, SettingValue, split_setting};
use linerate_units::TextError;
use serde::{Deserialize, Serialize};
use toml::de::DeTable;

use crate::settings::check_settings;

/// The subcommand of `linerate` that runs a switch.
pub const PROGRAM: &str = "switch";
/// Name of a switch that was given none.
pub const NAME_DEFAULT: &str = "switch";

/// A switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Its name: that of its sockets.
    #[serde(default)]
    pub name: Option<String>,
    /// CPU cores to pin workers to, one worker for each.
    #[serde(default)]
    pub cores: Vec<usize>,
    /// Queue pairs of each port, divided among the workers: what arrives by a queue is decided on by its worker, and leaves by the queues that
    /// this worker has of the other port.
    #[serde(default)]
    pub queues: Option<NonZeroU32>,
    /// What arrives at a port of fewer queues than there are workers is decided on by all workers, flow by flow: the worker that has the port
    /// hands it over.
    #[serde(default)]
    pub steer: bool,
    /// Most ports at a time, those that are added later included: packet memory is set aside for so many.
    #[serde(default)]
    pub ports_max: Option<usize>,
    /// Longest packet in bytes, without FCS.
    #[serde(default)]
    pub frame_len_max: Option<usize>,
    /// MAC addresses that the table holds.
    #[serde(default)]
    pub table_size: Option<usize>,
    /// How long an address is kept that sends nothing.
    #[serde(default)]
    pub ageing: Option<SettingValue>,
    /// Its ports.
    #[serde(default, rename = "port")]
    pub ports: Vec<PortConfig>,
    /// Static addresses.
    #[serde(default, rename = "mac")]
    pub macs: Vec<MacConfig>,
    /// Mirrors.
    #[serde(default, rename = "mirror")]
    pub mirrors: Vec<MirrorConfig>,
}

/// A static address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MacConfig {
    /// The address.
    pub mac: String,
    /// Where it is.
    pub port: String,
    /// Its VLAN.
    #[serde(default)]
    pub vlan: Option<u16>,
}

/// A mirror: copies of packets for another port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MirrorConfig {
    /// A port of the switch, or the spec of one that is opened for this (`file:PATH`).
    pub to: String,
    /// Packets of this port; of all ports, if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// `ingress`: packets that the port sends into the switch; `egress`: packets that it gets; `both`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// Packets of this VLAN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// Source address of IPv4 or IPv6 packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src: Option<String>,
    /// Destination address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst: Option<String>,
    /// `tcp`, `udp`, `icmp` or a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proto: Option<SettingValue>,
    /// Source port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sport: Option<u16>,
    /// Destination port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dport: Option<u16>,
}

/// A mistake in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

impl Config {
    /// Reads a file's text.
    ///
    /// # Errors
    /// Where it is wrong, and how.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        let wrong = |span: Option<Range<usize>>, problem: &str| {
            ConfigError(TextError::at(text, span.unwrap_or(0..0), problem).to_string())
        };
        let config: Config = toml::from_str(text).map_err(|error| wrong(error.span(), error.message()))?;
        for (index, port) in config.ports.iter().enumerate() {
            if let Err((key, problem)) = check_settings(&port.settings) {
                return Err(wrong(span_of(text, index, key.as_deref()), &problem));
            }
        }
        Ok(config)
    }

    /// Adds a port in the words of `--port`: `NAME=SPEC`, or `SPEC`.
    ///
    /// # Errors
    /// There is no spec.
    pub fn add_port(&mut self, text: &str) -> Result<(), ConfigError> {
        let port = PortConfig::parse(text).map_err(|error| ConfigError(format!("--port {error}")))?;
        self.ports.push(port);
        Ok(())
    }

    /// Changes a port in the words of `--set`: `PORT.KEY=VALUE`.
    ///
    /// # Errors
    /// It is not of that form, or there is no such port.
    pub fn set(&mut self, text: &str) -> Result<(), ConfigError> {
        let (port, key, value) = split_setting(text).map_err(ConfigError)?;
        let names: Vec<String> = self.ports.iter().map(PortConfig::name).collect();
        let Some(index) = names.iter().position(|name| *name == port) else {
            return Err(ConfigError(format!("--set {text}: there is no port {port}; there are {}", names.join(", "))));
        };
        self.ports[index].settings.insert(key, value);
        Ok(())
    }
}

/// Where the text has this key of its port table `index`, or where that table is.
fn span_of(text: &str, index: usize, key: Option<&str>) -> Option<Range<usize>> {
    let file = DeTable::parse(text).ok()?;
    let (_, ports) = file.get_ref().iter().find(|(name, _)| name.get_ref() == "port")?;
    let port = ports.get_ref().as_array()?.get(index)?;
    let found = port.get_ref().as_table()?.iter().find(|(name, _)| Some(&**name.get_ref()) == key);
    Some(found.map_or_else(|| port.span(), |(name, _)| name.span()))
}

impl MacConfig {
    /// In the words of `--mac`: `MAC=PORT` or `MAC=PORT,vlan=N`.
    ///
    /// # Errors
    /// It is not of that form.
    pub fn parse(text: &str) -> Result<MacConfig, ConfigError> {
        let wrong = || ConfigError(format!("--mac {text}: write MAC=PORT, as 02:00:00:00:00:01=a, or with ,vlan=10"));
        let (mac, rest) = text.split_once('=').ok_or_else(wrong)?;
        let (port, vlan) = match rest.split_once(",vlan=") {
            Some((port, vlan)) => (port, Some(vlan.parse().map_err(|_| wrong())?)),
            None => (rest, None),
        };
        Ok(MacConfig { mac: mac.into(), port: port.into(), vlan })
    }
}

impl MirrorConfig {
    /// In the words of `--mirror`: `from=a,to=b`; `to` comes last and may be a spec with options.
    ///
    /// # Errors
    /// A key is unknown, a value is wrong, or `to` is missing.
    pub fn parse(text: &str) -> Result<MirrorConfig, ConfigError> {
        let wrong = |why: String| ConfigError(format!("--mirror {text}: {why}"));
        let keys = "valid keys: from, direction, vlan, src, dst, proto, sport, dport; `to` comes last";
        let (before, to) = match text.strip_prefix("to=").map(|to| ("", to)).or_else(|| text.split_once(",to=")) {
            Some((before, to)) if !to.is_empty() => (before, to),
            _ => return Err(wrong(format!("to=PORT is missing ({keys})"))),
        };
        let mut mirror = MirrorConfig { to: to.into(), ..MirrorConfig::default() };
        for part in before.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let number = || value.parse::<u16>().map_err(|_| wrong(format!("{key} takes a number")));
            match key {
                "from" => mirror.from = Some(value.into()),
                "direction" => mirror.direction = Some(value.into()),
                "vlan" => mirror.vlan = Some(number()?),
                "src" => mirror.src = Some(value.into()),
                "dst" => mirror.dst = Some(value.into()),
                "proto" => mirror.proto = Some(SettingValue(value.into())),
                "sport" => mirror.sport = Some(number()?),
                "dport" => mirror.dport = Some(number()?),
                _ => return Err(wrong(format!("unknown key {key} ({keys})"))),
            }
        }
        Ok(mirror)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        name = "lab"
        ageing = 300
        table-size = 1024

        [[port]]
        name = "a"
        spec = "tap:lab-a,mtu=9000"
        trunk = [10, "20-30"]
        isolated = true

        [[port]]
        spec = "memif:/run/x/b.sock"

        [[mac]]
        mac = "02:00:00:00:00:01"
        port = "a"

        [[mirror]]
        from = "a"
        vlan = 10
        to = "file:a.pcapng"
    "#;

    #[test]
    fn flags_and_a_file_say_the_same() {
        let file = Config::parse(FILE).unwrap();
        let mut flags = Config {
            name: Some("lab".into()),
            ageing: Some(SettingValue("300".into())),
            table_size: Some(1024),
            ..Config::default()
        };
        flags.add_port("a=tap:lab-a,mtu=9000").unwrap();
        flags.add_port("memif:/run/x/b.sock").unwrap();
        flags.set("a.trunk=10,20-30").unwrap();
        flags.set("a.isolated=yes").unwrap();
        flags.macs.push(MacConfig::parse("02:00:00:00:00:01=a").unwrap());
        flags.mirrors.push(MirrorConfig::parse("from=a,vlan=10,to=file:a.pcapng").unwrap());
        assert_eq!(file, flags);
        assert_eq!(file.ports[1].name(), "b-sock");
    }

    #[test]
    fn mistakes_say_what_to_write() {
        let mut config = Config::default();
        assert!(config.add_port("a=").is_err() && config.add_port("").is_err());
        config.add_port("tap:x,mtu=9000").unwrap();
        assert_eq!(config.ports[0].name(), "x");
        for text in ["a.access=1", "access=1", "x.access", ""] {
            assert!(config.set(text).is_err(), "{text}");
        }
        for text in ["", "from=a", "from=a,to=", "fron=a,to=b", "vlan=x,to=b"] {
            assert!(MirrorConfig::parse(text).is_err(), "{text}");
        }
        assert_eq!(MirrorConfig::parse("to=null:,x=1").unwrap().to, "null:,x=1");
        assert!(MacConfig::parse("02:00:00:00:00:01").is_err());
        for text in ["nane = 1", "[[port]]\nname = \"a\"", "[[mac]]\nmac = \"x\"\nport = \"a\"\nvlam = 1"] {
            assert!(Config::parse(text).is_err(), "{text}");
        }
    }
}
