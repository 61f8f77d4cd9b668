//! One file: large aligned writes, compression, cutting off what is not whole.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use linerate_capture::WriteBuffer;
use linerate_pcapng::{FileFormat, whole_records};
use zstd::bulk::Compressor;

/// A file that is written.
pub(crate) struct OutputFile {
    file: File,
    format: FileFormat,
    /// Opened with O_DIRECT: each write is aligned and padded.
    direct: bool,
    compressor: Option<Compressor<'static>>,
    compressed: Vec<u8>,
    /// For what does not lie in a buffer of its own.
    staging: WriteBuffer,
    /// Bytes in the file, all of whole records.
    len: u64,
}

/// What became of a write.
pub(crate) struct Outcome {
    /// Packets that are in the file.
    pub packets: u64,
    /// Bytes that the file grew by.
    pub bytes: u64,
    /// Why it is not all of them.
    pub error: Option<io::Error>,
}

/// How to make a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub format: FileFormat,
    pub direct: bool,
    pub zstd_level: Option<i32>,
    pub buffer_bytes: usize,
}

impl OutputFile {
    /// Makes the file, or empties it, and writes its head. With `-` it is standard output.
    pub fn create(path: &str, form: Form, head: &[u8]) -> io::Result<OutputFile> {
        let padded = form.direct && form.format == FileFormat::Pcapng && form.zstd_level.is_none() && path != "-";
        let (file, direct) = open(path, padded)?;
        let compressor = form.zstd_level.map(Compressor::new).transpose()?;
        let staging = WriteBuffer::new(form.format, form.buffer_bytes.max(head.len()));
        let mut output =
            OutputFile { file, format: form.format, direct, compressor, compressed: Vec::new(), staging, len: 0 };
        match output.blocks(head).error {
            None => Ok(output),
            Some(error) => Err(error),
        }
    }

    /// Bytes in the file.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True when it is written past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Writes all of a buffer.
    pub fn buffer(&mut self, buffer: &mut WriteBuffer) -> Outcome {
        let packets = buffer.packets();
        if !self.direct {
            return self.plain(buffer.bytes(), packets);
        }
        let bytes = buffer.padded_bytes();
        let (written, error) = write_all(&mut self.file, bytes);
        self.settle(bytes, written, packets, error)
    }

    /// Writes records, or blocks that are no packets, from anywhere. `bytes` is at most as long as a buffer.
    pub fn records(&mut self, bytes: &[u8], packets: u64) -> Outcome {
        if !self.direct {
            return self.plain(bytes, packets);
        }
        self.staging.clear();
        if !self.staging.blocks(bytes) {
            return Outcome { packets: 0, bytes: 0, error: Some(io::Error::other("more than a buffer at once")) };
        }
        let bytes = self.staging.padded_bytes();
        let (written, error) = write_all(&mut self.file, bytes);
        // The staging buffer is borrowed from what settles the outcome, so it is taken apart here.
        let whole =
            if error.is_none() { (written, packets) } else { whole_records(self.format, bytes, written, u64::MAX) };
        self.settled(whole, written, error)
    }

    /// Writes blocks that are no packets.
    pub fn blocks(&mut self, bytes: &[u8]) -> Outcome {
        self.records(bytes, 0)
    }

    /// Ends the file; with `sync`, when the disk has it.
    pub fn close(self, sync: bool) -> io::Result<()> {
        if sync { self.file.sync_all() } else { Ok(()) }
    }

    fn plain(&mut self, bytes: &[u8], packets: u64) -> Outcome {
        let Some(compressor) = &mut self.compressor else {
            let (written, error) = write_all(&mut self.file, bytes);
            return self.settle(bytes, written, packets, error);
        };
        self.compressed.clear();
        self.compressed.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
        if let Err(error) = compressor.compress_to_buffer(bytes, &mut self.compressed) {
            return Outcome { packets: 0, bytes: 0, error: Some(error) };
        }
        let (written, error) = write_all(&mut self.file, &self.compressed);
        // A frame that is not whole cannot be read.
        let whole = if error.is_none() { (written, packets) } else { (0, 0) };
        self.settled(whole, written, error)
    }

    fn settle(&mut self, bytes: &[u8], written: usize, packets: u64, error: Option<io::Error>) -> Outcome {
        let whole =
            if error.is_none() { (written, packets) } else { whole_records(self.format, bytes, written, u64::MAX) };
        self.settled(whole, written, error)
    }

    /// Cuts off what was written and is not whole.
    fn settled(&mut self, (whole, packets): (usize, u64), written: usize, error: Option<io::Error>) -> Outcome {
        self.len += whole as u64;
        if written > whole && self.file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            // If it fails, the file has a torn last record, which readers report.
            let _ = self.file.set_len(self.len);
        }
        Outcome { packets, bytes: whole as u64, error }
    }
}

/// Opens the file; true when past the page cache.
fn open(path: &str, direct: bool) -> io::Result<(File, bool)> {
    if path == "-" {
        return Ok((File::from(io::stdout().as_fd().try_clone_to_owned()?), false));
    }
    let mut options = OpenOptions::new();
    // What others sent is for the eyes of this user.
    options.write(true).create(true).truncate(true).mode(0o600);
    if direct {
        // Some file systems refuse it (tmpfs); then as usual.
        if let Ok(file) = options.clone().custom_flags(libc::O_DIRECT).open(path)
            && file.metadata().is_ok_and(|metadata| metadata.is_file())
        {
            return Ok((file, true));
        }
    }
    Ok((options.open(path)?, false))
}

/// Writes as much as it can: bytes written, and the error that kept it from more.
fn write_all(file: &mut File, bytes: &[u8]) -> (usize, Option<io::Error>) {
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(0) => return (written, Some(ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (written, Some(error)),
        }
    }
    (written, None)
}
