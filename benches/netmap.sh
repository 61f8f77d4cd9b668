#!/bin/sh
# `netmap:` ports beside netmap's own pkt-gen, in a user-mode Linux with netmap (docs/netmap.md): packets a second, CPU time of the host for each packet, and the ratios of each pair.
#     benches/netmap.sh FOLDER [PAIRS [PACKETS [ROW...]]]          5 pairs of runs of 20,000,000 packets of each row, in turn
# Rows: vale-tx (nobody receives), vale-rx, pipe-tx, pipe-rx, veth-tx, veth-rx. In tx rows the sender changes and netmap's pkt-gen receives, in rx rows the receiver changes and netmap's
# pkt-gen sends; a rate is what the one that changes counts in the sender's time. Each pair begins with the other one. Calls take 512 packets.
# bridge: linerate bridge with zerocopy beside without, between two pipes of one memory area, netmap's pkt-gen at both ends; a tenth of the packets.
# The CPU time is that of the whole user-mode Linux (sender, kernel, receiver) while packets are sent. It hardly depends on what else the host does, as rates do. A ratio is above 1 if ours is faster, or takes less.
# The user-mode Linux runs on one core (the last one), ahead of others: its kernel and its processes take turns, and on two cores each turn would wake the other core.
# BESIDE=PROGRAM sets another build of ours beside, instead of netmap's pkt-gen. FOLDER is what crates/ports/netmap/uml/build.sh made. Wants python3. Builds nothing: cargo build --release -p linerate
set -eu
[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$(realpath "$1")
shift
here=$(cd "$(dirname "$0")/.." && pwd)
linerate=$(realpath "${LINERATE:-${CARGO_TARGET_DIR:-$here/target}/release/linerate}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Inside: one run.
cat > "$work/inside.py" <<'END'
import os, re, signal, subprocess, sys, time

folder, ours, beside, work, row, side, packets = sys.argv[1:]
packets = int(packets)


def start(changes, port, *arguments):
    """A pkt-gen. The one that changes is ours, or what is beside it; the other one is netmap's."""
    program = (ours if side == 'ours' else beside) if changes else ''
    command = [program, 'pkt-gen'] if program else [folder + '/pkt-gen']
    # A port of a switch has netmap's name in netmap's pkt-gen.
    name = port if not program and port.startswith('vale') else 'netmap:' + port
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


def mark(name):
    """The host reads its clocks now."""
    try:
        open(work + '/' + name, 'w').close()
    except FileNotFoundError:
        return  # The host was quicker than the kernel here, which looks for the file that it made.
    while name in os.listdir(work):
        time.sleep(0.02)


def sent_and_received(sender, receiving):
    """Totals of both. A receiver does not end by itself, since a busy host may keep packets away for long enough to be taken for silence."""
    if receiving:
        time.sleep(1.5)
    mark('begin')
    sent = total(sender())
    if not receiving:
        return sent, sent
    time.sleep(0.5)
    mark('end')
    receiving.send_signal(signal.SIGINT)
    return sent, total(receiving)


def measure_bridge():
    """What arrives in the sender's time; all of it must."""
    names = ['netmap:lr{' + str(number) + (',zerocopy' if side == 'ours' else '') for number in (1, 2)]
    receiving = start(False, 'lr}2', '-f', 'rx')
    bridge = subprocess.Popen([ours, 'bridge', *names], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    (sent, seconds), (received, _) = sent_and_received(lambda: start(False, 'lr}1', '-f', 'tx', '-n', str(packets)), receiving)
    bridge.send_signal(signal.SIGINT)
    bridge.wait(timeout=60)
    if received != sent:
        sys.exit(f'bridge: {received} of {sent} packets arrived')
    return received, seconds


PORTS = {'vale': ('vale0:r', 'vale0:s'), 'pipe': ('lr{1', 'lr}1'), 'veth': ('near', 'far')}


def measure():
    if row == 'bridge':
        return measure_bridge()
    (receiver, sender), sends = PORTS[row[:4]], row.endswith('tx')
    if row.startswith('veth'):
        subprocess.run('ip link add near type veth peer name far && ip link set near up && ip link set far up', shell=True, check=True)
    receiving = None if row == 'vale-tx' else start(not sends, receiver, '-f', 'rx')
    (sent, seconds), (received, _) = sent_and_received(lambda: start(sends, sender, '-f', 'tx', '-n', str(packets)), receiving)
    return sent if sends else received, seconds


count, seconds = measure()
if row == 'vale-tx':
    mark('end')
print('result', count, seconds)
END

cat > "$work/outside.py" <<'END'
import glob, os, statistics, subprocess, sys, time

folder, ours, beside, run, work = sys.argv[1:6]
pairs, packets = int((sys.argv[6:] or [5])[0]), int((sys.argv[7:] or [20_000_000])[0])
ROWS = ['vale-tx', 'vale-rx', 'pipe-tx', 'pipe-rx', 'veth-tx', 'veth-rx', 'bridge']
rows = sys.argv[8:] or ROWS


def children(pid):
    try:
        return [int(child) for path in glob.glob(f'/proc/{pid}/task/*/children') for child in open(path).read().split()]
    except OSError:
        return []


def kernel(pid):
    """The process of the user-mode Linux below `pid` that started all others."""
    try:
        return pid if os.readlink(f'/proc/{pid}/exe') == folder + '/linux' else next(filter(None, map(kernel, children(pid))), None)
    except OSError:
        return None


def cpu_s(pid):
    """CPU seconds of a process, its children that ended, and those that live."""
    try:
        fields = open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15])) / os.sysconf('SC_CLK_TCK') + sum(map(cpu_s, children(pid)))


def measure(row, side):
    """Packets a second, and nanoseconds of CPU time for each packet."""
    command = ['nice', '-n', '-10', 'taskset', '-c', str(max(os.sched_getaffinity(0))), run, '-t', '900', folder, 'python3', work + '/inside.py', folder, ours, beside, work, row, side, str(packets // 10 if row == 'bridge' else packets)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    times = {}
    while process.poll() is None:
        for name in ('begin', 'end'):
            if os.path.exists(f'{work}/{name}'):
                times[name] = cpu_s(kernel(process.pid))
                os.unlink(f'{work}/{name}')
        time.sleep(0.02)
    text = process.stdout.read()
    if process.returncode or 'result' not in text:
        sys.exit(text)
    count, seconds = text.split('result', 1)[1].split()[:2]
    return int(count) / float(seconds), (times['end'] - times['begin']) * 1e9 / int(count)


def figures(values):
    values = sorted(values)
    return f'{values[0]:.2f} / {statistics.median(values):.2f} / {values[-1]:.2f}'


print('row'.ljust(9) + 'rate, ratio: min / med / max'.ljust(30) + 'Mpps: ours, beside'.ljust(20) + 'CPU time, ratio'.ljust(24) + 'ns a packet: ours, beside', flush=True)
for row in rows:
    runs = {'ours': [], 'beside': []}
    for pair in range(pairs):
        for side in ('ours', 'beside') if pair % 2 else ('beside', 'ours'):
            runs[side].append(measure(row, side))
    both = list(zip(runs['ours'], runs['beside']))
    median = {side: [statistics.median(values) for values in zip(*runs[side])] for side in runs}
    print(row.ljust(9) + figures(one[0] / other[0] for one, other in both).ljust(30)
          + f"{median['ours'][0] / 1e6:.2f}, {median['beside'][0] / 1e6:.2f}".ljust(20)
          + figures(other[1] / one[1] for one, other in both).ljust(24)
          + f"{median['ours'][1]:.0f}, {median['beside'][1]:.0f}", flush=True)
END
python3 "$work/outside.py" "$folder" "$linerate" "${BESIDE:+$(realpath "$BESIDE")}" "$here/crates/ports/netmap/uml/run.sh" "$work" "$@"
