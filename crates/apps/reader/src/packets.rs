//! The packets of all files: one file after the other, or all of them by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use linerate_pcapng::{Head, Interface};

use super::input::{self, Reader};

/// Goes through files. One that is broken is read up to where it is, and the others are read nevertheless.
pub struct Packets {
    paths: Vec<String>,
    readers: Vec<Option<Reader>>,
    /// With `--merge`: the time of the next packet of each file. Files of the same time come in their order.
    heads: Option<BinaryHeap<Reverse<(u64, usize)>>>,
    /// File that the current packet is of.
    current: usize,
    head: Option<Head>,
    /// The next packet of each file, looked at for its time.
    waiting: Vec<Option<Head>>,
    errors: Vec<String>,
    all_whole: bool,
}

/// One packet.
pub struct Packet<'a> {
    /// What the file says of it.
    pub head: Head,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Number of its file.
    pub file: usize,
    /// Number of the section that it is of, in its file.
    pub section: u64,
    /// Its interface.
    pub interface: Option<&'a Interface>,
}

impl Packets {
    /// The packets of these files; with `merge` by time.
    pub fn new(paths: &[String], merge: bool) -> Packets {
        let mut packets = Packets {
            paths: paths.to_vec(),
            readers: paths.iter().map(|_| None).collect(),
            heads: None,
            current: 0,
            head: None,
            waiting: vec![None; paths.len()],
            errors: Vec::new(),
            all_whole: true,
        };
        if merge {
            packets.heads = Some(BinaryHeap::new());
            (0..paths.len()).for_each(|file| {
                packets.open(file);
                packets.look_ahead(file);
            });
        }
        packets
    }

    /// Goes on to the next packet; false at the end of all files.
    pub fn advance(&mut self) -> bool {
        self.head = if self.heads.is_some() { self.next_by_time() } else { self.next_in_order() };
        self.head.is_some()
    }

    /// The packet that [`Packets::advance`] went on to.
    pub fn packet(&self) -> Option<Packet<'_>> {
        let (head, reader) = (self.head?, self.readers[self.current].as_ref()?);
        let interface = reader.interfaces().get(head.interface as usize);
        Some(Packet { head, bytes: reader.packet(), file: self.current, section: reader.sections(), interface })
    }

    /// What was wrong with files since the last call, each with the file's name and the offset.
    pub fn take_errors(&mut self) -> Vec<String> {
        std::mem::take(&mut self.errors)
    }

    /// False when anything was wrong with a file.
    pub fn all_whole(&self) -> bool {
        self.all_whole
    }

    fn fail(&mut self, error: String) {
        self.all_whole = false;
        self.errors.push(error);
    }

    fn next_in_order(&mut self) -> Option<Head> {
        while self.current < self.paths.len() {
            if self.readers[self.current].is_none() {
                self.open(self.current);
            }
            if let Some(head) = self.read(self.current) {
                return Some(head);
            }
            self.readers[self.current] = None;
            self.current += 1;
        }
        None
    }

    fn next_by_time(&mut self) -> Option<Head> {
        // Only now may the reader of the last packet go on: its bytes were borrowed.
        if self.head.take().is_some() {
            self.look_ahead(self.current);
        }
        let Reverse((_, file)) = self.heads.as_mut()?.pop()?;
        self.current = file;
        self.waiting[file].take()
    }

    fn look_ahead(&mut self, file: usize) {
        let head = self.read(file);
        self.waiting[file] = head;
        if let (Some(head), Some(heads)) = (head, &mut self.heads) {
            heads.push(Reverse((head.time_ns, file)));
        }
    }

    fn open(&mut self, file: usize) {
        match input::open(&self.paths[file]) {
            Ok(reader) => self.readers[file] = Some(reader),
            Err(error) => self.fail(error),
        }
    }

    fn read(&mut self, file: usize) -> Option<Head> {
        let reader = self.readers[file].as_mut()?;
        match reader.next() {
            Ok(head) => head,
            Err(error) => {
                self.fail(format!("{}: {error}", self.paths[file]));
                None
            }
        }
    }
}
