//! Settings of scenarios: members of the configuration by name.

use core::net::IpAddr;

use linerate_ip::{AddressRange, IpConfig};
use linerate_tcp::StackConfig;
use linerate_tcp::send::Congestion;
use linerate_tcpscript::Scenario;

/// Settings that are not the stack's: the runner's, and those of [`crate::support::ScriptSubject`].
const OTHERS: [&str; 2] = ["tolerance", "ip"];

/// Frames of a scenario's pool.
pub const FRAMES: usize = 8192;

/// The configuration that a scenario asks for.
pub fn config(scenario: &Scenario) -> Result<StackConfig, String> {
    let is_v6 = scenario.settings.iter().any(|(name, value)| name == "ip" && value == "6");
    let first: IpAddr = if is_v6 { [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into() } else { [192, 0, 2, 1].into() };
    let ip = IpConfig {
        mac: super::subject::MAC,
        addresses: vec![AddressRange::one(first, if is_v6 { 64 } else { 24 })],
        ipv6: is_v6,
        duplicate_detection: false,
        ..IpConfig::default()
    };
    let mut config = StackConfig { ip, connections_max: 64, time_wait_max: 64, ..StackConfig::default() };
    for (name, value) in &scenario.settings {
        if !OTHERS.contains(&name.as_str()) {
            set(&mut config, name, value).map_err(|error| format!("set {name} {value}: {error}"))?;
        }
    }
    Ok(config)
}

fn number<T: std::str::FromStr>(value: &str) -> Result<T, String> {
    value.parse().map_err(|_| "not a number in range".to_string())
}

fn ms(value: &str) -> Result<u32, String> {
    let ns = linerate_units::duration_ns(value).map_err(|error| error.to_string())?;
    u32::try_from(ns / 1_000_000).map_err(|_| "too long".to_string())
}

fn set(config: &mut StackConfig, name: &str, value: &str) -> Result<(), String> {
    match name {
        "mtu" => config.ip.mtu = number(value)?,
        "ecn" => config.ecn = value == "on",
        "connections_max" => config.connections_max = number(value)?,
        "time_wait_max" => config.time_wait_max = number(value)?,
        "time_wait" => config.time_wait_ms = ms(value)?,
        "receive_budget" => config.receive_budget_bytes = number(value)?,
        "receive_window_max" => config.receive_window_max = number(value)?,
        "ack_delay" => config.ack_delay_ms = ms(value)?,
        "send_budget" => config.send.budget_bytes = number(value)?,
        "send_buffer" => config.send.buffer_max = number(value)?,
        "rto_min" => config.send.rto_min_ms = ms(value)?,
        "initial_window" => config.send.initial_window = number(value)?,
        "congestion" => {
            config.send.congestion = match value {
                "cubic" => Congestion::Cubic,
                "newreno" => Congestion::NewReno,
                _ => return Err("cubic or newreno".into()),
            }
        }
        _ => return Err("unknown setting".into()),
    }
    Ok(())
}
