//! The log directories of this node: taken at the start, watched while it runs.
//!
//! Invariants:
//! 1. A directory that cannot be opened is offline until the next start, and the others go on; not so the metadata directory, one that
//!    another broker holds, and one whose identity contradicts the others': then nothing starts.
//! 2. No directory is written to before all identities have been compared.
//! 3. A partition that is found in two directories is the one that the metadata names, which is how a move between them ends; where it names
//!    neither, it belongs to neither until the operator says which: nothing starts.
//!
//! Source: KIP-112, KIP-858; Kafka's `LogManager` and `MetaPropertiesEnsemble`.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use pelton_model::config::broker::BrokerConfig;
use pelton_storage::dir::DirOptions;
use pelton_storage::dir::ensemble::{self, Member};
use pelton_storage::disk::Disk;
use pelton_storage::{DirError, Inventory, LogDir, MetaProperties, StorageError};
use pelton_transport::net::{Net, TaskClass};

use super::{BootError, Directory, Opening};
use crate::controller::METADATA_TOPIC;
use crate::env::Env;
use crate::shard::Shard;
use crate::shard::directory::DirIndex;

/// How often the directories are looked at: one that was removed under the broker goes on taking writes that nobody will find again.
const PROBE_MS: u64 = 5_000;

/// The directories that this process holds; dropping them releases their locks.
pub(crate) struct LogDirs<D: Disk> {
    /// By [`DirIndex`]; none that could not be opened.
    dirs: Vec<Option<LogDir<D>>>,
}

impl<D: Disk> LogDirs<D> {
    /// Those that are held, in order.
    pub(crate) fn held(&self) -> impl Iterator<Item = (DirIndex, &LogDir<D>)> {
        let numbered = (0_u16..).map(DirIndex).zip(&self.dirs);
        numbered.filter_map(|(index, dir)| Some((index, dir.as_ref()?)))
    }
}

/// What a start found.
pub(super) struct Taken<D: Disk> {
    pub(super) dirs: LogDirs<D>,
    pub(super) cluster_id: String,
    pub(super) directories: Vec<Directory>,
    /// By [`DirIndex`]; none of an offline directory.
    pub(super) inventories: Vec<Option<Inventory>>,
}

/// Takes every configured directory.
pub(super) async fn take<E: Env>(shard: &Shard<E>) -> Result<Taken<E::Disk>, BootError> {
    let disk = shard.store.disk();
    let config = &*shard.config;
    let paths = configured(config);
    let mut dirs = Vec::with_capacity(paths.len());
    for path in &paths {
        let taken = LogDir::take(disk, path).await;
        dirs.push(unless_offline(config, path, taken)?);
    }
    let mut metas: Vec<Option<MetaProperties>> = Vec::with_capacity(paths.len());
    for (path, place) in paths.iter().zip(&mut dirs) {
        let Some(dir) = place else {
            metas.push(None);
            continue;
        };
        let identity = dir.identity().await;
        let identity = unless_offline(config, path, identity)?;
        if identity.is_none() {
            *place = None;
        }
        metas.push(identity.flatten());
    }
    let held = paths.iter().zip(&metas).zip(&dirs);
    let members: Vec<Member<'_>> = held
        .filter(|(_, dir)| dir.is_some())
        .map(|((path, meta), _)| Member {
            path,
            meta: meta.as_ref(),
            is_metadata: *path == config.metadata_log_dir,
        })
        .collect();
    let cluster_id = ensemble::agree(&members, config.node_id, config.cluster_id.as_deref())
        .map_err(BootError::Directory)?;
    let cluster_id = cluster_id.unwrap_or_else(|| shard.draw_id().to_string());
    load(shard, paths, dirs, cluster_id).await
}

async fn load<E: Env>(
    shard: &Shard<E>,
    paths: Vec<PathBuf>,
    mut dirs: Vec<Option<LogDir<E::Disk>>>,
    cluster_id: String,
) -> Result<Taken<E::Disk>, BootError> {
    let config = &*shard.config;
    let mut inventories: Vec<Option<Inventory>> = paths.iter().map(|_| None).collect();
    // The metadata directory first: were it new and another not, the next start would be refused.
    let mut order: Vec<usize> = (0..paths.len()).collect();
    order.sort_by_key(|&index| paths[index] != config.metadata_log_dir);
    for index in order {
        let Some(dir) = &dirs[index] else { continue };
        let path = &paths[index];
        let options = DirOptions {
            node_id: config.node_id,
            cluster_id: Some(cluster_id.clone()),
            new_cluster_id: cluster_id.clone(),
            new_directory_id: shard.draw_id(),
        };
        let inventory = unless_offline(config, path, dir.load(&options).await)?;
        match &inventory {
            None => dirs[index] = None,
            Some(inventory) if *path != config.metadata_log_dir => {
                check_metadata_is_elsewhere(path, inventory)?;
            }
            Some(_) => {}
        }
        inventories[index] = inventory;
    }
    let found = paths.into_iter().zip(&inventories);
    let directories: Vec<Directory> = found
        .map(|(path, inventory)| Directory {
            id: inventory.as_ref().map(|found| found.meta.directory_id),
            takes_partitions: config.log_dirs.contains(&path),
            is_cordoned: config.cordoned_log_dirs.contains(&path),
            path,
        })
        .collect();
    let is_usable = |directory: &Directory| directory.takes_partitions && directory.id.is_some();
    if !directories.iter().any(is_usable) {
        return Err(BootError::NoLogDirectory);
    }
    Ok(Taken {
        dirs: LogDirs { dirs },
        cluster_id,
        directories,
        inventories,
    })
}

/// The directories of `log.dirs`, then that of the metadata log where it stands apart. [`DirIndex`] is the place in this list.
pub(crate) fn configured(config: &BrokerConfig) -> Vec<PathBuf> {
    let mut paths = config.log_dirs.clone();
    if !paths.contains(&config.metadata_log_dir) {
        paths.push(config.metadata_log_dir.clone());
    }
    paths
}

/// What is wrong with one directory puts it offline, unless the node cannot do without it or would do harm.
fn unless_offline<T>(
    config: &BrokerConfig,
    path: &Path,
    outcome: Result<T, DirError>,
) -> Result<Option<T>, BootError> {
    let error = match outcome {
        Ok(outcome) => return Ok(Some(outcome)),
        Err(error) => error,
    };
    let is_its_own = match &error {
        DirError::Disk(_) | DirError::MetaCorrupt { .. } => *path != config.metadata_log_dir,
        DirError::Locked { .. }
        | DirError::MetaMismatch { .. }
        | DirError::MetaMissing { .. }
        | DirError::SameDirectoryId { .. }
        | DirError::MetadataDirectoryNew { .. } => false,
    };
    if !is_its_own {
        return Err(BootError::Directory(error));
    }
    tracing::error!(directory = %path.display(), %error, "a log directory cannot be used: its partitions are offline until the next start");
    Ok(None)
}

fn check_metadata_is_elsewhere(path: &Path, inventory: &Inventory) -> Result<(), BootError> {
    let found = inventory
        .partitions
        .iter()
        .find(|found| found.topic == METADATA_TOPIC);
    match found {
        None => Ok(()),
        Some(found) => Err(BootError::MetadataElsewhere {
            path: found.path.clone(),
            configured: path.to_owned(),
        }),
    }
}

/// Moves aside the directories of partitions that the metadata does not know: their deletion was recorded, but the process ended
/// before it was carried out, or the directory was away. They would stand in the way of a new topic of that name.
pub(super) async fn move_strays<E: Env>(shard: &Shard<E>, opening: &Opening) {
    for directory in opening.strays() {
        let mut aside = directory.as_os_str().to_owned();
        aside.push(format!(".{}-stray", shard.draw_id()));
        let aside = PathBuf::from(aside);
        tracing::warn!(directory = %directory.display(), aside = %aside.display(), "a stray log");
        if let Err(error) = shard.store.disk().rename(directory, &aside).await {
            tracing::error!(directory = %directory.display(), %error, "cannot move a stray log aside");
        }
    }
}

/// Looks at every directory from time to time.
pub(super) fn spawn_watch<E: Env>(shard: &Rc<Shard<E>>, dirs: Rc<LogDirs<E::Disk>>) {
    let shard = Rc::clone(shard);
    shard.net.clone().spawn(TaskClass::Background, async move {
        loop {
            let next = shard.net.now().plus_ms(PROBE_MS);
            shard.net.sleep_until(next).await;
            for (index, dir) in dirs.held() {
                if shard.is_stopping.get() {
                    return;
                }
                if shard.directories.is_failed(index) {
                    continue;
                }
                if let Err(error) = dir.probe().await {
                    shard.fail_directory_unless_of_process(index, &StorageError::Disk(error));
                }
            }
        }
    });
}
