#!/usr/bin/env bash
# Instructions per packet of each one-core hot loop, counted by valgrind: noise does not move them, a change does.
#
#   benches/instructions.sh           prints a table beside the recorded one; fails if a loop drifted by more than 3 %
#   benches/instructions.sh --record  writes benches/instructions.csv
#   benches/instructions.sh --build   builds what is counted, and counts nothing
#
# As many loops at a time as there are cores.
# The count of a run of 150,000 packets less that of one of 50,000, so that the start of the process is not in it; twice that for the loops whose
# caches and tables are not full before, and a fifth for those that take thousands of instructions, which are half of the time otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "skipped: valgrind is not installed" >&2; exit 0; }
cargo build --quiet --release --locked -p linerate-benches --no-default-features --bin linerate-loop --bin tcp-echo
[ "${1:-}" != --build ] || exit 0
tcp_echo=${CARGO_TARGET_DIR:-target}/release/tcp-echo
binary=${CARGO_TARGET_DIR:-target}/release/linerate-loop
recorded=benches/instructions.csv

# Instructions of a command. The switch notes and ages its addresses by the clock, more often per packet the slower the machine is, so its clock
# stands still. Cachegrind without its caches counts what callgrind counts, in a quarter of the time.
collected() {
    LINERATE_CLOCK_STANDS_STILL=1 valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null "$@" 2>&1 |
        awk '/I +refs:/ { gsub(",", "", $NF); print $NF }'
}

# Instructions of a loop with so many packets (of the TCP stack: echoes over 256 connections, or connections that are set up, used, and closed).
count() {
    case $1 in
        tcp_echo) collected "$tcp_echo" "echoes=$2" ;;
        tcp_setup) collected "$tcp_echo" mode=open connections=1 window=256 "echoes=$2" ;;
        *) collected "$binary" "$1" "$2" ;;
    esac
}

# The row of a loop. Some loops do something by the clock now and then, and under valgrind on a busy machine one time more: what is more than 2 % above the record is counted again, twice at most, and the least of the counts is the row's.
row() {
    local few many seen least= packets=50000
    case $1 in
        rules_20_masks | openflow_flow_mods | openflow_flow_entries | tcp_echo | tcp_setup) packets=10000 ;;
        *_10k_* | cache_* | ofswitch_* | openflow_*) packets=100000 ;;
    esac
    for _ in 1 2 3; do
        few=$(count "$1" "$packets")
        many=$(count "$1" $((3 * packets)))
        seen=$(awk -v a="$few" -v b="$many" -v packets="$packets" 'BEGIN { printf "%.1f", (b - a) / (2 * packets) }')
        least=$(awk -v seen="$seen" -v least="${least:-$seen}" 'BEGIN { print seen < least ? seen : least }')
        awk -F, -v name="$1" -v least="$least" '$1 == name && least > 1.02 * $2 { found = 1 } END { exit !found }' "$recorded" || break
    done
    echo "$1,$least"
}

table() {
    echo "loop,instructions_per_packet"
    local loops=(gen_null_fixed gen_null_flows gen_null_signed pipe_one_core_unread pipe_one_core_checked memif_opened receive_check
        impair_loss impair_delay impair_jitter switch_two_macs switch_10k_macs switch_1514
        switch_engine_10k_macs switch_engine_shared switch_engine_crossing record filter
        key_udp key_tagged_tcp6 key_arp actions_route actions_translate actions_tag
        cache_one_flow cache_10k_flows rules_20_masks rules_20_masks_sorted rules_20_masks_unknown
        ofswitch_engine_one_flow ofswitch_engine_10k_flows ofswitch_engine_10k_entries ofswitch_engine_20_masks ofswitch_engine_packets openflow_flow_mods openflow_flow_entries openflow_flow_stats
        udp_loop udp_loop_bound udp_loop_checksums tcp_echo tcp_setup)
    local rows loop
    rows=$(mktemp -d)
    for loop in "${loops[@]}"; do
        row "$loop" >"$rows/$loop" &
        # One more when one ends.
        while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
    done
    wait
    local missing=0
    for loop in "${loops[@]}"; do [ -s "$rows/$loop" ] && cat "$rows/$loop" || missing=1; done
    rm -r "$rows"
    return "$missing"
}

if [ "${1:-}" = --record ]; then
    table | tee "$recorded"
    rustc --version | sed 's/^/# /' >>"$recorded"
else
    table | awk -F, '
        /^#/ || $1 == "loop" { next }
        NR == FNR { recorded[$1] = $2; next }
        { seen[$1] = 1; drift = ""
          if (!($1 in recorded)) drift = "  NOT RECORDED"
          else if ($2 + 0 <= 0 || recorded[$1] / $2 > 1.03 || $2 / recorded[$1] > 1.03) drift = "  DRIFTED"
          if (drift) failed = failed " " $1
          printf "%-24s %8.1f  recorded %8.1f%s\n", $1, $2, recorded[$1], drift }
        END { for (loop in recorded) if (!(loop in seen)) { print loop " was not counted"; failed = failed " " loop }
              if (failed) { print "more than 3 % off, or not comparable:" failed; print \
                  "mend the loop, or record the counts with `benches/instructions.sh --record` and say in the commit why they moved"; exit 1 } }
        ' "$recorded" -
fi
