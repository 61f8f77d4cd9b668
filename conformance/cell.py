"""One testbed with namespaces of its own: a target, a tester switch, three links between them, and os-ken's tester.

It is the first process of a PID namespace, so that everything that it started ends with it:

    unshare --mount --net --pid --fork --kill-child --mount-proc python3 cell.py SETTINGS

SETTINGS is a JSON object: `folder` (for sockets and logs), `cases` (folder of files), `target`, `command` (of the target,
in a list; `null` for Open vSwitch), `python` (that has os-ken), `interval`, `mend`. The tester's lines go to standard output.
"""

import ctypes
import json
import os
import socket
import subprocess
import sys
import time

LINKS = [1, 2, 3]
CONTROLLER = "tcp:127.0.0.1:6653"
# Numbers of Linux: the system call pidfd_getfd(2) on all machines, and a socket option that Python has no name for.
PIDFD_GETFD = 438
SO_RCVBUFFORCE = 33


def run(*words, **options):
    subprocess.run(words, check=True, **options)


def make_links():
    # Programs find interfaces of this namespace in /sys only if it is mounted again.
    subprocess.run(["mount", "-t", "sysfs", "sysfs", "/sys"], stderr=subprocess.DEVNULL)
    for kind in ["all", "default"]:
        # Neighbour discovery of the host would be counted as packets that match nothing.
        path = f"/proc/sys/net/ipv6/conf/{kind}/disable_ipv6"
        if os.path.exists(path):
            with open(path, "w", encoding="ascii") as setting:
                setting.write("1")
    run("ip", "link", "set", "lo", "up")
    for link in LINKS:
        run("ip", "link", "add", f"t{link}", "type", "veth", "peer", "name", f"s{link}")
        for end in [f"t{link}", f"s{link}"]:
            run("ip", "link", "set", end, "up")


def start_open_vswitch(folder):
    """Starts a private ovsdb-server and ovs-vswitchd; returns the words that each ovs-vsctl command starts with."""
    for name in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"]:
        os.environ[name] = folder
    socket = f"unix:{folder}/db.sock"
    run("ovsdb-tool", "create", f"{folder}/conf.db", "/usr/share/openvswitch/vswitch.ovsschema")
    quiet = {"stderr": subprocess.DEVNULL}
    run("ovsdb-server", "--detach", f"--remote=p{socket}", f"--pidfile={folder}/db.pid", f"{folder}/conf.db", **quiet)
    vsctl = ["ovs-vsctl", f"--db={socket}"]
    run(*vsctl, "--no-wait", "init")
    # A flow that was deleted stays in the cache for as long as this, even after a barrier.
    run(*vsctl, "--no-wait", "set", "Open_vSwitch", ".", "other_config:max-idle=500")
    program = "/usr/lib/openvswitch-switch/ovs-vswitchd"
    program = program if os.path.exists(program) else "ovs-vswitchd"
    log = f"--log-file={folder}/vswitchd.log"
    run(program, socket, "--detach", f"--pidfile={folder}/vswitchd.pid", log, **quiet)
    return vsctl


def add_bridge(vsctl, name, ends, dpid):
    words = [*vsctl, "add-br", name, "--", "set", "bridge", name, "datapath_type=netdev", "protocols=OpenFlow13"]
    words += ["fail_mode=secure", f"other_config:datapath-id={dpid:016x}", "other_config:disable-in-band=true"]
    for link in LINKS:
        words += ["--", "add-port", name, f"{ends}{link}"]
        words += ["--", "set", "interface", f"{ends}{link}", f"ofport_request={link}"]
    run(*words, "--", "set-controller", name, CONTROLLER)
    run(*vsctl, "set", "controller", name, "max_backoff=1000")


def widen_receive_buffers(folder, ports):
    """Gives the packet sockets of this testbed's Open vSwitch room for 4 MiB each, once it has opened `ports` of them.

    The default of the kernel holds about 90 long packets, of which the suite's generator sends 200 at a time, from the same thread. The tester then
    lost 4 % of 20,000 packets/s by itself, and found the target at fault. A namespace cannot change that default.
    """
    with open(f"{folder}/vswitchd.pid", encoding="ascii") as file:
        pid = int(file.read())
    process = os.pidfd_open(pid)
    call = ctypes.CDLL(None, use_errno=True).syscall
    deadline = time.monotonic() + 10
    widened = 0
    while widened < ports and time.monotonic() < deadline:
        time.sleep(0.1)
        widened = 0
        for name in os.listdir(f"/proc/{pid}/fd"):
            copy = call(PIDFD_GETFD, process, int(name), 0)
            if copy < 0:
                continue
            try:
                with socket.socket(fileno=copy) as taken:
                    if taken.family == socket.AF_PACKET:
                        taken.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20)
                        widened += 1
            except OSError:
                # Not a socket: Python left it open.
                os.close(copy)
    os.close(process)


def main():
    settings = json.loads(sys.argv[1])
    folder = settings["folder"]
    make_links()
    # This hub waits with select(2), whose timeouts are in microseconds. The default waits in whole milliseconds, by which the suite's generator,
    # which sleeps for 10 ms at a time, sends up to a tenth less than a case asks for.
    environment = dict(os.environ, OSKEN_HUB_TYPE="eventlet", EVENTLET_HUB="selects")
    launcher = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launcher.py")
    words = [settings["python"], launcher, settings["cases"], str(settings["interval"]), str(int(settings["mend"]))]
    with open(f"{folder}/tester.log", "w", encoding="utf-8") as log:
        tester = subprocess.Popen(words, env=environment, stderr=log)
    target = None
    if settings["command"]:
        with open(f"{folder}/target.log", "w", encoding="utf-8") as log:
            # Its control socket, beside those of other testbeds.
            environment = dict(os.environ, XDG_RUNTIME_DIR=folder)
            words = settings["command"]
            target = subprocess.Popen(words, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    vsctl = start_open_vswitch(folder)
    if not target:
        add_bridge(vsctl, "target", "t", 1)
    add_bridge(vsctl, "tester", "s", 2)
    widen_receive_buffers(folder, len(LINKS) * (1 if target else 2))
    while tester.poll() is None:
        if target and target.poll() is not None:
            print(json.dumps({"ended": f"the target ended with status {target.returncode}"}), flush=True)
            return
        time.sleep(0.05)


main()
