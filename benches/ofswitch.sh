#!/bin/sh
# `linerate ofswitch` and Open vSwitch with DPDK in turn: the same ports, the same entries, one core each for packets.
#     benches/ofswitch.sh memif|vhost ports|l4|flow|flows|rules|fresh [RUNS [SECONDS]]
#     benches/ofswitch.sh mods|memory|packet-ins|rtt|loading [RUNS]
#   ports   one flow, an entry for each port: Open vSwitch's special fast path
#   l4      one flow, an entry with the UDP port
#   flow    one flow of the generator that the rows below have, too
#   flows   10,000 flows
#   rules   100,000 entries with 20 masks of addresses, and 1,000,000 flows that repeat
#   fresh   the same entries, and packets whose addresses never repeat
#   mods    100,000 flow-mods and a barrier, a dump, one delete; also by `ovs-ofctl add-flows`, whose own time is in it. Open vSwitch: netdev
#   memory  bytes of resident memory for each of 1,000,000 entries of six fields and two actions: the same ones, and each its own
#   packet-ins  packet-ins that a controller answered with a flow-mod, a second, with 100 kpps (RATE) that never repeat at a memif port
#   loading 100,000 entries come and go while `linerate send` sends 1 Mpps (RATE): what the switch received, forwarded and dropped
#   rtt     pings between two namespaces over veths, median; Open vSwitch: netdev
# Wants root, dpdk-testpmd, 2 GiB for huge pages (reserved and given back here), and openvswitch-switch-dpdk. Builds nothing:
# cargo build --release -p linerate -p linerate-benches
# Prints for each run who and its figure; of packets: Mpps, nanoseconds of the core for each packet in rounds that moved packets, by the switch's own clock, and
# where the cores were (switch.sh). In the end the ratios of neighbouring runs, min / median / max: above 1 is better than Open vSwitch.
set -eu
usage() { sed -n '3,4p' "$0" | cut -c3- >&2; exit 2; }
case ${1:-} in
memif | vhost)
    kind=$1
    row=${2:-l4}
    shift
    ;;
mods | memory | packet-ins | rtt | loading) kind=memif row=$1 ;;
*) usage ;;
esac
runs=${2:-5}
seconds=${3:-2}
if [ "$row" = rtt ] && [ -z "${LINERATE_INSIDE:-}" ]; then
    # Interfaces and namespaces go with this process.
    LINERATE_INSIDE=1 exec unshare --net --mount --pid --fork --kill-child --mount-proc "$0" "$@"
fi
. "$(dirname "$0")/beside-ovs.sh"
client=${CARGO_TARGET_DIR:-target}/release/openflow-load
address=127.0.0.1:16653

# Entries in ovs-ofctl's syntax.
entries() {
    case $row in
    ports | rtt) printf 'in_port=%s,actions=output:%s\n' 1 2 2 1 ;;
    loading) printf 'priority=200,in_port=%s,udp,actions=output:%s\n' 1 2 2 1 ;;
    l4) printf 'in_port=%s,udp,tp_dst=9,actions=output:%s\n' 1 2 2 1 ;;
    flow | flows) printf 'in_port=%s,udp,tp_dst=1001,actions=output:%s\n' 1 2 2 1 ;;
    rules | fresh)
        printf 'priority=1,in_port=%s,actions=output:%s\n' 1 2 2 1
        # Each mask has 13 bits of the address, so that 5,000 entries match more than half of all addresses.
        awk 'function dotted(n) { return int(n / 16777216) % 256 "." int(n / 65536) % 256 "." int(n / 256) % 256 "." n % 256 }
            BEGIN {
                for (mask = 0; mask < 20; mask++)
                    for (k = 0; k < 5000; k++)
                        printf "priority=%d,in_port=%d,udp,nw_dst=%s/%s,actions=output:%d\n", 100 + mask, 1 + k % 2,
                            dotted(k * 2 ^ mask), dotted(8191 * 2 ^ mask), 2 - k % 2
            }'
        ;;
    esac
}

case $row in
ports | l4 | mods | memory | rtt | loading | packet-ins) ;;
flow) traffic="--forward-mode=flowgen --flowgen-flows=1" begin=start ;;
flows) traffic="--forward-mode=flowgen --flowgen-flows=10000" begin=start ;;
rules) traffic="--forward-mode=flowgen --flowgen-flows=1000000" begin=start ;;
fresh) traffic="--forward-mode=flowgen --flowgen-flows=2000000000" begin=start ;;
*) usage ;;
esac

# with_linerate PORT1 PORT2 [OPTION...]: starts it, and installs the entries.
start_linerate() {
    ports="--port 1=$1 --port 2=$2"
    shift 2
    entries >"$folder/entries"
    nice -n -20 "$linerate" ofswitch --name bench --cores 1 --quiet $ports --listen ptcp:16653:127.0.0.1 --flows "$folder/entries" "$@" \
        >"$folder/out" 2>&1 &
    echo $! >"$folder/linerate.pid"
    wait_for ovs-ofctl -O OpenFlow13 dump-desc "tcp:$address"
}

end_linerate() {
    end_all
    wait
    find "$folder" -mindepth 1 -delete
}

wait_for() {
    for _ in $(seq 50); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.2
    done
    echo "no answer to $*: $(tail -1 "$folder/out" 2>/dev/null)" >&2
    exit 1
}

count_linerate() {
    "$linerate" ofswitch ctl --name bench --json show stats >"$folder/stats"
    number() { grep -o "\"$1\": *[0-9]*" "$folder/stats" | tail -1 | tr -dc '0-9'; }
    echo "$(number sent) $(number busy_ns) $(cut -d' ' -f1 /proc/uptime)"
}

# Open vSwitch without DPDK, for rows that measure control or veths.
start_netdev() {
    export OVS_RUNDIR="$folder" OVS_LOGDIR="$folder" OVS_DBDIR="$folder"
    ovsdb-tool create "$folder/conf.db" /usr/share/openvswitch/vswitch.ovsschema
    ovsdb-server --detach --pidfile="$folder/db.pid" --remote="punix:$folder/db.sock" "$folder/conf.db"
    ovs-vsctl --no-wait --db="unix:$folder/db.sock" init
    nice -n -20 ovs-vswitchd "unix:$folder/db.sock" --detach --pidfile="$folder/vswitchd.pid" --log-file="$folder/log" 2>/dev/null
    ovs-vsctl --db="unix:$folder/db.sock" add-br br -- set bridge br datapath_type=netdev fail_mode=secure protocols=OpenFlow13 \
        -- set-controller br "ptcp:16653:127.0.0.1"
    for end in "$@"; do ovs-vsctl --db="unix:$folder/db.sock" add-port br "$end"; done
    wait_for ovs-ofctl -O OpenFlow13 dump-desc "tcp:$address"
    entries >"$folder/entries"
    if [ -s "$folder/entries" ]; then ovs-ofctl -O OpenFlow13 add-flows "tcp:$address" "$folder/entries"; fi
}

packets() {
    start_linerate "$(near 0)" "$(near 1)"
    measure linerate count_linerate linerate worker
    end_linerate
    start_ovs
    entries >"$folder/entries"
    # In one bundle: 100,000 entries one by one wait minutes for the main thread on a busy machine.
    ovs-ofctl -O OpenFlow14 --bundle add-flows "$folder/br.mgmt" "$folder/entries"
    measure_ovs
}

# mods_of NAME: seconds of 100,000 flow-mods, dump, delete, and of ovs-ofctl, as four results.
mods_of() {
    "$client" flow-mods "$address" 100000 | awk -v who="$1" '{ print who, $3, $5, $7 }' | tee -a "$folder.mods"
    awk 'BEGIN { for (k = 0; k < 100000; k++) printf "in_port=1,tcp,nw_src=10.%d.0.1,nw_dst=10.128.%d.%d,tp_dst=80,actions=output:2\n", int(k / 65536), int(k / 256) % 256, k % 256 }' >"$folder/many"
    began=$(date +%s%N)
    ovs-ofctl -O OpenFlow13 add-flows "tcp:$address" "$folder/many"
    echo "$1-ofctl $(($(date +%s%N) - began))" | awk '{ print $1, $2 / 1e9 }' | tee -a "$folder.mods"
}

mods() {
    start_linerate null: null:
    mods_of linerate
    end_linerate
    start_netdev
    mods_of openvswitch
    end_ovs
}

# Nothing to compare with: the bar is a number of bytes.
memory() {
    for actions in same own; do
        start_linerate null: null:
        before=$(resident)
        "$client" add "$address" 1000000 "$actions" >&2
        echo "$before $(resident)" | awk -v actions="$actions" '{ printf "%s actions: %.0f bytes an entry\n", actions, ($2 - $1) * 1024 / 1e6 }'
        end_linerate
    done
}

resident() { awk '/VmRSS/ { print $2 }' "/proc/$(cat "$folder/linerate.pid")/status"; }

packet_ins() {
    nice -n -20 "$client" packet-ins 127.0.0.1:16660 5 >"$folder.answered" &
    start_linerate "$(near 0)" null: --controller tcp:127.0.0.1:16660
    nice -n -20 taskset -c 0 "$linerate" send "memif:$folder/sock,role=client,id=0" --rate "${RATE:-100kpps}" \
        --vary ipv4.destination=10.0.0.0..10.255.255.255 --duration 7s >/dev/null 2>&1 || true
    awk '{ printf "linerate 0 %.3f -\n", $3 / $2 * 1e6; printf "%d a second, of %d answered\n", $2 / $3, $2 > "/dev/stderr" }' "$folder.answered" | tee -a "$folder.results"
    rm -f "$folder.answered"
    end_linerate
}

loading() {
    start_linerate "$(near 0)" null:
    nice -n -20 taskset -c 0 "$linerate" send "memif:$folder/sock,role=client,id=0" --rate "${RATE:-1Mpps}" --duration 12s --json 2>/dev/null \
        >"$folder/sent" &
    sender=$!
    sleep 2
    "$client" flow-mods "$address" 100000
    wait "$sender" || true
    "$linerate" ofswitch ctl --name bench --json show stats >"$folder/stats"
    python3 - "$folder/sent" "$folder/stats" <<'END'
import json, sys
sender, switch = (json.loads(open(name).read()) for name in sys.argv[1:])
totals = switch["totals"]
sent = sum(port["sent"] for port in sender["ports"])
print("sent", sent, "received", totals["received"], "forwarded", totals["sent"], "dropped", totals["dropped"], totals["drops"])
END
    end_linerate
}

# Two namespaces with an address each, whose veths' other ends are t1 and t2.
namespaces() {
    mkdir -p /run/netns
    mount -t tmpfs none /run/netns
    for end in 1 2; do
        ip netns add "n$end"
        ip link add "t$end" type veth peer name "s$end" netns "n$end"
        ip link set "t$end" up
        ip -n "n$end" addr add "192.0.2.$end/24" dev "s$end"
        ip -n "n$end" link set "s$end" up
    done
    ip link set lo up
}

# pings NAME: the median of 2,000 round trips in microseconds.
pings() {
    wait_for ip netns exec n1 ping -c 1 -W 1 192.0.2.2
    ip netns exec n1 ping -n -i 0.002 -c 2000 192.0.2.2 | grep -o 'time=[0-9.]*' | cut -d= -f2 | sort -n |
        awk -v who="$1" '{ t[NR] = $1 * 1000 } END { printf "%s 0 %.1f -\n", who, t[int((NR + 1) / 2)] }' | tee -a "$folder.results"
}

rtt() {
    start_linerate packet:t1 packet:t2
    pings linerate
    end_linerate
    start_netdev t1 t2
    pings openvswitch
    end_ovs
}

case $row in
rtt) namespaces ;;
esac
: >"$folder.mods"
for _ in $(seq "$runs"); do
    case $row in
    mods) mods ;;
    memory) memory ;;
    packet-ins) packet_ins ;;
    loading) loading ;;
    rtt) rtt ;;
    *) packets ;;
    esac
done
case $row in
mods)
    for what in "flow-mods 2" "dump 3" "delete 4"; do
        awk -v column="${what#* }" '/^(linerate|openvswitch) / { print $1, 0, $column, "-" }' "$folder.mods" >"$folder.results"
        print_ratios "${what% *}" openvswitch
    done
    awk '/-ofctl/ { sub("-ofctl", "", $1); print $1, 0, $2, "-" }' "$folder.mods" >"$folder.results"
    print_ratios "flow-mods by ovs-ofctl" openvswitch
    ;;
memory) ;;
packet-ins) awk '{ printf "%.0f packet-ins answered a second\n", 1e6 / $3 }' "$folder.results" ;;
loading) ;;
rtt) print_ratios "round trip" openvswitch ;;
*) print_ratios "packets for a core" openvswitch ;;
esac
rm -f "$folder.mods"
