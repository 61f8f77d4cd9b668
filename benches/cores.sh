#!/usr/bin/env bash
# Two cores beside one, sources and sinks in memory on each: the generator into `null:`, the switch with one MAC table, the OpenFlow switch
# with one set of tables (the same stations and flows as on one core), and TCP echoes between two pairs of shards; then the OpenFlow switch with one source and one sink, whose worker steers
# flows to a second worker (`--steer`), beside a worker alone.
#
#   benches/cores.sh [RUNS [PACKETS]]     after `cargo build --release -p linerate-benches`
#
# Runs alternate; a run's rate is its packets by the thread time of its busiest core (of echoes the sum of both; with steering by the time that passes). Prints the ratio of two cores to
# one, and, as what the machine has to give, of two switches that have nothing in common to one, least, median and most; and the instructions
# per packet of each (with valgrind).
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-7} packets=${2:-20000000}
folder=${CARGO_TARGET_DIR:-target}/release
loop=$folder/linerate-loop
[ -x "$loop" ] || { echo "there is no $loop: cargo build --release -p linerate-benches" >&2; exit 2; }

# Million packets a second of CPU time.
rate() { "$loop" "$1" "$packets" | awk '{ print $1 * 1e3 / $3 }'; }
passed() { "$loop" "$1" "$((packets / 4))" | awk '{ print $1 * 1e3 / $2 }'; }
echoes() { "$folder/tcp-echo" seconds=1 "cores=$1" | awk '/M echoes a second of CPU time/ { sum += $1 } END { print sum }'; }
declare -A ratios
beside() { # NAME ONE TWO
    local ratio
    ratio=$(awk -v one="$2" -v two="$3" 'BEGIN { printf "%.2f", two / one }')
    ratios[$1]="${ratios[$1]:-} $ratio"
    awk -v name="$1" -v one="$2" -v two="$3" -v ratio="$ratio" 'BEGIN { printf "  %-36s %6.1f M/s, one core %6.1f M/s: %s\n", name, two, one, ratio }'
}
for run in $(seq "$runs"); do
    echo "run $run"
    beside "generator" "$(rate gen_null_fixed)" "$(rate gen_null_two_cores)"
    one=$(rate switch_engine_10k_macs)
    beside "switch, one MAC table" "$one" "$(rate switch_engine_two_cores)"
    beside "the same, twice as many stations" "$one" "$(rate switch_engine_two_cores_20k)"
    beside "two switches" "$one" "$(rate switch_engine_two_alone)"
    one=$(rate ofswitch_engine_10k_flows)
    beside "OpenFlow switch, one set of tables" "$one" "$(rate ofswitch_engine_two_cores)"
    beside "two OpenFlow switches" "$one" "$(rate ofswitch_engine_two_alone)"
    beside "steered, flows in the cache" "$(passed ofswitch_engine_10k_flows)" "$(passed ofswitch_engine_steered)"
    beside "steered, fresh flows" "$(passed ofswitch_engine_fresh)" "$(passed ofswitch_engine_fresh_steered)"
    beside "TCP echo, 256 connections a pair" "$(echoes 1)" "$(echoes 2)"
done
echo "two cores / one core: least / median / most"
for name in "${!ratios[@]}"; do
    printf '%s\n' ${ratios[$name]} | sort -n |
        awk -v name="$name" '{ at[NR] = $1 } END { printf "  %-36s %s / %s / %s\n", name, at[1], at[int((NR + 1) / 2)], at[NR] }'
done
command -v valgrind >/dev/null || exit 0
collected() { valgrind --tool=callgrind --callgrind-out-file=/dev/null "$loop" "$1" "$2" 2>&1 | awk '/Collected/ { print $NF }'; }
for name in switch_engine_10k_macs switch_engine_shared switch_engine_two_cores switch_engine_two_cores_20k switch_engine_two_alone switch_engine_crossing \
    ofswitch_engine_10k_flows ofswitch_engine_two_cores ofswitch_engine_two_alone; do
    few=$(collected "$name" 100000)
    many=$(collected "$name" 300000)
    awk -v a="$few" -v b="$many" -v name="$name" 'BEGIN { printf "%-26s %.1f instructions a packet\n", name, (b - a) / 200000 }'
done
