//! One core's shard: its partitions, its connections, its part of every request.
//!
//! Invariants:
//! 1. A partition lives on exactly one shard, `model::placement::shard_of` says which; only that shard touches its state and log.
//! 2. No borrow of a shard's state lives across an await: decide, do I/O, apply.
//! 3. A request visits each owner shard at most once for each stage (append; read, watch).
//! 4. The metadata image is replaced whole, never changed; what depends on it is brought up to date before the new image counts as
//!    published here.
//!
//! Not here: what a request means (handlers), where bytes go on the wire (protocol), when shards start and stop (boot).

pub(crate) mod append;
mod background;
pub(crate) mod calls;
pub(crate) mod cleaner;
pub(crate) mod credits;
pub mod directory;
pub mod gate;
pub(crate) mod image;
pub(crate) mod inbox;
pub(crate) mod maintenance;
mod marker;
pub(crate) mod memory;
pub mod message;
pub(crate) mod metadata;
pub mod migration;
pub mod progress;
pub(crate) mod read;
pub(crate) mod relocation;
pub(crate) mod rest;
pub(crate) mod retention;
mod session;
pub(crate) mod settings;
pub(crate) mod slot;
pub(crate) mod sync;
pub(crate) mod topics;
pub(crate) mod watch;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use pelton_machine::budget::{BudgetSizes, HolderId, MemoryBudget};
use pelton_machine::image::MetadataImage;
use pelton_machine::purgatory::{Purgatory, Standing};
use pelton_machine::session::Sessions;
use pelton_model::batch::Scratch;
use pelton_model::config::broker::BrokerConfig;
use pelton_model::config::topic::TopicConfig;
use pelton_model::map::Map;
use pelton_model::placement::shard_of;
use pelton_model::task::Notify;
use pelton_model::{ErrorCode, ShardId, TopicId, TopicPartition};
use pelton_storage::{LogStore, PrepareOptions};
use pelton_transport::net::{Mesh, Net};

use self::append::Commits;
use self::calls::Calls;
use self::directory::DirectoryStates;
use self::gate::ConnectionGate;
use self::memory::Memory;
use self::message::{PartitionCheckpoint, WatchId};
use self::metadata::MetadataAnswers;
use self::migration::Moves;
use self::progress::Progress;
use self::relocation::Relocations;
use self::retention::LogStartWaiters;
use self::slot::Slot;
use self::sync::{CreatedIn, Unsynced};
use self::topics::{TopicEntry, Topics};
use self::watch::PeerWatches;
use crate::boot::Identity;
use crate::boot::directories::configured;
use crate::connection::Registered;
use crate::controller::Controller;
use crate::coordinator::Coordinators;
use crate::env::Env;
use crate::loggers::Loggers;
use crate::metrics::Metrics;
use crate::repeats::Repeats;

/// What all shards of the process share.
pub(crate) struct Outside {
    /// Where all count their connections.
    pub(crate) gate: Arc<ConnectionGate>,
    /// The process' log.
    pub(crate) loggers: Arc<dyn Loggers>,
}

/// See the module.
pub struct Shard<E: Env> {
    pub(crate) net: E::Net,
    pub(crate) store: LogStore<E::Disk>,
    pub(crate) calls: Calls<E::Mesh>,
    pub(crate) id: ShardId,
    pub(crate) shard_count: u16,
    /// The settings of the start; see [`Shard::settings`] for those that change.
    pub(crate) config: Arc<BrokerConfig>,
    settings: RefCell<Arc<BrokerConfig>>,
    /// Set before the first image is published.
    pub(crate) identity: OnceCell<Arc<Identity>>,
    /// Which log directories have failed.
    pub(crate) directories: DirectoryStates,
    image: RefCell<Arc<MetadataImage>>,
    /// The `kraft.version` that came with the image.
    pub(crate) kraft_version: Cell<i16>,
    slots: RefCell<Map<TopicPartition, Rc<Slot<E>>>>,
    /// Opened or created with the image that is being applied, not reachable yet.
    arriving: RefCell<Vec<Rc<Slot<E>>>>,
    /// Partitions whose log could not be opened, with what the checkpoints knew of them where their directory is there.
    pub(crate) unopened: RefCell<BTreeMap<TopicPartition, Option<PartitionCheckpoint>>>,
    /// Slots with queued batches.
    dirty: RefCell<Vec<Rc<Slot<E>>>>,
    flush_wanted: Notify,
    unsynced: Unsynced<E>,
    created_in: CreatedIn,
    /// What waits for high watermarks.
    commits: RefCell<Commits>,
    topics: RefCell<Topics>,
    pub(crate) metadata_answers: MetadataAnswers,
    /// Reused by validation.
    pub(crate) scratch: RefCell<Scratch>,
    /// Fetches of any shard that wait for partitions of this one.
    purgatory: RefCell<Purgatory>,
    peer_watches: RefCell<PeerWatches>,
    /// The group coordinators of this shard.
    pub(crate) coordinators: Coordinators<E>,
    /// Fetch sessions of this shard's connections.
    pub(crate) sessions: RefCell<Sessions>,
    /// Interests of any shard's sessions in partitions of this one.
    standing: RefCell<Standing>,
    /// Fetches of this shard, and group requests, that wait.
    waiting_fetches: RefCell<BTreeMap<WatchId, Rc<Notify>>>,
    next_watch: Cell<WatchId>,
    pub(crate) memory: Memory,
    pub(crate) moves: Moves,
    pub(crate) gate: Arc<ConnectionGate>,
    /// The process' log.
    pub(crate) loggers: Arc<dyn Loggers>,
    /// Connections of this shard.
    pub(crate) connections: RefCell<BTreeMap<HolderId, Rc<Registered<E>>>>,
    pub(crate) next_connection: Cell<u64>,
    /// This shard's part of the connections that there are descriptors for.
    pub(crate) connections_max: usize,
    /// Where the round over all connections is.
    pub(crate) visited: Cell<HolderId>,
    listener_stops: RefCell<Vec<Rc<Notify>>>,
    /// Producer ids that this shard may hand out.
    pub(crate) producer_ids: RefCell<Range<i64>>,
    /// On the controller's shard only.
    pub(crate) controller: OnceCell<Rc<Controller<E>>>,
    /// What is counted and timed.
    pub(crate) metrics: Metrics,
    /// What is not logged as often as it happens.
    pub(crate) repeats: Repeats,
    /// No new requests are taken.
    pub(crate) is_stopping: Cell<bool>,
    /// Peers that have drained (at a stop).
    pub(crate) drained_peers: Cell<u16>,
    /// The checkpoint files are being written, other than by the stop.
    pub(crate) is_checkpointing: Cell<bool>,
    /// Who waits for log starts to be kept.
    pub(crate) log_start_waiters: LogStartWaiters,
    /// Its logs are being closed: nothing more is planned for them.
    pub(crate) is_closing: Cell<bool>,
    /// Its logs are closed.
    pub(crate) is_closed: Cell<bool>,
    /// The start failed elsewhere, or was told to stop.
    pub(crate) is_abandoned: Cell<bool>,
    /// Logs that hold files, longest held first.
    pub(crate) open_logs: RefCell<VecDeque<Rc<Slot<E>>>>,
    /// The name of the topic whose partition was set up last.
    last_name: RefCell<Arc<str>>,
    /// The settings of the topic that was looked at last.
    last_config: RefCell<Option<Arc<TopicConfig>>>,
    /// How far the start is.
    pub(crate) opening: Progress,
    /// Moves between log directories.
    pub(crate) relocations: Relocations<E>,
}

/// Partitions that maintenance looks at before other tasks run: some tens of microseconds on a cold cache.
const SLOTS_PER_TURN: usize = 256;
/// A connection's number: above these bits the shard that accepted it, so that it is unique in the process.
const CONNECTION_BITS: u32 = 48;

/// The shard that runs the controller and owns the log directory.
pub(crate) const CONTROLLER_SHARD: ShardId = ShardId(0);

impl<E: Env> Shard<E> {
    /// An empty shard: no partitions, no image.
    pub(crate) fn new(
        config: Arc<BrokerConfig>,
        net: E::Net,
        disk: E::Disk,
        mesh: E::Mesh,
        sizes: BudgetSizes,
        outside: Outside,
    ) -> Rc<Self> {
        let Outside { gate, loggers } = outside;
        let directories = DirectoryStates::new(configured(&config).len());
        let slots = config.fetch_session_slots;
        let sessions = session::sessions(slots, mesh.shard(), mesh.shard_count());
        let store = LogStore::new(disk);
        let id = mesh.shard();
        store.set_prepare_options(PrepareOptions {
            fill_bytes_max: config.log_prepare_fill_bytes,
            reserve_bytes_max: config.log_prepare_reserve_bytes,
            write_back_bytes: config.log_write_back_bytes,
        });
        Rc::new(Self {
            directories,
            store,
            id,
            shard_count: mesh.shard_count(),
            calls: Calls::new(mesh),
            settings: RefCell::new(Arc::clone(&config)),
            identity: OnceCell::new(),
            image: RefCell::default(),
            kraft_version: Cell::new(0),
            slots: RefCell::default(),
            arriving: RefCell::default(),
            unopened: RefCell::default(),
            dirty: RefCell::default(),
            flush_wanted: Notify::default(),
            unsynced: Unsynced::default(),
            created_in: CreatedIn::default(),
            commits: RefCell::default(),
            topics: RefCell::default(),
            metadata_answers: MetadataAnswers::default(),
            scratch: RefCell::default(),
            purgatory: RefCell::new(Purgatory::default()),
            peer_watches: RefCell::default(),
            coordinators: Coordinators::default(),
            sessions: RefCell::new(sessions),
            standing: RefCell::default(),
            waiting_fetches: RefCell::default(),
            next_watch: Cell::new(0),
            moves: Moves::default(),
            memory: Memory::new(MemoryBudget::new(sizes)),
            connections: RefCell::default(),
            next_connection: Cell::new(u64::from(id.0) << CONNECTION_BITS),
            connections_max: gate.descriptors_max() / sizes.shards.max(1),
            gate,
            loggers,
            visited: Cell::new(HolderId(0)),
            listener_stops: RefCell::default(),
            producer_ids: RefCell::new(0..0),
            controller: OnceCell::new(),
            metrics: Metrics::new(&config.metrics, net.wall_clock()),
            repeats: Repeats::default(),
            is_stopping: Cell::new(false),
            drained_peers: Cell::new(0),
            is_checkpointing: Cell::new(false),
            log_start_waiters: LogStartWaiters::default(),
            is_closing: Cell::new(false),
            is_closed: Cell::new(false),
            is_abandoned: Cell::new(false),
            open_logs: RefCell::default(),
            last_name: RefCell::new(Arc::from("")),
            last_config: RefCell::default(),
            opening: Progress::default(),
            relocations: Relocations::default(),
            config,
            net,
        })
    }

    /// The metadata as this shard has it.
    pub(crate) fn image(&self) -> Arc<MetadataImage> {
        Arc::clone(&self.image.borrow())
    }

    /// Who we are.
    ///
    /// # Panics
    /// Before the first image is published: nothing is served before.
    pub(crate) fn identity(&self) -> &Identity {
        self.identity.get().expect("set before anything is served")
    }

    /// The shard that owns a partition.
    pub(crate) fn owner(&self, partition: TopicPartition) -> ShardId {
        if self.shard_count == 1 {
            self.id
        } else {
            shard_of(partition, self.shard_count)
        }
    }

    /// A partition of this shard.
    pub(crate) fn slot(&self, partition: TopicPartition) -> Option<Rc<Slot<E>>> {
        self.slots.borrow().get(&partition).cloned()
    }

    /// Why this shard has no such partition.
    pub(crate) fn missing(&self, partition: TopicPartition) -> ErrorCode {
        if self.unopened.borrow().contains_key(&partition) {
            ErrorCode::KafkaStorageError
        } else {
            ErrorCode::UnknownTopicOrPartition
        }
    }

    /// Every partition of this shard, in no order that matters.
    pub(crate) fn all_slots(&self) -> Vec<Rc<Slot<E>>> {
        self.slots.borrow().values().cloned().collect()
    }

    /// The partitions of this shard, in no order that matters: what a long walk goes by, since slots come and go meanwhile.
    pub(crate) fn slot_ids(&self) -> Vec<TopicPartition> {
        self.slots.borrow().keys().copied().collect()
    }

    /// Visits every partition of this shard; between few of them other tasks run.
    pub(crate) async fn for_each_slot(&self, mut visit: impl FnMut(&Rc<Slot<E>>)) {
        let ids = self.slot_ids();
        for piece in ids.chunks(SLOTS_PER_TURN) {
            for slot in piece.iter().filter_map(|id| self.slot(*id)) {
                visit(&slot);
            }
            self.net.yield_now().await;
        }
    }

    /// Every shard's id.
    pub(crate) fn shards(&self) -> impl Iterator<Item = ShardId> + use<E> {
        (0..self.shard_count).map(ShardId)
    }

    /// The topic of this name.
    pub(crate) fn topic_by_name(&self, name: &str) -> Option<Rc<TopicEntry>> {
        self.topics.borrow().by_name(name)
    }

    /// The topic with this id.
    pub(crate) fn topic_by_id(&self, id: TopicId) -> Option<Rc<TopicEntry>> {
        self.topics.borrow().by_id(id)
    }

    /// What tells one more listener to stop.
    pub(crate) fn listener_stop(&self) -> Rc<Notify> {
        let stop = Rc::new(Notify::default());
        self.listener_stops.borrow_mut().push(Rc::clone(&stop));
        stop
    }

    /// Takes no new connections and requests; waiting fetches answer with what they have.
    pub(crate) fn begin_stop(&self) {
        self.is_stopping.set(true);
        for stop in self.listener_stops.borrow().iter() {
            stop.notify();
        }
        self.wake_all_fetches();
        for connection in self.connections.borrow().values() {
            connection.wake.notify();
        }
    }

    /// Closes what connections are left.
    pub(crate) fn close_connections(&self) {
        for connection in self.connections.borrow().values() {
            self.close_connection(connection);
        }
    }

    /// Whether no batch is queued or being written.
    pub(crate) fn has_written_everything(&self) -> bool {
        let slots = self.slots.borrow();
        slots.values().all(|slot| slot.is_quiet()) && self.coordinators.is_quiet()
    }
}
