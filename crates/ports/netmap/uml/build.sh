#!/bin/sh
# Builds a user-mode Linux with netmap for tests: build.sh KERNEL NETMAP FOLDER
#
# KERNEL: a source folder of Linux, or its archive (Debian: /usr/src/linux-source-6.1.tar.xz of the package linux-source-6.1).
# NETMAP: a source folder of netmap (https://github.com/luigirizzo/netmap); it is copied, not changed.
# FOLDER: gets linux (the kernel, a program), netmap.ko, veth.ko, pkt-gen and vale-ctl (netmap's own, to compare with), poweroff.
# Needs make, gcc, flex, bison, bc, patch. Takes five to ten minutes and 1.5 GB in FOLDER/build, which may be removed afterwards.
set -eu
[ $# = 3 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
kernel=$(realpath "$1")
netmap=$(realpath "$2")
[ -f "$netmap/sys/net/netmap.h" ] || { echo "$netmap: no source of netmap (sys/net/netmap.h is missing)" >&2; exit 2; }
mkdir -p "$3/build"
folder=$(realpath "$3")
build=$folder/build
jobs=${JOBS:-$(nproc)}

# A kernel's source folder without its archive.
if [ ! -f "$build/linux/Makefile" ]; then
    rm -rf "$build/linux" && mkdir "$build/linux"
    if [ -d "$kernel" ]; then cp -a "$kernel/." "$build/linux/"; else tar xf "$kernel" -C "$build/linux" --strip-components=1; fi
fi
cd "$build/linux"
make -s ARCH=um KCONFIG_ALLCONFIG="$here/kernel.config" allnoconfig
make -s ARCH=um -j"$jobs" linux modules

rm -rf "$build/netmap" && cp -a "$netmap" "$build/netmap"
cd "$build/netmap"
# netmap takes its patch of a driver by the kernel's number, which stable kernels outgrow: the one that applies gets the name of the
# one that it would take.
veth=$build/linux/drivers/net/veth.c
taken=$(ls LINUX/final-patches/vanilla--veth.c--41400--*)
for candidate in LINUX/final-patches/vanilla--veth.c--*; do
    cp "$veth" "$build/veth.c"
    if (cd "$build" && patch --quiet --force --dry-run -p1 veth.c) < "$candidate" > /dev/null; then
        cp "$candidate" "$build/veth.patch" && cp "$build/veth.patch" "$taken"
        break
    fi
done
./LINUX/configure --kernel-dir="$build/linux" --kernel-sources="$build/linux" --kernel-opts=ARCH=um \
    --disable-ptnetmap --no-ext-drivers --drivers=veth.c --apps=pkt-gen,vale-ctl --no-utils
make -j"$jobs"
cp "$build/linux/linux" "$folder/linux"
for file in netmap.ko veth.ko pkt-gen vale-ctl; do
    found=$(find "$build/netmap" "$build/netmap/build-apps" -name "$file" -type f 2>/dev/null | head -n 1)
    [ -n "$found" ] || { echo "$file was not built" >&2; exit 1; }
    cp "$found" "$folder/$file"
done
# Ends the machine: the tools of distributions for that want their own init.
printf '#include <sys/reboot.h>\nint main(void) { return reboot(RB_POWER_OFF); }\n' | cc -x c - -o "$folder/poweroff"
echo "built: $folder/linux, netmap.ko, veth.ko, pkt-gen, vale-ctl, poweroff"
