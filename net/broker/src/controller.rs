//! The embedded controller's driver: decisions of the machine become records in `__cluster_metadata-0`, durable before they count.
//!
//! The life of a change: decide on the present image → append one batch to the metadata log → sync → replay into the image → publish to
//! every shard → answer when all have applied it. One change at a time.
//!
//! Invariants:
//! 1. The image changes by replaying records that are durable, and in no other way: a restart arrives at the same image.
//! 2. A change is answered after every shard has applied it, so a created topic can be used at once through any connection.
//! 3. After a failed append or sync nothing more is decided: KAFKA_STORAGE_ERROR until the process starts again.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use bytes::Bytes;
use pelton_machine::controller::{
    self, BrokerStart, CreatableTopic, CreatePartitionsOptions, CreatePartitionsResult,
    CreateTopicResult, CreateTopicsOptions, Decision, DeletableTopic, DeleteTopicResult,
    NewPartitions, ProducerIdBlock, QuorumStart, Refusal,
};
use pelton_machine::image::MetadataImage;
use pelton_model::batch::Batches;
use pelton_model::record_type::metadata::MetadataRecord;
use pelton_model::task::{Notify, OnceSender, oneshot};
use pelton_model::{ErrorCode, LeaderEpoch, NodeId, Offset, Timestamp, TopicId, config};
use pelton_protocol::metadata_record::{self, LogRecord};
use pelton_protocol::quorum_state;
use pelton_storage::disk::range::read_slice;
use pelton_storage::disk::{Disk, DiskError};
use pelton_storage::{
    BatchFacts, Log, LogConfig, LogStore, OpenOptions, ReadOptions, StorageError,
};
use pelton_transport::net::Net;

use crate::boot::{BootError, Opening};
use crate::env::Env;
use crate::shard::Shard;
use crate::shard::message::{ImageUpdate, Request, Response};

/// The name of the metadata log's topic; its only partition is 0.
pub(crate) const METADATA_TOPIC: &str = "__cluster_metadata";
/// Where Kafka notes the epoch of the metadata log's leader.
const QUORUM_STATE: &str = "quorum-state";
/// Bytes of that file that are read at most.
const QUORUM_STATE_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the metadata log that are read at once when it is replayed.
const REPLAY_BYTES: usize = 1024 * 1024;

/// A change of the metadata, as a handler wants it.
#[derive(Debug)]
pub enum Command {
    /// CreateTopics.
    CreateTopics {
        /// What to create.
        topics: Vec<CreatableTopic>,
        /// Whether to check only.
        validate_only: bool,
    },
    /// Topics that a client mentioned and that may be created for it.
    AutoCreateTopics(Vec<String>),
    /// DeleteTopics.
    DeleteTopics(Vec<DeletableTopic>),
    /// CreatePartitions.
    CreatePartitions {
        /// What to grow.
        topics: Vec<NewPartitions>,
        /// Whether to check only.
        validate_only: bool,
    },
    /// A block of producer ids for one shard.
    AllocateProducerIds,
}

/// The answer to a [`Command`].
#[derive(Debug)]
pub enum Answer {
    /// To `CreateTopics` and `AutoCreateTopics`.
    Created(Vec<CreateTopicResult>),
    /// To `DeleteTopics`.
    Deleted(Vec<DeleteTopicResult>),
    /// To `CreatePartitions`.
    Grown(Vec<CreatePartitionsResult>),
    /// To `AllocateProducerIds`.
    ProducerIds(Result<ProducerIdBlock, Refusal>),
    /// The metadata log cannot be written, or the broker stops.
    Unavailable(ErrorCode),
}

impl Answer {
    /// The error code where this is no answer to what was asked.
    pub(crate) fn error(&self) -> ErrorCode {
        if let Self::Unavailable(error) = self {
            *error
        } else {
            ErrorCode::UnknownServerError
        }
    }
}

/// See the module.
pub(crate) struct Controller<E: Env> {
    shard: Weak<Shard<E>>,
    log: Log<E::Disk>,
    image: RefCell<MetadataImage>,
    /// The leader epoch of this run in the metadata log.
    epoch: LeaderEpoch,
    broker_epoch: Cell<i64>,
    has_failed: Cell<bool>,
    queue: RefCell<VecDeque<(Command, OnceSender<Answer>)>>,
    wanted: Notify,
}

/// The metadata log, opened and replayed.
pub(crate) struct Loaded<D: Disk> {
    log: Log<D>,
    image: MetadataImage,
    epoch: LeaderEpoch,
}

/// Opens (or creates) the metadata log and replays it.
pub(crate) async fn load<D: Disk>(
    store: &LogStore<D>,
    directory: PathBuf,
    opening: &Opening,
) -> Result<Loaded<D>, BootError> {
    let known = opening.partition(METADATA_TOPIC, 0);
    let log = match known {
        Some(known) => {
            let options = OpenOptions {
                config: LogConfig::default(),
                recovery_point: known.recovery_point,
                clean: opening.clean,
                log_start: known.log_start,
            };
            Log::open(store, &directory, options)
                .await
                .map_err(BootError::MetadataLog)?
                .0
        }
        None => Log::create(store, &directory, TopicId::METADATA, LogConfig::default())
            .await
            .map_err(BootError::MetadataLog)?,
    };
    let mut image = MetadataImage::new();
    replay(&log, &mut image).await?;
    let epoch = next_epoch(store.disk(), &directory, &image, opening.identity.node_id)
        .await
        .map_err(BootError::QuorumState)?;
    Ok(Loaded { log, image, epoch })
}

/// The leader epoch of this run, noted in `quorum-state` before anything is written in it.
async fn next_epoch<D: Disk>(
    disk: &D,
    directory: &Path,
    image: &MetadataImage,
    node: NodeId,
) -> Result<LeaderEpoch, DiskError> {
    let path = directory.join(QUORUM_STATE);
    let known = match disk.read_file(&path, QUORUM_STATE_BYTES_MAX).await {
        Ok(text) => quorum_state::leader_epoch(&String::from_utf8_lossy(&text)),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error),
    };
    let epoch = controller::next_epoch(image, known);
    disk.replace_file(&path, quorum_state::encode(node, epoch).as_bytes())
        .await?;
    Ok(epoch)
}

async fn replay<D: Disk>(log: &Log<D>, image: &mut MetadataImage) -> Result<(), BootError> {
    let mut from = log.log_start();
    if Offset::ZERO < from {
        return Err(BootError::MetadataSnapshotNeeded { log_start: from });
    }
    while from < log.log_end() {
        let options = ReadOptions {
            from,
            up_to: log.log_end(),
            bytes_max: REPLAY_BYTES,
            at_least_one: true,
        };
        let read = log.read(options).await.map_err(BootError::MetadataRead)?;
        for slice in read.slices {
            let bytes = read_slice(slice).map_err(BootError::MetadataBytes)?;
            for batch in Batches::new(&bytes) {
                let (header, batch) = batch.map_err(BootError::MetadataBatch)?;
                replay_batch(image, &bytes.slice_ref(batch))?;
                from = header.last_offset().plus(1);
            }
        }
    }
    Ok(())
}

fn replay_batch(image: &mut MetadataImage, batch: &Bytes) -> Result<(), BootError> {
    for entry in metadata_record::records_of(batch).map_err(BootError::MetadataRecord)? {
        match entry.record {
            LogRecord::Metadata(record) => {
                image
                    .replay(entry.offset, entry.epoch, &record)
                    .map_err(BootError::MetadataReplay)?;
            }
            LogRecord::Control(_) => image.advance(entry.offset, entry.epoch),
        }
    }
    Ok(())
}

impl<E: Env> Controller<E> {
    /// Takes over the metadata log: registers this run of the node, makes it lead its partitions. The image is not published yet.
    pub(crate) async fn start(
        shard: &Rc<Shard<E>>,
        loaded: Loaded<E::Disk>,
        node: &BrokerStart,
    ) -> Result<Rc<Self>, BootError> {
        let controller = Rc::new(Self {
            shard: Rc::downgrade(shard),
            log: loaded.log,
            epoch: loaded.epoch,
            image: RefCell::new(loaded.image),
            broker_epoch: Cell::new(-1),
            has_failed: Cell::new(false),
            queue: RefCell::default(),
            wanted: Notify::default(),
        });
        let quorum = QuorumStart {
            node_id: node.broker_id,
            directory_id: node.log_dirs[0],
            endpoints: Vec::new(),
            first: controller.log.log_end() == Offset::ZERO,
        };
        controller
            .open_epoch(shard, &quorum)
            .await
            .map_err(BootError::MetadataWrite)?;
        let started = controller::start(&controller.image.borrow(), node)
            .map_err(BootError::MetadataStart)?;
        controller.broker_epoch.set(started.results.broker_epoch);
        controller
            .write(shard, &started.records)
            .await
            .map_err(BootError::MetadataWrite)?;
        Ok(controller)
    }

    /// The epoch of this run's registration.
    pub(crate) fn broker_epoch(&self) -> i64 {
        self.broker_epoch.get()
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
        if self.has_failed.get() {
            return Answer::Unavailable(ErrorCode::KafkaStorageError);
        }
        let (records, answer) = self.decide(shard, command);
        if records.is_empty() {
            return answer;
        }
        if let Err(error) = self.write(shard, &records).await {
            tracing::error!(%error, "the metadata log failed");
            self.has_failed.set(true);
            return Answer::Unavailable(ErrorCode::KafkaStorageError);
        }
        self.publish(shard, None).await;
        answer
    }

    fn decide(&self, shard: &Shard<E>, command: Command) -> (Vec<MetadataRecord>, Answer) {
        let image = self.image.borrow();
        let mut draw_topic_id = || shard.draw_id();
        let mut options = CreateTopicsOptions {
            default_num_partitions: shard.config.num_partitions,
            default_replication_factor: shard.config.default_replication_factor,
            validate_config: &config::topic::validate,
            validate_only: false,
            draw_topic_id: &mut draw_topic_id,
        };
        match command {
            Command::CreateTopics {
                topics,
                validate_only,
            } => {
                options.validate_only = validate_only;
                split(
                    controller::create_topics(&image, &topics, &mut options),
                    Answer::Created,
                )
            }
            Command::AutoCreateTopics(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                split(
                    controller::auto_create_topics(&image, &names, &mut options),
                    Answer::Created,
                )
            }
            Command::DeleteTopics(topics) => {
                let enabled = shard.config.delete_topic_enable;
                split(
                    controller::delete_topics(&image, &topics, enabled),
                    Answer::Deleted,
                )
            }
            Command::CreatePartitions {
                topics,
                validate_only,
            } => {
                let options = CreatePartitionsOptions { validate_only };
                split(
                    controller::create_partitions(&image, &topics, options),
                    Answer::Grown,
                )
            }
            Command::AllocateProducerIds => {
                let node = shard.config.node_id;
                match controller::allocate_producer_ids(&image, node, self.broker_epoch.get()) {
                    Ok(decision) => split(decision, |block| Answer::ProducerIds(Ok(block))),
                    Err(refusal) => (Vec::new(), Answer::ProducerIds(Err(refusal))),
                }
            }
        }
    }

    /// Appends the records of one decision, makes them durable and replays them.
    async fn write(
        &self,
        shard: &Shard<E>,
        records: &[MetadataRecord],
    ) -> Result<(), StorageError> {
        let (base_offset, epoch, now) = (self.log.log_end(), self.epoch, shard.net.wall_clock());
        let batch = metadata_record::batch_of(records, base_offset, epoch, now);
        self.append(batch, records.len(), now).await?;
        self.log.sync().await?;
        let mut image = self.image.borrow_mut();
        for (index, record) in (0_i64..).zip(records) {
            image
                .replay(base_offset.plus(index), epoch, record)
                .expect("the machine decides only what the image can replay");
        }
        Ok(())
    }

    /// The control records that begin the epoch of this run; made durable together with what follows.
    async fn open_epoch(&self, shard: &Shard<E>, quorum: &QuorumStart) -> Result<(), StorageError> {
        let records = controller::quorum_records(quorum);
        let (base_offset, now) = (self.log.log_end(), shard.net.wall_clock());
        let batch = metadata_record::control_batch_of(&records, base_offset, self.epoch, now);
        self.log.assign_epoch(self.epoch).await?;
        self.append(batch, records.len(), now).await?;
        for (index, _) in (0_i64..).zip(&records) {
            self.image
                .borrow_mut()
                .advance(base_offset.plus(index), self.epoch);
        }
        Ok(())
    }

    async fn append(&self, batch: Bytes, count: usize, now: Timestamp) -> Result<(), StorageError> {
        let base_offset = self.log.log_end();
        let count = i64::try_from(count).expect("a batch's records are counted by an i32");
        let facts = BatchFacts {
            base_offset,
            last_offset: base_offset.plus(count - 1),
            max_timestamp: now,
            leader_epoch: self.epoch,
        };
        self.log.append(&[batch], &[facts]).await?;
        Ok(())
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

fn split<R>(
    decision: Decision<R>,
    answer: impl FnOnce(R) -> Answer,
) -> (Vec<MetadataRecord>, Answer) {
    (decision.records, answer(decision.results))
}
