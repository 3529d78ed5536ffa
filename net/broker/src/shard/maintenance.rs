//! What a shard does beside requests: deadlines, idle connections, checkpoints, closing.
//!
//! One timer for all: nothing here has a task or a timer of its own for each connection or partition.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use pelton_model::{Monotonic, TopicId, TopicPartition};
use pelton_storage::LogManifest;
use pelton_transport::net::{Connection as _, Net, TaskClass};

use super::Shard;
use super::message::PartitionCheckpoint;
use super::sync::for_each;
use crate::env::Env;

/// How often deadlines are looked at.
const TICK_MS: u64 = 100;
/// A connection's receive buffer is given back after so long without a byte.
const SILENCE_MS: u64 = 5_000;
/// Open files are looked at once in so many ticks.
const SWEEP_TICKS: u64 = 10;
/// Producers are expired once in so many ticks.
const EXPIRY_TICKS: u64 = 600;

type Manifests = Rc<RefCell<BTreeMap<TopicPartition, Box<LogManifest>>>>;

impl<E: Env> Shard<E> {
    /// Runs until the shard ends.
    pub(crate) async fn run_maintenance(self: Rc<Self>) {
        let mut tick = 0_u64;
        loop {
            self.net.sleep_until(self.net.now().plus_ms(TICK_MS)).await;
            tick += 1;
            let now = self.net.now();
            self.expire_commits();
            self.expire_watches(now);
            self.close_idle(now);
            self.sync_due(now);
            if tick.is_multiple_of(SWEEP_TICKS) && !self.is_stopping.get() {
                self.store.tick();
                self.cool_logs().await;
                self.sweep_logs(tick / SWEEP_TICKS).await;
            }
            if tick.is_multiple_of(EXPIRY_TICKS) {
                self.expire_producers();
            }
        }
    }

    fn close_idle(&self, now: Monotonic) {
        let idle_ms = u64::try_from(self.config.connections_max_idle_ms).ok();
        for connection in self.connections.borrow().values() {
            let is_idle = idle_ms.is_some_and(|ms| connection.last_active.get().plus_ms(ms) <= now);
            let is_silent = connection.last_active.get().plus_ms(SILENCE_MS) <= now;
            if is_silent && !connection.is_silent.replace(true) {
                connection.wake.notify();
            }
            let is_stalled = connection
                .stall_deadline
                .get()
                .is_some_and(|deadline| deadline <= now);
            if is_idle || is_stalled {
                tracing::debug!(peer = %connection.socket.peer_addr(), is_idle, is_stalled, "closing a connection");
                self.close_connection(connection);
            }
        }
    }

    fn expire_producers(&self) {
        let now = self.net.wall_clock();
        let expiration_ms = i64::from(self.settings().producer_id_expiration_ms);
        for slot in self.all_slots() {
            slot.state.borrow_mut().expire_producers(now, expiration_ms);
        }
    }

    /// What should stand in the checkpoint files for this shard's partitions.
    pub(crate) fn checkpoints(&self) -> Vec<PartitionCheckpoint> {
        self.checkpoint_rows(&mut BTreeMap::new())
    }

    fn checkpoint_rows(
        &self,
        manifests: &mut BTreeMap<TopicPartition, Box<LogManifest>>,
    ) -> Vec<PartitionCheckpoint> {
        let slots = self.all_slots();
        let mut of_slot = |slot: &Rc<super::slot::Slot<E>>| {
            let state = slot.state.borrow();
            PartitionCheckpoint {
                topic: slot.topic.to_string(),
                partition: slot.id.partition.0,
                dir: slot.dir,
                recovery_point: slot.log.recovery_point(),
                log_start: state.log_start(),
                high_watermark: state.high_watermark(),
                cleaned_to: slot.cleaned.to.get(),
                is_clean: !state.is_offline(),
                manifest: manifests.remove(&slot.id),
            }
        };
        // A clean marker would spare those the recovery that they still need.
        let unopened = self.unopened.borrow();
        slots
            .iter()
            .map(&mut of_slot)
            .chain(unopened.values().flatten().cloned())
            .collect()
    }

    /// Syncs and closes every log (at a stop).
    pub(crate) async fn close_logs(&self) -> Vec<PartitionCheckpoint> {
        let manifests = Manifests::default();
        let kept = Rc::clone(&manifests);
        let close = move |slot: Rc<super::slot::Slot<E>>| {
            let manifests = Rc::clone(&kept);
            async move {
                // Nothing is written to a failed directory, and nothing retried.
                if slot.state.borrow().is_offline() {
                    return;
                }
                let snapshot = slot.producer_snapshot();
                if let Err(error) = slot.log.close(snapshot).await {
                    tracing::error!(topic = %slot.topic, partition = %slot.id.partition, %error, "cannot close the log");
                    slot.state.borrow_mut().go_offline();
                }
                if let Some(manifest) = slot.manifest().await {
                    manifests.borrow_mut().insert(slot.id, Box::new(manifest));
                }
            }
        };
        for_each(&self.net, TaskClass::Request, self.all_slots(), close).await;
        self.checkpoint_rows(&mut manifests.borrow_mut())
    }

    /// A random id.
    pub(crate) fn draw_id(&self) -> TopicId {
        let mut bytes = [0; 16];
        self.net.random(&mut bytes);
        // A version 4 UUID, as Kafka's are.
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        TopicId(bytes)
    }
}
