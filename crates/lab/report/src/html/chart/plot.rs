//! Lines over two axes.

use super::{KINDS, Scale, Svg, WIDTH};
use crate::html::Page;

const TOP: f64 = 18.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 12.0;
const HEIGHT: f64 = 230.0;
const BOTTOM: f64 = 36.0;
/// Points of a line closer than this are not drawn apart.
const APART: f64 = 0.7;
/// Width of a character of a label, and its height.
const LABEL_CHARACTER: f64 = 6.0;
const LABEL_HEIGHT: f64 = 11.0;
/// Lines with more points than this have no marks.
const MARKS_MAX: usize = 24;

/// One series.
pub(in crate::html) struct Line {
    pub(in crate::html) name: String,
    /// Value on each axis, and words for the pointer.
    pub(in crate::html) points: Vec<(f64, f64, String)>,
}

impl Line {
    /// Lines by name, in the order of their first points, as many as can be told apart; the points of each from left to right.
    pub(in crate::html) fn gather(points: impl IntoIterator<Item = (String, (f64, f64, String))>) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        for (name, point) in points {
            let room = lines.len() < KINDS;
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push(point),
                None if room => lines.push(Line { name, points: vec![point] }),
                None => {}
            }
        }
        for line in &mut lines {
            line.points.sort_by(|one, other| one.0.total_cmp(&other.0));
        }
        lines
    }
}

/// A line that the others are held against.
pub(in crate::html) struct Reference {
    pub(in crate::html) name: String,
    /// Written beside it.
    pub(in crate::html) label: String,
    pub(in crate::html) class: &'static str,
    pub(in crate::html) points: Vec<(f64, f64)>,
}

pub(in crate::html) struct Plot {
    pub(in crate::html) caption: String,
    pub(in crate::html) description: String,
    pub(in crate::html) x: Scale,
    pub(in crate::html) y: Scale,
    pub(in crate::html) x_ticks: Vec<(f64, String)>,
    pub(in crate::html) y_ticks: Vec<(f64, String)>,
    pub(in crate::html) x_title: &'static str,
    pub(in crate::html) y_title: &'static str,
    pub(in crate::html) lines: Vec<Line>,
    pub(in crate::html) references: Vec<Reference>,
}

impl Plot {
    /// The places between which a horizontal and a vertical axis are drawn.
    pub(in crate::html) fn x_range() -> (f64, f64) {
        (LEFT, WIDTH - RIGHT)
    }

    pub(in crate::html) fn y_range() -> (f64, f64) {
        (HEIGHT - BOTTOM, TOP)
    }

    pub(in crate::html) fn put(&self, page: &mut Page) {
        let mut svg = Svg::new(WIDTH, HEIGHT);
        self.draw_axes(&mut svg);
        let mut labels: Vec<[f64; 4]> = Vec::new();
        for reference in &self.references {
            let places: Vec<_> = reference.points.iter().map(|(x, y)| (self.x.place(*x), self.y.place(*y))).collect();
            svg.path(reference.class, &data(&places), &format!("{} {}", reference.name, reference.label));
            if let Some((x, y)) = label_place(&places, &reference.label, &mut labels) {
                svg.text("t", (x, y), "end", &reference.label);
            }
        }
        let mut legend: Vec<(String, String)> = Vec::new();
        for (number, line) in self.lines.iter().enumerate() {
            let kind = number % KINDS + 1;
            self.draw_line(&mut svg, line, kind);
            legend.push((format!("<path class=\"l s{kind}\" d=\"M0 5H26\"/>"), line.name.clone()));
        }
        for reference in &self.references {
            legend.push((format!("<path class=\"{}\" d=\"M0 5H26\"/>", reference.class), reference.name.clone()));
        }
        legend.dedup_by(|one, other| one.1 == other.1);
        svg.put(page, &self.caption, &self.description, &legend);
    }

    fn draw_axes(&self, svg: &mut Svg) {
        let ((left, right), (bottom, top)) = (Self::x_range(), Self::y_range());
        for (value, words) in &self.y_ticks {
            let y = self.y.place(*value);
            svg.line("g", (left, y), (right, y));
            svg.text("t", (left - 5.0, y + 4.0), "end", words);
        }
        svg.line("a", (left, bottom), (right, bottom));
        let mut free_from = 0.0;
        for (value, words) in &self.x_ticks {
            let x = self.x.place(*value);
            svg.line("a", (x, bottom), (x, bottom + 4.0));
            let half = words.chars().count() as f64 * 3.2;
            let middle = x.min(WIDTH - half);
            if middle - half >= free_from {
                svg.text("t", (middle, bottom + 15.0), "middle", words);
                free_from = middle + half + 4.0;
            }
        }
        svg.text("t", (left - 42.0, top - 8.0), "start", self.y_title);
        svg.text("t", (right, bottom + 30.0), "end", self.x_title);
    }

    fn draw_line(&self, svg: &mut Svg, line: &Line, kind: usize) {
        let mut places: Vec<(f64, f64)> = Vec::new();
        for (x, y, _) in &line.points {
            let place = (self.x.place(*x), self.y.place(*y));
            let is_apart = |last: &(f64, f64)| (last.0 - place.0).abs() + (last.1 - place.1).abs() > APART;
            if places.last().is_none_or(is_apart) {
                places.push(place);
            }
        }
        svg.path(&format!("l s{kind}"), &data(&places), &line.name);
        if line.points.len() <= MARKS_MAX {
            for (x, y, words) in &line.points {
                let title = format!("{}: {words}", line.name);
                svg.circle(&format!("m s{kind}"), (self.x.place(*x), self.y.place(*y)), 3.0, &title);
            }
        }
    }
}

/// Where the label of a reference ends, clear of those that stand already if that can be. Curves fall to the right, so there is room below and to
/// the left of them.
fn label_place(places: &[(f64, f64)], label: &str, taken: &mut Vec<[f64; 4]>) -> Option<(f64, f64)> {
    if label.is_empty() {
        return None;
    }
    let width = label.chars().count() as f64 * LABEL_CHARACTER;
    let at = |index: usize, below: f64| places.get(index).map(|(x, y)| ((x - 3.0).max(LEFT + width), y + below));
    let indexes = [2, 1, 3, 4].map(|quarter| (places.len() * quarter / 4).min(places.len().saturating_sub(1)));
    let candidates = indexes.iter().flat_map(|index| [at(*index, 11.0), at(*index, -4.0)]).flatten();
    let covers = |(x, y): (f64, f64)| [x - width, y - LABEL_HEIGHT, x, y];
    let is_free = |place: &(f64, f64)| {
        let one = covers(*place);
        let lies_on =
            |other: &[f64; 4]| one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3];
        !taken.iter().any(lies_on)
    };
    let mut candidates = candidates.peekable();
    let first = candidates.peek().copied();
    let place = candidates.find(is_free).or(first)?;
    taken.push(covers(place));
    Some(place)
}

fn data(places: &[(f64, f64)]) -> String {
    let mut data = String::new();
    for (number, (x, y)) in places.iter().enumerate() {
        data.push_str(&format!("{}{x:.1} {y:.1}", if number == 0 { "M" } else { "L" }));
    }
    data
}
