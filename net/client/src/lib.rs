//! A small pipelined Kafka client on `trait Net`: for the command line, tests, load generation and replication.
//!
//! 1. One thread: everything is `!Send`, shares by `Rc`, and never holds a borrow across an await.
//! 2. Everything is bounded ([`limits`]): frames, requests in flight, buffered records, retries by time.
//! 3. What decides (accumulator, sequences, partitioners, positions, back-off) is pure and apart from what talks.
//! 4. Answers are matched by order *and* correlation id; a mismatch closes the connection.
//!
//! It has no authentication or TLS.
//! Start with [`Client::connect`]; then [`Admin`], [`Producer`], [`Consumer`], [`GroupConsumer`], or [`Client::connection_to`] for raw calls.

#![forbid(unsafe_code)]

mod address;
mod admin;
mod chores;
mod client;
mod configs;
mod connection;
mod consumer;
mod coordinator;
mod error;
mod group;
pub mod limits;
mod metadata;
mod options;
mod producer;
mod retry;
mod time;
mod transaction;
mod versions;
mod wait;

pub use address::Address;
pub use admin::{Admin, ClusterDescription, CreatedTopic, ListedOffset, NewTopic, OffsetQuery};
pub use client::{Client, Leader};
pub use configs::{ConfigChange, ConfigEntry, ConfigResource};
pub use connection::{Connection, Reply};
pub use consumer::{
    ConsumedRecord, Consumer, ConsumerOptions, IsolationLevel, OffsetReset, PartitionPosition,
    Position,
};
pub use error::{ClientError, IoFailure};
pub use group::{
    CommittedOffset, GroupConsumer, GroupDescription, GroupListing, GroupMember, GroupOptions,
    TopicPartitions, decode_assignment,
};
pub use metadata::{Broker, PartitionMetadata, TopicMetadata};
pub use options::ClientOptions;
pub use pelton_protocol::codec::Str;
pub use producer::{
    Acks, Delivery, ExplicitPartitioner, GroupMetadata, KeyHashPartitioner, PartitionRequest,
    Partitioner, Producer, ProducerOptions, ProducerRecord, RecordMetadata, RoundRobinPartitioner,
    StickyPartitioner, TransactionOptions, key_partition, murmur2,
};
pub use transaction::{TransactionDescription, TransactionListing};
