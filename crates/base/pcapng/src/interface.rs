//! What a capture file says of its interfaces.

use crate::byte_order::ByteOrder;
use crate::options::{COMMENT, Options};

/// Most bytes of texts that are kept of one section, so that memory does not grow with what a file holds. What comes after is
/// left out.
const TEXTS_LEN_MAX: usize = 1 << 20;
/// Most bytes kept of one text.
const TEXT_LEN_MAX: usize = 1024;

/// One interface of a file. A pcap file has one, without a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Link type of its packets (`LINKTYPE_...`); 1 is Ethernet.
    pub link_type: u16,
    /// Most bytes kept of a packet; 0 = all.
    pub snaplen: u32,
    /// `if_name`, or empty.
    pub name: String,
    /// `if_description`, or empty.
    pub description: String,
    /// `opt_comment`, or empty.
    pub comment: String,
    /// `if_filter` in libpcap's language, or empty.
    pub filter: String,
    /// The counts that the file gave last.
    pub statistics: Option<InterfaceStatistics>,
}

/// Counts of an interface as a file gives them; see [`crate::Statistics`] for what each is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceStatistics {
    /// `isb_ifrecv`.
    pub received: Option<u64>,
    /// `isb_ifdrop`.
    pub dropped_by_interface: Option<u64>,
    /// `isb_filteraccept`.
    pub accepted: Option<u64>,
    /// `isb_osdrop`.
    pub dropped_by_system: Option<u64>,
    /// `isb_usrdeliv`.
    pub delivered: Option<u64>,
    /// `opt_comment`, or empty.
    pub comment: String,
}

/// How many bytes of texts a section may still have.
pub(crate) struct TextBudget(usize);

impl Default for TextBudget {
    fn default() -> TextBudget {
        TextBudget(TEXTS_LEN_MAX)
    }
}

impl TextBudget {
    /// The text, cut, in place of `old`.
    pub fn put(&mut self, old: &mut String, value: &[u8]) {
        self.0 = (self.0 + old.len()).min(TEXTS_LEN_MAX);
        let text = String::from_utf8_lossy(&value[..value.len().min(TEXT_LEN_MAX)]);
        *old = if text.len() <= self.0 { text.into_owned() } else { String::new() };
        self.0 -= old.len();
    }
}

impl InterfaceStatistics {
    /// Reads the options of a statistics block; what is malformed is left out, as it changes no packet.
    pub(crate) fn read(&mut self, mut options: Options<'_>, order: ByteOrder, budget: &mut TextBudget) {
        while let Ok(Some((code, value))) = options.next() {
            let number = (value.len() == 8).then(|| order.u64(value, 0));
            match code {
                COMMENT => budget.put(&mut self.comment, value),
                4 => self.received = number,
                5 => self.dropped_by_interface = number,
                6 => self.accepted = number,
                7 => self.dropped_by_system = number,
                8 => self.delivered = number,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay_within_their_budget() {
        let mut budget = TextBudget::default();
        let mut texts = vec![String::new(); 4000];
        texts.iter_mut().for_each(|text| budget.put(text, &[b'a'; 5000]));
        assert_eq!(texts.iter().map(String::len).sum::<usize>(), TEXTS_LEN_MAX);
        // A text in place of another one costs nothing more.
        budget.put(&mut texts[0], b"eth0");
        assert_eq!(texts[0], "eth0");
        // Bytes that are no text become longer ones.
        let mut text = String::new();
        TextBudget::default().put(&mut text, &[0xff; 5000]);
        assert_eq!(text.len(), 3 * TEXT_LEN_MAX);
    }
}
