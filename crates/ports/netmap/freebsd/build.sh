#!/bin/bash
# Builds a FreeBSD with netmap for tests, on Linux: build.sh SOURCE FOLDER
#
# SOURCE: a source folder of FreeBSD 12 (sys, lib, include, share/mk, contrib, usr.sbin/config, bin/sh, tools/tools/netmap); it is not changed.
# FOLDER: gets kernel, start (which starts it in QEMU), bin (a shell, netmap's own pkt-gen, bridge and vale-ctl, and box.c), usr (headers, static
# libraries), cc and link-clang (the compiler and the linker for programs there).
# Needs the packages bmake, lld, clang, llvm, flex, byacc, gawk, libbsd-dev, rpcsvc-proto of Debian, and gcc; run.sh makefs and qemu-system-x86. Takes
# a quarter of an hour, and some 100 MB in FOLDER/build, which may be removed afterwards.
set -eu
[ $# = 2 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
source=$(realpath "$1")
[ -f "$source/sys/net/netmap.h" ] || { echo "$source: no source of FreeBSD (sys/net/netmap.h is missing)" >&2; exit 2; }
mkdir -p "$2/build/tools" "$2/bin"
folder=$(realpath "$2")
build=$folder/build
jobs=${JOBS:-$(nproc)}
src=$build/src
target=x86_64-unknown-freebsd12

# The newest of the tools that Debian numbers.
newest() { ls /usr/bin/"$1" /usr/bin/"$1"-[0-9]* 2> /dev/null | sort -V | tail -n 1 | grep . || { echo "$1 is not installed" >&2; exit 1; }; }
clang=$(newest clang) lld=$(newest ld.lld)

# The source, as links: what is written beside it, and the files that are changed here, stay apart from it.
prepare_source() {
    [ ! -d "$src" ] || return 0
    mkdir -p "$src.new"
    for part in sys lib include share/mk libexec/rtld-elf bin/sh bin/kill bin/test usr.bin/printf usr.sbin/config tools/tools/netmap \
        contrib/{jemalloc,gdtoa,libc-pwcache,libc-vis,tzcode,compiler-rt,libunwind,libc++}; do
        mkdir -p "$src.new/$(dirname $part)"
        cp -as "$source/$part" "$src.new/$part"
    done
    # An instruction's name that newer assemblers do not take.
    sed -i 's/vpxor\([[:space:]]*%zmm\)/vpxord\1/' "$src.new/sys/amd64/amd64/support.S"
    cp "$here/kernel.config" "$src.new/sys/amd64/conf/NETMAP"
    mv "$src.new" "$src"
}

# Programs that FreeBSD's makefiles call by these names, and as FreeBSD has them.
make_tools() {
    cd "$build/tools"
    script() { printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod +x "$1"; }
    script cc "exec $clang -target $target -fcommon -Qunused-arguments \"\$@\""
    script cpp "exec $clang -target $target -E \"\$@\""
    # The makefiles know LLD by its first word.
    script ld "[ \"\$1\" != --version ] || exec echo \"$($lld --version | sed 's/^.*LLD/LLD/')\"; exec $lld \"\$@\""
    # A script sorts numbers in base 16.
    script awk 'exec gawk --non-decimal-data "$@"'
    script lorder 'echo "$@"'
    script tsort 'cat'
    script mktemp '[ "$1" != -t ] || exec /usr/bin/mktemp -t "$2.XXXXXX"; exec /usr/bin/mktemp "$@"'
    script file2c 'shift; echo "$1"; od -An -v -tx1 | sed "s/ \\([0-9a-f][0-9a-f]\\)/0x\\1,/g"; echo "$2"'
    for tool in nm objcopy size ar ranlib strip; do ln -sf "$(newest llvm-$tool)" $tool; done
    ln -sf "$lld" ld.lld && ln -sf "$(command -v bmake)" make

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
#define roundup2(x, y) (((x) + ((y) - 1)) & ~((y) - 1))
typedef va_list __va_list;
END
    printf '#include <sys/types.h>\ntypedef ssize_t __ssize_t;\n' > include/sys/_types.h
    cp "$src"/sys/sys/{sbuf,nv,cnv,dnv}.h include/sys/ && cp "$src"/sys/contrib/libnv/*.h "$src"/lib/libnv/*.h include/
    config=$src/usr.sbin/config
    flex -o lang.c "$config/lang.l" && byacc -d -o config.c "$config/config.y" && mv config.h y.tab.h
    file2c '' 'char kernconfstr[] = {' '0};' < "$config/kernconf.tmpl" > kernconf.c
    host -Dcmsgcred=ucred -DSCM_CREDS=SCM_CREDENTIALS -DMCLBYTES=2048 -Iinclude -I. -I"$config" \
        "$config"/{main,mkmakefile,mkheaders,mkoptions}.c lang.c config.c kernconf.c "$src/sys/kern/subr_sbuf.c" \
        "$src"/sys/contrib/libnv/{nvlist,nvpair,cnvlist,dnvlist}.c "$src/lib/libnv/msgio.c" -lbsd -o "$build/tools/config"
}

# A program of FreeBSD for this machine.
host() { cc=$(command -v gcc) && "$cc" -fcommon -w -O1 -include "$build/config/compat.h" -DLIBBSD_OVERLAY -isystem /usr/include/bsd "$@"; }

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
    mkdir -p "$include" "$folder/usr/lib"
    cd "$src/include"
    cp -L ./*.h "$include/"
    for part in arpa protocols rpc rpcsvc xlocale; do mkdir -p "$include/$part" && cp -L $part/*.h "$include/$part/"; done
    cd "$src/sys"
    for part in bsm cam cam/ata cam/scsi crypto dev/acpica dev/filemon dev/hwpmc dev/ic dev/io dev/nvme dev/pci dev/usb fs/devfs fs/fdescfs fs/nfs fs/procfs \
        geom net net/altq net80211 netgraph netinet netinet/cc netinet6 netipsec netsmb nfs nfsclient nfsserver opencrypto security/audit sys sys/disk \
        ufs/ffs ufs/ufs vm; do
        mkdir -p "$include/$part"
        cp -L $part/*.h "$include/$part/" 2> /dev/null || true
    done
    cp -rL amd64/include "$include/machine" && cp -rL x86/include "$include/x86" && cp -rL dev/hyperv/include "$include/dev/hyperv"
    cp -L rpc/types.h "$include/rpc/"
    cd "$include"
    for name in aio errno fcntl linker_set poll stdatomic stdint syslog ucontext sched _semaphore; do cp sys/$name.h $name.h; done
    for name in float floatingpoint stdarg; do cp machine/$name.h $name.h; done
    cp -L "$src"/lib/msun/src/math.h "$src"/lib/msun/x86/fenv.h "$src"/lib/libutil/libutil.h "$src"/lib/libedit/histedit.h "$src"/lib/libmd/*.h \
        "$src"/contrib/libc-vis/vis.h "$include/"
    (cd "$src/include/rpc" && RPCGEN_CPP=cpp rpcgen -C -h rpcb_prot.x -o "$include/rpc/rpcb_prot.h")
    for name in yp nis key_prot crypt; do
        (cd "$src/include/rpcsvc" && RPCGEN_CPP=cpp rpcgen -C -h -DWANT_NFS3 $name.x -o "$include/rpcsvc/$name.h")
    done
    cp rpcsvc/key_prot.h rpc/ && cp rpcsvc/crypt.h "$src/include/rpcsvc/"
    echo "#define __FreeBSD_version $(sed -n 's/^#define __FreeBSD_version \([0-9]*\).*/\1/p' sys/param.h)" > osreldate.h
}

build_libraries() {
    lib=$folder/usr/lib
    [ ! -f "$lib/libc.a" ] || return 0
    flags="--sysroot=$folder -w"
    start=(cc $flags -O2 -I"$src/lib/csu/amd64" -I"$src/lib/csu/common" -I"$src/lib/libc/include" -fno-omit-frame-pointer -DCRT_IRELOC_RELA)
    mkdir -p "$build/start" "$build/unwind" && cd "$build/start"
    # What a program of this system is known by is a note, which a compiler does not write.
    "${start[@]}" -S -o crt1.s "$src/lib/csu/amd64/crt1.c" && sed -i -e '/\.note\.tag/s/progbits/note/' crt1.s
    "${start[@]}" -c crt1.s -o "$lib/crt1.o"
    for name in crti crtn; do "${start[@]}" -c "$src/lib/csu/amd64/$name.S" -o "$lib/$name.o"; done
    "${start[@]}" -c "$src/lib/csu/common/crtbegin.c" -o "$lib/crtbegin.o" && cp "$lib/crtbegin.o" "$lib/crtbeginT.o"
    "${start[@]}" -c "$src/lib/csu/common/crtend.c" -o "$lib/crtend.o"

    unwind=$src/contrib/libunwind
    cd "$build/unwind"
    for file in "$unwind"/src/{Unwind-sjlj.c,UnwindLevel1-gcc-ext.c,UnwindLevel1.c,UnwindRegistersRestore.S,UnwindRegistersSave.S,libunwind.cpp} \
        "$src/contrib/compiler-rt/lib/builtins/gcc_personality_v0.c"; do
        standard=
        case $file in *.cpp) standard="-fno-rtti -std=c++11 -nostdinc++ -isystem $src/contrib/libc++/include" ;; esac
        cc $flags -O2 -fPIC -I"$unwind/include" -I"$src/lib/libgcc_eh" -D_LIBUNWIND_IS_NATIVE_ONLY -fno-exceptions -funwind-tables $standard -c "$file"
    done
    ar crs "$lib/libgcc_eh.a" ./*.o

    for name in libcompiler_rt libthr msun libc; do
        mkdir -p "$build/$name" && cd "$src/lib/$name"
        archive=$name.a
        [ $name != msun ] || archive=libm.a
        MAKEOBJDIR=$build/$name bsd_make "CC=cc $flags" "CPP=cpp --sysroot=$folder" MK_NIS=no MK_HESIOD=no MK_SSP=no MK_PROFILE=no MK_TESTS=no \
            MK_DEBUG_FILES=no MK_NLS=no MK_TOOLCHAIN=no -j"$jobs" $archive > "$build/$name.log" 2>&1 || { tail "$build/$name.log" >&2; exit 1; }
        cp "$build/$name/$archive" "$lib/"
    done
    cp "$lib/libcompiler_rt.a" "$lib/libgcc.a" && cp "$lib/libthr.a" "$lib/libpthread.a" && cp "$lib/libgcc_eh.a" "$lib/libgcc_s.a"
    # Named by every program of Rust; of these nothing is used.
    for name in execinfo kvm memstat procstat devstat rt util; do rm -f "$lib/lib$name.a" && ar crs "$lib/lib$name.a"; done
}

build_programs() {
    # Linked without position independence, since FreeBSD 12 knows no other static programs. The names of threads came with 12.2.
    cat > "$folder/link-clang" <<END
#!/bin/sh
# Links a program for the FreeBSD beside this file, statically: for C, and as the linker of Rust.
folder=\$(cd "\$(dirname "\$0")" && pwd)
exec $clang -target $target --sysroot="\$folder" -fuse-ld=$lld -static -Qunused-arguments -Wl,--start-group "\$@" -lthr -lc -lgcc_eh -lgcc -lm -lexecinfo -Wl,--end-group
END
    cat > "$folder/cc" <<END
#!/bin/sh
exec $clang -target $target --sysroot="\$(cd "\$(dirname "\$0")" && pwd)" -Qunused-arguments "\$@"
END
    chmod +x "$folder/link-clang" "$folder/cc"
    mkdir -p "$build/programs" "$build/sh" && cd "$build/programs"
    printf '#include <pthread.h>\n#include <pthread_np.h>\n%s\n' 'int pthread_setname_np(pthread_t thread, const char *name) { pthread_set_name_np(thread, name); return 0; }' > names.c
    "$folder/cc" -O2 -c names.c && ar crs "$folder/usr/lib/libexecinfo.a" names.o

    "$folder/cc" -O2 -w -c "$here/box.c" && "$folder/link-clang" box.o -o "$folder/bin/box"
    for name in pkt-gen bridge vale-ctl; do
        "$folder/cc" -O2 -w -DNO_PCAP -c "$src/tools/tools/netmap/$name.c" && "$folder/link-clang" $name.o -o "$folder/bin/$name"
    done

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
echo "built: $folder/kernel, start, bin (sh, pkt-gen, bridge, vale-ctl), usr, link-clang, cc"
