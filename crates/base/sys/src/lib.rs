//! Descriptors, namespaces, affinity, clock, signals.
