//! From flags to a run, and from its end to what is printed.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use linerate_port::Caps;
use linerate_sys::{clock, signal};
use linerate_units::Timestamp;
use linerate_units::show::{count, pps};
use linerate_units::{duration_ns, positive_duration_ns};
use linerate_worker::{Control, Meter};
use serde::Serialize;

use super::account::RunRow;
use linerate_console::cores::Cores;
use linerate_console::note;
use linerate_console::print;
use linerate_console::tool;
use linerate_console::watch::{EndedBy, Ends, WatchOptions, watch};

/// Flags of a tool that moves packets.
#[derive(clap::Args)]
pub struct MovingArgs {
    /// Packets of one port call, at most
    #[arg(short, long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub batch: u32,
    /// Waits so long before it begins, for links to come up: 2s, 500ms
    #[arg(short, long, value_name = "TIME", value_parser = duration_ns)]
    wait: Option<u64>,
    /// Ends after this time: 10s, 500ms, 2m [default: at Ctrl-C, or when nothing can come any more]
    #[arg(short, long, value_name = "TIME", value_parser = positive_duration_ns)]
    duration: Option<u64>,
    /// Core of the thread that moves packets [default: any]
    #[arg(long, value_name = "CORE")]
    core: Option<usize>,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
    /// No progress and no notes on stderr
    #[arg(short, long)]
    pub quiet: bool,
}

/// Checked flags.
pub struct Frame {
    wait_ns: Option<u64>,
    watch: WatchOptions,
    json: bool,
}

/// What a part of the line of progress is about.
pub struct ProgressLane {
    /// What it is called.
    pub name: String,
    /// The live counts that are summed.
    pub meters: Vec<Arc<Meter>>,
}

/// What moving packets came to: its own end, and what is known of every run.
pub struct Moved<T> {
    /// What the thread returned.
    pub end: T,
    /// The run, without what broke it and the time on a core.
    pub run: RunRow,
    /// How long it ran, in nanoseconds.
    pub took_ns: u64,
}

impl Frame {
    /// Checks the flags.
    ///
    /// # Errors
    /// A core that is not allowed.
    pub fn new(args: &MovingArgs) -> Result<Frame, String> {
        let core = args.core.map(|core| Cores::choose(Some(&core.to_string()), 1)).transpose()?;
        let told = core.iter().filter_map(|cores| cores.note.as_deref()).filter(|_| !args.quiet);
        told.for_each(note);
        let ends = Ends { duration_ns: args.duration, ..Ends::default() };
        let watch = WatchOptions { core: core.and_then(|core| core.of(0)), ends, quiet: args.quiet };
        Ok(Frame { wait_ns: args.wait, watch, json: args.json })
    }

    /// Before packets are moved: stop signals are caught, links may come up, and the ports are told.
    ///
    /// # Errors
    /// Signals cannot be caught.
    pub fn begin<'a>(&self, ports: impl Iterator<Item = &'a Caps>) -> Result<(), String> {
        signal::catch_stop_signals().map_err(|error| format!("cannot catch signals: {error}"))?;
        if let Some(wait_ns) = self.wait_ns {
            clock::sleep_until_ns(clock::now_ns() + wait_ns);
        }
        if !self.watch.quiet {
            ports.for_each(|caps| note(&format!("{} ({}; {})", caps.name, caps.detail, caps.copies)));
        }
        Ok(())
    }

    /// Does `work` as [`watch`] does. Progress shows the packets of each lane beside its name.
    ///
    /// # Errors
    /// As there.
    pub fn run<T: Send>(
        &self,
        lanes: &[ProgressLane],
        controls: &[Control],
        work: impl FnOnce() -> T + Send,
    ) -> Result<Moved<T>, String> {
        let started = Timestamp::from_system(SystemTime::now());
        let mut before = vec![0; lanes.len()];
        let mut line = |seconds| line(lanes, &mut before, seconds);
        let (end, ended_by, took_ns) = watch(self.watch, controls, &mut line, work)?;
        let seconds = took_ns as f64 / 1e9;
        let run = RunRow { tool: tool(), started, seconds, ended_by, core_share: 0.0, error: None };
        Ok(Moved { end, run, took_ns })
    }

    /// Says on stderr what a user should know of a result, if anything.
    pub fn warn(&self, warnings: impl IntoIterator<Item = String>) {
        warnings.into_iter().filter(|_| !self.watch.quiet).for_each(|warning| note(&warning));
    }

    /// Prints the document, or the same for people.
    ///
    /// # Errors
    /// It is no JSON.
    pub fn show(&self, document: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), String> {
        let shown =
            if self.json { serde_json::to_string_pretty(document).map_err(|error| error.to_string())? } else { text() };
        print(&shown);
        Ok(())
    }
}

impl<T> Moved<T> {
    /// The run with the time on a core and what broke it.
    pub fn run(&self, core_ns: u64, error: Option<&impl ToString>) -> RunRow {
        let ended_by = if error.is_some() { EndedBy::Error } else { self.run.ended_by };
        let core_share = core_ns as f64 / self.took_ns.max(1) as f64;
        RunRow { ended_by, core_share, error: error.map(ToString::to_string), ..self.run.clone() }
    }
}

fn line(lanes: &[ProgressLane], before: &mut [u64], seconds: f64) -> String {
    let lanes = lanes.iter().zip(before).map(|(lane, before)| {
        let now: u64 = lane.meters.iter().map(|meter| meter.read().packets).sum();
        let rate_pps = (now - *before) as f64 / seconds;
        *before = now;
        format!("  {} {} ({})", lane.name, count(now), pps(rate_pps))
    });
    lanes.collect()
}

/// Status 0 when all went well, 1 when a port broke or a packet is unaccounted for, 2 when it could not start.
pub fn exit(name: &str, result: Result<bool, String>) -> ExitCode {
    match result {
        Ok(well) => ExitCode::from(u8::from(!well)),
        Err(problem) => {
            note(&format!("linerate {name}: {problem}"));
            ExitCode::from(2)
        }
    }
}
