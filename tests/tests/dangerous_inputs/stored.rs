//! What a topic's settings make of a batch: codec, timestamps, order; and the offsets that are found by time in it.

use bytes::Bytes;
use kafka_protocol::messages::{ApiKey, FetchResponse};
use pelton_tests::answer;
use pelton_tests::batch::{Batch, Record, now_ms};
use pelton_tests::broker::{Broker, Options};
use pelton_tests::raw::{PATIENCE, Reply};
use pelton_tests::request::{Fetch, ListOffsets, Produce, delete_records};
use pelton_tests::table::Table;
use pelton_tests::topic::{self, TestTopic};

const CODECS: [&str; 5] = ["uncompressed", "gzip", "snappy", "lz4", "zstd"];

/// The record bytes of a partition from offset 0 on.
fn stored(broker: &Broker, topic: &TestTopic) -> Bytes {
    let fetch = Fetch {
        partition_max_bytes: 8 << 20,
        max_bytes: 8 << 20,
        ..Fetch::of(topic.name.as_str())
    };
    let Reply::Frame(frame) = broker.connect().ask(&fetch.frame()) else {
        panic!("Fetch is not answered");
    };
    let answer: FetchResponse = answer::decode(ApiKey::Fetch, 11, &frame).expect("an answer");
    let partition = &answer.responses[0].partitions[0];
    assert_eq!(partition.error_code, 0);
    partition.records.clone().expect("records")
}

/// A batch as it is stored: base offset, attributes, max timestamp, and its records without a codec.
#[derive(Debug, PartialEq)]
struct Kept {
    base_offset: i64,
    attributes: u8,
    max_timestamp: i64,
    payload: Vec<u8>,
}

fn batches(bytes: &Bytes) -> Vec<Kept> {
    let i64_at = |at: usize| i64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight"));
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = i32::from_be_bytes(bytes[at + 8..at + 12].try_into().expect("four"));
        let end = at + 12 + usize::try_from(length).expect("a length");
        let crc = u32::from_be_bytes(bytes[at + 17..at + 21].try_into().expect("four"));
        assert_eq!(crc, crc32c::crc32c(&bytes[at + 21..end]), "the checksum at {at}");
        let attributes = bytes[at + 22];
        found.push(Kept {
            base_offset: i64_at(at),
            attributes,
            max_timestamp: i64_at(at + 35),
            payload: unpacked(attributes & 7, &bytes[at + 61..end]),
        });
        at = end;
    }
    found
}

fn unpacked(codec: u8, bytes: &[u8]) -> Vec<u8> {
    use std::io::Read;
    let mut out = Vec::new();
    match codec {
        0 => out.extend_from_slice(bytes),
        1 => drop(flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).expect("gzip")),
        2 => {
            // As Java frames it: a header of 16 bytes, then blocks behind their sizes.
            let mut rest = &bytes[16..];
            while let Some((size, after)) = rest.split_first_chunk::<4>() {
                let (block, behind) = after.split_at(u32::from_be_bytes(*size) as usize);
                out.extend(snap::raw::Decoder::new().decompress_vec(block).expect("snappy"));
                rest = behind;
            }
        }
        3 => drop(lz4_flex::frame::FrameDecoder::new(bytes).read_to_end(&mut out).expect("lz4")),
        4 => out = zstd::decode_all(bytes).expect("zstd"),
        other => panic!("codec {other}"),
    }
    out
}

fn produce(broker: &Broker, topic: &TestTopic, batch: &Batch) -> String {
    let frame = Produce::to(topic.name.as_str(), batch.build()).frame();
    let Reply::Frame(answer) = broker.connect().ask(&frame) else {
        panic!("Produce is not answered");
    };
    answer::summary(ApiKey::Produce, 7, &answer)
}

/// Goal: what is stored has the topic's codec, whatever came, and the records are the same. Method: topics of every codec, batches
/// without a codec and with gzip, small ones (packed in place) and large ones (packed by the helper); the codec is read from the
/// stored attributes, the records with another decoder.
#[test]
fn codecs_of_topics() {
    let broker = Broker::start();
    for (number, codec) in (0..).zip(CODECS) {
        for (records_sent, size) in [(3, 10), (200, 500)] {
            let topic = topic::create_with(&broker, codec, 1, &[("compression.type", codec)]);
            let value = |index: i32| format!("{index} {}", "v".repeat(size)).into_bytes();
            let sent: Vec<Record> = (0..records_sent)
                .map(|index| Record { value: Some(value(index)), ..Record::at(index) })
                .collect();
            let plain = Batch::with(sent);
            let packed = Batch { attributes: 1, payload: gzip(&plain.payload), ..plain.clone() };
            for batch in [&plain, &packed] {
                let line = produce(&broker, &topic, batch);
                assert!(line.starts_with("ok; base"), "{codec}: {line}");
            }
            let kept = batches(&stored(&broker, &topic));
            let expected = |base_offset| Kept {
                base_offset,
                attributes: number,
                max_timestamp: plain.base_timestamp,
                payload: plain.payload.clone(),
            };
            assert_eq!(kept, [expected(0), expected(i64::from(records_sent))], "{codec}");
        }
    }
}

/// Goal: batches of one connection keep their order though some take the way over the helper thread. Method: pipelined requests with
/// sequences, small plain ones behind large packed ones; a batch out of order would be refused.
#[test]
fn order_over_the_helper() {
    let broker = Broker::start();
    let topic = topic::create_with(&broker, "order", 1, &[("compression.type", "zstd")]);
    let mut connection = broker.connect();
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    let mut next = 0;
    for round in 0..12 {
        let count = if round % 2 == 0 { 400 } else { 1 };
        let value = Some(vec![b'a' + round; 300]);
        let sent = (0..count).map(|index| Record { value: value.clone(), ..Record::at(index) });
        let plain = Batch::with(sent.collect());
        let packed = Batch { attributes: 1, payload: gzip(&plain.payload), ..plain.clone() };
        let batch = if round % 4 == 0 { packed } else { plain }.by(77, 0, next);
        bytes.extend(Produce::to(topic.name.as_str(), batch.build()).frame());
        expected.push(format!("ok; base {next}; time -1; start 0"));
        next += count;
    }
    connection.send(&bytes);
    let answers: Vec<String> = expected
        .iter()
        .map(|_| match connection.receive(PATIENCE) {
            Reply::Frame(frame) => answer::summary(ApiKey::Produce, 7, &frame),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(answers, expected);
}

/// Goal: a bad batch that the helper judges is refused alone. Method: one request for three partitions: large and good, large and
/// damaged, small and good.
#[test]
fn refusals_of_the_helper() {
    let broker = Broker::start();
    let topic = topic::create_with(&broker, "helper", 3, &[]);
    let mut noise = 1_u32;
    let value: Vec<u8> = std::iter::repeat_with(|| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        noise.to_be_bytes()[0]
    })
    .take(200_000)
    .collect();
    let plain = Batch::with(vec![Record { value: Some(value), ..Record::at(0) }]);
    let packed = Batch { attributes: 1, payload: gzip(&plain.payload), ..plain };
    let mut damaged = packed.clone();
    let half = damaged.payload.len() / 2;
    damaged.payload[half] ^= 0xff;
    let mut request = Produce::to(topic.name.as_str(), Vec::new());
    request.partitions = vec![
        (0, Some(packed.build())),
        (1, Some(damaged.build())),
        (2, Some(Batch::of(1).build())),
    ];
    let mut table = Table::new(&broker);
    table.row_better("one of three", &request.frame(), "CorruptMessage", "UnknownServerError");
    table.finish();
}

/// Goal: LogAppendTime is the broker's, told and stored, in whatever codec. Method: a record of next year.
#[test]
fn append_time() {
    let broker = Broker::start();
    for codec in ["producer", "lz4"] {
        let settings = [("message.timestamp.type", "LogAppendTime"), ("compression.type", codec)];
        let topic = topic::create_with(&broker, "append-time", 1, &settings);
        let future = Batch { base_timestamp: now_ms() + (365 << 26), ..Batch::of(2) };
        assert_eq!(produce(&broker, &topic, &future), "ok; base 0; time now; start 0");
        let kept = batches(&stored(&broker, &topic));
        assert_eq!(kept[0].attributes & 8, 8, "the attribute says so");
        assert!((kept[0].max_timestamp - now_ms()).abs() < 60_000, "{codec}");
        let by_time = ListOffsets::at(&topic.name, 7, now_ms() - 60_000).frame();
        let Reply::Frame(frame) = broker.connect().ask(&by_time) else { panic!("no answer") };
        let line = answer::summary(ApiKey::ListOffsets, 7, &frame);
        assert!(line.starts_with("ok; time now; offset 0"), "{codec}: {line}");
    }
}

/// Goal: the time of a single record is found inside packed batches, and the greatest time at its first record. Method: two batches
/// with unordered times in every codec, asked around every time; special values in the versions before theirs.
#[test]
fn offsets_by_time() {
    let broker = Broker::start();
    let base = now_ms() - 100_000;
    let times: [&[i64]; 2] = [&[0, 30, 10, 30], &[20, 50, 40, 50]];
    let flat: Vec<i64> = times.concat();
    for codec in CODECS {
        let topic = topic::create_with(&broker, codec, 1, &[("compression.type", codec)]);
        for deltas in times {
            let sent = (0..)
                .zip(deltas)
                .map(|(index, delta)| Record { timestamp_delta: *delta, ..Record::at(index) });
            let max = deltas.iter().max().copied().map(|delta| base + delta);
            let batch =
                Batch { base_timestamp: base, max_timestamp: max, ..Batch::with(sent.collect()) };
            assert!(produce(&broker, &topic, &batch).starts_with("ok"), "{codec}");
        }
        let mut connection = broker.connect();
        let mut find = |version, timestamp| {
            let frame = ListOffsets::at(&topic.name, version, timestamp).frame();
            let Reply::Frame(frame) = connection.ask(&frame) else { panic!("no answer") };
            let answer: kafka_protocol::messages::ListOffsetsResponse =
                answer::decode(ApiKey::ListOffsets, version.min(10), &frame).expect("an answer");
            let one = &answer.topics[0].partitions[0];
            (one.error_code, one.timestamp, one.offset)
        };
        for target in 0..60 {
            let found = flat.iter().position(|delta| target <= *delta);
            let expected = found.map_or((0, -1, -1), |at| (0, base + flat[at], at as i64));
            assert_eq!(find(5, base + target), expected, "{codec} {target}");
        }
        assert_eq!(find(7, -3), (0, base + 50, 5), "{codec}");
        for (version, word) in [(6, -3), (7, -4), (8, -5), (10, -6), (11, -7)] {
            assert_eq!(find(version, word), (35, -1, -1), "v{version} {word}");
        }
        let ends = [(1, -1, 8), (1, -2, 0), (8, -4, 0), (9, -5, -1), (11, -6, -1)];
        for (version, word, offset) in ends {
            assert_eq!(find(version, word), (0, -1, offset), "v{version} {word}");
        }
    }
}

/// Goal: no record below the log start is found, by whatever word; Apache Kafka still names one as the greatest time. Method: the
/// record with the greatest time is deleted (its batch stays, for its later records), then all.
#[test]
fn offsets_after_deletion() {
    let broker = Broker::start();
    let topic = topic::create(&broker, "deleted");
    let base = now_ms() - 100_000;
    let sent = [90, 10, 30, 20].into_iter().zip(0..);
    let sent = sent.map(|(delta, index)| Record { timestamp_delta: delta, ..Record::at(index) });
    let max_timestamp = Some(base + 90);
    let batch = Batch { base_timestamp: base, max_timestamp, ..Batch::with(sent.collect()) };
    assert!(produce(&broker, &topic, &batch).starts_with("ok"));
    let mut connection = broker.connect();
    let mut check = |below: i64, expected: [(i64, i64); 3]| {
        connection.ask(&delete_records(2, &topic.name, &[(0, below)]));
        for (word, (time, offset)) in [-2, -3, base].into_iter().zip(expected) {
            let frame = ListOffsets::at(&topic.name, 7, word).frame();
            let Reply::Frame(frame) = connection.ask(&frame) else { panic!("no answer") };
            let answer: kafka_protocol::messages::ListOffsetsResponse =
                answer::decode(ApiKey::ListOffsets, 7, &frame).expect("an answer");
            let one = &answer.topics[0].partitions[0];
            let time = if time < 0 { time } else { base + time };
            assert_eq!((one.timestamp, one.offset), (time, offset), "below {below}, word {word}");
        }
    };
    check(0, [(-1, 0), (90, 0), (90, 0)]);
    if !broker.is_kafka() {
        check(1, [(-1, 1), (30, 2), (10, 1)]);
        check(3, [(-1, 3), (20, 3), (20, 3)]);
        check(4, [(-1, 4), (-1, -1), (-1, -1)]);
    }
}

/// Goal: after a kill the last five batches of a producer are known, wherever they lie. Method: an idempotent producer fills several
/// segments, the process is killed (so that the snapshots of the rolls and the log's tail are all there is), and each of the last
/// five batches is sent again; then a clean stop, and again.
#[test]
fn the_last_five_batches_outlive_a_kill() {
    let Some(mut broker) = Broker::start_own(Options::default()) else { return };
    let segment = [("segment.bytes", "1048576")];
    let topic = topic::create_with(&broker, "five", 1, &segment);
    let batch = |sequence: i32| {
        let value = Some(vec![b'v'; 200_000]);
        Batch::with(vec![Record { value, ..Record::at(0) }]).by(4711, 0, sequence)
    };
    for sequence in 0..23 {
        let line = produce(&broker, &topic, &batch(sequence));
        assert!(line.starts_with(&format!("ok; base {sequence};")), "{line}");
    }
    for round in 0..4 {
        if round % 2 == 0 {
            broker.kill();
        } else {
            assert!(broker.stop().success());
        }
        broker.start_again();
        for sequence in 18..23 {
            let line = produce(&broker, &topic, &batch(sequence));
            assert!(line.starts_with(&format!("ok; base {sequence};")), "round {round}: {line}");
        }
        let old = produce(&broker, &topic, &batch(17));
        assert!(old.starts_with("OutOfOrderSequenceNumber"), "round {round}: {old}");
        let newest = ListOffsets::at(&topic.name, 5, -1).frame();
        let Reply::Frame(frame) = broker.connect().ask(&newest) else { panic!("no answer") };
        let line = answer::summary(ApiKey::ListOffsets, 5, &frame);
        assert!(line.contains("offset 23"), "nothing was appended twice: {line}");
    }
}

/// Goal: a retry is known though its records were deleted. Method: as above, with all records deleted before the kill.
#[test]
fn retries_of_deleted_records() {
    let Some(mut broker) = Broker::start_own(Options::default()) else { return };
    let topic = topic::create_with(&broker, "gone", 1, &[("segment.bytes", "1048576")]);
    let batch = |sequence: i32| {
        let value = Some(vec![b'v'; 200_000]);
        Batch::with(vec![Record { value, ..Record::at(0) }]).by(4712, 0, sequence)
    };
    for sequence in 0..13 {
        let line = produce(&broker, &topic, &batch(sequence));
        assert!(line.starts_with(&format!("ok; base {sequence};")), "{line}");
    }
    broker.connect().ask(&delete_records(2, &topic.name, &[(0, 13)]));
    for round in 0..3 {
        if round == 1 {
            broker.kill();
            broker.start_again();
        } else if round == 2 {
            assert!(broker.stop().success());
            broker.start_again();
        }
        let again = produce(&broker, &topic, &batch(12));
        assert!(again.starts_with("ok; base 12;"), "round {round}: {again}");
        let gap = produce(&broker, &topic, &batch(20));
        assert!(gap.starts_with("OutOfOrderSequenceNumber"), "round {round}: {gap}");
    }
    let next = produce(&broker, &topic, &batch(13));
    assert!(next.starts_with("ok; base 13;"), "{next}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory takes bytes");
    encoder.finish().expect("memory takes bytes")
}
