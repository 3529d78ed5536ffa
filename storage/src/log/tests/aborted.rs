//! The `.txnindex` files: written by recovery, kept with their segments, gone with them.

use futures_lite::future::block_on;
use pelton_model::batch::{BatchBuilder, BatchHeader, BuilderOptions};
use pelton_model::{
    LeaderEpoch, Monotonic, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp,
};

use super::{Rig, small_segments};
use crate::log::BatchFacts;
use crate::txn_index::{AbortedTxn, decode};

/// A record's key and value.
type KeyValue<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// Appends two records of a producer's transaction.
fn data(rig: &Rig, producer: i64, sequence: i32) {
    let records: [KeyValue<'_>; 2] = [(None, Some(b"a")), (None, Some(b"b"))];
    append(rig, producer, sequence, false, &records);
}

/// Appends the marker that ends it.
fn marker(rig: &Rig, producer: i64, is_commit: bool) {
    let key = [0, 0, 0, u8::from(is_commit)];
    append(rig, producer, -1, true, &[(Some(&key), Some(&[0; 6]))]);
}

fn append(rig: &Rig, producer: i64, sequence: i32, control: bool, records: &[KeyValue<'_>]) {
    let mut builder = BatchBuilder::new(BuilderOptions {
        base_offset: rig.log.log_end(),
        leader_epoch: LeaderEpoch(0),
        producer_id: ProducerId(producer),
        producer_epoch: ProducerEpoch(0),
        base_sequence: Sequence(sequence),
        transactional: true,
        control,
        ..BuilderOptions::default()
    });
    for (key, value) in records {
        builder.append(Timestamp(1_000), *key, *value, &[]);
    }
    let bytes = builder.build();
    let header = BatchHeader::parse(&bytes).expect("built here");
    let facts = BatchFacts::from(&header);
    block_on(rig.log.append(&[bytes], &[facts])).expect("healthy disk");
}

fn aborted(producer: i64, first: i64, last: i64, stable: i64) -> AbortedTxn {
    AbortedTxn {
        producer_id: ProducerId(producer),
        first_offset: Offset(first),
        last_offset: Offset(last),
        last_stable_offset: Offset(stable),
    }
}

/// Three transactions over two segments: 7 aborts, 8 (begun before it) commits in the next segment, 9 aborts there.
fn rig() -> Rig {
    let rig = Rig::new(small_segments());
    data(&rig, 8, 0);
    data(&rig, 7, 0);
    marker(&rig, 7, false);
    block_on(rig.log.roll(None)).expect("healthy disk");
    marker(&rig, 8, true);
    data(&rig, 9, 0);
    marker(&rig, 9, false);
    rig
}

fn indexes(rig: &Rig) -> Vec<(i64, Vec<AbortedTxn>)> {
    let names = rig.names().into_iter();
    let bases = names.filter_map(|name| name.strip_suffix(".txnindex")?.parse().ok());
    let read = |base| {
        let contents = rig.contents(&rig.file(base, "txnindex"));
        (
            base,
            decode(&contents, Offset(base)).expect("written by us"),
        )
    };
    bases.map(read).collect()
}

fn expected() -> Vec<(i64, Vec<AbortedTxn>)> {
    vec![
        (0, vec![aborted(7, 2, 4, 0)]),
        (5, vec![aborted(9, 6, 8, 9)]),
    ]
}

// Goal: recovery gives each scanned segment the index its markers tell, and removes one that they do not. Method: reopen
// after an unclean stop, twice; then leave a stray index behind a segment without aborts.
#[test]
fn recovery_writes_them() {
    let mut rig = rig();
    rig.reopen(false, 0);
    assert_eq!(indexes(&rig), expected());
    rig.reopen(false, 0);
    assert_eq!(indexes(&rig), expected());
    let mut plain = Rig::new(small_segments());
    plain.append(2, 2);
    block_on(async {
        use crate::disk::{Disk, OpenMode};
        let stray = plain.file(0, "txnindex");
        plain.disk.open(&stray, OpenMode::CreateNew).await.map(drop)
    })
    .expect("healthy disk");
    plain.reopen(false, 0);
    assert_eq!(indexes(&plain), []);
}

// Goal: after a clean stop an index is kept as it is, and rebuilt when it makes no sense. Method: damage each in turn: cut,
// version, offsets; the second segment's transactions begin in the first.
#[test]
fn damage_is_mended() {
    for base in [0, 5] {
        for damage in 0..3 {
            let mut rig = rig();
            rig.reopen(false, 0);
            rig.close();
            rig.disk
                .corrupt(&rig.file(base, "txnindex"), |bytes| match damage {
                    0 => bytes.truncate(20),
                    1 => bytes[1] = 9,
                    _ => bytes[10..18].fill(0xff),
                });
            rig.reopen(true, 9);
            assert_eq!(indexes(&rig), expected(), "segment {base}, damage {damage}");
        }
    }
}

// Goal: the index goes with its segment. Method: move the log start past the first.
#[test]
fn they_go_with_their_segment() {
    let mut rig = rig();
    rig.reopen(false, 0);
    block_on(rig.log.advance_log_start(Offset(5), Monotonic(0))).expect("healthy disk");
    assert_eq!(indexes(&rig), expected()[1..]);
    let doomed = "00000000000000000000.txnindex.deleted".to_owned();
    assert!(rig.names().contains(&doomed));
    block_on(rig.store.trash().empty(Monotonic(u64::MAX), u64::MAX));
    assert!(!rig.names().contains(&doomed));
}
