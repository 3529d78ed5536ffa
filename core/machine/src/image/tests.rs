//! Tests of the image: each record type's effect, the merge rules, transactions, the delta and refusals.

use pelton_model::record_type::metadata::{
    AbortTransactionRecord, AccessControlEntryRecord, BeginTransactionRecord,
    BrokerRegistrationChangeRecord, ClearElrRecord, ClientQuotaRecord, ConfigRecord,
    DelegationTokenRecord, EndTransactionRecord, EntityData, FeatureLevelRecord, FenceBrokerRecord,
    MetadataRecord, PartitionChangeRecord, PartitionRecord, ProducerIdsRecord, RESOURCE_TOPIC,
    RegisterBrokerRecord, RegisterControllerRecord, RemoveAccessControlEntryRecord,
    RemoveTopicRecord, TopicRecord, UnfenceBrokerRecord, UnregisterBrokerRecord,
    UserScramCredentialRecord,
};
use pelton_model::{LeaderEpoch, NodeId, Offset, PartitionEpoch, PartitionId, TopicId};

use super::{ConfigResource, MetadataImage, PartitionImage, ReplayError, ReplayRefusal};

fn id(number: u8) -> TopicId {
    TopicId([number; 16])
}

fn replay(image: &mut MetadataImage, record: impl Into<MetadataRecord>) -> Result<(), ReplayError> {
    image.replay(image.next_offset(), LeaderEpoch(1), &record.into())
}

fn image_of(records: Vec<MetadataRecord>) -> MetadataImage {
    let mut image = MetadataImage::new();
    for record in records {
        replay(&mut image, record).unwrap();
    }
    image
}

fn topic(name: &str, number: u8) -> MetadataRecord {
    let topic_id = id(number);
    let name = name.to_owned();
    TopicRecord { name, topic_id }.into()
}

fn partition(number: u8, partition_id: i32) -> PartitionRecord {
    PartitionRecord {
        partition_id,
        topic_id: id(number),
        replicas: vec![1],
        isr: vec![1],
        leader: 1,
        leader_epoch: 0,
        partition_epoch: 0,
        directories: vec![id(100)],
        ..PartitionRecord::default()
    }
}

fn change(number: u8, partition_id: i32) -> PartitionChangeRecord {
    PartitionChangeRecord {
        partition_id,
        topic_id: id(number),
        ..PartitionChangeRecord::default()
    }
}

fn config(name: &str, value: Option<&str>) -> MetadataRecord {
    let record = ConfigRecord {
        resource_type: RESOURCE_TOPIC,
        resource_name: "a".into(),
        name: name.into(),
        value: value.map(str::to_owned),
    };
    record.into()
}

fn broker(broker_id: i32, broker_epoch: i64) -> RegisterBrokerRecord {
    RegisterBrokerRecord {
        broker_id,
        broker_epoch,
        log_dirs: vec![id(100)],
        ..RegisterBrokerRecord::default()
    }
}

fn two_topics() -> MetadataImage {
    image_of(vec![
        broker(1, 0).into(),
        topic("b", 1),
        partition(1, 0).into(),
        topic("a", 2),
        partition(2, 0).into(),
        partition(2, 1).into(),
        config("retention.ms", Some("5")),
    ])
}

// Goal: topics, partitions and configs are found by every key, in order. Method: two topics, then one removed.
#[test]
fn topics() {
    let mut image = two_topics();
    let names: Vec<&str> = image.topics().map(super::TopicImage::name).collect();
    assert_eq!(names, ["a", "b"]);
    let a = image.topic_by_name("a").unwrap();
    assert_eq!((a.id(), a.partition_count()), (id(2), 2));
    assert_eq!(
        a.partition(PartitionId(1)).unwrap().leader(),
        Some(NodeId(1))
    );
    assert_eq!(a.partition(PartitionId(2)), None);
    assert_eq!(image.topic(id(1)).unwrap().name(), "b");
    assert_eq!(
        image
            .topic_configs("a")
            .unwrap()
            .get("retention.ms")
            .unwrap(),
        "5"
    );
    assert_eq!(image.applied(), Offset(6));

    replay(&mut image, RemoveTopicRecord { topic_id: id(2) }).unwrap();
    assert_eq!(image.topic_by_name("a"), None);
    assert_eq!(image.topic(id(2)), None);
    assert_eq!(image.topic_configs("a"), None);
    assert_eq!((image.topic_count(), image.topics().count()), (1, 1));
}

// Goal: a config value can be replaced and removed, and nothing is left of the last one. Method: compare with an image that
// never had any.
#[test]
fn configs() {
    let mut image = two_topics();
    replay(&mut image, config("retention.ms", Some("6"))).unwrap();
    assert_eq!(
        image
            .topic_configs("a")
            .unwrap()
            .get("retention.ms")
            .unwrap(),
        "6"
    );
    replay(&mut image, config("retention.ms", None)).unwrap();
    replay(&mut image, config("other", None)).unwrap();
    assert_eq!(image.topic_configs("a"), None);
    let mut never = two_topics().to_records();
    never.retain(|record| !matches!(record, MetadataRecord::Config(_)));
    assert!(image.same_state(&image_of(never)));
}

// Goal: the merge rules of partition changes. Method: one change after another, with the state expected.
#[test]
fn partition_changes() {
    fn check(image: &mut MetadataImage, record: PartitionChangeRecord, expected: (i32, i32, i32)) {
        let key = (record.topic_id, PartitionId(record.partition_id));
        replay(image, record).unwrap();
        let state: &PartitionImage = image.topic(key.0).unwrap().partition(key.1).unwrap();
        let LeaderEpoch(leader_epoch) = state.leader_epoch;
        let PartitionEpoch(partition_epoch) = state.partition_epoch;
        assert_eq!((state.leader_id.0, leader_epoch, partition_epoch), expected);
    }
    let mut image = two_topics();
    let base = change(1, 0);
    // Nothing present: the partition epoch alone.
    check(&mut image, base.clone(), (1, 0, 1));
    let isr = PartitionChangeRecord {
        isr: Some(vec![]),
        eligible_leader_replicas: Some(vec![1]),
        ..base.clone()
    };
    check(&mut image, isr, (1, 0, 2));
    let gone = PartitionChangeRecord {
        leader: -1,
        ..base.clone()
    };
    check(&mut image, gone, (-1, 1, 3));
    let same = PartitionChangeRecord {
        leader: -1,
        ..base.clone()
    };
    check(&mut image, same, (-1, 2, 4));
    let moved = PartitionChangeRecord {
        leader: 2,
        isr: Some(vec![2]),
        replicas: Some(vec![2, 1]),
        leader_recovery_state: 1,
        ..base
    };
    check(&mut image, moved, (2, 3, 5));
    let state = image
        .topic(id(1))
        .unwrap()
        .partition(PartitionId(0))
        .unwrap();
    assert!(state.recovering);
    assert_eq!(state.directory(NodeId(1)), Some(id(100)));
    assert_eq!(state.directory(NodeId(2)), Some(TopicId::ZERO));
    assert_eq!(state.eligible_leader_replicas, [NodeId(1)]);

    let everywhere = ClearElrRecord::default();
    replay(&mut image, everywhere).unwrap();
    let state = image
        .topic(id(1))
        .unwrap()
        .partition(PartitionId(0))
        .unwrap();
    assert!(state.eligible_leader_replicas.is_empty());
    assert_eq!(state.partition_epoch, PartitionEpoch(6));
}

// Goal: brokers come, change, are fenced and leave, guarded by their epoch. Method: one record after another.
#[test]
fn brokers() {
    let mut image = image_of(vec![broker(1, 5).into()]);
    assert!(image.broker(NodeId(1)).unwrap().fenced);
    let change = |fenced| BrokerRegistrationChangeRecord {
        broker_id: 1,
        broker_epoch: 5,
        fenced,
        ..BrokerRegistrationChangeRecord::default()
    };
    replay(&mut image, change(-1)).unwrap();
    assert!(!image.broker(NodeId(1)).unwrap().fenced);
    replay(&mut image, change(0)).unwrap();
    assert!(!image.broker(NodeId(1)).unwrap().fenced);
    replay(&mut image, change(1)).unwrap();
    assert!(image.broker(NodeId(1)).unwrap().fenced);
    replay(&mut image, UnfenceBrokerRecord { id: 1, epoch: 5 }).unwrap();
    assert!(!image.broker(NodeId(1)).unwrap().fenced);
    replay(&mut image, FenceBrokerRecord { id: 1, epoch: 5 }).unwrap();
    assert!(image.broker(NodeId(1)).unwrap().fenced);
    let unregister = UnregisterBrokerRecord {
        broker_id: 1,
        broker_epoch: 5,
    };
    replay(&mut image, unregister).unwrap();
    assert_eq!(image.brokers().count(), 0);
}

// Goal: what is undone never was, what is not yet ended is not shown. Method: transactions that end, abort, stay open.
#[test]
fn transactions() {
    let mut image = two_topics();
    image.take_delta();
    replay(&mut image, BeginTransactionRecord::default()).unwrap();
    replay(&mut image, topic("c", 3)).unwrap();
    assert!(image.in_transaction());
    assert_eq!(image.stable().topic_by_name("c"), None);
    assert!(image.take_delta().is_empty());
    let mut ended = image.clone();
    replay(&mut ended, EndTransactionRecord {}).unwrap();
    assert!(ended.stable().topic_by_name("c").is_some());
    assert!(ended.take_delta().topics_created.contains(&id(3)));

    replay(&mut image, AbortTransactionRecord::default()).unwrap();
    assert!(!image.in_transaction());
    assert!(image.same_state(&two_topics()));
    assert!(image.take_delta().is_empty());
    assert_eq!(image.applied(), Offset(9));
}

// Goal: the delta names what a shard must touch, and no more. Method: changes of each kind after taking it.
#[test]
fn delta() {
    let mut image = two_topics();
    let delta = image.take_delta();
    assert_eq!(delta.topics_created.len(), 2);
    assert_eq!(delta.partitions.len(), 3);
    assert!(image.take_delta().is_empty());

    let published = image.clone();
    replay(&mut image, change(2, 1)).unwrap();
    replay(&mut image, config("x", Some("y"))).unwrap();
    replay(&mut image, topic("short", 4)).unwrap();
    replay(&mut image, partition(4, 0)).unwrap();
    replay(&mut image, RemoveTopicRecord { topic_id: id(4) }).unwrap();
    replay(&mut image, RemoveTopicRecord { topic_id: id(1) }).unwrap();
    let delta = image.take_delta();
    let partitions: Vec<i32> = delta.partitions.iter().map(|p| p.partition.0).collect();
    assert_eq!(partitions, [1]);
    assert!(delta.topics_created.is_empty());
    assert_eq!(delta.topics_deleted.get(&id(1)).unwrap(), "b");
    let resource = ConfigResource {
        resource_type: RESOURCE_TOPIC,
        name: "a".into(),
    };
    assert!(delta.configs.contains(&resource));
    // What was published does not move.
    assert!(published.same_state(&two_topics()));
}

// Goal: a record that does not fit is refused and changes nothing. Method: a table of them on one image.
#[test]
fn refusals() {
    fn check(record: impl Into<MetadataRecord>, expected: ReplayRefusal) {
        let mut image = two_topics();
        let error = replay(&mut image, record).unwrap_err();
        assert_eq!(error.reason, expected);
        assert_eq!(error.offset, Offset(7));
        assert!(image.same_state(&two_topics()));
        assert_eq!(image.applied(), Offset(6));
    }
    check(topic("a", 9), ReplayRefusal::TopicExists("a".into(), id(9)));
    check(topic("z", 1), ReplayRefusal::TopicExists("z".into(), id(1)));
    check(partition(9, 0), ReplayRefusal::UnknownTopicId(id(9)));
    check(change(9, 0), ReplayRefusal::UnknownTopicId(id(9)));
    let key = |number, partition| pelton_model::TopicPartition {
        topic_id: id(number),
        partition: PartitionId(partition),
    };
    check(change(1, 1), ReplayRefusal::UnknownPartition(key(1, 1)));
    check(
        partition(1, -1),
        ReplayRefusal::InvalidPartition(key(1, -1)),
    );
    check(
        RemoveTopicRecord { topic_id: id(9) },
        ReplayRefusal::UnknownTopicId(id(9)),
    );
    check(
        UnfenceBrokerRecord { id: 2, epoch: 0 },
        ReplayRefusal::UnknownBroker(NodeId(2)),
    );
    check(
        UnfenceBrokerRecord { id: 1, epoch: 3 },
        ReplayRefusal::BrokerEpochMismatch(NodeId(1), 0),
    );
    check(
        ProducerIdsRecord::default(),
        ReplayRefusal::ProducerIdsNotAfter(0),
    );
    check(EndTransactionRecord {}, ReplayRefusal::TransactionState);
    check(
        AbortTransactionRecord::default(),
        ReplayRefusal::TransactionState,
    );
    let unknown = ClearElrRecord {
        topic_name: "z".into(),
    };
    check(unknown, ReplayRefusal::UnknownTopic("z".into()));
}

// Goal: offsets only grow, epochs never pass their end. Method: a repeated offset; a partition at the last epoch.
#[test]
fn bounds() {
    let mut image = two_topics();
    let error = image.replay(Offset(6), LeaderEpoch(1), &topic("z", 9));
    let reason = error.unwrap_err().reason;
    assert_eq!(reason, ReplayRefusal::OffsetNotAfter(Offset(6)));
    let last = PartitionRecord {
        leader_epoch: i32::MAX,
        ..partition(1, 0)
    };
    replay(&mut image, last).unwrap();
    replay(&mut image, change(1, 0)).unwrap();
    let leader = PartitionChangeRecord {
        leader: 1,
        ..change(1, 0)
    };
    let reason = replay(&mut image, leader).unwrap_err().reason;
    assert!(matches!(reason, ReplayRefusal::InvalidPartition(_)));
}

// Goal: a snapshot holds everything. Method: an image with something of every kind, as records and back.
#[test]
fn snapshot_round_trip() {
    let mut image = two_topics();
    let quota = ClientQuotaRecord {
        entity: vec![EntityData {
            entity_type: "user".into(),
            entity_name: None,
        }],
        key: "producer_byte_rate".into(),
        value: 1.5,
        remove: false,
    };
    let credential = UserScramCredentialRecord {
        name: "u".into(),
        mechanism: 1,
        iterations: 4096,
        ..UserScramCredentialRecord::default()
    };
    let records: Vec<MetadataRecord> = vec![
        feature("metadata.version", 30),
        feature("group.version", 1),
        RegisterControllerRecord::default().into(),
        quota.into(),
        credential.into(),
        AccessControlEntryRecord {
            id: id(7),
            ..AccessControlEntryRecord::default()
        }
        .into(),
        DelegationTokenRecord::default().into(),
        ProducerIdsRecord {
            next_producer_id: 1000,
            ..ProducerIdsRecord::default()
        }
        .into(),
    ];
    for record in records {
        replay(&mut image, record).unwrap();
    }
    assert!(image.take_delta().security);
    let records = image.to_records();
    assert_eq!(records[0], feature("metadata.version", 30));
    let restored = image_of(records);
    assert!(restored.same_state(&image));
    assert_eq!(restored.metadata_version(), Some(30));

    replay(&mut image, RemoveAccessControlEntryRecord { id: id(7) }).unwrap();
    assert!(!restored.same_state(&image));
    assert_eq!(image.acls().count(), 0);
}

fn feature(name: &str, feature_level: i16) -> MetadataRecord {
    let name = name.to_owned();
    FeatureLevelRecord {
        name,
        feature_level,
    }
    .into()
}

// Goal: colliding names are found as long as one exists. Method: names with dots and underscores, added and removed.
#[test]
fn colliding_names() {
    let mut image = image_of(vec![topic("a.b_c", 1), topic("plain", 2)]);
    assert_eq!(image.colliding_topic("a_b.c"), Some("a.b_c"));
    assert_eq!(image.colliding_topic("plain"), None);
    assert_eq!(image.colliding_topic("a.b"), None);
    replay(&mut image, RemoveTopicRecord { topic_id: id(1) }).unwrap();
    assert_eq!(image.colliding_topic("a_b.c"), None);
}
