"""What machines.py checks on each network card: its driver's statistics, packets over each kind of port, queues, MTU, a link that goes away."""

import json
import re
import time

# Cards 0 and 2, 1 and 3 are joined by a cable: Linerate sends from the first of a pair and receives at the second.
SENDER, RECEIVER = "eth0", "eth2"
# So slow that no ring overflows while a guest without KVM has no core for two seconds.
PACKETS, RATE = 500, "100pps"

# Two cards joined by a cable as a box of one's own between two ports: what was sent and did not come is the cards'.
EXPERIMENT = """name = "back"
title = "Two cards joined by a cable"
[topology]
kind = "ports"
a = "packet:{sender}"
b = "packet:{receiver}"
[[dut]]
name = "cable"
kind = "external"
description = "a cable"
[matrix]
sizes = [128]
flows = [100]
repetitions = 1
[noise]
steal_max = 1.0
gap_max = "10s"
retries = 1
[phases]
wait = "200ms"
drain = "500ms"
[[test]]
kind = "load"
rate = "{rate}"
trial = "{trial}"
"""


class Wrong(Exception):
    """The check failed; the text says how."""


class Skipped(Exception):
    """The check cannot be made here; the text says why."""


class Machine:
    """A guest with four cards of one model, all up."""

    def __init__(self, guest, model, root, has_dpdk):
        self.guest, self.model, self.root, self.has_dpdk = guest, model, root, has_dpdk
        # virtio_net is a driver of the bus that virtio-pci makes of a card.
        self.kernel_driver = {"virtio_net": "virtio-pci"}.get(model.driver, model.driver)
        for number in range(4):
            guest.ask(f"ip link set eth{number} up")
        time.sleep(2)


def driver(machine):
    """The card has the driver that is meant."""
    shown = dict(line.split(": ", 1) for line in machine.guest.ask(f"ethtool -i {SENDER}").splitlines() if ": " in line)
    if shown.get("driver") != machine.model.driver:
        raise Wrong(f"the driver is {shown.get('driver')}, not {machine.model.driver}")
    return f"Linux {machine.guest.ask('uname -r').strip()}, {shown.get('version', '?')}"


def statistics(machine):
    """Counters that Linerate reads of this driver (docs/nic-counters.md) are among those that it has."""
    with open(f"{machine.root}/docs/nic-counters.md", encoding="utf-8") as page:
        sections = page.read().split("\n## ")
    wanted = []
    for section in sections:
        if section.split("\n", 1)[0] == machine.model.driver:
            wanted = re.findall(r"^\| `([^`]+)`", section, re.MULTILINE)
    if not wanted:
        raise Skipped(f"docs/nic-counters.md has no rows for {machine.model.driver}")
    shown = machine.guest.ask(f"ethtool -S {RECEIVER}") + machine.guest.ask(
        f"for f in /sys/class/net/{RECEIVER}/statistics/*; do echo $(basename $f): 0; done"
    )
    names = {line.rsplit(":", 1)[0].strip() for line in shown.splitlines() if ":" in line}
    there = [row for row in wanted if any(re.fullmatch(re.escape(row).replace(r"\*", ".+"), name) for name in names)]
    if not there:
        raise Wrong(f"none of {len(wanted)} rows is there; it has {', '.join(sorted(names))}")
    missing = [row for row in wanted if row not in there]
    return f"{len(there)} of {len(wanted)}" + (f"; not in this kernel: {', '.join(missing)}" if missing else "")


def sees(command):
    """A command of the program that looks at cards ends in order and names this one."""

    def check(machine):
        status, output = machine.guest.run(f"linerate {command}", 120)
        if status > 1 or "panicked" in output:
            raise Wrong(f"linerate {command}: status {status}: {output.strip()[-300:]}")
        if SENDER not in output:
            raise Wrong(f"linerate {command} does not name {SENDER}: {output.strip()[-300:]}")

    return check


def carry(machine, sender, receiver, options="", meanwhile="true"):
    """What `linerate receive RECEIVER` counted of what `linerate send SENDER` sent, as its document."""
    script = f"""
{meanwhile} >/tmp/device 2>&1 &
device=$!
linerate receive {receiver} --idle-exit 4s --duration 90s --json >/tmp/received 2>/tmp/told &
receiver=$!
for i in $(seq 100); do grep -q "receiving on" /tmp/told && break; kill -0 $receiver 2>/dev/null || break; usleep 200000; done
usleep {3500000 if meanwhile != "true" else 1500000}
linerate send {sender} --rate {RATE} --count {PACKETS} --vary ipv4.source=198.18.1.1..198.18.1.100 {options} -q >/tmp/sent 2>&1 || cat /tmp/sent
wait $receiver || cat /tmp/told /tmp/device
kill -INT $device 2>/dev/null && wait $device
cat /tmp/received
"""
    status, output = machine.guest.run(script, 150)
    start = output.find("{")
    try:
        return json.loads(output[start:])["received"]
    except (ValueError, KeyError) as error:
        raise Wrong(f"status {status}: {output.strip()[-400:]}") from error


def all_arrived(received):
    delivered = sum(stream["delivered"] for stream in received["streams"])
    if delivered != PACKETS:
        drops = [drop for port in received["ports"] for drop in port["drops"]]
        lost = [stream["lost"] for stream in received["streams"]]
        raise Wrong(f"{delivered} of {PACKETS} packets arrived; lost before others: {lost}; drops: {drops}")


def by_packet(machine):
    """Every packet arrives over AF_PACKET."""
    all_arrived(carry(machine, f"packet:{SENDER}", f"packet:{RECEIVER}"))


def by_xdp(machine):
    """Every packet arrives over AF_XDP, in the best mode that the driver has."""
    queues = f",queues={machine.model.queues}" if machine.model.queues > 1 else ""
    received = carry(machine, f"packet:{SENDER}", f"xdp:{RECEIVER}{queues}")
    all_arrived(received)
    return received["ports"][0]["detail"]


def queues(machine):
    """Packets of a hundred flows arrive by several receive queues, and all arrive."""
    if machine.model.queues == 1:
        raise Skipped("the card has one queue")
    shown = machine.guest.ask(f"ethtool -l {RECEIVER} 2>&1; true")
    current = shown.rsplit("Current hardware settings:", 1)[-1]
    machine.guest.run(f"ethtool -L {RECEIVER} combined {machine.model.queues}")
    received = carry(machine, f"packet:{SENDER}", f"xdp:{RECEIVER},queues={machine.model.queues}")
    all_arrived(received)
    counts = [queue["packets"] for queue in received["ports"][0].get("queues", [])]
    if machine.model.driver == "vmxnet3" and counts[1:] == [0] * (len(counts) - 1):
        raise Skipped("QEMU's card puts all packets into the first queue")
    if sum(count > 0 for count in counts) < 2:
        settings = " ".join(current.split())
        raise Wrong(f"packets by queue: {counts}, where ethtool says: {settings}")
    return f"packets by queue: {', '.join(map(str, counts))}"


def mtu(machine):
    """Frames of 2,000 bytes pass with an MTU of 3,000, which is put back."""
    for card in (SENDER, RECEIVER):
        status, said = machine.guest.run(f"ip link set {card} mtu 3000")
        if status:
            raise Skipped(f"the driver refuses an MTU of 3,000: {said.strip()}")
    time.sleep(3)
    try:
        all_arrived(carry(machine, f"packet:{SENDER}", f"packet:{RECEIVER}", "--size 2000"))
    finally:
        machine.guest.run(f"ip link set {SENDER} mtu 1500; ip link set {RECEIVER} mtu 1500")
        time.sleep(3)


def device(machine):
    """As a device: `linerate bridge` between the far ends of both cables carries every packet."""
    all_arrived(carry(machine, "packet:eth0", "packet:eth1", meanwhile="linerate bridge packet:eth2 packet:eth3"))


def lab_run(machine, rate, trial):
    """Starts the experiment in the guest; its output grows in /tmp/lab/log."""
    text = EXPERIMENT.format(sender=SENDER, receiver=RECEIVER, rate=rate, trial=trial)
    command = "cd /tmp/lab; rm -rf results log; linerate lab run back.toml --plain --fresh --yes >log 2>&1 &"
    machine.guest.ask(f"mkdir -p /tmp/lab; cat >/tmp/lab/back.toml <<'END'\n{text}END\n{command}")


def lab_end(machine):
    """Waits for its end; what it said, and its document."""
    for _ in range(120):
        if not machine.guest.run("pidof linerate")[1].strip():
            break
        time.sleep(1)
    else:
        raise Wrong(f"it goes on: {machine.guest.run('tail -5 /tmp/lab/log')[1]}")
    log = machine.guest.run("cat /tmp/lab/log")[1]
    status, text = machine.guest.run("cat /tmp/lab/results/*/result.json")
    if status:
        raise Wrong(f"no results: {log.strip()[-400:]}")
    return log, json.loads(text)


def trials_of(document):
    return [trial for cell in document["cells"] for finding in cell["findings"] for trial in finding["trials"]]


def trial(machine):
    """A trial of the lab between two cards: all that was sent arrived, and nothing is unexplained."""
    lab_run(machine, "100pps", "4s")
    log, document = lab_end(machine)
    made = [trial["trial"] for trial in trials_of(document) if not trial.get("not_used")]
    if not made:
        raise Wrong(f"no trial counts: {log.strip()[-300:]}")
    last = made[-1]
    if last["unexplained"]:
        raise Wrong(f"{last['unexplained']} unexplained of {last['intended']}")
    return f"{last['delivered']} of {last['sent']} sent"


def link_flap(machine):
    """A link that goes away during a trial is named, and the trial is made again."""
    lab_run(machine, "100pps", "12s")
    for _ in range(100):
        log = machine.guest.run("cat /tmp/lab/log")[1]
        if "warming up" in log or not machine.guest.run("pidof linerate")[1].strip():
            break
        time.sleep(0.3)
    # The load begins some seconds later, by how fast the guest is.
    time.sleep(7)
    machine.guest.set_link("card2", False)
    # Some drivers look at their link every two seconds.
    time.sleep(2.5)
    machine.guest.set_link("card2", True)
    log, document = lab_end(machine)
    if "went away" not in log:
        losses = machine.guest.run(f"cat /sys/class/net/{RECEIVER}/carrier_down_count")[1].strip()
        trials = [line for line in log.splitlines() if "load 1" in line]
        raise Wrong(f"nothing is said of the link; carrier lost {losses} times since the start; {trials}")
    discarded = [trial["not_used"] for trial in trials_of(document) if trial.get("not_used")]
    if not discarded:
        raise Wrong(f"no trial was made again: {log.strip()[-300:]}")
    return next(line.strip() for line in log.splitlines() if "went away" in line)[:160]


def left_behind(machine):
    """Nothing is left: no process, no promiscuous mode (IFF_PROMISC, linux/if.h)."""
    running = machine.guest.run("pidof linerate")[1].strip()
    flags = machine.guest.ask("cat /sys/class/net/eth*/flags").split()
    if running or any(int(text, 16) & 0x100 for text in flags):
        raise Wrong(f"processes: {running or 'none'}; flags of the cards: {' '.join(flags)}")


CHECKS = [
    ("driver", driver),
    ("statistics by name", statistics),
    ("linerate ports", sees("ports")),
    ("linerate doctor", sees("doctor")),
    ("AF_PACKET", by_packet),
    ("AF_XDP", by_xdp),
    ("several queues", queues),
    ("MTU", mtu),
    ("as a device (bridge)", device),
    ("a trial of the lab", trial),
    ("link goes away in a trial", link_flap),
]
# After all others.
LAST = [("nothing left behind", left_behind)]
