//! Single-producer single-consumer rings.
