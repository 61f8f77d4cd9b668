//! From what a user asks for - layers, lengths, rules - to a [`StreamPlan`] that needs no thought per packet.

use linerate_wire::{LayerKind, Layout, Stack};

use crate::field::{Advance, FieldPlan, SUMS_MAX, SumTerm, Values};
use crate::locate::{FieldLocation, locate};
use crate::plan_error::PlanError;
use crate::signature::SIGNATURE_LEN;
use crate::size::Sizes;
use crate::stream::{ImagePlan, StreamPlan, SumPlan};

/// Most bytes that the images of one stream may need: a range of lengths keeps one image for each.
const IMAGES_BYTES_MAX: usize = 16 << 20;

/// A stream as asked for.
#[derive(Clone, Debug)]
pub struct StreamSpec {
    /// Layers, payload fill, UDP checksum or none.
    pub stack: Stack,
    /// Lengths that occur, in bytes without FCS, each once.
    pub lens: Vec<usize>,
    /// In which order they follow each other.
    pub sizes: Sizes,
    /// What varies. A rule that waits for the one before it stands behind it.
    pub rules: Vec<Rule>,
    /// Stream id for the signature; `None` = no signature.
    pub signature: Option<u16>,
}

/// One varying field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// `layer.field`, `layer#2.field`, or `offset+width` (see `place.rs`).
    pub field: String,
    /// Its values.
    pub values: Values,
    /// When it goes to the next one.
    pub advance: Advance,
}

impl StreamSpec {
    /// A stream of one length without rules.
    pub fn fixed(stack: Stack, len: usize, signature: Option<u16>) -> StreamSpec {
        StreamSpec { stack, lens: vec![len], sizes: Sizes::One, rules: Vec::new(), signature }
    }

    /// Works everything out that is the same for all packets.
    pub fn plan(&self) -> Result<StreamPlan, PlanError> {
        if self.lens.is_empty() {
            return Err(PlanError::Lens("a stream needs at least one frame length".into()));
        }
        if self.lens.iter().sum::<usize>() > IMAGES_BYTES_MAX {
            let problem =
                "so many lengths need more than 16 MiB of images; give fewer, as a list or a range with a step";
            return Err(PlanError::Lens(problem.into()));
        }
        let first = self.stack.build(self.lens[0])?;
        let mut places = Vec::with_capacity(self.rules.len());
        let mut fields = Vec::with_capacity(self.rules.len());
        for rule in &self.rules {
            let place = locate(&first.layout, &rule.field)?;
            fields.push(field_plan(rule, place, &first.bytes, &first.layout)?);
            places.push(place);
        }
        let images = self.lens.iter().map(|len| self.image(*len, &places)).collect::<Result<_, _>>()?;
        Ok(StreamPlan { signature: self.signature, images, sizes: self.sizes.clone(), fields })
    }

    /// The frame of one length with all that varies taken out, of the bytes as of the sums.
    fn image(&self, len: usize, places: &[FieldLocation]) -> Result<ImagePlan, PlanError> {
        let built = self.stack.build(len)?;
        let (mut bytes, layout) = (built.bytes, built.layout);
        if self.signature.is_some() {
            let room = layout.payload.len();
            if room < SIGNATURE_LEN {
                return Err(PlanError::NoRoomForSignature { len, room, least: len - room + SIGNATURE_LEN });
            }
            layout.patch(&mut bytes, len - SIGNATURE_LEN, &[0; SIGNATURE_LEN]);
        }
        for place in places {
            if place.offset + place.width > layout.payload.start.max(len - SIGNATURE_LEN.min(len))
                && self.signature.is_some()
            {
                let problem = "it would overwrite the signature in the last 16 bytes of the frame".into();
                return Err(PlanError::Field { name: format!("{}+{}", place.offset, place.width), problem });
            }
            layout.patch(&mut bytes, place.offset, &[0; 8][..place.width]);
        }
        let sums = sums_of(&layout, &bytes, self.signature.is_some())?;
        Ok(ImagePlan { bytes, sums })
    }
}

fn field_plan(rule: &Rule, place: FieldLocation, bytes: &[u8], layout: &Layout) -> Result<FieldPlan, PlanError> {
    let wrong = |problem: String| PlanError::Field { name: rule.field.clone(), problem };
    let range = place.offset..place.offset + place.width;
    let touches_checksum = layout.checksums.iter().any(|sum| range.start < sum.offset + 2 && sum.offset < range.end);
    if touches_checksum {
        return Err(wrong("checksums are kept right, they cannot vary by themselves".into()));
    }
    check_values(&rule.values, place.value_bits).map_err(wrong)?;
    let old = bytes[range.clone()].iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let mask = if place.value_bits >= 64 { u64::MAX } else { ((1 << place.value_bits) - 1) << place.shift };
    let mut sums = Vec::new();
    for update in layout.checksums_covering(place.offset, place.width) {
        if update.bytes != range {
            return Err(wrong("a checksum covers a part of it only".into()));
        }
        let sum = present_index(layout, update.checksum);
        sums.push(SumTerm { sum, negative: weight_sign(update.weight, &rule.field)? });
    }
    Ok(FieldPlan {
        offset: place.offset,
        width: place.width,
        shift: place.shift,
        constant: old & !mask,
        value_bits: place.value_bits,
        values: rule.values.clone(),
        advance: rule.advance,
        sums,
    })
}

fn weight_sign(weight: i32, field: &str) -> Result<bool, PlanError> {
    match weight {
        1 => Ok(false),
        -1 => Ok(true),
        _ => Err(PlanError::Field { name: field.into(), problem: "it enters a checksum more than once".into() }),
    }
}

fn check_values(values: &Values, bits: u32) -> Result<(), String> {
    let max = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
    let too_large = |value: u64| format!("{value} does not fit its {bits} bits (at most {max})");
    match values {
        Values::List(list) if list.is_empty() => Err("an empty list of values".into()),
        Values::List(list) => list.iter().find(|value| **value > max).map_or(Ok(()), |value| Err(too_large(*value))),
        Values::Range { count: 0, .. } | Values::Random { count: 0, .. } => Err("no values: the count is 0".into()),
        Values::Range { first, .. } | Values::Random { first, .. } if *first > max => Err(too_large(*first)),
        _ => Ok(()),
    }
}

/// The checksum fields that are there (a UDP checksum of 0 stays 0), with what they are without the varying bytes.
fn sums_of(layout: &Layout, bytes: &[u8], signed: bool) -> Result<Vec<SumPlan>, PlanError> {
    let signature_at = layout.frame_len - SIGNATURE_LEN.min(layout.frame_len);
    let covering = if signed { layout.checksums_covering(signature_at, SIGNATURE_LEN) } else { Vec::new() };
    let mut sums = Vec::new();
    for (index, field) in layout.checksums.iter().enumerate().filter(|(_, field)| field.present) {
        if sums.len() == SUMS_MAX {
            return Err(PlanError::Lens(format!("a packet with more than {SUMS_MAX} checksums")));
        }
        let checksum = u16::from_be_bytes([bytes[field.offset], bytes[field.offset + 1]]);
        let signature = covering.iter().find(|update| update.checksum == index);
        let signature = signature.map(|update| {
            let negative = weight_sign(update.weight, "signature")?;
            Ok::<_, PlanError>(SumTerm { sum: sums.len(), negative })
        });
        sums.push(SumPlan {
            offset: field.offset,
            base: u64::from(!checksum),
            zero_as_ones: field.kind == LayerKind::Udp,
            signature: signature.transpose()?,
        });
    }
    Ok(sums)
}

/// Index of a checksum among those that are present.
fn present_index(layout: &Layout, index: usize) -> usize {
    layout.checksums[..index].iter().filter(|field| field.present).count()
}
