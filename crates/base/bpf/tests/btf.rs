//! Type information made by hand, damaged, and the running kernel's.

#[path = "../../../../fuzz/bodies/btf.rs"]
mod btf;
mod make;
#[path = "../../../../fuzz/bodies/mutate.rs"]
mod mutate;

use linerate_bpf::{Btf, BtfError};
use make::{Types, kernel};

#[test]
fn members_are_found_as_c_finds_them() {
    let btf = Btf::parse(kernel()).expect("types");
    assert_eq!(btf.offset_bytes("sk_buff", &["dev"]).expect("inside a union and a structure without names"), 16);
    assert_eq!(btf.offset_bytes("net_device", &["nd_net", "net"]).expect("through a typedef"), 8);
    assert_eq!(btf.offset_bytes("net", &["ns", "inum"]).expect("inside a structure"), 140);
    for (structure, path) in [
        ("net", ["ns", "nothing"].as_slice()),
        ("nothing", &["ns"]),
        ("net", &["flag"]),
        ("sk_buff", &["dev", "ifindex"]),
        ("skb_drop_reason", &["SKB_CONSUMED"]),
    ] {
        let error = btf.offset_bytes(structure, path).expect_err("a bit field, a pointer, or not there");
        assert!(matches!(error, BtfError::Missing(_)), "{structure} {path:?}: {error}");
    }
}

#[test]
fn enumerations_and_parameters_keep_their_order() {
    let btf = Btf::parse(kernel()).expect("types");
    let reasons = btf.enumeration("skb_drop_reason").expect("an enumeration");
    assert_eq!(reasons, [("SKB_CONSUMED".to_owned(), 1), ("SKB_DROP_REASON_NO_SOCKET".to_owned(), -3)]);
    assert_eq!(btf.enumeration("wide").expect("of 64 bits"), [("HUGE".to_owned(), 1 << 40)]);
    let parameters = btf.parameters("btf_trace_kfree_skb").expect("a function");
    assert_eq!(parameters, ["void *", "sk_buff *", "skb_drop_reason"]);
    assert!(btf.parameters("sk_buff").is_err());
    assert!(btf.enumeration("net").is_err());
}

#[test]
fn types_that_contain_themselves_end() {
    let mut types = Types::default();
    // A structure with 100 members without a name, each of them the structure itself.
    types.structure("loop", 8, &vec![("", 1, 0); 100]);
    // A typedef of itself.
    types.typedef("turn", 2);
    types.structure("net", 8, &[("ns", 2, 0)]);
    let btf = Btf::parse(types.bytes()).expect("types");
    assert!(btf.offset_bytes("loop", &["nowhere"]).is_err());
    assert!(btf.offset_bytes("net", &["ns", "inum"]).is_err());
    assert!(btf.parameters("turn").is_err());
}

#[test]
fn damaged_bytes_are_refused() {
    let good = kernel();
    for (at, value, words) in [
        (0, 0x1234_5678, "magic"),
        (4, 4, "header"),
        (8, u32::MAX, "types beyond"),
        (20, u32::MAX, "strings beyond"),
        (12, 13, "cut"),
    ] {
        let mut bytes = good.clone();
        bytes[at..at + 4].copy_from_slice(&u32::to_ne_bytes(value));
        let error = Btf::parse(bytes).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
    assert!(Btf::parse(Vec::new()).is_err());
}

#[test]
fn no_bytes_break_the_reader() {
    let mut types = Types::default();
    types.structure("loop", 8, &vec![("", 1, 0); 100]);
    let seeds = [kernel(), types.bytes()];
    mutate::check_seeds("btf", &seeds);
    mutate::each(&seeds, 2_000, btf::run);
}

#[test]
fn the_running_kernel_has_what_the_drop_program_reads() {
    let btf = match Btf::of_kernel() {
        Ok(btf) => btf,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    assert!(btf.len() > 10_000 && !btf.is_empty());
    assert_eq!(btf.offset_bytes("list_head", &["prev"]).expect("two pointers"), size_of::<usize>() as u32);
    let reasons = btf.enumeration("skb_drop_reason").expect("reasons");
    assert!(reasons.iter().any(|(name, value)| name == "SKB_DROP_REASON_NO_SOCKET" && *value > 0), "{reasons:?}");
}
