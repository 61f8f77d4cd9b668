#!/usr/bin/env bash
# The first run of a new user, again and again: does `linerate bench` always answer, in time, and do neighbouring runs agree?
#
#     cargo build --release -p linerate
#     benches/first-run.sh [RUNS]        21 unless named; each takes under a minute
#
# For each run: how long it took beside what was said before, and each figure's median with its stated bounds. At the end, of each figure: how many
# neighbouring runs overlap within their bounds, and how many would by the repetitions alone; and the largest half-width of the bounds as a share of the figure, over all runs and over those whose fixed loop
# moved by less than 5 %.
set -euo pipefail
cd "$(dirname "$0")/.."
RUNS=${1:-21}
LINERATE=${LINERATE:-target/release/linerate}
folder=$(mktemp -d "${FOLDER:-$PWD/target}/first-run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
for run in $(seq "$RUNS"); do
    start_us=${EPOCHREALTIME/[.,]/}
    status=0
    "$LINERATE" bench --json --plain --results "$folder/results" >"$folder/$run.json" 2>"$folder/$run.log" || status=$?
    took_us=$((${EPOCHREALTIME/[.,]/} - start_us))
    echo "{\"run\": $run, \"status\": $status, \"seconds\": $((took_us / 1000000)).$((took_us / 100000 % 10))}" >>"$folder/runs.jsonl"
    rm -rf "$folder/results"
done
python3 - "$folder" <<'PY'
import json, re, statistics, sys

folder = sys.argv[1]
kpps = lambda rate: f"{rate / 1e3:.0f}"


def figures(document):
    """Median, lower and upper bound of each figure of each cell, as the first lines of the report state them."""
    flows = {cell["id"]: cell["flows"] for cell in document["cells"]}
    rates = document.get("bounds", {}).get("rates", [])
    found = {(flows[rate["cell"]], rate["figure"]): (rate["pps"], rate["lower_pps"], rate["upper_pps"]) for rate in rates}
    for cell in document["cells"]:
        results = [finding["result"] for finding in cell["findings"] if finding["result"]]
        clean = [result["pps"] for result in results if result["test"] == "no-loss" and result["pps"]]
        found[cell["flows"], "no loss"] = (max(clean),) * 3 if clean else None
    return found


def alone(document):
    """Of how many repetitions the figures are, and the bounds of these alone, as if the machine had kept its pace."""
    flows = {cell["id"]: cell["flows"] for cell in document["cells"]}
    rates = document.get("bounds", {}).get("rates", [])
    repetitions = max(finding["repetition"] for cell in document["cells"] for finding in cell["findings"])
    return repetitions, {(flows[rate["cell"]], rate["figure"]): (rate["spread"]["lower_pps"], rate["spread"]["upper_pps"]) for rate in rates}


def moved(document):
    """By which share the fixed loop moved: between the findings' medians, on the core where it moved most."""
    shares = [0.0]
    for core in ("generator_pace_ns", "dut_pace_ns"):
        times = []
        for cell in document["cells"]:
            for finding in cell["findings"]:
                of = [made["noise"][core] for made in finding["trials"] if made["noise"].get(core)]
                times += [statistics.median(of)] if of else []
        if times:
            shares.append((max(times) - min(times)) / statistics.median(times))
    return max(shares)


def trip(document):
    """The range of round trips of a cache line between the cores."""
    return tuple(document.get("bounds", {}).get("cache_line_ns") or (0, 0))


runs = []
for line in open(f"{folder}/runs.jsonl"):
    run = json.loads(line)
    try:
        document = json.load(open(f"{folder}/{run['run']}.json"))
    except ValueError:
        print(f"run {run['run']}: status {run['status']}, no document")
        continue
    stalls = [s for c in document["cells"] for f in c["findings"] for t in f["trials"] for s in t.get("stalls", {}).get("list", []) if s["interruption"]]
    repetitions, spread = alone(document)
    run.update(figures=figures(document), spread=spread, moved=moved(document), trip=trip(document))
    log = open(f"{folder}/{run['run']}.log").read()
    run["said"] = next((int(words[1]) for words in re.findall(r"findings to make, (about) (\d+) s", log)), None)
    words = "; ".join(f"{flows} {name} " + (f"{kpps(f[0])} ({kpps(f[1])} to {kpps(f[2])})" if f else "-") for (flows, name), f in run["figures"].items())
    print(f"run {run['run']}: status {run['status']}, {run['seconds']} s ({run['said']} said), {repetitions} repetitions, loop moved {run['moved']:.1%}, cache line {run['trip'][0]:.0f} to {run['trip'][1]:.0f} ns, {len(stalls)} interruptions; {words}")
    runs.append(run)
print(f"\n{len(runs)} of {json.loads(line)['run']} runs answered; longest {max(run['seconds'] for run in runs)} s")
told = [abs(run["said"] - run["seconds"]) <= 0.2 * run["seconds"] for run in runs if run["said"]]
print(f"the estimate was within 20 % of the time taken in {sum(told)} of {len(told)} runs")
for key in runs[0]["figures"]:
    if key[1] == "no loss":
        print(f"{key[0]} flows, no loss: had in {sum(run['figures'].get(key) is not None for run in runs)} of {len(runs)} runs")
        continue
    of = [run["figures"].get(key) for run in runs]
    pairs = [(one, other) for one, other in zip(of, of[1:]) if one and other]
    overlap = sum(one[1] <= other[2] and other[1] <= one[2] for one, other in pairs)
    parts = [run["spread"].get(key) for run in runs]
    parts = [(one, other) for one, other in zip(parts, parts[1:]) if one and other]
    by_spread = sum(one[0] <= other[1] and other[0] <= one[1] for one, other in parts)
    width = lambda keep: [(f[2] - f[1]) / 2 / f[0] for f, run in zip(of, runs) if f and keep(run)]
    shown = lambda widths: f"median {statistics.median(widths):.1%}, most {max(widths):.1%} of {len(widths)} runs" if widths else "no run"
    calm = width(lambda run: run["moved"] < 0.05)
    still = width(lambda run: run["moved"] < 0.05 and run["trip"][1] <= 1.5 * run["trip"][0])
    print(f"{key[0]} flows, {key[1]}: {overlap} of {len(pairs)} neighbours overlap ({by_spread} by the spread alone); half-width {shown(width(lambda run: True))}; "
          f"where the loop moved by less than 5 %: {shown(calm)}; and the cores were not moved: {shown(still)}")
PY
