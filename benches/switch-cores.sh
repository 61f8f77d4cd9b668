#!/usr/bin/env bash
# The engine of the switch on two cores with one MAC table beside one core, 10,000 stations a core, sources and sinks in memory on each.
#
#   benches/switch-cores.sh [RUNS [PACKETS]]     after `cargo build --release -p linerate-benches`
#
# Runs alternate; a run's rate is its packets by the thread time of its busiest core. Prints the ratio of two cores to one, and, as what the machine
# has to give, of two switches that have nothing in common to one, least, median and most; and the instructions per packet of each (with valgrind).
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-7} packets=${2:-20000000}
binary=${CARGO_TARGET_DIR:-target}/release/linerate-loop
[ -x "$binary" ] || { echo "there is no $binary: cargo build --release -p linerate-benches" >&2; exit 2; }

# Nanoseconds of a core for a packet.
cost() { "$binary" "$1" "$packets" | awk '{ print $3 / $1 }'; }

ratios=() alone_ratios=()
spread() { printf '%s\n' "${@:2}" | sort -n | awk -v what="$1" '{ at[NR] = $1 } END { printf "%s: %s / %s / %s\n", what, at[1], at[int((NR + 1) / 2)], at[NR] }'; }
ratio() { awk -v one="$1" -v two="$2" 'BEGIN { printf "%.2f", one / two }'; }
for run in $(seq "$runs"); do
    one=$(cost switch_engine_10k_macs)
    two=$(cost switch_engine_two_cores)
    alone=$(cost switch_engine_two_alone)
    echo "run $run: nanoseconds of a core for a packet: one core $one, two cores $two, two switches $alone"
    ratios+=("$(ratio "$one" "$two")") alone_ratios+=("$(ratio "$one" "$alone")")
done
spread "two cores with one table / one core" "${ratios[@]}"
spread "two switches with a core each / one core" "${alone_ratios[@]}"
command -v valgrind >/dev/null || exit 0
collected() { valgrind --tool=callgrind --callgrind-out-file=/dev/null "$binary" "$1" "$2" 2>&1 | awk '/Collected/ { print $NF }'; }
for loop in switch_engine_10k_macs switch_engine_shared switch_engine_two_cores switch_engine_two_alone switch_engine_crossing; do
    few=$(collected "$loop" 100000)
    many=$(collected "$loop" 300000)
    awk -v a="$few" -v b="$many" -v loop="$loop" 'BEGIN { printf "%-26s %.1f instructions a packet\n", loop, (b - a) / 200000 }'
done
