//! [`MacAddress`]: an EUI-48 address (IEEE 802).

use std::fmt;
use std::str::FromStr;

/// A 48-bit MAC address.
///
/// Text is six groups of one or two hexadecimal digits joined by `:` (or all by `-`).
///
/// ```
/// use linerate_wire::MacAddress;
/// let mac: MacAddress = "02:00:00:00:00:1".parse().unwrap();
/// assert_eq!(mac.to_string(), "02:00:00:00:00:01");
/// assert!(!mac.is_multicast());
/// assert_eq!(MacAddress::from_u64(mac.to_u64()), mac);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// ff:ff:ff:ff:ff:ff.
    pub const BROADCAST: MacAddress = MacAddress([0xff; 6]);
    /// 00:00:00:00:00:00, no address.
    pub const ZERO: MacAddress = MacAddress([0; 6]);

    /// Whether the group bit is set (broadcast too).
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// The address as a number, first byte most significant.
    #[inline]
    pub const fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The address of a number; its two top bytes are ignored.
    #[inline]
    pub const fn from_u64(number: u64) -> MacAddress {
        let [_, _, a, b, c, d, e, f] = number.to_be_bytes();
        MacAddress([a, b, c, d, e, f])
    }
}

impl From<[u8; 6]> for MacAddress {
    fn from(bytes: [u8; 6]) -> Self {
        MacAddress(bytes)
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for MacAddress {
    type Err = MacParseError;

    fn from_str(text: &str) -> Result<Self, MacParseError> {
        let error = || MacParseError { text: text.chars().take(40).collect() };
        let separator = if text.contains(':') { ':' } else { '-' };
        let mut groups = text.split(separator);
        let mut bytes = [0; 6];
        for byte in &mut bytes {
            let group = groups.next().ok_or_else(error)?;
            let digits = (1..=2).contains(&group.len()) && group.bytes().all(|b| b.is_ascii_hexdigit());
            *byte = if digits {
                u8::from_str_radix(group, 16).map_err(|_| error())?
            } else {
                return Err(error());
            };
        }
        if groups.next().is_some() { Err(error()) } else { Ok(MacAddress(bytes)) }
    }
}

/// Text that is no MAC address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacParseError {
    text: String,
}

impl fmt::Display for MacParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no MAC address (expected six hexadecimal bytes, as 02:00:00:00:00:01)", self.text)
    }
}

impl std::error::Error for MacParseError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_both_separators() {
        let mac = MacAddress([0, 0x1b, 0x21, 0xab, 0xcd, 0xef]);
        assert_eq!("00:1b:21:AB:cd:ef".parse(), Ok(mac));
        assert_eq!("0-1b-21-ab-cd-ef".parse(), Ok(mac));
        assert_eq!(mac.to_string().parse(), Ok(mac));
    }

    #[test]
    fn refuses_what_is_not_an_address() {
        for text in [
            "",
            ":",
            "1:2:3:4:5",
            "1:2:3:4:5:6:7",
            "1:2:3:4:5:",
            "1:2:3:4:5:g",
            "1:2:3:4:5:+6",
            "1:2:3:4:5:123",
            "1:2-3:4:5:6",
            "é:2:3:4:5:6",
        ] {
            let error = text.parse::<MacAddress>().unwrap_err();
            assert!(error.to_string().contains("no MAC address"), "{text}: {error}");
        }
    }
}
