"""The result of a run: a document for programs, and a table by group beside published scores."""

import cases as suite

# Passed cases by group: action, set-field, match, group, meter. Source: Ryu certification, gh-pages `switch/*.md`, 2016-03-14
# (github.com/osrg/ryu-certification). The last row was measured with this script's mended SCTP checksums.
PUBLISHED = [
    ("Lagopus 0.2.1 (2016)", [56, 162, 714, 15, 26]),
    ("Trema switch (2016)", [50, 159, 708, 15, 34]),
    ("ofsoftswitch13 (2016)", [50, 159, 700, 15, 31]),
    ("Open vSwitch, kernel (2016)", [34, 96, 534, 6, 0]),
    ("Open vSwitch, netdev (2016)", [34, 108, 460, 8, 0]),
    ("Open vSwitch 3.1, netdev", [34, 118, 536, 7, 0]),
]
NAMES = {"ovs": "Open vSwitch, this run", "linerate": "Linerate, this run"}


def document(results, options, osken, seconds):
    """Everything that a run tells, for JSON."""
    groups = {}
    for group in suite.GROUPS:
        of_group = [result for result in results if result["group"] == group]
        if of_group:
            passed = sum(result["passed"] for result in of_group)
            groups[group] = {"passed": passed, "run": len(of_group), "cases": suite.COUNTS[group]}
    return {
        "suite": f"os-ken {osken}, of13",
        "target": options.target,
        "sctp_mended": not options.unmended,
        "quick": options.quick,
        "interval_s": options.interval,
        "seconds": round(seconds, 1),
        "passed": sum(result["passed"] for result in results),
        "run": len(results),
        "cases": sum(suite.COUNTS.values()),
        "groups": groups,
        "results": results,
    }


def print_table(found):
    """Prints passed of run cases by group, under the published scores."""
    heads = [f"{group} ({suite.COUNTS[group]})" for group in suite.GROUPS]
    print(f"\n{'passed of':28}" + "".join(f"{head:>17}" for head in heads) + f"{'all (991)':>12}")
    for name, passed in PUBLISHED:
        print(f"{name:28}" + "".join(f"{count:>17}" for count in passed) + f"{sum(passed):>12}")
    row = ""
    for group in suite.GROUPS:
        of_group = found["groups"].get(group)
        text = "not run" if not of_group else str(of_group["passed"])
        if of_group and of_group["run"] < of_group["cases"]:
            text += f" of {of_group['run']}"
        row += f"{text:>17}"
    all_text = str(found["passed"]) + ("" if found["run"] == found["cases"] else f" of {found['run']}")
    print(f"{NAMES[found['target']]:28}{row}{all_text:>12}")
    print(f"in {found['seconds']:.0f} s; SCTP checksums of the suite {'mended' if found['sctp_mended'] else 'as they are'}")
    for result in found["results"]:
        if "tries" in result:
            word = "passed" if result["passed"] else "failed"
            print(f"{word} after {len(result['tries'])} tries: {result['file']}#{result['index']} " + "; ".join(result["tries"]))
