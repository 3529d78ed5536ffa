//! The group coordinator from outside: tables of what Kafka does, and models of what must always hold.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod classic;
mod consumer;
mod consumer_model;
mod harness;
mod lifecycle;
mod model;
mod offsets;
mod transactions;
