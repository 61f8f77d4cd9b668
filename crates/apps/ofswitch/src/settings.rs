//! Settings of a port and its queues, from text to the pipeline's. This file is the one place that documents the keys.
//!
//! | key | value | what it does |
//! |---|---|---|
//! | `speed` | bit/s | the rate that is reported, and of which rates of queues are a share; that of the device, or 10 Gbit/s, if it is not given |
//! | `physical` | port number | `IN_PHY_PORT`: the port below this one, which is the end of a tunnel |
//! | `tunnel-id` | number | `TUNNEL_ID` of packets from this port, if they do not bring their keys |

use linerate_control::{ControlError, SettingValue, Settings};
use linerate_openflow::{PortConfig, PortNumber};
use linerate_pipeline::{PortSettings, QueueSettings};
use linerate_port::{Caps, TUNNEL_KEY_BYTES};
use linerate_units as units;

use crate::config::{QueueConfig, port_number};

const KEYS: [&str; 3] = ["speed", "physical", "tunnel-id"];

/// Rate of a port that says nothing of it, in bit/s.
const SPEED_DEFAULT: u64 = 10_000_000_000;

/// Queues of all ports.
#[derive(Clone, Debug, Default)]
pub(crate) struct SwitchQueues(Vec<(String, QueueSettings)>);

impl SwitchQueues {
    /// Reads the queues of a configuration.
    ///
    /// # Errors
    /// A rate is not one.
    pub(crate) fn read(queues: &[QueueConfig]) -> Result<SwitchQueues, ControlError> {
        let rate = |queue: &QueueConfig, value: &Option<SettingValue>| {
            let bits = value.as_ref().map(|value| units::bits_per_second(&value.0).map(|rate| rate.round() as u64));
            bits.transpose()
                .map_err(|error| ControlError::new(format!("queue {} of port {}: {error}", queue.id, queue.port.0), ""))
        };
        let queue = |queue: &QueueConfig| {
            let settings = QueueSettings {
                id: queue.id,
                min_rate_bps: rate(queue, &queue.min_rate)?,
                max_rate_bps: rate(queue, &queue.max_rate)?,
            };
            Ok((queue.port.0.clone(), settings))
        };
        queues.iter().map(queue).collect::<Result<_, _>>().map(SwitchQueues)
    }

    /// Queues of a port.
    pub(crate) fn of(&self, port: &str) -> Vec<QueueSettings> {
        self.0.iter().filter(|(name, _)| name == port).map(|(_, queue)| *queue).collect()
    }
}

/// Settings of a port for the pipeline, but for its name and address.
///
/// # Errors
/// A key is unknown, or a value is wrong.
pub(crate) fn port_settings(
    number: PortNumber,
    settings: &Settings,
    caps: &Caps,
    queues: Vec<QueueSettings>,
) -> Result<PortSettings, ControlError> {
    if let Some(unknown) = settings.keys().find(|key| !KEYS.contains(&key.as_str())) {
        let hint = format!("valid keys: {}", KEYS.join(", "));
        return Err(ControlError::new(format!("there is no setting {unknown}"), hint));
    }
    let wrong = |key: &str, why: String| ControlError::new(format!("{key}: {why}"), "");
    let text = |key: &str| settings.get(key).map(|value| value.0.as_str());
    let bits = |text: &str| units::bits_per_second(text).map(|rate| rate.round() as u64);
    let speed = text("speed").map(bits).transpose().map_err(|error| wrong("speed", error.to_string()))?;
    let speed_bps = speed.or(caps.link_bps).unwrap_or(SPEED_DEFAULT);
    let physical = text("physical").map(port_number).transpose().map_err(|error| wrong("physical", error))?;
    let tunnel_id = text("tunnel-id").map(tunnel_id).transpose().map_err(|error| wrong("tunnel-id", error))?;
    if caps.tunnel_keys && tunnel_id.is_some() {
        return Err(wrong("tunnel-id", "the packets of this port bring their keys (key=flow)".into()));
    }
    let kbps = u32::try_from(speed_bps / 1000).unwrap_or(u32::MAX);
    Ok(PortSettings {
        number,
        name: String::new(),
        hw_addr: [0; 6],
        physical,
        tunnel_id: tunnel_id.unwrap_or(0),
        tunnel_keys: caps.tunnel_keys,
        len_max: caps.frame_len_max.saturating_sub(if caps.tunnel_keys { TUNNEL_KEY_BYTES } else { 0 }),
        config: PortConfig::default(),
        current: current_features(speed_bps),
        current_kbps: kbps,
        max_kbps: kbps,
        queues,
    })
}

/// A number, also hexadecimal.
fn tunnel_id(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| format!("not a tunnel ID: `{text}` (a number below 2^64, for example 42 or 0x2a)"))
}

/// Bits of current features (`OFPPF_*`): the rate, if it is one of the list, and copper.
fn current_features(speed_bps: u64) -> u32 {
    const OTHER: u32 = 1 << 10;
    const COPPER: u32 = 1 << 11;
    const RATES: [(u64, u32); 7] = [
        (10_000_000, 1 << 1),
        (100_000_000, 1 << 3),
        (1_000_000_000, 1 << 5),
        (10_000_000_000, 1 << 6),
        (40_000_000_000, 1 << 7),
        (100_000_000_000, 1 << 8),
        (1_000_000_000_000, 1 << 9),
    ];
    let rate = RATES.iter().find(|(rate, _)| *rate == speed_bps);
    rate.map_or(OTHER, |(_, bit)| *bit) | COPPER
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(list: &[(&str, &str)]) -> Result<PortSettings, ControlError> {
        let values = list.iter().map(|(key, value)| (key.to_string(), SettingValue(value.to_string()))).collect();
        port_settings(PortNumber(7), &values, &Caps::default(), Vec::new())
    }

    #[test]
    fn every_word_reaches_the_pipeline() {
        let all = settings(&[("speed", "1Gbit/s"), ("physical", "3"), ("tunnel-id", "0x2a")]).unwrap();
        assert_eq!((all.current_kbps, all.physical, all.tunnel_id), (1_000_000, Some(PortNumber(3)), 42));
        assert_eq!(all.current, 1 << 5 | 1 << 11);
        assert_eq!(settings(&[]).unwrap().max_kbps, 10_000_000);
        for (key, value) in [("speed", "fast"), ("physical", "0"), ("tunnel-id", "-1"), ("access", "10")] {
            assert!(settings(&[(key, value)]).unwrap_err().cause.contains(key), "{key}={value}");
        }
    }

    #[test]
    fn queues_have_rates() {
        let queue = |max: &str| QueueConfig {
            port: SettingValue("1".into()),
            id: 3,
            min_rate: None,
            max_rate: Some(SettingValue(max.into())),
        };
        let queues = SwitchQueues::read(&[queue("10Mbit/s")]).unwrap();
        assert_eq!(queues.of("1")[0].max_rate_bps, Some(10_000_000));
        assert!(queues.of("2").is_empty());
        assert!(SwitchQueues::read(&[queue("much")]).unwrap_err().cause.contains("queue 3 of port 1"));
    }
}
