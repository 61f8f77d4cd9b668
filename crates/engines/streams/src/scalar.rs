//! Values of fields as users write them: numbers, and addresses as text.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use linerate_wire::{MacAddress, tcp};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// A number or a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Number(u64),
    Text(String),
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a number from 0 on, or an address as text")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar, E> {
        let unsigned = u64::try_from(number).map_err(|_| E::custom(format!("{number} is negative; fields are not")))?;
        Ok(Scalar::Number(unsigned))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Scalar, E> {
        Ok(Scalar::Number(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.into()))
    }
}

/// How the values of a field are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notation {
    Mac,
    Ipv4,
    Ipv6,
    Number,
}

impl Notation {
    /// The notation of the field `layer.name` or `layer#2.name`.
    pub(super) fn of(field: &str) -> Notation {
        let (layer, name) = field.split_once('.').unwrap_or((field, ""));
        let layer = layer.split_once('#').map_or(layer, |(layer, _)| layer);
        match (layer, name) {
            ("ethernet", "source" | "destination") => Notation::Mac,
            ("ipv4", "source" | "destination") => Notation::Ipv4,
            ("ipv6", "source" | "destination") => Notation::Ipv6,
            _ => Notation::Number,
        }
    }
}

impl Scalar {
    /// The value as the number that stands in the field; of an IPv6 address, the low 64 bits.
    pub(super) fn number(&self, notation: Notation) -> Result<u64, String> {
        let text = match self {
            Scalar::Number(number) => return Ok(*number),
            Scalar::Text(text) => text,
        };
        match notation {
            Notation::Mac => parse_text::<MacAddress>(text).map(MacAddress::to_u64),
            Notation::Ipv4 => parse_text::<Ipv4Addr>(text).map(|address| u64::from(u32::from(address))),
            Notation::Ipv6 => parse_text::<Ipv6Addr>(text).map(|address| u128::from(address) as u64),
            Notation::Number => Err(format!("{text:?}: this field takes numbers, without quotes")),
        }
    }

    /// The IPv6 address that it is, if it is one.
    pub(super) fn ipv6(&self) -> Option<Ipv6Addr> {
        match self {
            Scalar::Text(text) => text.parse().ok(),
            Scalar::Number(_) => None,
        }
    }
}

/// What is written as text: an address.
pub(super) trait Written: FromStr {
    /// What it is, with its article and an example.
    const WHAT: &'static str;
}

impl Written for MacAddress {
    const WHAT: &'static str = "a MAC address, as 02:00:00:00:00:01";
}

impl Written for Ipv4Addr {
    const WHAT: &'static str = "an IPv4 address, as 198.18.0.1";
}

impl Written for Ipv6Addr {
    const WHAT: &'static str = "an IPv6 address, as 2001:2::1";
}

fn parse_text<T: Written>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not {}", T::WHAT))
}

/// A value that a file gives as text.
#[derive(Clone, Copy, Debug)]
pub(super) struct AsText<T>(pub(super) T);

impl<'de, T: Written> Deserialize<'de> for AsText<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AsText<T>, D::Error> {
        struct TextVisitor<T>(PhantomData<T>);
        impl<T: Written> Visitor<'_> for TextVisitor<T> {
            type Value = T;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(T::WHAT)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
                parse_text(text).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(TextVisitor(PhantomData)).map(AsText)
    }
}

/// TCP flags: a number, or names as `SYN+ACK`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TcpFlags(pub(super) tcp::Flags);

const FLAG_NAMES: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

impl<'de> Deserialize<'de> for TcpFlags {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TcpFlags, D::Error> {
        let refuse = |text: &str| {
            D::Error::custom(format!(
                "{text}: flags are a number from 0 to 255, or names of {} with + between them",
                FLAG_NAMES.join(", ")
            ))
        };
        let text = match Scalar::deserialize(deserializer)? {
            Scalar::Number(number) => {
                return u8::try_from(number)
                    .map(|bits| TcpFlags(tcp::Flags(bits)))
                    .map_err(|_| refuse(&number.to_string()));
            }
            Scalar::Text(text) => text,
        };
        let mut bits = 0;
        for name in text.split('+').filter(|_| !text.is_empty()) {
            let bit = FLAG_NAMES.iter().position(|known| known.eq_ignore_ascii_case(name));
            bits |= 1 << bit.ok_or_else(|| refuse(name))?;
        }
        Ok(TcpFlags(tcp::Flags(bits)))
    }
}
