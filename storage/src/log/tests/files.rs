//! Index and checkpoint files that are missing, garbage or preallocated.

use super::*;
use crate::index::{IndexEntry, OffsetEntry, TimeEntry, decode_all, encode_all};

fn filled() -> (Rig, Vec<u8>) {
    let rig = Rig::new(small_segments());
    rig.append(80, 2);
    rig.close();
    let expected = rig.read_closed();
    (rig, expected)
}

impl Rig {
    /// The bytes of all log files, one after the other.
    fn read_closed(&self) -> Vec<u8> {
        let bases = self.bases();
        let logs = bases
            .iter()
            .map(|&base| self.contents(&self.file(base, "log")));
        logs.collect::<Vec<_>>().concat()
    }

    fn check_whole(&self, expected: &[u8]) {
        for bytes_max in [1, 600, 1_000_000] {
            assert_eq!(self.read_all(0, bytes_max), expected);
        }
        for offset in 0..160 {
            let bytes = self.read(offset, 160, 1, true);
            assert_eq!(
                BatchHeader::parse(&bytes).expect("whole").base_offset.0,
                offset / 2 * 2
            );
            let since = block_on(self.log.offset_for_timestamp(Timestamp(1_000 + offset)));
            assert_eq!(since.expect("sound").expect("found").offset.0, offset);
        }
    }
}

// Goal: index entries are what Kafka writes: at most one an interval, last offset and begin of a batch, growing.
// Method: decode the files of a closed segment and follow every entry.
#[test]
fn entries_are_sparse_and_exact() {
    let (rig, _) = filled();
    let log = rig.contents(&rig.file(0, "log"));
    let offsets: Vec<OffsetEntry> = decode_all(&rig.contents(&rig.file(0, "index")));
    assert!(offsets.len() > 3);
    for pair in offsets.windows(2) {
        assert!(pair[1].position - pair[0].position > 200);
    }
    for entry in &offsets {
        let header = BatchHeader::parse(&log[entry.position as usize..]).expect("a batch");
        assert_eq!(header.last_offset().0, i64::from(entry.relative_offset));
    }
    let times: Vec<TimeEntry> = decode_all(&rig.contents(&rig.file(0, "timeindex")));
    let last = times.last().expect("a closed segment has one");
    assert_eq!(last.timestamp.0, 1_000 + i64::from(last.relative_offset));
    assert_eq!(end_of(&log).0, i64::from(last.relative_offset) + 1);
}

// Goal: no index file, however damaged, changes an answer. Method: damage each kind in each segment in many ways, after
// a clean stop and after a crash.
#[test]
fn damaged_indexes_change_nothing() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [Damage; 6] = [
        Vec::clear,
        |bytes| bytes.fill(0xff),
        |bytes| bytes.extend([0; 96]),
        |bytes| bytes.truncate(bytes.len().saturating_sub(5)),
        |bytes| {
            // Positions that lead into the middle of records.
            for (index, byte) in bytes.iter_mut().enumerate() {
                if index % 8 == 7 {
                    *byte ^= 0x15;
                }
            }
        },
        |bytes| bytes.reverse(),
    ];
    for clean in [true, false] {
        for (number, damage) in damages.iter().enumerate() {
            let (mut rig, expected) = filled();
            for base in rig.bases() {
                rig.disk.corrupt(&rig.file(base, "index"), damage);
            }
            rig.reopen(clean, 0);
            for bytes_max in [1, 600, 1_000_000] {
                assert_eq!(rig.read_all(0, bytes_max), expected, "{clean} {number}");
            }
        }
    }
}

// Goal: missing index files are rebuilt, after a clean stop too. Method: remove them all.
#[test]
fn missing_indexes_are_rebuilt() {
    for clean in [true, false] {
        for suffix in ["index", "timeindex"] {
            let (mut rig, expected) = filled();
            for base in rig.bases() {
                block_on(rig.disk.remove_file(&rig.file(base, suffix))).expect("it exists");
            }
            let recovery = rig.reopen(clean, 0);
            assert!(recovery.rebuilt_indexes > 0);
            rig.check_whole(&expected);
            let entries = rig.contents(&rig.file(0, suffix));
            assert!(!entries.is_empty());
        }
    }
}

// Goal: preallocated index files (Kafka's, while it runs) are read up to their last entry. Method: append zeros.
#[test]
fn preallocated_indexes() {
    for zeros in [8, 24, 1_000, 10_000] {
        let (mut rig, expected) = filled();
        for base in rig.bases() {
            for suffix in ["index", "timeindex"] {
                let grow = |bytes: &mut Vec<u8>| bytes.resize(bytes.len() + zeros, 0);
                rig.disk.corrupt(&rig.file(base, suffix), grow);
            }
        }
        rig.reopen(true, 0);
        rig.check_whole(&expected);
        rig.append(5, 2);
        rig.close();
        rig.reopen(true, 0);
        assert_eq!(rig.read_all(0, 1_000).len(), rig.read_closed().len());
    }
}

// Goal: orphans, leftovers of compaction and stale snapshots go; unknown files stay. Method: plant them.
#[test]
fn leftovers() {
    let (mut rig, expected) = filled();
    use crate::disk::OpenMode;
    let planted = [
        ("00000000000000000777.index", false),
        ("00000000000000000777.txnindex", false),
        ("00000000000000000999.snapshot", false),
        ("00000000000000000000.log.deleted", false),
        ("00000000000000000000.log.cleaned", false),
        ("00000000000000000000.log.swap", false),
        ("quorum-state", true),
        ("00000000000000000005-0000000001.checkpoint", true),
    ];
    for (name, _) in planted {
        block_on(rig.disk.open(&directory().join(name), OpenMode::Create)).expect("healthy disk");
    }
    rig.reopen(true, 0);
    rig.empty_trash();
    let names = rig.names();
    assert!(
        !names.iter().any(|name| name.ends_with(".deleted")),
        "{names:?}"
    );
    for (name, stays) in planted {
        assert_eq!(names.iter().any(|found| found == name), stays, "{name}");
    }
    rig.check_whole(&expected);
}

// Goal: a finished swap of compacted segments is completed. Method: a swap file that replaces the first two segments.
#[test]
fn finished_swap() {
    let (mut rig, _) = filled();
    use crate::disk::OpenMode;
    let bases = rig.bases();
    let mut spec = Spec::new(0, 1);
    spec.timestamps = vec![1; usize::try_from(bases[2]).expect("small")];
    let merged = spec.build().0;
    let swap = rig.file(0, "log.swap");
    block_on(rig.disk.open(&swap, OpenMode::Create)).expect("healthy disk");
    rig.disk
        .corrupt(&swap, |bytes| bytes.extend_from_slice(&merged));
    rig.reopen(true, 0);
    assert_eq!(rig.bases(), [&[0], &bases[2..]].concat());
    assert!(rig.read_all(0, 1_000).starts_with(&merged));
}

// Goal: an unreadable epoch history is rebuilt from the batches. Method: garbage, after a clean stop and a crash.
#[test]
fn unreadable_epochs() {
    for clean in [true, false] {
        let mut rig = Rig::new(small_segments());
        for epoch in 0..20 {
            let mut spec = Spec::new(rig.log.log_end().0, 3);
            spec.epoch = epoch / 3;
            rig.append_spec(&spec);
        }
        rig.close();
        let path = directory().join("leader-epoch-checkpoint");
        let good = rig.contents(&path);
        rig.disk
            .corrupt(&path, |bytes| *bytes = b"nonsense".to_vec());
        rig.reopen(clean, 0);
        assert_eq!(rig.contents(&path), good);
    }
}

// Goal: index decoders take any bytes. Method: a fuzz target over random ones.
fn decode_anything(bytes: &[u8]) {
    fn check<E: IndexEntry>(bytes: &[u8]) {
        let entries: Vec<E> = decode_all(bytes);
        let mut again = Vec::new();
        encode_all(&entries, &mut again);
        assert!(bytes.starts_with(&again));
    }
    check::<OffsetEntry>(bytes);
    check::<TimeEntry>(bytes);
}

proptest::proptest! {
    #[test]
    fn index_decoders_take_anything(
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
    ) {
        decode_anything(&bytes);
    }
}
