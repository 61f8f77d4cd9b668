#!/bin/sh
# `linerate tcp load` and wrk in turn against one nginx: requests for each second of CPU time of the client.
#     benches/tcp-load.sh [RUNS [SECONDS [CONNECTIONS [PATH]]]]          5 runs of 5 s, 100 connections, a file of 615 bytes
# Two namespaces and a veth pair, with GRO and without TSO on both ends: otherwise the kernel receives them on the sender's core, and not in the NAPI
# thread, and the softirqs of wrk would count for nginx. nginx and its thread have core 0, the
# client and its thread core 1. The client's CPU time is that of its process (with the softirqs in its calls) and of the NAPI thread of its
# interface. Linerate receives and sends by `xdp:` and by `packet:`, as they are and with `defer`; it compares the body of each answer with the file, wrk does not.
# PORTS="xdp packet,defer=200": these only. DEFER_NS=200000: the client's interface collects packets for so long, for wrk as well (napi_defer_hard_irqs,
# gro_flush_timeout).
# While it runs, the session that it is called from goes ahead of all others on this machine (/proc/self/autogroup), and so do the NAPI threads.
# Wants root, nginx, wrk, python3 and ethtool. Builds nothing: cargo build --release -p linerate
set -eu
if [ -z "${LINERATE_INSIDE:-}" ]; then
    # Interfaces go with this process. Kernel threads, whose time counts, are in no other namespace of processes.
    LINERATE_INSIDE=1 exec unshare --net --mount "$0" "$@"
fi
runs=${1:-5}
seconds=${2:-5}
connections=${3:-100}
path=${4:-/}
linerate=$(realpath "${CARGO_TARGET_DIR:-target}/release/linerate")
folder=$(mktemp -d)
nginx=
ahead=$(sed -n 's/.* nice //p' /proc/self/autogroup 2>/dev/null || true)
trap '[ -z "$nginx" ] || kill "$nginx"; ip netns del lr-server 2>/dev/null || true; rm -r "$folder"
    [ -z "$ahead" ] || echo "$ahead" >/proc/self/autogroup' EXIT
[ -z "$ahead" ] || echo -19 >/proc/self/autogroup
mount -t tmpfs none /run
mkdir -p /run/netns
export XDG_RUNTIME_DIR="$folder"

mount -t sysfs none /sys
ip netns add lr-server
ip link add veth0 type veth peer name veth1 netns lr-server
server="ip netns exec lr-server"
ethtool -K veth0 gro on tso off >/dev/null
$server ethtool -K veth1 gro on tso off >/dev/null
if [ "${DEFER_NS:-0}" -gt 0 ]; then
    echo 2 >/sys/class/net/veth0/napi_defer_hard_irqs
    echo "$DEFER_NS" >/sys/class/net/veth0/gro_flush_timeout
fi
ip addr add 198.18.5.3/24 dev veth0
$server ip addr add 198.18.5.2/24 dev veth1
ip link set veth0 up
$server ip link set veth1 up
echo 1 >/sys/class/net/veth0/threaded
$server sh -c 'mount -t sysfs none /sys; echo 1 >/sys/class/net/veth1/threaded'

pin() {
    for thread in $(grep -l "^napi/$1-" /proc/[0-9]*/comm 2>/dev/null | cut -d/ -f3); do
        taskset -pc "$2" "$thread" >/dev/null
        renice -n -19 -p "$thread" >/dev/null
    done
}
pin veth1 0
pin veth0 1

# nginx's default page has 615 bytes.
head -c 615 /dev/zero | tr '\0' a >"$folder/index.html"
cat >"$folder/nginx.conf" <<END
worker_processes 1; daemon off; master_process off; pid $folder/pid; error_log $folder/error.log;
events { worker_connections 20000; }
http { access_log off; keepalive_requests 100000000; server { listen 80 backlog=4096; root $folder; } }
END
chmod 755 "$folder"
$server taskset -c 0 nginx -e stderr -c "$folder/nginx.conf" &
nginx=$!
sleep 1

cat >"$folder/measure.py" <<'END'
# CPU seconds of a command and of the NAPI thread of veth0, and the requests that it says it made.
import json, os, re, resource, subprocess, sys

def napi(interface):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if open(f"/proc/{pid}/comm").read().startswith(f"napi/{interface}"):
                yield pid
        except OSError:
            pass

def kernel_thread_seconds(pids):
    total = 0.0
    for pid in pids:
        fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total

threads = list(napi("veth0"))
before = kernel_thread_seconds(threads)
output = subprocess.run(sys.argv[1:], capture_output=True, text=True)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
process, softirq = usage.ru_utime + usage.ru_stime, kernel_thread_seconds(threads) - before
if sys.argv[4] == "wrk":
    requests = int(re.search(r"(\d+) requests in", output.stdout).group(1))
    wrong = re.search(r"Socket errors.*|Non-2xx.*", output.stdout)
else:
    document = json.loads(output.stdout.splitlines()[-1])
    requests = document["requests"]["completed"]
    wrong = None if output.returncode == 0 else output.stdout.splitlines()[-1]
print(f"{requests} {process:.2f} {softirq:.2f} {requests / (process + softirq):.0f} {wrong or ''}")
END
echo "client requests process_s softirq_s requests_per_cpu_second"
run=0
while [ "$run" -lt "$runs" ]; do
    run=$((run + 1))
    printf '%-16s ' wrk
    python3 "$folder/measure.py" taskset -c 1 wrk -t1 -c"$connections" -d"${seconds}s" "http://198.18.5.2$path"
    for port in ${PORTS:-xdp packet xdp,defer=500 packet,defer=500}; do
        printf '%-16s ' "$port"
        python3 "$folder/measure.py" taskset -c 1 "$linerate" tcp load "http://198.18.5.2$path" -c "$connections" -d "${seconds}s" \
            --port "${port%%,*}:veth0${port#"${port%%,*}"}" --address 198.18.5.1/24 --no-dad --json -q --expect-file "$folder/index.html"
    done
done
