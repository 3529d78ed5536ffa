//! The transaction coordinator from outside: tables of what Kafka does, and a model of what must always hold.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod ends;
mod harness;
mod lifecycle;
mod model;
mod owners;
