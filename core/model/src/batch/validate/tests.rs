//! Tests of the validation: a table of what Apache Kafka 4.3.1 answers, and the rules that a topic sets.

use super::*;
use crate::batch::{
    Attributes, BatchBuilder, BuilderOptions, LOG_OVERHEAD_BYTES, varint, verify_crc,
};
use crate::compression::compress;

const NOW: i64 = 1_700_000_000_000;

fn rules() -> ProduceRules {
    ProduceRules {
        now: Timestamp(NOW),
        max_message_bytes: 1_048_588,
        segment_bytes: 1 << 30,
        timestamp_type: TimestampType::CreateTime,
        before_max_ms: i64::MAX,
        after_max_ms: 3_600_000,
        compacted: false,
        produce_version: 7,
        has_transactional_id: false,
        decompressed_bytes_max: u64::MAX,
    }
}

fn validate(data: &[u8], rules: &ProduceRules) -> Result<ValidBatch, InvalidBatch> {
    validate_produce(data, rules, &mut Scratch::default())
}

fn check(name: &str, data: &[u8], expected: ErrorCode) {
    check_with(name, data, &rules(), expected);
}

fn check_with(name: &str, data: &[u8], rules: &ProduceRules, expected: ErrorCode) {
    let result = validate(data, rules);
    let error = result
        .as_ref()
        .map_or_else(|invalid| invalid.error, |_| ErrorCode::None);
    assert_eq!(error, expected, "{name}: {result:?}");
}

/// A record by hand, so that each field can lie.
struct RawRecord {
    size: Option<i64>,
    attributes: u8,
    timestamp_delta: i64,
    offset_delta: i64,
    key: Option<&'static [u8]>,
    headers: i64,
    tail: Vec<u8>,
}

fn record(offset_delta: i64) -> RawRecord {
    RawRecord {
        size: None,
        attributes: 0,
        timestamp_delta: 0,
        offset_delta,
        key: Some(b"k"),
        headers: 0,
        tail: Vec::new(),
    }
}

impl RawRecord {
    fn bytes(&self) -> Vec<u8> {
        let mut body = vec![self.attributes];
        varint::put(&mut body, self.timestamp_delta);
        varint::put(&mut body, self.offset_delta);
        match self.key {
            None => varint::put(&mut body, -1),
            Some(key) => {
                varint::put(&mut body, i64::try_from(key.len()).unwrap());
                body.extend_from_slice(key);
            }
        }
        body.extend_from_slice(b"\x02v");
        varint::put(&mut body, self.headers);
        body.extend_from_slice(&self.tail);
        let mut out = Vec::new();
        varint::put(
            &mut out,
            self.size.unwrap_or(i64::try_from(body.len()).unwrap()),
        );
        out.extend_from_slice(&body);
        out
    }
}

fn records(count: i64) -> Vec<u8> {
    (0..count).flat_map(|delta| record(delta).bytes()).collect()
}

/// A batch around `records`, its header changed by `change`, its CRC right.
fn batch(count: i32, records: &[u8], change: impl FnOnce(&mut BatchHeader)) -> Vec<u8> {
    let mut header =
        BatchHeader::parse(&BatchBuilder::new(BuilderOptions::default()).build()).unwrap();
    header.batch_length = i32::try_from(HEADER_BYTES + records.len() - LOG_OVERHEAD_BYTES).unwrap();
    header.base_timestamp = Timestamp(NOW);
    header.max_timestamp = Timestamp(NOW);
    header.record_count = count;
    header.last_offset_delta = count - 1;
    change(&mut header);
    let mut batch = [&header.to_bytes()[..], records].concat();
    let crc = compute_crc(&batch).to_be_bytes();
    batch[17..21].copy_from_slice(&crc);
    batch
}

fn good() -> Vec<u8> {
    batch(1, &records(1), |_| ())
}

fn with(change: impl FnOnce(&mut BatchHeader)) -> Vec<u8> {
    batch(1, &records(1), change)
}

fn with_byte(at: usize, byte: u8) -> Vec<u8> {
    let mut batch = good();
    batch[at] = byte;
    batch
}

// Goal: data around and before the CRC. Method: the cases seen on a real broker, by name.
#[test]
fn framing_of_the_data() {
    use ErrorCode::{CorruptMessage, InvalidRecord, None};
    check("good", &good(), None);
    check("records-empty", b"", InvalidRecord);
    check("records-5-bytes", b"12345", InvalidRecord);
    check("records-garbage", &[b'x'; 100], CorruptMessage);
    check(
        "records-bad-crc",
        &with_byte(20, good()[20] ^ 1),
        CorruptMessage,
    );
    check("magic-0", &with_byte(16, 0), InvalidRecord);
    check("magic-1", &with_byte(16, 1), InvalidRecord);
    check("magic-3", &with_byte(16, 3), CorruptMessage);
    check("magic--1", &with_byte(16, 0xff), CorruptMessage);
    check("two-batches", &[good(), good()].concat(), InvalidRecord);
    check(
        "batch-and-half",
        &[&good()[..], &good()[..30]].concat(),
        None,
    );
    check("batch-and-5-bytes", &[&good()[..], &[0; 5]].concat(), None);
    check(
        "batch-and-zeros",
        &[&good()[..], &[0; 61]].concat(),
        CorruptMessage,
    );
    check(
        "size-smaller",
        &with(|h| h.batch_length = 49),
        CorruptMessage,
    );
    check(
        "size-larger",
        &with(|h| h.batch_length = 500),
        InvalidRecord,
    );
    check(
        "size-negative",
        &with(|h| h.batch_length = -1),
        CorruptMessage,
    );
    check("size-zero", &with(|h| h.batch_length = 0), CorruptMessage);
    check("size-13", &with(|h| h.batch_length = 13), CorruptMessage);
    check(
        "size-14",
        &with(|h| h.batch_length = 14)[..26],
        CorruptMessage,
    );
    for end in 0..good().len() {
        check("every prefix", &good()[..end], InvalidRecord);
    }
    let valid = validate(&[&good()[..], &good()[..30]].concat(), &rules()).unwrap();
    assert_eq!(valid.size_bytes, good().len());
}

/// Checks a good batch whose header is changed.
fn lie(name: &str, expected: ErrorCode, change: impl FnOnce(&mut BatchHeader)) {
    check(name, &with(change), expected);
}

// Goal: counts and offsets of the header. Method: the cases seen on a real broker, by name.
#[test]
fn header_counts() {
    use ErrorCode::{InvalidRecord, None};
    lie("count-more", InvalidRecord, |h| h.record_count = 2);
    lie("count-negative", InvalidRecord, |h| h.record_count = -1);
    lie("count-huge", InvalidRecord, |h| h.record_count = i32::MAX);
    lie("last-delta-more", InvalidRecord, |h| {
        h.last_offset_delta = 5
    });
    lie("last-delta-negative", InvalidRecord, |h| {
        h.last_offset_delta = -1
    });
    lie("base-offset-77", InvalidRecord, |h| {
        h.base_offset = Offset(77)
    });
    lie("base-offset-negative", InvalidRecord, |h| {
        h.base_offset = Offset(-5)
    });
    lie("leader-epoch-99", None, |h| h.leader_epoch.0 = 99);
    check("count-zero", &batch(0, &[], |_| ()), InvalidRecord);
    let less = batch(2, &records(2), |h| h.record_count = 1);
    check("count-less", &less, InvalidRecord);
    // Count and last delta agree, the records do not.
    check(
        "records-more",
        &batch(1, &records(2), |_| ()),
        InvalidRecord,
    );
    check(
        "records-less",
        &batch(2, &records(1), |_| ()),
        InvalidRecord,
    );
    check(
        "records-much-less",
        &batch(i32::MAX, &records(1), |_| ()),
        InvalidRecord,
    );
}

// Goal: attributes, timestamps and producers. Method: the cases seen on a real broker, by name.
#[test]
fn header_meaning() {
    use ErrorCode::{InvalidRecord, InvalidTimestamp, None, UnknownServerError};
    let refused = ErrorCode::TransactionalIdAuthorizationFailed;
    lie("unused-bits", None, |h| h.attributes = Attributes(0x4000));
    lie("transactional", refused, |h| {
        h.attributes = Attributes(0x10)
    });
    lie("control", InvalidRecord, |h| {
        h.attributes = Attributes(0x20)
    });
    lie("append-time", None, |h| h.attributes = Attributes(0x08));
    lie("delete-horizon", None, |h| h.attributes = Attributes(0x40));
    for codec in 1..=7 {
        lie("codec", UnknownServerError, |h| {
            h.attributes = Attributes(codec)
        });
    }
    lie("timestamp-minus-1", None, |h| {
        h.base_timestamp = Timestamp(-1)
    });
    lie("timestamp-negative", None, |h| {
        h.base_timestamp = Timestamp(-5)
    });
    lie("future", InvalidTimestamp, |h| {
        h.base_timestamp.0 += 10_000_000_000
    });
    lie("max-timestamp-lies", None, |h| {
        h.max_timestamp = Timestamp(5)
    });
    lie("sequence", None, |h| {
        (h.producer_id, h.base_sequence) = (ProducerId(7), Sequence(5));
    });
    lie("sequence-missing", InvalidRecord, |h| {
        (h.producer_id, h.base_sequence) = (ProducerId(7), Sequence(-1));
    });
    lie("sequence without producer", None, |h| {
        h.base_sequence = Sequence(-7)
    });
}

// Goal: what the request itself allows. Method: zstd by version, transactional batches with an id.
#[test]
fn request_rules() {
    let early = ErrorCode::UnsupportedCompressionType;
    let zstd = with(|h| h.attributes = Attributes(4));
    for produce_version in [3, 6] {
        let rules = ProduceRules {
            produce_version,
            ..rules()
        };
        check_with("zstd-early", &zstd, &rules, early);
    }
    let with_id = ProduceRules {
        has_transactional_id: true,
        ..rules()
    };
    let transactional = with(|h| h.attributes = Attributes(0x10));
    check_with("transactional", &transactional, &with_id, ErrorCode::None);
    check_with("plain batch, id", &good(), &with_id, ErrorCode::None);
}

/// Checks a batch of one record, uncompressed and with each codec.
fn check_all(name: &str, expected: ErrorCode, records: &[u8]) {
    check(name, &batch(1, records, |_| ()), expected);
    for codec in 1..5_u8 {
        let packed = compress(Compression::from_id(codec).unwrap(), records, None);
        let data = batch(1, &packed, |h| h.attributes = Attributes(codec.into()));
        check(name, &data, expected);
    }
}

/// Checks a good record that is changed.
fn twist(name: &str, expected: ErrorCode, change: impl FnOnce(&mut RawRecord)) {
    let mut record = record(0);
    change(&mut record);
    check_all(name, expected, &record.bytes());
}

// Goal: records. Method: the cases seen on a real broker, by name, uncompressed and with each codec.
#[test]
fn record_fields() {
    use ErrorCode::{InvalidRecord, None};
    let huge = i64::from(i32::MAX);
    check_all("good", None, &records(1));
    check_all("no record", InvalidRecord, b"");
    check_all("key-length-minus-2", None, b"\x0e\0\0\0\x03\x02v\0");
    check_all(
        "value-length-large",
        InvalidRecord,
        b"\x10\0\0\0\x02k\xe8\x07v\0",
    );
    check_all("size-zero", InvalidRecord, b"\0");
    check_all("size-negative", InvalidRecord, b"\x01");
    check_all("size-overlong", InvalidRecord, &[0x80; 12]);
    check_all(
        "size-2-GiB",
        InvalidRecord,
        b"\xfe\xff\xff\xff\x0f\0\0\0\x01\x01\0",
    );
    check_all(
        "byte after",
        InvalidRecord,
        &[&records(1)[..], &[0]].concat(),
    );
    twist("size-too-large", InvalidRecord, |r| r.size = Some(300));
    twist("size-too-small", InvalidRecord, |r| r.size = Some(6));
    twist("trailing", InvalidRecord, |r| r.tail = b"zz".to_vec());
    twist("attributes-set", None, |r| r.attributes = 255);
    twist("headers-negative", InvalidRecord, |r| r.headers = -1);
    twist("headers-more", InvalidRecord, |r| r.headers = 3);
    twist("headers-huge", InvalidRecord, |r| r.headers = huge);
    let header = |tail: &[u8]| {
        let tail = tail.to_vec();
        RawRecord {
            headers: 1,
            tail,
            ..record(0)
        }
        .bytes()
    };
    check_all("header", None, &header(b"\x02h\x02x"));
    check_all("header-null-value", None, &header(b"\x02h\x01"));
    check_all("header-null-key", InvalidRecord, &header(b"\x01\x01"));
}

// Goal: offset deltas are not looked at where Kafka does not. Method: wrong and equal ones; compressed ones are refused.
#[test]
fn offset_deltas() {
    for second in [5, 0] {
        let records = [record(0).bytes(), record(second).bytes()].concat();
        check("deltas-wrong", &batch(2, &records, |_| ()), ErrorCode::None);
        let packed = compress(Compression::Gzip, &records, None);
        let data = batch(2, &packed, |h| h.attributes = Attributes(1));
        check("deltas-wrong, gzip", &data, ErrorCode::InvalidRecord);
    }
}

// Goal: sizes. Method: the bounds and one byte less.
#[test]
fn sizes() {
    let size = good().len();
    let at = |max_message_bytes, segment_bytes| ProduceRules {
        max_message_bytes,
        segment_bytes,
        ..rules()
    };
    check_with("fits", &good(), &at(size, size), ErrorCode::None);
    check_with(
        "message",
        &good(),
        &at(size - 1, size),
        ErrorCode::MessageTooLarge,
    );
    check_with(
        "segment",
        &good(),
        &at(size, size - 1),
        ErrorCode::RecordListTooLarge,
    );
    // The size is checked before the CRC, as in Kafka.
    check_with(
        "order",
        &with_byte(20, 0),
        &at(size - 1, size),
        ErrorCode::MessageTooLarge,
    );
}

// Goal: damage of compressed data is told from plain data. Method: the last byte but few flipped, the end cut.
#[test]
fn damaged_streams() {
    let text: Vec<u8> = (0..200).flat_map(|delta| record(delta).bytes()).collect();
    for codec in 1..5_u8 {
        let attributes = Attributes(codec.into());
        let packed = compress(Compression::from_id(codec).unwrap(), &text, None);
        let good = batch(200, &packed, |h| h.attributes = attributes);
        check("good", &good, ErrorCode::None);
        let cut = batch(200, &packed[..packed.len() - 9], |h| {
            h.attributes = attributes
        });
        check("cut", &cut, ErrorCode::CorruptMessage);
    }
}

// Goal: the true max timestamp is found and written. Method: lying headers, each codec, patch and validate again.
#[test]
fn max_timestamp_is_the_records() {
    for compression in Compression::ALL {
        let mut builder = BatchBuilder::new(BuilderOptions {
            compression,
            ..BuilderOptions::default()
        });
        for timestamp in [NOW - 5, NOW - 1, NOW - 9, NOW - 1] {
            builder.append(Timestamp(timestamp), None, Some(b"v"), &[]);
        }
        let mut data = builder.build().to_vec();
        let valid = validate(&data, &rules()).unwrap();
        assert_eq!(valid.timestamp_rewrite, None);
        assert_eq!(valid.max_timestamp_offset_delta, 1);
        assert_eq!((valid.record_count, valid.last_offset_delta), (4, 3));
        assert_eq!((valid.compression, valid.producer), (compression, None));
        patch::set_max_timestamp(&mut data, TimestampType::CreateTime, Timestamp(5));
        let valid = validate(&data, &rules()).unwrap();
        assert_eq!(valid.max_timestamp, Timestamp(NOW - 1));
        assert_eq!(
            valid.timestamp_rewrite,
            Some((TimestampType::CreateTime, Timestamp(NOW - 1)))
        );
        valid.patch(&mut data);
        assert!(verify_crc(&data));
        assert_eq!(validate(&data, &rules()).unwrap().timestamp_rewrite, None);
        // LogAppendTime: the append time, whatever the records say.
        let append_time = ProduceRules {
            timestamp_type: TimestampType::LogAppendTime,
            ..rules()
        };
        let valid = validate(&data, &append_time).unwrap();
        assert_eq!(valid.max_timestamp, Timestamp(NOW));
        valid.patch(&mut data);
        let header = BatchHeader::parse(&data).unwrap();
        assert_eq!(
            header.attributes.timestamp_type(),
            TimestampType::LogAppendTime
        );
        assert_eq!(header.attributes.compression(), Some(compression));
        assert!(verify_crc(&data));
        // Sent by a producer, such a batch is refused there, record by record.
        let invalid = validate(&data, &append_time).unwrap_err();
        assert_eq!(
            (invalid.error, invalid.record_errors.len()),
            (ErrorCode::InvalidTimestamp, 4)
        );
    }
}

// Goal: per-record errors name the records. Method: two bad of three, for each rule, and both rules at once.
#[test]
fn record_errors() {
    fn check_indexes(rules: &ProduceRules, error: ErrorCode, indexes: &[i32]) {
        let late = RawRecord {
            timestamp_delta: 3_600_001,
            ..record(1)
        };
        let keyless = RawRecord {
            key: None,
            ..record(2)
        };
        let data = [record(0).bytes(), late.bytes(), keyless.bytes()].concat();
        let invalid = validate(&batch(3, &data, |_| ()), rules).unwrap_err();
        assert_eq!(invalid.error, error);
        let got: Vec<i32> = invalid
            .record_errors
            .iter()
            .map(|(index, _)| *index)
            .collect();
        assert_eq!(got, indexes);
        assert!(
            invalid
                .record_errors
                .iter()
                .all(|(_, message)| !message.is_empty())
        );
        assert!(!invalid.message.is_empty());
    }
    let compacted = ProduceRules {
        compacted: true,
        ..rules()
    };
    check_indexes(&rules(), ErrorCode::InvalidTimestamp, &[1]);
    check_indexes(&compacted, ErrorCode::InvalidTimestamp, &[1, 2]);
    let lenient = ProduceRules {
        after_max_ms: i64::MAX,
        ..compacted
    };
    check_indexes(&lenient, ErrorCode::InvalidRecord, &[2]);
    // Exactly at the bounds is inside.
    let at = |delta, before_max_ms| {
        let data = batch(
            1,
            &RawRecord {
                timestamp_delta: delta,
                ..record(0)
            }
            .bytes(),
            |_| (),
        );
        validate(
            &data,
            &ProduceRules {
                before_max_ms,
                ..rules()
            },
        )
        .is_ok()
    };
    assert!(at(3_600_000, 10) && at(-10, 10));
    assert!(!at(3_600_001, 10) && !at(-11, 10));
}

// Goal: bombs cost a bound. Method: one record of 200 MiB of zeros in a few KiB, beyond what a batch may expand to.
#[test]
fn bombs() {
    let zeros = 200 << 20;
    let mut scratch = Scratch::default();
    let mut value = Vec::new();
    varint::put(&mut value, zeros);
    let mut front = vec![0, 0, 0, 1];
    front.extend_from_slice(&value);
    let mut record = Vec::new();
    varint::put(&mut record, i64::try_from(front.len()).unwrap() + zeros + 1);
    record.extend_from_slice(&front);
    let mut stream = ::zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    std::io::Write::write_all(&mut stream, &record).unwrap();
    for _ in 0..200 {
        std::io::Write::write_all(&mut stream, &vec![0; 1 << 20]).unwrap();
    }
    let packed = stream.finish().unwrap();
    assert!(packed.len() < 50_000);
    let data = batch(1, &packed, |h| h.attributes = Attributes(4));
    let invalid = validate_produce(&data, &rules(), &mut scratch).unwrap_err();
    assert_eq!(invalid.error, ErrorCode::MessageTooLarge);
    // A scratch that met a bomb serves the next batch.
    let mut builder = BatchBuilder::new(BuilderOptions {
        compression: Compression::Zstd,
        ..BuilderOptions::default()
    });
    builder.append(Timestamp(NOW), None, Some(b"v"), &[]);
    assert!(validate_produce(&builder.build(), &rules(), &mut scratch).is_ok());
}

// Goal: refused records are counted but not all named. Method: more keyless records than the bound.
#[test]
fn record_errors_are_bounded() {
    let count = i32::try_from(crate::limits::RECORD_ERRORS_MAX).unwrap() + 5;
    let data: Vec<u8> = (0..count)
        .flat_map(|delta| {
            RawRecord {
                key: None,
                ..record(delta.into())
            }
            .bytes()
        })
        .collect();
    let compacted = ProduceRules {
        compacted: true,
        ..rules()
    };
    let invalid = validate(&batch(count, &data, |_| ()), &compacted).unwrap_err();
    assert_eq!(
        invalid.record_errors.len(),
        crate::limits::RECORD_ERRORS_MAX
    );
    assert!(invalid.message.starts_with(&count.to_string()));
}
