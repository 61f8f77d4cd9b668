//! Maps, programs, links and runs against the running kernel, in a private network namespace.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

use common::{FAR, NEAR, in_namespace, ip, ip_text, make_pair, wait_until};
use linerate_bpf::insn::{Alu, Atomic, Cond, Reg::*, Width, action, xdp_md};
use linerate_bpf::programs::{drop_count::DropCount, redirect_xsk};
use linerate_bpf::run::{LiveRun, run_once, run_repeated};
use linerate_bpf::{Assembler, AttachMode, BpfError, Map, Program, ProgramOptions, Resident, XdpLink};

const FRAME: [u8; 60] = [0x5a; 60];

fn load(asm: Assembler) -> Result<Program, BpfError> {
    Program::load_xdp("test", &asm.assemble()?, ProgramOptions::default())
}

fn returning(code: i32) -> Program {
    let mut asm = Assembler::new();
    asm.mov64(R0, code);
    asm.exit();
    load(asm).unwrap()
}

#[test]
fn maps_hold_what_is_put_in() {
    in_namespace(|| {
        let map = Map::array("numbers", 12, 4).unwrap();
        map.update(3, b"twelve bytes").unwrap();
        assert_eq!(map.lookup(3).unwrap(), b"twelve bytes");
        assert_eq!(map.lookup(2).unwrap(), [0; 12]);
        assert_eq!(map.lookup(4).unwrap_err().errno(), Some(libc::ENOENT));
        assert_eq!(map.update(3, b"short").unwrap_err().errno(), Some(libc::EINVAL));
        assert_eq!(map.delete(3).unwrap_err().errno(), Some(libc::EINVAL));
        assert!(map.view().is_err(), "only shared arrays can be mapped");

        let devices = Map::device("devices", 2).unwrap();
        devices.set_u32(1, 1).unwrap();
        devices.delete(1).unwrap();
        assert_eq!(devices.lookup(1).unwrap_err().errno(), Some(libc::ENOENT));
        assert!(devices.set_u32(0, 999).is_err(), "there is no interface 999");
    });
}

#[test]
fn a_program_and_a_view_share_memory() {
    in_namespace(|| {
        let map = Map::shared("shared", 5000).unwrap();
        let view = map.view().unwrap();
        assert_eq!(view.words().len(), 625);
        assert!(view.store(4992, 40) && !view.store(5000, 1) && !view.store(3, 1));

        let mut asm = Assembler::new();
        asm.load_map_value(R6, &map, 4992);
        asm.mov64(R7, 2);
        asm.atomic(Atomic::FetchAdd, Width::Dw, R6, 0, R7);
        asm.load_map_value(R8, &map, 0);
        asm.mov64(R1, 0x10);
        asm.atomic(Atomic::FetchOr, Width::Dw, R8, 0, R1);
        asm.mov64(R0, R7);
        asm.exit();
        let program = load(asm).unwrap();
        assert_eq!(run_once(&program, &FRAME).unwrap().action, 40);
        assert_eq!(view.words()[624].load(Ordering::Relaxed), 42);
        assert_eq!(view.load(0), 0x10);
        view.clear();
        assert_eq!(map.lookup(0).unwrap(), vec![0; 5000]);
    });
}

#[test]
fn runs_give_back_the_changed_frame() {
    in_namespace(|| {
        let mut asm = Assembler::new();
        let out = asm.label();
        asm.load(Width::W, R2, R1, xdp_md::DATA);
        asm.load(Width::W, R3, R1, xdp_md::DATA_END);
        asm.mov64(R4, R2);
        asm.alu64(Alu::Add, R4, 8);
        asm.jump_if(Cond::Gt, R4, R3, out);
        asm.load(Width::H, R5, R2, 0);
        asm.to_big_endian(R5, 16);
        asm.alu64(Alu::Add, R5, 1);
        asm.to_big_endian(R5, 16);
        asm.store(Width::H, R2, 0, R5);
        asm.bind(out);
        asm.mov64(R0, action::TX);
        asm.exit();
        let program = load(asm).unwrap();
        let verdict = run_repeated(&program, &FRAME, 10).unwrap();
        assert_eq!(verdict.action, action::TX as u32);
        assert_eq!(verdict.frame[..3], [0x5a, 0x64, 0x5a]);
        assert_eq!(verdict.frame.len(), FRAME.len());
    });
}

#[test]
fn a_refused_program_says_why() {
    in_namespace(|| {
        let mut asm = Assembler::new();
        asm.load(Width::W, R0, R1, 4096);
        asm.exit();
        let error = load(asm).unwrap_err();
        let BpfError::Verifier { log, .. } = &error else { panic!("{error}") };
        assert!(log.contains("invalid bpf_context access"), "{log}");
        assert_eq!(error.errno(), Some(libc::EACCES));
    });
}

#[test]
fn links_hold_the_interface_until_they_are_dropped() {
    in_namespace(|| {
        if !make_pair() {
            return;
        }
        let program = returning(action::PASS);
        let link = XdpLink::attach(&program, FAR, AttachMode::Native).unwrap();
        assert_eq!(link.ifindex(), FAR);
        assert!(ip_text(&["link", "show", "far"]).contains("xdp"));
        let second = XdpLink::attach(&program, FAR, AttachMode::Native).unwrap_err();
        assert!(matches!(second, BpfError::Busy { ifindex: FAR }), "{second}");
        drop(link);
        // A process that another test starts just now has this one's descriptors, too, until its program begins.
        let is_free = || !ip_text(&["link", "show", "far"]).contains("xdp");
        wait_until(is_free);
        assert!(is_free());
        XdpLink::attach(&program, FAR, AttachMode::Generic).unwrap();
        let missing = XdpLink::attach(&program, 999, AttachMode::Any).unwrap_err();
        assert!(matches!(missing, BpfError::NoInterface { .. }), "{missing}");
        let unsupported = XdpLink::attach(&program, 1, AttachMode::Native).unwrap_err();
        assert!(matches!(unsupported, BpfError::Unsupported { ifindex: 1 }), "{unsupported}");
    });
}

/// Set in the process that [`a_killed_process_leaves_nothing_attached`] kills.
const HOLDER: &str = "LINERATE_BPF_TEST_HOLDS_A_LINK";

#[test]
fn a_killed_process_leaves_nothing_attached() {
    if std::env::var_os(HOLDER).is_some() {
        let program = returning(action::PASS);
        let _link = XdpLink::attach(&program, FAR, AttachMode::Native).unwrap();
        println!("attached");
        std::thread::sleep(std::time::Duration::from_secs(60));
        return;
    }
    in_namespace(|| {
        if !make_pair() {
            return;
        }
        let mut holder = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_killed_process_leaves_nothing_attached", "--nocapture"])
            .env(HOLDER, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(holder.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.ends_with("attached")));
        assert!(ip_text(&["link", "show", "far"]).contains("xdp"));
        holder.kill().unwrap();
        holder.wait().unwrap();
        wait_until(|| !ip_text(&["link", "show", "far"]).contains("xdp"));
        assert!(!ip_text(&["link", "show", "far"]).contains("xdp"));
    });
}

#[test]
fn a_resident_program_runs_and_leaves() {
    in_namespace(|| {
        let program = returning(action::DROP);
        let resident = match Resident::new(&program) {
            Ok(resident) => resident,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let run = LiveRun { template: &FRAME, ingress_ifindex: 0, repeat: 100, batch_frames: 64 };
        run.run(&program).unwrap();
        drop(resident);
        run.run(&program).unwrap();
    });
}

#[test]
fn large_frames_need_frags() {
    in_namespace(|| {
        if !make_pair() || !ip(&["link", "set", "near", "mtu", "9000"]) {
            return;
        }
        if !ip(&["link", "set", "far", "mtu", "9000"]) {
            return;
        }
        let plain = DropCount::load(false).unwrap();
        let error = XdpLink::attach(plain.program(), FAR, AttachMode::Native).unwrap_err();
        assert!(matches!(error, BpfError::MtuTooLarge { ifindex: FAR }), "{error}");
        let frags = DropCount::load(true).unwrap();
        XdpLink::attach(frags.program(), FAR, AttachMode::Native).unwrap();
    });
}

#[test]
fn every_live_frame_is_accounted_for() {
    in_namespace(|| {
        if !make_pair() {
            return;
        }
        let sink = DropCount::load(false).unwrap();
        let _sink = XdpLink::attach(sink.program(), FAR, AttachMode::Native).unwrap();
        let sender = returning(action::TX);
        let mut sent = 0;
        for (repeat, batch_frames) in [(1, 1), (1000, 64), (4099, 256)] {
            let run = LiveRun { template: &FRAME, ingress_ifindex: NEAR, repeat, batch_frames };
            run.run(&sender).unwrap();
            sent += u64::from(repeat);
        }
        let lost = || common::transmit_drops("near");
        wait_until(|| sink.dropped().unwrap().packets + lost() >= sent);
        let dropped = sink.dropped().unwrap();
        assert_eq!(dropped.packets + lost(), sent);
        assert_eq!(dropped.bytes, dropped.packets * 60);
        assert!(dropped.packets > sent / 2, "{} of {sent} arrived", dropped.packets);
    });
}

#[test]
fn live_runs_refuse_what_cannot_be() {
    in_namespace(|| {
        let program = returning(action::DROP);
        let run = |template: &[u8], batch_frames| {
            LiveRun { template, ingress_ifindex: 0, repeat: 1, batch_frames }.run(&program)
        };
        assert!(matches!(run(&FRAME, 0), Err(BpfError::Argument(_))));
        assert!(matches!(run(&FRAME, 257), Err(BpfError::Argument(_))));
        assert_eq!(run(&FRAME[..13], 1).unwrap_err().errno(), Some(libc::EINVAL));
        assert_eq!(run(&[0; 4000], 1).unwrap_err().errno(), Some(libc::EINVAL));
        run(&[0; 3000], 1).unwrap();
    });
}

#[test]
fn frames_without_a_socket_pass() {
    in_namespace(|| {
        let sockets = Map::xsk("sockets", 4).unwrap();
        for frags in [false, true] {
            let program = redirect_xsk::load(&sockets, frags).unwrap();
            assert_eq!(run_once(&program, &FRAME).unwrap().action, action::PASS as u32);
        }
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(sockets.set_fd(0, std::os::fd::AsFd::as_fd(&null)).is_err());
    });
}

#[test]
fn without_capabilities_the_error_names_them() {
    const NET_ADMIN: u64 = 1 << 12;
    const BPF: u64 = 1 << 39;
    in_namespace(|| {
        common::sys::keep_capabilities(NET_ADMIN | BPF).unwrap();
        Map::array("allowed", 8, 1).unwrap();
        let error = DropCount::load(false).unwrap_err().to_string();
        assert!(error.contains("CAP_PERFMON missing"), "{error}");
        common::sys::keep_capabilities(0).unwrap();
        let error = Map::array("denied", 8, 1).unwrap_err().to_string();
        assert!(error.contains("CAP_BPF and CAP_NET_ADMIN and CAP_PERFMON missing"), "{error}");
    });
}
