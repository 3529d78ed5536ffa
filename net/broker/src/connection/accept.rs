//! Accepting: every connection asks the gate of the process before it is served.
//!
//! As Kafka: an address that has as many connections as it may have is refused; while there are as many in all as there may be, or
//! they come too fast, the listener holds the one that came and takes no other.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::BytesMut;
use pelton_machine::budget::HolderId;
use pelton_machine::connection::Traffic;
use pelton_machine::connection::quota::Entry;
use pelton_model::limits::ACCEPT_BACKOFF_MS;
use pelton_model::task::Notify;
use pelton_transport::net::{Connection, Listener, Net, TaskClass};

use super::{Client, ConnectionTask, Registered};
use crate::env::{Env, Socket};
use crate::metrics::timeline::Timeline;
use crate::shard::Shard;
use crate::shard::gate::Permit;
use crate::shard::memory::count;

/// Accepts connections of one listener until the shard stops.
pub(crate) async fn accept<E: Env>(
    shard: Rc<Shard<E>>,
    listener: <E::Net as Net>::Listener,
    listener_index: usize,
) {
    let stop = shard.listener_stop();
    loop {
        let Some(accepted) = unless(&stop, listener.accept()).await else {
            return;
        };
        match accepted {
            Ok(socket) => {
                let Some(entered) = unless(&stop, enter(&shard, &socket)).await else {
                    return;
                };
                if let Some(permit) = entered
                    && !shard.is_stopping.get()
                {
                    shard.metrics.counters.connections_accepted.add(1);
                    let id = HolderId(shard.next_connection.get());
                    shard.next_connection.set(id.0 + 1);
                    let arrived = Arrived {
                        id,
                        permit,
                        listener_index,
                        unread: BytesMut::new(),
                        traffic: Traffic::new(shard.net.now()),
                    };
                    start(&shard, socket, arrived);
                }
            }
            Err(error) => {
                if let Some(untold) = shard.repeats.accept.tell(shard.net.now()) {
                    tracing::warn!(%error, untold, "cannot accept a connection");
                }
                let backoff = shard.net.now().plus_ms(ACCEPT_BACKOFF_MS);
                if unless(&stop, shard.net.sleep_until(backoff))
                    .await
                    .is_none()
                {
                    return;
                }
            }
        }
    }
}

/// What `work` gives, unless the shard stops first.
async fn unless<T>(stop: &Notify, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut stopping = pin!(stop.notified());
    poll_fn(|context| {
        if stopping.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        work.as_mut().poll(context).map(Some)
    })
    .await
}

/// Waits for the connection's turn; `None` when it must be closed.
async fn enter<E: Env>(shard: &Shard<E>, socket: &Socket<E>) -> Option<Permit> {
    let mut is_held_up = false;
    loop {
        let now = shard.net.now();
        let entry = match shard.gate.enter(socket.peer_addr(), now) {
            Ok(permit) => return Some(permit),
            Err(entry) => entry,
        };
        let pressure = &shard.memory.pressure;
        if !is_held_up && let Some(untold) = shard.repeats.refused.tell(now) {
            let peer = socket.peer_addr();
            tracing::warn!(%peer, ?entry, untold, "a connection is refused or held up");
        }
        // Whoever leaves does so on any shard: the gate is asked again after a while.
        let soon = now.plus_ms(ACCEPT_BACKOFF_MS);
        let until = match entry {
            Entry::TooManyFromAddress => {
                shard.metrics.counters.connections_refused.add(1);
                count(&pressure.refused_of_address);
                return None;
            }
            Entry::NoDescriptors => {
                shard.metrics.counters.connections_refused.add(1);
                count(&pressure.refused_for_descriptors);
                return None;
            }
            Entry::NotBefore(later) => later.min(soon),
            Entry::Full | Entry::Granted => soon,
        };
        if !std::mem::replace(&mut is_held_up, true) {
            count(&pressure.held_up);
        }
        shard.net.sleep_until(until).await;
    }
}

/// A connection that this shard is to serve: a new one, or another shard's.
pub(crate) struct Arrived {
    pub(crate) id: HolderId,
    pub(crate) permit: Permit,
    pub(crate) listener_index: usize,
    /// Bytes that were received elsewhere.
    pub(crate) unread: BytesMut,
    pub(crate) traffic: Traffic,
}

/// Serves a connection until it ends or moves.
pub(crate) fn start<E: Env>(shard: &Rc<Shard<E>>, socket: Socket<E>, arrived: Arrived) {
    let Arrived {
        id,
        permit,
        listener_index,
        unread,
        traffic,
    } = arrived;
    let now = shard.net.now();
    let registered = Rc::new(Registered {
        socket,
        permit: Cell::new(Some(permit)),
        traffic: Cell::new(traffic),
        last_active: Cell::new(now),
        stall: Cell::new(None),
        wake: Rc::new(Notify::default()),
        is_waiting: Cell::new(false),
        is_granted: Cell::new(false),
        answer_bytes: Cell::new(0),
        sent_bytes: Cell::new(0),
        sent_at: Cell::new(now),
        waiting_fetch: Cell::new(None),
        is_silent: Cell::new(false),
        is_closed: Cell::new(false),
    });
    shard
        .connections
        .borrow_mut()
        .insert(id, Rc::clone(&registered));
    let client = Client {
        timeline: Timeline::new(&shard.metrics, now),
        shard: Rc::clone(shard),
        registered,
        listener_index,
        id,
    };
    shard.net.clone().spawn(TaskClass::Request, async move {
        let mut task = ConnectionTask::new(client);
        let end = task.run(unread).await;
        task.end(end);
    });
}
