#!/bin/sh
# Runs a command in a user-mode Linux with netmap: run.sh [-t SECONDS] [-m MEGABYTES] FOLDER COMMAND [ARGUMENT]...
#
# FOLDER is what build.sh made. The kernel sees the files of this machine (hostfs), with the rights of the user who starts it, but no
# network of it. The command finds netmap and veth loaded and a loopback interface; its exit status is that of this script, 124 if the
# time (120 s) is over. Its standard output and error both come out of this script's standard output.
set -eu
seconds=120
megabytes=512
while getopts t:m: option; do
    case $option in
        t) seconds=$OPTARG ;;
        m) megabytes=$OPTARG ;;
        *) sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$(realpath "$1")
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What the kernel starts as its first process: it prepares the machine, runs the command and switches off.
quoted=
for word in "$@"; do quoted="$quoted '$(printf %s "$word" | sed "s/'/'\\\\''/g")'"; done
cat > "$work/init" <<INIT
#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs tmp /run
insmod $folder/netmap.ko
insmod $folder/veth.ko
ip link set lo up
export PATH="$PATH" HOME="${HOME:-/root}" UML=1
cd "$(pwd)" || exit
($quoted) < /dev/null
echo \$? > $work/status
sync
$folder/poweroff
INIT
chmod +x "$work/init"
timeout -k 5 "$seconds" "$folder/linux" mem="${megabytes}M" rootfstype=hostfs rootflags=/ rw init="$work/init" \
    quiet con=null con0=null,fd:1 con1=null ssl=null root=/dev/root < /dev/null 2> "$work/errors" > "$work/output" || outcome=$?
sed 's/\r$//' "$work/output"
[ -f "$work/status" ] || { echo "the user-mode kernel ended without a result (${outcome:-0})" >&2; tail -n 20 "$work/errors" >&2; [ "${outcome:-0}" != 124 ] || exit 124; exit 125; }
exit "$(cat "$work/status")"
