//! Logs opened by the start-up manifest.

use pelton_model::PartitionId;

use super::*;
use crate::snapshot::LogManifest;

/// A closed log of several segments, with its rows.
fn closed() -> (Rig, LogManifest) {
    let rig = Rig::new(small_segments());
    for sequence in 0..40 {
        let base = rig.log.log_end().0;
        rig.append_spec(&Spec {
            epoch: i32::from(sequence > 20),
            producer: Some((5, sequence)),
            ..Spec::new(base, 1)
        });
    }
    let mut states = ProducerStates::new();
    for sequence in 34..40 {
        let facts = ProducerFacts {
            last_offset_delta: 0,
            producer: Some(ProducerStamp {
                id: ProducerId(5),
                epoch: ProducerEpoch(0),
                base_sequence: Sequence(sequence),
            }),
            is_transactional: false,
            max_timestamp: Timestamp(1_000 + i64::from(sequence)),
        };
        states.replay(Offset(i64::from(sequence)), &facts);
    }
    rig.close();
    let rows = block_on(rig.log.manifest("topic", PartitionId(0), &states.rows()));
    (rig, rows.expect("closed whole"))
}

fn resume(rig: &Rig, rows: &LogManifest) -> Option<(Log<MemoryDisk>, Recovery)> {
    let store = LogStore::new(rig.disk.clone());
    let options = rig.options(true, rows.log_end);
    block_on(Log::resume(&store, &directory(), rows, options))
}

// Goal: a log made from rows is the log that opening gives, and costs no open and no list. Method: both on equal disks; what they
// say, what they hold, and every file after more appends and another close.
#[test]
fn resumed_is_opened() {
    let (mut opened, _) = closed();
    opened.reopen(true, 40);
    let (mut resumed, rows) = closed();
    let before = resumed.disk.counts();
    let (log, recovery) = resume(&resumed, &rows).expect("untouched");
    let after = resumed.disk.counts();
    assert_eq!((after.opens, after.lists), (before.opens, before.lists));
    assert_eq!(recovery.producer_states.rows()[0].batches.len(), 5);
    resumed.log = log;
    let facts = |rig: &Rig| {
        let log = &rig.log;
        let epochs = (log.latest_epoch(), log.epoch_at(Offset(3)));
        (
            log.log_start(),
            log.log_end(),
            log.recovery_point(),
            log.size_bytes(),
            log.segment_count(),
            epochs,
        )
    };
    assert_eq!(facts(&resumed), facts(&opened));
    assert_eq!(resumed.read_all(0, 300), opened.read_all(0, 300));
    for rig in [&resumed, &opened] {
        rig.append(5, 2);
        rig.append(60, 1);
        rig.close();
    }
    assert_eq!(facts(&resumed), facts(&opened));
    let files = block_on(opened.disk.read_dir(&directory())).expect("healthy disk");
    assert!(files.len() > 10);
    for file in files {
        let path = directory().join(&file.name);
        assert_eq!(
            resumed.contents(&path),
            opened.contents(&path),
            "{}",
            file.name
        );
    }
}

// Goal: a start without the manifest remembers all five batches too. Method: open after a clean stop; Kafka's snapshot has one.
#[test]
fn window_is_refilled() {
    let mut rig = Rig::new(small_segments());
    let mut count = 0;
    // Until a roll lies between the last five batches.
    while count < 30
        || count - i32::try_from(rig.bases()[rig.bases().len() - 1]).expect("small") != 2
    {
        rig.append_spec(&Spec {
            producer: Some((5, count)),
            ..Spec::new(i64::from(count), 1)
        });
        count += 1;
    }
    let mut states = ProducerStates::new();
    let (last, _) = Spec {
        producer: Some((5, count - 1)),
        ..Spec::new(i64::from(count - 1), 1)
    }
    .build();
    super::super::producers::replay(&mut states, &BatchHeader::parse(&last).expect("built here"));
    let snapshot = Bytes::from(states.encode_snapshot(rig.log.log_end()));
    block_on(rig.log.close(Some(snapshot))).expect("healthy disk");
    for clean in [true, false] {
        let recovery = rig.reopen(clean, i64::from(count));
        let rows = recovery.producer_states.rows();
        let sequences: Vec<i32> = rows[0].batches.iter().map(|b| b.last_sequence.0).collect();
        assert_eq!(
            sequences,
            (count - 5..count).collect::<Vec<_>>(),
            "clean {clean}"
        );
    }
}

// Goal: rows are not believed of a directory that somebody has touched. Method: a table of touches.
#[test]
fn touched_directories() {
    fn check(touch: impl FnOnce(&Rig), is_believed: bool) {
        let (rig, rows) = closed();
        touch(&rig);
        assert_eq!(resume(&rig, &rows).is_some(), is_believed);
    }
    let last = |rig: &Rig| {
        let files = block_on(rig.disk.read_dir(&directory())).expect("healthy disk");
        let logs = files.into_iter().filter(|file| file.name.ends_with(".log"));
        directory().join(logs.map(|file| file.name).max().expect("segments"))
    };
    check(|_| {}, true);
    check(
        |rig| rig.disk.corrupt(&last(rig), |bytes| bytes.push(0)),
        false,
    );
    check(
        |rig| rig.disk.corrupt(&last(rig), |bytes| bytes.truncate(1)),
        false,
    );
    check(
        |rig| rig.disk.corrupt(&last(rig), |bytes| bytes[9] ^= 1),
        false,
    );
    check(
        |rig| block_on(rig.disk.remove_file(&rig.file(0, "index"))).expect("there"),
        false,
    );
    check(
        |rig| {
            let path = directory().join("00000000000000000099.log");
            block_on(rig.disk.open(&path, crate::disk::OpenMode::Create)).expect("healthy disk");
        },
        false,
    );
    check(
        |rig| block_on(rig.disk.remove_dir_all(&directory())).expect("there"),
        false,
    );
}

// Goal: rows that contradict themselves give no log, whatever their checksum said. Method: one wrong number at a time.
#[test]
fn rows_without_sense() {
    fn check(spoil: impl FnOnce(&mut LogManifest)) {
        let (rig, mut rows) = closed();
        spoil(&mut rows);
        assert!(resume(&rig, &rows).is_none());
    }
    check(|rows| rows.segments.clear());
    check(|rows| rows.segments[0].base = -1);
    check(|rows| rows.segments[1].base = 0);
    check(|rows| rows.segments.swap(0, 1));
    check(|rows| rows.segments[0].size_bytes = u64::MAX);
    check(|rows| rows.segments[0].since_entry = u64::MAX);
    check(|rows| rows.segments[0].max_timestamp = Some((5, 40)));
    check(|rows| rows.log_start = 41);
    check(|rows| rows.log_start = -1);
    check(|rows| rows.log_end = 3);
    check(|rows| rows.snapshot_at = Some(41));
    check(|rows| rows.epochs = vec![(1, 5), (0, 9)]);
    check(|rows| rows.producers[0].batches[0].1 = 40);
    check(|rows| rows.producers.push(rows.producers[0].clone()));
    let spoil_index = |change: fn(&mut crate::snapshot::IndexManifest)| {
        check(|rows| {
            let last = rows.segments.last_mut().and_then(|s| s.indexes.as_mut());
            change(last.expect("the active segment's are known"));
        });
    };
    spoil_index(|index| index.offset_count = u64::MAX);
    spoil_index(|index| index.offset_last = Some((1, u32::MAX)));
    spoil_index(|index| index.offset_last = Some((u32::MAX, 1)));
    spoil_index(|index| index.time_last = Some((1, u32::MAX)));
    spoil_index(|index| index.time_count = 0);
}
