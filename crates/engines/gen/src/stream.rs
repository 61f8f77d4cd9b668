//! A stream at work: writes its next packet into a frame.
//!
//! ```text
//!  image    the packet with the values of the slow fields in it, and for each checksum the sum of all that does not vary
//!  packet = copy of the image, then: fast fields, signature, and each checksum folded from  sum + what was just written
//! ```
//! Fields that change with every packet go straight into the packet; fields that change when another one wraps go into the
//! image, once. Checksums are never computed over the packet: each varying word is added to the prepared sum (RFC 1071,
//! section 2: the order of the words does not matter). Where nothing varies, the image is the packet.

use crate::field::{Advance, Field, FieldPlan, SUMS_MAX, SumTerm, Weight, halves, parity_shift, store_array};
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
    /// From one packet's number to the next one's.
    stride: u64,
    fast: Vec<Field>,
    slow: Vec<Field>,
    /// Rises whenever a slow field changes.
    epoch: u64,
    images: Vec<Image>,
    sizes: SizePicker,
}

impl Stream {
    /// Starts a stream at its first packet.
    pub fn new(plan: &StreamPlan) -> Stream {
        let mut stream = Stream {
            signature: plan.signature,
            sequence: 0,
            stride: 1,
            fast: Vec::new(),
            slow: Vec::new(),
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
                self.fast.push(Field::new(plan, carries.then_some(next_slow)));
            } else {
                self.slow.push(Field::new(plan, carries.then_some(next_slow + 1)));
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

    /// Numbers every `stride`-th packet of a run whose others are of other streams.
    pub(crate) fn set_stride(&mut self, stride: u64) {
        self.stride = stride;
    }

    /// Writes the next packet. `packet` has the image's length.
    #[inline]
    pub fn write(&mut self, image: usize, packet: &mut [u8], time_ns: u64) {
        self.write_all(image, std::iter::once((packet, time_ns)));
    }

    /// Writes the next packets, all from one image, each with its scheduled time.
    #[inline]
    pub fn write_all<'a>(&mut self, number: usize, packets: impl Iterator<Item = (&'a mut [u8], u64)>) {
        let image = &mut self.images[number];
        if image.epoch != self.epoch {
            image.refresh(&self.slow, self.epoch);
        }
        if self.fast.is_empty() && self.signature.is_none() {
            for (packet, _) in packets {
                copy_image(packet, &image.bytes);
                self.sequence += self.stride;
            }
            return;
        }
        match image.count {
            0 => self.write_varying::<0>(number, packets),
            1 => self.write_varying::<1>(number, packets),
            2 => self.write_varying::<2>(number, packets),
            3 => self.write_varying::<3>(number, packets),
            _ => self.write_varying::<SUMS_MAX>(number, packets),
        }
    }

    /// The hot loop, for images with `SUMS` checksums.
    #[inline(never)]
    fn write_varying<'a, const SUMS: usize>(
        &mut self,
        number: usize,
        packets: impl Iterator<Item = (&'a mut [u8], u64)>,
    ) {
        let image = &mut self.images[number];
        let mut sequence = self.sequence;
        for (packet, time_ns) in packets {
            copy_image(packet, &image.bytes);
            let mut sums: [u64; SUMS] = std::array::from_fn(|at| image.sums[at].sum);
            let mut wrapped = false;
            for field in &mut self.fast {
                field.apply(packet, &mut sums);
                if field.next()
                    && let Some(slow) = field.carries_into
                {
                    carry(&mut self.slow, slow);
                    wrapped = true;
                }
            }
            let mut signed = 0;
            if let Some(stream) = self.signature {
                let words = Signature { stream, sequence, time_ns }.words();
                write_signature(packet, words);
                signed = (halves(words.0) + halves(words.1)) << image.signature_shift;
            }
            for (sum, total) in image.sums.iter().zip(sums) {
                sum.write(packet, total + sum.signature.of(signed));
            }
            sequence += self.stride;
            if wrapped {
                self.epoch += 1;
                image.refresh(&self.slow, self.epoch);
            }
        }
        self.sequence = sequence;
    }
}

/// Steps slow field `at`, and those that it carries into.
#[cold]
fn carry(slow: &mut [Field], mut at: usize) {
    while let Some(field) = slow.get_mut(at) {
        match (field.next(), field.carries_into) {
            (true, Some(next)) => at = next,
            _ => break,
        }
    }
}

struct Image {
    /// The packet; its checksums are right for what it holds.
    bytes: Vec<u8>,
    /// Its checksums, of which the first `count` are there.
    sums: [Sum; SUMS_MAX],
    count: usize,
    signature_shift: u32,
    epoch: u64,
}

/// A checksum of an image.
#[derive(Clone, Copy, Default)]
struct Sum {
    /// Sum of what never varies.
    base: u64,
    /// Sum of what does not vary at present.
    sum: u64,
    /// How the signature enters it.
    signature: Weight,
    offset: u16,
    /// Folded sums from here on are taken for 0: 0xffff where the checksum 0 is sent as 0xffff, else none.
    zero_at: u32,
}

impl Image {
    fn new(plan: &ImagePlan) -> Image {
        let signature = Weight::of_all(plan.sums.iter().filter_map(|sum| sum.signature.as_ref()));
        let mut sums = [Sum::default(); SUMS_MAX];
        for ((sum, plan), signature) in sums.iter_mut().zip(&plan.sums).zip(signature) {
            let zero_at = if plan.zero_as_ones { 0xffff } else { 0x1_0000 };
            *sum = Sum { base: plan.base, sum: plan.base, signature, offset: plan.offset as u16, zero_at };
        }
        Image {
            bytes: plan.bytes.clone(),
            sums,
            count: plan.sums.len().min(SUMS_MAX),
            signature_shift: parity_shift(plan.bytes.len()),
            epoch: 0,
        }
    }

    /// Brings the slow fields up to date.
    #[cold]
    fn refresh(&mut self, slow: &[Field], epoch: u64) {
        let mut totals = self.sums.map(|sum| sum.base);
        for field in slow {
            field.apply(&mut self.bytes, &mut totals);
        }
        for (sum, total) in self.sums[..self.count].iter_mut().zip(totals) {
            sum.sum = total;
            sum.write(&mut self.bytes, total);
        }
        self.epoch = epoch;
    }
}

impl Sum {
    /// Writes the checksum of a sum of words. Each step of the folding adds the two halves of the sum, with the carry that
    /// comes out of the top.
    #[inline]
    fn write(&self, packet: &mut [u8], sum: u64) {
        let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
        let sum = sum.wrapping_add(sum.rotate_left(16)) >> 16;
        let checksum = !(sum + u32::from(sum >= self.zero_at)) as u16;
        store_array(packet, self.offset, checksum.to_be_bytes());
    }
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
