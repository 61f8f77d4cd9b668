//! The configuration of an OpenFlow switch, from flags or from a file with the same keys.
//!
//! ```toml
//! name = "lab"
//! dpid = "0x1"
//! controllers = ["tcp:127.0.0.1:6653"]
//! listen = ["ptcp:6634:127.0.0.1"]
//! flows = "start.flows"
//!
//! [[port]]
//! name = 1                 # its OpenFlow number
//! spec = "veth0"
//!
//! [[port]]
//! name = "LOCAL"
//! spec = "tap:of-lab"
//!
//! [[queue]]
//! port = 1
//! id = 7
//! max-rate = "10Mbit/s"
//! ```

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

use linerate_control::{PortConfig, SettingValue, split_setting};
use linerate_openflow::{Fragments, PortNumber};
use linerate_units::TextError;
use serde::{Deserialize, Serialize};

use crate::target::{ListenAddress, Target};
use crate::tls::TlsFiles;

/// The subcommand of `linerate` that runs the switch.
pub const PROGRAM: &str = "ofswitch";
/// Name of a switch that was given none.
pub const NAME_DEFAULT: &str = "ofswitch";
/// Name of the port of the switch's own host.
pub const LOCAL: &str = "LOCAL";

/// An OpenFlow switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Its name: that of its sockets.
    #[serde(default)]
    pub name: Option<String>,
    /// Datapath ID, up to 16 hexadecimal digits; made of the name if there is none.
    #[serde(default)]
    pub dpid: Option<SettingValue>,
    /// Controllers to connect to, see [`Target`].
    #[serde(default)]
    pub controllers: Vec<String>,
    /// Addresses at which controllers are waited for, see [`ListenAddress`].
    #[serde(default)]
    pub listen: Vec<String>,
    /// `secure` (the default) or `standalone`: what happens without a controller.
    #[serde(default)]
    pub fail_mode: Option<String>,
    /// File of flow entries in the syntax of ovs-ofctl, which are there from the start.
    #[serde(default)]
    pub flows: Option<PathBuf>,
    /// CPU cores to pin workers to, one worker for each.
    #[serde(default)]
    pub cores: Vec<usize>,
    /// Queue pairs of each port, divided among the workers: what arrives by a queue goes through the tables on its worker, and leaves by the
    /// queues that this worker has of the other port.
    #[serde(default, rename = "queues")]
    pub queue_pairs: Option<NonZeroU32>,
    /// What arrives at a port of fewer queues than there are workers goes through the tables of all workers, flow by flow: the worker that has
    /// the port hands it over.
    #[serde(default)]
    pub steer: bool,
    /// Most entries of each flow table.
    #[serde(default)]
    pub table_size: Option<u32>,
    /// Most packet-ins a second for each controller; no limit if there is none.
    #[serde(default)]
    pub packet_in_rate: Option<u64>,
    /// `normal`, `drop` or `reassemble`: what happens to IP fragments until a controller says something else.
    #[serde(default)]
    pub fragments: Option<String>,
    /// Most ports at a time, those that are added later included: packet memory is set aside for so many.
    #[serde(default)]
    pub ports_max: Option<usize>,
    /// Longest packet in bytes, without FCS.
    #[serde(default)]
    pub frame_len_max: Option<usize>,
    /// The switch's private key, in PEM.
    #[serde(default)]
    pub private_key: Option<PathBuf>,
    /// The switch's certificate, in PEM, possibly with intermediate ones.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    /// Certificates, in PEM, of the authorities that sign controllers' certificates.
    #[serde(default)]
    pub ca_cert: Option<PathBuf>,
    /// Its ports; a port's name is its OpenFlow number.
    #[serde(default, rename = "port")]
    pub ports: Vec<OfPort>,
    /// Queues of ports.
    #[serde(default, rename = "queue")]
    pub queues: Vec<QueueConfig>,
}

/// A port of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfPort {
    /// Its OpenFlow number, or `LOCAL`.
    pub name: SettingValue,
    /// Spec of the port to open.
    pub spec: String,
    /// Its settings.
    #[serde(flatten)]
    pub settings: linerate_control::Settings,
}

/// A queue: packets that leave by a port and share a rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct QueueConfig {
    /// The port that it belongs to.
    pub port: SettingValue,
    /// Its number, which `set_queue` names.
    pub id: u32,
    /// Rate in bit/s that it gets before others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rate: Option<SettingValue>,
    /// Rate in bit/s that it does not exceed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rate: Option<SettingValue>,
}

/// What a switch does while no controller is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailMode {
    /// Flow entries stay in force; packets that match none go nowhere.
    #[default]
    Secure,
    /// It forwards like a learning switch.
    Standalone,
}

/// A mistake in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// The configuration with its words understood.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Datapath ID.
    pub dpid: u64,
    /// Controllers to connect to.
    pub controllers: Vec<Target>,
    /// Addresses to listen at.
    pub listen: Vec<ListenAddress>,
    /// What happens without a controller.
    pub fail_mode: FailMode,
    /// What happens to IP fragments.
    pub fragments: Fragments,
}

impl Config {
    /// Reads a file's text.
    ///
    /// # Errors
    /// Where it is wrong, and how.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        let wrong = |error: toml::de::Error| TextError::at(text, error.span().unwrap_or(0..0), error.message());
        toml::from_str(text).map_err(|error| ConfigError(wrong(error).to_string()))
    }

    /// Adds a port in the words of `--port`: `NUMBER=SPEC`.
    ///
    /// # Errors
    /// There is no number or no spec.
    pub fn add_port(&mut self, text: &str) -> Result<(), ConfigError> {
        let usage = "write NUMBER=SPEC with the port's OpenFlow number, for example 1=veth0 or LOCAL=tap:of0";
        let wrong = || ConfigError(format!("--port {text}: {usage}"));
        let (name, spec) = text.split_once('=').ok_or_else(wrong)?;
        port_number(name).map_err(|error| ConfigError(format!("--port {text}: {error}")))?;
        if spec.is_empty() {
            return Err(wrong());
        }
        let name = SettingValue(name.into());
        self.ports.push(OfPort { name, spec: spec.into(), settings: Default::default() });
        Ok(())
    }

    /// Changes a port in the words of `--set`: `PORT.KEY=VALUE`.
    ///
    /// # Errors
    /// It is not of that form, or there is no such port.
    pub fn set(&mut self, text: &str) -> Result<(), ConfigError> {
        let (port, key, value) = split_setting(text).map_err(ConfigError)?;
        let known: Vec<String> = self.ports.iter().map(|port| port.name.0.clone()).collect();
        let Some(found) = self.ports.iter_mut().find(|known| known.name.0 == port) else {
            return Err(ConfigError(format!("--set {text}: there is no port {port}; there are {}", known.join(", "))));
        };
        found.settings.insert(key, value);
        Ok(())
    }

    /// The files for TLS.
    pub fn tls_files(&self) -> TlsFiles {
        let Config { private_key, certificate, ca_cert, .. } = self;
        TlsFiles { private_key: private_key.clone(), certificate: certificate.clone(), ca_cert: ca_cert.clone() }
    }

    /// Understands the words, without opening anything.
    ///
    /// # Errors
    /// What is wrong, and what to write.
    pub fn check(&self) -> Result<Checked, ConfigError> {
        for port in &self.ports {
            port_number(&port.name.0).map_err(ConfigError)?;
        }
        let dpid = match &self.dpid {
            Some(SettingValue(text)) => dpid(text)?,
            None => dpid_of_name(self.name.as_deref().unwrap_or(NAME_DEFAULT)),
        };
        let fail_mode = match self.fail_mode.as_deref() {
            None | Some("secure") => FailMode::Secure,
            Some("standalone") => FailMode::Standalone,
            Some(other) => return Err(ConfigError(format!("not a fail mode: `{other}` (secure, standalone)"))),
        };
        let fragments = match self.fragments.as_deref() {
            None | Some("normal") => Fragments::Normal,
            Some("drop") => Fragments::Drop,
            Some("reassemble") => Fragments::Reassemble,
            Some(other) => {
                return Err(ConfigError(format!("not a way with fragments: `{other}` (normal, drop, reassemble)")));
            }
        };
        if self.steer && self.cores.len() < 2 {
            return Err(ConfigError("--steer divides flows among workers; give two --cores or more".into()));
        }
        if self.queue_pairs.is_some_and(|pairs| pairs.get() > 1) && !self.queues.is_empty() {
            let problem = "rates of [[queue]]s count at one place, and --queues divides each port among workers; give one of both";
            return Err(ConfigError(problem.into()));
        }
        if self.packet_in_rate == Some(0) {
            return Err(ConfigError("packet-in-rate 0 would send none; leave it out for no limit".into()));
        }
        let (controllers, listen) = (parsed::<Target>(&self.controllers)?, parsed::<ListenAddress>(&self.listen)?);
        Ok(Checked { dpid, controllers, listen, fail_mode, fragments })
    }
}

impl OfPort {
    /// The port for `linerate-control`.
    pub fn port_config(&self) -> PortConfig {
        PortConfig { name: Some(self.name.0.clone()), spec: self.spec.clone(), settings: self.settings.clone() }
    }
}

/// The OpenFlow number in a port's name: 1 to 0xffffff00, or `LOCAL`.
///
/// # Errors
/// It is not a number of a port.
pub fn port_number(name: &str) -> Result<PortNumber, String> {
    if name == LOCAL {
        return Ok(PortNumber::LOCAL);
    }
    let number = name.parse::<u32>().ok().map(PortNumber);
    // A second spelling of a number would be a second name of a port.
    let plain = |number: &PortNumber| number.0.to_string() == name && (1..=PortNumber::MAX.0).contains(&number.0);
    number
        .filter(plain)
        .ok_or_else(|| format!("not the number of a port: `{name}` (1 to {}, or LOCAL)", PortNumber::MAX.0))
}

/// The name of the port with an OpenFlow number.
pub fn port_name(number: PortNumber) -> String {
    if number == PortNumber::LOCAL { LOCAL.into() } else { number.0.to_string() }
}

/// Up to 16 hexadecimal digits, possibly behind 0x, as in Open vSwitch's `datapath-id`.
fn dpid(text: &str) -> Result<u64, ConfigError> {
    let digits = text.trim().trim_start_matches("0x");
    let number = u64::from_str_radix(digits, 16).ok().filter(|_| digits.len() <= 16 && !digits.starts_with('+'));
    number.ok_or_else(|| {
        ConfigError(format!("not a datapath ID: `{text}` (up to 16 hexadecimal digits, for example 0x1)"))
    })
}

/// An ID that stays the same for the same name: 48 bits, those of a local address (FNV-1a).
fn dpid_of_name(name: &str) -> u64 {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    (hash & 0x0000_feff_ffff_ffff) | 0x0000_0200_0000_0000
}

fn parsed<T: FromStr<Err = crate::target::TargetError>>(texts: &[String]) -> Result<Vec<T>, ConfigError> {
    texts.iter().map(|text| text.parse().map_err(|error: T::Err| ConfigError(error.to_string()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        name = "lab"
        dpid = "0x1f"
        controllers = ["tcp:127.0.0.1:6653"]
        listen = ["ptcp:6634"]
        fail-mode = "standalone"
        table-size = 1000
        ca-cert = "ca.pem"

        [[port]]
        name = 1
        spec = "veth0,mtu=9000"

        [[port]]
        name = "LOCAL"
        spec = "tap:of0"

        [[queue]]
        port = 1
        id = 7
        max-rate = "10M"
    "#;

    #[test]
    fn flags_and_a_file_say_the_same() {
        let file = Config::parse(FILE).unwrap();
        let mut flags = Config {
            name: Some("lab".into()),
            dpid: Some(SettingValue("0x1f".into())),
            controllers: vec!["tcp:127.0.0.1:6653".into()],
            listen: vec!["ptcp:6634".into()],
            fail_mode: Some("standalone".into()),
            table_size: Some(1000),
            ca_cert: Some("ca.pem".into()),
            queues: file.queues.clone(),
            ..Config::default()
        };
        flags.add_port("1=veth0,mtu=9000").unwrap();
        flags.add_port("LOCAL=tap:of0").unwrap();
        assert_eq!(file, flags);
        let checked = file.check().unwrap();
        assert_eq!((checked.dpid, checked.fail_mode), (0x1f, FailMode::Standalone));
        assert_eq!((file.queues[0].port.0.as_str(), file.queues[0].id), ("1", 7));
    }

    #[test]
    fn mistakes_say_what_to_write() {
        let mut config = Config::default();
        for text in ["", "veth0", "1=", "0=veth0", "01=veth0", "4294967041=veth0", "local=tap:x", "x=veth0"] {
            let error = config.add_port(text).unwrap_err().to_string();
            assert!(error.contains("NUMBER=SPEC") || error.contains("1 to 4294967040, or LOCAL"), "{text}: {error}");
        }
        config.add_port("3=pipe:x").unwrap();
        assert!(config.set("4.tunnel-id=1").unwrap_err().to_string().contains("there are 3"));
        for (file, word) in [
            ("dpid = \"xyz\"", "hexadecimal"),
            ("dpid = \"0x11112222333344445\"", "hexadecimal"),
            ("fail-mode = \"open\"", "standalone"),
            ("fragments = \"keep\"", "reassemble"),
            ("controllers = [\"127.0.0.1\"]", "tcp:HOST:PORT"),
            ("listen = [\"6634\"]", "ptcp:PORT"),
            ("packet-in-rate = 0", "leave it out"),
            ("[[port]]\nname = \"a\"\nspec = \"pipe:a\"", "LOCAL"),
        ] {
            let error = Config::parse(file).unwrap().check().unwrap_err().to_string();
            assert!(error.contains(word), "{file}: {error}");
        }
        for file in ["nane = \"x\"", "[[port]]\nname = 1", "[[queue]]\nport = 1\nid = 1\nrate = 1"] {
            assert!(Config::parse(file).is_err(), "{file}");
        }
    }

    #[test]
    fn a_datapath_id_is_made_of_the_name() {
        let dpid = |name: &str| Config { name: Some(name.into()), ..Config::default() }.check().unwrap().dpid;
        assert_eq!(dpid("a"), dpid("a"));
        assert_ne!(dpid("a"), dpid("b"));
        assert_eq!(dpid("a") >> 40, dpid("a") >> 40 & 0xfe | 2, "a local unicast address");
    }
}
