//! Headers and records to write: pcapng and pcap with nanoseconds, little-endian.

use crate::{ETHERNET, FileFormat};

/// Bytes of a pcapng block around a packet.
const PCAPNG_AROUND: usize = 32;

/// Appends what a file of this format begins with.
pub(crate) fn file_header(out: &mut Vec<u8>, format: FileFormat, snaplen: usize) {
    match format {
        FileFormat::Pcap => pcap_header(out, snaplen as u32),
        FileFormat::Pcapng => pcapng_header(out, snaplen as u32),
    }
}

fn pcap_header(out: &mut Vec<u8>, snaplen: u32) {
    words(out, &[0xa1b2_3c4d]);
    out.extend(2u16.to_le_bytes());
    out.extend(4u16.to_le_bytes());
    words(out, &[0, 0, snaplen, u32::from(ETHERNET)]);
}

/// A section of unknown length, and one interface that counts nanoseconds.
fn pcapng_header(out: &mut Vec<u8>, snaplen: u32) {
    const APPLICATION: &[u8; 8] = b"linerate";
    words(out, &[0x0a0d_0d0a, 44, 0x1a2b_3c4d]);
    out.extend(1u16.to_le_bytes());
    out.extend(0u16.to_le_bytes());
    out.extend(u64::MAX.to_le_bytes());
    option(out, 4, APPLICATION);
    option(out, 0, &[]);
    words(out, &[44]);

    words(out, &[1, 32]);
    out.extend(ETHERNET.to_le_bytes());
    out.extend([0; 2]);
    words(out, &[snaplen]);
    option(out, 9, &[9]);
    option(out, 0, &[]);
    words(out, &[32]);
}

fn words(out: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|word| out.extend(word.to_le_bytes()));
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Appends one packet: the first `kept` bytes of `parts`, which are `len` bytes together.
pub(crate) fn record<'a>(
    out: &mut Vec<u8>,
    format: FileFormat,
    time_ns: u64,
    parts: impl Iterator<Item = &'a [u8]>,
    kept: usize,
    len: usize,
) {
    match format {
        FileFormat::Pcap => {
            // Seconds have 32 bits: enough until 2106.
            let seconds = (time_ns / 1_000_000_000).min(u64::from(u32::MAX)) as u32;
            words(out, &[seconds, (time_ns % 1_000_000_000) as u32, kept as u32, len as u32]);
            packet(out, parts, kept);
        }
        FileFormat::Pcapng => {
            let block = PCAPNG_AROUND + kept.next_multiple_of(4);
            words(out, &[6, block as u32, 0, (time_ns >> 32) as u32, time_ns as u32, kept as u32, len as u32]);
            packet(out, parts, kept);
            out.resize(out.len() + kept.next_multiple_of(4) - kept, 0);
            words(out, &[block as u32]);
        }
    }
}

fn packet<'a>(out: &mut Vec<u8>, parts: impl Iterator<Item = &'a [u8]>, kept: usize) {
    let mut left = kept;
    for part in parts {
        let step = part.len().min(left);
        out.extend_from_slice(&part[..step]);
        left -= step;
    }
}
