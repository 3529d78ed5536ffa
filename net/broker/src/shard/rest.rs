//! Which logs keep their files open: those in use, within the shard's share of descriptors.
//!
//! Invariants:
//! 1. A log that was not used for [`REST_AFTER_SWEEPS`] sweeps gives its files back.
//! 2. Beyond [`Shard::open_logs_max`] logs, those not used since the last sweep give theirs back at once, and if that is not
//!    enough, any: opening a file again costs less than a log that fails for want of a descriptor.

use std::rc::Rc;

use pelton_storage::StorageError;

use super::Shard;
use super::slot::Slot;
use crate::env::Env;

/// How many sweeps (one a second) a log may go unused.
const REST_AFTER_SWEEPS: u64 = 30;
/// Descriptors of a log in use: its active segment and that one's indexes.
const FILES_PER_LOG: usize = 3;

impl<E: Env> Shard<E> {
    /// Half as many descriptors for logs as for connections, as the limits are told at the start.
    fn open_logs_max(&self) -> usize {
        (self.connections_max / 2 / FILES_PER_LOG).max(1)
    }

    /// Lets logs rest (maintenance, once a second).
    pub(crate) async fn sweep_logs(self: &Rc<Self>, sweep: u64) {
        let mut open = self.open_slots();
        let mut excess = open.len().saturating_sub(self.open_logs_max());
        if excess == 0 && !sweep.is_multiple_of(REST_AFTER_SWEEPS) {
            return;
        }
        // Unused ones first.
        open.sort_by_key(|slot| slot.is_used.get());
        for slot in open {
            if slot.is_used.replace(false) && excess == 0 {
                continue;
            }
            excess = excess.saturating_sub(1);
            slot.is_resting.set(true);
            if let Err(error) = slot.log.rest().await {
                if !matches!(error, StorageError::Closed { .. }) {
                    self.fail_log(&slot, &error);
                    continue;
                }
                // Deleted meanwhile.
                tracing::debug!(topic = %slot.topic, partition = %slot.id.partition, %error, "cannot close the files of an idle log");
            }
        }
    }

    /// Gives back what is prepared ahead of logs that were hot and are no more (maintenance, once a second).
    pub(crate) async fn cool_logs(&self) {
        if self.store.prepared_bytes() == 0 {
            return;
        }
        let cooled: Vec<Rc<Slot<E>>> = {
            let slots = self.slots.borrow();
            let cooled = slots.values().filter(|slot| slot.log.has_cooled());
            cooled.cloned().collect()
        };
        for slot in cooled {
            if let Err(error) = slot.log.cool().await {
                tracing::debug!(topic = %slot.topic, partition = %slot.id.partition, %error, "cannot cut a prepared tail");
            }
        }
    }

    fn open_slots(&self) -> Vec<Rc<Slot<E>>> {
        let slots = self.slots.borrow();
        let open = slots.values().filter(|slot| !slot.is_resting.get());
        open.cloned().collect()
    }
}
