//! What finding and reading costs: at the end of the log (from memory), where the last read stopped, at a random offset by
//! the index; small batches and large ones.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use futures_lite::future::block_on;
use pelton_bench::BenchLog;
use pelton_model::Offset;
use pelton_storage::{PrepareOptions, ReadOptions};

fn read(log: &BenchLog, from: i64, bytes_max: usize) -> i64 {
    let options = ReadOptions {
        from: Offset(from),
        up_to: log.end(),
        bytes_max,
        at_least_one: true,
    };
    let result = block_on(log.log.read(options)).expect("in range");
    result.base_offset.map_or(0, |base| base.0) + i64::from(result.size_bytes > 0)
}

fn reads(criterion: &mut Criterion) {
    for (name, count, value_bytes) in [("100 B", 200_000, 100), ("16 KiB", 20_000, 16 * 1024)] {
        let log = BenchLog::new(PrepareOptions::default(), 1 << 30);
        log.fill(count, value_bytes);
        let mut group = criterion.benchmark_group(format!("read, batches of {name}"));
        group.bench_function("at the end", |bench| {
            bench.iter(|| read(black_box(&log), count - 1, 4096));
        });
        let mut next = 0;
        group.bench_function("on and on, 64 KiB", |bench| {
            bench.iter(|| {
                next = (next + 1) % count;
                next = read(black_box(&log), next, 64 * 1024) % count;
            });
        });
        let mut offset = 1;
        group.bench_function("anywhere, 4 KiB", |bench| {
            bench.iter(|| {
                offset = (offset * 7919 + 104_729) % count;
                read(black_box(&log), offset, 4096)
            });
        });
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = reads
}
criterion_main!(benches);
