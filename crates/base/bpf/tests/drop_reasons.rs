//! The program that counts drops, on this kernel: its namespaces only, by reason and place, and gone with its owner.

mod common;

use std::io;
use std::net::UdpSocket;

use common::{in_namespace, ip};
use linerate_bpf::insn::Reg::*;
use linerate_bpf::insn::Width;
use linerate_bpf::programs::drop_reasons::{DropReasons, Ignored};
use linerate_bpf::{Assembler, AttachMode, BpfError, Program, ProgramOptions, Tally, Tracepoint, XdpLink};
use linerate_sys::netns::NetNs;

/// This thread's namespace by number.
fn here() -> u32 {
    NetNs::current().and_then(|namespace| namespace.inode()).expect("/proc") as u32
}

/// Sends datagrams to a port of this namespace on which nobody listens.
fn send_to_nobody(count: usize) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    for _ in 0..count {
        socket.send_to(b"to nobody", "127.0.0.1:9")?;
    }
    Ok(())
}

/// None, having said why, where the machine does not allow it.
fn attached(namespaces: &[u32], ignored: &Ignored<'_>) -> Option<DropReasons> {
    DropReasons::attach(namespaces, ignored).inspect_err(|error| eprintln!("skipped: {error}")).ok()
}

#[test]
fn drops_are_counted_by_reason_in_the_namespaces_asked_for() {
    in_namespace(|| {
        if !ip(&["link", "set", "lo", "up"]) {
            return;
        }
        let Some(ours) = attached(&[here()], &Ignored::default()) else { return };
        let Some(others) = attached(&[1], &Ignored::default()) else { return };
        let ignored = Ignored { reasons: &["NO_SOCKET"], places: &[] };
        let Some(ignoring) = attached(&[here()], &ignored) else { return };
        send_to_nobody(25).expect("sent");
        let counted = ours.read().expect("counts");
        let of_reason = |name: &str| -> u64 {
            counted.iter().filter(|(key, _)| ours.reason(key.reason) == name).map(|(_, packets)| packets).sum()
        };
        assert_eq!(of_reason("NO_SOCKET"), 25, "{counted:?}");
        let key = counted.keys().find(|key| ours.reason(key.reason) == "NO_SOCKET").expect("counted");
        assert_eq!((key.namespace, key.interface), (here(), 1));
        assert_ne!(key.place, 0);
        assert_eq!(ours.uncounted().expect("counts"), 0);
        assert!(others.read().expect("counts").is_empty());
        assert!(ignoring.read().expect("counts").keys().all(|key| ignoring.reason(key.reason) != "NO_SOCKET"));
        // The same place, left out by its address.
        let place = key.place..key.place + 1;
        let Some(elsewhere) = attached(&[here()], &Ignored { reasons: &[], places: &[place] }) else { return };
        send_to_nobody(5).expect("sent");
        assert!(elsewhere.read().expect("counts").keys().all(|other| other.place != key.place));
    });
}

/// Frames that a program redirects to an interface that is not there.
#[test]
fn errors_of_xdp_programs_are_counted_by_interface() {
    use linerate_bpf::programs::xdp_errors::{XdpError, XdpErrors};
    in_namespace(|| {
        // Datagrams leave by `near` without a question for an address.
        let neighbour = ["neigh", "add", "10.9.9.2", "lladdr", "02:00:00:00:00:09", "dev", "near"];
        if !common::make_pair() || !ip(&["addr", "add", "10.9.9.1/24", "dev", "near"]) || !ip(&neighbour) {
            return;
        }
        let errors = match XdpErrors::attach(&[here()]) {
            Ok(errors) => errors,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        // To an interface that does not exist: an error for each frame.
        let mut asm = Assembler::new();
        asm.mov64(R1, 9_999);
        asm.mov64(R2, 0);
        asm.call(linerate_bpf::insn::helper::REDIRECT);
        asm.exit();
        let insns = asm.assemble().expect("assembled");
        let program = Program::load_xdp("away", &insns, ProgramOptions::default()).expect("loaded");
        let _link = XdpLink::attach(&program, common::FAR, AttachMode::Native).expect("attached");
        let socket = UdpSocket::bind("10.9.9.1:0").expect("a socket");
        (0..7).for_each(|_| assert_eq!(socket.send_to(b"away", "10.9.9.2:9").expect("sent"), 4));
        common::wait_until(|| errors.read().is_ok_and(|counted| counted.values().sum::<u64>() >= 7));
        let counted = errors.read().expect("counts");
        let [(key, 7)] = counted.iter().collect::<Vec<_>>()[..] else { panic!("one kind: {counted:?}") };
        assert_eq!((key.namespace, key.interface), (here(), common::FAR));
        assert!(matches!(key.error, XdpError::Redirect(errno) if errno > 0), "{key:?}");
    });
}

/// Two next hops that nobody is: each has its own count, of both versions of IP.
#[test]
fn packets_that_wait_for_a_next_hop_are_counted_by_its_address() {
    use linerate_bpf::programs::neighbours::NeighbourWaits;
    in_namespace(|| {
        if !common::make_pair() || !ip(&["addr", "add", "10.9.9.1/24", "dev", "near"]) {
            return;
        }
        let waits = match NeighbourWaits::attach(&[here()]) {
            Ok(waits) => waits,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let Ok(elsewhere) = NeighbourWaits::attach(&[1]) else { panic!("the same program again") };
        let socket = UdpSocket::bind("10.9.9.1:0").expect("a socket");
        for (last, packets) in [(77, 9), (78, 5)] {
            (0..packets)
                .for_each(|_| assert_eq!(socket.send_to(b"wait", (format!("10.9.9.{last}"), 9)).expect("sent"), 4));
        }
        let counted = waits.read().expect("counts");
        let by_address: Vec<_> = counted.iter().map(|(key, packets)| (key.address.to_string(), *packets)).collect();
        assert_eq!(by_address, [("10.9.9.77".to_owned(), 9), ("10.9.9.78".to_owned(), 5)]);
        assert!(counted.keys().all(|key| key.namespace == here()), "{counted:?}");
        assert!(elsewhere.read().expect("counts").is_empty());
    });
}

#[test]
fn a_full_table_says_how_much_it_missed() {
    in_namespace(|| {
        if !ip(&["link", "set", "lo", "up"]) {
            return;
        }
        // Counts each drop of the machine under a key of its own: only the first two have room.
        let tally = Tally::new("few", 8, 2).expect("a table");
        let sequence = linerate_bpf::Map::shared("sequence", 8).expect("a map");
        let mut asm = Assembler::new();
        asm.load_map_value(R6, &sequence, 0);
        asm.mov64(R7, 1);
        asm.atomic(linerate_bpf::insn::Atomic::FetchAdd, Width::Dw, R6, 0, R7);
        asm.store(Width::Dw, R10, -8, R7);
        tally.emit_count(&mut asm, -8, -16);
        asm.mov64(R0, 0);
        asm.exit();
        let insns = asm.assemble().expect("assembled");
        let tracepoint = match Tracepoint::attach(c"kfree_skb", "test", &insns) {
            Ok(tracepoint) => tracepoint,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        send_to_nobody(10).expect("sent");
        let seen = sequence.view().expect("a view").load(0);
        let (kept, missed) = (tally.read().expect("counts"), tally.overflow().expect("counts"));
        drop(tracepoint);
        assert!(seen >= 10);
        assert_eq!(kept.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [1, 1]);
        assert!(missed >= 8, "{missed} of {seen}");
    });
}

#[test]
fn what_cannot_be_attached_says_why() {
    in_namespace(|| {
        let error = DropReasons::attach(&[], &Ignored::default()).expect_err("no namespace");
        assert!(matches!(error, BpfError::Argument(_)), "{error}");
        let mut asm = Assembler::new();
        asm.mov64(R0, 0);
        asm.exit();
        let insns = asm.assemble().expect("assembled");
        let error = Tracepoint::attach(c"no_such_tracepoint", "test", &insns).expect_err("there is none");
        if error.errno() == Some(libc::EPERM) {
            return eprintln!("skipped: {error}");
        }
        assert_eq!(error.errno(), Some(libc::ENOENT), "{error}");
    });
}
