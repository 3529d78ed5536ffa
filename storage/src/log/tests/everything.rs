//! All that may happen to a log at once, against a naive model: the list of every record ever appended.

use std::collections::BTreeMap;

use futures_lite::future::block_on;
use pelton_model::compression::Compression;
use pelton_model::{Monotonic, Offset, Timestamp};
use proptest::prelude::*;

use super::compaction::{Row, append, clean, config, rows_of, told};
use super::{Rig, directory, end_of};
use crate::config::LogConfig;
use crate::disk::Disk;
use crate::log::{Log, LogStore, OpenOptions, RetentionTerms};

#[derive(Clone, Debug)]
enum Step {
    /// Keys of one batch; negative for a tombstone.
    Append(Vec<i32>, u8),
    Roll,
    Sync,
    /// The recovery point is written down.
    Checkpoint,
    /// DeleteRecords, to a share of the log in percent.
    AdvanceStart(i64),
    RetainBytes(i64),
    /// With the clock so many records behind the newest.
    RetainTime(i64),
    /// With the clock so far behind the newest.
    Compact(i64),
    EmptyTrash,
    CleanStop,
    Kill,
    PowerCut(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let keys = prop::collection::vec(prop_oneof![4 => 1..9_i32, 1 => -8..0_i32], 1..5);
    prop_oneof![
        12 => (keys, 0..5_u8).prop_map(|(keys, codec)| Step::Append(keys, codec)),
        1 => Just(Step::Roll),
        2 => Just(Step::Sync),
        1 => Just(Step::Checkpoint),
        1 => (0..101_i64).prop_map(Step::AdvanceStart),
        1 => (0..6_000_i64).prop_map(Step::RetainBytes),
        1 => (0..200_i64).prop_map(Step::RetainTime),
        3 => (-3_000..100_i64).prop_map(Step::Compact),
        1 => Just(Step::EmptyTrash),
        1 => Just(Step::CleanStop),
        1 => Just(Step::Kill),
        2 => any::<u64>().prop_map(Step::PowerCut),
    ]
}

struct Model {
    rig: Rig,
    /// Every record, by its offset.
    written: BTreeMap<i64, Row>,
    end: i64,
    start: i64,
    durable_end: i64,
    cleaned_to: Option<i64>,
    /// What the checkpoint file says.
    recovery_point: i64,
}

impl Model {
    fn new() -> Self {
        Self {
            rig: Rig::new(config()),
            written: BTreeMap::new(),
            end: 0,
            start: 0,
            durable_end: 0,
            cleaned_to: None,
            recovery_point: 0,
        }
    }

    fn append(&mut self, keys: &[i32], codec: u8) {
        append(
            &self.rig,
            keys,
            Compression::from_id(codec).expect("a codec"),
        );
        let end = self.rig.log.log_end().0;
        assert_eq!(end, self.end + super::int(keys.len()));
        for row in rows_of(&self.rig.read(self.end, end, 1_000, true)) {
            self.written.insert(row.0, row);
        }
        self.end = end;
        assert!(self.written.contains_key(&(end - 1)));
    }

    fn retain(&mut self, config: LogConfig, now: i64) {
        self.rig.log.set_config(LogConfig {
            deletes: true,
            ..config
        });
        let terms = RetentionTerms {
            now: Timestamp(now),
            instant: Monotonic(0),
            high_watermark: Offset(self.end),
        };
        let retained = block_on(self.rig.log.retain(terms, || None)).expect("healthy disk");
        self.rig.log.set_config(self.rig.config);
        assert!(self.start <= retained.log_start.0);
        self.start = retained.log_start.0;
    }

    fn compact(&mut self, behind: i64) {
        let cleaned = clean(&self.rig, &told(self.cleaned_to, 1_000 + self.end - behind));
        let cleaned = cleaned.expect("healthy disk");
        // What is below the log start counts as clean.
        let closed_to = self.rig.log.active_base().0.max(self.start);
        assert!(cleaned.cleaned_to.0 <= closed_to);
        let before = self.cleaned_to.unwrap_or(0);
        self.cleaned_to = Some(before.max(cleaned.cleaned_to.0));
    }

    /// Opens the log again, twice: the second time finds what the first left.
    fn reopen(&mut self, clean: bool, is_lossy: bool) {
        let options = OpenOptions {
            config: self.rig.config,
            recovery_point: Offset(self.recovery_point),
            clean,
            log_start: Some(Offset(self.start)),
        };
        let mut ends = Vec::new();
        for _ in 0..2 {
            self.rig.store = LogStore::new(self.rig.disk.clone());
            let opened = block_on(Log::open(&self.rig.store, &directory(), options));
            let (log, recovery) = opened.expect("the log opens");
            self.rig.log = log;
            ends.push((recovery.log_end.0, self.rig.log.size_bytes()));
        }
        assert_eq!(ends[0], ends[1]);
        let end = ends[0].0;
        assert!(self.durable_end <= end && end <= self.end);
        assert!(is_lossy || end == self.end);
        self.end = end;
        self.written.retain(|offset, _| *offset < end);
        if is_lossy {
            // A compacted log may have gaps anyway, so what was not durable need not be lost from the end only.
            let found: BTreeMap<i64, Row> = self.found();
            // What a pass has written is durable.
            let durable_end = self.durable_end.max(self.cleaned_to.unwrap_or(0));
            self.written
                .retain(|offset, _| *offset < durable_end || found.contains_key(offset));
        }
        self.cleaned_to = self.cleaned_to.map(|to| to.min(end));
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Append(keys, codec) => self.append(&keys, codec),
            Step::Roll => block_on(self.rig.log.roll(None)).expect("healthy disk"),
            Step::Sync => {
                let end = block_on(self.rig.log.sync()).expect("healthy disk");
                assert_eq!(end.0, self.end);
                self.durable_end = self.end;
            }
            Step::Checkpoint => self.recovery_point = self.rig.log.recovery_point().0,
            Step::AdvanceStart(percent) => {
                let to = self.start + (self.end - self.start) * percent / 100;
                let moved = block_on(self.rig.log.advance_log_start(Offset(to), Monotonic(0)));
                assert_eq!(moved.expect("healthy disk"), Offset(to));
                self.start = to;
            }
            Step::RetainBytes(retention_bytes) => {
                let config = LogConfig {
                    retention_bytes,
                    ..self.rig.config
                };
                self.retain(config, 0);
            }
            Step::RetainTime(behind) => {
                let config = LogConfig {
                    retention_ms: 50,
                    ..self.rig.config
                };
                self.retain(config, 1_000 + self.end - behind);
            }
            Step::Compact(behind) => self.compact(behind),
            Step::EmptyTrash => self.empty_trash(),
            Step::CleanStop => {
                self.rig.close();
                self.durable_end = self.end;
                self.recovery_point = self.end;
                self.reopen(true, false);
            }
            Step::Kill => self.reopen(false, false),
            Step::PowerCut(seed) => {
                self.rig.disk.crash(seed);
                self.reopen(false, true);
            }
        }
    }

    fn empty_trash(&self) {
        let late = Monotonic(u64::MAX / 2);
        while block_on(self.rig.store.trash().empty(late, 10_000)).has_more {}
        let names = self.rig.names();
        assert!(
            !names.iter().any(|name| name.ends_with(".deleted")),
            "{names:?}"
        );
    }

    /// Every record that can be read: offsets go up, and each is what was written there.
    fn found(&self) -> BTreeMap<i64, Row> {
        let mut found = BTreeMap::new();
        let (mut from, mut last) = (self.start, -1);
        loop {
            let bytes = self.rig.read(from, self.end, 400, true);
            if bytes.is_empty() {
                // The end, or a gap that reaches to it.
                return found;
            }
            from = end_of(&bytes).0;
            for row in rows_of(&bytes) {
                assert!(last < row.0, "offsets go up");
                last = row.0;
                assert_eq!(Some(&row), self.written.get(&row.0));
                found.insert(row.0, row);
            }
        }
    }

    /// Everything that must be there is, unchanged and in order; what is missing was compacted with good reason.
    fn check(&self) {
        assert_eq!(self.rig.log.log_end().0, self.end);
        assert_eq!(self.rig.log.log_start().0, self.start);
        let found = self.found();
        let cleaned_to = self.cleaned_to.unwrap_or(0);
        // Below the clean end: the newest record of each key there.
        let mut newest = BTreeMap::new();
        for (offset, key, _) in self.written.range(..cleaned_to).map(|(_, row)| row) {
            newest.insert(key, *offset);
        }
        for (offset, row) in self.written.range(self.start..) {
            let is_superseded = *offset < cleaned_to && newest[&row.1] != *offset;
            let may_go = is_superseded || (*offset < cleaned_to && row.2.is_none());
            assert!(may_go || found.contains_key(offset), "{row:?} is missing");
        }
    }

    /// In the end the log goes, and nothing is left of it.
    fn delete(&self) {
        block_on(self.rig.log.delete(Monotonic(0))).expect("healthy disk");
        let late = Monotonic(u64::MAX / 2);
        while block_on(self.rig.store.trash().empty(late, 10_000)).has_more {}
        let parent = directory();
        let parent = parent.parent().expect("it has one");
        let left = block_on(self.rig.disk.read_dir(parent)).expect("it exists");
        assert!(left.is_empty(), "{left:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    // Goal: appends, rolls, retention, deleted records, compaction, stops, kills and power cuts together lose nothing that is
    // durable, change nothing, and drop only what they may; opening twice is opening once; deletion leaves nothing. Method: random
    // steps against the list of all records, checked after each.
    #[test]
    fn everything_at_once(steps in prop::collection::vec(step(), 1..60)) {
        let mut model = Model::new();
        for step in steps {
            model.run(step);
            model.check();
        }
        model.delete();
    }
}
