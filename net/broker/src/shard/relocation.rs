//! Moves of partitions between the log directories of this node (AlterReplicaLogDirs): copied beside the requests, then put in place.
//!
//! The life of a move: a copy is created in the other directory → it receives what the log has, piece by piece, and is synced now and then →
//! when little is left the partition is held: what clients send is queued, the last of it copied, the copy closed and renamed to the
//! partition's name → the controller notes the directory → the copy is the partition's log, what was queued is written there → the old
//! directory is thrown away.
//!
//! Invariants:
//! 1. One move of a partition at a time, and one of a shard is carried out at a time; the others wait for their turn.
//! 2. Nothing is written to the copy before the controller has noted its directory, nor to the old log afterwards: of two directories that a
//!    crash leaves, the one that the metadata names holds everything that was acknowledged.
//! 3. A partition is held for its last [`CATCH_UP_BYTES`] at most, one sync and one record of the metadata.
//! 4. A log that is being moved is not compacted.
//! 5. A move that cannot go on leaves the partition where it was. A stop leaves the copy's directory: the next start begins the move anew.
//!
//! Source: KIP-113, KIP-858.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use pelton_model::batch::Batches;
use pelton_model::slice::Slice;
use pelton_model::task::Notify;
use pelton_model::{ErrorCode, Monotonic, Offset, TopicId, TopicPartition};
use pelton_storage::dir::{future_path, partition_path};
use pelton_storage::disk::DiskError;
use pelton_storage::disk::range::read_slice;
use pelton_storage::{BatchFacts, Log, ReadError, ReadOptions, StorageError};
use pelton_transport::net::Net;

use super::cleaner::{Pace, is_passing};
use super::directory::DirIndex;
use super::image::log_config;
use super::message::{LogSize, Request, Response};
use super::slot::Slot;
use super::{CONTROLLER_SHARD, Shard};
use crate::controller::{Answer, Command};
use crate::env::Env;

/// Bytes that are read at once.
const READ_BYTES: usize = 1024 * 1024;
/// Bytes that are written at once, between which requests run.
const WRITE_BYTES: usize = 256 * 1024;
/// Bytes after which the copy is synced, so that the last sync is short.
const SYNC_BYTES: u64 = 16 * 1024 * 1024;
/// With no more than this left to copy, the partition is held.
const CATCH_UP_BYTES: u64 = 256 * 1024;
/// How often a condition is looked at.
const POLL_MS: u64 = 1;
/// Between two pieces the copying rests as long as the last one took, but no longer than this.
const PAUSE_NS_MAX: u64 = 2_000_000;

/// A move under way, or waiting for its turn.
struct Relocation<E: Env> {
    to: DirIndex,
    copy: Log<E::Disk>,
    is_cancelled: Cell<bool>,
}

/// The moves of one shard.
pub(crate) struct Relocations<E: Env> {
    moves: RefCell<BTreeMap<TopicPartition, Rc<Relocation<E>>>>,
    /// What the last run did not finish, to be begun anew.
    unfinished: RefCell<Vec<(TopicPartition, DirIndex)>>,
    wanted: Notify,
    is_running: Cell<bool>,
}

impl<E: Env> Default for Relocations<E> {
    fn default() -> Self {
        Self {
            moves: RefCell::default(),
            unfinished: RefCell::default(),
            wanted: Notify::default(),
            is_running: Cell::new(false),
        }
    }
}

impl<E: Env> Relocations<E> {
    fn get(&self, id: TopicPartition) -> Option<Rc<Relocation<E>>> {
        self.moves.borrow().get(&id).cloned()
    }

    fn remove(&self, id: TopicPartition) -> Option<Rc<Relocation<E>>> {
        self.moves.borrow_mut().remove(&id)
    }

    /// Remembers a move that is to begin anew, at the next [`Relocations::wake`].
    pub(crate) fn begin_anew(&self, id: TopicPartition, to: DirIndex) {
        self.unfinished.borrow_mut().push((id, to));
    }

    /// Has moves carried out that wait to be begun.
    pub(crate) fn wake(&self) {
        if !self.unfinished.borrow().is_empty() {
            self.wanted.notify();
        }
    }
}

/// Why a move ends before its time.
enum Given {
    /// All that there was has been deleted: the copy cannot begin where the log now does.
    Anew,
    /// It is not wanted any more, or the shard stops.
    Up,
    /// The copy's directory cannot be written.
    Copy(StorageError),
    /// The log itself cannot be read.
    Original(StorageError),
}

impl<E: Env> Shard<E> {
    /// Begins to move partitions of this shard, one answer for each.
    pub(crate) async fn relocate(
        self: &Rc<Self>,
        wanted: &[(TopicPartition, DirIndex)],
    ) -> Vec<ErrorCode> {
        let mut answers = Vec::with_capacity(wanted.len());
        for (id, to) in wanted {
            let begun = self.begin_move(*id, *to).await;
            answers.push(begun.err().unwrap_or(ErrorCode::None));
        }
        answers
    }

    async fn begin_move(
        self: &Rc<Self>,
        id: TopicPartition,
        to: DirIndex,
    ) -> Result<(), ErrorCode> {
        let slot = self.slot(id).ok_or_else(|| self.missing(id))?;
        if slot.state.borrow().is_offline() || self.directories.is_failed(to) {
            return Err(ErrorCode::KafkaStorageError);
        }
        if let Some(known) = self.relocations.get(id) {
            if known.to == to && !known.is_cancelled.get() {
                return Ok(());
            }
            self.cancel_move(id);
        }
        if slot.dir() == to {
            return Ok(());
        }
        let directory = &self.identity().directories[to.index()].path;
        let path = future_path(directory, &slot.topic, id.partition, self.draw_id());
        let path = path.ok_or(ErrorCode::InvalidTopicException)?;
        // A log that is being cleaned is left alone first: see the invariants.
        slot.is_moving.set(true);
        let created = self.create_copy(&slot, &path).await;
        let copy = created.map_err(|given| {
            slot.is_moving.set(self.relocations.get(id).is_some());
            self.tell_given_up(id, to, given);
            ErrorCode::KafkaStorageError
        })?;
        tracing::info!(topic = %slot.topic, partition = %id.partition, to = %directory.display(), "moving a log");
        let relocation = Rc::new(Relocation {
            to,
            copy,
            is_cancelled: Cell::new(false),
        });
        let before = self.relocations.moves.borrow_mut().insert(id, relocation);
        if let Some(before) = before {
            // Two requests at once: the last one counts.
            before.is_cancelled.set(true);
            self.throw_away(&before);
        }
        self.relocations.wanted.notify();
        Ok(())
    }

    async fn create_copy(
        self: &Rc<Self>,
        slot: &Rc<Slot<E>>,
        path: &Path,
    ) -> Result<Log<E::Disk>, Given> {
        let log = slot.log();
        self.make_room(slot).await;
        let base = log.copy_base().await.map_err(Given::Original)?;
        let created = log
            .create_copy(&self.store, path, slot.id.topic_id, base)
            .await;
        created.map_err(Given::Copy)
    }

    fn tell_given_up(self: &Rc<Self>, id: TopicPartition, to: DirIndex, given: Given) {
        let partition = id.partition;
        match given {
            Given::Up | Given::Anew => {}
            // Room for the copy comes back with it; the directory serves what it has.
            Given::Copy(StorageError::Disk(error)) if is_passing(&error) => {
                tracing::error!(topic = %id.topic_id, %partition, %error, "a move was given up for want of room");
            }
            Given::Copy(error) => {
                tracing::error!(topic = %id.topic_id, %partition, %error, "a move was given up: its directory cannot be written");
                self.blame(to, &error);
            }
            Given::Original(error) => {
                tracing::error!(topic = %id.topic_id, %partition, %error, "a move was given up: its log cannot be read");
            }
        }
    }

    /// Calls a move off; what carries it out notices.
    pub(crate) fn cancel_move(&self, id: TopicPartition) {
        if let Some(relocation) = self.relocations.remove(id) {
            relocation.is_cancelled.set(true);
            self.throw_away(&relocation);
        }
        if let Some(slot) = self.slot(id) {
            slot.is_moving.set(false);
        }
    }

    /// Calls off the moves into a directory that has failed.
    pub(crate) fn cancel_moves_to(&self, dir: DirIndex) {
        let moves: Vec<TopicPartition> = {
            let moves = self.relocations.moves.borrow();
            let to_it = moves.iter().filter(|(_, relocation)| relocation.to == dir);
            to_it.map(|(id, _)| *id).collect()
        };
        moves.into_iter().for_each(|id| self.cancel_move(id));
    }

    /// Has the directory of a copy removed; nothing is written to one that has failed.
    fn throw_away(&self, relocation: &Relocation<E>) {
        relocation.copy.abandon();
        if !self.directories.is_failed(relocation.to) {
            let directory = relocation.copy.directory().to_owned();
            self.store.trash().put_directory(directory, self.net.now());
        }
    }

    /// The copies of this shard's partitions, as DescribeLogDirs tells of them.
    pub(crate) fn copy_sizes(&self) -> Vec<LogSize> {
        let moves = self.relocations.moves.borrow();
        let told = moves.iter().filter_map(|(id, relocation)| {
            let slot = self.slot(*id)?;
            let behind = slot.log().log_end().0 - relocation.copy.log_end().0;
            Some(LogSize {
                topic: Arc::clone(&slot.topic),
                partition: id.partition.0,
                dir: relocation.to,
                size_bytes: relocation.copy.size_bytes(),
                offset_lag: behind.max(0),
                is_future: true,
            })
        });
        told.collect()
    }

    /// Carries moves out, one after the other, until the shard stops.
    pub(crate) async fn run_relocations(self: Rc<Self>) {
        loop {
            self.relocations.wanted.notified().await;
            for (id, to) in self.relocations.unfinished.take() {
                if let Err(error) = self.begin_move(id, to).await {
                    tracing::warn!(topic = %id.topic_id, partition = %id.partition, error = error.name(), "a move that was not finished cannot go on");
                }
            }
            while let Some((id, relocation)) = self.next_move() {
                self.relocations.is_running.set(true);
                self.move_log(id, &relocation).await;
                self.relocations.is_running.set(false);
            }
        }
    }

    fn next_move(&self) -> Option<(TopicPartition, Rc<Relocation<E>>)> {
        if self.is_stopping.get() {
            return None;
        }
        let moves = self.relocations.moves.borrow();
        let (id, relocation) = moves.first_key_value()?;
        Some((*id, Rc::clone(relocation)))
    }

    async fn move_log(self: &Rc<Self>, id: TopicPartition, relocation: &Rc<Relocation<E>>) {
        let Err(given) = self.try_move_log(id, relocation).await else {
            return;
        };
        if self.is_stopping.get() || relocation.is_cancelled.get() {
            return;
        }
        self.cancel_move(id);
        if matches!(given, Given::Anew) {
            self.relocations.begin_anew(id, relocation.to);
            self.relocations.wake();
        }
        self.tell_given_up(id, relocation.to, given);
    }

    async fn try_move_log(
        self: &Rc<Self>,
        id: TopicPartition,
        relocation: &Rc<Relocation<E>>,
    ) -> Result<(), Given> {
        let slot = self.slot(id).ok_or(Given::Up)?;
        while slot.cleaned.is_running.get() {
            self.check_move(&slot, relocation)?;
            self.pause_ms(POLL_MS).await;
        }
        let mut pace = Pace::new(self.copying_rate(), self.net.now());
        let mut unsynced = 0;
        loop {
            let (begun, target) = (self.net.now(), slot.log().log_end());
            if target <= relocation.copy.log_end() {
                break;
            }
            let copied = self.copy_some(&slot, relocation).await?;
            if copied <= CATCH_UP_BYTES && target <= relocation.copy.log_end() {
                break;
            }
            unsynced += copied;
            if SYNC_BYTES <= unsynced {
                relocation.copy.sync().await.map_err(Given::Copy)?;
                unsynced = 0;
            }
            let now = self.net.now();
            let rested = Monotonic(now.0.saturating_add(now.since(begun).min(PAUSE_NS_MAX)));
            let paid = pace.spend(copied, now).unwrap_or(rested);
            self.wait_to_copy(&slot, relocation, rested.max(paid))
                .await?;
        }
        relocation.copy.sync().await.map_err(Given::Copy)?;
        self.check_move(&slot, relocation)?;
        self.put_in_place(&slot, relocation).await
    }

    /// This shard's share of what moves may copy in a second.
    #[expect(clippy::cast_precision_loss, reason = "a rate that need not be exact")]
    fn copying_rate(&self) -> f64 {
        let shares = u64::from(self.shard_count);
        (self.settings().move_bytes_per_second / shares) as f64
    }

    /// Whether the move goes on.
    fn check_move(&self, slot: &Rc<Slot<E>>, relocation: &Relocation<E>) -> Result<(), Given> {
        let is_there = self
            .slot(slot.id)
            .is_some_and(|there| Rc::ptr_eq(&there, slot));
        let is_up = self.is_stopping.get()
            || relocation.is_cancelled.get()
            || !is_there
            || slot.state.borrow().is_offline();
        if is_up { Err(Given::Up) } else { Ok(()) }
    }

    async fn pause_ms(&self, ms: u64) {
        self.net.sleep_until(self.net.now().plus_ms(ms)).await;
    }

    /// Rests until then, in pieces, so that neither a stop nor an end of the move waits for it.
    async fn wait_to_copy(
        &self,
        slot: &Rc<Slot<E>>,
        relocation: &Relocation<E>,
        until: Monotonic,
    ) -> Result<(), Given> {
        const PIECE_MS: u64 = 100;
        loop {
            self.check_move(slot, relocation)?;
            let now = self.net.now();
            if until <= now {
                return Ok(());
            }
            self.net.sleep_until(until.min(now.plus_ms(PIECE_MS))).await;
        }
    }

    /// Copies the next piece; how many bytes it has.
    async fn copy_some(
        self: &Rc<Self>,
        slot: &Rc<Slot<E>>,
        relocation: &Relocation<E>,
    ) -> Result<u64, Given> {
        let log = slot.log();
        // What lies below the log start is gone: the copy has a gap there, as after compaction.
        let from = relocation.copy.log_end().max(log.log_start());
        if log.log_end() <= from {
            return Err(Given::Anew);
        }
        let options = ReadOptions {
            from,
            up_to: log.log_end(),
            bytes_max: READ_BYTES,
            at_least_one: true,
        };
        self.make_room(slot).await;
        let read = match log.read(options).await {
            Ok(read) => read,
            // The log start moved meanwhile.
            Err(ReadError::OutOfRange { .. }) => return Ok(0),
            Err(ReadError::Storage(error)) => return Err(Given::Original(error)),
        };
        if read.slices.is_empty() {
            return Err(Given::Original(stuck(&log, from)));
        }
        let path = log.directory().to_owned();
        let bytes = self.net.run_blocking(move || gather(read.slices)).await;
        let bytes = bytes.map_err(|error| {
            Given::Original(StorageError::Disk(DiskError::new("read", &path, error)))
        })?;
        let copied = bytes.len() as u64;
        let mut batches = batches(&log, bytes).map_err(Given::Original)?;
        let end = batches
            .first()
            .map_or(from, |(_, last)| last.last_offset.plus(1));
        // Named by their markers, of which those in this piece are meant.
        let mut aborted = match log.aborted(from, end).await {
            Ok(aborted) => aborted,
            Err(ReadError::OutOfRange { .. }) => return Ok(0),
            Err(ReadError::Storage(error)) => return Err(Given::Original(error)),
        };
        aborted.retain(|txn| from <= txn.last_offset && txn.last_offset < end);
        while !batches.is_empty() {
            self.check_move(slot, relocation)?;
            let piece = next_piece(&mut batches);
            let (bytes, facts): (Vec<Bytes>, Vec<BatchFacts>) = piece.into_iter().unzip();
            let copy = &relocation.copy;
            let appended = copy.append_with_aborted(&bytes, &facts, &aborted).await;
            appended.map_err(Given::Copy)?;
            self.net.yield_now().await;
        }
        Ok(copied)
    }

    /// Holds the partition and puts the copy in its log's place.
    async fn put_in_place(
        self: &Rc<Self>,
        slot: &Rc<Slot<E>>,
        relocation: &Rc<Relocation<E>>,
    ) -> Result<(), Given> {
        slot.is_held.set(true);
        while slot.is_flushing.get() {
            self.pause_ms(POLL_MS).await;
        }
        slot.is_flushing.set(true);
        let replaced = self.exchange(slot, relocation).await;
        slot.is_held.set(false);
        self.flush(slot).await;
        self.post_wake_ups();
        self.discard_moved(slot, replaced?).await;
        Ok(())
    }

    /// The old log is not the partition's any more.
    async fn discard_moved(self: &Rc<Self>, slot: &Rc<Slot<E>>, old: Rc<Log<E::Disk>>) {
        let log_start = slot.state.borrow().log_start();
        // Where the log start comes from a client, only the checkpoint of the old directory says so yet.
        if log_start > Offset::ZERO && !self.is_stopping.get() {
            let kept = self.ask(CONTROLLER_SHARD, Request::KeepLogStarts).await;
            if !matches!(kept, Response::KeptLogStarts(Ok(()))) {
                tracing::warn!(topic = %slot.topic, partition = %slot.id.partition, "the log start of a moved log is not kept yet");
            }
        }
        if let Err(error) = old.delete(self.net.now()).await {
            tracing::warn!(topic = %slot.topic, partition = %slot.id.partition, %error, "cannot remove the log that was moved");
        }
        // Whoever was deleting records there when it was replaced is done by now.
        let log_start = slot.state.borrow().log_start();
        if let Err(error) = slot
            .log()
            .advance_log_start(log_start, self.net.now())
            .await
        {
            self.fail_log(slot, &error);
        }
    }

    /// Nothing is appended meanwhile. Gives the log that was replaced.
    async fn exchange(
        self: &Rc<Self>,
        slot: &Rc<Slot<E>>,
        relocation: &Rc<Relocation<E>>,
    ) -> Result<Rc<Log<E::Disk>>, Given> {
        let id = slot.id;
        while relocation.copy.log_end() < slot.log().log_end() {
            self.check_move(slot, relocation)?;
            self.copy_some(slot, relocation).await?;
        }
        self.check_move(slot, relocation)?;
        let producers = slot.state.borrow().producers().clone();
        let directory = &self.identity().directories[relocation.to.index()];
        let path = partition_path(&directory.path, &slot.topic, id.partition);
        let place = (&*slot.topic, id.partition);
        let renamed = relocation
            .copy
            .rename_to(&self.store, &path, place, &producers);
        let copy = match renamed.await {
            Ok(copy) => copy,
            Err(error) => return Err(self.give_up_renamed(path, error)),
        };
        copy.set_config(log_config(&slot.config.borrow()));
        let epoch = {
            let state = slot.state.borrow();
            state.is_leader().then(|| state.leader_epoch())
        };
        if let Some(epoch) = epoch
            && let Err(error) = copy.assign_epoch(epoch).await
        {
            return Err(self.give_up_renamed(path, error));
        }
        let is_noted = match directory.id {
            Some(directory) => self.note_directory(id, directory).await,
            None => false,
        };
        if !is_noted || self.slot(id).is_none() {
            // The topic was deleted, or the controller cannot write: the partition stays where it is.
            copy.delete(self.net.now()).await.map_err(Given::Copy)?;
            return Err(Given::Up);
        }
        if slot.state.borrow().is_offline() {
            // The next start finds the partition where it is now.
            return Err(Given::Up);
        }
        if !relocation.is_cancelled.get() {
            self.relocations.remove(id);
            slot.is_moving.set(false);
        }
        tracing::info!(topic = %slot.topic, partition = %id.partition, to = %directory.path.display(), "moved a log");
        Ok(slot.replace_log(copy, relocation.to))
    }

    /// A copy failed once it may bear the partition's name: nothing else there can have it, and a later move must find it free.
    fn give_up_renamed(&self, path: PathBuf, error: StorageError) -> Given {
        self.store.trash().put_directory(path, self.net.now());
        Given::Copy(error)
    }

    async fn note_directory(self: &Rc<Self>, id: TopicPartition, directory: TopicId) -> bool {
        let command = Command::AssignDirectory(id, directory);
        let answer = self.ask(CONTROLLER_SHARD, Request::Control(command)).await;
        matches!(answer.into_control(), Answer::Assigned(true))
    }

    /// At a stop: leaves copies whole, for a Kafka that goes on with them. Called when no partition is written to any more.
    pub(crate) async fn close_copies(&self) {
        while self.relocations.is_running.get() {
            self.pause_ms(POLL_MS).await;
        }
        for (id, relocation) in self.relocations.moves.take() {
            let closed = relocation.copy.close(None).await;
            if let Err(error) = closed
                && !matches!(error, StorageError::Closed { .. })
            {
                tracing::warn!(partition = %id.partition, %error, "cannot close the copy of a log");
            }
        }
    }
}

/// The bytes of slices, read where they are not in memory. Blocks.
fn gather(slices: Vec<Slice>) -> io::Result<Bytes> {
    let mut slices = slices.into_iter();
    let first = slices.next().map(read_slice).transpose()?;
    let mut gathered = match (first, slices.len()) {
        (Some(only), 0) => return Ok(only),
        (first, _) => BytesMut::from(&first.unwrap_or_default()[..]),
    };
    for slice in slices {
        gathered.extend_from_slice(&read_slice(slice)?);
    }
    Ok(gathered.freeze())
}

/// A log whose index says that there is more, and which gives nothing.
fn stuck<D: pelton_storage::disk::Disk>(log: &Log<D>, from: Offset) -> StorageError {
    let text = format!("nothing at offset {from} of {}", log.log_end());
    let source = io::Error::new(io::ErrorKind::InvalidData, text);
    StorageError::Disk(DiskError::new("copy", log.directory(), source))
}

type Piece = (Bytes, BatchFacts);

/// The batches of a piece, last first.
fn batches<D: pelton_storage::disk::Disk>(
    log: &Log<D>,
    bytes: Bytes,
) -> Result<Vec<Piece>, StorageError> {
    let mut found = Vec::new();
    let mut at = 0;
    for batch in Batches::new(&bytes) {
        let (header, whole) = batch.map_err(|error| {
            let source = io::Error::new(io::ErrorKind::InvalidData, error.to_string());
            StorageError::Disk(DiskError::new("copy", log.directory(), source))
        })?;
        let end = at + whole.len();
        found.push((bytes.slice(at..end), BatchFacts::from(&header)));
        at = end;
    }
    found.reverse();
    Ok(found)
}

/// Takes batches off the end of `left`: at least one, about [`WRITE_BYTES`].
fn next_piece(left: &mut Vec<Piece>) -> Vec<Piece> {
    let mut piece = Vec::new();
    let mut size = 0;
    while let Some(next) = left.last()
        && (size == 0 || size + next.0.len() <= WRITE_BYTES)
    {
        size += next.0.len();
        piece.extend(left.pop());
    }
    piece
}
