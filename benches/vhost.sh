#!/bin/sh
# Two vhost-user ports joined by us, by testpmd (net_vhost) and by Open vSwitch with DPDK (in_port rules), in turn; at the other
# end of each a testpmd with two net_virtio_user ports returns 64-byte packets (60 and the FCS). Wants root, dpdk-testpmd, huge
# pages, and openvswitch-switch-dpdk for the last. Builds nothing: cargo build --release -p linerate-benches
#     benches/vhost.sh [RUNS [SECONDS]]
# Prints for each run: who, Mpps, nanoseconds on a core for each packet of the joining thread (its CPU time, polls that found
# nothing included); of ours also nanoseconds a packet in the middle full round, of the others what they say of their busy cycles.
# On a machine with other load only the last says anything, and of the others it contains the time that others had the core.
set -eu
runs=${1:-5}
seconds=${2:-2}
join=${CARGO_TARGET_DIR:-target}/release/linerate-join
ovs=/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk
folder=$(mktemp -d)
trap 'stop_ovs; rm -rf "$folder"' EXIT

# load A B: starts, lets flow for longer than is measured, and leaves what it counted in $folder/load.
load() {
    { sleep 2; echo "start tx_first 16"; sleep $((seconds + 2)); echo "show fwd stats all"; sleep 1; echo quit; } |
        timeout $((seconds + 30)) nice -n -20 dpdk-testpmd -l 0,1 --main-lcore=1 --no-pci --no-telemetry --in-memory \
            --single-file-segments -n 1 --file-prefix "load$$" --vdev "net_virtio_user0,path=$1,queue_size=1024" \
            --vdev "net_virtio_user1,path=$2,queue_size=1024" -- -i --total-num-mbufs=16384 --forward-mode=io \
            >"$folder/load" 2>&1 || true
}

# cpu_ns PID NAME: CPU time of the process's threads whose name begins with NAME.
cpu_ns() {
    for task in /proc/"$1"/task/*; do
        case $(cat "$task/comm") in "$2"*) cut -d' ' -f1 "$task/schedstat" ;; esac
    done | awk '{ sum += $1 } END { print sum + 0 }'
}

ours() {
    nice -n -20 "$join" "vhost:$folder/a" "vhost:$folder/b" "$seconds" >"$folder/ours" &
    sleep 0.3
    load "$folder/a" "$folder/b"
    wait $!
    awk '{ printf "linerate %.3f %s %s\n", $1 / $2 / 1e6, $3, $4 }' "$folder/ours"
}

# theirs NAME PID THREAD COUNT...: CPU time for each packet between two readings, while the load runs.
theirs() {
    name=$1 pid=$2 thread=$3
    shift 3
    load "$folder/a" "$folder/b" &
    sleep 3
    first=$("$@") && first_ns=$(cpu_ns "$pid" "$thread")
    sleep "$seconds"
    last=$("$@") && last_ns=$(cpu_ns "$pid" "$thread")
    wait $!
    echo "$first $first_ns $last $last_ns $seconds $name" |
        awk '{ n = $3 - $1; printf "%s %.3f %.2f\n", $6, n / $5 / 1e6, n ? ($4 - $2) / n : 0 }'
}

testpmd() {
    mkfifo "$folder/in"
    nice -n -20 dpdk-testpmd -l 0,1 --main-lcore=0 --no-pci --no-telemetry --in-memory -n 1 --file-prefix "join$$" \
        --vdev "net_vhost0,iface=$folder/a" --vdev "net_vhost1,iface=$folder/b" -- -i --total-num-mbufs=16384 \
        --forward-mode=io --auto-start <"$folder/in" >"$folder/out" 2>&1 &
    pid=$!
    exec 3>"$folder/in"
    sleep 2
    echo "set record-core-cycles on" >&3
    theirs testpmd "$pid" rte-worker count_testpmd
    printf 'show fwd stats all\nquit\n' >&3
    exec 3>&-
    wait "$pid" || true
    grep "CPU cycles/packet" "$folder/out" | tail -1
    rm "$folder/in"
}

count_testpmd() {
    printf 'show port stats 0\nshow port stats 1\n' >&3
    sleep 0.2
    awk '/TX-packets:/ { seen[++n] = $2 } END { print seen[n] + seen[n - 1] }' "$folder/out"
}

start_ovs() {
    export OVS_RUNDIR="$folder" OVS_LOGDIR="$folder" OVS_DBDIR="$folder"
    ovsdb-tool create "$folder/conf.db" /usr/share/openvswitch/vswitch.ovsschema
    ovsdb-server --detach --pidfile="$folder/db.pid" --remote="punix:$folder/db.sock" "$folder/conf.db"
    vsctl="ovs-vsctl --no-wait --db=unix:$folder/db.sock"
    $vsctl init -- set Open_vSwitch . other_config:dpdk-init=true other_config:pmd-cpu-mask=0x2 \
        other_config:dpdk-extra="--no-pci --in-memory -l 0 --file-prefix=ovs$$" other_config:dpdk-socket-mem=256
    nice -n -20 "$ovs" "unix:$folder/db.sock" --detach --pidfile="$folder/vswitchd.pid" --log-file="$folder/log" 2>/dev/null
    ovs-vsctl --db="unix:$folder/db.sock" add-br br -- set bridge br datapath_type=netdev fail_mode=secure \
        -- add-port br a -- set interface a type=dpdkvhostuser -- add-port br b -- set interface b type=dpdkvhostuser
    ovs-ofctl add-flow "$folder/br.mgmt" in_port=1,actions=output:2
    ovs-ofctl add-flow "$folder/br.mgmt" in_port=2,actions=output:1
}

stop_ovs() {
    for name in vswitchd db; do
        if [ -f "$folder/$name.pid" ]; then kill "$(cat "$folder/$name.pid")" || true; fi
    done
}

count_ovs() {
    ovs-appctl -t "$control" dpif-netdev/pmd-stats-show | awk '/packets received:/ { sum += $3 } END { print sum + 0 }'
}

with_ovs() {
    start_ovs
    control=$folder/${ovs##*/}.$(cat "$folder/vswitchd.pid").ctl
    ovs-appctl -t "$control" dpif-netdev/pmd-stats-clear >/dev/null
    theirs ovs "$(cat "$folder/vswitchd.pid")" pmd count_ovs
    ovs-appctl -t "$control" dpif-netdev/pmd-stats-show | grep "avg processing cycles" || true
    stop_ovs
    sleep 1
    rm -f "$folder"/*
}

for _ in $(seq "$runs"); do
    ours
    if command -v dpdk-testpmd >/dev/null; then testpmd; fi
    if [ -x "$ovs" ]; then with_ovs; fi
done
