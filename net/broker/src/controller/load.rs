//! Opening and replaying the metadata log: the newest whole snapshot, then the log from there.
//!
//! Invariants:
//! 1. Nothing is skipped: what cannot be read or understood stops the start; file, offset and record type are named.
//! 2. The epoch of this run is noted in `quorum-state` before anything is written in it.
//! 3. Partitions without a metadata log that names them stop the start: a new log would make strays of them.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use pelton_machine::controller::{self, QuorumImage, QuorumStart};
use pelton_machine::image::MetadataImage;
use pelton_model::batch::Batches;
use pelton_model::config::metadata_log::MetadataLogConfig;
use pelton_model::record_type::metadata::MetadataRecord;
use pelton_model::{LeaderEpoch, Offset, Timestamp, TopicId};
use pelton_protocol::metadata_record::{self, LogRecord};
use pelton_protocol::quorum_state;
use pelton_storage::disk::range::read_slice;
use pelton_storage::disk::{Disk, DiskError};
use pelton_storage::{Log, LogConfig, LogStore, OpenOptions, ReadOptions};

use super::restore::{self, Snapshots};
use super::{METADATA_TOPIC, format};
use crate::boot::{BootError, MetadataFault, Opening};

/// Where Kafka notes the epoch of the metadata log's leader.
const QUORUM_STATE: &str = "quorum-state";
/// Bytes of that file that are read at most.
const QUORUM_STATE_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the metadata log that are read at once when it is replayed.
const REPLAY_BYTES: usize = 1024 * 1024;

/// What the metadata log is opened with.
#[derive(Debug)]
pub(crate) struct LoadOptions<'a> {
    /// `<log dir>/__cluster_metadata-0`.
    pub(crate) directory: PathBuf,
    /// What the start found on disk.
    pub(crate) opening: &'a Opening,
    /// How the log is kept.
    pub(crate) config: &'a MetadataLogConfig,
    /// This node as the quorum's only voter.
    pub(crate) node: &'a QuorumStart,
    /// The wall clock.
    pub(crate) now: Timestamp,
}

/// The metadata log, opened and replayed.
pub(crate) struct Loaded<D: Disk> {
    pub(super) log: Log<D>,
    pub(super) state: State,
    pub(super) snapshots: Snapshots,
    /// What a log without a metadata version begins with.
    pub(super) bootstrap: Vec<MetadataRecord>,
    pub(super) epoch: LeaderEpoch,
}

impl<D: Disk> Loaded<D> {
    /// What snapshot and log say.
    pub(crate) fn image(&self) -> &MetadataImage {
        &self.state.image
    }
}

/// What snapshot and log come to.
#[derive(Debug)]
pub(super) struct State {
    pub(super) image: MetadataImage,
    pub(super) quorum: QuorumImage,
    /// The time of the last record.
    pub(super) last_timestamp: Timestamp,
    /// Bytes of the log that the snapshot did not contain.
    pub(super) replayed_bytes: u64,
}

impl Default for State {
    /// That of a log without a record.
    fn default() -> Self {
        Self {
            image: MetadataImage::new(),
            quorum: QuorumImage::default(),
            last_timestamp: Timestamp(0),
            replayed_bytes: 0,
        }
    }
}

/// Opens (or creates) the metadata log and replays it.
pub(crate) async fn load<D: Disk>(
    store: &LogStore<D>,
    options: LoadOptions<'_>,
) -> Result<Loaded<D>, BootError> {
    let disk = store.disk();
    let directory = &options.directory;
    let log = open_log(store, &options).await?;
    let mut snapshots = restore::list(disk, directory).await?;
    let mut state = restore::newest(disk, &log, &mut snapshots).await?;
    replay(disk, &log, &mut state).await?;
    let is_new = state.image.next_offset() == Offset::ZERO;
    if is_new && options.opening.has_topics() {
        let directory = directory.clone();
        return Err(BootError::MetadataMissing { directory });
    }
    let bootstrap = if state.image.stable().metadata_version().is_none() {
        format::bootstrap(disk, directory, options.now).await?
    } else {
        Vec::new()
    };
    if is_new && !options.config.is_static_quorum && state.quorum.kraft_version() == 0 {
        state.quorum = QuorumImage::formatted(options.node);
        format::first_snapshot(disk, directory, &state.quorum, options.now, &mut snapshots).await?;
    }
    state
        .quorum
        .check(options.node.node_id)
        .map_err(BootError::MetadataStart)?;
    let epoch = next_epoch(disk, directory, &state, options.node)
        .await
        .map_err(BootError::QuorumState)?;
    Ok(Loaded {
        log,
        state,
        snapshots,
        bootstrap,
        epoch,
    })
}

async fn open_log<D: Disk>(
    store: &LogStore<D>,
    options: &LoadOptions<'_>,
) -> Result<Log<D>, BootError> {
    let directory = &options.directory;
    let config = log_config(options.config);
    let opened = match options.opening.partition(METADATA_TOPIC, 0) {
        Some(known) => {
            let options = OpenOptions {
                config,
                recovery_point: known.recovery_point,
                clean: known.clean,
                log_start: known.log_start,
            };
            let opened = Log::open(store, directory, options).await;
            opened.map(|(log, _)| log)
        }
        None => Log::create(store, directory, TopicId::METADATA, config).await,
    };
    opened.map_err(BootError::MetadataLog)
}

fn log_config(config: &MetadataLogConfig) -> LogConfig {
    LogConfig {
        segment_size_bytes_max: config.segment_bytes,
        segment_ms: config.segment_ms,
        ..LogConfig::default()
    }
}

/// The leader epoch of this run, noted in `quorum-state` before anything is written in it.
async fn next_epoch<D: Disk>(
    disk: &D,
    directory: &Path,
    state: &State,
    node: &QuorumStart,
) -> Result<LeaderEpoch, DiskError> {
    let path = directory.join(QUORUM_STATE);
    let known = match disk.read_file(&path, QUORUM_STATE_BYTES_MAX).await {
        Ok(text) => quorum_state::leader_epoch(&String::from_utf8_lossy(&text)),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error),
    };
    let epoch = controller::next_epoch(&state.image, known);
    let text = if state.quorum.kraft_version() == 0 {
        quorum_state::encode_static(node.node_id, epoch)
    } else {
        quorum_state::encode(node.node_id, epoch)
    };
    disk.replace_file(&path, text.as_bytes()).await?;
    Ok(epoch)
}

async fn replay<D: Disk>(disk: &D, log: &Log<D>, state: &mut State) -> Result<(), BootError> {
    let mut from = state.image.next_offset();
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
            if let Err(fault) = replay_batches(state, &bytes, &mut from) {
                let path = segment_of(disk, log.directory(), from).await;
                return Err(BootError::Metadata { path, fault });
            }
        }
    }
    Ok(())
}

/// Replays what lies at or behind `from`, which moves along.
fn replay_batches(
    state: &mut State,
    bytes: &Bytes,
    from: &mut Offset,
) -> Result<(), MetadataFault> {
    for batch in Batches::new(bytes) {
        let (header, batch) = batch.map_err(MetadataFault::Batch)?;
        let batch = bytes.slice_ref(batch);
        for entry in metadata_record::records_of(&batch).map_err(MetadataFault::Record)? {
            if entry.offset < *from {
                // A snapshot of another writer may end within a batch.
                continue;
            }
            match entry.record {
                LogRecord::Metadata(record) => {
                    let replayed = state.image.replay(entry.offset, entry.epoch, &record);
                    replayed.map_err(MetadataFault::Replay)?;
                }
                LogRecord::Control(record) => {
                    state.quorum.replay(&record);
                    state.image.advance(entry.offset, entry.epoch);
                }
            }
        }
        state.last_timestamp = state.last_timestamp.max(header.max_timestamp);
        state.replayed_bytes += batch.len() as u64;
        *from = header.last_offset().plus(1);
    }
    Ok(())
}

/// The file that holds `offset`, for an error to name.
async fn segment_of<D: Disk>(disk: &D, directory: &Path, offset: Offset) -> PathBuf {
    let entries = disk.read_dir(directory).await.unwrap_or_default();
    let bases = entries.iter().filter_map(|entry| {
        let base: i64 = entry.name.strip_suffix(".log")?.parse().ok()?;
        (base <= offset.0).then_some(base)
    });
    match bases.max() {
        Some(base) => directory.join(format!("{base:020}.log")),
        None => directory.to_owned(),
    }
}
