//! What a disk may do to a broker: devices that fail, files that are damaged, volumes that fill up, stops that come too early.
//!
//! `tests/faults.md` says which test stands for which fault and which rule of recovery.

mod damage;
mod devices;
mod early_stops;
mod listed;
mod live_policy;
mod volumes;

/// KAFKA_STORAGE_ERROR.
const STORAGE_ERROR: i16 = 56;

/// Plays a scene under several seeds.
fn for_seeds(seeds: u64, play: impl Fn(u64) -> Result<(), String>) {
    for seed in 1..=seeds {
        play(seed).unwrap_or_else(|report| panic!("{report}"));
    }
}
