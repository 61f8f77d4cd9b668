//! Reads and prints groups.

use crate::TextError;
use crate::actions::parse_actions;
use crate::show_actions::actions_text;
use crate::value::{number, parse_port, port_text};
use crate::words::{Word, words};
use linerate_openflow::{Bucket, GROUP_ALL, GROUP_ANY, GroupCommand, GroupKind, GroupMod, Match, PortNumber};

const KINDS: [(&str, GroupKind); 5] = [
    ("all", GroupKind::All),
    ("select", GroupKind::Select),
    ("indirect", GroupKind::Indirect),
    ("ff", GroupKind::FastFailover),
    ("fast_failover", GroupKind::FastFailover),
];

/// Reads a group, for example `group_id=1,type=select,bucket=weight:1,watch_port:2,actions=output:2`. For deleting, `group_id=1` or
/// nothing, which means all groups.
///
/// # Errors
/// A word is unknown, the group has no number or type, or a bucket is wrong.
pub fn parse_group(text: &str, command: GroupCommand) -> Result<GroupMod, TextError> {
    let (head, buckets) = split_at_buckets(text);
    let (mut group, mut kind) = (None, None);
    for word in words(head)? {
        match word.key {
            "group_id" => group = Some(group_id(&word)?),
            "type" => kind = Some(kind_of(&word)?),
            key => return Err(TextError::unknown(key, "word of a group", &["group_id", "type", "bucket"])),
        }
    }
    let missing = |what: &str| TextError::new(text.trim(), format!("lacks {what}"));
    if command == GroupCommand::Delete {
        let group = group.unwrap_or(GROUP_ALL);
        return Ok(GroupMod { command, kind: GroupKind::All, group, buckets: Vec::new() });
    }
    let group = group.filter(|group| *group < GROUP_ALL).ok_or_else(|| missing("group_id=NUMBER"))?;
    let kind = kind.ok_or_else(|| missing("type=all, select, indirect or ff"))?;
    let buckets = buckets.into_iter().map(|text| bucket(text, kind)).collect::<Result<Vec<_>, _>>()?;
    if kind == GroupKind::Indirect && buckets.len() != 1 {
        return Err(missing("its bucket: a group of type indirect has exactly one"));
    }
    Ok(GroupMod { command, kind, group, buckets })
}

/// The text before the first `bucket=`, and those behind each.
fn split_at_buckets(text: &str) -> (&str, Vec<&str>) {
    let mut starts: Vec<(usize, usize)> = Vec::new();
    for name in ["bucket=", "buckets="] {
        let starts_word = |at: usize| at == 0 || matches!(text.as_bytes()[at - 1], b',' | b' ' | b'\t' | b'\n');
        starts.extend(
            text.match_indices(name).map(|(at, _)| at).filter(|at| starts_word(*at)).map(|at| (at, at + name.len())),
        );
    }
    starts.sort_unstable();
    let ends = starts.iter().skip(1).map(|(at, _)| *at).chain([text.len()]);
    let buckets = starts.iter().zip(ends).map(|((_, from), to)| &text[*from..to]).collect();
    (starts.first().map_or(text, |(at, _)| &text[..*at]), buckets)
}

fn group_id(word: &Word<'_>) -> Result<u32, TextError> {
    match word.needed("group_id=1")? {
        "all" => Ok(GROUP_ALL),
        text => Ok(number(word.text, text, 32)? as u32),
    }
}

fn kind_of(word: &Word<'_>) -> Result<GroupKind, TextError> {
    let text = word.needed("type=select")?;
    let known: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
    let found = KINDS.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind);
    found.ok_or_else(|| TextError::unknown(text, "type of a group", &known))
}

/// `weight:1,watch_port:2,actions=output:2`; also without `actions=`, from the first word on that is not one of a bucket.
fn bucket(text: &str, kind: GroupKind) -> Result<Bucket, TextError> {
    let weight = u16::from(kind == GroupKind::Select);
    let mut bucket = Bucket { weight, watch_port: PortNumber::ANY, watch_group: GROUP_ANY, actions: Vec::new() };
    let mut rest = text.trim();
    let separators: &[char] = &[',', ' ', '\t', '\n'];
    while !rest.is_empty() {
        if let Some(actions) = rest.strip_prefix("actions=").or_else(|| rest.strip_prefix("action=")) {
            rest = actions;
            break;
        }
        let (first, behind) = rest.split_once(separators).unwrap_or((rest, ""));
        if !["weight", "watch_", "bucket_id"].iter().any(|start| first.starts_with(start)) {
            break;
        }
        for word in words(first)? {
            bucket_word(&mut bucket, &word, kind)?;
        }
        rest = behind.trim_start_matches(separators);
    }
    bucket.actions = parse_actions(rest, &Match::default())?;
    Ok(bucket)
}

fn bucket_word(bucket: &mut Bucket, word: &Word<'_>, kind: GroupKind) -> Result<(), TextError> {
    match word.key {
        "weight" if kind != GroupKind::Select => {
            return Err(TextError::new(word.text, "only buckets of a group of type select have weights"));
        }
        "weight" => bucket.weight = number(word.text, word.needed("weight:1")?, 16)? as u16,
        "watch_port" => {
            let wrong = |error: TextError| TextError::new(word.text, error.problem);
            bucket.watch_port = parse_port(word.needed("watch_port:1")?).map_err(wrong)?;
        }
        "watch_group" => bucket.watch_group = number(word.text, word.needed("watch_group:1")?, 32)? as u32,
        "bucket_id" => return Err(TextError::new(word.text, "OpenFlow 1.3 does not number buckets; leave it out")),
        key => {
            return Err(TextError::unknown(
                key,
                "word of a bucket",
                &["weight", "watch_port", "watch_group", "actions"],
            ));
        }
    }
    Ok(())
}

/// A group as `ovs-ofctl dump-groups` prints it, without the space before it; [`parse_group`] reads it.
pub fn group_text(kind: GroupKind, group: u32, buckets: &[Bucket]) -> String {
    let name = KINDS.iter().find(|(_, of)| *of == kind).map_or("all", |(name, _)| *name);
    let mut text = format!("group_id={group},type={name}");
    for bucket in buckets {
        text += ",bucket=";
        if kind == GroupKind::Select && bucket.weight != 1 {
            text += &format!("weight:{},", bucket.weight);
        }
        if bucket.watch_port != PortNumber::ANY {
            text += &format!("watch_port:{},", port_text(bucket.watch_port));
        }
        if bucket.watch_group != GROUP_ANY {
            text += &format!("watch_group:{},", bucket.watch_group);
        }
        text += &format!("actions={}", actions_text(&bucket.actions));
    }
    text
}
