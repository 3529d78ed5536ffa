//! The door to the broker: the one place that knows how it is started.
//!
//! The broker is not part of this crate's dependencies yet; until it is, a start says so and fails.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use pelton_model::config::broker::BrokerConfig;

/// Told the bound addresses, in the order of the listeners, when clients can connect.
pub(super) type OnListening = Box<dyn FnOnce(&[SocketAddr]) + Send>;

/// How the shards are placed, and who is told when they serve.
pub(super) struct ServeOptions {
    /// One shard per entry.
    pub(super) cores: Vec<usize>,
    /// Whether each is pinned to its core.
    pub(super) pinned: bool,
    /// How long an idle pinned shard looks for work before it sleeps.
    pub(super) spin: Duration,
    /// Called once.
    pub(super) on_listening: OnListening,
}

/// Why the broker ended.
#[derive(Debug)]
pub(super) struct BootError;

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this build of pelton has no broker in it")
    }
}

/// Runs the broker until it is asked to stop.
pub(super) fn run(config: BrokerConfig, options: ServeOptions) -> Result<(), BootError> {
    drop(config);
    let ServeOptions {
        cores,
        pinned,
        spin,
        on_listening,
    } = options;
    drop((cores, pinned, spin, on_listening));
    Err(BootError)
}
