//! `-X`: every packet as the original dumps it: a line about its place, then 16 bytes a line as numbers and as letters.

use std::fmt::Write;

use linerate_mem::Batch;
use linerate_port::{Caps, Interest, Port, PortError, Readiness, Stats, TxGenerator};

use super::log;

/// Bytes of a line.
const ROW: usize = 16;

/// Prints the first `count` slots of a batch.
pub fn batch(ring: usize, batch: &Batch, count: usize) {
    for slot in 0..count.min(batch.len()) {
        log::dump(&packet(ring, slot, batch.more(slot), batch.packet(slot)));
    }
}

/// The dump of one slot.
fn packet(ring: usize, slot: usize, more: bool, bytes: &[u8]) -> String {
    // NS_MOREFRAG of the original.
    let flags = if more { 0x20 } else { 0 };
    let mut text = format!("ring {ring} cur {slot:5} [buf {slot:6} flags 0x{flags:04x} len {:5}]", bytes.len());
    for (row, line) in bytes.chunks(ROW).enumerate() {
        let mut numbers = String::new();
        // Writing to a string cannot fail.
        line.iter().for_each(|byte| {
            let _ = write!(numbers, "{byte:02x} ");
        });
        let letter = |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' };
        let letters: String = line.iter().map(letter).collect();
        let _ = write!(text, "\n{:5}: {numbers:<48}{letters}", row * ROW);
    }
    text
}

/// A port that dumps what it sends.
pub struct DumpPort {
    inner: Box<dyn Port>,
    ring: usize,
}

impl DumpPort {
    /// Dumps what `inner` takes, as packets of ring `ring`.
    pub fn boxed(inner: Box<dyn Port>, ring: usize) -> Box<dyn Port> {
        Box::new(DumpPort { inner, ring })
    }
}

impl Port for DumpPort {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.inner.receive(batch)
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let shown: Vec<String> =
            (0..batch.len()).map(|slot| packet(self.ring, slot, batch.more(slot), batch.packet(slot))).collect();
        let held = batch.len();
        let taken = self.inner.transmit(batch);
        shown.iter().take(held - batch.len()).for_each(|text| log::dump(text));
        taken
    }

    fn flush(&mut self) -> Result<usize, PortError> {
        self.inner.flush()
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        self.inner.wait(interest, timeout_ns)
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        self.inner.stats()
    }

    fn tx_generator(&mut self) -> Option<&mut dyn TxGenerator> {
        // What a program in the kernel makes cannot be shown here.
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_is_the_originals() {
        let bytes: Vec<u8> = (0x3e..0x50).collect();
        assert_eq!(
            packet(1, 7, true, &bytes),
            "ring 1 cur     7 [buf      7 flags 0x0020 len    18]\n    \
             0: 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d >?@ABCDEFGHIJKLM\n   \
             16: 4e 4f                                           NO"
        );
        assert_eq!(packet(0, 0, false, &[0x1f, b' ']).lines().nth(1).map(|line| line.ends_with(". ")), Some(true));
    }
}
