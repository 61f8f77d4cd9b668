#!/usr/bin/env bash
# `linerate capture` beside tcpdump, dumpcap and netsniff-ng: the same packets (64 bytes on the wire) over a veth pair, the sender on one
# core and the whole capturing process on another, the same bytes of ring for each, in turn.
#     benches/capture.sh count [RUNS]     counting only, at RATE: user + system time of the process per packet
#     benches/capture.sh file [RUNS]      the same, into a file in FOLDER
#     benches/capture.sh share [RUNS]     the process held to SHARE % of a core: highest rate without loss, counting and to a file
#     benches/capture.sh ports [RUNS]     highest rate without loss, two ports beside one
#     benches/capture.sh filter [RUNS]    a filter that passes 1 % of RATE, into a file
#     benches/capture.sh long [SECONDS]   half of the rate without loss, rotating, 600 s: packets missing, memory
#     benches/capture.sh full             a full disk, through the page cache (tmpfs) and past it (ext4): totals, and files that read
# Wants root; what is missing is named and left out. Builds nothing: cargo build --release -p linerate. Ends by itself.
# In the environment: RATE (1000000), TIME (seconds of a run, 8), RING (MiB, 64), SHARE (20), FOLDER (on the disk that is to be written;
# here), SOURCE_CORE and CAPTURE_CORE (0 and 1), KINDS (of share: "count file"), TOOLS ("linerate tcpdump dumpcap netsniff-ng"), RATE_MAX (4000000).
#
# A run prints: tool, packets sent, per second, captured, dropped by the tool's own count, ns of user + system time per packet sent (wait4(2), all
# threads, from start to end of the process). The last lines are ratios of ours to the best of the others in the same round, min / median
# / max. What a peer does to count is the cheapest that it has: tcpdump and dumpcap write to /dev/null, netsniff-ng walks its ring and
# shows nothing. To files each writes its own format in its own usual way.
# share takes a quarter of an hour for each of its RUNS (3); a ring of 64 MiB holds half a second, so runs are not to be shorter than 8 s.
# A rate is without loss when, in a run of TIME, the tool dropped nothing by its own count and captured what was sent. The search takes
# steps of 5 %. Where the sender does not reach a rate, what it sends is the ceiling, and the line says so: then SHARE=5 tells more.
set -euo pipefail
command=${1:-}
case $command in
count | file | filter | full) runs=${2:-5} time=${TIME:-8} ;;
share | ports) runs=${2:-3} time=${TIME:-8} ;;
long) runs=${2:-600} time=${TIME:-8} ;;
*) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; exit 2 ;;
esac
rate=${RATE:-1000000} ring=${RING:-64} share=${SHARE:-20} rate_max=${RATE_MAX:-4000000} kinds=${KINDS:-count file}
source_core=${SOURCE_CORE:-0} capture_core=${CAPTURE_CORE:-1}
linerate=${CARGO_TARGET_DIR:-target}/release/linerate
[ -x "$linerate" ] || { echo "build first: cargo build --release -p linerate" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "skipped: wants root (namespaces, cgroups)"; exit 0; }
linerate=$(readlink -f "$linerate")
folder=$(mktemp -d "${FOLDER:-$PWD}/capture-bench.XXXXXX")
near=lrcap$$a far=lrcap$$b
group_path="" children=() loop_device="" filter=""

clean() {
    trap '' INT TERM HUP
    for pid in "${children[@]}"; do kill "$pid" 2>/dev/null || true; done
    for file in "$folder"/*.pid; do
        if [ -s "$file" ]; then kill -KILL "$(cat "$file")" 2>/dev/null || true; fi
    done
    wait 2>/dev/null || true
    if mountpoint -q "$folder/disk"; then umount "$folder/disk" || umount -l "$folder/disk"; fi
    if [ -n "$loop_device" ]; then losetup -d "$loop_device" || true; fi
    for name in "$near" "$far"; do ip netns del "$name" 2>/dev/null || true; done
    if [ -n "$group_path" ]; then rmdir "$group_path" || true; fi
    rm -rf "$folder"
}
trap clean EXIT
trap 'exit 130' INT TERM HUP

tools=""
for tool in ${TOOLS:-linerate tcpdump dumpcap netsniff-ng}; do
    if [ "$tool" = linerate ] || command -v "$tool" >/dev/null; then tools="$tools $tool"; else echo "skipped: $tool is not installed"; fi
done

# ---- the wire ----

# pair NUMBER: interfaces txN and rxN. With GRO the far end runs NAPI, which takes live XDP frames.
pair() {
    ip -n "$near" link add "tx$1" address "02:00:00:00:0$1:01" type veth peer name "rx$1" address "02:00:00:00:0$1:02" netns "$far"
    ip -n "$near" link set "tx$1" up
    ip -n "$far" link set "rx$1" up
    ip netns exec "$far" ethtool -K "rx$1" gro on
}

wire() {
    for name in "$near" "$far"; do
        ip netns add "$name"
        ip netns exec "$name" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 || true
    done
    pair 0
    if [ "$command" = ports ]; then pair 1; fi
    sleep 0.3
}

# in_namespace NAMESPACE CORE NAME COMMAND...: tied to a core, its number in NAME.pid, held to a share if it is the capture.
# The group is joined first: `ip netns exec` mounts another /sys.
in_namespace() {
    sh -c '
        echo $$ >"$0"
        if [ -n "${GROUP:-}" ]; then echo $$ >"$GROUP/cgroup.procs" || exit 1; fi
        exec "$@"' "$folder/$3.pid" ip netns exec "$1" taskset -c "$2" "${@:4}"
}

# send NUMBER RATE SECONDS [ARGUMENT...]: sends on txNUMBER; prints packets sent, and per second.
send() {
    in_namespace "$near" "$source_core" "send$1" "$linerate" send "xdplive:tx$1" --cores none -q --json -d "$3s" -r "$2pps" --no-signature \
        --set ethernet.destination=02:00:00:00:00:07 "${@:4}" >"$folder/sent$1" &
    wait $! || true
    rm -f "$folder/send$1.pid"
    awk -F'[:,]' '/"sent":/ && !sent { sent = $2 + 0 } /"sent_pps":/ { pps = $2 + 0 } END { printf "%d %d\n", sent, pps }' "$folder/sent$1"
}

# ---- the tools ----

# words TOOL count|file|filter|ports: its command, a word a line.
words() {
    local kind=$2 bytes=$((ring << 20)) out=$folder/out
    case $1 in
    linerate)
        printf '%s\n' "$linerate" capture -i rx0 --ring $bytes --json --interval 3600s
        if [ "$kind" = ports ]; then printf '%s\n' -i rx1; fi
        if [ "$kind" = filter ]; then printf '%s\n' --filter "$filter"; fi
        if [ "$kind" = file ] || [ "$kind" = filter ]; then printf '%s\n' -w "$out.pcapng"; fi
        ;;
    tcpdump)
        if [ "$kind" = count ]; then out=/dev/null; else out=$out.pcap; fi
        printf '%s\n' tcpdump -Z root -p -n -i rx0 -B $((ring << 10)) -w "$out"
        if [ "$kind" = filter ]; then printf '%s\n' "$filter"; fi
        ;;
    dumpcap)
        if [ "$kind" = count ]; then out=/dev/null; else out=$out.pcapng; fi
        printf '%s\n' dumpcap -q -p -i rx0 -B "$ring" -w "$out"
        if [ "$kind" = filter ]; then printf '%s\n' -f "$filter"; fi
        ;;
    netsniff-ng)
        printf '%s\n' netsniff-ng --silent --no-promisc --no-sock-mem --in rx0 --ring-size "${ring}MiB"
        if [ "$kind" = filter ]; then printf '%s\n' --filter "$filter"; fi
        if [ "$kind" != count ]; then printf '%s\n' --out "$out.pcap"; fi
        ;;
    esac
}

# counts TOOL: packets that it says it captured, and dropped.
counts() {
    tr '\r' '\n' <"$folder/said" >"$folder/lines"
    case $1 in
    linerate)
        awk '
            function number(key) { if (!match($0, "\"" key "\":[0-9]+")) return 0; return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) }
            /"scope":"port","end":true/ { taken += number("taken") - number("dropped_for_buffers") - number("dropped_by_errors")
                         lost += number("dropped_by_ring") + number("dropped_for_buffers") + number("dropped_by_errors") }
            END { print taken + 0, lost + 0 }' "$folder/lines"
        ;;
    tcpdump) awk '/packets? captured/ { c = $1 } /dropped by kernel/ { d = $1 } END { print c + 0, d + 0 }' "$folder/lines" ;;
    dumpcap) awk '/^Packets captured:/ { c = $3 } /received\/dropped/ { split($6, p, "/"); d = p[2] } END { print c + 0, d + 0 }' "$folder/lines" ;;
    netsniff-ng) awk '/packets incoming/ { c = $1 } /out of space/ { d = $1 } END { print c + 0, d + 0 }' "$folder/lines" ;;
    esac
}

# capture TOOL KIND: starts it and waits until its sockets are open.
capture() {
    local -a words
    mapfile -t words < <(words "$1" "$2")
    rm -f "$folder"/out* "$folder/capture.pid"
    (
        TIMEFORMAT='%3U %3S'
        time GROUP=$group_path in_namespace "$far" "$capture_core" capture "${words[@]}" >"$folder/said" 2>&1 || true
    ) 2>"$folder/time" &
    children=($!)
    local wanted=1 waited=0
    if [ "$2" = ports ]; then wanted=2; fi
    # A line for each socket, and one of headings.
    until [ "$(ip netns exec "$far" grep -c . /proc/net/packet)" -gt $wanted ] && [ -s "$folder/capture.pid" ]; do
        sleep 0.1
        waited=$((waited + 1))
        if [ $waited -gt 200 ]; then echo "$1 does not start: $(tail -1 "$folder/said")" >&2; exit 1; fi
    done
    # A process that is held to a share may have its sockets long before it takes packets.
    until grep -q 'apturing on\|listening on\|Running!' "$folder/said"; do
        sleep 0.1
        waited=$((waited + 1))
        if [ $waited -gt 300 ]; then echo "$1 does not say that it captures: $(tail -1 "$folder/said")" >&2; exit 1; fi
    done
    sleep 0.7
}

# end TOOL SENT PPS: ends the capture; prints the line of the run.
end() {
    local waited=0
    # libpcap's tools are given a block that is not full after a second, and leave what is in their rings when they are ended; a process
    # that is held to a share may need a while longer.
    if [ -n "$group_path" ]; then sleep 2.5; else sleep 0.5; fi
    kill -INT "$(cat "$folder/capture.pid")" 2>/dev/null || true
    while kill -0 "${children[0]}" 2>/dev/null; do
        sleep 0.1
        waited=$((waited + 1))
        if [ $waited -gt 300 ]; then kill -KILL "$(cat "$folder/capture.pid")" 2>/dev/null || true; fi
    done
    wait "${children[0]}" 2>/dev/null || true
    children=()
    rm -f "$folder/capture.pid"
    echo "$1 $2 $3 $(counts "$1") $(awk -v sent="$2" '{ printf "%.2f", sent ? ($1 + $2) * 1e9 / sent : 0 }' "$folder/time")"
}

# measure TOOL KIND RATE [ARGUMENT...]: a run.
measure() {
    capture "$1" "$2"
    local sent pps
    read -r sent pps < <(send 0 "$3" "$time" "${@:4}")
    end "$1" "$sent" "$pps"
}

# ratios COLUMN WHAT BAR least|most: of the rows in $folder/rows (tool, ..., a round after the other), ours to the best of the others.
ratios() {
    awk -v column="$1" -v what="$2" -v bar="$3" -v best="$4" '
        $1 == "linerate" { round++ }
        $1 == "linerate" && /ceiling/ { at_least = " at least (the sender gave no more)" }
        { value[round, $1] = $column; if ($1 != "linerate") names[$1] }
        END {
            for (i = 1; i <= round; i++) {
                other = 0
                for (name in names) if ((i, name) in value) {
                    v = value[i, name]
                    if (v > 0 && (!other || (best == "least" ? v < other : v > other))) { other = v; who = name }
                }
                if (other) { r[++n] = value[i, "linerate"] / other; from[who] }
            }
            for (i = n; i > 1; i--) for (j = 1; j < i; j++) if (r[j] > r[j + 1]) { t = r[j]; r[j] = r[j + 1]; r[j + 1] = t }
            for (name in from) list = list " " name
            if (n) printf "RATIO %s:%s %.2f / %.2f / %.2f of %d, asked for %s, beside the best of the others:%s\n", what, at_least, r[1], r[int((n + 1) / 2)], r[n], n, bar, list
        }' "$folder/rows"
}

# ---- the commands ----

cost() {
    : >"$folder/rows"
    # Memory that a virtual machine has not had so far costs whoever asks for it first; not counted.
    for tool in $tools; do measure "$tool" "$command" "$rate" >/dev/null; done
    for _ in $(seq "$runs"); do
        for tool in $tools; do measure "$tool" "$command" "$rate" | tee -a "$folder/rows"; done
    done
    ratios 6 "user + system time per packet, $command, $rate packets/s" "at most $1" least
}

# hold PERCENT: a group for the capture.
hold() {
    local group=lrcap$$
    if [ -e /sys/fs/cgroup/cgroup.controllers ] && grep -qw cpu /sys/fs/cgroup/cgroup.controllers; then
        grep -qw cpu /sys/fs/cgroup/cgroup.subtree_control || echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
        mkdir "/sys/fs/cgroup/$group" && group_path=/sys/fs/cgroup/$group
        echo "$(($1 * 1000)) 100000" >"$group_path/cpu.max"
    elif [ -e /sys/fs/cgroup/cpu/cpu.cfs_quota_us ]; then
        mkdir "/sys/fs/cgroup/cpu/$group" && group_path=/sys/fs/cgroup/cpu/$group
        echo 100000 >"$group_path/cpu.cfs_period_us"
        echo $(($1 * 1000)) >"$group_path/cpu.cfs_quota_us"
    else
        echo "skipped: no cgroup with a cpu controller"
        exit 0
    fi
}

# lossless TOOL KIND: prints tool, kind, the highest rate at which nothing is lost (as sent), and "ceiling" where the sender gave no more.
lossless() {
    local low=0 high=$rate_max tried=$((rate_max / 8)) line sent pps captured dropped reached=0 word=""
    while [ $((high - low)) -gt $((high / 20)) ] && [ $tried -gt 100 ]; do
        line=$(measure "$1" "$2" "$tried")
        read -r _ sent pps captured dropped _ <<<"$line"
        echo "  $2 at $tried: $line" >&2
        if [ "$sent" -gt 0 ] && [ "$dropped" = 0 ] && [ "$captured" = "$sent" ]; then
            low=$tried
            reached=$((pps > reached ? pps : reached))
            if [ $((pps * 100)) -lt $((tried * 95)) ]; then word=ceiling; break; fi
            if [ $high = "$rate_max" ] && [ $((tried * 2)) -lt "$high" ]; then tried=$((tried * 2)); continue; fi
        else
            high=$tried
        fi
        tried=$(((low + high) / 2))
    done
    echo "$1 $2 $reached $word"
}

share_of_core() {
    hold "$share"
    for kind in $kinds; do
        : >"$folder/rows"
        for _ in $(seq "$runs"); do
            for tool in $tools; do lossless "$tool" "$kind" | tee -a "$folder/rows"; done
        done
        ratios 3 "highest rate without loss at $share % of a core, $kind" "at least $([ $kind = count ] && echo 2 || echo 1.5)" most
    done
}

# Both ports get half of the rate each, from a sender each; all cores may be used by all.
two_ports() {
    local cores one two half low high sent0 sent1 pps0 pps1 captured dropped
    cores=0-$(($(nproc) - 1))
    source_core=$cores capture_core=$cores
    : >"$folder/rows"
    for _ in $(seq "$runs"); do
        one=$(lossless linerate count | tee /dev/stderr | awk '{ print $3 }')
        if [ "$one" = 0 ]; then echo "skipped: no rate without loss was found"; exit 0; fi
        low=0 high=$((rate_max / 2)) half=$((one / 2)) two=0
        while [ $((high - low)) -gt $((high / 20)) ] && [ $half -gt 100 ]; do
            capture linerate ports
            send 1 $half "$time" >"$folder/second" &
            children+=($!)
            read -r sent0 pps0 < <(send 0 $half "$time")
            wait "${children[1]}"
            read -r sent1 pps1 <"$folder/second"
            read -r _ _ _ captured dropped _ < <(end linerate $((sent0 + sent1)) $((pps0 + pps1)))
            echo "  ports $half each: sent $sent0 + $sent1, captured $captured, dropped $dropped" >&2
            if [ "$dropped" = 0 ] && [ "$captured" = $((sent0 + sent1)) ]; then
                low=$half two=$((pps0 + pps1))
                if [ $((two * 100)) -lt $((half * 2 * 95)) ]; then break; fi
            else
                high=$half
            fi
            half=$(((low + high) / 2))
        done
        echo "linerate $one one"
        echo "one $one" >>"$folder/rows"
        echo "linerate $two two" | tee -a "$folder/rows"
    done
    awk '$1 == "one" { one = $2 } $1 == "linerate" { r[++n] = $2 / one }
        END { for (i = n; i > 1; i--) for (j = 1; j < i; j++) if (r[j] > r[j + 1]) { t = r[j]; r[j] = r[j + 1]; r[j + 1] = t }
              printf "RATIO sum of two ports to one, highest rates without loss: %.2f / %.2f / %.2f of %d, asked for at least 1\n", r[1], r[int((n + 1) / 2)], r[n], n }' "$folder/rows"
}

# One packet of a hundred has the port that passes. Captured is what passed.
one_percent() {
    filter="udp src port 1024"
    : >"$folder/rows"
    for _ in $(seq "$runs"); do
        for tool in $tools; do measure "$tool" filter "$rate" --flows 100 | tee -a "$folder/rows"; done
    done
    ratios 6 "user + system time per packet sent, a filter that passes 1 %" "(no bar: 99 % are not copied)" least
    awk '$1 == "linerate" { printf "linerate: %.2f %% of the packets sent came into this process\n", 100 * $4 / $2 }' "$folder/rows"
}

# resident NAME: kilobytes.
resident() {
    awk '/^VmRSS/ { print $2 }' "/proc/$(cat "$folder/$1.pid")/status" 2>/dev/null || echo 0
}

rotating() {
    local highest half sent pps captured dropped bytes
    time=5
    highest=$(lossless linerate file | awk '{ print $3 }')
    half=$((highest / 2))
    time=$runs
    bytes=$((1 << 28))
    echo "$highest packets/s without loss for 5 s; now $half for $time s, files of $bytes bytes, 1 GiB of them kept"
    rm -f "$folder"/out*
    (
        TIMEFORMAT='%3U %3S'
        time in_namespace "$far" "$capture_core" capture "$linerate" capture -i rx0 --ring $((ring << 20)) --json --interval 3600s \
            -w "$folder/out.pcapng" --file-bytes $bytes --total-bytes $((bytes * 4)) >"$folder/said" 2>&1 || true
    ) 2>"$folder/time" &
    children=($!)
    sleep 2
    send 0 $half "$time" >"$folder/second" &
    children+=($!)
    sleep 5
    : >"$folder/memory"
    while kill -0 "${children[1]}" 2>/dev/null; do
        resident capture >>"$folder/memory"
        sleep 5
    done
    wait "${children[1]}" || true
    read -r sent pps <"$folder/second"
    read -r _ _ _ captured dropped _ < <(end linerate "$sent" "$pps")
    awk 'NR == 1 { first = low = high = $1 } { last = $1; if ($1 < low) low = $1; if ($1 > high) high = $1 }
        END { printf "resident memory of %d samples, KiB: first %d, last %d, lowest %d, highest %d\n", NR, first, last, low, high }' "$folder/memory"
    tail -1 "$folder/said"
    echo "RESULT $time s at $pps packets/s: sent $sent, written $captured, missing $((sent - captured)), dropped $dropped, asked for 0 missing"
}

# fill NAME FILE: captures into a file on the mounted disk until that is full.
fill() {
    local status=0 sent counted read
    in_namespace "$far" "$capture_core" capture "$linerate" capture -i rx0 --json --interval 3600s -w "$folder/disk/$2" \
        >"$folder/said" 2>&1 &
    children=($!)
    sleep 1
    read -r sent _ < <(send 0 500000 5)
    sleep 1
    if kill -0 "${children[0]}" 2>/dev/null; then
        echo "FAIL $1: it goes on though the disk is full"
        kill -INT "$(cat "$folder/capture.pid")"
    fi
    wait "${children[0]}" || status=$?
    children=()
    rm -f "$folder/capture.pid"
    read -r counted _ < <(counts linerate)
    read=$("$linerate" read "$folder/disk/$2" 2>"$folder/complaints" | wc -l)
    echo "RESULT full disk, $1: status $status, sent $sent, written by the account $counted, read from the file $read, complaints of the reader $(wc -l <"$folder/complaints")"
    grep -v schema "$folder/said" | tail -3 | sed 's/^/    /'
}

full() {
    mkdir "$folder/disk"
    if mount -t tmpfs -o size=24m tmpfs "$folder/disk"; then
        fill "through the page cache" full.pcap
        umount "$folder/disk"
    else
        echo "skipped: no tmpfs can be mounted"
    fi
    truncate -s 48M "$folder/image"
    if command -v mkfs.ext4 >/dev/null && mkfs.ext4 -q "$folder/image" && loop_device=$(losetup -f --show "$folder/image") &&
        mount "$loop_device" "$folder/disk"; then
        fill "past the page cache" full.pcapng
    else
        echo "skipped: no ext4 image can be mounted"
    fi
}

wire
case $command in
count) cost 0.5 ;;
file) cost 0.6 ;;
share) share_of_core ;;
ports) two_ports ;;
filter) one_percent ;;
long) rotating ;;
full) full ;;
esac
