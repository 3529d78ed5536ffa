//! Framing, headers, versions, counts: what is wrong before an API's handler sees it.

use std::time::Duration;

use pelton_tests::broker::Broker;
use pelton_tests::raw::{PATIENCE, Reply, probe};
use pelton_tests::request::{api_versions, metadata, metadata_of};
use pelton_tests::table::Table;
use pelton_tests::wire::{Body, CORRELATION, frame, header, request, uvarint};

/// Frame lengths: negative, beyond `socket.request.max.bytes`, shorter than a header, and other protocols' first bytes.
#[test]
fn lengths() {
    let broker = Broker::start();
    let mut table = Table::new(&broker);
    let good = metadata(1, Some(&[]), false);
    let with_length = |length: i32| [length.to_be_bytes().as_slice(), &good[4..]].concat();

    table.row_alone("negative", &with_length(-1), "closed");
    table.row_alone("least", &with_length(i32::MIN), "closed");
    table.row_alone("one over the limit", &with_length(104_857_601), "closed");
    table.row_alone("largest", &with_length(i32::MAX), "closed");
    table.row_alone("limit in four bytes, no payload", &104_857_601_i32.to_be_bytes(), "closed");
    table.row_alone("zero", &[0; 4], "closed");
    table.row("zero, then a request", &[[0; 4].as_slice(), &good].concat(), "closed");
    for size in 1..=7_usize {
        table.row_alone(&format!("{size} bytes"), &frame(&[0, 3, 0, 1, 0, 0, 0][..size]), "closed");
    }
    table.row_alone("key, version, correlation only", &frame(&[0, 3, 0, 1, 0, 0, 0, 7]), "closed");
    table.row_alone("longer than what is sent", &with_length(good.len() as i32 + 100), "silent");
    table.row_alone("99 MiB announced", &(99_i32 << 20).to_be_bytes(), "silent");
    table.row_alone("an HTTP request", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "closed");
    let hello = [&[0x16, 3, 1, 0, 0xa5, 1, 0, 0, 0xa1, 3, 3][..], &[0; 160]].concat();
    table.row_alone("a TLS ClientHello", &hello, "closed");
    table.finish();
}

/// Keys that no client may use and versions that do not exist: closed, except for ApiVersions.
#[test]
fn keys_and_versions() {
    let broker = Broker::start();
    let mut table = Table::new(&broker);
    // −1, a number nobody has given, APIs that Kafka removed, and APIs of controllers and brokers among themselves.
    for key in [-1, 999, 4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82] {
        let bytes = frame(&header(key, 0, Some(b"x"), &[0]));
        table.row(&format!("key {key}"), &bytes, "closed");
    }
    for (key, version) in [
        (0, 2),
        (0, 14),
        (0, 99),
        (0, -1),
        (1, 3),
        (1, 19),
        (2, 0),
        (2, 12),
        (3, -1),
        (3, 14),
        (3, 99),
        (19, 1),
        (19, 8),
        (20, 0),
        (20, 7),
        (22, 6),
        (23, 1),
        (23, 5),
        (37, 4),
        (60, 3),
    ] {
        let body = [header(key, version, Some(b"x"), &[]), vec![0; 12]].concat();
        table.row(&format!("key {key} version {version}"), &frame(&body), "closed");
    }
    table.finish();
}

/// ApiVersions: unknown versions are answered in the layout of version 0; bad software names are refused politely.
#[test]
fn api_versions_is_never_closed() {
    let broker = Broker::start();
    let mut table = Table::new(&broker);
    for version in 0..=4 {
        let bytes = api_versions(version, "pelton-tests", "1.0");
        table.row(&format!("version {version}"), &bytes, "ok; own range 0-4");
    }
    for version in [5_i16, 99, 127, i16::MAX] {
        let bytes =
            frame(&[header(18, version, Some(b"x"), &[0]), b"\x02a\x02b\0".to_vec()].concat());
        table.row(&format!("version {version}"), &bytes, "UnsupportedVersion; own range 0-4");
    }
    for (name, software_version) in [
        ("", ""),
        ("", "1"),
        ("x", ""),
        ("-x", "1"),
        ("x-", "1"),
        ("a b", "1"),
        ("x", "1 0"),
        ("x", "é"),
    ] {
        for version in [3, 4] {
            let label = format!("v{version} `{name}` `{software_version}`");
            table.row(&label, &api_versions(version, name, software_version), "InvalidRequest");
        }
    }
    table.row("one letter each", &api_versions(3, "x", "1"), "ok");
    table.row("dots and dashes", &api_versions(3, "a-b.c", "1.2-rc.3"), "ok");
    table.finish();
}

/// What looks odd but is accepted: trailing bytes, null and invalid client ids, unknown tags, odd booleans.
#[test]
fn leniency() {
    let broker = Broker::start();
    let mut table = Table::new(&broker);
    let empty_list = |flexible| Body::new(flexible).count(0).into_bytes();
    let metadata_v1 =
        |client: Option<&[u8]>| frame(&[header(3, 1, client, &[]), empty_list(false)].concat());

    table.row("null client id", &metadata_v1(None), "ok");
    table.row("empty client id", &metadata_v1(Some(b"")), "ok");
    table.row("invalid UTF-8 in the client id", &metadata_v1(Some(b"a\xff\xfeb")), "ok");
    table.row("client id of 32767 bytes", &metadata_v1(Some(&[b'x'; 32767])), "ok");
    let minus_two = Body::new(false).i16(3).i16(1).i32(CORRELATION).i16(-2).i32(0).into_bytes();
    table.row("client id length -2", &frame(&minus_two), "ok");
    let too_long = Body::new(false).i16(3).i16(1).i32(CORRELATION).i16(999).i32(0).into_bytes();
    table.row("client id longer than the frame", &frame(&too_long), "closed");

    for (key, version, flexible, body) in [
        (18, 0, false, Vec::new()),
        (18, 3, true, b"\x02x\x021\0".to_vec()),
        (3, 1, false, empty_list(false)),
        (3, 12, true, Body::new(true).count(0).bool(false).bool(false).tags().into_bytes()),
    ] {
        let bytes = request(key, version, flexible, &[body, b"trailing".to_vec()].concat());
        table.row(&format!("trailing bytes, key {key} v{version}"), &bytes, "ok");
    }

    let tagged = |tags: &[u8]| {
        let body = Body::new(true).count(0).bool(false).bool(false).bool(false).tags();
        frame(&[header(3, 9, Some(b"x"), tags), body.into_bytes()].concat())
    };
    table.row("an unknown tag in the header", &tagged(b"\x01\x63\x02ab"), "ok");
    table.row("tags out of order", &tagged(b"\x02\x63\x01a\x62\x01b"), "ok");
    table.row("a tag number above 2^31", &tagged(b"\x01\xff\xff\xff\xff\x0f\x01a"), "ok");
    table.row("a tag longer than the frame", &tagged(b"\x01\x63\xff\x7f"), "closed");
    table.row("2^31-1 tags", &tagged(&uvarint(0x7fff_ffff)), "closed");
    let body_tag = Body::new(true).count(0).bool(false).bool(false).raw(b"\x01\x63\x02ab");
    table.row("an unknown tag in the body", &request(3, 12, true, &body_tag.into_bytes()), "ok");
    let boolean = Body::new(false).count(0).i8(2).into_bytes();
    table.row("a boolean of 2", &request(3, 4, false, &boolean), "ok");
    let name = Body::new(false).count(1).i16(2).raw(b"\xff\xfe").bool(false).into_bytes();
    let expected = "InvalidTopicException";
    table.row("invalid UTF-8 in a topic name", &request(3, 4, false, &name), expected);
    table.finish();
}

/// Counts and lengths that promise more than the frame holds, and nulls where null is not allowed: closed at once.
#[test]
fn counts() {
    let broker = Broker::start();
    let mut table = Table::new(&broker);
    for count in [i32::MAX, 1_000_000, 100] {
        for (name, key, version, flexible, prefix) in lists() {
            let bytes =
                request(key, version, flexible, &prefix.count(count).raw(&[0; 8]).into_bytes());
            table.row(&format!("{name}: {count} items claimed"), &bytes, "closed");
        }
    }
    for (name, key, version, flexible, prefix) in lists() {
        if name != "Metadata" {
            let bytes =
                request(key, version, flexible, &prefix.count(-1).raw(&[0; 16]).into_bytes());
            table.row(&format!("{name} v{version}: null list"), &bytes, "closed");
        }
    }
    let minus_two = Body::new(false).raw(&(-2_i32).to_be_bytes()).into_bytes();
    table.row("a count of -2 reads as null", &request(3, 1, false, &minus_two), "ok");
    table.row("null list in Metadata v0", &metadata(0, None, false), "closed");
    let overlong = Body::new(true).raw(&[0xff; 6]).raw(&[1, 0, 0, 0]).into_bytes();
    table.row("a varint of seven bytes", &request(3, 9, true, &overlong), "closed");
    let long_name = Body::new(true).count(1).raw(&uvarint(0x1_0000_0000)).raw(b"x").into_bytes();
    table.row("a compact string of 4 GiB", &request(3, 9, true, &long_name), "closed");
    let past_end = Body::new(false).count(1).i16(200).raw(b"x").into_bytes();
    table.row("a string past the end", &request(3, 1, false, &past_end), "closed");
    let null_name = Body::new(false).count(1).i16(-1).into_bytes();
    table.row("a null name in Metadata v1", &request(3, 1, false, &null_name), "closed");
    table.finish();
}

type List = (&'static str, i16, i16, bool, Body);

/// The first list of each API: name, key, version, flexible, and what stands before the list.
fn lists() -> Vec<List> {
    let fetch = |flexible| {
        let body = Body::new(flexible).i32(-1).i32(100).i32(1).i32(1000).i8(0);
        body.i32(0).i32(-1)
    };
    vec![
        ("Metadata", 3, 1, false, Body::new(false)),
        ("Metadata", 3, 12, true, Body::new(true)),
        ("Produce", 0, 7, false, Body::new(false).i16(-1).i16(-1).i32(1000)),
        ("Produce", 0, 9, true, Body::new(true).nullable_string(None).i16(-1).i32(1000)),
        ("Fetch", 1, 11, false, fetch(false)),
        ("Fetch", 1, 13, true, fetch(true)),
        ("ListOffsets", 2, 5, false, Body::new(false).i32(-1).i8(0)),
        ("ListOffsets", 2, 6, true, Body::new(true).i32(-1).i8(0)),
        ("CreateTopics", 19, 4, false, Body::new(false)),
        ("CreateTopics", 19, 7, true, Body::new(true)),
        ("DeleteTopics", 20, 3, false, Body::new(false)),
        ("DeleteTopics", 20, 4, true, Body::new(true)),
        ("DeleteRecords", 21, 1, false, Body::new(false)),
        ("DeleteRecords", 21, 2, true, Body::new(true)),
        ("CreatePartitions", 37, 1, false, Body::new(false)),
        ("CreatePartitions", 37, 2, true, Body::new(true)),
        ("DescribeConfigs", 32, 3, false, Body::new(false)),
        ("DescribeConfigs", 32, 4, true, Body::new(true)),
        ("AlterConfigs", 33, 1, false, Body::new(false)),
        ("AlterConfigs", 33, 2, true, Body::new(true)),
        ("IncrementalAlterConfigs", 44, 0, false, Body::new(false)),
        ("IncrementalAlterConfigs", 44, 1, true, Body::new(true)),
        ("OffsetForLeaderEpoch", 23, 3, false, Body::new(false).i32(-1)),
        ("OffsetForLeaderEpoch", 23, 4, true, Body::new(true).i32(-1)),
    ]
}

/// One request in pieces cut at every byte, two requests in one segment, and a thousand at once: all answered, in order.
#[test]
fn splits_and_pipelines() {
    let broker = Broker::start();
    let good = metadata(1, Some(&[]), false);
    for cut in 1..good.len() {
        let mut connection = broker.connect();
        connection.send(&good[..cut]);
        std::thread::sleep(Duration::from_millis(1));
        connection.send(&good[cut..]);
        let correlation = connection.receive(PATIENCE).correlation();
        assert_eq!(correlation, Some(CORRELATION), "cut at byte {cut}");
    }
    let mut connection = broker.connect();
    assert!(connection.send_in_pieces(&good, 1), "byte by byte");
    assert_eq!(connection.receive(PATIENCE).correlation(), Some(CORRELATION));

    let numbered = |number: i32| {
        let mut bytes = if number % 3 == 0 { probe() } else { good.clone() };
        bytes[8..12].copy_from_slice(&number.to_be_bytes());
        bytes
    };
    let all: Vec<u8> = (0..1000).flat_map(numbered).collect();
    assert!(connection.send(&all));
    for number in 0..1000 {
        assert_eq!(connection.receive(PATIENCE).correlation(), Some(number));
    }

    // What came before a bad frame is answered, what came after it is not.
    let bad = frame(&header(999, 0, None, &[]));
    assert!(connection.send(&[numbered(1), bad, numbered(2)].concat()));
    assert_eq!(connection.receive(PATIENCE).correlation(), Some(1));
    assert_eq!(connection.receive(PATIENCE), Reply::Closed);
}

/// Clients that leave in the middle, by half-close or reset, take nothing with them.
#[test]
fn leaving_early() {
    let broker = Broker::start();
    let mut bystander = broker.connect();
    for round in 0..50 {
        let mut half = broker.connect();
        half.send(&metadata(1, None, false));
        half.half_close();
        // Either the answer or the end may come; silence may not.
        assert_ne!(half.receive(PATIENCE), Reply::Silence, "round {round}");

        let mut reset = broker.connect();
        for _ in 0..20 {
            reset.send(&metadata(1, None, false));
        }
        reset.send(&metadata_of(1, "never-finished")[..10]);
        reset.reset_on_drop();
        drop(reset);
        assert!(bystander.is_alive(), "round {round}");
    }
}
