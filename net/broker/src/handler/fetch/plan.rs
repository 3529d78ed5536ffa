//! What one Fetch reads, and when it has enough.
//!
//! Invariants:
//! 1. The partitions stand in the order of reading: the request's, or that of the session.
//! 2. What was read to its end under an armed interest is not read again before that fires.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use pelton_machine::purgatory::Interest;
use pelton_machine::session::{Position, Ready, TopicKey, Turn};
use pelton_model::{ErrorCode, Monotonic, Offset, PartitionId, ShardId, TopicId, TopicPartition};
use pelton_protocol::api::ApiKey;
use pelton_protocol::codec::Str;
use pelton_protocol::message::fetch::FetchRequest;
use pelton_transport::net::Net;

use super::{BY_ID_VERSION, is_follower, wish};
use crate::connection::Client;
use crate::env::Env;
use crate::metrics::stages::Stage;
use crate::shard::Shard;
use crate::shard::message::{self, ReadItem, ReadOutcome, ReadRequest, Response, WatchRequest};

/// A topic as the answer names it, and what is known of it: its id and number of partitions.
pub(super) struct Named {
    pub(super) name: Str,
    pub(super) id: TopicId,
    known: Result<(TopicId, i32), ErrorCode>,
}

/// A partition: what is read, or why not.
pub(super) struct Wanted {
    /// Its place in the plan's topics.
    pub(super) topic: usize,
    pub(super) partition: i32,
    /// Its number in the session.
    pub(super) cell: Option<u32>,
    pub(super) outcome: ReadOutcome,
    /// Its place in the session's order.
    order: u64,
    item: Option<(ShardId, ReadItem)>,
    /// Whether the next read looks at it.
    is_due: bool,
    /// Whether there is no such partition, as far as this shard knows: an error that calls for no answer by itself.
    pub(super) is_unknown: bool,
}

pub(super) struct Plan {
    pub(super) topics: Vec<Named>,
    pub(super) wanted: Vec<Wanted>,
    pub(super) read_committed: bool,
    turn: Option<Turn>,
    refused: Option<ErrorCode>,
    bytes_max: usize,
    owners: Vec<ShardId>,
    /// Partitions of the session that are not ready: what they hold is known.
    quiet_count: usize,
}

impl Plan {
    pub(super) fn new<E: Env>(shard: &Shard<E>, fetch: &FetchRequest, turn: Option<Turn>) -> Self {
        let limit = shard
            .config
            .fetch_max_bytes
            .min(u32::try_from(fetch.max_bytes).unwrap_or(0));
        Self {
            topics: Vec::new(),
            wanted: Vec::new(),
            read_committed: fetch.isolation_level == 1,
            turn,
            refused: refused_as_a_whole(fetch),
            bytes_max: usize::try_from(limit).unwrap_or(usize::MAX),
            owners: Vec::new(),
            quiet_count: 0,
        }
    }

    /// Plans to read what the request names.
    pub(super) fn want_named<E: Env>(
        &mut self,
        client: &Client<E>,
        fetch: &FetchRequest,
        version: i16,
    ) {
        let count = fetch.topics.iter().map(|topic| topic.partitions.len());
        self.wanted.reserve(count.sum());
        for topic in &fetch.topics {
            let key = super::topic_key(&topic.topic, topic, BY_ID_VERSION <= version);
            let index = self.topic(client, &key);
            for partition in &topic.partitions {
                let position = wish(key.clone(), partition).position;
                self.want(&client.shard, index, partition.partition, position, None);
            }
        }
    }

    /// Takes in what is ready in the session; false when it is gone.
    fn want_ready<E: Env>(&mut self, client: &Client<E>, turn: Turn) -> bool {
        let mut sessions = client.shard.sessions.borrow_mut();
        let Some(session) = sessions.session(turn) else {
            return false;
        };
        self.quiet_count = session.len() - session.ready_count();
        let mut before = std::mem::take(&mut self.wanted).into_iter().peekable();
        session.take_ready(|ready| {
            // Both are in the session's order, which stands still while a request is served.
            if let Some(mut known) = before.next_if(|wanted| wanted.order == ready.order) {
                known.is_due = known.item.is_some() && (ready.has_fired || !known.outcome.is_armed);
                self.wanted.push(known);
                return;
            }
            self.want_of_session(client, turn, &ready);
        });
        true
    }

    fn want_of_session<E: Env>(&mut self, client: &Client<E>, turn: Turn, ready: &Ready<'_>) {
        let is_same = |named: &Named| match ready.topic {
            TopicKey::Name(name) => named.name == *name,
            TopicKey::Id(id) => named.id == *id,
        };
        let index = match self.topics.last().filter(|named| is_same(named)) {
            Some(_) => self.topics.len() - 1,
            None => self.topic(client, ready.topic),
        };
        let interest = Interest {
            shard: client.shard.id,
            session: turn.id,
            cell: ready.cell,
        };
        self.want(
            &client.shard,
            index,
            ready.partition,
            ready.position,
            Some((interest, ready.order)),
        );
    }

    fn topic<E: Env>(&mut self, client: &Client<E>, key: &TopicKey) -> usize {
        let shard = &client.shard;
        let (name, id, entry) = match key {
            TopicKey::Name(name) => {
                let entry = shard.topic_by_name(name);
                (name.clone(), TopicId::ZERO, entry)
            }
            TopicKey::Id(id) => (Str::default(), *id, shard.topic_by_id(*id)),
        };
        let unknown = match key {
            TopicKey::Name(_) => ErrorCode::UnknownTopicOrPartition,
            TopicKey::Id(_) => ErrorCode::UnknownTopicId,
        };
        if let Some(entry) = &entry {
            client.on_topic(ApiKey::Fetch, entry);
        }
        let known = entry.ok_or(unknown);
        let known = known.map(|entry| (entry.id, entry.partition_count));
        self.topics.push(Named { name, id, known });
        self.topics.len() - 1
    }

    fn want<E: Env>(
        &mut self,
        shard: &Shard<E>,
        topic: usize,
        partition: i32,
        position: Position,
        in_session: Option<(Interest, u64)>,
    ) {
        let interest = in_session.map(|(interest, _)| interest);
        let known = self.topics[topic].known.and_then(|(topic_id, count)| {
            let is_there = (0..count).contains(&partition);
            let id = TopicPartition {
                topic_id,
                partition: PartitionId(partition),
            };
            is_there
                .then_some(id)
                .ok_or(ErrorCode::UnknownTopicOrPartition)
        });
        let bytes_max = usize::try_from(position.bytes_max);
        let refused = self
            .refused
            .or(bytes_max.is_err().then_some(ErrorCode::UnknownServerError));
        let readable = known.and_then(|partition| refused.map_or(Ok(partition), Err));
        let item = readable.map(|partition| ReadItem {
            partition,
            offset: position.offset,
            current_leader_epoch: position.current_leader_epoch,
            last_fetched_epoch: position.last_fetched_epoch,
            bytes_max: bytes_max.unwrap_or(0),
            interest,
        });
        let item = item.map(|item| (shard.owner(item.partition), item));
        if let Ok((owner, _)) = item
            && !self.owners.contains(&owner)
        {
            self.owners.push(owner);
        }
        let error = item.err().unwrap_or(ErrorCode::UnknownServerError);
        self.wanted.push(Wanted {
            topic,
            partition,
            cell: interest.map(|interest| interest.cell),
            outcome: ReadOutcome::refused(error),
            order: in_session.map_or(0, |(_, order)| order),
            item: item.ok(),
            is_due: item.is_ok(),
            is_unknown: known.is_err(),
        });
    }

    /// Reads until there is enough, something is wrong, or the time is up.
    pub(super) async fn fetch<E: Env>(&mut self, client: &Client<E>, fetch: &FetchRequest) {
        let shard = &client.shard;
        let wait_ms = u64::try_from(fetch.max_wait_ms).unwrap_or(0);
        let bytes_min = usize::try_from(fetch.min_bytes).unwrap_or(0);
        let mut deadline = None;
        for &owner in &self.owners {
            client.note_owner(owner);
        }
        loop {
            if let Some(turn) = self.turn
                && !self.want_ready(client, turn)
            {
                return;
            }
            self.read(shard).await;
            let sizes = self.wanted.iter().map(|wanted| wanted.outcome.size_bytes);
            let size_bytes: usize = sizes.sum();
            if bytes_min <= size_bytes || wait_ms == 0 || self.is_decided() {
                return;
            }
            let now = shard.net.now();
            let deadline = *deadline.get_or_insert(now.plus_ms(wait_ms));
            let is_over = shard.is_stopping.get() || client.registered.is_closed.get();
            if deadline <= now || is_over {
                return;
            }
            self.wait(client, bytes_min - size_bytes, deadline).await;
            let waited_ns = shard.net.now().since(now);
            client.timeline.on_waited(Stage::Wait, waited_ns);
        }
    }

    /// Whether something other than bytes calls for an answer: an error of a partition that there is, or that there is none to wait for.
    fn is_decided(&self) -> bool {
        let calls = |wanted: &Wanted| {
            let is_error = wanted.outcome.error != ErrorCode::None;
            (is_error && !wanted.is_unknown) || wanted.outcome.diverging.is_some()
        };
        let is_alone = self.quiet_count == 0 && self.wanted.iter().all(|wanted| wanted.is_unknown);
        is_alone || self.wanted.iter().any(calls)
    }

    async fn read<E: Env>(&mut self, shard: &Rc<Shard<E>>) {
        let mut remote = Vec::new();
        for &owner in self.owners.iter().filter(|owner| **owner != shard.id) {
            let request = self.read_request(owner);
            if !request.items.is_empty() {
                let request = message::Request::Read(request);
                remote.push((owner, shard.calls.start(owner, request).await));
            }
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
            Some((shard, item)) if shard == owner && wanted.is_due => Some(item),
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
            if wanted.is_due
                && wanted.item.is_some_and(|(shard, _)| shard == owner)
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
                outcome.aborted.clear();
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
        if self.begin_session_wait(shard, id) {
            client.registered.waiting_fetch.set(Some(id));
            let watched = self.watch(shard, id, bytes_missing, deadline).await;
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
            client.registered.waiting_fetch.set(None);
            for owner in watched {
                if owner == shard.id {
                    shard.unwatch_for_peer(owner, id);
                } else {
                    shard.calls.post(owner, message::Message::Unwatch(id));
                }
            }
        }
        if let Some(turn) = self.turn
            && let Some(session) = shard.sessions.borrow_mut().session(turn)
        {
            session.end_wait(id);
        }
        shard.end_wait(id);
    }

    /// Lets the session's interests wake this request; false when one has fired already, or the session is gone.
    fn begin_session_wait<E: Env>(&self, shard: &Shard<E>, id: u64) -> bool {
        let Some(turn) = self.turn else {
            return true;
        };
        let mut sessions = shard.sessions.borrow_mut();
        let session = sessions.session(turn);
        session.is_some_and(|session| session.wait(id))
    }

    /// Watches what no interest covers; gives the owners concerned.
    async fn watch<E: Env>(
        &self,
        shard: &Shard<E>,
        id: u64,
        bytes_missing: usize,
        deadline: Monotonic,
    ) -> Vec<ShardId> {
        let watched = self
            .owners
            .iter()
            .map(|owner| (*owner, self.seen(*owner)))
            .filter(|(_, items)| !items.is_empty());
        let watched: Vec<_> = watched.collect();
        // If all owners together have enough, then at least one has its share.
        let bytes_wanted = bytes_missing.div_ceil(watched.len().max(1)).max(1);
        let mut owners = Vec::with_capacity(watched.len());
        for (owner, items) in watched {
            owners.push(owner);
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
        owners
    }

    fn seen(&self, owner: ShardId) -> Vec<(TopicPartition, Offset)> {
        let of_owner = |wanted: &Wanted| match wanted.item {
            Some((shard, item)) if shard == owner && !wanted.outcome.is_armed => {
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
}

/// What is wrong with every partition of a request that there is, if anything.
fn refused_as_a_whole(fetch: &FetchRequest) -> Option<ErrorCode> {
    if !(0..=1).contains(&fetch.isolation_level) {
        return Some(ErrorCode::UnknownServerError);
    }
    if is_follower(fetch) {
        // No partition has another replica than this node's own.
        return Some(ErrorCode::NotLeaderOrFollower);
    }
    (fetch.max_bytes < 0).then_some(ErrorCode::UnknownServerError)
}
