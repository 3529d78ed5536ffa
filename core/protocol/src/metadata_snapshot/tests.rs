//! Snapshots against files that Apache Kafka 4.3.1 wrote, and against damage.

use bytes::Bytes;
use pelton_model::batch::Batches;
use pelton_model::record_type::control::LeaderChangeMessage;
use pelton_model::record_type::metadata::{ConfigRecord, FeatureLevelRecord, NoOpRecord};

use super::*;

const BOOTSTRAP: &[u8] = include_bytes!("../../tests/golden/bootstrap.kafka-4.3.1.checkpoint.bin");
const SNAPSHOT: &[u8] = include_bytes!("../../tests/golden/snapshot.kafka-4.3.1.checkpoint.bin");

fn read(bytes: &Bytes) -> Result<Vec<LogEntry>, SnapshotError> {
    SnapshotReader::new(bytes).collect()
}

fn concat(batches: &[Bytes]) -> Bytes {
    batches.concat().into()
}

// Goal: names are Kafka's. Method: a table of names, ours and Kafka's with its random numbers.
#[test]
fn names() {
    fn check(name: &str, expected: Option<SnapshotName>) {
        assert_eq!(parse_name(name), expected, "{name}");
    }
    let id = SnapshotId {
        end: Offset(1234),
        epoch: LeaderEpoch(7),
    };
    let name = "00000000000000001234-0000000007";
    assert_eq!(id.file_name(), format!("{name}.checkpoint"));
    check(&id.file_name(), Some(SnapshotName::Complete(id)));
    check(&id.partial_name(), Some(SnapshotName::Leftover));
    check(
        &format!("{name}-873264.checkpoint.part"),
        Some(SnapshotName::Leftover),
    );
    check(
        &format!("{name}.checkpoint.deleted"),
        Some(SnapshotName::Leftover),
    );
    check("bootstrap.checkpoint", None);
    check("bootstrap.checkpoint.part", None);
    check("leader-epoch-checkpoint", None);
    check("0000000000000000123x-0000000007.checkpoint", None);
    check("1234-7.checkpoint", None);
    check("99999999999999999999-0000000007.checkpoint", None);
    check("00000000000000001234-9999999999.checkpoint", None);
    check("ß0000000000000000123-000000007.checkpoint.part", None);
    assert!(SnapshotId::BOOTSTRAP < id);
}

// Goal: the files Kafka's formatting writes are read. Method: their contents, from Kafka's own dump of them.
#[test]
fn kafkas_files() {
    let bytes = Bytes::from_static(BOOTSTRAP);
    let entries = read(&bytes).unwrap();
    let features: Vec<(String, i16)> = entries
        .into_iter()
        .map(|entry| {
            let LogRecord::Metadata(MetadataRecord::FeatureLevel(record)) = entry.record else {
                panic!("{entry:?}");
            };
            (record.name, record.feature_level)
        })
        .collect();
    assert_eq!(features.len(), 6);
    assert_eq!(features[0], ("metadata.version".to_owned(), 30));
    let bytes = Bytes::from_static(SNAPSHOT);
    let mut reader = SnapshotReader::new(&bytes);
    let entries: Vec<LogEntry> = reader.by_ref().map(Result::unwrap).collect();
    assert!(matches!(
        entries[0].record,
        LogRecord::Control(ControlRecord::KRaftVersion(_))
    ));
    assert!(matches!(
        entries[1].record,
        LogRecord::Control(ControlRecord::Voters(_))
    ));
    assert!(reader.last_contained().is_some());
}

// Goal: what we write is Kafka's, byte for byte. Method: Kafka's formatted files, decoded and encoded at their own times, batch by
// batch.
#[test]
fn golden_bytes() {
    for file in [BOOTSTRAP, SNAPSHOT] {
        let bytes = Bytes::from_static(file);
        let times: Vec<Timestamp> = Batches::new(&bytes)
            .map(|batch| batch.unwrap().0.base_timestamp)
            .collect();
        let mut reader = SnapshotReader::new(&bytes);
        let (mut quorum, mut records) = (Vec::new(), Vec::new());
        for entry in reader.by_ref() {
            match entry.unwrap().record {
                LogRecord::Control(record) => quorum.push(record),
                LogRecord::Metadata(record) => records.push(record),
            }
        }
        let mut encoder = SnapshotEncoder::new(LeaderEpoch(0), times[0]);
        let mut written = vec![encoder.header(reader.last_contained().unwrap(), quorum)];
        if !records.is_empty() {
            encoder.now = times[1];
            written.push(encoder.records(&records).0);
        }
        encoder.now = times[times.len() - 1];
        written.push(encoder.footer());
        assert_eq!(concat(&written), bytes);
    }
}

fn config(bytes: usize) -> MetadataRecord {
    let record = ConfigRecord {
        resource_type: 2,
        resource_name: "t".to_owned(),
        name: "n".to_owned(),
        value: Some("v".repeat(bytes)),
    };
    record.into()
}

// Goal: batches are bounded in records and bytes and lose nothing. Method: many small records, fewer large ones.
#[test]
fn batches_are_bounded() {
    fn check(records: &[MetadataRecord], batches_expected: usize) {
        let batches = encode(LeaderEpoch(3), Timestamp(5), Vec::new(), records);
        let sizes: Vec<usize> = batches.iter().map(Bytes::len).collect();
        assert_eq!(batches.len(), batches_expected + 2, "{sizes:?}");
        let read: Vec<MetadataRecord> = read(&concat(&batches))
            .unwrap()
            .into_iter()
            .map(|entry| match entry.record {
                LogRecord::Metadata(record) => record,
                LogRecord::Control(other) => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(read, records);
    }
    check(&[], 0);
    check(&vec![NoOpRecord {}.into(); RECORDS_MAX], 1);
    check(&vec![NoOpRecord {}.into(); 2 * RECORDS_MAX + 1], 3);
    // 32 of these and the header pass 1 MiB.
    check(&vec![config(32_760); 64], 3);
}

// Goal: only a whole snapshot counts. Method: batches left out, doubled, reordered; every cut; every byte flipped.
#[test]
fn damage() {
    let level = FeatureLevelRecord {
        name: "metadata.version".to_owned(),
        feature_level: 30,
    };
    let batches = encode(LeaderEpoch(1), Timestamp(1), Vec::new(), &[level.into()]);
    let [header, records, footer] = &batches[..] else {
        panic!("{batches:?}");
    };
    let check = |batches: &[&Bytes], expected: SnapshotError| {
        let bytes: Bytes = batches.iter().flat_map(|batch| batch.to_vec()).collect();
        assert!(expected.is_damage());
        assert_eq!(read(&bytes), Err(expected));
    };
    check(&[], SnapshotError::NoHeader);
    check(&[records, footer], SnapshotError::NoHeader);
    check(&[footer], SnapshotError::NoHeader);
    check(&[header, header], SnapshotError::NoHeader);
    check(&[header], SnapshotError::NoFooter);
    check(&[header, records], SnapshotError::NoFooter);
    check(&[header, footer, records], SnapshotError::AfterFooter);
    let whole = concat(&batches);
    for length in 0..whole.len() {
        let error = read(&whole.slice(..length)).unwrap_err();
        assert!(error.is_damage(), "{length}: {error}");
    }
    for position in 0..whole.len() {
        let mut bad = whole.to_vec();
        bad[position] ^= 0x40;
        // Base offset and leader epoch of a batch are outside the CRC and mean nothing here; nothing may panic.
        let _outcome = read(&bad.into());
    }
}

// Goal: what is whole but strange is no damage, so no older snapshot may hide it. Method: an unknown record; a log's control record.
#[test]
fn strangers() {
    let mut encoder = SnapshotEncoder::new(LeaderEpoch(1), Timestamp(1));
    let header = encoder.header(Timestamp(1), Vec::new());
    let leader = ControlRecord::LeaderChange(LeaderChangeMessage::default());
    let stranger = encoder.control(&[leader]);
    let error = read(&concat(&[header.clone(), stranger])).unwrap_err();
    assert_eq!(error, SnapshotError::Misplaced { key_type: 2 });
    assert!(!error.is_damage());
    let mut builder = BatchBuilder::new(metadata_record::batch_options(Offset(1), LeaderEpoch(1)));
    builder.append(Timestamp(1), None, Some(&[1, 99, 0, 0]), &[]);
    let error = read(&concat(&[header, builder.build()])).unwrap_err();
    assert!(!error.is_damage());
    assert!(error.to_string().contains("type 99"), "{error}");
}
