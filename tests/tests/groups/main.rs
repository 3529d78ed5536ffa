//! Consumer groups: the tour that introductions to Kafka take, and what survives kill -9.

mod kills;
mod retry;
mod tour;

use std::time::Duration;

use pelton_tests::broker::{Broker, Options};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A broker on which the first rebalance of a group waits for nobody.
fn broker(shards: usize) -> Option<Broker> {
    Broker::start_own(Options {
        shards,
        settings: vec!["group.initial.rebalance.delay.ms=0".to_owned()],
        ..Options::default()
    })
}
