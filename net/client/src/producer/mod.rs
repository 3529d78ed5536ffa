//! The producer: records in, batches out, outcomes back.
//!
//! [`Producer::send`] puts a record into the accumulator and gives its [`Delivery`]; one sender task per producer sends
//! batches to the leaders, several requests at a time, and settles deliveries as answers come.
//!
//! 1. With idempotence (the default) each record is written once and in order per partition, across lost connections and
//!    changes of leader, as long as the delivery timeout is not exceeded.
//! 2. [`Producer::flush`] waits for acknowledgements, not for an empty queue.
//! 3. Memory is bounded: `send` waits while `buffer_memory_bytes` are not settled.
//!
//! Not here: splitting a batch that a broker finds too large (it fails).
//! Source: KIP-98, KIP-360, KIP-91 (delivery timeout), KIP-951.

mod accumulator;
mod murmur2;
mod partitioner;
mod record;
mod sender;
mod sequence;
#[cfg(test)]
mod tests;
mod transaction;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pelton_model::compression::Compression;
use pelton_protocol::codec::Str;
use pelton_transport::net::{Net, TaskClass};

pub use self::murmur2::{key_partition, murmur2};
pub use self::partitioner::{
    ExplicitPartitioner, KeyHashPartitioner, PartitionRequest, Partitioner, RoundRobinPartitioner,
    StickyPartitioner,
};
pub use self::record::{Delivery, ProducerRecord, RecordMetadata};
pub use self::transaction::{GroupMetadata, TransactionOptions};

use self::accumulator::{Accumulator, Rules};
use self::sender::Sender;
use crate::client::Client;
use crate::error::ClientError;
use crate::limits;
use crate::metadata::TopicMetadata;
use crate::time::before;

/// Whose acknowledgement a record waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// Nobody's: a record counts as delivered when the kernel has taken it.
    None,
    /// The leader's.
    Leader,
    /// That of all replicas in sync.
    All,
}

impl Acks {
    fn wire(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }
}

/// Settings of a producer; the defaults are those of Kafka's.
#[derive(Clone, Debug)]
pub struct ProducerOptions {
    /// Whose acknowledgement is waited for.
    pub acks: Acks,
    /// How long a batch waits for more records, in milliseconds.
    pub linger_ms: u64,
    /// The size at which a batch is closed, before compression.
    pub batch_size_bytes: usize,
    /// The codec.
    pub compression: Compression,
    /// The codec's level; none is its default.
    pub compression_level: Option<i32>,
    /// Requests to one broker that may be unanswered; with idempotence also batches of one partition, at most 5.
    pub max_in_flight: usize,
    /// The largest request and the largest record.
    pub max_request_bytes: usize,
    /// How long a record may take from `send` to its outcome with all retries, in milliseconds.
    pub delivery_timeout_ms: u64,
    /// Whether each record is written once and in order; only with [`Acks::All`], otherwise taken as off.
    pub idempotence: bool,
    /// Bytes of records that may be unsettled; `send` waits beyond.
    pub buffer_memory_bytes: usize,
    /// How long `send` waits for memory, in milliseconds.
    pub max_block_ms: u64,
    /// Writes in transactions under this id; then idempotence is on, and acks are all, whatever they say.
    pub transaction: Option<TransactionOptions>,
}

impl Default for ProducerOptions {
    fn default() -> Self {
        Self {
            acks: Acks::All,
            linger_ms: 5,
            batch_size_bytes: 16 * 1024,
            compression: Compression::None,
            compression_level: None,
            max_in_flight: 5,
            max_request_bytes: 1024 * 1024,
            delivery_timeout_ms: 120_000,
            idempotence: true,
            buffer_memory_bytes: 32 * 1024 * 1024,
            max_block_ms: 60_000,
            transaction: None,
        }
    }
}

impl ProducerOptions {
    fn is_idempotent(&self) -> bool {
        self.idempotence && self.acks == Acks::All
    }

    fn rules<N: Net>(&self, client: &Client<N>) -> Rules {
        let is_idempotent = self.is_idempotent();
        let in_flight_max = if is_idempotent {
            self.max_in_flight.min(limits::IDEMPOTENT_IN_FLIGHT_MAX)
        } else {
            self.max_in_flight
        };
        Rules {
            batch_size_bytes: self.batch_size_bytes.min(self.max_request_bytes),
            linger_ms: self.linger_ms,
            delivery_timeout_ms: self.delivery_timeout_ms,
            compression: self.compression,
            compression_level: self.compression_level,
            is_idempotent,
            is_transactional: self.transaction.is_some(),
            in_flight_max: in_flight_max.max(1),
            backoff: client.retry_backoff(),
        }
    }
}

/// Sends records. Clones share everything; when the last one is dropped, what is not sent yet is given up: call
/// [`Producer::close`] before.
pub struct Producer<N: Net>(Rc<Handle<N>>);

impl<N: Net> Clone for Producer<N> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

struct Handle<N: Net> {
    sender: Rc<Sender<N>>,
    partitioner: Rc<RefCell<dyn Partitioner>>,
    is_closed: Cell<bool>,
}

impl<N: Net> Drop for Handle<N> {
    fn drop(&mut self) {
        self.sender.stop();
    }
}

impl<N: Net> Producer<N> {
    /// A producer that places keyed records as Java's clients do and the others in sticky turns.
    #[must_use]
    pub fn new(client: &Client<N>, options: ProducerOptions) -> Self {
        let sticky = StickyPartitioner::new(client.random());
        Self::with_partitioner(client, options, KeyHashPartitioner::new(sticky))
    }

    /// A producer with a partitioner of the caller's choice.
    #[must_use]
    pub fn with_partitioner(
        client: &Client<N>,
        mut options: ProducerOptions,
        partitioner: impl Partitioner + 'static,
    ) -> Self {
        if options.transaction.is_some() {
            options.acks = Acks::All;
            options.idempotence = true;
        }
        let accumulator = Accumulator::new(options.rules(client));
        let partitioner: Rc<RefCell<dyn Partitioner>> = Rc::new(RefCell::new(partitioner));
        let sender = Sender::new(client, options, accumulator, Rc::clone(&partitioner));
        let sender = Rc::new(sender);
        let task = Rc::clone(&sender).run();
        client.net().spawn(TaskClass::Request, task);
        Self(Rc::new(Handle {
            sender,
            partitioner,
            is_closed: Cell::new(false),
        }))
    }

    /// Takes a record; waits for the topic's metadata (the first time) and for memory (when the bound is reached).
    ///
    /// The order of records of one partition is the order in which their `send` is polled to its end.
    ///
    /// # Errors
    /// The topic does not exist, no partition was chosen, the record is too large, no memory came free in time, or the
    /// producer is closed. What happens later is told by the [`Delivery`].
    ///
    /// # Cancel safety
    /// Dropping the future takes no record.
    pub async fn send(&self, record: ProducerRecord) -> Result<Delivery, ClientError> {
        let sender = &self.0.sender;
        if self.0.is_closed.get() {
            return Err(ClientError::Closed { what: "producer" });
        }
        sender.check_transaction()?;
        let record_bytes_max = Accumulator::record_bytes_max(&record);
        if sender.options.max_request_bytes < record_bytes_max {
            return Err(ClientError::RecordTooLarge {
                topic: record.topic,
                size_bytes: record_bytes_max,
                size_bytes_max: sender.options.max_request_bytes,
            });
        }
        sender.give_way(record_bytes_max).await;
        let topic = sender.topic(&record.topic).await?;
        if !sender.has_room(record_bytes_max) {
            self.wait_for_room(&record.topic, record_bytes_max).await?;
        }
        let partition = self.partition(&record, &topic)?;
        sender.join_transaction(&record.topic, partition).await?;
        Ok(sender.append(&record, partition))
    }

    /// Waits until every record sent before this call is settled; lingering ends at once.
    ///
    /// # Errors
    /// The first failure of a record since the last call, whether or not its delivery was awaited.
    pub async fn flush(&self) -> Result<(), ClientError> {
        self.0.sender.flush().await
    }

    /// Flushes, and takes no more records (of any clone).
    ///
    /// # Errors
    /// As [`Producer::flush`].
    pub async fn close(self) -> Result<(), ClientError> {
        self.0.is_closed.set(true);
        let outcome = self.flush().await;
        self.0.sender.stop();
        outcome
    }

    /// Bytes of records that are not settled.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.0.sender.buffered_bytes()
    }

    async fn wait_for_room(&self, topic: &Str, size_bytes: usize) -> Result<(), ClientError> {
        let sender = &self.0.sender;
        let after_ms = sender.options.max_block_ms;
        let net = sender.client.net();
        let deadline = net.now().plus_ms(after_ms);
        let room = sender.changed.until(|| {
            if sender.is_stopped() {
                return Some(Err(ClientError::Closed { what: "producer" }));
            }
            sender.has_room(size_bytes).then_some(Ok(()))
        });
        let timed_out = Err(ClientError::TimedOut {
            operation: "waiting for buffer memory for",
            object: topic.clone(),
            after_ms,
        });
        before(net, deadline, room).await.unwrap_or(timed_out)
    }

    fn partition(
        &self,
        record: &ProducerRecord,
        topic: &TopicMetadata,
    ) -> Result<i32, ClientError> {
        let chosen = record.partition.or_else(|| {
            self.0
                .partitioner
                .borrow_mut()
                .partition(&PartitionRequest {
                    topic,
                    key: record.key.as_deref(),
                    value: record.value.as_deref(),
                })
        });
        match chosen {
            Some(partition) if topic.partition(partition).is_some() => Ok(partition),
            partition => Err(ClientError::NoPartition {
                topic: topic.name.clone(),
                partition,
                count: topic.partitions.len(),
            }),
        }
    }
}
