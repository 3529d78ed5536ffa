//! KRaft snapshot files: `__cluster_metadata-0/<end offset>-<epoch>.checkpoint`, and `bootstrap.checkpoint` beside it.
//!
//! ```text
//! batch         | holds
//! control       | SnapshotHeader; with kraft.version 1 also KRaftVersion and Voters
//! records, 0..n | metadata records that build the state from nothing
//! control       | SnapshotFooter
//! ```
//!
//! Offsets within the file count from 0 and mean nothing to the log. The end offset in the name is that of the first record *not*
//! contained; the epoch is that of the last one contained.
//!
//! Invariants:
//! 1. A file without a header first and a footer last is no snapshot: what a crash cut off is never taken for a state.
//! 2. Reading gives every record or an error: nothing is skipped.
//! 3. A batch holds at most [`RECORDS_MAX`] records and, unless a single record is larger, [`BATCH_BYTES_MAX`] bytes: far below
//!    what Kafka reads at once.
//!
//! It touches no file. Source: KIP-630, KIP-853, files written by Apache Kafka 4.3.1.

use std::fmt;

use bytes::Bytes;
use pelton_model::batch::{BatchBuilder, BatchError, Batches};
use pelton_model::record_type::control::{
    ControlRecord, SnapshotFooterRecord, SnapshotHeaderRecord,
};
use pelton_model::record_type::metadata::MetadataRecord;
use pelton_model::{LeaderEpoch, Offset, Timestamp};

use crate::metadata_record::{
    self, LogEntry, LogError, LogErrorCause, LogRecord, control_batch_of, records_of,
};

/// Records of one batch at most, as Kafka's writer has it.
pub const RECORDS_MAX: usize = 1024;
/// Bytes of one batch at most, unless a single record is larger.
pub const BATCH_BYTES_MAX: usize = 1024 * 1024;

const SUFFIX: &str = ".checkpoint";
const PARTIAL_SUFFIX: &str = ".checkpoint.part";
const DELETED_SUFFIX: &str = ".checkpoint.deleted";
const OFFSET_DIGITS: usize = 20;
const EPOCH_DIGITS: usize = 10;

/// Names a snapshot, and says what it contains: everything below `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotId {
    /// The offset of the first record that it does not contain.
    pub end: Offset,
    /// The leader epoch of the last record that it contains.
    pub epoch: LeaderEpoch,
}

impl SnapshotId {
    /// What formatting a directory writes: the voters, and nothing of the log.
    pub const BOOTSTRAP: Self = Self {
        end: Offset::ZERO,
        epoch: LeaderEpoch(0),
    };

    /// The name of the finished file.
    #[must_use]
    pub fn file_name(self) -> String {
        format!("{self}{SUFFIX}")
    }

    /// The name under which the file is written before it is renamed.
    #[must_use]
    pub fn partial_name(self) -> String {
        format!("{self}{PARTIAL_SUFFIX}")
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{:010}", self.end.0, self.epoch.0)
    }
}

/// What the name of a file in the metadata log's directory says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotName {
    /// A finished snapshot.
    Complete(SnapshotId),
    /// One that was being written, or being removed: of use to nobody.
    Leftover,
}

/// Reads the name of a file; none when it is not a snapshot's.
#[must_use]
pub fn parse_name(name: &str) -> Option<SnapshotName> {
    if name.ends_with(PARTIAL_SUFFIX) || name.ends_with(DELETED_SUFFIX) {
        // Kafka puts a random number between the epoch and the suffix.
        return parse_id(name.get(..OFFSET_DIGITS + 1 + EPOCH_DIGITS)?)
            .map(|_| SnapshotName::Leftover);
    }
    parse_id(name.strip_suffix(SUFFIX)?).map(SnapshotName::Complete)
}

fn parse_id(text: &str) -> Option<SnapshotId> {
    let (offset, epoch) = text.split_once('-')?;
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if offset.len() != OFFSET_DIGITS || epoch.len() != EPOCH_DIGITS {
        return None;
    }
    if !are_digits(offset) || !are_digits(epoch) {
        return None;
    }
    Some(SnapshotId {
        end: Offset(offset.parse().ok()?),
        epoch: LeaderEpoch(epoch.parse().ok()?),
    })
}

/// Writes a snapshot batch by batch; the caller keeps the order header, records, footer.
#[derive(Debug)]
pub struct SnapshotEncoder {
    epoch: LeaderEpoch,
    now: Timestamp,
    next: Offset,
}

impl SnapshotEncoder {
    /// A snapshot of `epoch` that is written at `now`.
    #[must_use]
    pub fn new(epoch: LeaderEpoch, now: Timestamp) -> Self {
        Self {
            epoch,
            now,
            next: Offset::ZERO,
        }
    }

    /// The first batch: the header, and what the snapshot says about the quorum (nothing with a `kraft.version` of 0).
    ///
    /// `last_contained` is the time of the last record contained; retention goes by it.
    pub fn header(&mut self, last_contained: Timestamp, quorum: Vec<ControlRecord>) -> Bytes {
        assert_eq!(self.next, Offset::ZERO, "the header comes first");
        let header = SnapshotHeaderRecord {
            version: 0,
            last_contained_log_timestamp: last_contained.0,
        };
        let mut records = vec![ControlRecord::SnapshotHeader(header)];
        records.extend(quorum);
        self.control(&records)
    }

    /// The next batch of records, and how many of `records` it took: as many as one batch may hold.
    ///
    /// # Panics
    /// Without records.
    pub fn records(&mut self, records: &[MetadataRecord]) -> (Bytes, usize) {
        assert!(!records.is_empty());
        let mut builder = BatchBuilder::new(metadata_record::batch_options(self.next, self.epoch));
        let mut count = 0;
        for record in records.iter().take(RECORDS_MAX) {
            let value = metadata_record::encode(record);
            let size = builder.record_size_bytes(self.now, None, Some(&value), &[]);
            if count > 0 && builder.estimated_size_bytes() + size > BATCH_BYTES_MAX {
                break;
            }
            builder.append(self.now, None, Some(&value), &[]);
            count += 1;
        }
        self.advance(count);
        (builder.build(), count)
    }

    /// The last batch.
    pub fn footer(&mut self) -> Bytes {
        let footer = SnapshotFooterRecord { version: 0 };
        self.control(&[ControlRecord::SnapshotFooter(footer)])
    }

    fn control(&mut self, records: &[ControlRecord]) -> Bytes {
        let batch = control_batch_of(records, self.next, self.epoch, self.now);
        self.advance(records.len());
        batch
    }

    fn advance(&mut self, count: usize) {
        let count = i64::try_from(count).expect("a batch's records are counted by an i32");
        self.next = self.next.plus(count);
    }
}

/// Encodes a whole small snapshot, such as `bootstrap.checkpoint`.
#[must_use]
pub fn encode(
    epoch: LeaderEpoch,
    now: Timestamp,
    quorum: Vec<ControlRecord>,
    mut records: &[MetadataRecord],
) -> Vec<Bytes> {
    let mut encoder = SnapshotEncoder::new(epoch, now);
    let mut batches = vec![encoder.header(Timestamp(0), quorum)];
    while !records.is_empty() {
        let (batch, count) = encoder.records(records);
        batches.push(batch);
        records = &records[count..];
    }
    batches.push(encoder.footer());
    batches
}

/// Why bytes are not a snapshot that we can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// A batch is cut off or malformed.
    Batch(BatchError),
    /// A record is malformed or unknown, or a batch's CRC is wrong.
    Record(LogError),
    /// The first record is no snapshot header of a version that we know.
    NoHeader,
    /// The last record is no snapshot footer: the file is incomplete.
    NoFooter,
    /// Bytes follow the footer.
    AfterFooter,
    /// A control record that belongs in a log, not in a snapshot.
    Misplaced {
        /// The control type in its key.
        key_type: i16,
    },
}

impl SnapshotError {
    /// Whether the bytes are damaged, so that an older snapshot may stand in; else they are whole and say what we do not know.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Batch(_) | Self::NoHeader | Self::NoFooter | Self::AfterFooter => true,
            Self::Misplaced { .. } => false,
            Self::Record(error) => match &error.cause {
                LogErrorCause::Crc | LogErrorCause::Batch(_) => true,
                LogErrorCause::Metadata(_) | LogErrorCause::Control(_) | LogErrorCause::Absent => {
                    false
                }
            },
        }
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Batch(cause) => cause.fmt(f),
            Self::Record(cause) => cause.fmt(f),
            Self::NoHeader => f.write_str("it does not begin with a snapshot header"),
            Self::NoFooter => f.write_str("it is incomplete: no snapshot footer at its end"),
            Self::AfterFooter => f.write_str("bytes follow the snapshot footer"),
            Self::Misplaced { key_type } => {
                write!(
                    f,
                    "a control record of type {key_type} has no place in a snapshot"
                )
            }
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Batch(cause) => Some(cause),
            Self::Record(cause) => Some(cause),
            Self::NoHeader | Self::NoFooter | Self::AfterFooter | Self::Misplaced { .. } => None,
        }
    }
}

/// Walks over the records of a snapshot, header and footer left out.
///
/// Whoever reads must go on to the end: only there is it known whether the snapshot is whole.
#[derive(Debug)]
pub struct SnapshotReader<'a> {
    bytes: &'a Bytes,
    batches: Batches<'a>,
    entries: std::vec::IntoIter<LogEntry>,
    header: Option<SnapshotHeaderRecord>,
    has_footer: bool,
    is_over: bool,
}

impl<'a> SnapshotReader<'a> {
    /// Reads the contents of a file.
    #[must_use]
    pub fn new(bytes: &'a Bytes) -> Self {
        Self {
            bytes,
            batches: Batches::new(bytes),
            entries: Vec::new().into_iter(),
            header: None,
            has_footer: false,
            is_over: false,
        }
    }

    /// The time of the last record contained; known once the first record was read.
    #[must_use]
    pub fn last_contained(&self) -> Option<Timestamp> {
        let header = self.header.as_ref()?;
        Some(Timestamp(header.last_contained_log_timestamp))
    }

    fn step(&mut self) -> Result<Option<LogEntry>, SnapshotError> {
        loop {
            let Some(entry) = self.entries.next() else {
                if !self.load()? {
                    return Ok(None);
                }
                continue;
            };
            if self.has_footer {
                return Err(SnapshotError::AfterFooter);
            }
            let is_header = matches!(
                entry.record,
                LogRecord::Control(ControlRecord::SnapshotHeader(_))
            );
            if is_header != self.header.is_none() {
                return Err(SnapshotError::NoHeader);
            }
            match &entry.record {
                LogRecord::Metadata(_) => return Ok(Some(entry)),
                LogRecord::Control(control) => match control {
                    ControlRecord::SnapshotHeader(header) => self.header = Some(header.clone()),
                    ControlRecord::SnapshotFooter(_) => self.has_footer = true,
                    ControlRecord::KRaftVersion(_) | ControlRecord::Voters(_) => {
                        return Ok(Some(entry));
                    }
                    ControlRecord::LeaderChange(_) => {
                        let key_type = control.key_type();
                        return Err(SnapshotError::Misplaced { key_type });
                    }
                },
            }
        }
    }

    /// Decodes the next batch; false at the end of a whole snapshot.
    fn load(&mut self) -> Result<bool, SnapshotError> {
        match self.batches.next() {
            None if self.header.is_none() => Err(SnapshotError::NoHeader),
            None if !self.has_footer => Err(SnapshotError::NoFooter),
            None => Ok(false),
            Some(_) if self.has_footer => Err(SnapshotError::AfterFooter),
            Some(batch) => {
                let (_, batch) = batch.map_err(SnapshotError::Batch)?;
                let entries =
                    records_of(&self.bytes.slice_ref(batch)).map_err(SnapshotError::Record)?;
                self.entries = entries.into_iter();
                Ok(true)
            }
        }
    }
}

impl Iterator for SnapshotReader<'_> {
    type Item = Result<LogEntry, SnapshotError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let step = self.step().transpose();
        self.is_over = !matches!(step, Some(Ok(_)));
        step
    }
}

#[cfg(test)]
mod tests;
