//! Tests of the controller's decisions against what Apache Kafka 4.3.1 answers, and of the starts of a node.

use std::collections::BTreeMap;

use pelton_model::record_type::metadata::{
    BeginTransactionRecord, FeatureLevelRecord, MetadataRecord, PartitionChangeRecord,
    RegisterBrokerRecord, TopicRecord,
};
use pelton_model::{ErrorCode, LeaderEpoch, NodeId, Offset, PartitionId, TopicId};

use super::{
    BrokerStart, CreatableTopic, CreatePartitionsOptions, CreateTopicResult, CreateTopicsOptions,
    CreatedTopic, Decision, DeletableTopic, NewPartitions, OFFSETS_TOPIC, Refusal, StartError,
    TRANSACTIONS_TOPIC, allocate_producer_ids, auto_create_topics, create_partitions,
    create_topics, delete_topics, start, supported_features, validate_topic_name,
};
use crate::image::MetadataImage;

const DIRECTORY: TopicId = TopicId([100; 16]);
const NODE: NodeId = NodeId(1);

/// The directory id that says that the directory is gone.
pub(super) const LOST: TopicId = TopicId([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

/// Replays records behind what the image has.
pub(in crate::controller) fn apply(image: &mut MetadataImage, records: &[MetadataRecord]) {
    for record in records {
        image
            .replay(image.next_offset(), LeaderEpoch(1), record)
            .unwrap();
    }
}

fn node() -> BrokerStart {
    BrokerStart {
        broker_id: NODE,
        incarnation_id: TopicId([7; 16]),
        end_points: Vec::new(),
        features: supported_features(),
        rack: None,
        log_dirs: vec![DIRECTORY],
        cordoned_log_dirs: Vec::new(),
        found: BTreeMap::new(),
    }
}

fn started() -> MetadataImage {
    let mut image = MetadataImage::new();
    let decision = start(&image, &node()).unwrap();
    apply(&mut image, &decision.records);
    image
}

/// Knows two configs, as `config::topic::validate_all` knows many.
fn validate_configs(configs: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in configs {
        match (name.as_str(), value.parse::<i64>()) {
            ("retention.ms", Ok(_)) | ("cleanup.policy", _) => {}
            ("retention.ms", Err(_)) => {
                return Err(format!("Invalid value {value} for configuration {name}"));
            }
            _ => return Err(format!("Unknown topic config name: {name}")),
        }
    }
    Ok(())
}

fn with_options<R>(validate_only: bool, run: impl FnOnce(&mut CreateTopicsOptions<'_>) -> R) -> R {
    let mut next = 1_u128;
    run(&mut CreateTopicsOptions {
        default_num_partitions: 3,
        default_replication_factor: 1,
        validate_configs: &validate_configs,
        validate_only,
        draw_topic_id: &mut || {
            next += 1;
            TopicId((next << 8).to_be_bytes())
        },
    })
}

fn create(image: &MetadataImage, topics: &[CreatableTopic]) -> Decision<Vec<CreateTopicResult>> {
    with_options(false, |options| create_topics(image, topics, options))
}

fn topic(name: &str, num_partitions: i32, replication_factor: i16) -> CreatableTopic {
    CreatableTopic {
        num_partitions,
        replication_factor,
        ..CreatableTopic::with_defaults(name)
    }
}

fn with_topics(names: &[&str]) -> MetadataImage {
    let mut image = started();
    let topics: Vec<CreatableTopic> = names.iter().map(|name| topic(name, 2, 1)).collect();
    let decision = create(&image, &topics);
    assert!(decision.results.iter().all(|result| result.result.is_ok()));
    apply(&mut image, &decision.records);
    image
}

fn refusal(error: ErrorCode, message: &str) -> Refusal {
    Refusal::new(error, message)
}

// Goal: a created topic is in the image as asked. Method: explicit counts, defaults, configs, an assignment by hand.
#[test]
fn creates_topics() {
    let mut image = started();
    let configured = CreatableTopic {
        configs: vec![
            ("retention.ms".into(), Some("5".into())),
            ("cleanup.policy".into(), Some("compact".into())),
        ],
        ..CreatableTopic::with_defaults("configured")
    };
    let assigned = CreatableTopic {
        assignments: vec![(1, vec![1]), (0, vec![1])],
        ..CreatableTopic::with_defaults("assigned")
    };
    let decision = create(&image, &[topic("plain", 5, 1), configured, assigned]);
    apply(&mut image, &decision.records);
    let counts: Vec<(i32, i16, usize)> = decision
        .results
        .iter()
        .map(|result| result.result.as_ref().unwrap())
        .map(|c| (c.num_partitions, c.replication_factor, c.configs.len()))
        .collect();
    assert_eq!(counts, [(5, 1, 0), (3, 1, 2), (2, 1, 0)]);
    for result in &decision.results {
        let created = result.result.as_ref().unwrap();
        let found = image.topic_by_name(&result.name).unwrap();
        assert_eq!(found.id(), created.topic_id);
        assert_eq!(found.partition_count(), created.num_partitions);
        for (_, state) in found.partitions() {
            assert_eq!(
                (state.leader(), state.leader_epoch),
                (Some(NODE), LeaderEpoch(0))
            );
            assert_eq!(state.isr, [NODE]);
            assert_eq!(state.directory(NODE), Some(DIRECTORY));
        }
    }
    let configs = image.topic_configs("configured").unwrap();
    assert_eq!(configs.get("cleanup.policy").unwrap(), "compact");
    let kinds: Vec<&str> = decision.records.iter().map(MetadataRecord::name).collect();
    assert_eq!(kinds[6..9], ["TopicRecord", "ConfigRecord", "ConfigRecord"]);
}

// Goal: each refusal has Kafka's code and text. Method: a table of one-topic requests on a broker with one topic.
#[test]
fn create_refusals() {
    fn check(asked: CreatableTopic, error: ErrorCode, message: &str) {
        let image = with_topics(&["orders", "a.b"]);
        for validate_only in [false, true] {
            let decision = with_options(validate_only, |options| {
                create_topics(&image, std::slice::from_ref(&asked), options)
            });
            assert_eq!(decision.records, []);
            let result = &decision.results[0];
            assert_eq!(result.name, asked.name);
            assert_eq!(result.result, Err(refusal(error, message)));
        }
    }
    let invalid_name = ErrorCode::InvalidTopicException;
    check(
        topic("orders", 1, 1),
        ErrorCode::TopicAlreadyExists,
        "Topic 'orders' already exists.",
    );
    check(
        topic("", 1, 1),
        invalid_name,
        "Topic name is invalid: the empty string is not allowed",
    );
    check(
        topic("..", 1, 1),
        invalid_name,
        "Topic name is invalid: '..' is not allowed",
    );
    check(
        topic("bad name", 1, 1),
        invalid_name,
        "Topic name is invalid: 'bad name' contains one or more characters other than ASCII \
         alphanumerics, '.', '_' and '-'",
    );
    check(
        topic("a_b", 1, 1),
        invalid_name,
        "Topic 'a_b' collides with existing topic: a.b",
    );
    check(
        topic("__cluster_metadata", 1, 1),
        ErrorCode::InvalidRequest,
        "Creation of internal topic __cluster_metadata is prohibited.",
    );
    let partitions = "Number of partitions was set to an invalid non-positive value.";
    check(topic("x", 0, 1), ErrorCode::InvalidPartitions, partitions);
    check(topic("x", -2, -1), ErrorCode::InvalidPartitions, partitions);
    let factor = "Replication factor must be larger than 0, or -1 to use the default value.";
    check(
        topic("x", 1, 0),
        ErrorCode::InvalidReplicationFactor,
        factor,
    );
    check(
        topic("x", 0, -2),
        ErrorCode::InvalidReplicationFactor,
        factor,
    );
    check(
        topic("x", 1, 2),
        ErrorCode::InvalidReplicationFactor,
        "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be \
         reached because only 1 broker(s) are registered or some brokers have all their log \
         directories cordoned.",
    );
    let many = "Excessively large number of partitions per request.";
    check(topic("x", 10_001, 1), ErrorCode::PolicyViolation, many);
    check(topic("x", i32::MAX, -1), ErrorCode::PolicyViolation, many);
}

// Goal: each refused config and assignment has Kafka's code and text. Method: as above.
#[test]
fn create_refusals_of_details() {
    fn check(asked: &CreatableTopic, error: ErrorCode, message: &str) {
        let decision = create(&started(), std::slice::from_ref(asked));
        assert_eq!(decision.records, []);
        assert_eq!(decision.results[0].result, Err(refusal(error, message)));
    }
    let configured = |name: &str, value: Option<&str>| CreatableTopic {
        configs: vec![(name.into(), value.map(str::to_owned))],
        ..CreatableTopic::with_defaults("x")
    };
    let invalid = ErrorCode::InvalidConfig;
    check(
        &configured("foo", Some("bar")),
        invalid,
        "Unknown topic config name: foo",
    );
    check(
        &configured("retention.ms", Some("abc")),
        invalid,
        "Invalid value abc for configuration retention.ms",
    );
    check(
        &configured("retention.ms", None),
        invalid,
        "Null value not supported for topic configs: retention.ms",
    );
    let assigned = |assignments: &[(i32, &[i32])]| CreatableTopic {
        assignments: assignments.iter().map(|(p, r)| (*p, r.to_vec())).collect(),
        ..CreatableTopic::with_defaults("x")
    };
    let invalid = ErrorCode::InvalidReplicaAssignment;
    let prefix = "The manual partition assignment includes";
    check(
        &assigned(&[(0, &[])]),
        invalid,
        &format!("{prefix} an empty replica list."),
    );
    check(
        &assigned(&[(0, &[7])]),
        invalid,
        &format!("{prefix} broker 7, but no such broker is registered."),
    );
    check(
        &assigned(&[(0, &[1, 1])]),
        invalid,
        &format!("{prefix} the broker 1 more than once."),
    );
    check(
        &assigned(&[(0, &[1]), (0, &[1])]),
        invalid,
        "Found multiple manual partition assignments for partition 0",
    );
    let gap = "partitions should be a consecutive 0-based integer sequence";
    check(&assigned(&[(0, &[1]), (2, &[1])]), invalid, gap);
    check(&assigned(&[(-1, &[1])]), invalid, gap);
    let both = CreatableTopic {
        replication_factor: 1,
        ..assigned(&[(0, &[1])])
    };
    let text = "A manual partition assignment was specified, but replication factor was not set \
                to -1.";
    check(&both, ErrorCode::InvalidRequest, text);
    let both = CreatableTopic {
        num_partitions: 1,
        ..assigned(&[(0, &[1])])
    };
    let text = "A manual partition assignment was specified, but numPartitions was not set to -1.";
    check(&both, ErrorCode::InvalidRequest, text);
}

// Goal: duplicates are answered once and refused, others of the request live. Method: a mixed request.
#[test]
fn create_with_duplicates() {
    let names = ["a", "twice", "b", "twice", "twice", "c.d", "c_d"];
    let topics = names.map(|name| topic(name, 1, 1));
    let decision = create(&started(), &topics);
    let results: Vec<(&str, Option<ErrorCode>)> = decision
        .results
        .iter()
        .map(|result| {
            (
                result.name.as_str(),
                result.result.as_ref().err().map(|r| r.error),
            )
        })
        .collect();
    let expected = [
        ("a", None),
        ("twice", Some(ErrorCode::InvalidRequest)),
        ("b", None),
        ("c.d", None),
        ("c_d", Some(ErrorCode::InvalidTopicException)),
    ];
    assert_eq!(results, expected);
    assert_eq!(decision.records.len(), 6);
}

// Goal: validate-only answers as the real thing and writes nothing. Method: both, compared.
#[test]
fn create_validate_only() {
    let image = started();
    let topics = [topic("a", 2, 1), topic("b", 0, 1)];
    let real = create(&image, &topics);
    let checked = with_options(true, |options| create_topics(&image, &topics, options));
    assert_eq!(checked.results, real.results);
    assert_eq!((checked.records.len(), real.records.len()), (0, 3));
    assert!(
        !checked.results[0]
            .result
            .as_ref()
            .unwrap()
            .topic_id
            .is_zero()
    );
}

// Goal: a topic id is never reserved, taken or option-like. Method: a generator that draws such ids first.
#[test]
fn topic_ids_are_drawn_again() {
    let image = with_topics(&["a"]);
    let taken = image.topic_id("a").unwrap();
    let dash = TopicId([0xf8; 16]);
    let good = TopicId([9; 16]);
    let mut draws = vec![good, taken, dash, TopicId::METADATA, TopicId::ZERO];
    let mut options = CreateTopicsOptions {
        default_num_partitions: 1,
        default_replication_factor: 1,
        validate_configs: &validate_configs,
        validate_only: false,
        draw_topic_id: &mut || draws.pop().unwrap_or(TopicId::ZERO),
    };
    let wanted = [
        CreatableTopic::with_defaults("b"),
        CreatableTopic::with_defaults("c"),
    ];
    let decision = create_topics(&image, &wanted, &mut options);
    assert_eq!(decision.results[0].result.as_ref().unwrap().topic_id, good);
    let error = decision.results[1].result.as_ref().unwrap_err().error;
    assert_eq!(error, ErrorCode::UnknownServerError);
}

// Goal: auto-creation creates what may be created, and a topic that exists counts. Method: one of each.
#[test]
fn auto_creates() {
    let image = with_topics(&["there"]);
    let names = ["new", "there", "__share_group_state", "bad name", "new"];
    let mut wanted: Vec<CreatableTopic> = names.map(CreatableTopic::with_defaults).to_vec();
    wanted.push(CreatableTopic {
        num_partitions: 50,
        ..CreatableTopic::with_defaults(OFFSETS_TOPIC)
    });
    let decision = with_options(false, |options| {
        auto_create_topics(&image, &wanted, options)
    });
    let results: Vec<(&str, Result<i32, ErrorCode>)> = decision
        .results
        .iter()
        .map(|result| {
            let outcome = result.result.as_ref();
            let outcome = outcome.map(|created: &CreatedTopic| created.num_partitions);
            (
                result.name.as_str(),
                outcome.map_err(|refusal| refusal.error),
            )
        })
        .collect();
    let expected = [
        ("__consumer_offsets", Ok(50)),
        (
            "__share_group_state",
            Err(ErrorCode::UnknownTopicOrPartition),
        ),
        ("bad name", Err(ErrorCode::InvalidTopicException)),
        ("new", Ok(3)),
        ("there", Ok(2)),
    ];
    assert_eq!(results, expected);
    assert_eq!(decision.records.len(), 4 + 51);
}

// Goal: deletion by name and by id, every entry answered. Method: each kind of entry alone and in company.
#[test]
fn deletes_topics() {
    fn check(entries: &[DeletableTopic], expected: &[Option<ErrorCode>]) -> MetadataImage {
        let mut image = with_topics(&["a", "b", "c"]);
        let decision = delete_topics(&image, entries, true);
        let outcomes: Vec<Option<ErrorCode>> = decision
            .results
            .iter()
            .map(|result| result.result.as_ref().err().map(|refusal| refusal.error))
            .collect();
        assert_eq!(outcomes, expected);
        apply(&mut image, &decision.records);
        let deleted = expected.iter().filter(|outcome| outcome.is_none()).count();
        assert_eq!(image.topic_count(), 3 - deleted);
        image
    }
    let by_name = |name: &str| DeletableTopic {
        name: Some(name.into()),
        topic_id: TopicId::ZERO,
    };
    let by_id = |topic_id| DeletableTopic {
        name: None,
        topic_id,
    };
    let ids = with_topics(&["a", "b", "c"]);
    let id = |name: &str| ids.topic_id(name).unwrap();
    let invalid = Some(ErrorCode::InvalidRequest);

    let left = check(&[by_name("a"), by_id(id("b"))], &[None, None]);
    assert!(left.topic_by_name("c").is_some());
    let unknown = [
        Some(ErrorCode::UnknownTopicOrPartition),
        Some(ErrorCode::UnknownTopicId),
        None,
    ];
    check(
        &[by_name("z"), by_id(TopicId([3; 16])), by_name("a")],
        &unknown,
    );
    check(
        &[by_name("a"), by_name("a"), by_name("b")],
        &[invalid, None],
    );
    check(&[by_id(id("a")), by_id(id("a"))], &[invalid]);
    check(&[by_name("a"), by_id(id("a"))], &[invalid, None]);
    let both = DeletableTopic {
        topic_id: id("a"),
        ..by_name("a")
    };
    check(&[both, by_id(TopicId::ZERO)], &[invalid, invalid]);

    let disabled = delete_topics(&ids, &[by_name("a")], false);
    let expected = Err(Refusal::bare(ErrorCode::TopicDeletionDisabled));
    assert_eq!(disabled.results[0].result, expected);
    assert_eq!(disabled.records, []);
}

// Goal: partitions are added as asked or refused as Kafka refuses. Method: a table on a topic of two partitions.
#[test]
fn adds_partitions() {
    fn check(count: i32, assignments: Option<&[&[i32]]>, expected: Result<i32, (ErrorCode, &str)>) {
        let mut image = with_topics(&["orders"]);
        let asked = NewPartitions {
            name: "orders".into(),
            count,
            assignments: assignments.map(|all| all.iter().map(|a| a.to_vec()).collect()),
        };
        let asked = [asked];
        let checked = create_partitions(
            &image,
            &asked,
            CreatePartitionsOptions {
                validate_only: true,
            },
        );
        let decision = create_partitions(&image, &asked, CreatePartitionsOptions::default());
        assert_eq!(checked.results, decision.results);
        assert_eq!(checked.records, []);
        apply(&mut image, &decision.records);
        let partitions = image.topic_by_name("orders").unwrap().partition_count();
        match expected {
            Ok(count) => {
                assert_eq!(decision.results[0].result, Ok(()));
                assert_eq!(partitions, count);
            }
            Err((error, message)) => {
                assert_eq!(decision.results[0].result, Err(refusal(error, message)));
                assert_eq!(partitions, 2);
            }
        }
    }
    check(5, None, Ok(5));
    check(4, Some(&[&[1], &[1]]), Ok(4));
    let same = "Topic already has 2 partition(s).";
    check(2, None, Err((ErrorCode::InvalidPartitions, same)));
    let fewer = "The topic orders currently has 2 partition(s); 1 would not be an increase.";
    check(1, None, Err((ErrorCode::InvalidPartitions, fewer)));
    let few =
        "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.";
    check(
        4,
        Some(&[&[1]]),
        Err((ErrorCode::InvalidReplicaAssignment, few)),
    );
    let unknown = "The manual partition assignment includes broker 3, but no such broker is \
                   registered.";
    check(
        3,
        Some(&[&[3]]),
        Err((ErrorCode::InvalidReplicaAssignment, unknown)),
    );
    let many = "Excessively large number of partitions per request.";
    check(20_000, None, Err((ErrorCode::PolicyViolation, many)));
    check(i32::MAX, None, Err((ErrorCode::PolicyViolation, many)));
}

// Goal: the partitions that groups and transactions are found by stay as many. Method: both topics.
#[test]
fn adds_none_to_topics_of_coordinators() {
    let names = [OFFSETS_TOPIC, TRANSACTIONS_TOPIC];
    let image = with_topics(&names);
    let asked = names.map(|name| NewPartitions {
        name: name.to_owned(),
        count: 60,
        assignments: None,
    });
    let decision = create_partitions(&image, &asked, CreatePartitionsOptions::default());
    for result in &decision.results {
        let refused = result.result.as_ref().unwrap_err();
        assert_eq!(refused.error, ErrorCode::InvalidRequest);
    }
    assert_eq!(decision.records, []);
}

// Goal: unknown topics and duplicates do not spoil the others. Method: a mixed request.
#[test]
fn adds_partitions_to_several() {
    let image = with_topics(&["a", "b"]);
    let asked = ["a", "z", "b", "b"].map(|name| NewPartitions {
        name: name.into(),
        count: 3,
        assignments: None,
    });
    let decision = create_partitions(&image, &asked, CreatePartitionsOptions::default());
    let errors: Vec<Option<ErrorCode>> = decision
        .results
        .iter()
        .map(|result| result.result.as_ref().err().map(|refusal| refusal.error))
        .collect();
    let unknown = Some(ErrorCode::UnknownTopicOrPartition);
    assert_eq!(errors, [None, unknown, Some(ErrorCode::InvalidRequest)]);
    assert_eq!(decision.records.len(), 1);
}

// Goal: no producer id twice, whatever is lost in between. Method: blocks allocated with and without use, across starts.
#[test]
fn allocates_producer_ids() {
    let mut image = started();
    let epoch = image.broker(NODE).unwrap().broker_epoch;
    let first = allocate_producer_ids(&image, NODE, epoch).unwrap();
    assert_eq!((first.results.first, first.results.count), (0, 1000));
    apply(&mut image, &first.records);
    let second = allocate_producer_ids(&image, NODE, epoch).unwrap();
    assert_eq!(second.results.first, 1000);
    let stale = allocate_producer_ids(&image, NODE, epoch + 1).unwrap_err();
    assert_eq!(stale.error, ErrorCode::StaleBrokerEpoch);
    let unknown = allocate_producer_ids(&image, NodeId(2), epoch).unwrap_err();
    assert_eq!(unknown.error, ErrorCode::BrokerIdNotRegistered);
}

// Goal: the first start writes a bootstrap and registers. Method: the records and the image they make.
#[test]
fn first_start() {
    let decision = start(&MetadataImage::new(), &node()).unwrap();
    let kinds: Vec<&str> = decision.records.iter().map(MetadataRecord::name).collect();
    let expected = [
        "BeginTransactionRecord",
        "FeatureLevelRecord",
        "FeatureLevelRecord",
        "FeatureLevelRecord",
        "EndTransactionRecord",
        "RegisterBrokerRecord",
        "BrokerRegistrationChangeRecord",
    ];
    assert_eq!(kinds, expected);
    assert!(decision.results.first);
    let image = started();
    assert_eq!(image.metadata_version(), Some(30));
    assert_eq!(image.feature("group.version"), Some(1));
    let broker = image.broker(NODE).unwrap();
    assert_eq!((broker.broker_epoch, broker.fenced), (5, false));
    assert_eq!(broker.log_dirs, [DIRECTORY]);
}

// Goal: each later start registers anew and every leader and partition epoch grows by one. Method: three starts.
#[test]
fn later_starts() {
    let mut image = with_topics(&["a", "b"]);
    for run in 1..4 {
        let next = image.next_offset();
        let decision = start(&image, &node()).unwrap();
        assert!(!decision.results.first);
        assert_eq!(decision.results.broker_epoch, next.0);
        apply(&mut image, &decision.records);
        assert_eq!(image.broker(NODE).unwrap().broker_epoch, next.0);
        for state in image
            .topics()
            .flat_map(|t| t.partitions())
            .map(|(_, state)| state)
        {
            assert_eq!((state.leader(), state.leader_epoch.0), (Some(NODE), run));
            assert_eq!(state.partition_epoch.0, run);
        }
    }
}

// Goal: what a Kafka left leaderless is led again when it may be. Method: the states a lone Kafka leaves, and worse ones.
#[test]
fn start_elects() {
    fn check(left: PartitionChangeRecord, log_dirs: &[TopicId], leader: Option<NodeId>) {
        let mut image = with_topics(&["a"]);
        let left = PartitionChangeRecord {
            partition_id: 0,
            topic_id: image.topic_id("a").unwrap(),
            ..left
        };
        let topic_id = left.topic_id;
        apply(&mut image, &[left.into()]);
        let node = BrokerStart {
            log_dirs: log_dirs.to_vec(),
            ..node()
        };
        let before = image.clone();
        let decision = start(&image, &node).unwrap();
        apply(&mut image, &decision.records);
        let of = |image: &MetadataImage| {
            let topic = image.topic(topic_id).unwrap();
            topic.partition(PartitionId(0)).unwrap().clone()
        };
        let (before, after) = (of(&before), of(&image));
        assert_eq!(after.leader(), leader);
        assert!(before.leader_epoch <= after.leader_epoch);
        if leader.is_some() {
            assert!(before.leader_epoch < after.leader_epoch);
            assert_eq!((after.isr, after.recovering), (vec![NODE], false));
            assert_eq!(after.last_known_elr, []);
        }
    }
    let base = PartitionChangeRecord::default();
    let here = &[DIRECTORY];
    // A clean stop of Kafka with eligible leader replicas.
    let stopped = PartitionChangeRecord {
        isr: Some(vec![]),
        leader: -1,
        eligible_leader_replicas: Some(vec![1]),
        last_known_elr: Some(vec![1]),
        ..base.clone()
    };
    check(stopped.clone(), here, Some(NODE));
    // Its unclean stop: only the last known leader is left, recovering.
    let killed = PartitionChangeRecord {
        eligible_leader_replicas: Some(vec![]),
        leader_recovery_state: 1,
        ..stopped.clone()
    };
    check(killed, here, Some(NODE));
    // Others are ahead of this replica.
    let behind = PartitionChangeRecord {
        isr: Some(vec![]),
        leader: -1,
        eligible_leader_replicas: Some(vec![2]),
        ..base.clone()
    };
    check(behind, here, None);
    // The directory is gone; unassigned; assigned to the only one.
    check(base.clone(), &[TopicId([101; 16])], None);
    let unassigned = PartitionChangeRecord {
        directories: Some(vec![TopicId::ZERO]),
        ..base
    };
    check(unassigned, here, Some(NODE));
}

// Goal: a start is refused on logs that are not this node's. Method: a newer version, another broker.
#[test]
fn start_refusals() {
    fn check(record: impl Into<MetadataRecord>, expected: &StartError) {
        let mut image = started();
        apply(&mut image, &[record.into()]);
        assert_eq!(start(&image, &node()), Err(expected.clone()));
    }
    let level = |feature_level| FeatureLevelRecord {
        name: "metadata.version".into(),
        feature_level,
    };
    check(level(31), &StartError::MetadataVersion(31));
    check(level(6), &StartError::MetadataVersion(6));
    let other = RegisterBrokerRecord {
        broker_id: 2,
        ..RegisterBrokerRecord::default()
    };
    check(other, &StartError::OtherBrokers(vec![NodeId(2)]));
}

// Goal: a crash inside a metadata transaction undoes it. Method: a start with one open.
#[test]
fn start_aborts_open_transaction() {
    let mut image = with_topics(&["a"]);
    let half = TopicRecord {
        name: "half".into(),
        topic_id: TopicId([8; 16]),
    };
    apply(
        &mut image,
        &[BeginTransactionRecord::default().into(), half.into()],
    );
    let decision = start(&image, &node()).unwrap();
    assert_eq!(decision.records[0].name(), "AbortTransactionRecord");
    let offset = image.next_offset();
    assert_eq!(Offset(decision.results.broker_epoch), offset.plus(1));
    apply(&mut image, &decision.records);
    assert!(!image.in_transaction());
    assert_eq!(image.topic_by_name("half"), None);
}

// Goal: the rules of names at their edges. Method: names that are just legal and just not.
#[test]
fn topic_names() {
    fn check(name: &str, is_legal: bool) {
        assert_eq!(validate_topic_name(name).is_ok(), is_legal, "{name:?}");
    }
    check("a", true);
    check("...", true);
    check("A-b_c.9", true);
    check(&"x".repeat(249), true);
    check(&"x".repeat(250), false);
    check("", false);
    check(".", false);
    check("..", false);
    check("a b", false);
    check("a/b", false);
    check("ä", false);
    check("a\0", false);
}
