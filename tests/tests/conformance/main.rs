//! Unmodified Kafka clients against the real binary.
//!
//! Goal: what works with Apache Kafka works here, byte for byte. Method: each client produces, consumes by assignment and
//! administers topics in its own way; the same tests pass against Apache Kafka 4.3.1 (`PELTON_TEST_BROKER`).

mod java;
mod kcat;
mod librdkafka;
mod python;
