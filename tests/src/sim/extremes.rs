//! Clients at the edges: large frames that queue for memory, a frame that never ends, a connection that says nothing.

use std::rc::Rc;

use bytes::Bytes;
use pelton_model::compression::Compression;
use pelton_protocol::codec::Records;
use pelton_protocol::message::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use pelton_protocol::message::produce::{PartitionProduceData, ProduceResponse};

use super::bench::{Bench, PATIENCE_MS, Topic};
use super::client::Lost;
use super::oracle::RecordId;
use super::producer::request;
use super::records::batch;

/// What a close may take beyond its time, ms.
const EPSILON_MS: u64 = 1_500;
/// The broker's limit for a frame that makes no progress, ms.
const STALL_MS: u64 = pelton_model::limits::RESERVATION_STALL_MS_MAX;

/// Produces frames of more than a mebibyte, which must reserve memory; several clients of this kind queue for it.
pub async fn large_frames(bench: Rc<Bench>, topic: Topic, frames: u64) {
    for _ in 0..frames {
        let mut link = bench.link("large").await;
        let producer = bench.oracle.borrow_mut().producer();
        let mut sent = Vec::new();
        let mut partition_data = Vec::new();
        for partition in 0..topic.partitions {
            let id = RecordId { producer, number: 0 };
            let bytes = batch(&[id], None, 900 * 1024, Compression::None);
            partition_data.push(PartitionProduceData {
                index: partition,
                records: Some(Records::Bytes(bytes)),
            });
            sent.push(id);
        }
        let produce = request(&topic, -1, partition_data);
        let answer: Result<ProduceResponse, Lost> = link.call(13, &produce, 4 * PATIENCE_MS).await;
        let Ok(answer) = answer else {
            bench.pause(500).await;
            continue;
        };
        for (answer, id) in answer.responses[0].partition_responses.iter().zip(sent) {
            if bench.is_passing(answer.error_code) {
                continue;
            }
            assert_eq!(answer.error_code, 0, "a large frame");
            let (now, place) = (bench.world.now(), (topic.id, answer.index));
            bench.oracle.borrow_mut().acknowledged(place, answer.base_offset, &[id], now);
        }
    }
}

/// Begins a large frame and says no more: the broker must take its memory back.
pub async fn unfinished_frame(bench: Rc<Bench>) {
    let mut link = bench.link("unfinished").await;
    let size = 1_500_000_u32;
    let part = bench.world.draw(|random| random.between(200_000, 1_200_000));
    let mut bytes = vec![0_u8; usize::try_from(part).unwrap()];
    bytes[..4].copy_from_slice(&size.to_be_bytes());
    let disturbances = bench.disturbances.get();
    if link.send(Bytes::from(bytes)).await.is_err() {
        return;
    }
    let is_closed = link.closes_within(3 * STALL_MS).await;
    assert!(
        is_closed || !bench.is_calm_since(disturbances),
        "a frame without progress keeps its connection"
    );
}

/// Says one thing, then nothing: the connection is closed when its time has come, and not before.
pub async fn idle(bench: Rc<Bench>, idle_ms: u64) {
    let mut link = bench.link("idle").await;
    let disturbances = bench.disturbances.get();
    let greeting = ApiVersionsRequest::default();
    let answer: Result<ApiVersionsResponse, Lost> = link.call(0, &greeting, PATIENCE_MS).await;
    if answer.is_err() {
        return;
    }
    let since = bench.world.now();
    let is_closed = link.closes_within(idle_ms + EPSILON_MS).await;
    if !bench.is_calm_since(disturbances) {
        return;
    }
    let after_ms = (bench.world.now() - since) / 1_000_000;
    assert!(is_closed, "an idle connection lives {after_ms} ms, its limit is {idle_ms} ms");
    assert!(idle_ms <= after_ms + EPSILON_MS, "an idle connection was closed after {after_ms} ms");
}
