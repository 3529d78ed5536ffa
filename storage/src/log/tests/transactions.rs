//! Transactions of a log against a naive model: the list of what was appended. Every record has a key of its own, so that compaction takes
//! aborted records alone, and a reader of committed ones sees the same before and after.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures_lite::future::block_on;
use pelton_model::batch::{BatchBuilder, BatchHeader, Batches, BuilderOptions, RecordIter};
use pelton_model::producer_state::{BatchFacts as ProducerFacts, MarkerFacts, ProducerStates};
use pelton_model::slice::Slice;
use pelton_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};
use proptest::prelude::*;

use super::Rig;
use super::compaction::{clean, config, told};
use crate::compaction::LastRecord;
use crate::config::LogConfig;
use crate::log::{BatchFacts, ReadOptions, ReadResult};
use crate::txn_index::AbortedTxn;

#[derive(Clone, Debug)]
enum Step {
    /// Records of a producer's transaction.
    Data(i64, usize),
    /// Its end.
    Marker(i64, bool),
    Roll,
    Sync,
    SyncRecords,
    /// Descriptors and caches go.
    Rest,
    CleanStop,
    Kill,
    PowerCut(u64),
    /// With the clock so far on.
    Compact(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..4_i64, 1..4_usize).prop_map(|(producer, count)| Step::Data(producer, count)),
        8 => (0..4_i64, any::<bool>()).prop_map(|(producer, commits)| Step::Marker(producer, commits)),
        1 => Just(Step::Roll),
        1 => Just(Step::Sync),
        1 => Just(Step::SyncRecords),
        1 => Just(Step::Rest),
        1 => Just(Step::CleanStop),
        1 => Just(Step::Kill),
        1 => any::<u64>().prop_map(Step::PowerCut),
        2 => (0..5_000_i64).prop_map(Step::Compact),
    ]
}

/// What was appended at an offset: the producer, the records, and for a marker whether it commits.
type Appended = (i64, i64, i64, Option<bool>);

/// A transaction: the producer, its first offset, its marker and whether that commits.
type Txn = (i64, i64, Option<(i64, bool)>);

struct Model {
    rig: Rig,
    states: ProducerStates,
    appended: Vec<Appended>,
    durable_end: i64,
    cleaned_to: Option<i64>,
    now: i64,
}

impl Model {
    fn new() -> Self {
        Self {
            // Were holes allowed, a power cut might take the middle of a log that nobody synced.
            rig: Rig::new(LogConfig {
                compacted: false,
                ..config()
            }),
            states: ProducerStates::new(),
            appended: Vec::new(),
            durable_end: 0,
            cleaned_to: None,
            now: 2_000,
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Data(producer, count) => self.data(producer, count),
            Step::Marker(producer, commits) => self.marker(producer, commits),
            Step::Roll => {
                let snapshot = self.snapshot();
                block_on(self.rig.log.roll(Some(snapshot))).expect("healthy disk");
            }
            Step::Sync => {
                let point = block_on(self.rig.log.sync()).expect("healthy disk");
                self.durable_end = point.0;
            }
            Step::SyncRecords => {
                let end = block_on(self.rig.log.sync_records()).expect("healthy disk");
                self.durable_end = end.0;
            }
            Step::Rest => block_on(self.rig.log.rest()).expect("healthy disk"),
            Step::CleanStop => {
                let snapshot = self.snapshot();
                block_on(self.rig.log.close(Some(snapshot))).expect("healthy disk");
                let end = self.rig.log.log_end().0;
                self.durable_end = end;
                self.reopen(true, end);
            }
            Step::Kill => self.reopen(false, self.rig.log.recovery_point().0),
            Step::PowerCut(seed) => {
                let point = self.rig.log.recovery_point().0;
                self.rig.disk.crash(seed);
                self.reopen(false, point);
            }
            Step::Compact(later) => self.compact(later),
        }
    }

    /// A power cut that took a marker after compaction took what it aborted would leave less than was open.
    fn compact(&mut self, later: i64) {
        self.run(&Step::Sync);
        self.now += later;
        let end = self.rig.log.log_end().0;
        let last = self.states.iter().map(|(id, state)| {
            let offset = state.last_offset();
            let last = LastRecord {
                last_data_offset: (offset != Offset::NONE).then_some(offset),
                epoch: state.epoch(),
            };
            (id, last)
        });
        let mut told = told(self.cleaned_to, self.now);
        told.settings.last_records = last.collect();
        told.last_stable = Some(self.stable_at(end));
        let cleaned = clean(&self.rig, &told).expect("healthy disk");
        self.cleaned_to = Some(cleaned.cleaned_to.0);
    }

    fn stable_at(&self, end: i64) -> i64 {
        self.open_at(end).into_iter().min().unwrap_or(end)
    }

    fn snapshot(&self) -> Bytes {
        Bytes::from(self.states.encode_snapshot(self.rig.log.log_end()))
    }

    fn data(&mut self, producer: i64, count: usize) {
        let known = self.states.get(ProducerId(producer));
        let sequence = known.map_or(0, |known| known.last_sequence().0 + 1);
        let base = self.rig.log.log_end();
        let (bytes, header) = batch(base, producer, sequence, None, count);
        self.states.replay(
            base,
            &ProducerFacts {
                last_offset_delta: header.last_offset_delta,
                producer: Some(
                    (
                        header.producer_id,
                        header.producer_epoch,
                        header.base_sequence,
                    )
                        .into(),
                ),
                is_transactional: true,
                max_timestamp: header.max_timestamp,
            },
        );
        let facts = BatchFacts::from(&header);
        block_on(self.rig.log.append(&[bytes], &[facts])).expect("healthy disk");
        self.appended
            .push((base.0, header.next_offset().0, producer, None));
    }

    fn marker(&mut self, producer: i64, commits: bool) {
        let base = self.rig.log.log_end();
        let (bytes, header) = batch(base, producer, -1, Some(commits), 1);
        let ended = self.states.replay_marker(&MarkerFacts {
            producer_id: ProducerId(producer),
            producer_epoch: ProducerEpoch(0),
            coordinator_epoch: 0,
            offset: base,
            timestamp: Timestamp(1_000),
        });
        let aborted = ended.filter(|_| !commits).map(|ended| AbortedTxn {
            producer_id: ProducerId(producer),
            first_offset: ended.first_offset,
            last_offset: base,
            last_stable_offset: ended.last_stable_offset,
        });
        let facts = BatchFacts::from(&header);
        let aborted: Vec<AbortedTxn> = aborted.into_iter().collect();
        let (bytes, facts) = ([bytes], [facts]);
        let append = self.rig.log.append_with_aborted(&bytes, &facts, &aborted);
        block_on(append).expect("healthy disk");
        self.appended
            .push((base.0, header.next_offset().0, producer, Some(commits)));
    }

    fn reopen(&mut self, clean: bool, recovery_point: i64) {
        let recovery = self.rig.reopen(clean, recovery_point);
        assert!(self.durable_end <= recovery.log_end.0);
        self.appended
            .retain(|(_, next, ..)| *next <= recovery.log_end.0);
        let end = self.appended.last().map_or(0, |(_, next, ..)| *next);
        assert_eq!(recovery.log_end.0, end);
        self.cleaned_to = self.cleaned_to.map(|to| to.min(end));
        self.states = recovery.producer_states;
        let mut open: Vec<i64> = self.open_at(end);
        open.sort_unstable();
        let first = self
            .states
            .iter()
            .filter_map(|(_, state)| state.current_txn_first_offset());
        let mut found: Vec<i64> = first.map(|offset| offset.0).collect();
        found.sort_unstable();
        assert_eq!(found, open);
    }

    fn transactions(&self) -> Vec<Txn> {
        let mut all: Vec<Txn> = Vec::new();
        for &(base, _, producer, end) in &self.appended {
            let mut mine = all.iter_mut();
            let open = mine.find(|(id, _, end)| *id == producer && end.is_none());
            match (end, open) {
                (None, None) => all.push((producer, base, None)),
                (Some(commits), Some((.., marker))) => *marker = Some((base, commits)),
                (None, Some(_)) | (Some(_), None) => {}
            }
        }
        all
    }

    fn open_at(&self, end: i64) -> Vec<i64> {
        let all = self.transactions().into_iter();
        let open = all.filter(|(_, first, marker)| *first < end && marker.is_none());
        open.map(|(_, first, _)| first).collect()
    }

    /// Every question below the last stable offset.
    fn check(&self) {
        let end = self.rig.log.log_end().0;
        let stable = self.stable_at(end);
        self.check_visible(stable);
        if self.cleaned_to.is_some() {
            return;
        }
        let all = self.transactions();
        for from in 0..stable {
            for up_to in from + 1..=stable {
                let overlaps = |(producer, first, marker): &Txn| {
                    let (marker, _) = marker.filter(|(_, commits)| !commits)?;
                    (from <= marker && *first < up_to).then_some((*producer, *first, marker))
                };
                let mut expected: Vec<_> = all.iter().filter_map(overlaps).collect();
                expected.sort_unstable_by_key(|(.., marker)| *marker);
                let found = self.rig.log.aborted(Offset(from), Offset(up_to));
                let found = block_on(found).expect("healthy disk").into_iter();
                let found: Vec<_> = found
                    .map(|txn| (txn.producer_id.0, txn.first_offset.0, txn.last_offset.0))
                    .collect();
                assert_eq!(found, expected, "{from}..{up_to} of {all:?}");
            }
        }
        self.check_ends(end);
    }

    /// A reader of committed records, from anywhere, with answers of any size.
    fn check_visible(&self, stable: i64) {
        let all = self.transactions();
        let is_committed = |producer: i64, base: i64| {
            let mut mine = all.iter().filter(|(id, ..)| *id == producer);
            let around = |(_, first, end): &&Txn| {
                end.is_some_and(|(end, commits)| *first <= base && base < end && commits)
            };
            mine.any(|txn| around(&txn))
        };
        let data = self.appended.iter().filter(|(.., end)| end.is_none());
        let committed = data.filter(|(base, _, producer, _)| is_committed(*producer, *base));
        let committed: Vec<i64> = committed
            .flat_map(|(base, next, ..)| *base..*next)
            .collect();
        for (start, bytes_max) in (0..stable).zip([1, 200, 450, 900].into_iter().cycle()) {
            let mut seen = Vec::new();
            let mut from = Offset(start);
            while from.0 < stable {
                let options = ReadOptions {
                    from,
                    up_to: Offset(stable),
                    bytes_max,
                    at_least_one: true,
                };
                let result = block_on(self.rig.log.read(options)).expect("in range");
                let Some(end) = result.end_offset else {
                    break;
                };
                let aborted = block_on(self.rig.log.aborted(from, end)).expect("healthy disk");
                let bytes = bytes_of(&result);
                from = visible(&bytes, from, &aborted, &mut seen);
            }
            let expected = committed.iter().filter(|&&offset| start <= offset);
            let expected: Vec<i64> = expected.copied().take_while(|it| *it < stable).collect();
            assert_eq!(seen, expected, "from {start}: {:?}", self.appended);
        }
    }

    /// What a read says of its end holds.
    fn check_ends(&self, log_end: i64) {
        for (from, bytes_max) in (0..log_end).zip([1, 100, 300, 700, 5_000].into_iter().cycle()) {
            let options = ReadOptions {
                from: Offset(from),
                up_to: Offset(log_end),
                bytes_max,
                at_least_one: true,
            };
            let result = block_on(self.rig.log.read(options)).expect("in range");
            let bytes = bytes_of(&result);
            let last = Batches::new(&bytes)
                .last()
                .map(|batch| batch.expect("whole").0);
            let next = last.map(|header| header.next_offset());
            assert_eq!(result.end_offset, next, "from {from}, {bytes_max} bytes");
        }
    }
}

fn bytes_of(result: &ReadResult) -> Bytes {
    let slices = result.slices.iter();
    let bytes: Vec<u8> = slices
        .flat_map(|slice| match slice {
            Slice::Bytes(bytes) => bytes.to_vec(),
            Slice::File(_) => panic!("the disk in memory has no descriptors"),
        })
        .collect();
    Bytes::from(bytes)
}

/// What a consumer makes of an answer: the offsets of records that count, and where it goes on.
fn visible(bytes: &Bytes, from: Offset, aborted: &[AbortedTxn], seen: &mut Vec<i64>) -> Offset {
    let mut next = from;
    let mut aborting = BTreeSet::new();
    let mut ahead = aborted.to_vec();
    ahead.sort_by_key(|txn| txn.first_offset);
    let mut ahead = ahead.into_iter().peekable();
    for found in Batches::new(bytes) {
        let (header, batch) = found.expect("whole");
        while let Some(txn) = ahead.next_if(|txn| txn.first_offset <= header.last_offset()) {
            aborting.insert(txn.producer_id);
        }
        next = header.next_offset();
        let records = RecordIter::new(&bytes.slice_ref(batch), 1 << 20).expect("a batch");
        for record in records.map(|record| record.expect("a record")) {
            let offset = record.offset(&header);
            if header.is_control() {
                if record.key.is_some_and(|key| key[3] == 0) {
                    aborting.remove(&header.producer_id);
                }
            } else if from <= offset && !aborting.contains(&header.producer_id) {
                seen.push(offset.0);
            }
        }
    }
    next
}

fn batch(
    base: Offset,
    producer: i64,
    sequence: i32,
    marker: Option<bool>,
    count: usize,
) -> (Bytes, BatchHeader) {
    let mut builder = BatchBuilder::new(BuilderOptions {
        base_offset: base,
        leader_epoch: LeaderEpoch(0),
        producer_id: ProducerId(producer),
        producer_epoch: ProducerEpoch(0),
        base_sequence: Sequence(sequence),
        transactional: true,
        control: marker.is_some(),
        ..BuilderOptions::default()
    });
    for offset in (base.0..).take(count) {
        match marker {
            Some(commits) => {
                let key = [0, 0, 0, u8::from(commits)];
                builder.append(Timestamp(1_000), Some(&key), Some(&[0; 6]), &[]);
            }
            None => {
                let key = offset.to_be_bytes();
                builder.append(Timestamp(1_000), Some(&key), Some(&[7; 40]), &[]);
            }
        }
    }
    let bytes = builder.build();
    let header = BatchHeader::parse(&bytes).expect("built here");
    (bytes, header)
}

proptest! {
    // Goal: the aborted transactions found for any range are exactly those that overlap it, a reader of committed records gets just those,
    // and a restart knows what is open, whatever comes between. Method: random transactions of four producers over small segments, with
    // compaction, syncs, stops, kills and power cuts.
    #[test]
    fn aborted_ranges(steps in prop::collection::vec(step(), 1..40)) {
        let mut model = Model::new();
        for step in &steps {
            model.run(step);
        }
        model.check();
        model.run(&Step::Kill);
        model.check();
    }
}
