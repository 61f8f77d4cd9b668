//! In-process link between threads, zero-copy.
