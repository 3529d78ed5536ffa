//! The orderly stop; the order and its reasons stand in the parent module.

use std::rc::Rc;

use pelton_model::limits::STOP_STEP_MS_MAX;
use pelton_storage::LogDir;
use pelton_storage::disk::Disk;
use pelton_transport::net::{Mesh, Net};

use super::directories::LogDirs;
use super::{BootError, gather, write_checkpoints};
use crate::env::Env;
use crate::shard::Shard;
use crate::shard::directory::DirIndex;
use crate::shard::message::{Message, PartitionCheckpoint, Request};

/// How often a condition is looked at.
const POLL_MS: u64 = 1;

/// The controller's shard: drains like every shard, then closes all logs and leaves the directory in order.
pub(super) async fn lead<E: Env>(
    shard: &Rc<Shard<E>>,
    dirs: &LogDirs<E::Disk>,
) -> Result<(), BootError> {
    drain(shard).await;
    let rows = gather(shard, || Request::Close).await;
    // A shard that told nothing has closed nothing: the checkpoints stay as they are, and the next start verifies.
    let is_told = rows.is_some();
    let mut rows = rows.unwrap_or_default();
    let mut broker_epoch = -1;
    let mut is_metadata_clean = true;
    if let Some(controller) = shard.controller.get() {
        broker_epoch = controller.broker_epoch();
        if let Err(error) = controller.close().await {
            tracing::error!(%error, "cannot close the metadata log");
            is_metadata_clean = false;
        }
    }
    wait_until(shard, STOP_STEP_MS_MAX, || !shard.is_checkpointing.get()).await;
    let mut is_clean = is_told;
    for (index, dir) in dirs.held().filter(|_| is_told) {
        let mut rows_of = rows.iter().filter(|row| row.dir == index);
        let is_metadata = dir.path() == shard.config.metadata_log_dir;
        let is_whole = rows_of.all(|row| row.is_clean) && (is_metadata_clean || !is_metadata);
        let is_written = write_checkpoints(shard, index, dir, &rows).await;
        if is_whole && is_written {
            write_manifest(index, dir, &mut rows, broker_epoch).await;
            if let Err(error) = dir.mark_clean(broker_epoch).await {
                tracing::error!(%error, "cannot mark the stop as clean");
                is_clean = false;
            }
        } else {
            is_clean = false;
        }
    }
    shard.calls.mesh().close();
    if is_clean {
        Ok(())
    } else {
        Err(BootError::Unclean)
    }
}

/// What the next start need not look for; without it that start takes longer.
async fn write_manifest<D: Disk>(
    index: DirIndex,
    dir: &LogDir<D>,
    rows: &mut [PartitionCheckpoint],
    broker_epoch: i64,
) {
    let rows = rows.iter_mut().filter(|row| row.dir == index);
    let logs = rows.filter_map(|row| row.manifest.take()).map(|log| *log);
    if let Err(error) = dir.write_manifest(broker_epoch, logs.collect()).await {
        tracing::warn!(%error, "no start-up manifest: the next start takes longer");
    }
}

/// Every other shard: drains, serves until its logs are closed, ends.
pub(super) async fn follow<E: Env>(shard: &Rc<Shard<E>>) {
    drain(shard).await;
    // Closing may sync many logs, so it has no bound of its own; the controller's shard ends it or gives up.
    wait_until(shard, u64::MAX, || {
        shard.is_closed.get() || shard.is_abandoned.get()
    })
    .await;
    // The mesh may have been full when the answer was posted; whoever waits for it would wait for good.
    wait_until(shard, STOP_STEP_MS_MAX, || shard.calls.is_flushed()).await;
    shard.calls.mesh().close();
}

/// The start failed: sends the other shards home.
pub(super) async fn abandon<E: Env>(shard: &Rc<Shard<E>>) {
    for peer in shard.shards().filter(|peer| *peer != shard.id) {
        shard.calls.post(peer, Message::Abandon);
    }
    wait_until(shard, STOP_STEP_MS_MAX, || shard.calls.is_flushed()).await;
}

async fn drain<E: Env>(shard: &Rc<Shard<E>>) {
    shard.begin_stop();
    wait_until(shard, STOP_STEP_MS_MAX, || {
        shard.connections.borrow().is_empty()
    })
    .await;
    shard.close_connections();
    wait_until(shard, STOP_STEP_MS_MAX, || shard.has_written_everything()).await;
    let peers = shard.shards().filter(|peer| *peer != shard.id);
    for peer in peers {
        shard.calls.post(peer, Message::Drained);
    }
    await_peers(shard).await;
}

/// Waits until every other shard has drained, so that none of their appends is still on its way, and all of those are written. Before
/// that no log may be closed: the controller's shard hears of everybody's draining, but not of what is under way between two others.
pub(crate) async fn await_peers<E: Env>(shard: &Shard<E>) {
    wait_until(shard, STOP_STEP_MS_MAX, || {
        shard.drained_peers.get() + 1 >= shard.shard_count || shard.is_abandoned.get()
    })
    .await;
    wait_until(shard, STOP_STEP_MS_MAX, || shard.has_written_everything()).await;
}

async fn wait_until<E: Env>(shard: &Shard<E>, ms_max: u64, condition: impl Fn() -> bool) {
    let deadline = shard.net.now().plus_ms(ms_max);
    while !condition() && shard.net.now() < deadline {
        shard
            .net
            .sleep_until(shard.net.now().plus_ms(POLL_MS))
            .await;
    }
}
