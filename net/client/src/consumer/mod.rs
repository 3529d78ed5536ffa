//! The consumer by assignment: partitions and positions are the caller's, there is no group.
//!
//! [`Consumer::poll`] gives buffered records and keeps one Fetch under way per leader, so that the next records travel
//! while the caller works on these.
//!
//! 1. A record is given once, in the order of offsets per partition, however connections and leaders come and go.
//! 2. At most one Fetch per node is under way; a partition is fetched when nothing of it is buffered.
//! 3. The position is that after the last record given: what was fetched and not given is fetched again after a seek.
//!
//! Not here: groups, commits, fetch sessions, reading from followers, truncation detection by leader epochs beyond the
//! broker's own check.
//! Source: KIP-74, KIP-98, KIP-320 (fencing), KIP-516, KIP-951.

mod assignment;
mod fetch;
mod record;
mod unpack;

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_lite::future;
use pelton_model::{Monotonic, Offset, TopicId};
use pelton_protocol::codec::Str;
use pelton_protocol::message::fetch::FetchResponse;
use pelton_transport::net::Net;

pub use self::record::{ConsumedRecord, PartitionPosition, Position};

use self::assignment::{Assignment, SlotId};
use crate::admin::{Admin, OffsetQuery};
use crate::chores::Chores;
use crate::client::Client;
use crate::connection::Reply;
use crate::error::ClientError;

/// Which records are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationLevel {
    /// All that are committed by replication.
    ReadUncommitted,
    /// Of transactions, only those that were committed; others wait for the end of the transaction.
    ReadCommitted,
}

/// What happens when a position lies outside the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetReset {
    /// Go on at the first record kept.
    Earliest,
    /// Go on at the end.
    Latest,
    /// [`Consumer::poll`] fails with [`ClientError::OutOfRange`].
    Fail,
}

/// Settings of a consumer; the defaults are those of Kafka's.
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// How long a broker waits for `fetch_bytes_min`, in milliseconds.
    pub fetch_wait_ms_max: u32,
    /// The bytes worth an answer.
    pub fetch_bytes_min: u32,
    /// The bytes an answer should not exceed.
    pub fetch_bytes_max: u32,
    /// The bytes of one partition that an answer should not exceed.
    pub partition_bytes_max: u32,
    /// Records that one poll gives.
    pub poll_records_max: usize,
    /// Which records are given.
    pub isolation_level: IsolationLevel,
    /// What happens when a position lies outside the log.
    pub offset_reset: OffsetReset,
    /// Whether checksums of batches are checked.
    pub check_crcs: bool,
    /// Whether the next Fetch begins before the caller asks for its records.
    pub prefetch: bool,
}

impl Default for ConsumerOptions {
    fn default() -> Self {
        Self {
            fetch_wait_ms_max: 500,
            fetch_bytes_min: 1,
            fetch_bytes_max: 50 * 1024 * 1024,
            partition_bytes_max: 1024 * 1024,
            poll_records_max: 500,
            isolation_level: IsolationLevel::ReadUncommitted,
            offset_reset: OffsetReset::Latest,
            check_crcs: true,
            prefetch: true,
        }
    }
}

/// Reads the partitions it is assigned.
pub struct Consumer<N: Net> {
    client: Client<N>,
    options: ConsumerOptions,
    chores: Rc<Chores<N>>,
    assignment: Assignment,
    in_flight: BTreeMap<i32, Fetching>,
}

/// A Fetch under way, and at which offsets it asks.
struct Fetching {
    reply: Reply<FetchResponse>,
    answer: Option<Result<FetchResponse, ClientError>>,
    asked: Vec<Asked>,
}

/// A partition in a Fetch.
struct Asked {
    slot: SlotId,
    topic_id: TopicId,
    offset: i64,
}

impl Fetching {
    /// Whether the answer is there.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        if self.answer.is_none()
            && let Poll::Ready(answer) = Pin::new(&mut self.reply).poll(context)
        {
            self.answer = Some(answer);
        }
        self.answer.is_some()
    }
}

impl<N: Net> Drop for Consumer<N> {
    fn drop(&mut self) {
        self.chores.stop();
    }
}

impl<N: Net> Consumer<N> {
    /// A consumer without partitions, over connections of its own.
    #[must_use]
    pub fn new(client: &Client<N>, options: ConsumerOptions) -> Self {
        Self {
            client: client.clone(),
            options,
            chores: Chores::new(client),
            assignment: Assignment::new(Vec::new(), client.retry_backoff()),
            in_flight: BTreeMap::new(),
        }
    }

    /// Takes these partitions instead of those it had; positions that are not offsets are looked up now.
    ///
    /// # Errors
    /// A partition does not exist, or nobody answers within `operation_timeout_ms`. The old assignment is kept then.
    pub async fn assign<T: Into<Str>>(
        &mut self,
        partitions: impl IntoIterator<Item = (T, i32, Position)>,
    ) -> Result<(), ClientError> {
        let mut wanted = Vec::new();
        for (topic, partition, position) in partitions {
            wanted.push((topic.into(), partition, position));
        }
        let offsets = self.look_up(&wanted).await?;
        let positions = wanted.into_iter().zip(offsets);
        let positions = positions.map(|((topic, partition, _), offset)| (topic, partition, offset));
        self.in_flight.clear();
        self.assignment = Assignment::new(positions.collect(), self.client.retry_backoff());
        Ok(())
    }

    /// Goes on at another position of an assigned partition.
    ///
    /// # Errors
    /// The partition is not assigned; otherwise as [`Consumer::assign`].
    pub async fn seek(
        &mut self,
        topic: &str,
        partition: i32,
        position: Position,
    ) -> Result<(), ClientError> {
        let Some(slot) = self.assignment.find(topic, partition) else {
            return Err(ClientError::NoPartition {
                topic: topic.into(),
                partition: Some(partition),
                count: 0,
            });
        };
        let offsets = self.look_up(&[(topic.into(), partition, position)]).await?;
        self.assignment.seek(slot, offsets[0]);
        Ok(())
    }

    /// Where each partition stands, and what is known of its ends.
    #[must_use]
    pub fn positions(&self) -> Vec<PartitionPosition> {
        self.assignment.positions()
    }

    /// The next records, at most `poll_records_max`; waits for some up to `wait_max`, and longer only when a position out
    /// of range has to be looked up.
    ///
    /// Leaders that move or cannot be reached are no errors: they are looked for, and the poll is empty meanwhile.
    ///
    /// # Errors
    /// A partition may not be read, is out of range (with [`OffsetReset::Fail`]), or its records are damaged. Positions
    /// stay where they are: another poll tries again.
    ///
    /// # Cancel safety
    /// Dropping the future loses no records.
    pub async fn poll(&mut self, wait_max: Duration) -> Result<Vec<ConsumedRecord>, ClientError> {
        let wait_ms = u64::try_from(wait_max.as_millis()).unwrap_or(u64::MAX);
        let deadline = self.client.net().now().plus_ms(wait_ms);
        loop {
            self.take_answers()?;
            let records = self.assignment.take(self.options.poll_records_max)?;
            if records.is_empty() {
                self.reset_positions().await?;
            }
            if records.is_empty() || self.options.prefetch {
                self.start_fetches();
            }
            if !records.is_empty() {
                return Ok(records);
            }
            if deadline <= self.client.net().now() {
                // A caller that polls without waiting must not keep the answers from coming in.
                self.client.net().yield_now().await;
                return Ok(Vec::new());
            }
            self.wait(deadline).await;
        }
    }

    /// Waits until an answer is there, a chore is done, a pause is over, or `deadline`.
    async fn wait(&mut self, deadline: Monotonic) {
        let net = self.client.net();
        let pause = self.assignment.resumes_at(net.now());
        let timer = net.sleep_until(pause.map_or(deadline, |pause| pause.min(deadline)));
        let in_flight = &mut self.in_flight;
        let answer = poll_fn(|context| {
            let is_ready = |fetching: &mut Fetching| fetching.poll(context);
            if in_flight.values_mut().any(is_ready) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        let either = future::or(answer, self.chores.wake.notified());
        future::or(either, timer).await;
    }

    /// The offsets of positions, in order.
    async fn look_up(&self, wanted: &[(Str, i32, Position)]) -> Result<Vec<i64>, ClientError> {
        let admin = Admin::new(&self.client);
        let mut queries = Vec::new();
        for (topic, partition, position) in wanted {
            let query = match position {
                Position::Offset(_) => {
                    self.check_exists(topic, *partition).await?;
                    continue;
                }
                Position::Beginning => OffsetQuery::Earliest,
                Position::End => self.end_query(),
                Position::Timestamp(timestamp) => OffsetQuery::Timestamp((*timestamp).max(0)),
            };
            queries.push((topic.clone(), *partition, query));
        }
        let mut found = admin.list_offsets(&queries).await?.into_iter();
        let mut offsets = Vec::with_capacity(wanted.len());
        for (topic, partition, position) in wanted {
            let offset = match position {
                Position::Offset(offset) => Some(*offset),
                Position::Beginning | Position::End | Position::Timestamp(_) => {
                    found.next().and_then(|listed| listed.offset)
                }
            };
            offsets.push(match offset {
                Some(offset) => offset,
                None => end_of(&admin, topic, *partition, self.end_query()).await?,
            });
        }
        Ok(offsets)
    }

    /// What asks for the end of what is given.
    fn end_query(&self) -> OffsetQuery {
        match self.options.isolation_level {
            IsolationLevel::ReadUncommitted => OffsetQuery::Latest,
            IsolationLevel::ReadCommitted => OffsetQuery::LastStable,
        }
    }

    async fn check_exists(&self, topic: &Str, partition: i32) -> Result<(), ClientError> {
        let known = self.client.topic(topic, false).await?;
        match known.partition(partition) {
            Some(_) => Ok(()),
            None => Err(ClientError::NoPartition {
                topic: topic.clone(),
                partition: Some(partition),
                count: known.partitions.len(),
            }),
        }
    }

    /// Chooses new positions for partitions that were out of range.
    async fn reset_positions(&mut self) -> Result<(), ClientError> {
        for slot in self.assignment.to_reset() {
            let (topic, partition) = self.assignment.partition_of(slot);
            let (topic, offset) = (topic.clone(), self.assignment.next_offset(slot));
            let position = match self.options.offset_reset {
                OffsetReset::Earliest => Position::Beginning,
                OffsetReset::Latest => Position::End,
                OffsetReset::Fail => {
                    // The next poll is to find out anew.
                    self.assignment.seek(slot, offset);
                    return Err(ClientError::OutOfRange {
                        topic,
                        partition,
                        offset: Offset(offset),
                    });
                }
            };
            let offsets = self
                .look_up(&[(topic.clone(), partition, position)])
                .await?;
            tracing::warn!(topic = %topic, partition, from = offset, to = offsets[0], "position reset");
            self.assignment.seek(slot, offsets[0]);
        }
        Ok(())
    }
}

/// The end of a partition in which no record is young enough.
async fn end_of<N: Net>(
    admin: &Admin<N>,
    topic: &Str,
    partition: i32,
    query: OffsetQuery,
) -> Result<i64, ClientError> {
    let query = (topic.clone(), partition, query);
    let listed = admin.list_offsets(&[query]).await?;
    Ok(listed.first().and_then(|listed| listed.offset).unwrap_or(0))
}
