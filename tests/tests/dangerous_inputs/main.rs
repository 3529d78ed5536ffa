//! Hostile and odd input over a raw socket: Kafka's answer for that partition only, or a closed connection, while every
//! other connection keeps working.
//!
//! Goal: no bytes from a client may stop the broker, another connection, or the healthy part of the same request. Method:
//! tables of (bytes, expected outcome) against the real binary; the same tables hold for Apache Kafka 4.3.1, except
//! where a row says that Pelton is better on purpose. Source: Apache Kafka's answers, observed.

mod administration;
mod configs;
mod cuts;
mod fetch;
mod found;
mod frames;
mod memory;
mod produce;
mod readers;
mod refusals;
mod stored;
mod topics;
