//! Errors that a switch sends (`OFPT_ERROR`, section 7.4.4).

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = ($kind:literal, $code:literal, $text:literal),)*) => {
        /// Type and code of an error message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
        #[allow(missing_docs, reason = "each is the specification's name")]
        pub enum ErrorKind {
            $(#[error($text)] $name,)*
        }

        impl ErrorKind {
            /// Type and code on the wire.
            pub fn numbers(self) -> (u16, u16) {
                match self { $(ErrorKind::$name => ($kind, $code),)* }
            }

            /// The error with these numbers.
            pub fn from_numbers(kind: u16, code: u16) -> Option<ErrorKind> {
                match (kind, code) { $(($kind, $code) => Some(ErrorKind::$name),)* _ => None }
            }
        }
    };
}

errors! {
    HelloFailedIncompatible = (0, 0, "hello failed: incompatible"),
    HelloFailedEperm = (0, 1, "hello failed: eperm"),
    BadRequestBadVersion = (1, 0, "bad request: bad version"),
    BadRequestBadType = (1, 1, "bad request: bad type"),
    BadRequestBadMultipart = (1, 2, "bad request: bad multipart"),
    BadRequestBadExperimenter = (1, 3, "bad request: bad experimenter"),
    BadRequestBadExpType = (1, 4, "bad request: bad exp type"),
    BadRequestEperm = (1, 5, "bad request: eperm"),
    BadRequestBadLen = (1, 6, "bad request: bad len"),
    BadRequestBufferEmpty = (1, 7, "bad request: buffer empty"),
    BadRequestBufferUnknown = (1, 8, "bad request: buffer unknown"),
    BadRequestBadTableId = (1, 9, "bad request: bad table id"),
    BadRequestIsSlave = (1, 10, "bad request: is slave"),
    BadRequestBadPort = (1, 11, "bad request: bad port"),
    BadRequestBadPacket = (1, 12, "bad request: bad packet"),
    BadRequestMultipartBufferOverflow = (1, 13, "bad request: multipart buffer overflow"),
    BadActionBadType = (2, 0, "bad action: bad type"),
    BadActionBadLen = (2, 1, "bad action: bad len"),
    BadActionBadExperimenter = (2, 2, "bad action: bad experimenter"),
    BadActionBadExpType = (2, 3, "bad action: bad exp type"),
    BadActionBadOutPort = (2, 4, "bad action: bad out port"),
    BadActionBadArgument = (2, 5, "bad action: bad argument"),
    BadActionEperm = (2, 6, "bad action: eperm"),
    BadActionTooMany = (2, 7, "bad action: too many"),
    BadActionBadQueue = (2, 8, "bad action: bad queue"),
    BadActionBadOutGroup = (2, 9, "bad action: bad out group"),
    BadActionMatchInconsistent = (2, 10, "bad action: match inconsistent"),
    BadActionUnsupportedOrder = (2, 11, "bad action: unsupported order"),
    BadActionBadTag = (2, 12, "bad action: bad tag"),
    BadActionBadSetType = (2, 13, "bad action: bad set type"),
    BadActionBadSetLen = (2, 14, "bad action: bad set len"),
    BadActionBadSetArgument = (2, 15, "bad action: bad set argument"),
    BadInstructionUnknownInst = (3, 0, "bad instruction: unknown inst"),
    BadInstructionUnsupInst = (3, 1, "bad instruction: unsup inst"),
    BadInstructionBadTableId = (3, 2, "bad instruction: bad table id"),
    BadInstructionUnsupMetadata = (3, 3, "bad instruction: unsup metadata"),
    BadInstructionUnsupMetadataMask = (3, 4, "bad instruction: unsup metadata mask"),
    BadInstructionBadExperimenter = (3, 5, "bad instruction: bad experimenter"),
    BadInstructionBadExpType = (3, 6, "bad instruction: bad exp type"),
    BadInstructionBadLen = (3, 7, "bad instruction: bad len"),
    BadInstructionEperm = (3, 8, "bad instruction: eperm"),
    BadInstructionDupInst = (3, 9, "bad instruction: dup inst"),
    BadMatchBadType = (4, 0, "bad match: bad type"),
    BadMatchBadLen = (4, 1, "bad match: bad len"),
    BadMatchBadTag = (4, 2, "bad match: bad tag"),
    BadMatchBadDlAddrMask = (4, 3, "bad match: bad dl addr mask"),
    BadMatchBadNwAddrMask = (4, 4, "bad match: bad nw addr mask"),
    BadMatchBadWildcards = (4, 5, "bad match: bad wildcards"),
    BadMatchBadField = (4, 6, "bad match: bad field"),
    BadMatchBadValue = (4, 7, "bad match: bad value"),
    BadMatchBadMask = (4, 8, "bad match: bad mask"),
    BadMatchBadPrereq = (4, 9, "bad match: bad prereq"),
    BadMatchDupField = (4, 10, "bad match: dup field"),
    BadMatchEperm = (4, 11, "bad match: eperm"),
    FlowModFailedUnknown = (5, 0, "flow-mod failed: unknown"),
    FlowModFailedTableFull = (5, 1, "flow-mod failed: table full"),
    FlowModFailedBadTableId = (5, 2, "flow-mod failed: bad table id"),
    FlowModFailedOverlap = (5, 3, "flow-mod failed: overlap"),
    FlowModFailedEperm = (5, 4, "flow-mod failed: eperm"),
    FlowModFailedBadTimeout = (5, 5, "flow-mod failed: bad timeout"),
    FlowModFailedBadCommand = (5, 6, "flow-mod failed: bad command"),
    FlowModFailedBadFlags = (5, 7, "flow-mod failed: bad flags"),
    GroupModFailedGroupExists = (6, 0, "group-mod failed: group exists"),
    GroupModFailedInvalidGroup = (6, 1, "group-mod failed: invalid group"),
    GroupModFailedWeightUnsupported = (6, 2, "group-mod failed: weight unsupported"),
    GroupModFailedOutOfGroups = (6, 3, "group-mod failed: out of groups"),
    GroupModFailedOutOfBuckets = (6, 4, "group-mod failed: out of buckets"),
    GroupModFailedChainingUnsupported = (6, 5, "group-mod failed: chaining unsupported"),
    GroupModFailedWatchUnsupported = (6, 6, "group-mod failed: watch unsupported"),
    GroupModFailedLoop = (6, 7, "group-mod failed: loop"),
    GroupModFailedUnknownGroup = (6, 8, "group-mod failed: unknown group"),
    GroupModFailedChainedGroup = (6, 9, "group-mod failed: chained group"),
    GroupModFailedBadType = (6, 10, "group-mod failed: bad type"),
    GroupModFailedBadCommand = (6, 11, "group-mod failed: bad command"),
    GroupModFailedBadBucket = (6, 12, "group-mod failed: bad bucket"),
    GroupModFailedBadWatch = (6, 13, "group-mod failed: bad watch"),
    GroupModFailedEperm = (6, 14, "group-mod failed: eperm"),
    PortModFailedBadPort = (7, 0, "port-mod failed: bad port"),
    PortModFailedBadHwAddr = (7, 1, "port-mod failed: bad hw addr"),
    PortModFailedBadConfig = (7, 2, "port-mod failed: bad config"),
    PortModFailedBadAdvertise = (7, 3, "port-mod failed: bad advertise"),
    PortModFailedEperm = (7, 4, "port-mod failed: eperm"),
    TableModFailedBadTable = (8, 0, "table-mod failed: bad table"),
    TableModFailedBadConfig = (8, 1, "table-mod failed: bad config"),
    TableModFailedEperm = (8, 2, "table-mod failed: eperm"),
    QueueOpFailedBadPort = (9, 0, "queue operation failed: bad port"),
    QueueOpFailedBadQueue = (9, 1, "queue operation failed: bad queue"),
    QueueOpFailedEperm = (9, 2, "queue operation failed: eperm"),
    SwitchConfigFailedBadFlags = (10, 0, "switch config failed: bad flags"),
    SwitchConfigFailedBadLen = (10, 1, "switch config failed: bad len"),
    SwitchConfigFailedEperm = (10, 2, "switch config failed: eperm"),
    RoleRequestFailedStale = (11, 0, "role request failed: stale"),
    RoleRequestFailedUnsup = (11, 1, "role request failed: unsup"),
    RoleRequestFailedBadRole = (11, 2, "role request failed: bad role"),
    MeterModFailedUnknown = (12, 0, "meter-mod failed: unknown"),
    MeterModFailedMeterExists = (12, 1, "meter-mod failed: meter exists"),
    MeterModFailedInvalidMeter = (12, 2, "meter-mod failed: invalid meter"),
    MeterModFailedUnknownMeter = (12, 3, "meter-mod failed: unknown meter"),
    MeterModFailedBadCommand = (12, 4, "meter-mod failed: bad command"),
    MeterModFailedBadFlags = (12, 5, "meter-mod failed: bad flags"),
    MeterModFailedBadRate = (12, 6, "meter-mod failed: bad rate"),
    MeterModFailedBadBurst = (12, 7, "meter-mod failed: bad burst"),
    MeterModFailedBadBand = (12, 8, "meter-mod failed: bad band"),
    MeterModFailedBadBandValue = (12, 9, "meter-mod failed: bad band value"),
    MeterModFailedOutOfMeters = (12, 10, "meter-mod failed: out of meters"),
    MeterModFailedOutOfBands = (12, 11, "meter-mod failed: out of bands"),
    TableFeaturesFailedBadTable = (13, 0, "table features failed: bad table"),
    TableFeaturesFailedBadMetadata = (13, 1, "table features failed: bad metadata"),
    TableFeaturesFailedBadType = (13, 2, "table features failed: bad type"),
    TableFeaturesFailedBadLen = (13, 3, "table features failed: bad len"),
    TableFeaturesFailedBadArgument = (13, 4, "table features failed: bad argument"),
    TableFeaturesFailedEperm = (13, 5, "table features failed: eperm"),
}

/// A refusal: what a switch answers instead of doing what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OfError(pub ErrorKind);

impl From<ErrorKind> for OfError {
    fn from(kind: ErrorKind) -> OfError {
        OfError(kind)
    }
}
