//! What a driver tells and takes through SIOCETHTOOL (linux/ethtool.h): its name, its statistics by
//! name, offload features, ring sizes, channels, pause frames, link speed.
//!
//! The ioctl rather than the netlink family, because drivers' own statistics exist only here. A
//! command that a driver does not have answers `None`, not an error.
#![allow(unsafe_code)]

use std::io;

use crate::netdev::Netdev;

const GET_DRIVER_INFO: u32 = 0x03;
const GET_LINK: u32 = 0x0a;
const GET_RING_SIZES: u32 = 0x10;
const GET_PAUSE: u32 = 0x12;
const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
const GET_SET_INFO: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;
const SET_FEATURES: u32 = 0x3b;
const GET_CHANNELS: u32 = 0x3c;
const GET_SETTINGS: u32 = 0x01;

/// String sets (`enum ethtool_stringset`).
const STATISTICS_SET: u32 = 1;
const FEATURES_SET: u32 = 4;

/// ETH_GSTRING_LEN.
const STRING_LEN: usize = 32;
/// More strings than any driver has; a count beyond it is not believed.
const STRINGS_MAX: usize = 65_536;
/// Room beyond the count that the driver gave, because it may add queues between two calls and the
/// kernel writes as many values as it has then.
const SLACK: usize = 1_024;

/// Who drives the interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverInfo {
    /// Driver name, `veth` or `i40e`.
    pub driver: String,
    /// Driver version; the kernel's own for drivers that have none.
    pub version: String,
    /// Firmware version; may be empty.
    pub firmware: String,
    /// Bus address, `0000:01:00.0`; may be empty.
    pub bus: String,
}

/// One offload feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    /// The kernel's name, `rx-gro` or `tx-checksum-ip-generic`.
    pub name: String,
    /// Whether it is on.
    pub active: bool,
    /// Whether it can be changed.
    pub changeable: bool,
}

/// Descriptors in the receive and transmit rings, and the most that the hardware takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingSizes {
    /// Receive descriptors now.
    pub rx: u32,
    /// Receive descriptors at most.
    pub rx_max: u32,
    /// Transmit descriptors now.
    pub tx: u32,
    /// Transmit descriptors at most.
    pub tx_max: u32,
}

/// Queues ("channels").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels {
    /// Receive-only queues now, and at most.
    pub rx: (u32, u32),
    /// Transmit-only queues now, and at most.
    pub tx: (u32, u32),
    /// Queues that do both now, and at most.
    pub combined: (u32, u32),
}

/// IEEE 802.3x flow control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Negotiated with the link partner.
    pub autonegotiated: bool,
    /// Obeys pause frames that it receives.
    pub rx: bool,
    /// Sends pause frames when it cannot keep up.
    pub tx: bool,
}

impl Netdev {
    /// Driver, firmware and bus.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn driver_info(&self) -> io::Result<Option<DriverInfo>> {
        let mut info = RawDriverInfo { command: GET_DRIVER_INFO, ..RawDriverInfo::default() };
        // SAFETY: ETHTOOL_GDRVINFO reads and writes one ethtool_drvinfo.
        let answered = supported(unsafe { self.ethtool((&raw mut info).cast()) })?;
        Ok(answered.map(|()| DriverInfo {
            driver: text(&info.driver),
            version: text(&info.version),
            firmware: text(&info.firmware),
            bus: text(&info.bus),
        }))
    }

    /// The driver's own counters, by the names that it gives them; empty when it has none.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn statistics(&self) -> io::Result<Vec<(String, u64)>> {
        let names = self.statistic_names()?;
        let values = self.statistic_values(names.len())?;
        Ok(names.into_iter().zip(values).collect())
    }

    /// The names of [`Netdev::statistics`], which change only when queues are added or removed.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn statistic_names(&self) -> io::Result<Vec<String>> {
        self.strings(STATISTICS_SET)
    }

    /// The values that belong to `count` names.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn statistic_values(&self, count: usize) -> io::Result<Vec<u64>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        // struct ethtool_stats: two 32-bit words (command, count), then the values.
        let mut buffer = vec![0_u64; 1 + count + SLACK];
        buffer[0] = two_words(GET_STATISTICS, count as u32);
        // SAFETY: ETHTOOL_GSTATS writes the header and one u64 for each statistic; the count was read
        // from the same driver and the buffer has SLACK more.
        match supported(unsafe { self.ethtool(buffer.as_mut_ptr().cast()) })? {
            Some(()) => Ok(buffer[1..=count].to_vec()),
            None => Ok(Vec::new()),
        }
    }

    /// Every offload feature that this kernel knows.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn features(&self) -> io::Result<Vec<Feature>> {
        let names = self.strings(FEATURES_SET)?;
        let mut buffer = vec![0_u32; 2 + names.len().div_ceil(32) * 4];
        buffer[0] = GET_FEATURES;
        buffer[1] = names.len().div_ceil(32) as u32;
        // SAFETY: ETHTOOL_GFEATURES writes at most as many blocks of four words as the second word says.
        if supported(unsafe { self.ethtool(buffer.as_mut_ptr().cast()) })?.is_none() {
            return Ok(Vec::new());
        }
        // struct ethtool_get_features_block: available, requested, active, never_changed.
        let bit = |index: usize, word: usize| buffer[2 + index / 32 * 4 + word] & (1 << (index % 32)) != 0;
        let feature = |(index, name): (usize, String)| Feature {
            active: bit(index, 2),
            changeable: bit(index, 0) && !bit(index, 3),
            name,
        };
        let named = |(_, name): &(usize, String)| !name.is_empty();
        Ok(names.into_iter().enumerate().filter(named).map(feature).collect())
    }

    /// Whether the feature `name` is on; `None` when this kernel does not know it.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn feature(&self, name: &str) -> io::Result<Option<bool>> {
        let features = self.features()?;
        Ok(features.iter().find(|f| f.name == name).map(|f| f.active))
    }

    /// Turns offload features on or off by name, all in one request, because some depend on others.
    ///
    /// # Errors
    /// `NotFound` for a name that this kernel does not know, `Unsupported` when the driver left
    /// one as it was, `EPERM` without CAP_NET_ADMIN.
    pub fn set_features(&self, wanted: &[(&str, bool)]) -> io::Result<()> {
        let names = self.strings(FEATURES_SET)?;
        let blocks = names.len().div_ceil(32);
        let mut buffer = vec![0_u32; 2 + blocks * 2];
        buffer[0] = SET_FEATURES;
        buffer[1] = blocks as u32;
        for (name, on) in wanted {
            let index = names.iter().position(|known| known == name).ok_or_else(|| {
                let text = format!("this kernel knows no offload feature `{name}`");
                io::Error::new(io::ErrorKind::NotFound, text)
            })?;
            // struct ethtool_set_features_block: valid, requested.
            let (block, bit) = (2 + index / 32 * 2, 1 << (index % 32));
            buffer[block] |= bit;
            if *on {
                buffer[block + 1] |= bit;
            }
        }
        // SAFETY: ETHTOOL_SFEATURES reads as many blocks of two words as the second word says.
        unsafe { self.ethtool(buffer.as_mut_ptr().cast()) }?;
        for (name, on) in wanted {
            if self.feature(name)? != Some(*on) {
                let state = if *on { "on" } else { "off" };
                let text = format!("{} does not let {name} be turned {state}", self.name());
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
        }
        Ok(())
    }

    /// Ring sizes; `None` when the driver has no rings to size.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn ring_sizes(&self) -> io::Result<Option<RingSizes>> {
        // struct ethtool_ringparam: command, four maxima (rx, mini, jumbo, tx), four values.
        let mut words = [0_u32; 9];
        words[0] = GET_RING_SIZES;
        // SAFETY: ETHTOOL_GRINGPARAM reads and writes nine words.
        let answered = supported(unsafe { self.ethtool(words.as_mut_ptr().cast()) })?;
        Ok(answered.map(|()| RingSizes { rx_max: words[1], tx_max: words[4], rx: words[5], tx: words[8] }))
    }

    /// Queue counts; `None` when the driver does not tell.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn channels(&self) -> io::Result<Option<Channels>> {
        // struct ethtool_channels: command, four maxima (rx, tx, other, combined), four values.
        let mut words = [0_u32; 9];
        words[0] = GET_CHANNELS;
        // SAFETY: ETHTOOL_GCHANNELS reads and writes nine words.
        let answered = supported(unsafe { self.ethtool(words.as_mut_ptr().cast()) })?;
        Ok(answered.map(|()| Channels {
            rx: (words[5], words[1]),
            tx: (words[6], words[2]),
            combined: (words[8], words[4]),
        }))
    }

    /// Flow control; `None` when the driver has none.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn pause(&self) -> io::Result<Option<Pause>> {
        let mut words = [GET_PAUSE, 0, 0, 0];
        // SAFETY: ETHTOOL_GPAUSEPARAM reads and writes four words.
        let answered = supported(unsafe { self.ethtool(words.as_mut_ptr().cast()) })?;
        Ok(answered.map(|()| Pause { autonegotiated: words[1] != 0, rx: words[2] != 0, tx: words[3] != 0 }))
    }

    /// Whether the driver sees a link; `None` when it does not tell.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn link(&self) -> io::Result<Option<bool>> {
        let mut words = [GET_LINK, 0];
        // SAFETY: ETHTOOL_GLINK reads and writes two words.
        let answered = supported(unsafe { self.ethtool(words.as_mut_ptr().cast()) })?;
        Ok(answered.map(|()| words[1] != 0))
    }

    /// The link's speed in Mbit/s; `None` when unknown. (A veth says 10,000 whatever it carries.)
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn speed_mbps(&self) -> io::Result<Option<u32>> {
        // struct ethtool_cmd, 44 bytes: speed is the 16 bits at 12, its upper half those at 28.
        let mut words = [0_u32; 11];
        words[0] = GET_SETTINGS;
        // SAFETY: ETHTOOL_GSET reads and writes eleven words.
        let answered = supported(unsafe { self.ethtool(words.as_mut_ptr().cast()) })?;
        let halves = |word: u32| {
            let bytes = word.to_ne_bytes();
            [u16::from_ne_bytes([bytes[0], bytes[1]]), u16::from_ne_bytes([bytes[2], bytes[3]])]
        };
        let speed = u32::from(halves(words[7])[0]) << 16 | u32::from(halves(words[3])[0]);
        let known = |speed: &u32| *speed != 0 && *speed != u32::MAX && *speed != 0xffff;
        Ok(answered.map(|()| speed).filter(known))
    }

    /// The strings of one set, after asking how many there are.
    fn strings(&self, set: u32) -> io::Result<Vec<String>> {
        let count = self.string_count(set)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        // struct ethtool_gstrings: command, set, count, then 32 bytes each.
        let mut buffer = vec![0_u32; 3 + (count + SLACK) * STRING_LEN / 4];
        buffer[0] = GET_STRINGS;
        buffer[1] = set;
        buffer[2] = count as u32;
        // SAFETY: ETHTOOL_GSTRINGS writes the header and 32 bytes for each string; the count was read
        // from the same driver and the buffer has SLACK more.
        unsafe { self.ethtool(buffer.as_mut_ptr().cast()) }?;
        let count = count.min(buffer[2] as usize);
        let bytes: Vec<u8> = buffer[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
        Ok(bytes.chunks_exact(STRING_LEN).take(count).map(text).collect())
    }

    fn string_count(&self, set: u32) -> io::Result<usize> {
        // struct ethtool_sset_info: command, reserved, a 64-bit mask, one count for each bit left set.
        let mut buffer = [two_words(GET_SET_INFO, 0), 1 << set, 0];
        // SAFETY: ETHTOOL_GSSET_INFO writes one 32-bit count for each bit of the mask: one here.
        let answered = supported(unsafe { self.ethtool(buffer.as_mut_ptr().cast()) })?;
        if answered.is_none() || buffer[1] == 0 {
            return Ok(0);
        }
        let [a, b, c, d, ..] = buffer[2].to_ne_bytes();
        match u32::from_ne_bytes([a, b, c, d]) as usize {
            count if count <= STRINGS_MAX => Ok(count),
            count => Err(io::Error::other(format!("{} claims {count} strings", self.name()))),
        }
    }
}

/// struct ethtool_drvinfo.
#[repr(C)]
#[derive(Default)]
struct RawDriverInfo {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    bus: [u8; 32],
    erom_version: [u8; 32],
    reserved: [u8; 12],
    counts: [u32; 5],
}

/// `None` for a command that the driver does not have.
pub(crate) fn supported(result: io::Result<()>) -> io::Result<Option<()>> {
    match result {
        Ok(()) => Ok(Some(())),
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Two 32-bit words as they lie in memory in one of 64 bits.
fn two_words(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::NetNs;

    #[test]
    fn the_layout_is_the_kernels() {
        assert_eq!(size_of::<RawDriverInfo>(), 196);
        let bytes = two_words(GET_STATISTICS, 7).to_ne_bytes();
        assert_eq!(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]), 0x1d);
        assert_eq!(text(b"veth\0\0junk"), "veth");
    }

    #[test]
    fn the_loopback_tells_what_it_is_and_turns_gro_off_and_on() {
        let namespace = match NetNs::anonymous() {
            Ok(namespace) => namespace,
            Err(error) => return eprintln!("skipped: no network namespace: {error}"),
        };
        let lo = namespace.run(|| Netdev::open("lo")).expect("enter").expect("lo");
        assert_eq!(lo.feature("rx-gro").expect("features"), Some(true));
        lo.set_features(&[("rx-gro", false)]).expect("gro off");
        assert_eq!(lo.feature("rx-gro").expect("features"), Some(false));
        lo.set_features(&[("rx-gro", true)]).expect("gro on");
        assert_eq!(lo.feature("no-such-thing").expect("features"), None);
        let error = lo.set_features(&[("no-such-thing", true)]).expect_err("unknown");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        // `loopback` is not changeable: asking for it to go is refused, not ignored.
        let error = lo.set_features(&[("loopback", false)]).expect_err("fixed");
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert_eq!(lo.statistics().expect("statistics"), []);
        assert_eq!(lo.ring_sizes().expect("rings"), None);
        assert_eq!(lo.pause().expect("pause"), None);
        assert_eq!(lo.channels().expect("channels"), None);
    }
}
