//! Bringing a shard's partitions in line with a new metadata image.
//!
//! Invariants:
//! 1. A partition's directory exists before its topic's creation is answered, and is renamed away before its deletion is.
//! 2. A directory of another topic id under a partition's name is a stray: it is moved aside, never opened as this partition's log.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use pelton_machine::image::{
    ConfigResource, MetadataDelta, MetadataImage, PartitionImage, TopicImage,
};
use pelton_machine::partition::{LogOffsets, Partition, PartitionState, Updated};
use pelton_model::config::topic::TopicConfig;
use pelton_model::producer_state::ProducerStates;
use pelton_model::record_type::metadata::{GROUP_VERSION_FEATURE, RESOURCE_TOPIC};
use pelton_model::{ErrorCode, Offset, TopicPartition};
use pelton_storage::dir::partition_path;
use pelton_storage::{Log, LogConfig, OpenOptions, StorageError};
use pelton_transport::net::{Net, TaskClass};

use super::Shard;
use super::directory::DirIndex;
use super::message::{ImageUpdate, PartitionCheckpoint};
use super::slot::Slot;
use super::sync::for_each;
use crate::boot::Opening;
use crate::env::Env;

impl<E: Env> Shard<E> {
    /// Makes this shard's partitions what the image says, then lets the image be seen.
    pub(crate) async fn apply_image(self: &Rc<Self>, update: ImageUpdate) {
        let ImageUpdate {
            image,
            delta,
            opening,
            kraft_version,
        } = update;
        self.kraft_version.set(kraft_version);
        if let Some(opening) = &opening {
            let _already_set = self.identity.set(Arc::clone(&opening.identity));
            self.directories.take_offline(opening.offline());
        }
        let all_changed = self.apply_settings(&image, &delta, opening.is_some());
        self.remove_deleted(&delta).await;
        let changed: Vec<TopicPartition> = match &opening {
            Some(_) => all_partitions(&image),
            None => delta.partitions.iter().copied().collect(),
        };
        self.apply_partitions(&image, changed, opening.as_ref())
            .await;
        self.apply_configs(&image, &delta, all_changed);
        self.post_wake_ups();
        let config = |topic: &str| self.topic_config(&image, topic);
        self.topics
            .borrow_mut()
            .apply(&image, &delta, all_changed, config);
        *self.image.borrow_mut() = image;
        self.metadata_answers.clear();
        if all_changed || delta.features.contains(GROUP_VERSION_FEATURE) {
            self.configure_coordinators();
        }
        self.forget_deleted_topics(&delta).await;
        self.follow_coordinators();
    }

    async fn remove_deleted(self: &Rc<Self>, delta: &MetadataDelta) {
        if delta.topics_deleted.is_empty() {
            return;
        }
        let is_kept = |id: &TopicPartition| !delta.topics_deleted.contains_key(&id.topic_id);
        self.unopened.borrow_mut().retain(|id, _| is_kept(id));
        // As the image before knew them: the other partitions are not looked at.
        let before = self.image();
        let topics = delta.topics_deleted.keys();
        let topics = topics.filter_map(|id| before.topic(*id));
        let deleted: Vec<Rc<Slot<E>>> = topics
            .flat_map(partitions_of)
            .filter_map(|id| self.slot(id))
            .collect();
        for slot in deleted {
            self.slots.borrow_mut().remove(&slot.id);
            self.cancel_move(slot.id);
            self.refuse_commits(slot.id, ErrorCode::UnknownTopicOrPartition);
            self.on_gone(slot.id);
            // Nothing is written to a failed directory: if it comes back, what lies there is a stray.
            if self.directories.is_failed(slot.dir()) {
                continue;
            }
            if let Err(error) = slot.log().delete(self.net.now()).await {
                tracing::warn!(topic = %slot.topic, partition = %slot.id.partition, %error, "cannot delete the log");
                self.blame(slot.dir(), &error);
            }
        }
    }

    /// Brings partitions in line, many at once, since a new log waits for the disk.
    async fn apply_partitions(
        self: &Rc<Self>,
        image: &Arc<MetadataImage>,
        partitions: Vec<TopicPartition>,
        opening: Option<&Arc<Opening>>,
    ) {
        let mine = partitions
            .into_iter()
            .filter(|id| self.owner(*id) == self.id);
        let mine: Vec<TopicPartition> = mine.collect();
        let (shard, image) = (Rc::clone(self), Arc::clone(image));
        let opening = opening.cloned();
        if opening.is_some() {
            self.begin_opening(mine.len());
        }
        let apply = move |id| {
            let (shard, image) = (Rc::clone(&shard), Arc::clone(&image));
            let opening = opening.clone();
            async move {
                if let Some(opening) = &opening
                    && !shard.goes_on_opening().await
                {
                    shard.leave_unopened(&image, id, opening);
                    return;
                }
                shard.apply_partition(&image, id, opening.as_deref()).await;
                if opening.is_some() {
                    shard.on_log_opened();
                }
            }
        };
        for_each(&self.net, TaskClass::Request, mine, apply).await;
        self.sync_created().await;
        self.let_in().await;
    }

    /// Makes the logs that were opened or created reachable: those that are new last now, so that nothing is acknowledged in a
    /// directory that a power cut could take.
    async fn let_in(self: &Rc<Self>) {
        for slot in self.arriving.take() {
            self.slots.borrow_mut().insert(slot.id, Rc::clone(&slot));
            if self.directories.is_failed(slot.dir()) {
                // It failed while others were opened.
                self.take_offline(&slot);
                slot.log().release_failed().await;
            }
        }
        self.relocations.wake();
    }

    /// The shard stops: a log that lies there and was not opened must not pass for one that was closed.
    fn leave_unopened(&self, image: &MetadataImage, id: TopicPartition, opening: &Opening) {
        let (Some(topic), Some(partition)) = (image.topic(id.topic_id), image.partition(id)) else {
            return;
        };
        let found = opening.partition(topic.name(), id.partition.0);
        let dir = self.place(partition, found);
        if let (Some(_), Some(dir)) = (found, dir) {
            let name = self.shared_name(topic.name());
            let row = unopened(id, &name, dir, Some(opening));
            self.unopened.borrow_mut().insert(id, Some(row));
        }
    }

    async fn apply_partition(
        self: &Rc<Self>,
        image: &MetadataImage,
        id: TopicPartition,
        opening: Option<&Opening>,
    ) {
        let (Some(topic), Some(partition)) = (image.topic(id.topic_id), image.partition(id)) else {
            return;
        };
        let state = self.partition_state(partition);
        if let Some(slot) = self.slot(id) {
            let updated = slot.state.borrow_mut().update(state);
            self.on_updated(&slot, updated).await;
            return;
        }
        if !partition.replicas.contains(&self.config.node_id) {
            return;
        }
        let name = self.shared_name(topic.name());
        let config = self.topic_config(image, &name);
        if self.unopened.borrow().contains_key(&id) {
            return;
        }
        let found = opening.and_then(|opening| opening.partition(&name, id.partition.0));
        let Some(dir) = self.place(partition, found) else {
            self.unopened.borrow_mut().insert(id, None);
            return;
        };
        let log_dir = &self.identity().directories[dir.index()].path;
        let place = LogPlace {
            id,
            directory: partition_path(log_dir, &name, id.partition),
            name,
            dir,
        };
        if self.directories.is_failed(dir) {
            self.unopened.borrow_mut().insert(id, None);
            return;
        }
        match self.open_log(&place, &config, opening).await {
            Ok((log, producers)) => {
                let high_watermark = opening
                    .and_then(|opening| opening.partition(&place.name, id.partition.0))
                    .and_then(|found| found.high_watermark)
                    .unwrap_or(log.log_start());
                let slot = self
                    .settle_slot(place, log, producers, high_watermark, state, config)
                    .await;
                if let Some(opening) = opening {
                    slot.resume_cleaning(opening);
                    let partition = id.partition.0;
                    let unfinished = opening.unfinished_move(&slot.topic, partition, id.topic_id);
                    if let Some(to) = unfinished {
                        self.relocations.begin_anew(id, to);
                    }
                }
                self.arriving.borrow_mut().push(slot);
            }
            Err(error) => {
                tracing::error!(topic = %place.name, partition = %id.partition, %error, "cannot open the log");
                let unopened = unopened(id, &place.name, place.dir, opening);
                self.unopened.borrow_mut().insert(id, Some(unopened));
                self.blame(place.dir, &error);
            }
        }
    }

    /// The settings, one copy for neighbours that have the same.
    fn shared_config(&self, config: TopicConfig) -> Arc<TopicConfig> {
        let mut last = self.last_config.borrow_mut();
        if let Some(last) = last.as_ref().filter(|last| ***last == config) {
            return Arc::clone(last);
        }
        let config = Arc::new(config);
        *last = Some(Arc::clone(&config));
        config
    }

    /// The topic's name, one string for all of its partitions.
    fn shared_name(&self, name: &str) -> Arc<str> {
        let mut last = self.last_name.borrow_mut();
        if &**last != name {
            *last = Arc::from(name);
        }
        Arc::clone(&last)
    }

    async fn settle_slot(
        self: &Rc<Self>,
        place: LogPlace,
        log: Log<E::Disk>,
        producers: ProducerStates,
        high_watermark: Offset,
        state: PartitionState,
        config: Arc<TopicConfig>,
    ) -> Rc<Slot<E>> {
        let offsets = LogOffsets {
            log_start: log.log_start(),
            log_end: log.log_end(),
            high_watermark,
        };
        let min_isr = i32::try_from(config.min_insync_replicas).unwrap_or(i32::MAX);
        let leader_epoch = state.leader_epoch;
        let partition = Partition::new(state, offsets, min_isr, producers);
        let leads = partition.is_leader();
        let slot = Rc::new(Slot::new(place, log, partition, config));
        if leads && let Err(error) = slot.log().assign_epoch(leader_epoch).await {
            self.fail_log(&slot, &error);
        }
        self.sync_recovered(&slot).await;
        slot
    }

    async fn open_log(
        &self,
        place: &LogPlace,
        config: &TopicConfig,
        opening: Option<&Opening>,
    ) -> Result<(Log<E::Disk>, ProducerStates), StorageError> {
        let known = opening.and_then(|o| o.partition(&place.name, place.id.partition.0));
        let log_config = log_config(config);
        let Some(known) = known else {
            let log = self.create_log(place, log_config).await?;
            return Ok((log, ProducerStates::new()));
        };
        let options = OpenOptions {
            config: log_config,
            recovery_point: known.recovery_point,
            clean: known.clean,
            log_start: known.log_start,
        };
        let rows = known.manifest.as_deref();
        let rows = rows.filter(|rows| rows.topic_id == place.id.topic_id.0);
        if let Some(rows) = rows {
            let resumed = Log::resume(&self.store, &place.directory, rows, options).await;
            if let Some((log, recovery)) = resumed {
                return Ok((log, recovery.producer_states));
            }
        }
        let (log, recovery) = Log::open(&self.store, &place.directory, options).await?;
        self.opening.add_scanned(recovery.scanned_bytes);
        if recovery.truncated_bytes > 0 {
            tracing::warn!(
                topic = %place.name,
                partition = %place.id.partition,
                truncated_bytes = recovery.truncated_bytes,
                log_end = %recovery.log_end,
                "cut a torn tail"
            );
        }
        Ok((log, recovery.producer_states))
    }

    async fn on_updated(self: &Rc<Self>, slot: &Rc<Slot<E>>, updated: Updated) {
        match updated {
            Updated::Ignored => {}
            Updated::Merged(progress) => {
                self.on_progress(slot.id, progress, usize::MAX);
                self.post_wake_ups();
            }
            Updated::Leader { progress, .. } => {
                let epoch = slot.state.borrow().leader_epoch();
                if let Err(error) = slot.log().assign_epoch(epoch).await {
                    self.fail_log(slot, &error);
                }
                self.on_progress(slot.id, progress, usize::MAX);
                self.on_gone(slot.id);
            }
            Updated::Follower => {
                self.refuse_commits(slot.id, ErrorCode::NotLeaderOrFollower);
                self.on_gone(slot.id);
            }
        }
    }

    /// Gives partitions their topics' new configurations: those that changed, or all when the broker's settings did.
    fn apply_configs(&self, image: &MetadataImage, delta: &MetadataDelta, all_changed: bool) {
        if delta.configs.is_empty() {
            return;
        }
        let is_topic = |resource: &&ConfigResource| resource.resource_type == RESOURCE_TOPIC;
        let topics = delta.configs.iter().filter(is_topic);
        let names: BTreeSet<&str> = topics.map(|resource| resource.name.as_str()).collect();
        for slot in self.all_slots() {
            if !all_changed && !names.contains(&*slot.topic) {
                continue;
            }
            let config = self.topic_config(image, &slot.topic);
            slot.log().set_config(log_config(&config));
            self.change_sync(&slot, &config);
            let min_isr = i32::try_from(config.min_insync_replicas).unwrap_or(i32::MAX);
            let progress = slot.state.borrow_mut().set_min_insync_replicas(min_isr);
            self.on_progress(slot.id, progress, usize::MAX);
            *slot.config.borrow_mut() = config;
        }
    }

    fn topic_config(&self, image: &MetadataImage, topic: &str) -> Arc<TopicConfig> {
        let settings = self.settings();
        let overrides = image.topic_configs(topic).into_iter().flatten();
        let overrides = overrides.map(|(name, value)| (name.as_str(), value.as_str()));
        match TopicConfig::from_overrides(&settings, overrides) {
            Ok(config) => self.shared_config(config),
            Err(error) => {
                tracing::error!(topic, %error, "the topic's configuration is unusable: the broker's defaults hold");
                Arc::new(settings.topic_defaults.clone())
            }
        }
    }

    fn partition_state(&self, partition: &PartitionImage) -> PartitionState {
        PartitionState {
            local: self.config.node_id,
            leader: partition.leader_id,
            leader_epoch: partition.leader_epoch,
            partition_epoch: partition.partition_epoch,
            replicas: partition.replicas.clone(),
            isr: partition.isr.clone(),
        }
    }
}

/// Where a partition's log lies.
pub(crate) struct LogPlace {
    pub(crate) id: TopicPartition,
    pub(crate) name: Arc<str>,
    pub(crate) dir: DirIndex,
    pub(crate) directory: PathBuf,
}

/// What the checkpoints go on saying of a partition whose log cannot be opened.
fn unopened(
    id: TopicPartition,
    topic: &str,
    dir: DirIndex,
    opening: Option<&Opening>,
) -> PartitionCheckpoint {
    let known = opening.and_then(|opening| opening.partition(topic, id.partition.0));
    let offset = |offset: Option<Offset>| offset.unwrap_or(Offset::ZERO);
    PartitionCheckpoint {
        topic: Arc::from(topic),
        partition: id.partition.0,
        dir,
        recovery_point: offset(known.map(|known| known.recovery_point)),
        log_start: offset(known.and_then(|known| known.log_start)),
        high_watermark: offset(known.and_then(|known| known.high_watermark)),
        cleaned_to: known.and_then(|known| known.cleaned_to),
        is_clean: false,
        manifest: None,
    }
}

pub(crate) fn log_config(config: &TopicConfig) -> LogConfig {
    LogConfig {
        segment_size_bytes_max: config.segment_bytes,
        index_interval_bytes: config.index_interval_bytes,
        index_size_bytes_max: config.segment_index_bytes,
        compacted: config.cleanup_policy.compact,
        file_delete_delay_ms: u64::try_from(config.file_delete_delay_ms).unwrap_or(0),
        preallocate: config.preallocate,
        deletes: config.cleanup_policy.delete,
        retention_ms: config.retention_ms,
        retention_bytes: config.retention_bytes,
        segment_ms: segment_ms(config),
        segment_jitter_ms: config.segment_jitter_ms,
    }
}

/// A compacted topic's segments are rolled in time for `max.compaction.lag.ms`, as in Kafka: the active one is never cleaned.
fn segment_ms(config: &TopicConfig) -> i64 {
    if config.cleanup_policy.compact && config.max_compaction_lag_ms > 0 {
        config.segment_ms.min(config.max_compaction_lag_ms)
    } else {
        config.segment_ms
    }
}

fn all_partitions(image: &MetadataImage) -> Vec<TopicPartition> {
    image.topics().flat_map(partitions_of).collect()
}

fn partitions_of(topic: &TopicImage) -> Vec<TopicPartition> {
    let topic_id = topic.id();
    let ids = topic.partitions().map(|(partition, _)| TopicPartition {
        topic_id,
        partition,
    });
    ids.collect()
}
