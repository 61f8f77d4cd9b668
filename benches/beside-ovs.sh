# Sourced by switch.sh and ofswitch.sh: two memif or vhost-user ports, testpmd at the other end of both, Open vSwitch with DPDK between them,
# and ratios of alternating runs. Wants `kind` (memif or vhost), `seconds`, and root; makes `folder`, which goes at the end.

linerate=${CARGO_TARGET_DIR:-target}/release/linerate
loop=${CARGO_TARGET_DIR:-target}/release/linerate-loop
ovs=/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk
folder=$(mktemp -d)
export XDG_RUNTIME_DIR="$folder"
trap '' PIPE
queues=1
pages=/proc/sys/vm/nr_hugepages
pages_before=$(cat $pages)
trap 'end_all; echo "$pages_before" >$pages; rm -rf "$folder" "$folder".*' EXIT
trap 'exit 2' INT TERM
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
esac

# The processes of a run, by file; ended at the latest when this script ends.
end_all() {
    for file in "$folder"/*.pid; do
        if [ -f "$file" ]; then kill "$(cat "$file")" 2>/dev/null || true; rm -f "$file"; fi
    done
}

# Lets packets flow between the ports for longer than is measured: as they come they go back, MAC addresses swapped, unless `traffic` and
# `begin` say something else to testpmd.
load() {
    { sleep 2; echo "${begin:-start tx_first 16}"; sleep $((seconds + 4)); echo quit; } |
        timeout -s KILL $((seconds + 30)) nice -n -20 dpdk-testpmd -l 0,1 --main-lcore=1 --no-pci --no-telemetry --in-memory \
            --single-file-segments -n 1 --file-prefix "load$$" $(vdevs) -- -i --total-num-mbufs=16384 --mbcache=512 \
            --burst=64 --rxq="$queues" --txq="$queues" --port-topology=loop ${traffic:---forward-mode=macswap} \
            --eth-peer=0,02:00:00:00:01:02 --eth-peer=1,02:00:00:00:01:01 >"$folder/load" 2>&1 || true
}

# Nanoseconds of a cache line to the other core and back.
line() {
    "$loop" line_round_trip 100000 | awk '{ print $2 / $1 }'
}

# measure NAME COUNT [PROCESS THREAD]: while the load runs, the difference of two readings of COUNT ("packets nanoseconds seconds"). Both
# clocks run on while others have the core, so the share of its time that the thread waited for the core is left out.
measure() {
    before=$(line)
    load &
    sleep 4
    first="$($2) $(scheduled "${3:-}" "${4:-}")"
    sleep "$seconds"
    last="$($2) $(scheduled "${3:-}" "${4:-}")"
    wait $!
    # Where its process has ended, or moved nothing.
    echo "$first $last $1 $before $(line)" | awk -v name="$1" 'NF != 13 || $6 <= $1 { print name, "- - unmeasured"; next }
    {
        n = $6 - $1
        on = $9 - $4
        waits = $10 - $5
        where = ($12 < 200 && $13 < 200) ? "near" : ($12 >= 200 && $13 >= 200) ? "far" : "moved"
        printf "%s %.3f %.2f %s\n", $11, n / ($8 - $3) / 1e6, n && on ? ($7 - $2) / n * on / (on + waits) : 0, where
    }' | tee -a "$folder.results"
}

# Nanoseconds that a thread of the process in a .pid file was on a core, and that it waited for one (schedstat of the kernel);
# without a process, as if it never waited.
scheduled() {
    if [ -z "$1" ]; then date "+%s%N 0"; return; fi
    task=$(grep -ls "^$2" /proc/"$(cat "$folder/$1.pid")"/task/*/comm | head -1)
    cut -d' ' -f1,2 "${task%comm}schedstat" 2>/dev/null || true
}

# Open vSwitch with one thread for packets on core 1, and a bridge "br" with two ports of the kind, without entries; in a network namespace of
# its own, because it makes devices of the names "br" and "ovs-netdev", which stay when it is ended.
start_ovs() {
    export OVS_RUNDIR="$folder" OVS_LOGDIR="$folder" OVS_DBDIR="$folder"
    ovsdb-tool create "$folder/conf.db" /usr/share/openvswitch/vswitch.ovsschema
    ovsdb-server --detach --pidfile="$folder/db.pid" --remote="punix:$folder/db.sock" "$folder/conf.db"
    ovs-vsctl --no-wait --db="unix:$folder/db.sock" init -- set Open_vSwitch . other_config:dpdk-init=true \
        other_config:pmd-cpu-mask=0x2 other_config:dpdk-socket-mem=256 \
        other_config:dpdk-extra="--no-pci --in-memory --single-file-segments -l 0 --file-prefix=ovs$$"
    nice -n -20 unshare --net "$ovs" "unix:$folder/db.sock" --detach --pidfile="$folder/vswitchd.pid" --log-file="$folder/log" 2>/dev/null
    # A daemon is in a session of its own, whose share of the cores (autogroup) shall be that of ours.
    if [ -f /proc/self/autogroup ]; then
        sed 's/.*nice //' /proc/self/autogroup >"/proc/$(cat "$folder/vswitchd.pid")/autogroup"
    fi
    ovs-vsctl --db="unix:$folder/db.sock" add-br br -- set bridge br datapath_type=netdev fail_mode=secure \
        protocols=OpenFlow10,OpenFlow13,OpenFlow14 \
        -- add-port br 0 -- set interface 0 $(ovs_port 0) -- add-port br 1 -- set interface 1 $(ovs_port 1)
    control=$folder/${ovs##*/}.$(cat "$folder/vswitchd.pid").ctl
}

ovs_port() {
    case $kind in
    memif) echo "type=dpdk options:dpdk-devargs=net_memif$1,role=server,id=$1,socket=$folder/sock,socket-abstract=no options:n_rxq=2" ;;
    vhost) echo "type=dpdkvhostuser" ;;
    esac
}

# Measures it under the load, and ends it.
measure_ovs() {
    # Its thread sends by the second queue of a memif; the first one is its main thread's.
    if [ "$kind" = memif ]; then queues=2; fi
    measure openvswitch count_ovs vswitchd pmd
    queues=1
    end_ovs
}

end_ovs() {
    end_all
    sleep 1
    find "$folder" -mindepth 1 -delete
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

# print_ratios WHAT NAME...: ratios of neighbouring runs' nanoseconds, those of each NAME to ours, on cores equally far; then forgets the runs.
print_ratios() {
    what=$1
    shift
    awk -v what="$what" -v others="$*" '
        { ns[$1, ++n[$1]] = $3; at[$1, n[$1]] = $4 }
        function ratios(other, where, i, j, m, r, t) {
            for (i = 1; i <= n["linerate"] && i <= n[other]; i++)
                if (at["linerate", i] == where && at[other, i] == where && ns["linerate", i]) r[++m] = ns[other, i] / ns["linerate", i]
            for (i = m; i > 1; i--) for (j = 1; j < i; j++) if (r[j] > r[j + 1]) { t = r[j]; r[j] = r[j + 1]; r[j + 1] = t }
            if (m) printf "%s, ours to %s, cores %s: %.2f / %.2f / %.2f of %d\n", what, other, where, r[1], r[int((m + 1) / 2)], r[m], m
        }
        END {
            count = split(others, names, " ")
            for (k = 1; k <= count; k++) { ratios(names[k], "near"); ratios(names[k], "far"); ratios(names[k], "-") }
        }
    ' "$folder.results"
    : >"$folder.results"
}
: >"$folder.results"
