//! The programs' instructions.
//!
//! ```text
//! R6 next task (or the interrupt's number)   R7 previous task   R8 slot of this core   R9 a time
//! ```

use std::ffi::CStr;

use super::{CORES_MAX, Layout, RECORDS_MAX, THREADS_MAX};
use crate::asm::{Assembler, Label};
use crate::error::BpfError;
use crate::insn::{Alu, Atomic, Cond, Insn, Reg, Reg::*, Width, helper};
use crate::map::Map;

const HEAD_BYTES: usize = 64;

// A slot, by core. What each switch of tasks looks at is in the first cache line.
/// The idle task, once it was seen.
const IDLE: i16 = 0;
/// Since when another task has the core; 0 while a thread of interest or nobody has it.
const OTHER_SINCE: i16 = 8;
/// When the first of these tasks got it.
const FIRST: i16 = 16;
/// The thread of interest that came after them and has not left its core since.
const PENDING: i16 = 24;
const TASKS: i16 = 32;
const THREADS: i16 = TASKS + 8 * THREADS_MAX as i16;
/// Number of the core.
pub(super) const CORE: i16 = THREADS + 8 * THREADS_MAX as i16;
/// How long the one of the other tasks that ran longest did.
const LONGEST: i16 = CORE + 8;
const SWITCHES: i16 = CORE + 16;
/// Thread and process of that one, and its name.
const BY: i16 = CORE + 24;
const NAME: i16 = CORE + 32;
/// When the pending thread came.
const ARRIVED: i16 = CORE + 48;
/// Its waiting time before that, and the most that it can have waited.
const DELAY: i16 = CORE + 56;
const MOST: i16 = CORE + 64;
const INTERRUPT_SINCE: i16 = CORE + 72;
const SLOT_BYTES: usize = (CORE as usize + 80).next_multiple_of(64);

// A record.
pub(super) const RECORD_KIND: i16 = 0;
pub(super) const RECORD_CORE: i16 = 8;
pub(super) const RECORD_START: i16 = 16;
pub(super) const RECORD_END: i16 = 24;
pub(super) const RECORD_BY: i16 = 32;
pub(super) const RECORD_SWITCHES: i16 = 40;
pub(super) const RECORD_NAME: i16 = 48;
const RECORD_BYTES: usize = 64;

pub(super) const KIND_TASK: u64 = 1;
pub(super) const KIND_DEVICE: u64 = 2;
pub(super) const KIND_TIMER: u64 = 3;
pub(super) const KIND_CALL: u64 = 4;

pub(super) const MAP_BYTES: u32 = (HEAD_BYTES + CORES_MAX * SLOT_BYTES + RECORDS_MAX * RECORD_BYTES) as u32;

/// Tracepoints around interrupts, with the kind of their records and their name. Interrupts of one core do not nest. Reschedule
/// interrupts are left out: they come with each wakeup and do nothing.
pub(super) const INTERRUPTS: [(&CStr, &CStr, u64, &str); 4] = [
    (c"irq_handler_entry", c"irq_handler_exit", KIND_DEVICE, "interrupts of devices"),
    (c"local_timer_entry", c"local_timer_exit", KIND_TIMER, "timer interrupts"),
    (c"call_function_entry", c"call_function_exit", KIND_CALL, "function calls from other cores"),
    (c"call_function_single_entry", c"call_function_single_exit", KIND_CALL, "function calls from another core"),
];

/// A task that ran for less has no name here, in nanoseconds: to copy it would cost more than all else.
const NAMED_NS: i32 = 10_000;

/// Where kernel memory is read to.
const SCRATCH: i16 = -8;

/// Bytes from the start of the map to the slot with this number.
pub(super) const fn slot(number: usize) -> usize {
    HEAD_BYTES + number * SLOT_BYTES
}

/// Bytes from the start of the map to the record with this number.
pub(super) const fn record(number: usize) -> usize {
    slot(CORES_MAX) + number * RECORD_BYTES
}

/// Where a slot keeps the id of its thread of interest with this number.
pub(super) const fn thread(number: usize) -> i16 {
    THREADS + 8 * number as i16
}

/// Where a slot keeps the address of that thread, once it was seen.
pub(super) const fn task(number: usize) -> i16 {
    TASKS + 8 * number as i16
}

/// Generates the programs.
pub(super) struct Emitter<'a> {
    pub(super) cores: &'a [u32],
    pub(super) threshold_ns: u32,
    pub(super) layout: &'a Layout,
    pub(super) map: &'a Map,
}

impl Emitter<'_> {
    /// At `sched_switch`.
    pub(super) fn switch(&self) -> Result<Vec<Insn>, BpfError> {
        let mut asm = Assembler::new();
        let [out, leaving, final_wait, incoming, replaced, idle, of_interest] = std::array::from_fn(|_| asm.label());
        asm.load(Width::Dw, R7, R1, self.layout.prev_argument);
        asm.load(Width::Dw, R6, R1, self.layout.next_argument);
        self.load_slot(&mut asm, out);
        asm.load(Width::Dw, R1, R8, OTHER_SINCE);
        asm.jump_if(Cond::Ne, R1, 0, leaving);
        asm.load(Width::Dw, R1, R8, PENDING);
        asm.jump_if(Cond::Eq, R1, R7, final_wait);

        asm.bind(incoming);
        branch_on_next(&mut asm, idle, of_interest);
        asm.ktime();
        note_incoming(&mut asm, R0, out);
        asm.bind(leaving);
        note_other(&mut asm, replaced);
        asm.bind(replaced);
        branch_on_next(&mut asm, idle, of_interest);
        note_incoming(&mut asm, R9, out);

        // Whoever ran before an idle time kept nobody waiting.
        asm.bind(idle);
        forget_others(&mut asm, out);
        asm.bind(of_interest);
        self.note_arrival(&mut asm, out);
        asm.bind(final_wait);
        self.note_wait(&mut asm, incoming);
        exit_at(&mut asm, out);
        Ok(asm.assemble()?)
    }

    /// At the entry of an interrupt.
    pub(super) fn interrupt_entry(&self) -> Result<Vec<Insn>, BpfError> {
        let mut asm = Assembler::new();
        let out = asm.label();
        self.load_slot(&mut asm, out);
        asm.ktime();
        asm.store(Width::Dw, R8, INTERRUPT_SINCE, R0);
        exit_at(&mut asm, out);
        Ok(asm.assemble()?)
    }

    /// At its exit.
    pub(super) fn interrupt_exit(&self, kind: u64) -> Result<Vec<Insn>, BpfError> {
        let mut asm = Assembler::new();
        let out = asm.label();
        asm.load(Width::Dw, R6, R1, 0);
        self.load_slot(&mut asm, out);
        asm.load(Width::Dw, R7, R8, INTERRUPT_SINCE);
        asm.jump_if(Cond::Eq, R7, 0, out);
        asm.store_imm(Width::Dw, R8, INTERRUPT_SINCE, 0);
        asm.ktime();
        asm.mov64(R9, R0);
        asm.alu64(Alu::Sub, R0, R7);
        asm.jump_if(Cond::Lt, R0, self.threshold_ns as i32, out);
        self.load_record(&mut asm, out);
        asm.store(Width::Dw, R3, RECORD_START, R7);
        asm.store(Width::Dw, R3, RECORD_END, R9);
        asm.store(Width::Dw, R3, RECORD_BY, R6);
        finish_record(&mut asm, kind);
        exit_at(&mut asm, out);
        Ok(asm.assemble()?)
    }

    /// `R8 = slot of this core`; goes to `out` on a core that is not looked at.
    fn load_slot(&self, asm: &mut Assembler, out: Label) {
        let found = asm.label();
        asm.call(helper::GET_SMP_PROCESSOR_ID);
        for (number, core) in self.cores.iter().enumerate() {
            let other = asm.label();
            asm.jump_if(Cond::Ne, R0, *core as i32, other);
            asm.load_map_value(R8, self.map, slot(number) as u32);
            asm.jump(found);
            asm.bind(other);
        }
        asm.jump(out);
        asm.bind(found);
    }

    /// A thread of interest gets its core. If other tasks have had it before, keeps what is needed to tell how long the thread
    /// waited; ends at `out`.
    fn note_arrival(&self, asm: &mut Assembler, out: Label) {
        let short = asm.label();
        asm.load(Width::Dw, R7, R8, FIRST);
        asm.jump_if(Cond::Eq, R7, 0, out);
        asm.ktime();
        asm.mov64(R9, R0);
        asm.mov64(R1, R9);
        asm.alu64(Alu::Sub, R1, R7);
        asm.jump_if(Cond::Lt, R1, self.threshold_ns as i32, short);
        asm.store(Width::Dw, R8, MOST, R1);
        asm.store(Width::Dw, R8, ARRIVED, R9);
        self.read(asm, 8, R6, self.layout.task_run_delay, short);
        asm.load(Width::Dw, R1, R10, SCRATCH);
        asm.store(Width::Dw, R8, DELAY, R1);
        asm.store(Width::Dw, R8, PENDING, R6);
        asm.store_imm(Width::Dw, R8, FIRST, 0);
        // The others' names and number stay until the wait is noted.
        asm.jump(out);
        asm.bind(short);
        forget_others(asm, out);
    }

    /// A thread of interest leaves its core: now its waiting time is known.
    fn note_wait(&self, asm: &mut Assembler, then: Label) {
        let [within, forget] = std::array::from_fn(|_| asm.label());
        asm.store_imm(Width::Dw, R8, PENDING, 0);
        self.read(asm, 8, R7, self.layout.task_run_delay, forget);
        asm.load(Width::Dw, R9, R10, SCRATCH);
        asm.load(Width::Dw, R1, R8, DELAY);
        asm.alu64(Alu::Sub, R9, R1);
        asm.load(Width::Dw, R1, R8, MOST);
        asm.jump_if(Cond::Le, R9, R1, within);
        asm.mov64(R9, R1);
        asm.bind(within);
        asm.jump_if(Cond::Lt, R9, self.threshold_ns as i32, forget);
        self.load_record(asm, forget);
        asm.load(Width::Dw, R1, R8, ARRIVED);
        asm.store(Width::Dw, R3, RECORD_END, R1);
        asm.alu64(Alu::Sub, R1, R9);
        asm.store(Width::Dw, R3, RECORD_START, R1);
        for (from, to) in
            [(BY, RECORD_BY), (SWITCHES, RECORD_SWITCHES), (NAME, RECORD_NAME), (NAME + 8, RECORD_NAME + 8)]
        {
            asm.load(Width::Dw, R1, R8, from);
            asm.store(Width::Dw, R3, to, R1);
        }
        finish_record(asm, KIND_TASK);
        asm.bind(forget);
        for word in [LONGEST, SWITCHES, BY, NAME, NAME + 8] {
            asm.store_imm(Width::Dw, R8, word, 0);
        }
        asm.jump(then);
    }

    /// `R3 = a new record`, with the core in it; goes to `full` if there is no room.
    fn load_record(&self, asm: &mut Assembler, full: Label) {
        asm.load_map_value(R3, self.map, 0);
        asm.mov64(R1, 1);
        asm.atomic(Atomic::FetchAdd, Width::Dw, R3, 0, R1);
        asm.jump_if(Cond::Ge, R1, RECORDS_MAX as i32, full);
        asm.alu64(Alu::Mul, R1, RECORD_BYTES as i32);
        asm.load_map_value(R3, self.map, record(0) as u32);
        asm.alu64(Alu::Add, R3, R1);
        asm.load(Width::Dw, R1, R8, CORE);
        asm.store(Width::Dw, R3, RECORD_CORE, R1);
    }

    /// Reads `bytes` bytes of kernel memory, `offset` after the address in `base`; goes to `failed` if there is none.
    fn read(&self, asm: &mut Assembler, bytes: i32, base: Reg, offset: u32, failed: Label) {
        asm.mov64(R1, R10);
        asm.alu64(Alu::Add, R1, i32::from(SCRATCH));
        asm.mov64(R2, bytes);
        asm.mov64(R3, base);
        asm.alu64(Alu::Add, R3, offset as i32);
        asm.call(helper::PROBE_READ_KERNEL);
        asm.jump_if(Cond::Ne, R0, 0, failed);
    }
}

/// Goes where the next task belongs if its address is known, else on.
fn branch_on_next(asm: &mut Assembler, idle: Label, of_interest: Label) {
    asm.load(Width::Dw, R1, R8, IDLE);
    asm.jump_if(Cond::Eq, R1, R6, idle);
    for number in 0..THREADS_MAX {
        asm.load(Width::Dw, R1, R8, task(number));
        asm.jump_if(Cond::Eq, R1, R6, of_interest);
    }
}

/// Another task gets the core, or one that is not known yet: what it is turns out when it leaves. Ends at `out`.
fn note_incoming(asm: &mut Assembler, now: Reg, out: Label) {
    asm.store(Width::Dw, R8, OTHER_SINCE, now);
    asm.load(Width::Dw, R1, R8, FIRST);
    asm.jump_if(Cond::Ne, R1, 0, out);
    asm.store(Width::Dw, R8, FIRST, now);
    asm.jump(out);
}

/// Another task leaves the core, at `R9 = now`: keeps its name if it ran longest. If it is the idle task or a thread of interest, its
/// address is known from now on, and nobody was kept waiting. Goes on at `then`.
fn note_other(asm: &mut Assembler, then: Label) {
    let [busy, other, known, shorter] = std::array::from_fn(|_| asm.label());
    asm.mov64(R9, R1);
    asm.call(helper::GET_CURRENT_PID_TGID);
    asm.store(Width::Dw, R10, SCRATCH, R0);
    asm.mov32(R0, R0);
    asm.jump_if(Cond::Ne, R0, 0, busy);
    asm.store(Width::Dw, R8, IDLE, R7);
    asm.jump(known);
    asm.bind(busy);
    for number in 0..THREADS_MAX {
        let another = asm.label();
        asm.load(Width::Dw, R2, R8, thread(number));
        asm.jump_if(Cond::Ne, R0, R2, another);
        asm.store(Width::Dw, R8, task(number), R7);
        asm.jump(known);
        asm.bind(another);
    }
    asm.jump(other);

    asm.bind(known);
    for word in [OTHER_SINCE, FIRST, LONGEST, SWITCHES, BY, NAME, NAME + 8] {
        asm.store_imm(Width::Dw, R8, word, 0);
    }
    asm.ktime();
    asm.mov64(R9, R0);
    asm.jump(then);

    asm.bind(other);
    asm.mov64(R7, R9);
    asm.ktime();
    asm.mov64(R9, R0);
    asm.alu64(Alu::Sub, R0, R7);
    asm.mov64(R7, R0);
    asm.store_imm(Width::Dw, R8, OTHER_SINCE, 0);
    asm.load(Width::Dw, R1, R8, SWITCHES);
    asm.alu64(Alu::Add, R1, 1);
    asm.store(Width::Dw, R8, SWITCHES, R1);
    asm.jump_if(Cond::Lt, R7, NAMED_NS, shorter);
    asm.load(Width::Dw, R1, R8, LONGEST);
    asm.jump_if(Cond::Le, R7, R1, shorter);
    asm.store(Width::Dw, R8, LONGEST, R7);
    asm.load(Width::Dw, R1, R10, SCRATCH);
    asm.store(Width::Dw, R8, BY, R1);
    asm.mov64(R1, R8);
    asm.alu64(Alu::Add, R1, i32::from(NAME));
    asm.mov64(R2, 16);
    asm.call(helper::GET_CURRENT_COMM);
    asm.bind(shorter);
    asm.jump(then);
}

/// Ends at `out`.
fn forget_others(asm: &mut Assembler, out: Label) {
    asm.load(Width::Dw, R1, R8, FIRST);
    asm.jump_if(Cond::Eq, R1, 0, out);
    for word in [FIRST, LONGEST, SWITCHES, BY, NAME, NAME + 8] {
        asm.store_imm(Width::Dw, R8, word, 0);
    }
    asm.jump(out);
}

/// Writes the kind last: a record without one is not complete.
fn finish_record(asm: &mut Assembler, kind: u64) {
    asm.store_imm(Width::Dw, R3, RECORD_KIND, kind as i32);
}

fn exit_at(asm: &mut Assembler, out: Label) {
    asm.bind(out);
    asm.mov64(R0, 0);
    asm.exit();
}
