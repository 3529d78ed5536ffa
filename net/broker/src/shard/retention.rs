//! Old records go: by time and size from time to time, and below an offset when a client asks (DeleteRecords).
//!
//! Invariants:
//! 1. A log start is in the partition's state before anyone is answered by it; who waits below it reads again and learns so.
//! 2. Nothing at or above the high watermark goes.
//! 3. A round looks at a few partitions at a time; only logs that have something to delete cost more than a comparison.
//! 4. What a client was told to be deleted stays so: the checkpoint is durable before the answer. What retention deletes is
//!    told by the files that are left.
//!
//! Source: KIP-107 for DeleteRecords.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pelton_model::task::{OnceSender, oneshot};
use pelton_model::{ErrorCode, LeaderEpoch, Monotonic, Offset, TopicPartition};
use pelton_storage::{RetentionTerms, StorageError};
use pelton_transport::net::{Net, TaskClass};

use super::Shard;
use super::message::Deletion;
use super::read::refused_code;
use super::slot::Slot;
use crate::boot;
use crate::env::Env;

/// Partitions that are looked at in one piece.
const PARTITIONS_PER_PIECE: usize = 64;
/// The first round begins at most so long after the start, as Kafka's does.
const FIRST_ROUND_MS: u64 = 30_000;

/// How far the present round has come.
#[derive(Default)]
pub(super) struct RetentionRound {
    next: Option<Monotonic>,
    left: Vec<TopicPartition>,
}

/// Who waits for the log starts to be kept (on the controller's shard).
#[derive(Default)]
pub(crate) struct LogStartWaiters {
    waiting: RefCell<Vec<OnceSender<Result<(), ErrorCode>>>>,
    is_running: Cell<bool>,
}

impl<E: Env> Shard<E> {
    /// Deletes what is past its retention in some partitions; says whether the round goes on.
    pub(super) async fn retain_some(self: &Rc<Self>, round: &mut RetentionRound) -> bool {
        let now = self.net.now();
        let interval_ms = u64::try_from(self.config.log_retention_check_interval_ms).unwrap_or(1);
        if round.left.is_empty() {
            let first = now.plus_ms(interval_ms.min(FIRST_ROUND_MS));
            let next = *round.next.get_or_insert(first);
            if now < next {
                return false;
            }
            round.next = Some(now.plus_ms(interval_ms));
            round.left = self.slot_ids();
        }
        for _ in 0..PARTITIONS_PER_PIECE {
            let Some(id) = round.left.pop() else {
                break;
            };
            let Some(slot) = self.slot(id) else {
                continue;
            };
            if self.retain(&slot).await {
                round.left.push(id);
                break;
            }
        }
        !round.left.is_empty()
    }

    /// Deletes segments of one log; says whether more may have to go.
    async fn retain(self: &Rc<Self>, slot: &Rc<Slot<E>>) -> bool {
        let high_watermark = {
            let state = slot.state.borrow();
            if state.is_offline() {
                return false;
            }
            state.high_watermark()
        };
        let terms = RetentionTerms {
            now: self.net.wall_clock(),
            instant: self.net.now(),
            high_watermark,
        };
        match slot.log().retain(terms, || slot.producer_snapshot()).await {
            Ok(retained) => {
                let deleted = &self.metrics.counters.retention_segments;
                deleted.add(retained.deleted as u64);
                if retained.deleted > 0 || retained.has_rolled {
                    // Its files may have been opened.
                    self.make_room(slot).await;
                }
                if retained.has_rolled {
                    self.sync_behind(slot);
                }
                self.on_log_start(slot, retained.log_start);
                retained.has_more
            }
            Err(error) => {
                self.on_retention_error(slot, &error);
                false
            }
        }
    }

    fn on_retention_error(self: &Rc<Self>, slot: &Rc<Slot<E>>, error: &StorageError) {
        if slot.log().is_failed() {
            self.fail_log(slot, error);
        } else if !matches!(error, StorageError::Closed { .. }) {
            tracing::warn!(topic = %slot.topic, partition = %slot.id.partition, %error, "cannot tell what is past its retention");
        }
    }

    /// The log begins at `log_start` now: tells the partition, and whoever waits for it.
    pub(crate) fn on_log_start(&self, slot: &Slot<E>, log_start: Offset) {
        let has_moved = {
            let mut state = slot.state.borrow_mut();
            let before = state.log_start();
            before < state.advance_log_start(log_start)
        };
        if has_moved {
            self.on_gone(slot.id);
        }
    }

    /// Answers the partitions of a DeleteRecords, one for one: the log start, or why it did not move.
    pub(crate) async fn delete_records(
        self: &Rc<Self>,
        deletions: &[Deletion],
    ) -> Vec<Result<Offset, ErrorCode>> {
        let mut outcomes = Vec::with_capacity(deletions.len());
        for deletion in deletions {
            outcomes.push(self.delete_below(deletion).await);
        }
        outcomes
    }

    async fn delete_below(self: &Rc<Self>, deletion: &Deletion) -> Result<Offset, ErrorCode> {
        let Some(slot) = self.slot(deletion.partition) else {
            return Err(self.missing(deletion.partition));
        };
        let to = {
            let state = slot.state.borrow();
            state.check_epoch(LeaderEpoch::NONE).map_err(refused_code)?;
            let policy = slot.config.borrow().cleanup_policy;
            if policy.compact && !policy.delete {
                return Err(ErrorCode::PolicyViolation);
            }
            let to = match deletion.offset {
                Offset::NONE => state.high_watermark(),
                offset => offset,
            };
            if to.0 < 0 || state.high_watermark() < to {
                return Err(ErrorCode::OffsetOutOfRange);
            }
            to
        };
        match slot.log().advance_log_start(to, self.net.now()).await {
            Ok(log_start) => {
                self.on_log_start(&slot, log_start);
                Ok(log_start)
            }
            Err(error) => {
                self.on_retention_error(&slot, &error);
                Err(match error {
                    // By a stop: whether the start has moved is not known. Else the topic was deleted meanwhile.
                    StorageError::Closed { .. } if self.is_stopping.get() => {
                        ErrorCode::RequestTimedOut
                    }
                    StorageError::Closed { .. } => ErrorCode::UnknownTopicOrPartition,
                    StorageError::Disk(_)
                    | StorageError::Failed { .. }
                    | StorageError::Corrupt { .. } => ErrorCode::KafkaStorageError,
                })
            }
        }
    }

    /// Makes the present log starts of every shard durable (the controller's shard). Requests that come while the file is being
    /// written share the next writing.
    pub(crate) async fn keep_log_starts(self: &Rc<Self>) -> Result<(), ErrorCode> {
        let (sender, receiver) = oneshot();
        self.log_start_waiters.waiting.borrow_mut().push(sender);
        if !self.log_start_waiters.is_running.replace(true) {
            let shard = Rc::clone(self);
            self.net.spawn(TaskClass::Request, async move {
                loop {
                    let waiting = shard.log_start_waiters.waiting.take();
                    if waiting.is_empty() {
                        break;
                    }
                    let kept = boot::keep_log_starts(&shard).await;
                    for waiter in waiting {
                        waiter.send(kept);
                    }
                }
                shard.log_start_waiters.is_running.set(false);
            });
        }
        receiver.await.unwrap_or(Err(ErrorCode::RequestTimedOut))
    }
}
