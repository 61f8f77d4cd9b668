#!/bin/sh
# Bulk TCP between Linerate's stack and Linux's, beside Linux and Linux over the same path, in turn: goodput, every byte checked.
#     benches/tcp-bulk.sh [RUNS [SECONDS [PORT [CASE...]]]]        7 runs of 10 s, packet, all cases
# PORT is packet, xdp or tap (`clean` only), with options behind it: `packet,no_offload`.
# Cases: clean loss0.1 loss1 loss5 reorder delay all. `clean` is one veth pair (or a TAP device beside a veth pair); the others have
# `linerate bridge` in the middle, which loses, delays and reorders by a seed, the number of the run, in both directions. Reordering: a rate
# of 100 Mbit/s, where 5 % of the packets overtake the ten before them. Delay: 10 ms each way. All: both, and 1 % of loss.
# Segmentation offloads of the interfaces are off, or on with LINERATE_OFFLOADS=on for all but Linux and Linux; checksum offloads are as the kernel
# has them; CUBIC on both sides. A row is a case and who sends to whom:
# goodput in Mbit/s as min / median / max, and the ratio of the medians to Linux and Linux.
# While it runs, the session that it is called from goes ahead of all others on this machine (/proc/self/autogroup): a kernel with
# CONFIG_SCHED_AUTOGROUP shares its cores among sessions first, so that `nice` does nothing against what another session does.
# Wants root, python3 and ethtool. Builds nothing: cargo build --release -p linerate -p linerate-benches
set -eu
if [ -z "${LINERATE_INSIDE:-}" ]; then
    # Everything is gone with this process.
    LINERATE_INSIDE=1 exec unshare --net --mount --pid --fork --kill-child "$0" "$@"
fi
runs=${1:-7}
seconds=${2:-10}
port=${3:-packet}
[ $# -gt 3 ] && shift 3 || set -- clean loss0.1 loss1 loss5 reorder delay all
binaries=$(realpath "${CARGO_TARGET_DIR:-target}/release")
folder=$(mktemp -d)
mount -t tmpfs none /run
mount -t proc none /proc
ahead=$(sed -n 's/.* nice //p' /proc/self/autogroup 2>/dev/null || true)
trap 'rm -r "$folder"; [ -z "$ahead" ] || echo "$ahead" >/proc/self/autogroup' EXIT
[ -z "$ahead" ] || echo -19 >/proc/self/autogroup
mkdir -p /run/netns
export XDG_RUNTIME_DIR="$folder"

near="ip netns exec near"
far="ip netns exec far"

# Turns segmentation offloads of interface $2 in namespace $1 off, or leaves them on ($3).
offloads() {
    [ "$3" = on ] || ip netns exec "$1" ethtool -K "$2" tso off gso off gro off >/dev/null
}

# Makes both ends, with `$1` interfaces between them: none (a veth pair) or path (two pairs, joined by a bridge).
build() {
    ip netns add near
    ip netns add far
    if [ "$1" = path ]; then
        ip link add near0 netns near type veth peer name path0
        ip link add far0 netns far type veth peer name path1
        for interface in path0 path1; do
            ethtool -K $interface tso off gso off gro off >/dev/null
            ip link set $interface up
        done
    else
        ip link add near0 netns near type veth peer name far0 netns far
    fi
    for end in near far; do
        offloads $end ${end}0 "$2"
        ip netns exec $end sysctl -qw net.ipv4.tcp_no_metrics_save=1
    done
    $near ip addr add 198.18.7.1/24 dev near0
    $far ip addr add 198.18.7.2/24 dev far0
    for end in near far; do
        ip netns exec $end ip link set ${end}0 up
        # A namespace cannot choose another default than the host's; a route can.
        ip netns exec $end ip route replace 198.18.7.0/24 dev ${end}0 congctl cubic
    done
    if [ "${port%%,*}" = tap ]; then
        $far ip tuntap add dev tap0 mode tap
        $far ip link set tap0 up
        $far ip addr add 198.18.8.2/24 dev tap0
        $far ip route replace 198.18.8.0/24 dev tap0 congctl cubic
    fi
}

# One transfer: case, run, who sends and who receives (linux or linerate). Prints the goodput.
transfer() {
    case=$1 seed=$2 sender=$3 receiver=$4
    reorder= path=
    case $case in
        clean) ;;
        loss*) path="loss ${case#loss}% limit 10k" ;;
        reorder) reorder="rate 100Mbit/s 24 delay 1230us reorder 5% limit 1k seed $seed" ;;
        delay) path="delay 10ms limit 10k" ;;
        all) reorder="rate 100Mbit/s 24 delay 1230us reorder 5% limit 1k seed $seed" path="delay 10ms loss 1% limit 10k" ;;
        *) echo "no case $case" >&2; exit 2 ;;
    esac
    bridge=
    on=off
    [ "$sender:$receiver" = linux:linux ] || on=${LINERATE_OFFLOADS:-off}
    if [ "$case" = clean ]; then
        build none $on
    else
        build path $on
        ends="packet:path0 packet:path1"
        if [ -n "$reorder" ]; then
            "$binaries/linerate" bridge "packet:path0,impair-rx=$reorder" "packet:path1,impair-rx=$reorder" -q \
                --impair "${path:-limit 10k} seed $seed" >"$folder/bridge" 2>&1 &
        else
            "$binaries/linerate" bridge $ends -q --impair "$path seed $seed" >"$folder/bridge" 2>&1 &
        fi
        bridge=$!
        sleep 0.5
    fi
    options=${port#"${port%%,*}"}
    spec=${port%%,*}:near0$options own=198.18.7.3 peer=198.18.7.2 end=$near
    # The kernel's side of a TAP device is at the far end.
    [ "${port%%,*}" != tap ] || spec=tap:tap0$options own=198.18.8.3 peer=198.18.8.2 end=$far
    # Linerate is at the near end; Linux at the far one, or at both.
    case $sender:$receiver in
        linux:linux) from="$near $binaries/tcp-bulk kernel send 198.18.7.2:5001 $seconds"; to="$far $binaries/tcp-bulk kernel receive 198.18.7.2:5001" ;;
        linerate:linux) from="$end $binaries/tcp-bulk $spec $own/24 send $peer:5001 $seconds"; to="$far $binaries/tcp-bulk kernel receive $peer:5001" ;;
        linux:linerate) from="$far $binaries/tcp-bulk kernel send $own:5001 $seconds"; to="$end $binaries/tcp-bulk $spec $own/24 receive $own:5001" ;;
    esac
    rm -f "$folder/errors"
    $to >"$folder/received" 2>"$folder/errors" &
    receiving=$!
    until grep -qs ready "$folder/errors"; do sleep 0.02; done
    # The kernel's half of a TAP device's offloads is known when somebody has opened it.
    [ "$spec" = "${spec#tap}" ] || [ "$receiver" = linux ] || offloads far tap0 $on
    timeout -s KILL $((seconds * 6 + 30)) $from >"$folder/sent" 2>>"$folder/errors" ||
        { echo "sender failed: $(cat "$folder/errors")" >&2; kill $receiving 2>/dev/null || true; }
    wait $receiving || echo "receiver failed: $(cat "$folder/errors")" >&2
    [ -n "$bridge" ] && kill -INT $bridge && wait $bridge || true
    # What was sent has arrived, all of it.
    if [ "$(cut -d' ' -f1 "$folder/sent")" = "$(cut -d' ' -f1 "$folder/received")" ] && [ -s "$folder/received" ]; then
        cut -d' ' -f5 "$folder/received"
    else
        echo "0 (sent $(cat "$folder/sent"), received $(cat "$folder/received"))"
    fi
    [ -z "${LINERATE_COUNTERS:-}" ] || cat "$folder/errors" >&2
    for interface in near0 far0; do ip netns exec ${interface%0} ip link del $interface 2>/dev/null || true; done
    ip netns del near
    ip netns del far
}

for case in "$@"; do
    run=0
    while [ $run -lt "$runs" ]; do
        run=$((run + 1))
        for pair in linux:linux linerate:linux linux:linerate; do
            goodput=$(transfer "$case" $run ${pair%:*} ${pair#*:})
            echo "$case $pair $run $goodput" >&2
            echo "$case $pair $goodput" >>"$folder/all"
        done
    done
done
python3 - "$folder/all" <<'END_PYTHON'
import statistics, sys
rows = {}
for line in open(sys.argv[1]):
    case, pair, goodput = line.split()[:3]
    rows.setdefault((case, pair), []).append(float(goodput))
print(f"{'case':10} {'sender:receiver':16} {'min':>8} {'median':>8} {'max':>8}  ratio to linux:linux")
for (case, pair), goodputs in rows.items():
    median, peer = statistics.median(goodputs), statistics.median(rows[case, "linux:linux"])
    print(f"{case:10} {pair:16} {min(goodputs):8.1f} {median:8.1f} {max(goodputs):8.1f}  {median / peer:.2f}")
END_PYTHON
