//! One capture file, plain or compressed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use linerate_pcapng::{CaptureError, CaptureReader};

/// The first bytes of a zstd frame (RFC 8878, section 3.1.1).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Largest window of a compressed file, as a power of two in bytes: what zstd itself accepts without being asked for more.
const WINDOW_LOG_MAX: u32 = 27;

/// A file that is read.
pub type Reader = CaptureReader<Box<dyn Read>>;

/// Opens a file; `-` is standard input.
///
/// # Errors
/// What the system answers, or that it is no capture file, with the file's name.
pub fn open(path: &str) -> Result<Reader, String> {
    let named = |error: io::Error| format!("{path}: {error}");
    let file: Box<dyn Read> = match path {
        "-" => Box::new(io::stdin()),
        _ => Box::new(File::open(path).map_err(named)?),
    };
    let mut file = BufReader::with_capacity(64 << 10, file);
    let is_compressed = file.fill_buf().map_err(named)?.starts_with(&ZSTD);
    let input: Box<dyn Read> = if is_compressed {
        let mut decoder = zstd::Decoder::with_buffer(file).map_err(named)?;
        decoder.window_log_max(WINDOW_LOG_MAX).map_err(named)?;
        Box::new(decoder)
    } else {
        Box::new(file)
    };
    CaptureReader::new(input).map_err(|error| format!("{path}: {}", told(&error, is_compressed)))
}

/// Offsets are those of the bytes that are not compressed.
fn told(error: &CaptureError, is_compressed: bool) -> String {
    if is_compressed { format!("(uncompressed) {error}") } else { error.to_string() }
}
