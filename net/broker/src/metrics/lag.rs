//! How far groups are behind, in records and in time.
//!
//! The time is that since the first record which a group has not committed yet was written, by the record's own timestamp: its age is
//! what a reader sees as delay. A group that has committed everything is not behind, however old the last record is.
//!
//! Invariants:
//! 1. At most `metrics.group.partitions.max` rows are told, the first by group, topic and partition; how many are left out is told too.
//! 2. A scrape reads at most [`LAG_READS_MAX`] batches on each shard; what was read stays known as long as its group commits nothing,
//!    so that those that stand still cost nothing. Rows that were not read yet have no time.
//!
//! Coordinators know what is committed, owners of partitions what there is: the controller's shard asks the first, then the second.

use std::collections::BTreeMap;
use std::rc::Rc;

use pelton_model::batch::lookup::first_at_or_after;
use pelton_model::batch::{Batches, Scratch};
use pelton_model::limits::{LAG_READS_MAX, METRICS_GATHER_MS_MAX};
use pelton_model::slice::Slice;
use pelton_model::{Offset, PartitionId, ShardId, Str, Timestamp, TopicPartition};
use pelton_storage::ReadOptions;
use pelton_storage::disk::range::read_slice;
use pelton_transport::net::Net;

use super::gather::{OpenQuestions, ask};
use super::report::ShardReport;
use crate::env::Env;
use crate::shard::Shard;
use crate::shard::message::{LagAnswer, LagQuery, Request, Response};
use crate::shard::slot::Slot;

/// A committed offset, as its coordinator tells it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommittedOffset {
    /// The group.
    pub group: Str,
    /// The topic.
    pub topic: Str,
    /// The partition.
    pub partition: i32,
    /// The offset of the next record to read.
    pub offset: i64,
}

/// How far a group is behind in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupLag {
    pub(super) committed: CommittedOffset,
    /// Records that are not committed.
    pub(super) records: i64,
    /// How old the first of them is, in milliseconds; none where that is unknown.
    pub(super) age_ms: Option<i64>,
}

/// The lags of a scrape.
#[derive(Debug, Default)]
pub(super) struct Lags {
    pub(super) rows: Vec<GroupLag>,
    /// Committed offsets beyond the bound.
    pub(super) left_out: u64,
}

/// The timestamps of first unread records, by partition and the committed offset.
pub(crate) type FirstUnread = BTreeMap<(TopicPartition, Offset), Timestamp>;

/// Asks the owners of partitions about what coordinators told.
pub(super) async fn lags<E: Env>(
    shard: &Rc<Shard<E>>,
    open: &OpenQuestions,
    reports: &[ShardReport],
    rows_max: usize,
) -> Lags {
    let mut committed: Vec<CommittedOffset> = reports
        .iter()
        .flat_map(|report| &report.committed)
        .cloned()
        .collect();
    committed.sort_unstable();
    committed.truncate(rows_max);
    let count: u64 = reports.iter().map(|report| report.committed_count).sum();
    let mut by_owner: BTreeMap<ShardId, (Vec<CommittedOffset>, Vec<LagQuery>)> = BTreeMap::new();
    let told = committed.len() as u64;
    for row in committed {
        // Offsets of topics that are gone are left to expire.
        let Some(topic) = shard.topic_by_name(&row.topic) else {
            continue;
        };
        if !topic.has_partition(row.partition) {
            continue;
        }
        let query = LagQuery {
            partition: TopicPartition {
                topic_id: topic.id,
                partition: PartitionId(row.partition),
            },
            committed: Offset(row.offset),
        };
        let (rows, queries) = by_owner.entry(shard.owner(query.partition)).or_default();
        rows.push(row);
        queries.push(query);
    }
    let mut rows = ask_owners(shard, open, by_owner).await;
    rows.sort_unstable_by(|a, b| a.committed.cmp(&b.committed));
    Lags {
        rows,
        left_out: count.saturating_sub(told),
    }
}

async fn ask_owners<E: Env>(
    shard: &Rc<Shard<E>>,
    open: &OpenQuestions,
    by_owner: BTreeMap<ShardId, (Vec<CommittedOffset>, Vec<LagQuery>)>,
) -> Vec<GroupLag> {
    let deadline = shard.net.now().plus_ms(METRICS_GATHER_MS_MAX);
    let mut asked = Vec::new();
    let mut answered: Vec<(Vec<CommittedOffset>, Vec<Option<LagAnswer>>)> = Vec::new();
    for (owner, (rows, queries)) in by_owner {
        if owner == shard.id {
            answered.push((rows, shard.lags(queries).await));
        } else if !shard.is_stopping.get() {
            asked.push((rows, ask(shard, open, owner, Request::Lags(queries))));
        }
    }
    for (rows, answer) in asked {
        let timed_out = async {
            shard.net.sleep_until(deadline).await;
            None
        };
        let answer = futures_lite::future::or(answer, timed_out).await;
        if let Some(Response::Lags(answers)) = answer {
            answered.push((rows, answers));
        }
    }
    let pairs = answered
        .into_iter()
        .flat_map(|(rows, answers)| rows.into_iter().zip(answers));
    let lag = |(committed, answer): (CommittedOffset, Option<LagAnswer>)| {
        let LagAnswer { end, age_ms } = answer?;
        Some(GroupLag {
            records: end.0.saturating_sub(committed.offset).max(0),
            age_ms,
            committed,
        })
    };
    pairs.filter_map(lag).collect()
}

impl<E: Env> Shard<E> {
    /// How far behind committed offsets in partitions of this shard are; none for a partition that is not served here.
    pub(crate) async fn lags(self: &Rc<Self>, queries: Vec<LagQuery>) -> Vec<Option<LagAnswer>> {
        let known = self.metrics.first_unread.take();
        let mut kept = FirstUnread::new();
        let mut reads_left = LAG_READS_MAX;
        // A cold log may make a read slow; what it would have told is left out, and what is known is told in time.
        let until = self.net.now().plus_ms(METRICS_GATHER_MS_MAX / 4);
        let mut answers = Vec::with_capacity(queries.len());
        for query in queries {
            let Some(slot) = self.slot(query.partition) else {
                answers.push(None);
                continue;
            };
            let (log_start, end) = {
                let state = slot.state.borrow();
                (state.log_start(), state.high_watermark())
            };
            let from = query.committed.max(log_start);
            if end <= from {
                let age_ms = Some(0);
                answers.push(Some(LagAnswer { end, age_ms }));
                continue;
            }
            let key = (query.partition, from);
            let mut written = kept.get(&key).or_else(|| known.get(&key)).copied();
            if written.is_none() && self.net.now() < until {
                written = self.first_unread(&slot, from, end, &mut reads_left).await;
            }
            if let Some(written) = written {
                kept.insert(key, written);
            }
            let now = self.net.wall_clock();
            let age_ms = written.map(|written| now.0.saturating_sub(written.0).max(0));
            answers.push(Some(LagAnswer { end, age_ms }));
        }
        self.metrics.first_unread.replace(kept);
        answers
    }

    /// The timestamp of the first record at or behind `from`, if so many reads find it.
    async fn first_unread(
        self: &Rc<Self>,
        slot: &Rc<Slot<E>>,
        mut from: Offset,
        end: Offset,
        reads_left: &mut usize,
    ) -> Option<Timestamp> {
        // Batches without such a record: markers of transactions, and what compaction left empty.
        const BATCHES_MAX: usize = 8;
        for _ in 0..BATCHES_MAX {
            *reads_left = reads_left.checked_sub(1)?;
            let options = ReadOptions {
                from,
                up_to: end,
                bytes_max: 1,
                at_least_one: true,
            };
            self.make_room(slot).await;
            let read = slot.log().read(options).await.ok()?;
            if read.slices.is_empty() {
                return None;
            }
            let slices = read.slices;
            match self.net.run_blocking(move || look(slices, from)).await? {
                Look::Found(timestamp) => return Some(timestamp),
                Look::Next(next) if from < next && next < end => from = next,
                Look::Next(_) => return None,
            }
        }
        None
    }
}

/// What a batch says.
enum Look {
    Found(Timestamp),
    /// Nothing: go on there.
    Next(Offset),
}

fn look(slices: Vec<Slice>, from: Offset) -> Option<Look> {
    let mut scratch = Scratch::default();
    let mut next = from;
    for slice in slices {
        let bytes = read_slice(slice).ok()?;
        for batch in Batches::new(&bytes) {
            let (header, batch) = batch.ok()?;
            next = header.last_offset().plus(1);
            if header.is_control() {
                continue;
            }
            let first = first_at_or_after(batch, Timestamp(i64::MIN), from, &mut scratch);
            if let Some((_, timestamp)) = first.ok()? {
                return Some(Look::Found(timestamp));
            }
        }
    }
    Some(Look::Next(next))
}
