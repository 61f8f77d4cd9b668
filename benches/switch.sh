#!/bin/sh
# Two memif or vhost-user ports through `linerate switch`, through Open vSwitch with DPDK (one rule for each port, its fastest way) and
# through testpmd (joined, no switch at all), in turn. At the other end of both ports one testpmd swaps the MAC addresses of
# 64-byte packets (60 and the FCS) and sends them back, so that the switch's core is always asked for more.
#     benches/switch.sh memif|vhost [RUNS [SECONDS]]
# Wants root, dpdk-testpmd, 2 GiB for huge pages (reserved and given back here), and openvswitch-switch-dpdk. Builds nothing:
# cargo build --release -p linerate -p linerate-benches
# Prints for each run: who, Mpps through the switch, nanoseconds of its core for each packet in rounds that moved packets, by its own
# clock (of testpmd, which has none, of all rounds), and where the cores were: near (a cache line is there and back in less than
# 200 ns), far, or moved meanwhile. In the end the ratios of neighbouring runs on cores equally far, min / median / max.
set -eu
kind=${1:-memif}
runs=${2:-5}
seconds=${3:-2}
case $kind in memif | vhost) ;; *) echo "switch.sh memif|vhost [RUNS [SECONDS]]" >&2 && exit 2 ;; esac
. "$(dirname "$0")/beside-ovs.sh"

count_linerate() {
    "$linerate" switch ctl --name bench --json show stats >"$folder/stats"
    number() { grep -o "\"$1\":[0-9]*" "$folder/stats" | tail -1 | cut -d: -f2; }
    echo "$(number sent) $(number busy_ns) $(cut -d' ' -f1 /proc/uptime)"
}

with_linerate() {
    nice -n -20 "$linerate" switch --name bench --cores 1 --quiet --port "a=$(near 0)" --port "b=$(near 1)" \
        >"$folder/out" 2>&1 &
    echo $! >"$folder/linerate.pid"
    sleep 0.5
    measure linerate count_linerate linerate worker
    end_all
    wait
}

with_ovs() {
    start_ovs
    ovs-ofctl add-flow "$folder/br.mgmt" in_port=1,actions=output:2
    ovs-ofctl add-flow "$folder/br.mgmt" in_port=2,actions=output:1
    measure_ovs
}

with_testpmd() {
    case $kind in
    memif) ends="--vdev net_memif0,role=server,id=0,socket=$folder/sock,socket-abstract=no --vdev net_memif1,role=server,id=1,socket=$folder/sock,socket-abstract=no" ;;
    vhost) ends="--vdev net_vhost0,iface=$folder/0 --vdev net_vhost1,iface=$folder/1" ;;
    esac
    mkfifo "$folder/in"
    nice -n -20 stdbuf -oL dpdk-testpmd -l 0,1 --main-lcore=0 --no-pci --no-telemetry --in-memory --single-file-segments -n 1 \
        --file-prefix "join$$" $ends -- -i --total-num-mbufs=16384 --forward-mode=io --burst=64 --auto-start <"$folder/in" \
        >"$folder/out" 2>&1 &
    echo $! >"$folder/testpmd.pid"
    exec 3>"$folder/in"
    sleep 2
    measure testpmd count_testpmd
    # It may have crashed when its peers went.
    echo quit 2>/dev/null >&3 || true
    exec 3>&-
    wait
    find "$folder" -mindepth 1 -delete
}

count_testpmd() {
    printf 'show port stats 0\nshow port stats 1\n' >&3 || true
    sleep 0.2
    sent=$(awk '/TX-packets:/ { seen[++n] = $2 } END { print seen[n] + seen[n - 1] }' "$folder/out")
    core_ns=$(for task in /proc/"$(cat "$folder/testpmd.pid")"/task/*; do
        case $(cat "$task/comm" 2>/dev/null) in rte-worker*) cut -d' ' -f1 "$task/schedstat" ;; esac
    done)
    echo "$sent $core_ns $(cut -d' ' -f1 /proc/uptime)"
}

for _ in $(seq "$runs"); do
    with_linerate
    if [ -x "$ovs" ]; then with_ovs; else echo "openvswitch-switch-dpdk is not installed" >&2; fi
    with_testpmd
done
print_ratios "packets for a core" openvswitch testpmd
