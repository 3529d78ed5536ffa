//! The embedded controller's driver: decisions of the machine become records in `__cluster_metadata-0`, durable before they count.
//!
//! The life of a change: decide on the present image → append one batch to the metadata log → sync → replay into the image → publish to
//! every shard → answer when all have applied it. One change at a time.
//!
//! Invariants:
//! 1. The image changes by replaying records that are durable, and in no other way: a restart arrives at the same image.
//! 2. A change is answered after every shard has applied it, so a created topic can be used at once through any connection.
//! 3. After a failed append or sync nothing more is decided: KAFKA_STORAGE_ERROR until the process starts again.

mod command;
mod format;
mod load;
mod restore;
mod snapshot;
#[cfg(test)]
mod tests;
mod write;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use pelton_machine::controller::{self, BrokerStart, QuorumImage, QuorumStart};
use pelton_machine::image::MetadataImage;
use pelton_model::record_type::metadata::GROUP_VERSION_FEATURE;
use pelton_model::task::{Notify, OnceSender, oneshot};
use pelton_model::{ErrorCode, LeaderEpoch, Monotonic, Offset, Timestamp};
use pelton_storage::{Log, StorageError};
use pelton_transport::net::Net;

pub use self::command::{Answer, Command};
use self::load::Loaded;
pub(crate) use self::load::{LoadOptions, load};
use self::restore::Snapshots;
use crate::boot::{BootError, Opening};
use crate::env::Env;
use crate::shard::Shard;
use crate::shard::message::{ImageUpdate, QuorumState, Request, Response};

/// The name of the metadata log's topic; its only partition is 0.
pub(crate) const METADATA_TOPIC: &str = "__cluster_metadata";

/// See the module.
pub(crate) struct Controller<E: Env> {
    shard: Weak<Shard<E>>,
    log: Log<E::Disk>,
    image: RefCell<MetadataImage>,
    /// The leader epoch of this run in the metadata log.
    epoch: LeaderEpoch,
    broker_epoch: Cell<i64>,
    quorum: RefCell<QuorumImage>,
    /// This node as a voter.
    voter: QuorumStart,
    snapshots: RefCell<Snapshots>,
    /// When the newest snapshot was written, or this run began.
    snapshot_at: Cell<Monotonic>,
    /// Bytes of the log that no snapshot contains.
    unsnapshotted_bytes: Cell<u64>,
    /// The time of the last record.
    last_timestamp: Cell<Timestamp>,
    has_failed: Cell<bool>,
    queue: RefCell<VecDeque<(Command, OnceSender<Answer>)>>,
    wanted: Notify,
}

impl<E: Env> Controller<E> {
    /// Takes over the metadata log: registers this run of the node, makes it lead its partitions. The image is not published yet.
    pub(crate) async fn start(
        shard: &Rc<Shard<E>>,
        loaded: Loaded<E::Disk>,
        node: &BrokerStart,
        quorum: &QuorumStart,
    ) -> Result<Rc<Self>, BootError> {
        let controller = Rc::new(Self {
            shard: Rc::downgrade(shard),
            log: loaded.log,
            epoch: loaded.epoch,
            image: RefCell::new(loaded.state.image),
            broker_epoch: Cell::new(-1),
            quorum: RefCell::new(loaded.state.quorum),
            voter: quorum.clone(),
            snapshots: RefCell::new(loaded.snapshots),
            snapshot_at: Cell::new(shard.net.now()),
            unsnapshotted_bytes: Cell::new(loaded.state.replayed_bytes),
            last_timestamp: Cell::new(loaded.state.last_timestamp),
            has_failed: Cell::new(false),
            queue: RefCell::default(),
            wanted: Notify::default(),
        });
        // What forbids the start is found before anything is written.
        controller::start_with(&controller.image.borrow(), node, &loaded.bootstrap)
            .map_err(BootError::MetadataStart)?;
        controller
            .open_epoch(shard, quorum)
            .await
            .map_err(BootError::MetadataWrite)?;
        let started = controller::start_with(&controller.image.borrow(), node, &loaded.bootstrap)
            .map_err(BootError::MetadataStart)?;
        controller.broker_epoch.set(started.results.broker_epoch);
        controller
            .write(shard, &started.records)
            .await
            .map_err(BootError::MetadataWrite)?;
        if controller
            .image
            .borrow()
            .feature(GROUP_VERSION_FEATURE)
            .is_none()
        {
            tracing::info!(
                "the consumer protocol of groups is off: this directory is from before it; \
                 `kafka-features upgrade --feature group.version=1` switches it on"
            );
        }
        Ok(controller)
    }

    /// The epoch of this run's registration.
    pub(crate) fn broker_epoch(&self) -> i64 {
        self.broker_epoch.get()
    }

    /// Who keeps the metadata log, and how far it is.
    pub(crate) fn describe_quorum(&self) -> QuorumState {
        QuorumState {
            voter: self.quorum.borrow().voter(&self.voter),
            epoch: self.epoch,
            log_end: self.log.log_end(),
        }
    }

    /// Publishes the present image to every shard and waits until all have applied it.
    pub(crate) async fn publish(&self, shard: &Rc<Shard<E>>, opening: Option<Arc<Opening>>) {
        let (image, delta) = {
            let mut image = self.image.borrow_mut();
            let delta = image.take_delta();
            (image.stable().clone(), delta)
        };
        let update = ImageUpdate {
            image: Arc::new(image),
            delta: Arc::new(delta),
            opening,
            kraft_version: self.quorum.borrow().kraft_version(),
        };
        let mut answers = Vec::new();
        for peer in shard.shards().filter(|peer| *peer != shard.id) {
            answers.push(
                shard
                    .calls
                    .start(peer, Request::Publish(update.clone()))
                    .await,
            );
        }
        shard.apply_image(update).await;
        for answer in answers {
            let _: Option<Response> = answer.await;
        }
    }

    /// Asks for a change and waits until it is in force everywhere.
    pub(crate) async fn submit(&self, command: Command) -> Response {
        let (sender, receiver) = oneshot();
        self.queue.borrow_mut().push_back((command, sender));
        self.wanted.notify();
        match receiver.await {
            Some(answer) => Response::Control(answer),
            None => Response::Stopping,
        }
    }

    /// Carries out what is asked, one change after the other.
    pub(crate) async fn run(self: Rc<Self>) {
        loop {
            self.wanted.notified().await;
            loop {
                let next = self.queue.borrow_mut().pop_front();
                let Some((command, reply)) = next else {
                    break;
                };
                let Some(shard) = self.shard.upgrade() else {
                    return;
                };
                let answer = self.execute(&shard, command).await;
                reply.send(answer);
            }
        }
    }

    async fn execute(&self, shard: &Rc<Shard<E>>, command: Command) -> Answer {
        let has_no_place = command.makes_partitions() && shard.has_no_directory();
        if self.has_failed.get() || has_no_place {
            return Answer::Unavailable(ErrorCode::KafkaStorageError);
        }
        let (records, answer) = self.decide(shard, command);
        if records.is_empty() {
            return answer;
        }
        if let Err(error) = self.write(shard, &records).await {
            self.on_failed(shard, &error);
            return Answer::Unavailable(ErrorCode::KafkaStorageError);
        }
        self.publish(shard, None).await;
        self.follow_cordons(shard).await;
        answer
    }

    /// Registers the directories that the settings cordon, where that has changed.
    pub(crate) async fn follow_cordons(&self, shard: &Rc<Shard<E>>) {
        let node = shard.config.node_id;
        let decision = controller::cordon(&self.image.borrow(), node, &shard.cordoned_ids());
        if decision.records.is_empty() || self.has_failed.get() {
            return;
        }
        match self.write(shard, &decision.records).await {
            Ok(()) => self.publish(shard, None).await,
            Err(error) => self.on_failed(shard, &error),
        }
    }

    fn on_failed(&self, shard: &Rc<Shard<E>>, error: &StorageError) {
        tracing::error!(%error, "the metadata log failed: the metadata changes no more");
        self.has_failed.set(true);
        shard.blame(shard.metadata_dir(), error);
    }

    /// The metadata directory failed: nothing is decided any more.
    pub(crate) fn fail(&self) {
        self.has_failed.set(true);
        self.log.abandon();
    }

    /// Closes the metadata log; what it contributes to the checkpoints.
    pub(crate) async fn close(&self) -> Result<pelton_storage::ClosedLog, StorageError> {
        self.has_failed.set(true);
        self.log.close(None).await
    }

    /// What everything below is durable in the metadata log.
    pub(crate) fn recovery_point(&self) -> Offset {
        self.log.recovery_point()
    }
}
