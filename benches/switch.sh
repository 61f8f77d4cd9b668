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
linerate=${CARGO_TARGET_DIR:-target}/release/linerate
loop=${CARGO_TARGET_DIR:-target}/release/linerate-loop
ovs=/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk
folder=$(mktemp -d)
export XDG_RUNTIME_DIR="$folder"
trap '' PIPE
queues=1
pages=/proc/sys/vm/nr_hugepages
pages_before=$(cat $pages)
trap 'end_all; echo "$pages_before" >$pages; rm -rf "$folder"' EXIT
if [ "$pages_before" -lt 1024 ]; then echo 1024 >$pages; fi
case $kind in
memif)
    vdevs() { echo "--vdev net_memif0,role=client,id=0,$(far),mac=02:00:00:00:01:01 --vdev net_memif1,role=client,id=1,$(far),mac=02:00:00:00:01:02"; }
    far() { echo "socket=$folder/sock,socket-abstract=no"; }
    near() { echo "memif:$folder/sock,role=server,id=$1"; }
    ;;
vhost)
    vdevs() { echo "--vdev net_virtio_user0,path=$folder/0,queue_size=1024,mac=02:00:00:00:01:01 --vdev net_virtio_user1,path=$folder/1,queue_size=1024,mac=02:00:00:00:01:02"; }
    near() { echo "vhost:$folder/$1"; }
    ;;
*) echo "switch.sh memif|vhost [RUNS [SECONDS]]" >&2 && exit 2 ;;
esac

# The processes of a run, by file; ended at the latest when this script ends.
end_all() {
    for file in "$folder"/*.pid; do
        if [ -f "$file" ]; then kill "$(cat "$file")" 2>/dev/null || true; rm -f "$file"; fi
    done
}

# Lets packets flow between the ports for longer than is measured.
load() {
    { sleep 2; echo "start tx_first 16"; sleep $((seconds + 4)); echo quit; } |
        timeout -s KILL $((seconds + 30)) nice -n -20 dpdk-testpmd -l 0,1 --main-lcore=1 --no-pci --no-telemetry --in-memory \
            --single-file-segments -n 1 --file-prefix "load$$" $(vdevs) -- -i --total-num-mbufs=16384 --mbcache=512 \
            --burst=64 --rxq="$queues" --txq="$queues" --port-topology=loop --forward-mode=macswap --eth-peer=0,02:00:00:00:01:02 \
            --eth-peer=1,02:00:00:00:01:01 >"$folder/load" 2>&1 || true
}

# Nanoseconds of a cache line to the other core and back.
line() {
    "$loop" line_round_trip 100000 | awk '{ print $2 / $1 }'
}

# measure NAME COUNT: while the load runs, the difference of two readings of COUNT ("packets nanoseconds seconds").
measure() {
    before=$(line)
    load &
    sleep 4
    first=$($2)
    sleep "$seconds"
    last=$($2)
    wait $!
    echo "$first $last $1 $before $(line)" | awk '{
        n = $4 - $1
        where = ($8 < 200 && $9 < 200) ? "near" : ($8 >= 200 && $9 >= 200) ? "far" : "moved"
        printf "%s %.3f %.2f %s\n", $7, n / ($6 - $3) / 1e6, n ? ($5 - $2) / n : 0, where
    }' | tee -a "$folder.results"
}

count_linerate() {
    "$linerate" switch ctl --name bench --json show stats >"$folder/stats"
    number() { grep -o "\"$1\":[0-9]*" "$folder/stats" | tail -1 | cut -d: -f2; }
    echo "$(number sent) $(number busy_ns) $(cut -d' ' -f1 /proc/uptime)"
}

with_linerate() {
    nice -n -20 "$linerate" switch --name bench --core 1 --quiet --port "a=$(near 0)" --port "b=$(near 1)" \
        >"$folder/out" 2>&1 &
    echo $! >"$folder/linerate.pid"
    sleep 0.5
    measure linerate count_linerate
    end_all
    wait
}

with_ovs() {
    export OVS_RUNDIR="$folder" OVS_LOGDIR="$folder" OVS_DBDIR="$folder"
    ovsdb-tool create "$folder/conf.db" /usr/share/openvswitch/vswitch.ovsschema
    ovsdb-server --detach --pidfile="$folder/db.pid" --remote="punix:$folder/db.sock" "$folder/conf.db"
    ovs-vsctl --no-wait --db="unix:$folder/db.sock" init -- set Open_vSwitch . other_config:dpdk-init=true \
        other_config:pmd-cpu-mask=0x2 other_config:dpdk-socket-mem=256 \
        other_config:dpdk-extra="--no-pci --in-memory --single-file-segments -l 0 --file-prefix=ovs$$"
    nice -n -20 "$ovs" "unix:$folder/db.sock" --detach --pidfile="$folder/vswitchd.pid" --log-file="$folder/log" 2>/dev/null
    ovs-vsctl --db="unix:$folder/db.sock" add-br br -- set bridge br datapath_type=netdev fail_mode=secure \
        -- add-port br 0 -- set interface 0 $(ovs_port 0) -- add-port br 1 -- set interface 1 $(ovs_port 1)
    ovs-ofctl add-flow "$folder/br.mgmt" in_port=1,actions=output:2
    ovs-ofctl add-flow "$folder/br.mgmt" in_port=2,actions=output:1
    control=$folder/${ovs##*/}.$(cat "$folder/vswitchd.pid").ctl
    # Its thread sends by the second queue of a memif; the first one is its main thread's.
    if [ "$kind" = memif ]; then queues=2; fi
    measure openvswitch count_ovs
    queues=1
    end_all
    sleep 1
    find "$folder" -mindepth 1 -delete
}

ovs_port() {
    case $kind in
    memif) echo "type=dpdk options:dpdk-devargs=net_memif$1,role=server,id=$1,socket=$folder/sock,socket-abstract=no options:n_rxq=2" ;;
    vhost) echo "type=dpdkvhostuser" ;;
    esac
}

# Its cycles are those of the time stamp counter, whose pace comes out of the same reading.
count_ovs() {
    stats=$(ovs-appctl -t "$control" dpif-netdev/pmd-stats-show)
    seconds_now=$(cut -d' ' -f1 /proc/uptime)
    echo "$stats" | awk -v now="$seconds_now" -v since="$folder/tsc" '
        /packets received:/ { packets += $3 }
        /idle cycles:/ { idle = $3 }
        /processing cycles:/ { busy = $3 }
        END {
            if ((getline before < since) > 0) { split(before, b, " "); hz = (busy + idle - b[1]) / (now - b[2]); base = b[3] }
            else { print busy + idle, now, busy > since; hz = 1; base = busy }
            printf "%d %.0f %s\n", packets, (busy - base) / hz * 1e9, now
        }'
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
    echo quit >&3 || true
    exec 3>&-
    wait
    find "$folder" -mindepth 1 -delete
}

count_testpmd() {
    printf 'show port stats 0\nshow port stats 1\n' >&3
    sleep 0.2
    sent=$(awk '/TX-packets:/ { seen[++n] = $2 } END { print seen[n] + seen[n - 1] }' "$folder/out")
    core_ns=$(for task in /proc/"$(cat "$folder/testpmd.pid")"/task/*; do
        case $(cat "$task/comm") in rte-worker*) cut -d' ' -f1 "$task/schedstat" ;; esac
    done)
    echo "$sent $core_ns $(cut -d' ' -f1 /proc/uptime)"
}

: >"$folder.results"
for _ in $(seq "$runs"); do
    with_linerate
    if [ -x "$ovs" ]; then with_ovs; else echo "openvswitch-switch-dpdk is not installed" >&2; fi
    with_testpmd
done
awk '
    { ns[$1, ++n[$1]] = $3; at[$1, n[$1]] = $4 }
    function ratios(other, where, i, j, m, r, t) {
        for (i = 1; i <= n["linerate"] && i <= n[other]; i++)
            if (at["linerate", i] == where && at[other, i] == where) r[++m] = ns[other, i] / ns["linerate", i]
        for (i = m; i > 1; i--) for (j = 1; j < i; j++) if (r[j] > r[j + 1]) { t = r[j]; r[j] = r[j + 1]; r[j + 1] = t }
        if (m) printf "packets for a core, ours to %s, cores %s: %.2f / %.2f / %.2f of %d\n", other, where, r[1], r[int((m + 1) / 2)], r[m], m
    }
    END { ratios("openvswitch", "near"); ratios("openvswitch", "far"); ratios("testpmd", "near"); ratios("testpmd", "far") }
' "$folder.results"
rm -f "$folder.results"
