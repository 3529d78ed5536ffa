//! Metadata: brokers, and topics with their leaders; creates what is missing where that is allowed.
//!
//! An answer with all topics is made a few at a time and kept (`shard::metadata`).
//!
//! A topic that is created here is answered with its leader in place: CreateTopics of the controller returns when every shard has it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use pelton_machine::connection::Outcome;
use pelton_machine::controller::{is_internal_topic, validate_topic_name};
use pelton_machine::image::{MetadataImage, PartitionImage, TopicImage};
use pelton_model::record_type::metadata::NO_LEADER;
use pelton_model::{ErrorCode, NodeId, PartitionId, TopicId};
use pelton_protocol::codec::Str;
use pelton_protocol::message::metadata::{
    MetadataEncoder, MetadataRequest, MetadataRequestTopic, MetadataResponse,
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic, metadata_frame,
};

use super::{Handled, Pauses, shown};
use crate::authorized;
use crate::connection::Client;
use crate::controller::{Answer as ControlAnswer, Command};
use crate::dispatch::{Answer, Request};
use crate::env::Env;
use crate::shard::message;
use crate::shard::metadata::AnswerKey;
use crate::shard::{CONTROLLER_SHARD, Shard};

/// From this version on a topic may be asked for by id.
const BY_ID_VERSION: i16 = 12;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let mut asked: MetadataRequest = request.body()?;
    if request.version == 0 && asked.topics.as_ref().is_some_and(Vec::is_empty) {
        asked.topics = None;
    }
    let Some(topics) = &asked.topics else {
        let body = all_topics(client, &asked, request.version).await;
        let slices = metadata_frame(request.correlation_id, request.version, &body);
        return Ok(Outcome::Answer(Answer::Slices(slices)));
    };
    let mut response = head(client);
    let refusal = refused_as_a_whole(topics, request.version);
    response.topics = match refusal {
        Some(error) => topics.iter().map(|topic| refused(topic, error)).collect(),
        None => some_topics(client, topics, may_create(client, &asked, request.version)).await,
    };
    if asked.include_topic_authorized_operations && refusal.is_none() {
        response.topics.iter_mut().for_each(tell_operations);
    }
    if asked.include_cluster_authorized_operations && refusal.is_none() {
        response.cluster_authorized_operations = authorized::CLUSTER_OPERATIONS;
    }
    client.dress_metadata(&mut response);
    Ok(request.respond(&response))
}

/// Operations are those of a name, whether there is such a topic or not.
fn tell_operations(topic: &mut MetadataResponseTopic) {
    if topic.error_code != ErrorCode::UnknownTopicId.code() {
        topic.topic_authorized_operations = authorized::TOPIC_OPERATIONS;
    }
}

fn may_create<E: Env>(client: &Client<E>, asked: &MetadataRequest, version: i16) -> bool {
    let wanted = version < 4 || asked.allow_auto_topic_creation;
    wanted && client.shard.config.auto_create_topics_enable
}

/// The answer's part about the cluster. The own node is named by the listener that was asked.
fn head<E: Env>(client: &Client<E>) -> MetadataResponse {
    let identity = client.shard.identity();
    let told = &identity.endpoints[client.listener_index];
    let image = client.shard.image();
    let own = image
        .brokers()
        .filter(|broker| broker.broker_id == identity.node_id.0 && !broker.fenced);
    let brokers = own.map(|broker| MetadataResponseBroker {
        node_id: broker.broker_id,
        host: told.host.clone(),
        port: i32::from(told.port),
        rack: broker.rack.as_deref().map(Str::from),
    });
    MetadataResponse {
        brokers: brokers.collect(),
        cluster_id: Some(Str::from(&identity.cluster_id)),
        controller_id: identity.node_id.0,
        ..MetadataResponse::default()
    }
}

/// Null names, and ids before their version, spoil the request: Kafka answers so for every topic of it.
fn refused_as_a_whole(topics: &[MetadataRequestTopic], version: i16) -> Option<ErrorCode> {
    if version < BY_ID_VERSION {
        let is_odd =
            |topic: &MetadataRequestTopic| topic.name.is_none() || !topic.topic_id.is_zero();
        return topics
            .iter()
            .any(is_odd)
            .then_some(ErrorCode::InvalidRequest);
    }
    // Where one topic is asked for by its id, names count for nothing.
    let has_ids = topics.iter().any(|topic| !topic.topic_id.is_zero());
    let lacks_name = topics.iter().any(|topic| topic.name.is_none());
    (lacks_name && !has_ids).then_some(ErrorCode::UnknownServerError)
}

fn refused(topic: &MetadataRequestTopic, error: ErrorCode) -> MetadataResponseTopic {
    MetadataResponseTopic {
        error_code: error.code(),
        name: Some(topic.name.clone().unwrap_or_default()),
        topic_id: topic.topic_id,
        ..MetadataResponseTopic::default()
    }
}

/// The body of an answer with all topics: one that is kept, or a new one.
async fn all_topics<E: Env>(client: &Client<E>, asked: &MetadataRequest, version: i16) -> Bytes {
    let key = AnswerKey {
        version,
        listener_index: client.listener_index,
        topic_operations: asked.include_topic_authorized_operations,
        cluster_operations: asked.include_cluster_authorized_operations,
    };
    let making = match client.shard.metadata_answers.get(key).await {
        Ok(kept) => return kept,
        Err(making) => making,
    };
    let image = client.shard.image();
    let mut response = head(client);
    client.dress_metadata(&mut response);
    if key.cluster_operations {
        response.cluster_authorized_operations = authorized::CLUSTER_OPERATIONS;
    }
    let mut pauses = Pauses::default();
    let mut encoder = MetadataEncoder::new(version, &response, image.topics().count());
    for topic in image.topics() {
        let mut topic = described(&client.shard, &image, topic);
        if key.topic_operations {
            tell_operations(&mut topic);
        }
        client.dress_topic(&image, &mut topic);
        encoder.topic(&topic);
        pauses.after(&client.shard.net, cost(&topic)).await;
    }
    let body = encoder.finish();
    making.keep(key, &body);
    body
}

/// What describing a topic counts for among pauses.
fn cost(topic: &MetadataResponseTopic) -> usize {
    topic.partitions.len() + 1
}

async fn some_topics<E: Env>(
    client: &Client<E>,
    topics: &[MetadataRequestTopic],
    may_create: bool,
) -> Vec<MetadataResponseTopic> {
    let image = client.shard.image();
    let mut pauses = Pauses::default();
    let mut found = Vec::with_capacity(topics.len());
    if topics.iter().any(|topic| !topic.topic_id.is_zero()) {
        let ids = topics.iter().map(|topic| topic.topic_id);
        for id in ids.filter(|id| !id.is_zero()) {
            let topic = described_by_id(&client.shard, &image, id);
            pauses.after(&client.shard.net, cost(&topic)).await;
            found.push(topic);
        }
        return found;
    }
    let mut seen = BTreeSet::new();
    let named = topics.iter().filter_map(|topic| topic.name.as_ref());
    let names: Vec<&Str> = named.filter(|name| seen.insert(*name)).collect();
    let missing: Vec<&Str> = names
        .iter()
        .copied()
        .filter(|name| image.topic_by_name(name).is_none())
        .collect();
    let mut errors = missing_topics(client, &missing, may_create).await;
    let image = client.shard.image();
    for name in names {
        let topic = match image.topic_by_name(name) {
            Some(topic) => described(&client.shard, &image, topic),
            None => MetadataResponseTopic {
                error_code: errors
                    .remove(name)
                    .unwrap_or(ErrorCode::UnknownTopicOrPartition)
                    .code(),
                name: Some(name.clone()),
                is_internal: is_internal_topic(name),
                ..MetadataResponseTopic::default()
            },
        };
        pauses.after(&client.shard.net, cost(&topic)).await;
        found.push(topic);
    }
    found
}

/// Creates what may be created; gives the errors of what stays missing.
async fn missing_topics<E: Env>(
    client: &Client<E>,
    missing: &[&Str],
    may_create: bool,
) -> BTreeMap<Str, ErrorCode> {
    let mut errors = BTreeMap::new();
    let mut wanted = Vec::new();
    for &name in missing {
        if validate_topic_name(name).is_err() {
            errors.insert(name.clone(), ErrorCode::InvalidTopicException);
        } else if may_create {
            wanted.push(name.to_string());
        }
    }
    if !wanted.is_empty() {
        create(&client.shard, wanted, &mut errors).await;
    }
    errors
}

async fn create<E: Env>(
    shard: &Rc<Shard<E>>,
    names: Vec<String>,
    errors: &mut BTreeMap<Str, ErrorCode>,
) {
    let all: Vec<Str> = names.iter().map(Str::from).collect();
    let command = message::Request::Control(Command::AutoCreateTopics(names));
    let answer = shard.ask(CONTROLLER_SHARD, command).await.into_control();
    let ControlAnswer::Created(results) = answer else {
        errors.extend(
            all.into_iter()
                .map(|name| (name, ErrorCode::LeaderNotAvailable)),
        );
        return;
    };
    for result in results {
        if let Err(refusal) = result.result {
            errors.insert(Str::from(result.name), refusal.error);
        }
    }
}

fn described_by_id<E: Env>(
    shard: &Shard<E>,
    image: &MetadataImage,
    id: TopicId,
) -> MetadataResponseTopic {
    match image.topic(id) {
        Some(topic) => described(shard, image, topic),
        None => MetadataResponseTopic {
            error_code: ErrorCode::UnknownTopicId.code(),
            topic_id: id,
            ..MetadataResponseTopic::default()
        },
    }
}

fn described<E: Env>(
    shard: &Shard<E>,
    image: &MetadataImage,
    topic: &TopicImage,
) -> MetadataResponseTopic {
    let partitions = topic
        .partitions()
        .map(|(index, partition)| described_partition(shard, image, index, partition));
    MetadataResponseTopic {
        error_code: ErrorCode::None.code(),
        name: Some(Str::from(topic.name())),
        topic_id: topic.id(),
        is_internal: is_internal_topic(topic.name()),
        partitions: partitions.collect(),
        ..MetadataResponseTopic::default()
    }
}

fn described_partition<E: Env>(
    shard: &Shard<E>,
    image: &MetadataImage,
    index: PartitionId,
    partition: &PartitionImage,
) -> MetadataResponsePartition {
    let ids = |nodes: &[NodeId]| nodes.iter().map(|node| node.0).collect();
    let shown = shown(shard, image, partition);
    let error = match shown.leader {
        Some(_) => ErrorCode::None,
        None => ErrorCode::LeaderNotAvailable,
    };
    MetadataResponsePartition {
        error_code: error.code(),
        partition_index: index.0,
        leader_id: shown.leader.map_or(NO_LEADER, |leader| leader.0),
        leader_epoch: partition.leader_epoch.0,
        replica_nodes: ids(&partition.replicas),
        isr_nodes: ids(&partition.isr),
        offline_replicas: shown.offline,
    }
}
