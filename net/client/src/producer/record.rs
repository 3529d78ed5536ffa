//! Records to be produced and what becomes of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use pelton_model::Timestamp;
use pelton_protocol::codec::Str;

use crate::error::ClientError;

/// A record to be produced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerRecord {
    /// The topic.
    pub topic: Str,
    /// The partition; none leaves it to the partitioner.
    pub partition: Option<i32>,
    /// The key.
    pub key: Option<Bytes>,
    /// The value.
    pub value: Option<Bytes>,
    /// The headers: key and value.
    pub headers: Vec<(Bytes, Option<Bytes>)>,
    /// When it happened; none is now.
    pub timestamp: Option<Timestamp>,
}

impl ProducerRecord {
    /// A record with a value and nothing else.
    #[must_use]
    pub fn new(topic: impl Into<Str>, value: impl Into<Bytes>) -> Self {
        Self {
            topic: topic.into(),
            value: Some(value.into()),
            ..Self::default()
        }
    }

    /// The same record with a key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<Bytes>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The same record for one partition.
    #[must_use]
    pub fn to_partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }
}

/// Where a record was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordMetadata {
    /// The topic.
    pub topic: Str,
    /// The partition.
    pub partition: i32,
    /// The offset; none when the broker did not tell (acks = 0, or a batch sent twice that it no longer remembers).
    pub offset: Option<i64>,
    /// The record's time: the broker's when the topic says so, else the producer's.
    pub timestamp: Timestamp,
}

/// What the broker said about a whole batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchAck {
    pub(crate) base_offset: Option<i64>,
    pub(crate) log_append_time: Option<Timestamp>,
}

/// What becomes of a batch; shared by the deliveries of its records.
#[derive(Debug)]
pub(crate) struct BatchOutcome {
    topic: Str,
    partition: i32,
    result: RefCell<Option<Result<BatchAck, ClientError>>>,
    /// By the record's index.
    wakers: RefCell<BTreeMap<i32, Waker>>,
}

impl BatchOutcome {
    pub(crate) fn new(topic: Str, partition: i32) -> Rc<Self> {
        Rc::new(Self {
            topic,
            partition,
            result: RefCell::new(None),
            wakers: RefCell::default(),
        })
    }

    /// Tells every delivery; the first outcome counts.
    pub(crate) fn settle(&self, result: Result<BatchAck, ClientError>) {
        self.result.borrow_mut().get_or_insert(result);
        for waker in self.wakers.take().into_values() {
            waker.wake();
        }
    }

    #[cfg(test)]
    pub(crate) fn result(&self) -> Option<Result<BatchAck, ClientError>> {
        self.result.borrow().clone()
    }
}

/// The outcome of one record that is still to come. Dropping it does not take the record back.
#[derive(Debug)]
#[must_use = "a delivery that nobody awaits is still reported by the producer's next flush, but only as a whole"]
pub struct Delivery {
    pub(crate) outcome: Rc<BatchOutcome>,
    pub(crate) index: i32,
    pub(crate) timestamp: Timestamp,
}

impl Delivery {
    /// The partition that was chosen.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.outcome.partition
    }
}

impl Future for Delivery {
    type Output = Result<RecordMetadata, ClientError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = &self.outcome;
        let Some(result) = &*outcome.result.borrow() else {
            let waker = context.waker().clone();
            outcome.wakers.borrow_mut().insert(self.index, waker);
            return Poll::Pending;
        };
        Poll::Ready(match result {
            Ok(ack) => Ok(RecordMetadata {
                topic: outcome.topic.clone(),
                partition: outcome.partition,
                offset: ack
                    .base_offset
                    .map(|base| base.wrapping_add(self.index.into())),
                timestamp: ack.log_append_time.unwrap_or(self.timestamp),
            }),
            Err(error) => Err(error.clone()),
        })
    }
}
