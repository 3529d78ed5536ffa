//! Fetch: read what is there; if that is too little, wait until there is more, and read once more.
//!
//! 1. One Read to each owner, all at once; then, when it is too little, one Watch to each owner, and the Read again.
//! 2. The first partition with data returns at least one batch, whatever the limits (KIP-74).
//! 3. No sessions: session id 0 is what says so, and clients then send whole requests (KIP-227 allows it).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use pelton_machine::connection::Outcome;
use pelton_model::{ErrorCode, Monotonic, Offset, PartitionId, ShardId, TopicId, TopicPartition};
use pelton_protocol::api::ApiKey;
use pelton_protocol::codec::{Records, Str};
use pelton_protocol::message::fetch::{
    EpochEndOffset, FetchPartition, FetchRequest, FetchResponse, FetchTopic,
    FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData, encode_fetch_response,
};
use pelton_transport::net::Net;

use super::{Handled, known_epoch};
use crate::connection::Client;
use crate::dispatch::{Answer, Request};
use crate::env::Env;
use crate::metrics::stages::Stage;
use crate::shard::Shard;
use crate::shard::message::{self, ReadItem, ReadOutcome, ReadRequest, Response, WatchRequest};

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let fetch: FetchRequest = request.body()?;
    let respond = |response: &FetchResponse| {
        request.note_errors(response);
        let slices = encode_fetch_response(request.correlation_id, request.version, response);
        Ok(Outcome::Answer(Answer::Slices(slices)))
    };
    if fetch.session_epoch > 0 {
        let error_code = ErrorCode::FetchSessionIdNotFound.code();
        return respond(&FetchResponse {
            error_code,
            ..FetchResponse::default()
        });
    }
    // Kafka has no word for an unknown isolation level; its answer is the same.
    let is_odd = !(0..=1).contains(&fetch.isolation_level);
    let odd_isolation = is_odd.then_some(ErrorCode::UnknownServerError);
    let mut plan = Plan::of(client, &fetch, request.version);
    plan.fetch(client, &fetch).await;
    let mut response = plan.respond(client, fetch);
    response.error_code = odd_isolation.map_or(0, ErrorCode::code);
    respond(&response)
}

/// A partition of the request: what is read, or why not; in the order of the request.
struct Wanted {
    item: Option<(ShardId, ReadItem)>,
    outcome: ReadOutcome,
}

struct Plan {
    wanted: Vec<Wanted>,
    read_committed: bool,
    bytes_max: usize,
    owners: Vec<ShardId>,
}

impl Plan {
    fn of<E: Env>(client: &Client<E>, fetch: &FetchRequest, version: i16) -> Self {
        let shard = &client.shard;
        let limit = shard
            .config
            .fetch_max_bytes
            .min(u32::try_from(fetch.max_bytes).unwrap_or(0));
        let refused = refused_as_a_whole(fetch);
        let mut plan = Self {
            wanted: Vec::new(),
            read_committed: fetch.isolation_level == 1,
            bytes_max: usize::try_from(limit).unwrap_or(usize::MAX),
            owners: Vec::new(),
        };
        for topic in &fetch.topics {
            let known = topic_id(client, topic, version);
            let known = refused.map_or(known, Err);
            for partition in &topic.partitions {
                plan.want(shard, known, partition);
            }
        }
        plan
    }

    fn want<E: Env>(
        &mut self,
        shard: &Shard<E>,
        topic: Result<(TopicId, i32), ErrorCode>,
        partition: &FetchPartition,
    ) {
        let item = topic.and_then(|(topic_id, count)| {
            if !(0..count).contains(&partition.partition) {
                return Err(ErrorCode::UnknownTopicOrPartition);
            }
            let bytes_max = usize::try_from(partition.partition_max_bytes)
                .map_err(|_| ErrorCode::UnknownServerError)?;
            let id = TopicPartition {
                topic_id,
                partition: PartitionId(partition.partition),
            };
            let item = ReadItem {
                partition: id,
                offset: Offset(partition.fetch_offset),
                current_leader_epoch: known_epoch(partition.current_leader_epoch),
                last_fetched_epoch: known_epoch(partition.last_fetched_epoch),
                bytes_max,
            };
            Ok((shard.owner(id), item))
        });
        match item {
            Ok((owner, item)) => {
                if !self.owners.contains(&owner) {
                    self.owners.push(owner);
                }
                let outcome = ReadOutcome::refused(ErrorCode::UnknownServerError);
                self.wanted.push(Wanted {
                    item: Some((owner, item)),
                    outcome,
                });
            }
            Err(error) => self.wanted.push(Wanted {
                item: None,
                outcome: ReadOutcome::refused(error),
            }),
        }
    }

    /// Reads until there is enough, something is wrong, or the time is up.
    async fn fetch<E: Env>(&mut self, client: &Client<E>, fetch: &FetchRequest) {
        let shard = &client.shard;
        let wait_ms = u64::try_from(fetch.max_wait_ms).unwrap_or(0);
        let bytes_min = usize::try_from(fetch.min_bytes).unwrap_or(0);
        let deadline = shard.net.now().plus_ms(wait_ms);
        loop {
            self.read(shard).await;
            let is_time_up = wait_ms == 0 || deadline <= shard.net.now();
            let size_bytes: usize = self
                .wanted
                .iter()
                .map(|wanted| wanted.outcome.size_bytes)
                .sum();
            let is_over = shard.is_stopping.get() || client.registered.is_closed.get();
            if bytes_min <= size_bytes || is_time_up || self.is_decided() || is_over {
                return;
            }
            let begun = shard.net.now();
            self.wait(client, bytes_min - size_bytes, deadline).await;
            let waited_ns = shard.net.now().since(begun);
            client.timeline.on_waited(Stage::Wait, waited_ns);
        }
    }

    /// Whether something other than bytes calls for an answer.
    fn is_decided(&self) -> bool {
        let calls = |wanted: &Wanted| {
            wanted.outcome.error != ErrorCode::None || wanted.outcome.diverging.is_some()
        };
        self.wanted.is_empty() || self.wanted.iter().any(calls)
    }

    async fn read<E: Env>(&mut self, shard: &Rc<Shard<E>>) {
        let mut remote = Vec::new();
        for &owner in self.owners.iter().filter(|owner| **owner != shard.id) {
            let request = message::Request::Read(self.read_request(owner));
            remote.push((owner, shard.calls.start(owner, request).await));
        }
        if self.owners.contains(&shard.id) {
            let outcomes = shard.read(&self.read_request(shard.id)).await;
            self.store(shard.id, outcomes);
        }
        for (owner, answer) in remote {
            if let Some(Response::Read(outcomes)) = answer.await {
                self.store(owner, outcomes);
            }
        }
        self.trim();
    }

    fn read_request(&self, owner: ShardId) -> ReadRequest {
        let of_owner = |wanted: &Wanted| match wanted.item {
            Some((shard, item)) if shard == owner => Some(item),
            Some(_) | None => None,
        };
        ReadRequest {
            read_committed: self.read_committed,
            bytes_max: self.bytes_max,
            items: self.wanted.iter().filter_map(of_owner).collect(),
        }
    }

    fn store(&mut self, owner: ShardId, outcomes: Vec<ReadOutcome>) {
        let mut outcomes = outcomes.into_iter();
        for wanted in &mut self.wanted {
            if wanted.item.is_some_and(|(shard, _)| shard == owner)
                && let Some(outcome) = outcomes.next()
            {
                wanted.outcome = outcome;
            }
        }
    }

    /// Several owners may together have read more than the request allows: the later partitions give way.
    fn trim(&mut self) {
        if self.owners.len() < 2 {
            return;
        }
        let mut left = self.bytes_max;
        let mut is_first = true;
        for outcome in self.wanted.iter_mut().map(|wanted| &mut wanted.outcome) {
            if outcome.size_bytes == 0 {
                continue;
            }
            if !is_first && left < outcome.size_bytes {
                outcome.records.clear();
                outcome.size_bytes = 0;
            }
            left = left.saturating_sub(outcome.size_bytes);
            is_first = false;
        }
    }

    /// Waits for more at any owner, or for the deadline.
    async fn wait<E: Env>(&self, client: &Client<E>, bytes_missing: usize, deadline: Monotonic) {
        let shard = &client.shard;
        let (id, woken) = shard.begin_wait();
        client.registered.waiting_fetch.set(Some(id));
        // If all owners together have enough, then at least one has its share.
        let bytes_wanted = bytes_missing.div_ceil(self.owners.len().max(1)).max(1);
        for &owner in &self.owners {
            let items = self.seen(owner);
            let request = WatchRequest {
                id,
                bytes_wanted,
                deadline,
                items,
                read_committed: self.read_committed,
            };
            if owner == shard.id {
                shard.watch_for_peer(owner, request);
            } else {
                // The answer says only that the watch is in place.
                let _placed = shard
                    .calls
                    .start(owner, message::Request::Watch(request))
                    .await;
            }
        }
        {
            let mut woken = pin!(woken.notified());
            let mut timer = pin!(shard.net.sleep_until(deadline));
            poll_fn(|context| {
                if woken.as_mut().poll(context).is_ready() {
                    return Poll::Ready(());
                }
                timer.as_mut().poll(context)
            })
            .await;
        }
        shard.end_wait(id);
        client.registered.waiting_fetch.set(None);
        for &owner in &self.owners {
            if owner == shard.id {
                shard.unwatch_for_peer(owner, id);
            } else {
                shard.calls.post(owner, message::Message::Unwatch(id));
            }
        }
    }

    fn seen(&self, owner: ShardId) -> Vec<(TopicPartition, Offset)> {
        let of_owner = |wanted: &Wanted| match wanted.item {
            Some((shard, item)) if shard == owner => {
                let outcome = &wanted.outcome;
                let end = if self.read_committed {
                    outcome.last_stable
                } else {
                    outcome.high_watermark
                };
                Some((item.partition, end))
            }
            Some(_) | None => None,
        };
        self.wanted.iter().filter_map(of_owner).collect()
    }

    fn respond<E: Env>(self, client: &Client<E>, fetch: FetchRequest) -> FetchResponse {
        let read_committed = self.read_committed;
        let mut names_leader = false;
        let mut outcomes = self.wanted.into_iter().map(|wanted| wanted.outcome);
        let mut responses = Vec::with_capacity(fetch.topics.len());
        for topic in fetch.topics {
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for (partition, outcome) in topic.partitions.iter().zip(outcomes.by_ref()) {
                names_leader |= outcome.leader.is_some();
                partitions.push(partition_data(partition.partition, outcome, read_committed));
            }
            let FetchTopic {
                topic, topic_id, ..
            } = topic;
            responses.push(FetchableTopicResponse {
                topic,
                topic_id,
                partitions,
            });
        }
        let mut response = FetchResponse {
            responses,
            ..FetchResponse::default()
        };
        if names_leader {
            response.node_endpoints.push(endpoint(client));
        }
        response
    }
}

/// What is wrong with every partition of a request, if anything.
fn refused_as_a_whole(fetch: &FetchRequest) -> Option<ErrorCode> {
    if fetch.max_bytes < 0 || !(0..=1).contains(&fetch.isolation_level) {
        return Some(ErrorCode::UnknownServerError);
    }
    // No partition has another replica than this node's own.
    let is_follower = 0 <= fetch.replica_id || 0 <= fetch.replica_state.replica_id;
    is_follower.then_some(ErrorCode::NotLeaderOrFollower)
}

fn topic_id<E: Env>(
    client: &Client<E>,
    topic: &FetchTopic,
    version: i16,
) -> Result<(TopicId, i32), ErrorCode> {
    let shard = &client.shard;
    let entry = if version < 13 {
        shard
            .topic_by_name(&topic.topic)
            .ok_or(ErrorCode::UnknownTopicOrPartition)?
    } else {
        shard
            .topic_by_id(topic.topic_id)
            .ok_or(ErrorCode::UnknownTopicId)?
    };
    client.on_topic(ApiKey::Fetch, &entry);
    Ok((entry.id, entry.partition_count))
}

fn partition_data(
    partition_index: i32,
    outcome: ReadOutcome,
    read_committed: bool,
) -> PartitionData {
    let mut data = PartitionData {
        partition_index,
        error_code: outcome.error.code(),
        high_watermark: outcome.high_watermark.0,
        last_stable_offset: outcome.last_stable.0,
        log_start_offset: outcome.log_start.0,
        aborted_transactions: read_committed.then(Vec::new),
        records: Some(Records::Slices(outcome.records)),
        ..PartitionData::default()
    };
    if let Some((epoch, end)) = outcome.diverging {
        data.diverging_epoch = EpochEndOffset {
            epoch: epoch.0,
            end_offset: end.0,
        };
    }
    if let Some(leader) = outcome.leader {
        data.current_leader = LeaderIdAndEpoch {
            leader_id: leader.node.0,
            leader_epoch: leader.epoch.0,
        };
    }
    data
}

fn endpoint<E: Env>(client: &Client<E>) -> NodeEndpoint {
    let identity = client.shard.identity();
    let told = &identity.endpoints[client.listener_index];
    NodeEndpoint {
        node_id: identity.node_id.0,
        host: told.host.clone(),
        port: i32::from(told.port),
        rack: client.shard.config.broker_rack.as_deref().map(Str::from),
    }
}
