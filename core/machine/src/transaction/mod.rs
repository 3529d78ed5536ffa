//! The transactional ids of one partition of `__transaction_state`: a coordinator, sans-IO.
//!
//! [`TransactionShard`] is one such partition. Its owner loads it ([`TransactionShard::replay`] for each record of the log, then
//! [`TransactionShard::loaded`]), hands it requests ([`TransactionShard::decide`]), tells it of markers that were written
//! ([`TransactionShard::marked`]) and wakes it at [`TransactionShard::next_deadline`] ([`TransactionShard::tick`]). Each gives a
//! [`Decision`]: records to append as one batch, and what may be done once those records, and all records of earlier decisions, are
//! durable: replies that leave, markers that are written. When an append fails or leadership goes, [`TransactionShard::resign`] answers
//! whoever waits and the state is thrown away: what is durable is loaded again, here or elsewhere.
//!
//! A transaction is open from the first partition that is added to it. It ends in two steps: a record says how (`PrepareCommit`,
//! `PrepareAbort`), from when on nothing can change that; then every partition gets its marker, and a record says that all have one
//! (`CompleteCommit`, `CompleteAbort`). Whoever loads the first without the second writes the markers again.
//!
//! Invariants:
//! 1. Hard state is what the records say, and only `replay` changes it, also on the live path, so that a restart arrives at the same
//!    state. Soft state is the epoch before the last, who waits for the end of a transaction, and which partitions have their marker.
//! 2. No marker is asked for before the record that decided it is durable, none after `Complete*`.
//! 3. A transactional id has one producer id and epoch at a time; an epoch never goes back, and one that is about to be exhausted makes
//!    room for another producer id. Whoever has an older one is refused.
//! 4. The epoch 2¹⁵−1 is never given to a producer, so that there is always one left to fence it with.
//! 5. Everything a client can grow is bounded: ids for each partition, partitions for each transaction.
//!
//! Not here: who leads the partition, whether topics exist, authorisation, wire forms, how markers get to their partitions.
//! Source: KIP-98, KIP-360, KIP-588, KIP-664, KIP-890, KIP-994, behaviour of Apache Kafka 4.3.

mod admin;
mod command;
mod end;
mod expire;
mod init;
mod partitions;
mod shard;
mod state;
mod terms;

pub use command::{
    AddMode, AddPartitions, Command, DescribedTransaction, EndTxn, InitProducerId,
    ListTransactions, ListedTransaction, Marked, PartitionCodes, Reply,
};
pub use pelton_model::coordinator::{Now, Token, partition_of};
pub use shard::{Decision, TransactionShard};
pub use state::{State, TransactionGauges};
pub use terms::{EndCause, Ended, Markers, Terms};
