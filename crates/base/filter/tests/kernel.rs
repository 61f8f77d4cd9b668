//! The kernel as the judge: it takes the programs that the checker takes, refuses those that the checker refuses, and gives the
//! results that the interpreter gives.
//!
//! A filter on a datagram socket of the local domain needs no rights. What it returns is how much of a message arrives.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

use linerate_filter::{Facts, Instruction, Program, code};
use proptest::prelude::*;

/// SO_ATTACH_FILTER, checked by the kernel's own rules.
fn attach(socket: &UnixDatagram, instructions: &[Instruction]) -> io::Result<()> {
    let mut filter: Vec<libc::sock_filter> =
        instructions.iter().map(|&Instruction { code, jt, jf, k }| libc::sock_filter { code, jt, jf, k }).collect();
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    let (value, len) = ((&raw const program).cast(), size_of_val(&program) as u32);
    // SAFETY: the program names as many instructions as it says, which live until the call is over; the kernel copies them.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, value, len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How many bytes of the packet pass the socket's filter.
fn passed(sender: &UnixDatagram, receiver: &UnixDatagram, packet: &[u8]) -> usize {
    sender.send(packet).unwrap();
    match receiver.recv(&mut [0; 2048]) {
        Ok(len) => len,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        Err(error) => panic!("{error}"),
    }
}

fn pair() -> (UnixDatagram, UnixDatagram) {
    let (sender, receiver) = UnixDatagram::pair().unwrap();
    receiver.set_nonblocking(true).unwrap();
    (sender, receiver)
}

/// Instructions that the checker may take, mostly; some it does not.
fn instruction() -> impl Strategy<Value = Instruction> {
    use code::*;
    const CODES: [u16; 41] = [
        LD_W_ABS,
        LD_H_ABS,
        LD_B_ABS,
        LD_W_IND,
        LD_H_IND,
        LD_B_IND,
        LD_LEN,
        LD_IMM,
        LD_MEM,
        LDX_LEN,
        LDX_IMM,
        LDX_MEM,
        LDX_MSH,
        ST,
        STX,
        ADD,
        SUB,
        MUL,
        DIV,
        OR,
        AND,
        LSH,
        RSH,
        MOD,
        XOR,
        NEG,
        JA,
        JEQ,
        JGT,
        JGE,
        JSET,
        RET_K,
        RET_A,
        TAX,
        TXA,
        ADD | X,
        DIV | X,
        MOD | X,
        LSH | X,
        JGT | X,
        JSET | X,
    ];
    let code = prop_oneof![40 => proptest::sample::select(&CODES[..]), 1 => any::<u16>()];
    let small = 0u32..70;
    // Facts are left out: what the kernel knows of a message of the local domain is not what it knows of a packet.
    let k = prop_oneof![
        20 => small, 2 => Just(u32::MAX - 8192), 1 => Just(1 << 31), 1 => Just(u32::MAX - 4097), 1 => 0u32..20_000
    ];
    (code, 0u8..6, 0u8..6, k).prop_map(|(code, jt, jf, k)| Instruction { code, jt, jf, k })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn the_kernel_agrees(
        mut instructions in proptest::collection::vec(instruction(), 0..14),
        returns_a in any::<bool>(),
        packet in proptest::collection::vec(any::<u8>(), 1..80),
    ) {
        instructions.push(Instruction::new(if returns_a { code::RET_A } else { code::RET_K }, 40));
        let (sender, receiver) = pair();
        let theirs = attach(&receiver, &instructions);
        let program = Program::new(instructions.clone());
        prop_assert_eq!(program.is_ok(), theirs.is_ok(), "{:?}, the kernel says {:?}: {:?}", program, theirs, instructions);
        if let Ok(program) = program {
            let kept = program.run(&packet, &Facts::of_len(packet.len() as u32)) as usize;
            prop_assert_eq!(passed(&sender, &receiver, &packet), kept.min(packet.len()), "{}", program);
        }
    }

    /// Whatever passes the checker ends, within the packet, without a panic; facts and far places among it.
    #[test]
    fn no_program_breaks_the_interpreter(
        mut instructions in proptest::collection::vec((any::<u16>(), any::<u8>(), any::<u8>(), any::<u32>()), 0..8),
        plausible in proptest::collection::vec(instruction(), 0..8),
        facts in proptest::collection::vec(0u32..70, 0..4),
        packet in proptest::collection::vec(any::<u8>(), 0..80),
    ) {
        instructions.truncate(1);
        let odd = instructions.into_iter().map(|(code, jt, jf, k)| Instruction { code, jt, jf, k });
        let facts = facts.into_iter().map(|fact| Instruction::new(code::LD_W_ABS, (-0x1000_i32) as u32 + fact));
        let mut all: Vec<Instruction> = plausible.into_iter().chain(facts).chain(odd).collect();
        all.push(Instruction::new(code::RET_A, 0));
        if let Ok(program) = Program::new(all) {
            let _ = program.run(&packet, &Facts::of_len(packet.len() as u32));
        }
    }
}

#[test]
fn what_the_compiler_makes_the_kernel_takes() {
    // As long as it gets: jumps that skip more than 255 instructions.
    let terms: Vec<String> = (0..12).map(|port| format!("not portrange {port}-{}", port + 9)).collect();
    for expression in
        ["", "tcp", "vlan 5 and vlan 6 and udp port 53", "net 10.0.0.0/8 or ip6 net 2001::/16", &terms.join(" and ")]
    {
        for tags in [linerate_filter::Tags::InPacket, linerate_filter::Tags::Beside] {
            let program = linerate_filter::compile(expression, tags, 65_535).unwrap();
            let (_, receiver) = pair();
            attach(&receiver, program.instructions()).unwrap();
        }
    }
}
