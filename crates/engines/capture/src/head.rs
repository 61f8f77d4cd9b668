//! What every file of a capture begins with.

use linerate_pcapng::{FileFormat, InterfaceHead, SectionHead, file_start, interface, section};

/// The section's head and the interfaces, in the order of their numbers; the same in every file of a capture, so that a file
/// can be read by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileHead {
    /// The machine, the system, the program.
    pub section: SectionHead,
    /// One for each port that is captured.
    pub interfaces: Vec<InterfaceHead>,
}

impl FileHead {
    /// The bytes. A pcap file has no place for names; its snap length is the largest of all.
    pub fn bytes(&self, format: FileFormat) -> Vec<u8> {
        let mut out = Vec::new();
        match format {
            FileFormat::Pcap => {
                let snaplen = self.interfaces.iter().map(|interface| interface.snaplen).max().unwrap_or(0);
                let all = if self.interfaces.iter().any(|interface| interface.snaplen == 0) { 0 } else { snaplen };
                file_start(&mut out, format, if all == 0 { linerate_pcapng::PACKET_LEN_MAX } else { all as usize });
            }
            FileFormat::Pcapng => {
                section(&mut out, &self.section);
                self.interfaces.iter().for_each(|head| interface(&mut out, head));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_pcapng::CaptureReader;

    #[test]
    fn interfaces_are_found_again() {
        let interfaces = ["veth0", "veth1"].map(|name| InterfaceHead {
            name: name.into(),
            snaplen: 96,
            filter: "tcp".into(),
            comment: "timestamps: kernel".into(),
            ..InterfaceHead::default()
        });
        let head = FileHead { interfaces: interfaces.into(), ..FileHead::default() };
        let bytes = head.bytes(FileFormat::Pcapng);
        let mut reader = CaptureReader::new(&bytes[..]).unwrap();
        assert!(reader.next().unwrap().is_none());
        let found: Vec<_> = reader.interfaces().iter().map(|found| (found.name.as_str(), found.snaplen)).collect();
        assert_eq!(found, [("veth0", 96), ("veth1", 96)]);
        assert_eq!(reader.interfaces()[1].filter, "tcp");
        assert_eq!(reader.interfaces()[1].comment, "timestamps: kernel");
        let bytes = head.bytes(FileFormat::Pcap);
        let reader = CaptureReader::new(&bytes[..]).unwrap();
        assert_eq!(reader.interfaces()[0].snaplen, 96);
    }
}
