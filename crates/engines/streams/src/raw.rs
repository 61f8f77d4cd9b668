//! The shapes of a stream file, as serde reads them: types are right, values are not checked yet.

use std::fmt;

use linerate_gen::Arrival;
use linerate_wire::Fill;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use toml::Spanned;

use super::layer::RawLayer;
use super::scalar::Scalar;
use super::size::RawSize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub rate: Option<Spanned<String>>,
    pub arrival: Option<Spanned<RawArrival>>,
    pub count: Option<Spanned<u64>>,
    pub duration: Option<Spanned<String>>,
    pub stream: Spanned<Vec<Spanned<RawStream>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStream {
    pub name: Option<String>,
    pub id: Option<u16>,
    pub weight: Option<Spanned<u32>>,
    pub signature: Option<bool>,
    pub size: Option<Spanned<RawSize>>,
    pub fill: Option<RawFill>,
    pub udp_checksum: Option<bool>,
    pub layers: Option<Spanned<Vec<Spanned<RawLayer>>>>,
    #[serde(default)]
    pub vary: Vec<Spanned<RawRule>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRule {
    pub field: Spanned<String>,
    pub value: Option<Spanned<Scalar>>,
    pub values: Option<Spanned<Vec<Spanned<Scalar>>>>,
    pub first: Option<Spanned<Scalar>>,
    pub last: Option<Spanned<Scalar>>,
    pub count: Option<Spanned<u64>>,
    pub step: Option<Spanned<u64>>,
    pub order: Option<Spanned<Order>>,
    pub seed: Option<Spanned<u64>>,
    pub each: Option<Spanned<Each>>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Order {
    Increment,
    Decrement,
    Random,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Each {
    Packet,
    Cycle,
}

/// `"constant"`, `"poisson"`, `{ poisson = { seed = 7 } }` or `{ burst = 32 }`.
pub(super) struct RawArrival(Arrival);

/// Seed of a Poisson process that is given none.
const SEED_DEFAULT: u64 = 1;

impl RawArrival {
    pub(super) fn check(self) -> Result<Arrival, String> {
        match self.0 {
            Arrival::Burst { packets: 0 } => Err("a burst has at least 1 packet".into()),
            arrival => Ok(arrival),
        }
    }
}

impl<'de> Deserialize<'de> for RawArrival {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawArrival, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            poisson: Option<Poisson>,
            burst: Option<u32>,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Poisson {
            seed: Option<u64>,
        }
        const WHAT: &str = r#""constant", "poisson", { poisson = { seed = NUMBER } } or { burst = PACKETS }"#;
        let read = WordOrTable::<Table>::read(deserializer, WHAT)?;
        Ok(RawArrival(match read {
            WordOrTable::Word(word) if word == "constant" => Arrival::Constant,
            WordOrTable::Word(word) if word == "poisson" => Arrival::Poisson { seed: SEED_DEFAULT },
            WordOrTable::Table(Table { poisson: Some(poisson), burst: None }) => {
                Arrival::Poisson { seed: poisson.seed.unwrap_or(SEED_DEFAULT) }
            }
            WordOrTable::Table(Table { poisson: None, burst: Some(packets) }) => Arrival::Burst { packets },
            _ => return Err(D::Error::custom(format!("an arrival is {WHAT}"))),
        }))
    }
}

/// `"zero"`, `"increment"`, `{ byte = 0xa5 }`, `{ hex = "deadbeef" }`, `{ text = "abc" }` or `{ random = SEED }`.
pub(super) struct RawFill(pub(super) Fill);

impl<'de> Deserialize<'de> for RawFill {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawFill, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "lowercase", deny_unknown_fields)]
        struct Table {
            byte: Option<u8>,
            hex: Option<String>,
            text: Option<String>,
            random: Option<u64>,
        }
        const WHAT: &str =
            r#""zero", "increment", { byte = 0xa5 }, { hex = "deadbeef" }, { text = "abc" } or { random = SEED }"#;
        let refuse = || D::Error::custom(format!("a fill is {WHAT}"));
        let fill = match WordOrTable::<Table>::read(deserializer, WHAT)? {
            WordOrTable::Word(word) if word == "zero" => Fill::Zero,
            WordOrTable::Word(word) if word == "increment" => Fill::Increment,
            WordOrTable::Table(Table { byte: Some(byte), hex: None, text: None, random: None }) => Fill::Byte(byte),
            WordOrTable::Table(Table { byte: None, hex: Some(hex), text: None, random: None }) => {
                Fill::Repeat(from_hex(&hex).ok_or_else(refuse)?)
            }
            WordOrTable::Table(Table { byte: None, hex: None, text: Some(text), random: None }) => {
                Fill::Repeat(text.into_bytes())
            }
            WordOrTable::Table(Table { byte: None, hex: None, text: None, random: Some(seed) }) => Fill::Random(seed),
            _ => return Err(refuse()),
        };
        Ok(RawFill(fill))
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| !digits.is_empty() && digits.len().is_multiple_of(2))?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// A value that is either a word or a table.
pub(super) enum WordOrTable<T> {
    Word(String),
    Table(T),
}

impl<'de, T: Deserialize<'de>> WordOrTable<T> {
    /// Reads it; `what` says what is expected.
    pub(super) fn read<D: Deserializer<'de>>(deserializer: D, what: &'static str) -> Result<Self, D::Error> {
        struct WordVisitor<T>(&'static str, std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for WordVisitor<T> {
            type Value = WordOrTable<T>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(self.0)
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<WordOrTable<T>, E> {
                Ok(WordOrTable::Word(word.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WordOrTable<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(WordOrTable::Table)
            }
        }
        deserializer.deserialize_any(WordVisitor(what, std::marker::PhantomData))
    }
}
