//! Transmit by BPF_PROG_RUN with live XDP frames.
