#!/bin/bash
# Builds a FreeBSD with netmap for tests, on Linux: build.sh SOURCE FOLDER
#
# SOURCE: a source folder of FreeBSD 15 (sys, lib, include, share/mk, contrib, libexec/rtld-elf, usr.sbin/config, bin, usr.bin/printf,
# tools/tools/netmap); it is not changed.
# FOLDER: gets kernel, start (which starts it in QEMU), bin (a shell, netmap's own pkt-gen, bridge and netmap-lb, and box.c), usr (headers, static
# libraries), cc and link-clang (the compiler and the linker for programs there).
# Needs the packages clang-19, lld-19 and llvm-19 (or newer), flex, byacc, gawk, libbsd-dev, rpcsvc-proto of Debian, and g++; run.sh makefs and
# qemu-system-x86. Takes ten minutes of a core, and some 200 MB in FOLDER/build, which may be removed afterwards.
set -eu
[ $# = 2 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
source=$(realpath "$1")
[ -f "$source/sys/net/netmap.h" ] || { echo "$source: no source of FreeBSD (sys/net/netmap.h is missing)" >&2; exit 2; }
mkdir -p "$2/build/tools" "$2/bin"
folder=$(realpath "$2")
build=$folder/build
jobs=${JOBS:-$(nproc)}
src=$build/src
version=$(awk '$1 == "#define" && $2 == "__FreeBSD_version" { print $3 }' "$source/sys/sys/param.h")
[ "$version" -ge 1500000 ] || { echo "$source is FreeBSD $version; these scripts are for 15 (1500000), docs/netmap.md has those for 12" >&2; exit 2; }
target=x86_64-unknown-freebsd$((version / 100000))

# The newest of the tools that Debian numbers.
newest() { ls /usr/bin/"$1" /usr/bin/"$1"-[0-9]* 2> /dev/null | sort -V | tail -n 1 | grep . || { echo "$1 is not installed" >&2; exit 1; }; }
clang=$(newest clang) lld=$(newest ld.lld)

# The source, as links: what is written beside it, and the files that are changed here, stay apart from it.
prepare_source() {
    [ ! -d "$src" ] || return 0
    mkdir -p "$src.new"
    for part in sys lib include share/mk libexec/rtld-elf bin/sh bin/kill bin/test usr.bin/printf usr.sbin/config tools/tools/netmap \
        contrib/{arm-optimized-routines,bmake,jemalloc,gdtoa,libc-pwcache,libc-vis,tzcode} contrib/llvm-project/{compiler-rt,libunwind,libcxx}; do
        [ -e "$source/$part" ] || continue
        mkdir -p "$src.new/$(dirname "$part")"
        cp -as "$source/$part" "$src.new/$part"
    done
    cp "$here/kernel.config" "$src.new/sys/amd64/conf/NETMAP"
    mv "$src.new" "$src"
}

# Programs that FreeBSD's makefiles call by these names, and as FreeBSD has them.
make_tools() {
    cd "$build/tools"
    script() { printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod +x "$1"; }
    script cc "exec $clang -target $target -Qunused-arguments \"\$@\""
    script cpp "exec $clang -target $target -E \"\$@\""
    # The makefiles know LLD by its first word.
    script ld "[ \"\$1\" != --version ] || exec echo \"$($lld --version | sed 's/^.*LLD/LLD/')\"; exec $lld \"\$@\""
    # A script sorts numbers in base 16.
    script awk 'exec gawk --non-decimal-data "$@"'
    script lorder 'echo "$@"'
    script tsort 'cat'
    script mktemp '[ "$1" != -t ] || exec /usr/bin/mktemp -t "$2.XXXXXX"; exec /usr/bin/mktemp "$@"'
    script file2c 'shift; echo "$1"; od -An -v -tx1 | sed "s/ \\([0-9a-f][0-9a-f]\\)/0x\\1,/g"; echo "$2"'
    # Asked only whether the kernel's vdso has relocations.
    script elfdump "shift; $(newest llvm-readelf) -d \"\$@\" | sed 's/(\\(REL[A-Z]*SZ\\))/DT_\\1/'"
    for tool in nm objcopy size ar ranlib strip; do ln -sf "$(newest llvm-$tool)" $tool; done
    ln -sf "$lld" ld.lld

    # make(1) of the source itself: Debian's may be older than the makefiles.
    if [ ! -x make ]; then
        mkdir -p "$build/make" && cd "$build/make"
        { "$src/contrib/bmake/configure" --with-default-sys-path="$src/share/mk" && /bin/sh make-bootstrap.sh; } > "$build/make.log" 2>&1 ||
            { tail "$build/make.log" >&2; exit 1; }
        cp bmake "$build/tools/make"
    fi

    # config(8), which makes a kernel's build folder.
    mkdir -p "$build/config/include/sys" && cd "$build/config"
    cat > compat.h <<'END'
#define _GNU_SOURCE 1
#include <sys/cdefs.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/types.h>
#define __unused __attribute__((unused))
#define __printf0like(a, b)
END
    cp "$src/sys/sys/queue.h" include/sys/
    config=$src/usr.sbin/config
    flex -o lang.c "$config/lang.l" && byacc -d -o config.c "$config/config.y" && mv config.h y.tab.h
    file2c '' 'char kernconfstr[] = {' '0};' < "$config/kernconf.tmpl" > kernconf.c
    host -Iinclude -I. -I"$config" -c lang.c config.c kernconf.c "$config/mkheaders.c"
    host++ -Iinclude -I. -I"$config" "$config"/{main,mkmakefile,mkoptions}.cc lang.o config.o kernconf.o mkheaders.o -lbsd -o "$build/tools/config"
}

# A program of FreeBSD for this machine, in C or in C++.
for_host=(-fcommon -w -O1 -include "$build/config/compat.h" -DLIBBSD_OVERLAY -isystem /usr/include/bsd)
host() { /usr/bin/gcc "${for_host[@]}" "$@"; }
host++() { /usr/bin/g++ -std=c++17 "${for_host[@]}" "$@"; }

# make, as FreeBSD's makefiles want it.
bsd_make() {
    make -m "$src/share/mk" MACHINE=amd64 MACHINE_ARCH=amd64 MACHINE_CPUARCH=amd64 TARGET_CPUARCH=amd64 LD=ld NM=nm AR=ar RANLIB=ranlib \
        OBJCOPY=objcopy SIZE=size AWK=awk MK_AUTO_OBJ=no MK_CTF=no WITHOUT_CTF=yes NO_WERROR=yes WERROR= DEBUG= DEBUG_FLAGS= SRCTOP="$src" \
        SYSDIR="$src/sys" "$@"
}

build_kernel() {
    [ ! -f "$folder/kernel" ] || return 0
    mkdir -p "$build/kernel"
    (cd "$src/sys/amd64/conf" && config -d "$build/kernel" -s "$src/sys" NETMAP)
    cd "$build/kernel"
    bsd_make CC=cc NO_MODULES=yes CWARNFLAGS=-w depend > "$build/kernel.log" 2>&1 || { tail "$build/kernel.log" >&2; exit 1; }
    bsd_make CC=cc NO_MODULES=yes CWARNFLAGS=-w -j"$jobs" kernel.full >> "$build/kernel.log" 2>&1 || { tail "$build/kernel.log" >&2; exit 1; }
    cp kernel.full "$folder/kernel"
}

install_headers() {
    include=$folder/usr/include
    rm -rf "$include" && mkdir -p "$include" "$folder/usr/lib"
    cd "$src/include"
    cp -L ./*.h "$include/"
    for part in arpa protocols rpc rpcsvc ssp xlocale; do mkdir -p "$include/$part" && cp -L $part/*.h "$include/$part/"; done
    cd "$src/sys"
    for part in bsm cam cam/ata cam/nvme cam/scsi crypto dev/acpica dev/filemon dev/hwpmc dev/ic dev/io dev/nvme dev/pci dev/usb fs/devfs fs/fdescfs fs/nfs \
        fs/procfs geom net net/altq net/route net80211 netgraph netinet netinet/cc netinet/tcp_stacks netinet6 netipsec netlink netlink/route netsmb nfs \
        nfsclient nfsserver opencrypto security/audit sys sys/disk ufs/ffs ufs/ufs vm; do
        mkdir -p "$include/$part"
        cp -L $part/*.h "$include/$part/" 2> /dev/null || true
    done
    cp -rL amd64/include "$include/machine" && cp -rL x86/include "$include/x86" && cp -rL dev/hyperv/include "$include/dev/hyperv"
    cp -L rpc/{types,clnt_nl}.h "$include/rpc/"
    cd "$include"
    for name in aio errno fcntl linker_set poll stdatomic stdint syslog ucontext _semaphore stdarg; do cp sys/$name.h $name.h; done
    for name in float floatingpoint; do cp machine/$name.h $name.h; done
    cp -L "$src"/lib/msun/src/math.h "$src"/lib/msun/x86/fenv.h "$src"/lib/libutil/libutil.h "$src"/lib/libmd/*.h \
        "$src"/lib/libsys/{libsys,_libsys}.h "$src"/lib/libnetmap/libnetmap.h "$src"/contrib/libc-vis/vis.h \
        "$src"/contrib/llvm-project/compiler-rt/lib/BlocksRuntime/*.h "$include/"
    (cd "$src/include/rpc" && RPCGEN_CPP=cpp rpcgen -C -h rpcb_prot.x -o "$include/rpc/rpcb_prot.h")
    for name in yp nis key_prot crypt; do
        rm -f "$include/rpcsvc/$name.h" && (cd "$src/include/rpcsvc" && RPCGEN_CPP=cpp rpcgen -C -h -DWANT_NFS3 $name.x -o "$include/rpcsvc/$name.h")
    done
    cp rpcsvc/key_prot.h rpc/ && cp rpcsvc/crypt.h "$src/include/rpcsvc/"
    echo "#define __FreeBSD_version $version" > osreldate.h
}

build_libraries() {
    lib=$folder/usr/lib
    [ ! -f "$lib/libc.a" ] || return 0
    flags=(--sysroot="$folder" -w)
    start=(cc "${flags[@]}" -O2 -DSTRIP_FBSDID -I"$src/lib/csu/amd64" -I"$src/lib/csu/common" -I"$src/lib/libc/include" -I"$src/lib/libsys" -fno-omit-frame-pointer)
    mkdir -p "$build/start" "$build/unwind" "$build/netmap" && cd "$build/start"
    for name in amd64/crt1_s amd64/crti amd64/crtn common/crtbrand common/feature_note common/ignore_init_note; do
        "${start[@]}" -DLOCORE -c "$src/lib/csu/$name.S" -o "$(basename $name).o"
    done
    "${start[@]}" -c "$src/lib/csu/amd64/crt1_c.c" -o crt1_c.o
    ld -r -o "$lib/crt1.o" crt1_s.o crtbrand.o feature_note.o ignore_init_note.o crt1_c.o
    ld -r -o "$lib/crti.o" crti.o crtbrand.o && cp crtn.o "$lib/"
    "${start[@]}" -c "$src/lib/csu/common/crtbegin.c" -o "$lib/crtbegin.o" && cp "$lib/crtbegin.o" "$lib/crtbeginT.o"
    "${start[@]}" -c "$src/lib/csu/common/crtend.c" -o "$lib/crtend.o"

    unwind=$src/contrib/llvm-project/libunwind
    cd "$build/unwind"
    for file in "$unwind"/src/{Unwind-sjlj.c,UnwindLevel1-gcc-ext.c,UnwindLevel1.c,UnwindRegistersRestore.S,UnwindRegistersSave.S,libunwind.cpp} \
        "$src/contrib/llvm-project/compiler-rt/lib/builtins/gcc_personality_v0.c"; do
        standard=()
        case $file in *.cpp) standard=(-fno-rtti -std=c++17 -nostdinc++ -I"$src/lib/libc++" -isystem "$src/contrib/llvm-project/libcxx/include") ;; esac
        cc "${flags[@]}" -O2 -fPIC -I"$unwind/include" -D_LIBUNWIND_IS_NATIVE_ONLY -D_LIBUNWIND_USE_FRAME_HEADER_CACHE -D_LIBUNWIND_SUPPORT_FRAME_APIS \
            -fno-exceptions -funwind-tables "${standard[@]}" -c "$file"
    done
    rm -f "$lib/libgcc_eh.a" && ar crs "$lib/libgcc_eh.a" ./*.o

    for name in libcompiler_rt libsys libthr msun libc; do
        mkdir -p "$build/$name"/{cpu_model,i386} && cd "$src/lib/$name"
        archive=$name.a
        [ $name != msun ] || archive=libm.a
        MAKEOBJDIR=$build/$name bsd_make "CC=cc ${flags[*]}" "CPP=cpp --sysroot=$folder" MK_NIS=no MK_HESIOD=no MK_SSP=no MK_PROFILE=no MK_TESTS=no \
            MK_DEBUG_FILES=no MK_WERROR=no MK_NLS=no MK_TOOLCHAIN=no -j"$jobs" $archive > "$build/$name.log" 2>&1 || { tail "$build/$name.log" >&2; exit 1; }
        cp "$build/$name/$archive" "$lib/"
    done
    cd "$build/netmap"
    for name in nmctx nmport nmctx-pthreads nmreq; do cc "${flags[@]}" -O2 -c "$src/lib/libnetmap/$name.c"; done
    rm -f "$lib/libnetmap.a" && ar crs "$lib/libnetmap.a" ./*.o
    cp "$lib/libcompiler_rt.a" "$lib/libgcc.a" && cp "$lib/libthr.a" "$lib/libpthread.a" && cp "$lib/libgcc_eh.a" "$lib/libgcc_s.a"
    # Named by every program of Rust; of these nothing is used.
    for name in execinfo kvm memstat procstat devstat rt util; do rm -f "$lib/lib$name.a" && ar crs "$lib/lib$name.a"; done
}

build_programs() {
    cat > "$folder/link-clang" <<END
#!/bin/sh
# Links a program for the FreeBSD beside this file, statically: for C, and as the linker of Rust.
folder=\$(cd "\$(dirname "\$0")" && pwd)
exec $clang -target $target --sysroot="\$folder" -fuse-ld=$lld -static -Qunused-arguments -Wl,--start-group "\$@" -lthr -lc -lsys -lgcc_eh -lgcc -lm -Wl,--end-group
END
    cat > "$folder/cc" <<END
#!/bin/sh
exec $clang -target $target --sysroot="\$(cd "\$(dirname "\$0")" && pwd)" -Qunused-arguments "\$@"
END
    chmod +x "$folder/link-clang" "$folder/cc"
    mkdir -p "$build/programs" "$build/sh" && cd "$build/programs"

    "$folder/cc" -O2 -w -c "$here/box.c" && "$folder/link-clang" box.o -o "$folder/bin/box"
    for name in pkt-gen bridge lb pkt_hash; do "$folder/cc" -O2 -w -DNO_PCAP -include inttypes.h -c "$src/tools/tools/netmap/$name.c"; done
    for name in pkt-gen bridge; do "$folder/link-clang" $name.o -lnetmap -o "$folder/bin/$name"; done
    "$folder/link-clang" lb.o pkt_hash.o -lnetmap -o "$folder/bin/netmap-lb"

    cd "$build/sh"
    sh=$src/bin/sh
    host "$sh/mknodes.c" -lbsd -o mknodes && host -I"$sh" "$sh/mksyntax.c" -lbsd -o mksyntax
    ./mknodes "$sh/nodetypes" "$sh/nodes.c.pat" && ./mksyntax && /bin/sh "$sh/mkbuiltins" "$sh" && /bin/sh "$sh/mktokens"
    for file in "$sh"/{alias,arith_yacc,arith_yylex,cd,error,eval,exec,expand,histedit,input,jobs,mail,main,memalloc,miscbltin,mystring,options,output,parser,redir,show,trap,var}.c \
        "$sh/bltin/echo.c" "$src/bin/kill/kill.c" "$src/bin/test/test.c" "$src/usr.bin/printf/printf.c" builtins.c nodes.c syntax.c; do
        "$folder/cc" -O1 -w -fcommon -DSHELL -DNO_HISTORY -I. -I"$sh" -I"$sh/bltin" -c "$file"
    done
    "$folder/link-clang" ./*.o -o "$folder/bin/sh"

    # What starts the kernel in QEMU: above the place that the kernel takes.
    cd "$build/programs"
    $clang -target i386-unknown-none-elf -march=i686 -mno-sse -O1 -ffreestanding -fno-stack-protector -fno-pic -fno-builtin -w -c "$here/start.c"
    echo 'ENTRY(_start) SECTIONS { . = 0x4000000; .text : { *(.multiboot) *(.text*) *(.rodata*) } .data : { *(.data*) } .bss : { *(.bss*) } }' > start.ld
    $lld -m elf_i386 -T start.ld start.o -o "$folder/start"
}

prepare_source
export PATH="$build/tools:$PATH"
make_tools
install_headers
build_libraries
build_programs
build_kernel
echo "built: $folder/kernel, start, bin (sh, pkt-gen, bridge, netmap-lb), usr, link-clang, cc"
