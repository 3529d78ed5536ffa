//! Markers of transactions that end: written to each partition, however often that takes, and told to the coordinator.
//!
//! Invariants:
//! 1. A coordinator that is given up writes no more markers: whoever loads its log writes them again, which harms nothing.
//! 2. A partition that is gone has no records that wait for a marker: it counts as done (only partitions that this shard knows of join
//!    a transaction). So does one that knows a later epoch of the producer, for the transaction can no longer be open there.
//! 3. What cannot be written is tried again, with growing pauses; other partitions and other transactions do not wait for it.

use std::rc::Rc;

use pelton_machine::transaction::{self, AddMode, Marked, Markers};
use pelton_model::limits::{MARKER_RETRY_MS_MAX, MARKER_RETRY_MS_MIN};
use pelton_model::{ErrorCode, PartitionId, Str, TopicPartition};
use pelton_transport::net::{Net, TaskClass};

use super::{Command, Hosted, Phase};
use crate::env::Env;
use crate::shard::Shard;
use crate::shard::message::TxnEnd;

/// A partition by name, and by id where it exists.
type Named = (Str, i32, Option<TopicPartition>);

impl<E: Env> Shard<E> {
    /// Begins to write a transaction's markers.
    pub(super) fn start_marking(self: &Rc<Self>, hosted: &Rc<Hosted<E>>, markers: Markers) {
        let (shard, hosted) = (Rc::clone(self), Rc::clone(hosted));
        self.net.spawn(TaskClass::Request, async move {
            shard.mark(&hosted, markers).await;
        });
    }

    async fn mark(self: &Rc<Self>, hosted: &Rc<Hosted<E>>, markers: Markers) {
        let end = TxnEnd {
            producer_id: markers.producer_id,
            producer_epoch: markers.producer_epoch,
            coordinator_epoch: hosted.slot.state.borrow().leader_epoch().0,
            is_commit: markers.commit,
            is_bumped: markers.is_bumped,
        };
        let partitions = markers.partitions.iter();
        let partitions =
            partitions.flat_map(|(topic, all)| all.iter().map(move |one| (topic, *one)));
        let mut left: Vec<(Str, i32)> = partitions
            .map(|(topic, partition)| (topic.clone(), partition))
            .collect();
        let mut pause_ms = MARKER_RETRY_MS_MIN;
        loop {
            let (done, again) = self.mark_once(end, left).await;
            if hosted.phase.get() != Phase::Active || self.is_stopping.get() {
                return;
            }
            if !done.is_empty() {
                self.on_marked(hosted, &markers, done);
            }
            if again.is_empty() {
                return;
            }
            if let Some(untold) = self.repeats.markers.tell(self.net.now()) {
                let (id, left) = (&markers.transactional_id, again.len());
                tracing::warn!(transactional_id = %id, left, untold, "markers of a transaction could not be written: trying again");
            }
            left = again;
            self.net.sleep_until(self.net.now().plus_ms(pause_ms)).await;
            if hosted.phase.get() != Phase::Active || self.is_stopping.get() {
                return;
            }
            pause_ms = (2 * pause_ms).min(MARKER_RETRY_MS_MAX);
        }
    }

    /// Tries to write markers: those that need no more, and those that are to be tried again.
    async fn mark_once(
        self: &Rc<Self>,
        end: TxnEnd,
        partitions: Vec<(Str, i32)>,
    ) -> (Vec<(Str, i32)>, Vec<(Str, i32)>) {
        let named = partitions.into_iter();
        let named: Vec<Named> = named
            .map(|(topic, partition)| {
                let id = self.partition_id(&topic, partition);
                (topic, partition, id)
            })
            .collect();
        let ids: Vec<TopicPartition> = named.iter().filter_map(|(_, _, id)| *id).collect();
        let mut codes = self.write_markers(end, &ids).await.into_iter();
        let (mut done, mut again) = (Vec::new(), Vec::new());
        for (topic, partition, id) in named {
            let is_done = match id {
                Some(_) => needs_no_more(codes.next().expect("a code for each partition")),
                None => true,
            };
            if is_done {
                done.push((topic, partition));
            } else {
                again.push((topic, partition));
            }
        }
        (done, again)
    }

    fn on_marked(
        self: &Rc<Self>,
        hosted: &Rc<Hosted<E>>,
        markers: &Markers,
        done: Vec<(Str, i32)>,
    ) {
        let done = done.into_iter();
        let marked = Marked {
            transactional_id: markers.transactional_id.clone(),
            producer_id: markers.producer_id,
            producer_epoch: markers.producer_epoch,
            partitions: done
                .map(|(topic, partition)| (topic, vec![partition]))
                .collect(),
        };
        let made = self.with_scene(|scene| hosted.state.borrow_mut().marked(scene, &marked));
        self.carry_out(hosted, made);
    }

    /// Whether partitions would join a transaction that this shard does not know of, yet or any more.
    pub(super) fn adds_unknown(&self, command: &Command) -> bool {
        let Command::Transaction(transaction::Command::AddPartitions(add)) = command else {
            return false;
        };
        let is_unknown = |topic: &Str, all: &[i32]| {
            all.iter()
                .any(|&partition| self.partition_id(topic, partition).is_none())
        };
        matches!(add.mode, AddMode::Add(_))
            && add.topics.iter().any(|(topic, all)| is_unknown(topic, all))
    }

    /// A partition by its name, where it exists.
    fn partition_id(&self, topic: &str, partition: i32) -> Option<TopicPartition> {
        let topic = self.topic_by_name(topic)?;
        topic.has_partition(partition).then_some(TopicPartition {
            topic_id: topic.id,
            partition: PartitionId(partition),
        })
    }
}

/// Whether a partition is done with after this answer. One that its owner does not know may not be open yet; when its topic is deleted,
/// the metadata will say so.
fn needs_no_more(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::None | ErrorCode::InvalidProducerEpoch | ErrorCode::TransactionCoordinatorFenced
    )
}
