//! Tests of the codec as a whole: against Kafka's schemas, against another implementation, and against hostile bytes.
//!
//! One binary, so that the oracle is linked once. Bytes are generated from the schema tables by code of its own
//! (`generate`), not by the encoder under test.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod framing;
mod generate;
mod hostile;
mod oracle;
mod round_trip;
mod schemas;
