//! When a segment has been written to for long enough (`segment.ms`).
//!
//! Invariants:
//! 1. Age is record time: the largest timestamp of the batch to come less that of the first batch, whatever the clock says.
//! 2. The jitter of a segment is drawn from its name: the same at each start, different from segment to segment.
//!
//! Where the first batch has no timestamp, Kafka goes by the clock and the time when the segment object was made; here the
//! owner's retention task does ([`Segment::age_by_clock`]).
//!
//! Source: Kafka's `LogSegment.shouldRoll`.

use pelton_model::Timestamp;

use super::Segment;
use crate::config::LogConfig;
use crate::disk::Disk;

impl<D: Disk> Segment<D> {
    /// The largest timestamp of the first batch, if it is known: −1 when that batch has none.
    pub(crate) fn begun_at(&self) -> Option<Timestamp> {
        self.first_timestamp.get()
    }

    /// Reads the first batch's timestamp when it is not known. What cannot be read counts as a batch without one.
    pub(crate) async fn load_first_timestamp(&self) {
        if self.first_timestamp.get().is_some() || self.size_bytes() == 0 {
            return;
        }
        if let Ok(None) | Err(_) = self.first_timestamp().await {
            self.first_timestamp.set(Some(Timestamp::NONE));
        }
    }

    /// Whether a batch with `timestamp` belongs into another segment than a first batch of `first` began.
    pub(crate) fn is_aged(
        &self,
        first: Timestamp,
        timestamp: Timestamp,
        config: &LogConfig,
    ) -> bool {
        if first.0 < 0 {
            return false;
        }
        let waited = timestamp.0.saturating_sub(first.0);
        waited > config.segment_ms || waited > self.roll_after_ms(config)
    }

    /// As [`Segment::is_aged`] for a segment whose first batch has no timestamp; the first call starts the clock.
    pub(crate) fn age_by_clock(&self, now: Timestamp, config: &LogConfig) -> bool {
        if self.first_timestamp.get().is_none_or(|first| first.0 >= 0) {
            return false;
        }
        if self.seen_at.get().0 < 0 {
            self.seen_at.set(now);
        }
        now.0.saturating_sub(self.seen_at.get().0) > self.roll_after_ms(config)
    }

    fn roll_after_ms(&self, config: &LogConfig) -> i64 {
        let most = config.segment_jitter_ms.min(config.segment_ms);
        if most <= 0 {
            return config.segment_ms;
        }
        let jitter = i64::try_from(self.name_hash() >> 1).expect("63 bits") % most;
        config.segment_ms - jitter
    }

    /// FNV-1a over the directory and the base offset.
    fn name_hash(&self) -> u64 {
        let directory = self.home.directory.as_os_str().as_encoded_bytes();
        let base = self.base.0.to_be_bytes();
        let bytes = directory.iter().chain(&base);
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}
