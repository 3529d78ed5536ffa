//! What a shard does beside requests: deadlines, idle connections, checkpoints, closing.
//!
//! One timer for all: nothing here has a task or a timer of its own for each connection or partition.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;
use std::sync::Arc;

use pelton_machine::budget::Pool;
use pelton_model::limits::ANSWER_STALL_MS_MAX;
use pelton_model::{Monotonic, TopicId, TopicPartition};
use pelton_storage::LogManifest;
use pelton_transport::net::{Connection as _, Net, TaskClass};

use super::Shard;
use super::memory::count as count_one;
use super::message::PartitionCheckpoint;
use super::sync::for_each;
use crate::connection::Registered;
use crate::env::Env;

/// How often deadlines are looked at.
const TICK_MS: u64 = 100;
/// A connection's receive buffer is given back after so long without a byte.
const SILENCE_MS: u64 = 5_000;
/// Every connection is looked at once in so many ticks.
const VISIT_TICKS: usize = 10;
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
            self.visit_connections(now);
            self.sync_due(now);
            if tick.is_multiple_of(SWEEP_TICKS) && !self.is_stopping.get() {
                self.store.tick();
                self.look_at_load();
                self.cool_logs().await;
                self.sweep_logs(tick / SWEEP_TICKS).await;
            }
            if tick.is_multiple_of(EXPIRY_TICKS) {
                self.expire_producers().await;
            }
        }
    }

    /// Looks at a part of the connections, so that each has its turn once a second and a tick stays short with many; at all of
    /// them while somebody waits for what they hold.
    fn visit_connections(&self, now: Monotonic) {
        let is_answer_wanted = self.memory.is_wanted(Pool::Answers);
        let is_first_wanted = self.memory.is_wanted(Pool::First);
        let connections = self.connections.borrow();
        let share = connections.len().div_ceil(VISIT_TICKS);
        let is_pressed = is_answer_wanted || is_first_wanted;
        let count = if is_pressed { connections.len() } else { share };
        let from = self.visited.get();
        let ahead = connections.range((Bound::Excluded(from), Bound::Unbounded));
        let round = ahead.chain(connections.range(..=from)).take(count);
        for (&id, connection) in round {
            self.visited.set(id);
            self.visit(connection, now, is_answer_wanted, is_first_wanted);
        }
        if self.gate.is_overfull() {
            let open = connections.values().filter(|it| !it.is_closed.get());
            let longest = open.min_by_key(|it| it.last_active.get());
            if let Some(connection) = longest {
                count_one(&self.memory.pressure.idle_closed);
                self.close_connection(connection);
            }
        }
    }

    fn visit(
        &self,
        connection: &Registered<E>,
        now: Monotonic,
        is_answer_wanted: bool,
        is_first_wanted: bool,
    ) {
        if connection.is_closed.get() {
            return;
        }
        let pressure = &self.memory.pressure;
        let sent_bytes = connection.socket.sent_bytes();
        if connection.sent_bytes.replace(sent_bytes) != sent_bytes {
            connection.sent_at.set(now);
            // Who takes a long answer is not silent; a short one was gone with its request.
            if connection.answer_bytes.get() > 0 {
                let last = connection.last_active.get().max(now);
                connection.last_active.set(last);
            }
        }
        let idle_ms = u64::try_from(self.config.connections_max_idle_ms).ok();
        let is_idle = idle_ms.is_some_and(|ms| connection.last_active.get().plus_ms(ms) <= now);
        let is_silent = connection.last_active.get().plus_ms(SILENCE_MS) <= now;
        if is_silent && !connection.is_silent.replace(true) {
            connection.wake.notify();
        }
        let is_stalled = connection.stall.get().is_some_and(|stall| {
            stall.deadline <= now && (is_first_wanted || !stall.only_if_wanted)
        });
        let is_unread = is_answer_wanted
            && connection.answer_bytes.get() > 0
            && connection.sent_at.get().plus_ms(ANSWER_STALL_MS_MAX) <= now;
        let reasons = [
            (is_idle, &pressure.idle_closed),
            (is_stalled, &pressure.stalled_frames),
            (is_unread, &pressure.stalled_answers),
        ];
        if let Some((_, counter)) = reasons.into_iter().find(|(holds, _)| *holds) {
            count_one(counter);
            let peer = connection.socket.peer_addr();
            tracing::debug!(%peer, is_idle, is_stalled, is_unread, "closing a connection");
            self.close_connection(connection);
        }
    }

    async fn expire_producers(&self) {
        let now = self.net.wall_clock();
        let expiration_ms = i64::from(self.settings().producer_id_expiration_ms);
        self.for_each_slot(|slot| {
            slot.state.borrow_mut().expire_producers(now, expiration_ms);
        })
        .await;
    }

    /// What should stand in the checkpoint files for those of this shard's partitions that `is_asked` says.
    pub(crate) async fn checkpoints(
        &self,
        is_asked: impl Fn(&PartitionCheckpoint) -> bool,
    ) -> Vec<PartitionCheckpoint> {
        self.checkpoint_rows(BTreeMap::new(), is_asked).await
    }

    async fn checkpoint_rows(
        &self,
        mut manifests: BTreeMap<TopicPartition, Box<LogManifest>>,
        is_asked: impl Fn(&PartitionCheckpoint) -> bool,
    ) -> Vec<PartitionCheckpoint> {
        let mut rows = Vec::new();
        self.for_each_slot(|slot| {
            let state = slot.state.borrow();
            let row = PartitionCheckpoint {
                topic: Arc::clone(&slot.topic),
                partition: slot.id.partition.0,
                dir: slot.dir(),
                recovery_point: slot.log().recovery_point(),
                log_start: state.log_start(),
                high_watermark: state.high_watermark(),
                cleaned_to: slot.cleaned.to.get(),
                is_clean: !state.is_offline(),
                manifest: manifests.remove(&slot.id),
            };
            if is_asked(&row) {
                rows.push(row);
            }
        })
        .await;
        // A clean marker would spare those the recovery that they still need.
        let unopened = self.unopened.borrow();
        let unopened = unopened.values().flatten().filter(|row| is_asked(row));
        rows.extend(unopened.cloned());
        rows
    }

    /// Syncs and closes every log (at a stop). A batch planned from now on would be in a log's snapshot of producers, but never in the
    /// log: sent again after the start it would be answered as if it was there. So none is (a coordinator may still have one).
    pub(crate) async fn close_logs(&self) -> Vec<PartitionCheckpoint> {
        self.is_closing.set(true);
        self.close_copies().await;
        let manifests = Manifests::default();
        let kept = Rc::clone(&manifests);
        let close = move |slot: Rc<super::slot::Slot<E>>| {
            let manifests = Rc::clone(&kept);
            async move {
                // Nothing is written to a failed directory, and nothing retried.
                if slot.state.borrow().is_offline() {
                    return;
                }
                // Planned before, and not written in all the time there was: the next start finds what there is.
                let is_whole = slot.is_quiet();
                let snapshot = slot.producer_snapshot().filter(|_| is_whole);
                if let Err(error) = slot.log().close(snapshot).await {
                    tracing::error!(topic = %slot.topic, partition = %slot.id.partition, %error, "cannot close the log");
                    slot.state.borrow_mut().go_offline();
                }
                if !is_whole {
                    slot.state.borrow_mut().go_offline();
                } else if let Some(manifest) = slot.manifest().await {
                    manifests.borrow_mut().insert(slot.id, Box::new(manifest));
                }
            }
        };
        for_each(&self.net, TaskClass::Request, self.all_slots(), close).await;
        let manifests = manifests.take();
        self.checkpoint_rows(manifests, |_| true).await
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
