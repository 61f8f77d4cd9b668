//! The packets again, in a new file.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use linerate_pcapng::{
    ETHERNET, FileFormat, InterfaceHead, PACKET_LEN_MAX, PacketHead, SectionHead, file_start, interface, record,
    record_len, section,
};

use super::packets::Packet;

/// Most interfaces of a file; a section may have no more that are read again.
const INTERFACES_MAX: usize = 65_536;

/// A file that is written.
pub struct Output {
    target: Target,
    format: FileFormat,
    path: String,
    buffer: Vec<u8>,
    /// The interfaces that the file has. Interfaces of several files that are alike become one.
    interfaces: Vec<InterfaceHead>,
    /// Numbers here of the interfaces of each file, for the section that it is in.
    numbers: Vec<(u64, Vec<Option<u32>>)>,
    packets: u64,
}

/// Packets become about as small by it as by level 3, zstd's default, whose compressor is not built in (`.cargo/config.toml`), in half of the time.
const ZSTD_LEVEL: i32 = 2;

enum Target {
    Plain(BufWriter<File>),
    Compressed(Box<zstd::Encoder<'static, BufWriter<File>>>),
}

impl Output {
    /// Creates the file, or empties it; it may not be one of `inputs`. pcap for names that end in `.pcap`, else pcapng;
    /// compressed when `.zst` is behind that.
    ///
    /// # Errors
    /// What keeps it from being made, with its name.
    pub fn create(path: &str, inputs: &[String]) -> Result<Output, String> {
        let named = |error: io::Error| format!("{path}: {error}");
        let id = |path: &str| std::fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino())).ok();
        if let Some(input) = inputs.iter().find(|input| id(path).is_some() && id(input) == id(path)) {
            return Err(format!("{path}: this is {input}, which is read; write into another file"));
        }
        let mut options = OpenOptions::new();
        // What others sent is for the eyes of this user.
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(path).map_err(named)?;
        let file = BufWriter::with_capacity(1 << 20, file);
        let target = match path.ends_with(".zst") {
            true => Target::Compressed(Box::new(zstd::Encoder::new(file, ZSTD_LEVEL).map_err(named)?)),
            false => Target::Plain(file),
        };
        let format = FileFormat::of(path);
        let mut buffer = Vec::new();
        match format {
            FileFormat::Pcap => file_start(&mut buffer, format, PACKET_LEN_MAX),
            FileFormat::Pcapng => {
                section(&mut buffer, &SectionHead { application: "linerate read".into(), ..SectionHead::default() });
            }
        }
        let numbers = vec![(0, Vec::new()); inputs.len()];
        let mut output =
            Output { target, format, path: path.into(), buffer, interfaces: Vec::new(), numbers, packets: 0 };
        output.write()?;
        Ok(output)
    }

    /// Appends a packet.
    ///
    /// # Errors
    /// What keeps it from being written, with the file's name.
    pub fn packet(&mut self, packet: &Packet<'_>) -> Result<(), String> {
        if packet.head.link_type != ETHERNET {
            return Err(format!(
                "{}: a packet of link type {}; only Ethernet (1) is written",
                self.path, packet.head.link_type
            ));
        }
        let interface = if self.format == FileFormat::Pcapng { self.interface(packet)? } else { 0 };
        let head = PacketHead {
            interface,
            time_ns: packet.head.time_ns,
            original_len: packet.head.original_len,
            direction: packet.head.direction,
        };
        let start = self.buffer.len();
        self.buffer.resize(start + record_len(self.format, packet.bytes.len(), head.direction), 0);
        if let Some(place) = record(self.format, &mut self.buffer[start..], &head, packet.bytes.len()) {
            place.copy_from_slice(packet.bytes);
        }
        self.packets += 1;
        self.write()
    }

    /// Number here of the packet's interface, which is put into the file if it is new.
    fn interface(&mut self, packet: &Packet<'_>) -> Result<u32, String> {
        let (section, numbers) = &mut self.numbers[packet.file];
        if *section != packet.section {
            (*section, *numbers) = (packet.section, Vec::new());
        }
        let at = packet.head.interface as usize;
        if let Some(Some(number)) = numbers.get(at) {
            return Ok(*number);
        }
        let said = packet.interface.cloned().unwrap_or_default();
        let head = InterfaceHead {
            name: said.name,
            description: said.description,
            filter: said.filter,
            comment: said.comment,
            snaplen: said.snaplen,
            ..InterfaceHead::default()
        };
        let known = self.interfaces.iter().position(|known| *known == head);
        let number = known.unwrap_or(self.interfaces.len());
        if number == INTERFACES_MAX {
            return Err(format!("{}: more than {INTERFACES_MAX} interfaces", self.path));
        }
        if known.is_none() {
            interface(&mut self.buffer, &head);
            self.interfaces.push(head);
        }
        if numbers.len() <= at {
            numbers.resize(at + 1, None);
        }
        numbers[at] = Some(number as u32);
        Ok(number as u32)
    }

    /// Ends the file.
    ///
    /// # Errors
    /// What kept the rest from being written, with the file's name.
    pub fn finish(self) -> Result<u64, String> {
        let ended = match self.target {
            Target::Plain(mut file) => file.flush(),
            Target::Compressed(encoder) => encoder.finish().and_then(|mut file| file.flush()),
        };
        ended.map(|()| self.packets).map_err(|error| format!("{}: {error}", self.path))
    }

    fn write(&mut self) -> Result<(), String> {
        let written = match &mut self.target {
            Target::Plain(file) => file.write_all(&self.buffer),
            Target::Compressed(encoder) => encoder.write_all(&self.buffer),
        };
        self.buffer.clear();
        written.map_err(|error| format!("{}: {error}", self.path))
    }
}
