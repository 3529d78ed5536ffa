//! Recovery is the same however often it is done, and wherever it was interrupted.

use std::collections::BTreeMap;

use super::*;

/// Small and repeatable.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end.max(1) as u64).expect("below a usize")
    }
}

/// What recovery leaves: every file, and what it found.
#[derive(Debug, PartialEq)]
struct Outcome {
    files: BTreeMap<String, Vec<u8>>,
    found: Option<(Offset, Vec<u8>)>,
}

fn files(rig: &Rig) -> BTreeMap<String, Vec<u8>> {
    let contents = |name: String| (name.clone(), rig.contents(&directory().join(name)));
    rig.names().into_iter().map(contents).collect()
}

fn recover(rig: &mut Rig) -> Outcome {
    let recovery = rig.try_reopen(false, 0);
    let found = recovery.ok().map(|recovery| {
        let producers = recovery.producer_states.encode_snapshot(recovery.log_end);
        (recovery.log_end, producers)
    });
    Outcome {
        files: files(rig),
        found,
    }
}

fn without_indexes(mut outcome: Outcome) -> Outcome {
    let is_index = |name: &str| name.ends_with(".index") || name.ends_with(".timeindex");
    outcome.files.retain(|name, _| !is_index(name));
    outcome
}

/// Segments of two epochs and two producers, rolled now and then with a snapshot; nothing is synced on purpose.
fn filled(random: &mut Random) -> Rig {
    let rig = Rig::new(small_segments());
    let mut sequences = [0, 0];
    let mut states = ProducerStates::new();
    for number in 0..40 {
        let records = 1 + random.below(3);
        let base = rig.log.log_end().0;
        let mut spec = Spec::new(base, records);
        spec.epoch = number / 20;
        let producer = random.below(3);
        if let Some(sequence) = sequences.get_mut(producer) {
            spec.producer = Some((int(producer), *sequence));
            *sequence += i32::try_from(records).expect("small");
        }
        rig.append_spec(&spec);
        if spec.producer.is_some() {
            states.replay(Offset(base), &producer_facts(&spec));
        }
        if number % 13 == 12 {
            let snapshot = states.encode_snapshot(rig.log.log_end());
            block_on(rig.log.roll(Some(Bytes::from(snapshot)))).expect("healthy disk");
        }
    }
    rig
}

/// A power cut, or damage to some files, or both.
fn damage(rig: &Rig, random: &mut Random, seed: u64) {
    if random.below(2) == 0 {
        rig.disk.crash(seed);
    }
    let names = rig.names();
    let may_change = |name: &&String| !name.starts_with("partition.metadata");
    let names: Vec<&String> = names.iter().filter(may_change).collect();
    for _ in 0..random.below(4) {
        let Some(name) = names.get(random.below(names.len())) else {
            continue;
        };
        let (kind, place) = (random.below(4), random.below(usize::MAX));
        rig.disk
            .corrupt(&directory().join(name), |bytes| match kind {
                0 => bytes.truncate(place % (bytes.len() + 1)),
                1 => bytes.extend([0; 700]),
                2 => bytes.clear(),
                _ => {
                    let at = place % bytes.len().max(1);
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 0x21;
                    }
                }
            });
    }
}

fn damaged(seed: u64) -> Rig {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let rig = filled(&mut random);
    damage(&rig, &mut random, seed);
    rig
}

// Goal: a second recovery finds what the first left, and changes nothing. Method: power cuts and damage of all kinds to all kinds of
// files; every file is compared after the first, the second and the third opening.
#[test]
fn of_damage() {
    let mut opened = 0;
    for seed in 0..400 {
        let mut rig = damaged(seed);
        let first = recover(&mut rig);
        opened += u32::from(first.found.is_some());
        for _ in 0..2 {
            assert!(recover(&mut rig) == first, "seed {seed}");
        }
    }
    assert!(300 < opened, "{opened}");
}

// Goal: a recovery that was interrupted anywhere, by an error or a kill, is made good by the next. Method: each operation of it fails in
// turn; the next recovery must leave what one that was not interrupted leaves, save for hints: an index may have an entry more.
#[test]
fn interrupted() {
    const EIO: i32 = 5;
    for seed in 0..12 {
        let expected = without_indexes(recover(&mut damaged(seed)));
        for operation in 0.. {
            let mut rig = damaged(seed);
            rig.disk.fail_after(operation, EIO);
            let is_over = rig.try_reopen(false, 0).is_ok();
            rig.disk.fail_after(u64::MAX, EIO);
            let found = without_indexes(recover(&mut rig));
            assert!(found == expected, "seed {seed} operation {operation}");
            if is_over || (expected.found.is_none() && 60 < operation) {
                break;
            }
        }
    }
}

// Goal: a partition's id is durable before its first record can be, and a creation that failed is no half of a partition. Method: each
// operation of a creation fails in turn, or none; the power goes; what is there opens with its id, or holds no record.
#[test]
fn creation_is_whole_or_not_at_all() {
    const EIO: i32 = 5;
    for (operation, seed) in (0..14).flat_map(|operation| (0..8).map(move |seed| (operation, seed)))
    {
        let disk = MemoryDisk::new();
        let store = LogStore::new(disk.clone());
        let parent = directory();
        let parent = parent.parent().expect("it has one");
        block_on(disk.create_dir_all(parent)).expect("healthy disk");
        block_on(disk.sync_dir(Path::new("/"))).expect("healthy disk");
        disk.fail_after(operation, EIO);
        let config = LogConfig::default();
        let created = block_on(Log::create(&store, &directory(), TOPIC, config));
        disk.fail_after(u64::MAX, EIO);
        let is_created = created.is_ok();
        if let Ok(log) = created {
            let (bytes, facts) = Spec::new(0, 1).build();
            block_on(log.append(&[bytes], &[facts])).expect("healthy disk");
        }
        disk.crash(seed);
        let options = OpenOptions {
            config,
            recovery_point: Offset(0),
            clean: false,
            log_start: None,
        };
        let label = format!("operation {operation} seed {seed}");
        match block_on(Log::open(
            &LogStore::new(disk.clone()),
            &directory(),
            options,
        )) {
            Ok((log, _)) if is_created => assert_eq!(log.topic_id(), Some(TOPIC), "{label}"),
            Ok((log, _)) => assert_eq!(log.log_end(), Offset(0), "{label}"),
            Err(error) => assert!(!is_created, "{label}: {error}"),
        }
    }
}
