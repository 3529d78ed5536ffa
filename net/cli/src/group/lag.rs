//! How far a group is behind: in records, and in time.
//!
//! The time is that since the first record which the group has not committed yet was written: its age is what a reader sees as delay. A group
//! that has committed everything is not behind, however old the last record is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pelton_client::{
    Admin, Client, ClientError, Consumer, ConsumerOptions, GroupDescription, OffsetQuery,
    OffsetReset, Position, Str,
};
use pelton_model::ErrorCode;
use pelton_transport::net::Net;
use pelton_transport::ring::RingNet;

/// A partition that a group reads, or has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartitionLag {
    pub(super) topic: Str,
    pub(super) partition: i32,
    /// What is committed, if anything is.
    pub(super) committed: Option<i64>,
    /// The offset of the next record to come; none when the partition is gone.
    pub(super) end: Option<i64>,
    /// How old the first record is that is not committed, in milliseconds; none where that is unknown.
    pub(super) lag_ms: Option<i64>,
    /// The member that reads it: its place in the description.
    pub(super) member: Option<usize>,
}

impl PartitionLag {
    /// Records that are not committed.
    pub(super) fn records(&self) -> Option<i64> {
        Some((self.end? - self.committed?).max(0))
    }
}

/// How long the first records of all partitions may take to come.
const LOOK_POLLS_MAX: u32 = 100;
const LOOK_POLL: Duration = Duration::from_millis(100);

/// Every partition that a group reads or has offsets of.
pub(super) async fn of(
    client: &Client<RingNet>,
    group: &GroupDescription,
) -> Result<Vec<PartitionLag>, ClientError> {
    let admin = Admin::new(client);
    let committed = admin.group_offsets(&group.group_id).await?;
    let mut owners: BTreeMap<(Str, i32), usize> = BTreeMap::new();
    for (index, member) in group.members.iter().enumerate() {
        for (topic, partitions) in &member.assignment {
            let partitions = partitions.iter();
            owners.extend(partitions.map(|partition| ((topic.clone(), *partition), index)));
        }
    }
    let keys: BTreeSet<(Str, i32)> = committed.keys().chain(owners.keys()).cloned().collect();
    let ends = ends(client, &keys).await?;
    let mut lags: Vec<PartitionLag> = keys
        .into_iter()
        .map(|key| PartitionLag {
            committed: committed.get(&key).map(|found| found.offset),
            end: ends.get(&key).copied(),
            lag_ms: None,
            member: owners.get(&key).copied(),
            topic: key.0,
            partition: key.1,
        })
        .collect();
    add_times(client, &mut lags).await?;
    Ok(lags)
}

/// The ends of those partitions that exist.
pub(super) async fn ends(
    client: &Client<RingNet>,
    keys: &BTreeSet<(Str, i32)>,
) -> Result<BTreeMap<(Str, i32), i64>, ClientError> {
    let topics: BTreeSet<&Str> = keys.iter().map(|(topic, _)| topic).collect();
    let mut counts = BTreeMap::new();
    for topic in topics {
        match client.topic(topic, false).await {
            Ok(known) => drop(counts.insert(topic, known.partitions.len())),
            Err(error) if error.error_code() == Some(ErrorCode::UnknownTopicOrPartition) => {}
            Err(error) => return Err(error),
        }
    }
    let exists = |(topic, partition): &&(Str, i32)| {
        let count = counts.get(topic).copied().unwrap_or(0);
        usize::try_from(*partition).is_ok_and(|index| index < count)
    };
    let there: Vec<&(Str, i32)> = keys.iter().filter(exists).collect();
    let queries: Vec<_> = there
        .iter()
        .map(|(topic, partition)| (topic.clone(), *partition, OffsetQuery::Latest))
        .collect();
    let found = Admin::new(client).list_offsets(&queries).await?;
    let ends = there.into_iter().cloned().zip(found);
    Ok(ends
        .map(|(key, listed)| (key, listed.offset.unwrap_or(0)))
        .collect())
}

/// Reads the first record that is not committed of each partition that is behind, and tells its age.
async fn add_times(client: &Client<RingNet>, lags: &mut [PartitionLag]) -> Result<(), ClientError> {
    let mut behind: BTreeMap<(Str, i32), usize> = BTreeMap::new();
    let mut assignment = Vec::new();
    for (index, lag) in lags.iter_mut().enumerate() {
        match (lag.records(), lag.committed) {
            (Some(0), _) => lag.lag_ms = Some(0),
            (Some(_), Some(offset)) => {
                behind.insert((lag.topic.clone(), lag.partition), index);
                assignment.push((lag.topic.clone(), lag.partition, Position::Offset(offset)));
            }
            (Some(_) | None, _) => {}
        }
    }
    if assignment.is_empty() {
        return Ok(());
    }
    // A batch of each is enough, and comes whole even where it is larger.
    let options = ConsumerOptions {
        partition_bytes_max: 16 * 1024,
        poll_records_max: usize::MAX,
        offset_reset: OffsetReset::Earliest,
        prefetch: false,
        ..ConsumerOptions::default()
    };
    let now = client.net().wall_clock();
    let mut consumer = Consumer::new(client, options);
    for _ in 0..LOOK_POLLS_MAX {
        // Only what is still looked for is read on.
        let wanted = assignment
            .iter()
            .filter(|(topic, partition, _)| behind.contains_key(&(topic.clone(), *partition)));
        let wanted: Vec<_> = wanted.cloned().collect();
        consumer.assign(wanted).await?;
        for record in consumer.poll(LOOK_POLL).await? {
            if let Some(index) = behind.remove(&(record.topic, record.partition)) {
                lags[index].lag_ms = Some((now.0 - record.timestamp.0).max(0));
            }
        }
        if behind.is_empty() {
            break;
        }
    }
    Ok(())
}
