#!/bin/sh
# Makes what Linerate is installed from, and tries it: each of
#
#   install   cargo install --path crates/apps/cli, into a folder of its own
#   musl      a static binary for x86-64, which runs on any Linux
#   deb       a Debian package with man pages and shell completions
#
# packaging/packages.sh [install|musl|deb]...      all three, if none is named
#
# A tool that is missing is named in a line `skipped: WHY`, and the others go on. Results are in target/packages. The status is 1 if one failed.
# PROFILE=debug builds faster programs to try the script itself; PROGRAM=FILE is packed (deb) as it is; OUT=FOLDER takes the results.
set -u
cd "$(dirname "$0")/.." || exit 2
out=${OUT:-$PWD/target/packages}
profile=${PROFILE:-release}
[ "$profile" = release ] && flags=--release || flags=
# A program that is only to try the script is packed fast.
[ "$profile" = release ] && packed= || packed='-Zgzip -z1'
mkdir -p "$out"
failed=0

say() { printf '%s: %s\n' "$1" "$2"; }

# A program works: it says its version, lists its ports, and sends over a pipe.
try() {
    "$1" --version >/dev/null && "$1" ports >/dev/null && "$1" send pipe:a --count 1000 --cores none -q >/dev/null
}

install() {
    [ "$profile" = release ] && debug= || debug=--debug
    cargo install --quiet --locked $debug --path crates/apps/cli --root "$out/install" --target-dir target --force &&
        try "$out/install/bin/linerate" && say install "$out/install/bin/linerate"
}

musl() {
    target=x86_64-unknown-linux-musl
    if ! rustc --print target-libdir --target $target 2>/dev/null | { read -r folder && [ -d "$folder" ]; }; then
        say skipped "musl: no standard library for $target (rustup target add $target)"
        return 0
    fi
    if ! command -v musl-gcc >/dev/null; then
        say skipped "musl: no musl-gcc (apt-get install musl-tools)"
        return 0
    fi
    CC_x86_64_unknown_linux_musl=musl-gcc cargo build --quiet --locked $flags --target $target -p linerate &&
        cp "target/$target/$profile/linerate" "$out/linerate-static" &&
        try "$out/linerate-static" && say musl "$out/linerate-static"
}

deb() {
    if ! command -v dpkg-deb >/dev/null; then
        say skipped "deb: no dpkg-deb (a Debian system has it)"
        return 0
    fi
    program=${PROGRAM:-target/$profile/linerate}
    [ -n "${PROGRAM:-}" ] || cargo build --quiet --locked $flags -p linerate || return 1
    version=$("$program" --version | cut -d' ' -f2)
    architecture=$(dpkg --print-architecture)
    tree=$(mktemp -d) || return 1
    mkdir -p "$tree/DEBIAN" "$tree/usr/bin" "$tree/usr/share/man/man1" "$tree/usr/share/doc/linerate" \
        "$tree/usr/share/bash-completion/completions" "$tree/usr/share/zsh/vendor-completions" \
        "$tree/usr/share/fish/vendor_completions.d"
    cp "$program" "$tree/usr/bin/linerate"
    strip "$tree/usr/bin/linerate" 2>/dev/null
    ln -s linerate "$tree/usr/bin/pkt-gen"
    "$program" man "$tree/usr/share/man/man1" && gzip -9n "$tree"/usr/share/man/man1/*.1
    "$program" completions bash >"$tree/usr/share/bash-completion/completions/linerate"
    "$program" completions zsh >"$tree/usr/share/zsh/vendor-completions/_linerate"
    "$program" completions fish >"$tree/usr/share/fish/vendor_completions.d/linerate.fish"
    cat LICENSE-MIT LICENSE-APACHE >"$tree/usr/share/doc/linerate/copyright"
    # The oldest glibc whose symbols the program asks for.
    glibc=$(objdump -T "$program" 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1 | cut -d_ -f2)
    cat >"$tree/DEBIAN/control" <<CONTROL
Package: linerate
Version: $version
Architecture: $architecture
Maintainer: Linerate's authors
Depends: libc6 (>= ${glibc:-2.36})
Suggests: libpcap0.8
Section: net
Priority: optional
Description: fast packet I/O, and the lab that measures it
 Tells how many packets per second a path carries, where the others go, and what a packet costs in CPU:
 generators, receivers, captures, switches, a TCP stack, and experiments over them.
CONTROL
    package=$out/linerate_${version}_$architecture.deb
    dpkg-deb --root-owner-group $packed --build "$tree" "$package" >/dev/null || { rm -rf "$tree"; return 1; }
    rm -rf "$tree"
    # What is in it works, and its man page is there.
    unpacked=$(mktemp -d) || return 1
    dpkg-deb --extract "$package" "$unpacked" && try "$unpacked/usr/bin/linerate" &&
        gzip -dc "$unpacked/usr/share/man/man1/linerate-capture.1.gz" | grep -q snaplen && "$unpacked/usr/bin/pkt-gen" -h >/dev/null
    status=$?
    rm -rf "$unpacked"
    [ $status = 0 ] && say deb "$package"
    return $status
}

for what in "${@:-install musl deb}"; do
    for one in $what; do
        case $one in
            install | musl | deb) $one || { say failed "$one"; failed=1; } ;;
            *) say failed "$one: one of install, musl, deb"; exit 2 ;;
        esac
    done
done
exit $failed
