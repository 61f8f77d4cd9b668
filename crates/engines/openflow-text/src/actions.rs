//! Reads actions and instructions.

use crate::TextError;
use crate::names::{Protocols, field_names};
use crate::value::{number, parse_port, parse_value};
use crate::words::{Word, words};
use linerate_openflow::{Action, Field, GROUP_ALL, Instruction, Match, PortNumber};

/// Actions that ovs-ofctl knows and OpenFlow 1.3 has not.
const EXTENSIONS: [&str; 28] = [
    "resubmit",
    "learn",
    "move",
    "load",
    "ct",
    "ct_clear",
    "nat",
    "note",
    "sample",
    "clone",
    "conjunction",
    "multipath",
    "bundle",
    "bundle_load",
    "push",
    "pop",
    "exit",
    "fin_timeout",
    "check_pkt_larger",
    "delete_field",
    "encap",
    "decap",
    "dec_nsh_ttl",
    "pop_queue",
    "set_tunnel64",
    "output_trunc",
    "debug_slow",
    "stack_push",
];
const ACTIONS: [&str; 37] = [
    "output",
    "controller",
    "enqueue",
    "drop",
    "push_vlan",
    "pop_vlan",
    "strip_vlan",
    "push_mpls",
    "pop_mpls",
    "push_pbb",
    "pop_pbb",
    "set_mpls_label",
    "set_mpls_tc",
    "set_mpls_ttl",
    "dec_mpls_ttl",
    "copy_ttl_out",
    "copy_ttl_in",
    "dec_ttl",
    "set_queue",
    "group",
    "set_field",
    "set_tunnel",
    "mod_vlan_vid",
    "mod_vlan_pcp",
    "mod_dl_src",
    "mod_dl_dst",
    "mod_nw_src",
    "mod_nw_dst",
    "mod_nw_tos",
    "mod_nw_ecn",
    "mod_nw_ttl",
    "mod_tp_src",
    "mod_tp_dst",
    "all",
    "flood",
    "in_port",
    "local",
];
const INSTRUCTIONS: [&str; 6] =
    ["meter", "clear_actions", "write_actions", "apply_actions", "write_metadata", "goto_table"];

/// Reads actions, for example `set_field:192.0.2.1->ip_dst,output:2`. Names such as `nw_dst` depend on the match of the entry.
///
/// # Errors
/// A word is unknown, is an instruction, or its argument is wrong.
pub fn parse_actions(text: &str, matching: &Match) -> Result<Vec<Action>, TextError> {
    let words = words(text)?;
    let mut reader = Reader::new(matching);
    for word in &words {
        if INSTRUCTIONS.contains(&word.key) {
            return Err(TextError::new(word.text, "an instruction, which only a flow has; actions are allowed here"));
        }
        reader.action(word, words.len())?;
    }
    Ok(reader.actions)
}

/// Reads the instructions of a flow as ovs-ofctl has them behind `actions=`: actions without more are those of apply-actions.
///
/// # Errors
/// As [`parse_actions`]; an instruction is given twice.
pub fn parse_instructions(text: &str, matching: &Match) -> Result<Vec<Instruction>, TextError> {
    let words = words(text)?;
    if words.is_empty() {
        return Err(TextError::new("actions=", "lacks actions; write drop to drop the packets"));
    }
    let mut reader = Reader::new(matching);
    let mut instructions: Vec<Instruction> = Vec::new();
    for word in &words {
        let instruction = match word.key {
            "meter" => Instruction::Meter(numeric(word, "meter:1", 32)? as u32),
            "clear_actions" => word.bare().map(|()| Instruction::ClearActions)?,
            "write_actions" => {
                Instruction::WriteActions(parse_actions(word.needed("write_actions(output:1)")?, matching)?)
            }
            "apply_actions" => {
                for action in super::words::words(word.needed("apply_actions(output:1)")?)? {
                    reader.action(&action, 1)?;
                }
                continue;
            }
            "write_metadata" => metadata(word)?,
            "goto_table" => Instruction::GotoTable(numeric(word, "goto_table:1", 8)? as u8),
            _ => {
                reader.action(word, words.len())?;
                continue;
            }
        };
        if instructions.iter().any(|before| rank(before) == rank(&instruction)) {
            return Err(TextError::new(word.text, format!("a flow has one {} at most", word.key)));
        }
        instructions.push(instruction);
    }
    if !reader.actions.is_empty() {
        instructions.push(Instruction::ApplyActions(reader.actions));
    }
    instructions.sort_by_key(rank);
    Ok(instructions)
}

/// The order in which instructions are carried out (section 5.9 of the specification).
pub(super) fn rank(instruction: &Instruction) -> u8 {
    match instruction {
        Instruction::Meter(_) => 0,
        Instruction::ApplyActions(_) => 1,
        Instruction::ClearActions => 2,
        Instruction::WriteActions(_) => 3,
        Instruction::WriteMetadata { .. } => 4,
        Instruction::GotoTable(_) => 5,
        Instruction::Experimenter(_) => 6,
    }
}

fn metadata(word: &Word<'_>) -> Result<Instruction, TextError> {
    let text = word.needed("write_metadata:0x5/0xff")?;
    let (value, mask) = text.split_once('/').unwrap_or((text, "0xffffffffffffffff"));
    let mask = number(word.text, mask, 64)? as u64;
    Ok(Instruction::WriteMetadata { metadata: number(word.text, value, 64)? as u64 & mask, mask })
}

fn numeric(word: &Word<'_>, example: &str, bits: u32) -> Result<u128, TextError> {
    number(word.text, word.needed(example)?, bits)
}

/// Actions so far, and what is known of the packets that they see.
struct Reader {
    protocols: Protocols,
    has_vlan: bool,
    actions: Vec<Action>,
}

impl Reader {
    fn new(matching: &Match) -> Reader {
        let has_vlan = matching.get(Field::VlanVid).is_some_and(|vid| vid.value & 0x1000 != 0);
        Reader { protocols: Protocols::of(&matching.fields), has_vlan, actions: Vec::new() }
    }

    /// Reads the action of a word; `words` is the number of words, because `drop` stands alone.
    fn action(&mut self, word: &Word<'_>, words: usize) -> Result<(), TextError> {
        let action = match word.key {
            "drop" if words > 1 => return Err(TextError::new(word.text, "stands alone: other actions would not drop")),
            "drop" => return word.bare(),
            "output" => Action::Output { port: port(word, word.needed("output:1")?)?, max_len: 0xffff },
            "enqueue" => return self.enqueue(word),
            "push_vlan" => {
                self.has_vlan = true;
                Action::PushVlan(ether_type(word, "push_vlan:0x8100", &[0x8100, 0x88a8])?)
            }
            "pop_vlan" | "strip_vlan" => {
                self.has_vlan = false;
                word.bare().map(|()| Action::PopVlan)?
            }
            "push_mpls" => Action::PushMpls(ether_type(word, "push_mpls:0x8847", &[0x8847, 0x8848])?),
            "pop_mpls" => {
                let ether_type = numeric(word, "pop_mpls:0x0800", 16)?;
                self.protocols = Protocols { eth_type: Some(ether_type), ip_proto: None };
                Action::PopMpls(ether_type as u16)
            }
            "push_pbb" => Action::PushPbb(ether_type(word, "push_pbb:0x88e7", &[0x88e7])?),
            "pop_pbb" => word.bare().map(|()| Action::PopPbb)?,
            "set_mpls_ttl" => Action::SetMplsTtl(numeric(word, "set_mpls_ttl:64", 8)? as u8),
            "dec_mpls_ttl" => word.bare().map(|()| Action::DecMplsTtl)?,
            "copy_ttl_out" => word.bare().map(|()| Action::CopyTtlOut)?,
            "copy_ttl_in" => word.bare().map(|()| Action::CopyTtlIn)?,
            "mod_nw_ttl" | "set_nw_ttl" => Action::SetNwTtl(numeric(word, "mod_nw_ttl:64", 8)? as u8),
            "dec_ttl" | "dec_nw_ttl" => word.bare().map(|()| Action::DecNwTtl)?,
            "set_queue" => Action::SetQueue(numeric(word, "set_queue:1", 32)? as u32),
            "group" => self.group(word)?,
            "set_field" => self.set_field(word)?,
            "mod_vlan_vid" | "mod_vlan_pcp" => return self.vlan(word),
            key => match self.short_set(word, key)? {
                Some(action) => action,
                None => bare_port(word)?,
            },
        };
        self.actions.push(action);
        Ok(())
    }

    fn group(&self, word: &Word<'_>) -> Result<Action, TextError> {
        let group = numeric(word, "group:1", 32)? as u32;
        let wrong = || TextError::new(word.text, format!("a group is 0 to {}", GROUP_ALL - 0xfd));
        (group < GROUP_ALL - 0xfc).then_some(Action::Group(group)).ok_or_else(wrong)
    }

    /// `enqueue(PORT,QUEUE)` and `enqueue:PORT:QUEUE`.
    fn enqueue(&mut self, word: &Word<'_>) -> Result<(), TextError> {
        let text = word.needed("enqueue(1,2)")?;
        let parts = text.split_once([',', ':']);
        let (to, queue) = parts.ok_or_else(|| TextError::new(word.text, "write enqueue(PORT,QUEUE)"))?;
        self.actions.push(Action::SetQueue(number(word.text, queue.trim(), 32)? as u32));
        self.actions.push(Action::Output { port: port(word, to.trim())?, max_len: 0xffff });
        Ok(())
    }

    /// `set_field:VALUE->FIELD`.
    fn set_field(&self, word: &Word<'_>) -> Result<Action, TextError> {
        let text = word.needed("set_field:192.0.2.1->ip_dst")?;
        let parts = text.rsplit_once("->");
        let (value, name) = parts.ok_or_else(|| TextError::new(word.text, "write set_field:VALUE->FIELD"))?;
        let unknown = || TextError::unknown(name, "field", &field_names());
        // Other names mean the same field whatever the match is.
        let depends = matches!(name, "nw_src" | "nw_dst" | "tp_src" | "tp_dst");
        let protocols = if depends { self.protocols } else { Protocols::default() };
        let field = protocols.field(word.text, name)?.ok_or_else(unknown)?;
        if !field.is_settable() {
            let problem = match field {
                Field::Metadata => "metadata is set by write_metadata".into(),
                _ => format!("OpenFlow 1.3 cannot set {name}"),
            };
            return Err(TextError::new(word.text, problem));
        }
        if value.contains('/') {
            return Err(TextError::new(word.text, "OpenFlow 1.3 sets whole fields; write the value without a mask"));
        }
        Ok(Action::SetField(field, parse_value(word.text, field, value)?))
    }

    /// The VLAN actions of OpenFlow 1.0, which push a tag where the packets have none.
    fn vlan(&mut self, word: &Word<'_>) -> Result<(), TextError> {
        let set = match word.key {
            "mod_vlan_vid" => Action::SetField(Field::VlanVid, 0x1000 | numeric(word, "mod_vlan_vid:5", 12)?),
            _ => Action::SetField(Field::VlanPcp, numeric(word, "mod_vlan_pcp:3", 3)?),
        };
        if !std::mem::replace(&mut self.has_vlan, true) {
            self.actions.push(Action::PushVlan(0x8100));
        }
        self.actions.push(set);
        Ok(())
    }

    /// The other actions that set one field.
    fn short_set(&self, word: &Word<'_>, key: &str) -> Result<Option<Action>, TextError> {
        let named = |name| {
            let field = self.protocols.field(word.text, name)?;
            field.ok_or_else(|| TextError::unknown(name, "field", &field_names()))
        };
        let field = match key {
            "mod_dl_src" => Field::EthSrc,
            "mod_dl_dst" => Field::EthDst,
            "mod_nw_src" => Field::Ipv4Src,
            "mod_nw_dst" => Field::Ipv4Dst,
            "mod_nw_ecn" => Field::IpEcn,
            "mod_tp_src" => named("tp_src")?,
            "mod_tp_dst" => named("tp_dst")?,
            "set_mpls_label" => Field::MplsLabel,
            "set_mpls_tc" => Field::MplsTc,
            "set_tunnel" => Field::TunnelId,
            "mod_nw_tos" => {
                let value = numeric(word, "mod_nw_tos:32", 8)?;
                let set = Action::SetField(Field::IpDscp, value >> 2);
                let wrong = || TextError::new(word.text, "the two lowest bits must be 0; mod_nw_ecn sets them");
                return (value & 3 == 0).then_some(Some(set)).ok_or_else(wrong);
            }
            _ => return Ok(None),
        };
        Ok(Some(Action::SetField(field, parse_value(word.text, field, word.needed(&format!("{key}:VALUE"))?)?)))
    }
}

/// A port by its name or number; `CONTROLLER:BYTES` and `controller(max_len=BYTES)` too.
fn bare_port(word: &Word<'_>) -> Result<Action, TextError> {
    if EXTENSIONS.contains(&word.key) {
        return Err(TextError::new(
            word.text,
            format!("{} is an extension of Open vSwitch, not in OpenFlow 1.3", word.key),
        ));
    }
    let known: Vec<&str> = ACTIONS.iter().chain(&INSTRUCTIONS).copied().collect();
    let to = parse_port(word.key).map_err(|_| TextError::unknown(word.key, "action", &known))?;
    let to = port(word, word.key).map(|_| to)?;
    if to != PortNumber::CONTROLLER {
        return word.bare().map(|()| Action::Output { port: to, max_len: 0xffff });
    }
    let max_len = match word.value.filter(|value| !value.is_empty()) {
        None => 0xffff,
        Some(value) => {
            let inner = value.strip_prefix("max_len=").unwrap_or(value);
            let hint = |_| TextError::new(word.text, "write CONTROLLER:BYTES or controller(max_len=BYTES)");
            number(word.text, inner, 16).map_err(hint)? as u16
        }
    };
    Ok(Action::Output { port: to, max_len })
}

/// A port that packets can be sent to.
fn port(word: &Word<'_>, text: &str) -> Result<PortNumber, TextError> {
    let port = parse_port(text).map_err(|error| TextError::new(word.text, error.problem))?;
    let is_good = port != PortNumber::ANY && port.0 != 0 && (port <= PortNumber::MAX || port >= PortNumber::IN_PORT);
    is_good.then_some(port).ok_or_else(|| TextError::new(word.text, "no packet can be sent to this port"))
}

fn ether_type(word: &Word<'_>, example: &str, allowed: &[u128]) -> Result<u16, TextError> {
    let value = numeric(word, example, 16)?;
    let list = || allowed.iter().map(|value| format!("{value:#x}")).collect::<Vec<_>>().join(" or ");
    let wrong = || TextError::new(word.text, format!("the EtherType must be {}", list()));
    allowed.contains(&value).then_some(value as u16).ok_or_else(wrong)
}
