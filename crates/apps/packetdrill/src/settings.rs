//! The stack's settings, from packetdrill's flags (`--so_flags=local=192.168.0.1/16,gateway=192.168.0.2,mtu=1500`) and from the sysctls of
//! the network namespace, which scripts set by commands before they begin.

use std::fs;
use std::net::IpAddr;

use linerate_ip::{AddressRange, IpConfig};
use linerate_tcp::StackConfig;
use linerate_tcp::send::Congestion;

use crate::link;

/// Addresses and MTU where packetdrill's flags name none.
const LOCAL: (IpAddr, u8) = (IpAddr::V4(std::net::Ipv4Addr::new(192, 168, 0, 1)), 16);
const GATEWAY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 168, 0, 2));
/// Connections of a script.
const CONNECTIONS: usize = 256;
/// Bytes of all connections, in each direction.
const BUDGET_BYTES: usize = 16 << 20;

/// What the flags say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Own address, and bits of its prefix.
    pub local: (IpAddr, u8),
    /// Where packets for others go.
    pub gateway: IpAddr,
    /// Longest IP packet.
    pub mtu: u16,
}

impl Settings {
    /// Reads the flags.
    ///
    /// # Errors
    /// A flag is unknown or its value is none, in words.
    pub fn read(flags: &str) -> Result<Settings, String> {
        let mut settings = Settings { local: LOCAL, gateway: GATEWAY, mtu: 1500 };
        for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
            let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
            let wrong = || format!("{flag}: write local=ADDRESS/BITS, gateway=ADDRESS or mtu=BYTES");
            match name {
                "local" => {
                    let (address, bits) = value.split_once('/').ok_or_else(wrong)?;
                    settings.local = (address.parse().map_err(|_| wrong())?, bits.parse().map_err(|_| wrong())?);
                }
                "gateway" => settings.gateway = value.parse().map_err(|_| wrong())?,
                "mtu" => settings.mtu = value.parse().map_err(|_| wrong())?,
                _ => return Err(wrong()),
            }
        }
        Ok(settings)
    }

    /// The stack's configuration, with what the namespace's sysctls say now.
    pub fn config(&self) -> StackConfig {
        let (address, bits) = self.local;
        let ip = IpConfig {
            mac: link::OWN,
            mtu: self.mtu,
            addresses: vec![AddressRange::one(address, bits)],
            gateways: vec![self.gateway],
            ipv6: false,
            duplicate_detection: false,
            ..IpConfig::default()
        };
        let mut config =
            StackConfig { ip, connections_max: CONNECTIONS, time_wait_max: CONNECTIONS, ..StackConfig::default() };
        // packetdrill pins all memory of its process.
        config.receive_budget_bytes = BUDGET_BYTES;
        config.send.budget_bytes = BUDGET_BYTES;
        // 1: asked for; 2: given to those that ask (Documentation/networking/ip-sysctl.rst).
        config.ecn = sysctl("tcp_ecn").as_deref() == Some("1");
        // Least, default and largest receive buffer: the last one decides the window scale.
        if let Some(most) = sysctl("tcp_rmem").and_then(|text| text.split_whitespace().last()?.parse().ok()) {
            config.receive_window_max = most;
        }
        if sysctl("tcp_congestion_control").as_deref() == Some("reno") {
            config.send.congestion = Congestion::NewReno;
        }
        config
    }
}

fn sysctl(name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
    Some(text.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_or_refused() {
        assert_eq!(Settings::read("").map(|settings| settings.mtu), Ok(1500));
        let settings = Settings::read("local=198.18.0.1/24,gateway=198.18.0.2,mtu=576").expect("flags");
        let config = settings.config();
        assert_eq!((config.ip.mtu, config.ip.gateways), (576, vec![IpAddr::from([198, 18, 0, 2])]));
        assert_eq!(config.ip.addresses, [AddressRange::one(IpAddr::from([198, 18, 0, 1]), 24)]);
        for wrong in ["local=198.18.0.1", "gateway=x", "mtu=70000", "speed=3"] {
            assert!(Settings::read(wrong).is_err(), "{wrong}");
        }
    }
}
