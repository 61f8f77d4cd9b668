"""The cases of os-ken's certification suite for OpenFlow 1.3: which there are, and files with chosen ones of them."""

import json
import os

GROUPS = ["action", "set-field", "match", "group", "meter"]
# Cases of these groups measure a rate for 30 seconds each, so they run alone.
THROUGHPUT = ["group", "meter"]
COUNTS = {"action": 56, "set-field": 170, "match": 714, "group": 15, "meter": 36}


class Case:
    """One case: its file in the suite's folder without `.json`, its number in the file from 0, and its content."""

    def __init__(self, file, index, content):
        self.file, self.index, self.content = file, index, content
        first = file.split("/")[0]
        self.group = "set-field" if file.startswith("action/25_SET_FIELD") else first

    @property
    def key(self):
        return (self.file, self.index)

    @property
    def expected_s(self):
        """About how long the case takes: a table miss waits for a second, a rate is measured for 30."""
        if self.group in THROUGHPUT:
            return 31.0
        return 1.3 if any("table-miss" in test for test in self.content["tests"]) else 0.3


def read(suite):
    """All cases below the folder `suite`, in the order of their files."""
    cases = []
    for folder, _, names in os.walk(suite):
        for name in names:
            if name.endswith(".json"):
                path = os.path.join(folder, name)
                file = os.path.relpath(path, suite)[: -len(".json")]
                with open(path, encoding="utf-8") as text:
                    contents = [entry for entry in json.load(text) if not isinstance(entry, str)]
                cases += [Case(file, index, content) for index, content in enumerate(contents)]
    return sorted(cases, key=lambda case: case.key)


def quick(cases):
    """Every fourth case of each file, without those that measure rates, which mean nothing beside other work: about two minutes."""
    return [case for case in cases if case.group not in THROUGHPUT and case.index % 4 == 0]


def shares(cases, count):
    """`cases` in `count` parts that take about equally long; files stay whole."""
    files = {}
    for case in cases:
        files.setdefault(case.file, []).append(case)
    parts = [[] for _ in range(count)]
    for whole in sorted(files.values(), key=lambda file: -sum(case.expected_s for case in file)):
        min(parts, key=lambda part: sum(case.expected_s for case in part)).extend(whole)
    return [sorted(part, key=lambda case: case.key) for part in parts if part]


def write(cases, folder):
    """Writes files for the tester, and returns the cases by (file, index) as it will report them."""
    files = {}
    for case in cases:
        files.setdefault(case.file, []).append(case)
    written = {}
    for file, of_file in files.items():
        with open(os.path.join(folder, file.replace("/", "_") + ".json"), "w", encoding="utf-8") as out:
            json.dump([file] + [case.content for case in of_file], out)
        written.update({(file, index): case for index, case in enumerate(of_file)})
    return written
