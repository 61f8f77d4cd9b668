//! Header views and builders, checksums, flow keys.
