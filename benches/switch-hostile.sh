#!/bin/sh
# What two memif ports of `linerate switch` keep of their packets for a core while a third port, vhost-user, has a guest that breaks the rules
# of its rings as fast as it can (crates/ports/vhost/examples/hostile.rs), alternating with a third port that nobody uses.
#     benches/switch-hostile.sh [RUNS [SECONDS]]
# Wants root, dpdk-testpmd, and 2 GiB for huge pages (reserved and given back here). Builds nothing:
# cargo build --release -p linerate -p linerate-benches && cargo build --release -p linerate-port-vhost --example hostile
# Prints for each run: who is at the third port, Mpps that the other two receive, nanoseconds of the switch's core for each of these packets,
# and where the cores were, as switch.sh does. In the end what is kept: ratios of neighbouring runs, min / median / max. The aim is 0.9.
set -eu
kind=memif
# Packets that are made anew, whatever becomes of those before.
traffic="--forward-mode=flowgen --flowgen-flows=1" begin=start
runs=${1:-5}
seconds=${2:-2}
. "$(dirname "$0")/beside-ovs.sh"
hostile=${CARGO_TARGET_DIR:-target}/release/examples/hostile

count() {
    "$linerate" switch ctl --name bench --json show stats >"$folder/stats"
    python3 - "$folder/stats" <<'PY'
import json, sys, time
stats = json.load(open(sys.argv[1]))
received = sum(port["received"] for port in stats["ports"] if port["name"] in "ab")
print(received, stats["worker"]["busy_ns"], time.clock_gettime(time.CLOCK_BOOTTIME))
PY
}

# with NAME [KIND]: a run with a guest of this kind, or with none.
with() {
    nice -n -20 "$linerate" switch --name bench --core 1 --quiet --port "a=$(near 0)" --port "b=$(near 1)" \
        --port "c=vhost:$folder/c" >"$folder/out" 2>&1 &
    echo $! >"$folder/linerate.pid"
    sleep 0.5
    if [ -n "${2:-}" ]; then
        "$hostile" "$folder/c" "$2" >"$folder/hostile" 2>&1 &
        echo $! >"$folder/hostile.pid"
    fi
    measure "$1" count linerate worker
    if [ -n "${2:-}" ]; then tail -1 "$folder/hostile"; fi
    end_all
    wait
}

for attack in empty pieces; do
    for _ in $(seq "$runs"); do
        with alone
        with linerate "$attack"
    done
    # The time of a packet alone, by its time beside the guest.
    print_ratios "kept beside a guest with $attack" alone
done
