//! What the options must be to each other. Each check is one error that says what to write instead.

use linerate_gen::SIGNATURE_LEN;
use linerate_pktgen_loop::ping::PING_LEN;
use linerate_pktgen_loop::sequence::SEQUENCE_LEN;
use linerate_port::FarSide;

use super::options::{Function, Options, UsageError};
use super::ranges::Family;

/// Ethernet, IPv4 and UDP headers.
const HEADERS_V4: usize = 14 + 20 + 8;
/// Ethernet, IPv6 and UDP headers.
const HEADERS_V6: usize = 14 + 40 + 8;

/// Place of the UDP payload in a packet of ours.
pub fn payload_offset(family: Family) -> usize {
    match family {
        Family::V4 => HEADERS_V4,
        Family::V6 => HEADERS_V6,
    }
}

/// Shortest packet that `function` can make, in bytes without FCS.
pub fn len_least(function: Function, family: Family) -> usize {
    let payload = match function {
        Function::Ping => PING_LEN,
        Function::TxSeq => SEQUENCE_LEN,
        Function::Tx | Function::Rx | Function::Pong | Function::RxSeq => 0,
    };
    payload_offset(family) + payload
}

/// Checks options against each other; `len_given` tells a length of the user's from the default.
pub fn check(options: &Options, len_given: bool) -> Result<(), UsageError> {
    check_lengths(options)?;
    check_threads(options)?;
    check_contents(options, len_given)?;
    check_fragments(options)?;
    check_interface(options)
}

fn check_lengths(options: &Options) -> Result<(), UsageError> {
    let Options { function, family, len, len_min, .. } = options;
    if let Some(least) = len_min
        && least > len
    {
        let cure = format!("swap them: -l {least} -l {len}");
        return Err(UsageError::new(format!("-l {len} -l {least}: the second size is the lower bound"), cure));
    }
    if len_min.is_some() && *function == Function::Ping {
        return Err(UsageError::new("ping packets have one size", "give -l once"));
    }
    let least = len_least(*function, *family);
    let shortest = len_min.unwrap_or(*len);
    if function.makes_packets() && shortest < least && !options.uninitialized && options.packet_file.is_none() {
        return Err(UsageError::new(
            format!("-l {shortest} is too short: the headers of {function} take {least} bytes"),
            format!("use -l {least} or more"),
        ));
    }
    Ok(())
}

fn check_threads(options: &Options) -> Result<(), UsageError> {
    let one_only = match options.function {
        Function::Tx | Function::Rx => return Ok(()),
        Function::Ping => "ping matches replies to packets on one thread",
        Function::Pong => "pong replies on one thread",
        Function::TxSeq => "txseq numbers its packets on one thread",
        Function::RxSeq => "rxseq follows the numbers on one thread, which receives all queues",
    };
    if options.threads > 1 {
        return Err(UsageError::new(format!("-p {}: {one_only}", options.threads), "leave -p away"));
    }
    Ok(())
}

/// Of the ways to fill packets, one at a time.
fn check_contents(options: &Options, len_given: bool) -> Result<(), UsageError> {
    let refuse = |problem: &str, cure: &str| Err(UsageError::new(problem, cure));
    let sender_only = [
        (options.packet_file.is_some(), "-P"),
        (options.uninitialized, "-r"),
        (options.fragments > 1, "-F"),
        (options.timestamp, "-o 16"),
    ];
    for (given, letter) in sender_only {
        if given && options.function != Function::Tx {
            return Err(UsageError::new(
                format!("{letter} has no meaning for {}", options.function),
                "use it with -f tx",
            ));
        }
    }
    if options.packet_file.is_some() && options.uninitialized {
        return refuse("-P and -r both say what packets contain", "leave one away");
    }
    let changes = options.random_source || options.random_destination || options.timestamp;
    if options.packet_file.is_some() && (changes || len_given) {
        return refuse("-P sends the packets of the file as they are", "leave -l, -z, -Z and -o 16 away");
    }
    if options.uninitialized && (changes || options.len_min.is_some()) {
        return refuse("-r sends what the buffers contain", "leave -z, -Z, -o 16 and the second -l away");
    }
    let shortest = options.len_min.unwrap_or(options.len);
    let room = shortest.saturating_sub(payload_offset(options.family));
    if options.timestamp && room < SIGNATURE_LEN {
        let least = payload_offset(options.family) + SIGNATURE_LEN;
        return Err(UsageError::new(
            format!("-o 16 needs {SIGNATURE_LEN} bytes of payload"),
            format!("use -l {least} or more"),
        ));
    }
    Ok(())
}

fn check_fragments(options: &Options) -> Result<(), UsageError> {
    if options.fragments == 1 && options.fragment_len.is_some() {
        return Err(UsageError::new("-M limits the fragments of -F", "give -F 2 or more, or leave -M away"));
    }
    if options.fragments > 1 && options.len < options.fragments {
        return Err(UsageError::new(
            format!("-F {}: a packet of {} bytes has no {} parts", options.fragments, options.len, options.fragments),
            "use fewer fragments or a longer -l",
        ));
    }
    Ok(())
}

fn check_interface(options: &Options) -> Result<(), UsageError> {
    let Options { function, threads, interface, .. } = options;
    let far_side = linerate_ports::far_side(&interface.spec);
    match far_side {
        FarSide::Process if !function.makes_packets() => Err(UsageError::new(
            format!(
                "-f {function} on {}: a pipe joins threads of one process, nobody else can send into it",
                interface.text
            ),
            "run -f tx, txseq or ping on it, which brings its counterpart along; between processes use a veth pair",
        )),
        FarSide::Process | FarSide::File if *threads > 1 => {
            Err(UsageError::new(format!("-p {threads}: {} has one queue", interface.text), "leave -p away"))
        }
        _ if *threads > 1 && interface.is_vale() => {
            Err(UsageError::new(format!("-p {threads}: {} has one queue", interface.text), "leave -p away"))
        }
        FarSide::Nothing if !function.sends() => {
            Err(UsageError::new(format!("-f {function}: nothing ever comes out of null"), "use -f tx"))
        }
        _ if *threads > 1 && interface.spec.wrote("@") => Err(UsageError::new(
            format!("-p {threads}: {} names one queue", interface.text),
            "leave the queue or -p away",
        )),
        _ => Ok(()),
    }
}
