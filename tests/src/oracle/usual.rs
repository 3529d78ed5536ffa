//! What fields usually hold, by their names, and what is odd for their kinds.

use std::collections::BTreeMap;

use kafka_protocol::messages::ApiKey;
use pelton_protocol::codec::{Field, Kind, Table};

use super::records::{Defect, Spec};
use super::step::Step;
use super::value::{self, Value};
use crate::sim::random::Random;

/// The state of a sequence that is being made.
#[derive(Debug)]
pub struct Usual {
    /// Chance.
    pub random: Random,
    /// The group of the step.
    pub group: String,
    /// The transactional id of the step.
    pub transaction: String,
    /// The connection of the step.
    pub actor: usize,
    /// Whether the sequence is about transactions.
    pub is_transactional: bool,
    /// Whether the sequence is about consumer groups.
    pub is_consumer: bool,
    /// Whether only what should be granted is chosen.
    pub is_careful: bool,
    /// The next sequence number by producer, topic and partition, as far as all went well.
    sequences: BTreeMap<(String, String, i64), i32>,
    /// The version of the step.
    version: i16,
}

/// Settings of topics, and values that are good or bad for them.
const TOPIC_SETTINGS: [(&str, &[&str]); 18] = [
    ("retention.ms", &["60000", "-1", "-2", "x", ""]),
    ("retention.bytes", &["1000000", "-1", "1.5", "-5"]),
    ("cleanup.policy", &["compact", "delete", "compact,delete", "shred", " compact", ""]),
    ("segment.bytes", &["1048576", "13", "100000000000"]),
    ("segment.ms", &["1000", "0", "-1"]),
    ("max.message.bytes", &["1000000", "80", "-1", "0"]),
    ("min.insync.replicas", &["1", "2", "0", "one"]),
    ("compression.type", &["zstd", "gzip", "producer", "snap", "uncompressed"]),
    ("message.timestamp.type", &["LogAppendTime", "CreateTime", "logappendtime"]),
    ("message.timestamp.after.max.ms", &["1000", "-1", "9223372036854775807"]),
    ("message.timestamp.before.max.ms", &["1000", "-1"]),
    ("min.cleanable.dirty.ratio", &["0.1", "1.1", "-0.1", "x", "1"]),
    ("flush.messages", &["1", "0", "9223372036854775807"]),
    ("unclean.leader.election.enable", &["true", "false", "TRUE", "yes"]),
    ("delete.retention.ms", &["100", "-1"]),
    ("compression.zstd.level", &["3", "99", "-131073"]),
    ("follower.replication.throttled.replicas", &["*", "0:1", "x"]),
    ("no.such.setting", &["1"]),
];

/// Settings of groups.
const GROUP_SETTINGS: [(&str, &[&str]); 4] = [
    ("consumer.session.timeout.ms", &["50000", "1", "x"]),
    ("consumer.heartbeat.interval.ms", &["6000", "1", "-1"]),
    ("share.session.timeout.ms", &["50000"]),
    ("no.such.setting", &["1"]),
];

/// Settings of client metrics.
const METRIC_SETTINGS: [(&str, &[&str]); 4] = [
    ("interval.ms", &["1000", "50", "x"]),
    ("metrics", &["org.apache.kafka", "*", ""]),
    ("match", &["client_id=a.*", "a", "x=y"]),
    ("no.such.setting", &["1"]),
];

impl Usual {
    /// A sequence's beginning.
    #[must_use]
    pub fn new(random: Random) -> Self {
        let empty = String::new();
        Self {
            random,
            group: empty.clone(),
            transaction: empty,
            actor: 0,
            is_transactional: false,
            is_consumer: false,
            is_careful: false,
            sequences: BTreeMap::new(),
            version: 0,
        }
    }

    /// A place in a list whose first half is good.
    fn place(&mut self, length: usize) -> usize {
        self.random.index(if self.is_careful { length.div_ceil(2) } else { length })
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.place(of.len())]
    }

    fn number(&mut self, of: &[i64]) -> Value {
        Value::Int(of[self.place(of.len())])
    }

    fn flag(&mut self, percent: u64) -> Value {
        Value::Int(i64::from(self.random.percent(percent)))
    }

    /// A request that should be granted where the sequence stands.
    pub fn careful(&mut self, api: ApiKey, version: i16) -> Step {
        let before = std::mem::replace(&mut self.is_careful, true);
        let step = self.same(api, version);
        self.is_careful = before;
        step
    }

    /// A request with fresh choices of group, transaction and connection.
    pub fn step(&mut self, api: ApiKey, version: i16) -> Step {
        let groups: &[&str] = if self.is_consumer {
            &["~c0", "~c0", "~c0", "~c1", "~g0"]
        } else {
            &["~g0", "~g0", "~g0", "~g1"]
        };
        self.group = self.one(groups).to_owned();
        self.transaction = self.one(&["~x0", "~x0", "~x0", "~x1"]).to_owned();
        self.actor = [0, 0, 0, 1][self.random.index(4)];
        self.same(api, version)
    }

    /// A request of the same group, transaction and connection as the last.
    pub fn same(&mut self, api: ApiKey, version: i16) -> Step {
        self.version = version;
        let table = value::table(value::target(api as i16, "Request"));
        Step::plain(api, version, self.actor, self.structure(api, table, version))
    }

    /// Creates the topics that most sequences use.
    pub fn create_topics(&mut self) -> Step {
        let topic = |name: &str, partitions: i64| {
            Value::Struct(vec![
                ("name", Value::text(name)),
                ("num_partitions", Value::Int(partitions)),
                ("replication_factor", Value::Int(1)),
            ])
        };
        let topics = Value::List(vec![topic("~t0", 2), topic("~t1", 1)]);
        Step::plain(ApiKey::CreateTopics, 7, 0, Value::Struct(vec![("topics", topics)]))
    }

    fn structure(&mut self, api: ApiKey, table: &Table, version: i16) -> Value {
        let mut fields = Vec::new();
        for field in table.fields.iter().filter(|field| field.versions.contains(version)) {
            let value = self.field(api, table.name, field, version);
            // A tagged field that has nothing to say is better left out.
            if field.is_inline(version) || value != value::default(field) {
                fields.push((field.name, value));
            }
        }
        let mut value = Value::Struct(fields);
        self.agree(api, table.name, &mut value);
        value
    }

    fn field(&mut self, api: ApiKey, table: &str, field: &Field, version: i16) -> Value {
        if let Some(value) = self.name(api, table, field.name) {
            return value;
        }
        if let Some(value) = self.amount(api, table, field.name) {
            return value;
        }
        let is_nullable = field.nullable.contains(version);
        match field.kind {
            Kind::Array { element } => {
                if is_nullable && self.random.percent(25) {
                    return Value::Null;
                }
                let count = [1, 1, 1, 1, 2, 2, 0][self.place(7)];
                Value::List(
                    (0..count).map(|_| self.element(api, field, element, version)).collect(),
                )
            }
            Kind::Struct { .. } => value::default(field),
            Kind::Bool => self.flag(30),
            _ => value::default(field),
        }
    }

    fn element(&mut self, api: ApiKey, field: &Field, kind: &Kind, version: i16) -> Value {
        match (kind, field.name) {
            (Kind::Struct { table }, _) => self.structure(api, table, version),
            (Kind::String, "groups" | "group_ids" | "groups_names") => self.group(),
            (Kind::String, "topic_names" | "subscribed_topic_names") => self.topic(),
            (Kind::String, "transactional_ids") => Value::text(&self.transaction),
            (Kind::String, "coordinator_keys") => self.group(),
            (Kind::String, "states_filter") => {
                Value::text(self.one(&["Stable", "Empty", "Dead", "stable", "Nonsense"]))
            }
            (Kind::String, "types_filter") => Value::text(self.one(&["consumer", "classic", "x"])),
            (Kind::String, "state_filters") => {
                Value::text(self.one(&["Ongoing", "Empty", "CompleteCommit", "ongoing", "x"]))
            }
            (Kind::String, "configuration_keys") => {
                let at = self.random.index(TOPIC_SETTINGS.len());
                Value::text(TOPIC_SETTINGS[at].0)
            }
            (Kind::Int8, "resource_types") => self.number(&[2, 4, 8, 16, 32, 0, 1, 99]),
            (Kind::Int32, "replicas" | "broker_ids") => self.broker(),
            (Kind::Int32, _) => self.number(&[0, 0, 0, 1, 2]),
            (Kind::Int64, _) => Value::Slot(format!("pid {}", self.transaction)),
            (Kind::String, _) => Value::text("a"),
            _ => Value::Int(0),
        }
    }

    fn broker(&mut self) -> Value {
        if self.random.percent(80) { Value::Slot("node".to_owned()) } else { Value::Int(77) }
    }

    fn group(&mut self) -> Value {
        let other = !self.is_careful && self.random.percent(15);
        Value::text(if other { "~none" } else { &self.group })
    }

    fn topic(&mut self) -> Value {
        Value::text(self.one(&["~t0", "~t0", "~t0", "~t0", "~t1", "~t1", "~none"]))
    }

    /// Fields that name something.
    fn name(&mut self, api: ApiKey, table: &str, field: &str) -> Option<Value> {
        Some(match (api, table, field) {
            (_, "AlterableConfig" | "CreatableTopicConfig", "name") => Value::text("?"),
            (ApiKey::JoinGroup, "JoinGroupRequestProtocol", "name") => {
                Value::text(self.one(&["range", "range", "roundrobin"]))
            }
            (_, "DeleteTopicState", "name") => {
                if self.random.percent(60) {
                    self.topic()
                } else {
                    Value::Null
                }
            }
            (ApiKey::Metadata, _, "name") => self.topic(),
            (_, _, "name" | "topic" | "topic_name") => self.topic(),
            (_, _, "topic_id") => {
                let name = self.one(&["~t0", "~t0", "~t0", "~t1", "~none"]);
                Value::Slot(format!("id {name}"))
            }
            (_, _, "group_id") => Value::text(&self.group),
            (ApiKey::FindCoordinator, _, "key") => Value::text(&self.group),
            (ApiKey::Produce, _, "transactional_id") => {
                if self.is_transactional {
                    Value::text(&self.transaction)
                } else {
                    Value::Null
                }
            }
            (ApiKey::InitProducerId, _, "transactional_id") => {
                if self.is_transactional || self.random.percent(20) {
                    Value::text(&self.transaction)
                } else {
                    Value::Null
                }
            }
            (_, _, "transactional_id" | "v3_and_below_transactional_id") => {
                Value::text(&self.transaction)
            }
            _ => return self.id(api, table, field).or_else(|| self.word(api, field)),
        })
    }

    /// Fields that hold what the broker has given.
    fn id(&mut self, api: ApiKey, table: &str, field: &str) -> Option<Value> {
        Some(match (api, table, field) {
            (ApiKey::InitProducerId, _, "producer_id" | "producer_epoch")
                if self.random.percent(60) =>
            {
                Value::Int(-1)
            }
            (_, _, "producer_id" | "v3_and_below_producer_id") => {
                Value::Slot(format!("pid {}", self.transaction))
            }
            (_, _, "producer_epoch" | "v3_and_below_producer_epoch") => {
                Value::Slot(format!("epoch {}", self.transaction))
            }
            (ApiKey::TxnOffsetCommit, _, "member_id") => Value::text(""),
            (ApiKey::TxnOffsetCommit, _, "generation_id") => Value::Int(-1),
            (ApiKey::OffsetFetch, _, "member_id") if self.random.percent(50) => Value::Null,
            (ApiKey::OffsetFetch, _, "member_epoch") if self.random.percent(50) => Value::Int(-1),
            (ApiKey::ConsumerGroupHeartbeat, _, "member_id") if self.is_careful => {
                Value::Text(format!("~m{}", self.actor))
            }
            (_, _, "member_id") => Value::Slot(format!("member {} {}", self.group, self.actor)),
            (_, _, "member_epoch") => {
                Value::Slot(format!("generation {} {}", self.group, self.actor))
            }
            (ApiKey::OffsetCommit, _, "generation_id_or_member_epoch") if self.is_consumer => {
                Value::Slot(format!("generation {} {}", self.group, self.actor))
            }
            (_, _, "generation_id" | "generation_id_or_member_epoch") => {
                Value::Slot(format!("generation {}", self.group))
            }
            (_, _, "group_instance_id" | "instance_id") => match self.random.below(8) {
                0 if !self.is_careful => Value::text("~i0"),
                _ => Value::Null,
            },
            _ => return None,
        })
    }

    /// Fields that hold a word.
    fn word(&mut self, api: ApiKey, field: &str) -> Option<Value> {
        Some(match (api, "", field) {
            (ApiKey::SyncGroup, _, "protocol_type") => Value::text("consumer"),
            (ApiKey::SyncGroup, _, "protocol_name") => Value::text("range"),
            (_, _, "protocol_type") => Value::text("consumer"),
            (_, _, "metadata" | "assignment") => Value::Bytes(vec![0, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
            (_, _, "server_assignor") => match self.random.below(5) {
                0 if !self.is_careful => Value::text(self.one(&["range", "uniform", "none"])),
                _ => Value::Null,
            },
            (_, _, "subscribed_topic_regex") => match self.random.below(8) {
                0 if !self.is_careful => Value::text(self.one(&["~t.*", "(", ""])),
                _ => Value::Null,
            },
            (_, _, "path") => Value::text(self.one(&["/nowhere", "relative", ""])),
            (_, _, "feature") => Value::text(self.one(&[
                "metadata.version",
                "no.such",
                "group.version",
                "kraft.version",
            ])),
            (_, _, "transactional_id_pattern") => match self.random.below(3) {
                0 => Value::text(self.one(&["~x.*", "(", ""])),
                _ => Value::Null,
            },
            (_, _, "client_software_name") => Value::text(self.one(&["tests", "tests", "-x", ""])),
            (_, _, "client_software_version") => Value::text("1.0"),
            (_, _, "resource_name" | "principal") => Value::text("~t0"),
            (_, _, "committed_metadata") => match self.random.below(3) {
                0 => Value::Null,
                1 => Value::text(""),
                _ => Value::text("note"),
            },
            (_, _, "broker_id") => Value::Int(999),
            (_, _, "records") => Value::Batch(self.batches()),
            (ApiKey::ConsumerGroupHeartbeat, _, "topic_partitions") if self.is_careful => {
                Value::Null
            }
            _ => return None,
        })
    }

    /// Fields that are an amount, a place or a choice.
    fn amount(&mut self, api: ApiKey, table: &str, field: &str) -> Option<Value> {
        Some(match (api, table, field) {
            (ApiKey::CreateTopics, _, "num_partitions") => self.number(&[1, 2, 3, -1, 0]),
            (ApiKey::CreateTopics, _, "replication_factor") => self.number(&[1, 1, 1, -1, 2, 0]),
            (ApiKey::CreateTopics, _, "assignments") if self.random.percent(80) => {
                Value::List(Vec::new())
            }
            (ApiKey::CreateTopics, _, "configs") if self.random.percent(50) => {
                Value::List(Vec::new())
            }
            (ApiKey::CreatePartitions, _, "count") => self.number(&[3, 4, 1, 2, 0]),
            (ApiKey::CreatePartitions, _, "assignments") if self.random.percent(70) => Value::Null,
            (_, _, "validate_only") => self.flag(15),
            (_, _, "timeout_ms") => Value::Int(10_000),
            (_, _, "transaction_timeout_ms") => {
                self.number(&[60_000, 60_000, 60_000, 0, -1, 2_000_000_000])
            }
            (_, _, "session_timeout_ms") => {
                self.number(&[10_000, 10_000, 10_000, 10_000, 1, 2_000_000])
            }
            (_, _, "rebalance_timeout_ms") => Value::Int(8_000),
            (_, _, "acks") => self.number(&[-1, -1, -1, 1, 1, 0, 2]),
            (_, _, "isolation_level") => self.number(&[0, 1]),
            (_, _, "current_leader_epoch") => self.number(&[-1, -1, -1, 0, 1]),
            (_, _, "leader_epoch") => self.number(&[0, 0, 1, -1, 5]),
            (ApiKey::OffsetForLeaderEpoch, _, "replica_id") => Value::Int(-1),
            (ApiKey::ListOffsets, _, "replica_id") => Value::Int(-1),
            (_, _, "timestamp") => self.number(&[-1, -2, -1, -2, -3, -4, -5, 0, 1_000_000, -6]),
            (_, _, "partition_index" | "partition" | "index") => {
                self.number(&[0, 0, 0, 1, 1, 2, -1])
            }
            (ApiKey::DeleteRecords, _, "offset") => self.number(&[-1, 0, 1, 2, 100, -2]),
            (_, _, "committed_offset") => self.number(&[0, 5, 5, 9, -1]),
            (_, _, "committed_leader_epoch") => self.number(&[-1, 0, 3]),
            (ApiKey::FindCoordinator, _, "key_type") => self.number(&[0, 0, 0, 1, 1, 2, 3]),
            (_, _, "config_operation") => self.number(&[0, 0, 0, 1, 2, 3, 9]),
            (ApiKey::DescribeConfigs, _, "resource_type") => self.number(&[2, 2, 2, 32, 16, 0, 99]),
            (ApiKey::AlterConfigs | ApiKey::IncrementalAlterConfigs, _, "resource_type") => {
                self.number(&[2, 2, 2, 2, 32, 16, 0, 99])
            }
            (_, _, "election_type") => self.number(&[0, 1, 2]),
            (_, _, "response_partition_limit") => self.number(&[2000, 1, 2, 0, -1]),
            (_, _, "endpoint_type") => self.number(&[1, 1, 1, 2, 0]),
            (_, _, "max_version_level") => self.number(&[1, 7, 99, -1, 0]),
            (_, _, "upgrade_type") => self.number(&[1, 2, 3, 0]),
            (_, _, "resource_pattern_type" | "pattern_type_filter") => self.number(&[3, 1, 0]),
            (_, _, "resource_type" | "resource_type_filter") => self.number(&[2, 1, 0]),
            (_, _, "operation" | "permission_type") => self.number(&[3, 1, 0]),
            (ApiKey::ListTransactions, _, "state_filters" | "producer_id_filters")
                if self.random.percent(60) =>
            {
                Value::List(Vec::new())
            }
            (_, _, "duration_filter") => self.number(&[-1, -1, 0, 1_000_000]),
            (ApiKey::Fetch, ..) => return self.fetch(field),
            _ => return None,
        })
    }

    /// The amounts of a Fetch.
    fn fetch(&mut self, field: &str) -> Option<Value> {
        Some(match field {
            "max_wait_ms" => self.number(&[0, 20]),
            "min_bytes" => self.number(&[0, 1]),
            "max_bytes" => self.number(&[1_000_000, 1_000_000, 100, 0]),
            "partition_max_bytes" => self.number(&[1_000_000, 1_000_000, 100, 0]),
            "session_id" => match self.random.below(3) {
                0 => Value::Slot("session".to_owned()),
                _ => Value::Int(0),
            },
            "session_epoch" => self.number(&[-1, -1, 0, 0, 1, 2]),
            "fetch_offset" => self.number(&[0, 0, 0, 1, 2, 3, 50, -1]),
            "forgotten_topics_data" if self.random.percent(80) => Value::List(Vec::new()),
            _ => return None,
        })
    }

    /// Lets fields of a struct fit each other.
    fn agree(&mut self, api: ApiKey, table: &str, value: &mut Value) {
        match (api, table) {
            (ApiKey::CreateTopics, "CreatableTopic")
                if value.each("assignments").next().is_some() && self.random.percent(80) =>
            {
                value.set("num_partitions", Value::Int(-1));
                value.set("replication_factor", Value::Int(-1));
            }
            (_, "TopicProduceData") => self.number_batches(value),
            (ApiKey::InitProducerId | ApiKey::EndTxn, _) => self.forget_sequences(value),
            (_, "CreatableTopicConfig") => self.setting(value, &TOPIC_SETTINGS),
            (ApiKey::AlterConfigs | ApiKey::IncrementalAlterConfigs, "AlterConfigsResource")
            | (_, "DescribeConfigsResource") => self.resource(value),
            (ApiKey::Metadata, "MetadataRequestTopic") if value.get("topic_id").is_some() => {
                let by_id = self.random.percent(30);
                if by_id {
                    value.set("name", Value::Null);
                } else {
                    value.set("topic_id", Value::Uuid([0; 16]));
                }
            }
            (_, "DeleteTopicState") if value.get("name") != Some(&Value::Null) => {
                value.set("topic_id", Value::Uuid([0; 16]));
            }
            (ApiKey::FindCoordinator, "FindCoordinatorRequest")
                if value.int("key_type") == Some(1) =>
            {
                let id = Value::text(&self.transaction);
                if value.get("key").is_some() {
                    value.set("key", id);
                } else {
                    value.set("coordinator_keys", Value::List(vec![id]));
                }
            }
            (ApiKey::UpdateFeatures, "UpdateFeaturesRequest") => self.harmless(value),
            _ => {}
        }
    }

    /// A feature's level may only be asked about, and where that cannot be said nothing that exists is named.
    fn harmless(&mut self, value: &mut Value) {
        if value.get("validate_only").is_some() {
            value.set("validate_only", Value::Int(1));
            return;
        }
        let unknown = Value::Struct(vec![
            ("feature", Value::text("no.such")),
            ("max_version_level", Value::Int(1)),
        ]);
        value.set("feature_updates", Value::List(vec![unknown]));
    }

    fn resource(&mut self, value: &mut Value) {
        let (name, settings): (&str, &[(&str, &[&str])]) = match value.int("resource_type") {
            Some(32) => ("~g0", &GROUP_SETTINGS[..]),
            Some(16) => ("~metrics", &METRIC_SETTINGS[..]),
            _ => (self.one(&["~t0", "~t0", "~t0", "~t1", "~none"]), &TOPIC_SETTINGS[..]),
        };
        value.set("resource_name", Value::text(name));
        let Value::Struct(fields) = value else { return };
        for (field, inner) in fields {
            if let ("configs", Value::List(configs)) = (*field, inner) {
                configs.iter_mut().for_each(|config| self.setting(config, settings));
            }
        }
    }

    fn setting(&mut self, value: &mut Value, of: &[(&str, &[&str])]) {
        let (name, values) = of[self.place(of.len())];
        value.set("name", Value::text(name));
        let text = match self.random.below(12) {
            _ if self.is_careful => Value::text(values[0]),
            0 => Value::Null,
            // The first is a good one.
            1..=6 => Value::text(values[0]),
            _ => Value::text(self.one(values)),
        };
        value.set("value", text);
    }

    /// Gives a topic's batches the sequence numbers that are due, or others.
    fn number_batches(&mut self, topic: &mut Value) {
        let name = topic.get("name").or(topic.get("topic_id"));
        // By name or by id, it is one topic.
        let name = name.map(ToString::to_string).unwrap_or_default();
        let name = name.trim_start_matches("<id ").trim_matches(['"', '>']).to_owned();
        let Value::Struct(fields) = topic else { return };
        let lists = fields.iter_mut().filter(|(field, _)| *field == "partition_data");
        for (_, list) in lists {
            let Value::List(partitions) = list else { continue };
            for partition in partitions {
                let index = partition.int("index").unwrap_or(0);
                let Value::Struct(fields) = partition else { continue };
                for (_, value) in fields {
                    if let Value::Batch(specs) = value {
                        specs.iter_mut().for_each(|spec| self.number_batch(spec, &name, index));
                    }
                }
            }
        }
    }

    fn number_batch(&mut self, spec: &mut Spec, topic: &str, partition: i64) {
        let key = (spec.producer.clone(), topic.to_owned(), partition);
        let next = self.sequences.get(&key).copied().unwrap_or(0);
        spec.sequence = match self.random.below(10) {
            _ if self.is_careful => next,
            0 => 0,
            1 => next + 5,
            2 => (next - spec.records).max(0),
            _ => next,
        };
        if spec.defect == Defect::None && spec.epoch_step == 0 {
            self.sequences.insert(key, spec.sequence + spec.records);
        }
    }

    /// A new epoch, which the ends of newer transactions bring too, begins at 0.
    fn forget_sequences(&mut self, request: &Value) {
        let is_older_end = request.get("committed").is_some() && self.version < 5;
        if !is_older_end {
            let producer = request.str("transactional_id").unwrap_or("-").to_owned();
            self.sequences.retain(|(of, ..), _| *of != producer);
        }
    }

    fn batches(&mut self) -> Vec<Spec> {
        let producer = match (self.is_transactional, self.random.below(10)) {
            (true, _) if self.is_careful => self.transaction.clone(),
            (true, 0..=8) => self.transaction.clone(),
            (false, 0..=3) => "-".to_owned(),
            _ => String::new(),
        };
        let records = [1, 1, 2, 3][self.random.index(4)];
        let epoch_step = [0, 0, 0, 0, 0, 0, 0, 0, 1, -1][self.place(10)];
        let defect = match self.random.below(10) {
            _ if self.is_careful => Defect::None,
            0..=6 => Defect::None,
            _ => Defect::ALL[self.random.index(Defect::ALL.len())],
        };
        let transactional = self.is_transactional && (self.is_careful || self.random.percent(90));
        let spec = Spec { records, producer, epoch_step, sequence: 0, transactional, defect };
        match self.random.below(30) {
            _ if self.is_careful => vec![spec],
            0 => vec![spec.clone(), spec],
            1 => Vec::new(),
            _ => vec![spec],
        }
    }

    /// Whether a field is never made odd: waits would take too long, or the broker would be changed.
    #[must_use]
    pub fn is_untouchable(&self, api: ApiKey, field: &str) -> bool {
        let waits = matches!(
            field,
            "max_wait_ms"
                | "timeout_ms"
                | "transaction_timeout_ms"
                | "rebalance_timeout_ms"
                | "min_bytes"
        );
        let is_session = field == "session_timeout_ms";
        waits || is_session || matches!(api, ApiKey::UpdateFeatures | ApiKey::UnregisterBroker)
    }

    /// Something odd in place of a value.
    pub fn odd(&mut self, field: &Field, kind: &Kind, old: &Value, is_nullable: bool) -> Value {
        if is_nullable && self.random.percent(30) {
            return Value::Null;
        }
        match kind {
            Kind::Bool => self.number(&[0, 1]),
            // Bigger counts would only cost time, and 4 and 8 are the broker's own settings.
            Kind::Int8 => self.number(&[-1, 0, 1, 3, 64, 99, 127, -128]),
            Kind::Int16 | Kind::Uint16 => self.number(&[-1, 0, 1, 2, 5, 32_767, -32_768]),
            Kind::Int32 => {
                self.number(&[-1, 0, 1, 2, 12, 1_000_000, 2_147_483_647, -2_147_483_648, -2])
            }
            Kind::Int64 => self.number(&[-1, 0, 1, 2, 999, i64::MAX, i64::MIN, -2]),
            Kind::Float64 => Value::Float(-1.0),
            Kind::Uuid => Value::Uuid([[0; 16], [7; 16]][self.random.index(2)]),
            Kind::String => match self.random.below(8) {
                0 => Value::text(""),
                1 => Value::Text(format!("~{}", "x".repeat(300))),
                2 => Value::text("~a b"),
                3 => Value::text(self.one(&[".", ".."])),
                4 => Value::text("~\u{436}"),
                5 => Value::text(self.one(&["~t0", "~t1", "~g0", "~c0", "~x0"])),
                _ => Value::text("~other"),
            },
            Kind::Bytes => {
                Value::Bytes([&[][..], &[1, 2, 3], &[0, 0]][self.random.index(3)].to_vec())
            }
            Kind::Records => {
                Value::Bytes([&[][..], &[1, 2, 3], &[0; 80]][self.random.index(3)].to_vec())
            }
            Kind::Array { .. } => match old {
                Value::List(items) if !items.is_empty() && self.random.percent(60) => {
                    Value::List([&items[..], &items[..1]].concat())
                }
                _ => Value::List(Vec::new()),
            },
            Kind::Struct { .. } => value::default(field),
        }
    }
}
