#!/bin/sh
# Makes a small Linux guest out of Debian's packages: FOLDER/kernel and FOLDER/initramfs. The tests with virtual machines call it
# where there is none yet (../common/machine.rs); LINERATE_GUEST=FOLDER names one that was made by hand.
# Needs apt-get, dpkg-deb and gzip, and the network once. Installs nothing.
set -eu

folder=${1:?usage: make.sh FOLDER}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

image=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends:/ { print $2; exit }')
apt-get -qq download "$image" busybox-static
for package in ./*.deb; do
    dpkg-deb -x "$package" unpacked
done

mkdir -p root/bin root/modules root/proc root/sys root/dev
cp unpacked/bin/busybox root/bin/
cp "$here/init" root/init
chmod 755 root/init
# In the order in which they need each other.
number=10
for module in virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci failover net_failover virtio_net; do
    find unpacked/lib/modules -name "$module.ko" -exec cp {} "root/modules/$number-$module.ko" \;
    number=$((number + 1))
done
(cd root && find . | ../unpacked/bin/busybox cpio -o -H newc) | gzip -1 >"$folder/initramfs"
cp unpacked/boot/vmlinuz-* "$folder/kernel"
echo "made $folder/kernel ($image) and $folder/initramfs"
