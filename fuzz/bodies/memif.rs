//! Body of the fuzz target `memif`: a peer that says and writes anything. Also run by the tests of `linerate-port-memif`.

/// The first byte says what the rest is: messages, or what a client or a server writes into rings.
pub fn run(data: &[u8]) {
    linerate_port_memif::hostile::run(data);
}
