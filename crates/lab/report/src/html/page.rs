//! The page under construction: the only place where text becomes HTML.

use super::style::STYLE;
use crate::terminal::clean;

/// From here on no rows and pictures are added, so that the page stays below 2 MB.
const FULL_BYTES: usize = 1_400_000;
/// No name that a person wrote is longer.
const TEXT_CHARACTERS_MAX: usize = 600;

pub(crate) struct Page {
    html: String,
    pictures: usize,
}

impl Page {
    pub(crate) fn new(title: &str) -> Self {
        let mut html = String::from("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
        html.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
        html.push_str("<meta name=\"color-scheme\" content=\"light dark\"><link rel=\"icon\" href=\"data:,\">");
        html.push_str(&format!("<title>{}</title><style>{STYLE}</style></head><body>\n", escaped(title)));
        Self { html, pictures: 0 }
    }

    /// Markup of this program.
    pub(crate) fn raw(&mut self, markup: &str) {
        self.html.push_str(markup);
    }

    /// Text of anybody.
    pub(crate) fn text(&mut self, text: &str) {
        self.html.push_str(&escaped(text));
    }

    /// `name` and `class` are of this program, `text` is of anybody.
    pub(crate) fn element(&mut self, name: &str, class: &str, text: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        self.html.push_str(&format!("<{name}{class}>{}</{name}>\n", escaped(text)));
    }

    /// A number for the identifiers of a picture.
    pub(crate) fn next_picture(&mut self) -> usize {
        self.pictures += 1;
        self.pictures
    }

    pub(crate) fn is_full(&self) -> bool {
        self.html.len() > FULL_BYTES
    }

    pub(crate) fn finish(mut self) -> String {
        self.html.push_str("</body></html>\n");
        self.html
    }
}

/// Text in which nothing is markup, in elements and in quoted attributes; cut where it is longer than any name.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (number, letter) in clean(text).chars().enumerate() {
        if number == TEXT_CHARACTERS_MAX {
            out.push('…');
            break;
        }
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(letter),
        }
    }
    out
}

/// At most so many characters, for labels in pictures.
pub(super) fn shortened(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_owned();
    }
    text.chars().take(characters.saturating_sub(1)).chain(['…']).collect()
}
