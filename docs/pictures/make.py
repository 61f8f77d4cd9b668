#!/usr/bin/env python3
"""Makes the pictures of README.md from a run of the shipped experiment `quick`.

    cargo build --release -p linerate
    docs/pictures/make.py [target/release/linerate]

live.svg    the terminal while the run goes on, as tmux shows it
report.png  the top of the HTML report, as Chromium shows it

Needs Python 3, tmux and Chromium; without one of them its picture stays as it is, and a line says so.
"""

import html
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS, ROWS = 110, 16
# Findings on the screen when the picture is taken.
FINDINGS = 5
PATIENCE_S = 300
REPORT_SIZE = 860, 1180


def screen_svg(text, title):
    """A terminal's text as SVG."""
    lines = text.rstrip("\n").split("\n")
    width, height, left, top = 8.4, 18, 16, 44
    total_width, total_height = left * 2 + COLUMNS * width, top + len(lines) * height + 10
    rows, live = [], False
    for number, line in enumerate(lines):
        # The lines at the bottom that update themselves stand out.
        live = live or line.startswith("cell ")
        colour = "#9fd6ff" if live else "#d7dbe0"
        y = top + (number + 0.7) * height
        rows.append(f'<text x="{left}" y="{y:.1f}" fill="{colour}" xml:space="preserve">{html.escape(line)}</text>')
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total_width:.0f} {total_height:.0f}" role="img" '
        f'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="14">',
        f"<title>{html.escape(title)}</title>",
        f'<rect width="100%" height="100%" rx="8" fill="#14181d"/>',
        f'<text x="{left}" y="26" fill="#7f8994">$ {html.escape(title)}</text>',
        *rows,
        "</svg>\n",
    ])


def live_view(program, results):
    """Runs the experiment in a terminal; its screen in the middle of the run. The run goes to its end."""
    socket = f"linerate-pictures-{results.name}"
    tmux = ["tmux", "-L", socket]
    done = results / "done"
    command = f"{program} lab run quick --results {results} ; touch {done}; sleep 10"
    subprocess.run([*tmux, "new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), command], check=True)
    screen, give_up = "", time.monotonic() + PATIENCE_S
    while not done.exists() and time.monotonic() < give_up:
        time.sleep(0.5)
        shown = subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True).stdout
        found = re.search(r"(\d+) of \d+ findings", shown)
        if not screen and found and int(found[1]) >= FINDINGS and "  last " in shown:
            screen = shown
    subprocess.run([*tmux, "kill-session"], stderr=subprocess.DEVNULL)
    if not screen:
        sys.exit("the run showed no findings; try `linerate lab run quick` by hand")
    return screen


def report_png(page, picture):
    """The top of a report, as a browser shows it."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        print("skipped: report.png: Chromium is not installed")
        return
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb"]
    size = f"--window-size={REPORT_SIZE[0]},{REPORT_SIZE[1]}"
    command = [browser, *options, size, f"--screenshot={picture}", page.as_uri()]
    subprocess.run(command, check=True, timeout=PATIENCE_S, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    program = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else HERE.parent.parent / "target/release/linerate").resolve()
    with tempfile.TemporaryDirectory(prefix="pictures-") as folder:
        results = pathlib.Path(folder)
        if shutil.which("tmux"):
            screen = live_view(program, results)
            (HERE / "live.svg").write_text(screen_svg(screen, "linerate lab run quick"))
        else:
            print("skipped: live.svg: tmux is not installed")
            subprocess.run([program, "lab", "run", "quick", "--plain", "--results", results], check=False)
        report_png(next(results.glob("*/report.html")), HERE / "report.png")
    print("in docs/pictures:", *sorted(path.name for path in HERE.iterdir() if path.suffix != ".py"))


if __name__ == "__main__":
    main()
