//! Requests of the APIs served, laid out by hand in every version, as frames.
//!
//! A builder's fields are public: a row of a table sets what it lies about and takes the rest from `Default`.

use crate::wire::{Body, request};

/// How a request names its topic.
#[derive(Clone, Debug)]
pub enum Topic {
    /// By name.
    Name(String),
    /// By topic id, where the version knows ids.
    Id([u8; 16]),
}

impl From<&str> for Topic {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<[u8; 16]> for Topic {
    fn from(id: [u8; 16]) -> Self {
        Self::Id(id)
    }
}

impl Topic {
    fn put(&self, body: Body) -> Body {
        match self {
            Self::Name(name) => body.string(name),
            Self::Id(id) => body.raw(id),
        }
    }
}

/// ApiVersions (18).
#[must_use]
pub fn api_versions(version: i16, name: &str, software_version: &str) -> Vec<u8> {
    let body = Body::new(version >= 3);
    let body = if version >= 3 { body.string(name).string(software_version).tags() } else { body };
    request(18, version, version >= 3, &body.into_bytes())
}

/// One topic of a Metadata request.
#[derive(Clone, Debug, Default)]
pub struct MetadataTopic {
    /// Topic id, all zero when asked by name.
    pub id: [u8; 16],
    /// Topic name.
    pub name: Option<String>,
}

/// Metadata (3); `topics` of `None` is null.
#[must_use]
pub fn metadata(version: i16, topics: Option<&[MetadataTopic]>, auto_create: bool) -> Vec<u8> {
    let body = Body::new(version >= 9);
    let body = match topics {
        None => body.count(-1),
        Some(topics) => body.array(topics, |body, topic| {
            let body = if version >= 10 { body.raw(&topic.id) } else { body };
            body.nullable_string(topic.name.as_deref()).tags()
        }),
    };
    let body = if version >= 4 { body.bool(auto_create) } else { body };
    let body = if (8..=10).contains(&version) { body.bool(false) } else { body };
    let body = if version >= 8 { body.bool(false) } else { body };
    request(3, version, version >= 9, &body.tags().into_bytes())
}

/// Metadata by one topic name, without auto-creation.
#[must_use]
pub fn metadata_of(version: i16, name: &str) -> Vec<u8> {
    metadata(version, Some(&[MetadataTopic { id: [0; 16], name: Some(name.to_owned()) }]), false)
}

/// Produce (0).
#[derive(Clone, Debug)]
pub struct Produce {
    /// Request version.
    pub version: i16,
    /// Transactional id.
    pub transactional_id: Option<String>,
    /// Required acks.
    pub acks: i16,
    /// Timeout.
    pub timeout_ms: i32,
    /// The topic.
    pub topic: Topic,
    /// Partition and records; `None` is null.
    pub partitions: Vec<(i32, Option<Vec<u8>>)>,
    /// Bytes after the body.
    pub trailing: Vec<u8>,
}

impl Produce {
    /// A version 7 request with acks=all for partition 0.
    #[must_use]
    pub fn to(topic: impl Into<Topic>, records: Vec<u8>) -> Self {
        Self {
            version: 7,
            transactional_id: None,
            acks: -1,
            timeout_ms: 5000,
            topic: topic.into(),
            partitions: vec![(0, Some(records))],
            trailing: Vec::new(),
        }
    }

    /// The frame.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        let flexible = self.version >= 9;
        let body = Body::new(flexible)
            .nullable_string(self.transactional_id.as_deref())
            .i16(self.acks)
            .i32(self.timeout_ms)
            .count(1);
        let body = self.topic.put(body);
        let body = body.array(&self.partitions, |body, (partition, records)| {
            body.i32(*partition).nullable_bytes(records.as_deref()).tags()
        });
        let body = body.tags().tags().raw(&self.trailing);
        request(0, self.version, flexible, &body.into_bytes())
    }
}

/// Fetch (1) of one partition.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// Request version.
    pub version: i16,
    /// Replica id, −1 for a consumer.
    pub replica_id: i32,
    /// Longest wait.
    pub max_wait_ms: i32,
    /// Least bytes.
    pub min_bytes: i32,
    /// Most bytes of the response.
    pub max_bytes: i32,
    /// Isolation level.
    pub isolation_level: i8,
    /// Fetch session id.
    pub session_id: i32,
    /// Fetch session epoch.
    pub session_epoch: i32,
    /// The topic, or none.
    pub topic: Option<Topic>,
    /// The partition.
    pub partition: i32,
    /// The leader epoch the client knows.
    pub current_leader_epoch: i32,
    /// The offset.
    pub offset: i64,
    /// The epoch of the last record fetched.
    pub last_fetched_epoch: i32,
    /// Most bytes of the partition.
    pub partition_max_bytes: i32,
    /// Whether the list of forgotten topics is null.
    pub forgotten_null: bool,
    /// Whether the topic and partition is forgotten rather than wanted.
    pub forgets: bool,
    /// The cluster id, from version 12.
    pub cluster_id: Option<String>,
}

impl Fetch {
    /// A version 11 request from offset 0 of partition 0.
    #[must_use]
    pub fn of(topic: impl Into<Topic>) -> Self {
        Self {
            version: 11,
            replica_id: -1,
            max_wait_ms: 100,
            min_bytes: 1,
            max_bytes: 1 << 20,
            isolation_level: 0,
            session_id: 0,
            session_epoch: -1,
            topic: Some(topic.into()),
            partition: 0,
            current_leader_epoch: -1,
            offset: 0,
            last_fetched_epoch: -1,
            partition_max_bytes: 1 << 20,
            forgotten_null: false,
            forgets: false,
            cluster_id: None,
        }
    }

    /// The frame.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        let version = self.version;
        let flexible = version >= 12;
        let body = Body::new(flexible);
        let body = if version <= 14 { body.i32(self.replica_id) } else { body };
        let body = body.i32(self.max_wait_ms).i32(self.min_bytes).i32(self.max_bytes);
        let body = body.i8(self.isolation_level);
        let body =
            if version >= 7 { body.i32(self.session_id).i32(self.session_epoch) } else { body };
        let topics: Vec<&Topic> = self.topic.iter().collect();
        let wanted: &[&Topic] = if self.forgets { &[] } else { &topics };
        let body =
            body.array(wanted, |body, topic| self.put_partition(topic.put(body).count(1)).tags());
        let body = match (version >= 7, self.forgotten_null, self.forgets) {
            (false, ..) => body,
            (true, true, _) => body.count(-1),
            (true, false, false) => body.count(0),
            (true, false, true) => body
                .array(&topics, |body, topic| topic.put(body).count(1).i32(self.partition).tags()),
        };
        let body = if version >= 11 { body.string("") } else { body };
        request(1, version, flexible, &self.put_tags(body).into_bytes())
    }

    fn put_partition(&self, body: Body) -> Body {
        let body = body.i32(self.partition);
        let body = if self.version >= 9 { body.i32(self.current_leader_epoch) } else { body };
        let body = body.i64(self.offset);
        let body = if self.version >= 12 { body.i32(self.last_fetched_epoch) } else { body };
        let body = if self.version >= 5 { body.i64(-1) } else { body };
        body.i32(self.partition_max_bytes).tags()
    }

    /// From version 12 the cluster id is a tagged field, and from 15 so is the replica's state.
    fn put_tags(&self, body: Body) -> Body {
        match &self.cluster_id {
            Some(id) if self.version >= 12 => {
                let value = Body::new(true).string(id).into_bytes();
                body.raw(&[1, 0, value.len() as u8]).raw(&value)
            }
            Some(_) | None => body.tags(),
        }
    }
}

/// ListOffsets (2) of one partition.
#[derive(Clone, Debug)]
pub struct ListOffsets {
    /// Request version.
    pub version: i16,
    /// Replica id.
    pub replica_id: i32,
    /// Isolation level.
    pub isolation_level: i8,
    /// Topic name.
    pub topic: String,
    /// Partitions, usually one.
    pub partitions: Vec<i32>,
    /// The leader epoch the client knows.
    pub current_leader_epoch: i32,
    /// The timestamp, or a special value.
    pub timestamp: i64,
}

impl ListOffsets {
    /// A request for one timestamp of partition 0.
    #[must_use]
    pub fn at(topic: &str, version: i16, timestamp: i64) -> Self {
        Self {
            version,
            replica_id: -1,
            isolation_level: 0,
            topic: topic.to_owned(),
            partitions: vec![0],
            current_leader_epoch: -1,
            timestamp,
        }
    }

    /// The frame.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        let flexible = self.version >= 6;
        let body = Body::new(flexible).i32(self.replica_id);
        let body = if self.version >= 2 { body.i8(self.isolation_level) } else { body };
        let body = body.count(1).string(&self.topic).array(&self.partitions, |body, partition| {
            let body = body.i32(*partition);
            let body = if self.version >= 4 { body.i32(self.current_leader_epoch) } else { body };
            body.i64(self.timestamp).tags()
        });
        let body = body.tags();
        let body = if self.version >= 10 { body.i32(5000) } else { body };
        request(2, self.version, flexible, &body.tags().into_bytes())
    }
}

/// One topic to be created.
#[derive(Clone, Debug)]
pub struct NewTopic {
    /// Name.
    pub name: String,
    /// Partition count, −1 for the broker's default.
    pub partitions: i32,
    /// Replication factor, −1 for the broker's default.
    pub replication_factor: i16,
    /// Partition and its replicas.
    pub assignments: Vec<(i32, Vec<i32>)>,
    /// Configuration; a value of `None` is null.
    pub configs: Vec<(String, Option<String>)>,
}

impl NewTopic {
    /// One partition, one replica, no settings.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            partitions: 1,
            replication_factor: 1,
            assignments: Vec::new(),
            configs: Vec::new(),
        }
    }
}

/// CreateTopics (19).
#[must_use]
pub fn create_topics(version: i16, topics: &[NewTopic], validate_only: bool) -> Vec<u8> {
    let flexible = version >= 5;
    let body = Body::new(flexible).array(topics, |body, topic| {
        let body = body.string(&topic.name).i32(topic.partitions).i16(topic.replication_factor);
        let body = body.array(&topic.assignments, |body, (partition, replicas)| {
            body.i32(*partition).array(replicas, |body, replica| body.i32(*replica)).tags()
        });
        body.array(&topic.configs, |body, (name, value)| {
            body.string(name).nullable_string(value.as_deref()).tags()
        })
        .tags()
    });
    let body = body.i32(10_000).bool(validate_only).tags();
    request(19, version, flexible, &body.into_bytes())
}

/// DeleteTopics (20) by name; from version 6 a topic may be named by id instead.
#[must_use]
pub fn delete_topics(version: i16, topics: &[MetadataTopic]) -> Vec<u8> {
    let flexible = version >= 4;
    let body = Body::new(flexible).array(topics, |body, topic| {
        if version >= 6 {
            body.nullable_string(topic.name.as_deref()).raw(&topic.id).tags()
        } else {
            body.string(topic.name.as_deref().unwrap_or_default())
        }
    });
    request(20, version, flexible, &body.i32(10_000).tags().into_bytes())
}

/// DeleteRecords (21): partitions of one topic and the offsets below which all goes.
#[must_use]
pub fn delete_records(version: i16, topic: &str, partitions: &[(i32, i64)]) -> Vec<u8> {
    let flexible = version >= 2;
    let body = Body::new(flexible).array(&[topic], |body, topic| {
        body.string(topic)
            .array(partitions, |body, (index, offset)| body.i32(*index).i64(*offset).tags())
            .tags()
    });
    request(21, version, flexible, &body.i32(10_000).tags().into_bytes())
}

/// A topic's new partition count, and the replicas of the new partitions if they are given.
pub type MorePartitions<'a> = (&'a str, i32, Option<Vec<Vec<i32>>>);

/// CreatePartitions (37).
#[must_use]
pub fn create_partitions(
    version: i16,
    topics: &[MorePartitions<'_>],
    validate_only: bool,
) -> Vec<u8> {
    let flexible = version >= 2;
    let body = Body::new(flexible).array(topics, |body, (name, count, assignments)| {
        let body = body.string(name).i32(*count);
        let body = match assignments {
            None => body.count(-1),
            Some(list) => body.array(list, |body, replicas| {
                body.array(replicas, |body, replica| body.i32(*replica)).tags()
            }),
        };
        body.tags()
    });
    let body = body.i32(10_000).bool(validate_only).tags();
    request(37, version, flexible, &body.into_bytes())
}

/// InitProducerId (22).
#[must_use]
pub fn init_producer_id(
    version: i16,
    transactional_id: Option<&str>,
    timeout_ms: i32,
    (producer_id, producer_epoch): (i64, i16),
) -> Vec<u8> {
    let flexible = version >= 2;
    let body = Body::new(flexible).nullable_string(transactional_id).i32(timeout_ms);
    let body = if version >= 3 { body.i64(producer_id).i16(producer_epoch) } else { body };
    request(22, version, flexible, &body.tags().into_bytes())
}

/// DescribeLogDirs (35); `topics` of `None` is null.
#[must_use]
pub fn describe_log_dirs(version: i16, topics: Option<&[(&str, Vec<i32>)]>) -> Vec<u8> {
    let body = Body::new(version >= 2);
    let body = match topics {
        None => body.count(-1),
        Some(topics) => body.array(topics, |body, (topic, partitions)| {
            let body = body.string(topic);
            body.array(partitions, |body, partition| body.i32(*partition)).tags()
        }),
    };
    request(35, version, version >= 2, &body.tags().into_bytes())
}

/// DescribeCluster (60).
#[must_use]
pub fn describe_cluster(version: i16, endpoint_type: i8) -> Vec<u8> {
    let body = Body::new(true).bool(false);
    let body = if version >= 1 { body.i8(endpoint_type) } else { body };
    let body = if version >= 2 { body.bool(false) } else { body };
    request(60, version, true, &body.tags().into_bytes())
}

/// OffsetForLeaderEpoch (23) of partition 0.
#[must_use]
pub fn offset_for_leader_epoch(
    version: i16,
    topic: &str,
    current_leader_epoch: i32,
    leader_epoch: i32,
) -> Vec<u8> {
    let flexible = version >= 4;
    let body = Body::new(flexible);
    let body = if version >= 3 { body.i32(-1) } else { body };
    let body = body.count(1).string(topic).count(1).i32(0).i32(current_leader_epoch);
    let body = body.i32(leader_epoch).tags().tags().tags();
    request(23, version, flexible, &body.into_bytes())
}

/// One resource of a DescribeConfigs, AlterConfigs or IncrementalAlterConfigs request.
#[derive(Clone, Debug)]
pub struct Resource<'a> {
    /// 2 a topic, 4 a broker.
    pub kind: i8,
    /// Its name.
    pub name: &'a str,
    /// Operation (0 set, 1 delete, 2 append, 3 subtract), name and value.
    pub changes: Vec<(i8, &'a str, Option<&'a str>)>,
}

/// DescribeConfigs (32) of one resource; `keys` of `None` is null. Synonyms and documentation are asked for.
#[must_use]
pub fn describe_configs(version: i16, kind: i8, name: &str, keys: Option<&[&str]>) -> Vec<u8> {
    let flexible = version >= 4;
    let body = Body::new(flexible).count(1).raw(&kind.to_be_bytes()).string(name);
    let body = match keys {
        None => body.count(-1),
        Some(keys) => body.array(keys, |body, key| body.string(key)),
    };
    let body = body.tags().bool(true);
    let body = if version >= 3 { body.bool(true) } else { body };
    request(32, version, flexible, &body.tags().into_bytes())
}

/// AlterConfigs (33); operations are not sent.
#[must_use]
pub fn alter_configs(version: i16, resources: &[Resource<'_>], validate_only: bool) -> Vec<u8> {
    let flexible = version >= 2;
    let body = Body::new(flexible).array(resources, |body, resource| {
        let body = body.i8(resource.kind).string(resource.name);
        let one = |body: Body, (_, name, value): &(i8, &str, Option<&str>)| {
            body.string(name).nullable_string(*value).tags()
        };
        body.array(&resource.changes, one).tags()
    });
    request(33, version, flexible, &body.bool(validate_only).tags().into_bytes())
}

/// IncrementalAlterConfigs (44).
#[must_use]
pub fn incremental_alter_configs(
    version: i16,
    resources: &[Resource<'_>],
    validate_only: bool,
) -> Vec<u8> {
    let flexible = version >= 1;
    let body = Body::new(flexible).array(resources, |body, resource| {
        let body = body.i8(resource.kind).string(resource.name);
        let one = |body: Body, (operation, name, value): &(i8, &str, Option<&str>)| {
            body.string(name).i8(*operation).nullable_string(*value).tags()
        };
        body.array(&resource.changes, one).tags()
    });
    request(44, version, flexible, &body.bool(validate_only).tags().into_bytes())
}

/// UpdateFeatures (57): features, their new levels, and Kafka's number of the kind of change.
#[must_use]
pub fn update_features(version: i16, updates: &[(&str, i16, i8)], validate_only: bool) -> Vec<u8> {
    let body = Body::new(true).i32(5000).array(updates, |body, (name, level, kind)| {
        let body = body.string(name).i16(*level);
        // Version 0 says only whether the level may fall.
        let body = if version == 0 { body.bool(*kind != 1) } else { body.i8(*kind) };
        body.tags()
    });
    let body = if version >= 1 { body.bool(validate_only) } else { body };
    request(57, version, true, &body.tags().into_bytes())
}

/// ListConfigResources (74).
#[must_use]
pub fn list_config_resources(version: i16, kinds: &[i8]) -> Vec<u8> {
    let body = Body::new(true);
    let body = if version >= 1 { body.array(kinds, |body, kind| body.i8(*kind)) } else { body };
    request(74, version, true, &body.tags().into_bytes())
}
