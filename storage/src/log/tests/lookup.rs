//! ListOffsets by time.

use pelton_model::Monotonic;

use super::*;

fn spec(base: i64, timestamps: &[i64], compression: Compression) -> Spec {
    Spec {
        timestamps: timestamps.to_vec(),
        compression,
        ..Spec::new(base, 1)
    }
}

// Goal: the first record at or after a time, at record level. Method: unordered times in several batches and segments,
// every codec, every time around; compared with a walk over all records.
#[test]
fn first_record_since() {
    let codecs = [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];
    for compression in codecs {
        let mut rig = Rig::new(LogConfig {
            segment_size_bytes_max: 300,
            index_interval_bytes: 100,
            ..LogConfig::default()
        });
        let mut records: Vec<(i64, i64)> = Vec::new();
        for batch in 0..30_i64 {
            let times: Vec<i64> = (0..4)
                .map(|index| 100 + batch * 3 + (index * 7 + batch) % 11)
                .collect();
            let base = int(records.len());
            rig.append_spec(&spec(base, &times, compression));
            records.extend((base..).zip(times));
        }
        for reopened in [false, true] {
            for time in 90..220 {
                let expected = records.iter().find(|(_, t)| time <= *t).copied();
                let found = block_on(rig.log.offset_for_timestamp(Timestamp(time))).expect("sound");
                let found = found.map(|found| (found.offset.0, found.timestamp.0));
                assert_eq!(found, expected, "{compression:?} {time} {reopened}");
            }
            let max = records.iter().map(|(_, t)| *t).max().expect("records");
            let expected = records.iter().find(|(_, t)| *t == max).copied();
            let found = block_on(rig.log.offset_of_max_timestamp()).expect("sound");
            assert_eq!(found.map(|f| (f.offset.0, f.timestamp.0)), expected);
            rig.close();
            rig.reopen(true, 0);
        }
    }
}

// Goal: nothing is found in an empty log, and nothing before the log start. Method: both.
#[test]
fn bounds() {
    let mut rig = Rig::new(LogConfig::default());
    assert_eq!(
        block_on(rig.log.offset_for_timestamp(Timestamp(0))).expect("sound"),
        None
    );
    assert_eq!(
        block_on(rig.log.offset_of_max_timestamp()).expect("sound"),
        None
    );
    rig.append_spec(&spec(0, &[50, 10, 20], Compression::None));
    rig.append_spec(&spec(3, &[30], Compression::None));
    rig.close();
    let options = OpenOptions {
        log_start: Some(Offset(1)),
        ..rig.options(true, 0)
    };
    let (log, _) = block_on(Log::open(&rig.store, &directory(), options)).expect("sound");
    rig.log = log;
    let since = |time| {
        let found = block_on(rig.log.offset_for_timestamp(Timestamp(time))).expect("sound");
        found.map(|found| found.offset.0)
    };
    assert_eq!(
        (since(0), since(15), since(25), since(40)),
        (Some(1), Some(2), Some(3), None)
    );
}

// Goal: no record below the log start is ever found, and the first one above it is. Method: unordered times in packed and
// plain batches over several segments; the log start moves up record by record, and every answer is compared with a walk
// over the records that are left.
#[test]
fn above_a_moving_start() {
    for compression in [Compression::None, Compression::Lz4] {
        let rig = Rig::new(LogConfig {
            segment_size_bytes_max: 400,
            index_interval_bytes: 100,
            ..LogConfig::default()
        });
        let mut records: Vec<(i64, i64)> = Vec::new();
        for batch in 0..12_i64 {
            let times: Vec<i64> = (0..4)
                .map(|index| 200 - batch * 5 + (index * 7 + batch) % 11)
                .collect();
            let base = int(records.len());
            rig.append_spec(&spec(base, &times, compression));
            records.extend((base..).zip(times));
        }
        for start in 0..=int(records.len()) {
            let moved = block_on(rig.log.advance_log_start(Offset(start), Monotonic(0)));
            assert_eq!(moved.expect("healthy disk"), Offset(start));
            let left: Vec<(i64, i64)> = records
                .iter()
                .filter(|(offset, _)| start <= *offset)
                .copied()
                .collect();
            for time in (130..220).step_by(3) {
                let expected = left.iter().find(|(_, t)| time <= *t).copied();
                let found = block_on(rig.log.offset_for_timestamp(Timestamp(time))).expect("sound");
                let found = found.map(|found| (found.offset.0, found.timestamp.0));
                assert_eq!(found, expected, "{compression:?} start {start} time {time}");
            }
            let max = left.iter().map(|(_, t)| *t).max();
            let expected = left.iter().find(|(_, t)| Some(*t) == max).copied();
            let found = block_on(rig.log.offset_of_max_timestamp()).expect("sound");
            let found = found.map(|found| (found.offset.0, found.timestamp.0));
            assert_eq!(found, expected, "{compression:?} start {start}");
        }
    }
}
