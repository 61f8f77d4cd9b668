//! Drawing: a picture is SVG with a title and a description; a plot has two axes and lines.

mod plot;
mod scale;
mod svg;

pub(super) use plot::{Line, Plot, Reference};
pub(super) use scale::Scale;
pub(super) use svg::Svg;

/// Width of a picture in its own units: that of a narrow telephone, so that text stays readable there.
pub(super) const WIDTH: f64 = 340.0;
/// Kinds of line that can be told apart.
pub(super) const KINDS: usize = 6;
