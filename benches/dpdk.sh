#!/bin/sh
# `dpdk:` ports beside DPDK's testpmd, over the same libdpdk: packets for each second of CPU time of the thread that moves them, and the ratio.
#     benches/dpdk.sh [RUNS [SECONDS [ROLE...]]]          5 runs of 2 s of each role, in turn
# Roles: txonly, rxonly, io, macswap over net_null; io, macswap over net_ring, io also with `bytes=no`, as testpmd has it, which reads no packet; txonly over net_memif, whose peer is a testpmd that receives; flowgen with
# 10,000 flows, beside `linerate pkt-gen`. Each has core 1, a peer core 0. Huge pages are used where there are any.
# Wants dpdk-testpmd and python3. Builds nothing:
#     cargo build --release -p linerate --features dpdk
#     cargo build --release -p linerate-port-dpdk --features libdpdk --example roles
set -eu
target=$(realpath "${CARGO_TARGET_DIR:-target}/release")
exec python3 - "$target" "$@" <<'END'
import os, re, subprocess, sys, tempfile, threading, time

target, runs, seconds = sys.argv[1], int((sys.argv[2:] or [5])[0]), float((sys.argv[3:] or [2])[0])
HUGE = int(re.search(r'HugePages_Free:\s+(\d+)', open('/proc/meminfo').read())[1]) > 0
MEMORY = ['--in-memory'] if HUGE else ['--no-huge', '-m', '1024']
TICK = os.sysconf('SC_CLK_TCK')
folder = tempfile.mkdtemp()


class Testpmd:
    def __init__(self, cores, mode, vdevs, more=()):
        devices = [f'--vdev={vdev}' for vdev in vdevs]
        prefix = f'lr{os.getpid()}-{mode}-{cores[1]}'
        self.process = subprocess.Popen(
            ['stdbuf', '-oL', 'dpdk-testpmd', f'--lcores=0@{cores[0]},1@{cores[1]}', '--no-pci', '--no-telemetry', *MEMORY,
             f'--file-prefix={prefix}', *devices, '--', '-i', f'--forward-mode={mode}', '--burst=64',
             '--total-num-mbufs=16384', '--no-mlockall', *more],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.lines = []
        threading.Thread(target=lambda: self.lines.extend(self.process.stdout), daemon=True).start()

    def say(self, text):
        self.process.stdin.write(text + '\n')
        self.process.stdin.flush()

    def wait(self, pattern, count=1):
        """Numbers of the first `count` lines that match, which are forgotten."""
        for _ in range(3000):
            found = [re.search(pattern, line) for line in list(self.lines)]
            found = [match for match in found if match]
            if len(found) >= count:
                self.lines.clear()
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        sys.exit(f'testpmd: nothing matches {pattern}\n' + ''.join(self.lines[-20:]))

    def packets(self, ports, received):
        self.lines.clear()
        self.say('show port stats all')
        name = 'RX-packets' if received else 'TX-packets'
        return sum(int(match[1]) for match in self.wait(name + r': (\d+)', ports))

    def cpu_s(self):
        # Its forwarding thread; the others sleep.
        for task in os.listdir(f'/proc/{self.process.pid}/task'):
            path = f'/proc/{self.process.pid}/task/{task}/'
            if open(path + 'comm').read().startswith(('lcore-worker', 'rte-worker', 'dpdk-worker')):
                # In nanoseconds: time on the CPU.
                return int(open(path + 'schedstat').read().split()[0]) / 1e9
        sys.exit('testpmd has no forwarding thread')

    def end(self):
        try:
            self.say('quit')
            self.process.wait(20)
        except BrokenPipeError:
            self.process.wait()
        except subprocess.TimeoutExpired:
            self.process.kill()


def testpmd(mode, vdevs, tx_first):
    more = ['--flowgen-flows=10000'] if mode == 'flowgen' else []
    program = Testpmd((0, 1), mode, vdevs, more)
    program.wait('Done')
    program.say('start tx_first 8' if tx_first else 'start')
    time.sleep(0.5)
    ports = len(vdevs)
    first = (program.packets(ports, mode == 'rxonly'), program.cpu_s())
    time.sleep(seconds)
    last = (program.packets(ports, mode == 'rxonly'), program.cpu_s())
    program.end()
    return (last[0] - first[0]) / (last[1] - first[1])


def roles(mode, vdevs):
    words = ['taskset', '-c', '1', f'{target}/examples/roles', mode, str(seconds), *[f'dpdk:{vdev}' for vdev in vdevs]]
    out = subprocess.run(words, capture_output=True, text=True)
    found = re.match(r'(\d+) packets (\d+) ns', out.stdout)
    return int(found[1]) / int(found[2]) * 1e9 if found else sys.exit(out.stderr)


def pkt_gen(vdevs):
    # 10,000 flows: as many source addresses. The CPU time of starting is small against that of sending.
    count = int(25e6 * seconds)
    words = ['taskset', '-c', '1', f'{target}/linerate', 'pkt-gen', '-i', f'dpdk:{vdevs[0]}', '-f', 'tx', '-n']
    flows = ['-s', '10.0.0.1-10.0.39.16']
    def cpu(packets):
        before = os.times()
        subprocess.run([*words, str(packets), *flows], check=True, capture_output=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system
    idle = cpu(1)
    return count / (cpu(count) - idle)


def memif_peer(socket):
    peer = Testpmd((0, 0), 'rxonly', [f'net_memif7,role=server,socket={socket},socket-abstract=no'])
    peer.wait('Done')
    peer.say('start')
    return peer


CASES = {
    'txonly net_null': ('txonly', ['net_null0'], False),
    'rxonly net_null': ('rxonly', ['net_null0'], False),
    'io net_null': ('io', ['net_null0', 'net_null1'], False),
    'macswap net_null': ('macswap', ['net_null0', 'net_null1'], False),
    'io net_ring unseen': ('io', ['net_ring0', 'net_ring1'], True),
    'io net_ring': ('io', ['net_ring0', 'net_ring1'], True),
    'macswap net_ring': ('macswap', ['net_ring0', 'net_ring1'], True),
    'txonly net_memif': ('txonly', ['net_memif0,role=client,socket={socket},socket-abstract=no'], False),
    'flowgen net_null': ('flowgen', ['net_null0'], False),
}
wanted = sys.argv[4:]
print(f'{"huge pages" if HUGE else "no huge pages"}; millions of packets for each second of CPU time, median of {runs}')
for name, (mode, vdevs, tx_first) in CASES.items():
    if wanted and mode not in wanted and name not in wanted:
        continue
    ours, theirs = [], []
    for run in range(runs):
        for side in (0, 1) if run % 2 else (1, 0):
            socket = f'{folder}/{name.replace(" ", "-")}-{run}-{side}'
            devices = [vdev.format(socket=socket) for vdev in vdevs]
            peer = memif_peer(socket) if 'memif' in name else None
            if side:
                theirs.append(testpmd(mode, devices, tx_first))
            else:
                words = [device + ',bytes=no' for device in devices] if 'unseen' in name else devices
                ours.append(pkt_gen(words) if mode == 'flowgen' else roles(mode, words))
            if peer:
                peer.end()
    middle = lambda values: sorted(values)[len(values) // 2] / 1e6
    ratios = sorted(one / other for one, other in zip(ours, theirs))
    print(f'{name:18} linerate {middle(ours):8.2f}  testpmd {middle(theirs):8.2f}  ratio {ratios[len(ratios) // 2]:5.2f} '
          f'({ratios[0]:.2f} to {ratios[-1]:.2f})', flush=True)
END
