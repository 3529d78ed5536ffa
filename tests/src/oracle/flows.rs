//! What well-behaved clients do, as parts of sequences: they bring the brokers where random requests alone hardly come.
//!
//! A flow draws versions and some values; it uses the sequence's first group or transaction, and is granted where nothing odd went before.

use kafka_protocol::messages::ApiKey;
use pelton_protocol::api;

use super::step::Step;
use super::usual::Usual;
use super::value::Value;

/// A careful request in any version up to `newest`, and from `oldest` on, as far as the API has them.
fn ask(usual: &mut Usual, api: ApiKey, oldest: i16, newest: i16) -> Step {
    let row = api::row(api as i16).expect("flows ask what is served");
    let (least, most) = (oldest.max(row.min), newest.min(row.max));
    let version = usual.random.between(least as u64, most as u64) as i16;
    usual.careful(api, version)
}

fn any(usual: &mut Usual, apis: &[ApiKey]) -> Vec<Step> {
    usual.actor = 0;
    apis.iter().map(|api| ask(usual, *api, 0, i16::MAX)).collect()
}

/// Topics are made, grown, looked at and deleted.
pub fn topics(usual: &mut Usual) -> Vec<Step> {
    let mut steps = vec![usual.create_topics()];
    steps.extend(any(usual, &[ApiKey::CreatePartitions, ApiKey::Metadata]));
    if usual.random.percent(50) {
        steps.extend(any(usual, &[ApiKey::DeleteTopics, ApiKey::Metadata, ApiKey::CreateTopics]));
    }
    steps
}

/// Records are written, read and deleted.
pub fn records(usual: &mut Usual) -> Vec<Step> {
    any(
        usual,
        &[
            ApiKey::Produce,
            ApiKey::Produce,
            ApiKey::Fetch,
            ApiKey::ListOffsets,
            ApiKey::DeleteRecords,
            ApiKey::Fetch,
        ],
    )
}

/// A transaction from its first record to its end, by the older or the newer protocol (KIP-890).
pub fn transaction(usual: &mut Usual) -> Vec<Step> {
    usual.actor = 0;
    usual.transaction = "~x0".to_owned();
    usual.group = "~g0".to_owned();
    let with_offsets = usual.random.percent(40);
    let mut steps = Vec::new();
    if usual.random.percent(50) {
        steps.push(ask(usual, ApiKey::Produce, 12, 13));
        if with_offsets {
            steps.push(ask(usual, ApiKey::TxnOffsetCommit, 5, 5));
        }
        steps.push(ask(usual, ApiKey::DescribeTransactions, 0, 0));
        steps.push(ask(usual, ApiKey::EndTxn, 5, 5));
    } else {
        steps.push(ask(usual, ApiKey::AddPartitionsToTxn, 0, 3));
        steps.push(ask(usual, ApiKey::Produce, 3, 11));
        if with_offsets {
            steps.push(ask(usual, ApiKey::AddOffsetsToTxn, 0, 4));
            steps.push(ask(usual, ApiKey::TxnOffsetCommit, 0, 4));
        }
        steps.push(ask(usual, ApiKey::DescribeProducers, 0, 0));
        steps.push(ask(usual, ApiKey::EndTxn, 0, 4));
    }
    steps.push(ask(usual, ApiKey::Fetch, 4, 18));
    steps
}

/// A member of a classic group joins, is given its part, commits; sometimes a second one comes too.
pub fn classic(usual: &mut Usual) -> Vec<Step> {
    usual.group = "~g0".to_owned();
    usual.actor = 0;
    let version = usual.random.between(0, 9) as i16;
    let mut steps = vec![usual.careful(ApiKey::JoinGroup, version)];
    if version >= 4 {
        steps.push(usual.careful(ApiKey::JoinGroup, version));
    }
    if usual.random.percent(20) {
        usual.actor = 1;
        steps.push(usual.careful(ApiKey::JoinGroup, 3));
        usual.actor = 0;
        steps.push(usual.careful(ApiKey::JoinGroup, version));
        steps.push(ask(usual, ApiKey::SyncGroup, 0, 5));
        usual.actor = 1;
    }
    steps.push(ask(usual, ApiKey::SyncGroup, 0, 5));
    usual.actor = 0;
    steps.push(ask(usual, ApiKey::Heartbeat, 0, 4));
    steps.push(ask(usual, ApiKey::OffsetCommit, 2, 10));
    steps
}

/// A member joins a consumer group.
pub fn join_consumer(usual: &mut Usual) -> Step {
    let mut join = ask(usual, ApiKey::ConsumerGroupHeartbeat, 0, 1);
    join.body.set("member_epoch", Value::Int(0));
    join.body.set("topic_partitions", Value::List(Vec::new()));
    let topic = Value::text("~t0");
    join.body.set("subscribed_topic_names", Value::List(vec![topic]));
    join
}

/// A member of a consumer group stays in it and commits, or another one comes.
pub fn consumer(usual: &mut Usual) -> Vec<Step> {
    usual.group = "~c0".to_owned();
    usual.actor = usize::from(usual.random.percent(30));
    if usual.actor == 1 || usual.random.percent(20) {
        return vec![join_consumer(usual)];
    }
    let mut steps = vec![ask(usual, ApiKey::ConsumerGroupHeartbeat, 0, 1)];
    steps.push(ask(usual, ApiKey::OffsetCommit, 9, 10));
    steps.push(ask(usual, ApiKey::OffsetFetch, 9, 10));
    steps.push(ask(usual, ApiKey::ConsumerGroupDescribe, 0, 1));
    steps
}

/// Settings are changed and shown.
pub fn configs(usual: &mut Usual) -> Vec<Step> {
    any(usual, &[ApiKey::IncrementalAlterConfigs, ApiKey::DescribeConfigs, ApiKey::AlterConfigs])
}

/// Leaders are elected, partitions moved to where they are.
pub fn cluster(usual: &mut Usual) -> Vec<Step> {
    any(
        usual,
        &[
            ApiKey::AlterPartitionReassignments,
            ApiKey::ListPartitionReassignments,
            ApiKey::ElectLeaders,
            ApiKey::DescribeCluster,
            ApiKey::DescribeLogDirs,
        ],
    )
}
