//! The broker: shards, dispatch, handlers, the controller's driver, boot and stop.
//!
//! Generic over one [`env::Env`] (disk, network, mesh): the binary runs it on `transport::ring`. It never invents an offset (machine's partition
//! does) and never touches a file (storage's log does).

#![forbid(unsafe_code)]

mod authorized;
pub mod boot;
pub(crate) mod connection;
pub mod controller;
pub mod coordinator;
pub(crate) mod dispatch;
pub mod env;
mod face;
pub(crate) mod handler;
pub mod loggers;
pub mod metrics;
pub(crate) mod repeats;
pub mod shard;
