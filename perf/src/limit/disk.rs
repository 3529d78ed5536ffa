//! What the disk asks for a record that is to survive a power cut: write and fdatasync, alone, on one thread.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate, fdatasync};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::error::{PerfError, io_error};
use crate::outcome::Latency;
use crate::stats::Latencies;

const ROUNDS: u64 = 400;
/// Zeros are written and synced this far ahead, so that a sync has no more to tell than data.
const AHEAD_BYTES: usize = 64 << 10;

/// The figures of one kind of write.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Synced {
    /// Bytes of a write.
    pub(crate) write_bytes: usize,
    /// Over zeros that were written ahead, in place of a growing file.
    pub(crate) prepared: bool,
    /// Write and fdatasync.
    pub(crate) latency: Latency,
}

/// Writes and syncs, again and again.
pub(crate) fn measure(
    directory: &Path,
    write_bytes: usize,
    prepared: bool,
) -> Result<Synced, PerfError> {
    let path = directory.join("limit-sync");
    let failed = || io_error("writing", path.display().to_string());
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(true).open(&path).map_err(failed())?;
    if prepared {
        prepare(&file, write_bytes).map_err(failed())?;
    }
    let bytes = vec![0x41; write_bytes];
    let clock = Clock::new();
    let mut latencies = Latencies::new();
    for round in 0..ROUNDS {
        let begin = clock.now();
        file.write_all_at(&bytes, round * write_bytes as u64).map_err(failed())?;
        fdatasync(&file).map_err(|error| failed()(std::io::Error::from(error)))?;
        latencies.record(clock.now() - begin);
    }
    std::fs::remove_file(&path).map_err(failed())?;
    Ok(Synced { write_bytes, prepared, latency: Latency::new(&latencies) })
}

fn prepare(file: &File, write_bytes: usize) -> std::io::Result<()> {
    let size = ROUNDS * write_bytes as u64;
    fallocate(file, FallocateFlags::KEEP_SIZE, 0, size).unwrap_or_default();
    let zeros = vec![0; AHEAD_BYTES];
    for at in (0..size).step_by(AHEAD_BYTES) {
        file.write_all_at(&zeros, at)?;
    }
    Ok(fdatasync(file)?)
}
