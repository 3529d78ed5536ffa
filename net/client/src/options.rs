//! How a client behaves towards the cluster as a whole.

use std::collections::BTreeMap;

use pelton_protocol::codec::Str;

use crate::address::Address;

/// Settings of a [`crate::Client`]; the defaults are those of Kafka's clients.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// How the client names itself to brokers.
    pub client_id: Str,
    /// How long an answer may take, in milliseconds.
    pub request_timeout_ms: u64,
    /// How long a connection may take to be made, in milliseconds.
    pub connect_timeout_ms: u64,
    /// How long an operation may take with all its retries (metadata, administration), in milliseconds.
    pub operation_timeout_ms: u64,
    /// The age at which metadata is asked for again, in milliseconds.
    pub metadata_max_age_ms: u64,
    /// The first wait before another attempt to connect, in milliseconds.
    pub reconnect_backoff_ms: u64,
    /// The longest such wait, in milliseconds.
    pub reconnect_backoff_ms_max: u64,
    /// The first wait before another try of a request, in milliseconds.
    pub retry_backoff_ms: u64,
    /// The longest such wait, in milliseconds.
    pub retry_backoff_ms_max: u64,
    /// Whether producing to a topic that does not exist may create it (if the broker creates topics at all).
    pub allow_auto_topic_creation: bool,
    /// Where brokers are reached instead of where they say: for tunnels and proxies.
    pub reroute: BTreeMap<Address, Address>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            client_id: Str::new_static("pelton-client"),
            request_timeout_ms: 30_000,
            connect_timeout_ms: 10_000,
            operation_timeout_ms: 60_000,
            metadata_max_age_ms: 300_000,
            reconnect_backoff_ms: 50,
            reconnect_backoff_ms_max: 1_000,
            retry_backoff_ms: 100,
            retry_backoff_ms_max: 1_000,
            allow_auto_topic_creation: true,
            reroute: BTreeMap::new(),
        }
    }
}
