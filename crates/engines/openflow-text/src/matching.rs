//! Reads matches.

use crate::TextError;
use crate::names::{PROTOCOLS, Protocols, field_names, missing_prerequisite};
use crate::value::{masked, number, parse_masked};
use crate::words::{Word, words};
use linerate_openflow::{Field, FieldMatch, Match};

/// Reads a match, for example `tcp,nw_dst=192.0.2.0/24,tp_dst=80`. The fields come out in the order of their numbers.
///
/// # Errors
/// A word is unknown, a value is not one of its field, or a field lacks what it depends on.
pub fn parse_match(text: &str) -> Result<Match, TextError> {
    match_of(&words(text)?, &[])
}

/// The match that `words` make. `others` are words that the caller understands, for suggestions.
pub(super) fn match_of(words: &[Word<'_>], others: &[&str]) -> Result<Match, TextError> {
    let mut fields = Fields::default();
    // What other words depend on is read first, wherever it stands.
    let mut sorted: Vec<&Word<'_>> = words.iter().collect();
    sorted.sort_by_key(|word| rank(word.key));
    for word in sorted {
        fields.add(word, others)?;
    }
    let mut found = fields.found;
    found.sort_unstable_by_key(|(wanted, _)| wanted.field);
    let fields: Vec<FieldMatch> = found.iter().map(|(wanted, _)| *wanted).collect();
    for (wanted, word) in &found {
        let no_tag = wanted.effective_mask() & 0x1000 != 0 && wanted.value & 0x1000 == 0;
        if wanted.field == Field::VlanVid && no_tag && wanted.value != 0 {
            return Err(TextError::new(
                word,
                "a VLAN ID needs bit 0x1000, which says that there is a tag; dl_vlan sets it",
            ));
        }
        if let Some(missing) = missing_prerequisite(wanted.field, &fields) {
            return Err(TextError::new(word, format!("matches nothing by itself; add {missing}")));
        }
    }
    Ok(Match::new(fields))
}

fn rank(key: &str) -> u8 {
    match key {
        "dl_type" | "eth_type" => 0,
        _ if PROTOCOLS.iter().any(|protocol| protocol.name == key) => 0,
        "nw_proto" | "ip_proto" => 1,
        _ => 2,
    }
}

/// Fields so far, each with its word.
#[derive(Default)]
struct Fields<'a> {
    found: Vec<(FieldMatch, &'a str)>,
}

impl<'a> Fields<'a> {
    fn add(&mut self, word: &Word<'a>, others: &[&str]) -> Result<(), TextError> {
        if let Some(protocol) = PROTOCOLS.iter().find(|protocol| protocol.name == word.key) {
            word.bare()?;
            self.set(word, FieldMatch::exact(Field::EthType, protocol.eth_type))?;
            let ip_proto = protocol.ip_proto.map(|number| FieldMatch::exact(Field::IpProto, number));
            return ip_proto.map_or(Ok(()), |wanted| self.set(word, wanted));
        }
        match word.key {
            "dl_vlan" => self.vlan(word),
            "vlan_tci" => self.vlan_tci(word),
            "nw_tos" => self.type_of_service(word),
            "vlan_pcp" | "dl_vlan_pcp" => {
                // A priority is that of a tag, so that there must be one.
                if !self.found.iter().any(|(wanted, _)| wanted.field == Field::VlanVid) {
                    self.set(word, FieldMatch { field: Field::VlanVid, value: 0x1000, mask: Some(0x1000) })?;
                }
                self.field(word, Field::VlanPcp)
            }
            key => {
                let protocols = Protocols::of(&self.fields());
                let field = protocols.field(word.text, key)?.ok_or_else(|| {
                    let mut known = field_names();
                    known.extend(PROTOCOLS.iter().map(|protocol| protocol.name));
                    known.extend(["dl_vlan", "vlan_tci", "nw_tos"]);
                    known.extend(others);
                    TextError::unknown(key, "word of a flow", &known)
                })?;
                self.field(word, field)
            }
        }
    }

    fn fields(&self) -> Vec<FieldMatch> {
        self.found.iter().map(|(wanted, _)| *wanted).collect()
    }

    fn field(&mut self, word: &Word<'a>, field: Field) -> Result<(), TextError> {
        let text = word.needed(&format!("{}={}", word.key, example(field)))?;
        match parse_masked(word.text, field, text)? {
            Some(wanted) => self.set(word, wanted),
            None => Ok(()),
        }
    }

    fn set(&mut self, word: &Word<'a>, wanted: FieldMatch) -> Result<(), TextError> {
        let Some((before, by)) = self.found.iter_mut().find(|(before, _)| before.field == wanted.field) else {
            self.found.push((wanted, word.text));
            return Ok(());
        };
        // `dl_vlan_pcp=3,dl_vlan=5` and `ip,nw_proto=6` say more of a field than before; `tcp,udp` is a mistake.
        let common = before.effective_mask() & wanted.effective_mask();
        if before.value & common != wanted.value & common {
            return Err(TextError::new(word.text, format!("contradicts `{by}`; keep one of them")));
        }
        let mask = before.effective_mask() | wanted.effective_mask();
        if let Some(both) = masked(word.text, wanted.field, before.value | wanted.value, mask)? {
            *before = both;
        }
        Ok(())
    }

    /// `dl_vlan=ID`; 0xffff is a packet without a tag.
    fn vlan(&mut self, word: &Word<'a>) -> Result<(), TextError> {
        let text = word.needed("dl_vlan=5")?;
        let (vid, mask) = match text.split_once('/') {
            Some((vid, mask)) => (number(word.text, vid, 12)?, number(word.text, mask, 12)?),
            None => (number(word.text, text, 16)?, 0xfff),
        };
        let wanted = match vid {
            0xffff => Some(FieldMatch::exact(Field::VlanVid, 0)),
            0..=0xfff => masked(word.text, Field::VlanVid, 0x1000 | vid, 0x1000 | mask)?,
            _ => return Err(TextError::new(word.text, "a VLAN ID is 0 to 4095; 0xffff is no tag")),
        };
        wanted.map_or(Ok(()), |wanted| self.set(word, wanted))
    }

    /// `vlan_tci=TCI[/MASK]`: 3 bits of priority, 1 bit that is set where there is a tag, 12 bits of VLAN ID.
    fn vlan_tci(&mut self, word: &Word<'a>) -> Result<(), TextError> {
        let text = word.needed("vlan_tci=0x1000/0x1000")?;
        let (value, mask) = text.split_once('/').unwrap_or((text, "0xffff"));
        let (value, mask) = (number(word.text, value, 16)?, number(word.text, mask, 16)?);
        let no_tag = mask & 0x1000 != 0 && value & 0x1000 == 0;
        if no_tag && value & mask & 0xe000 != 0 {
            return Err(TextError::new(word.text, "a priority needs bit 0x1000, which says that there is a tag"));
        }
        if let Some(wanted) = masked(word.text, Field::VlanVid, value & 0x1fff, mask & 0x1fff)? {
            self.set(word, wanted)?;
        }
        match mask >> 13 {
            0 => Ok(()),
            _ if no_tag => Ok(()),
            7 => self.set(word, FieldMatch::exact(Field::VlanPcp, value >> 13)),
            _ => Err(TextError::new(word.text, "OpenFlow 1.3 matches all bits of the priority, 0xe000, or none")),
        }
    }

    /// `nw_tos=TOS`: the DSCP times four.
    fn type_of_service(&mut self, word: &Word<'a>) -> Result<(), TextError> {
        let value = number(word.text, word.needed("nw_tos=32")?, 8)?;
        if value & 3 != 0 {
            return Err(TextError::new(word.text, "the two lowest bits must be 0; nw_ecn matches them"));
        }
        self.set(word, FieldMatch::exact(Field::IpDscp, value >> 2))
    }
}

/// A value to show in a message.
fn example(field: Field) -> &'static str {
    use crate::value::{Form, form};
    match form(field) {
        Form::Mac => "02:00:00:00:00:01",
        Form::Ipv4 => "192.0.2.0/24",
        Form::Ipv6 => "2001:db8::/32",
        Form::Decimal | Form::Hexadecimal | Form::Port => "1",
    }
}
