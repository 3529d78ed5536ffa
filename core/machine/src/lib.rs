//! Decisions with history, sans-IO: time, randomness and bytes come in as arguments, effects go out as values.

#![forbid(unsafe_code)]

pub mod connection;
pub mod controller;
pub mod group;
pub mod image;
pub mod partition;
pub mod pattern;
pub mod purgatory;
pub mod session;
pub mod transaction;

pub use connection::budget;
