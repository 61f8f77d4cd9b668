//! A capture that comes through a named pipe or a terminal: a thread reads it, so that no caller of the port ever waits for its writer.

use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;

use linerate_pcapng::{CaptureError, CaptureReader, ETHERNET, Head};
use linerate_sys::poll::PollSet;

/// Packets that were read ahead.
const AHEAD: usize = 64;

/// What the thread hands over.
enum Piece {
    Packet(Head, Vec<u8>),
    /// The writer closed the stream.
    End,
    Broken(String),
}

/// What there is next.
pub(crate) enum Next {
    Packet(Head),
    NotYet,
    End,
}

/// The stream, and the thread that reads it; the thread ends with this value.
pub(crate) struct Stream {
    pieces: Option<Receiver<Piece>>,
    /// A piece that [`Stream::wait`] got.
    waiting: Option<Piece>,
    /// Bytes of the packet that [`Stream::next`] went on to; its memory goes back to the thread.
    packet: Vec<u8>,
    spare: SyncSender<Vec<u8>>,
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Stream {
    /// True for files that may keep their reader waiting.
    pub(crate) fn is_one(path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|file| file.file_type().is_fifo() || file.file_type().is_char_device())
    }

    /// Begins to read. A named pipe need not have a writer yet.
    pub(crate) fn open(path: &Path) -> io::Result<Stream> {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        let (stopped, stop) = io::pipe()?;
        let (sender, pieces) = mpsc::sync_channel(AHEAD);
        let (spare, used) = mpsc::sync_channel(AHEAD + 1);
        let input = Patient { file, stopped, polled: PollSet::default() };
        let thread = std::thread::Builder::new().name("file".into()).spawn(move || read(input, &sender, &used))?;
        let (stop, thread) = (Some(stop), Some(thread));
        Ok(Stream { pieces: Some(pieces), waiting: None, packet: Vec::new(), spare, stop, thread })
    }

    /// Goes on to the next packet, if it is there.
    pub(crate) fn next(&mut self) -> Result<Next, String> {
        let piece = match (self.waiting.take(), &self.pieces) {
            (Some(piece), _) => piece,
            (None, Some(pieces)) => match pieces.try_recv() {
                Ok(piece) => piece,
                Err(TryRecvError::Empty) => return Ok(Next::NotYet),
                Err(TryRecvError::Disconnected) => Piece::End,
            },
            (None, None) => Piece::End,
        };
        match piece {
            Piece::Packet(head, bytes) => {
                let _ = self.spare.try_send(std::mem::replace(&mut self.packet, bytes));
                Ok(Next::Packet(head))
            }
            Piece::End => Ok(Next::End),
            Piece::Broken(text) => Err(text),
        }
    }

    /// Bytes of the packet that [`Stream::next`] went on to.
    pub(crate) fn packet(&self) -> &[u8] {
        &self.packet
    }

    /// Waits until there is something; false when the time is over.
    pub(crate) fn wait(&mut self, timeout_ns: u64) -> bool {
        if self.waiting.is_some() {
            return true;
        }
        let Some(pieces) = &self.pieces else { return true };
        match pieces.recv_timeout(Duration::from_nanos(timeout_ns)) {
            Ok(piece) => self.waiting = Some(piece),
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => {}
        }
        true
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // It waits for the writer, or for room.
        drop((self.stop.take(), self.pieces.take()));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread.
fn read(input: Patient, pieces: &SyncSender<Piece>, spare: &Receiver<Vec<u8>>) {
    let last = match read_all(input, pieces, spare) {
        Ok(()) => Piece::End,
        Err(error) => Piece::Broken(error.to_string()),
    };
    let _ = pieces.send(last);
}

fn read_all(input: Patient, pieces: &SyncSender<Piece>, spare: &Receiver<Vec<u8>>) -> Result<(), CaptureError> {
    let mut reader = CaptureReader::new(input)?;
    if let Some(link_type) = reader.link_type()
        && link_type != ETHERNET
    {
        return Err(CaptureError::NotACapture { what: not_ethernet(link_type) });
    }
    while let Some(head) = reader.next()? {
        let mut bytes = spare.try_recv().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(reader.packet());
        if pieces.send(Piece::Packet(head, bytes)).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// What is wrong with a file whose packets have this link type.
pub(crate) fn not_ethernet(link_type: u16) -> String {
    format!("its packets have link type {link_type}, not Ethernet (1)")
}

/// Reads when there is something to read, and ends when it is told to stop.
struct Patient {
    file: File,
    stopped: PipeReader,
    polled: PollSet,
}

impl Read for Patient {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            self.polled.clear();
            self.polled.add(self.stopped.as_fd(), true, false);
            self.polled.add(self.file.as_fd(), true, false);
            self.polled.wait(u64::MAX)?;
            let stop = self.polled.result(0);
            if stop.readable || stop.failed {
                return Ok(0);
            }
            match self.file.read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }
}
