//! Record batches of a request by what is odd about them, and of an answer by their headers.
//!
//! Source: Kafka's record batch format, version 2.

use super::value::Value;
use crate::batch::{Batch, Record, old_message};

/// What is wrong with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Nothing.
    None,
    /// The checksum lies.
    Checksum,
    /// A message of format 1.
    OldMagic,
    /// A format that does not exist.
    NewMagic,
    /// The length field says more than there is.
    Long,
    /// The length field says less than there is.
    Short,
    /// It claims one record more than it holds.
    Count,
    /// Its last offset delta is beyond its records.
    LastOffset,
    /// It claims to be a control batch.
    Control,
    /// It claims a codec that does not exist.
    Codec,
    /// It claims gzip and is not packed.
    NotPacked,
    /// Its records have null keys.
    NullKeys,
    /// It holds nothing.
    Empty,
    /// Its timestamps are of the far future.
    Future,
    /// It has no timestamp.
    NoTime,
    /// It claims the time of its append.
    AppendTime,
    /// Its maximum timestamp is another than its records'.
    MaxTime,
    /// Bytes end before it does.
    Cut,
}

impl Defect {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::None,
        Self::Checksum,
        Self::OldMagic,
        Self::NewMagic,
        Self::Long,
        Self::Short,
        Self::Count,
        Self::LastOffset,
        Self::Control,
        Self::Codec,
        Self::NotPacked,
        Self::NullKeys,
        Self::Empty,
        Self::Future,
        Self::NoTime,
        Self::AppendTime,
        Self::MaxTime,
        Self::Cut,
    ];
}

/// A batch to be built for a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// How many records.
    pub records: i32,
    /// Whose producer id and epoch it bears, by the transactional id; none when empty.
    pub producer: String,
    /// The epoch relative to the producer's.
    pub epoch_step: i16,
    /// Its base sequence.
    pub sequence: i32,
    /// Whether it belongs to a transaction.
    pub transactional: bool,
    /// What is wrong with it.
    pub defect: Defect,
}

impl Spec {
    /// The bytes, with the producer's id and epoch as the broker gave them, of records of the time `now`.
    #[must_use]
    pub fn build(&self, producer: Option<(i64, i16)>, now: i64) -> Vec<u8> {
        if self.defect == Defect::OldMagic {
            return old_message(1);
        }
        let mut batch = Batch::of(self.records);
        batch.base_timestamp = now;
        if let Some((id, epoch)) = producer {
            batch = batch.by(id, epoch.wrapping_add(self.epoch_step), self.sequence);
        }
        if self.transactional {
            batch.attributes |= 16;
        }
        let batch = self.spoil(batch);
        let mut bytes = batch.build();
        if self.defect == Defect::Cut {
            bytes.truncate(bytes.len() - 3);
        }
        bytes
    }

    fn spoil(&self, mut batch: Batch) -> Batch {
        let length = 49 + batch.payload.len() as i32;
        match self.defect {
            Defect::None | Defect::OldMagic | Defect::Cut => {}
            Defect::Checksum => batch.crc = Some(1),
            Defect::NewMagic => batch.magic = 3,
            Defect::Long => batch.length = Some(length + 9),
            Defect::Short => batch.length = Some(length - 2),
            Defect::Count => batch.count = Some(batch.records + 1),
            Defect::LastOffset => batch.last_offset_delta = Some(batch.records + 1),
            Defect::Control => batch.attributes |= 32,
            Defect::Codec => batch.attributes |= 7,
            Defect::NotPacked => batch.attributes |= 1,
            Defect::Empty => batch = Batch { payload: Vec::new(), records: 0, ..batch },
            Defect::Future => batch.base_timestamp += 1_000_000_000_000,
            Defect::NoTime => batch.base_timestamp = -1,
            Defect::AppendTime => batch.attributes |= 8,
            Defect::MaxTime => batch.max_timestamp = Some(batch.base_timestamp + 5),
            Defect::NullKeys => {
                let null = |offset| Record { key: None, ..Record::at(offset) };
                let records = (0..batch.records).map(null).collect();
                batch.payload = Batch::with(records).payload;
            }
        }
        batch
    }
}

/// A batch's header is so long.
const HEADER_BYTES: usize = 61;

/// The headers of the batches of an answer as structs, whole ones only: a broker may cut the last.
#[must_use]
pub fn headers(mut bytes: &[u8]) -> Vec<Value> {
    let mut all = Vec::new();
    while bytes.len() >= HEADER_BYTES {
        let int = |at: usize| i64::from(i32::from_be_bytes(array(bytes, at)));
        let short = |at: usize| i64::from(i16::from_be_bytes(array(bytes, at)));
        let long = |at: usize| i64::from_be_bytes(array(bytes, at));
        let size = usize::try_from(int(8)).unwrap_or(0) + 12;
        if size < HEADER_BYTES || bytes.len() < size {
            break;
        }
        let attributes = short(21);
        // What a marker says of its coordinator is the broker's own.
        let is_control = attributes & 32 != 0;
        let payload = &bytes[HEADER_BYTES..size];
        let payload = if is_control { &payload[..payload.len().min(9)] } else { payload };
        all.push(Value::Struct(vec![
            ("base_offset", Value::Int(long(0))),
            ("partition_leader_epoch", Value::Int(int(12))),
            ("magic", Value::Int(i64::from(bytes[16]))),
            ("attributes", Value::Int(attributes)),
            ("last_offset_delta", Value::Int(int(23))),
            ("base_timestamp", Value::Int(long(27))),
            ("max_timestamp", Value::Int(long(35))),
            ("producer_id", Value::Int(long(43))),
            ("producer_epoch", Value::Int(short(51))),
            ("base_sequence", Value::Int(int(53))),
            ("count", Value::Int(int(57))),
            ("payload", Value::Bytes(payload.to_vec())),
        ]));
        bytes = &bytes[size..];
    }
    all
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the slice has N bytes")
}
