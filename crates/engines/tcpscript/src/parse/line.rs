//! One line: a time, a flow, an action.

use super::segment;
use super::words::{Words, duration_ns, number, pair, unknown};
use crate::script::{
    Action, AppExpectation, Call, EndReason, IcmpError, Message, Open, Relation, SoftError, Step, When,
};

const ACTIONS: [&str; 17] = [
    "quiet",
    "app",
    "check",
    "open",
    "peer",
    "listen",
    "connect",
    "send",
    "send-urgent",
    "close",
    "abort",
    "take",
    "hold",
    "option",
    "fail",
    "icmp",
    "set",
];

/// Reads a line. A step that delivers nothing begins a batch. A train that is expected makes several steps.
pub fn steps(line: usize, words: &mut Words) -> Result<Vec<Step>, String> {
    let when = when(words)?;
    let mut flow = String::new();
    if let Some(name) = words.peek().and_then(|word| word.strip_suffix(':')) {
        flow = name.to_string();
        words.next();
    }
    let actions = actions(&flow, words)?;
    words.end()?;
    let step = |(number, action)| {
        let when = if number == 0 { when } else { When::NOW };
        Step { line, when, flow: flow.clone(), action }
    };
    Ok(actions.into_iter().enumerate().map(step).collect())
}

/// `+10ms`, `+190ms..210ms`, or nothing.
fn when(words: &mut Words) -> Result<When, String> {
    let Some(word) = words.peek().and_then(|word| word.strip_prefix('+')) else { return Ok(When::NOW) };
    words.next();
    let (from, to) = word.split_once("..").unwrap_or((word, word));
    let zero_or = |word: &str| if word == "0" { Ok(0) } else { duration_ns(word) };
    let (from_ns, to_ns) = (zero_or(from)?, zero_or(to)?);
    if to_ns < from_ns {
        return Err(format!("the time ends before it begins: {word}"));
    }
    Ok(When { from_ns, to_ns })
}

fn actions(flow: &str, words: &mut Words) -> Result<Vec<Action>, String> {
    let word = words.want("what happens")?;
    Ok(vec![match word {
        "{" => Action::Deliver(Vec::new()),
        "<" => {
            let messages = messages(words)?;
            Action::Deliver(messages.into_iter().map(|message| (flow.to_string(), message)).collect())
        }
        ">" if words.peek() == Some("...") => {
            words.next();
            Action::Rest
        }
        ">" => return Ok(messages(words)?.into_iter().map(Action::Expect).collect()),
        "quiet" => Action::Quiet(duration_ns(words.want("how long")?)?),
        "app" => Action::App(app(words)?),
        "check" => Action::Check(checks(words)?),
        "open" => Action::Open(open(words)?),
        "peer" => Action::Peer(pairs(words)?),
        _ => Action::Call(call(word, words)?),
    }])
}

fn messages(words: &mut Words) -> Result<Vec<Message>, String> {
    if words.peek() == Some("icmp") {
        words.next();
        return Ok(vec![Message::Icmp(icmp(words)?)]);
    }
    let segments = segment::segments(words)?;
    Ok(segments.into_iter().map(|segment| Message::Segment(Box::new(segment))).collect())
}

/// `icmp TYPE/CODE [mtu N] [seq N]`.
fn icmp(words: &mut Words) -> Result<IcmpError, String> {
    let kinds = words.want("type/code of the ICMP message")?;
    let (kind, code) = kinds.split_once('/').ok_or_else(|| format!("not type/code: {kinds}"))?;
    let mut error = IcmpError { kind: number(kind)?, code: number(code)?, mtu: 0, seq: 1 };
    while let Some(word) = words.next() {
        match word {
            "mtu" => error.mtu = words.number("the MTU")?,
            "seq" => error.seq = words.number("the sequence number")?,
            _ => return Err(unknown(word, &["mtu", "seq"])),
        }
    }
    Ok(error)
}

fn app(words: &mut Words) -> Result<AppExpectation, String> {
    let word = words.want("what the program is told")?;
    Ok(match word {
        "connected" => AppExpectation::Connected,
        "got" => AppExpectation::Got(words.number("the number of bytes")?),
        "urgent" => AppExpectation::Urgent(words.number("the number of bytes")?),
        "peer-closed" => AppExpectation::PeerClosed,
        "sendable" => AppExpectation::Sendable,
        "soft-error" => AppExpectation::SoftError(match words.want("what is wrong")? {
            "no-answer" => SoftError::NoAnswer,
            "unreachable" => SoftError::Unreachable,
            "time-exceeded" => SoftError::TimeExceeded,
            "parameter-problem" => SoftError::ParameterProblem,
            other => {
                return Err(unknown(other, &["no-answer", "unreachable", "time-exceeded", "parameter-problem"]));
            }
        }),
        "nothing" => AppExpectation::Nothing,
        "closed" => AppExpectation::Closed(match words.want("why it is over")? {
            "normal" => EndReason::Normal,
            "reset" => EndReason::Reset,
            "refused" => EndReason::Refused,
            "timed-out" => EndReason::TimedOut,
            "unreachable" => EndReason::Unreachable,
            "aborted" => EndReason::Aborted,
            other => {
                return Err(unknown(other, &["normal", "reset", "refused", "timed-out", "unreachable", "aborted"]));
            }
        }),
        _ => {
            let known = ["connected", "got", "urgent", "peer-closed", "sendable", "soft-error", "closed", "nothing"];
            return Err(unknown(word, &known));
        }
    })
}

fn checks(words: &mut Words) -> Result<Vec<(String, Relation, String)>, String> {
    let mut checks = Vec::new();
    while let Some(word) = words.next() {
        let relations =
            [("!=", Relation::Unequal), (">=", Relation::AtLeast), ("<=", Relation::AtMost), ("=", Relation::Equal)];
        let found = relations.iter().find_map(|(sign, relation)| word.split_once(sign).map(|parts| (parts, *relation)));
        let ((name, value), relation) =
            found.ok_or_else(|| format!("no value in {word}; write name=value, !=, >= or <="))?;
        checks.push((name.to_string(), relation, value.to_string()));
    }
    if checks.is_empty() { Err("nothing is checked; write name=value".into()) } else { Ok(checks) }
}

fn open(words: &mut Words) -> Result<Open, String> {
    let mut open = Open {
        active: false,
        mss: 1460,
        sack: false,
        timestamps: false,
        window_scale: None,
        window: 65_535,
        rtt_ns: 10_000_000,
        ecn: false,
    };
    while let Some(word) = words.next() {
        match word {
            "active" => open.active = true,
            "mss" => open.mss = words.number("the maximum segment size")?,
            "sack" => open.sack = true,
            "ts" => open.timestamps = true,
            "ws" => open.window_scale = Some(words.number("the window scale")?),
            "win" => open.window = words.number("the window")?,
            "rtt" => open.rtt_ns = duration_ns(words.want("the round-trip time")?)?,
            "ecn" => open.ecn = true,
            _ => return Err(unknown(word, &["active", "mss", "sack", "ts", "ws", "win", "rtt", "ecn"])),
        }
    }
    Ok(open)
}

fn call(word: &str, words: &mut Words) -> Result<Call, String> {
    Ok(match word {
        "listen" => Call::Listen(pairs(words)?),
        "connect" => Call::Connect(pairs(words)?),
        "send" => match words.want("the number of bytes")? {
            quoted if quoted.starts_with('"') => Call::SendBytes(quoted.trim_matches('"').as_bytes().to_vec()),
            count => Call::Send(number::<u32>(count)? as usize),
        },
        "send-urgent" => Call::SendUrgent(words.number::<u32>("the number of bytes")? as usize),
        "close" => Call::Close,
        "abort" => Call::Abort,
        "take" => match words.want("the number of bytes, or `all`")? {
            "all" => Call::Take(None),
            count => Call::Take(Some(number(count)?)),
        },
        "hold" => Call::Take(Some(0)),
        "option" => Call::Set(words.want("the option")?.to_string(), words.want("its value")?.to_string()),
        "fail" => {
            let inner = words.want("the call that fails")?;
            let says = words.want("what the error says")?.trim_matches('"').to_string();
            Call::Refused(Box::new(call(inner, words)?), says)
        }
        _ => return Err(unknown(word, &ACTIONS)),
    })
}

fn pairs(words: &mut Words) -> Result<Vec<(String, String)>, String> {
    let mut pairs = Vec::new();
    while let Some(word) = words.next() {
        pairs.push(pair(word)?);
    }
    Ok(pairs)
}
