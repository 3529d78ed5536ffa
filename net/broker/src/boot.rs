//! From configuration to serving shards, and back in an orderly way.
//!
//! Start, led by the controller's shard: take the log directory (lock, identity, checkpoints) → replay the metadata log → register this
//! run → publish the first image, on which every shard opens its partitions → listen on every shard → write checkpoints from time to time.
//!
//! Stop, on every shard: listeners → waiting fetches answer → connections end → queued appends are written; then the controller's
//! shard has every log synced and closed, writes the checkpoints, and, if all of it went well, the clean marker.
//!
//! Invariants:
//! 1. Nothing is accepted before every shard has its partitions.
//! 2. A stop ends in bounded time, whatever the clients do ([`limits::STOP_STEP_MS_MAX`] for each step).
//! 3. The clean marker is written last, and only if every log was closed without an error.

pub(crate) mod directories;
mod error;
mod listening;
mod log_starts;
mod opening;
mod stop;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use pelton_machine::budget::BudgetSizes;
use pelton_machine::controller::{BrokerStart, QuorumStart, supported_features};
use pelton_machine::image::MetadataImage;
use pelton_model::config::broker::BrokerConfig;
use pelton_model::config::listener::Listener;
use pelton_model::record_type::control::VotersRecordEndpoint;
use pelton_model::record_type::metadata::BrokerEndpoint;
use pelton_model::{PartitionId, limits};
use pelton_storage::dir::{self, Checkpoint, CheckpointRow};
use pelton_storage::{DirError, LogDir, StorageError};
use pelton_transport::net::{Mesh as _, Net, TaskClass};

use self::directories::LogDirs;
pub use self::error::{BootError, MetadataFault};
use self::listening::Place;
pub use self::listening::addresses;
pub(crate) use self::listening::listen;
pub(crate) use self::log_starts::keep_log_starts;
pub use self::opening::{Directory, Endpoint, Found, Identity, Opening};
pub(crate) use self::stop::await_peers;
use crate::controller::{self, Controller, LoadOptions, METADATA_TOPIC};
use crate::env::Env;
use crate::loggers::Loggers;
use crate::metrics;
use crate::shard::Outside;
use crate::shard::directory::DirIndex;
use crate::shard::gate::ConnectionGate;
use crate::shard::message::{PartitionCheckpoint, Request, Response};
use crate::shard::{CONTROLLER_SHARD, Shard};

/// What one shard starts with.
#[derive(Debug)]
pub struct Start<E: Env> {
    /// The broker's configuration.
    pub config: Arc<BrokerConfig>,
    /// The shard's time, tasks and sockets.
    pub net: E::Net,
    /// The shard's disk.
    pub disk: E::Disk,
    /// The shard's way to the others.
    pub mesh: E::Mesh,
    /// Bytes of the machine's memory, from which the budget for requests follows.
    pub memory_bytes: u64,
    /// Where all shards of the process count their connections.
    pub gate: Arc<ConnectionGate>,
    /// The process' log.
    pub loggers: Arc<dyn Loggers>,
}

/// What the controller's shard reports when the broker serves.
#[derive(Debug)]
pub struct Serving {
    /// Who we are.
    pub identity: Arc<Identity>,
    /// Where each listener listens, in the order of the configuration.
    pub addresses: Vec<SocketAddr>,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
}

/// Runs one shard until `stop` resolves and everything is in order on disk. `on_serving` is called once, on the controller's shard.
///
/// # Errors
/// [`BootError`], from the controller's shard: the broker did not start, or its directory could not be left clean.
pub async fn run<E: Env>(
    start: Start<E>,
    stop: impl Future<Output = ()>,
    on_serving: impl FnOnce(&Serving),
) -> Result<(), BootError> {
    let config = Arc::clone(&start.config);
    let sizes = request_budget(&start);
    let outside = Outside {
        gate: start.gate,
        loggers: start.loggers,
    };
    let shard = Shard::<E>::new(config, start.net, start.disk, start.mesh, sizes, outside);
    spawn_tasks(&shard);
    if shard.id != CONTROLLER_SHARD {
        stop.await;
        stop::follow(&shard).await;
        return Ok(());
    }
    let mut stop = std::pin::pin!(stop);
    let metrics = metrics::start(&shard);
    let led = async {
        let metrics = match metrics {
            Ok(metrics) => metrics,
            Err(error) => return Some(Err(error)),
        };
        Some(lead(&shard, metrics).await)
    };
    let stopped = async {
        stop.as_mut().await;
        None
    };
    // A start may take minutes: it must not be deaf to a stop.
    let led = futures_lite::future::or(Box::pin(led), stopped).await;
    let Some(led) = led else {
        tracing::info!("stopped before serving; the next start goes on from here");
        shard.is_stopping.set(true);
        stop::abandon(&shard).await;
        return Ok(());
    };
    match led {
        Ok((dirs, serving)) => {
            shard.metrics.is_serving.set(true);
            on_serving(&serving);
            let dirs = Rc::new(dirs);
            spawn_checkpoints(&shard, Rc::clone(&dirs));
            directories::spawn_watch(&shard, Rc::clone(&dirs));
            stop.await;
            stop::lead(&shard, &dirs).await
        }
        Err(error) => {
            stop::abandon(&shard).await;
            Err(error)
        }
    }
}

/// What is configured, else a tenth of the memory and at most 1 GiB; always enough for one maximal frame (DESIGN: memory
/// admission).
fn request_budget<E: Env>(start: &Start<E>) -> BudgetSizes {
    let limits = start.config.request_limits;
    let usual = (start.memory_bytes / 10).min(limits::REQUEST_MEMORY_BYTES_MAX);
    let bytes = limits.queued_max_request_bytes.unwrap_or(usual);
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    BudgetSizes {
        budget_bytes: size(bytes),
        frame_bytes_max: size(u64::from(start.config.socket_request_max_bytes)),
        shards: usize::from(start.mesh.shard_count()),
        keeps_remainders: start.mesh.shard() == CONTROLLER_SHARD,
        requests_max: size(u64::from(limits.queued_max_requests)),
    }
}

fn spawn_tasks<E: Env>(shard: &Rc<Shard<E>>) {
    shard
        .net
        .spawn(TaskClass::Request, Rc::clone(shard).run_inbox());
    shard
        .net
        .spawn(TaskClass::Request, Rc::clone(shard).run_outbox());
    shard
        .net
        .spawn(TaskClass::Request, Rc::clone(shard).run_flusher());
    shard
        .net
        .spawn(TaskClass::Request, Rc::clone(shard).run_coordinator_timer());
    shard.net.spawn(
        TaskClass::Background,
        Rc::clone(shard).run_coordinator_loader(),
    );
    shard
        .net
        .spawn(TaskClass::Request, Rc::clone(shard).run_maintenance());
    shard
        .net
        .spawn(TaskClass::Background, Rc::clone(shard).run_background());
    shard
        .net
        .spawn(TaskClass::Background, Rc::clone(shard).run_cleaner());
    shard
        .net
        .spawn(TaskClass::Background, Rc::clone(shard).run_relocations());
}

/// The controller's shard brings everything up.
async fn lead<E: Env>(
    shard: &Rc<Shard<E>>,
    metrics: Option<SocketAddr>,
) -> Result<(LogDirs<E::Disk>, Serving), BootError> {
    let (places, early) = listening::bind_early(shard)?;
    let taken = directories::take(shard).await?;
    let core_endpoints = listening::core_endpoints(&shard.config, &places);
    let endpoints = listening::endpoints(&shard.config.advertised_listeners, &places);
    let identity = Arc::new(Identity {
        node_id: shard.config.node_id,
        cluster_id: taken.cluster_id,
        directories: taken.directories,
        endpoints,
        core_endpoints,
    });
    let mut opening = Opening::new(Arc::clone(&identity), taken.inventories);
    let quorum = QuorumStart {
        node_id: shard.config.node_id,
        directory_id: identity.metadata_directory_id(&shard.config),
        endpoints: voter_endpoints(&shard.config.metadata_log.controller_listeners),
    };
    let metadata_dir = &shard.config.metadata_log_dir;
    let load = LoadOptions {
        directory: dir::partition_path(metadata_dir, METADATA_TOPIC, PartitionId(0)),
        opening: &opening,
        config: &shard.config.metadata_log,
        node: &quorum,
        now: shard.net.wall_clock(),
    };
    let loaded = controller::load(&shard.store, load).await?;
    opening.settle(loaded.image())?;
    directories::move_strays(shard, &opening).await;
    for directory in opening.deleted() {
        let due = shard.net.now();
        shard.store.trash().put_directory(directory.to_owned(), due);
    }
    let node = node(shard, &opening, loaded.image());
    let opening = Arc::new(opening);
    let controller = Controller::start(shard, loaded, &node, &quorum).await?;
    controller.publish(shard, Some(opening)).await;
    controller.follow_cordons(shard).await;
    shard
        .net
        .spawn(TaskClass::Request, Rc::clone(&controller).run());
    let snapshots = Rc::clone(&controller).run_snapshots(Rc::clone(shard));
    shard.net.spawn(TaskClass::Background, snapshots);
    let _first_time = shard.controller.set(controller);
    shard.report_failed_directories();
    listening::listen_everywhere(shard, &places, early).await?;
    let addresses = places.iter().map(Place::first).collect();
    Ok((
        taken.dirs,
        Serving {
            identity,
            addresses,
            metrics,
        },
    ))
}

/// This run of the node, as the controller registers it.
fn node<E: Env>(shard: &Shard<E>, opening: &Opening, image: &MetadataImage) -> BrokerStart {
    let identity = &opening.identity;
    let for_partitions = identity
        .directories
        .iter()
        .filter(|dir| dir.takes_partitions);
    let cordoned = for_partitions.clone().filter(|dir| dir.is_cordoned);
    BrokerStart {
        broker_id: identity.node_id,
        incarnation_id: shard.draw_id(),
        end_points: registered(&shard.config.advertised_listeners, &identity.endpoints),
        features: supported_features(),
        rack: shard.config.broker_rack.clone(),
        log_dirs: for_partitions.filter_map(|dir| dir.id).collect(),
        cordoned_log_dirs: cordoned.filter_map(|dir| dir.id).collect(),
        found: opening.places(image),
    }
}

/// Where a Kafka on the same settings would be reached by other voters.
fn voter_endpoints(listeners: &[Listener]) -> Vec<VotersRecordEndpoint> {
    let endpoint = |listener: &Listener| VotersRecordEndpoint {
        name: listener.name.clone(),
        host: listener.host.clone(),
        port: listener.port,
    };
    listeners.iter().map(endpoint).collect()
}

fn registered(advertised: &[Listener], endpoints: &[Endpoint]) -> Vec<BrokerEndpoint> {
    let named = advertised.iter().zip(endpoints);
    named
        .map(|(listener, endpoint)| BrokerEndpoint {
            name: listener.name.clone(),
            host: endpoint.host.to_string(),
            port: endpoint.port,
            security_protocol: 0,
        })
        .collect()
}

fn spawn_checkpoints<E: Env>(shard: &Rc<Shard<E>>, dirs: Rc<LogDirs<E::Disk>>) {
    let shard = Rc::clone(shard);
    let interval_ms = u64::try_from(shard.config.log_flush_offset_checkpoint_interval_ms)
        .unwrap_or(0)
        .max(1000);
    shard.net.clone().spawn(TaskClass::Background, async move {
        loop {
            shard
                .net
                .sleep_until(shard.net.now().plus_ms(interval_ms))
                .await;
            if shard.is_stopping.get() {
                return;
            }
            // Whoever writes the same files waits for this. Rows that were gathered before another's would be older than those.
            if shard.is_checkpointing.replace(true) {
                continue;
            }
            let rows = gather(&shard, || Request::Checkpoint).await;
            let Some(rows) = rows.filter(|_| !shard.is_stopping.get()) else {
                shard.is_checkpointing.set(false);
                return;
            };
            for (index, dir) in dirs.held() {
                write_checkpoints(&shard, index, dir, &rows).await;
            }
            shard.is_checkpointing.set(false);
        }
    });
}

/// Asks every shard for its rows, this one last; `None` when one of them stops and had none to tell.
async fn gather<E: Env>(
    shard: &Rc<Shard<E>>,
    request: impl Fn() -> Request,
) -> Option<Vec<PartitionCheckpoint>> {
    let mut rows = Vec::new();
    for peer in shard.shards().filter(|peer| *peer != shard.id) {
        let Response::Checkpoints(more) = shard.calls.call(peer, request()).await else {
            return None;
        };
        rows.extend(more);
    }
    let Response::Checkpoints(more) = shard.ask(shard.id, request()).await else {
        return None;
    };
    rows.extend(more);
    let sort = move || {
        rows.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
        rows
    };
    Some(shard.net.run_blocking(sort).await)
}

/// Writes the checkpoint files of one directory; whether all went well. One that cannot be written has failed.
async fn write_checkpoints<E: Env>(
    shard: &Rc<Shard<E>>,
    index: DirIndex,
    dir: &LogDir<E::Disk>,
    rows: &[PartitionCheckpoint],
) -> bool {
    if shard.directories.is_failed(index) {
        return false;
    }
    let rows: Vec<&PartitionCheckpoint> = rows.iter().filter(|row| row.dir == index).collect();
    match try_write_checkpoints(shard, dir, &rows).await {
        Ok(()) => true,
        Err(DirError::Disk(error)) => {
            shard.fail_directory_unless_of_process(index, &StorageError::Disk(error));
            false
        }
        Err(error) => {
            tracing::error!(%error, "cannot write the checkpoints");
            false
        }
    }
}

async fn try_write_checkpoints<E: Env>(
    shard: &Shard<E>,
    dir: &LogDir<E::Disk>,
    rows: &[&PartitionCheckpoint],
) -> Result<(), DirError> {
    let row = |row: &PartitionCheckpoint, offset| CheckpointRow {
        topic: row.topic.to_string(),
        partition: PartitionId(row.partition),
        offset,
    };
    let mut recovery: Vec<_> = rows.iter().map(|r| row(r, r.recovery_point)).collect();
    if let Some(controller) = shard.controller.get()
        && dir.path() == shard.config.metadata_log_dir
    {
        let offset = controller.recovery_point();
        recovery.push(CheckpointRow {
            topic: METADATA_TOPIC.to_owned(),
            partition: PartitionId(0),
            offset,
        });
    }
    let starts = rows.iter().filter(|r| r.log_start.0 > 0);
    let starts: Vec<_> = starts.map(|r| row(r, r.log_start)).collect();
    let cleaned = rows.iter().filter_map(|r| Some(row(r, r.cleaned_to?)));
    let cleaned: Vec<_> = cleaned.collect();
    let watermarks: Vec<_> = rows.iter().map(|r| row(r, r.high_watermark)).collect();
    dir.write_checkpoint(Checkpoint::RecoveryPoint, recovery)
        .await?;
    dir.write_checkpoint(Checkpoint::LogStart, starts).await?;
    dir.write_checkpoint(Checkpoint::HighWatermark, watermarks)
        .await?;
    dir.write_checkpoint(Checkpoint::Cleaner, cleaned).await
}
