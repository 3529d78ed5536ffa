//! The three ends of a partition that a reader can be bounded by.
//!
//! Source: KIP-98 (isolation levels), KIP-101 (replica fetches).

/// Up to which end a read goes; each end is exclusive and `LastStable <= HighWatermark <= LogEnd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReadLevel {
    /// The last stable offset: a consumer with `read_committed`.
    LastStable,
    /// The high watermark: a consumer with `read_uncommitted`.
    HighWatermark,
    /// The log end: a follower.
    LogEnd,
}

impl ReadLevel {
    /// Every level, lowest first.
    pub const ALL: [Self; 3] = [Self::LastStable, Self::HighWatermark, Self::LogEnd];
}
