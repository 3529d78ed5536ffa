//! A client that creates, fills, reads and deletes topics of one name, again and again.

use std::rc::Rc;

use pelton_model::ErrorCode;
use pelton_model::compression::Compression;
use pelton_protocol::codec::Str;
use pelton_protocol::message::delete_topics::{
    DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse,
};
use pelton_protocol::message::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic};
use pelton_protocol::message::produce::ProduceResponse;

use super::bench::{Bench, PATIENCE_MS, Topic};
use super::client::Lost;
use super::consumer;
use super::oracle::RecordId;
use super::producer::{data, request};
use super::records::batch;

/// Time after its deletion in which a Fetch that waits for a topic is answered, ms.
const WAKE_MS_MAX: u64 = 1_500;

/// Runs so many rounds.
pub async fn churn(bench: Rc<Bench>, rounds: u64) {
    let mut former = None;
    for _ in 0..rounds {
        let partitions = bench.world.draw(|r| i32::try_from(r.between(1, 4)).unwrap());
        let topic = bench.create_topic("churn", partitions, &[]).await;
        assert_ne!(Some(topic.id), former, "a deleted topic is back");
        former = Some(topic.id);
        for _ in 0..bench.world.draw(|random| random.below(4)) {
            produce(&bench, &topic).await;
        }
        consumer::check_whole(Rc::clone(&bench), topic.clone()).await;
        if bench.chance(50) {
            bench.start(wait_in_vain(Rc::clone(&bench), topic.clone()));
            bench.pause(20).await;
        }
        delete(&bench, &topic).await;
        expect_gone(&bench, &topic).await;
    }
}

async fn produce(bench: &Bench, topic: &Topic) {
    let producer = bench.oracle.borrow_mut().producer();
    let ids: Vec<RecordId> = (0..3).map(|number| RecordId { producer, number }).collect();
    let bytes = batch(&ids, None, 20, Compression::None);
    let partition = bench.world.draw(|r| r.below(u64::try_from(topic.partitions).unwrap()));
    let partition = i32::try_from(partition).unwrap();
    let mut link = bench.link("churn").await;
    let produce = request(topic, -1, vec![data(partition, &bytes)]);
    let answer: Result<ProduceResponse, Lost> = link.call(13, &produce, PATIENCE_MS).await;
    let Ok(answer) = answer else { return };
    let answer = &answer.responses[0].partition_responses[0];
    if bench.is_passing(answer.error_code) {
        return;
    }
    assert_eq!(answer.error_code, 0, "Produce to a topic that was created");
    let now = bench.world.now();
    let mut oracle = bench.oracle.borrow_mut();
    oracle.acknowledged((topic.id, partition), answer.base_offset, &ids, now);
}

async fn delete(bench: &Bench, topic: &Topic) {
    let mut was_lost = false;
    loop {
        let by_name = bench.chance(50);
        let state = DeleteTopicState {
            name: by_name.then(|| topic.name.clone()),
            topic_id: if by_name { pelton_model::TopicId::ZERO } else { topic.id },
        };
        let request = DeleteTopicsRequest {
            topics: vec![state],
            timeout_ms: 30_000,
            ..DeleteTopicsRequest::default()
        };
        let mut link = bench.link("churn").await;
        let answer: Result<DeleteTopicsResponse, Lost> = link.call(6, &request, PATIENCE_MS).await;
        let code = answer.map(|answer| answer.responses[0].error_code);
        match code.map(ErrorCode::from_code) {
            Ok(Some(ErrorCode::None)) => break,
            Ok(Some(ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId))
                if was_lost =>
            {
                break;
            }
            Ok(code) if code.is_some_and(|code| bench.is_passing(code.code())) => {}
            Ok(code) => panic!("cannot delete {}: {code:?}", topic.name),
            Err(_) => {}
        }
        was_lost = true;
        bench.pause(50).await;
    }
    bench.deleted.borrow_mut().insert(topic.id, bench.world.now());
    bench.world.note(|| format!("topic {} ({}) is deleted", topic.name, topic.id));
}

fn fetch(topic: &Topic, max_wait_ms: i32) -> FetchRequest {
    FetchRequest {
        min_bytes: 1,
        max_wait_ms,
        topics: vec![FetchTopic {
            topic: Str::default(),
            topic_id: topic.id,
            partitions: vec![FetchPartition {
                partition_max_bytes: 1 << 20,
                // Nothing is behind the end: this one waits.
                fetch_offset: 0,
                ..FetchPartition::default()
            }],
        }],
        ..FetchRequest::default()
    }
}

async fn expect_gone(bench: &Bench, topic: &Topic) {
    let request = fetch(topic, 0);
    let answer: FetchResponse = bench.insist("churn", 13, &request, |_| true).await;
    let code = answer.responses[0].partitions[0].error_code;
    assert_eq!(
        ErrorCode::from_code(code),
        Some(ErrorCode::UnknownTopicId),
        "Fetch from a topic whose deletion was answered"
    );
}

/// Waits long for records of a topic that is about to go: the wait must end when it does.
async fn wait_in_vain(bench: Rc<Bench>, topic: Topic) {
    let mut link = bench.link("waiter").await;
    let disturbances = bench.disturbances.get();
    let answer: Result<FetchResponse, Lost> = link.call(13, &fetch(&topic, 30_000), 60_000).await;
    if answer.is_err() || !bench.is_calm_since(disturbances) {
        return;
    }
    let deleted_at = bench.deleted.borrow().get(&topic.id).copied();
    if let Some(deleted_at) = deleted_at {
        let late_ms = bench.world.now().saturating_sub(deleted_at) / 1_000_000;
        assert!(
            late_ms <= WAKE_MS_MAX,
            "a Fetch of a deleted topic was answered {late_ms} ms later"
        );
    }
}
