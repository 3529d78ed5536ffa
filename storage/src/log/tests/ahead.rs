//! The prepared tail: filler never comes over records, are never log, and go when the log rests, rolls or closes.

use futures_lite::future::block_on;
use pelton_model::batch::verify_crc;
use proptest::prelude::*;

use super::*;
use crate::config::PrepareOptions;
use crate::disk::DiskFile;
use crate::disk::prepare::FILLER;
use crate::segment::{FileKind, file_path};

const KIB: usize = 1024;

/// Segments of 1 MiB: many steps, some rolls.
fn config() -> LogConfig {
    LogConfig {
        segment_size_bytes_max: 1024 * 1024,
        ..LogConfig::default()
    }
}

impl Rig {
    /// Appends one batch of about `bytes`.
    fn append_sized(&self, bytes: usize) -> Result<(), StorageError> {
        let mut spec = Spec::new(self.log.log_end().0, 1);
        spec.value_bytes = bytes;
        let (batch, facts) = spec.build();
        block_on(self.log.append(&[batch], &[facts])).map(|_| ())
    }

    /// Appends so much that the log is hot.
    fn heat(&self) {
        for _ in 0..20 {
            self.append_sized(16 * KIB).expect("healthy disk");
        }
    }

    /// Reads the whole log; counts the batches and checks each.
    fn batches(&self) -> usize {
        let bytes = self.read_all(self.log.log_start().0, 60 * KIB);
        let whole = Batches::new(&bytes).map(|batch| batch.expect("whole batches").1);
        whole.inspect(|batch| assert!(verify_crc(batch))).count()
    }

    /// A start after SIGKILL.
    fn kill(&mut self) -> Recovery {
        self.disk.kill_helper();
        self.reopen(false, 0)
    }

    fn file_bytes(&self, base: i64) -> u64 {
        let path = file_path(&directory(), Offset(base), FileKind::Log);
        block_on(async {
            let file = self.disk.open(&path, crate::disk::OpenMode::Read).await?;
            file.size_bytes().await
        })
        .expect("the segment's file")
    }
}

// Goal: a hot log has filler ahead that is no part of it; a cold one has none. Method: compare sizes.
#[test]
fn only_hot_logs_prepare() {
    let rig = Rig::new(config());
    rig.append_sized(16 * KIB).expect("healthy disk");
    assert_eq!(rig.file_bytes(0), rig.log.size_bytes());
    assert_eq!(rig.store.prepared_bytes(), 0);
    rig.heat();
    assert!(rig.log.size_bytes() < rig.file_bytes(0));
    assert!(0 < rig.store.prepared_bytes());
    assert_eq!(rig.batches(), 21);
}

// Goal: thousands of logs touched once hold nothing. Method: one small append to each of many logs of a store.
#[test]
fn logs_touched_once_hold_nothing() {
    let rig = Rig::new(config());
    for index in 0..100 {
        let directory = PathBuf::from(format!("/data/other-{index}"));
        let log = block_on(Log::create(&rig.store, &directory, TOPIC, config()));
        let log = log.expect("healthy disk");
        let (batch, facts) = Spec::new(0, 10).build();
        block_on(log.append(&[batch], &[facts])).expect("healthy disk");
        assert!(!log.has_cooled());
    }
    assert_eq!(rig.store.prepared_bytes(), 0);
}

// Goal: the tail is cut when the log cools, rests, rolls, closes; not earlier. Method: each after heating.
#[test]
fn the_tail_is_cut() {
    let check = |name: &str, act: &dyn Fn(&Rig)| {
        let rig = Rig::new(config());
        rig.heat();
        let size = rig.log.size_bytes();
        assert!(size < rig.file_bytes(0), "{name}");
        act(&rig);
        assert_eq!(rig.file_bytes(0), size, "{name}");
        // The segment after a roll goes on at the same pace.
        assert_eq!(rig.store.prepared_bytes() == 0, name != "roll", "{name}");
    };
    check("cool", &|rig| {
        rig.store.tick();
        assert!(!rig.log.has_cooled());
        rig.store.tick();
        assert!(rig.log.has_cooled());
        block_on(rig.log.cool()).expect("healthy disk");
        assert!(!rig.log.has_cooled());
    });
    check("rest", &|rig| {
        block_on(rig.log.rest()).expect("healthy disk")
    });
    check("roll", &|rig| {
        block_on(rig.log.roll(None)).expect("healthy disk")
    });
    check("close", &|rig| {
        block_on(rig.log.close(None)).expect("healthy disk");
    });
}

// Goal: appends go on where the tail was cut. Method: heat, cut, heat, read all.
#[test]
fn appends_go_on_behind_a_cut() {
    let rig = Rig::new(config());
    for _ in 0..3 {
        rig.heat();
        block_on(rig.log.rest()).expect("healthy disk");
    }
    assert_eq!(rig.batches(), 60);
}

// Goal: a full disk while preparing costs nothing but the preparation. Method: pieces fail, appends do not.
#[test]
fn a_full_disk_ends_preparing_only() {
    let rig = Rig::new(config());
    rig.disk.fail_preparing(Some(28));
    rig.heat();
    assert_eq!(rig.file_bytes(0), rig.log.size_bytes());
    assert!(!rig.log.is_failed());
    rig.disk.fail_preparing(None);
    // Until the next segment.
    rig.heat();
    assert_eq!(rig.file_bytes(0), rig.log.size_bytes());
    block_on(rig.log.roll(None)).expect("healthy disk");
    rig.heat();
    assert!(rig.log.size_bytes() < rig.file_bytes(0) + rig.file_bytes(40));
    assert_eq!(rig.batches(), 60);
}

// Goal: after a kill the filler are a torn tail, recovered as if they were not there, twice. Method: reopen as unclean.
#[test]
fn a_kill_leaves_a_torn_tail() {
    let mut rig = Rig::new(config());
    rig.heat();
    let (size, end) = (rig.log.size_bytes(), rig.log.log_end());
    assert!(size < rig.file_bytes(0));
    let recovery = rig.kill();
    assert_eq!(recovery.log_end, end);
    assert_eq!(rig.file_bytes(0), size);
    let recovery = rig.kill();
    assert_eq!((recovery.log_end, recovery.truncated_bytes), (end, 0));
    assert_eq!(rig.batches(), 20);
}

// Goal: filler behind a segment that the next one continues are no end of the log. Method: put them there, as a power cut
// may that loses the cut of the file.
#[test]
fn prepared_space_between_segments_loses_nothing() {
    for filler in [FILLER, 0] {
        let mut rig = Rig::new(config());
        rig.heat();
        block_on(rig.log.roll(None)).expect("healthy disk");
        rig.heat();
        let path = file_path(&directory(), Offset(0), FileKind::Log);
        let size = rig.file_bytes(0);
        rig.disk
            .corrupt(&path, |bytes| bytes.resize(bytes.len() + 100 * KIB, filler));
        let recovery = rig.kill();
        assert_eq!(recovery.log_end, Offset(40));
        assert_eq!(rig.file_bytes(0), size);
        assert_eq!(rig.batches(), 40);
    }
}

// Goal: `preallocate` gives a segment its size at once and cuts it at roll and close, not at rest. Method: sizes.
#[test]
fn preallocated_segments() {
    let config = LogConfig {
        preallocate: true,
        ..config()
    };
    let mut rig = Rig::new(config);
    let full = u64::from(config.segment_size_bytes_max);
    assert_eq!(rig.file_bytes(0), full);
    rig.heat();
    block_on(rig.log.rest()).expect("healthy disk");
    assert_eq!(rig.file_bytes(0), full);
    let size = rig.log.size_bytes();
    block_on(rig.log.roll(None)).expect("healthy disk");
    assert_eq!((rig.file_bytes(0), rig.file_bytes(20)), (size, full));
    rig.append_sized(KIB).expect("healthy disk");
    let size = rig.log.size_bytes() - size;
    let recovery = rig.kill();
    assert_eq!(recovery.log_end, Offset(21));
    assert_eq!(rig.file_bytes(20), size);
    assert_eq!(rig.batches(), 21);
}

#[derive(Clone, Debug)]
enum Act {
    Append(Vec<usize>),
    Tick,
    Cool,
    Rest,
    Roll,
    Sync,
    Refuse(bool),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => prop::collection::vec(1_usize..40_000, 1..6).prop_map(Act::Append),
        2 => prop::collection::vec(1_usize..200, 1..20).prop_map(Act::Append),
        1 => Just(Act::Tick),
        1 => Just(Act::Cool),
        1 => Just(Act::Rest),
        1 => Just(Act::Roll),
        1 => Just(Act::Sync),
        1 => any::<bool>().prop_map(Act::Refuse),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    // Goal: whatever the helper's lag, filler never comes over records, and a kill loses none. Method: random acts with a
    // helper that works between any two operations; everything is read back before and after an unclean start.
    #[test]
    fn no_interleaving_loses_records(
        seed in any::<u64>(),
        acts in prop::collection::vec(act(), 1..60),
        power_cut in any::<bool>(),
    ) {
        let mut rig = Rig::new(config());
        rig.disk.delay_helper(seed);
        rig.store.set_prepare_options(PrepareOptions {
            fill_bytes_max: 200 * 1024,
            ..PrepareOptions::default()
        });
        rig.heat();
        let mut expected = 20;
        for act in acts {
            match act {
                Act::Append(sizes) => {
                    for size in sizes {
                        rig.append_sized(size).expect("healthy disk");
                        expected += 1;
                    }
                }
                Act::Tick => rig.store.tick(),
                Act::Cool => block_on(rig.log.cool()).expect("healthy disk"),
                Act::Rest => block_on(rig.log.rest()).expect("healthy disk"),
                Act::Roll => block_on(rig.log.roll(None)).expect("healthy disk"),
                Act::Sync => {
                    block_on(rig.log.sync()).expect("healthy disk");
                }
                Act::Refuse(refuse) => rig.disk.fail_preparing(refuse.then_some(28)),
            }
        }
        prop_assert_eq!(rig.batches(), expected);
        let (end, durable) = (rig.log.log_end(), rig.log.durable_end());
        if power_cut {
            rig.disk.crash(seed);
            let recovery = rig.reopen(false, durable.0);
            prop_assert!(durable <= recovery.log_end);
        } else {
            let recovery = rig.kill();
            prop_assert_eq!(recovery.log_end, end);
            prop_assert_eq!(rig.batches(), expected);
        }
    }
}

// Goal: what a start cut back to the recovery point stays cut, though the next start finds nothing to cut. Method: a torn
// tail, two starts, a roll, a power cut that undoes what was not synced.
#[test]
fn a_cut_to_the_recovery_point_is_durable() {
    for seed in 0..20 {
        let mut rig = Rig::new(config());
        rig.append(3, 1);
        block_on(rig.log.sync()).expect("healthy disk");
        let size = rig.file_bytes(0);
        let path = file_path(&directory(), Offset(0), FileKind::Log);
        rig.disk
            .corrupt(&path, |bytes| bytes.resize(bytes.len() + KIB, FILLER));
        for _ in 0..2 {
            assert_eq!(rig.reopen(false, 3).log_end, Offset(3));
        }
        block_on(rig.log.roll(None)).expect("healthy disk");
        block_on(rig.log.sync()).expect("healthy disk");
        rig.disk.crash(seed);
        rig.reopen(false, 3);
        assert_eq!(rig.file_bytes(0), size);
        assert_eq!(rig.batches(), 3);
    }
}
