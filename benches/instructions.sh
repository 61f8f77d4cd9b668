#!/usr/bin/env bash
# Instructions per packet of each one-core hot loop, counted by valgrind's callgrind: noise does not move them, a change does.
#
#   benches/instructions.sh           prints a table beside the recorded one, and says which loops drifted by more than 2 %
#   benches/instructions.sh --record  writes benches/instructions.csv
#
# The count of a run of 300,000 packets less that of one of 100,000, so that the start of the process is not in it.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "skipped: valgrind is not installed" >&2; exit 0; }
cargo build --quiet --release -p linerate-benches
binary=${CARGO_TARGET_DIR:-target}/release/linerate-loop
recorded=benches/instructions.csv

count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$binary" "$1" "$2" 2>&1 |
        awk '/Collected/ { print $NF }'
}

table() {
    echo "loop,instructions_per_packet"
    for loop in gen_null_fixed gen_null_flows gen_null_signed pipe_one_core_unread pipe_one_core_checked receive_check \
        switch_two_macs switch_10k_macs switch_1514 switch_engine_10k_macs record filter; do
        few=$(count "$loop" 100000)
        many=$(count "$loop" 300000)
        echo "$loop,$(awk -v a="$few" -v b="$many" 'BEGIN { printf "%.1f", (b - a) / 200000 }')"
    done
}

if [ "${1:-}" = --record ]; then
    table | tee "$recorded"
    rustc --version | sed 's/^/# /' >>"$recorded"
else
    table | awk -F, 'NR == FNR { old[$1] = $2; next } { drift = ""
        if ($1 in old && $2 + 0 > 0 && (old[$1] / $2 > 1.02 || $2 / old[$1] > 1.02)) drift = "  drifted"
        print $1, $2, "recorded", old[$1] drift }' "$recorded" -
fi
