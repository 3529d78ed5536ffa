//! Groups as an administrator sees them: listed, described, their offsets read, set and forgotten.
//!
//! Each group is asked of its own coordinator; questions are asked again until `operation_timeout_ms` is over, changes are sent again only
//! where the coordinator said that it did nothing.

use std::collections::BTreeMap;

use pelton_protocol::codec::Str;
use pelton_protocol::message::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use pelton_protocol::message::describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse};
use pelton_protocol::message::list_groups::{ListGroupsRequest, ListGroupsResponse};
use pelton_protocol::message::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    OffsetCommitResponse,
};
use pelton_protocol::message::offset_fetch::{OffsetFetchRequest, OffsetFetchResponse};
use pelton_transport::net::Net;

use super::protocol::{TopicPartitions, decode_assignment};
use crate::admin::Admin;
use crate::coordinator::CoordinatorKind;
use crate::error::ClientError;

/// The last version of OffsetFetch that names one group, and of OffsetCommit that names topics.
const OFFSET_FETCH_VERSION_MAX: i16 = 7;
const OFFSET_COMMIT_VERSION_MAX: i16 = 9;
/// The last version of DescribeGroups in which an unknown group is dead rather than an error.
const DESCRIBE_VERSION_MAX: i16 = 5;

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupListing {
    /// The group.
    pub group_id: Str,
    /// Its state, as Kafka spells it; empty from brokers that do not tell.
    pub state: Str,
    /// `classic` or `consumer`; empty from brokers that do not tell.
    pub group_type: Str,
    /// Its kind of client; empty for a group that only has offsets.
    pub protocol_type: Str,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    /// The group.
    pub group_id: Str,
    /// Its state, as Kafka spells it; `Dead` for one that does not exist.
    pub state: Str,
    /// The assignor that was chosen; empty while there is none.
    pub protocol: Str,
    /// Its members.
    pub members: Vec<GroupMember>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// Its id.
    pub member_id: Str,
    /// A static member's name.
    pub instance_id: Option<Str>,
    /// How its client names itself.
    pub client_id: Str,
    /// Where it calls from.
    pub host: Str,
    /// What it is to read; empty where that cannot be read.
    pub assignment: TopicPartitions,
}

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The offset of the next record.
    pub offset: i64,
    /// The note that was committed with it.
    pub metadata: Str,
}

impl<N: Net> Admin<N> {
    /// Every group of every broker, sorted by name.
    ///
    /// # Errors
    /// A broker cannot be reached, or its coordinators are not ready within `operation_timeout_ms`.
    pub async fn list_groups(&self) -> Result<Vec<GroupListing>, ClientError> {
        let mut groups = Vec::new();
        for broker in self.client().brokers() {
            let response: ListGroupsResponse = self
                .client()
                .persist(async || {
                    let connection = self.client().connection_to(broker.node_id).await?;
                    let version = connection.version::<ListGroupsRequest>()?;
                    let request = ListGroupsRequest::default();
                    let listed: ListGroupsResponse = connection.call(version, &request).await?;
                    let object = format!("node {}", broker.node_id);
                    ClientError::refused("listing groups of", object, listed.error_code, None)?;
                    Ok(listed)
                })
                .await?;
            groups.extend(response.groups.into_iter().map(|group| GroupListing {
                group_id: group.group_id,
                state: group.group_state,
                group_type: group.group_type,
                protocol_type: group.protocol_type,
            }));
        }
        groups.sort_by(|left, right| left.group_id.cmp(&right.group_id));
        Ok(groups)
    }

    /// A group and its members; one that does not exist is `Dead`.
    ///
    /// # Errors
    /// Its coordinator cannot be reached, or refuses.
    pub async fn describe_group(&self, group_id: &Str) -> Result<GroupDescription, ClientError> {
        let request = DescribeGroupsRequest {
            groups: vec![group_id.clone()],
            ..DescribeGroupsRequest::default()
        };
        let check = |response: &DescribeGroupsResponse| {
            let codes = response.groups.iter().map(|group| group.error_code);
            first_refused("describing group", group_id, codes)
        };
        let version_max = DESCRIBE_VERSION_MAX;
        let response = self
            .ask_coordinator(
                CoordinatorKind::Group,
                group_id,
                &request,
                version_max,
                check,
            )
            .await?;
        let group = response.groups.into_iter().next().unwrap_or_default();
        let members = group.members.into_iter().map(|member| GroupMember {
            member_id: member.member_id,
            instance_id: member.group_instance_id,
            client_id: member.client_id,
            host: member.client_host,
            assignment: decode_assignment(&member.member_assignment).unwrap_or_default(),
        });
        Ok(GroupDescription {
            group_id: group_id.clone(),
            state: group.group_state,
            protocol: group.protocol_data,
            members: members.collect(),
        })
    }

    /// Every offset that a group has committed, by topic and partition.
    ///
    /// # Errors
    /// As [`Admin::describe_group`].
    pub async fn group_offsets(
        &self,
        group_id: &Str,
    ) -> Result<BTreeMap<(Str, i32), CommittedOffset>, ClientError> {
        let request = OffsetFetchRequest {
            group_id: group_id.clone(),
            topics: None,
            ..OffsetFetchRequest::default()
        };
        let check = |response: &OffsetFetchResponse| {
            let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
            let codes = partitions.map(|partition| partition.error_code);
            let codes = std::iter::once(response.error_code).chain(codes);
            first_refused("offsets of group", group_id, codes)
        };
        let version_max = OFFSET_FETCH_VERSION_MAX;
        let response = self
            .ask_coordinator(
                CoordinatorKind::Group,
                group_id,
                &request,
                version_max,
                check,
            )
            .await?;
        let mut offsets = BTreeMap::new();
        for topic in response.topics {
            for partition in topic.partitions {
                let key = (topic.name.clone(), partition.partition_index);
                let committed = CommittedOffset {
                    offset: partition.committed_offset,
                    metadata: partition.metadata.unwrap_or_default(),
                };
                if committed.offset >= 0 {
                    offsets.insert(key, committed);
                }
            }
        }
        Ok(offsets)
    }

    /// Sets offsets of a group that has no members.
    ///
    /// # Errors
    /// The group has members, a partition does not exist, or the coordinator cannot be reached.
    pub async fn set_group_offsets(
        &self,
        group_id: &Str,
        offsets: &BTreeMap<(Str, i32), i64>,
    ) -> Result<(), ClientError> {
        let mut topics: BTreeMap<Str, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
        for ((topic, partition), offset) in offsets {
            let partitions = topics.entry(topic.clone()).or_default();
            partitions.push(OffsetCommitRequestPartition {
                partition_index: *partition,
                committed_offset: *offset,
                committed_leader_epoch: -1,
                committed_metadata: Some(Str::default()),
            });
        }
        let topics = topics.into_iter();
        let topics = topics.map(|(name, partitions)| OffsetCommitRequestTopic {
            name,
            partitions,
            ..OffsetCommitRequestTopic::default()
        });
        let request = OffsetCommitRequest {
            group_id: group_id.clone(),
            generation_id_or_member_epoch: -1,
            retention_time_ms: -1,
            topics: topics.collect(),
            ..OffsetCommitRequest::default()
        };
        let check = |response: &OffsetCommitResponse| {
            let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
            let codes = partitions.map(|partition| partition.error_code);
            first_refused("setting offsets of group", group_id, codes)
        };
        let version_max = OFFSET_COMMIT_VERSION_MAX;
        self.ask_coordinator(
            CoordinatorKind::Group,
            group_id,
            &request,
            version_max,
            check,
        )
        .await?;
        Ok(())
    }

    /// Deletes a group that has no members, with its offsets.
    ///
    /// # Errors
    /// The group has members or does not exist, or the coordinator cannot be reached.
    pub async fn delete_group(&self, group_id: &Str) -> Result<(), ClientError> {
        let request = DeleteGroupsRequest {
            groups_names: vec![group_id.clone()],
        };
        let check = |response: &DeleteGroupsResponse| {
            let codes = response.results.iter().map(|result| result.error_code);
            first_refused("deleting group", group_id, codes)
        };
        self.ask_coordinator(CoordinatorKind::Group, group_id, &request, i16::MAX, check)
            .await?;
        Ok(())
    }
}

fn first_refused(
    operation: &'static str,
    group_id: &Str,
    mut codes: impl Iterator<Item = i16>,
) -> Result<(), ClientError> {
    codes.try_for_each(|code| ClientError::refused(operation, group_id.clone(), code, None))
}
