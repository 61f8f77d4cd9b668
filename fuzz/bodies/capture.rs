//! Body of the fuzz target `capture`: any bytes as a capture file. Also run by the tests of `linerate-pcapng`.

use linerate_pcapng::{CaptureReader, PACKET_LEN_MAX};

/// Reads the bytes to their end or to the first error; whatever they are, it takes few steps and stays inside them.
pub fn run(data: &[u8]) {
    let Ok(mut reader) = CaptureReader::new(data) else { return };
    let mut packets = 0;
    let mut bytes = 0;
    let outcome = loop {
        let before = reader.offset();
        match reader.next() {
            Ok(Some(head)) => {
                let packet = reader.packet();
                assert_eq!(packet.len(), head.len);
                assert!(packet.len() <= PACKET_LEN_MAX);
                assert!((head.interface as usize) < reader.interfaces().len());
                assert!(reader.offset() >= before);
                packets += 1;
                bytes += packet.len();
            }
            Ok(None) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    // A record is at least 16 bytes long, and no byte is handed out twice.
    assert!(packets <= data.len() / 16);
    assert!(bytes <= data.len());
    assert!(reader.offset() <= data.len() as u64);
    if let Some(text) = outcome {
        assert!(!text.is_empty());
        assert!(reader.next().is_err(), "an error stays: {text}");
    }
}
