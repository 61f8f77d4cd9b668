#!/usr/bin/env bash
# Instructions and cache misses of an echo of the TCP stack by part, counted and simulated by valgrind's callgrind (the simulated caches are those of
# this core, without its prefetchers; what the stack asks for ahead counts as a miss of nobody).
#
#   benches/tcp-parts.sh [KEY=VALUE ...]     settings of tcp-echo, such as connections=100000 order=robin
#
# The counts of a run with 600,000 echoes less those of one with 200,000. A line of the standard library counts for the part that it was inlined into.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "skipped: valgrind is not installed" >&2; exit 0; }
if [ -z "${TCP_ECHO:-}" ]; then
    cargo build --quiet --profile profiling --locked -p linerate-benches --bin tcp-echo
    TCP_ECHO=${CARGO_TARGET_DIR:-target}/profiling/tcp-echo
fi
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

run() {
    valgrind --tool=callgrind --cache-sim=yes --callgrind-out-file="$folder/$1" "$TCP_ECHO" "echoes=$1" "${@:2}" >/dev/null 2>&1
}
run 200000 "$@"
run 600000 "$@"

awk '
    function part(file) {
        if (file ~ /slab\/src\/tag_table|tcp\/src\/(hash|tuple)\.rs/) return "lookup"
        if (file ~ /slab\/src\/(wheel|fifo)|engine\/timers|send\/timer|tcp\/src\/time/) return "timers"
        if (file ~ /base\/mem\/|slab\/src\/(slab|array)|(send|receive)\/memory|send\/(chunk|queue)|memmove|memcpy|memset/) return "memory"
        if (file ~ /engines\/ip\/|tcp\/src\/egress/) return "IP"
        if (file ~ /engines\/tcp\//) return "TCP"
        if (file ~ /tcp-echo|base\/sys\/|port\/port\//) return "bench"
        return ""
    }
    FNR == 1 { sign = NR == 1 ? -1 : 1; current = "other"; split("", files) }
    /^c?f[lie]=/ {
        id = $1; sub(/^c?f[lie]=/, "", id)
        name = $0; if (sub(/^[^ ]* /, "", name)) files[id] = name
        if ($0 ~ /^c/) next
        found = part(files[id])
        if (found != "") current = found; else if ($0 ~ /^fl=/) current = "other"
        next
    }
    /^calls=/ { skip = 1; next }
    /^[-+*0-9]/ {
        if (skip) { skip = 0; next }
        seen[current] = 1
        instructions[current] += sign * $2; first[current] += sign * ($6 + $7); last[current] += sign * ($9 + $10)
    }
    END {
        printf "%-8s %14s %24s %24s\n", "part", "instructions", "misses, first level", "misses, last level"
        count = split("lookup TCP IP timers memory bench other", order, " ")
        for (at = 1; at <= count; at++) {
            name = order[at]
            printf "%-8s %14.1f %24.2f %24.2f\n", name, instructions[name] / 400000, first[name] / 400000, last[name] / 400000
            a += instructions[name]; b += first[name]; c += last[name]
        }
        printf "%-8s %14.1f %24.2f %24.2f\n", "all", a / 400000, b / 400000, c / 400000
    }' "$folder/200000" "$folder/600000"
