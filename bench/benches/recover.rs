//! What opening a log costs: after kill -9, when every batch is verified, for small and large batches, plain and packed; and after a
//! clean stop. The files are in the page cache.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures_lite::future::block_on;
use pelton_bench::{BenchLog, OneThread};
use pelton_model::Offset;
use pelton_model::producer_state::ProducerStates;
use pelton_storage::disk::kernel::KernelDisk;
use pelton_storage::{Log, LogConfig, LogStore, OpenOptions, PrepareOptions};

const LOG_BYTES: i64 = 128 * 1024 * 1024;
const SEGMENT_BYTES: u32 = 32 * 1024 * 1024;

/// Opens the log; how long that took, and how many bytes were verified.
fn open(directory: &std::path::Path, clean: bool) -> (Duration, u64) {
    let store = LogStore::new(KernelDisk::new(OneThread::default()));
    let options = OpenOptions {
        config: LogConfig {
            segment_size_bytes_max: SEGMENT_BYTES,
            ..LogConfig::default()
        },
        recovery_point: Offset(0),
        clean,
        log_start: None,
    };
    let begun = Instant::now();
    let (log, recovery) = block_on(Log::open(&store, directory, options)).expect("a sound log");
    let spent = begun.elapsed();
    assert!(Offset(0) < log.log_end());
    (spent, recovery.scanned_bytes)
}

fn recover(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("recover");
    for (name, value_bytes) in [("100 B", 100), ("1 KiB", 1024), ("16 KiB", 16 * 1024)] {
        let log = BenchLog::new(PrepareOptions::default(), SEGMENT_BYTES);
        let size = i64::try_from(value_bytes).expect("small") + 70;
        log.fill(LOG_BYTES / size / 4, value_bytes);
        let directory = log.directory().to_owned();
        let (_, bytes) = open(&directory, false);
        group.throughput(Throughput::Bytes(bytes));
        group.bench_function(
            BenchmarkId::new("after a kill, batches of", name),
            |bench| {
                bench.iter_custom(|iterations| {
                    (0..iterations).map(|_| open(&directory, false).0).sum()
                });
            },
        );
        drop(log);
    }
    group.finish();
    let mut group = criterion.benchmark_group("open");
    let log = BenchLog::new(PrepareOptions::default(), SEGMENT_BYTES);
    log.fill(10_000, 1024);
    let snapshot = ProducerStates::new().encode_snapshot(log.end());
    block_on(log.log.close(Some(snapshot.into()))).expect("a sound disk");
    let directory = log.directory().to_owned();
    group.bench_function("after a clean stop", |bench| {
        bench.iter_custom(|iterations| (0..iterations).map(|_| open(&directory, true).0).sum());
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = recover
}
criterion_main!(benches);
