//! Reads and prints meters.

use crate::TextError;
use crate::value::number;
use crate::words::{Word, words};
use linerate_openflow::{
    Band, BandKind, METER_ALL, METER_CONTROLLER, METER_SLOWPATH, MeterCommand, MeterFlags, MeterMod,
};

const FLAGS: [(&str, u16); 4] = [
    ("kbps", MeterFlags::KBPS),
    ("pktps", MeterFlags::PKTPS),
    ("burst", MeterFlags::BURST),
    ("stats", MeterFlags::STATS),
];

/// Reads a meter, for example `meter=1,kbps,burst,stats,bands=type=drop,rate=100,burst_size=10`; more bands follow, each from its `type=` on.
/// For deleting, `meter=1` or nothing, which means all meters.
///
/// # Errors
/// A word is unknown, the meter has no number or no bands, or a band lacks its rate.
pub fn parse_meter(text: &str, command: MeterCommand) -> Result<MeterMod, TextError> {
    let (mut meter, mut flags, mut bands) = (None, MeterFlags(0), Vec::new());
    let mut in_bands = false;
    for word in words(text)? {
        match word.key {
            "meter" => meter = Some(meter_id(&word)?),
            "band" | "bands" => {
                in_bands = true;
                // `bands=type=drop`: the value is the first word of the first band.
                for inner in words(word.value.unwrap_or(""))? {
                    band_word(&mut bands, &inner)?;
                }
            }
            _ if in_bands => band_word(&mut bands, &word)?,
            key => {
                word.bare()?;
                let known: Vec<&str> = FLAGS.iter().map(|(name, _)| *name).chain(["meter", "bands"]).collect();
                let flag = FLAGS.iter().find(|(name, _)| *name == key);
                flags.0 |= flag.ok_or_else(|| TextError::unknown(key, "word of a meter", &known))?.1;
            }
        }
    }
    let missing = |what: &str| TextError::new(text.trim(), format!("lacks {what}"));
    if command == MeterCommand::Delete {
        return Ok(MeterMod { command, flags: MeterFlags(0), meter: meter.unwrap_or(METER_ALL), bands: Vec::new() });
    }
    let meter = meter.filter(|meter| *meter != METER_ALL).ok_or_else(|| missing("meter=NUMBER"))?;
    if bands.is_empty() {
        return Err(missing("bands=..., for example bands=type=drop,rate=1000"));
    }
    if bands.iter().any(|band| band.rate == 0) {
        return Err(missing("rate=... of a band, more than 0"));
    }
    if flags.has(MeterFlags::KBPS | MeterFlags::PKTPS) {
        return Err(missing("one unit: give kbps or pktps, not both"));
    }
    if bands.iter().any(|band| band.burst_size > 0) {
        flags.0 |= MeterFlags::BURST;
    }
    if !flags.has(MeterFlags::PKTPS) {
        flags.0 |= MeterFlags::KBPS;
    }
    Ok(MeterMod { command, flags, meter, bands })
}

fn meter_id(word: &Word<'_>) -> Result<u32, TextError> {
    match word.needed("meter=1")? {
        "all" => Ok(METER_ALL),
        "controller" => Ok(METER_CONTROLLER),
        "slowpath" => Ok(METER_SLOWPATH),
        text => Ok(number(word.text, text, 32)? as u32),
    }
}

fn band_word(bands: &mut Vec<Band>, word: &Word<'_>) -> Result<(), TextError> {
    if word.key == "type" {
        let kind = match word.needed("type=drop")? {
            "drop" => BandKind::Drop,
            // Its level is 0 until `prec_level=` says otherwise.
            "dscp_remark" => BandKind::DscpRemark(0),
            text => return Err(TextError::unknown(text, "type of a band", &["drop", "dscp_remark"])),
        };
        bands.push(Band { kind, rate: 0, burst_size: 0 });
        return Ok(());
    }
    let first = || TextError::new(word.text, "a band starts with type=drop or type=dscp_remark");
    let band = bands.last_mut().ok_or_else(first)?;
    match word.key {
        "rate" => band.rate = number(word.text, word.needed("rate=1000")?, 32)? as u32,
        "burst_size" => band.burst_size = number(word.text, word.needed("burst_size=100")?, 32)? as u32,
        "prec_level" => match &mut band.kind {
            BandKind::DscpRemark(level) => *level = number(word.text, word.needed("prec_level=1")?, 8)? as u8,
            _ => return Err(TextError::new(word.text, "only bands of type dscp_remark have a level")),
        },
        key => return Err(TextError::unknown(key, "word of a band", &["type", "rate", "burst_size", "prec_level"])),
    }
    Ok(())
}

/// A meter in one line that [`parse_meter`] and ovs-ofctl read.
pub fn meter_text(meter: u32, flags: MeterFlags, bands: &[Band]) -> String {
    let number = match meter {
        METER_CONTROLLER => "controller".into(),
        METER_SLOWPATH => "slowpath".into(),
        _ => meter.to_string(),
    };
    let mut text = format!("meter={number}");
    for (name, _) in FLAGS.iter().filter(|(_, flag)| flags.has(*flag)) {
        text += &format!(" {name}");
    }
    text += " bands=";
    let bands = bands.iter().map(|band| {
        let (name, level) = match &band.kind {
            BandKind::Drop => ("drop", String::new()),
            BandKind::DscpRemark(level) => ("dscp_remark", format!(" prec_level={level}")),
            BandKind::Experimenter(part) => ("experimenter", format!(" experimenter={:#x}", part.experimenter)),
        };
        let burst = if band.burst_size > 0 { format!(" burst_size={}", band.burst_size) } else { String::new() };
        format!("type={name} rate={}{burst}{level}", band.rate)
    });
    text + &bands.collect::<Vec<_>>().join(" ")
}
