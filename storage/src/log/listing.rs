//! The files of a partition's directory, and the removal of what a crash left half done.
//!
//! Invariants:
//! 1. An index, transaction index or snapshot without its log is removed, the newest snapshot excepted.
//! 2. Unknown files are left alone: `__cluster_metadata-0` holds files of other owners.
//! 3. A finished swap of compacted segments (`.swap`) is completed, an unfinished one (`.cleaned`) dropped.
//! 4. Whole segments that go are renamed and left to the trash: a start must not wait while the filesystem frees gigabytes. Their
//!    new names (`<name>.<n>.deleted`) are none that a running log gives, so that nothing is ever renamed over what waits.

use std::collections::BTreeMap;

use pelton_model::{Monotonic, Offset};

use crate::disk::{Disk, DiskError};
use crate::segment::Home;
use crate::trash::Trash;

/// A segment's files.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Files {
    pub(super) log_bytes: Option<u64>,
    pub(super) has_index: bool,
    pub(super) has_time_index: bool,
    pub(super) has_txn_index: bool,
    pub(super) has_snapshot: bool,
}

/// The files by base offset.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) files: BTreeMap<i64, Files>,
    pub(super) has_metadata: bool,
    pub(super) has_epochs: bool,
}

impl Listing {
    /// Reads the directory and tidies it.
    pub(super) async fn read<D: Disk>(home: &Home<D>, trash: &Trash<D>) -> Result<Self, DiskError> {
        let mut names = BTreeMap::new();
        for entry in home.disk.read_dir(&home.directory).await? {
            if !entry.is_dir {
                names.insert(entry.name, entry.size_bytes);
            }
        }
        settle_swaps(home, trash, &mut names).await?;
        names.retain(|name, _| !name.ends_with(DELETED));
        let mut listing = Self {
            has_metadata: names.contains_key(super::METADATA_FILE),
            has_epochs: names.contains_key(super::EPOCHS_FILE),
            ..Self::default()
        };
        for (name, &size) in &names {
            listing.add(name, size);
        }
        listing.remove_orphans(home).await?;
        Ok(listing)
    }

    fn add(&mut self, name: &str, size: u64) {
        let Some((base, suffix)) = name.split_once('.') else {
            return;
        };
        let Some(base) = parse_base(base) else { return };
        let files = self.files.entry(base).or_default();
        match suffix {
            "log" => files.log_bytes = Some(size),
            "index" => files.has_index = true,
            "timeindex" => files.has_time_index = true,
            "txnindex" => files.has_txn_index = true,
            "snapshot" => files.has_snapshot = true,
            _ => {}
        }
    }

    async fn remove_orphans<D: Disk>(&mut self, home: &Home<D>) -> Result<(), DiskError> {
        let orphans: Vec<(i64, Files)> = self
            .files
            .iter()
            .filter(|(_, files)| files.log_bytes.is_none())
            .map(|(&base, &files)| (base, files))
            .collect();
        let newest = self.snapshots().next_back();
        for (base, files) in orphans {
            let keep_snapshot = files.has_snapshot && newest == Some(Offset(base));
            let doomed = Files {
                has_snapshot: files.has_snapshot && !keep_snapshot,
                ..files
            };
            remove_files(home, Offset(base), doomed).await?;
            if keep_snapshot {
                let left = Files {
                    has_snapshot: true,
                    ..Files::default()
                };
                self.files.insert(base, left);
            } else {
                self.files.remove(&base);
            }
        }
        Ok(())
    }

    /// The offsets that have a producer snapshot, in order.
    pub(super) fn snapshots(&self) -> impl DoubleEndedIterator<Item = Offset> {
        self.files
            .iter()
            .filter(|(_, files)| files.has_snapshot)
            .map(|(&base, _)| Offset(base))
    }

    /// The segments, in order.
    pub(super) fn segments(&self) -> impl Iterator<Item = (Offset, u64, Files)> {
        self.files
            .iter()
            .filter_map(|(&base, files)| files.log_bytes.map(|bytes| (Offset(base), bytes, *files)))
    }

    /// Removes a segment's files and forgets them.
    pub(super) async fn remove<D: Disk>(
        &mut self,
        home: &Home<D>,
        base: Offset,
    ) -> Result<(), DiskError> {
        match self.files.remove(&base.0) {
            Some(files) => remove_files(home, base, files).await,
            None => Ok(()),
        }
    }

    /// Removes a snapshot and forgets it.
    pub(super) async fn remove_snapshot<D: Disk>(
        &mut self,
        home: &Home<D>,
        base: Offset,
    ) -> Result<(), DiskError> {
        if let Some(files) = self.files.get_mut(&base.0) {
            files.has_snapshot = false;
        }
        let doomed = Files {
            has_snapshot: true,
            ..Files::default()
        };
        remove_files(home, base, doomed).await
    }
}

fn parse_base(digits: &str) -> Option<i64> {
    let all_digits = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    if !all_digits {
        return None;
    }
    digits.parse().ok()
}

async fn remove_files<D: Disk>(
    home: &Home<D>,
    base: Offset,
    files: Files,
) -> Result<(), DiskError> {
    // The log goes first: what a crash leaves of the others is an orphan again.
    let doomed = [
        (files.log_bytes.is_some(), "log"),
        (files.has_index, "index"),
        (files.has_time_index, "timeindex"),
        (files.has_txn_index, "txnindex"),
        (files.has_snapshot, "snapshot"),
    ];
    for (exists, suffix) in doomed {
        if exists {
            let path = home.directory.join(format!("{:020}.{suffix}", base.0));
            home.disk.remove_file(&path).await?;
        }
    }
    Ok(())
}

/// Kafka replaces segments by writing `.cleaned` files, renaming them to `.swap` (all of them: the point of no return),
/// then removing the originals as `.deleted` and dropping the suffix.
async fn settle_swaps<D: Disk>(
    home: &Home<D>,
    trash: &Trash<D>,
    names: &mut BTreeMap<String, u64>,
) -> Result<(), DiskError> {
    let base_of = |name: &str| name.split_once('.').and_then(|(base, _)| parse_base(base));
    let with = |names: &BTreeMap<String, u64>, suffix: &str| -> Vec<String> {
        let found = names.keys().filter(|name| name.ends_with(suffix));
        found.cloned().collect()
    };
    let least_cleaned = with(names, ".cleaned")
        .iter()
        .filter_map(|n| base_of(n))
        .min();
    let mut doomed = with(names, DELETED);
    // The unfinished swaps go before the files that say so: another crash must not make them look finished.
    for name in with(names, ".swap") {
        let unfinished = least_cleaned.is_some_and(|least| base_of(&name) >= Some(least));
        if unfinished {
            doomed.push(name);
        }
    }
    doomed.extend(with(names, ".cleaned"));
    for name in doomed {
        set_aside(home, trash, names, &name).await?;
    }
    for name in with(names, ".log.swap") {
        if let Some(base) = base_of(&name) {
            replace_originals(home, trash, names, base, &name).await?;
        }
    }
    for name in with(names, ".swap") {
        let Some(target) = name.strip_suffix(".swap").map(str::to_owned) else {
            continue;
        };
        let path = home.directory.join(&name);
        home.disk
            .rename(&path, &home.directory.join(&target))
            .await?;
        if let Some(size) = names.remove(&name) {
            names.insert(target, size);
        }
    }
    Ok(())
}

/// Sets aside the segments that the swap segment `name` replaces: those with a base in its range of offsets.
async fn replace_originals<D: Disk>(
    home: &Home<D>,
    trash: &Trash<D>,
    names: &mut BTreeMap<String, u64>,
    base: i64,
    name: &str,
) -> Result<(), DiskError> {
    let last = super::scan::last_offset_of(home, &home.directory.join(name)).await?;
    let originals: Vec<String> = names
        .keys()
        .filter(|other| {
            let others = [".swap", ".snapshot", DELETED];
            !others.iter().any(|suffix| other.ends_with(suffix))
        })
        .filter(|other| {
            let other = other.split_once('.').and_then(|(base, _)| parse_base(base));
            other.is_some_and(|other| base <= other && Some(Offset(other)) <= last)
        })
        .cloned()
        .collect();
    for original in originals {
        set_aside(home, trash, names, &original).await?;
    }
    Ok(())
}

/// Gives a file that goes a name of its own and leaves it to the trash, due at once.
async fn set_aside<D: Disk>(
    home: &Home<D>,
    trash: &Trash<D>,
    names: &mut BTreeMap<String, u64>,
    name: &str,
) -> Result<(), DiskError> {
    let Some(size) = names.remove(name) else {
        return Ok(());
    };
    let aside = name_aside(names, name);
    let path = home.directory.join(&aside);
    if aside != name {
        let from = home.directory.join(name);
        home.disk.rename(&from, &path).await?;
    }
    names.insert(aside, size);
    trash.put_file(path, Monotonic(0));
    Ok(())
}

/// `<name>.<n>.deleted` with the first `n` that is free; a name of this form stays.
fn name_aside(names: &BTreeMap<String, u64>, name: &str) -> String {
    let stem = name.strip_suffix(DELETED).unwrap_or(name);
    let number = stem.rsplit_once('.').map_or("", |(_, number)| number);
    let is_aside = number.parse::<u32>().is_ok();
    if is_aside && stem.len() < name.len() {
        return name.to_owned();
    }
    let mut all = (1..u32::MAX).map(|number| format!("{stem}.{number}{DELETED}"));
    let free = all.find(|aside| !names.contains_key(aside));
    free.expect("a directory holds fewer names than there are numbers")
}

/// How names end that only wait to be removed.
const DELETED: &str = ".deleted";
