//! Why the settings of the prepared tail and of write-back have their defaults: latency of appends at a fixed pace, one row for
//! each setting, in turn, and the process's CPU time for an append (all threads).
//!
//! Arguments: seconds for each row (5), appends a second (3 000), bytes of an append (16 384), rounds (1). Not criterion:
//! the tail of the distribution is what matters. Latency counts from the time at which an append was due.

use std::time::{Duration, Instant};

use pelton_bench::{BenchLog, batch};
use pelton_storage::PrepareOptions;
use rustix::time::{ClockId, clock_gettime};

const KIB: u32 = 1024;
const MIB: u32 = 1024 * KIB;

fn cpu_us() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
    .as_secs_f64()
        * 1e6
}

#[expect(clippy::print_stdout, reason = "a bench tells its figures")]
fn row(name: &str, options: PrepareOptions, seconds: u64, rate: u64, size: usize) {
    let log = BenchLog::new(options, 64 * MIB);
    let batch = batch(size);
    let gap = Duration::from_secs(1) / u32::try_from(rate).unwrap_or(u32::MAX);
    let mut latencies = Vec::new();
    let (begun, cpu) = (Instant::now(), cpu_us());
    let mut due = begun;
    for count in 1..=seconds * rate {
        if let Some(early) = due.checked_duration_since(Instant::now()) {
            std::thread::sleep(early);
        }
        log.append(&batch);
        latencies.push(due.elapsed());
        due += gap;
        if count % rate == 0 {
            log.tick();
        }
    }
    let cpu = (cpu_us() - cpu) / latencies.len() as f64;
    latencies.sort_unstable();
    let at =
        |in_1000: usize| latencies[(latencies.len() - 1) * in_1000 / 1_000].as_secs_f64() * 1e6;
    println!(
        "{name:32} p50 {:8.1}  p99 {:8.1}  p99.9 {:9.1}  max {:9.1} us   cpu {cpu:6.2} us an append",
        at(500),
        at(990),
        at(999),
        at(1_000)
    );
}

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let number = |index: usize, default| numbers.get(index).copied().unwrap_or(default);
    let (seconds, rate, rounds) = (number(0, 5), number(1, 3_000), number(3, 1));
    let size = usize::try_from(number(2, 16 * 1024)).unwrap_or(16 * 1024);
    let default = PrepareOptions::default();
    let filler = |fill_bytes_max| PrepareOptions {
        fill_bytes_max,
        ..default
    };
    let blocks = |reserve_bytes_max| PrepareOptions {
        reserve_bytes_max,
        ..default
    };
    let back = |write_back_bytes| PrepareOptions {
        write_back_bytes,
        ..default
    };
    let off = PrepareOptions {
        fill_bytes_max: 0,
        reserve_bytes_max: 0,
        write_back_bytes: 0,
    };
    let rows = [
        ("nothing", off),
        ("default", default),
        ("log.prepare.fill.bytes=0", filler(0)),
        ("log.prepare.fill.bytes=131072", filler(128 * KIB)),
        ("log.prepare.fill.bytes=4194304", filler(4 * MIB)),
        ("log.prepare.reserve.bytes=0", blocks(0)),
        ("log.prepare.reserve.bytes=1048576", blocks(MIB)),
        ("log.prepare.reserve.bytes=67108864", blocks(64 * MIB)),
        ("log.write.back.bytes=0", back(0)),
        ("log.write.back.bytes=1048576", back(MIB)),
        ("log.write.back.bytes=8388608", back(8 * MIB)),
    ];
    for _ in 0..rounds {
        for (name, options) in rows {
            row(name, options, seconds, rate, size);
        }
    }
}
