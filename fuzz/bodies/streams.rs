//! Body of the fuzz target `streams`: any text as a stream file. Also run by the tests of `linerate-gen`.

use linerate_gen::{Signature, Stream};
use linerate_streams::{FILE_STREAMS_MAX, TEXT_LEN_MAX, parse};

/// Most bytes of packets that are kept ready for one file.
const IMAGE_BYTES_MAX: usize = 16 << 20;

/// Reads the bytes as a stream file. What is taken can be sent, within the bounds on memory; what is refused says where.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let file = match parse(text) {
        Ok(file) => file,
        Err(error) => {
            assert!(!error.message.is_empty());
            assert!(error.line >= 1 && error.line <= text.matches('\n').count() + 1);
            assert!(error.column >= 1 && error.column <= text.chars().count() + 1);
            assert_eq!(error.to_string().matches('\n').count(), 2 + error.message.matches('\n').count());
            return;
        }
    };
    assert!(text.len() <= TEXT_LEN_MAX && (1..=FILE_STREAMS_MAX).contains(&file.streams.len()));
    let bytes: usize = file.streams.iter().flat_map(|stream| &stream.spec.lens).sum();
    assert!(bytes <= IMAGE_BYTES_MAX && file.mean_size_wire() >= 18.0);
    let mut packet = vec![0; file.len_max()];
    for entry in &file.streams {
        assert!(entry.weight > 0);
        let Ok(plan) = entry.spec.plan() else { panic!("a stream that cannot be sent was taken:\n{text}") };
        let mut stream = Stream::new(&plan);
        for number in 0..5 {
            let (image, len) = stream.next_image();
            stream.write(image, &mut packet[..len], number);
            let expected = entry.spec.signature.map(|id| (id, number, number));
            let found = Signature::read(&packet[..len]).map(|found| (found.stream, found.sequence, found.time_ns));
            assert!(expected.is_none() || found == expected, "{text}");
        }
    }
}
