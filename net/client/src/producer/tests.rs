//! Tests of the accumulator: order, lingering, retries, epochs, expiry, memory.

use std::rc::Rc;

use pelton_model::batch::BatchHeader;
use pelton_model::compression::Compression;
use pelton_model::{ErrorCode, Monotonic, ProducerEpoch, ProducerId, Timestamp};

use super::accumulator::{Accumulator, Drained, Rules};
use super::record::{BatchAck, BatchOutcome, ProducerRecord};
use super::sequence::{Identity, Verdict, judge};
use crate::error::ClientError;
use crate::retry::Backoff;

const LINGER_MS: u64 = 10;
const TIMEOUT_MS: u64 = 1000;

fn rules() -> Rules {
    Rules {
        batch_size_bytes: 200,
        linger_ms: LINGER_MS,
        delivery_timeout_ms: TIMEOUT_MS,
        compression: Compression::None,
        compression_level: None,
        is_idempotent: true,
        is_transactional: false,
        in_flight_max: 5,
        backoff: Backoff::new(100, 100),
    }
}

/// An accumulator at a time that the test sets.
struct Bench {
    accumulator: Accumulator,
    now_ms: u64,
}

impl Bench {
    fn new(rules: Rules) -> Self {
        let mut accumulator = Accumulator::new(rules);
        accumulator.set_producer(Identity {
            producer_id: ProducerId(7),
            epoch: ProducerEpoch(0),
        });
        Self {
            accumulator,
            now_ms: 1000,
        }
    }

    fn now(&self) -> Monotonic {
        Monotonic(0).plus_ms(self.now_ms)
    }

    /// A record of `size` bytes for partition 0.
    fn append(&mut self, size: usize) -> Rc<BatchOutcome> {
        let record = ProducerRecord::new("t", vec![0; size]);
        let now = self.now();
        let appended = self.accumulator.append(&record, 0, Timestamp(0), now);
        appended.delivery.outcome
    }

    fn drain(&mut self) -> Option<Drained> {
        let now = self.now();
        self.accumulator.drain(0, now)
    }

    fn settle(&mut self, batch: Drained, verdict: Verdict) -> Option<ClientError> {
        let now = self.now();
        self.accumulator.settle(batch, verdict, now, 20)
    }

    /// Settles as the broker's error demands.
    fn refuse(&mut self, batch: Drained, error: ErrorCode) -> Option<ClientError> {
        let is_oldest = self.accumulator.is_oldest(&batch);
        let verdict = judge(error, refusal(error), true, is_oldest);
        self.settle(batch, verdict)
    }
}

fn refusal(error: ErrorCode) -> ClientError {
    ClientError::Refused {
        operation: "producing to",
        object: "t-0".into(),
        error,
        message: None,
    }
}

fn acked(base_offset: i64) -> Verdict {
    Verdict::Acked(BatchAck {
        base_offset: Some(base_offset),
        log_append_time: None,
    })
}

/// Epoch and first sequence as they are on the wire.
fn stamp(batch: &Drained) -> (i16, i32) {
    let header = BatchHeader::parse(&batch.bytes).unwrap();
    assert_eq!(header.producer_id, ProducerId(7));
    (header.producer_epoch.0, header.base_sequence.0)
}

// Goal: a batch leaves when it is full, has lingered, or is asked for. Method: one of each.
#[test]
fn batches_leave_when_due() {
    let mut bench = Bench::new(rules());
    bench.append(50);
    assert!(bench.drain().is_none());
    bench.now_ms += LINGER_MS;
    let first = bench.drain().unwrap();
    assert!(first.was_open);
    assert!(bench.drain().is_none());
    bench.append(100);
    bench.append(100);
    let full = bench.drain().unwrap();
    assert!(!full.was_open);
    assert!(bench.drain().is_none());
    let mark = bench.accumulator.flush();
    let flushed = bench.drain().unwrap();
    assert_eq!(
        [stamp(&first), stamp(&full), stamp(&flushed)],
        [(0, 0), (0, 1), (0, 2)]
    );
    bench.append(50);
    for batch in [full, flushed, first] {
        assert!(!bench.accumulator.is_settled(mark));
        assert!(bench.settle(batch, acked(0)).is_none());
    }
    assert!(bench.accumulator.is_settled(mark));
    assert!(!bench.accumulator.is_empty());
}

// Goal: memory is counted from append to outcome. Method: records of two batches, one acknowledged, one failed.
#[test]
fn memory_is_given_back() {
    let mut bench = Bench::new(rules());
    let good = bench.append(150);
    let bad = bench.append(150);
    assert!(300 < bench.accumulator.buffered_bytes());
    bench.accumulator.flush();
    let (first, second) = (bench.drain().unwrap(), bench.drain().unwrap());
    assert!(bench.settle(first, acked(5)).is_none());
    assert!(good.result().unwrap().is_ok());
    assert!(150 < bench.accumulator.buffered_bytes());
    assert!(bench.refuse(second, ErrorCode::MessageTooLarge).is_some());
    assert!(bad.result().unwrap().is_err());
    assert_eq!(bench.accumulator.buffered_bytes(), 0);
    assert!(bench.accumulator.is_empty());
}

// Goal: at most five batches of a partition are under way. Method: seven that are ready.
#[test]
fn in_flight_is_bounded() {
    let mut bench = Bench::new(rules());
    for _ in 0..7 {
        bench.append(150);
    }
    bench.accumulator.flush();
    let mut batches: Vec<_> = std::iter::from_fn(|| bench.drain()).collect();
    assert_eq!(batches.len(), 5);
    bench.settle(batches.remove(0), acked(0));
    assert!(bench.drain().is_some());
    assert!(bench.drain().is_none());
}

// Goal: after a failure the same batches go again in order with the same sequences, one at a time until one is written.
// Method: three under way; the first fails, the others are then out of order.
#[test]
fn retries_keep_order_and_sequences() {
    let mut bench = Bench::new(rules());
    for _ in 0..4 {
        bench.append(150);
    }
    bench.accumulator.flush();
    let (a, b, c) = (
        bench.drain().unwrap(),
        bench.drain().unwrap(),
        bench.drain().unwrap(),
    );
    let bytes = a.bytes.clone();
    assert!(bench.refuse(a, ErrorCode::NotLeaderOrFollower).is_none());
    bench.now_ms += 200;
    assert!(bench.drain().is_none(), "others are still under way");
    assert!(
        bench
            .refuse(c, ErrorCode::OutOfOrderSequenceNumber)
            .is_none()
    );
    assert!(
        bench
            .refuse(b, ErrorCode::OutOfOrderSequenceNumber)
            .is_none()
    );
    bench.now_ms += 200;
    let a = bench.drain().unwrap();
    assert_eq!(a.bytes, bytes);
    assert!(bench.drain().is_none(), "one at a time");
    bench.settle(a, acked(0));
    let rest: Vec<_> = std::iter::from_fn(|| bench.drain()).collect();
    let stamps: Vec<_> = rest.iter().map(stamp).collect();
    assert_eq!(stamps, [(0, 1), (0, 2), (0, 3)]);
}

// Goal: a real gap begins a new epoch, once nothing is under way. Method: the oldest batch is out of order.
#[test]
fn a_gap_begins_a_new_epoch() {
    let mut bench = Bench::new(rules());
    for _ in 0..3 {
        bench.append(150);
    }
    bench.accumulator.flush();
    let (a, b) = (bench.drain().unwrap(), bench.drain().unwrap());
    bench.settle(a, acked(0));
    let c = bench.drain().unwrap();
    assert!(
        bench
            .refuse(b, ErrorCode::OutOfOrderSequenceNumber)
            .is_none()
    );
    bench.now_ms += 200;
    assert!(bench.drain().is_none(), "the last one is still under way");
    assert!(
        bench
            .refuse(c, ErrorCode::OutOfOrderSequenceNumber)
            .is_none()
    );
    bench.now_ms += 200;
    let b = bench.drain().unwrap();
    assert_eq!(stamp(&b), (1, 0));
    bench.settle(b, acked(1));
    assert_eq!(stamp(&bench.drain().unwrap()), (1, 1));
}

// Goal: a batch that is given up leaves no gap behind. Method: one refused for good, then another.
#[test]
fn a_lost_batch_begins_a_new_epoch() {
    let mut bench = Bench::new(rules());
    bench.append(150);
    bench.append(150);
    bench.accumulator.flush();
    let a = bench.drain().unwrap();
    assert!(bench.refuse(a, ErrorCode::InvalidRecord).is_some());
    assert_eq!(stamp(&bench.drain().unwrap()), (1, 0));
}

// Goal: nothing waits for ever, and the broker's last word is told. Method: time passes over an unsent batch and over one
// that is to be sent again.
#[test]
fn late_batches_are_given_up() {
    let mut bench = Bench::new(rules());
    let refused = bench.append(150);
    let unsent = bench.append(150);
    bench.accumulator.flush();
    let a = bench.drain().unwrap();
    assert!(bench.refuse(a, ErrorCode::NotEnoughReplicas).is_none());
    assert_eq!(
        bench.accumulator.expires_at(0),
        Some(bench.now().plus_ms(TIMEOUT_MS))
    );
    bench.now_ms += TIMEOUT_MS - 1;
    let now = bench.now();
    assert!(bench.accumulator.expire(now).is_empty());
    bench.now_ms += 1;
    let now = bench.now();
    assert_eq!(bench.accumulator.expire(now).len(), 2);
    let code = |outcome: Rc<BatchOutcome>| outcome.result().unwrap().unwrap_err().error_code();
    assert_eq!(code(refused), Some(ErrorCode::NotEnoughReplicas));
    assert_eq!(code(unsent), None);
    assert!(bench.accumulator.is_empty());
    assert_eq!(bench.accumulator.buffered_bytes(), 0);
}

// Goal: without a producer id nothing leaves. Method: an idempotent accumulator that has none yet.
#[test]
fn waits_for_its_producer_id() {
    let mut accumulator = Accumulator::new(rules());
    assert!(!accumulator.wants_producer());
    let record = ProducerRecord::new("t", "v");
    accumulator.append(&record, 0, Timestamp(0), Monotonic(0));
    assert!(accumulator.wants_producer());
    accumulator.flush();
    assert!(accumulator.drain(0, Monotonic(0)).is_none());
}
