//! The corners of the encoding, as Apache Kafka 4.3 was seen to treat them.

use bytes::{Bytes, BytesMut};
use pelton_model::slice::Slice;
use pelton_protocol::api::{self, Admission, ApiKey};
use pelton_protocol::codec::{DecodeError, FrameSplitter, Reader, Records, Writer};
use pelton_protocol::header::{self, RequestHeader};
use pelton_protocol::message::api_versions::{
    ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey,
};
use pelton_protocol::message::create_topics::CreateTopicsRequest;
use pelton_protocol::message::fetch::{
    FetchRequest, FetchResponse, FetchableTopicResponse, PartitionData, encode_fetch_response,
};
use pelton_protocol::message::metadata::MetadataRequest;
use pelton_protocol::message::produce::{
    PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData,
};

// Goal: null arrays are read where null may be, refused where not. Method: Metadata's topics in versions on both sides.
#[test]
fn null_arrays() {
    fn check(version: i16, bytes: &[u8], expected: Result<Option<usize>, DecodeError>) {
        let request = MetadataRequest::decode(&mut Reader::new(bytes), version);
        let count = request.map(|request| request.topics.map(|topics| topics.len()));
        assert_eq!(count, expected, "v{version} {bytes:?}");
    }
    let null = |position| Err(DecodeError::UnexpectedNull { position });
    check(0, &[0, 0, 0, 0], Ok(Some(0)));
    check(0, &[0xff; 4], null(4));
    check(0, &[0xff, 0xff, 0xff, 0xfe], null(4));
    check(1, &[0, 0, 0, 0], Ok(Some(0)));
    check(1, &[0xff; 4], Ok(None));
    check(1, &[0xff, 0xff, 0xff, 0xfe], Ok(None));
    check(9, &[1, 0, 0, 0, 0], Ok(Some(0)));
    check(9, &[0, 0, 0, 0, 0], Ok(None));
    // Fetch's topics are never null.
    let fetch = FetchRequest::decode(&mut Reader::new(&[0; 30]), 15);
    assert_eq!(fetch, Err(DecodeError::UnexpectedNull { position: 22 }));
    // A compact length of 2³² − 1 is negative in Kafka's arithmetic, thus null.
    check(9, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0], Ok(None));
}

// Goal: counts beyond what remains are refused before anything is reserved. Method: a claim with its least body, one less.
#[test]
fn counts_are_bounded_by_what_remains() {
    fn check(version: i16, bytes: &[u8], count: i32, remaining: usize) {
        let position = bytes.len() - remaining;
        let expected = DecodeError::CountTooLarge {
            position,
            count,
            remaining,
        };
        let request = MetadataRequest::decode(&mut Reader::new(bytes), version);
        assert_eq!(request, Err(expected), "v{version} {bytes:?}");
    }
    check(0, &[0x7f, 0xff, 0xff, 0xff], i32::MAX, 0);
    check(0, &[0, 0, 0, 2, 0, 0, 0], 2, 3);
    check(9, &[0xff, 0xff, 0xff, 0xff, 0x07], i32::MAX - 1, 0);
    check(9, &[3, 0, 0, 0], 2, 3);
}

// Goal: many tiny elements cannot blow a frame up in memory. Method: a megabyte-scale list of empty names.
#[test]
fn memory_of_arrays_is_bounded() {
    let count = 10_000_000_u32;
    let mut body = count.to_be_bytes().to_vec();
    body.resize(4 + 2 * 10_000_000, 0);
    let refused = MetadataRequest::decode(&mut Reader::new(&body), 0);
    let expected = DecodeError::TooManyElements {
        position: 4,
        count: 10_000_000,
    };
    assert_eq!(refused, Err(expected));
    body[..4].copy_from_slice(&1_000_000_u32.to_be_bytes());
    let request = MetadataRequest::decode(&mut Reader::new(&body), 0).unwrap();
    assert_eq!(request.topics.unwrap().len(), 1_000_000);
}

// Goal: headers as odd clients send them are read. Method: bytes, and the client id they give.
#[test]
fn request_headers() {
    fn check(bytes: &[u8], expected: Result<Option<&str>, DecodeError>) {
        let mut reader = Reader::new(bytes);
        let header = RequestHeader::decode(&mut reader);
        let client_id = header.map(|header| header.client_id.map(String::from));
        assert_eq!(
            client_id,
            expected.map(|id| id.map(str::to_owned)),
            "{bytes:?}"
        );
    }
    // ApiVersions 0, no tags: a name, null, another negative length, ill-formed UTF-8.
    check(&[0, 18, 0, 0, 0, 0, 0, 7, 0, 2, b'm', b'e'], Ok(Some("me")));
    check(&[0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff], Ok(None));
    check(&[0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xfe], Ok(None));
    check(
        &[0, 18, 0, 0, 0, 0, 0, 7, 0, 2, 0xff, b'x'],
        Ok(Some("\u{fffd}x")),
    );
    // Version 3 and any later one, known or not: tags follow a two-byte string, null or not.
    check(&[0, 18, 0, 3, 0, 0, 0, 7, 0xff, 0xff, 0], Ok(None));
    check(&[0, 18, 0, 99, 0, 0, 0, 7, 0, 0, 0], Ok(Some("")));
    // Two unknown tags, out of order.
    check(
        &[0, 18, 0, 3, 0, 0, 0, 7, 0, 0, 2, 9, 1, 0, 4, 0],
        Ok(Some("")),
    );
    check(
        &[3, 231, 0, 0, 0, 0, 0, 7, 0, 0],
        Err(DecodeError::UnknownKey { key: 999 }),
    );
    let truncated = DecodeError::Truncated {
        position: 2,
        wanted: 2,
        remaining: 0,
    };
    check(&[0, 18], Err(truncated));
}

// Goal: varints end, strings are bounded, booleans are lenient. Method: one body each.
#[test]
fn lenient_and_strict_values() {
    let mut endless = Reader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0]);
    assert_eq!(
        endless.unsigned_varint(),
        Err(DecodeError::VarintTooLong { position: 5 })
    );
    // Compact length 0x8001: a string of 32768 bytes.
    let mut long = vec![0x81, 0x80, 0x02];
    long.resize(40_000, b'x');
    let request = ApiVersionsRequest::decode(&mut Reader::new(&long), 3);
    let expected = DecodeError::StringTooLong {
        position: 3,
        length: 0x8000,
    };
    assert_eq!(request, Err(expected));
    let boolean = [0, 0, 0, 0, 0, 0, 0, 1, 2];
    let request = CreateTopicsRequest::decode(&mut Reader::new(&boolean), 2).unwrap();
    assert!(request.validate_only);
}

// Goal: tagged fields in any order, unknown or oversized ones, are dealt with as Kafka does. Method: Fetch's two.
#[test]
fn tagged_fields() {
    fn check(tags: &[u8], expected: Result<(Option<&str>, i32), DecodeError>) {
        let mut body = vec![0; 21];
        body.extend([1, 1, 1]);
        body.extend(tags);
        let request = FetchRequest::decode(&mut Reader::new(&body), 15);
        let seen = request.map(|request| {
            let cluster_id = request.cluster_id.map(String::from);
            (cluster_id, request.replica_state.replica_id)
        });
        let expected = expected.map(|(id, replica)| (id.map(str::to_owned), replica));
        assert_eq!(seen, expected, "{tags:?}");
    }
    let state = [1, 13, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    check(&[0], Ok((None, -1)));
    check(&[&[1, 0, 2, 2, b'c'][..]].concat(), Ok((Some("c"), -1)));
    check(
        &[&[2][..], &state, &[0, 2, 2, b'c']].concat(),
        Ok((Some("c"), 5)),
    );
    check(
        &[&[3, 77, 2, 1, 1][..], &state, &[0, 2, 2, b'c']].concat(),
        Ok((Some("c"), 5)),
    );
    // The tag's size is larger than its value: the rest is skipped. Smaller: refused.
    check(&[1, 0, 4, 2, b'c', 9, 9], Ok((Some("c"), -1)));
    let overrun = DecodeError::TagOverrun {
        position: 29,
        tag: 0,
    };
    check(&[1, 0, 1, 2, b'c'], Err(overrun));
}

// Goal: a request is judged before its body is looked at. Method: keys and versions around each range.
#[test]
fn admission() {
    fn check(key: i16, version: i16, expected: &str) {
        let admission = match api::admit(key, version) {
            Admission::Serve(row) => row.name,
            Admission::AnswerUnsupportedVersion => "unsupported",
            Admission::Close => "close",
        };
        assert_eq!(admission, expected, "{key} v{version}");
    }
    for row in api::table() {
        check(row.key.code(), row.min, row.name);
        check(row.key.code(), row.max, row.name);
        let outside = match row.key {
            ApiKey::ApiVersions => "unsupported",
            ApiKey::Produce
            | ApiKey::Fetch
            | ApiKey::ListOffsets
            | ApiKey::Metadata
            | ApiKey::OffsetCommit
            | ApiKey::ListTransactions
            | ApiKey::DescribeTransactions
            | ApiKey::TxnOffsetCommit
            | ApiKey::EndTxn
            | ApiKey::AddOffsetsToTxn
            | ApiKey::AddPartitionsToTxn
            | ApiKey::OffsetFetch
            | ApiKey::FindCoordinator
            | ApiKey::JoinGroup
            | ApiKey::Heartbeat
            | ApiKey::LeaveGroup
            | ApiKey::SyncGroup
            | ApiKey::DescribeGroups
            | ApiKey::ListGroups
            | ApiKey::DeleteGroups
            | ApiKey::OffsetDelete
            | ApiKey::WriteTxnMarkers
            | ApiKey::DescribeProducers
            | ApiKey::ConsumerGroupHeartbeat
            | ApiKey::ConsumerGroupDescribe
            | ApiKey::CreateTopics
            | ApiKey::DeleteTopics
            | ApiKey::DeleteRecords
            | ApiKey::InitProducerId
            | ApiKey::OffsetForLeaderEpoch
            | ApiKey::DescribeConfigs
            | ApiKey::AlterConfigs
            | ApiKey::IncrementalAlterConfigs
            | ApiKey::CreatePartitions
            | ApiKey::DescribeLogDirs
            | ApiKey::DescribeAcls
            | ApiKey::CreateAcls
            | ApiKey::DeleteAcls
            | ApiKey::ElectLeaders
            | ApiKey::AlterPartitionReassignments
            | ApiKey::ListPartitionReassignments
            | ApiKey::DescribeQuorum
            | ApiKey::UnregisterBroker
            | ApiKey::DescribeTopicPartitions
            | ApiKey::AlterReplicaLogDirs
            | ApiKey::UpdateFeatures
            | ApiKey::ListConfigResources
            | ApiKey::DescribeCluster => "close",
        };
        check(row.key.code(), row.min - 1, outside);
        check(row.key.code(), row.max + 1, outside);
        check(row.key.code(), -1, outside);
        check(row.key.code(), i16::MAX, outside);
    }
    check(-1, 0, "close");
    check(52, 0, "close");
    check(999, 0, "close");
}

// Goal: the ranges advertised are Kafka 4.3's, Produce from 0. Method: the whole list.
#[test]
fn api_versions_response() {
    let feature = |min_version| SupportedFeatureKey {
        name: "f".into(),
        min_version,
        max_version: 9,
    };
    let response = ApiVersionsResponse::served(3, vec![feature(0), feature(1)]);
    let ranges: Vec<(i16, i16, i16)> = response
        .api_keys
        .iter()
        .map(|api| (api.api_key, api.min_version, api.max_version))
        .collect();
    let expected = [
        (0, 0, 13),
        (1, 4, 18),
        (2, 1, 11),
        (3, 0, 13),
        (8, 2, 10),
        (9, 1, 10),
        (10, 0, 6),
        (11, 0, 9),
        (12, 0, 4),
        (13, 0, 5),
        (14, 0, 5),
        (15, 0, 6),
        (16, 0, 5),
        (18, 0, 4),
        (19, 2, 7),
        (20, 1, 6),
        (21, 0, 2),
        (22, 0, 5),
        (23, 2, 4),
        (24, 0, 5),
        (25, 0, 4),
        (26, 0, 5),
        (27, 1, 2),
        (28, 0, 5),
        (29, 1, 3),
        (30, 1, 3),
        (31, 1, 3),
        (32, 1, 4),
        (33, 0, 2),
        (34, 1, 2),
        (35, 1, 5),
        (37, 0, 3),
        (42, 0, 2),
        (43, 0, 2),
        (44, 0, 1),
        (45, 0, 1),
        (46, 0, 0),
        (47, 0, 0),
        (55, 0, 2),
        (57, 0, 2),
        (60, 0, 2),
        (61, 0, 0),
        (64, 0, 0),
        (65, 0, 0),
        (66, 0, 2),
        (68, 0, 1),
        (69, 0, 1),
        (74, 0, 1),
        (75, 0, 0),
    ];
    assert_eq!(ranges, expected);
    // KAFKA-17011: older clients die of a feature that begins at 0.
    assert_eq!(response.supported_features, [feature(1)]);
    let newest = ApiVersionsResponse::served(4, vec![feature(0), feature(1)]);
    assert_eq!(newest.supported_features.len(), 2);
}

// Goal: the answer to an unknown version is what every client can read. Method: its bytes, and our client's reading.
#[test]
fn unsupported_version_response() {
    let response = ApiVersionsResponse::unsupported_version();
    let frame = header::response_frame(7, 0, &response).into_bytes();
    let expected = [
        0, 0, 0, 16, 0, 0, 0, 7, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4,
    ];
    assert_eq!(frame[..], expected);
    let read = ApiVersionsResponse::decode_or_refused(&mut Reader::new(&frame[8..]), 4);
    assert_eq!(read, Ok(response));
}

// Goal: software names are checked by Kafka's rule from version 3 on. Method: both sides of it.
#[test]
fn client_software_names() {
    fn check(word: &str, expected: bool) {
        let request = ApiVersionsRequest {
            client_software_name: word.into(),
            client_software_version: "1.0".into(),
        };
        assert_eq!(request.is_valid(3), expected, "{word:?}");
        assert!(request.is_valid(2));
    }
    for word in ["a", "apache-kafka-java", "4.3.1", "A1", "a--..b"] {
        check(word, true);
    }
    for word in ["", "-", "-a", "a.", "a b", "a_b", "ä"] {
        check(word, false);
    }
}

// Goal: a Produce request's records come out of its frame without a copy. Method: addresses inside the frame.
#[test]
fn produce_is_split_without_copying() {
    let partition = |index, records: &'static [u8]| PartitionProduceData {
        index,
        records: Some(Records::Bytes(Bytes::from_static(records))),
    };
    let request = ProduceRequest {
        acks: -1,
        topic_data: vec![TopicProduceData {
            name: "topic".into(),
            partition_data: vec![partition(0, b"first"), partition(1, b"second")],
            ..TopicProduceData::default()
        }],
        ..ProduceRequest::default()
    };
    let mut writer = Writer::new();
    request.encode(&mut writer, 9);
    let frame = BytesMut::from(&writer.into_bytes()[..]);
    let address = frame.as_ptr();
    let decoded = ProduceRequest::decode(&mut Reader::new(&frame), 9).unwrap();
    let ranges: Vec<_> = decoded.topic_data[0]
        .partition_data
        .iter()
        .map(|partition| partition.records.as_ref().unwrap().range().unwrap())
        .collect();
    let mut splitter = FrameSplitter::new(frame);
    let first = splitter.take(ranges[0].clone());
    assert_eq!(first.as_ptr(), address.wrapping_add(ranges[0].start));
    assert_eq!(first, &b"first"[..]);
    let second = splitter.take_last(ranges[1].clone());
    assert_eq!(second.as_ptr(), address.wrapping_add(ranges[1].start));
    assert_eq!(second, &b"second"[..]);
}

// Goal: Fetch sends records as they are, and a client gets them as slices of its frame. Method: addresses again.
#[test]
fn fetch_passes_records_through() {
    let records = [Bytes::from(vec![1; 5000]), Bytes::from(vec![2; 5000])];
    let response = FetchResponse {
        responses: vec![FetchableTopicResponse {
            partitions: vec![PartitionData {
                records: Some(Records::Slices(
                    records.iter().cloned().map(Slice::Bytes).collect(),
                )),
                ..PartitionData::default()
            }],
            ..FetchableTopicResponse::default()
        }],
        ..FetchResponse::default()
    };
    for version in 4..=18 {
        let slices = encode_fetch_response(1, version, &response);
        let addresses: Vec<*const u8> = slices
            .iter()
            .map(|slice| match slice {
                Slice::Bytes(bytes) => bytes.as_ptr(),
                Slice::File(_) => unreachable!("none given"),
            })
            .collect();
        assert_eq!(addresses[1..3], [records[0].as_ptr(), records[1].as_ptr()]);
        let frame = header::response_frame(1, version, &response).into_bytes();
        let total: usize = slices.iter().map(Slice::size_bytes).sum();
        assert_eq!(frame.len(), total);
        assert_eq!(frame[..4], u32::try_from(total - 4).unwrap().to_be_bytes());
        let row = api::row(1).unwrap();
        let body = frame.slice(4..);
        let mut reader = Reader::shared(&body);
        header::ResponseHeader::decode(&mut reader, row, version).unwrap();
        let read = FetchResponse::decode(&mut reader, version).unwrap();
        let read = read.responses[0].partitions[0].records.as_ref().unwrap();
        assert_eq!(read.size_bytes(), 10_000);
        let within = frame.as_ptr_range();
        assert!(within.contains(&read.bytes().unwrap().as_ptr()));
    }
}

// Goal: what is not there in an error answer is encoded as clients expect. Method: defaults of the two hot responses.
#[test]
fn defaults_suit_clients() {
    let partition = PartitionData::default();
    assert_eq!(partition.records, Some(Records::EMPTY));
    assert_eq!(partition.aborted_transactions, None);
    let mut writer = Writer::new();
    ProduceResponse::default().encode(&mut writer, 10);
    // No endpoints: the tag is left out.
    assert_eq!(writer.into_bytes()[..], [1, 0, 0, 0, 0, 0]);
}
