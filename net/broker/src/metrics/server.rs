//! The port: accepts, reads the head of a request, gathers, answers, closes.
//!
//! Invariants:
//! 1. It listens before the log directories are looked at, on the controller's shard, and answers until that shard's thread ends.
//! 2. At most [`METRICS_CONNECTIONS_MAX`] connections at once, each bounded in bytes and time; further ones wait to be accepted.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use pelton_model::config::metrics::MetricsConfig;
use pelton_model::limits::{
    ACCEPT_BACKOFF_MS, METRICS_CONNECTIONS_MAX, METRICS_HEAD_BYTES_MAX, METRICS_RECEIVE_MS_MAX,
    METRICS_SEND_MS_MAX,
};
use pelton_model::slice::Slice;
use pelton_model::task::Notify;
use pelton_transport::net::{Connection, Listener, Net, SocketOptions, TaskClass};
use pelton_transport::process;

use super::gather::{OpenQuestions, gather};
use super::http::{self, Answer, Head, Status};
use super::prometheus::Scrape;
use super::report::{ShardReport, Wanted};
use super::{json, lag, prometheus};
use crate::boot::BootError;
use crate::env::{Env, Socket};
use crate::shard::Shard;

const JSON: &str = "application/json";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
/// What there is, for whoever asks for something else.
const PATHS: &str = "try /metrics, /healthz, /readyz, /latency.json or /slow.json";

struct Server<E: Env> {
    shard: Rc<Shard<E>>,
    questions: OpenQuestions,
    connections: Cell<usize>,
    /// A connection ended.
    has_room: Notify,
}

/// Where metrics are served, if anywhere.
///
/// # Errors
/// `Resolve` for a host without an address.
pub(crate) fn resolve(config: &MetricsConfig) -> Result<Option<SocketAddr>, BootError> {
    let Some((host, port)) = &config.listener else {
        return Ok(None);
    };
    let shown = if host.is_empty() { "0.0.0.0" } else { host };
    let failed = |source| BootError::Resolve {
        listener: format!("metrics.listener={host}:{port}"),
        source,
    };
    let mut found = (shown, *port).to_socket_addrs().map_err(failed)?;
    let none = || {
        failed(io::Error::new(
            io::ErrorKind::NotFound,
            "the name has no address",
        ))
    };
    found.next().map(Some).ok_or_else(none)
}

/// Listens; returns where.
///
/// # Errors
/// `Resolve` and `Listen`: there is no such address, or it cannot be had.
pub(crate) fn start<E: Env>(shard: &Rc<Shard<E>>) -> Result<Option<SocketAddr>, BootError> {
    let Some(address) = resolve(&shard.config.metrics)? else {
        return Ok(None);
    };
    let refused = |source| BootError::Listen { address, source };
    let listener = shard
        .net
        .listen(address, SocketOptions::default())
        .map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    let server = Rc::new(Server {
        shard: Rc::clone(shard),
        questions: OpenQuestions::default(),
        connections: Cell::new(0),
        has_room: Notify::default(),
    });
    shard.net.spawn(TaskClass::Request, server.accept(listener));
    tracing::info!(address = %bound, "serving metrics");
    Ok(Some(bound))
}

impl<E: Env> Server<E> {
    async fn accept(self: Rc<Self>, listener: <E::Net as Net>::Listener) {
        let net = &self.shard.net;
        loop {
            while self.connections.get() >= METRICS_CONNECTIONS_MAX {
                self.has_room.notified().await;
            }
            match listener.accept().await {
                Ok(socket) => {
                    self.connections.set(self.connections.get() + 1);
                    let server = Rc::clone(&self);
                    net.spawn(TaskClass::Request, async move {
                        server.serve(&socket).await;
                        socket.shutdown();
                        server.connections.set(server.connections.get() - 1);
                        server.has_room.notify();
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection for metrics");
                    net.sleep_until(net.now().plus_ms(ACCEPT_BACKOFF_MS)).await;
                }
            }
        }
    }

    /// Answers one request. What the peer does not take or send in time is its loss.
    async fn serve(&self, socket: &Socket<E>) {
        let head = self.within(METRICS_RECEIVE_MS_MAX, receive(socket)).await;
        let (answer, head_only) = match head {
            Some(None) => return,
            Some(Some(Head::Request { path, head_only })) => (self.answer(&path).await, head_only),
            Some(Some(Head::Refused(status))) => (Answer::of(status), false),
            Some(Some(Head::Partial)) | None => (Answer::of(Status::RequestTimeout), false),
        };
        let bytes = Bytes::from(answer.encode(head_only));
        let mut slices = vec![Slice::Bytes(bytes)];
        let sent = self
            .within(METRICS_SEND_MS_MAX, socket.send(&mut slices))
            .await;
        if let Some(Err(error)) = sent {
            tracing::debug!(peer = %socket.peer_addr(), %error, "cannot answer a request for metrics");
        }
    }

    /// The outcome of `work`, unless it takes longer.
    async fn within<T>(&self, ms: u64, work: impl Future<Output = T>) -> Option<T> {
        let net = &self.shard.net;
        let late = async {
            net.sleep_until(net.now().plus_ms(ms)).await;
            None
        };
        futures_lite::future::or(async { Some(work.await) }, late).await
    }

    async fn answer(&self, path: &str) -> Answer {
        let of = |content_type, body| Answer {
            status: Status::Ok,
            content_type,
            body,
        };
        match path {
            "/healthz" => Answer::text(Status::Ok, "ok"),
            "/readyz" => self.readiness().await,
            "/metrics" => of(PROMETHEUS, self.metrics().await),
            "/latency.json" => {
                let wanted = Wanted {
                    series: true,
                    ..Wanted::default()
                };
                let (now, reports) = (self.shard.net.wall_clock(), self.gather(wanted).await);
                let work = move || json::latency(now, &reports);
                of(JSON, self.shard.net.run_blocking(work).await)
            }
            "/slow.json" => {
                let wanted = Wanted {
                    slow: true,
                    ..Wanted::default()
                };
                let (now, reports) = (self.shard.net.wall_clock(), self.gather(wanted).await);
                let threshold_ms = self.shard.settings().metrics.slow_request_ms;
                let work = move || json::slow(now, threshold_ms, &reports);
                of(JSON, self.shard.net.run_blocking(work).await)
            }
            _ => Answer::text(Status::NotFound, PATHS),
        }
    }

    fn is_ready(&self) -> bool {
        self.shard.metrics.is_serving.get() && !self.shard.is_stopping.get()
    }

    async fn gather(&self, wanted: Wanted) -> Vec<ShardReport> {
        gather(&self.shard, &self.questions, wanted).await
    }

    async fn readiness(&self) -> Answer {
        let reports = self.gather(Wanted::default()).await;
        let is_ready = self.is_ready();
        let is_opening = reports.iter().any(|report| report.opening.total > 0);
        let phase = if self.shard.is_stopping.get() {
            "stopping"
        } else if is_ready {
            "serving"
        } else if is_opening {
            "recovering"
        } else {
            "starting"
        };
        Answer {
            status: if is_ready {
                Status::Ok
            } else {
                Status::Unavailable
            },
            content_type: JSON,
            body: json::progress(phase, is_ready, &reports),
        }
    }

    async fn metrics(&self) -> String {
        let wanted = Wanted {
            numbers: true,
            series: true,
            slow: false,
            groups: true,
        };
        let reports = self.gather(wanted).await;
        let shard = &self.shard;
        let groups_max = shard.metrics.group_partitions_max;
        let lags = lag::lags(shard, &self.questions, &reports, groups_max).await;
        let (shard_count, is_ready) = (shard.shard_count, self.is_ready());
        let began_ms = shard.metrics.began.0;
        let partitions_max = shard.metrics.partitions_max;
        let work = move || {
            prometheus::encode(&Scrape {
                reports,
                shard_count,
                partitions_max,
                lags,
                is_ready,
                began_ms,
                process: process::usage(),
            })
        };
        shard.net.run_blocking(work).await
    }
}

/// Receives until the head is whole or refused; `None` when the peer is gone.
async fn receive<C: Connection>(socket: &C) -> Option<Head> {
    let mut received = BytesMut::with_capacity(METRICS_HEAD_BYTES_MAX);
    loop {
        // `parse` refuses what fills the room, so there always is some.
        match socket.recv(&mut received).await {
            Ok(0) | Err(_) => return None,
            Ok(_) => match http::parse(&received) {
                Head::Partial => {}
                head @ (Head::Request { .. } | Head::Refused(_)) => return Some(head),
            },
        }
    }
}
