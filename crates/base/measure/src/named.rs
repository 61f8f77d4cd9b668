//! Enumerations whose values have names, as the reasons for which packets are lost.

/// Defines an enumeration whose values have names for users: `ALL` and `COUNT` of its values, `name`, and `Display` by that name.
///
/// ```
/// linerate_measure::named! {
///     /// Why a packet was dropped.
///     #[derive(Clone, Copy, Debug, PartialEq)]
///     pub enum DropReason {
///         /// It is shorter than an Ethernet header.
///         Runt = "runt",
///         /// The egress queue is full.
///         EgressFull = "egress-full",
///     }
/// }
/// assert_eq!(DropReason::ALL, [DropReason::Runt, DropReason::EgressFull]);
/// assert_eq!(DropReason::EgressFull.to_string(), "egress-full");
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$about:meta])*
        pub enum $type:ident {
            $($(#[$doc:meta])* $value:ident = $name:literal,)*
        }
    ) => {
        $(#[$about])*
        pub enum $type {
            $($(#[$doc])* $value,)*
        }

        impl $type {
            /// How many values there are.
            pub const COUNT: usize = [$($name),*].len();

            /// All values, in their order.
            pub const ALL: [$type; Self::COUNT] = [$($type::$value),*];

            /// The name that users see.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$value => $name,)*
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.pad(self.name())
            }
        }
    };
}
