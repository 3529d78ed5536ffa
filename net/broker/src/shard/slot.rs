//! A partition on the shard that owns it: its decisions (machine), its log (storage), and what is queued between them.
//!
//! Invariant: batches are written in the order of their plans: `pending` is a queue, and one flush at a time empties it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use pelton_machine::partition::Partition;
use pelton_model::TopicPartition;
use pelton_model::config::topic::TopicConfig;
use pelton_storage::txn_index::AbortedTxn;
use pelton_storage::{Log, LogManifest};

use super::append::Pending;
use super::cleaner::CleanState;
use super::directory::DirIndex;
use super::image::LogPlace;
use super::message::LeaderHint;
use super::sync::SyncState;
use crate::env::Env;

/// See the module.
pub(crate) struct Slot<E: Env> {
    pub(crate) id: TopicPartition,
    pub(crate) topic: Arc<str>,
    /// The log directory that holds it; another after a move.
    dir: Cell<DirIndex>,
    pub(crate) state: RefCell<Partition>,
    /// Replaced whole by a move.
    log: RefCell<Rc<Log<E::Disk>>>,
    pub(crate) config: RefCell<Arc<TopicConfig>>,
    pub(crate) sync: SyncState,
    pub(crate) pending: RefCell<Vec<Pending>>,
    /// Aborted transactions whose markers are planned and not written, in order.
    pub(crate) aborted: RefCell<Vec<AbortedTxn>>,
    /// Whether the slot is on the shard's list of slots to flush.
    pub(crate) is_dirty: Cell<bool>,
    /// Whether a flush is under way.
    pub(crate) is_flushing: Cell<bool>,
    /// Whether a copy of the log is made in another directory.
    pub(crate) is_moving: Cell<bool>,
    /// Whether no flush may begin: the copy takes the log's place.
    pub(crate) is_held: Cell<bool>,
    /// Whether the log was used since its files were last considered.
    pub(crate) is_used: Cell<bool>,
    /// Whether the log holds no files.
    pub(crate) is_resting: Cell<bool>,
    /// What compaction knows of the log.
    pub(crate) cleaned: CleanState,
}

impl<E: Env> Slot<E> {
    /// A partition with nothing queued, whose log holds no files.
    pub(crate) fn new(
        place: LogPlace,
        log: Log<E::Disk>,
        state: Partition,
        config: Arc<TopicConfig>,
    ) -> Self {
        Self {
            id: place.id,
            topic: place.name,
            dir: Cell::new(place.dir),
            state: RefCell::new(state),
            log: RefCell::new(Rc::new(log)),
            sync: SyncState::new(&config),
            config: RefCell::new(config),
            aborted: RefCell::default(),
            pending: RefCell::default(),
            is_dirty: Cell::new(false),
            is_flushing: Cell::new(false),
            is_moving: Cell::new(false),
            is_held: Cell::new(false),
            is_used: Cell::new(false),
            is_resting: Cell::new(true),
            cleaned: CleanState::default(),
        }
    }

    /// The log directory that holds it.
    pub(crate) fn dir(&self) -> DirIndex {
        self.dir.get()
    }

    /// Its log. Whoever awaits may find another one afterwards.
    pub(crate) fn log(&self) -> Rc<Log<E::Disk>> {
        Rc::clone(&self.log.borrow())
    }

    /// Puts `log`, in `dir`, in the place of the one that was, which is returned.
    pub(crate) fn replace_log(&self, log: Log<E::Disk>, dir: DirIndex) -> Rc<Log<E::Disk>> {
        self.dir.set(dir);
        self.log.replace(Rc::new(log))
    }

    /// Who leads, for clients that are wrong about it.
    pub(crate) fn leader_hint(&self) -> LeaderHint {
        let state = self.state.borrow();
        LeaderHint {
            node: state.leader(),
            epoch: state.leader_epoch(),
        }
    }

    /// The producers as of the log end, in Kafka's snapshot format; none when so much is planned behind it that recovery had better
    /// begin further back.
    pub(crate) fn producer_snapshot(&self) -> Option<Bytes> {
        let state = self.state.borrow();
        let (producers, end) = (state.producers(), state.log_end());
        let is_known = producers.is_known_at(end);
        is_known.then(|| Bytes::from(producers.encode_snapshot(end)))
    }

    /// Whether no batch is queued or being written.
    pub(crate) fn is_quiet(&self) -> bool {
        self.pending.borrow().is_empty() && !self.is_flushing.get()
    }

    /// What the next start needs to know of the closed log.
    pub(crate) async fn manifest(&self) -> Option<LogManifest> {
        let producers = self.state.borrow().producers().rows();
        let partition = self.id.partition;
        self.log()
            .manifest(&self.topic, partition, &producers)
            .await
    }

    /// Whether the first batch that waits to be written is too young for the active segment.
    pub(crate) fn is_roll_due(&self) -> bool {
        let pending = self.pending.borrow();
        let mut facts = pending.iter().filter_map(|queued| queued.write.as_ref());
        let first = facts.next();
        first.is_some_and(|(_, facts)| self.log().roll_due(facts.max_timestamp))
    }

    /// Bytes that wait to be written.
    pub(crate) fn queued_bytes(&self) -> usize {
        let pending = self.pending.borrow();
        pending
            .iter()
            .filter_map(|queued| queued.write.as_ref())
            .map(|(bytes, _)| bytes.len())
            .sum()
    }
}
