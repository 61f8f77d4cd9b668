//! Writes type information (Linux `Documentation/bpf/btf.rst`), for the tests of its reader.

/// Types in the order of their numbers, from 1.
#[derive(Default)]
pub struct Types {
    types: Vec<u8>,
    strings: Vec<u8>,
}

/// A member: its name, type number and offset in bits.
pub type Member<'a> = (&'a str, u32, u32);

impl Types {
    pub fn structure(&mut self, name: &str, bytes: u32, members: &[Member<'_>]) {
        self.head(name, 4, members.len() as u32, bytes);
        self.members(members);
    }

    pub fn union(&mut self, name: &str, bytes: u32, members: &[Member<'_>]) {
        self.head(name, 5, members.len() as u32, bytes);
        self.members(members);
    }

    /// A structure whose members carry the size of a bit field in the upper byte of their offset.
    pub fn structure_with_bit_fields(&mut self, name: &str, bytes: u32, members: &[Member<'_>]) {
        self.head(name, 1 << 7 | 4, members.len() as u32, bytes);
        self.members(members);
    }

    pub fn integer(&mut self, name: &str) {
        self.head(name, 1, 0, 4);
        self.word(32);
    }

    pub fn pointer(&mut self, to: u32) {
        self.head("", 2, 0, to);
    }

    pub fn typedef(&mut self, name: &str, of: u32) {
        self.head(name, 8, 0, of);
    }

    pub fn enumeration(&mut self, name: &str, values: &[(&str, i32)]) {
        self.head(name, 6, values.len() as u32, 4);
        for (name, value) in values {
            let name = self.string(name);
            self.word(name);
            self.word(*value as u32);
        }
    }

    pub fn wide_enumeration(&mut self, name: &str, values: &[(&str, u64)]) {
        self.head(name, 19, values.len() as u32, 8);
        for (name, value) in values {
            let name = self.string(name);
            self.word(name);
            self.word(*value as u32);
            self.word((value >> 32) as u32);
        }
    }

    pub fn function(&mut self, parameters: &[u32]) {
        self.head("", 13, parameters.len() as u32, 0);
        for parameter in parameters {
            self.word(0);
            self.word(*parameter);
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut strings = vec![0];
        strings.extend(&self.strings);
        let mut bytes = Vec::new();
        bytes.extend(0xeb9f_u16.to_ne_bytes());
        bytes.extend([1, 0]);
        let lengths = [24, 0, self.types.len() as u32, self.types.len() as u32, strings.len() as u32];
        lengths.iter().for_each(|length| bytes.extend(length.to_ne_bytes()));
        bytes.extend(&self.types);
        bytes.extend(strings);
        bytes
    }

    fn head(&mut self, name: &str, kind: u32, entries: u32, referred: u32) {
        let name = self.string(name);
        self.word(name);
        self.word(kind << 24 | entries);
        self.word(referred);
    }

    fn members(&mut self, members: &[Member<'_>]) {
        for (name, number, offset_bits) in members {
            let name = self.string(name);
            self.word(name);
            self.word(*number);
            self.word(*offset_bits);
        }
    }

    fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32 + 1;
        self.strings.extend(text.as_bytes());
        self.strings.push(0);
        at
    }

    fn word(&mut self, value: u32) {
        self.types.extend(value.to_ne_bytes());
    }
}

/// A kernel in miniature: what the drop program asks for.
pub fn kernel() -> Vec<u8> {
    let mut types = Types::default();
    types.integer("unsigned int"); // 1
    types.structure("ns_common", 24, &[("stashed", 3, 0), ("inum", 1, 96)]); // 2
    types.pointer(0); // 3
    types.structure_with_bit_fields("net", 160, &[("flag", 1, 1 << 24), ("ns", 2, 1024)]); // 4
    types.pointer(4); // 5
    types.structure("", 8, &[("net", 5, 0)]); // 6
    types.typedef("possible_net_t", 6); // 7
    types.structure("net_device", 24, &[("ifindex", 1, 0), ("nd_net", 7, 64)]); // 8
    types.pointer(8); // 9
    types.union("", 8, &[("dev", 9, 0), ("dev_scratch", 3, 0)]); // 10
    types.structure("", 24, &[("next", 3, 0), ("prev", 3, 64), ("", 10, 128)]); // 11
    types.structure("sk_buff", 24, &[("", 11, 0)]); // 12
    types.pointer(12); // 13
    types.enumeration("skb_drop_reason", &[("SKB_CONSUMED", 1), ("SKB_DROP_REASON_NO_SOCKET", -3)]); // 14
    types.wide_enumeration("wide", &[("HUGE", 1 << 40)]); // 15
    types.function(&[3, 13, 14]); // 16
    types.pointer(16); // 17
    types.typedef("btf_trace_kfree_skb", 17); // 18
    types.bytes()
}
