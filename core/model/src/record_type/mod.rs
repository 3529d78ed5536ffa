//! Records that Kafka keeps in its own logs, as plain data: cluster metadata, the control records of
//! KRaft, the groups and offsets of `__consumer_offsets`, and the transactions of `__transaction_state`.
//!
//! Field names are Kafka's in snake_case and values are the wire's integers, so that a record here, its schema and a
//! dump of it by Kafka's tools read alike. Codecs live in `pelton-protocol`; machines replay these structs.

pub mod control;
pub mod group;
pub mod metadata;
pub mod transaction;
