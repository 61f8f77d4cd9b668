#!/usr/bin/env python3
"""An OpenFlow 1.3 controller to start with.

    examples/openflow/controller.py learning                  # a learning switch: flows for the addresses that it has seen
    examples/openflow/controller.py lagopus-2014              # port 1 to port 2 and back, nothing else
    examples/openflow/controller.py static FLOWS              # the flows of a file, one JSON object a line

It listens on 127.0.0.1:6653 for any number of switches, for example for

    linerate ofswitch --port 1=veth0 --port 2=veth1 --controller tcp:127.0.0.1:6653

and runs on os-ken, which it installs in target/conformance from PyPI where it is missing. A line of FLOWS is what os-ken's REST application takes:
{"table_id": 0, "priority": 10, "match": {"in_port": 1}, "actions": [{"type": "OUTPUT", "port": 2}]}
"""

import argparse
import json
import os
import sys


def main():
    options = arguments()
    try:
        import os_ken  # noqa: F401
    except ImportError:
        run_with_osken()
    # The hub must be chosen before os-ken is imported; its own default stalls when many packets come in.
    os.environ.setdefault("OSKEN_HUB_TYPE", "eventlet")
    import warnings

    warnings.filterwarnings("ignore", message="(?s).*Eventlet is deprecated")
    from os_ken.lib import hub

    hub.patch(thread=False)
    import os_ken.log  # noqa: F401  registers options that others read
    from os_ken import cfg
    from os_ken.base.app_manager import AppManager
    import os_ken.controller.controller  # noqa: F401  registers the address to listen on

    host, port = options.listen.rsplit(":", 1)
    words = ["--ofp-listen-host", host, "--ofp-tcp-listen-port", port]
    cfg.CONF(args=words, project="os_ken", default_config_files=[])
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import apps

    apps.FLOWS = read_flows(options.flows) if options.kind == "static" else []
    print(f"listening on {options.listen} for switches; Ctrl-C ends it", flush=True)
    try:
        AppManager.run_apps([f"apps.{apps.MODULES[options.kind]}", "os_ken.controller.ofp_handler"])
    except KeyboardInterrupt:
        pass


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS
    )
    parser.add_argument("kind", choices=["learning", "lagopus-2014", "static"])
    parser.add_argument("flows", nargs="?", help="file of flows, for static")
    parser.add_argument("--listen", default="127.0.0.1:6653", metavar="ADDRESS:PORT")
    options = parser.parse_args()
    if options.kind == "static" and not options.flows:
        parser.error("static needs a file of flows")
    return options


def run_with_osken():
    """Starts this script anew with a Python that has os-ken."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.path.insert(0, os.path.join(root, "conformance"))
    import osken

    python, why = osken.find()
    if not python:
        sys.exit(why)
    os.execv(python, [python, *sys.argv])


def read_flows(path):
    flows = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip() and not line.startswith("#"):
                try:
                    flows.append(json.loads(line))
                except ValueError as error:
                    sys.exit(f"{path}, line {number}: {error}; write one JSON object a line")
    return flows


if __name__ == "__main__":
    main()
