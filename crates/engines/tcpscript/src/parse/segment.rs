//! Segments: flags, sequence numbers, then fields in any order.
//!
//! ```text
//! SA 0 ack 1 win >=1000 mss 1460      A 1:1001 ack 1      A 1:14601 ack 1 by 1460 (ten segments)      * (anything)
//! ```

use core::net::IpAddr;

use super::words::{Words, number, unknown};
use crate::script::{Bound, Ecn, Numbers, Segment, Stamp};

/// Most segments of a train.
const TRAIN_MAX: usize = 1000;
/// Most bytes of a segment.
const LEN_MAX: i64 = 1 << 26;

const FIELDS: [&str; 32] = [
    "ack", "win", "by", "push", "nopush", "urg", "mss", "nomss", "ws", "nows", "sackok", "nosackok", "ts", "nots",
    "sack", "nosack", "notect", "ect0", "ect1", "ce", "ttl", "df", "nodf", "tos", "data", "raw", "doff", "badsum",
    "ipopt", "from", "to", "len",
];

/// Reads a segment, or the segments of a train.
pub fn segments(words: &mut Words) -> Result<Vec<Segment>, String> {
    let mut segment =
        Segment { flags: flags(words.want("the flags of the segment, for example SA")?)?, ..Segment::default() };
    if segment.flags.is_some() {
        let (seq, len) = sequence(words.want("the sequence number, or `*`")?)?;
        (segment.seq, segment.len) = (seq, len);
    }
    let mut by = 0;
    while let Some(word) = words.next() {
        if word == "by" {
            by = words.number("bytes of each segment")?;
            if by == 0 {
                return Err("segments of 0 bytes".into());
            }
        } else {
            field(&mut segment, word, words)?;
        }
    }
    if segment.data.is_some() {
        segment.len = segment.data.as_ref().map(Vec::len);
    }
    if by == 0 { Ok(vec![segment]) } else { train(&segment, by) }
}

fn train(whole: &Segment, by: usize) -> Result<Vec<Segment>, String> {
    let (Some(start), Some(len)) = (whole.seq, whole.len) else {
        return Err("a train needs its sequence numbers: 1:14601".into());
    };
    if len.div_ceil(by) > TRAIN_MAX {
        return Err(format!("a train of more than {TRAIN_MAX} segments"));
    }
    let of =
        |offset: usize| Segment { seq: Some(start + offset as i64), len: Some(by.min(len - offset)), ..whole.clone() };
    Ok((0..len).step_by(by).map(of).collect())
}

fn flags(word: &str) -> Result<Option<u8>, String> {
    if word == "*" {
        return Ok(None);
    }
    let letters = "FSRPAUEC";
    let bit = |letter: char| letters.find(letter).map(|bit| 1 << bit);
    let bits = word.chars().map(bit).collect::<Option<Vec<u8>>>();
    let bits = bits.ok_or_else(|| format!("not flags: {word}; the letters are {letters}, or - for none"));
    if word == "-" { Ok(Some(0)) } else { Ok(Some(bits?.into_iter().fold(0, |all, bit| all | bit))) }
}

/// `1`, `1:1001`, `*`, `*:1460` (any place, 1,460 bytes).
fn sequence(word: &str) -> Result<(Option<i64>, Option<usize>), String> {
    if word == "*" {
        return Ok((None, None));
    }
    let Some((start, end)) = word.split_once(':') else { return Ok((Some(relative(word)?), Some(0))) };
    if start == "*" {
        return Ok((None, Some(number::<u32>(end)? as usize)));
    }
    let (start, end) = (relative(start)?, relative(end)?);
    match end - start {
        len if len < 0 => Err(format!("the segment ends before it begins: {word}")),
        len if len > LEN_MAX => Err(format!("too long a segment: {word}")),
        len => Ok((Some(start), Some(len as usize))),
    }
}

/// A relative sequence number.
fn relative(word: &str) -> Result<i64, String> {
    let value: i64 = number(word)?;
    if value.unsigned_abs() > 1 << 40 { Err(format!("too large a number: {word}")) } else { Ok(value) }
}

fn field(segment: &mut Segment, word: &str, words: &mut Words) -> Result<(), String> {
    match word {
        "ack" => segment.ack = bound(words.next().ok_or("a number is missing: ack")?)?,
        "win" => segment.window = bound(words.next().ok_or("a number is missing: win")?)?,
        "ttl" => segment.ttl = bound(words.next().ok_or("a number is missing: ttl")?)?,
        "push" => segment.push = Some(true),
        "nopush" => segment.push = Some(false),
        "urg" => segment.urgent = Some(words.number("the urgent pointer")?),
        "tos" => segment.tos = Some(words.number("the type of service")?),
        "df" => segment.dont_fragment = Some(true),
        "nodf" => segment.dont_fragment = Some(false),
        "notect" => segment.ecn = Some(Ecn::NotEct),
        "ect0" => segment.ecn = Some(Ecn::Ect0),
        "ect1" => segment.ecn = Some(Ecn::Ect1),
        "ce" => segment.ecn = Some(Ecn::Ce),
        "len" => segment.len = Some(words.number::<u32>("the number of bytes")? as usize),
        "data" => segment.data = Some(words.want("the data")?.trim_matches('"').as_bytes().to_vec()),
        "raw" => segment.raw_options = Some(hex(words.want("the bytes of the options, hexadecimal")?)?),
        "ipopt" => segment.ip_options = Some(hex(words.want("the bytes of the options, hexadecimal")?)?),
        "doff" => segment.data_offset = Some(words.number("the header length in words")?),
        "badsum" => segment.bad_checksum = true,
        "from" => segment.src = Some(address(words.want("the source address")?)?),
        "to" => segment.dst = Some(address(words.want("the destination address")?)?),
        _ => option(segment, word, words)?,
    }
    Ok(())
}

fn option(segment: &mut Segment, word: &str, words: &mut Words) -> Result<(), String> {
    match word {
        "mss" => segment.mss = given(words.want("the maximum segment size")?)?,
        "nomss" => segment.mss = Numbers::Absent,
        "ws" => segment.window_scale = given(words.want("the window scale")?)?,
        "nows" => segment.window_scale = Numbers::Absent,
        "sackok" => segment.sack_permitted = Numbers::Any,
        "nosackok" => segment.sack_permitted = Numbers::Absent,
        "ts" => segment.timestamps = stamp(words)?,
        "nots" => segment.timestamps = Numbers::Absent,
        "sack" => segment.sack = blocks(words.want("blocks, for example 1001:2001,3001:4001")?)?,
        "nosack" => segment.sack = Numbers::Absent,
        _ => return Err(unknown(word, &FIELDS)),
    }
    Ok(())
}

/// `*`, `5`, `>=5`, `<=5`.
fn bound(word: &str) -> Result<Bound, String> {
    Ok(match (word, word.strip_prefix(">="), word.strip_prefix("<=")) {
        ("*", ..) => Bound::Any,
        (_, Some(least), _) => Bound::AtLeast(relative(least)?),
        (_, _, Some(most)) => Bound::AtMost(relative(most)?),
        _ => Bound::Is(relative(word)?),
    })
}

fn given<T: std::str::FromStr>(word: &str) -> Result<Numbers<T>, String> {
    if word == "*" { Ok(Numbers::Any) } else { number(word).map(Numbers::Is) }
}

/// `ts`, or `ts VALUE:ECHO`.
fn stamp(words: &mut Words) -> Result<Numbers<Stamp>, String> {
    let Some((value, echo)) = words.peek().and_then(|word| word.split_once(':')) else { return Ok(Numbers::Any) };
    words.next();
    Ok(Numbers::Is(Stamp { value: bound(value)?, echo: bound(echo)? }))
}

fn blocks(word: &str) -> Result<Numbers<Vec<(i64, i64)>>, String> {
    if word == "*" {
        return Ok(Numbers::Any);
    }
    let block = |text: &str| {
        let (start, end) = text.split_once(':').ok_or_else(|| format!("not a block: {text}; write 1001:2001"))?;
        Ok((relative(start)?, relative(end)?))
    };
    let blocks = word.split(',').map(block).collect::<Result<Vec<_>, String>>()?;
    if blocks.len() > 4 { Err("more than four blocks".into()) } else { Ok(Numbers::Is(blocks)) }
}

fn hex(word: &str) -> Result<Vec<u8>, String> {
    let bytes = word.as_bytes().chunks(2).map(|pair| {
        let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2)?;
        u8::from_str_radix(text, 16).ok()
    });
    match bytes.collect::<Option<Vec<u8>>>() {
        Some(bytes) if bytes.len() <= 40 => Ok(bytes),
        Some(_) => Err("more than 40 bytes of options".into()),
        None => Err(format!("not hexadecimal bytes: {word}")),
    }
}

fn address(word: &str) -> Result<IpAddr, String> {
    word.parse().map_err(|_| format!("not an address: {word}"))
}
