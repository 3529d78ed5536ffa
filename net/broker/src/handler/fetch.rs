//! Fetch: read what is there; if that is too little, wait until there is more, and read once more.
//!
//! 1. One Read to each owner, all at once; then, when it is too little, one Watch to each owner, and the Read again.
//! 2. The first partition with data returns at least one batch, whatever the limits (KIP-74).
//! 3. With a session only its ready partitions are read, and only what the client does not know yet is answered (KIP-227).
//!
//! Who decides what: `machine::session` which session and which partitions, `plan` what is read and when it is enough.

mod plan;

use pelton_machine::connection::Outcome;
use pelton_machine::session::{
    Begun, INITIAL_EPOCH, Origin, Position, Reply, Request as SessionRequest, Told, TopicKey, Turn,
    Wish,
};
use pelton_model::{ErrorCode, Offset};
use pelton_protocol::codec::{Records, Str};
use pelton_protocol::message::fetch::{
    AbortedTransaction, EpochEndOffset, FetchPartition, FetchRequest, FetchResponse, FetchTopic,
    FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData, encode_fetch_response,
};
use pelton_transport::net::Net;

use self::plan::{Plan, Wanted};
use super::{Handled, known_epoch};
use crate::connection::Client;
use crate::dispatch::{Answer, Request};
use crate::env::Env;
use crate::shard::Shard;
use crate::shard::message::ReadOutcome;

/// From this version on topics are named by id.
const BY_ID_VERSION: i16 = 13;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let fetch: FetchRequest = request.body()?;
    let respond = |response: &FetchResponse| {
        request.note_errors(response);
        let slices = encode_fetch_response(request.correlation_id, request.version, response);
        Ok(Outcome::Answer(Answer::Slices(slices)))
    };
    let refuse = |error: ErrorCode, session_id| FetchResponse {
        error_code: error.code(),
        session_id,
        ..FetchResponse::default()
    };
    let begun = begin(&client.shard, &fetch, request.version).await;
    let is_odd = !(0..=1).contains(&fetch.isolation_level);
    let turn = match begun {
        Begun::Refused(error) => return respond(&refuse(error, 0)),
        Begun::Incremental(_) if is_odd => None,
        Begun::Incremental(turn) => Some(turn),
        Begun::Sessionless | Begun::Full => None,
    };
    let mut plan = Plan::new(&client.shard, &fetch, turn);
    if turn.is_none() {
        plan.want_named(client, &fetch, request.version);
    }
    plan.fetch(client, &fetch).await;
    // Kafka has no word for an unknown isolation level, and looks at it when there is something to read; its answer is the same.
    let has_failed = is_odd && plan.wanted.iter().any(|wanted| !wanted.is_unknown);
    if has_failed {
        let failed = || ReadOutcome::refused(ErrorCode::UnknownServerError);
        plan.wanted
            .iter_mut()
            .for_each(|wanted| wanted.outcome = failed());
    }
    let session_id = match (begun, turn) {
        _ if has_failed => fetch.session_id,
        (Begun::Full, _) if !is_odd => open(&client.shard, &fetch, request.version, &plan),
        (_, Some(turn)) => match settle(&client.shard, turn, &mut plan) {
            Ok(session_id) => session_id,
            Err(error) => return respond(&refuse(error, turn.id)),
        },
        (_, None) => 0,
    };
    let mut response = response(client, plan);
    response.session_id = session_id;
    if has_failed {
        response.error_code = ErrorCode::UnknownServerError.code();
    }
    respond(&response)
}

/// Finds the request's session, and brings it up to date.
async fn begin<E: Env>(shard: &Shard<E>, fetch: &FetchRequest, version: i16) -> Begun {
    if fetch.session_id == 0 && fetch.session_epoch <= INITIAL_EPOCH {
        return match fetch.session_epoch {
            INITIAL_EPOCH => Begun::Full,
            -1 => Begun::Sessionless,
            _ => Begun::Refused(ErrorCode::FetchSessionIdNotFound),
        };
    }
    let by_id = BY_ID_VERSION <= version;
    let is_incremental = 0 < fetch.session_epoch || fetch.session_epoch < -1;
    let topics: &[FetchTopic] = if is_incremental { &fetch.topics } else { &[] };
    let wishes: Vec<Wish> = topics
        .iter()
        .flat_map(|topic| {
            let key = topic_key(&topic.topic, topic, by_id);
            let wish = move |partition| wish(key.clone(), partition);
            topic.partitions.iter().map(wish)
        })
        .collect();
    let forgotten = fetch.forgotten_topics_data.iter();
    let forgotten: Vec<(TopicKey, i32)> = forgotten
        .flat_map(|topic| {
            let key = if by_id {
                TopicKey::Id(topic.topic_id)
            } else {
                TopicKey::Name(topic.topic.clone())
            };
            let named = move |partition: &i32| (key.clone(), *partition);
            topic.partitions.iter().map(named)
        })
        .collect();
    let request = SessionRequest {
        id: fetch.session_id,
        epoch: fetch.session_epoch,
        uses_topic_ids: by_id,
        read_committed: fetch.isolation_level == 1,
        wishes: &wishes,
        forgotten: &forgotten,
    };
    let begun = shard.sessions.borrow_mut().begin(shard.net.now(), &request);
    shard.withdraw_closed();
    // The client begins anew, here: its session elsewhere has served.
    shard.close_foreign_session(fetch.session_id).await;
    begun
}

fn topic_key(name: &Str, topic: &FetchTopic, by_id: bool) -> TopicKey {
    if by_id {
        TopicKey::Id(topic.topic_id)
    } else {
        TopicKey::Name(name.clone())
    }
}

fn wish(topic: TopicKey, partition: &FetchPartition) -> Wish {
    Wish {
        topic,
        partition: partition.partition,
        position: Position {
            offset: Offset(partition.fetch_offset),
            bytes_max: partition.partition_max_bytes,
            current_leader_epoch: known_epoch(partition.current_leader_epoch),
            last_fetched_epoch: known_epoch(partition.last_fetched_epoch),
        },
    }
}

fn told(outcome: &ReadOutcome) -> Told {
    Told {
        size_bytes: outcome.size_bytes,
        high_watermark: outcome.high_watermark,
        log_start: outcome.log_start,
        is_error: outcome.error != ErrorCode::None,
        has_diverged: outcome.diverging.is_some(),
        is_armed: outcome.is_armed,
    }
}

/// Opens a session for a full request; gives its id, or 0 when there is no room for it.
fn open<E: Env>(shard: &Shard<E>, fetch: &FetchRequest, version: i16, plan: &Plan) -> i32 {
    let by_id = BY_ID_VERSION <= version;
    let partitions = fetch.topics.iter().flat_map(|topic| {
        let key = topic_key(&topic.topic, topic, by_id);
        let wish = move |partition| wish(key.clone(), partition);
        topic.partitions.iter().map(wish)
    });
    let outcomes = plan.wanted.iter().map(|wanted| told(&wanted.outcome));
    let opened: Vec<(Wish, Told)> = partitions.zip(outcomes).collect();
    let origin = Origin {
        privileged: is_follower(fetch),
        uses_topic_ids: by_id,
        read_committed: fetch.isolation_level == 1,
    };
    let now = shard.net.now();
    let draw = || shard.session_bits();
    let created = shard
        .sessions
        .borrow_mut()
        .create(now, origin, &opened, draw);
    shard.withdraw_closed();
    created.unwrap_or(0)
}

/// Leaves in the plan what the session's client must be told; gives the id for the answer.
fn settle<E: Env>(shard: &Shard<E>, turn: Turn, plan: &mut Plan) -> Result<i32, ErrorCode> {
    let mut sessions = shard.sessions.borrow_mut();
    match sessions.reply(turn) {
        Reply::Session(session) => {
            plan.wanted.retain(|wanted| {
                let told = told(&wanted.outcome);
                wanted.cell.is_none_or(|cell| session.tell(cell, &told))
            });
            Ok(turn.id)
        }
        // An answer without a session tells the client that it has ended.
        Reply::Gone => Ok(0),
        Reply::Overtaken => Err(ErrorCode::InvalidFetchSessionEpoch),
    }
}

fn response<E: Env>(client: &Client<E>, plan: Plan) -> FetchResponse {
    let Plan {
        topics,
        mut wanted,
        read_committed,
        ..
    } = plan;
    if client.is_core_direct() {
        // Clients there know cores, and ask for the metadata when they are told of an error alone.
        wanted
            .iter_mut()
            .for_each(|wanted| wanted.outcome.leader = None);
    }
    let names_leader = wanted.iter().any(|wanted| wanted.outcome.leader.is_some());
    let mut responses: Vec<FetchableTopicResponse> = Vec::new();
    let mut last = None;
    for wanted in wanted {
        let Wanted {
            topic,
            partition,
            outcome,
            ..
        } = wanted;
        let data = partition_data(partition, outcome, read_committed);
        if last == Some(topic)
            && let Some(response) = responses.last_mut()
        {
            response.partitions.push(data);
            continue;
        }
        last = Some(topic);
        responses.push(FetchableTopicResponse {
            topic: topics[topic].name.clone(),
            topic_id: topics[topic].id,
            partitions: vec![data],
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

/// Whether the request comes from a follower.
fn is_follower(fetch: &FetchRequest) -> bool {
    0 <= fetch.replica_id || 0 <= fetch.replica_state.replica_id
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
        aborted_transactions: read_committed.then(|| {
            let aborted = outcome.aborted.into_iter();
            let named = aborted.map(|(producer_id, first_offset)| AbortedTransaction {
                producer_id: producer_id.0,
                first_offset: first_offset.0,
            });
            named.collect()
        }),
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
