#!/usr/bin/env python3
"""Runs os-ken's certification suite for OpenFlow 1.3, 991 cases, against a switch, and prints a table beside published scores.

    conformance/of13.py --target linerate|ovs [--quick] [--json FILE]

Wants root, Python 3 with venv, iproute2, util-linux, and Open vSwitch, whose switch plays the tester (Debian: openvswitch-switch). It makes
os-ken in target/conformance from PyPI once. Says `skipped: WHY` where something is missing. `--target linerate` runs
target/release/linerate or the program of `--linerate`, which must have been built before. Namespaces, interfaces and processes
end with this script, also at Ctrl-C. Exit status: 0 all passed (or skipped), 1 some failed, 2 could not run.
"""

import argparse
import fnmatch
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import cases as suite
import osken
import report

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HERE = os.path.dirname(os.path.abspath(__file__))
# A case takes 35 seconds at most; a tester that is silent for longer does not go on.
SILENT_S = 90
RETRIES = 3


def main():
    options = arguments()
    why = missing(options)
    python = None
    if not why:
        python, why = osken.find()
    if why:
        print(f"skipped: {why}")
        return 0
    chosen = suite.read(suite_folder(python))
    if options.quick:
        chosen = suite.quick(chosen)
    if options.only:
        chosen = [case for case in chosen if fnmatch.fnmatch(case.file, options.only)]
    if options.without_throughput:
        chosen = [case for case in chosen if case.group not in suite.THROUGHPUT]
    if not chosen:
        print(f"no case matches {options.only}; for example --only 'match/06*'", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    began = time.monotonic()
    runner = Runner(options, python)
    try:
        results = runner.run_all(chosen)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 2
    finally:
        runner.end()
    document = report.document(results, options, osken.VERSION, time.monotonic() - began)
    report.print_table(document)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(document, out, indent=1)
    return 0 if all(result["passed"] for result in results) else 1


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--target", choices=["linerate", "ovs"], default="linerate", help="switch to test")
    default = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release", "linerate")
    parser.add_argument("--linerate", default=default, help="program to test")
    parser.add_argument("--option", action="append", default=[], help="one more word for linerate ofswitch")
    parser.add_argument("--cells", type=int, default=3, help="testbeds that work at once (default: 3)")
    # Open vSwitch, which is the tester at least, keeps a deleted flow for a moment behind the barrier.
    parser.add_argument("--interval", type=int, default=1, help="seconds between cases (default: 1)")
    parser.add_argument("--unmended", action="store_true", help="leave the suite's wrong SCTP checksums as they are")
    parser.add_argument("--quick", action="store_true", help="run a subset of about two minutes")
    parser.add_argument("--only", metavar="PATTERN", help="run cases of matching files, for example 'match/06*'")
    parser.add_argument("--without-throughput", action="store_true", help="leave groups and meters out, which take 27 minutes")
    parser.add_argument("--json", metavar="FILE", help="write all results into a file")
    return parser.parse_args()


def missing(options):
    """Says what this machine lacks, or nothing."""
    if os.geteuid() != 0:
        return "namespaces need root"
    for program, package in [
        ("ovs-vswitchd", "openvswitch-switch"),
        ("ovsdb-server", "openvswitch-switch"),
        ("ip", "iproute2"),
        ("unshare", "util-linux"),
        ("setpriv", "util-linux"),
    ]:
        if not shutil.which(program):
            return f"{program} is not installed (Debian: apt-get install {package})"
    if options.target == "linerate" and not os.access(options.linerate, os.X_OK):
        print(f"{options.linerate} is not there: cargo build --release -p linerate, or --linerate PROGRAM", file=sys.stderr)
        sys.exit(2)
    return None


def suite_folder(python):
    words = [python, "-c", "import os, os_ken.tests.switch as s; print(os.path.dirname(s.__file__))"]
    found = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    return os.path.join(found, "of13")


class Runner:
    """Runs cases in testbeds ("cells"), several at once or alone."""

    def __init__(self, options, python):
        self.options, self.python = options, python
        self.folder = tempfile.mkdtemp(prefix="of13-")
        self.lock, self.cells, self.processes, self.done = threading.Lock(), 0, set(), 0
        self.ending = False

    def run_all(self, chosen):
        """The results of all cases: those that measure a rate alone and repeated if they fail, the others side by side."""
        self.total = len(chosen)
        alone = [case for case in chosen if case.group in suite.THROUGHPUT]
        parts = suite.shares([case for case in chosen if case.group not in suite.THROUGHPUT], self.options.cells)
        outcomes = [[] for _ in parts]
        threads = [
            threading.Thread(target=self.run_part, args=(part, outcome), daemon=True)
            for part, outcome in zip(parts, outcomes)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        results = [result for outcome in outcomes for result in outcome]
        measured = []
        self.run_part(alone, measured)
        by_key = {case.key: case for case in chosen}
        # Only a rate that was measured wrong can be better next time.
        for result in [result for result in measured if "unexpected throughput" in result["detail"]]:
            self.repeat(by_key[(result["file"], result["index"])], result)
        return sorted(results + measured, key=lambda result: (result["file"], result["index"]))

    def repeat(self, case, result):
        """Runs a case that measures a rate again by itself, and puts each try into its result."""
        result["tries"] = [result["detail"]]
        while not result["passed"] and len(result["tries"]) <= RETRIES:
            again = []
            self.run_part([case], again, f"try {len(result['tries']) + 1}: ")
            result["tries"].append(again[0]["detail"] or "passed")
            result["passed"], result["detail"] = again[0]["passed"], again[0]["detail"]

    def run_part(self, part, outcome, note=None):
        """Runs cases one after the other; where a testbed ends early, another one goes on behind the case that it died of."""
        left = list(part)
        while left and not self.ending:
            finished, current, why = self.run_cell(left, lambda result: self.progress(result, outcome, note))
            left = [case for case in left if case.key not in finished]
            if not left:
                return
            # A testbed that did not get to any case has none to blame, and would end so again.
            blamed = left if current is None and not finished else [case for case in left if case.key == current]
            for case in blamed:
                result = {"file": case.file, "index": case.index, "case": case.content.get("description", ""), "group": case.group}
                self.progress({**result, "passed": False, "detail": why, "seconds": 0}, outcome, note)
            left = [case for case in left if case not in blamed]

    def progress(self, result, outcome, note):
        with self.lock:
            outcome.append(result)
            self.done += note is None
            if sys.stdout.isatty() and note is None:
                print(f"\r{self.done} of {self.total} ", end="", flush=True)
            if not result["passed"] or note is not None:
                start = "\r" if sys.stdout.isatty() else ""
                word = "passed" if result["passed"] else "failed"
                print(f"{start}{note or ''}{word} {result['file']}#{result['index']} {result['case']}: {result['detail']}", flush=True)

    def run_cell(self, part, report_case):
        """Runs one testbed; returns the keys of the cases that ended, the one that did not, and why it did not."""
        with self.lock:
            self.cells += 1
            folder = os.path.join(self.folder, f"cell{self.cells}")
        os.makedirs(os.path.join(folder, "cases"))
        written = suite.write(part, os.path.join(folder, "cases"))
        settings = {
            "folder": folder,
            "cases": os.path.join(folder, "cases"),
            "command": self.command(),
            "python": self.python,
            "interval": self.options.interval,
            "mend": not self.options.unmended,
        }
        words = ["setpriv", "--pdeathsig", "KILL"]
        # The suite's generator must keep its rate, also where the machine has other work.
        if any(case.group in suite.THROUGHPUT for case in part):
            words += ["chrt", "--rr", "10"]
        words += ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        words += [sys.executable, os.path.join(HERE, "cell.py"), json.dumps(settings)]
        finished, current, why = set(), None, None
        with open(f"{folder}/cell.log", "w", encoding="utf-8") as log:
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True)
        self.processes.add(process)
        silent = threading.Event()

        def give_up():
            silent.set()
            process.kill()

        watch = threading.Timer(SILENT_S, give_up)
        watch.start()
        for line in process.stdout:
            watch.cancel()
            said = json.loads(line)
            if "ended" in said:
                why = said["ended"]
                break
            case = written[(said.get("file") or said["started"], said["index"])]
            current = case.key
            if "file" in said:
                finished.add(case.key)
                current = None
                report_case({**said, "index": case.index, "group": case.group})
            watch = threading.Timer(SILENT_S, give_up)
            watch.start()
        watch.cancel()
        process.kill()
        process.wait()
        self.processes.discard(process)
        return finished, current, (why or (f"no result after {SILENT_S} s" if silent.is_set() else "the testbed ended")) + last_words(folder)

    def command(self):
        if self.options.target == "ovs":
            return None
        words = [self.options.linerate, "ofswitch", "--dpid", "1", "--controller", "tcp:127.0.0.1:6653"]
        for link in [1, 2, 3]:
            words += ["--port", f"{link}=packet:t{link}"]
        return words + self.options.option

    def end(self):
        """Ends what still runs, and removes its files."""
        self.ending = True
        for process in list(self.processes):
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def last_words(folder):
    """The last line of the logs of a testbed, for a message."""
    for name in ["cell.log", "target.log", "tester.log"]:
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as log:
                lines = log.read().strip().splitlines()
        except OSError:
            continue
        if lines and name != "tester.log" or lines and "Error" in lines[-1]:
            return f"; {name}: {lines[-1][:300]}"
    return ""


sys.exit(main())
