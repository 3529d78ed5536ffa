//! Random sequences from a seed: a theme, what it begins with, then requests of the theme's APIs in any version, some of them odd.
//!
//! Invariants:
//! 1. Equal seeds give equal sequences; nothing here knows a broker.
//! 2. What reaches beyond the sequence (other topics, the broker's own settings, features, its registration) is only asked for in forms
//!    that change nothing.

use kafka_protocol::messages::ApiKey;
use pelton_protocol::api;
use pelton_protocol::codec::{Field, Kind, Table};

use super::flows;
use super::step::{Damage, Step};
use super::usual::Usual;
use super::value::{self, Value};
use crate::sim::random::Random;

/// How many requests follow a sequence's beginning, at most.
const STEPS_MAX: u64 = 12;

/// How often a whole flow stands in place of one request, and how often a request is meant to be granted.
const FLOWS_PERCENT: u64 = 12;
const CAREFUL_PERCENT: u64 = 50;

type Weights = &'static [(ApiKey, u64)];

/// What a sequence is about.
struct Theme {
    begin: fn(&mut Usual) -> Vec<Step>,
    /// What a client of that kind does, all of it granted where nothing odd went before.
    flow: fn(&mut Usual) -> Vec<Step>,
    apis: Weights,
}

static THEMES: [Theme; 7] = [
    Theme {
        begin: |_| Vec::new(),
        flow: flows::topics,
        apis: &[
            (ApiKey::CreateTopics, 6),
            (ApiKey::DeleteTopics, 3),
            (ApiKey::CreatePartitions, 4),
            (ApiKey::Metadata, 4),
            (ApiKey::DescribeTopicPartitions, 3),
            (ApiKey::ApiVersions, 1),
            (ApiKey::DescribeLogDirs, 2),
        ],
    },
    Theme {
        begin: begin_records,
        flow: flows::records,
        apis: &[
            (ApiKey::Produce, 8),
            (ApiKey::Fetch, 6),
            (ApiKey::ListOffsets, 3),
            (ApiKey::OffsetForLeaderEpoch, 2),
            (ApiKey::DeleteRecords, 2),
            (ApiKey::InitProducerId, 1),
            (ApiKey::DescribeProducers, 2),
            (ApiKey::DescribeLogDirs, 1),
        ],
    },
    Theme {
        begin: begin_transaction,
        flow: flows::transaction,
        apis: &[
            (ApiKey::AddPartitionsToTxn, 5),
            (ApiKey::AddOffsetsToTxn, 2),
            (ApiKey::TxnOffsetCommit, 3),
            (ApiKey::EndTxn, 4),
            (ApiKey::InitProducerId, 3),
            (ApiKey::Produce, 6),
            (ApiKey::Fetch, 2),
            (ApiKey::ListOffsets, 1),
            (ApiKey::OffsetFetch, 1),
            (ApiKey::DescribeTransactions, 3),
            (ApiKey::ListTransactions, 2),
            (ApiKey::WriteTxnMarkers, 1),
            (ApiKey::DescribeProducers, 2),
            (ApiKey::FindCoordinator, 1),
        ],
    },
    Theme {
        begin: begin_classic_group,
        flow: flows::classic,
        apis: &[
            (ApiKey::JoinGroup, 4),
            (ApiKey::SyncGroup, 4),
            (ApiKey::Heartbeat, 3),
            (ApiKey::LeaveGroup, 2),
            (ApiKey::OffsetCommit, 4),
            (ApiKey::OffsetFetch, 4),
            (ApiKey::OffsetDelete, 2),
            (ApiKey::DescribeGroups, 3),
            (ApiKey::ListGroups, 2),
            (ApiKey::DeleteGroups, 1),
            (ApiKey::FindCoordinator, 2),
            (ApiKey::ConsumerGroupHeartbeat, 1),
            (ApiKey::ConsumerGroupDescribe, 1),
        ],
    },
    Theme {
        begin: begin_consumer_group,
        flow: flows::consumer,
        apis: &[
            (ApiKey::ConsumerGroupHeartbeat, 8),
            (ApiKey::ConsumerGroupDescribe, 4),
            (ApiKey::OffsetCommit, 3),
            (ApiKey::OffsetFetch, 3),
            (ApiKey::OffsetDelete, 1),
            (ApiKey::DescribeGroups, 1),
            (ApiKey::ListGroups, 2),
            (ApiKey::DeleteGroups, 1),
            (ApiKey::JoinGroup, 1),
            (ApiKey::LeaveGroup, 1),
            (ApiKey::Heartbeat, 1),
        ],
    },
    Theme {
        begin: begin_records,
        flow: flows::configs,
        apis: &[
            (ApiKey::DescribeConfigs, 4),
            (ApiKey::AlterConfigs, 4),
            (ApiKey::IncrementalAlterConfigs, 6),
            (ApiKey::CreateTopics, 4),
            (ApiKey::ListConfigResources, 2),
        ],
    },
    Theme {
        begin: begin_records,
        flow: flows::cluster,
        apis: &[
            (ApiKey::DescribeCluster, 2),
            (ApiKey::DescribeQuorum, 2),
            (ApiKey::ElectLeaders, 2),
            (ApiKey::AlterPartitionReassignments, 3),
            (ApiKey::ListPartitionReassignments, 2),
            (ApiKey::AlterReplicaLogDirs, 2),
            (ApiKey::DescribeLogDirs, 2),
            (ApiKey::UpdateFeatures, 2),
            (ApiKey::UnregisterBroker, 1),
            (ApiKey::DescribeAcls, 1),
            (ApiKey::CreateAcls, 1),
            (ApiKey::DeleteAcls, 1),
            (ApiKey::DeleteRecords, 1),
            (ApiKey::ApiVersions, 1),
            (ApiKey::FindCoordinator, 1),
        ],
    },
];

/// The sequence of a seed.
#[must_use]
pub fn sequence(seed: u64) -> Vec<Step> {
    let mut usual = Usual::new(Random::new(seed));
    let theme = &THEMES[usual.random.index(THEMES.len())];
    let mut steps = (theme.begin)(&mut usual);
    for _ in 0..usual.random.between(3, STEPS_MAX) {
        if usual.random.percent(FLOWS_PERCENT) {
            steps.extend((theme.flow)(&mut usual));
            continue;
        }
        let api = pick(&mut usual.random, theme.apis);
        steps.push(step(&mut usual, api));
    }
    steps
}

/// All APIs that some theme asks.
#[must_use]
pub fn apis() -> Vec<ApiKey> {
    let mut all: Vec<ApiKey> =
        THEMES.iter().flat_map(|theme| theme.apis).map(|(api, _)| *api).collect();
    all.sort_by_key(|api| *api as i16);
    all.dedup();
    all
}

fn pick(random: &mut Random, weights: Weights) -> ApiKey {
    let mut at = random.below(weights.iter().map(|(_, weight)| weight).sum());
    for (api, weight) in weights {
        match at.checked_sub(*weight) {
            Some(left) => at = left,
            None => return *api,
        }
    }
    unreachable!("the draw is below the sum")
}

/// A request of an API: any version that it has, mostly usual values, now and then a few odd ones.
fn step(usual: &mut Usual, api: ApiKey) -> Step {
    let row = api::row(api as i16).expect("themes name APIs that are served");
    let version = usual.random.between(row.min as u64, row.max as u64) as i16;
    usual.is_careful = usual.random.percent(CAREFUL_PERCENT);
    let mut step = usual.step(api, version);
    if std::mem::take(&mut usual.is_careful) {
        return step;
    }
    let mutations = [0, 0, 0, 0, 0, 1, 1, 1, 2, 3][usual.random.index(10)];
    for _ in 0..mutations {
        let table = value::table(value::target(api as i16, "Request"));
        let mut at = usual.random.index(leaves(&step.body).max(1));
        mutate(usual, api, table, &mut step.body, version, &mut at);
    }
    match usual.random.below(100) {
        0 => step.damage = Damage::Cut(1 + usual.random.index(3)),
        1 => step.damage = Damage::Trailing(1 + usual.random.index(3)),
        2 => step.version = row.max + 1,
        _ => {}
    }
    step
}

fn leaves(value: &Value) -> usize {
    match value {
        Value::Struct(fields) => fields.iter().map(|(_, value)| leaves(value)).sum(),
        Value::List(items) => 1 + items.iter().map(leaves).sum::<usize>(),
        _ => 1,
    }
}

/// Makes the `at`th leaf odd; counts `at` down, and says whether it was there.
fn mutate(
    usual: &mut Usual,
    api: ApiKey,
    table: &Table,
    value: &mut Value,
    version: i16,
    at: &mut usize,
) -> bool {
    let Value::Struct(fields) = value else { return false };
    for (name, value) in fields {
        let Some(field) = table.fields.iter().find(|field| field.name == *name) else { continue };
        let context = Context { api, field, version };
        let is_nullable = field.nullable.contains(version);
        if mutate_value(usual, &context, &field.kind, is_nullable, value, at) {
            return true;
        }
    }
    false
}

struct Context<'a> {
    api: ApiKey,
    field: &'a Field,
    version: i16,
}

fn mutate_value(
    usual: &mut Usual,
    context: &Context<'_>,
    kind: &Kind,
    is_nullable: bool,
    value: &mut Value,
    at: &mut usize,
) -> bool {
    match (kind, &mut *value) {
        (Kind::Struct { table }, Value::Struct(_)) => {
            mutate(usual, context.api, table, value, context.version, at)
        }
        (Kind::Array { element }, Value::List(items)) if *at > 0 => {
            *at -= 1;
            items.iter_mut().any(|item| mutate_value(usual, context, element, false, item, at))
        }
        _ if *at > 0 => {
            *at -= 1;
            false
        }
        _ => {
            if !usual.is_untouchable(context.api, context.field.name) {
                *value = usual.odd(context.field, kind, value, is_nullable);
            }
            true
        }
    }
}

fn begin_records(usual: &mut Usual) -> Vec<Step> {
    let mut steps = vec![usual.create_topics()];
    if usual.random.percent(50) {
        steps.push(usual.careful(ApiKey::InitProducerId, 4));
    }
    steps
}

fn begin_transaction(usual: &mut Usual) -> Vec<Step> {
    let version = usual.random.between(0, 5) as i16;
    let topics = usual.create_topics();
    usual.is_transactional = true;
    usual.transaction = "~x0".to_owned();
    let mut steps = vec![topics, usual.careful(ApiKey::InitProducerId, version)];
    if usual.random.percent(60) {
        steps.extend(flows::transaction(usual));
    }
    steps
}

fn begin_classic_group(usual: &mut Usual) -> Vec<Step> {
    let mut steps = vec![usual.create_topics()];
    if usual.random.percent(80) {
        steps.extend(flows::classic(usual));
    }
    steps
}

fn begin_consumer_group(usual: &mut Usual) -> Vec<Step> {
    let topics = usual.create_topics();
    usual.is_consumer = true;
    usual.group = "~c0".to_owned();
    usual.actor = 0;
    vec![topics, flows::join_consumer(usual)]
}
