#!/bin/sh
# `netmap:` ports beside netmap's own pkt-gen, in a user-mode Linux with netmap (docs/netmap.md): packets a second, and the ratio of each pair.
#     benches/netmap.sh FOLDER [PAIRS [PACKETS [ROW...]]]          5 pairs of runs of 20,000,000 packets of each row, in turn
# Rows: vale-tx (nobody receives), vale-rx, pipe-tx, pipe-rx, veth-tx, veth-rx. In tx rows the sender changes and netmap's pkt-gen receives, in rx rows the receiver changes and netmap's
# pkt-gen sends; a rate is what the one that changes counts in the sender's time. Each pair begins with the other one. Calls take 512 packets.
# bridge: linerate bridge with zerocopy beside without, between two pipes of one memory area, netmap's pkt-gen at both ends; a tenth of the packets.
# FOLDER is what crates/ports/netmap/uml/build.sh made. Wants python3. Builds nothing: cargo build --release -p linerate
set -eu
[ $# -ge 1 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$(realpath "$1")
shift
here=$(cd "$(dirname "$0")/.." && pwd)
linerate=$(realpath "${CARGO_TARGET_DIR:-$here/target}/release/linerate")
script=$(mktemp)
trap 'rm -f "$script"' EXIT
cat > "$script" <<'END'
import re, signal, statistics, subprocess, sys, time

folder, linerate = sys.argv[1:3]
pairs, packets = int((sys.argv[3:] or [5])[0]), int((sys.argv[4:] or [20_000_000])[0])
ROWS = ['vale-tx', 'vale-rx', 'pipe-tx', 'pipe-rx', 'veth-tx', 'veth-rx', 'bridge']
rows = sys.argv[5:] or ROWS


def start(ours, port, *arguments):
    command = [linerate, 'pkt-gen'] if ours else [folder + '/pkt-gen']
    # A port of a switch has netmap's name in netmap's pkt-gen.
    name = port if not ours and port.startswith('vale') else 'netmap:' + port
    return subprocess.Popen([*command, '-i', name, '-w', '1', '-b', '512', *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def total(process):
    """Packets and seconds that a pkt-gen says at its end, of either kind."""
    try:
        text = process.communicate(timeout=600)[0]
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        sys.exit('no end within ten minutes:\n' + process.communicate()[0][-2000:])
    found = re.search(r'(?:Sent|Received) (\d+) packets .* in ([0-9.]+) seconds', text)
    if not found:
        sys.exit('no total in:\n' + text[-2000:])
    return int(found[1]), float(found[2])


def stopped(receiving):
    """Totals of a receiver whose sender is done. It does not end by itself, since a busy host may keep packets away for long enough to be taken for silence."""
    time.sleep(0.5)
    receiving.send_signal(signal.SIGINT)
    return total(receiving)


def measure_bridge(zerocopy):
    """What arrives in the sender's time; all of it must."""
    names = ['netmap:lr{' + str(number) + (',zerocopy' if zerocopy else '') for number in (1, 2)]
    receiving = start(False, 'lr}2', '-f', 'rx')
    bridge = subprocess.Popen([linerate, 'bridge', *names], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    time.sleep(1.5)
    (sent, seconds), (received, _) = total(start(False, 'lr}1', '-f', 'tx', '-n', str(packets // 10))), stopped(receiving)
    bridge.send_signal(signal.SIGINT)
    bridge.wait(timeout=60)
    if received != sent:
        sys.exit(f'bridge: {received} of {sent} packets arrived')
    return received / seconds


PORTS = {'vale': ('vale0:r', 'vale0:s'), 'pipe': ('lr{1', 'lr}1'), 'veth': ('near', 'far')}


def measure(row, ours):
    if row == 'bridge':
        return measure_bridge(ours)
    (receiver, sender), sends = PORTS[row[:4]], row.endswith('tx')
    tx = ['-f', 'tx', '-n', str(packets)]
    if row == 'vale-tx':
        count, seconds = total(start(ours, sender, *tx))
        return count / seconds
    receiving = start(ours and not sends, receiver, '-f', 'rx')
    time.sleep(1.5)
    sending = start(ours and sends, sender, *tx)
    (sent, seconds), (received, _) = total(sending), stopped(receiving)
    return (sent if sends else received) / seconds


subprocess.run('ip link add near type veth peer name far && ip link set near up && ip link set far up', shell=True, check=True)
print('row'.ljust(13) + 'ratio: min / median / max'.ljust(28) + 'Mpps: ours, beside', flush=True)
for row in rows:
    ours, beside = [], []
    for pair in range(pairs):
        for side in ([ours, beside] if pair % 2 else [beside, ours]):
            side.append(measure(row, side is ours))
    ratios = sorted(one / other for one, other in zip(ours, beside))
    print(row.ljust(13) + f'{ratios[0]:.2f} / {statistics.median(ratios):.2f} / {ratios[-1]:.2f}'.ljust(28)
          + f'{statistics.median(ours) / 1e6:.2f}, {statistics.median(beside) / 1e6:.2f}', flush=True)
END
"$here/crates/ports/netmap/uml/run.sh" -t 3000 "$folder" python3 "$script" "$folder" "$linerate" "$@"
