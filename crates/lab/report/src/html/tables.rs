//! Grids and accounts as tables, in a box that scrolls where the screen is narrow.

use super::Page;
use crate::Trial;
use crate::overview::{Grid, RowKind, Tone, account_rows};
use crate::units::{count, percent};

/// A grid without its heading and notes.
pub(crate) fn table(page: &mut Page, grid: &Grid) {
    open(page, &grid.title);
    page.raw("<thead><tr>");
    for (name, is_number) in &grid.columns {
        page.raw(if *is_number { "<th scope=\"col\" class=\"n\">" } else { "<th scope=\"col\">" });
        page.text(name);
        page.raw("</th>");
    }
    page.raw("</tr></thead><tbody>\n");
    let mut label = "";
    for (number, row) in grid.rows.iter().enumerate() {
        if page.is_full() {
            let left = grid.rows.len() - number;
            page.raw(&format!(
                "<tr><td colspan=\"{}\">{left} more rows are in the CSV files</td></tr>",
                grid.columns.len()
            ));
            break;
        }
        page.raw("<tr>");
        for (column, (entry, (_, is_number))) in row.iter().zip(&grid.columns).enumerate() {
            let set = if *is_number { "n" } else { "w" };
            let (name, scope) = if column == 0 { ("th", " scope=\"row\"") } else { ("td", "") };
            // What is the same as above is said again, but quietly.
            let again = if column == 0 && entry.text == label { " again" } else { "" };
            page.raw(&format!("<{name}{scope} class=\"{set}{}{again}\">", tone(entry.tone)));
            page.text(&entry.text);
            page.raw(&format!("</{name}>"));
        }
        page.raw("</tr>\n");
        label = row.first().map_or("", |entry| &entry.text);
    }
    page.raw("</tbody></table></div>\n");
}

/// The account of a trial.
pub(super) fn ledger(page: &mut Page, trial: &Trial) {
    open(page, &format!("Ledger of {}", trial.name));
    page.raw("<thead><tr>");
    let numbers = [("", ""), ("packets", "n"), ("share", "n")];
    let words = ["place", "cause", "what to change", "counter"].map(|name| (name, ""));
    for (name, class) in numbers.into_iter().chain(words) {
        page.raw(&format!("<th scope=\"col\" class=\"{class}\">{name}</th>"));
    }
    page.raw("</tr></thead><tbody>\n");
    let intended = trial.account.intended().max(1) as f64;
    for row in account_rows(trial) {
        if page.is_full() {
            break;
        }
        let bad = match row.kind {
            RowKind::Lost => " bad",
            RowKind::Unexplained if row.packets != 0 => " bad",
            RowKind::Unsent => " doubt",
            _ => "",
        };
        let packets = u64::try_from(row.packets.unsigned_abs()).unwrap_or(u64::MAX);
        let sign = if row.packets < 0 { "-" } else { "" };
        let packets = format!("<td class=\"n{bad}\">{sign}{}</td>", count(packets));
        page.raw(&format!("<tr><th scope=\"row\">{}</th>{packets}<td class=\"n{bad}\">", row.kind.word()));
        page.text(&percent(row.packets as f64 / intended));
        page.raw("</td><td class=\"w\">");
        page.text(row.place);
        page.raw("</td><td class=\"w\">");
        page.text(&row.cause);
        page.raw("</td><td class=\"w\">");
        page.text(row.hint);
        page.raw("</td><td class=\"w\">");
        page.text(row.counter);
        page.raw("</td></tr>\n");
    }
    page.raw("</tbody></table></div>\n");
}

fn open(page: &mut Page, title: &str) {
    page.raw("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"");
    page.text(title);
    page.raw("\"><table>");
}

fn tone(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Strong => " strong",
        Tone::Good => " good",
        Tone::Bad => " bad",
        Tone::Doubtful => " doubt",
    }
}
