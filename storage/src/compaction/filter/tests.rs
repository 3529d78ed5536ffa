//! Tables for single rules, and a model of whole passes.

use std::collections::BTreeMap;

use bytes::BytesMut;
use pelton_model::batch::{BatchBuilder, BuilderOptions, RecordIter};
use pelton_model::compression::Compression;
use pelton_model::{LeaderEpoch, Sequence};
use proptest::prelude::*;

use super::super::key_map::HashSeed;
use super::*;
use crate::txn_index::AbortedTxn;

const RETENTION_MS: i64 = 1000;

type Pair<'a> = (Option<&'a str>, Option<&'a str>);

fn producer(id: i64, sequence: i32, is_transactional: bool) -> BuilderOptions {
    BuilderOptions {
        producer_id: ProducerId(id),
        producer_epoch: ProducerEpoch(0),
        base_sequence: Sequence(sequence),
        transactional: is_transactional,
        ..BuilderOptions::default()
    }
}

fn batch_of(options: BuilderOptions, base: i64, records: &[Pair<'_>]) -> Bytes {
    let mut builder = BatchBuilder::new(BuilderOptions {
        base_offset: Offset(base),
        leader_epoch: LeaderEpoch(1),
        ..options
    });
    for (offset, (key, value)) in (base..).zip(records) {
        let key = key.map(str::as_bytes);
        let value = value.map(str::as_bytes);
        builder.append(Timestamp(10_000 + offset), key, value, &[]);
    }
    builder.build()
}

fn batch(base: i64, records: &[Pair<'_>]) -> Bytes {
    batch_of(BuilderOptions::default(), base, records)
}

/// A marker: control type 0 aborts, 1 commits.
fn marker(base: i64, id: i64, kind: u8) -> Bytes {
    let options = BuilderOptions {
        control: true,
        ..producer(id, -1, true)
    };
    let mut builder = BatchBuilder::new(BuilderOptions {
        base_offset: Offset(base),
        ..options
    });
    let value: &[u8] = &[0, 0, 0, 0, 0, 9];
    builder.append(Timestamp(0), Some(&[0, 0, 0, kind]), Some(value), &[]);
    builder.build()
}

/// A log that is cleaned without files.
struct Pure {
    log: Vec<Bytes>,
    cleaned_to: Offset,
    settings: Settings,
    aborted: Vec<AbortedTxn>,
    map_bytes: usize,
}

impl Pure {
    fn new(log: Vec<Bytes>) -> Self {
        let settings = Settings {
            delete_retention_ms: RETENTION_MS,
            last_records: LastRecords::default(),
        };
        Self {
            log,
            cleaned_to: Offset(0),
            settings,
            aborted: Vec::new(),
            map_bytes: 1 << 20,
        }
    }

    fn end(&self) -> Offset {
        self.log.last().map_or(Offset(0), |batch| {
            BatchHeader::parse(batch).unwrap().next_offset()
        })
    }

    /// One pass over everything; returns its work and whether the map was full.
    fn clean(&mut self, now: i64) -> (Work, bool) {
        let map = KeyMap::new(self.map_bytes, 0.9, 1 << 40, HashSeed([3, 4]));
        let transactions = || Transactions::new(self.aborted.clone());
        let mut work = Work::new(
            self.settings.clone(),
            Timestamp(now),
            map,
            self.cleaned_to,
            transactions(),
        );
        let mut is_full = false;
        for batch in &self.log {
            let header = BatchHeader::parse(batch).unwrap();
            if self.cleaned_to <= header.last_offset() && !is_full {
                let mapped = work.map_batch(&header, batch, self.cleaned_to).unwrap();
                is_full = mapped == Mapped::Full;
            }
        }
        if !is_full {
            work.finish_map(self.end());
        }
        work.rewind(transactions());
        let end = self.end();
        let mut kept = Vec::new();
        for batch in &self.log {
            let header = BatchHeader::parse(batch).unwrap();
            let stays = work.clean_batch(&header, batch).unwrap();
            let is_last = header.next_offset() == end;
            kept.extend(stays.or_else(|| is_last.then(|| retain::empty(&header))));
        }
        self.log = kept;
        self.cleaned_to = work.map_end().plus(1);
        (work, is_full)
    }

    fn records(&self) -> Vec<(i64, Option<String>, Option<String>)> {
        let text = |bytes: Option<Bytes>| bytes.map(|b| String::from_utf8(b.to_vec()).unwrap());
        let mut all = Vec::new();
        for batch in &self.log {
            assert!(verify_crc(batch));
            let header = BatchHeader::parse(batch).unwrap();
            for record in RecordIter::new(batch, 1 << 20).unwrap() {
                let record = record.unwrap();
                let offset = record.offset(&header);
                assert_eq!(
                    record.timestamp(&header),
                    Timestamp(if header.is_control() {
                        0
                    } else {
                        10_000 + offset.0
                    })
                );
                all.push((offset.0, text(record.key), text(record.value)));
            }
        }
        all
    }

    fn offsets(&self) -> Vec<i64> {
        self.records().iter().map(|record| record.0).collect()
    }

    /// Base, last offset and record count of each batch.
    fn shape(&self) -> Vec<(i64, i64, i32)> {
        let shape = |batch: &Bytes| {
            let header = BatchHeader::parse(batch).unwrap();
            (
                header.base_offset.0,
                header.last_offset().0,
                header.record_count,
            )
        };
        self.log.iter().map(shape).collect()
    }
}

// Goal: newest value per key, offsets and batches kept, keyless records gone. Method: one log, each codec.
#[test]
fn newest_stays() {
    for compression in Compression::ALL {
        let options = BuilderOptions {
            compression,
            ..BuilderOptions::default()
        };
        let mut log = Pure::new(vec![
            batch_of(
                options,
                0,
                &[(Some("a"), Some("1")), (Some("b"), Some("2"))],
            ),
            batch_of(
                options,
                2,
                &[
                    (Some("c"), Some("3")),
                    (None, Some("x")),
                    (Some("a"), Some("4")),
                ],
            ),
            batch_of(options, 5, &[(Some("b"), Some("5"))]),
        ]);
        let (work, is_full) = log.clean(0);
        assert_eq!(log.offsets(), [2, 4, 5]);
        assert_eq!(log.shape(), [(2, 4, 2), (5, 5, 1)]);
        assert_eq!((log.cleaned_to, is_full), (Offset(6), false));
        let counts = work.counts();
        assert_eq!((counts.records_read, counts.records_kept), (6, 3));
        assert_eq!(counts.records_without_key, 1);
        let codec = |batch| BatchHeader::parse(batch).unwrap().attributes.compression();
        assert!(
            log.log
                .iter()
                .all(|batch| codec(batch) == Some(compression))
        );
        // Nothing more to do: the same bytes.
        let before = log.log.clone();
        log.clean(1);
        assert_eq!(log.log, before);
    }
}

// Goal: a tombstone outlives its key's values by the retention, then goes. Method: passes around the horizon.
#[test]
fn tombstones() {
    let mut log = Pure::new(vec![
        batch(0, &[(Some("a"), Some("1")), (Some("b"), Some("2"))]),
        batch(2, &[(Some("a"), None)]),
        batch(3, &[(Some("c"), Some("3"))]),
    ]);
    log.clean(50);
    assert_eq!(log.offsets(), [1, 2, 3]);
    let horizon =
        |log: &Pure, index: usize| delete_horizon(&BatchHeader::parse(&log.log[index]).unwrap());
    assert_eq!(horizon(&log, 0), None);
    assert_eq!(horizon(&log, 1), Some(Timestamp(50 + RETENTION_MS)));
    for now in [51, 50 + RETENTION_MS - 1] {
        log.clean(now);
        assert_eq!(log.offsets(), [1, 2, 3]);
        assert_eq!(horizon(&log, 1), Some(Timestamp(50 + RETENTION_MS)));
    }
    log.clean(50 + RETENTION_MS);
    assert_eq!(log.offsets(), [1, 3]);
    // The last batch stays as a header, and its offset with it.
    let mut log = Pure::new(vec![batch(0, &[(Some("a"), None)])]);
    log.clean(0);
    log.clean(RETENTION_MS);
    assert_eq!(log.shape(), [(0, 0, 0)]);
    log.clean(RETENTION_MS);
    assert_eq!(log.shape(), [(0, 0, 0)]);
}

// Goal: a batch beyond a full map is untouched and gets no horizon. Method: a map of few keys, tombstones behind its end.
#[test]
fn full_map() {
    let keys: Vec<String> = (0..100).map(|key| format!("k{key}")).collect();
    let records: Vec<Pair<'_>> = keys.iter().map(|key| (Some(key.as_str()), None)).collect();
    let mut log = Pure::new(vec![batch(0, &records[..50]), batch(50, &records[50..])]);
    log.map_bytes = 0;
    let capacity = 57;
    let (work, is_full) = log.clean(7);
    assert!(is_full);
    assert_eq!(work.map_end(), Offset(capacity - 1));
    let horizon = |batch: &Bytes| delete_horizon(&BatchHeader::parse(batch).unwrap());
    assert_eq!(
        log.log.iter().map(horizon).collect::<Vec<_>>(),
        [Some(Timestamp(1007)), None]
    );
    let (_, is_full) = log.clean(8);
    assert!(!is_full);
    assert_eq!(horizon(&log.log[1]), Some(Timestamp(1008)));
    assert_eq!(log.cleaned_to, Offset(100));
}

// Goal: an active producer's last batch stays, any other goes. Method: two producers, one of them expired.
#[test]
fn last_batch_of_a_producer() {
    let mut log = Pure::new(vec![
        batch_of(producer(1, 0, false), 0, &[(Some("a"), Some("1"))]),
        batch_of(producer(1, 1, false), 1, &[(Some("a"), Some("2"))]),
        batch_of(producer(2, 0, false), 2, &[(Some("a"), Some("3"))]),
        batch(3, &[(Some("a"), Some("4"))]),
    ]);
    let last = LastRecord {
        last_data_offset: Some(Offset(1)),
        epoch: ProducerEpoch(0),
    };
    log.settings.last_records.insert(ProducerId(1), last);
    log.clean(0);
    assert_eq!(log.shape(), [(1, 1, 0), (3, 3, 1)]);
    let header = BatchHeader::parse(&log.log[0]).unwrap();
    assert_eq!(header.last_sequence(), Sequence(1));
    assert_eq!(header.producer_id, ProducerId(1));
    log.settings.last_records.clear();
    log.clean(0);
    assert_eq!(log.shape(), [(3, 3, 1)]);
}

fn aborted(id: i64, first: i64, last: i64) -> AbortedTxn {
    AbortedTxn {
        producer_id: ProducerId(id),
        first_offset: Offset(first),
        last_offset: Offset(last),
        last_stable_offset: Offset(last),
    }
}

// Goal: aborted data goes and supersedes nothing; markers outlive their data by the retention. Method: one aborted and one
// committed transaction, passes around the horizon, what is listed for the transaction index.
#[test]
fn transactions() {
    let mut log = Pure::new(vec![
        batch(0, &[(Some("a"), Some("old"))]),
        batch_of(producer(1, 0, true), 1, &[(Some("a"), Some("aborted"))]),
        batch_of(producer(2, 0, true), 2, &[(Some("b"), Some("committed"))]),
        marker(3, 1, 0),
        marker(4, 2, 1),
        batch(5, &[(Some("c"), Some("last"))]),
    ]);
    log.aborted = vec![aborted(1, 1, 3)];
    let (mut work, _) = log.clean(10);
    // The aborted data is gone; its marker is seen with data in this pass, so it has no horizon yet.
    assert_eq!(log.offsets(), [0, 2, 3, 4, 5]);
    assert_eq!(work.take_retained(), [aborted(1, 1, 3)]);
    let horizons = |log: &Pure| -> Vec<Option<i64>> {
        let horizon = |batch: &Bytes| delete_horizon(&BatchHeader::parse(batch).unwrap());
        log.log
            .iter()
            .map(horizon)
            .map(|h| h.map(|h| h.0))
            .collect()
    };
    assert_eq!(horizons(&log), [None; 5]);
    let (mut work, _) = log.clean(20);
    assert_eq!(horizons(&log), [None, None, Some(1020), None, None]);
    assert_eq!(work.take_retained(), []);
    log.clean(1019);
    assert_eq!(log.offsets(), [0, 2, 3, 4, 5]);
    log.clean(1020);
    assert_eq!(log.offsets(), [0, 2, 4, 5]);
    // The committed data is superseded: its marker gets a horizon when the data is gone, and goes after it.
    log.log.push(batch(
        6,
        &[(Some("b"), Some("newer")), (Some("c"), Some("newer"))],
    ));
    log.clean(2000);
    assert_eq!(log.offsets(), [0, 4, 6, 7]);
    log.clean(2001);
    assert_eq!(horizons(&log), [None, Some(3001), None]);
    log.clean(3001);
    assert_eq!(log.offsets(), [0, 6, 7]);
}

// Goal: damage stops a pass. Method: a flipped bit in a record, a batch that cannot be decoded although its checksum holds.
#[test]
fn damage() {
    let good = batch(0, &[(Some("a"), Some("1"))]);
    let two = batch(0, &[(Some("a"), Some("1")), (Some("b"), Some("2"))]);
    let mut flipped = BytesMut::from(&good[..]);
    flipped[65] ^= 1;
    let header = BatchHeader::parse(&good).unwrap();
    let check = |bytes: Bytes, expected: Unclean| {
        let mut log = Pure::new(vec![good.clone()]);
        let (mut work, _) = log.clean(0);
        let header = BatchHeader::parse(&bytes).unwrap();
        assert_eq!(work.map_batch(&header, &bytes, Offset(0)), Err(expected));
        assert_eq!(work.clean_batch(&header, &bytes), Err(expected));
    };
    check(flipped.freeze(), Unclean::Checksum);
    let mut lying = BytesMut::from(&good[..]);
    let header = BatchHeader {
        record_count: 0,
        ..header
    };
    lying[..61].copy_from_slice(&header.to_bytes());
    let crc = crc32c_of(&lying[21..]);
    lying[17..21].copy_from_slice(&crc.to_be_bytes());
    check(lying.freeze(), Unclean::Batch(BatchError::TrailingBytes));
    // A record beyond the batch's last offset would carry the map's end with it.
    let header = BatchHeader {
        last_offset_delta: 0,
        ..BatchHeader::parse(&two).unwrap()
    };
    let mut astray = BytesMut::from(&two[..]);
    astray[..61].copy_from_slice(&header.to_bytes());
    let crc = crc32c_of(&astray[21..]);
    astray[17..21].copy_from_slice(&crc.to_be_bytes());
    let (mut work, _) = Pure::new(vec![good.clone()]).clean(0);
    let mapped = work.map_batch(&header, &astray.freeze(), Offset(0));
    assert_eq!(mapped, Err(Unclean::Offsets));
}

/// Bit by bit: tests need no speed.
fn crc32c_of(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (0_u32.wrapping_sub(crc & 1)));
        }
    }
    !crc
}

/// What a consumer has after these records.
fn replay<'a>(
    records: impl IntoIterator<Item = &'a (i64, Option<String>, Option<String>)>,
) -> BTreeMap<String, String> {
    let mut state = BTreeMap::new();
    for (_, key, value) in records {
        match (key, value) {
            (Some(key), Some(value)) => {
                state.insert(key.clone(), value.clone());
            }
            (Some(key), None) => {
                state.remove(key);
            }
            (None, _) => {}
        }
    }
    state
}

#[derive(Clone, Debug)]
enum Action {
    /// Keys and whether they have a value.
    Append {
        codec: u8,
        records: Vec<(Option<u8>, bool)>,
    },
    Clean {
        after_ms: i64,
        map_bytes: usize,
    },
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let record = (
        prop::option::weighted(0.95, 0_u8..100),
        prop::bool::weighted(0.7),
    );
    let append = (0_u8..5, prop::collection::vec(record, 1..40))
        .prop_map(|(codec, records)| Action::Append { codec, records });
    let clean = (0_i64..700, prop_oneof![Just(0_usize), Just(1 << 20)]).prop_map(
        |(after_ms, map_bytes)| Action::Clean {
            after_ms,
            map_bytes,
        },
    );
    prop::collection::vec(prop_oneof![3 => append, 1 => clean], 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // Goal: cleaning is invisible to a consumer. Method: random appends and passes with small and large maps against the log
    // as it was written: what is left is a subsequence; each key once below the cleaned offset; the newest value of each
    // key is there, a newest tombstone for its retention at least; a consumer that was anywhere in the old log ends in the
    // same state.
    #[test]
    fn model(actions in actions()) {
        let mut log = Pure::new(Vec::new());
        let mut written: Vec<(i64, Option<String>, Option<String>)> = Vec::new();
        let mut first_cleaned: BTreeMap<i64, i64> = BTreeMap::new();
        let mut now = 0;
        for action in actions {
            let (after_ms, map_bytes) = match action {
                Action::Append { codec, records } => {
                    let base = i64::try_from(written.len()).unwrap();
                    let rows: Vec<(Option<String>, Option<String>)> = (base..)
                        .zip(&records)
                        .map(|(offset, (key, has_value))| {
                            (key.map(|key| format!("k{key}")), has_value.then(|| format!("v{offset}")))
                        })
                        .collect();
                    let pairs: Vec<Pair<'_>> =
                        rows.iter().map(|(key, value)| (key.as_deref(), value.as_deref())).collect();
                    let compression = Compression::from_id(codec).unwrap();
                    let options = BuilderOptions { compression, ..BuilderOptions::default() };
                    log.log.push(batch_of(options, base, &pairs));
                    written.extend((base..).zip(rows).map(|(offset, (key, value))| (offset, key, value)));
                    continue;
                }
                Action::Clean { after_ms, map_bytes } => (after_ms, map_bytes),
            };
            now += after_ms;
            log.map_bytes = map_bytes;
            let end = log.end();
            let from = log.cleaned_to;
            let before = log.records();
            log.clean(now);
            let after = log.records();
            prop_assert_eq!(log.end(), end);
            prop_assert!(written.is_empty() || from < log.cleaned_to || from == end);
            let mut rest = before.iter();
            prop_assert!(after.iter().all(|record| rest.any(|old| old == record)));
            let is_clean = |offset: i64| offset < log.cleaned_to.0;
            let mut seen = BTreeMap::new();
            for (offset, key, _) in after.iter().filter(|record| is_clean(record.0)) {
                prop_assert!(key.is_some());
                prop_assert!(seen.insert(key, offset).is_none());
            }
            let mut newest: BTreeMap<&String, (i64, bool)> = BTreeMap::new();
            for (offset, key, value) in &written {
                if let Some(key) = key {
                    newest.insert(key, (*offset, value.is_some()));
                }
            }
            for (_, (offset, has_value)) in newest {
                let since = is_clean(offset).then(|| *first_cleaned.entry(offset).or_insert(now));
                let is_there = after.iter().any(|record| record.0 == offset);
                let may_go = !has_value && since.is_some_and(|since| since + RETENTION_MS <= now);
                prop_assert!(is_there || may_go, "{} at {}", offset, now);
            }
            prop_assert_eq!(replay(&after), replay(&written));
            // Everything that was written is newer than what a consumer at `at` has seen, unless tombstones went meanwhile.
            let went = before.iter().any(|r| r.2.is_none() && r.1.is_some() && !after.contains(r)
                && !written.iter().any(|w| w.0 > r.0 && w.1 == r.1));
            if !went {
                for at in (0..=before.len()).step_by(1 + before.len() / 8) {
                    let position = before.get(at).map_or(end.0, |record| record.0);
                    let ahead = after.iter().filter(|record| position <= record.0);
                    prop_assert_eq!(replay(before[..at].iter().chain(ahead)), replay(&written));
                }
            }
        }
    }
}
