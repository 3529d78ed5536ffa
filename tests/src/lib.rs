//! The harness of Pelton's tests: it starts the real binary, speaks to it in raw bytes, and finds other people's clients.
//!
//! Invariants:
//! 1. Nothing here, save the simulator and the load programs, uses Pelton's own codec or batch code to build what is sent: what the broker
//!    understands is checked against bytes that were laid out by hand, and its answers are read by the `kafka-protocol` crate (by the
//!    oracle: by the schema tables, whose agreement with Kafka's is tested elsewhere).
//! 2. Every wait has a deadline, every port is picked by the kernel, and a started process is ended by its id when its
//!    handle is dropped, whatever the test did.
//! 3. `PELTON_TEST_BROKER=host:port` points the same tests at a running Apache Kafka: a test that fails there is wrong.

pub mod admin;
pub mod answer;
pub mod batch;
pub mod broker;
pub mod librdkafka;
pub mod load;
pub mod oracle;
pub mod peer;
pub mod prometheus;
pub mod raw;
pub mod request;
pub mod sim;
pub mod table;
pub mod topic;
pub mod transactional;
pub mod volume;
pub mod wire;
