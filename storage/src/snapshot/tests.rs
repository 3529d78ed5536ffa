//! Tests of the manifest: round trips, and bytes that are none.

use proptest::prelude::*;

use super::*;

fn manifest() -> Manifest {
    Manifest {
        broker_epoch: 42,
        checkpoints_crc: 7,
        logs: (0..3)
            .map(|partition| LogManifest {
                topic: format!("topic-{partition}"),
                partition,
                topic_id: [9; 16],
                log_start: 5,
                log_end: 100,
                snapshot_at: Some(100),
                epochs: vec![(1, 0), (4, 50)],
                producers: vec![ProducerManifest {
                    id: 3,
                    batches: vec![(1, 2, 0, 4)],
                    ..ProducerManifest::default()
                }],
                segments: vec![SegmentManifest {
                    size_bytes: 1_000,
                    max_timestamp: Some((17, 99)),
                    indexes: Some(IndexManifest {
                        offset_count: 1,
                        offset_last: Some((9, 90)),
                        ..IndexManifest::default()
                    }),
                    ..SegmentManifest::default()
                }],
                ..LogManifest::default()
            })
            .collect(),
    }
}

/// The file with its checksum made right again.
fn sealed(mut file: Vec<u8>) -> Vec<u8> {
    let crc = crc32c::crc32c(&file[HEADER_BYTES..]);
    file[12..16].copy_from_slice(&crc.to_le_bytes());
    file
}

// Goal: what was written comes back; what was not is refused with its reason. Method: a table of changed files.
#[test]
fn there_and_back() {
    fn check(change: impl FnOnce(&mut Vec<u8>), expected: Result<Manifest, ManifestError>) {
        let mut file = manifest().encode().expect("small");
        change(&mut file);
        assert_eq!(Manifest::decode(&file), expected);
    }
    check(|_| {}, Ok(manifest()));
    check(|file| file.truncate(0), Err(ManifestError::Foreign));
    check(|file| file.truncate(15), Err(ManifestError::Foreign));
    check(|file| file[0] = b'X', Err(ManifestError::Foreign));
    check(|file| file[8] = 3, Err(ManifestError::Version(3)));
    check(|file| file[20] ^= 1, Err(ManifestError::Crc));
    check(
        |file| file.truncate(file.len() - 1),
        Err(ManifestError::Crc),
    );
    check(
        |file| {
            file.truncate(HEADER_BYTES);
            *file = sealed(std::mem::take(file));
        },
        Err(ManifestError::Body),
    );
}

proptest! {
    // Goal: bytes with a good checksum that no stop wrote neither panic nor allocate by claim. Method: any bytes, and a
    // good file with any few bytes changed, both sealed.
    #[test]
    fn hostile_bytes(
        noise in proptest::collection::vec(any::<u8>(), 0..300),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut file = manifest().encode().expect("small");
        let body = file.len() - HEADER_BYTES;
        for (index, byte) in changes {
            file[HEADER_BYTES + index.index(body)] = byte;
        }
        let _changed = Manifest::decode(&sealed(file.clone()));
        file.truncate(HEADER_BYTES);
        file.extend_from_slice(&noise);
        let _noise = Manifest::decode(&sealed(file));
    }
}
