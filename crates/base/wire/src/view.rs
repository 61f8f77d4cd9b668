//! What the views of all headers share: the view of a buffer, and a place, a getter and a setter for each field.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use crate::{EtherType, MacAddress, Protocol};

/// A value that fills whole bytes of a header, in network byte order.
///
/// Both functions panic if `place` lies outside `bytes` or does not have the value's length.
pub trait FieldValue {
    /// Reads the value at `place`.
    fn read(bytes: &[u8], place: Range<usize>) -> Self;
    /// Writes the value to `place`.
    fn write(self, bytes: &mut [u8], place: Range<usize>);
}

/// [`FieldValue`] of a type, by the array of bytes that a value is made of and becomes.
macro_rules! field_value {
    ($($type:ty: $from_bytes:expr, $to_bytes:expr;)*) => {$(
        impl crate::view::FieldValue for $type {
            #[inline]
            fn read(bytes: &[u8], place: std::ops::Range<usize>) -> Self {
                $from_bytes(crate::bytes::array(bytes, place))
            }

            #[inline]
            fn write(self, bytes: &mut [u8], place: std::ops::Range<usize>) {
                bytes[place].copy_from_slice(&$to_bytes(self));
            }
        }
    )*};
}

field_value! {
    u8: u8::from_be_bytes, u8::to_be_bytes;
    u16: u16::from_be_bytes, u16::to_be_bytes;
    u32: u32::from_be_bytes, u32::to_be_bytes;
    MacAddress: MacAddress, |mac: MacAddress| mac.0;
    Ipv4Addr: <Ipv4Addr as From<[u8; 4]>>::from, |ip: Ipv4Addr| ip.octets();
    Ipv6Addr: <Ipv6Addr as From<[u8; 16]>>::from, |ip: Ipv6Addr| ip.octets();
    EtherType: |bytes| EtherType(u16::from_be_bytes(bytes)), |kind: EtherType| kind.0.to_be_bytes();
    Protocol: |[number]: [u8; 1]| Protocol(number), |protocol: Protocol| [protocol.0];
}

/// Defines `field`, the places of a header's fields; `Packet`, a view of a buffer that begins with the header; and `Header::parse`. A line
/// is a field: its documentation, the name of its place, the bytes, and for one that fills whole bytes the type, the getter and the setter.
/// `[V6]` stands for a parameter `const V6: bool` of `Packet` and `Header`.
macro_rules! view {
    (
        $(#[$about:meta])*
        Packet $([$v6:ident])? {
            $($(#[$doc:meta])* $place:ident = $bytes:expr $(=> $type:ty, $get:ident, $set:ident)?;)*
        }
    ) => {
        /// Where the fields lie in the header.
        pub mod field {
            use std::ops::Range;
            $($(#[$doc])* pub const $place: Range<usize> = $bytes;)*
        }

        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        pub struct Packet<T $(, const $v6: bool)?> {
            buffer: T,
        }

        impl<T: AsRef<[u8]> $(, const $v6: bool)?> Packet<T $(, $v6)?> {
            /// A view without checks: accessors panic if the buffer is shorter than [`HEADER_LEN`].
            #[inline]
            pub const fn new_unchecked(buffer: T) -> Self {
                Packet { buffer }
            }

            $(crate::view::getter! { [$(#[$doc])*] $place $($type, $get)? })*
        }

        impl<T: AsRef<[u8]> + AsMut<[u8]> $(, const $v6: bool)?> Packet<T $(, $v6)?> {
            $(crate::view::setter! { $place $($type, $get, $set)? })*
        }

        impl $(<const $v6: bool>)? Header $(<$v6>)? {
            /// Reads the header at the start of `bytes`; a checksum is not verified.
            ///
            /// # Errors
            /// As [`Packet::new_checked`].
            pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
                Packet::<_ $(, $v6)?>::new_checked(bytes).map(|packet| packet.header())
            }
        }
    };
}

/// The getter of a field that has one.
macro_rules! getter {
    ([$($doc:tt)*] $place:ident) => {};
    ([$($doc:tt)*] $place:ident $type:ty, $get:ident) => {
        $($doc)*
        #[inline]
        pub fn $get(&self) -> $type {
            crate::view::FieldValue::read(self.buffer.as_ref(), field::$place)
        }
    };
}

/// The setter of a field that has one.
macro_rules! setter {
    ($place:ident) => {};
    ($place:ident $type:ty, $get:ident, $set:ident) => {
        #[doc = concat!("Sets the field that [`", stringify!($get), "`](Packet::", stringify!($get), ") reads.")]
        #[inline]
        pub fn $set(&mut self, value: $type) {
            crate::view::FieldValue::write(value, self.buffer.as_mut(), field::$place);
        }
    };
}

pub(crate) use {field_value, getter, setter, view};
