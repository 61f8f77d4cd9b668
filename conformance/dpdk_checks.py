"""What machines.py checks of `dpdk:ADDRESS,bind` on each network card: taken from the kernel, packets, given back, also by a process that is killed."""

import json
import re
import time

from machine_checks import RECEIVER, SENDER, Skipped, Wrong, all_arrived, carry


def needs_dpdk(check):
    """The check, where the program has DPDK's ports."""

    def checked(machine):
        if not machine.has_dpdk:
            raise Skipped("the program is built without --features dpdk")
        prepare(machine)
        return check(machine)

    return checked


def address(machine, card):
    """The PCI address of a card's interface."""
    path = machine.guest.ask(f"readlink -f /sys/class/net/{card}/device")
    return re.findall(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", path)[-1]


def card_at(machine, where):
    """What `linerate ports` says of the card at an address."""
    shown = json.loads(machine.guest.ask("linerate ports --json", 120))
    return next((row for row in shown["pci_cards"] if row["address"] == where), None)


def kernel_driver(machine, where):
    return machine.guest.run(f"basename $(readlink /sys/bus/pci/devices/{where}/driver)")[1].strip()


def given_back(machine, where, mac):
    """Holds if the kernel driver has the card again, with an interface that is down and has no addresses; returns the interface's name."""
    if kernel_driver(machine, where) != machine.kernel_driver:
        raise Wrong(f"{where} is with {kernel_driver(machine, where) or 'no driver'} afterwards")
    override = machine.guest.ask(f"cat /sys/bus/pci/devices/{where}/driver_override").strip()
    if override not in ("", "(null)"):
        raise Wrong(f"driver_override is {override} afterwards")
    shown = json.loads(machine.guest.ask("/bin/ip -j addr show"))
    found = [row for row in shown if row["address"] == mac]
    if len(found) != 1:
        raise Wrong(f"{len(found)} interfaces have the address {mac} afterwards")
    if "UP" in found[0]["flags"] or found[0]["addr_info"]:
        raise Wrong(f"its interface is not as its driver makes it: {found[0]}")
    return found[0]["ifname"]


def mac_of(machine, card):
    return machine.guest.ask(f"cat /sys/class/net/{card}/address").strip()


def restore(machine, macs):
    """Gives the interfaces the names that other checks expect: the kernel gives them out in the order in which cards come back."""
    shown = json.loads(machine.guest.ask("/bin/ip -j link show"))
    names = {row["address"]: row["ifname"] for row in shown}
    wrong = [(card, names[mac]) for card, mac in macs.items() if names.get(mac, card) != card]
    for number, (_, name) in enumerate(wrong):
        machine.guest.run(f"ip link set {name} down; ip link set {name} name away{number}")
    for number, (card, _) in enumerate(wrong):
        machine.guest.run(f"ip link set away{number} name {card}")
    for card in macs:
        machine.guest.run(f"ip link set {card} up")
    time.sleep(3)


def prepare(machine):
    """Huge pages: without them, the card could reach a gigabyte of memory of the guest, and all of it would be held for it."""
    machine.guest.ask("echo 256 >/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")


def listed(machine):
    """`linerate ports` has the card, and says that `bind` would take it."""
    machine.guest.ask(f"ip link set {SENDER} down")
    where = address(machine, SENDER)
    row = card_at(machine, where)
    machine.guest.ask(f"ip link set {SENDER} up")
    if not row or row["driver"] != machine.kernel_driver or row["cause"]:
        raise Wrong(f"{where}: {row}")
    return where


def bind(machine):
    """Every packet passes between two cards that DPDK has, and the kernel has both back afterwards."""
    macs = {card: mac_of(machine, card) for card in (SENDER, RECEIVER)}
    wheres = {card: address(machine, card) for card in macs}
    # An interface that is down may have addresses: they go away.
    machine.guest.ask(f"ip link set {SENDER} down; ip link set {RECEIVER} down; ip addr add 198.18.9.1/24 dev {SENDER}")
    try:
        received = carry(machine, f"dpdk:{wheres[SENDER]},bind", f"dpdk:{wheres[RECEIVER]},bind")
        all_arrived(received)
        names = [given_back(machine, where, macs[card]) for card, where in wheres.items()]
    finally:
        restore(machine, macs)
    return f"{received['ports'][0]['detail']}; back as {', '.join(names)}"


def killed(machine):
    """A process that is killed leaves the card with vfio-pci, which is told, and the next start of a `dpdk:` port gives it back."""
    mac, where = mac_of(machine, SENDER), address(machine, SENDER)
    try:
        machine.guest.ask(f"ip link set {SENDER} down; linerate receive dpdk:{where},bind --duration 60s >/tmp/killed 2>&1 & echo $! >/tmp/pid")
        for _ in range(60):
            if "receiving on" in machine.guest.run("cat /tmp/killed")[1]:
                break
            time.sleep(1)
        machine.guest.ask("kill -9 $(cat /tmp/pid)")
        time.sleep(1)
        if kernel_driver(machine, where) != "vfio-pci":
            raise Wrong(f"{where} is with {kernel_driver(machine, where) or 'no driver'}: {machine.guest.run('cat /tmp/killed')[1]}")
        row = card_at(machine, where)
        if not row or not row["left_by_killed_process"]:
            raise Wrong(f"`linerate ports` does not say that it was left: {row}")
        doctor = machine.guest.run("linerate doctor", 120)[1]
        if "by a process that was killed" not in doctor or where not in doctor:
            raise Wrong("`linerate doctor` does not say that it was left")
        machine.guest.ask("linerate receive dpdk:net_null0 --duration 1s -q", 120)
        given_back(machine, where, mac)
    finally:
        restore(machine, {SENDER: mac})


def refused(machine):
    """A card that the host uses stays where it is, and the message says what to do."""
    where = address(machine, SENDER)
    machine.guest.ask(f"ip addr add 198.18.9.1/24 dev {SENDER}; ip link set {SENDER} up")
    status, said = machine.guest.run(f"linerate receive dpdk:{where},bind --duration 1s", 120)
    machine.guest.ask(f"ip addr del 198.18.9.1/24 dev {SENDER}")
    if status == 0 or kernel_driver(machine, where) != machine.kernel_driver:
        raise Wrong(f"status {status}, driver {kernel_driver(machine, where)}: {said.strip()[-300:]}")
    if f"ip link set {SENDER} down" not in said or "bind=force" not in said:
        raise Wrong(f"it does not say what to do: {said.strip()[-300:]}")
    return said.strip().splitlines()[-1]


# The kernel behind `tap:` leaves checksums and the cutting of TCP data to the port, and the port to the card. At the far end is a kernel.
OFFLOADS = """
dd if=/dev/urandom of=/tmp/data bs=1000 count=600 2>/dev/null
ip link set {sender} down
linerate bridge tap:cut0 dpdk:{where},bind >/tmp/bridge 2>&1 &
bridge=$!
/bin/ip netns add far
/bin/ip link set {receiver} netns far
/bin/ip netns exec far sh -c "ip addr add 198.18.7.2/24 dev {receiver}; ip link set {receiver} up; ethtool -K {receiver} gro off"
for i in $(seq 60); do grep -q "^dpdk:.*(DPDK" /tmp/bridge && break; sleep 1; done
/bin/ip addr add 198.18.7.1/24 dev cut0
/bin/ip link set cut0 up
/bin/ip netns exec far tcpdump -Z root -i {receiver} -w /tmp/far.pcap -s 0 net 198.18.7.0/24 >/dev/null 2>&1 &
dump=$!
/bin/ip netns exec far sh -c "sleep 90 | nc -l -p 5000 >/tmp/tcp" &
sleep 4
timeout 60 nc 198.18.7.2 5000 </tmp/data
timeout 4 nslookup example.org 198.18.7.2
sleep 2
kill $dump
kill -INT $bridge
wait $bridge $dump
cat /tmp/bridge
cmp /tmp/data /tmp/tcp && echo data whole
# A datagram for which there is no socket is counted if its checksum is right (RFC 1213: udpNoPorts).
/bin/ip netns exec far cat /proc/net/snmp | awk '/^Tcp:/ {{ tcp = $NF }} /^Udp:/ {{ good = $3; bad = $NF; if (NF > 9) bad = $8 }} END {{ print "errors: " tcp + bad " datagrams: " good }}'
tcpdump -Z root -vv -nn -r /tmp/far.pcap src 198.18.7.1 2>/dev/null >/tmp/shown
echo packets: $(grep -c "(correct)\\|sum ok" /tmp/shown) wrong: $(grep -c "incorrect\\|bad udp" /tmp/shown)
echo fragments: $(grep -c "ip-proto-6" /tmp/shown)
echo longest: $(sed -n "s/.* length \\([0-9]*\\)$/\\1/p" /tmp/shown | sort -n | tail -1)
/bin/ip netns exec far /bin/ip link set {receiver} netns 1
/bin/ip netns del far
"""


def offloads(machine):
    """What the kernel leaves to a port is left to the card: TCP data and a datagram arrive whole, with right checksums."""
    macs = {card: mac_of(machine, card) for card in (SENDER, RECEIVER)}
    where = address(machine, SENDER)
    try:
        said = machine.guest.run(OFFLOADS.format(sender=SENDER, receiver=RECEIVER, where=where), 200)[1]
    finally:
        restore(machine, macs)
    left = re.search(r"left to the device: ([^;)]*)", said)
    right, wrong = map(int, re.search(r"packets: (\d+) wrong: (\d+)", said).groups())
    # A kernel behind virtio takes packets whose checksums are partial, and segments that are still merged.
    whole = "data whole" in said and re.search("errors: 0 datagrams: [1-9]", said)
    if not whole or right + wrong == 0 or (wrong and not machine.model.taps):
        raise Wrong(said.strip()[-1500:])
    if not left or "TCP checksums" not in left[1]:
        raise Wrong(f"the card is not asked for checksums: {said.strip()[-800:]}")
    longest, fragments = (re.search(rf"{name}: (\d+)", said)[1] for name in ("longest", "fragments"))
    # The vmxnet3 of QEMU 7.2 cuts merged packets by IP, not by TCP.
    cut = f"; {fragments} IP fragments" if int(fragments) else ""
    return f"left to the card: {left[1]}; {right} packets with right checksums, {wrong} with partial ones{cut}; longest: {longest} bytes"


CHECKS = [
    ("DPDK: cards listed", needs_dpdk(listed)),
    ("DPDK: bind", needs_dpdk(bind)),
    ("DPDK: killed", needs_dpdk(killed)),
    ("DPDK: card in use refused", needs_dpdk(refused)),
    ("DPDK: offloads", needs_dpdk(offloads)),
]
