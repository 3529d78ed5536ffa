//! A consumer: reads everything in order, waits for more, and checks that it waits neither too long nor in vain.

use std::rc::Rc;

use pelton_model::ErrorCode;
use pelton_protocol::message::fetch::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData,
};

use super::bench::{Bench, Kind, Topic};
use super::client::{Link, Lost};
use super::oracle::Whole;
use super::records::{end_of, records};

/// What an answer may take beyond the time it was asked to wait, or beyond what wakes it, ms: the way there and back, the disk, and
/// large answers on small pipes.
const EPSILON_MS: u64 = 1_500;

/// Reads the topic from its beginning until nothing more will come.
pub async fn follow(bench: Rc<Bench>, topic: Topic) {
    let mut positions = vec![0_i64; usize::try_from(topic.partitions).unwrap()];
    loop {
        let mut link = bench.link("consumer").await;
        match poll_on(&bench, &topic, &mut link, &mut positions).await {
            Ok(()) => return,
            Err(lost) => {
                bench
                    .world
                    .note(|| format!("consumer of {}: lost its connection: {lost:?}", topic.name));
                bench.pause(100).await;
            }
        }
    }
}

async fn poll_on(
    bench: &Bench,
    topic: &Topic,
    link: &mut Link,
    positions: &mut [i64],
) -> Result<(), Lost> {
    loop {
        let is_over = bench.producing.get() == 0;
        if bench.chance(10) || is_over {
            let ends = bench.ends(link, topic).await?;
            if is_over && ends.iter().zip(&*positions).all(|(end, position)| end == position) {
                return Ok(());
            }
        }
        fetch(bench, topic, link, positions).await?;
        if bench.chance(10) {
            bench.pause(200).await;
        }
    }
}

/// What one Fetch asks for.
struct Terms {
    version: i16,
    wait_ms: u64,
    min_bytes: i32,
}

fn terms(bench: &Bench) -> Terms {
    bench.world.draw(|random| Terms {
        version: i16::try_from(random.between(4, 18)).unwrap(),
        wait_ms: match random.below(3) {
            0 => 0,
            1 => random.magnitude(20_000),
            _ => random.between(5_000, 20_000),
        },
        min_bytes: if random.percent(80) {
            1
        } else {
            i32::try_from(random.magnitude(5_000)).unwrap()
        },
    })
}

/// Fetches once from all partitions.
async fn fetch(
    bench: &Bench,
    topic: &Topic,
    link: &mut Link,
    positions: &mut [i64],
) -> Result<(), Lost> {
    let terms = terms(bench);
    let request = request(bench, topic, &terms, positions);
    let (asked_at, disturbances) = (bench.world.now(), bench.disturbances.get());
    let answer: FetchResponse = link.call(terms.version, &request, terms.wait_ms + 60_000).await?;
    assert_eq!(answer.error_code, 0, "Fetch of {}", topic.name);
    let took_ms = (bench.world.now() - asked_at) / 1_000_000;
    if bench.is_calm_since(disturbances) {
        check_time(bench, topic, &terms, positions, asked_at, took_ms);
    }
    let mut is_passing = false;
    let mut below = Vec::new();
    for (_, partition) in
        answer.responses.iter().flat_map(|t| t.partitions.iter().map(move |p| (t, p)))
    {
        match take_in(bench, topic, partition, positions) {
            Taken::Well => {}
            Taken::Passing => is_passing = true,
            Taken::Below => below.push(partition.partition_index),
        }
    }
    for partition in below {
        let start = bench.begin(link, topic, partition).await?;
        let position = &mut positions[usize::try_from(partition).unwrap()];
        *position = start.max(*position);
    }
    if is_passing { Err(Lost::Closed) } else { Ok(()) }
}

fn request(bench: &Bench, topic: &Topic, terms: &Terms, positions: &[i64]) -> FetchRequest {
    let partition_bytes =
        bench.world.draw(|random| i32::try_from(random.magnitude(1 << 20)).unwrap());
    let mut order: Vec<usize> = (0..positions.len()).collect();
    let turn = bench.world.draw(|random| random.index(order.len()));
    order.rotate_left(turn);
    let partition = |&partition: &usize| FetchPartition {
        partition: i32::try_from(partition).unwrap(),
        fetch_offset: positions[partition],
        partition_max_bytes: partition_bytes,
        ..FetchPartition::default()
    };
    FetchRequest {
        max_wait_ms: i32::try_from(terms.wait_ms).unwrap(),
        min_bytes: terms.min_bytes,
        max_bytes: bench.world.draw(|random| i32::try_from(random.magnitude(1 << 22)).unwrap()),
        isolation_level: i8::try_from(bench.world.draw(|random| random.below(2))).unwrap(),
        topics: vec![FetchTopic {
            topic: topic.name.clone(),
            topic_id: topic.id,
            partitions: order.iter().map(partition).collect(),
        }],
        ..FetchRequest::default()
    }
}

/// An answer comes within its time, and soon after records that it waits for were acknowledged.
fn check_time(
    bench: &Bench,
    topic: &Topic,
    terms: &Terms,
    positions: &[i64],
    asked_at: u64,
    took_ms: u64,
) {
    let name = &topic.name;
    assert!(
        took_ms <= terms.wait_ms + EPSILON_MS,
        "a Fetch of {name} was to wait {} ms and took {took_ms} ms",
        terms.wait_ms
    );
    if terms.min_bytes > 1 {
        return;
    }
    let oracle = bench.oracle.borrow();
    let moved = (0_i32..)
        .zip(positions)
        .filter_map(|(partition, &position)| oracle.moved_past((topic.id, partition), position));
    if let Some(moved_at) = moved.min() {
        let woken_at = moved_at.max(asked_at);
        let late_ms = bench.world.now().saturating_sub(woken_at) / 1_000_000;
        assert!(
            late_ms <= EPSILON_MS,
            "a Fetch of {name} was answered {late_ms} ms after there were records (it may wait {} ms)",
            terms.wait_ms
        );
    }
}

/// What came of one partition of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    Well,
    /// The broker stops, or its disk failed.
    Passing,
    /// The position is below the start.
    Below,
}

/// Takes in one partition's records.
fn take_in(bench: &Bench, topic: &Topic, data: &PartitionData, positions: &mut [i64]) -> Taken {
    let partition = data.partition_index;
    let place = (topic.id, partition);
    if bench.is_passing(data.error_code) {
        return Taken::Passing;
    }
    if may_begin_later(topic.kind) && data.error_code == ErrorCode::OffsetOutOfRange.code() {
        return Taken::Below;
    }
    let position = &mut positions[usize::try_from(partition).unwrap()];
    assert_eq!(
        ErrorCode::from_code(data.error_code),
        Some(ErrorCode::None),
        "Fetch of {} {partition} from {position}",
        topic.name
    );
    let Some(bytes) = data.records.as_ref().and_then(|records| records.bytes()) else {
        return Taken::Well;
    };
    for (offset, id) in records(bytes) {
        assert!(
            offset < data.high_watermark,
            "{place:?} offset {offset} is above the high watermark"
        );
        bench.oracle.borrow_mut().read(place, offset, id);
        if offset < *position {
            continue;
        }
        let may_skip = topic.kind == Kind::Compacted;
        assert!(may_skip || offset == *position, "{place:?}: {offset} after a gap from {position}");
        *position = offset + 1;
    }
    if topic.kind == Kind::Compacted {
        *position = end_of(bytes).unwrap_or(0).max(*position);
    }
    Taken::Well
}

/// Whether a topic's start moves.
#[must_use]
pub fn may_begin_later(kind: Kind) -> bool {
    match kind {
        Kind::Deleting | Kind::Retained(_) => true,
        Kind::Whole | Kind::Compacted => false,
    }
}

/// Reads all partitions from their starts to their ends and compares them with the facts.
pub async fn check_whole(bench: Rc<Bench>, topic: Topic) {
    for partition in 0..topic.partitions {
        loop {
            let mut link = bench.link("checker").await;
            if check_partition(&bench, &topic, partition, &mut link).await.is_ok() {
                break;
            }
            bench.pause(100).await;
        }
    }
    bench.world.note(|| format!("{} is checked as a whole", topic.name));
}

async fn check_partition(
    bench: &Bench,
    topic: &Topic,
    partition: i32,
    link: &mut Link,
) -> Result<(), Lost> {
    let end = bench.ends(link, topic).await?[usize::try_from(partition).unwrap()];
    let start = match topic.kind {
        Kind::Whole => 0,
        Kind::Deleting | Kind::Retained(_) | Kind::Compacted => {
            bench.begin(link, topic, partition).await?
        }
    };
    let mut whole = Whole { start, end, records: Vec::new(), bytes: 0 };
    let mut position = start;
    while position < end {
        let request = FetchRequest {
            min_bytes: 1,
            max_wait_ms: 500,
            topics: vec![FetchTopic {
                topic: topic.name.clone(),
                topic_id: topic.id,
                partitions: vec![FetchPartition {
                    partition,
                    fetch_offset: position,
                    partition_max_bytes: 1 << 20,
                    ..FetchPartition::default()
                }],
            }],
            ..FetchRequest::default()
        };
        let answer: FetchResponse = link.call(13, &request, 60_000).await?;
        let data = &answer.responses[0].partitions[0];
        if bench.is_passing(data.error_code) {
            return Err(Lost::Closed);
        }
        if may_begin_later(topic.kind) && data.error_code == ErrorCode::OffsetOutOfRange.code() {
            // More went meanwhile.
            return Err(Lost::Closed);
        }
        assert_eq!(data.error_code, 0, "Fetch of {} {partition} from {position}", topic.name);
        let bytes = data.records.as_ref().and_then(|records| records.bytes()).expect("records");
        let fresh: Vec<_> =
            records(bytes).into_iter().filter(|(offset, _)| position <= *offset).collect();
        assert!(
            !fresh.is_empty() || topic.kind == Kind::Compacted,
            "{} {partition}: nothing at {position}, its end is {end}",
            topic.name
        );
        whole.bytes += bytes.len() as u64;
        whole.records.extend(fresh);
        position = end_of(bytes).expect("not empty");
    }
    whole.end = position;
    bench.oracle.borrow_mut().check_whole((topic.id, partition), topic.kind, &whole);
    Ok(())
}
