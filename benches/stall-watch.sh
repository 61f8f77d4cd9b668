#!/bin/sh
# What it costs to watch the cores of trials for stalls: the time for which the BPF programs of a run of Linerate worked, by the kernel's count.
#     benches/stall-watch.sh [COMMAND...]        default: bench; or: lab run quick ...
# Runs `linerate COMMAND...` with kernel.bpf_stats_enabled = 1 (put back at the end), and reads run_time_ns and run_cnt of its programs from
# /proc/PID/fdinfo ten times a second (kernel/bpf/syscall.c: bpf_prog_show_fdinfo). Prints for each program by name: runs, nanoseconds a run, and
# the share of one core, as if all its runs had been on one: an upper bound for each core. The programs that watch for stalls are linerate_watch
# (sched_switch) and linerate_irq (interrupts); the aim is 0.5 % of a core. To count costs two looks at a clock a run, which are counted, too.
# Wants root and python3. Builds nothing: cargo build --release -p linerate
set -eu
binary=$(realpath "${CARGO_TARGET_DIR:-target}/release/linerate")
[ -x "$binary" ] || { echo "there is no $binary: cargo build --release -p linerate" >&2; exit 2; }
[ $# -gt 0 ] || set -- bench
exec python3 - "$binary" "$@" <<'PY'
import ctypes, glob, os, platform, struct, subprocess, sys, tempfile, time

BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
libc = ctypes.CDLL(None, use_errno=True)

def name_of(program):
    """By BPF_PROG_GET_FD_BY_ID and BPF_OBJ_GET_INFO_BY_FD (linux/bpf.h); the name is 64 bytes into struct bpf_prog_info."""
    attributes = ctypes.create_string_buffer(struct.pack("=III", program, 0, 0), 16)
    fd = libc.syscall(BPF, 13, attributes, 12)
    if fd < 0:
        return "?"
    info = ctypes.create_string_buffer(256)
    attributes = ctypes.create_string_buffer(struct.pack("=IIQ", fd, 256, ctypes.addressof(info)), 16)
    failed = libc.syscall(BPF, 15, attributes, 16)
    os.close(fd)
    return "?" if failed else info.raw[64:80].split(b"\0")[0].decode()

switch = "/proc/sys/kernel/bpf_stats_enabled"
before = open(switch).read()
programs = {}  # number of a program: name, first and last time, runs and nanoseconds at both
open(switch, "w").write("1")
started = time.monotonic()
try:
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.Popen(sys.argv[1:], cwd=folder, stdout=subprocess.DEVNULL)
        while run.poll() is None:
            time.sleep(0.1)
            for path in glob.glob(f"/proc/{run.pid}/fdinfo/*"):
                try:
                    lines = [line.split(":\t", 1) for line in open(path).read().splitlines()]
                except OSError:
                    continue
                fields = dict(line for line in lines if len(line) == 2)
                if "run_time_ns" not in fields:
                    continue
                number, seen = int(fields["prog_id"]), (time.monotonic(), int(fields["run_cnt"]), int(fields["run_time_ns"]))
                if number not in programs:
                    programs[number] = [name_of(number), seen, seen]
                programs[number][2] = seen
finally:
    open(switch, "w").write(before)
whole = time.monotonic() - started
by_name = {}
for name, first, last in programs.values():
    entry = by_name.setdefault(name, [0, 0, 0, 0.0, 0.0])
    runs, spent, seconds = last[1] - first[1], last[2] - first[2], last[0] - first[0]
    entry[0] += 1
    entry[1] += runs
    entry[2] += spent
    entry[3] += seconds
    entry[4] = max(entry[4], spent / (seconds * 1e9) * 100 if seconds > 0.05 else 0)
print(f"{whole:.1f} s, exit status {run.returncode}")
print(f"{'program':16} {'loaded':>7} {'s loaded':>9} {'runs':>10} {'ns a run':>9} {'% of a core':>12} {'most':>7}")
watch = 0.0
for name, (loaded, runs, spent, seconds, most) in sorted(by_name.items()):
    share = spent / (seconds * 1e9) * 100 if seconds else 0
    # Of the programs at the entry and the exit of interrupts, as many are loaded at once as the time together says.
    print(f"{name:16} {loaded:7} {seconds:9.1f} {runs:10} {spent / max(runs, 1):9.0f} {share:12.3f} {most:7.3f}")
    watch += spent if name in ("linerate_watch", "linerate_irq") else 0
base = by_name.get("linerate_watch", [0, 0, 0, 0, 0])[3]
if base:
    print(f"to watch for stalls: {watch / (base * 1e9) * 100:.3f} % of one core, if all of it were on one (aim: 0.5 % of each)")
PY
