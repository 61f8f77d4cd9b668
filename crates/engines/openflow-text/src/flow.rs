//! Reads and prints flow entries.

use crate::TextError;
use crate::actions::parse_instructions;
use crate::matching::match_of;
use crate::show_actions::instructions_text;
use crate::show_match::match_text;
use crate::value::{number, parse_port};
use crate::words::{Word, words};
use linerate_openflow::{FlowCommand, FlowFlags, FlowMod, GROUP_ANY, Match, NO_BUFFER, PortNumber, TABLE_ALL};

/// Priority of a flow whose text gives none.
const PRIORITY: u16 = 0x8000;
const FLAGS: [(&str, u16); 5] = [
    ("send_flow_rem", FlowFlags::SEND_FLOW_REM),
    ("check_overlap", FlowFlags::CHECK_OVERLAP),
    ("reset_counts", FlowFlags::RESET_COUNTS),
    ("no_packet_counts", FlowFlags::NO_PKT_COUNTS),
    ("no_byte_counts", FlowFlags::NO_BYT_COUNTS),
];
const OPTIONS: [&str; 8] =
    ["table", "priority", "cookie", "idle_timeout", "hard_timeout", "out_port", "out_group", "actions"];
/// Words of a printed flow that say nothing of the flow to make.
const COUNTERS: [&str; 5] = ["duration", "n_packets", "n_bytes", "idle_age", "hard_age"];

/// Reads a flow, for example `table=0,priority=10,tcp,nw_dst=192.0.2.0/24,actions=output:2,goto_table:1`. Without a table, an entry is for
/// table 0, and a filter for deleting is for all tables. Printed flows can be read again; their counters are ignored.
///
/// # Errors
/// A word is unknown, a value is not one of its field, or an entry lacks `actions=`.
pub fn parse_flow(text: &str, command: FlowCommand) -> Result<FlowMod, TextError> {
    let deletes = matches!(command, FlowCommand::Delete | FlowCommand::DeleteStrict);
    let (head, actions) = split_at_actions(text);
    let mut flow = FlowMod {
        cookie: 0,
        cookie_mask: 0,
        table: if deletes { TABLE_ALL } else { 0 },
        command,
        idle_timeout_s: 0,
        hard_timeout_s: 0,
        priority: PRIORITY,
        buffer_id: NO_BUFFER,
        out_port: PortNumber::ANY,
        out_group: GROUP_ANY,
        flags: FlowFlags(0),
        matching: Match::default(),
        instructions: Vec::new(),
    };
    let mut others: Vec<Word<'_>> = Vec::new();
    for word in words(head)? {
        if !option(&mut flow, &word)? {
            others.push(word);
        }
    }
    let known: Vec<&str> = OPTIONS.iter().copied().chain(FLAGS.iter().map(|(name, _)| *name)).collect();
    flow.matching = match_of(&others, &known)?;
    flow.instructions = match actions {
        Some(_) if deletes => {
            return Err(TextError::new("actions", "a flow is deleted whatever its actions are; leave them out"));
        }
        Some(actions) => parse_instructions(actions, &flow.matching)?,
        None if deletes => Vec::new(),
        None => {
            return Err(TextError::new(text.trim(), "lacks actions=..., for example actions=output:2 or actions=drop"));
        }
    };
    Ok(flow)
}

/// Everything from `actions=` on is actions.
fn split_at_actions(text: &str) -> (&str, Option<&str>) {
    for name in ["actions=", "action="] {
        let starts_word = |at: usize| {
            text[..at].chars().next_back().is_none_or(|before| !before.is_ascii_alphanumeric() && before != '_')
        };
        let found = text.match_indices(name).map(|(at, _)| at).find(|at| starts_word(*at));
        if let Some(at) = found {
            return (&text[..at], Some(&text[at + name.len()..]));
        }
    }
    (text, None)
}

/// True if the word is an option of the flow, and no match.
fn option(flow: &mut FlowMod, word: &Word<'_>) -> Result<bool, TextError> {
    if let Some((_, flag)) = FLAGS.iter().find(|(name, _)| *name == word.key) {
        word.bare()?;
        flow.flags.0 |= flag;
        return Ok(true);
    }
    let numeric = |example: &str, bits| number(word.text, word.needed(example)?, bits);
    match word.key {
        "table" => flow.table = numeric("table=0", 8)? as u8,
        "priority" => flow.priority = numeric("priority=10", 16)? as u16,
        "idle_timeout" => flow.idle_timeout_s = numeric("idle_timeout=60", 16)? as u16,
        "hard_timeout" => flow.hard_timeout_s = numeric("hard_timeout=60", 16)? as u16,
        "out_group" => flow.out_group = numeric("out_group=1", 32)? as u32,
        "out_port" => {
            let wrong = |error: TextError| TextError::new(word.text, error.problem);
            flow.out_port = parse_port(word.needed("out_port=1")?).map_err(wrong)?;
        }
        "cookie" => cookie(flow, word)?,
        key if COUNTERS.contains(&key) => {}
        _ => return Ok(false),
    }
    Ok(true)
}

/// `cookie=VALUE` of an entry, `cookie=VALUE/MASK` as a filter; -1 is all ones.
fn cookie(flow: &mut FlowMod, word: &Word<'_>) -> Result<(), TextError> {
    let text = word.needed("cookie=0x1")?;
    let wide =
        |text: &str| if text == "-1" { Ok(u64::MAX) } else { number(word.text, text, 64).map(|value| value as u64) };
    match text.split_once('/') {
        Some(_) if flow.command == FlowCommand::Add => {
            return Err(TextError::new(word.text, "a new flow has a whole cookie; write it without a mask"));
        }
        Some((value, mask)) => {
            let mask = wide(mask)?;
            (flow.cookie, flow.cookie_mask) = (wide(value)? & mask, mask);
        }
        // A filter names the whole cookie; an entry that is added just has it.
        None if flow.command != FlowCommand::Add => (flow.cookie, flow.cookie_mask) = (wide(text)?, u64::MAX),
        None => flow.cookie = wide(text)?,
    }
    Ok(())
}

/// A change of a flow as text that [`parse_flow`] reads with the same command.
pub fn flow_text(flow: &FlowMod) -> String {
    let deletes = matches!(flow.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
    let mut words: Vec<String> = Vec::new();
    match flow.cookie_mask {
        0 if flow.cookie == 0 => {}
        0 => words.push(format!("cookie={:#x}", flow.cookie)),
        mask => words.push(format!("cookie={:#x}/{mask:#x}", flow.cookie)),
    }
    if flow.table != if deletes { TABLE_ALL } else { 0 } {
        words.push(format!("table={}", flow.table));
    }
    words.extend(timeouts_and_flags(flow.idle_timeout_s, flow.hard_timeout_s, flow.flags));
    if flow.out_port != PortNumber::ANY {
        words.push(format!("out_port={}", super::port_text(flow.out_port)));
    }
    if flow.out_group != GROUP_ANY {
        words.push(format!("out_group={}", flow.out_group));
    }
    words.extend(priority_and_match(flow.priority, &flow.matching));
    let head = words.join(",");
    match deletes {
        true => head,
        false => {
            format!("{head}{}actions={}", if head.is_empty() { "" } else { " " }, instructions_text(&flow.instructions))
        }
    }
}

fn timeouts_and_flags(idle_s: u16, hard_s: u16, flags: FlowFlags) -> Vec<String> {
    let mut words = Vec::new();
    for (name, seconds) in [("idle_timeout", idle_s), ("hard_timeout", hard_s)] {
        if seconds > 0 {
            words.push(format!("{name}={seconds}"));
        }
    }
    words.extend(FLAGS.iter().filter(|(_, flag)| flags.has(*flag)).map(|(name, _)| (*name).to_string()));
    words
}

fn priority_and_match(priority: u16, matching: &Match) -> Vec<String> {
    let mut words = Vec::new();
    if priority != PRIORITY {
        words.push(format!("priority={priority}"));
    }
    let matching = match_text(matching);
    if !matching.is_empty() {
        words.push(matching);
    }
    words
}
