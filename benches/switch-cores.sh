#!/usr/bin/env bash
# The engine of the switch on two cores with one MAC table beside one core, 10,000 stations a core, sources and sinks in memory on each.
#
#   benches/switch-cores.sh [RUNS [PACKETS]]     after `cargo build --release -p linerate-benches`
#
# Runs alternate; a run's rate is its packets by the thread time of its busiest core. Prints the ratio of two cores to one, least, median and
# most, and the instructions per packet of each (with valgrind).
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-7} packets=${2:-20000000}
binary=${CARGO_TARGET_DIR:-target}/release/linerate-loop
[ -x "$binary" ] || { echo "there is no $binary: cargo build --release -p linerate-benches" >&2; exit 2; }

# Nanoseconds of a core for a packet.
cost() { "$binary" "$1" "$packets" | awk '{ print $3 / $1 }'; }

ratios=()
for run in $(seq "$runs"); do
    one=$(cost switch_engine_10k_macs)
    two=$(cost switch_engine_two_cores)
    ratio=$(awk -v one="$one" -v two="$two" 'BEGIN { printf "%.2f", one / two }')
    echo "run $run: one core $one ns, two cores $two ns a packet: $ratio x"
    ratios+=("$ratio")
done
printf '%s\n' "${ratios[@]}" | sort -n | awk '{ at[NR] = $1 } END { printf "two cores / one: %s / %s / %s\n", at[1], at[int((NR + 1) / 2)], at[NR] }'
command -v valgrind >/dev/null || exit 0
collected() { valgrind --tool=callgrind --callgrind-out-file=/dev/null "$binary" "$1" "$2" 2>&1 | awk '/Collected/ { print $NF }'; }
for loop in switch_engine_10k_macs switch_engine_shared switch_engine_two_cores switch_engine_crossing; do
    few=$(collected "$loop" 100000)
    many=$(collected "$loop" 300000)
    awk -v a="$few" -v b="$many" -v loop="$loop" 'BEGIN { printf "%-26s %.1f instructions a packet\n", loop, (b - a) / 200000 }'
done
