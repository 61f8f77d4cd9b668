#!/bin/sh
# What two ports of `linerate switch` keep of their packets while a third port, vhost-user, has a guest that sends all it can in expensive ways or
# against the rules (crates/ports/vhost/examples/hostile.rs), alternating with a guest that sends all it can in the cheapest way: one that
# behaves and is as busy. The two ports are files that are read again and again, so they always have packets, whoever else has the cores.
#     benches/switch-hostile.sh [RUNS [SECONDS [KIND...]]]
# Wants python3, and for the last figure a Linux with schedstats. Builds nothing:
# cargo build --release -p linerate && cargo build --release -p linerate-port-vhost --example hostile
# Prints for each run: the kind of guest, nanoseconds of the switch's core for each packet of the two ports (the guest's share is in it), millions
# of packets of these ports and of the guest, and the share of the time for which the switch had its core. In the end what is kept: ratios of
# neighbouring runs, min / median / max. The aim is 0.9.
set -eu
runs=${1:-5}
seconds=${2:-2}
shift $(($# < 2 ? $# : 2))
built=${CARGO_TARGET_DIR:-target}/release
folder=$(mktemp -d)
export XDG_RUNTIME_DIR="$folder"
switch='' guest=''
end_all() {
    for process in $guest $switch; do kill "$process" 2>/dev/null || true; done
    wait
    switch='' guest=''
}
trap 'end_all; rm -rf "$folder"' EXIT
trap 'exit 2' INT TERM

# Packets of 64 bytes to their own sender, which a switch drops: what they cost is the port's alone.
python3 - "$folder" <<'PY'
import struct, sys
for last, name in enumerate("ab", 1):
    mac = bytes([2, 0, 0, 0, 0, last])
    packet = mac + mac + b"\x08\x00" + bytes(50)
    with open(f"{sys.argv[1]}/{name}.pcap", "wb") as file:
        file.write(struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        file.write((struct.pack("<IIII", 0, 0, len(packet), len(packet)) + packet) * 1024)
PY

# Nanoseconds that the worker was on its core and waited for it, and packets received from the two ports and from the third.
count() {
    cut -d' ' -f1,2 "${task%comm}schedstat"
    "$built/linerate" switch ctl --name bench --json show stats >"$folder/stats"
    python3 - "$folder/stats" <<'PY'
import json, sys
received = {port["name"]: port["received"] for port in json.load(open(sys.argv[1]))["ports"]}
print(received["a"] + received["b"], received["c"])
PY
}

# with KIND: a run with a guest of this kind.
with() {
    nice -n -20 "$built/linerate" switch --name bench --cores 1 --quiet --port "a=file:$folder/a.pcap,loop" \
        --port "b=file:$folder/b.pcap,loop" --port "c=vhost:$folder/c" >"$folder/out" 2>&1 &
    switch=$!
    sleep 0.5
    nice -n -20 "$built/examples/hostile" "$folder/c" "$1" >"$folder/hostile" 2>&1 &
    guest=$!
    sleep 1
    task=$(grep -l '^worker' /proc/$switch/task/*/comm | head -1)
    first=$(count)
    sleep "$seconds"
    last=$(count)
    end_all
    echo $first $last "$1" | awk '{
        on = $5 - $1
        printf "%-8s %.1f ns, %.2f M, %.2f M, %.2f\n", $9, on / ($7 - $3), ($7 - $3) / 1e6, ($8 - $4) / 1e6, on / (on + $6 - $2)
    }' | tee -a "$folder/results"
}

for kind in ${*:-empty chain indirect tiny refused kicks}; do
    : >"$folder/results"
    for _ in $(seq "$runs"); do
        with plain
        with "$kind"
    done
    # The time of a packet beside a guest that behaves, by its time beside this one.
    awk '{ if ($1 == "plain") plain = $2; else print plain / $2 }' "$folder/results" | sort -n | awk -v kind="$kind" '
        { ratio[NR] = $1 }
        END { printf "kept beside %s: %.2f / %.2f / %.2f of %d\n", kind, ratio[1], ratio[int((NR + 1) / 2)], ratio[NR], NR }'
done
