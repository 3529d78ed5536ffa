//! The log against a naive model: a list of batches and how many of them are durable.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Append {
        batches: usize,
        records: usize,
        value_bytes: usize,
        new_epoch: bool,
    },
    Roll,
    Sync,
    SyncRecords,
    Read {
        from: u16,
        bytes_max: usize,
    },
    CleanStop,
    Kill,
    PowerCut {
        seed: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..6_usize, 1..5_usize, 0..400_usize, prop::bool::weighted(0.1)).prop_map(
            |(batches, records, value_bytes, new_epoch)| Step::Append {
                batches, records, value_bytes, new_epoch,
            }
        ),
        1 => Just(Step::Roll),
        1 => Just(Step::Sync),
        1 => Just(Step::SyncRecords),
        4 => (any::<u16>(), 1..4_000_usize)
            .prop_map(|(from, bytes_max)| Step::Read { from, bytes_max }),
        1 => Just(Step::CleanStop),
        1 => Just(Step::Kill),
        1 => any::<u64>().prop_map(|seed| Step::PowerCut { seed }),
    ]
}

struct Model {
    rig: Rig,
    /// Every batch with its end offset.
    batches: Vec<(Bytes, i64)>,
    /// How many of them are durable.
    durable: usize,
    epoch: i32,
}

impl Model {
    fn bytes(&self) -> Vec<u8> {
        self.batches
            .iter()
            .flat_map(|(bytes, _)| bytes.to_vec())
            .collect()
    }

    fn end(&self) -> i64 {
        self.batches.last().map_or(0, |(_, end)| *end)
    }

    fn append(&mut self, count: usize, records: usize, value_bytes: usize) {
        let (mut batches, mut facts) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let mut spec = Spec::new(self.end(), records);
            spec.value_bytes = value_bytes;
            spec.epoch = self.epoch;
            let (bytes, batch) = spec.build();
            self.batches
                .push((bytes.clone(), self.end() + int(records)));
            batches.push(bytes);
            facts.push(batch);
        }
        block_on(self.rig.log.append(&batches, &facts)).expect("healthy disk");
    }

    fn read(&self, from: u16, bytes_max: usize) {
        if self.batches.is_empty() {
            return;
        }
        let from = i64::from(from) % self.end();
        let first = self.batches.partition_point(|(_, end)| *end <= from);
        let found = self.rig.read(from, self.end(), bytes_max, true);
        let rest: Vec<u8> = self.batches[first..]
            .iter()
            .flat_map(|(bytes, _)| bytes.to_vec())
            .collect();
        assert!(rest.starts_with(&found));
        let one = self.batches[first].0.len();
        assert!(one <= found.len());
        assert!(found.len() <= bytes_max.max(one));
    }

    /// Reopens and accepts a prefix that holds everything durable.
    fn reopen(&mut self, clean: bool, lost: bool) {
        let recovery_point = self.rig.log.recovery_point().0;
        let first = self.rig.reopen(clean, recovery_point);
        let found = self.rig.read_all(0, 1_000);
        assert!(self.bytes().starts_with(&found));
        let kept = self
            .batches
            .partition_point(|(_, end)| *end <= first.log_end.0);
        assert!(self.durable <= kept);
        assert!(lost || kept == self.batches.len());
        self.batches.truncate(kept);
        assert_eq!(self.bytes(), found);
        let again = self.rig.reopen(clean, recovery_point);
        assert_eq!((again.log_end, again.truncated_bytes), (first.log_end, 0));
        let latest = self
            .rig
            .log
            .latest_epoch()
            .map_or(-1, |entry| entry.epoch.0);
        assert!(latest <= self.epoch);
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Append {
                batches,
                records,
                value_bytes,
                new_epoch,
            } => {
                self.epoch += i32::from(new_epoch);
                self.append(batches, records, value_bytes);
            }
            Step::Roll => {
                let snapshot = ProducerStates::new().encode_snapshot(self.rig.log.log_end());
                block_on(self.rig.log.roll(Some(snapshot.into()))).expect("healthy disk");
            }
            Step::Sync => {
                let point = block_on(self.rig.log.sync()).expect("healthy disk");
                assert_eq!(point.0, self.end());
                self.durable = self.batches.len();
            }
            Step::SyncRecords => {
                let end = block_on(self.rig.log.sync_records()).expect("healthy disk");
                assert_eq!(end.0, self.end());
                self.durable = self.batches.len();
            }
            Step::Read { from, bytes_max } => self.read(from, bytes_max),
            Step::CleanStop => {
                self.rig.close();
                self.durable = self.batches.len();
                self.reopen(true, false);
            }
            Step::Kill => self.reopen(false, false),
            Step::PowerCut { seed } => {
                self.rig.disk.crash(seed);
                self.reopen(false, true);
                // What recovery kept is not durable yet, and may be lost by the next cut.
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    // Goal: no acknowledged durable record is lost, reads are exact, recovery is idempotent. Method: random appends,
    // rolls, syncs, reads, clean stops, kills and power cuts against the model.
    #[test]
    fn log_behaves_like_the_model(steps in prop::collection::vec(step(), 1..40)) {
        let mut model = Model {
            rig: Rig::new(small_segments()),
            batches: Vec::new(),
            durable: 0,
            epoch: 0,
        };
        for step in steps {
            model.run(step);
        }
    }
}
