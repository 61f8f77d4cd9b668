#!/usr/bin/env bash
# What `linerate send`, `receive` and `pkt-gen` need: peak resident memory, its growth, size of the binary, time to the first packet.
#
#   benches/footprint.sh [SECONDS]      each run lasts SECONDS (default 10; the bar is about ten minutes: 600)
#
# Needs a release build (cargo build --release -p linerate). With root, veth ports are measured, too, in a namespace of their own.
# Bars: resident < 100 MB and flat, binary < 15 MB, first packet < 0.3 s after the start of the process.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-10}
binary=${LINERATE:-${CARGO_TARGET_DIR:-target}/release/linerate}
[ -x "$binary" ] || { echo "no $binary: cargo build --release -p linerate" >&2; exit 2; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

echo "binary  $(( $(stat -c %s "$binary") / 1000 )) kB"

# resident PID: peak resident memory in kB, huge pages (which the kernel does not count as resident) included.
resident() {
    awk '/^(VmHWM|HugetlbPages)/ { sum += $2 } END { print sum }' "/proc/$1/status" 2>/dev/null || true
}

# memory NAME WORDS...: runs for $seconds, prints what is resident after 2 s and just before the end.
memory() {
    local name=$1 early=- late=-
    shift
    "$binary" "$@" >"$scratch/out" 2>"$scratch/err" &
    local pid=$!
    sleep 2
    early=$(resident "$pid")
    sleep $(( seconds > 3 ? seconds - 3 : 0 ))
    late=$(resident "$pid")
    kill -INT "$pid" 2>/dev/null || true
    wait "$pid" || true
    printf 'memory  %-34s %8s kB after 2 s, %8s kB after %s s\n' "$name" "${early:--}" "${late:--}" "$((seconds - 1))"
}

# first NAME WORDS...: time from exec to the end of a run that sends one packet: no less than the time to the first packet.
first() {
    local name=$1 best=
    shift
    for _ in 1 2 3 4 5; do
        local before after
        before=$(date +%s%N)
        "$binary" "$@" >/dev/null 2>"$scratch/err" || { sed "s/^/  $name: /" "$scratch/err"; return 0; }
        after=$(date +%s%N)
        local ms=$(( (after - before) / 1000000 ))
        [ -n "$best" ] && [ "$best" -le "$ms" ] || best=$ms
    done
    printf 'first   %-34s %8s ms from start to end with one packet (best of 5)\n' "$name" "$best"
}

measure_unprivileged() {
    memory "send null:, 10,000 flows" send null: --flows 10000
    memory "send pipe: and receive, IMIX" send pipe:a --size imix --rate 100kpps
    memory "pkt-gen null" pkt-gen -i null -f tx -R 100000
    first "send null:" send null: --count 1 -q
    first "send pipe: and receive" send pipe:a --count 1 -q
    first "pkt-gen null, -w 0" pkt-gen -i null -f tx -n 1 -w 0
}

measure_veth() {
    ip link add name fpa type veth peer name fpb
    for interface in fpa fpb; do
        sysctl -qw "net.ipv6.conf.$interface.disable_ipv6=1"
        ip link set dev "$interface" up
    done
    for backend in packet xdp; do
        memory "send $backend:" send "$backend:fpa" --rate 100kpps
        memory "receive $backend:" receive "$backend:fpb"
        first "send $backend:" send "$backend:fpa" --count 1 -q
    done
    # Live frames need a peer that takes them.
    "$binary" receive xdp:fpb -q >/dev/null &
    local receiver=$!
    sleep 1
    first "send xdplive:" send xdplive:fpa --count 1 -q
    kill -INT "$receiver"
    wait "$receiver" || true
    first "receive packet:" receive packet:fpb --duration 1ms -q
}

if [ "${2:-}" = veth ]; then
    measure_veth
    exit
fi
measure_unprivileged
if [ "$(id -u)" = 0 ] && command -v ip >/dev/null && unshare -n true 2>/dev/null; then
    LINERATE=$(realpath "$binary") unshare -n "$0" "$seconds" veth
else
    echo "skipped: veth ports need root, ip and unshare"
fi
