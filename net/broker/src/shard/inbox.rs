//! What other shards ask of this one: receive, do, answer.
//!
//! Invariants:
//! 1. The receiving task never waits: what needs the disk runs in a task of its own.
//! 2. Appends are planned in the order of their arrival, so one connection's batches keep their order.

use std::rc::Rc;

use pelton_machine::budget::Pool;
use pelton_model::ShardId;
use pelton_transport::net::{Mesh, Net, TaskClass};

use super::Shard;
use super::message::{
    CallId, Message, PartitionCheckpoint, Request, Response, WriteMarkersRequest,
};
use crate::boot;
use crate::env::Env;

impl<E: Env> Shard<E> {
    /// Receives until the mesh is closed.
    pub(crate) async fn run_inbox(self: Rc<Self>) {
        while let Some((peer, message)) = self.calls.mesh().recv().await {
            match message {
                Message::Request {
                    id,
                    request: Request::Append(append),
                } => {
                    self.append_for_peer(peer, id, append);
                }
                Message::Request {
                    id,
                    request: Request::Watch(watch),
                } => {
                    self.watch_for_peer(peer, watch);
                    self.calls.post(
                        peer,
                        Message::Response {
                            id,
                            response: Response::Watching,
                        },
                    );
                }
                Message::Request {
                    id,
                    request: Request::Coordinators(groups),
                } => self.coordinate_for_peer(peer, id, groups),
                Message::Request { id, request } => {
                    let shard = Rc::clone(&self);
                    let class = TaskClass::Request;
                    self.net
                        .spawn(class, async move { shard.answer(peer, id, request).await });
                }
                Message::Response { id, response } => self.calls.answered(id, response),
                Message::Woken(watches) => self.wake_fetches(&watches),
                Message::Fired(fired) => self.sessions_fired(&fired),
                Message::SessionClosed(closed) => self.withdraw_interests(peer, closed),
                Message::Unwatch(watch) => self.unwatch_for_peer(peer, watch),
                Message::CoordinatorReplies(wait, replies) => {
                    self.on_coordinator_replies(wait, replies)
                }
                Message::Adopt(adoption) => self.adopt(*adoption),
                Message::ReserveRemainder { holder, bytes } => {
                    self.reserve_for_peer(peer, holder, bytes);
                }
                Message::RemainderGranted { holder, bytes } => {
                    self.remainder_granted(holder, bytes);
                }
                Message::ReleaseRemainder { bytes } => self.release_from(Pool::Remainder, bytes),
                Message::WithdrawRemainder { holder } => self.withdraw_for_peer(holder),
                Message::Drained => {
                    self.drained_peers.set(self.drained_peers.get() + 1);
                }
                Message::DirectoryFailed(dir) => self.on_directory_failed(dir),
                Message::Abandon => self.is_abandoned.set(true),
            }
        }
    }

    /// Sends again what the mesh refused, until it is taken.
    pub(crate) async fn run_outbox(self: Rc<Self>) {
        loop {
            self.calls.retry.notified().await;
            while !self.calls.flush_refused() {
                self.net.sleep_until(self.net.now().plus_ms(1)).await;
            }
        }
    }

    async fn answer(self: Rc<Self>, peer: ShardId, id: CallId, request: Request) {
        let is_last = matches!(request, Request::Close);
        let response = self.serve(request).await;
        self.calls.post(peer, Message::Response { id, response });
        if is_last {
            self.is_closed.set(true);
        }
    }

    /// Does what is asked here, on this shard; also for requests of the shard to itself.
    pub(crate) async fn serve(self: &Rc<Self>, request: Request) -> Response {
        match request {
            Request::TakesMore { busy_percent } => {
                Response::TakesMore(self.takes_more(busy_percent))
            }
            Request::Read(read) => Response::Read(self.read(&read).await),
            Request::CloseSession(id) => {
                self.close_session(id);
                Response::SessionClosed
            }
            Request::Offsets(queries) => Response::Offsets(self.offsets(&queries).await),
            Request::EpochEnds(queries) => Response::EpochEnds(self.epoch_ends(&queries)),
            Request::DeleteRecords(deletions) => {
                Response::Deleted(self.delete_records(&deletions).await)
            }
            Request::WriteMarkers(request) => {
                let WriteMarkersRequest { end, partitions } = request;
                Response::Markers(self.write_markers_here(end, &partitions).await)
            }
            Request::Verify(items) => Response::Verifying(self.begin_verification_here(&items)),
            Request::KeepLogStarts => Response::KeptLogStarts(self.keep_log_starts().await),
            Request::Control(command) => self.control_here(command).await,
            Request::Publish(update) => {
                self.apply_image(update).await;
                Response::Published
            }
            Request::Listen(addresses) => Response::Listening(boot::listen(self, &addresses)),
            Request::Producers(asked) => Response::Producers(self.producers(&asked)),
            Request::Relocate(wanted) => Response::Relocating(self.relocate(&wanted).await),
            Request::Quorum => self.quorum_here(),
            Request::LogSizes => Response::LogSizes(self.log_sizes()),
            Request::Metrics(wanted) => {
                Response::Metrics(Box::new(self.metrics_report(wanted).await))
            }
            Request::Lags(queries) => Response::Lags(self.lags(queries).await),
            Request::Checkpoint => Response::Checkpoints(self.checkpoints(|_| true).await),
            Request::LogStarts => {
                let has_start = |row: &PartitionCheckpoint| row.log_start.0 > 0;
                Response::Checkpoints(self.checkpoints(has_start).await)
            }
            Request::Close => {
                boot::await_peers(self).await;
                Response::Checkpoints(self.close_logs().await)
            }
            Request::Append(_) | Request::Watch(_) | Request::Coordinators(_) => {
                unreachable!("answered without a task")
            }
        }
    }

    /// Asks any shard, this one included.
    pub(crate) async fn ask(self: &Rc<Self>, shard: ShardId, request: Request) -> Response {
        if shard == self.id {
            Box::pin(self.serve(request)).await
        } else {
            self.calls.call(shard, request).await
        }
    }

    fn quorum_here(&self) -> Response {
        match self.controller.get() {
            Some(controller) => Response::Quorum(Box::new(controller.describe_quorum())),
            None => Response::Stopping,
        }
    }

    async fn control_here(self: &Rc<Self>, command: crate::controller::Command) -> Response {
        match self.controller.get() {
            Some(controller) => controller.submit(command).await,
            None => Response::Stopping,
        }
    }
}
