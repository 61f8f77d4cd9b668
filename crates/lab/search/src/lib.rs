//! RFC 2544 throughput search as a pure function of a measurer.
