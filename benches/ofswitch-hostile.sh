#!/bin/sh
# Controllers that break the rules, and packets of installed entries meanwhile.
#     benches/ofswitch-hostile.sh [RATE [SECONDS [ATTACK...]]]
# `linerate send` sends RATE (500kpps: less than the switch can do, so that the machine has time for the attackers, which would otherwise
# take it from the sender) through the switch for SECONDS, without and with each attack of `openflow-load attack` in turn:
#   fuzz         messages with bytes changed at random
#   half         64 connections with a part of a message each, and silence
#   connections  64 connections that say nothing, and new ones all the time
#   packet-outs  packets of 1,000 bytes without a pause
#   tls          TLS handshakes that never end, also behind the switch's signature
# Prints for each: packets a second that passed without and with it, the share that passed of what could be sent with it, beside that without it
# (at least 0.95: on few cores the attackers and the thread that serves them take time from the sender, too), the switch's resident memory in MiB before
# and after, and what the attackers saw. Wants root and openssl. Builds nothing: cargo build --release -p linerate -p linerate-benches
# Exit status 1: a ratio is below 0.95, memory grew by more than 64 MiB, or the entries are not those that were installed.
set -eu
rate=${1:-500kpps}
seconds=${2:-5}
if [ $# -gt 2 ]; then shift 2; else set -- fuzz half connections packet-outs tls; fi
bin=${CARGO_TARGET_DIR:-target}/release
folder=$(mktemp -d)
export XDG_RUNTIME_DIR="$folder"
switch=
attacker=
trap 'for pid in $attacker $switch; do kill "$pid" 2>/dev/null || true; done; rm -rf "$folder"' EXIT
trap 'exit 2' INT TERM

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$folder/key.pem" -out "$folder/cert.pem" \
    -days 2 -subj /CN=switch 2>/dev/null
nice -n -20 "$bin/linerate" ofswitch --name hostile --cores 1 --quiet \
    --port "1=memif:$folder/sock,id=0" --port 2=null: --port 3=null: \
    --listen ptcp:16653:127.0.0.1 --listen pssl:16654:127.0.0.1 \
    --private-key "$folder/key.pem" --certificate "$folder/cert.pem" --ca-cert "$folder/cert.pem" >"$folder/out" 2>&1 &
switch=$!
ctl() { "$bin/linerate" ofswitch ctl --name hostile "$@"; }
for _ in $(seq 50); do
    if ctl show stats >/dev/null 2>&1; then break; fi
    sleep 0.1
done
ctl add-flow in_port=1,udp,actions=output:2

# Packets that left by port 2, where they are discarded, and packets that were sent, both a second.
left() { ctl --json show port | python3 -c 'import json, sys; print([port["tx_packets"] for port in json.load(sys.stdin) if port["name"] == "2"][0])'; }
passed() {
    left_before=$(left)
    nice -n -20 taskset -c 0 "$bin/linerate" send "memif:$folder/sock,role=client,id=0" --rate "$rate" --duration "${seconds}s" --json \
        2>/dev/null >"$folder/sent" || true
    sent=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["ports"][0]["sent"])' <"$folder/sent")
    echo $((($(left) - left_before) / seconds)) $((sent / seconds))
}
memory() { awk '/VmRSS/ { printf "%.0f", $2 / 1024 }' "/proc/$switch/status"; }

failed=0
printf '%-12s %10s %10s %6s %9s %9s  %s\n' attack without with ratio MiB after attackers
for kind in "$@"; do
    port=16653
    if [ "$kind" = tls ]; then port=16654; fi
    memory_before=$(memory)
    without=$(passed)
    taskset -c 0 nice -n 10 "$bin/openflow-load" attack "$kind" "127.0.0.1:$port" $((seconds + 2)) >"$folder/attack" &
    attacker=$!
    sleep 1
    with=$(passed)
    wait "$attacker" || { echo "$kind: the attacker failed" >&2; failed=1; }
    attacker=
    memory_after=$(memory)
    echo "$kind $without $with $memory_before $memory_after $(cut -d' ' -f4- "$folder/attack")" | awk '{
        ratio = ($4 / $5) / ($2 / $3)
        printf "%-12s %10d %10d %6.3f %9d %9d ", $1, $2, $4, ratio, $6, $7
        for (i = 8; i <= NF; i++) printf " %s", $i
        print ""
        exit ratio < 0.95 || $7 > $6 + 64
    }' || failed=1
    entries=$(ctl show flow | grep -c actions || true)
    if [ "$entries" != 1 ]; then echo "$kind: $entries entries are there" >&2; failed=1; fi
done
exit $failed
