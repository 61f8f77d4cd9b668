//! A run from checked options to totals: ports, threads, reports.
//!
//! ```text
//!   main thread    opens the ports -> waits for the link -> starts the threads -> reports -> totals
//!   thread I       its port, its share of -n and -R, its CPU: see crew.rs
//! ```

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use linerate_mem::Pool;
use linerate_pktgen_loop::log::out;
use linerate_pktgen_loop::{diag, fragment};
use linerate_port::{Caps, FarSide, OpenOptions, Port};
use linerate_sys::{affinity, signal};
use linerate_wire::MacAddress;

use super::cpus::Cpus;
use super::crew::Crew;
use super::format;
use super::options::{Function, Options};
use super::pace;
use super::packet;
use super::ports::{self, Opened};
use super::report;
use super::start_error::StartError;

/// Runs to the end. True when nothing went wrong on the way.
///
/// # Errors
/// When the run could not start.
pub fn run(mut options: Options) -> Result<bool, StartError> {
    signal::catch_stop_signals()?;
    let cpus = announce(&options)?;
    options.interface.attach()?;
    let mut opened = ports::open(&options)?;
    if let Some(note) = &opened.note {
        diag!("main", "{note}");
    }
    let caps = opened.ports.first().map(|port| port.caps().clone()).unwrap_or_default();
    let other_side = other_side(&options, &caps, &opened.pool)?;
    let own_mac = caps.mac.map(MacAddress).or_else(|| options.interface.vale_mac());
    let source_mac = options.source_mac.or(own_mac).unwrap_or(MacAddress::ZERO);
    check_port(&options, &caps, &opened.pool)?;
    check_packets(&options, source_mac)?;
    let files = files(&options, &opened.pool)?;
    start_lines(&options, &caps, &opened, &cpus, source_mac);
    wait_for_link(&options);

    let options = Arc::new(options);
    let ports = std::mem::take(&mut opened.ports);
    let mut crew = Crew::new(&options, &opened.pool, source_mac, cpus);
    for (port, file) in ports.into_iter().zip(files) {
        crew.start(options.function, port, file)?;
    }
    let counterpart = other_side.map(|port| crew.start_counterpart(port)).transpose()?;
    report::watch(&options, &crew.controls, &crew.done);
    Ok(crew.finish(&options, counterpart))
}

/// The lines before anything is opened.
fn announce(options: &Options) -> Result<Cpus, StartError> {
    diag!("main", "interface is {}", options.interface.text);
    options.warnings.iter().for_each(|warning| diag!("main", "{warning}"));
    let online = thread::available_parallelism().map_or(1, usize::from).max(affinity::allowed_cores().len());
    let (cpus, warning) = Cpus::new(options.affinity, options.cpus, online)?;
    if let Some(warning) = warning {
        diag!("main", "{warning}");
    }
    diag!("main", "running on {} cpus (have {online})", cpus.shown);
    diag!("extract_ip_range", "range is {}", options.source);
    diag!("extract_ip_range", "range is {}", options.destination);
    Ok(cpus)
}

/// The far side of a pipe, which its counterpart gets.
fn other_side(options: &Options, caps: &Caps, pool: &Pool) -> Result<Option<Box<dyn Port>>, StartError> {
    if caps.far_side != FarSide::Process {
        return Ok(None);
    }
    let opened = linerate_ports::open_device(&options.interface.spec, &OpenOptions::default(), pool)?;
    Ok(Some(opened.into_port()))
}

/// Can the port do what the run needs?
fn check_port(options: &Options, caps: &Caps, pool: &Pool) -> Result<(), StartError> {
    let refuse = |text: String| Err(StartError(format!("{}: {text}", caps.name)));
    let Options { function, len, fragments, .. } = options;
    if !caps.transmits && !function.receives() {
        return refuse(format!("this port does not send; {function} needs one that does"));
    }
    if !caps.receives && !function.sends() {
        return refuse(format!("this port does not receive; {function} needs one that does"));
    }
    let made = function.makes_packets() && options.packet_file.is_none();
    if made && *len > caps.frame_len_max {
        return refuse(format!("pkt_size ({len}) must be <= {} here; use a shorter -l", caps.frame_len_max));
    }
    if made && len.div_ceil(pool.packet_len_max()) > caps.frags_max {
        return refuse(format!("packets of {len} bytes need several slots, and this port takes {}", caps.frags_max));
    }
    if *fragments > 1 {
        let len_max = options.fragment_len.unwrap_or(usize::MAX).min(pool.packet_len_max());
        let (slots, _) = fragment::shape(*len, *fragments, len_max);
        let most = caps.frags_max.min(fragment::FRAGMENTS_MAX);
        if slots > most {
            return refuse(format!("-F: packets of {slots} slots, and this port takes {most}; leave -F and -M away"));
        }
    }
    Ok(())
}

/// Can the packets be made? In the threads it would be too late for an error.
fn check_packets(options: &Options, source_mac: MacAddress) -> Result<(), StartError> {
    let made = options.function.makes_packets() && options.packet_file.is_none() && !options.uninitialized;
    match made.then(|| packet::stream(options, source_mac, 0)) {
        Some(Err(error)) => Err(StartError(error.to_string())),
        _ => Ok(()),
    }
}

/// `-P`: the file is a port, too; its packets go on in the frames that they were read into. Each thread reads it for itself.
fn files(options: &Options, pool: &Pool) -> Result<Vec<Option<Box<dyn Port>>>, StartError> {
    let open = |path: &String| {
        let spec = linerate_ports::file(path).with("loop", "yes").map_err(|error| StartError(error.to_string()))?;
        let opened = linerate_ports::open_device(&spec, &OpenOptions::receive(), pool);
        opened.map(|opened| opened.into_port()).map_err(|error| StartError(format!("-P {path}: {}", error.cause)))
    };
    (0..options.threads).map(|_| options.packet_file.as_ref().map(open).transpose()).collect()
}

fn start_lines(options: &Options, caps: &Caps, opened: &Opened, cpus: &Cpus, source_mac: MacAddress) {
    let doing = match options.function {
        Function::Tx | Function::TxSeq => "Sending on",
        Function::Rx | Function::RxSeq => "Receiving from",
        Function::Ping | Function::Pong => "Working on",
    };
    // "null:" would read "null::".
    let name = caps.name.trim_end_matches(':');
    out(&format::start(doing, name, opened.queues, options.threads, cpus.shown));
    diag!("main", "{name}: {}", caps.detail);
    if options.verbose > 0 {
        let copied = caps.copies;
        diag!("main", "frames of up to {} bytes in {} slots, {copied}", caps.frame_len_max, caps.frags_max);
    }
    if options.function.sends() {
        let (source, destination) = &options.range_texts;
        let macs = (source_mac.to_string(), options.destination_mac.to_string());
        out(&format::addresses(source, destination, &macs.0, &macs.1));
        let rate_pps = options.rate_pps as f64 / options.threads as f64;
        let burst = pace::burst(options.burst, rate_pps);
        diag!("main", "{}", format::pacing(burst, pace::gap_ns(burst, rate_pps)));
    }
}

/// A link that comes up needs some time.
fn wait_for_link(options: &Options) {
    diag!("start_threads", "Wait {} secs for phy reset", options.wait_s);
    let end_ns = linerate_sys::clock::now_ns() + options.wait_s * 1_000_000_000;
    while linerate_sys::clock::now_ns() < end_ns && !signal::stop_requested() {
        let left_ns = end_ns.saturating_sub(linerate_sys::clock::now_ns());
        thread::sleep(Duration::from_nanos(left_ns.min(50_000_000)));
    }
    diag!("start_threads", "Ready...");
}
