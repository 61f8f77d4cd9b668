//! The pages in a real Chromium: light, dark, narrow and printed. Nothing overflows, nothing is fetched, nothing complains.
//!
//! Set `LINERATE_SHOTS` to a folder to keep the pictures and look at them.

use super::experiment;
use super::hostile;

use experiment::{rich, sizes, small};
use linerate_report::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const NAMES: [&str; 4] = ["chromium", "chromium-headless-shell", "chromium-browser", "google-chrome"];

/// Appended to a copy of the page: what a person would see wrong, as text for `--dump-dom`. Boxes that scroll by themselves are
/// allowed to hold more than their width.
const PROBE: &str = "<script>addEventListener('load', () => {
  for (const box of document.querySelectorAll('details')) box.open = true;
  const root = document.documentElement, wide = [];
  for (const part of document.querySelectorAll('body *')) {
    if (part.closest('.scroll') && !part.matches('.scroll')) continue;
    if (part.getBoundingClientRect().right > root.clientWidth + 0.5) wide.push(part.tagName + '.' + part.getAttribute('class'));
  }
  const style = getComputedStyle(document.body);
  parent.postMessage(JSON.stringify({ width: innerWidth, scroll: root.scrollWidth, wide: wide.slice(0, 9), paper: style.backgroundColor,
    ink: style.color, fetched: performance.getEntriesByType('resource').map(entry => entry.name),
    pictures: [...document.querySelectorAll('figure > svg')].filter(svg => svg.getBoundingClientRect().height < 20).length,
    overlaid: [...document.querySelectorAll('figure > svg')].flatMap(svg => {
      const texts = [...svg.querySelectorAll('text')].filter(text => text.textContent).map(text => [text, text.getBoundingClientRect()]);
      const lie = (a, b) => a.left + 1 < b.right && b.left + 1 < a.right && a.top + 4 < b.bottom && b.top + 4 < a.bottom;
      return texts.flatMap(([one, a], at) => texts.slice(at + 1).filter(([, b]) => lie(a, b)).map(([other]) => one.textContent + ' | ' + other.textContent));
    }).slice(0, 9),
    unnamed: document.querySelectorAll('figure > svg:not([aria-labelledby])').length }), '*');
})</script>";

/// A window of Chromium is never narrower than 500 pixels, a frame in it is. Shows the probe's words.
fn frame(name: &str, width: u32) -> String {
    format!(
        "<!DOCTYPE html><meta name=\"color-scheme\" content=\"light dark\"><body style=\"margin:0\">\
         <iframe src=\"{name}.html\" style=\"border:0;width:{width}px;height:900px\"></iframe><script>\
         addEventListener('message', event => {{ const probe = document.createElement('pre'); probe.id = 'probe'; \
         probe.textContent = event.data; document.body.append(probe); }})</script></body>"
    )
}

struct Browser {
    program: &'static str,
    dir: tempfile::TempDir,
}

impl Browser {
    /// `None`, with the reason printed, where there is no Chromium that starts.
    fn find() -> Option<Self> {
        let starts =
            |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
        let Some(program) = NAMES.into_iter().find(starts) else {
            println!("skipped: none of {NAMES:?} is installed");
            return None;
        };
        Some(Self { program, dir: tempfile::tempdir().unwrap() })
    }

    /// Standard output and standard error of a run on a page.
    fn run(&self, page: &Path, width: u32, is_dark: bool, action: &str) -> (String, String) {
        let profile = self.dir.path().join("profile");
        let output = Command::new("timeout")
            .args([
                "120",
                self.program,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--enable-logging=stderr",
            ])
            .args(["--disable-background-networking", "--no-first-run", "--log-level=0", "--virtual-time-budget=2000"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("--window-size={width},1000"))
            .arg(format!("--blink-settings=preferredColorScheme={}", if is_dark { 0 } else { 1 }))
            .arg(action)
            .arg(format!("file://{}", page.display()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{action}: {}", String::from_utf8_lossy(&output.stderr));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    }
}

fn pages() -> Vec<(&'static str, String)> {
    let comparison = compare(&[sizes(1, 3, 1.2e6, 0.01), sizes(2, 3, 0.9e6, 0.01)]);
    vec![
        ("rich", html(&rich(1))),
        ("sizes", html(&sizes(1, 3, 1.2e6, 0.01))),
        ("small", html(&small())),
        ("hostile", html(&hostile::hostile())),
        ("comparison", comparison_html(&comparison)),
    ]
}

#[test]
fn pages_need_nothing_else_and_stay_small() {
    for (name, page) in pages() {
        for word in ["<script", "src=", "url(", "@import", "<iframe", "<object", "<form", "onload", "<img"] {
            assert!(!page.contains(word), "{name} has {word}");
        }
        // The only link is the empty icon; addresses in the results are text.
        assert_eq!(page.matches("href=").count(), 1, "{name}");
        assert!(page.contains("href=\"data:,\""));
        for part in ["<th scope=\"col\"", "<title>", "lang=\"en\""] {
            assert!(page.contains(part), "{name} lacks {part}");
        }
        assert_eq!(page.matches("role=\"img\"").count(), page.matches("<desc id=").count(), "{name}");
    }
}

#[test]
fn thousands_of_trials_and_cells_stay_below_two_megabytes() {
    let mut results = rich(1);
    let cells = results.cells.clone();
    for number in 0..40 {
        results.cells.extend(cells.iter().cloned().map(|cell| Cell { id: format!("{}-{number}", cell.id), ..cell }));
    }
    let trials: usize = results.cells.iter().flat_map(|cell| &cell.findings).map(|finding| finding.trials.len()).sum();
    let page = html(&results);
    println!("{trials} trials, {} cells: {} bytes", results.cells.len(), page.len());
    assert!(trials > 10_000 && page.len() < 2_000_000, "{} bytes", page.len());
    assert!(page.contains("are in the CSV files"));
}

#[test]
fn a_real_browser_shows_them_whole() {
    let Some(browser) = Browser::find() else { return };
    for (name, page) in pages() {
        let probed = browser.dir.path().join(format!("{name}.html"));
        fs::write(&probed, page.replace("</body>", &format!("{PROBE}</body>"))).unwrap();
        for (width, is_dark) in [(320, false), (360, true), (1_280, false)] {
            let framed = browser.dir.path().join(format!("{name}-{width}-frame.html"));
            fs::write(&framed, frame(name, width)).unwrap();
            let (dom, log) = browser.run(&framed, width.max(500), is_dark, "--dump-dom");
            let found = dom.rsplit_once("<pre id=\"probe\">").and_then(|(_, rest)| rest.split_once("</pre>"));
            let found =
                found.unwrap_or_else(|| panic!("{name}: the probe did not run: {log}")).0.replace("&quot;", "\"");
            let found: serde_json::Value = serde_json::from_str(&found).unwrap();
            assert_eq!(found["width"], width, "{name}");
            assert!(found["scroll"].as_u64().unwrap() <= width.into(), "{name} at {width}: {found}");
            assert_eq!(found["wide"], serde_json::json!([]), "{name} at {width}");
            assert_eq!(found["fetched"], serde_json::json!([]), "{name}");
            assert_eq!(found["overlaid"], serde_json::json!([]), "{name} at {width}");
            assert_eq!((&found["pictures"], &found["unnamed"]), (&0.into(), &0.into()), "{name}");
            let paper = if is_dark { "rgb(20, 23, 26)" } else { "rgb(255, 255, 255)" };
            assert_eq!(found["paper"], paper, "{name}");
            let complaints: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
            assert!(complaints.is_empty(), "{name}: {complaints:?}");
        }
    }
}

#[test]
fn a_real_browser_prints_and_draws_them() {
    let Some(browser) = Browser::find() else { return };
    let shots = std::env::var_os("LINERATE_SHOTS").map(PathBuf::from);
    let folder = shots.as_deref().unwrap_or(browser.dir.path());
    for (name, page) in pages().into_iter().filter(|(name, _)| ["rich", "sizes", "comparison"].contains(name)) {
        let file = browser.dir.path().join(format!("{name}.html"));
        fs::write(&file, page).unwrap();
        let pdf = folder.join(format!("{name}.pdf"));
        browser.run(&file, 1_280, false, &format!("--print-to-pdf={}", pdf.display()));
        assert!(fs::read(&pdf).unwrap().starts_with(b"%PDF-"), "{name}");
        for (width, is_dark) in [(1_100, false), (1_100, true), (360, false)] {
            let picture = folder.join(format!("{name}-{width}-{}.png", if is_dark { "dark" } else { "light" }));
            browser.run(&file, width, is_dark, &format!("--screenshot={}", picture.display()));
            assert!(fs::metadata(&picture).unwrap().len() > 10_000, "{name}");
        }
    }
}
