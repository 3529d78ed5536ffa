//! Asking every shard for its numbers, and answering.
//!
//! 1. A shard with many partitions lets others run while it looks through them; sorting is done by its helper thread.
//! 2. Whoever does not answer in [`METRICS_GATHER_MS_MAX`] is left out; at most [`METRICS_CONNECTIONS_MAX`] questions are open.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use pelton_model::limits::{METRICS_CONNECTIONS_MAX, METRICS_GATHER_MS_MAX};
use pelton_model::task::oneshot;
use pelton_model::{ShardId, Timestamp};
use pelton_transport::net::{Net, TaskClass};

use super::report::{
    Kind, PartitionReport, PartitionSums, Scalar, ShardReport, SlowRequest, Wanted, select,
};
use crate::env::Env;
use crate::shard::Shard;
use crate::shard::message::{Request, Response};
use crate::shard::slot::Slot;

/// More partitions than this are sorted elsewhere.
const SORTED_HERE_MAX: usize = 2_048;

/// The questions of one shard to others that are not answered yet.
#[derive(Debug, Default)]
pub(super) struct OpenQuestions(Rc<Cell<usize>>);

/// Asks every shard; those that do not answer are missing.
pub(super) async fn gather<E: Env>(
    shard: &Rc<Shard<E>>,
    open: &OpenQuestions,
    wanted: Wanted,
) -> Vec<ShardReport> {
    let deadline = shard.net.now().plus_ms(METRICS_GATHER_MS_MAX);
    let mut asked = Vec::new();
    // While shards stop, the mesh is no place for questions.
    let peers = shard
        .shards()
        .filter(|peer| *peer != shard.id && !shard.is_stopping.get());
    for peer in peers {
        if open.0.get() < METRICS_CONNECTIONS_MAX * usize::from(shard.shard_count) {
            asked.push(ask(shard, open, peer, Request::Metrics(wanted)));
        }
    }
    let mut reports = vec![shard.metrics_report(wanted).await];
    for answer in asked {
        let timed_out = async {
            shard.net.sleep_until(deadline).await;
            None
        };
        // A shard that stops answers something else.
        if let Some(Response::Metrics(report)) = futures_lite::future::or(answer, timed_out).await {
            reports.push(*report);
        }
    }
    reports.sort_by_key(|report| report.shard);
    reports
}

/// Asks one shard. A task of its own waits for the answer: a call cannot be given up.
pub(super) fn ask<E: Env>(
    shard: &Rc<Shard<E>>,
    open: &OpenQuestions,
    peer: ShardId,
    request: Request,
) -> impl Future<Output = Option<Response>> + use<E> {
    let (sender, receiver) = oneshot();
    let (asking, open) = (Rc::clone(shard), Rc::clone(&open.0));
    open.set(open.get() + 1);
    shard.net.spawn(TaskClass::Request, async move {
        let answer = asking.calls.call(peer, request).await;
        open.set(open.get() - 1);
        sender.send(answer);
    });
    receiver
}

impl<E: Env> Shard<E> {
    /// What this shard tells.
    pub(crate) async fn metrics_report(self: &Rc<Self>, wanted: Wanted) -> ShardReport {
        let mut report = ShardReport {
            shard: self.id.0,
            opening: self.opening.at(self.net.now()),
            scalars: Vec::new(),
            clients: Vec::new(),
            topics: Vec::new(),
            errors: Vec::new(),
            syncs: self.metrics.syncs.borrow().clone(),
            partitions: Vec::new(),
            others: PartitionSums::default(),
            directories: Vec::new(),
            committed: Vec::new(),
            committed_count: 0,
            slow: Vec::new(),
        };
        if wanted.numbers {
            let (partitions, others) = self.partition_reports().await;
            report.partitions = partitions;
            report.others = others;
            report.scalars = self.scalars();
            report.directories = self.directory_reports();
            let errors = self.metrics.errors.borrow();
            report.errors = errors
                .iter()
                .map(|(&(api, code), &count)| (api, code, count))
                .collect();
        }
        if wanted.series {
            report.clients = self.metrics.clients.borrow().report();
            report.topics = self.metrics.topics.borrow().report();
        }
        if wanted.groups {
            let count_max = self.metrics.group_partitions_max;
            (report.committed, report.committed_count) = self.committed_offsets(count_max);
        }
        if wanted.slow {
            report.slow = self.slow_reports();
        }
        report
    }

    async fn partition_reports(self: &Rc<Self>) -> (Vec<PartitionReport>, PartitionSums) {
        let mut rows = Vec::new();
        self.for_each_slot(|slot| rows.push(partition_report(slot)))
            .await;
        let count_max = self.metrics.partitions_max;
        if rows.len() <= SORTED_HERE_MAX {
            return select(rows, count_max);
        }
        self.net.run_blocking(move || select(rows, count_max)).await
    }

    fn directory_reports(&self) -> Vec<(String, bool)> {
        let Some(identity) = self.identity.get() else {
            return Vec::new();
        };
        let numbered = (0_u16..).map(crate::shard::directory::DirIndex);
        let directories = numbered.zip(&identity.directories);
        directories
            .map(|(dir, directory)| {
                let path = directory.path.display().to_string();
                (path, self.directories.is_failed(dir))
            })
            .collect()
    }

    fn slow_reports(&self) -> Vec<(Timestamp, SlowRequest)> {
        let (wall, now) = (self.net.wall_clock(), self.net.now());
        let slow = self.metrics.slow.borrow().report().into_iter();
        let at = |request: &SlowRequest| {
            let ago_ms = now.since(request.ended) / 1_000_000;
            Timestamp(wall.0.saturating_sub_unsigned(ago_ms))
        };
        slow.map(|request| (at(&request), request)).collect()
    }

    /// The counters, and what comes and goes.
    fn scalars(&self) -> Vec<Scalar> {
        let mut scalars = self.metrics.counters.scalars();
        let mut put = |kind, name, help, value| {
            scalars.push(Scalar {
                name,
                help,
                kind,
                value,
            });
        };
        let load = self.net.load();
        put(
            Kind::SecondsCounter,
            "pelton_shard_cpu_seconds_total",
            "CPU time of the shard's thread: its rate is the share of a core that it uses.",
            load.cpu_ns,
        );
        if let Some(busy_ns) = load.busy_ns {
            put(
                Kind::SecondsCounter,
                "pelton_shard_busy_seconds_total",
                "Time that the shard spent outside of waiting for the kernel: its rate is the shard's utilisation.",
                busy_ns,
            );
        }
        for (name, help, value) in self.gauges() {
            put(Kind::Gauge, name, help, value as u64);
        }
        let transactions = self.transactions();
        for (name, help, value) in [
            (
                "pelton_transactional_ids",
                "Transactional ids that this shard coordinates.",
                transactions.ids,
            ),
            (
                "pelton_transactions_open",
                "Transactions that are open.",
                transactions.open,
            ),
            (
                "pelton_transactions_ending",
                "Transactions whose markers are being written.",
                transactions.ending,
            ),
        ] {
            put(Kind::Gauge, name, help, value);
        }
        let age_ms =
            |oldest: Timestamp| u64::try_from(self.net.wall_clock().0 - oldest.0).unwrap_or(0);
        put(
            Kind::SecondsGauge,
            "pelton_transactions_oldest_age_seconds",
            "The age of the oldest transaction of the shard that has not ended.",
            transactions
                .oldest
                .map_or(0, age_ms)
                .saturating_mul(1_000_000),
        );
        let slow = self.metrics.slow.borrow().count();
        put(
            Kind::Counter,
            "pelton_slow_requests_total",
            "Requests that took slow.request.threshold.ms or longer.",
            slow,
        );
        scalars
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, usize)> {
        let memory = &self.memory;
        vec![
            (
                "pelton_connections",
                "Connections of clients that are open.",
                self.connections.borrow().len(),
            ),
            (
                "pelton_request_memory_bytes",
                "Memory reserved for requests that are being received or answered.",
                memory.used_bytes(),
            ),
            (
                "pelton_request_memory_waiting_connections",
                "Connections that wait for request memory.",
                memory.waiting_count(),
            ),
            (
                "pelton_waiting_fetches",
                "Fetches of this shard's connections that wait for records.",
                self.waiting_fetch_count(),
            ),
            (
                "pelton_waiting_commits",
                "Appended batches that wait for the high watermark.",
                self.waiting_commit_count(),
            ),
            (
                "pelton_mesh_calls",
                "Requests to other shards that are not answered yet.",
                self.calls.open_count(),
            ),
            (
                "pelton_mesh_refused_messages",
                "Messages to other shards that the mesh could not take yet.",
                self.calls.refused_count(),
            ),
            (
                "pelton_logs_with_open_files",
                "Logs whose files are open.",
                self.open_logs.borrow().len(),
            ),
            (
                "pelton_unopened_partitions",
                "Partitions whose log could not be opened.",
                self.unopened.borrow().len(),
            ),
            (
                "pelton_trash_entries",
                "Deleted segments and logs whose files are still there.",
                self.store.trash().count(),
            ),
        ]
    }
}

fn partition_report<E: Env>(slot: &Slot<E>) -> PartitionReport {
    let state = slot.state.borrow();
    let unsynced = slot.log().log_end().0 - slot.log().durable_end().0;
    let count = |number: usize| number as u64;
    PartitionReport {
        topic: slot.topic.clone(),
        partition: slot.id.partition.0,
        log_start: state.log_start().0,
        high_watermark: state.high_watermark().0,
        log_end: state.log_end().0,
        sums: PartitionSums {
            partitions: 1,
            offline: u64::from(state.is_offline()),
            log_bytes: slot.log().size_bytes(),
            segments: count(slot.log().segment_count()),
            unsynced_records: u64::try_from(unsynced).unwrap_or(0),
            write_back_lag_bytes: slot.log().write_back_lag_bytes(),
            queued_batches: count(slot.pending.borrow().len()),
        },
    }
}
