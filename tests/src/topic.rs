//! Topics for tests: made over the raw socket, with a name of their own, and seeded with records.

use std::time::{Duration, Instant};

use kafka_protocol::messages::{ApiKey, CreateTopicsResponse, ProduceResponse};

use crate::answer;
use crate::batch::Batch;
use crate::broker::{Broker, unique};
use crate::raw::Reply;
use crate::request::{ListOffsets, NewTopic, Produce, create_topics};

/// A topic that exists and whose partitions have leaders.
#[derive(Clone, Debug)]
pub struct TestTopic {
    /// Its name.
    pub name: String,
    /// Its topic id.
    pub id: [u8; 16],
}

/// Creates a topic with one partition.
#[must_use]
pub fn create(broker: &Broker, stem: &str) -> TestTopic {
    create_with(broker, stem, 1, &[])
}

/// Creates a topic with partitions and settings, and waits until it takes records.
///
/// # Panics
/// When it cannot be created.
#[must_use]
pub fn create_with(
    broker: &Broker,
    stem: &str,
    partitions: i32,
    configs: &[(&str, &str)],
) -> TestTopic {
    let name = unique(stem);
    let configs =
        configs.iter().map(|(key, value)| ((*key).to_owned(), Some((*value).to_owned()))).collect();
    let topic = NewTopic { partitions, configs, ..NewTopic::named(&name) };
    let Reply::Frame(frame) = broker.connect().ask(&create_topics(7, &[topic], false)) else {
        panic!("CreateTopics is not answered");
    };
    let response: CreateTopicsResponse =
        answer::decode(ApiKey::CreateTopics, 7, &frame).expect("CreateTopics decodes");
    let created = &response.topics[0];
    assert_eq!(created.error_code, 0, "{name}: {:?}", created.error_message);
    let topic = TestTopic { name, id: *created.topic_id.as_bytes() };
    // Apache Kafka answers before the leaders have heard of it.
    let deadline = Instant::now() + Duration::from_secs(10);
    for partition in 0..partitions {
        let latest =
            ListOffsets { partitions: vec![partition], ..ListOffsets::at(&topic.name, 5, -1) };
        while !is_led(broker, &latest) {
            assert!(Instant::now() < deadline, "{} has no leader", topic.name);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    topic
}

/// Appends one batch of `count` records to a partition.
///
/// # Panics
/// When that fails.
pub fn seed(broker: &Broker, topic: &TestTopic, partition: i32, count: i32) {
    let code = first_error(broker, topic, partition, Batch::of(count).build());
    assert_eq!(code, 0, "cannot seed {}", topic.name);
}

fn is_led(broker: &Broker, latest: &ListOffsets) -> bool {
    match broker.connect().ask(&latest.frame()) {
        Reply::Frame(frame) => answer::summary(ApiKey::ListOffsets, 5, &frame).starts_with("ok"),
        Reply::Closed | Reply::Silence => panic!("ListOffsets is not answered"),
    }
}

fn first_error(broker: &Broker, topic: &TestTopic, partition: i32, records: Vec<u8>) -> i16 {
    let partitions = vec![(partition, Some(records))];
    let request = Produce { partitions, ..Produce::to(topic.name.as_str(), Vec::new()) };
    let Reply::Frame(frame) = broker.connect().ask(&request.frame()) else {
        panic!("Produce is not answered");
    };
    let response: ProduceResponse =
        answer::decode(ApiKey::Produce, 7, &frame).expect("Produce decodes");
    response.responses[0].partition_responses[0].error_code
}
