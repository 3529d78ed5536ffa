//! The consumer in a group: partitions come and go with the members, offsets are the group's.
//!
//! [`GroupConsumer::poll`] joins when it must, gives records, and commits from time to time. Heartbeats are a task of their own, so that
//! a caller may work on its records; a caller that stays away for longer than the rebalance timeout loses its place when others come.
//!
//! 1. A record is committed only after the poll that follows the one that gave it: what a caller was given and did not finish, another
//!    member is given again.
//! 2. Before partitions are given up their offsets are committed (with automatic commits), save when others have them already.
//! 3. Rebalances are eager: every member gives everything back and takes what the leader assigns (the `range` assignor, Kafka's default).
//!
//! Not here: cooperative rebalances, the consumer protocol of KIP-848, patterns of topics.
//! Source: KIP-62, KIP-345.

mod admin;
mod membership;
mod protocol;
mod range;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures_lite::future;
use pelton_model::Monotonic;
use pelton_protocol::codec::Str;
use pelton_transport::net::Net;

pub use self::admin::{CommittedOffset, GroupDescription, GroupListing, GroupMember};
use self::membership::{Membership, Standing};
pub use self::protocol::{TopicPartitions, decode_assignment};
use crate::client::Client;
use crate::consumer::{
    ConsumedRecord, Consumer, ConsumerOptions, OffsetReset, PartitionPosition, Position,
};
use crate::error::ClientError;

/// Settings of a member; the defaults are those of Kafka's consumers.
#[derive(Clone, Debug)]
pub struct GroupOptions {
    /// The group.
    pub group_id: Str,
    /// A name that outlives the process: a static member.
    pub instance_id: Option<Str>,
    /// How long the coordinator waits for a heartbeat, in milliseconds.
    pub session_timeout_ms: i32,
    /// How long a rebalance waits for this member's next poll, in milliseconds.
    pub rebalance_timeout_ms: i32,
    /// How often a heartbeat is sent, in milliseconds.
    pub heartbeat_interval_ms: u64,
    /// How often polls commit what earlier ones gave, in milliseconds; `None` leaves it to [`GroupConsumer::commit`].
    pub auto_commit_interval_ms: Option<u64>,
    /// How records are fetched; its offset reset also says where a partition begins for which nothing is committed.
    pub consumer: ConsumerOptions,
}

impl GroupOptions {
    /// Kafka's defaults for a member of this group.
    #[must_use]
    pub fn new(group_id: impl Into<Str>) -> Self {
        Self {
            group_id: group_id.into(),
            instance_id: None,
            session_timeout_ms: 45_000,
            rebalance_timeout_ms: 300_000,
            heartbeat_interval_ms: 3_000,
            auto_commit_interval_ms: Some(5_000),
            consumer: ConsumerOptions::default(),
        }
    }
}

/// A member of a group.
pub struct GroupConsumer<N: Net> {
    client: Client<N>,
    options: GroupOptions,
    topics: Vec<Str>,
    membership: Rc<Membership<N>>,
    consumer: Consumer<N>,
    committed: BTreeMap<(Str, i32), i64>,
    next_commit: Monotonic,
    /// Of the leader: the partition counts of its assignment, and when they are looked at again.
    counts: Option<BTreeMap<Str, i32>>,
    next_look: Monotonic,
}

impl<N: Net> Drop for GroupConsumer<N> {
    fn drop(&mut self) {
        self.membership.stop();
    }
}

impl<N: Net> GroupConsumer<N> {
    /// A member of a group for these topics; it joins with the first poll.
    #[must_use]
    pub fn new(
        client: &Client<N>,
        topics: impl IntoIterator<Item = impl Into<Str>>,
        options: GroupOptions,
    ) -> Self {
        Self {
            client: client.clone(),
            topics: topics.into_iter().map(Into::into).collect(),
            membership: Membership::new(client, options.clone()),
            consumer: Consumer::new(client, options.consumer.clone()),
            options,
            committed: BTreeMap::new(),
            next_commit: Monotonic(0),
            counts: None,
            next_look: Monotonic(0),
        }
    }

    /// The member's id; empty before it has joined.
    #[must_use]
    pub fn member_id(&self) -> Str {
        self.membership.member_id()
    }

    /// The generation it belongs to; −1 before it has joined.
    #[must_use]
    pub fn generation(&self) -> i32 {
        self.membership.generation()
    }

    /// Where each partition that the member has stands.
    #[must_use]
    pub fn positions(&self) -> Vec<PartitionPosition> {
        self.consumer.positions()
    }

    /// The next records; joins first where that is due, which may take longer than `wait_max`.
    ///
    /// # Errors
    /// As [`Consumer::poll`]; the group refuses the member for good.
    ///
    /// # Cancel safety
    /// Dropping the future loses no records.
    pub async fn poll(&mut self, wait_max: Duration) -> Result<Vec<ConsumedRecord>, ClientError> {
        let wait_ms = u64::try_from(wait_max.as_millis()).unwrap_or(u64::MAX);
        let deadline = self.client.net().now().plus_ms(wait_ms);
        loop {
            self.membership.check()?;
            self.look_at_counts().await?;
            if self.membership.standing() != Standing::Stable {
                self.rejoin().await?;
            }
            self.commit_if_due().await;
            let now = self.client.net().now();
            let until = if self.options.auto_commit_interval_ms.is_some() {
                deadline.min(self.next_commit)
            } else {
                deadline
            };
            let wait = Duration::from_nanos(until.0.saturating_sub(now.0));
            let membership = Rc::clone(&self.membership);
            let rebalance = async {
                membership.changed.notified().await;
                Ok(Vec::new())
            };
            let records = future::or(self.consumer.poll(wait), rebalance).await?;
            if !records.is_empty() || deadline <= self.client.net().now() {
                return Ok(records);
            }
        }
    }

    /// Commits the positions as they are: everything that was given so far counts as done.
    ///
    /// # Errors
    /// The member is not of the present generation any more (poll again), or the coordinator refuses.
    pub async fn commit(&mut self) -> Result<(), ClientError> {
        let positions = self.consumer.positions().into_iter();
        let positions = positions.map(|at| ((at.topic, at.partition), at.next_offset));
        let moved: BTreeMap<(Str, i32), i64> = positions
            .filter(|(partition, offset)| self.committed.get(partition) != Some(offset))
            .collect();
        self.commit_offsets(moved).await
    }

    /// Commits these offsets, by topic and partition: each that of the next record to be given.
    ///
    /// # Errors
    /// As [`GroupConsumer::commit`].
    pub async fn commit_offsets(
        &mut self,
        offsets: BTreeMap<(Str, i32), i64>,
    ) -> Result<(), ClientError> {
        if offsets.is_empty() {
            return Ok(());
        }
        self.membership.commit(&offsets).await?;
        self.committed.extend(offsets);
        Ok(())
    }

    /// Commits (with automatic commits) and leaves the group.
    ///
    /// # Errors
    /// The coordinator could not be told; it will notice when heartbeats stay away.
    pub async fn close(mut self) -> Result<(), ClientError> {
        let is_automatic = self.options.auto_commit_interval_ms.is_some();
        let committed = if is_automatic && self.membership.standing() == Standing::Stable {
            self.commit().await
        } else {
            Ok(())
        };
        self.membership.leave().await.and(committed)
    }

    async fn commit_if_due(&mut self) {
        let Some(interval_ms) = self.options.auto_commit_interval_ms else {
            return;
        };
        let now = self.client.net().now();
        if now < self.next_commit {
            return;
        }
        self.next_commit = now.plus_ms(interval_ms.max(1));
        if let Err(error) = self.commit().await {
            tracing::warn!(group = %self.options.group_id, %error, "cannot commit: tried again later");
        }
    }

    async fn rejoin(&mut self) -> Result<(), ClientError> {
        let is_automatic = self.options.auto_commit_interval_ms.is_some();
        if is_automatic
            && self.membership.standing() == Standing::MustJoin
            && let Err(error) = self.commit().await
        {
            tracing::warn!(group = %self.options.group_id, %error, "cannot commit before a rebalance");
        }
        self.consumer
            .assign(std::iter::empty::<(Str, i32, Position)>())
            .await?;
        self.committed.clear();
        let none = TopicPartitions::new();
        let generation = self.membership.join(&self.topics, &none).await?;
        self.counts = generation.counts;
        let now = self.client.net().now();
        self.next_look = now.plus_ms(self.client.options().metadata_max_age_ms);
        if let Some(interval_ms) = self.options.auto_commit_interval_ms {
            self.next_commit = now.plus_ms(interval_ms.max(1));
        }
        // Until then the next poll joins again: a member that beats but reads nothing would keep its partitions from others.
        self.take_over(&generation.partitions).await?;
        self.membership.settle();
        Ok(())
    }

    /// Begins with new partitions where the group has come to.
    async fn take_over(&mut self, partitions: &TopicPartitions) -> Result<(), ClientError> {
        let committed = self.membership.committed(partitions).await?;
        let reset = match self.options.consumer.offset_reset {
            OffsetReset::Earliest => Some(Position::Beginning),
            OffsetReset::Latest => Some(Position::End),
            OffsetReset::Fail => None,
        };
        let mut assignment = Vec::new();
        for (topic, indexes) in partitions {
            for &partition in indexes {
                let offset = committed.get(&(topic.clone(), partition)).copied();
                let position = offset.map(Position::Offset).or(reset);
                let position = position.ok_or_else(|| ClientError::OutOfRange {
                    topic: topic.clone(),
                    partition,
                    offset: pelton_model::Offset::NONE,
                })?;
                assignment.push((topic.clone(), partition, position));
            }
        }
        self.consumer.assign(assignment).await?;
        self.committed = committed;
        Ok(())
    }

    /// The leader looks from time to time whether its topics have grown.
    async fn look_at_counts(&mut self) -> Result<(), ClientError> {
        let Some(counts) = &self.counts else {
            return Ok(());
        };
        let now = self.client.net().now();
        if now < self.next_look {
            return Ok(());
        }
        self.next_look = now.plus_ms(self.client.options().metadata_max_age_ms);
        let mut topics: std::collections::BTreeSet<Str> = counts.keys().cloned().collect();
        topics.extend(self.topics.iter().cloned());
        if self.membership.counts(topics).await? != *counts {
            self.membership.must_join();
        }
        Ok(())
    }
}
