//! Body of the fuzz target `filter`: any text as a filter, any bytes as a program. Also run by the tests of `linerate-filter`.

use linerate_filter::{Facts, Instruction, Program, Tags, compile};

/// Compiles the bytes as a text, and takes them as instructions; runs what there is on a packet made of them.
pub fn run(data: &[u8]) {
    let facts = Facts::of_len(data.len() as u32);
    if let Ok(text) = std::str::from_utf8(data) {
        for tags in [Tags::InPacket, Tags::Beside] {
            match compile(text, tags, 96) {
                Ok(program) => assert!([0, 96].contains(&program.run(data, &facts))),
                Err(error) => {
                    assert!(error.at >= 1 && error.at <= text.len().max(65_536) + 1 && !error.problem.is_empty())
                }
            }
        }
    }
    let instructions = data.chunks_exact(8).map(|bytes| Instruction {
        code: u16::from_le_bytes([bytes[0], bytes[1]]),
        jt: bytes[2],
        jf: bytes[3],
        k: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
    });
    if let Ok(program) = Program::new(instructions.collect()) {
        let _ = program.run(data, &facts);
        assert!(!program.to_string().is_empty());
    }
}
