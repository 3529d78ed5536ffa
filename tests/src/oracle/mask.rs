//! What two brokers may say differently: ids, times, addresses, sizes, words, and what other sequences left behind.
//!
//! Invariants:
//! 1. An id that the broker has given within the sequence becomes the name it was learned by, so that the *same* id is
//!    demanded; any other id only has to be there.
//! 2. Defaults (−1, 0, empty, null) are never masked: "nothing" and "something" stay apart.
//! 3. The mask sees one answer at a time and knows nothing of the other broker.

use std::collections::BTreeMap;

use kafka_protocol::messages::ApiKey;
use pelton_protocol::api;

use super::records;
use super::value::Value;
use crate::batch::now_ms;

/// The mask of one answer.
#[derive(Debug)]
pub struct Mask<'a> {
    /// The API.
    pub api: ApiKey,
    /// What the sequence's names begin with.
    pub prefix: &'a str,
    /// What the broker has said in the sequence.
    pub learned: &'a BTreeMap<String, Value>,
}

/// Fields that are the broker's own affair.
const DROPPED: [&str; 20] = [
    "throttle_time_ms",
    "error_message",
    "host",
    "port",
    "rack",
    "cluster_id",
    "client_host",
    "batch_index_error_message",
    "documentation",
    "log_dir",
    "total_bytes",
    "usable_bytes",
    "partition_size",
    "finalized_features_epoch",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
    "log_end_offset",
    "coordinator_epoch",
    "node_endpoints",
    "replica_directory_id",
];

/// Fields that hold an id of the broker's making.
const IDS: [&str; 6] =
    ["producer_id", "ongoing_txn_producer_id", "member_id", "leader", "topic_id", "session_id"];

/// Fields that name a broker.
const NODES: [&str; 14] = [
    "node_id",
    "leader_id",
    "broker_id",
    "controller_id",
    "replica_nodes",
    "isr_nodes",
    "offline_replicas",
    "eligible_leader_replicas",
    "last_known_elr",
    "replicas",
    "adding_replicas",
    "removing_replicas",
    "replica_id",
    "preferred_read_replica",
];

/// Lists that tell of everything there is, and the field that names it.
const EVERYTHING: [(ApiKey, &str, &str); 5] = [
    (ApiKey::ListGroups, "groups", "group_id"),
    (ApiKey::Metadata, "topics", "name"),
    (ApiKey::ListTransactions, "transaction_states", "transactional_id"),
    (ApiKey::ListConfigResources, "config_resources", "resource_name"),
    (ApiKey::DescribeLogDirs, "topics", "name"),
];

impl Mask<'_> {
    /// The answer with everything that may differ put out of sight.
    #[must_use]
    pub fn apply(&self, request: &Value, answer: &Value) -> Value {
        let names_topics = request.each("topics").next().is_some();
        if self.api == ApiKey::DescribeTopicPartitions && !names_topics {
            // The first partitions of all topics: which they are depends on what other sequences left.
            return Value::Null;
        }
        self.value("", answer, self.api != ApiKey::Metadata || !names_topics)
    }

    fn value(&self, field: &str, value: &Value, lists_all: bool) -> Value {
        if let Some(masked) = self.id(field, value) {
            return masked;
        }
        match value {
            Value::Struct(fields) => {
                let kept = fields.iter().filter(|(name, _)| !self.is_dropped(name));
                let masked = kept.map(|(name, value)| (*name, self.field(name, value, lists_all)));
                Value::Struct(masked.collect())
            }
            Value::List(items) => {
                let items = items.iter().filter(|item| !lists_all || self.is_ours(field, item));
                Value::List(items.map(|item| self.value(field, item, lists_all)).collect())
            }
            Value::Text(text) if field == "client_id" || text.contains(self.prefix) => {
                Value::Text(text.replace(self.prefix, "~"))
            }
            Value::Int(time) if is_time(field) && (time - now_ms()).abs() < 3_600_000 => {
                Value::text("<now>")
            }
            other => other.clone(),
        }
    }

    fn field(&self, name: &str, value: &Value, lists_all: bool) -> Value {
        match value {
            Value::Bytes(bytes) if name == "records" => {
                self.value(name, &Value::List(records::headers(bytes)), false)
            }
            other => self.value(name, other, lists_all),
        }
    }

    fn is_dropped(&self, name: &str) -> bool {
        let of_quorum = self.api == ApiKey::DescribeQuorum;
        DROPPED.contains(&name)
            || of_quorum && matches!(name, "high_watermark" | "leader_epoch" | "listeners")
    }

    /// Whether an element of a list of everything is the sequence's.
    fn is_ours(&self, list: &str, item: &Value) -> bool {
        if self.api == ApiKey::ApiVersions && list == "api_keys" {
            // Which APIs are not served is written down elsewhere.
            let key = item.int("api_key").and_then(|key| i16::try_from(key).ok());
            return key.is_some_and(|key| api::row(key).is_some());
        }
        let named = EVERYTHING.iter().find(|(api, field, _)| *api == self.api && *field == list);
        named
            .is_none_or(|(_, _, name)| item.str(name).is_none_or(|text| text.contains(self.prefix)))
    }

    fn id(&self, field: &str, value: &Value) -> Option<Value> {
        let is_nothing = match value {
            Value::Int(number) => *number < 0 || *number == 0 && field == "session_id",
            Value::Text(text) => text.is_empty(),
            Value::Uuid(id) => *id == [0; 16],
            _ => true,
        };
        if is_nothing {
            return None;
        }
        if NODES.contains(&field) {
            return (self.learned.get("node") == Some(value)).then(|| Value::text("<node>"));
        }
        if !IDS.contains(&field) {
            return None;
        }
        let slots = self.learned.iter().filter(|(slot, _)| is_id_slot(slot, field));
        let known = slots.filter(|(_, known)| *known == value).map(|(slot, _)| slot).next();
        if known.is_none() && matches!(value, Value::Text(text) if text.contains(self.prefix)) {
            return None;
        }
        Some(Value::Text(known.map_or_else(|| "<given>".to_owned(), |slot| format!("<{slot}>"))))
    }
}

/// Whether a slot can be what an id of this field is known by.
fn is_id_slot(slot: &str, field: &str) -> bool {
    let kind = slot.split(' ').next().unwrap_or_default();
    match field {
        "producer_id" | "ongoing_txn_producer_id" => kind == "pid",
        "topic_id" => kind == "id",
        "session_id" => kind == "session",
        _ => kind == "member",
    }
}

fn is_time(field: &str) -> bool {
    field.ends_with("timestamp") || field.ends_with("time_ms")
}
