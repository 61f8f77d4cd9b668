//! Streams, pacing, sender, receiver: packet generation without sockets or clocks.
