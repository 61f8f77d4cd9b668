//! Which ports a run opens: one for each thread, by the function and the interface.
//!
//! | `-i` | one thread | more threads |
//! |---|---|---|
//! | `eth1` | what `linerate_ports` finds best for the function | senders: AF_XDP queue I for thread I; receivers: all queues shared out over the threads; as `packet:eth1` if there are fewer queues than threads, or if the host needs the packets |
//! | `xdp:eth1` | all queues to receive, the first one to send | as above |
//! | `packet:eth1` | one socket | a socket each; those of receivers share the flows (fanout) |
//! | `file:F` | written by senders, read by receivers | refused |
//! | others | as named | a queue pair each, where the port has several |

use linerate_mem::Pool;
use linerate_port::{OpenError, OpenOptions, Port};
use linerate_ports::{PoolPlan, len_max};
use linerate_sys::netdev::Netdev;

use super::options::Options;

/// Ports of a run, and the pool that they share.
pub struct Opened {
    /// One for each thread.
    pub ports: Vec<Box<dyn Port>>,
    /// Their pool.
    pub pool: Pool,
    /// Queues behind the interface.
    pub queues: usize,
    /// Which way was chosen and why, where there was a choice.
    pub note: Option<String>,
}

/// Bursts of a thread that may wait beside its rings.
const BURSTS: usize = 4;

/// Opens the ports that the options ask for, the fastest way that works.
///
/// # Errors
/// What is missing, and what to do.
pub fn open(options: &Options) -> Result<Opened, OpenError> {
    let (spec, asked) = (&options.interface.spec, asked(options));
    let len_max = options.len.max(len_max([spec]));
    let extra = BURSTS * options.burst * options.threads;
    let pool = linerate_ports::pool(&PoolPlan { ports: &[(spec, &asked)], len_max, extra })?;
    let opened = linerate_ports::open_device(spec, &asked, &pool)?;
    let ports = linerate_ports::share_out(opened.device, options.threads);
    Ok(Opened { ports, pool, queues: queues(&spec.target), note: opened.choice })
}

/// What the ports are for. Round trips are true only where a packet is seen when it comes.
fn asked(options: &Options) -> OpenOptions {
    let asked = match options.function {
        function if function.sends() => OpenOptions::transmit(),
        function if function.receives() => OpenOptions::receive(),
        _ => OpenOptions::low_latency(),
    };
    OpenOptions { threads: Some(options.threads), ..asked }
}

/// Queues of an interface; 1 where its driver does not tell.
fn queues(interface: &str) -> usize {
    let channels = Netdev::open(interface).and_then(|device| device.channels()).ok().flatten();
    channels.map_or(1, |channels| channels.combined.0 + channels.rx.0.max(channels.tx.0)).max(1) as usize
}

#[cfg(test)]
mod tests {
    use super::super::parse::{Request, parse};
    use super::*;

    fn options(line: &str) -> Options {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        match parse(&words) {
            Ok(Request::Run(options)) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn who_times_or_answers_packets_sees_them_at_once() {
        for (function, wanted) in [
            ("ping", OpenOptions::low_latency()),
            ("pong", OpenOptions::low_latency()),
            ("tx", OpenOptions::transmit()),
            ("txseq", OpenOptions::transmit()),
            ("rx", OpenOptions::receive()),
            ("rxseq", OpenOptions::receive()),
        ] {
            let wanted = OpenOptions { threads: Some(1), ..wanted };
            assert_eq!(asked(&options(&format!("-i packet:e -f {function}"))), wanted, "{function}");
        }
    }

    #[test]
    fn each_thread_has_a_port() {
        let opened = open(&options("-i null -f tx -p 3 -l 9000")).unwrap();
        assert_eq!((opened.ports.len(), opened.queues), (3, 1));
        assert!(opened.pool.packet_len_max() >= 9000);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.pcap");
        let written = open(&options(&format!("-i file:{} -f tx", path.display()))).unwrap();
        assert!(written.ports[0].caps().transmits && path.exists());
    }
}
