//! Comparing a segment that left with what the script wants, and showing both in the script's own words.

use std::fmt::{self, Debug, Display, Write as _};

use crate::flow::SYN;
use crate::script::{Bound, Numbers, Segment};

const PSH: u8 = 0x08;

/// Each field in which `seen` is not what `wanted` says.
pub fn differences(wanted: &Segment, seen: &Segment) -> Vec<String> {
    let mut found = Vec::new();
    let Some(flags) = wanted.flags else { return found };
    let seen_flags = seen.flags.unwrap_or(0);
    if flags & !PSH != seen_flags & !PSH {
        found.push(format!("flags {}, wanted {}", letters(seen_flags & !PSH), letters(flags & !PSH)));
    }
    let mut say = |what: &str, wanted: &dyn Display, seen: &dyn Display| {
        found.push(format!("{what} {seen}, wanted {wanted}"));
    };
    if wanted.seq.is_some() && wanted.seq != seen.seq {
        say("sequence number", &wanted.seq.unwrap_or(0), &seen.seq.unwrap_or(0));
    }
    if wanted.len.is_some() && wanted.len != seen.len {
        say("bytes of data", &wanted.len.unwrap_or(0), &seen.len.unwrap_or(0));
    }
    for (what, wanted, seen) in
        [("ack", wanted.ack, seen.ack), ("win", wanted.window, seen.window), ("ttl", wanted.ttl, seen.ttl)]
    {
        if let Bound::Is(value) = seen
            && !wanted.holds(value)
        {
            say(what, &Shown(wanted), &value);
        }
    }
    if flags & PSH != 0 || wanted.push.is_some() {
        compare("push", &wanted.push.or(Some(true)), &seen.push, &mut found);
    }
    compare("urgent pointer", &wanted.urgent, &seen.urgent, &mut found);
    compare("don't fragment", &wanted.dont_fragment, &seen.dont_fragment, &mut found);
    compare("type of service", &wanted.tos, &seen.tos, &mut found);
    let ecn = seen.tos.map(|tos| tos & 3);
    compare("congestion bits", &wanted.ecn.map(|ecn| ecn as u8), &ecn, &mut found);
    options(wanted, seen, &mut found);
    found
}

fn options(wanted: &Segment, seen: &Segment, found: &mut Vec<String>) {
    option("mss", &wanted.mss, &seen.mss, found);
    option("ws", &wanted.window_scale, &seen.window_scale, found);
    option("sackok", &wanted.sack_permitted, &seen.sack_permitted, found);
    // Blocks that nobody mentions are not wanted.
    let none = Numbers::Absent;
    option("sack", if wanted.sack == Numbers::Unsaid { &none } else { &wanted.sack }, &seen.sack, found);
    match (&wanted.timestamps, &seen.timestamps) {
        (Numbers::Is(wanted), Numbers::Is(seen)) => {
            for (what, wanted, seen) in [("ts value", wanted.value, seen.value), ("ts echo", wanted.echo, seen.echo)] {
                if let Bound::Is(value) = seen
                    && !wanted.holds(value)
                {
                    found.push(format!("{what} {value}, wanted {}", Shown(wanted)));
                }
            }
        }
        (Numbers::Is(_) | Numbers::Any, Numbers::Absent) => found.push("no timestamp".into()),
        (Numbers::Absent, Numbers::Is(_)) => found.push("a timestamp".into()),
        _ => {}
    }
    // RFC 9293 MUST-65, RFC 7323 section 2.2, RFC 2018 section 2: options of SYN segments stay there.
    if seen.flags.unwrap_or(0) & SYN == 0 {
        for (what, is_there) in [
            ("mss", seen.mss != Numbers::Absent),
            ("ws", seen.window_scale != Numbers::Absent),
            ("sackok", seen.sack_permitted != Numbers::Absent),
        ] {
            if is_there {
                found.push(format!("the option {what} in a segment without SYN"));
            }
        }
    }
}

fn compare<T: PartialEq + Debug>(what: &str, wanted: &Option<T>, seen: &Option<T>, found: &mut Vec<String>) {
    if let (Some(wanted), Some(seen)) = (wanted, seen)
        && wanted != seen
    {
        found.push(format!("{what} {seen:?}, wanted {wanted:?}"));
    }
}

fn option<T: PartialEq + Debug>(what: &str, wanted: &Numbers<T>, seen: &Numbers<T>, found: &mut Vec<String>) {
    match (wanted, seen) {
        (Numbers::Is(wanted), Numbers::Is(seen)) if wanted != seen => {
            found.push(format!("{what} {seen:?}, wanted {wanted:?}"))
        }
        (Numbers::Is(_) | Numbers::Any, Numbers::Absent) => found.push(format!("no {what}")),
        (Numbers::Absent, Numbers::Is(seen)) => found.push(format!("{what} {seen:?}, wanted none")),
        _ => {}
    }
}

fn letters(flags: u8) -> String {
    let set: String =
        "FSRPAUEC".chars().enumerate().filter(|(bit, _)| flags >> bit & 1 != 0).map(|(_, letter)| letter).collect();
    if set.is_empty() { "-".into() } else { set }
}

struct Shown(Bound);

impl Display for Shown {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Bound::Unsaid | Bound::Any => out.write_str("*"),
            Bound::Is(value) => write!(out, "{value}"),
            Bound::AtLeast(value) => write!(out, ">={value}"),
            Bound::AtMost(value) => write!(out, "<={value}"),
        }
    }
}

/// A segment in the words of scripts.
pub fn show(segment: &Segment) -> String {
    let Some(flags) = segment.flags else { return "*".into() };
    let mut text = letters(flags);
    match (segment.seq, segment.len) {
        (Some(seq), Some(len)) if len > 0 => write!(text, " {seq}:{}", seq + len as i64),
        (Some(seq), _) => write!(text, " {seq}"),
        (None, _) => write!(text, " *"),
    }
    .expect("writing to a text");
    for (name, bound) in [("ack", segment.ack), ("win", segment.window)] {
        if bound != Bound::Unsaid {
            write!(text, " {name} {}", Shown(bound)).expect("writing to a text");
        }
    }
    if segment.urgent.is_some_and(|urgent| urgent != 0) {
        write!(text, " urg {}", segment.urgent.unwrap_or(0)).expect("writing to a text");
    }
    show_options(segment, &mut text);
    text
}

fn show_options(segment: &Segment, text: &mut String) {
    let mut say = |words: fmt::Arguments<'_>| text.write_fmt(words).expect("writing to a text");
    if let Numbers::Is(mss) = segment.mss {
        say(format_args!(" mss {mss}"));
    }
    if let Numbers::Is(()) | Numbers::Any = segment.sack_permitted {
        say(format_args!(" sackok"));
    }
    if let Numbers::Is(stamp) = segment.timestamps {
        say(format_args!(" ts {}:{}", Shown(stamp.value), Shown(stamp.echo)));
    }
    if let Numbers::Is(shift) = segment.window_scale {
        say(format_args!(" ws {shift}"));
    }
    if let Numbers::Is(blocks) = &segment.sack {
        let blocks: Vec<String> = blocks.iter().map(|(start, end)| format!("{start}:{end}")).collect();
        say(format_args!(" sack {}", blocks.join(",")));
    }
    if let Some(name) = segment.tos.and_then(|tos| [None, Some("ect1"), Some("ect0"), Some("ce")][usize::from(tos & 3)])
    {
        say(format_args!(" {name}"));
    }
}
