"""A small Linux guest in QEMU, made of Debian's kernel and of programs of this host: its image, its start, commands in it, its end."""

import base64
import glob
import gzip
import json
import lzma
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time

# Drivers of the network cards, and what Linerate and the kernel router use.
MODULES = [
    *["virtio_pci", "virtio_console", "virtio_net", "e1000e", "igb", "vmxnet3", "ptp", "vfio_iommu_type1", "vfio_pci"],
    *["af_packet", "veth", "bridge", "tun", "sch_ingress", "cls_bpf", "sch_netem", "xsk_diag", "packet_diag", "unix_diag"],
]
# The guest's first process: it answers commands that come as lines `NUMBER SECONDS BASE64` with lines `NUMBER STATUS BASE64`.
INIT = r"""#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts /run /tmp /root
mount -t devpts devpts /dev/pts
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t bpf bpf /sys/fs/bpf
mount -t tracefs tracefs /sys/kernel/tracing
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ln -s /proc/self/fd /dev/fd
hostname guest
# DPDK loads no plug-ins from below a folder that all may write into.
chmod 755 /
# tcpdump looks for its user there.
mkdir -p /etc
echo "root:x:0:0:root:/root:/bin/sh" >/etc/passwd
export PATH=/bin HOME=/root
for module in /modules/*.ko; do insmod "$module" || echo "no module $module"; done
ip link set lo up
cd /root
while [ ! -e /dev/vport0p1 ]; do usleep 10000; done
exec 3<>/dev/vport0p1
echo "ready" >&3
while read -r number seconds words <&3; do
    echo "$words" | base64 -d >/tmp/command
    timeout -s KILL "$seconds" sh /tmp/command </dev/null >/tmp/output 2>&1
    echo "$number $? $(head -c 2000000 /tmp/output | base64 | tr -d '\n')" >&3
done
poweroff -f
"""


class Failed(Exception):
    """The guest could not do what it was asked for; the text says why."""


def download(package, folder):
    """Unpacks a package of Debian into a folder, once. A package that only names another one stands for it."""
    into = os.path.join(folder, package)
    if os.path.isdir(into):
        return into
    os.makedirs(folder, exist_ok=True)
    shown = subprocess.run(["apt-cache", "show", package], capture_output=True, text=True, check=False).stdout
    depends = [line for line in shown.splitlines() if line.startswith("Depends: linux-image-")]
    name = depends[0].split()[1] if depends else package
    for old in glob.glob(os.path.join(folder, "*.deb")):
        os.remove(old)
    fetched = subprocess.run(["apt-get", "-qq", "download", name], cwd=folder, capture_output=True, text=True, check=False)
    files = glob.glob(os.path.join(folder, "*.deb"))
    if fetched.returncode or not files:
        raise Failed(f"apt-get download {name}: {fetched.stderr.strip() or 'no file came'}")
    partly = into + ".part"
    shutil.rmtree(partly, ignore_errors=True)
    subprocess.run(["dpkg-deb", "-x", files[0], partly], check=True)
    os.remove(files[0])
    os.rename(partly, into)
    return into


def modules(kernel):
    """The modules of MODULES and those that they need, in the order in which they can be loaded: pairs of name and bytes."""
    paths = {}
    for path in glob.glob(os.path.join(kernel, "lib/modules/**/*.ko*"), recursive=True):
        paths[os.path.basename(path).split(".ko")[0].replace("-", "_")] = path
    loaded = {}

    def load(name):
        # What is not there is built into the kernel.
        if name in loaded or name not in paths:
            return
        path = paths[name]
        opened = {".xz": lzma.open, ".gz": gzip.open}.get(os.path.splitext(path)[1], open)
        with opened(path, "rb") as file:
            data = file.read()
        wanted = [part for part in data.split(b"\0") if part.startswith(b"depends=")]
        for other in wanted[0][len(b"depends=") :].decode().split(",") if wanted else []:
            load(other.replace("-", "_"))
        loaded[name] = data

    for name in MODULES:
        load(name)
    return list(loaded.items())


def libraries(program):
    """The shared libraries of a program, as the dynamic linker finds them here."""
    told = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    words = [word for line in told.splitlines() for word in line.split()]
    return [word for word in words if word.startswith("/") and os.path.isfile(word)]


class Image:
    """An initial RAM disk, written as an archive of cpio (format newc)."""

    def __init__(self, path):
        self.out = open(path, "wb")
        self.number, self.names = 0, set()

    def add(self, name, data=b"", mode=0o100755):
        name = name.strip("/")
        above = os.path.dirname(name)
        if above and above not in self.names:
            self.add(above, mode=0o040755)
        if name in self.names:
            return
        self.names.add(name)
        self.number += 1
        fields = [self.number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        self.out.write(b"070701" + "".join(f"{field:08x}" for field in fields).encode() + name.encode() + b"\0")
        self.pad()
        self.out.write(data)
        self.pad()

    def pad(self):
        self.out.write(b"\0" * (-self.out.tell() % 4))

    def add_program(self, path):
        self.add_file(path, "bin/" + os.path.basename(path))

    def add_file(self, path, name):
        """A program or a shared library, and the libraries that it needs."""
        with open(path, "rb") as file:
            self.add(name, file.read())
        for library in libraries(path):
            with open(library, "rb") as file:
                self.add(library, file.read())

    def end(self):
        self.add("TRAILER!!!", mode=0)
        self.out.close()


def dpdk_drivers(program):
    """DPDK's drivers for cards of QEMU, which are plug-ins; none if the program is not linked with libdpdk."""
    folder = next((os.path.dirname(path) for path in libraries(program) if "librte_eal" in path), None)
    if not folder:
        return []
    # What else a driver needs is loaded with it. In the folder of plug-ins, it would be loaded twice.
    wanted = ["net_e1000", "net_virtio", "net_vmxnet3", "net_null", "mempool_ring"]
    found = [path for name in wanted for path in glob.glob(f"{folder}/dpdk/pmds-*/librte_{name}.so.*.*")]
    return [os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)) for path in found]


def make_image(path, kernel, busybox, programs, files=(), plug_ins=()):
    image = Image(path)
    for folder in ["dev", "proc", "sys", "tmp", "run", "root", "bin"]:
        image.add(folder, mode=0o040755)
    image.add("init", INIT.encode())
    with open(busybox, "rb") as file:
        image.add("bin/busybox", file.read())
    for number, (name, data) in enumerate(modules(kernel)):
        image.add(f"modules/{number:02}-{name}.ko", data, 0o100644)
    for program in programs:
        image.add_program(program)
    for plug_in in plug_ins:
        image.add_file(plug_in, plug_in)
    for name, data in files:
        image.add(name, data)
    image.end()


# Set once KVM has turned out not to run guests here.
without_kvm = False


def accelerator():
    """`kvm` where this user may use it, else `tcg`, which is ten times slower."""
    return "kvm" if os.access("/dev/kvm", os.R_OK | os.W_OK) and not without_kvm else "tcg"


class Guest:
    """A guest that runs. It ends with `end`, with this process, and after `limit_s`."""

    def __init__(self, folder, qemu, kernel, image, devices, prepare, accelerator, patience_s, limit_s, memory="1536", parameters=""):
        self.console = os.path.join(folder, "console.log")
        self.number, self.held, self.qmp_held = 0, b"", b""
        boot = glob.glob(os.path.join(kernel, "boot/vmlinuz-*"))[0]
        sockets = {name: os.path.join(folder, name + ".sock") for name in ("agent", "qmp")}
        for path in sockets.values():
            if os.path.exists(path):
                os.remove(path)
        self.accelerator = accelerator
        words = [
            *[qemu, "-M", "q35,kernel-irqchip=split", "-accel", self.accelerator, "-cpu", "host" if accelerator == "kvm" else "max"],
            *["-smp", "4", "-m", memory, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"],
            *["-kernel", boot, "-initrd", image, "-append", f"console=ttyS0 panic=-1 quiet net.ifnames=0 {parameters}"],
            *["-serial", f"file:{self.console}"],
            *["-chardev", f"socket,id=agent,path={sockets['agent']},server=on,wait=off"],
            *["-device", "virtio-serial-pci,addr=2", "-device", "virtserialport,chardev=agent,nr=1"],
            *["-qmp", f"unix:{sockets['qmp']},server=on,wait=off"],
            *devices,
        ]
        # A network namespace of its own: nothing that a guest sends leaves it, and its TAP devices end with it.
        names = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--user", "--map-root-user"]
        script = "\n".join(["set -e", *prepare, "exec " + shlex.join(words)])
        limited = ["setpriv", "--pdeathsig", "KILL", "timeout", "-s", "KILL", str(limit_s), *names]
        limited += ["setpriv", "--pdeathsig", "KILL", "sh", "-c", script]
        self.log = open(os.path.join(folder, "qemu.log"), "wb")
        self.process = subprocess.Popen(limited, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)
        try:
            self.agent = self.connect(sockets["agent"])
            self.qmp = self.connect(sockets["qmp"])
            self.qmp_line()
            self.monitor("qmp_capabilities")
            if self.line(time.monotonic() + patience_s) != "ready":
                raise Failed("the guest did not say that it is ready")
        except BaseException:
            self.end()
            raise

    def connect(self, path):
        until = time.monotonic() + 20
        while True:
            made = socket.socket(socket.AF_UNIX)
            try:
                made.connect(path)
                return made
            except OSError as error:
                made.close()
                if self.process.poll() is not None or time.monotonic() > until:
                    raise Failed(f"QEMU did not start: {self.last_words()}") from error
                time.sleep(0.05)

    def last_words(self):
        with open(self.log.name, errors="replace") as file:
            said = file.read().strip()
        if os.path.exists(self.console):
            with open(self.console, errors="replace") as file:
                said += " " + " ".join(file.read().split("\n")[-8:])
        return said[-1500:] or "it said nothing"

    def line(self, until):
        while b"\n" not in self.held:
            self.agent.settimeout(max(until - time.monotonic(), 0.01))
            try:
                more = self.agent.recv(1 << 16)
            except TimeoutError as error:
                raise Failed(f"the guest did not answer: {self.last_words()}") from error
            if not more:
                raise Failed(f"the guest has ended: {self.last_words()}")
            self.held += more
        line, self.held = self.held.split(b"\n", 1)
        return line.decode(errors="replace")

    def begin(self, command, seconds=60):
        """Starts a shell command in the guest; `finish` has its result. One at a time."""
        self.number += 1
        self.seconds = seconds
        self.agent.sendall(b"%d %d %s\n" % (self.number, seconds, base64.b64encode(command.encode())))

    def finish(self):
        until = time.monotonic() + self.seconds + 30
        number, status, words = (self.line(until).split(" ", 2) + [""])[:3]
        if int(number) != self.number:
            raise Failed(f"the guest answered {number} to {self.number}")
        return int(status), base64.b64decode(words).decode(errors="replace")

    def run(self, command, seconds=60):
        """A shell command's exit status (137: it ran out of time) and output, both streams."""
        self.begin(command, seconds)
        return self.finish()

    def ask(self, command, seconds=60):
        """The output of a command that has to succeed."""
        status, output = self.run(command, seconds)
        if status:
            raise Failed(f"{command}: status {status}: {output.strip()[-800:]}")
        return output

    def qmp_line(self):
        while b"\n" not in self.qmp_held:
            self.qmp.settimeout(20)
            try:
                more = self.qmp.recv(1 << 16)
            except TimeoutError as error:
                raise Failed(f"QEMU did not answer: {self.last_words()}") from error
            except OSError:
                more = b""
            if not more:
                raise Failed(f"QEMU has ended: {self.last_words()}")
            self.qmp_held += more
        line, self.qmp_held = self.qmp_held.split(b"\n", 1)
        return json.loads(line)

    def monitor(self, command, **arguments):
        """A command to QEMU's monitor (QMP)."""
        self.qmp.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while True:
            answer = self.qmp_line()
            if "error" in answer:
                raise Failed(f"{command}: {answer['error'].get('desc')}")
            if "return" in answer:
                return answer["return"]

    def set_link(self, name, is_up):
        self.monitor("set_link", name=name, up=is_up)

    def end(self):
        if self.process.poll() is None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.log.close()
        for name in ("agent", "qmp"):
            if hasattr(self, name):
                getattr(self, name).close()
