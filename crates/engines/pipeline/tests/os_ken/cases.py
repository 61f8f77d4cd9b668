"""Prints the matches, actions and packets of os-ken's certification suite for OpenFlow 1.3, one case a line, as JSON.

A case has "name", "flows" (each with "table", "match", "steps"), "packet" in hexadecimal, "wanted" ("egress", "PACKET_IN" or "table-miss"),
and "result", the packet that comes out. Exits with 3 if os-ken is not installed. os-ken computes SCTP checksums over the text of
the bytes; they are mended here.
"""

import glob
import ipaddress
import json
import os
import sys

try:
    import os_ken
    from os_ken.lib.packet import sctp
except ImportError as missing:
    print(missing)
    sys.exit(3)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return int.from_bytes((~crc & 0xFFFFFFFF).to_bytes(4, "little"), "big")


sctp.sctp._checksum = lambda self, data: crc32c(data)


def names():
    """What the suite's texts of packets mean: the classes of os-ken's packet library."""
    found = {}
    for module in "arp ethernet icmp icmpv6 ipv4 ipv6 mpls pbb sctp tcp udp vlan".split():
        loaded = __import__("os_ken.lib.packet." + module, fromlist=["_"])
        classes = {name: value for name, value in vars(loaded).items() if isinstance(value, type)}
        if module == "icmpv6":
            # Both have an `echo`.
            classes["icmpv6echo"] = classes.pop("echo")
        found.update(classes)
    return found


NAMES = names()


def packet(texts):
    built = eval("/".join(texts), dict(NAMES))
    built.serialize()
    return bytes(built.data).hex()


def number(value):
    if not isinstance(value, str):
        return None if value is None else str(value)
    if value.count(":") == 5 and all(len(part) <= 2 for part in value.split(":")):
        return str(int("".join(part.zfill(2) for part in value.split(":")), 16))
    return str(int(ipaddress.ip_address(value)))


def field(tlv):
    tlv = tlv["OXMTlv"]
    return [tlv["field"], number(tlv["value"]), number(tlv.get("mask"))]


def steps(instructions):
    for instruction in instructions:
        ((kind, body),) = instruction.items()
        if kind == "OFPInstructionGotoTable":
            yield ["goto", body["table_id"]]
        elif kind == "OFPInstructionWriteMetadata":
            yield ["metadata", str(body["metadata"]), str(body["metadata_mask"])]
        elif kind == "OFPInstructionActions" and body["type"] == 4:
            for action in body["actions"]:
                ((name, arguments),) = action.items()
                if name == "OFPActionSetField":
                    yield ["set_field", *field(arguments["field"])[:2]]
                else:
                    yield [name, *arguments.values()]
        else:
            raise SystemExit(f"unknown instruction: {instruction}")


def case(test):
    flows = []
    for message in test["prerequisite"]:
        flow = message["OFPFlowMod"]
        fields = flow.get("match", {}).get("OFPMatch", {}).get("oxm_fields", [])
        flows.append(
            {
                "table": flow.get("table_id", 0),
                "match": [field(one) for one in fields],
                "steps": list(steps(flow.get("instructions", []))),
            }
        )
    (what,) = test["tests"]
    (wanted,) = set(what) - {"ingress"}
    result = packet(what[wanted]) if isinstance(what[wanted], list) and wanted != "table-miss" else None
    return {
        "name": test["description"],
        "flows": flows,
        "packet": packet(what["ingress"]),
        "wanted": wanted,
        "result": result,
    }


folder = os.path.join(os.path.dirname(os_ken.__file__), "tests", "switch", "of13")
for group in ["match/*.json", "action/*.json", "action/*/*.json"]:
    for path in sorted(glob.glob(os.path.join(folder, group))):
        with open(path) as file:
            for test in json.load(file):
                if isinstance(test, dict):
                    print(json.dumps({"file": os.path.relpath(path, folder), **case(test)}))
