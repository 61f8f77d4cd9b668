//! One eBPF instruction: its fields, its 8-byte encoding, and the names of opcodes and helpers.
//!
//! Sources: RFC 9669 (BPF Instruction Set Architecture) sections 3 to 5; helper numbers, pseudo
//! source registers and atomic codes from Linux `include/uapi/linux/bpf.h`.

/// A register. `R0` holds return values, `R1` to `R5` arguments (lost in a call), `R6` to `R9` are
/// kept over calls, `R10` is the read-only frame pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// The width of a memory access; the value is the size field of the opcode (RFC 9669 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Width {
    /// One byte.
    B = 0x10,
    /// Two bytes.
    H = 0x08,
    /// Four bytes.
    W = 0x00,
    /// Eight bytes.
    Dw = 0x18,
}

impl Width {
    /// The access that moves `bytes` bytes, if there is one.
    pub fn from_bytes(bytes: usize) -> Option<Width> {
        match bytes {
            1 => Some(Width::B),
            2 => Some(Width::H),
            4 => Some(Width::W),
            8 => Some(Width::Dw),
            _ => None,
        }
    }

    /// How many bytes the access moves.
    pub fn bytes(self) -> usize {
        match self {
            Width::B => 1,
            Width::H => 2,
            Width::W => 4,
            Width::Dw => 8,
        }
    }
}

/// An arithmetic operation; the value is the code field of the opcode (RFC 9669 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    /// Unsigned; division by zero gives zero.
    Div = 0x30,
    Or = 0x40,
    And = 0x50,
    /// Logical shift left.
    Lsh = 0x60,
    /// Logical shift right.
    Rsh = 0x70,
    Neg = 0x80,
    /// Unsigned; modulo zero leaves the destination.
    Mod = 0x90,
    Xor = 0xa0,
    Mov = 0xb0,
    /// Arithmetic shift right.
    Arsh = 0xc0,
}

/// The condition of a jump; the value is the code field of the opcode (RFC 9669 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cond {
    /// Equal.
    Eq = 0x10,
    /// Greater, unsigned.
    Gt = 0x20,
    /// Greater or equal, unsigned.
    Ge = 0x30,
    /// Any common bit set.
    Set = 0x40,
    /// Not equal.
    Ne = 0x50,
    /// Greater, signed.
    Sgt = 0x60,
    /// Greater or equal, signed.
    Sge = 0x70,
    /// Less, unsigned.
    Lt = 0xa0,
    /// Less or equal, unsigned.
    Le = 0xb0,
    /// Less, signed.
    Slt = 0xc0,
    /// Less or equal, signed.
    Sle = 0xd0,
}

/// An atomic operation on memory; the value is the immediate (RFC 9669 section 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Atomic {
    /// Add.
    Add = 0x00,
    /// Or.
    Or = 0x40,
    /// And.
    And = 0x50,
    /// Exclusive or.
    Xor = 0xa0,
    /// Add; the old value replaces the source register.
    FetchAdd = 0x01,
    /// Or; the old value replaces the source register.
    FetchOr = 0x41,
    /// Exchange; the old value replaces the source register.
    Exchange = 0xe1,
    /// Compare with `R0` and exchange; the old value is put in `R0`.
    CompareExchange = 0xf1,
}

/// The right-hand side of an operation: a register, or an immediate that is sign-extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// The value of a register.
    Reg(Reg),
    /// A constant.
    Imm(i32),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Operand {
        Operand::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(imm: i32) -> Operand {
        Operand::Imm(imm)
    }
}

/// Numbers of kernel functions that a program may call (`enum bpf_func_id`).
pub mod helper {
    /// `void *bpf_map_lookup_elem(map, key)`.
    pub const MAP_LOOKUP_ELEM: i32 = 1;
    /// `long bpf_map_update_elem(map, key, value, flags)`.
    pub const MAP_UPDATE_ELEM: i32 = 2;
    /// `u64 bpf_ktime_get_ns()`: CLOCK_MONOTONIC.
    pub const KTIME_GET_NS: i32 = 5;
    /// `u32 bpf_get_smp_processor_id()`.
    pub const GET_SMP_PROCESSOR_ID: i32 = 8;
    /// `u64 bpf_get_current_pid_tgid()`: the process in the upper half, the thread in the lower one.
    pub const GET_CURRENT_PID_TGID: i32 = 14;
    /// `long bpf_get_current_comm(buf, bytes)`.
    pub const GET_CURRENT_COMM: i32 = 16;
    /// `long bpf_redirect(ifindex, flags)`.
    pub const REDIRECT: i32 = 23;
    /// `long bpf_redirect_map(map, key, flags)`.
    pub const REDIRECT_MAP: i32 = 51;
    /// `long bpf_probe_read_kernel(to, bytes, from)`.
    pub const PROBE_READ_KERNEL: i32 = 113;
    /// `u64 bpf_xdp_get_buff_len(ctx)`.
    pub const XDP_GET_BUFF_LEN: i32 = 188;
    /// `long bpf_xdp_load_bytes(ctx, offset, buf, len)`.
    pub const XDP_LOAD_BYTES: i32 = 189;
}

/// Return codes of an XDP program (`enum xdp_action`).
pub mod action {
    /// The program failed; counted as an exception.
    pub const ABORTED: i32 = 0;
    /// Drop the frame.
    pub const DROP: i32 = 1;
    /// Hand the frame to the network stack.
    pub const PASS: i32 = 2;
    /// Send the frame out of the device it came from.
    pub const TX: i32 = 3;
    /// Go where the redirect helper said.
    pub const REDIRECT: i32 = 4;
}

/// Offsets in `struct xdp_md`, the context of an XDP program.
pub mod xdp_md {
    /// First byte of the frame.
    pub const DATA: i16 = 0;
    /// One past the last byte of the frame's linear part.
    pub const DATA_END: i16 = 4;
    /// Receive queue on which it arrived.
    pub const RX_QUEUE_INDEX: i16 = 16;
    /// The structure's size in bytes.
    pub const SIZE: usize = 24;
}

pub(crate) mod class {
    //! Instruction classes (RFC 9669 section 3.3) and the modes and pseudo sources used here.
    pub const LD: u8 = 0x00;
    pub const LDX: u8 = 0x01;
    pub const ST: u8 = 0x02;
    pub const STX: u8 = 0x03;
    pub const ALU: u8 = 0x04;
    pub const JMP: u8 = 0x05;
    pub const JMP32: u8 = 0x06;
    pub const ALU64: u8 = 0x07;
    pub const MODE_IMM: u8 = 0x00;
    pub const MODE_MEM: u8 = 0x60;
    pub const MODE_ATOMIC: u8 = 0xc0;
    pub const SOURCE_REG: u8 = 0x08;
    pub const END: u8 = 0xd0;
    pub const CALL: u8 = 0x80;
    pub const EXIT: u8 = 0x90;
    pub const PSEUDO_MAP_FD: u8 = 1;
    pub const PSEUDO_MAP_VALUE: u8 = 2;
}

/// One encoded slot of a program (`struct bpf_insn`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Insn {
    /// Operation.
    pub code: u8,
    /// Destination register number.
    pub dst: u8,
    /// Source register number, or a pseudo source.
    pub src: u8,
    /// Address offset, or jump distance in slots.
    pub off: i16,
    /// Constant.
    pub imm: i32,
}

impl Insn {
    /// The 8 bytes that the kernel reads, in the byte order of this machine.
    pub fn encode(self) -> [u8; 8] {
        let registers = if cfg!(target_endian = "little") {
            self.src << 4 | self.dst & 0x0f
        } else {
            self.dst << 4 | self.src & 0x0f
        };
        let off = self.off.to_ne_bytes();
        let imm = self.imm.to_ne_bytes();
        [self.code, registers, off[0], off[1], imm[0], imm[1], imm[2], imm[3]]
    }
}
