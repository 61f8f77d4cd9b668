"""Runs os-ken's switch tester in this process, and prints one JSON line for each case that ended.

    OSKEN_HUB_TYPE=eventlet python launcher.py FOLDER INTERVAL_S MEND

FOLDER holds files of cases, as cases.py writes them. MEND is 1 or 0: whether the suite's SCTP checksum is mended. The tester
runs as os-ken ships it; only its report is taken from its methods, because it prints nothing but text. It wants os-ken's
hub "eventlet": with the default hub the tester stops at its first case.
"""

import json
import sys
import time

from os_ken.lib import hub

hub.patch(thread=False)

import os_ken.flags  # noqa: E402,F401  registers the tester's options
import os_ken.log  # noqa: E402,F401  registers more that it reads
from os_ken import cfg  # noqa: E402
from os_ken.base.app_manager import AppManager  # noqa: E402  before os_ken.controller, which imports it in a circle
import os_ken.controller.controller  # noqa: E402,F401  registers where it listens
from os_ken.lib.packet import sctp  # noqa: E402

RESULTS = sys.stdout


def crc32c(data):
    """The checksum of RFC 3309 over bytes, as it stands in a packet."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return int.from_bytes((~crc & 0xFFFFFFFF).to_bytes(4, "little"), "big")


def record_results(tester):
    """Makes the tester print its results as JSON, one a line, as soon as each is there."""
    execute, execute_file = tester.OfTester._test_execute, tester.OfTester._test_file_execute

    def one_file(self, testfile):
        self.case_file, self.case_index = testfile.description, 0
        return execute_file(self, testfile)

    def one_case(self, test, description):
        said = []
        info, self.logger.info = self.logger.info, lambda *words: said.append(words)
        print(json.dumps({"started": self.case_file, "index": self.case_index}), file=RESULTS, flush=True)
        before = time.monotonic()
        try:
            result = execute(self, test, description)
        finally:
            self.logger.info = info
        detail = "" if result == tester.TEST_OK else said[-1][0] % said[-1][1:] if said else result
        print(
            json.dumps(
                {
                    "file": self.case_file,
                    "index": self.case_index,
                    "case": test.description,
                    "passed": result == tester.TEST_OK,
                    "detail": detail.strip(),
                    "seconds": round(time.monotonic() - before, 2),
                }
            ),
            file=RESULTS,
            flush=True,
        )
        self.case_index += 1
        return result

    tester.OfTester._test_execute, tester.OfTester._test_file_execute = one_case, one_file


def main():
    folder, interval, mend = sys.argv[1:]
    # The tester writes dots to its standard output while it sends; they go where its log goes.
    sys.stdout = sys.stderr
    if mend == "1":
        sctp.sctp._checksum = lambda self, data: crc32c(data)
    cfg.CONF(
        args=["--test-switch-dir", folder, "--test-switch-interval", interval],
        project="os_ken",
        default_config_files=[],
    )
    from os_ken.tests.switch import tester

    record_results(tester)
    AppManager.run_apps(["os_ken.tests.switch.tester", "os_ken.controller.ofp_handler"])


main()
