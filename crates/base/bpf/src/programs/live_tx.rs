//! The transmit generator: a program made for one template, run on live frames
//! ([`crate::run::LiveRun`]).
//!
//! Each run of the program makes one packet: it writes the headers, moves the fields by their rules, signs, puts
//! the checksums right, and sends. Rust decides all that can be decided when the program is made, so the
//! program does only what this template needs. What varies at run time is in a [`state`] that this
//! process can read and set at any moment without a system call.
//!
//! **Counting.** [`LiveTx::sequence`] is how many packets were handed to the kernel's redirect. What the
//! device then refused (a full ring, a peer that is down) stands in the device's own counters: on veth
//! `tx_queue_N_xdp_xmit` and `tx_queue_N_xdp_xmit_errors`, the latter also as `tx_dropped`.
//!
//! **Pacing.** The kernel hands frames over only at the end of a batch (and to a device in groups of 16), so
//! paced programs are run with a batch of 1.

use crate::error::BpfError;
use crate::map::{Map, MapView};
use crate::program::{Program, ProgramOptions};
use crate::programs::histogram::{BUCKETS, Histogram};
use crate::programs::signature::SIGNATURE_BYTES;
use crate::resident::Resident;
use crate::run::LiveRun;

pub mod checksum;
mod emit;
pub mod field;
pub mod state;

use checksum::Checksum;
use field::{Field, FieldRule, RULES_MAX};

/// A waiting program waits for at most this long in one run, since softirqs of its core wait too.
pub const WAIT_MAX_NS: u64 = 50_000;

/// What program to make.
#[derive(Clone, Debug)]
pub struct LiveTxSpec<'a> {
    /// The frame without FCS.
    pub template: &'a [u8],
    /// How much of its beginning is written for each packet. Whatever a receiver may change must be in it;
    /// bytes behind it are written only when the kernel makes the page.
    pub rewrite_bytes: usize,
    /// At most [`RULES_MAX`] fields that vary; they may not overlap.
    pub rules: &'a [FieldRule],
    /// Checksums to put right, each after those that it covers; normally [`Checksum::all_of`] the template.
    pub checksums: Vec<Checksum>,
    /// Signs the last 16 bytes.
    pub signature: Option<SignatureSpec>,
    /// When packets leave.
    pub pacing: Pacing,
    /// Where they go.
    pub exit: Exit,
    /// Start of the random numbers.
    pub seed: u64,
}

/// How packets are signed (see [`crate::programs::signature`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignatureSpec {
    /// The stream's number.
    pub stream: u16,
    /// Unpaced packets bear a clock that is read once for this many packets, a power of two: frames
    /// leave in batches anyway. Paced packets bear the time when they were due.
    pub clock_every: u32,
}

/// When packets leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// As fast as they can.
    None,
    /// On schedule; the program waits for up to [`WAIT_MAX_NS`], then sends nothing in this run. So `n` packets take
    /// `n` runs and one more for each [`WAIT_MAX_NS`] of their time.
    Wait,
    /// On schedule; a run in which no packet is due sends nothing.
    Skip,
}

/// Where packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Out of the interface that the run names as ingress; the cheapest.
    Tx,
    /// To the interface with this index in the namespace of the thread that loads the program.
    Redirect(u32),
}

/// A loaded transmit program with its state.
#[derive(Debug)]
pub struct LiveTx {
    program: Program,
    template: Vec<u8>,
    view: MapView,
    resident: Option<Resident>,
}

impl LiveTx {
    /// Makes and loads the program.
    ///
    /// # Errors
    /// [`BpfError::Argument`] that says which rule, checksum or length cannot be; else as
    /// [`Map::shared`] and [`Program::load_xdp`].
    pub fn load(spec: &LiveTxSpec<'_>) -> Result<LiveTx, BpfError> {
        let device = match spec.exit {
            Exit::Tx => None,
            Exit::Redirect(ifindex) => {
                let device = Map::device("live_tx_device", 1)?;
                device.set_u32(0, ifindex)?;
                Some(device)
            }
        };
        LiveTx::load_with(spec, device.as_ref())
    }

    /// As [`LiveTx::load`] with [`Exit::Redirect`], to the interface at place 0 of `device`, a map made by
    /// [`Map::device`]: for a thread that may be in another namespace than the interface.
    ///
    /// # Errors
    /// As [`LiveTx::load`].
    pub fn load_to(spec: &LiveTxSpec<'_>, device: &Map) -> Result<LiveTx, BpfError> {
        LiveTx::load_with(&LiveTxSpec { exit: Exit::Redirect(0), ..spec.clone() }, Some(device))
    }

    /// The program keeps its own references to the maps.
    fn load_with(spec: &LiveTxSpec<'_>, device: Option<&Map>) -> Result<LiveTx, BpfError> {
        spec.check().map_err(BpfError::Argument)?;
        let shared = Map::shared("live_tx", state::BYTES as u32)?;
        let view = shared.view()?;
        view.store(state::LIMIT, u64::MAX);
        // Zero is the one state that xorshift never leaves.
        view.store(state::RANDOM, if spec.seed == 0 { 0x9e37_79b9_7f4a_7c15 } else { spec.seed });
        let insns = emit::program(spec, &shared, device)?;
        let program = Program::load_xdp("linerate_tx", &insns, ProgramOptions::default())?;
        let resident = Resident::new(&program).ok();
        Ok(LiveTx { program, template: spec.template.to_vec(), view, resident })
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Whether runs start at once; else each takes some 20 ms more ([`crate::resident`]), and `repeat` should be large.
    pub fn starts_at_once(&self) -> bool {
        self.resident.is_some()
    }

    /// Runs the program `repeat` times in this thread, `batch_frames` between flushes.
    ///
    /// # Errors
    /// As [`LiveRun::run`]. After any error [`LiveTx::sequence`] still tells what was sent.
    pub fn run(&self, ingress_ifindex: u32, repeat: u32, batch_frames: u32) -> Result<(), BpfError> {
        LiveRun { template: &self.template, ingress_ifindex, repeat, batch_frames }.run(&self.program)
    }

    /// How many packets the program has handed on.
    pub fn sequence(&self) -> u64 {
        self.view.load(state::SEQUENCE)
    }

    /// Lets the program send up to sequence number `limit`; 0 stops it at once, also while it runs.
    pub fn set_limit(&self, limit: u64) {
        self.view.store(state::LIMIT, limit);
    }

    /// Sets when the next packet is due (CLOCK_MONOTONIC) and the gap between packets, in ns as a
    /// 32.32 fixed-point number. Only between runs.
    pub fn set_schedule(&self, start_ns: u64, gap_ns_fixed: u64) {
        self.view.store(state::DUE, start_ns);
        self.view.store(state::DUE_FRACTION, 0);
        self.view.store(state::GAP, gap_ns_fixed >> 32);
        self.view.store(state::GAP_FRACTION, gap_ns_fixed & 0xffff_ffff);
    }

    /// When packet number `sequence` is due, at or after the next one: CLOCK_MONOTONIC, whole ns.
    pub fn due_ns(&self, sequence: u64) -> u64 {
        let gap = u128::from(self.view.load(state::GAP)) << 32 | u128::from(self.view.load(state::GAP_FRACTION));
        let next = u128::from(self.view.load(state::DUE)) << 32 | u128::from(self.view.load(state::DUE_FRACTION));
        let ahead = u128::from(sequence.saturating_sub(self.sequence()));
        ((next + ahead * gap) >> 32) as u64
    }

    /// How many runs sent nothing, because of the limit or because no packet was due.
    pub fn held(&self) -> u64 {
        self.view.load(state::HELD)
    }

    /// How late paced packets were handed on, in ns.
    pub fn lateness(&self) -> Histogram {
        let first = state::LATENESS / 8;
        Histogram::read(&self.view.words()[first..first + BUCKETS])
    }

    /// All the state, at the offsets of [`state`].
    pub fn state(&self) -> &MapView {
        &self.view
    }
}

impl LiveTxSpec<'_> {
    /// What varies: the rules' fields and the signature.
    fn fields(&self) -> Vec<Field> {
        let signature = self
            .signature
            .map(|_| Field { offset: self.template.len().saturating_sub(SIGNATURE_BYTES), bytes: SIGNATURE_BYTES });
        self.rules.iter().map(FieldRule::field).chain(signature).collect()
    }

    /// Says what cannot be.
    fn check(&self) -> Result<(), String> {
        let frame_bytes = self.template.len();
        if frame_bytes > i16::MAX as usize || self.rewrite_bytes > frame_bytes {
            return Err(format!("{} bytes to rewrite in a frame of {frame_bytes}", self.rewrite_bytes));
        }
        if self.rules.len() > RULES_MAX {
            return Err(format!("{} field rules; at most {RULES_MAX} are possible", self.rules.len()));
        }
        self.rules.iter().try_for_each(|rule| rule.check(frame_bytes))?;
        if let Some(signature) = &self.signature {
            if frame_bytes < SIGNATURE_BYTES {
                return Err(format!("a frame of {frame_bytes} bytes has no room for a signature"));
            }
            if !signature.clock_every.is_power_of_two() || signature.clock_every > 1 << 16 {
                return Err(format!("a clock read every {} packets; a power of two", signature.clock_every));
            }
        }
        let outside = |checksum: &Checksum| {
            checksum.at + 2 > frame_bytes || checksum.covers.iter().any(|range| range.end > frame_bytes)
        };
        if let Some(checksum) = self.checksums.iter().find(|checksum| outside(checksum)) {
            return Err(format!("checksum at {}: reaches outside the frame", checksum.at));
        }
        let fields = self.fields();
        for (number, field) in fields.iter().enumerate() {
            if let Some(other) = fields[..number].iter().find(|other| field.overlaps(other)) {
                return Err(format!("fields at {} and {} overlap", other.offset, field.offset));
            }
        }
        Ok(())
    }
}
