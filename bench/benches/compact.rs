//! What compaction computes: noting the keys of a piece in the map, and filtering a piece, for each codec; all in memory.
//!
//! A piece is what the cleaner's helper takes in one go. Every other record has a newer one.

use bytes::{Bytes, BytesMut};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pelton_model::batch::{BatchBuilder, Batches, BuilderOptions};
use pelton_model::compression::Compression;
use pelton_model::{Offset, Timestamp};
use pelton_storage::compaction::filter::Work;
use pelton_storage::compaction::transactions::Transactions;
use pelton_storage::compaction::{HashSeed, KeyMap, Settings};

const BATCH_RECORDS: i64 = 64;
const BATCHES: i64 = 8;
const VALUE_BYTES: usize = 100;
const KEYS: i64 = 256;

/// A piece of batches whose keys come twice.
fn piece(compression: Compression) -> Bytes {
    let mut piece = BytesMut::new();
    for batch in 0..BATCHES {
        let base = batch * BATCH_RECORDS;
        let mut builder = BatchBuilder::new(BuilderOptions {
            compression,
            base_offset: Offset(base),
            ..BuilderOptions::default()
        });
        for offset in base..base + BATCH_RECORDS {
            let key = format!("key-{}", offset % KEYS);
            let value: Vec<u8> = (0..VALUE_BYTES)
                .map(|at| u8::try_from(at).unwrap_or(0) ^ offset.to_le_bytes()[0])
                .collect();
            builder.append(Timestamp(offset), Some(key.as_bytes()), Some(&value), &[]);
        }
        piece.extend_from_slice(&builder.build());
    }
    piece.freeze()
}

fn work() -> Work {
    let map = KeyMap::new(128 << 20, 0.9, 1_000_000, HashSeed([1, 2]));
    let transactions = Transactions::new(Vec::new());
    Work::new(
        Settings::default(),
        Timestamp(0),
        map,
        Offset(0),
        transactions,
    )
}

fn map(work: &mut Work, piece: &Bytes) {
    for batch in Batches::new(piece) {
        let (header, batch) = batch.expect("built here");
        let batch = piece.slice_ref(batch);
        work.map_batch(&header, &batch, Offset(0))
            .expect("built here");
    }
}

fn clean(work: &mut Work, piece: &Bytes) -> usize {
    let mut kept = 0;
    for batch in Batches::new(piece) {
        let (header, batch) = batch.expect("built here");
        let batch = piece.slice_ref(batch);
        let stays = work.clean_batch(&header, &batch).expect("built here");
        kept += stays.map_or(0, |stays| stays.len());
    }
    kept
}

fn compact(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("compact");
    for compression in Compression::ALL {
        let piece = piece(compression);
        group.throughput(Throughput::Bytes(piece.len() as u64));
        let mut state = work();
        group.bench_function(BenchmarkId::new("map", compression.name()), |bencher| {
            bencher.iter(|| map(&mut state, &piece));
        });
        group.bench_function(BenchmarkId::new("clean", compression.name()), |bencher| {
            bencher.iter(|| clean(&mut state, &piece));
        });
    }
    group.finish();
}

criterion_group!(benches, compact);
criterion_main!(benches);
