//! Requests of the APIs for people who look after a cluster (pages of topics, elections, reassignments, moves between directories,
//! the quorum, producers, ACLs), laid out by hand, and what their answers say in one line.

use kafka_protocol::messages::{
    AlterPartitionReassignmentsResponse, AlterReplicaLogDirsResponse, ApiKey, CreateAclsResponse,
    DeleteAclsResponse, DescribeAclsResponse, DescribeProducersResponse, DescribeQuorumResponse,
    DescribeTopicPartitionsResponse, ElectLeadersResponse, ListPartitionReassignmentsResponse,
    UnregisterBrokerResponse,
};

use crate::answer::{codes, decode};
use crate::wire::{Body, request};

/// Partitions of topics.
pub type Partitions<'a> = [(&'a str, Vec<i32>)];

fn put_partitions(body: Body, topics: &Partitions<'_>) -> Body {
    body.array(topics, |body, (topic, partitions)| {
        let body = body.string(topic);
        body.array(partitions, |body, partition| body.i32(*partition)).tags()
    })
}

fn put_some_or_all(body: Body, topics: Option<&Partitions<'_>>) -> Body {
    match topics {
        None => body.count(-1),
        Some(topics) => put_partitions(body, topics),
    }
}

/// DescribeTopicPartitions (75).
#[must_use]
pub fn describe_topic_partitions(
    topics: &[&str],
    limit: i32,
    cursor: Option<(&str, i32)>,
) -> Vec<u8> {
    let body = Body::new(true).array(topics, |body, topic| body.string(topic).tags());
    let body = body.i32(limit);
    let body = match cursor {
        None => body.i8(-1),
        Some((topic, partition)) => body.i8(1).string(topic).i32(partition).tags(),
    };
    request(75, 0, true, &body.tags().into_bytes())
}

/// ElectLeaders (43); `topics` of `None` is null.
#[must_use]
pub fn elect_leaders(version: i16, election: i8, topics: Option<&Partitions<'_>>) -> Vec<u8> {
    let flexible = version >= 2;
    let body = Body::new(flexible);
    let body = if version >= 1 { body.i8(election) } else { body };
    let body = put_some_or_all(body, topics).i32(10_000);
    request(43, version, flexible, &body.tags().into_bytes())
}

/// A partition and its new replicas; `None` is null.
pub type Target = (i32, Option<Vec<i32>>);

/// AlterPartitionReassignments (45).
#[must_use]
pub fn alter_partition_reassignments(
    version: i16,
    allow_factor_change: bool,
    topics: &[(&str, Vec<Target>)],
) -> Vec<u8> {
    let body = Body::new(true).i32(10_000);
    let body = if version >= 1 { body.bool(allow_factor_change) } else { body };
    let body = body.array(topics, |body, (topic, targets)| {
        let one = |body: Body, (partition, replicas): &Target| {
            let body = body.i32(*partition);
            let body = match replicas {
                None => body.count(-1),
                Some(replicas) => body.array(replicas, |body, replica| body.i32(*replica)),
            };
            body.tags()
        };
        body.string(topic).array(targets, one).tags()
    });
    request(45, version, true, &body.tags().into_bytes())
}

/// ListPartitionReassignments (46); `topics` of `None` is null.
#[must_use]
pub fn list_partition_reassignments(topics: Option<&Partitions<'_>>) -> Vec<u8> {
    let body = put_some_or_all(Body::new(true).i32(10_000), topics);
    request(46, 0, true, &body.tags().into_bytes())
}

/// AlterReplicaLogDirs (34).
#[must_use]
pub fn alter_replica_log_dirs(version: i16, dirs: &[(&str, &Partitions<'_>)]) -> Vec<u8> {
    let flexible = version >= 2;
    let body = Body::new(flexible)
        .array(dirs, |body, (path, topics)| put_partitions(body.string(path), topics).tags());
    request(34, version, flexible, &body.tags().into_bytes())
}

/// DescribeQuorum (55).
#[must_use]
pub fn describe_quorum(version: i16, topics: &Partitions<'_>) -> Vec<u8> {
    let body = Body::new(true).array(topics, |body, (topic, partitions)| {
        let body = body.string(topic);
        body.array(partitions, |body, partition| body.i32(*partition).tags()).tags()
    });
    request(55, version, true, &body.tags().into_bytes())
}

/// DescribeProducers (61).
#[must_use]
pub fn describe_producers(topics: &Partitions<'_>) -> Vec<u8> {
    request(61, 0, true, &put_partitions(Body::new(true), topics).tags().into_bytes())
}

/// UnregisterBroker (64).
#[must_use]
pub fn unregister_broker(broker_id: i32) -> Vec<u8> {
    request(64, 0, true, &Body::new(true).i32(broker_id).tags().into_bytes())
}

/// DescribeAcls (29) of any resource.
#[must_use]
pub fn describe_acls(version: i16) -> Vec<u8> {
    let flexible = version >= 2;
    let body = Body::new(flexible).i8(1).nullable_string(None).i8(1);
    let body = body.nullable_string(None).nullable_string(None).i8(1).i8(1);
    request(29, version, flexible, &body.tags().into_bytes())
}

/// CreateAcls (30) of so many like ones.
#[must_use]
pub fn create_acls(version: i16, count: usize) -> Vec<u8> {
    let flexible = version >= 2;
    let body = Body::new(flexible).array(&vec![(); count], |body, ()| {
        body.i8(2).string("t").i8(3).string("User:x").string("*").i8(3).i8(3).tags()
    });
    request(30, version, flexible, &body.tags().into_bytes())
}

/// DeleteAcls (31) by so many like filters.
#[must_use]
pub fn delete_acls(version: i16, count: usize) -> Vec<u8> {
    let flexible = version >= 2;
    let body = Body::new(flexible).array(&vec![(); count], |body, ()| {
        let body = body.i8(2).nullable_string(Some("t")).i8(3);
        body.nullable_string(None).nullable_string(None).i8(3).i8(3).tags()
    });
    request(31, version, flexible, &body.tags().into_bytes())
}

/// What an answer of these APIs says.
pub(crate) fn summary(api: ApiKey, version: i16, frame: &[u8]) -> Result<String, String> {
    match api {
        ApiKey::DescribeTopicPartitions => decode(api, version, frame).map(|answer| page(&answer)),
        ApiKey::ElectLeaders => decode(api, version, frame).map(|answer| elected(&answer)),
        ApiKey::AlterPartitionReassignments => {
            decode::<AlterPartitionReassignmentsResponse>(api, version, frame).map(|answer| {
                let of = answer.responses.iter().flat_map(|topic| &topic.partitions);
                let of: Vec<i16> = of.map(|partition| partition.error_code).collect();
                per_partition(answer.error_code, &of)
            })
        }
        ApiKey::ListPartitionReassignments => {
            decode::<ListPartitionReassignmentsResponse>(api, version, frame).map(|answer| {
                format!("{}; topics {}", codes([answer.error_code]), answer.topics.len())
            })
        }
        ApiKey::AlterReplicaLogDirs => decode::<AlterReplicaLogDirsResponse>(api, version, frame)
            .map(|answer| {
                let of = answer.results.iter().flat_map(|topic| &topic.partitions);
                per_partition(0, &of.map(|partition| partition.error_code).collect::<Vec<_>>())
            }),
        ApiKey::DescribeQuorum => decode(api, version, frame).map(|answer| quorum(&answer)),
        ApiKey::DescribeProducers => decode(api, version, frame).map(|answer| producers(&answer)),
        ApiKey::UnregisterBroker => decode::<UnregisterBrokerResponse>(api, version, frame)
            .map(|answer| codes([answer.error_code])),
        ApiKey::DescribeAcls => decode::<DescribeAclsResponse>(api, version, frame).map(|answer| {
            format!("{}; resources {}", codes([answer.error_code]), answer.resources.len())
        }),
        ApiKey::CreateAcls => decode::<CreateAclsResponse>(api, version, frame)
            .map(|answer| codes(answer.results.iter().map(|result| result.error_code))),
        ApiKey::DeleteAcls => decode::<DeleteAclsResponse>(api, version, frame)
            .map(|answer| codes(answer.filter_results.iter().map(|result| result.error_code))),
        other => Err(format!("no summary for {other:?}")),
    }
}

fn per_partition(whole: i16, partitions: &[i16]) -> String {
    let all = [whole].into_iter().chain(partitions.iter().copied());
    format!("{}; partitions {}", codes(all), partitions.len())
}

fn page(answer: &DescribeTopicPartitionsResponse) -> String {
    let topics = answer.topics.iter();
    let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
    let errors = topics.map(|topic| topic.error_code);
    let line = codes(errors.chain(partitions.clone().map(|partition| partition.error_code)));
    let next = answer.next_cursor.as_ref().map_or_else(String::new, |cursor| {
        let at = answer.topics.iter().any(|topic| topic.name.as_ref() == Some(&cursor.topic_name));
        format!("; next {} {}", if at { "here" } else { "behind" }, cursor.partition_index)
    });
    format!("{line}; topics {}; partitions {}{next}", answer.topics.len(), partitions.count())
}

fn elected(answer: &ElectLeadersResponse) -> String {
    let of = answer.replica_election_results.iter().flat_map(|topic| &topic.partition_result);
    per_partition(answer.error_code, &of.map(|partition| partition.error_code).collect::<Vec<_>>())
}

fn quorum(answer: &DescribeQuorumResponse) -> String {
    let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
    let errors = partitions.clone().map(|partition| partition.error_code);
    let line = codes([answer.error_code].into_iter().chain(errors));
    let voters: usize = partitions.map(|partition| partition.current_voters.len()).sum();
    format!("{line}; voters {voters}; nodes {}", answer.nodes.len())
}

fn producers(answer: &DescribeProducersResponse) -> String {
    let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
    let line = codes(partitions.clone().map(|partition| partition.error_code));
    let known: Vec<String> =
        partitions.map(|partition| partition.active_producers.len().to_string()).collect();
    format!("{line}; producers {}", known.join(" "))
}
