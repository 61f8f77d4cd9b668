#!/usr/bin/env python3
"""Runs Linerate in guests of QEMU, on the drivers of network cards that people have, and prints what held as a table.

    conformance/machines.py [--linerate PROGRAM] [--kernel FOLDER] [--qemu PROGRAM] [--only MODELS] [--json FILE] [--keep FOLDER]

Wants QEMU (Debian: qemu-system-x86), Python 3, ethtool, iproute2, util-linux, the right to make a network namespace and, once, the network
for Debian's kernel and busybox (apt-get download). Says `skipped: WHY` where something is missing. Guests are in namespaces of their own,
so nothing that they send leaves this machine; they end with this script, also at Ctrl-C, and after --limit. Each check is passed,
FAILED or skipped, with a reason (docs/machines.md). Exit status: 0 none failed (or skipped), 1 some failed, 2 could not run.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import dpdk_checks
import guest as guests
import machine_checks as checks

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CARDS = 4


class Model:
    """A network card of QEMU: its device, the driver in the guest, receive queues (0: as many as cores)."""

    def __init__(self, device, driver, queues, taps=False):
        self.device, self.driver, self.queues, self.taps = device, driver, queues, taps


MODELS = {
    "e1000e": Model("e1000e", "e1000e", 1),
    "igb": Model("igb", "igb", 4),
    # Only TAP devices give a card of virtio several queues.
    "virtio-net": Model("virtio-net-pci,mq=on,vectors=10,disable-legacy=on,iommu_platform=on", "virtio_net", 4, taps=True),
    "vmxnet3": Model("vmxnet3", "vmxnet3", 4),
}


def main():
    options = arguments()
    why = missing(options)
    if why:
        print(f"skipped: {why}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    folder = options.keep or tempfile.mkdtemp(prefix="machines-")
    os.makedirs(folder, exist_ok=True)
    results = {}
    try:
        kernel, image = prepare(options, folder)
        for name in options.only:
            results[name] = run(name, options, folder, kernel, image)
    except guests.Failed as error:
        print(f"machines.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 2
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print_table(results)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(results, out, indent=1)
    return 1 if any(verdict == "FAILED" for found in results.values() for _, verdict, _ in found) else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    parser.add_argument("--linerate", default=os.path.join(target, "release", "linerate"), help="program to test")
    parser.add_argument("--kernel", help="unpacked package linux-image-... of Debian (default: downloaded into target/machines)")
    parser.add_argument("--qemu", default="qemu-system-x86_64", help="QEMU to use")
    parser.add_argument("--only", default=",".join(MODELS), type=lambda text: text.split(","), help="models, joined by commas")
    parser.add_argument("--checks", default="", type=lambda text: [word for word in text.split(",") if word], help="only those that have one of these words in their names")
    parser.add_argument("--accelerator", choices=["kvm", "tcg"], help="instead of KVM where it works, else TCG")
    parser.add_argument("--limit", type=int, default=900, help="seconds for each guest (default: 900)")
    parser.add_argument("--keep", metavar="FOLDER", help="keep consoles and QEMU's messages there")
    parser.add_argument("--json", metavar="FILE", help="write the results into a file")
    options = parser.parse_args()
    unknown = [name for name in options.only if name not in MODELS]
    if unknown:
        parser.error(f"--only: {unknown[0]}: there are {', '.join(MODELS)}")
    return options


def missing(options):
    """Says what this machine lacks, or nothing."""
    for program, package in [
        (options.qemu, "qemu-system-x86"),
        ("ethtool", "ethtool"),
        ("ip", "iproute2"),
        ("unshare", "util-linux"),
        ("setpriv", "util-linux"),
        ("dpkg-deb", "dpkg"),
    ]:
        if not shutil.which(program):
            return f"{program} is not installed (Debian: apt-get install {package})"
    if not os.access(options.linerate, os.X_OK):
        print(f"{options.linerate} is not there: cargo build --release -p linerate, or --linerate PROGRAM", file=sys.stderr)
        sys.exit(2)
    names = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--user", "--map-root-user"]
    if subprocess.run([*names, "true"], capture_output=True, check=False).returncode:
        return "no network namespace can be made"
    return None


def prepare(options, folder):
    """The kernel's folder and the guests' initial RAM disk."""
    packages = os.path.join(ROOT, "target", "machines")
    kernel = options.kernel or guests.download("linux-image-amd64", packages)
    busybox = os.path.join(guests.download("busybox-static", packages), "bin/busybox")
    program = os.path.join(folder, "linerate")
    # Names of lines are most of a program that was built for tests.
    if subprocess.run(["strip", "-g", "-o", program, options.linerate], capture_output=True, check=False).returncode:
        shutil.copy(options.linerate, program)
    tools = [shutil.which(name) for name in ("ethtool", "ip", "tcpdump")]
    image = os.path.join(folder, "initramfs")
    plug_ins = guests.dpdk_drivers(program)
    options.has_dpdk = bool(plug_ins)
    guests.make_image(image, kernel, busybox, [program, *[tool for tool in tools if tool]], plug_ins=plug_ins)
    return kernel, image


def devices(model):
    """QEMU's words for four cards, of which 0 and 2, 1 and 3 are joined by a cable; commands that prepare it in the guest's namespace."""
    # An IOMMU, for vfio, in front of the cards. Addresses of a process have 47 bits.
    words, commands = ["-device", "intel-iommu,intremap=on,aw-bits=48"], []
    if model.taps:
        commands.append("for all in all default; do echo 1 >/proc/sys/net/ipv6/conf/$all/disable_ipv6; done")
        commands += [f"ip link add cable{number} mtu 9000 type bridge mcast_snooping 0" for number in range(2)]
    for number in range(CARDS):
        cable = number % 2
        if model.taps:
            tap = f"tap{number}"
            commands.append(f"ip tuntap add {tap} mode tap multi_queue && ip link set {tap} mtu 9000 master cable{cable} up")
            words += ["-netdev", f"tap,id=net{number},ifname={tap},script=no,downscript=no,queues={model.queues}"]
        else:
            words += ["-netdev", f"hubport,id=net{number},hubid={cable}"]
        words += ["-device", f"pcie-root-port,id=slot{number},chassis={number + 1},addr={number + 4}"]
        address = f"52:54:00:00:00:{number:02x}"
        words += ["-device", f"{model.device},netdev=net{number},id=card{number},mac={address},bus=slot{number}"]
    if model.taps:
        commands += [f"ip link set cable{number} up" for number in range(2)]
    return words, commands


def has_device(qemu, model):
    shown = subprocess.run([qemu, "-device", "help"], capture_output=True, text=True, check=False).stdout
    return f'name "{model.device.split(",")[0]}"' in shown


def run(name, options, folder, kernel, image):
    """What the checks found on one model: triples of check, verdict and reason."""
    model = MODELS[name]
    if not has_device(options.qemu, model):
        return [["all", "skipped", f"this QEMU has no {name}"]]
    own = os.path.join(folder, name)
    os.makedirs(own, exist_ok=True)
    words, commands = devices(model)
    began = time.monotonic()
    guest, found = None, []
    try:
        guest = start(options, own, kernel, image, words, commands)
        print(f"{name}: a guest with {guest.accelerator}, up after {time.monotonic() - began:.0f} s", file=sys.stderr)
        machine = checks.Machine(guest, model, ROOT, options.has_dpdk)
        for title, check in [*checks.CHECKS, *dpdk_checks.CHECKS, *checks.LAST]:
            if options.checks and not any(word in title for word in options.checks):
                continue
            verdict, reason = outcome(check, machine)
            print(f"{name}: {title}: {verdict}{': ' if reason else ''}{reason}", file=sys.stderr)
            found.append([title, verdict, reason])
    except guests.Failed as error:
        found.append(["guest", "FAILED", str(error)])
    finally:
        if guest:
            guest.end()
    return found


def start(options, own, kernel, image, words, commands):
    """A guest with KVM, or where that does not answer within a minute, as in some virtual machines, without."""
    first = options.accelerator or guests.accelerator()
    for accelerator in dict.fromkeys([first, options.accelerator or "tcg"]):
        try:
            patience_s = 40 if accelerator == "kvm" else 180
            memory = "2560" if options.has_dpdk else "1536"
            more = {"memory": memory, "parameters": "intel_iommu=on iommu=pt iomem=relaxed"}
            return guests.Guest(own, options.qemu, kernel, image, words, commands, accelerator, patience_s, options.limit, **more)
        except guests.Failed as error:
            failed = error
            if accelerator == "kvm" and not options.accelerator:
                print("KVM does not run this guest: going on without, ten times slower", file=sys.stderr)
                guests.without_kvm = True
    raise failed


def outcome(check, machine):
    try:
        return "passed", check(machine) or ""
    except checks.Skipped as why:
        return "skipped", str(why)
    except (checks.Wrong, guests.Failed) as why:
        return "FAILED", str(why)


def print_table(results):
    titles = list(dict.fromkeys(title for found in results.values() for title, _, _ in found))
    widths = [max(map(len, titles), default=5)] + [max(len(name), 7) for name in results]
    print("  ".join(text.ljust(width) for text, width in zip(["check", *results], widths)).rstrip())
    for title in titles:
        verdicts = [next((verdict for other, verdict, _ in found if other == title), "-") for found in results.values()]
        print("  ".join(text.ljust(width) for text, width in zip([title, *verdicts], widths)).rstrip())
    print()
    for name, found in results.items():
        for title, verdict, reason in found:
            if reason:
                print(f"{name}, {title}: {verdict}: {reason}")


if __name__ == "__main__":
    sys.exit(main())
