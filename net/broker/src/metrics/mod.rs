//! What a shard counts and times, and how it is told over HTTP.
//!
//! Invariants:
//! 1. Everything counted is plain cells of one shard; a scrape asks every shard once and adds up what comes back.
//! 2. Cardinality is bounded: clients and topics by `metrics.series.max`, partitions by `metrics.partitions.max`; whoever is beyond is
//!    counted with the others, so sums stay whole. Of groups so many partitions are told as `metrics.group.partitions.max` says.
//! 3. Requests are timed only where `metrics.listener` is set.
//! 4. The port answers from the first moment of a start to the last of a stop.
//!
//! Where things are: `timeline` times requests, `series` and `slow` keep what it found; `report` is what a shard answers, `gather` asks
//! for it, `lag` for how far groups are behind; `prometheus` and `json` write it down; `http` and `server` hand it out.

mod gather;
mod http;
mod json;
mod lag;
mod prometheus;
pub mod report;
pub(crate) mod series;
mod server;
pub(crate) mod slow;
pub mod stages;
pub(crate) mod timeline;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use pelton_machine::transaction::{EndCause, Ended};
use pelton_model::config::metrics::MetricsConfig;
use pelton_model::histogram::Histogram;
use pelton_model::{Monotonic, Timestamp};
use pelton_protocol::codec::Message;

use self::report::{Kind, Scalar};
use self::series::SeriesTable;
use self::slow::SlowRing;

pub(crate) use self::server::{resolve, start};

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(Cell<u64>);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0.set(self.0.get() + more);
    }
}

/// Defines the plain counters of a shard: the field, the metric's name, its help.
macro_rules! counters {
    ($($field:ident $name:literal $help:literal;)*) => {
        /// Plain counters of one shard.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $field: Counter,)*
        }

        impl Counters {
            fn scalars(&self) -> Vec<Scalar> {
                vec![$(Scalar {
                    name: $name,
                    help: $help,
                    kind: Kind::Counter,
                    value: self.$field.0.get(),
                }),*]
            }
        }
    };
}

counters! {
    connections_accepted "pelton_connections_accepted_total"
        "Connections of clients that were accepted.";
    connections_refused "pelton_connections_refused_total"
        "Connections that were closed at once: there were too many.";
    connections_malformed "pelton_connections_malformed_total"
        "Connections that were closed for bytes that are no request.";
    append_writes "pelton_append_writes_total"
        "Writes to partition logs; each takes what was queued for one partition.";
    append_batches "pelton_append_batches_total"
        "Record batches that were written.";
    append_bytes "pelton_append_bytes_total"
        "Bytes of record batches that were written.";
    syncs "pelton_syncs_total"
        "Syncs of partition logs that ended well.";
    sync_failures "pelton_sync_failures_total"
        "Syncs of partition logs that failed; each takes a log offline.";
    retention_segments "pelton_retention_deleted_segments_total"
        "Segments that retention deleted.";
    trash_bytes "pelton_deleted_bytes_total"
        "Bytes of deleted files that were given back to the filesystem.";
    cleaner_passes "pelton_cleaner_passes_total"
        "Logs that were compacted.";
    cleaner_read_bytes "pelton_cleaner_read_bytes_total"
        "Bytes that compaction read.";
    cleaner_written_bytes "pelton_cleaner_written_bytes_total"
        "Bytes that compaction kept.";
    transactions_committed "pelton_transactions_committed_total"
        "Transactions whose commit was decided.";
    transactions_aborted "pelton_transactions_aborted_total"
        "Transactions whose abort their producer asked for.";
    transactions_fenced "pelton_transactions_fenced_total"
        "Transactions that were aborted because another producer took their id.";
    transactions_timed_out "pelton_transactions_timed_out_total"
        "Transactions that were aborted because they lasted too long.";
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// Whether requests are timed.
    pub(crate) is_on: bool,
    /// Clients can connect.
    pub(crate) is_serving: Cell<bool>,
    pub(crate) counters: Counters,
    began: Timestamp,
    partitions_max: usize,
    group_partitions_max: usize,
    /// What the last scrape found out about groups that are behind.
    first_unread: RefCell<lag::FirstUnread>,
    slow_ns: Cell<u64>,
    clients: RefCell<SeriesTable>,
    topics: RefCell<SeriesTable>,
    slow: RefCell<SlowRing>,
    /// How long syncs took.
    syncs: RefCell<Histogram>,
    /// By API and code.
    errors: RefCell<BTreeMap<(i16, i16), u64>>,
}

impl Metrics {
    /// Counts a transaction whose end was decided.
    pub(crate) fn count_ended(&self, ended: &Ended) {
        let counters = &self.counters;
        let counter = match (ended.commit, ended.cause) {
            (true, _) => &counters.transactions_committed,
            (false, EndCause::Producer) => &counters.transactions_aborted,
            (false, EndCause::Fenced) => &counters.transactions_fenced,
            (false, EndCause::TimedOut) => &counters.transactions_timed_out,
        };
        counter.add(1);
    }

    pub(crate) fn new(config: &MetricsConfig, began: Timestamp) -> Self {
        let metrics = Self {
            is_on: config.listener.is_some(),
            is_serving: Cell::new(false),
            counters: Counters::default(),
            began,
            partitions_max: config.partitions_max,
            group_partitions_max: config.group_partitions_max,
            first_unread: RefCell::default(),
            slow_ns: Cell::new(0),
            clients: RefCell::new(SeriesTable::new(config.series_max)),
            topics: RefCell::new(SeriesTable::new(config.series_max)),
            slow: RefCell::default(),
            syncs: RefCell::default(),
            errors: RefCell::default(),
        };
        metrics.follow(config);
        metrics
    }

    /// Follows a change of the settings that may change.
    pub(crate) fn follow(&self, config: &MetricsConfig) {
        self.slow_ns
            .set(config.slow_request_ms.saturating_mul(1_000_000));
    }

    /// The series of a topic's requests of one API.
    pub(crate) fn topic(
        &self,
        api: i16,
        name: &str,
        now: Monotonic,
    ) -> std::rc::Rc<series::Series> {
        self.topics.borrow_mut().get(api, name, now)
    }

    /// Counts the error codes of a response.
    #[inline]
    pub(crate) fn count_errors<M: Message>(&self, response: &M) {
        if self.is_on {
            response.visit_error_codes(&mut |code| {
                if code != 0 {
                    self.count_error(M::KEY, code);
                }
            });
        }
    }

    /// Counts error codes that were answered.
    pub(crate) fn count_error_codes(&self, api: i16, codes: &[i16]) {
        for &code in codes {
            self.count_error(api, code);
        }
    }

    #[cold]
    fn count_error(&self, api: i16, code: i16) {
        *self.errors.borrow_mut().entry((api, code)).or_default() += 1;
    }

    /// Counts a sync that took from `begun` to `ended`.
    pub(crate) fn on_synced(&self, begun: Monotonic, ended: Monotonic, is_well: bool) {
        self.syncs.borrow_mut().record(ended.since(begun));
        if is_well {
            self.counters.syncs.add(1);
        } else {
            self.counters.sync_failures.add(1);
        }
    }
}
