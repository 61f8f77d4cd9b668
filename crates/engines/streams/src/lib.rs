//! Stream files: what a port is to send, as text (TOML), and the streams that it stands for.
//!
//! ```toml
//! rate = "1Mpps"                       # or "10Gbit/s", "l2:1Gbit/s", "50%"; absent: as fast as the port takes packets
//! duration = "10s"
//!
//! [[stream]]
//! size = 64                            # bytes on the wire, FCS included
//! layers = ["ethernet", { ipv4 = { destination = "198.18.0.2" } }, "udp"]
//! vary = [{ field = "ipv4.source", first = "198.18.1.1", count = 100 }]
//! ```
//! `docs/streams.md` describes all of it. Everything is checked by [`parse`]: a file that parses can be sent, as far as that
//! does not depend on the port. The text is hostile: its size, the numbers of streams, layers, rules and values, and the
//! bytes of the packets made from it are bounded.
//!
//! Reading order: `raw.rs` has the shapes, `layer.rs`, `size.rs` and `rule.rs` turn them into a [`StreamSpec`].
#![forbid(unsafe_code)]

mod layer;
mod raw;
mod rule;
mod scalar;
mod size;
mod stream;

use std::ops::Range;

use linerate_gen::{Arrival, CatchUp, Schedule, StreamSpec, mean_len};
use linerate_units::{TextError, positive_duration_ns};
use toml::Spanned;

pub use size::FCS_BYTES;

/// Most bytes of a stream file.
pub const TEXT_LEN_MAX: usize = 256 << 10;
/// Most streams of a file.
pub const FILE_STREAMS_MAX: usize = 256;

/// A stream file, read and checked.
#[derive(Clone, Debug)]
pub struct StreamFile {
    /// The streams, at least one.
    pub streams: Vec<StreamEntry>,
    /// The rate as written: how many packets a second that is depends on the link.
    pub rate: Option<RateText>,
    /// How packets follow each other.
    pub arrival: Arrival,
    /// Number of packets after which sending ends.
    pub packets: Option<u64>,
    /// Time after which sending ends.
    pub duration_ns: Option<u64>,
}

/// One stream of a file.
#[derive(Clone, Debug)]
pub struct StreamEntry {
    /// Its name, for people.
    pub name: Option<String>,
    /// Packets of every sum of weights that are of this stream.
    pub weight: u32,
    /// The stream. The id in its signature is the one given, or the stream's position in the file.
    pub spec: StreamSpec,
    /// False when the file does not say which MAC address the packets come from: then it should be the port's.
    pub source_mac_given: bool,
    /// Sizes on the wire (FCS included) with their shares, in the order in which they first occur.
    pub sizes_wire: Vec<(u32, u64)>,
}

/// A rate as it stands in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateText {
    /// The text.
    pub text: String,
    /// Where it stands, in bytes, for [`TextError::at`].
    pub span: Range<usize>,
}

/// Reads a stream file.
///
/// # Errors
/// What is wrong, with its line and column.
///
/// ```
/// let file = linerate_streams::parse("[[stream]]\nsize = 'imix'\n").unwrap();
/// assert_eq!(file.streams[0].sizes_wire, [(64, 7), (594, 4), (1518, 1)]);
/// let error = linerate_streams::parse("[[stream]]\nsize = 20\n").unwrap_err();
/// assert_eq!((error.line, error.column), (2, 8));
/// ```
pub fn parse(text: &str) -> Result<StreamFile, TextError> {
    if text.len() > TEXT_LEN_MAX {
        let message = format!("a stream file of {} bytes; at most {TEXT_LEN_MAX} are read", text.len());
        return Err(TextError::at(text, 0..0, message));
    }
    let raw: raw::File = toml::from_str(text)
        .map_err(|error: toml::de::Error| TextError::at(text, error.span().unwrap_or(0..0), error.message()))?;
    build(raw).map_err(|problem| TextError::at(text, problem.span, problem.message))
}

impl StreamFile {
    /// Mean size of a packet on the wire in bytes, FCS included, over all streams with their weights.
    pub fn mean_size_wire(&self) -> f64 {
        let weights: f64 = self.streams.iter().map(|stream| f64::from(stream.weight)).sum();
        let bytes: f64 = self.streams.iter().map(|stream| f64::from(stream.weight) * stream.mean_size_wire()).sum();
        bytes / weights
    }

    /// Largest packet in bytes without FCS: what the port must take.
    pub fn len_max(&self) -> usize {
        self.streams.iter().flat_map(|stream| &stream.spec.lens).copied().max().unwrap_or(0)
    }

    /// The schedule at a rate in packets per second; `None` = as fast as the port takes them.
    pub fn schedule(&self, rate_pps: Option<f64>) -> Schedule {
        Schedule {
            rate_pps,
            arrival: self.arrival,
            packets: self.packets,
            duration_ns: self.duration_ns,
            catch_up: CatchUp::Burst,
        }
    }
}

impl StreamEntry {
    /// Mean size of its packets on the wire in bytes, FCS included.
    pub fn mean_size_wire(&self) -> f64 {
        mean_len(&self.spec.lens, &self.spec.sizes) + FCS_BYTES as f64
    }
}

/// What is wrong with the part of the text at `span`.
struct Problem {
    span: Range<usize>,
    message: String,
}

impl Problem {
    fn new(span: Range<usize>, message: impl Into<String>) -> Problem {
        Problem { span, message: message.into() }
    }
}

fn build(raw: raw::File) -> Result<StreamFile, Problem> {
    let tables = raw.stream;
    if tables.get_ref().is_empty() || tables.get_ref().len() > FILE_STREAMS_MAX {
        let message = format!("{} streams; a file has 1 to {FILE_STREAMS_MAX}", tables.get_ref().len());
        return Err(Problem::new(tables.span(), message));
    }
    let mut budget = stream::Budget::default();
    let mut streams = Vec::new();
    for (position, table) in tables.into_inner().into_iter().enumerate() {
        streams.push(stream::build(table, position, &mut budget)?);
    }
    check_ids(&streams)?;
    let rate = raw.rate.map(|rate| RateText { span: rate.span(), text: rate.into_inner() });
    let arrival = raw.arrival.map_or(Ok(Arrival::Constant), |arrival| {
        let span = arrival.span();
        if rate.is_none() {
            return Err(Problem::new(span, "an arrival needs a rate: without one there are no gaps between packets"));
        }
        arrival.into_inner().check().map_err(|message| Problem::new(span, message))
    })?;
    Ok(StreamFile {
        streams: streams.into_iter().map(|(entry, _)| entry).collect(),
        rate,
        arrival,
        packets: raw.count.map(positive).transpose()?,
        duration_ns: raw.duration.map(duration).transpose()?,
    })
}

/// Two signed streams of one id could not be told apart.
fn check_ids(streams: &[(StreamEntry, Range<usize>)]) -> Result<(), Problem> {
    let mut ids = std::collections::HashSet::new();
    for (entry, span) in streams {
        if let Some(id) = entry.spec.signature
            && !ids.insert(id)
        {
            return Err(Problem::new(
                span.clone(),
                format!("two streams have id {id}; a stream without `id` has its position, from 0"),
            ));
        }
    }
    Ok(())
}

fn positive(number: Spanned<u64>) -> Result<u64, Problem> {
    match *number.get_ref() {
        0 => Err(Problem::new(number.span(), "it must be at least 1")),
        number => Ok(number),
    }
}

fn duration(text: Spanned<String>) -> Result<u64, Problem> {
    positive_duration_ns(text.get_ref()).map_err(|error| Problem::new(text.span(), error.to_string()))
}
