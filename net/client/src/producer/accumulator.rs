//! Records on their way into batches, per partition. Pure: time comes in, batches go out.
//!
//! 1. Batches of a partition leave in the order in which their records came, each once, until they are settled.
//! 2. After a batch has to be sent again, its partition sends one batch at a time, oldest first, until one is written.
//! 3. A batch leaves when it is full, has lingered, or is asked for; it ends by `delivery_timeout_ms` in any case.
//! 4. `buffered_bytes` counts every record from its append until its batch is settled.
//!
//! Not here: who leads a partition, connections, waiting for room.
//! Source: the accumulator of Kafka's producer.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use pelton_model::batch::{BatchBuilder, BuilderOptions, HEADER_BYTES};
use pelton_model::compression::Compression;
use pelton_model::map::Map;
use pelton_model::{Monotonic, Timestamp};
use pelton_protocol::codec::Str;

use super::record::{BatchOutcome, Delivery, ProducerRecord};
use super::sequence::{Identity, Sequences, Stamp, Verdict};
use crate::error::ClientError;
use crate::retry::Backoff;

/// Room made for a new batch; it grows as records come.
const BATCH_CAPACITY_BYTES_MAX: usize = 16 * 1024;

/// What the accumulator goes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) batch_size_bytes: usize,
    pub(crate) linger_ms: u64,
    pub(crate) delivery_timeout_ms: u64,
    pub(crate) compression: Compression,
    pub(crate) compression_level: Option<i32>,
    pub(crate) is_idempotent: bool,
    /// Whether batches are part of transactions: their producer is given, not asked for.
    pub(crate) is_transactional: bool,
    /// Batches of one partition under way.
    pub(crate) in_flight_max: usize,
    /// A partition's waits between tries.
    pub(crate) backoff: Backoff,
}

/// The index of a partition here.
pub(crate) type SlotId = usize;

#[derive(Debug)]
pub(crate) struct Accumulator {
    rules: Rules,
    topics: Map<Str, Vec<Option<SlotId>>>,
    slots: Vec<Slot>,
    next_batch_id: u64,
    /// Batches that are not settled.
    incomplete: BTreeSet<u64>,
    /// Open batches below this id leave without lingering.
    flush_before: u64,
    buffered_bytes: usize,
    producer: Option<Identity>,
}

#[derive(Debug)]
struct Slot {
    topic: Str,
    partition: i32,
    open: Option<Open>,
    /// Closed and not under way, oldest first.
    waiting: VecDeque<Batch>,
    in_flight: BTreeSet<u64>,
    sequences: Sequences,
    is_recovering: bool,
    backoff: Backoff,
}

#[derive(Debug)]
struct Open {
    builder: BatchBuilder,
    id: u64,
    created: Monotonic,
    charged_bytes: usize,
    outcome: Rc<BatchOutcome>,
}

/// A batch that takes no more records.
#[derive(Debug)]
pub(crate) struct Batch {
    id: u64,
    created: Monotonic,
    charged_bytes: usize,
    record_count: i32,
    contents: Contents,
    stamp: Option<Stamp>,
    outcome: Rc<BatchOutcome>,
    last_failure: Option<ClientError>,
}

#[derive(Debug)]
enum Contents {
    /// Not compressed yet.
    Builder(Box<BatchBuilder>),
    Bytes(Bytes),
}

/// A batch on its way to its leader.
#[derive(Debug)]
pub(crate) struct Drained {
    pub(crate) slot: SlotId,
    pub(crate) topic: Str,
    pub(crate) partition: i32,
    pub(crate) bytes: Bytes,
    /// Whether the batch was still open.
    pub(crate) was_open: bool,
    batch: Batch,
}

/// What an append did.
pub(crate) struct Appended {
    pub(crate) delivery: Delivery,
    /// Whether the sender has something new to look at.
    pub(crate) is_news: bool,
    /// Whether a full batch was closed to make room.
    pub(crate) has_closed: bool,
}

impl Accumulator {
    pub(crate) fn new(rules: Rules) -> Self {
        assert!(0 < rules.in_flight_max);
        Self {
            rules,
            topics: Map::default(),
            slots: Vec::new(),
            next_batch_id: 0,
            incomplete: BTreeSet::new(),
            flush_before: 0,
            buffered_bytes: 0,
            producer: None,
        }
    }

    /// Bytes of records that are not settled.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.incomplete.is_empty()
    }

    /// Whether batches can only leave once [`Accumulator::set_producer`] was called.
    pub(crate) fn wants_producer(&self) -> bool {
        let asks = self.rules.is_idempotent && !self.rules.is_transactional;
        asks && self.producer.is_none() && !self.is_empty()
    }

    /// Says who produces from now on.
    pub(crate) fn set_producer(&mut self, producer: Identity) {
        self.producer = Some(producer);
    }

    /// Says who produces from now on, and begins all sequences anew. Nothing may be unsettled.
    pub(crate) fn begin_epoch(&mut self, producer: Identity) {
        assert!(self.is_empty());
        self.producer = Some(producer);
        for slot in &mut self.slots {
            slot.sequences = Sequences::default();
        }
    }

    /// Takes a record; `timestamp` is the record's own or now.
    pub(crate) fn append(
        &mut self,
        record: &ProducerRecord,
        partition: i32,
        timestamp: Timestamp,
        now: Monotonic,
    ) -> Appended {
        let slot_id = self.slot_of(&record.topic, partition);
        let rules = self.rules;
        let slot = &mut self.slots[slot_id];
        let headers: Vec<(&[u8], Option<&[u8]>)> = record
            .headers
            .iter()
            .map(|(key, value)| (key.as_ref(), value.as_deref()))
            .collect();
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        let mut has_closed = false;
        if let Some(open) = &slot.open {
            let size_bytes = open
                .builder
                .record_size_bytes(timestamp, key, value, &headers);
            if rules.batch_size_bytes < open.builder.estimated_size_bytes() + size_bytes {
                slot.close();
                has_closed = true;
            }
        }
        let is_new = slot.open.is_none();
        let open = slot.open.get_or_insert_with(|| {
            let id = self.next_batch_id;
            self.next_batch_id += 1;
            self.incomplete.insert(id);
            Open::new(&rules, id, now, &record.topic, partition)
        });
        let before = if is_new {
            0
        } else {
            open.builder.estimated_size_bytes()
        };
        let index = open.builder.append(timestamp, key, value, &headers);
        let charged_bytes = open.builder.estimated_size_bytes() - before;
        open.charged_bytes += charged_bytes;
        self.buffered_bytes += charged_bytes;
        let is_full = rules.batch_size_bytes <= open.builder.estimated_size_bytes();
        Appended {
            delivery: Delivery {
                outcome: Rc::clone(&open.outcome),
                index,
                timestamp,
            },
            is_news: is_new || has_closed || is_full,
            has_closed,
        }
    }

    /// What a record will add to [`Accumulator::buffered_bytes`] at most.
    pub(crate) fn record_bytes_max(record: &ProducerRecord) -> usize {
        let headers = record.headers.iter();
        let headers = headers.map(|(key, value)| {
            key.len() + value.as_ref().map_or(0, Bytes::len) + 2 * VARINT_BYTES_MAX
        });
        let key = record.key.as_ref().map_or(0, Bytes::len);
        let value = record.value.as_ref().map_or(0, Bytes::len);
        HEADER_BYTES + RECORD_OVERHEAD_BYTES_MAX + key + value + headers.sum::<usize>()
    }

    /// Lets everything appended so far leave without lingering; gives the mark for [`Accumulator::is_settled`].
    pub(crate) fn flush(&mut self) -> u64 {
        self.flush_before = self.next_batch_id;
        self.flush_before
    }

    /// Whether every batch begun before `mark` is settled.
    pub(crate) fn is_settled(&self, mark: u64) -> bool {
        self.incomplete.first().is_none_or(|oldest| mark <= *oldest)
    }

    /// The number of partitions written to so far.
    pub(crate) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// The topic and partition of a slot.
    pub(crate) fn partition_of(&self, slot: SlotId) -> (&Str, i32) {
        (&self.slots[slot].topic, self.slots[slot].partition)
    }

    /// When the slot has a batch to send: now or before, later, or (none) not until something happens.
    pub(crate) fn ready_at(&self, slot: SlotId) -> Option<Monotonic> {
        let slot = &self.slots[slot];
        if !slot.may_send(&self.rules) {
            return None;
        }
        let due = match (slot.waiting.front(), &slot.open) {
            (Some(_), _) => Monotonic(0),
            (None, Some(open)) => self.due(open),
            (None, None) => return None,
        };
        Some(due.max(slot.backoff.not_before()))
    }

    /// When the slot's oldest unsent batch is given up.
    pub(crate) fn expires_at(&self, slot: SlotId) -> Option<Monotonic> {
        let slot = &self.slots[slot];
        let waiting = slot.waiting.front().map(|batch| batch.created);
        let created = waiting.or_else(|| slot.open.as_ref().map(|open| open.created))?;
        Some(created.plus_ms(self.rules.delivery_timeout_ms))
    }

    /// Takes the slot's next batch, if it is due at `now`.
    pub(crate) fn drain(&mut self, slot_id: SlotId, now: Monotonic) -> Option<Drained> {
        if self.ready_at(slot_id).is_none_or(|ready| now < ready) {
            return None;
        }
        let (rules, producer) = (self.rules, self.producer);
        let slot = &mut self.slots[slot_id];
        if slot.sequences.needs_reset() {
            if rules.is_transactional {
                // Only the coordinator gives a new epoch: with the abort that must follow.
                return None;
            }
            assert!(slot.in_flight.is_empty());
            for batch in &mut slot.waiting {
                batch.stamp = None;
            }
            if !slot.sequences.reset() {
                self.producer = None;
                return None;
            }
        }
        let producer = match (rules.is_idempotent, producer) {
            (true, None) => return None,
            (true, Some(producer)) => Some(producer),
            (false, _) => None,
        };
        let was_open = slot.waiting.is_empty();
        if was_open {
            slot.close();
        }
        let mut batch = slot.waiting.pop_front()?;
        let bytes = batch.finish(producer, &mut slot.sequences);
        slot.in_flight.insert(batch.id);
        Some(Drained {
            slot: slot_id,
            topic: slot.topic.clone(),
            partition: slot.partition,
            bytes,
            was_open,
            batch,
        })
    }

    /// Whether no earlier batch of the partition is unsettled.
    pub(crate) fn is_oldest(&self, drained: &Drained) -> bool {
        let slot = &self.slots[drained.slot];
        let id = drained.batch.id;
        let waiting = slot.waiting.front().is_some_and(|batch| batch.id < id);
        let in_flight = slot.in_flight.first().is_some_and(|oldest| *oldest < id);
        !waiting && !in_flight
    }

    /// Takes a batch back with what became of it; gives its final failure.
    pub(crate) fn settle(
        &mut self,
        drained: Drained,
        verdict: Verdict,
        now: Monotonic,
        random: u64,
    ) -> Option<ClientError> {
        let Drained {
            slot, mut batch, ..
        } = drained;
        let deadline = batch.created.plus_ms(self.rules.delivery_timeout_ms);
        let slot = &mut self.slots[slot];
        assert!(slot.in_flight.remove(&batch.id));
        let failure = match verdict {
            Verdict::Acked(ack) => {
                slot.is_recovering = false;
                slot.backoff.succeeded();
                batch.outcome.settle(Ok(ack));
                None
            }
            Verdict::Retry(error) | Verdict::RetryInNewEpoch(error) if deadline <= now => {
                Some(error)
            }
            Verdict::Retry(error) => {
                batch.last_failure = Some(error);
                slot.take_back(batch, now, random);
                return None;
            }
            Verdict::RetryInNewEpoch(error) => {
                batch.last_failure = Some(error);
                slot.sequences.ask_reset();
                slot.take_back(batch, now, random);
                return None;
            }
            Verdict::Fail(error) => Some(error),
        };
        self.incomplete.remove(&batch.id);
        self.buffered_bytes -= batch.charged_bytes;
        if let Some(error) = &failure {
            slot.give_up(&batch, error);
        }
        failure
    }

    /// Gives up what waited too long by `now`; gives the failures.
    pub(crate) fn expire(&mut self, now: Monotonic) -> Vec<ClientError> {
        let timeout_ms = self.rules.delivery_timeout_ms;
        self.give_up_where(|created, topic, partition| {
            (created.plus_ms(timeout_ms) <= now).then(|| ClientError::TimedOut {
                operation: "delivering records to",
                object: format!("{topic}-{partition}").into(),
                after_ms: timeout_ms,
            })
        })
    }

    /// Gives up everything that is not under way.
    pub(crate) fn fail_all(&mut self, error: &ClientError) -> Vec<ClientError> {
        self.give_up_where(|_, _, _| Some(error.clone()))
    }

    fn give_up_where(
        &mut self,
        judge: impl Fn(Monotonic, &str, i32) -> Option<ClientError>,
    ) -> Vec<ClientError> {
        let mut failures = Vec::new();
        for slot in &mut self.slots {
            loop {
                let is_late =
                    |open: &Open| judge(open.created, &slot.topic, slot.partition).is_some();
                if slot.waiting.is_empty() && slot.open.as_ref().is_some_and(is_late) {
                    slot.close();
                }
                let front = slot.waiting.front();
                let error =
                    front.and_then(|batch| judge(batch.created, &slot.topic, slot.partition));
                let Some(error) = error else { break };
                let Some(batch) = slot.waiting.pop_front() else {
                    break;
                };
                // What the broker said last tells more than that time is up.
                let error = batch.last_failure.clone().unwrap_or(error);
                slot.give_up(&batch, &error);
                self.incomplete.remove(&batch.id);
                self.buffered_bytes -= batch.charged_bytes;
                failures.push(error);
            }
        }
        failures
    }

    fn due(&self, open: &Open) -> Monotonic {
        let is_full = self.rules.batch_size_bytes <= open.builder.estimated_size_bytes();
        if is_full || open.id < self.flush_before {
            Monotonic(0)
        } else {
            open.created.plus_ms(self.rules.linger_ms)
        }
    }

    fn slot_of(&mut self, topic: &Str, partition: i32) -> SlotId {
        let index = usize::try_from(partition).expect("partitions come from metadata");
        if let Some(slot) = self.topics.get(topic).and_then(|slots| *slots.get(index)?) {
            return slot;
        }
        let slots = self.topics.entry(topic.clone()).or_default();
        if slots.len() <= index {
            slots.resize(index + 1, None);
        }
        let slot = self.slots.len();
        slots[index] = Some(slot);
        self.slots.push(Slot {
            topic: topic.clone(),
            partition,
            open: None,
            waiting: VecDeque::new(),
            in_flight: BTreeSet::new(),
            sequences: Sequences::default(),
            is_recovering: false,
            backoff: self.rules.backoff,
        });
        slot
    }
}

const VARINT_BYTES_MAX: usize = 5;
/// Length, attributes, time and offset deltas, lengths of key and value, header count.
const RECORD_OVERHEAD_BYTES_MAX: usize = 5 * VARINT_BYTES_MAX + 1 + 10;

impl Slot {
    fn may_send(&self, rules: &Rules) -> bool {
        let is_alone = self.is_recovering || self.sequences.needs_reset();
        let in_flight_max = if is_alone { 1 } else { rules.in_flight_max };
        self.in_flight.len() < in_flight_max
    }

    /// Moves the open batch to those that wait.
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        self.waiting.push_back(Batch {
            id: open.id,
            created: open.created,
            charged_bytes: open.charged_bytes,
            record_count: open.builder.record_count(),
            contents: Contents::Builder(Box::new(open.builder)),
            stamp: None,
            outcome: open.outcome,
            last_failure: None,
        });
    }

    /// Puts a batch back among those that wait, in its old place.
    fn take_back(&mut self, batch: Batch, now: Monotonic, random: u64) {
        self.is_recovering = true;
        // The batches that were under way together fail together: that is one failure.
        if self.backoff.not_before() <= now {
            self.backoff.failed(now, random);
        }
        let place = self
            .waiting
            .partition_point(|waiting| waiting.id < batch.id);
        self.waiting.insert(place, batch);
    }

    /// Settles a batch as failed. If it had a stamp, the sequences after it have a gap now.
    fn give_up(&mut self, batch: &Batch, error: &ClientError) {
        if batch.stamp.is_some() {
            self.sequences.ask_reset();
        }
        batch.outcome.settle(Err(error.clone()));
    }
}

impl Open {
    fn new(rules: &Rules, id: u64, now: Monotonic, topic: &Str, partition: i32) -> Self {
        let options = BuilderOptions {
            compression: rules.compression,
            level: rules.compression_level,
            transactional: rules.is_transactional,
            ..BuilderOptions::default()
        };
        let capacity = rules.batch_size_bytes.min(BATCH_CAPACITY_BYTES_MAX);
        Self {
            builder: BatchBuilder::with_capacity(options, capacity),
            id,
            created: now,
            charged_bytes: 0,
            outcome: BatchOutcome::new(topic.clone(), partition),
        }
    }
}

impl Batch {
    /// The bytes to send, compressed and stamped.
    fn finish(&mut self, producer: Option<Identity>, sequences: &mut Sequences) -> Bytes {
        let stamp = match (producer, self.stamp) {
            (Some(producer), None) => Some(sequences.stamp(producer, self.record_count)),
            (Some(_), Some(_)) | (None, _) => None,
        };
        let contents = std::mem::replace(&mut self.contents, Contents::Bytes(Bytes::new()));
        let bytes = match (contents, stamp) {
            (Contents::Bytes(bytes), None) => bytes,
            (Contents::Builder(builder), None) => builder.build(),
            (Contents::Bytes(bytes), Some(stamp)) => stamped(BytesMut::from(bytes), stamp),
            (Contents::Builder(builder), Some(stamp)) => stamped(builder.build_mut(), stamp),
        };
        self.stamp = stamp.or(self.stamp);
        self.contents = Contents::Bytes(bytes.clone());
        bytes
    }
}

fn stamped(mut batch: BytesMut, stamp: Stamp) -> Bytes {
    stamp.write(&mut batch);
    batch.freeze()
}
