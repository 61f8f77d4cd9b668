//! Running a program without waiting for traffic: BPF_PROG_TEST_RUN (`BPF_PROG_RUN`).
//!
//! [`run_once`] and [`run_repeated`] give a copy of a frame to the program and return its verdict.
//! [`LiveRun`] makes real frames of the template, hands each to the program, and does with it what the
//! program returns: `XDP_TX` and redirects really transmit. The kernel recycles the frames' pages,
//! so a program must write all that a receiver may have changed.
//! Source: Linux `Documentation/bpf/bpf_prog_run.rst`, `net/bpf/test_run.c`.

use std::os::fd::AsFd;
use std::time::Duration;

use crate::error::BpfError;
use crate::insn::xdp_md;
use crate::program::Program;
use crate::sys::{self, TestRun};

/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
const LIVE_FRAMES: u32 = 1 << 1;

/// The largest batch of live frames (`TEST_XDP_MAX_BATCH`).
pub const BATCH_FRAMES_MAX: u32 = 256;

/// What a program did with a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The program's return code (see [`crate::insn::action`]).
    pub action: u32,
    /// The frame as the program left it.
    pub frame: Vec<u8>,
    /// Mean time of one run, in whole ns.
    pub duration: Duration,
}

/// Runs `program` once on a copy of `frame`.
///
/// # Errors
/// [`BpfError::Permission`]; [`BpfError::System`] with EINVAL for frames under 14 bytes or over a page.
pub fn run_once(program: &Program, frame: &[u8]) -> Result<Verdict, BpfError> {
    run_repeated(program, frame, 1)
}

/// Runs `program` `repeat` times on one copy of `frame`, which each run finds as the last left it.
///
/// # Errors
/// As [`run_once`]; EINTR if a signal ends the run.
pub fn run_repeated(program: &Program, frame: &[u8], repeat: u32) -> Result<Verdict, BpfError> {
    let mut output = vec![0; frame.len() + 512];
    let run = TestRun { frame, output: &mut output, context: None, repeat, flags: 0, batch_size: 0 };
    let answer = sys::test_run(program.as_fd(), run).map_err(|e| BpfError::system("run an XDP program", e))?;
    output.truncate(answer.output_bytes as usize);
    let duration = Duration::from_nanos(answer.duration_ns.into());
    Ok(Verdict { action: answer.retval, frame: output, duration })
}

/// A run of live frames.
#[derive(Clone, Copy, Debug)]
pub struct LiveRun<'a> {
    /// The frame that each page holds when it is new.
    pub template: &'a [u8],
    /// The interface that frames seem to come from, in this thread's network namespace, and where
    /// `XDP_TX` sends them; 0 for the loopback device. An interface must have XDP enabled.
    pub ingress_ifindex: u32,
    /// How many frames are made in one call.
    pub repeat: u32,
    /// After how many frames the kernel flushes them and lets receivers run; 1 to 256.
    pub batch_frames: u32,
}

impl LiveRun<'_> {
    /// Makes and runs the frames in this thread; returns when the last has been flushed.
    ///
    /// # Errors
    /// [`BpfError::Argument`] for a batch over 256; [`BpfError::System`]: EINTR if a signal arrived
    /// (frames so far are out), EINVAL for a template that is too short or long for one page
    /// (about 3,400 bytes) or an interface without XDP.
    pub fn run(&self, program: &Program) -> Result<(), BpfError> {
        if self.batch_frames == 0 || self.batch_frames > BATCH_FRAMES_MAX {
            let text = format!("batch of {} live frames: 1 to 256 are possible", self.batch_frames);
            return Err(BpfError::Argument(text));
        }
        let length = u32::try_from(self.template.len()).unwrap_or(u32::MAX);
        let context = [0, length, 0, self.ingress_ifindex, 0, 0];
        const { assert!(size_of::<[u32; 6]>() == xdp_md::SIZE) };
        let run = TestRun {
            frame: self.template,
            output: &mut [],
            context: Some(context),
            repeat: self.repeat,
            flags: LIVE_FRAMES,
            batch_size: self.batch_frames,
        };
        sys::test_run(program.as_fd(), run)
            .map(|_| ())
            .map_err(|e| BpfError::system("run an XDP program on live frames", e))
    }
}
