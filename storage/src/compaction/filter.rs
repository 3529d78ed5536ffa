//! What stays of a batch: newest value per key, tombstones for a while, what producers and readers need of the rest.
//!
//! Invariants:
//! 1. Records keep their offsets; of two records with the same key below the map's end only the later stays.
//! 2. A tombstone stays until the delete horizon of its batch, which is set when the batch is first cleaned; a batch that
//!    reaches beyond the map gets none, since older values of its keys may still be there.
//! 3. A batch stays, without records if need be, when it is the last of an active producer: its sequence is read from it.
//!    (So does the last of a new segment, which is for the pass to see to.)
//! 4. Records without a key go, as in Kafka; producing refuses them.
//! 5. A batch whose checksum is wrong is an error: rewriting it would hide the damage.
//!
//! Source: Kafka's `Cleaner`; KIP-534.

use bytes::Bytes;
use pelton_model::batch::retain::{
    self, Horizon, Outcome, RecordKey, RetainScratch, delete_horizon,
};
use pelton_model::batch::{BatchError, BatchHeader, verify_crc};
use pelton_model::limits::DECOMPRESSED_BYTES_MAX;
use pelton_model::map::Map;
use pelton_model::{Offset, ProducerEpoch, ProducerId, Timestamp};

use super::key_map::KeyMap;
use super::transactions::Transactions;
use crate::txn_index::AbortedTxn;

/// The last thing that an active producer wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRecord {
    /// The offset of its last data record; `None` when only markers are known.
    pub last_data_offset: Option<Offset>,
    /// Its epoch.
    pub epoch: ProducerEpoch,
}

/// The active producers of a log.
pub type LastRecords = Map<ProducerId, LastRecord>;

/// Why a batch cannot be cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unclean {
    /// Its checksum does not match.
    Checksum,
    /// It cannot be decoded.
    Batch(BatchError),
    /// A record's offset lies outside it.
    Offsets,
}

impl From<BatchError> for Unclean {
    fn from(error: BatchError) -> Self {
        Self::Batch(error)
    }
}

/// What a pass over a log is told.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `delete.retention.ms`.
    pub delete_retention_ms: i64,
    /// The active producers when the pass began.
    pub last_records: LastRecords,
}

/// What a pass over a log has in its hands. Moves between the shard and its helper.
#[derive(Debug)]
pub struct Work {
    settings: Settings,
    now: Timestamp,
    map: KeyMap,
    /// The last offset whose records the map knows; before the first dirty one at the start.
    map_end: Offset,
    transactions: Transactions,
    scratch: RetainScratch,
    counts: Counts,
}

/// What a pass has seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records read while cleaning.
    pub records_read: u64,
    /// Of them, those that stay.
    pub records_kept: u64,
    /// Records without a key.
    pub records_without_key: u64,
    /// Bytes read while the map was built.
    pub mapped_bytes: u64,
    /// Bytes read while cleaning.
    pub read_bytes: u64,
    /// Bytes that stay.
    pub written_bytes: u64,
}

/// Whether the map takes more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapped {
    /// The whole batch was noted.
    Whole,
    /// The map is full: the pass ends at [`Work::map_end`].
    Full,
}

impl Work {
    /// Before anything was read. `map_from` is the first dirty offset.
    #[must_use]
    pub fn new(
        settings: Settings,
        now: Timestamp,
        map: KeyMap,
        map_from: Offset,
        transactions: Transactions,
    ) -> Self {
        Self {
            settings,
            now,
            map,
            map_end: Offset(map_from.0 - 1),
            transactions,
            scratch: RetainScratch::default(),
            counts: Counts::default(),
        }
    }

    /// The last offset that the map covers.
    #[must_use]
    pub fn map_end(&self) -> Offset {
        self.map_end
    }

    /// What was seen so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Declares that the map covers everything below `end`: there is nothing more before it.
    pub fn finish_map(&mut self, end: Offset) {
        self.map_end = self.map_end.max(Offset(end.0 - 1));
    }

    /// Starts again at the first segment, to clean.
    pub fn rewind(&mut self, transactions: Transactions) {
        self.transactions = transactions;
    }

    /// The aborted transactions that stay, since the last call.
    pub fn take_retained(&mut self) -> Vec<AbortedTxn> {
        self.transactions.take_retained()
    }

    /// Notes the keys of a batch from offset `from` on.
    ///
    /// # Errors
    /// The batch is damaged.
    pub fn map_batch(
        &mut self,
        header: &BatchHeader,
        batch: &Bytes,
        from: Offset,
    ) -> Result<Mapped, Unclean> {
        if !verify_crc(batch) {
            return Err(Unclean::Checksum);
        }
        self.counts.mapped_bytes += batch.len() as u64;
        let has_keys = if header.is_control() {
            self.transactions.on_control(header, batch);
            false
        } else {
            !self.transactions.on_data(header)
        };
        let (mut is_full, mut is_astray) = (false, false);
        if has_keys {
            let (map, map_end) = (&mut self.map, &mut self.map_end);
            let note = |record: RecordKey<'_>| {
                is_astray = !header_holds(header, record.offset);
                if is_astray {
                    return false;
                }
                let Some(key) = record.key.filter(|_| from <= record.offset) else {
                    return true;
                };
                is_full = map.put(key, record.offset).is_err();
                if !is_full {
                    *map_end = (*map_end).max(record.offset);
                }
                !is_full
            };
            let bytes_max = DECOMPRESSED_BYTES_MAX;
            retain::visit(header, batch, bytes_max, &mut self.scratch, note)?;
        }
        if is_astray {
            return Err(Unclean::Offsets);
        }
        if is_full {
            return Ok(Mapped::Full);
        }
        self.map_end = self.map_end.max(header.last_offset());
        Ok(Mapped::Whole)
    }

    /// What stays of a batch; `None` when nothing does.
    ///
    /// # Errors
    /// The batch is damaged.
    pub fn clean_batch(
        &mut self,
        header: &BatchHeader,
        batch: &Bytes,
    ) -> Result<Option<Bytes>, Unclean> {
        if !verify_crc(batch) {
            return Err(Unclean::Checksum);
        }
        let kept = self.filter(header, batch)?;
        let must_stay = self.is_last_of_producer(header);
        let kept = match kept {
            None if must_stay && header.record_count == 0 => Some(batch.clone()),
            None if must_stay => Some(retain::empty(header)),
            kept => kept,
        };
        self.counts.read_bytes += batch.len() as u64;
        self.counts.written_bytes += kept.as_ref().map_or(0, Bytes::len) as u64;
        Ok(kept)
    }

    fn filter(&mut self, header: &BatchHeader, batch: &Bytes) -> Result<Option<Bytes>, Unclean> {
        let horizon = delete_horizon(header);
        let is_past_horizon = horizon.is_some_and(|horizon| horizon <= self.now);
        let next_horizon = Timestamp(
            self.now
                .0
                .saturating_add(self.settings.delete_retention_ms.max(0)),
        );
        let records = u64::try_from(header.record_count).unwrap_or(0);
        if header.is_control() {
            let is_alone = self.transactions.on_control(header, batch);
            self.counts.records_read += records;
            if is_alone && (is_past_horizon || records == 0) {
                return Ok(None);
            }
            let horizon = match is_alone {
                true => Horizon::Always(next_horizon),
                false => Horizon::Keep,
            };
            return self.retain(header, batch, horizon, |_, _| true);
        }
        if self.transactions.on_data(header) {
            self.counts.records_read += records;
            return Ok(None);
        }
        if self.map_end < header.base_offset {
            self.counts.records_read += records;
            self.counts.records_kept += records;
            return Ok((records > 0).then(|| batch.clone()));
        }
        let horizon = match header.last_offset() <= self.map_end {
            true => Horizon::ForTombstones(next_horizon),
            false => Horizon::Keep,
        };
        let map_end = self.map_end;
        let mut without_key = 0;
        self.counts.records_read += records;
        let kept = self.retain(header, batch, horizon, |map, record| {
            if map_end < record.offset {
                return true;
            }
            let Some(key) = record.key else {
                without_key += 1;
                return false;
            };
            let is_newest = map.get(key).is_none_or(|newest| newest <= record.offset);
            is_newest && (record.has_value || !is_past_horizon)
        })?;
        self.counts.records_without_key += without_key;
        Ok(kept)
    }

    fn retain(
        &mut self,
        header: &BatchHeader,
        batch: &Bytes,
        horizon: Horizon,
        mut keep: impl FnMut(&KeyMap, RecordKey<'_>) -> bool,
    ) -> Result<Option<Bytes>, Unclean> {
        let map = &self.map;
        let retained = retain::retain(
            header,
            batch,
            horizon,
            DECOMPRESSED_BYTES_MAX,
            &mut self.scratch,
            |record| keep(map, record),
        )?;
        self.counts.records_kept += u64::from(retained.records_after);
        Ok(match retained.outcome {
            Outcome::Unchanged => Some(batch.clone()),
            Outcome::Rewritten(bytes) => Some(bytes),
            Outcome::Empty => None,
        })
    }

    fn is_last_of_producer(&self, header: &BatchHeader) -> bool {
        if !header.has_producer() {
            return false;
        }
        let last = self.settings.last_records.get(&header.producer_id);
        last.is_some_and(|last| match last.last_data_offset {
            Some(offset) => header.last_offset() == offset,
            None => header.is_control() && header.producer_epoch == last.epoch,
        })
    }
}

fn header_holds(header: &BatchHeader, offset: Offset) -> bool {
    header.base_offset <= offset && offset <= header.last_offset()
}

#[cfg(test)]
mod tests;
