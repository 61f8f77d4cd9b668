//! A port as it is configured: its name, its spec and its settings.

use serde::{Deserialize, Serialize};

use crate::value::{SettingValue, Settings};

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortConfig {
    /// Its name; derived from the spec if there is none.
    #[serde(default)]
    pub name: Option<String>,
    /// Spec of the port to open.
    pub spec: String,
    /// Its settings.
    #[serde(flatten)]
    pub settings: Settings,
}

impl PortConfig {
    /// Reads `NAME=SPEC` or `SPEC`.
    ///
    /// # Errors
    /// The spec is missing.
    pub fn parse(text: &str) -> Result<PortConfig, String> {
        let (name, spec) = match text.split_once('=') {
            // The first "=" may be that of an option: `tap:x,mtu=9000`.
            Some((name, spec)) if is_name(name) => (Some(name.to_owned()), spec),
            _ => (None, text),
        };
        if spec.is_empty() {
            return Err(format!("{text}: the port is missing; write NAME=SPEC or SPEC, for example a=tap:x"));
        }
        Ok(PortConfig { name, spec: spec.into(), settings: Settings::new() })
    }

    /// The name as given, or one from the spec: `tap:x,y` is `x`.
    pub fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.spec_name())
    }

    /// A name from the spec, whatever name was given.
    pub fn spec_name(&self) -> String {
        name_of(&self.spec)
    }
}

/// Takes `PORT.KEY=VALUE` apart.
///
/// # Errors
/// It is not of that form.
pub fn split_setting(text: &str) -> Result<(String, String, SettingValue), String> {
    let parts = text.split_once('=').and_then(|(key, value)| Some((key.rsplit_once('.')?, value)));
    let Some(((port, key), value)) = parts else {
        return Err(format!("{text}: write PORT.KEY=VALUE, for example a.access=10"));
    };
    Ok((port.into(), key.into(), SettingValue(value.into())))
}

/// Whether a port may have this name: it is written in flags, requests and tables.
pub fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !name.is_empty() && name.len() <= 32 && name.bytes().all(allowed)
}

/// A name from a spec: its target, and the id if it has one, without what a name may not have; or its backend.
fn name_of(spec: &str) -> String {
    let (before_options, options) = spec.split_once(',').unwrap_or((spec, ""));
    let (backend, target) = before_options.split_once(':').unwrap_or(("port", before_options));
    let last = target.rsplit('/').next().unwrap_or(target);
    // Several ports share a socket, and differ by their ids.
    let id = options.split(',').find_map(|option| option.strip_prefix("id=")).map(|id| format!("-{id}"));
    let whole = format!("{last}{}", id.unwrap_or_default());
    let name: String = whole.chars().map(|letter| if is_name(&letter.to_string()) { letter } else { '-' }).collect();
    let name: String = name.trim_matches('-').chars().take(32).collect();
    if name.is_empty() { backend.into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_specs() {
        for (spec, name) in [
            ("tap:x", "x"),
            ("veth0", "veth0"),
            ("memif:/run/a.sock", "a-sock"),
            ("memif:/run/a.sock,id=1", "a-sock-1"),
            ("memif:/run/a.sock,rings=2,id=17", "a-sock-17"),
            ("null:", "null"),
            ("xdp:eth1@2", "eth1-2"),
            ("pipe:a", "a"),
        ] {
            assert_eq!(name_of(spec), name);
            assert!(is_name(&name_of(spec)));
        }
    }

    #[test]
    fn a_mistake_says_what_to_write() {
        assert!(PortConfig::parse("a=").is_err() && PortConfig::parse("").is_err());
        assert_eq!(PortConfig::parse("tap:x,mtu=9000").map(|port| port.name()), Ok("x".into()));
        for text in ["access=1", "x.access", ""] {
            assert!(split_setting(text).is_err(), "{text}");
        }
    }
}
