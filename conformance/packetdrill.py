#!/usr/bin/env python3
"""packetdrill's TCP scripts against Linerate's stack, in virtual time: conformance/packetdrill.py FOLDER [PATTERN...]

FOLDER is a clone of github.com/google/packetdrill, of which nothing is in this repository. It is copied to target/packetdrill and built there
(bison, flex, make and a C compiler are needed), with the comparison of the PSH flag left out: Linux sets it more often than RFC 9293
section 3.9.1 asks for. Each script runs in a network namespace of its own, because scripts set sysctls. This needs root, or a user who may
pin memory without a limit (ulimit -l unlimited), because packetdrill pins all of its process.

A script passes, or differs for a reason that conformance/packetdrill-differences.txt names, or the command fails.
"""

import argparse
import fnmatch
import os
import resource
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIFFERENCES = ROOT / "conformance/packetdrill-differences.txt"
PSH = '''	    (strict && check_field("tcp_psh",
			script_tcp->psh,
			actual_tcp->psh, error)) ||
'''
ADDRESSES = "--local_ip=192.168.0.1 --gateway_ip=192.168.0.2 --netmask_ip=255.255.0.0 --remote_ip=192.0.2.1"
SECONDS = 60


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a clone of github.com/google/packetdrill")
    parser.add_argument("pattern", nargs="*", default=["*"], help="scripts by path below gtests/net/tcp, such as 'sack/*'")
    parser.add_argument("--verbose", action="store_true", help="what each script said that did not pass")
    arguments = parser.parse_args()
    for tool in ["bison", "flex", "make", "cc", "unshare", "ip"]:
        if not shutil.which(tool):
            sys.exit(f"needs {tool}: install the package of that name (cc: gcc; ip: iproute2; unshare: util-linux)")
    if not (arguments.folder / "gtests/net/packetdrill/packetdrill.h").is_file():
        sys.exit(f"{arguments.folder} holds no packetdrill: name a clone of github.com/google/packetdrill")
    pinned, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if os.geteuid() != 0 and pinned != resource.RLIM_INFINITY:
        sys.exit("packetdrill pins its memory: run with sudo, or raise the limit (ulimit -l unlimited)")
    tree = built(arguments.folder)
    library = stack()
    known = differences()
    scripts = sorted(path.relative_to(tree / "gtests/net/tcp") for path in (tree / "gtests/net/tcp").rglob("*.pkt"))
    scripts = [path for path in scripts if any(fnmatch.fnmatch(str(path), one) for one in arguments.pattern)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outputs = list(pool.map(lambda script: played(tree, library, script), scripts))
    sys.exit(report(scripts, outputs, known, arguments.verbose))


def built(folder):
    """packetdrill, built from a copy of the folder."""
    tree = ROOT / "target/packetdrill"
    source = tree / "gtests/net/packetdrill"
    if not (source / "packetdrill").is_file():
        print("building packetdrill", flush=True)
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(folder, tree, ignore=shutil.ignore_patterns(".git"))
        checks = (source / "run_packet.c").read_text()
        if PSH not in checks:
            sys.exit("this packetdrill is of another version: its comparison of PSH was not found (2c4001c is known)")
        (source / "run_packet.c").write_text(checks.replace(PSH, ""))
        for command in ["./configure", "make packetdrill"]:
            done = subprocess.run(command, shell=True, cwd=source, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{command} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return tree


def stack():
    """The stack as a shared object."""
    subprocess.run(["cargo", "build", "--locked", "-p", "linerate-packetdrill"], cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "debug/liblinerate_packetdrill.so"


def played(tree, library, script):
    """What a script that did not pass said, or None. Its stack is preloaded as well, because blocks of code ask libc for TCP_INFO."""
    path = tree / "gtests/net/tcp" / script
    drill = tree / "gtests/net/packetdrill/packetdrill"
    # Scripts set the queueing discipline of tun0. packetdrill pins its memory, so stacks of threads are small.
    line = (
        f"ip tuntap add tun0 mode tun && ip link set tun0 up && ulimit -s 256 && LD_PRELOAD={library} "
        f"exec {drill} --so_filename={library} {ADDRESSES} --tolerance_usecs=10000 {path.name}"
    )
    command = ["unshare", "-n" if os.geteuid() == 0 else "-rn", "sh", "-c", line]
    try:
        done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"still running after {SECONDS} s"
    said = [text for text in (done.stdout + done.stderr).splitlines() if text and not text.startswith("sysctl:")]
    return None if done.returncode == 0 else "\n".join(said[-4:])


def differences():
    """Patterns of scripts that differ, and why."""
    lines = [line.strip() for line in DIFFERENCES.read_text().splitlines()]
    return [tuple(part.strip() for part in line.split(":", 1)) for line in lines if line and not line.startswith("#")]


def report(scripts, outputs, known, verbose):
    counts, wrong, used = {}, [], set()
    for script, said in zip(scripts, outputs):
        entry = next((entry for entry in known if fnmatch.fnmatch(str(script), entry[0])), None)
        count = counts.setdefault(script.parts[0], Counter())
        if said is None:
            count["passed"] += 1
            if entry and "*" not in entry[0]:
                wrong.append(f"{script} passes now: take it out of {DIFFERENCES.name}")
            continue
        count["differ" if entry else "failed"] += 1
        if entry:
            used.add(entry)
        else:
            wrong.append(f"{script} fails:\n{said}")
        if verbose:
            print(f"{script} ({entry[1] if entry else 'not known'}):\n{said}\n")
    print(f"{'scripts of':20} passed  differ  failed")
    counts["all"] = sum(counts.values(), Counter())
    for folder, count in counts.items():
        print(f"{folder:20} {count['passed']:6}  {count['differ']:6}  {count['failed']:6}")
    print("\nwhy scripts differ:")
    for pattern, why in known:
        if (pattern, why) in used:
            print(f"  {pattern}: {why}")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


main()
