//! A picture as inline SVG.

use crate::html::Page;
use crate::html::page::escaped;

pub(in crate::html) struct Svg {
    body: String,
    height: f64,
    width: f64,
}

impl Svg {
    pub(in crate::html) fn new(width: f64, height: f64) -> Self {
        Self { body: String::new(), height, width }
    }

    pub(in crate::html) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.body.push_str(&format!("<path class=\"{class}\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\"/>"));
    }

    /// `data` is path data of this program.
    pub(in crate::html) fn path(&mut self, class: &str, data: &str, title: &str) {
        self.body.push_str(&format!("<path class=\"{class}\" d=\"{data}\">{}</path>", titled(title)));
    }

    pub(in crate::html) fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), title: &str) {
        let ((x, y), (width, height)) = (at, (size.0.max(0.0), size.1.max(0.0)));
        let place = format!("x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"");
        self.body.push_str(&format!("<rect class=\"{class}\" {place}>{}</rect>", titled(title)));
    }

    pub(in crate::html) fn circle(&mut self, class: &str, at: (f64, f64), radius: f64, title: &str) {
        let (x, y) = at;
        self.body.push_str(&format!(
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\">{}</circle>",
            titled(title)
        ));
    }

    /// `anchor` is `start`, `middle` or `end`.
    pub(in crate::html) fn text(&mut self, class: &str, at: (f64, f64), anchor: &str, text: &str) {
        let (x, y) = at;
        let text = escaped(text);
        self.body.push_str(&format!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    /// Puts it on the page as a figure; `caption` is seen, `description` is read out.
    pub(in crate::html) fn put(&self, page: &mut Page, caption: &str, description: &str, legend: &[(String, String)]) {
        let number = page.next_picture();
        page.raw("<figure>");
        page.element("figcaption", "", caption);
        let (width, height) = (self.width, self.height);
        page.raw(&format!(
            "<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-labelledby=\"t{number} d{number}\"><title id=\"t{number}\">"
        ));
        page.text(caption);
        page.raw(&format!("</title><desc id=\"d{number}\">"));
        page.text(description);
        page.raw("</desc>");
        page.raw(&self.body);
        page.raw("</svg>");
        if !legend.is_empty() {
            page.raw("<ul class=\"legend\">");
            for (swatch, name) in legend {
                page.raw(&format!("<li><svg viewBox=\"0 0 26 10\" aria-hidden=\"true\">{swatch}</svg><span>"));
                page.text(name);
                page.raw("</span></li>");
            }
            page.raw("</ul>");
        }
        page.raw("</figure>\n");
    }
}

fn titled(title: &str) -> String {
    if title.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(title)) }
}
