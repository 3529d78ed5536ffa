//! Recovery bounded by the recovery point, and damage below it.

use proptest::prelude::*;

use super::*;

/// A log of several segments that was synced in the middle of its active one: the rig and the recovery point.
fn synced() -> (Rig, i64) {
    let rig = Rig::new(small_segments());
    rig.append(30, 1);
    let point = block_on(rig.log.sync()).expect("healthy disk");
    (rig, point.0)
}

// Goal: what lies below the recovery point is not read again, and the log is the same as if it were. Method: kill with and without
// records behind the point; compare bytes read and every file with those of a whole scan.
#[test]
fn scans_only_the_rest() {
    fn check(unsynced: usize) {
        let (mut bounded, point) = synced();
        let (mut whole, _) = synced();
        for rig in [&bounded, &whole] {
            rig.append(unsynced, 1);
        }
        let recovery = bounded.reopen(false, point);
        let everything = whole.reopen(false, 0);
        assert_eq!(recovery.log_end, everything.log_end);
        assert!(recovery.scanned_bytes < everything.scanned_bytes);
        assert_eq!(recovery.scanned_bytes == 0, unsynced == 0);
        assert_eq!(bounded.log.recovery_point(), Offset(point));
        assert_eq!(bounded.read_all(0, 500), whole.read_all(0, 500));
        for rig in [&bounded, &whole] {
            rig.append(40, 2);
            rig.close();
        }
        for name in bounded.names() {
            let path = directory().join(&name);
            assert_eq!(bounded.contents(&path), whole.contents(&path), "{name}");
        }
    }
    check(0);
    check(1);
    check(3);
    check(40);
}

// Goal: index entries above the recovery point are not believed, nor are indexes that do not lead to it. Method: spoil the indexes of the
// active segment in several ways; the log reads the same.
#[test]
fn indexes_above_the_point() {
    fn check(suffix: &str, spoil: impl FnOnce(&mut Vec<u8>)) {
        let (mut rig, point) = synced();
        let base = *rig.bases().last().expect("segments");
        rig.append(2, 1);
        let expected = rig.read_all(0, 500);
        rig.disk.corrupt(&rig.file(base, suffix), spoil);
        rig.reopen(false, point);
        assert_eq!(rig.read_all(0, 500), expected);
        assert_eq!(rig.log.log_end().0, point + 2);
        rig.append(30, 1);
        assert_eq!(end_of(&rig.read_all(0, 500)), rig.log.log_end());
    }
    for suffix in ["index", "timeindex"] {
        check(suffix, |_| {});
        check(suffix, Vec::clear);
        check(suffix, |bytes| bytes.extend([0; 120]));
        check(suffix, |bytes| bytes.extend([0x7f; 120]));
        check(suffix, |bytes| bytes.fill(0xff));
        check(suffix, |bytes| bytes.truncate(bytes.len() / 2 + 1));
        check(suffix, |bytes| bytes.fill(0));
    }
}

// Goal: damage of what was durable is reported with its file and position, whatever it hit, and nothing is cut; the same damage in what
// was never synced ends the log. Method: a flip in each field of a batch, in the middle and in the last durable batch.
#[test]
fn durable_damage_is_reported() {
    fn check(batch: usize, at: usize, is_reported: bool) {
        let mut rig = Rig::new(LogConfig::default());
        rig.append(6, 1);
        block_on(rig.log.sync()).expect("healthy disk");
        let path = rig.file(0, "log");
        let size = rig.contents(&path).len() / 6;
        rig.disk
            .corrupt(&path, |bytes| bytes[batch * size + at] ^= 0x40);
        // The index that leads past the damage is gone: the scan must look at it.
        rig.disk
            .corrupt(&rig.file(0, "index"), |bytes| bytes.fill(0xff));
        let before = rig.contents(&path);
        block_on(rig.disk.remove_file(&rig.file(0, "timeindex"))).expect("there");
        match rig.try_reopen(false, 6) {
            Err(StorageError::Corrupt {
                path: found,
                position,
                ..
            }) => {
                assert!(is_reported, "{batch} {at}");
                assert_eq!((found, position), (path.clone(), (batch * size) as u64));
                assert_eq!(rig.contents(&path), before);
            }
            other => assert!(!is_reported && other.is_ok(), "{batch} {at}: {other:?}"),
        }
    }
    // Base offset's high byte, length's high byte, magic, crc, record count, a record.
    for at in [0, 8, 16, 17, 57, 70] {
        check(2, at, true);
    }
    // Where the last durable batch is there whole, it is known; a damaged frame of it looks like a torn tail.
    for (at, is_reported) in [(17, true), (57, true), (70, true), (8, false), (16, false)] {
        check(5, at, is_reported);
    }
}

// Goal: a good batch behind megabytes of damage is found; zeros behind the log are no damage. Method: durable batches, overwritten.
#[test]
fn far_damage() {
    let mut rig = Rig::new(LogConfig::default());
    let (bytes, facts) = Spec {
        value_bytes: 3_000_000,
        ..Spec::new(0, 1)
    }
    .build();
    block_on(rig.log.append(&[bytes], &[facts])).expect("healthy disk");
    rig.append(1, 1);
    let path = rig.file(0, "log");
    let before = rig.contents(&path);
    rig.disk
        .corrupt(&path, |bytes| bytes.extend(vec![0; 3_000_000]));
    let recovery = rig.reopen(false, 2);
    assert_eq!(
        (recovery.log_end, recovery.truncated_bytes),
        (Offset(2), 3_000_000)
    );
    assert_eq!(rig.contents(&path), before);
    block_on(rig.disk.remove_file(&rig.file(0, "index"))).expect("there");
    rig.disk.corrupt(&path, |bytes| bytes[..1_000].fill(0));
    let refused = rig.try_reopen(false, 2);
    assert!(matches!(
        refused,
        Err(StorageError::Corrupt { position: 0, .. })
    ));
}

// Goal: a read that meets damage answers an error or the batch that holds the offset, as it lies on disk; it never passes to another. Method:
// flip each byte of a header in the middle, read at each offset without memory and indexes to help.
#[test]
fn reads_meet_damage() {
    let mut rig = Rig::new(LogConfig::default());
    rig.append(6, 1);
    rig.close();
    let path = rig.file(0, "log");
    let whole = rig.contents(&path);
    let size = whole.len() / 6;
    rig.reopen(true, 6);
    let (mut errors, mut bits) = (0, 0);
    for at in 0..61 {
        for bit in 0..8 {
            bits += 1;
            rig.disk.corrupt(&path, |bytes| {
                bytes.clone_from(&whole);
                bytes[2 * size + at] ^= 1 << bit;
            });
            for from in 0..6 {
                // A base offset that lies by one takes the next one's place for who asks for just that.
                if at == 7 && bit == 0 && from == 3 {
                    continue;
                }
                let options = ReadOptions {
                    from: Offset(from),
                    up_to: Offset(6),
                    bytes_max: 1,
                    at_least_one: true,
                };
                match block_on(rig.log.read(options)) {
                    Ok(read) => {
                        let base = read.base_offset.expect("one batch").0;
                        // A last offset that lies takes in what follows; the checksum covers it.
                        let claims = base == 2 && 2 < from && (23..27).contains(&at);
                        assert!(base == from || claims, "byte {at} bit {bit} from {from}");
                        let place = usize::try_from(base).expect("small") * size;
                        let Slice::Bytes(bytes) = &read.slices[0] else {
                            panic!("in memory");
                        };
                        assert_eq!(bytes[..], rig.contents(&path)[place..place + bytes.len()]);
                    }
                    Err(error) => {
                        assert!(from >= 2, "{error}");
                        errors += 1;
                    }
                }
            }
        }
    }
    // Only what does not change where batches lie is served, for the client's checksum to find.
    assert!(bits < errors, "{errors} of {bits}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    // Goal: recovering twice is recovering once, whatever the damage, and an error stays one. Method: a log with a recovery point, any few files of it cut, extended, zeroed, flipped or gone.
    #[test]
    fn twice_is_once(
        unsynced in 0_usize..40,
        torn in any::<u64>(),
        blows in proptest::collection::vec((any::<prop::sample::Index>(), 0_u8..6, any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let (mut rig, point) = synced();
        rig.append(unsynced, 1);
        rig.disk.crash(torn);
        let names = rig.names();
        for (file, blow, at, byte) in blows {
            let path = directory().join(file.get(&names));
            if path.ends_with("partition.metadata") || block_on(rig.disk.stamp(&path)).is_err() {
                continue;
            }
            if blow == 5 {
                block_on(rig.disk.remove_file(&path)).expect("there");
                continue;
            }
            rig.disk.corrupt(&path, |bytes| match blow {
                0 => bytes.truncate(at.index(bytes.len() + 1)),
                1 => bytes.extend(vec![0; usize::from(byte) * 100]),
                2 => bytes.extend(vec![byte; usize::from(byte)]),
                3 => bytes.fill(0),
                _ if bytes.is_empty() => {}
                _ => {
                    let at = at.index(bytes.len());
                    bytes[at] ^= byte | 1;
                }
            });
        }
        let files = |rig: &Rig| -> Vec<(String, Vec<u8>)> {
            // A segment that was closed when it was first looked at has one more time entry than the same one at the end of the log.
            let names = rig.names().into_iter().filter(|name| !name.ends_with("index"));
            names.map(|name| (name.clone(), rig.contents(&directory().join(name)))).collect()
        };
        let first = rig.try_reopen(false, point).map(|found| found.log_end);
        let is_open = first.is_ok();
        let after_first = is_open.then(|| files(&rig));
        let second = rig.try_reopen(false, point.min(first.as_ref().map_or(point, |end| end.0)));
        prop_assert_eq!(second.is_ok(), is_open);
        if let (Ok(first), Ok(second)) = (first, second) {
            prop_assert_eq!(first, second.log_end);
            prop_assert_eq!(second.truncated_bytes, 0);
            for (before, after) in after_first.into_iter().flatten().zip(files(&rig)) {
                prop_assert_eq!(before, after);
            }
        }
    }
}
