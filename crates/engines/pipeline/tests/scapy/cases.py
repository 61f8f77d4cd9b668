"""Random packets and lists of OpenFlow actions, and what scapy makes of them: JSON lines {"packet", "actions", "expected"}.

Fields are set in scapy's layers, and scapy computes checksums and lengths anew when the packet is built. Actions are in ovs-ofctl's syntax.
    cases.py COUNT SEED
Exit status 3: scapy is not installed.
"""
import json
import random
import sys

try:
    from scapy.contrib.mpls import MPLS
    from scapy.layers.inet import ICMP, IP, TCP, UDP
    from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
    from scapy.layers.l2 import ARP, Dot1Q, Ether
    from scapy.layers.sctp import SCTP, SCTPChunkData
    from scapy.packet import Raw
except ImportError:
    sys.exit(3)

choose = random.choice


def mac():
    return ":".join("%02x" % (random.randrange(256) & (0xFE if place == 0 else 0xFF)) for place in range(6))


def ipv4():
    return ".".join(str(random.randrange(1, 255)) for _ in range(4))


def ipv6():
    return "2001:db8::%x:%x" % (random.randrange(1, 0xFFFF), random.randrange(1, 0xFFFF))


def port():
    return random.randrange(1, 65536)


def raw():
    return Raw(random.randbytes(random.randrange(60, 300)))


def transport(version):
    kind = choose(["tcp", "udp", "sctp", "icmp"])
    if kind == "tcp":
        return kind, TCP(sport=port(), dport=port(), seq=random.getrandbits(32), flags="PA") / raw()
    if kind == "udp":
        return kind, UDP(sport=port(), dport=port()) / raw()
    if kind == "sctp":
        return kind, SCTP(sport=port(), dport=port(), tag=random.getrandbits(32)) / SCTPChunkData(data=random.randbytes(80))
    if version == 4:
        return "icmp", ICMP(type=8, code=0, id=port(), seq=port()) / raw()
    return "icmpv6", ICMPv6EchoRequest(id=port(), seq=port(), data=random.randbytes(80))


class Packet:
    """An Ethernet header, VLAN tags and MPLS labels with the outermost first, and what they carry."""

    def __init__(self):
        self.dst, self.src = mac(), mac()
        self.tags, self.labels = [], []
        version = choose([4, 4, 6, 6, 0])
        self.kind = None
        if version == 4:
            self.kind, upper = transport(4)
            self.ip = IP(src=ipv4(), dst=ipv4(), tos=random.randrange(256), ttl=random.randrange(64, 256), id=port())
            self.carried, self.type = self.ip / upper, 0x0800
        elif version == 6:
            self.kind, upper = transport(6)
            self.ip = IPv6(src=ipv6(), dst=ipv6(), tc=random.randrange(256), fl=random.getrandbits(20), hlim=random.randrange(64, 256))
            self.carried, self.type = self.ip / upper, 0x86DD
        else:
            self.ip = None
            self.carried = ARP(op=choose([1, 2]), hwsrc=mac(), psrc=ipv4(), hwdst=mac(), pdst=ipv4()) / Raw(bytes(40))
            self.type = 0x0806
        self.version = version
        for _ in range(choose([0, 0, 1, 2])):
            self.tags.insert(0, [choose([0x8100, 0x88A8]), random.randrange(4096), random.randrange(8)])

    def build(self):
        """The bytes; scapy computes what is not set: lengths and checksums."""
        inner, kind = self.carried.copy(), self.type
        for place, (label, cos, ttl) in enumerate(reversed(self.labels)):
            inner = MPLS(label=label, cos=cos, s=int(place == 0), ttl=ttl) / inner
            kind = self.label_type
        for tpid, vid, prio in reversed(self.tags):
            inner, kind = Dot1Q(vlan=vid, prio=prio, id=0, type=kind) / inner, tpid
        return bytes(Ether(dst=self.dst, src=self.src, type=kind) / inner)

    def ttl(self):
        return self.ip.ttl if self.version == 4 else self.ip.hlim

    def set_ttl(self, value):
        if self.version == 4:
            self.carried.ttl = self.ip.ttl = value
        else:
            self.carried.hlim = self.ip.hlim = value

    def action(self):
        """Does some action that fits; returns it in words."""
        general = [self.eth, self.push_vlan]
        if self.tags:
            general += [self.pop_vlan, self.vlan_field]
        if not self.tags and len(self.labels) < 3:
            general += [self.push_mpls]
        if self.labels and not self.tags:
            return choose(general + [self.mpls_field, self.mpls_ttl, self.pop_mpls, self.copy_ttl])()
        if self.labels:
            return choose(general)()
        if self.version:
            general += [self.ip_field, self.ip_field, self.class_field, self.nw_ttl, self.port_field, self.port_field]
        else:
            general += [self.arp_field]
        return choose(general)()

    def eth(self):
        name, address = choose(["src", "dst"]), mac()
        setattr(self, name, address)
        return f"set_field:{address}->eth_{name}"

    def push_vlan(self):
        tpid = choose([0x8100, 0x88A8])
        _, vid, prio = self.tags[0] if self.tags else [0, 0, 0]
        self.tags.insert(0, [tpid, vid, prio])
        return f"push_vlan:{tpid:#x}"

    def pop_vlan(self):
        self.tags.pop(0)
        return "pop_vlan"

    def vlan_field(self):
        if random.random() < 0.5:
            self.tags[0][1] = random.randrange(4096)
            return f"set_field:{self.tags[0][1] | 0x1000}->vlan_vid"
        self.tags[0][2] = random.randrange(8)
        return f"set_field:{self.tags[0][2]}->vlan_pcp"

    def push_mpls(self):
        kind = choose([0x8847, 0x8848])
        if self.labels:
            label = list(self.labels[0])
        else:
            label = [0, 0, self.ttl() if self.version else 0]
        self.labels.insert(0, label)
        self.label_type = kind
        return f"push_mpls:{kind:#x}"

    def mpls_field(self):
        if random.random() < 0.5:
            self.labels[0][0] = random.getrandbits(20)
            return f"set_field:{self.labels[0][0]}->mpls_label"
        self.labels[0][1] = random.randrange(8)
        return f"set_field:{self.labels[0][1]}->mpls_tc"

    def mpls_ttl(self):
        if random.random() < 0.5 and self.labels[0][2] > 1:
            self.labels[0][2] -= 1
            return "dec_mpls_ttl"
        self.labels[0][2] = random.randrange(64, 256)
        return f"set_mpls_ttl:{self.labels[0][2]}"

    def pop_mpls(self):
        self.labels.pop(0)
        return f"pop_mpls:{self.label_type if self.labels else self.type:#x}"

    def copy_ttl(self):
        outwards = random.random() < 0.5
        if len(self.labels) > 1:
            one, other = (1, 0) if outwards else (0, 1)
            self.labels[other][2] = self.labels[one][2]
        elif self.version and outwards:
            self.labels[0][2] = self.ttl()
        elif self.version:
            self.set_ttl(self.labels[0][2])
        else:
            return self.eth()
        return "copy_ttl_out" if outwards else "copy_ttl_in"

    def ip_field(self):
        name = choose(["src", "dst"])
        address = ipv4() if self.version == 4 else ipv6()
        setattr(self.carried, name, address)
        return f"set_field:{address}->{'ip' if self.version == 4 else 'ipv6'}_{name}"

    def class_field(self):
        name = "tos" if self.version == 4 else "tc"
        before = getattr(self.carried, name)
        if self.version == 6 and random.random() < 0.3:
            self.carried.fl = random.getrandbits(20)
            return f"set_field:{self.carried.fl}->ipv6_label"
        if random.random() < 0.5:
            value = random.randrange(64)
            setattr(self.carried, name, before & 3 | value << 2)
            return f"set_field:{value}->ip_dscp"
        value = random.randrange(4)
        setattr(self.carried, name, before & 0xFC | value)
        return f"set_field:{value}->ip_ecn"

    def nw_ttl(self):
        if random.random() < 0.5 and self.ttl() > 1:
            self.set_ttl(self.ttl() - 1)
            return "dec_ttl"
        value = random.randrange(64, 256)
        self.set_ttl(value)
        # Written so in ovs-ofctl, for both versions.
        return f"mod_nw_ttl:{value}"

    def port_field(self):
        upper = self.carried.payload
        if self.kind.startswith("icmp"):
            name = choose(["type", "code"])
            value = random.randrange(1, 16) if name == "code" else choose([0, 8] if self.version == 4 else [128, 129])
            setattr(upper, name, value)
            return f"set_field:{value}->{self.kind}_{name}"
        name = choose(["src", "dst"])
        value = port()
        setattr(upper, "sport" if name == "src" else "dport", value)
        return f"set_field:{value}->{self.kind}_{name}"

    def arp_field(self):
        name, field, value = choose(
            [("op", "op", choose([1, 2, 3])), ("sha", "hwsrc", mac()), ("spa", "psrc", ipv4()), ("tha", "hwdst", mac()), ("tpa", "pdst", ipv4())]
        )
        setattr(self.carried, field, value)
        return f"set_field:{value}->arp_{name}"


def main():
    count = int(sys.argv[1])
    random.seed(int(sys.argv[2]))
    for _ in range(count):
        packet = Packet()
        before = packet.build()
        actions = [packet.action() for _ in range(random.randrange(1, 8))]
        print(json.dumps({"packet": before.hex(), "actions": actions, "expected": packet.build().hex()}))


main()
