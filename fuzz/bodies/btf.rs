//! Body of the fuzz target `btf`: any bytes as a kernel's types. Also run by the tests of `linerate-bpf`.

use linerate_bpf::Btf;

/// Reads the bytes and asks for what the drop program asks for; whatever they are, it ends, and stays inside them.
pub fn run(data: &[u8]) {
    let Ok(btf) = Btf::parse(data.to_vec()) else { return };
    // A type has at least 12 bytes.
    assert!(btf.len() <= data.len() / 12);
    for (structure, path) in [
        ("sk_buff", ["dev"].as_slice()),
        ("net_device", &["nd_net", "net"]),
        ("net", &["ns", "inum"]),
        ("loop", &["nowhere"]),
    ] {
        if let Ok(offset) = btf.offset_bytes(structure, path) {
            assert!(offset <= u32::MAX / 8);
        }
    }
    if let Ok(values) = btf.enumeration("skb_drop_reason") {
        assert!(values.len() <= data.len() / 8);
    }
    if let Ok(parameters) = btf.parameters("btf_trace_kfree_skb") {
        assert!(parameters.len() <= data.len() / 8);
    }
}
