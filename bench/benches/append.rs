//! What an append costs: the bare system call on a growing file, into reserved blocks, over filler written just before (by the
//! same thread), and `Log::append` with the preparation off and on (filler and blocks by another thread).
//!
//! Files are begun anew every 64 MiB, so that what is measured does not depend on the amount of dirty memory.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pelton_bench::{BenchLog, batch, scratch};
use pelton_storage::PrepareOptions;
use rustix::fs::{FallocateFlags, fallocate};

const FILE_BYTES: u64 = 64 * 1024 * 1024;
const STEP_BYTES: usize = 64 * 1024;
const SIZES: [usize; 5] = [200, 1024, 4096, 16 * 1024, 256 * 1024];

#[derive(Clone, Copy, Debug)]
enum Ahead {
    Nothing,
    Blocks,
    BlocksAndFiller,
}

fn pwrite(iterations: u64, size: usize, ahead: Ahead) -> Duration {
    let scratch = scratch();
    let (data, filler) = (vec![7; size], vec![0; STEP_BYTES]);
    let mut spent = Duration::ZERO;
    let mut left = iterations;
    while 0 < left {
        let file = File::create(scratch.path().join("file")).expect("a scratch file");
        let count = left.min(FILE_BYTES / size as u64);
        left -= count;
        let begun = Instant::now();
        if !matches!(ahead, Ahead::Nothing) {
            fallocate(&file, FallocateFlags::KEEP_SIZE, 0, FILE_BYTES).expect("room");
        }
        let (mut position, mut prepared) = (0, 0);
        for _ in 0..count {
            let end = position + size as u64;
            while matches!(ahead, Ahead::BlocksAndFiller) && prepared < end {
                file.write_all_at(&filler, prepared).expect("room");
                prepared += STEP_BYTES as u64;
            }
            file.write_all_at(&data, position).expect("room");
            position = end;
        }
        spent += begun.elapsed();
    }
    spent
}

fn append(iterations: u64, size: usize, options: PrepareOptions) -> Duration {
    let batch = batch(size);
    let mut spent = Duration::ZERO;
    let mut left = iterations;
    while 0 < left {
        let log = BenchLog::new(options, 1 << 30);
        let count = left.min(FILE_BYTES / size as u64);
        left -= count;
        let begun = Instant::now();
        for _ in 0..count {
            log.append(&batch);
        }
        spent += begun.elapsed();
    }
    spent
}

fn appends(criterion: &mut Criterion) {
    let off = PrepareOptions {
        fill_bytes_max: 0,
        reserve_bytes_max: 0,
        write_back_bytes: 0,
    };
    let blocks = PrepareOptions {
        fill_bytes_max: 0,
        ..PrepareOptions::default()
    };
    for size in SIZES {
        let mut group = criterion.benchmark_group("append");
        group.throughput(Throughput::Bytes(size as u64));
        for ahead in [Ahead::Nothing, Ahead::Blocks, Ahead::BlocksAndFiller] {
            let id = BenchmarkId::new(format!("pwrite {ahead:?}"), size);
            group.bench_function(id, |bench| {
                bench.iter_custom(|iterations| pwrite(iterations, size, ahead));
            });
        }
        let kinds = [
            ("off", off),
            ("blocks", blocks),
            ("default", PrepareOptions::default()),
        ];
        for (name, options) in kinds {
            let id = BenchmarkId::new(format!("log {name}"), size);
            group.bench_function(id, |bench| {
                bench.iter_custom(|iterations| append(iterations, size, options));
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = appends
}
criterion_main!(benches);
