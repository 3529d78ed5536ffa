//! A classic group while its coordinator runs: who is in it, and where its rebalance stands.
//!
//! All of this is soft state (see [`super`]): it begins as the last generation that was written ([`Classic::load`]) and
//! goes its own way until the next one is.
//!
//! 1. A member that waits has exactly one token, and no token is dropped: whoever leaves is answered, and so is a request
//!    that the same member sends again.
//! 2. `awaiting_join` counts the members that wait for the next generation; `supported` counts for each protocol the
//!    members that know it; `bytes` is the sum of [`Member::size_bytes`].
//! 3. The leader is a member, or the group has no members.
//!
//! What members say to each other (subscriptions, assignments) is opaque, save the topics of a `consumer` subscription:
//! offsets of those do not expire.

mod join;
mod leave;
mod rebalance;
mod subscription;
mod sync;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use pelton_model::record_type::group::{
    GroupMetadataKey, GroupMetadataValue, GroupRecord, MemberMetadata,
};
use pelton_model::{ErrorCode, Monotonic, Str, Timestamp};

use super::scene::Scene;
use super::timers::{Due, Session, Timers};
use super::{Client, JoinGroupReply, JoinedMember, Protocol, Reply, SyncGroupReply, Token};

/// The kind of client whose subscriptions name topics.
pub(super) const CONSUMER: &str = "consumer";

/// Where a classic group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody is in it.
    Empty,
    /// Members are awaited.
    PreparingRebalance,
    /// A generation has begun, its assignment is awaited.
    CompletingRebalance,
    /// Members have their assignment.
    Stable,
}

impl State {
    /// Kafka's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// What the group does when its wait for members ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JoinWait {
    /// Nothing is awaited.
    None,
    /// The first rebalance of an empty group: more members may come.
    Initial {
        /// When the wait ends, unless a member came.
        at: Monotonic,
        /// How long this wait is.
        delay_ms: i32,
        /// How much longer it may become.
        remaining_ms: i32,
    },
    /// Members of the last generation may rejoin.
    Rejoin {
        /// When those that have not are out.
        at: Monotonic,
    },
}

/// A member of a classic group.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) instance_id: Option<Str>,
    pub(super) client: Client,
    rebalance_timeout_ms: i32,
    session_timeout_ms: i32,
    protocols: Vec<Protocol>,
    assignment: Bytes,
    /// Its JoinGroup that waits for the next generation.
    join: Option<Token>,
    /// Its SyncGroup that waits for the assignment.
    sync: Option<Token>,
    /// It has not been through a generation, so it does not know its id and cannot send heartbeats.
    is_new: bool,
    session: Session,
}

impl Member {
    /// What the member holds in memory and in records, roughly.
    fn size_bytes(&self) -> usize {
        protocols_bytes(&self.protocols) + self.assignment.len()
    }

    /// The member's subscription in the terms of a protocol.
    pub(super) fn metadata(&self, protocol: Option<&Str>) -> Bytes {
        let known = |known: &&Protocol| Some(&known.name) == protocol;
        let found = self.protocols.iter().find(known);
        found
            .map(|found| found.metadata.clone())
            .unwrap_or_default()
    }

    pub(super) fn protocols(&self) -> &[Protocol] {
        &self.protocols
    }

    pub(super) fn session_timeout_ms(&self) -> i32 {
        self.session_timeout_ms
    }

    pub(super) fn rebalance_timeout_ms(&self) -> i32 {
        self.rebalance_timeout_ms
    }

    pub(super) fn assignment(&self) -> Bytes {
        self.assignment.clone()
    }
}

fn protocols_bytes(protocols: &[Protocol]) -> usize {
    let size = |protocol: &Protocol| protocol.name.len() + protocol.metadata.len();
    protocols.iter().map(size).sum()
}

/// A classic group.
#[derive(Debug)]
pub(super) struct Classic {
    pub(super) group_id: Str,
    state: State,
    /// It came to its rebalance from being empty.
    was_empty: bool,
    /// When it came to its state; unknown in old records.
    since: Option<Timestamp>,
    generation: i32,
    protocol_type: Option<Str>,
    protocol: Option<Str>,
    leader: Option<Str>,
    members: BTreeMap<Str, Member>,
    static_members: BTreeMap<Str, Str>,
    /// Members that were sent back for their id (KIP-394).
    pending: BTreeMap<Str, Session>,
    pending_sync: BTreeSet<Str>,
    awaiting_join: usize,
    supported: BTreeMap<Str, usize>,
    bytes: usize,
    /// A member came during the first rebalance: wait for more.
    new_member_added: bool,
    join_wait: JoinWait,
    sync_at: Option<Monotonic>,
    /// The topics that members want; `None` when that is not known.
    subscribed: Option<BTreeSet<Str>>,
}

impl Classic {
    /// A group that nobody has joined.
    pub(super) fn new(group_id: Str, since: Option<Timestamp>) -> Self {
        Self {
            group_id,
            state: State::Empty,
            was_empty: true,
            since,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            pending: BTreeMap::new(),
            pending_sync: BTreeSet::new(),
            awaiting_join: 0,
            supported: BTreeMap::new(),
            bytes: 0,
            new_member_added: false,
            join_wait: JoinWait::None,
            sync_at: None,
            subscribed: None,
        }
    }

    /// A group as it was last written.
    pub(super) fn load(group_id: Str, value: &GroupMetadataValue) -> Self {
        let since = value.current_state_timestamp;
        let mut group = Self::new(group_id, (since != -1).then_some(Timestamp(since)));
        group.generation = value.generation;
        group.protocol.clone_from(&value.protocol);
        group.protocol_type =
            (!value.protocol_type.is_empty()).then(|| value.protocol_type.clone());
        for member in &value.members {
            group.load_member(member);
        }
        group.leader.clone_from(&value.leader);
        if !group.members.is_empty() {
            group.state = State::Stable;
            group.was_empty = false;
            // A leader that is no member cannot lead; Kafka never writes one.
            if !group
                .leader
                .as_ref()
                .is_some_and(|id| group.members.contains_key(id))
            {
                group.leader = group.members.keys().next().cloned();
            }
        }
        group.note_topics();
        group
    }

    fn load_member(&mut self, loaded: &MemberMetadata) {
        let rebalance_timeout_ms = if loaded.rebalance_timeout == -1 {
            loaded.session_timeout
        } else {
            loaded.rebalance_timeout
        };
        let member = Member {
            instance_id: loaded.group_instance_id.clone(),
            client: Client {
                id: loaded.client_id.clone(),
                host: loaded.client_host.clone(),
            },
            rebalance_timeout_ms,
            session_timeout_ms: loaded.session_timeout,
            protocols: vec![Protocol {
                name: self.protocol.clone().unwrap_or_default(),
                metadata: loaded.subscription.clone(),
            }],
            assignment: loaded.assignment.clone(),
            join: None,
            sync: None,
            is_new: false,
            session: Session::default(),
        };
        // A record that names a member twice is damage; the last one counts.
        drop(self.take(&loaded.member_id));
        self.insert(loaded.member_id.clone(), member);
    }

    /// Begins to run: every member has just been heard of.
    pub(super) fn start(&mut self, scene: &mut Scene<'_>) {
        let ids: Vec<Str> = self.members.keys().cloned().collect();
        for id in &ids {
            self.extend_session(scene, id);
        }
        // A smaller `group.max.size` than before: members rejoin, and the last are turned away.
        if self.members.len() > size_max(scene) {
            self.prepare_rebalance(scene);
        }
    }

    /// Gives a member more protocols than the record of its generation has.
    pub(super) fn set_protocols(&mut self, member_id: &Str, protocols: Vec<Protocol>) {
        if let Some(mut member) = self.take(member_id) {
            member.protocols = protocols;
            self.insert(member_id.clone(), member);
        }
    }

    /// Has everybody rejoin.
    pub(super) fn rebalance(&mut self, scene: &mut Scene<'_>) {
        if self.state == State::Stable {
            self.prepare_rebalance(scene);
        }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state == State::Empty
    }

    /// Whether nobody is in it or on the way into it.
    pub(super) fn is_idle(&self) -> bool {
        self.state == State::Empty && self.pending.is_empty()
    }

    /// The record of a group that somebody is about to join.
    pub(super) fn first_record(&self) -> GroupRecord {
        let key = GroupMetadataKey {
            group: self.group_id.clone(),
        };
        let value = GroupMetadataValue {
            current_state_timestamp: self.since.unwrap_or(Timestamp::NONE).0,
            ..GroupMetadataValue::default()
        };
        GroupRecord::GroupMetadata(key, Some(value))
    }

    pub(super) fn generation(&self) -> i32 {
        self.generation
    }

    pub(super) fn protocol_type(&self) -> Option<&Str> {
        self.protocol_type.as_ref()
    }

    pub(super) fn protocol(&self) -> Option<&Str> {
        self.protocol.as_ref()
    }

    pub(super) fn members(&self) -> &BTreeMap<Str, Member> {
        &self.members
    }

    /// When the group came to its state, where that is known.
    pub(super) fn since(&self) -> Option<Timestamp> {
        self.since
    }

    /// Whether the group is of consumers, whose subscriptions name topics.
    pub(super) fn is_of_consumers(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER)
    }

    /// The topics that members want; `None` when that is not known.
    pub(super) fn subscribed(&self) -> Option<&BTreeSet<Str>> {
        self.subscribed.as_ref()
    }

    /// Whether a member reads the topic; a group of consumers that cannot be read counts as reading all.
    pub(super) fn is_subscribed_to(&self, topic: &Str) -> bool {
        match &self.subscribed {
            Some(topics) => topics.contains(topic),
            None => self.is_of_consumers(),
        }
    }

    /// The current generation as a record, with the assignment that members have.
    fn record(&self) -> GroupRecord {
        let member = |(id, member): (&Str, &Member)| MemberMetadata {
            member_id: id.clone(),
            group_instance_id: member.instance_id.clone(),
            client_id: member.client.id.clone(),
            client_host: member.client.host.clone(),
            rebalance_timeout: member.rebalance_timeout_ms,
            session_timeout: member.session_timeout_ms,
            subscription: member.metadata(self.protocol.as_ref()),
            assignment: member.assignment.clone(),
        };
        let value = GroupMetadataValue {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            current_state_timestamp: self.since.unwrap_or(Timestamp::NONE).0,
            members: self.members.iter().map(member).collect(),
        };
        let key = GroupMetadataKey {
            group: self.group_id.clone(),
        };
        GroupRecord::GroupMetadata(key, Some(value))
    }

    fn go(&mut self, state: State, now: Timestamp) {
        self.was_empty = self.state == State::Empty;
        self.state = state;
        self.since = Some(now);
    }

    /// Checks that a request comes from a member, and a static one under its present id.
    pub(super) fn check_member(
        &self,
        member_id: &Str,
        instance_id: Option<&Str>,
    ) -> Result<(), ErrorCode> {
        if let Some(instance_id) = instance_id {
            match self.static_members.get(instance_id) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(present) if present != member_id => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(member_id) {
            Ok(())
        } else {
            Err(ErrorCode::UnknownMemberId)
        }
    }

    fn insert(&mut self, member_id: Str, member: Member) {
        if let Some(instance_id) = &member.instance_id {
            self.static_members
                .insert(instance_id.clone(), member_id.clone());
        }
        if self.leader.is_none() {
            self.leader = Some(member_id.clone());
        }
        for protocol in &member.protocols {
            *self.supported.entry(protocol.name.clone()).or_default() += 1;
        }
        self.awaiting_join += usize::from(member.join.is_some());
        self.bytes += member.size_bytes();
        let before = self.members.insert(member_id, member);
        debug_assert!(before.is_none());
    }

    /// Takes a member out and answers what it waits for.
    fn remove(&mut self, scene: &mut Scene<'_>, member_id: &Str) {
        if let Some(mut session) = self.pending.remove(member_id) {
            session.end(scene.timers, || session_due(&self.group_id, member_id));
        }
        self.pending_sync.remove(member_id);
        let Some(mut member) = self.take(member_id) else {
            return;
        };
        member
            .session
            .end(scene.timers, || session_due(&self.group_id, member_id));
        let error = ErrorCode::UnknownMemberId;
        if let Some(token) = member.join.take() {
            scene.refuse_join(token, error, Str::default());
        }
        if let Some(token) = member.sync.take() {
            scene.reply_sync(token, SyncGroupReply::refused(error));
        }
        if self.leader.as_ref() == Some(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
    }

    /// Takes a member out of all tables but the leader's place.
    fn take(&mut self, member_id: &Str) -> Option<Member> {
        let member = self.members.remove(member_id)?;
        for protocol in &member.protocols {
            self.forget_protocol(&protocol.name);
        }
        if let Some(instance_id) = &member.instance_id {
            self.static_members.remove(instance_id);
        }
        self.awaiting_join -= usize::from(member.join.is_some());
        self.bytes -= member.size_bytes();
        Some(member)
    }

    fn forget_protocol(&mut self, name: &Str) {
        if let Some(count) = self.supported.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                self.supported.remove(name);
            }
        }
    }

    /// Answers a member's JoinGroup that waits.
    fn finish_join(&mut self, scene: &mut Scene<'_>, member_id: &Str, reply: JoinGroupReply) {
        let Some(member) = self.members.get_mut(member_id) else {
            return;
        };
        if let Some(token) = member.join.take() {
            self.awaiting_join -= 1;
            scene.reply_join(token, reply);
        }
    }

    /// The member was heard of: it has its session timeout again.
    fn extend_session(&mut self, scene: &mut Scene<'_>, member_id: &Str) {
        let timeout_ms = self
            .members
            .get(member_id)
            .map_or(0, |member| member.session_timeout_ms);
        self.extend_session_by(scene, member_id, timeout_ms);
    }

    fn extend_session_by(&mut self, scene: &mut Scene<'_>, member_id: &Str, timeout_ms: i32) {
        let deadline = scene.after_ms(timeout_ms);
        if let Some(member) = self.members.get_mut(member_id) {
            let due = || session_due(&self.group_id, member_id);
            member.session.extend(scene.timers, deadline, due);
        }
    }

    /// A commit keeps its member alive as a heartbeat does.
    pub(super) fn on_commit(&mut self, scene: &mut Scene<'_>, member_id: &Str) {
        match self.state {
            State::Stable | State::PreparingRebalance => self.extend_session(scene, member_id),
            State::Empty | State::CompletingRebalance => {}
        }
    }

    /// All members for the leader.
    fn joined_members(&self) -> Vec<JoinedMember> {
        let member = |(id, member): (&Str, &Member)| JoinedMember {
            member_id: id.clone(),
            group_instance_id: member.instance_id.clone(),
            metadata: member.metadata(self.protocol.as_ref()),
        };
        self.members.iter().map(member).collect()
    }

    /// What a member of the current generation learns of it.
    fn joined(&self, member_id: &Str, with_members: bool) -> JoinGroupReply {
        JoinGroupReply {
            error: ErrorCode::None,
            generation_id: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            skip_assignment: false,
            member_id: member_id.clone(),
            members: if with_members {
                self.joined_members()
            } else {
                Vec::new()
            },
        }
    }

    fn is_leader(&self, member_id: &Str) -> bool {
        self.leader.as_ref() == Some(member_id)
    }

    /// The members' rebalance timeouts: the longest.
    fn rebalance_timeout_ms(&self) -> i32 {
        let longest = self
            .members
            .values()
            .map(|member| member.rebalance_timeout_ms)
            .max();
        longest.unwrap_or(0).max(0)
    }

    /// The protocol that all know and most prefer; among equals the first by name.
    fn choose_protocol(&self) -> Option<Str> {
        let known_to_all = |name: &Str| self.supported.get(name) == Some(&self.members.len());
        let mut votes: BTreeMap<&Str, usize> = BTreeMap::new();
        for member in self.members.values() {
            let vote = member
                .protocols
                .iter()
                .find(|protocol| known_to_all(&protocol.name));
            if let Some(vote) = vote {
                *votes.entry(&vote.name).or_default() += 1;
            }
        }
        let most = votes.values().max().copied()?;
        votes
            .into_iter()
            .find(|(_, count)| *count == most)
            .map(|(name, _)| name.clone())
    }

    /// Whether a member with these protocols fits the group.
    fn supports(&self, protocol_type: &Str, protocols: &[Protocol]) -> bool {
        if self.state == State::Empty {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        let known_to_all = |protocol: &Protocol| {
            self.supported.get(&protocol.name).copied().unwrap_or(0) == self.members.len()
        };
        self.protocol_type.as_ref() == Some(protocol_type) && protocols.iter().any(known_to_all)
    }

    /// Reads which topics the members want.
    fn note_topics(&mut self) {
        self.subscribed = self.read_topics();
    }

    fn read_topics(&self) -> Option<BTreeSet<Str>> {
        if !self.is_of_consumers() {
            return None;
        }
        if self.members.is_empty() {
            return Some(BTreeSet::new());
        }
        let protocol = self.protocol.as_ref()?;
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            subscription::topics(&member.metadata(Some(protocol)), &mut topics)?;
        }
        Some(topics)
    }

    /// Gives the group up: answers all that wait, and disarms its deadlines.
    pub(super) fn give_up(&mut self, timers: &mut Timers, error: ErrorCode) -> Vec<(Token, Reply)> {
        let mut replies = Vec::new();
        for (id, member) in &mut self.members {
            member
                .session
                .end(timers, || session_due(&self.group_id, id));
            if let Some(token) = member.join.take() {
                let reply = JoinGroupReply::refused(error, id.clone());
                replies.push((token, Reply::JoinGroup(reply)));
            }
            if let Some(token) = member.sync.take() {
                replies.push((token, Reply::SyncGroup(SyncGroupReply::refused(error))));
            }
        }
        for (id, session) in &mut self.pending {
            session.end(timers, || session_due(&self.group_id, id));
        }
        self.awaiting_join = 0;
        self.pending.clear();
        self.stop_waiting_for_joins(timers);
        self.stop_waiting_for_syncs(timers);
        replies
    }
}

/// Members a group may have.
fn size_max(scene: &Scene<'_>) -> usize {
    scene
        .config
        .max_size
        .min(pelton_model::limits::GROUP_MEMBERS_MAX)
}

fn session_due(group_id: &Str, member_id: &Str) -> Due {
    Due::Session {
        group_id: group_id.clone(),
        member_id: member_id.clone(),
    }
}
