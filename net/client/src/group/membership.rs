//! A place in a group: joining, heartbeats, leaving, and the offsets that the member commits and finds.
//!
//! 1. One generation at a time; what is sent under an old one says so, and the coordinator refuses it.
//! 2. A heartbeat that learns of a rebalance wakes the consumer; joining is the consumer's own business.
//! 3. The coordinator is looked up again whenever it says that it is none, or cannot be reached.
//!
//! Not here: which partitions anyone gets (`range`), records.
//! Source: KIP-62, KIP-134, KIP-345, KIP-394.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use pelton_model::ErrorCode;
use pelton_model::task::Notify;
use pelton_protocol::codec::{Message, Str};
use pelton_protocol::message::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use pelton_protocol::message::join_group::{
    JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse,
};
use pelton_protocol::message::leave_group::{
    LeaveGroupRequest, LeaveGroupResponse, MemberIdentity,
};
use pelton_protocol::message::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    OffsetCommitResponse,
};
use pelton_protocol::message::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse,
};
use pelton_protocol::message::sync_group::{
    SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse,
};
use pelton_transport::net::{Net, TaskClass};

use super::GroupOptions;
use super::protocol::{Subscription, TopicPartitions, decode_assignment, encode_assignment};
use super::range;
use crate::client::Client;
use crate::coordinator::{Coordinator, CoordinatorKind};
use crate::error::ClientError;

/// The kind of client that Kafka's consumers are.
const PROTOCOL_TYPE: &str = "consumer";
/// The last version of OffsetFetch that names one group, and of OffsetCommit that names topics.
const OFFSET_FETCH_VERSION_MAX: i16 = 7;
const OFFSET_COMMIT_VERSION_MAX: i16 = 9;
/// What a join may take beyond the group's own time.
const JOIN_GRACE_MS: u64 = 5_000;

/// How the member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It must join; what it has may go on being committed until then.
    MustJoin,
    /// It must join, and others may have its partitions already.
    Lost,
    /// It belongs to the present generation.
    Stable,
}

/// See the module.
pub(crate) struct Membership<N: Net> {
    coordinator: Coordinator<N>,
    options: GroupOptions,
    standing: Cell<Standing>,
    member_id: RefCell<Str>,
    generation: Cell<i32>,
    /// Wakes the consumer: it must join.
    pub(crate) changed: Notify,
    fenced: RefCell<Option<ClientError>>,
    is_beating: Cell<bool>,
    is_stopped: Cell<bool>,
}

/// A generation as one member sees it.
pub(crate) struct Generation {
    pub(crate) partitions: TopicPartitions,
    /// For the leader: the partition counts that its assignment rests on.
    pub(crate) counts: Option<BTreeMap<Str, i32>>,
}

impl<N: Net> Membership<N> {
    pub(crate) fn new(client: &Client<N>, options: GroupOptions) -> Rc<Self> {
        Rc::new(Self {
            coordinator: Coordinator::new(client, CoordinatorKind::Group, options.group_id.clone()),
            options,
            standing: Cell::new(Standing::Lost),
            member_id: RefCell::default(),
            generation: Cell::new(-1),
            changed: Notify::default(),
            fenced: RefCell::default(),
            is_beating: Cell::new(false),
            is_stopped: Cell::new(false),
        })
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing.get()
    }

    pub(crate) fn must_join(&self) {
        if self.standing.get() == Standing::Stable {
            self.standing.set(Standing::MustJoin);
        }
    }

    pub(crate) fn member_id(&self) -> Str {
        self.member_id.borrow().clone()
    }

    pub(crate) fn generation(&self) -> i32 {
        self.generation.get()
    }

    pub(crate) fn stop(&self) {
        self.is_stopped.set(true);
    }

    /// Why the member can never join again, if so.
    pub(crate) fn check(&self) -> Result<(), ClientError> {
        self.fenced.borrow().clone().map_or(Ok(()), Err)
    }

    /// The member has taken its partitions over: it says so from now on.
    pub(crate) fn settle(self: &Rc<Self>) {
        self.standing.set(Standing::Stable);
        self.beat();
    }

    /// Joins and waits for the assignment, however many rebalances that takes. [`Membership::settle`] follows.
    pub(crate) async fn join(
        &self,
        topics: &[Str],
        owned: &TopicPartitions,
    ) -> Result<Generation, ClientError> {
        let mut backoff = self.client().retry_backoff();
        loop {
            match self.try_join(topics, owned).await {
                Ok(generation) => return Ok(generation),
                Err(error) => self.judge("joining", error)?,
            }
            backoff.failed(self.client().net().now(), self.client().random());
            self.client().net().sleep_until(backoff.not_before()).await;
        }
    }

    async fn try_join(
        &self,
        topics: &[Str],
        owned: &TopicPartitions,
    ) -> Result<Generation, ClientError> {
        let subscription = Subscription {
            topics: topics.to_vec(),
            owned: owned.clone(),
        };
        let mut joined = self.send_join(&subscription).await?;
        if ErrorCode::from_code(joined.error_code) == Some(ErrorCode::MemberIdRequired) {
            *self.member_id.borrow_mut() = joined.member_id.clone();
            joined = self.send_join(&subscription).await?;
        }
        self.refused("joining", joined.error_code)?;
        *self.member_id.borrow_mut() = joined.member_id.clone();
        self.generation.set(joined.generation_id);
        let leads = joined.leader == joined.member_id && !joined.skip_assignment;
        let (assignments, counts) = if leads {
            let (assignments, counts) = self.assign(&joined).await?;
            (assignments, Some(counts))
        } else {
            (Vec::new(), None)
        };
        let request = SyncGroupRequest {
            group_id: self.options.group_id.clone(),
            generation_id: joined.generation_id,
            member_id: joined.member_id.clone(),
            group_instance_id: self.options.instance_id.clone(),
            protocol_type: Some(Str::new_static(PROTOCOL_TYPE)),
            protocol_name: joined.protocol_name.clone(),
            assignments,
        };
        let synced: SyncGroupResponse = self.ask_patiently(&request).await?;
        self.refused("syncing with", synced.error_code)?;
        let partitions =
            decode_assignment(&synced.assignment).map_err(|source| ClientError::Malformed {
                address: self.coordinator.address(),
                api: "SyncGroup",
                source,
            })?;
        Ok(Generation { partitions, counts })
    }

    async fn send_join(
        &self,
        subscription: &Subscription,
    ) -> Result<JoinGroupResponse, ClientError> {
        let request = JoinGroupRequest {
            group_id: self.options.group_id.clone(),
            session_timeout_ms: self.options.session_timeout_ms,
            rebalance_timeout_ms: self.options.rebalance_timeout_ms,
            member_id: self.member_id(),
            group_instance_id: self.options.instance_id.clone(),
            protocol_type: Str::new_static(PROTOCOL_TYPE),
            protocols: vec![JoinGroupRequestProtocol {
                name: Str::new_static(range::NAME),
                metadata: subscription.encode(),
            }],
            reason: None,
        };
        self.ask_patiently(&request).await
    }

    /// The leader's work: everybody's partitions, and the counts they rest on.
    async fn assign(
        &self,
        joined: &JoinGroupResponse,
    ) -> Result<(Vec<SyncGroupRequestAssignment>, BTreeMap<Str, i32>), ClientError> {
        let mut members = Vec::with_capacity(joined.members.len());
        for member in &joined.members {
            // Whoever says nothing that can be read wants nothing.
            let subscription = Subscription::decode(&member.metadata).unwrap_or_default();
            members.push(range::Member {
                member_id: member.member_id.clone(),
                instance_id: member.group_instance_id.clone(),
                topics: subscription.topics,
            });
        }
        let topics = members
            .iter()
            .flat_map(|member| member.topics.iter().cloned());
        let counts = self.counts(topics.collect()).await?;
        let assignments = range::assign(&members, &counts).into_iter();
        let assignments = assignments.map(|(member_id, partitions)| SyncGroupRequestAssignment {
            member_id,
            assignment: encode_assignment(&partitions),
        });
        Ok((assignments.collect(), counts))
    }

    /// The partition counts of those topics that exist.
    pub(crate) async fn counts(
        &self,
        topics: std::collections::BTreeSet<Str>,
    ) -> Result<BTreeMap<Str, i32>, ClientError> {
        let mut counts = BTreeMap::new();
        for topic in topics {
            match self.client().topic(&topic, false).await {
                Ok(known) => {
                    let count = i32::try_from(known.partitions.len()).unwrap_or(i32::MAX);
                    counts.insert(topic, count);
                }
                Err(error) if error.error_code() == Some(ErrorCode::UnknownTopicOrPartition) => {
                    tracing::warn!(%topic, "the topic does not exist");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(counts)
    }

    /// Begins to send heartbeats, once.
    fn beat(self: &Rc<Self>) {
        if self.is_beating.replace(true) {
            return;
        }
        let membership = Rc::clone(self);
        let net = self.client().net().clone();
        net.spawn(TaskClass::Request, async move {
            let interval_ms = membership.options.heartbeat_interval_ms;
            loop {
                let net = membership.client().net();
                net.sleep_until(net.now().plus_ms(interval_ms)).await;
                if membership.is_stopped.get() {
                    return;
                }
                if membership.standing() == Standing::Stable
                    && let Err(error) = membership.heartbeat().await
                    && let Err(fatal) = membership.judge("heartbeat", error)
                {
                    *membership.fenced.borrow_mut() = Some(fatal);
                    membership.changed.notify();
                }
            }
        });
    }

    async fn heartbeat(&self) -> Result<(), ClientError> {
        let request = HeartbeatRequest {
            group_id: self.options.group_id.clone(),
            generation_id: self.generation.get(),
            member_id: self.member_id(),
            group_instance_id: self.options.instance_id.clone(),
        };
        let response: HeartbeatResponse = self.coordinator.ask(&request, i16::MAX).await?;
        if request.generation_id == self.generation.get() {
            self.refused("heartbeat of", response.error_code)?;
        }
        Ok(())
    }

    /// Commits offsets of the present generation.
    pub(crate) async fn commit(
        &self,
        offsets: &BTreeMap<(Str, i32), i64>,
    ) -> Result<(), ClientError> {
        let mut topics: Vec<OffsetCommitRequestTopic> = Vec::new();
        for ((topic, partition), offset) in offsets {
            if topics.last().is_none_or(|last| last.name != *topic) {
                topics.push(OffsetCommitRequestTopic {
                    name: topic.clone(),
                    ..OffsetCommitRequestTopic::default()
                });
            }
            let last = topics.last_mut().expect("one was pushed if there was none");
            last.partitions.push(OffsetCommitRequestPartition {
                partition_index: *partition,
                committed_offset: *offset,
                committed_leader_epoch: -1,
                committed_metadata: Some(Str::default()),
            });
        }
        let request = OffsetCommitRequest {
            group_id: self.options.group_id.clone(),
            generation_id_or_member_epoch: self.generation.get(),
            member_id: self.member_id(),
            group_instance_id: self.options.instance_id.clone(),
            retention_time_ms: -1,
            topics,
        };
        let mut backoff = self.client().retry_backoff();
        loop {
            let failure = match self.try_commit(&request).await {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            self.judge("commit", failure.clone())?;
            let tries_left = backoff.failures() < COMMIT_TRIES_MAX;
            if self.standing() != Standing::Stable || !tries_left {
                return Err(failure);
            }
            backoff.failed(self.client().net().now(), self.client().random());
            self.client().net().sleep_until(backoff.not_before()).await;
        }
    }

    async fn try_commit(&self, request: &OffsetCommitRequest) -> Result<(), ClientError> {
        let version_max = OFFSET_COMMIT_VERSION_MAX;
        let response: OffsetCommitResponse = self.coordinator.ask(request, version_max).await?;
        let partitions = response
            .topics
            .into_iter()
            .flat_map(|topic| topic.partitions);
        for partition in partitions {
            self.refused("commit of", partition.error_code)?;
        }
        Ok(())
    }

    /// What is committed for these partitions.
    pub(crate) async fn committed(
        &self,
        partitions: &TopicPartitions,
    ) -> Result<BTreeMap<(Str, i32), i64>, ClientError> {
        let topics = partitions
            .iter()
            .map(|(topic, partitions)| OffsetFetchRequestTopic {
                name: topic.clone(),
                partition_indexes: partitions.clone(),
            });
        let request = OffsetFetchRequest {
            group_id: self.options.group_id.clone(),
            topics: Some(topics.collect()),
            ..OffsetFetchRequest::default()
        };
        let version_max = OFFSET_FETCH_VERSION_MAX;
        let response: OffsetFetchResponse = self.coordinator.ask(&request, version_max).await?;
        self.refused("offsets of", response.error_code)?;
        let mut offsets = BTreeMap::new();
        for topic in response.topics {
            for partition in topic.partitions {
                self.refused("offsets of", partition.error_code)?;
                if partition.committed_offset >= 0 {
                    let key = (topic.name.clone(), partition.partition_index);
                    offsets.insert(key, partition.committed_offset);
                }
            }
        }
        Ok(offsets)
    }

    /// Leaves the group; a static member stays for its return.
    pub(crate) async fn leave(&self) -> Result<(), ClientError> {
        self.stop();
        let member_id = self.member_id();
        if member_id.is_empty() || self.options.instance_id.is_some() {
            return Ok(());
        }
        let request = LeaveGroupRequest {
            group_id: self.options.group_id.clone(),
            member_id: member_id.clone(),
            members: vec![MemberIdentity {
                member_id,
                ..MemberIdentity::default()
            }],
        };
        let response: LeaveGroupResponse = self.coordinator.ask(&request, i16::MAX).await?;
        self.refused("leaving", response.error_code)
    }

    /// Asks what waits for other members.
    async fn ask_patiently<Q: Message, S: Message>(&self, request: &Q) -> Result<S, ClientError> {
        let rebalance_ms = u64::try_from(self.options.rebalance_timeout_ms).unwrap_or(0);
        let timeout_ms = rebalance_ms.saturating_add(JOIN_GRACE_MS);
        self.coordinator.ask_within(request, timeout_ms).await
    }

    fn refused(&self, operation: &'static str, code: i16) -> Result<(), ClientError> {
        ClientError::refused(operation, self.options.group_id.clone(), code, None)
    }

    /// What an error means for the member's standing; those that no rejoining mends come back.
    fn judge(&self, what: &'static str, error: ClientError) -> Result<(), ClientError> {
        tracing::debug!(group = %self.options.group_id, what, %error, "a group request failed");
        match error.error_code() {
            Some(ErrorCode::RebalanceInProgress) => self.must_join(),
            Some(ErrorCode::IllegalGeneration) => self.standing.set(Standing::Lost),
            Some(ErrorCode::UnknownMemberId | ErrorCode::MemberIdRequired) => {
                *self.member_id.borrow_mut() = Str::default();
                self.standing.set(Standing::Lost);
            }
            _ if error.is_retriable() => {
                self.coordinator.forget();
                return Ok(());
            }
            _ => return Err(error),
        }
        self.changed.notify();
        Ok(())
    }

    fn client(&self) -> &Client<N> {
        self.coordinator.client()
    }
}

/// How often a commit is tried again while the member belongs to its generation.
const COMMIT_TRIES_MAX: u32 = 10;
