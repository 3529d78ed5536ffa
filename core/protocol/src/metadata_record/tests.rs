//! Metadata and control records against logs that Apache Kafka 4.3.1 wrote, and against hostile bytes.
//!
//! The golden files: the log of a one-node cluster that created, grew and deleted topics, was stopped, started, killed
//! and started again (of its many NoOp batches two are kept); its `bootstrap.checkpoint`; its first snapshot.

use bytes::Bytes;
use pelton_model::batch::{Batches, RecordIter};
use pelton_model::record_type::control::{
    ControlRecord, KRaftVersionRecord, LeaderChangeMessage, Voter, VotersRecord,
};
use pelton_model::record_type::metadata::{
    FeatureLevelRecord, MetadataRecord, NoOpRecord, PartitionRecord, TopicRecord,
};
use pelton_model::{LeaderEpoch, Offset, Timestamp};

use super::{
    LogEntry, LogErrorCause, LogRecord, RecordError, batch_of, control_batch_of, decode,
    decode_with_version, encode, encode_version, records_of,
};
use crate::control_record;

const LOG: &[u8] = include_bytes!("../../tests/golden/cluster_metadata.kafka-4.3.1.bin");
const BOOTSTRAP: &[u8] = include_bytes!("../../tests/golden/bootstrap.kafka-4.3.1.checkpoint.bin");
const SNAPSHOT: &[u8] = include_bytes!("../../tests/golden/snapshot.kafka-4.3.1.checkpoint.bin");

/// The whole batches of a golden file.
fn batches(file: &'static [u8]) -> Vec<Bytes> {
    let bytes = Bytes::from_static(file);
    Batches::new(&bytes)
        .map(|batch| bytes.slice_ref(batch.unwrap().1))
        .collect()
}

fn entries(file: &'static [u8]) -> Vec<LogEntry> {
    let batches = batches(file).into_iter();
    batches
        .flat_map(|batch| records_of(&batch).unwrap())
        .collect()
}

// Goal: what Kafka wrote is read, and written back byte for byte. Method: every record of the golden files, re-encoded in
// the version in which it was found.
#[test]
fn golden_round_trip() {
    for batch in [LOG, BOOTSTRAP, SNAPSHOT].into_iter().flat_map(batches) {
        let iter = RecordIter::new(&batch, 1 << 20).unwrap();
        let is_control = iter.header().is_control();
        for record in iter {
            let record = record.unwrap();
            let value = record.value.unwrap();
            if is_control {
                let key = record.key.unwrap();
                let decoded = control_record::decode(&key, &value).unwrap();
                assert_eq!(control_record::encode(&decoded), (key, value));
            } else {
                assert_eq!(record.key, None);
                let (decoded, version) = decode_with_version(&value).unwrap();
                assert_eq!(encode_version(&decoded, version), value, "{decoded:?}");
                assert_eq!(decode(&encode(&decoded)), Ok(decoded));
            }
        }
    }
}

// Goal: whole batches come out as Kafka's. Method: rebuild the batches of the golden log whose records all are in the
// versions that we write, and compare bytes.
#[test]
fn golden_batches() {
    let mut compared = 0;
    for batch in batches(LOG) {
        let (header, _) = Batches::new(&batch).next().unwrap().unwrap();
        let mut metadata = Vec::new();
        let mut control = Vec::new();
        for entry in records_of(&batch).unwrap() {
            match entry.record {
                LogRecord::Metadata(record) => metadata.push(record),
                LogRecord::Control(record) => control.push(record),
            }
        }
        let (base, epoch, timestamp) = (
            header.base_offset,
            header.leader_epoch,
            header.base_timestamp,
        );
        let rebuilt = if header.is_control() {
            control_batch_of(&control, base, epoch, timestamp)
        } else {
            batch_of(&metadata, base, epoch, timestamp)
        };
        let older =
            |record: &MetadataRecord| matches!(record, MetadataRecord::BrokerRegistrationChange(_));
        if !metadata.iter().any(older) {
            assert_eq!(rebuilt, batch);
            compared += 1;
        }
    }
    assert!(compared >= 10, "{compared}");
}

// Goal: the golden log means what Kafka's own dump of it says. Method: offsets and fields taken from that dump.
#[test]
fn golden_log_contents() {
    let entries = entries(LOG);
    let at = |offset: i64| {
        let found = entries.iter().find(|entry| entry.offset == Offset(offset));
        found.unwrap().record.clone()
    };
    let voter = Voter {
        voter_id: 1,
        ..Voter::default()
    };
    let leader = LeaderChangeMessage {
        leader_id: 1,
        voters: vec![voter.clone()],
        granting_voters: vec![voter],
        ..LeaderChangeMessage::default()
    };
    assert_eq!(
        at(0),
        LogRecord::Control(ControlRecord::LeaderChange(leader))
    );
    let kraft = KRaftVersionRecord {
        kraft_version: 1,
        ..KRaftVersionRecord::default()
    };
    assert_eq!(
        at(1),
        LogRecord::Control(ControlRecord::KRaftVersion(kraft))
    );
    let LogRecord::Control(ControlRecord::Voters(VotersRecord { voters, .. })) = at(2) else {
        panic!("{:?}", at(2));
    };
    assert_eq!(voters[0].endpoints[0].port, 29093);
    assert_eq!(voters[0].kraft_version_feature.max_supported_version, 1);
    let level = FeatureLevelRecord {
        name: "metadata.version".into(),
        feature_level: 30,
    };
    assert_eq!(at(4), LogRecord::Metadata(level.into()));
    let topic_id = "Nzj4Vht-RRyn-W4JDPSsTA".parse().unwrap();
    let topic = TopicRecord {
        name: "orders".into(),
        topic_id,
    };
    assert_eq!(at(20), LogRecord::Metadata(topic.into()));
    let partition = PartitionRecord {
        partition_id: 1,
        topic_id,
        replicas: vec![1],
        isr: vec![1],
        leader: 1,
        leader_epoch: 0,
        partition_epoch: 0,
        directories: vec!["yd8JCgM2SbudV810Jq6rmw".parse().unwrap()],
        ..PartitionRecord::default()
    };
    assert_eq!(at(24), LogRecord::Metadata(partition.into()));
    let LogRecord::Metadata(MetadataRecord::PartitionChange(change)) = at(41) else {
        panic!("{:?}", at(41));
    };
    assert_eq!((change.leader, change.isr), (-1, Some(vec![])));
    assert_eq!(change.last_known_elr, Some(vec![1]));
    assert_eq!(entries.last().unwrap().epoch, LeaderEpoch(3));
}

// Goal: what we do not know is refused and named. Method: a table of bad values.
#[test]
fn refusals() {
    fn check(value: &[u8], expected: RecordError) {
        assert_eq!(decode(value), Err(expected));
    }
    check(&[2, 20, 0, 0], RecordError::FrameVersion(2));
    let unknown = |api_key| RecordError::UnknownType {
        api_key,
        version: 0,
    };
    check(&[1, 6, 0, 0], unknown(6));
    check(&[1, 29, 0, 0], unknown(29));
    check(&[1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0], unknown(u32::MAX));
    let record = "NoOpRecord";
    check(
        &[1, 20, 1, 0],
        RecordError::UnknownVersion { record, version: 1 },
    );
    check(
        &[1, 20, 0x80, 0x80, 4, 0],
        RecordError::UnknownVersion {
            record,
            version: 1 << 16,
        },
    );
    check(
        &[1, 20, 0, 0, 0],
        RecordError::Trailing {
            record,
            size_bytes: 1,
        },
    );
    // Tag 3 of two bytes: in the record itself, and in a part of it (the first entity of a quota).
    check(
        &[1, 20, 0, 1, 3, 2, 7, 7],
        RecordError::UnknownTag { record, tag: 3 },
    );
    let record = "ClientQuotaRecord";
    let quota = [
        &[1, 14, 0, 2, 2, b'u', 0, 1, 3, 2, 7, 7, 2, b'k'][..],
        &[0; 10],
    ];
    check(&quota.concat(), RecordError::UnknownTag { record, tag: 3 });
    let text = decode(&[1, 29, 0, 0]).unwrap_err().to_string();
    assert_eq!(text, "unknown metadata record type 29 (version 0)");
    assert!(matches!(decode(&[]), Err(RecordError::Body { .. })));
    assert!(matches!(decode(&[1, 2, 0]), Err(RecordError::Body { .. })));
}

// Goal: damage never goes unnoticed and never panics. Method: every byte of every golden batch flipped, with the CRC as it
// was and with a CRC that fits; every record value cut anywhere.
#[test]
fn damaged_batches() {
    for batch in [LOG, SNAPSHOT].into_iter().flat_map(batches) {
        for position in 0..batch.len() {
            let mut bad = batch.to_vec();
            bad[position] ^= 0x55;
            // The base offset and the leader epoch are outside the CRC.
            let is_covered = !(0..8).contains(&position) && !(12..16).contains(&position);
            let outcome = records_of(&Bytes::from(bad.clone()));
            assert!(outcome.is_err() || !is_covered, "{position}");
            let crc = crc_of(&bad);
            bad[17..21].copy_from_slice(&crc.to_be_bytes());
            let _survived = records_of(&Bytes::from(bad));
        }
        let values = RecordIter::new(&batch, 1 << 20).unwrap();
        for value in values.map(|record| record.unwrap().value.unwrap()) {
            for length in 0..value.len() {
                assert!(
                    decode(&value[..length]).is_err(),
                    "{value:?} cut at {length}"
                );
            }
        }
    }
}

/// CRC-32C of what a batch's CRC covers, bit by bit.
fn crc_of(batch: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0x82f6_3b78 * (crc & 1))
        })
    };
    !batch[21..].iter().fold(u32::MAX, step)
}

// Goal: an unknown record inside a batch names its offset. Method: a batch built around one.
#[test]
fn error_names_the_offset() {
    let records = [MetadataRecord::from(NoOpRecord {}), NoOpRecord {}.into()];
    let batch = batch_of(&records, Offset(40), LeaderEpoch(2), Timestamp(1));
    assert_eq!(records_of(&batch).unwrap()[1].offset, Offset(41));
    let mut bad = batch.to_vec();
    // The api key of the last record: before its version, its tag count and its header count.
    let at = bad.len() - 4;
    assert_eq!(bad[at], 20);
    bad[at] = 30;
    let crc = crc_of(&bad);
    bad[17..21].copy_from_slice(&crc.to_be_bytes());
    let error = records_of(&Bytes::from(bad)).unwrap_err();
    let unknown = RecordError::UnknownType {
        api_key: 30,
        version: 0,
    };
    assert_eq!(error.offset, Offset(41));
    assert_eq!(error.cause, LogErrorCause::Metadata(unknown));
}
