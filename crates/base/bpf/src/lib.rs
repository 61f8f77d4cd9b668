//! bpf(2) by raw system calls: assembler, maps, programs, links.
