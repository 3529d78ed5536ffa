//! Which logs keep their files open: those in use, within the shard's share of descriptors.
//!
//! Invariants:
//! 1. A log that was not used for [`REST_AFTER_SWEEPS`] sweeps gives its files back.
//! 2. At most [`Shard::open_logs_max`] logs hold files, one more while it makes room: whoever is about to open files has others close
//!    theirs first. Opening a file again costs less than a log that fails for want of a descriptor.
//! 3. Who goes first is decided by a clock over a queue: a log that was used since it stood in front is put behind once.

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

    /// Makes room for the files of a log before they are opened: when too many logs hold files, those that went longest without use
    /// give theirs back first. A log in use costs a look at two flags.
    pub(crate) async fn make_room(self: &Rc<Self>, slot: &Rc<Slot<E>>) {
        slot.is_used.set(true);
        if !slot.is_resting.replace(false) {
            return;
        }
        self.open_logs.borrow_mut().push_back(Rc::clone(slot));
        while let Some(victim) = self.next_victim() {
            self.rest_log(&victim).await;
        }
    }

    /// The log that is to rest, if too many hold files: the first in the queue that nobody used since it was there last.
    fn next_victim(&self) -> Option<Rc<Slot<E>>> {
        let mut open = self.open_logs.borrow_mut();
        if open.len() <= self.open_logs_max() {
            return None;
        }
        let mut chances = open.len();
        loop {
            let slot = open.pop_front()?;
            if chances > 0 && slot.is_used.replace(false) {
                open.push_back(slot);
                chances -= 1;
                continue;
            }
            slot.is_resting.set(true);
            return Some(slot);
        }
    }

    async fn rest_log(self: &Rc<Self>, slot: &Rc<Slot<E>>) {
        if let Err(error) = slot.log().rest().await {
            if !matches!(error, StorageError::Closed { .. }) {
                self.fail_log(slot, &error);
                return;
            }
            // Deleted meanwhile.
            tracing::debug!(topic = %slot.topic, partition = %slot.id.partition, %error, "cannot close the files of an idle log");
        }
        // Who was using it already may open the files again behind this.
        if slot.is_used.get() && slot.is_resting.replace(false) {
            self.open_logs.borrow_mut().push_back(Rc::clone(slot));
        }
    }

    /// Lets logs rest that nobody used for a while (maintenance, once a second).
    pub(crate) async fn sweep_logs(self: &Rc<Self>, sweep: u64) {
        if !sweep.is_multiple_of(REST_AFTER_SWEEPS) {
            return;
        }
        let open = std::mem::take(&mut *self.open_logs.borrow_mut());
        let (used, idle): (Vec<_>, Vec<_>) = open
            .into_iter()
            .partition(|slot| slot.is_used.replace(false));
        self.open_logs.borrow_mut().extend(used);
        for slot in idle {
            slot.is_resting.set(true);
            self.rest_log(&slot).await;
        }
    }

    /// Gives back what is prepared ahead of logs that were hot and are no more (maintenance, once a second).
    pub(crate) async fn cool_logs(&self) {
        if self.store.prepared_bytes() == 0 {
            return;
        }
        let cooled: Vec<Rc<Slot<E>>> = {
            // What is prepared is so in an open file.
            let open = self.open_logs.borrow();
            let cooled = open.iter().filter(|slot| slot.log().has_cooled());
            cooled.cloned().collect()
        };
        for slot in cooled {
            if let Err(error) = slot.log().cool().await {
                tracing::debug!(topic = %slot.topic, partition = %slot.id.partition, %error, "cannot cut a prepared tail");
            }
        }
    }
}
