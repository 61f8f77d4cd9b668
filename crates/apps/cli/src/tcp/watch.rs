//! A program over TCP until it ends: progress each second, the end at a signal, its last document.

use linerate_endpoints::document::Snapshot;
use linerate_endpoints::{Ended, Running};
use linerate_programs::Reports;
use linerate_sys::{clock, signal};

use linerate_console::live::Live;
use linerate_console::note;

use crate::running::print_json;

const SECOND_NS: u64 = 1_000_000_000;
/// How often the main thread looks.
const LOOK_NS: u64 = 50_000_000;
/// How often [`Watching::look`] has a document to look at.
const DOCUMENT_NS: u64 = 100_000_000;
/// How long a program that was asked to stop may take before it is ended.
const STOPPING_NS: u64 = 8 * SECOND_NS;

/// Makes the progress of the seconds between two documents, the later one first.
pub type Line<'a, D> = &'a dyn Fn(&Snapshot<D>, Option<&Snapshot<D>>, f64) -> String;

/// Looks at a document, and completes it.
pub type Look<'a, D> = &'a dyn Fn(&mut Snapshot<D>);

/// How a program is watched.
pub struct Watching<'a, D> {
    /// It is ended after this time.
    pub duration_ns: Option<u64>,
    /// It comes to its end by itself once it was asked to.
    pub stops_by_itself: bool,
    /// Documents on stdout, a line each.
    pub json: bool,
    /// No progress.
    pub quiet: bool,
    /// The progress.
    pub line: Line<'a, D>,
    /// Looks at each document, at least every 100 ms, and completes it.
    pub look: Option<Look<'a, D>>,
}

/// Watches a program until its end.
///
/// # Errors
/// One of its threads failed.
pub fn watch<P: Reports>(running: Running<P>, watching: &Watching<'_, P::Document>) -> Result<Ended<P>, String> {
    let start_ns = clock::now_ns();
    let end_ns = watching.duration_ns.map_or(u64::MAX, |duration_ns| start_ns.saturating_add(duration_ns));
    let mut live = Live::new(watching.quiet || watching.json, start_ns);
    let (mut next_ns, mut before, mut stopping_ns) = (start_ns + SECOND_NS, None, None);
    let mut look_ns = start_ns + DOCUMENT_NS;
    let complete = |snapshot: &mut Snapshot<P::Document>| watching.look.iter().for_each(|look| look(snapshot));
    let document = || {
        running.snapshot().map(|mut snapshot| {
            complete(&mut snapshot);
            snapshot
        })
    };
    while !running.has_ended() {
        let now_ns = clock::now_ns();
        if (signal::stop_requested() || now_ns >= end_ns) && stopping_ns.is_none() {
            if !watching.stops_by_itself {
                break;
            }
            running.ask_to_stop();
            stopping_ns = Some(now_ns + STOPPING_NS);
        }
        if stopping_ns.is_some_and(|stopping_ns| now_ns >= stopping_ns) {
            break;
        }
        if watching.json && now_ns >= next_ns {
            next_ns = now_ns + SECOND_NS;
            document().iter().for_each(print_json);
        }
        if watching.look.is_some() && now_ns >= look_ns {
            look_ns = now_ns + DOCUMENT_NS;
            drop(document());
        }
        live.tick(now_ns, |seconds| match document() {
            Ok(snapshot) => {
                let line = (watching.line)(&snapshot, before.as_ref(), seconds);
                before = Some(snapshot);
                line
            }
            Err(_) => String::new(),
        });
        clock::sleep_until_ns((now_ns + LOOK_NS).min(end_ns.max(now_ns)));
    }
    drop(live);
    let mut ended = running.stop().map_err(|error| error.to_string())?;
    complete(&mut ended.snapshot);
    if watching.json {
        print_json(&ended.snapshot);
    }
    if ended.frames_missing > 0 {
        note(&format!("{} frames did not come back; this is a bug", ended.frames_missing));
    }
    Ok(ended)
}
