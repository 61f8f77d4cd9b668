"""What machines.py checks on each network card: its driver's statistics, packets over each kind of port, queues, MTU, a link that goes away."""

import contextlib
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


# The same cable, and how long a packet takes from the one card's port to the other's.
LATENCY = EXPERIMENT.split("[[test]]", maxsplit=1)[0] + """[[test]]
kind = "latency"
shares = [0]
idle = "50pps"
timestamps = "hardware"
trial = "6s"
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


def lab_run(machine, rate, trial, experiment=EXPERIMENT):
    """Starts an experiment in the guest; its output grows in /tmp/lab/log."""
    text = experiment.format(sender=SENDER, receiver=RECEIVER, rate=rate, trial=trial)
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
    # Some drivers look at their link every two seconds, and a guest without KVM may be late.
    time.sleep(4.5)
    carrier = machine.guest.run(f"cat /sys/class/net/{RECEIVER}/carrier")[1].strip()
    machine.guest.set_link("card2", True)
    log, document = lab_end(machine)
    if carrier == "1":
        raise Skipped("the driver does not see that QEMU took the link of this card away: its carrier stays")
    if "went away" not in log:
        losses = machine.guest.run(f"cat /sys/class/net/{RECEIVER}/carrier_down_count")[1].strip()
        trials = [line for line in log.splitlines() if "load 1" in line]
        raise Wrong(f"nothing is said of the link; carrier lost {losses} times since the start; {trials}")
    discarded = [trial["not_used"] for trial in trials_of(document) if trial.get("not_used")]
    if not discarded:
        raise Wrong(f"no trial was made again: {log.strip()[-300:]}")
    return next(line.strip() for line in log.splitlines() if "went away" in line)[:160]


def timestamps_told(machine):
    """What `linerate ports` says of the timestamps of both cards."""
    ports = json.loads(machine.guest.ask("linerate ports --json"))
    rows = {row["name"]: row["timestamps"] for row in ports["interfaces"]}
    return [rows[card] for card in (SENDER, RECEIVER)]


def timestamped_now(machine):
    """Which received packets both cards timestamp, as `linerate doctor` reads it (SIOCGHWTSTAMP)."""
    document = json.loads(machine.guest.run("linerate doctor --json", 120)[1])
    cards = {card["name"]: card["timestamps"] for card in document["facts"]["interfaces"]}
    return [cards[card]["received_now"] for card in (SENDER, RECEIVER)]


def latency_points(document):
    return [
        (point, trial["trial"])
        for cell in document["cells"]
        for finding in cell["findings"]
        if finding["test"] == "latency" and finding["result"]
        for point in finding["result"]["points"]
        for trial in finding["trials"][-1:]
    ]


# Where the 82576 keeps the sender's identity and the sequence number of a packet that it timestamped (RXSATRH, in the card's first BAR).
RXSATRH = 0xB630


@contextlib.contextmanager
def timestamps_released(machine):
    """While this is open, the receiving igb is made to let go of each receive timestamp some milliseconds after it was taken.

    QEMU's card keeps one until RXSATRH is read, and takes no other before that; Linux's driver reads RXSTMPH, with which a card of Intel lets go.
    So the register is read here, by /dev/mem, which a kernel with STRICT_DEVMEM allows with `iomem=relaxed`.
    """
    if machine.model.driver != "igb":
        yield
        return
    base = int(machine.guest.ask(f"head -1 /sys/class/net/{RECEIVER}/device/resource").split()[0], 16)
    words = f"while devmem {base + RXSATRH:#x} 32; do :; done >/dev/null 2>&1 & echo $!"
    loop = machine.guest.ask(words).strip()
    try:
        yield
    finally:
        machine.guest.run(f"kill {loop}")


def hardware_timestamps(machine):
    """A latency test by the cards' timestamps, cross-stamped, with a stated error; also the next one after a run that was killed."""
    told = timestamps_told(machine)
    if not all(row and row["hardware"] and row["sent"] and row["received"] and row["clock"] for row in told):
        doctor = machine.guest.run("linerate doctor", 120)[1]
        if f"{SENDER} timestamps" not in doctor:
            raise Wrong(f"ports say that there are none, and doctor says nothing: {told}")
        raise Skipped("the card has none that QEMU shows")
    doctor = machine.guest.run("linerate doctor", 120)[1]
    wrong = re.search(r"its clock (stands still|runs at [0-9.]+ times the pace of the system's)", " ".join(doctor.split()))
    if wrong:
        raise Skipped(f"QEMU's card has a clock that {wrong[1]}, as `linerate doctor` says")
    # A run that is killed in the middle leaves a note, and the cards timestamping.
    lab_run(machine, "", "", LATENCY)
    for _ in range(200):
        if machine.guest.run("ls /run/linerate/timestamps 2>/dev/null | grep -c -v lock")[1].strip() == "2":
            break
        time.sleep(0.1)
    else:
        raise Wrong(f"no notes of two cards: {machine.guest.run('ls -R /run/linerate; tail -5 /tmp/lab/log')[1]}")
    time.sleep(1)
    machine.guest.run("kill -KILL $(pidof linerate)")
    time.sleep(1)
    killed = timestamped_now(machine)
    if "nothing" in killed:
        raise Wrong(f"the cards timestamp {killed} after a run that was killed while it probed")
    with timestamps_released(machine):
        lab_run(machine, "", "", LATENCY)
        log, document = lab_end(machine)
    left = machine.guest.run("ls /run/linerate/timestamps | grep -v lock")[1].strip()
    if left or timestamped_now(machine) != ["nothing", "nothing"]:
        raise Wrong(f"left behind: notes {left.split()}, the cards timestamp {timestamped_now(machine)}")
    points = latency_points(document)
    cleared = machine.guest.ask(f"ethtool -S {RECEIVER} | grep rx_hwtstamp_cleared; true").rsplit(":", 1)[-1].strip()
    if not points and "came without a timestamp" in log and cleared not in ("", "0"):
        # The card latched a timestamp, and did not mark the packet that it is of: its driver throws such timestamps away (docs/machines.md).
        raise Skipped(f"no received packet had its timestamp: the driver cleared {cleared} that the card did not assign")
    if not points:
        raise Wrong(f"no latency: {log.strip()[-400:]}")
    point, trial = points[-1]
    timestamps, latency = point["timestamps"], point["latency"]
    if timestamps["kind"] != "hardware" or not latency:
        raise Wrong(f"measured by {timestamps}")
    probes = timestamps["probes"]
    if latency["samples"] != probes["sent"] - probes["lost"] - probes["without_timestamp"] - probes["rejected"] or trial["unexplained"]:
        raise Wrong(f"samples and probes differ, or packets are unexplained: {latency} {timestamps} {trial}")
    # The cable of QEMU takes no time of its own: what is left is the emulation between two cards. A packet that arrived before it was
    # sent, or a whole time-out later, would be the clocks'.
    # Of an igb only those have a timestamp that come when the one before was let go of.
    at_least = 8 if machine.model.driver == "igb" else 2
    if not timestamps["error_ns"] or latency["samples"] < probes["sent"] / at_least or latency["max_ns"] >= 100_000_000:
        raise Wrong(f"latencies that cannot be: {latency} {timestamps}")
    by_software = trial["latency"]["p50_ns"]
    return (
        f"p50 {latency['p50_ns']} ns, error {timestamps['error_ns']} ns, {latency['samples']} of {probes['sent']} probes, "
        f"{', '.join(timestamps['clocks'])}; by software p50 {by_software} ns"
    )


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
    ("hardware timestamps", hardware_timestamps),
]
# After all others.
LAST = [("nothing left behind", left_behind)]
