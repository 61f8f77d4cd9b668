//! One `[[stream]]` table -> one [`StreamSpec`], checked by making its plan.

use std::ops::Range;

use linerate_gen::{PlanError, SIGNATURE_LEN, StreamSpec};
use linerate_wire::{BuildError, Layer, Stack, UdpChecksum};
use toml::Spanned;

use super::layer::RawLayer;
use super::raw::RawStream;
use super::size::{FCS_BYTES, SizePlan};
use super::{Problem, StreamEntry, rule};

/// Shortest Ethernet frame on the wire.
const SIZE_WIRE_MIN: usize = 64;
/// Most layers of a packet.
const LAYERS_MAX: usize = 32;
/// Most characters of a stream's name.
const NAME_LEN_MAX: usize = 60;
/// Largest weight.
const WEIGHT_MAX: u32 = 1_000_000;

/// What the streams of one file may need together.
pub(super) struct Budget {
    listed_values: usize,
    image_bytes: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { listed_values: 65_536, image_bytes: 16 << 20 }
    }
}

/// The stream, and where its table stands.
pub(super) fn build(
    table: Spanned<RawStream>,
    position: usize,
    budget: &mut Budget,
) -> Result<(StreamEntry, Range<usize>), Problem> {
    let span = table.span();
    let mut raw = table.into_inner();
    let places = Places::of(&raw, &span);
    check_table(&raw, &span)?;
    let (layers, source_mac_given) = layers(&mut raw, &places)?;
    let stack = Stack {
        layers,
        fill: raw.fill.take().map(|fill| fill.0).unwrap_or_default(),
        udp_checksum: if raw.udp_checksum == Some(false) { UdpChecksum::Absent } else { UdpChecksum::Computed },
    };
    let signature = (raw.signature != Some(false)).then(|| raw.id.unwrap_or(position as u16));
    let sizes = match raw.size.take() {
        Some(size) => size.into_inner().plan().map_err(|message| Problem::new(places.size.clone(), message))?,
        None => {
            let least = stack.headers_len() + FCS_BYTES + signature.map_or(0, |_| SIGNATURE_LEN);
            SizePlan::one(least.max(SIZE_WIRE_MIN))
        }
    };
    budget.charge(&raw, &sizes, &span)?;
    let shortest = sizes.lens.iter().copied().min().unwrap_or(0);
    let built = stack.build(shortest).map_err(|error| places.problem(PlanError::Build(error)))?;
    let rules = rule::build(&raw.vary, &stack.layers, &built.layout)?;
    let spec = StreamSpec { stack, lens: sizes.lens, sizes: sizes.sizes, rules, signature };
    spec.plan().map_err(|error| places.problem(error))?;
    let weight = raw.weight.as_ref().map_or(1, |weight| *weight.get_ref());
    let entry = StreamEntry { name: raw.name, weight, spec, source_mac_given, sizes_wire: sizes.shares };
    Ok((entry, span))
}

fn check_table(raw: &RawStream, span: &Range<usize>) -> Result<(), Problem> {
    if let Some(weight) = raw.weight.as_ref().filter(|weight| !(1..=WEIGHT_MAX).contains(weight.get_ref())) {
        return Err(Problem::new(weight.span(), format!("a weight is 1 to {WEIGHT_MAX}")));
    }
    if raw.name.as_ref().is_some_and(|name| name.chars().count() > NAME_LEN_MAX || name.chars().any(char::is_control)) {
        let message = format!("the name is longer than {NAME_LEN_MAX} characters, or has control characters");
        return Err(Problem::new(span.clone(), message));
    }
    if raw.signature == Some(false) && raw.id.is_some() {
        return Err(Problem::new(span.clone(), "an id is written into signatures, which this stream does not have"));
    }
    if raw.vary.len() > rule::RULES_MAX {
        return Err(Problem::new(
            span.clone(),
            format!("{} rules; at most {} are possible", raw.vary.len(), rule::RULES_MAX),
        ));
    }
    Ok(())
}

/// The layers, and whether the first one's source address was given.
fn layers(raw: &mut RawStream, places: &Places) -> Result<(Vec<Layer>, bool), Problem> {
    let usual = RawLayer::usual();
    let mut layers: Vec<RawLayer> = match raw.layers.take() {
        Some(layers) => layers.into_inner().into_iter().map(Spanned::into_inner).collect(),
        None => usual,
    };
    if layers.len() > LAYERS_MAX {
        return Err(Problem::new(
            places.layers.clone(),
            format!("{} layers; at most {LAYERS_MAX} are possible", layers.len()),
        ));
    }
    rule::adopt_ipv6_addresses(&raw.vary, &mut layers.iter_mut().collect::<Vec<_>>());
    let given = !matches!(layers.first(), Some(RawLayer::Ethernet(ethernet)) if ethernet.source.is_none());
    let varied = raw
        .vary
        .iter()
        .any(|rule| matches!(rule.get_ref().field.get_ref().as_str(), "ethernet.source" | "ethernet#1.source"));
    let mut built = Vec::with_capacity(layers.len());
    for (position, layer) in layers.iter().enumerate() {
        let span = || places.layer.get(position).unwrap_or(&places.layers).clone();
        built.push(layer.layer(layers.get(position + 1)).map_err(|message| Problem::new(span(), message))?);
    }
    Ok((built, given || varied))
}

impl Budget {
    /// Takes what a stream needs.
    fn charge(&mut self, raw: &RawStream, sizes: &SizePlan, span: &Range<usize>) -> Result<(), Problem> {
        let values: usize = raw.vary.iter().map(|rule| rule.get_ref().listed()).sum();
        let bytes: usize = sizes.lens.iter().sum();
        let left = (self.listed_values.checked_sub(values), self.image_bytes.checked_sub(bytes));
        match left {
            (Some(values), Some(bytes)) => {
                (self.listed_values, self.image_bytes) = (values, bytes);
                Ok(())
            }
            (None, _) => {
                Err(Problem::new(span.clone(), "the file lists more than 65,536 values; use first, count and step"))
            }
            (_, None) => {
                let message = "a packet of every size is kept ready, and those of this file need more than 16 MiB; give fewer sizes, \
                               or a larger step";
                Err(Problem::new(span.clone(), message))
            }
        }
    }
}

/// Where the parts of a stream stand in the text.
struct Places {
    stream: Range<usize>,
    size: Range<usize>,
    layers: Range<usize>,
    layer: Vec<Range<usize>>,
    /// Name and place of each rule's field.
    fields: Vec<(String, Range<usize>)>,
}

impl Places {
    fn of(raw: &RawStream, stream: &Range<usize>) -> Places {
        let layers = raw.layers.as_ref();
        Places {
            stream: stream.clone(),
            size: raw.size.as_ref().map_or(stream.clone(), Spanned::span),
            layers: layers.map_or(stream.clone(), Spanned::span),
            layer: layers.iter().flat_map(|layers| layers.get_ref()).map(Spanned::span).collect(),
            fields: raw
                .vary
                .iter()
                .map(|rule| rule.get_ref())
                .map(|rule| (rule.field.get_ref().clone(), rule.field.span()))
                .collect(),
        }
    }

    /// The place that an error of the plan is about, and the error in words of the file.
    fn problem(&self, error: PlanError) -> Problem {
        match error {
            PlanError::Build(BuildError::TooShort { headers_len, frame_len, .. }) => {
                let size = frame_len + FCS_BYTES;
                let message = format!(
                    "a packet of {size} bytes on the wire has no room for {headers_len} bytes of headers and 4 of FCS"
                );
                Problem::new(self.size.clone(), message)
            }
            PlanError::Build(BuildError::TooLong { .. }) | PlanError::Lens(_) => {
                Problem::new(self.size.clone(), error.to_string())
            }
            PlanError::Build(_) => Problem::new(self.layers.clone(), error.to_string()),
            PlanError::Field { ref name, .. } => {
                let place = self.fields.iter().find(|(field, _)| field == name).map(|(_, place)| place);
                Problem::new(place.unwrap_or(&self.stream).clone(), error.to_string())
            }
            PlanError::NoRoomForSignature { len, room, least } => {
                let message = format!(
                    "a packet of {} bytes on the wire has {room} bytes behind its headers, a signature needs {SIGNATURE_LEN}: \
                     give a size of at least {}, or signature = false",
                    len + FCS_BYTES,
                    least + FCS_BYTES
                );
                Problem::new(self.size.clone(), message)
            }
        }
    }
}
