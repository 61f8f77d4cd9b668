//! What a script says: scenarios, their steps, segments with what is known of each field.

use core::net::IpAddr;

/// A file of scenarios.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// In the order of the text; names differ.
    pub scenarios: Vec<Scenario>,
}

/// One course of events, from a stack that was just made to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Its name, unique in the file.
    pub name: String,
    /// Line of the name, from 1.
    pub line: usize,
    /// Settings of the stack, by name: `set mtu 1500`.
    pub settings: Vec<(String, String)>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One line of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The line, from 1.
    pub line: usize,
    /// When it happens.
    pub when: When,
    /// Name of the flow that it is about; empty for the one that every scenario has.
    pub flow: String,
    /// What happens.
    pub action: Action,
}

/// When a step happens, in nanoseconds after the step before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    /// Not earlier.
    pub from_ns: u64,
    /// Not later; equal to `from_ns` where the line names one moment, and then a tolerance applies to what is expected.
    pub to_ns: u64,
}

/// What happens in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Messages arrive, all in one batch. Each names its flow.
    Deliver(Vec<(String, Message)>),
    /// A message must leave next.
    Expect(Message),
    /// Anything may have left by now.
    Rest,
    /// Nothing may leave for so long, in nanoseconds.
    Quiet(u64),
    /// The program calls.
    Call(Call),
    /// The program must have been told.
    App(AppExpectation),
    /// Values of the connection or of the stack must hold: name, relation, value.
    Check(Vec<(String, Relation, String)>),
    /// A connection is opened.
    Open(Open),
    /// A flow is described: its ports, addresses and first sequence number.
    Peer(Vec<(String, String)>),
}

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `=`
    Equal,
    /// `!=`
    Unequal,
    /// `>=`
    AtLeast,
    /// `<=`
    AtMost,
}

/// A call of the program, with its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Listens on the local port; options by name.
    Listen(Vec<(String, String)>),
    /// Begins to connect; options by name.
    Connect(Vec<(String, String)>),
    /// Sends so many bytes of the stream.
    Send(usize),
    /// Sends these bytes.
    SendBytes(Vec<u8>),
    /// Sends so many bytes of the stream as urgent ones.
    SendUrgent(usize),
    /// Sends no more, and the other side may go on.
    Close,
    /// Ends the connection with a reset.
    Abort,
    /// Takes so many more bytes of what arrives, then none; `None`: all from now on.
    Take(Option<usize>),
    /// Changes an option of the connection: name and value.
    Set(String, String),
    /// A call that must fail, with a part of what the error says.
    Refused(Box<Call>, String),
}

/// What the program must have been told by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppExpectation {
    /// The connection stands.
    Connected,
    /// So many bytes since the last time that the script asked.
    Got(usize),
    /// The next so many bytes are urgent.
    Urgent(u32),
    /// The other side sends no more.
    PeerClosed,
    /// There is room again after a send that was cut short.
    Sendable,
    /// Something is wrong that does not end the connection.
    SoftError(SoftError),
    /// The connection is over, because of this.
    Closed(EndReason),
    /// Nothing else.
    Nothing,
}

/// What is wrong without ending the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoftError {
    /// The peer does not answer.
    NoAnswer,
    /// The peer cannot be reached.
    Unreachable,
    /// A packet lived too long.
    TimeExceeded,
    /// A header field is wrong.
    ParameterProblem,
}

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// Both sides closed.
    Normal,
    /// The peer reset it.
    Reset,
    /// The peer refused it.
    Refused,
    /// The peer did not answer.
    TimedOut,
    /// The network said so.
    Unreachable,
    /// The program ended it.
    Aborted,
}

/// An opening handshake in one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The stack connects, instead of the peer.
    pub active: bool,
    /// The peer's maximum segment size option; 0: none.
    pub mss: u16,
    /// The peer permits SACK.
    pub sack: bool,
    /// The peer has timestamps.
    pub timestamps: bool,
    /// The peer's window scale.
    pub window_scale: Option<u8>,
    /// The peer's window, in bytes.
    pub window: u32,
    /// Round-trip time of the handshake, in nanoseconds.
    pub rtt_ns: u64,
    /// The peer agrees to ECN.
    pub ecn: bool,
}

/// What arrives or leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A segment.
    Segment(Box<Segment>),
    /// An ICMP error about the flow.
    Icmp(IcmpError),
}

/// An ICMP error (of ICMPv6 where the flow is of IPv6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// Type.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// Maximum transmission unit of a next hop; 0 without.
    pub mtu: u32,
    /// Relative sequence number of the segment that it quotes.
    pub seq: i64,
}

/// A number that is given, bounded, or open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bound {
    /// Not said: for what arrives the usual value, for what leaves any.
    #[default]
    Unsaid,
    /// `*`
    Any,
    /// The value.
    Is(i64),
    /// `>=`
    AtLeast(i64),
    /// `<=`
    AtMost(i64),
}

impl Bound {
    /// True if `value` keeps the bound.
    pub fn holds(self, value: i64) -> bool {
        match self {
            Bound::Unsaid | Bound::Any => true,
            Bound::Is(wanted) => value == wanted,
            Bound::AtLeast(least) => value >= least,
            Bound::AtMost(most) => value <= most,
        }
    }
}

/// An option of a segment, with or without a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Numbers<T> {
    /// Not said.
    #[default]
    Unsaid,
    /// The option must not be there, or is left out.
    Absent,
    /// It is there, with any value.
    Any,
    /// It is there, with this value.
    Is(T),
}

/// Values of a timestamp option: those in the segment, `Any` for the usual ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Value.
    pub value: Bound,
    /// Echo reply.
    pub echo: Bound,
}

/// Congestion bits of the IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// 00
    NotEct = 0,
    /// 01
    Ect1 = 1,
    /// 10
    Ect0 = 2,
    /// 11
    Ce = 3,
}

/// A segment as far as the script says. Sequence numbers count from the initial one of their side, which is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Flags as in the header; `None` for any (`*`). PSH is compared by `push` alone.
    pub flags: Option<u8>,
    /// Relative sequence number; `None` for any.
    pub seq: Option<i64>,
    /// Bytes of data; `None` for any.
    pub len: Option<usize>,
    /// Relative acknowledgment number.
    pub ack: Bound,
    /// Window in bytes; of a SYN as it is.
    pub window: Bound,
    /// PSH must be set, or must not.
    pub push: Option<bool>,
    /// Urgent pointer.
    pub urgent: Option<u16>,
    /// Maximum segment size.
    pub mss: Numbers<u16>,
    /// Window scale.
    pub window_scale: Numbers<u8>,
    /// SACK permitted.
    pub sack_permitted: Numbers<()>,
    /// Timestamps.
    pub timestamps: Numbers<Stamp>,
    /// Blocks of received data, relative.
    pub sack: Numbers<Vec<(i64, i64)>>,
    /// Congestion bits.
    pub ecn: Option<Ecn>,
    /// Time to live, hop limit.
    pub ttl: Bound,
    /// Don't fragment.
    pub dont_fragment: Option<bool>,
    /// DSCP and congestion bits together.
    pub tos: Option<u8>,
    /// Bytes of data instead of the stream's.
    pub data: Option<Vec<u8>>,
    /// Option bytes instead of all options.
    pub raw_options: Option<Vec<u8>>,
    /// Header length in words instead of the right one.
    pub data_offset: Option<u8>,
    /// The checksum is wrong.
    pub bad_checksum: bool,
    /// IPv4 options.
    pub ip_options: Option<Vec<u8>>,
    /// Addresses instead of the flow's.
    pub src: Option<IpAddr>,
    /// As `src`.
    pub dst: Option<IpAddr>,
}
