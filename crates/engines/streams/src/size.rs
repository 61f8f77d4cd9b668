//! Packet sizes. Everywhere in a stream file, a size is what the packet occupies on the wire, with its 4 bytes of FCS: 64 is
//! the shortest Ethernet frame. In memory it is 4 bytes shorter.
//!
//! ```text
//! 64                                     all packets have this size
//! [64, 594, 64]                          these, in turn
//! "imix"                                 7 x 64, 4 x 594, 1 x 1518: IP packets of 40 (padded), 576 and 1500 bytes
//! "imix-csit"                            28 x 64, 16 x 570, 4 x 1518: the mix that FD.io CSIT reports for
//! { mix = [[64, 7], [594, 4]] }          a mix of one's own: [size, packets]; sizes are spread evenly
//! { from = 64, to = 1518, step = 2 }     all of them, in turn
//! { list = [64, 1518], order = "random", seed = 1 }     one of the list (or of the range, or of the mix) at random
//! ```

use std::fmt;

use linerate_gen::Sizes;
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Bytes of the frame check sequence.
pub const FCS_BYTES: usize = 4;
/// Sizes on the wire that a file may ask for.
const SIZE_MIN: u64 = 18;
const SIZE_MAX: u64 = 65_535;
/// Most sizes of a list, a range or an expanded mix.
const SIZES_MAX: u64 = 16_384;

const IMIX: [(u64, u64); 3] = [(64, 7), (594, 4), (1518, 1)];
const IMIX_CSIT: [(u64, u64); 3] = [(64, 28), (570, 16), (1518, 4)];

/// `size` as written.
pub(super) enum RawSize {
    One(u64),
    List(Vec<u64>),
    Named(String),
    Table(SizeTable),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SizeTable {
    from: Option<u64>,
    to: Option<u64>,
    step: Option<u64>,
    list: Option<Vec<u64>>,
    mix: Option<Vec<(u64, u64)>>,
    order: Option<SizeOrder>,
    seed: Option<u64>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum SizeOrder {
    Turn,
    Random,
}

impl<'de> Deserialize<'de> for RawSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawSize, D::Error> {
        deserializer.deserialize_any(SizeVisitor)
    }
}

struct SizeVisitor;

impl<'de> Visitor<'de> for SizeVisitor {
    type Value = RawSize;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(
            r#"a size in bytes on the wire, a list of them, "imix", "imix-csit", { from = A, to = B } or { mix = [[SIZE, PACKETS]] }"#,
        )
    }

    fn visit_i64<E: Error>(self, size: i64) -> Result<RawSize, E> {
        Ok(RawSize::One(u64::try_from(size).unwrap_or(0)))
    }

    fn visit_u64<E: Error>(self, size: u64) -> Result<RawSize, E> {
        Ok(RawSize::One(size))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<RawSize, E> {
        Ok(RawSize::Named(name.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<RawSize, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(RawSize::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawSize, A::Error> {
        SizeTable::deserialize(MapAccessDeserializer::new(map)).map(RawSize::Table)
    }
}

/// The sizes of a stream, worked out.
pub(super) struct SizePlan {
    /// Lengths without FCS, each once.
    pub lens: Vec<usize>,
    /// Their order.
    pub sizes: Sizes,
    /// Sizes on the wire and their shares.
    pub shares: Vec<(u32, u64)>,
}

impl SizePlan {
    /// All packets of one size on the wire.
    pub(super) fn one(size_wire: usize) -> SizePlan {
        SizePlan { lens: vec![size_wire - FCS_BYTES], sizes: Sizes::One, shares: vec![(size_wire as u32, 1)] }
    }
}

impl RawSize {
    /// Checks the sizes and puts them in their order.
    pub(super) fn plan(self) -> Result<SizePlan, String> {
        let table = match self {
            RawSize::One(size) => SizeTable { list: Some(vec![size]), ..SizeTable::default() },
            RawSize::List(list) => SizeTable { list: Some(list), ..SizeTable::default() },
            RawSize::Named(name) => named(&name)?,
            RawSize::Table(table) => table,
        };
        let random = table.order == Some(SizeOrder::Random);
        if table.seed.is_some() && !random {
            return Err(r#"a seed is for order = "random""#.into());
        }
        let seed = table.seed.unwrap_or(1);
        let entries = match (&table.list, &table.mix, table.from, table.to) {
            (Some(list), None, None, None) if table.step.is_none() => list.iter().map(|size| (*size, 1)).collect(),
            (None, Some(mix), None, None) if table.step.is_none() => mix.clone(),
            (None, None, Some(from), Some(to)) => range(from, to, table.step.unwrap_or(1))?,
            _ => return Err("sizes are one of: from and to (with step), list, or mix".into()),
        };
        let order = if table.mix.is_some() { spread(&entries)? } else { (0..entries.len()).collect() };
        check_entries(&entries)?;
        let (lens, shares, images) = unique(&entries);
        let order: Vec<usize> = order.into_iter().map(|entry| images[entry]).collect();
        let sizes = match (lens.len(), random) {
            (1, _) => Sizes::One,
            (_, true) => Sizes::RandomOf { order, seed },
            (_, false) => Sizes::Pattern(order),
        };
        Ok(SizePlan { lens, sizes, shares })
    }
}

fn named(name: &str) -> Result<SizeTable, String> {
    let mix = match name {
        "imix" => IMIX,
        "imix-csit" => IMIX_CSIT,
        _ => return Err(format!("{name:?} is no mix that is known; imix and imix-csit are")),
    };
    Ok(SizeTable { mix: Some(mix.into()), ..SizeTable::default() })
}

fn range(from: u64, to: u64, step: u64) -> Result<Vec<(u64, u64)>, String> {
    if step == 0 || from > to {
        return Err(format!(
            "from {from} to {to} with step {step}: from must not exceed to, and the step is at least 1"
        ));
    }
    check_size(from).and(check_size(to))?;
    Ok((from..=to).step_by(step as usize).map(|size| (size, 1)).collect())
}

fn check_entries(entries: &[(u64, u64)]) -> Result<(), String> {
    if entries.is_empty() || entries.len() as u64 > SIZES_MAX {
        return Err(format!("{} sizes; 1 to {SIZES_MAX} are possible", entries.len()));
    }
    entries.iter().try_for_each(|(size, _)| check_size(*size))
}

fn check_size(size: u64) -> Result<(), String> {
    if (SIZE_MIN..=SIZE_MAX).contains(&size) {
        return Ok(());
    }
    Err(format!(
        "a size of {size} bytes; on the wire (FCS included) {SIZE_MIN} to {SIZE_MAX} are possible, and Ethernet begins at 64"
    ))
}

/// The entries of a mix, each as often as its weight says, spread evenly (smooth weighted round robin).
fn spread(mix: &[(u64, u64)]) -> Result<Vec<usize>, String> {
    let total = mix.iter().fold(0u64, |total, (_, weight)| total.saturating_add(*weight));
    if mix.iter().any(|(_, weight)| *weight == 0) || total > SIZES_MAX {
        return Err(format!(
            "a mix of {total} packets; each size has at least 1, and all together at most {SIZES_MAX}"
        ));
    }
    let mut credit = vec![0i64; mix.len()];
    let mut order = Vec::with_capacity(total as usize);
    for _ in 0..total {
        credit.iter_mut().zip(mix).for_each(|(credit, (_, weight))| *credit += *weight as i64);
        let best = (0..mix.len()).rev().max_by_key(|entry| credit[*entry]).unwrap_or(0);
        credit[best] -= total as i64;
        order.push(best);
    }
    Ok(order)
}

/// Lengths without FCS, each once; sizes with their shares; and for each entry the index of its length.
fn unique(entries: &[(u64, u64)]) -> (Vec<usize>, Vec<(u32, u64)>, Vec<usize>) {
    let (mut lens, mut shares) = (Vec::new(), Vec::<(u32, u64)>::new());
    let mut known = std::collections::HashMap::new();
    let mut images = Vec::with_capacity(entries.len());
    for (size, weight) in entries {
        let image = *known.entry(*size).or_insert_with(|| {
            lens.push(*size as usize - FCS_BYTES);
            shares.push((*size as u32, 0));
            lens.len() - 1
        });
        shares[image].1 += weight;
        images.push(image);
    }
    (lens, shares, images)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_gen::mean_len;

    fn plan(text: &str) -> Result<SizePlan, String> {
        #[derive(Deserialize)]
        struct Holder {
            size: RawSize,
        }
        let holder: Holder = toml::from_str(&format!("size = {text}")).map_err(|error| error.message().to_string())?;
        holder.size.plan()
    }

    #[test]
    fn sizes_are_on_the_wire_and_lengths_are_not() {
        let one = plan("64").unwrap();
        assert_eq!((one.lens, one.sizes, one.shares), (vec![60], Sizes::One, vec![(64, 1)]));
        let list = plan("[64, 128, 64]").unwrap();
        assert_eq!((list.lens, list.sizes), (vec![60, 124], Sizes::Pattern(vec![0, 1, 0])));
        let range = plan("{ from = 64, to = 70, step = 3 }").unwrap();
        assert_eq!((range.lens, range.sizes), (vec![60, 63, 66], Sizes::Pattern(vec![0, 1, 2])));
        let random = plan(r#"{ list = [64, 128], order = "random", seed = 7 }"#).unwrap();
        assert_eq!(random.sizes, Sizes::RandomOf { order: vec![0, 1], seed: 7 });
    }

    #[test]
    fn mixes_are_spread_and_their_means_are_the_published_ones() {
        let imix = plan(r#""imix""#).unwrap();
        let order = vec![0, 1, 0, 0, 1, 0, 2, 0, 1, 0, 1, 0];
        assert_eq!((imix.sizes.clone(), imix.shares), (Sizes::Pattern(order), vec![(64, 7), (594, 4), (1518, 1)]));
        assert!((mean_len(&imix.lens, &imix.sizes) + 4.0 - (7.0 * 64.0 + 4.0 * 594.0 + 1518.0) / 12.0).abs() < 1e-9);
        let csit = plan(r#""imix-csit""#).unwrap();
        assert!((mean_len(&csit.lens, &csit.sizes) + 4.0 - 353.833).abs() < 0.001);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for bad in [
            "0",
            "17",
            "65536",
            "-1",
            "[]",
            r#""IMIX""#,
            "{}",
            "{ from = 64 }",
            "{ from = 65, to = 64 }",
            "{ from = 64, to = 65, step = 0 }",
            "{ mix = [[64, 0]] }",
            "{ mix = [[64, 99999999999]] }",
            "{ mix = [] }",
            "{ list = [64], step = 2 }",
            "{ list = [64], mix = [[64, 1]] }",
            "{ list = [64], seed = 1 }",
            r#"{ list = [64], order = "up" }"#,
            "true",
            "64.0",
            "{ mix = [[64]] }",
            "{ from = 18, to = 65535, step = 1 }",
        ] {
            assert!(plan(bad).is_err(), "{bad}");
        }
    }
}
