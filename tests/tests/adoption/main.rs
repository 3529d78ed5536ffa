//! Whole data directories change hands: a directory of Apache Kafka 4.3.1 under Pelton, and one of Pelton under Kafka.
//!
//! `golden` needs a small directory that is checked in, `bounded` nothing, `in_place` and `compacted` a real Kafka: the folder that `PELTON_PEERS`
//! names must hold its `kafka` and `adopt-check` scripts, else it is a printed skip.

mod bounded;
mod compacted;
mod golden;
mod in_place;
mod kafka;

use std::collections::BTreeMap;

use kafka_protocol::messages::{ApiKey, MetadataResponse};
use pelton_tests::answer;
use pelton_tests::raw::{Raw, Reply};
use pelton_tests::request::metadata;

/// Every topic of a broker: name, id, number of partitions.
fn topics(mut connection: Raw) -> BTreeMap<String, ([u8; 16], usize)> {
    let Reply::Frame(frame) = connection.ask(&metadata(12, None, false)) else {
        panic!("Metadata is not answered");
    };
    let response: MetadataResponse =
        answer::decode(ApiKey::Metadata, 12, &frame).expect("Metadata decodes");
    let topics = response.topics.into_iter();
    topics
        .map(|topic| {
            assert_eq!(topic.error_code, 0);
            let name = topic.name.expect("a name").to_string();
            (name, (*topic.topic_id.as_bytes(), topic.partitions.len()))
        })
        .collect()
}
