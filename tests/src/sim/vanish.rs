//! Topics whose records may go: their settings, and a client that deletes records.

use std::rc::Rc;

use pelton_model::ErrorCode;
use pelton_protocol::message::delete_records::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopic,
};

use super::bench::{Bench, Kind, PATIENCE_MS, Topic};
use super::client::Lost;

/// Bytes that a topic with retention keeps at least.
const RETAINED_BYTES: u64 = 3_000;

/// Settings of a topic.
pub type Configs = Vec<(&'static str, &'static str)>;

/// A kind of topic, as chance has it, with the settings that make it one: a segment holds few batches.
#[must_use]
pub fn draw(bench: &Bench) -> (Kind, Configs) {
    let mut configs = vec![("index.interval.bytes", "0"), ("segment.index.bytes", "48")];
    if bench.chance(50) {
        configs.push(("file.delete.delay.ms", "200"));
    }
    let kind = match bench.world.draw(|random| random.below(3)) {
        0 => Kind::Deleting,
        1 => {
            configs.push(("retention.bytes", "3000"));
            Kind::Retained(RETAINED_BYTES)
        }
        _ => {
            configs.extend([("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0.01")]);
            Kind::Compacted
        }
    };
    (kind, configs)
}

/// As [`draw`], for a topic of transactions: some stay whole, and markers may go as soon as the records of their transaction have gone.
#[must_use]
pub fn draw_for_transactions(bench: &Bench) -> (Kind, Configs) {
    if bench.chance(20) {
        return (Kind::Whole, Vec::new());
    }
    let (kind, mut configs) = draw(bench);
    if kind == Kind::Compacted {
        let kept_ms = bench.world.draw(|random| ["0", "500", "86400000"][random.index(3)]);
        configs.push(("delete.retention.ms", kept_ms));
    }
    (kind, configs)
}

/// Deletes records of a topic as long as there are producers: below an offset that is known, or all.
pub async fn delete_records(bench: Rc<Bench>, topic: Topic) {
    while bench.producing.get() > 0 {
        bench.pause(200).await;
        let mut link = bench.link("deleter").await;
        while bench.producing.get() > 0 {
            if delete_some(&bench, &topic, &mut link).await.is_err() {
                break;
            }
            bench.pause(300).await;
        }
    }
}

async fn delete_some(
    bench: &Bench,
    topic: &Topic,
    link: &mut super::client::Link,
) -> Result<(), Lost> {
    let partitions = u64::try_from(topic.partitions).unwrap();
    let partition = i32::try_from(bench.world.draw(|random| random.below(partitions))).unwrap();
    let place = (topic.id, partition);
    let known = bench.oracle.borrow().known_end(place);
    let (offset, least) = if bench.chance(20) {
        (-1, known)
    } else {
        let last = u64::try_from(known).unwrap();
        let offset = i64::try_from(bench.world.draw(|random| random.between(0, last))).unwrap();
        (offset, offset)
    };
    // Everything up to the end may be meant.
    let asked = if offset < 0 { i64::MAX } else { offset };
    bench.oracle.borrow_mut().asks_to_delete(place, asked);
    let request = DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic {
            name: topic.name.clone(),
            partitions: vec![DeleteRecordsPartition { partition_index: partition, offset }],
        }],
        timeout_ms: 30_000,
    };
    let version = bench.world.draw(|random| i16::try_from(random.below(3)).unwrap());
    let answer: DeleteRecordsResponse = link.call(version, &request, PATIENCE_MS).await?;
    let answer = &answer.topics[0].partitions[0];
    let has_no_owner = answer.error_code == ErrorCode::NotLeaderOrFollower.code();
    if bench.is_passing(answer.error_code) || (has_no_owner && bench.is_stopping.get()) {
        return Err(Lost::Closed);
    }
    assert_eq!(
        ErrorCode::from_code(answer.error_code),
        Some(ErrorCode::None),
        "DeleteRecords of {} {partition} below {offset}",
        topic.name
    );
    // What was answered is durable, also when the power goes.
    bench.oracle.borrow_mut().began(place, answer.low_watermark, least, true);
    Ok(())
}
