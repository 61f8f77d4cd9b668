//! A stream at work: writes its next packet into a frame.
//!
//! ```text
//!  image    the packet with the values of the slow fields in it, and for each checksum the sum of all that does not vary
//!  packet = copy of the image, then: fast fields, signature, and each checksum folded from  sum + what was just written
//! ```
//! Fields that change with every packet go straight into the packet; fields that change when another one wraps go into the
//! image, once. Checksums are never computed over the packet: each varying word is added to the prepared sum (RFC 1071,
//! section 2: the order of the words does not matter).

use crate::field::{Advance, Field, FieldPlan, SUMS_MAX, SumTerm, store_array};
use crate::signature::{SIGNATURE_LEN, Signature};
use crate::size::{SizePicker, Sizes};

/// A stream, ready to be made from: what `StreamConfig::plan` computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPlan {
    /// Stream id of the signature; `None` = packets without one.
    pub signature: Option<u16>,
    /// One image for each frame length that occurs.
    pub images: Vec<ImagePlan>,
    /// In which order the lengths follow each other: indices into `images`.
    pub sizes: Sizes,
    /// The rules, in the order in which they carry.
    pub fields: Vec<FieldPlan>,
}

/// The packet of one length, with all varying bytes 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImagePlan {
    /// Its bytes, without FCS.
    pub bytes: Vec<u8>,
    /// Its checksum fields.
    pub sums: Vec<SumPlan>,
}

/// A checksum field of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumPlan {
    /// First byte of the 16-bit field.
    pub offset: usize,
    /// Sum of all words that it covers and that do not vary, pseudo-header included, the field itself as 0.
    pub base: u64,
    /// A result of 0 is sent as 0xffff (UDP, RFC 768).
    pub zero_as_ones: bool,
    /// How the signature enters it, if it does.
    pub signature: Option<SumTerm>,
}

/// Makes the packets of one stream.
pub struct Stream {
    signature: Option<u16>,
    sequence: u64,
    fast: Vec<Field>,
    slow: Vec<Field>,
    /// For each fast field, then each slow one: the slow field to step when it wraps.
    fast_carry: Vec<Option<usize>>,
    slow_carry: Vec<Option<usize>>,
    /// Rises whenever a slow field changes.
    epoch: u64,
    images: Vec<Image>,
    sizes: SizePicker,
}

struct Image {
    bytes: Vec<u8>,
    plan_sums: [u64; SUMS_MAX],
    sums: [u64; SUMS_MAX],
    fixes: Vec<SumPlan>,
    epoch: u64,
}

impl Stream {
    /// Starts a stream at its first packet.
    pub fn new(plan: &StreamPlan) -> Stream {
        let mut stream = Stream {
            signature: plan.signature,
            sequence: 0,
            fast: Vec::new(),
            slow: Vec::new(),
            fast_carry: Vec::new(),
            slow_carry: Vec::new(),
            epoch: 0,
            images: plan.images.iter().map(Image::new).collect(),
            sizes: SizePicker::new(&plan.sizes),
        };
        stream.place_fields(&plan.fields);
        for image in &mut stream.images {
            image.refresh(&stream.slow, 0);
        }
        stream
    }

    /// Sorts the fields into fast and slow ones and links each to the one that it carries into.
    fn place_fields(&mut self, plans: &[FieldPlan]) {
        for (position, plan) in plans.iter().enumerate() {
            let carries = plans.get(position + 1).is_some_and(|next| next.advance == Advance::WhenPreviousWraps);
            // The slow field of the next rule, if that rule waits for this one.
            let next_slow = self.slow.len();
            // The first rule has nothing before it that could wrap.
            if plan.advance == Advance::EachPacket || position == 0 {
                self.fast_carry.push(carries.then_some(next_slow));
                self.fast.push(Field::new(plan));
            } else {
                self.slow_carry.push(carries.then_some(next_slow + 1));
                self.slow.push(Field::new(plan));
            }
        }
    }

    /// Length of the next packet and the image that it is made from.
    #[inline]
    pub fn next_image(&mut self) -> (usize, usize) {
        let image = self.sizes.next();
        (image, self.images[image].bytes.len())
    }

    /// Length of the longest packet, in bytes without FCS.
    pub fn len_max(&self) -> usize {
        self.images.iter().map(|image| image.bytes.len()).max().unwrap_or(0)
    }

    /// True when all packets have one length.
    pub fn is_one_size(&self) -> bool {
        self.images.len() == 1
    }

    /// Number of the next packet.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Starts the numbers at `sequence`.
    pub fn set_sequence(&mut self, sequence: u64) {
        self.sequence = sequence;
    }

    /// Writes the next packet. `packet` has the image's length.
    #[inline]
    pub fn write(&mut self, image: usize, packet: &mut [u8], time_ns: u64) {
        let image = &mut self.images[image];
        if image.epoch != self.epoch {
            image.refresh(&self.slow, self.epoch);
        }
        copy_image(packet, &image.bytes);
        let mut sums = image.sums;
        for (position, field) in self.fast.iter_mut().enumerate() {
            field.apply(packet, &mut sums);
            if field.next()
                && let Some(slow) = self.fast_carry[position]
            {
                self.epoch += 1;
                carry(&mut self.slow, &self.slow_carry, slow);
            }
        }
        if let Some(stream) = self.signature {
            let words = Signature { stream, sequence: self.sequence, time_ns }.words();
            write_signature(packet, words);
            image.finish_signed(packet, sums, words);
        } else {
            image.finish(packet, sums);
        }
        self.sequence += 1;
    }
}

/// Steps slow field `at`, and those that it carries into.
#[cold]
fn carry(slow: &mut [Field], slow_carry: &[Option<usize>], mut at: usize) {
    while let Some(field) = slow.get_mut(at) {
        match (field.next(), slow_carry.get(at).copied().flatten()) {
            (true, Some(next)) => at = next,
            _ => break,
        }
    }
}

impl Image {
    fn new(plan: &ImagePlan) -> Image {
        let mut plan_sums = [0; SUMS_MAX];
        for (sum, place) in plan.sums.iter().zip(&mut plan_sums) {
            *place = sum.base;
        }
        Image { bytes: plan.bytes.clone(), plan_sums, sums: plan_sums, fixes: plan.sums.clone(), epoch: 0 }
    }

    /// Brings the slow fields up to date.
    #[cold]
    fn refresh(&mut self, slow: &[Field], epoch: u64) {
        self.sums = self.plan_sums;
        for field in slow {
            field.apply(&mut self.bytes, &mut self.sums);
        }
        self.epoch = epoch;
    }

    #[inline]
    fn finish(&self, packet: &mut [u8], sums: [u64; SUMS_MAX]) {
        for (fix, sum) in self.fixes.iter().zip(sums) {
            store_array(packet, fix.offset, fold(sum, fix.zero_as_ones).to_be_bytes());
        }
    }

    #[inline]
    fn finish_signed(&self, packet: &mut [u8], sums: [u64; SUMS_MAX], words: (u64, u64)) {
        for (fix, sum) in self.fixes.iter().zip(sums) {
            let sum = match fix.signature {
                None => sum,
                Some(term) => sum + term.of(words.0) + term.of(words.1),
            };
            store_array(packet, fix.offset, fold(sum, fix.zero_as_ones).to_be_bytes());
        }
    }
}

/// The checksum of a sum of words.
#[inline]
fn fold(sum: u64, zero_as_ones: bool) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let checksum = !(sum as u16);
    if zero_as_ones && checksum == 0 { 0xffff } else { checksum }
}

#[inline]
fn write_signature(packet: &mut [u8], words: (u64, u64)) {
    if let Some((_, tail)) = packet.split_last_chunk_mut::<SIGNATURE_LEN>() {
        tail[..8].copy_from_slice(&words.0.to_be_bytes());
        tail[8..].copy_from_slice(&words.1.to_be_bytes());
    }
}

/// Copies the image. Frames of 32 to 64 bytes, the hot case, take two copies of a constant 32 bytes that may overlap, which
/// compile to plain vector moves.
#[inline]
fn copy_image(packet: &mut [u8], image: &[u8]) {
    let len = image.len();
    if packet.len() == len && (32..=64).contains(&len) {
        packet[..32].copy_from_slice(&image[..32]);
        packet[len - 32..].copy_from_slice(&image[len - 32..]);
    } else {
        let len = len.min(packet.len());
        packet[..len].copy_from_slice(&image[..len]);
    }
}
