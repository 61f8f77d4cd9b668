#!/bin/bash
# Runs a script in a FreeBSD with netmap, in QEMU: run.sh [-t SECONDS] [-m MEGABYTES] [-p PAIRS] FOLDER SCRIPT [PROGRAM]...
#
# FOLDER is what build.sh made. SCRIPT is read by FreeBSD's shell, as root, in a file system of its own that is gone afterwards; it finds the
# PROGRAMs (static ones, for FreeBSD), netmap's pkt-gen, bridge and netmap-lb, and of box.c sleep, cat, ifconfig, sysctl, udp and as. With -p
# there are PAIRS pairs of cards (vtnet0 and vtnet1, em0 and em1, vmx0 and vmx1, which have two ring pairs, vtnet2 ...), each joined by a hub of
# QEMU. What is printed comes out of this script's standard output, the messages of the kernel among it; its exit status is that of SCRIPT,
# 124 if the time (120 s) is over, 125 if the kernel came to no end.
set -eu
usage() { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
seconds=120 megabytes=1024 pairs=0
while getopts t:m:p: option; do
    case $option in
        t) seconds=$OPTARG ;;
        m) megabytes=$OPTARG ;;
        p) pairs=$OPTARG ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || usage
folder=$(realpath "$1") script=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/root/bin" "$work/root/dev" "$work/root/tmp"
cp "$folder"/bin/* "$@" "$work/root/bin/"
cp "$script" "$work/root/script"
for name in init sleep cat ifconfig sysctl udp as; do ln "$work/root/bin/box" "$work/root/bin/$name"; done
# FreeBSD 15 does not take the second version of the file system as this makefs writes it.
makefs -t ffs -o version=1,density=8192 -M 24m -m 256m -b 20% -f 100 "$work/root.img" "$work/root" > /dev/null

cards=()
for ((pair = 0; pair < pairs; pair++)); do
    models=(virtio-net-pci e1000 vmxnet3)
    model=${models[pair % 3]}
    for end in a b; do cards+=(-netdev "hubport,id=card$pair$end,hubid=$pair" -device "$model,netdev=card$pair$end"); done
done
[ "$pairs" != 0 ] || cards=(-nic none)
outcome=0
timeout -k 5 "$seconds" qemu-system-x86_64 -m "$megabytes" -smp 2 -accel tcg,thread=multi -cpu qemu64 -nographic -no-reboot \
    -kernel "$folder/start" -initrd "$folder/kernel,$work/root.img" "${cards[@]}" < /dev/null > "$work/output" 2>&1 || outcome=$?
tr -d '\r' < "$work/output" | sed -n '/^=== begin$/,/^=== end /p' | sed '1d;/^=== end /d'
status=$(tr -d '\r' < "$work/output" | sed -n 's/^=== end \([0-9]*\)$/\1/p')
[ -n "$status" ] || { echo "the kernel ended without a result ($outcome)" >&2; tail -n 20 "$work/output" >&2; [ "$outcome" != 124 ] || exit 124; exit 125; }
exit "$status"
