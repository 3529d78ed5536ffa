//! Storage work beside the requests: one task for each shard, one thing after the other in small pieces.
//!
//! Invariants:
//! 1. One round at a time; between its pieces other tasks run. What waits for the device does so on the helper thread.
//! 2. Nothing here has a task or a timer for each partition.
//! 3. A stop ends it: logs that are being closed are left alone, what is in the trash goes at the next start.

use std::rc::Rc;

use pelton_transport::net::Net;

use super::Shard;
use super::retention::RetentionRound;
use crate::env::Env;

/// The pause before a round when there is nothing left to do.
const IDLE_MS: u64 = 100;
/// The pause while there is more to do, so that what was queued behind a piece at the device goes first.
const BUSY_MS: u64 = 20;
/// Bytes of deleted files that are given back in one piece while little is due: 50 MB a second, in pieces that hold the
/// filesystem's journal for a fraction of a millisecond.
const TRASH_STEP_BYTES: u64 = 1024 * 1024;
/// The piece grows by that much with every fourth segment that is due, up to so many, so that deleting keeps up with the load.
const TRASH_DUE_MAX: usize = 64;

impl<E: Env> Shard<E> {
    /// Runs until the shard stops. Each round does a piece of every kind of work.
    pub(crate) async fn run_background(self: Rc<Self>) {
        let mut pause_ms = IDLE_MS;
        let mut retention = RetentionRound::default();
        loop {
            self.net.sleep_until(self.net.now().plus_ms(pause_ms)).await;
            if self.is_stopping.get() {
                return;
            }
            let retains = self.retain_some(&mut retention).await;
            let is_busy = self.empty_trash().await || retains;
            pause_ms = if is_busy { BUSY_MS } else { IDLE_MS };
        }
    }

    /// Removes deleted files that are due; says whether more are.
    async fn empty_trash(&self) -> bool {
        let now = self.net.now();
        let trash = self.store.trash();
        let steps = trash.due_count(now, TRASH_DUE_MAX).div_ceil(4);
        let emptied = trash.empty(now, TRASH_STEP_BYTES * steps as u64).await;
        self.metrics.counters.trash_bytes.add(emptied.bytes);
        emptied.has_more
    }
}
