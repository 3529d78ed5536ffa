//! Produce: acks, topics, batches, records, sequences.

use pelton_tests::batch::{Batch, Record, now_ms, old_message};
use pelton_tests::broker::Broker;
use pelton_tests::raw::Reply;
use pelton_tests::request::{Fetch, NewTopic, Produce, create_topics};
use pelton_tests::table::Table;
use pelton_tests::topic::{self, TestTopic};
use pelton_tests::wire::{Body, request, varint};

fn v7(topic: &TestTopic, batch: &Batch) -> Produce {
    Produce::to(topic.name.as_str(), batch.build())
}

/// Every version, odd acks, odd topics and partitions, null and empty records.
#[test]
fn requests() {
    let broker = Broker::start();
    let topic = topic::create(&broker, "produce");
    let name = topic.name.as_str();
    let mut table = Table::new(&broker);
    let batch = Batch::of(1);
    let good = v7(&topic, &batch);
    for version in 3..=12 {
        let request = Produce { version, ..good.clone() };
        table.row(&format!("version {version}"), &request.frame(), "ok");
    }
    let by_id = Produce { version: 13, topic: topic.id.into(), ..good.clone() };
    table.row("version 13", &by_id.frame(), "ok");
    table.row("trailing", &Produce { trailing: b"xyz".to_vec(), ..good.clone() }.frame(), "ok");

    let acks = |acks, batch: &Batch| Produce { acks, ..v7(&topic, batch) }.frame();
    table.row("acks 1", &acks(1, &batch), "ok");
    table.row("acks 0", &acks(0, &batch), "no answer");
    table.row("acks 0, bad checksum", &acks(0, &Batch { crc: Some(1), ..batch.clone() }), "closed");
    let nowhere = Produce { acks: 0, ..Produce::to("no-such-topic", batch.build()) };
    table.row("acks 0, unknown topic", &nowhere.frame(), "closed");
    let refused = "InvalidRequiredAcks; base -1; time -1; start -1";
    for odd in [2, -2, i16::MAX] {
        table.row(&format!("acks {odd}"), &acks(odd, &batch), refused);
    }

    let unknown = "UnknownTopicOrPartition; base -1; time -1; start -1";
    let nowhere = Produce { acks: 2, ..nowhere };
    table.row("acks 2, unknown topic", &nowhere.frame(), unknown);
    let no_batch = Produce { acks: 2, ..Produce::to(name, Vec::new()) };
    let expected = "InvalidRecord; base -1; time -1; start -1";
    table.row("acks 2, no batch", &no_batch.frame(), expected);
    table.row(
        "acks 2, a count that lies",
        &acks(2, &Batch { count: Some(2), ..batch.clone() }),
        refused,
    );
    for odd in ["no-such-topic", "a/b", ""] {
        let request = Produce::to(odd, batch.build());
        table.row(&format!("topic `{odd}`"), &request.frame(), unknown);
    }
    let by_unknown_id = Produce { topic: [7; 16].into(), ..by_id };
    table.row("unknown topic id", &by_unknown_id.frame(), "UnknownTopicId");
    let at = |partition| {
        let partitions = vec![(partition, Some(batch.build()))];
        Produce { partitions, ..good.clone() }.frame()
    };
    table.row("partition 99", &at(99), unknown);
    table.row("partition -1", &at(-1), unknown);
    table.row("timeout 0", &Produce { timeout_ms: 0, ..good.clone() }.frame(), "ok");
    let no_topics = Body::new(false).nullable_string(None).i16(-1).i32(1000).count(0);
    table.row("no topics", &request(0, 7, false, &no_topics.into_bytes()), "ok");

    for version in [7, 9, 12] {
        let null =
            Produce { version, partitions: vec![(0, None)], ..Produce::to(name, Vec::new()) };
        table.row_better(&format!("null, v{version}"), &null.frame(), "InvalidRecord", "silent");
        let empty = Produce { version, ..Produce::to(name, Vec::new()) };
        table.row(&format!("empty, v{version}"), &empty.frame(), "InvalidRecord");
    }
    let minus_two = Body::new(false).nullable_string(None).i16(-1).i32(1000).count(1);
    let minus_two = minus_two.string(name).count(1).i32(0).i32(-2).into_bytes();
    let minus_two = request(0, 7, false, &minus_two);
    table.row_better("records length -2", &minus_two, "InvalidRecord", "silent");
    table.finish();
}

/// One bad partition changes nothing for the good ones of the same request.
#[test]
fn partitions_are_judged_alone() {
    let broker = Broker::start();
    let topic = topic::create_with(&broker, "alone", 3, &[]);
    let mut table = Table::new(&broker);
    let bad = Batch { crc: Some(1), ..Batch::of(1) }.build();
    let partitions =
        vec![(0, Some(Batch::of(2).build())), (1, Some(bad)), (2, Some(Batch::of(3).build()))];
    let request = Produce { partitions, ..Produce::to(topic.name.as_str(), Vec::new()) };
    // The partitions may be answered in any order; what was stored shows which is which.
    table.row("good, bad, good", &request.frame(), "CorruptMessage");
    for (partition, high) in [(0, 2), (1, 0), (2, 3)] {
        let fetch = Fetch { partition, max_wait_ms: 0, ..Fetch::of(topic.name.as_str()) };
        let Reply::Frame(frame) = broker.connect().ask(&fetch.frame()) else { panic!("no answer") };
        let line =
            pelton_tests::answer::summary(kafka_protocol::messages::ApiKey::Fetch, 11, &frame);
        table.judge(
            &format!("what lies in partition {partition}"),
            line.split("; stable").next().unwrap_or_default(),
            &format!("ok; high {high}"),
        );
    }
    table.finish();
}

/// Bytes that are no batch, two batches, half a batch, old formats, and lying header fields.
#[test]
fn batches() {
    let broker = Broker::start();
    let topic = topic::create(&broker, "batches");
    let mut table = Table::new(&broker);
    let one = || Batch::of(1);
    let raw = |records: Vec<u8>| Produce::to(topic.name.as_str(), records);
    let two = [one().build(), Batch { base_offset: 1, ..one() }.build()].concat();
    for (name, records, expected) in [
        ("a hundred x", vec![b'x'; 100], "CorruptMessage"),
        ("five bytes", b"12345".to_vec(), "InvalidRecord"),
        ("eleven bytes", vec![0; 11], "InvalidRecord"),
        ("two batches", two, "InvalidRecord"),
        ("a batch and half of one", [one().build(), one().build()[..30].to_vec()].concat(), "ok"),
        ("a batch and zeros", [one().build(), vec![0; 61]].concat(), "CorruptMessage"),
        ("a batch less one byte", one().build()[..67].to_vec(), "InvalidRecord"),
        ("a message of format 0", old_message(0), "InvalidRecord"),
        ("a message of format 1", old_message(1), "InvalidRecord"),
    ] {
        table.row(name, &raw(records).frame(), expected);
    }
    let old = Produce { version: 3, ..raw(old_message(1)) };
    table.row("a message of format 1 in v3", &old.frame(), "InvalidRecord");
    for (name, batch, expected) in lies() {
        table.row(name, &v7(&topic, &batch).frame(), expected);
    }
    for version in [3, 6] {
        let zstd = Produce { version, ..v7(&topic, &Batch { attributes: 4, ..one() }) };
        let expected = "UnsupportedCompressionType";
        table.row(&format!("zstd in v{version}"), &zstd.frame(), expected);
    }
    let most = v7(&topic, &Batch { length: Some(i32::MAX), ..one() }).frame();
    table.row_better("length most", &most, "InvalidRecord", "UnknownServerError");
    let empty_body = Batch::raw(0, Vec::new());
    table.row("no records at all", &v7(&topic, &empty_body).frame(), "InvalidRecord");
    table.finish();
}

/// Each batch lies in one field of its header.
fn lies() -> Vec<(&'static str, Batch, &'static str)> {
    let one = || Batch::of(1);
    let attributes = |attributes| Batch { attributes, ..one() };
    let length = |length| Batch { length: Some(length), ..one() };
    let count = |count| Batch { count: Some(count), ..one() };
    vec![
        (
            "bad checksum",
            Batch { crc: Some(1), ..one() },
            "CorruptMessage; base -1; time -1; start -1",
        ),
        ("magic 0", Batch { magic: 0, ..one() }, "InvalidRecord"),
        ("magic 1", Batch { magic: 1, ..one() }, "InvalidRecord"),
        ("magic 3", Batch { magic: 3, ..one() }, "CorruptMessage"),
        ("magic -1", Batch { magic: -1, ..one() }, "CorruptMessage"),
        ("length 13", length(13), "CorruptMessage"),
        ("length 48", length(48), "CorruptMessage"),
        ("length 49", length(49), "CorruptMessage"),
        ("length 500", length(500), "InvalidRecord; base -1; time -1; start -1"),
        ("length -1", length(-1), "CorruptMessage"),
        ("length 0", length(0), "CorruptMessage"),
        ("length least", length(i32::MIN), "CorruptMessage"),
        ("one record, two claimed", count(2), "InvalidRecord; base -1; time -1; start 0"),
        ("two records, one claimed", Batch { count: Some(1), ..Batch::of(2) }, "InvalidRecord"),
        ("count 0", count(0), "InvalidRecord"),
        ("count -1", count(-1), "InvalidRecord"),
        ("count most", count(i32::MAX), "InvalidRecord"),
        ("last delta 5", Batch { last_offset_delta: Some(5), ..one() }, "InvalidRecord"),
        ("last delta -1", Batch { last_offset_delta: Some(-1), ..one() }, "InvalidRecord"),
        ("base offset 77", Batch { base_offset: 77, ..one() }, "InvalidRecord"),
        ("base offset -5", Batch { base_offset: -5, ..one() }, "InvalidRecord"),
        ("leader epoch 99", Batch { leader_epoch: 99, ..one() }, "ok"),
        ("unused attribute", attributes(0x4000), "ok"),
        ("control batch", attributes(0x20), "InvalidRecord"),
        ("transactional, no id", attributes(0x10), "TransactionalIdAuthorizationFailed"),
        ("log append time", attributes(0x08), "ok"),
        ("delete horizon", attributes(0x40), "ok"),
        ("gzip but plain", attributes(1), "UnknownServerError; base -1; time -1; start 0"),
        ("snappy but plain", attributes(2), "UnknownServerError"),
        ("lz4 but plain", attributes(3), "UnknownServerError"),
        ("zstd but plain", attributes(4), "UnknownServerError"),
        ("codec 5", attributes(5), "UnknownServerError"),
        ("codec 7", attributes(7), "UnknownServerError"),
        ("timestamp -1", Batch { base_timestamp: -1, ..one() }, "ok"),
        ("timestamp -5", Batch { base_timestamp: -5, ..one() }, "ok"),
        ("max timestamp lies", Batch { max_timestamp: Some(5), ..one() }, "ok"),
        (
            "two hours ahead",
            Batch { base_timestamp: now_ms() + 7_200_000, ..Batch::of(2) },
            "InvalidTimestamp; base -1; time -1; start 0",
        ),
    ]
}

/// Records that do not add up to their batch.
#[test]
fn records() {
    let broker = Broker::start();
    let topic = topic::create(&broker, "records");
    let mut table = Table::new(&broker);
    let record = || Record::at(0);
    let null_key = [varint(-1), varint(-1)].concat();
    let large_value =
        [varint(8), vec![0; 3], varint(1), b"k".to_vec(), varint(500), b"v\0".to_vec()].concat();
    let one = |record: Record| Batch::with(vec![record]);
    for (name, batch, expected) in [
        ("key length -2", Batch::raw(1, b"\x0e\0\0\0\x03\x02v\0".to_vec()), "ok"),
        ("value past the record", Batch::raw(1, large_value), "InvalidRecord"),
        ("size 300", one(Record { size: Some(300), ..record() }), "InvalidRecord"),
        ("size 0", Batch::raw(1, vec![0]), "InvalidRecord"),
        ("size -1", Batch::raw(1, varint(-1)), "InvalidRecord"),
        ("size 2 GiB", one(Record { size: Some(0x7fff_ffff), ..record() }), "InvalidRecord"),
        (
            "bytes after the headers",
            one(Record { extra: b"zz".to_vec(), ..record() }),
            "InvalidRecord",
        ),
        ("record attributes", one(Record { attributes: -1, ..record() }), "ok"),
        ("header count -1", one(Record { header_count: -1, ..record() }), "InvalidRecord"),
        ("three headers missing", one(Record { header_count: 3, ..record() }), "InvalidRecord"),
        ("2^31-1 headers", one(Record { header_count: 0x7fff_ffff, ..record() }), "InvalidRecord"),
        (
            "null header key",
            one(Record { header_count: 1, extra: null_key, ..record() }),
            "InvalidRecord",
        ),
        ("null key and value", one(Record { key: None, value: None, ..record() }), "ok"),
        ("deltas 0, 5", Batch::with(vec![record(), Record::at(5)]), "ok"),
        ("deltas 0, 0", Batch::with(vec![record(), record()]), "ok"),
        (
            "bytes after the last record",
            Batch::raw(1, [record().build(), vec![0; 9]].concat()),
            "InvalidRecord",
        ),
    ] {
        table.row(name, &v7(&topic, &batch).frame(), expected);
    }
    let overlong = v7(&topic, &Batch::raw(1, vec![0xff; 10])).frame();
    table.row_better("a size of ten bytes", &overlong, "InvalidRecord", "UnknownServerError");
    // From version 8 the answer says which records, and why.
    let late = |delta| Record { timestamp_delta: delta, ..Record::at((delta > 0).into()) };
    let future = Batch::with(vec![late(0), late(9_000_000)]);
    let future = Batch { max_timestamp: Some(future.base_timestamp + 9_000_000), ..future };
    let request = Produce { version: 8, ..v7(&topic, &future) };
    let expected = "InvalidTimestamp; base -1; time -1; start 0; records [1]";
    table.row("one of two records is hours ahead", &request.frame(), expected);
    table.finish();
}

/// Topic settings: size limits, timestamps by the broker, keys on compacted topics.
#[test]
fn settings() {
    let broker = Broker::start();
    let mut table = Table::new(&broker);
    let value =
        |size: usize| Batch::with(vec![Record { value: Some(vec![b'v'; size]), ..Record::at(0) }]);
    let small = topic::create_with(&broker, "small", 1, &[("max.message.bytes", "1000")]);
    // 61 bytes of header, 10 of the record's own.
    table.row("exactly max.message.bytes", &v7(&small, &value(929)).frame(), "ok");
    table.row("one byte more", &v7(&small, &value(930)).frame(), "MessageTooLarge");
    let segment = [("segment.bytes", "1048576"), ("max.message.bytes", "4000000")];
    let segment = topic::create_with(&broker, "segment", 1, &segment);
    table.row(
        "larger than a segment",
        &v7(&segment, &value(1 << 20)).frame(),
        "RecordListTooLarge",
    );
    let default = topic::create(&broker, "default");
    table.row(
        "larger than 1 MiB + 12",
        &v7(&default, &value(1_048_588)).frame(),
        "MessageTooLarge",
    );

    let log_time = [("message.timestamp.type", "LogAppendTime")];
    let log_time = topic::create_with(&broker, "log-time", 1, &log_time);
    let future = Batch { base_timestamp: now_ms() + 7_200_000, ..Batch::of(1) };
    table.row("any time under LogAppendTime", &v7(&log_time, &future).frame(), "ok");
    let strict = [("message.timestamp.before.max.ms", "1000")];
    let strict = topic::create_with(&broker, "strict", 1, &strict);
    let past = Batch { base_timestamp: now_ms() - 60_000, ..Batch::of(1) };
    table.row("older than before.max", &v7(&strict, &past).frame(), "InvalidTimestamp");

    let compacted = topic::create_with(&broker, "compacted", 1, &[("cleanup.policy", "compact")]);
    let keyless = |delta| Record { key: None, ..Record::at(delta) };
    let mixed = Batch::with(vec![Record::at(0), keyless(1), Record::at(2), keyless(3)]);
    let request = Produce { version: 8, ..v7(&compacted, &mixed) };
    let expected = "InvalidRecord; base -1; time -1; start 0; records [1, 3]";
    table.row("no key on a compacted topic", &request.frame(), expected);
    table.row("keys on a compacted topic", &v7(&compacted, &Batch::of(2)).frame(), "ok");

    // Groups keep their offsets there; only the broker itself writes it.
    let internal = NewTopic::named("__consumer_offsets");
    broker.connect().ask(&create_topics(7, &[internal], false));
    let request = Produce::to("__consumer_offsets", Batch::of(1).build());
    table.row("an internal topic", &request.frame(), "InvalidTopicException");
    table.finish();
}

type Codec = (&'static str, i16, fn(&[u8]) -> Vec<u8>);

const CODECS: [Codec; 4] =
    [("gzip", 1, gzip), ("snappy", 2, snappy), ("lz4", 3, lz4), ("zstd", 4, zstd)];

/// Compressed payloads: good ones in every framing, garbage, and bombs.
#[test]
fn compression() {
    let broker = Broker::start();
    let topic = topic::create(&broker, "compressed");
    let mut table = Table::new(&broker);
    let plain = Batch::of(3).payload;
    let xerial = [
        b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec(),
        (snappy(&plain).len() as i32).to_be_bytes().to_vec(),
        snappy(&plain),
    ]
    .concat();
    let send = |attributes, payload: Vec<u8>| {
        v7(&topic, &Batch { attributes, ..Batch::raw(3, payload) }).frame()
    };
    for (name, attributes, pack) in CODECS {
        table.row(name, &send(attributes, pack(&plain)), "ok");
    }
    table.row("snappy as Java frames it", &send(2, xerial), "ok");
    let longer = Batch::of(4).payload;
    for (name, attributes, pack) in CODECS {
        // What a codec library throws at a cut stream is Kafka's unknown error; Pelton calls all of it corrupt.
        let good = pack(&plain);
        let cut = send(attributes, good[..good.len() / 2].to_vec());
        // Raw snappy has no signature: a cut stream cannot be told from plain bytes under a compression bit.
        let ours = if name == "snappy" { "UnknownServerError" } else { "CorruptMessage" };
        table.row_better(&format!("{name}, cut"), &cut, ours, "UnknownServerError");
        let more = send(attributes, pack(&longer));
        table.row(&format!("{name}, one record too many"), &more, "InvalidRecord");
    }
    let claim = [varint(0x7fff_fff0), vec![0; 20]].concat();
    let claim = send(1, gzip(&claim));
    table.row_better("2 GiB claimed inside gzip", &claim, "InvalidRecord", "UnknownServerError");
    table.finish();
}

/// A gibibyte of zeros in 32 KiB: refused, without memory or the patience of other clients.
#[test]
fn bombs() {
    let Some(broker) = Broker::start_own(pelton_tests::broker::Options::default()) else {
        return;
    };
    let topic = topic::create(&broker, "bomb");
    topic::seed(&broker, &topic, 0, 1);
    let before = broker.resident_bytes();
    let size = 1_i64 << 30;
    let head = [varint(size + 11), vec![0; 3], varint(-1), varint(size)].concat();
    for (name, attributes, payload) in
        [("zstd", 4, zstd_bomb(&head, size)), ("gzip", 1, gzip_bomb(&head, size / 4))]
    {
        assert!(payload.len() < 1_000_000, "{name}: {} bytes", payload.len());
        let batch = Batch { attributes, ..Batch::raw(1, payload) };
        let reply = broker.connect().ask(&v7(&topic, &batch).frame());
        let Reply::Frame(frame) = reply else { panic!("{name}: {reply:?}") };
        let line =
            pelton_tests::answer::summary(kafka_protocol::messages::ApiKey::Produce, 7, &frame);
        let refused = line.starts_with("InvalidRecord")
            || line.starts_with("MessageTooLarge")
            || line.starts_with("CorruptMessage");
        assert!(refused, "{name}: {line}");
    }
    let grown = broker.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{} MiB more", grown >> 20);
}

/// Idempotent sequences: duplicates, gaps, epochs, over one partition; each row builds on the ones before.
#[test]
fn sequences() {
    let broker = Broker::start();
    let topic = topic::create(&broker, "sequences");
    let mut table = Table::new(&broker);
    let by = |id, epoch, sequence| v7(&topic, &Batch::of(1).by(id, epoch, sequence)).frame();
    let id = 987_654;
    let old = "InvalidProducerEpoch";
    let gap = "OutOfOrderSequenceNumber";
    for (name, frame, expected) in [
        // Kafka gives a duplicate's timestamp as the append time even where producers set the time.
        ("first", by(id, 0, 0), "ok; base 0; time -1; start 0"),
        ("the same again", by(id, 0, 0), "ok; base 0; time now; start 0"),
        ("a gap", by(id, 0, 9), "OutOfOrderSequenceNumber; base -1; time -1; start 0"),
        ("second", by(id, 0, 1), "ok; base 1; time -1; start 0"),
        ("third", by(id, 0, 2), "ok; base 2; time -1; start 0"),
        ("fourth", by(id, 0, 3), "ok; base 3; time -1; start 0"),
        ("fifth", by(id, 0, 4), "ok; base 4; time -1; start 0"),
        ("the first is the fifth last", by(id, 0, 0), "ok; base 0; time now; start 0"),
        ("sixth", by(id, 0, 5), "ok; base 5; time -1; start 0"),
        ("the first is too old now", by(id, 0, 0), gap),
        ("the second is not", by(id, 0, 1), "ok; base 1; time now; start 0"),
        ("epoch -2", by(id, -2, 1), old),
        ("newer epoch, not at 0", by(id, 3, 5), gap),
        ("newer epoch", by(id, 3, 0), "ok; base 6; time -1; start 0"),
        ("fenced epoch", by(id, 1, 1), old),
        ("no sequence", by(id, 3, -1), "InvalidRecord"),
        ("unknown producer at 5", by(555, 0, 5), "ok; base 7; time -1; start 0"),
        ("up to the last sequence", by(556, 0, i32::MAX), "ok; base 8; time -1; start 0"),
        ("and round to 0", by(556, 0, 0), "ok; base 9; time -1; start 0"),
    ] {
        table.row(name, &frame, expected);
    }
    let pair = [
        Batch::of(1).by(id, 3, 1).build(),
        Batch { base_offset: 1, ..Batch::of(1).by(id, 3, 2) }.build(),
    ];
    let pair = Produce::to(topic.name.as_str(), pair.concat());
    table.row("two batches", &pair.frame(), "InvalidRecord");
    let first_of_five = v7(&topic, &Batch::of(5).by(557, 0, 0)).frame();
    table.row("five records", &first_of_five, "ok; base 10; time -1; start 0");
    table.row("part of a batch again", &by(557, 0, 2), gap);
    let acks_one = Produce { acks: 1, ..v7(&topic, &Batch::of(1).by(557, 0, 5)) };
    table.row("acks 1", &acks_one.frame(), "ok; base 15; time -1; start 0");
    table.finish();
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory takes bytes");
    encoder.finish().expect("memory takes bytes")
}

fn snappy(bytes: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(bytes).expect("small input")
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(bytes).expect("memory takes bytes");
    encoder.finish().expect("memory takes bytes")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("memory takes bytes")
}

fn zstd_bomb(head: &[u8], zeros: i64) -> Vec<u8> {
    use std::io::Read;
    let input = std::io::Cursor::new(head).chain(std::io::repeat(0).take(zeros as u64 + 1));
    zstd::encode_all(input, 3).expect("memory takes bytes")
}

fn gzip_bomb(head: &[u8], zeros: i64) -> Vec<u8> {
    use std::io::Read;
    let input = std::io::Cursor::new(head).chain(std::io::repeat(0).take(zeros as u64 + 1));
    let mut encoder = flate2::read::GzEncoder::new(input, flate2::Compression::best());
    let mut bytes = Vec::new();
    encoder.read_to_end(&mut bytes).expect("memory takes bytes");
    bytes
}
