//! Compaction of real logs: what stays, what readers see meanwhile, and every crash on the way.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_lite::future::block_on;
use pelton_model::batch::{BatchBuilder, BatchHeader, Batches, BuilderOptions, RecordIter};
use pelton_model::compression::Compression;
use pelton_model::{
    LeaderEpoch, Monotonic, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp,
};

use super::{BatchFacts, Rig, directory};
use crate::compaction::plan::{LogFacts, plan};
use crate::compaction::{
    CleanError, Cleaned, HashSeed, LastRecord, Pass, PassOptions, Policy, Settings, Step,
};
use crate::config::LogConfig;
use crate::disk::Disk;
use crate::error::StorageError;

const POLICY: Policy = Policy {
    min_cleanable_dirty_ratio: 0.0,
    min_compaction_lag_ms: 0,
    max_compaction_lag_ms: i64::MAX,
};
const ENOSPC: i32 = 28;
const EIO: i32 = 5;

pub(super) fn config() -> LogConfig {
    LogConfig {
        segment_size_bytes_max: 1_500,
        index_interval_bytes: 150,
        compacted: true,
        ..LogConfig::default()
    }
}

/// Offset, key, value.
pub(super) type Row = (i64, String, Option<String>);

/// A batch with keys: `keys[i]` is negative for a tombstone of the key.
fn keyed(base: i64, keys: &[i32], options: BuilderOptions) -> (Bytes, BatchFacts) {
    let mut builder = BatchBuilder::new(BuilderOptions {
        base_offset: Offset(base),
        leader_epoch: LeaderEpoch(0),
        ..options
    });
    for (offset, key) in (base..).zip(keys) {
        let name = format!("key-{}", key.abs());
        let value = format!("value-{offset}-of-{name}-and-some-more");
        let value = (0 <= *key).then_some(value.as_bytes());
        builder.append(Timestamp(1_000 + offset), Some(name.as_bytes()), value, &[]);
    }
    let bytes = builder.build();
    let header = BatchHeader::parse(&bytes).expect("built here");
    let facts = BatchFacts::from(&header);
    (bytes, facts)
}

pub(super) fn append(rig: &Rig, keys: &[i32], compression: Compression) {
    let options = BuilderOptions {
        compression,
        ..BuilderOptions::default()
    };
    let (bytes, facts) = keyed(rig.log.log_end().0, keys, options);
    block_on(rig.log.append(&[bytes], &[facts])).expect("healthy disk");
}

/// A log of several segments: 40 batches of three records over ten keys, some deleted.
fn filled() -> Rig {
    let rig = Rig::new(config());
    for round in 0..40_i32 {
        let keys = [round % 10 + 1, (round * 3) % 10 + 1, -(round % 7) - 1];
        let codec = u8::try_from(round % 5).expect("small");
        append(&rig, &keys, Compression::from_id(codec).expect("a codec"));
    }
    rig
}

pub(super) struct Told {
    cleaned_to: Option<i64>,
    now: i64,
    pub(super) settings: Settings,
    map_bytes: usize,
    /// The log end, where there are no transactions.
    pub(super) last_stable: Option<i64>,
}

pub(super) fn told(cleaned_to: Option<i64>, now: i64) -> Told {
    let settings = Settings {
        delete_retention_ms: 1_000,
        ..Settings::default()
    };
    Told {
        cleaned_to,
        now,
        settings,
        map_bytes: 1 << 20,
        last_stable: None,
    }
}

fn begin(rig: &Rig, told: &Told) -> Result<Pass<crate::disk::memory::MemoryDisk>, StorageError> {
    let closed = block_on(rig.log.closed_segments(true, true))?;
    let facts = LogFacts {
        closed: &closed,
        active_base: rig.log.active_base(),
        log_start: rig.log.log_start(),
        log_end: rig.log.log_end(),
        last_stable: told.last_stable.map_or(rig.log.log_end(), Offset),
        cleaned_to: told.cleaned_to.map(Offset),
    };
    let options = PassOptions {
        plan: plan(&facts, &POLICY, Timestamp(told.now)),
        settings: told.settings.clone(),
        aborted: Vec::new(),
        now: Timestamp(told.now),
        map_bytes_max: told.map_bytes,
        load_factor: 0.9,
        seed: HashSeed([5, 6]),
    };
    Ok(Pass::new(&rig.log, options))
}

pub(super) fn clean(rig: &Rig, told: &Told) -> Result<Cleaned, CleanError> {
    let mut pass = begin(rig, told).map_err(CleanError::Log)?;
    loop {
        match block_on(pass.step(&rig.log, Monotonic(0))) {
            Ok(Step::Working { .. }) => {}
            Ok(Step::Done(cleaned)) => return Ok(cleaned),
            Err(error) => {
                block_on(pass.abandon());
                return Err(error);
            }
        }
    }
}

pub(super) fn rows_of(bytes: &[u8]) -> Vec<Row> {
    let bytes = Bytes::copy_from_slice(bytes);
    let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).expect("written here");
    let mut rows = Vec::new();
    for batch in Batches::new(&bytes) {
        let (header, batch) = batch.expect("whole batches");
        let batch = bytes.slice_ref(batch);
        assert!(pelton_model::batch::verify_crc(&batch));
        for record in RecordIter::new(&batch, 1 << 20).expect("a batch") {
            let record = record.expect("a record");
            let offset = record.offset(&header).0;
            assert_eq!(record.timestamp(&header), Timestamp(1_000 + offset));
            let key = record.key.map(text).expect("every record has a key");
            rows.push((offset, key, record.value.map(text)));
        }
    }
    rows
}

fn rows(rig: &Rig) -> Vec<Row> {
    rows_of(&rig.read_all(rig.log.log_start().0, 400))
}

/// What a consumer has after these rows.
fn replay(rows: &[Row]) -> BTreeMap<String, String> {
    let mut state = BTreeMap::new();
    for (_, key, value) in rows {
        match value {
            Some(value) => state.insert(key.clone(), value.clone()),
            None => state.remove(key),
        };
    }
    state
}

fn is_subsequence(part: &[Row], whole: &[Row]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|row| whole.any(|other| other == row))
}

// Goal: a pass leaves each key once, in fewer segments, and the log works on, also when it is opened again. Method: a pass
// over a filled log, reads from every offset, appends, reopening after a clean and an unclean stop, a second pass.
#[test]
fn a_pass() {
    let mut rig = filled();
    let before = rows(&rig);
    let (segments, size) = (rig.log.segment_count(), rig.log.size_bytes());
    let active = rig.log.active_base();
    let cleaned = clean(&rig, &told(None, 100)).expect("healthy disk");
    assert_eq!(cleaned.cleaned_to, active);
    assert!(!cleaned.is_partial);
    assert_eq!(cleaned.segments_before, segments - 1);
    assert_eq!(rig.log.segment_count(), cleaned.segments_after + 1);
    assert!(rig.log.size_bytes() < size);
    let after = rows(&rig);
    assert!(is_subsequence(&after, &before));
    assert_eq!(replay(&after), replay(&before));
    let mut keys: Vec<&String> = after
        .iter()
        .filter(|row| row.0 < active.0)
        .map(|row| &row.1)
        .collect();
    let count = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), count);
    for from in 0..rig.log.log_end().0 {
        let read = rows_of(&rig.read_all(from, 300));
        let wanted = after.iter().filter(|row| from <= row.0);
        assert!(wanted.eq(read.iter().filter(|row| from <= row.0)), "{from}");
    }
    append(&rig, &[1, 2, 3], Compression::None);
    let appended = rows(&rig);
    block_on(rig.log.sync()).expect("healthy disk");
    rig.reopen(false, 0);
    assert_eq!(rows(&rig), appended);
    rig.close();
    rig.reopen(true, 0);
    assert_eq!(rows(&rig), appended);
    assert!(rig.names().iter().all(|name| !name.ends_with(".swap")));
    // Nothing is dirty but the new tail.
    let again = clean(&rig, &told(Some(active.0), 200)).expect("healthy disk");
    assert!(active <= again.cleaned_to);
    assert_eq!(replay(&rows(&rig)), replay(&appended));
}

// Goal: a map that is too small takes several passes. Method: many keys, the smallest map.
#[test]
fn several_passes() {
    let rig = Rig::new(config());
    for round in 0..2 {
        for key in 0..60_i32 {
            append(
                &rig,
                &[3 * key + 1, 3 * key + 2, 3 * key + 3 + round],
                Compression::Lz4,
            );
        }
    }
    let before = rows(&rig);
    let mut told = told(None, 0);
    told.map_bytes = 0;
    let mut passes = 0;
    loop {
        let cleaned = clean(&rig, &told).expect("healthy disk");
        passes += 1;
        assert!(told.cleaned_to < Some(cleaned.cleaned_to.0));
        told.cleaned_to = Some(cleaned.cleaned_to.0);
        assert_eq!(replay(&rows(&rig)), replay(&before));
        if !cleaned.is_partial {
            break;
        }
    }
    assert!((3..10).contains(&passes), "{passes}");
    let active = rig.log.active_base();
    let below = rows(&rig).into_iter().filter(|row| row.0 < active.0);
    let newest = before.iter().filter(|row| row.0 < active.0);
    let newest: BTreeMap<&String, i64> = newest.map(|row| (&row.1, row.0)).collect();
    assert_eq!(below.count(), newest.len());
}

// Goal: a consumer in the middle of the log sees nothing twice, nothing out of order, and ends in the right state. Method:
// one that reads a batch between any two steps of a pass.
#[test]
fn readers_midway() {
    let rig = filled();
    let before = rows(&rig);
    let mut pass = begin(&rig, &told(None, 0)).expect("healthy disk");
    let mut seen: Vec<Row> = Vec::new();
    let mut position = 0;
    loop {
        let step = block_on(pass.step(&rig.log, Monotonic(0))).expect("healthy disk");
        let bytes = rig.read(position, rig.log.log_end().0, 1, true);
        if !bytes.is_empty() {
            seen.extend(rows_of(&bytes).into_iter().filter(|row| position <= row.0));
            position = super::end_of(&bytes).0;
        }
        if matches!(step, Step::Done(_)) {
            break;
        }
    }
    seen.extend(rows_of(&rig.read_all(position, 500)));
    assert!(is_subsequence(&seen, &before));
    assert_eq!(replay(&seen), replay(&before));
}

// Goal: whatever a crash interrupts, the next start has the old segments or the new ones. Method: a pass that is stopped by
// a fault at every operation in turn, a power cut with torn directories, and recovery, twice; then a whole pass.
#[test]
fn every_crash() {
    let mut at = 0;
    loop {
        let mut rig = filled();
        let before = rows(&rig);
        block_on(rig.log.sync()).expect("healthy disk");
        let point = rig.log.recovery_point().0;
        rig.disk.fail_after(at, EIO);
        let result = clean(&rig, &told(None, 100));
        let is_over = result.is_ok() && at > 200;
        rig.disk.fail_after(u64::MAX, EIO);
        rig.disk.crash(at);
        rig.reopen(false, if at.is_multiple_of(2) { point } else { 0 });
        let after = rows(&rig);
        assert_eq!(rig.log.log_end().0, 120, "{at}");
        assert!(is_subsequence(&after, &before), "{at}");
        assert_eq!(replay(&after), replay(&before), "{at}");
        rig.disk.crash(at + 1);
        rig.reopen(false, 0);
        assert_eq!(rows(&rig), after, "{at}");
        rig.empty_trash();
        let strange = |name: &String| {
            [".cleaned", ".swap", ".deleted"]
                .iter()
                .any(|end| name.ends_with(end))
        };
        assert!(!rig.names().iter().any(strange), "{at}: {:?}", rig.names());
        clean(&rig, &told(None, 100)).expect("healthy disk");
        assert_eq!(replay(&rows(&rig)), replay(&before), "{at}");
        if is_over {
            break;
        }
        at += 1;
    }
}

// Goal: a full disk costs a pass, not the log. Method: ENOSPC at every operation; the log reads and takes appends, nothing
// is left behind, a later pass succeeds.
#[test]
fn full_disk() {
    for at in 0..60 {
        let rig = filled();
        let before = rows(&rig);
        rig.disk.fail_after(at, ENOSPC);
        let result = clean(&rig, &told(None, 0));
        rig.disk.fail_after(u64::MAX, ENOSPC);
        if rig.log.is_failed() {
            // Past the point of no return: the next start finishes it.
            assert!(matches!(result, Err(CleanError::Log(_))));
            continue;
        }
        assert_eq!(replay(&rows(&rig)), replay(&before));
        append(&rig, &[1], Compression::None);
        let cleaned = rig
            .names()
            .iter()
            .filter(|name| name.ends_with(".cleaned"))
            .count();
        assert!(cleaned == 0 || result.is_err());
        clean(&rig, &told(None, 0)).expect("healthy disk");
        assert!(
            !rig.names().iter().any(|name| name.ends_with(".cleaned")),
            "{at}"
        );
    }
}

// Goal: damage is neither copied nor dropped. Method: a flipped bit in a closed segment.
#[test]
fn damaged_segment() {
    let rig = filled();
    let base = rig.bases()[1];
    rig.disk
        .corrupt(&rig.file(base, "log"), |bytes| bytes[200] ^= 4);
    let result = clean(&rig, &told(None, 0));
    assert!(
        matches!(result, Err(CleanError::Damaged { .. })),
        "{result:?}"
    );
    assert!(!rig.log.is_failed());
    assert!(!rig.names().iter().any(|name| name.ends_with(".cleaned")));
}

// Goal: what retention drops under a pass is not brought back. Method: the log start moves on between the steps, early
// and late; afterwards a whole pass.
#[test]
fn retention_meanwhile() {
    let mut changed = 0;
    for at in 0..20 {
        let rig = filled();
        let mut pass = begin(&rig, &told(None, 0)).expect("healthy disk");
        let mut result = Ok(Step::Working { bytes: 0 });
        for step in 0.. {
            if step == at {
                let start = Offset(rig.bases()[3]);
                block_on(rig.log.advance_log_start(start, Monotonic(0))).expect("healthy disk");
            }
            result = block_on(pass.step(&rig.log, Monotonic(0)));
            if !matches!(result, Ok(Step::Working { .. })) {
                break;
            }
        }
        if matches!(result, Err(CleanError::Changed)) {
            block_on(pass.abandon());
            changed += 1;
        }
        let start = rig.log.log_start();
        assert!(rows(&rig).iter().all(|row| start.0 <= row.0 + 3));
        assert!(
            rig.bases().iter().skip(1).all(|base| start.0 <= *base),
            "{at}"
        );
        let before = replay(&rows(&rig));
        clean(&rig, &told(None, 0)).expect("healthy disk");
        assert_eq!(replay(&rows(&rig)), before);
    }
    assert!(changed > 0);
}

// Goal: idempotence survives. Method: a producer whose records are all superseded; its sequence is known to a recovery that
// has no snapshot to go by.
#[test]
fn producer_survives() {
    let mut rig = Rig::new(config());
    let options = BuilderOptions {
        producer_id: ProducerId(77),
        producer_epoch: ProducerEpoch(2),
        base_sequence: Sequence(40),
        ..BuilderOptions::default()
    };
    let (bytes, facts) = keyed(0, &[1, 2], options);
    block_on(rig.log.append(&[bytes], &[facts])).expect("healthy disk");
    for _ in 0..30 {
        append(&rig, &[1, 2], Compression::None);
    }
    let mut told = told(None, 0);
    let last = LastRecord {
        last_data_offset: Some(Offset(1)),
        epoch: ProducerEpoch(2),
    };
    told.settings.last_records.insert(ProducerId(77), last);
    clean(&rig, &told).expect("healthy disk");
    let first = BatchHeader::parse(&rig.read(0, 2, 1, true)).expect("a batch");
    assert_eq!((first.producer_id, first.record_count), (ProducerId(77), 0));
    block_on(rig.log.sync()).expect("healthy disk");
    let recovery = rig.reopen(false, 0);
    let state = recovery.producer_states.get(ProducerId(77));
    assert_eq!(state.map(|state| state.last_sequence()), Some(Sequence(41)));
}

// Goal: times are still found. Method: ListOffsets by time and by the largest timestamp before and after a pass.
#[test]
fn lookups_by_time() {
    let rig = filled();
    clean(&rig, &told(None, 0)).expect("healthy disk");
    let after = rows(&rig);
    for time in 1_000..1_130 {
        let found = block_on(rig.log.offset_for_timestamp(Timestamp(time))).expect("healthy disk");
        let expected = after.iter().find(|row| time <= 1_000 + row.0);
        assert_eq!(
            found.map(|found| found.offset.0),
            expected.map(|row| row.0),
            "{time}"
        );
    }
    let newest = block_on(rig.log.offset_of_max_timestamp()).expect("healthy disk");
    assert_eq!(newest.map(|found| found.offset), Some(Offset(119)));
}

// Goal: a log that is closed or deleted ends a pass. Method: each between two steps.
#[test]
fn closed_meanwhile() {
    let rig = filled();
    let mut pass = begin(&rig, &told(None, 0)).expect("healthy disk");
    block_on(pass.step(&rig.log, Monotonic(0))).expect("healthy disk");
    rig.close();
    let result = block_on(pass.step(&rig.log, Monotonic(0)));
    assert!(matches!(
        result,
        Err(CleanError::Log(StorageError::Closed { .. }))
    ));
    assert!(block_on(rig.disk.read_dir(&directory())).is_ok());
}
