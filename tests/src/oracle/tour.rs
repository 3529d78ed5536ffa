//! One good request of every version of the APIs of groups, transactions and settings, for `record_frames`.
//!
//! A round is a sequence in which each API speaks one version; fields that a version does not have are left out by the writer.

use kafka_protocol::messages::ApiKey;
use pelton_protocol::api;

use super::records::{Defect, Spec};
use super::step::Step;
use super::value::Value;

/// So many rounds speak every version.
pub const ROUNDS: i16 = 11;

fn fields<const N: usize>(fields: [(&'static str, Value); N]) -> Value {
    Value::Struct(fields.to_vec())
}

fn list<const N: usize>(items: [Value; N]) -> Value {
    Value::List(items.to_vec())
}

fn slot(name: &str) -> Value {
    Value::Slot(name.to_owned())
}

/// The rounds' sequences: of classic groups, of consumer groups, of transactions, of settings.
#[must_use]
pub fn sequences() -> Vec<Vec<Step>> {
    let round = |round| [classic(round), consumer(round), transaction(round), settings(round)];
    (0..ROUNDS).flat_map(round).collect()
}

/// A request in the round's version, or the nearest that there is.
fn step(api: ApiKey, round: i16, body: Value) -> Step {
    let row = api::row(api as i16).expect("the tour asks what is served");
    Step::plain(api, round.clamp(row.min, row.max), 0, body)
}

fn create_topic() -> Step {
    let topic = fields([
        ("name", Value::text("~t0")),
        ("num_partitions", Value::Int(2)),
        ("replication_factor", Value::Int(1)),
    ]);
    Step::plain(ApiKey::CreateTopics, 7, 0, fields([("topics", list([topic]))]))
}

/// A topic by its name or its id, as the version has it, with what is said of partition 0.
fn topics(partitions: &'static str, of: Value) -> Value {
    list([fields([
        ("name", Value::text("~t0")),
        ("topic_id", slot("id ~t0")),
        (partitions, list([of])),
    ])])
}

fn committed() -> Value {
    let partition = [
        ("partition_index", Value::Int(0)),
        ("committed_offset", Value::Int(5)),
        ("committed_leader_epoch", Value::Int(0)),
        ("committed_metadata", Value::text("note")),
    ];
    topics("partitions", fields(partition))
}

fn fetched(group: &str, member: [(&'static str, Value); 2]) -> Value {
    let topics = topics("partition_indexes", Value::Int(0));
    let [id, epoch] = member;
    let of = fields([("group_id", Value::text(group)), ("topics", topics.clone()), id, epoch]);
    fields([("group_id", Value::text(group)), ("topics", topics), ("groups", list([of]))])
}

fn classic(round: i16) -> Vec<Step> {
    let group = || ("group_id", Value::text("~g0"));
    let member = || ("member_id", slot("member ~g0 0"));
    let generation = || ("generation_id", slot("generation ~g0"));
    let subscription = Value::Bytes(vec![0, 1, 0, 0, 0, 1, 0, 1, b't', 255, 255, 255, 255]);
    let protocol = fields([("name", Value::text("range")), ("metadata", subscription)]);
    let join = fields([
        group(),
        member(),
        ("session_timeout_ms", Value::Int(10_000)),
        ("rebalance_timeout_ms", Value::Int(10_000)),
        ("protocol_type", Value::text("consumer")),
        ("protocols", list([protocol])),
        ("reason", Value::text("a tour")),
    ]);
    let assignment = fields([member(), ("assignment", Value::Bytes(vec![0, 1, 0, 0, 0, 0]))]);
    let sync = fields([
        group(),
        generation(),
        member(),
        ("protocol_type", Value::text("consumer")),
        ("protocol_name", Value::text("range")),
        ("assignments", list([assignment])),
    ]);
    let commit = fields([
        group(),
        ("generation_id_or_member_epoch", slot("generation ~g0")),
        member(),
        ("topics", committed()),
    ]);
    let nobody = [("member_id", Value::Null), ("member_epoch", Value::Int(-1))];
    let leave = fields([
        group(),
        member(),
        ("members", list([fields([member(), ("reason", Value::text("the end"))])])),
    ]);
    let partition = fields([("partition_index", Value::Int(0))]);
    let key = ("key", Value::text("~g0"));
    let find = fields([key, ("coordinator_keys", list([Value::text("~g0")]))]);
    let states = ("states_filter", list([Value::text("Stable")]));
    let types = ("types_filter", list([Value::text("classic")]));
    vec![
        create_topic(),
        step(ApiKey::FindCoordinator, round, find),
        // The first has no member id yet, which from version 4 on is all that would be answered.
        Step::plain(ApiKey::JoinGroup, 3, 0, join.clone()),
        step(ApiKey::JoinGroup, round, join),
        step(ApiKey::SyncGroup, round, sync),
        step(ApiKey::Heartbeat, round, fields([group(), generation(), member()])),
        step(ApiKey::OffsetCommit, round, commit),
        step(ApiKey::OffsetFetch, round, fetched("~g0", nobody)),
        step(ApiKey::DescribeGroups, round, fields([("groups", list([Value::text("~g0")]))])),
        step(ApiKey::ListGroups, round, fields([states, types])),
        step(
            ApiKey::OffsetDelete,
            round,
            fields([group(), ("topics", topics("partitions", partition))]),
        ),
        step(ApiKey::LeaveGroup, round, leave),
        step(ApiKey::DeleteGroups, round, fields([("groups_names", list([Value::text("~g0")]))])),
    ]
}

fn consumer(round: i16) -> Vec<Step> {
    let group = || ("group_id", Value::text("~c0"));
    let topics = || ("subscribed_topic_names", list([Value::text("~t0")]));
    let join = fields([
        group(),
        ("member_id", Value::text("~m0")),
        ("rebalance_timeout_ms", Value::Int(10_000)),
        topics(),
        ("topic_partitions", Value::List(Vec::new())),
    ]);
    let member = || ("member_id", slot("member ~c0 0"));
    let epoch = || ("member_epoch", slot("generation ~c0 0"));
    let describe = fields([("group_ids", list([Value::text("~c0")]))]);
    vec![
        create_topic(),
        step(ApiKey::ConsumerGroupHeartbeat, round, join),
        step(ApiKey::ConsumerGroupHeartbeat, round, fields([group(), member(), epoch()])),
        step(ApiKey::ConsumerGroupDescribe, round, describe),
        step(ApiKey::OffsetFetch, round.max(9), fetched("~c0", [member(), epoch()])),
    ]
}

/// Two records of the transaction.
fn produce() -> Step {
    let spec = Spec {
        records: 2,
        producer: "~x0".to_owned(),
        epoch_step: 0,
        sequence: 0,
        transactional: true,
        defect: Defect::None,
    };
    let records = fields([("index", Value::Int(0)), ("records", Value::Batch(vec![spec]))]);
    let data = fields([("name", Value::text("~t0")), ("partition_data", list([records]))]);
    let body = fields([
        ("transactional_id", Value::text("~x0")),
        ("acks", Value::Int(-1)),
        ("timeout_ms", Value::Int(10_000)),
        ("topic_data", list([data])),
    ]);
    Step::plain(ApiKey::Produce, 11, 0, body)
}

fn transaction(round: i16) -> Vec<Step> {
    let id = || ("transactional_id", Value::text("~x0"));
    let producer = || ("producer_id", slot("pid ~x0"));
    let epoch = || ("producer_epoch", slot("epoch ~x0"));
    let group = || ("group_id", Value::text("~g0"));
    let partitions =
        || list([fields([("name", Value::text("~t0")), ("partitions", list([Value::Int(0)]))])]);
    let added = fields([id(), producer(), epoch(), ("topics", partitions())]);
    let add = fields([
        ("transactions", list([added])),
        ("v3_and_below_transactional_id", Value::text("~x0")),
        ("v3_and_below_producer_id", slot("pid ~x0")),
        ("v3_and_below_producer_epoch", slot("epoch ~x0")),
        ("v3_and_below_topics", partitions()),
    ]);
    let marked =
        fields([("name", Value::text("~t0")), ("partition_indexes", list([Value::Int(1)]))]);
    let marker = fields([
        ("producer_id", Value::Int(1_000_000)),
        ("producer_epoch", Value::Int(0)),
        ("transaction_result", Value::Int(0)),
        ("topics", list([marked])),
    ]);
    let timeout = ("transaction_timeout_ms", Value::Int(60_000));
    vec![
        create_topic(),
        step(ApiKey::InitProducerId, round, fields([id(), timeout])),
        step(ApiKey::AddPartitionsToTxn, round, add),
        produce(),
        step(ApiKey::AddOffsetsToTxn, round, fields([id(), producer(), epoch(), group()])),
        step(
            ApiKey::TxnOffsetCommit,
            round,
            fields([id(), group(), producer(), epoch(), ("topics", committed())]),
        ),
        step(
            ApiKey::DescribeTransactions,
            round,
            fields([("transactional_ids", list([Value::text("~x0")]))]),
        ),
        step(
            ApiKey::ListTransactions,
            round,
            fields([("state_filters", list([Value::text("Ongoing")]))]),
        ),
        step(
            ApiKey::EndTxn,
            round,
            fields([id(), producer(), epoch(), ("committed", Value::Int(1))]),
        ),
        step(ApiKey::WriteTxnMarkers, round, fields([("markers", list([marker]))])),
    ]
}

fn settings(round: i16) -> Vec<Step> {
    let update = fields([
        ("feature", Value::text("group.version")),
        ("max_version_level", Value::Int(1)),
        ("upgrade_type", Value::Int(1)),
    ]);
    let update = [("feature_updates", list([update])), ("validate_only", Value::Int(1))];
    let config = fields([("name", Value::text("interval.ms")), ("value", Value::text("1000"))]);
    let resource = fields([
        ("resource_type", Value::Int(16)),
        ("resource_name", Value::text("~metrics")),
        ("configs", list([config])),
    ]);
    vec![
        step(ApiKey::UpdateFeatures, round, fields(update)),
        step(ApiKey::IncrementalAlterConfigs, round, fields([("resources", list([resource]))])),
        step(
            ApiKey::ListConfigResources,
            round,
            fields([("resource_types", list([Value::Int(16)]))]),
        ),
    ]
}
