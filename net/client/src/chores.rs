//! What a producer or consumer has done beside its own work: connecting to leaders and asking for metadata.
//!
//! 1. At most one attempt to connect per node and one metadata request at a time; each ends with a wake-up.
//! 2. An attempt that failed is followed by a pause in which nothing is begun for the same node.
//! 3. Everything ends with the connections that it waits for once [`Chores::stop`] was called.
//!
//! It reports no errors: who waits has its own deadline.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use pelton_model::task::Notify;
use pelton_protocol::codec::Str;
use pelton_transport::net::{Net, TaskClass};

use crate::client::Client;
use crate::connection::Connection;

pub(crate) struct Chores<N: Net> {
    /// For metadata.
    pub(crate) client: Client<N>,
    /// For records, over connections of their own.
    lanes: Client<N>,
    /// To the one task that all this is for.
    pub(crate) wake: Notify,
    connecting: RefCell<BTreeSet<i32>>,
    stale_topics: RefCell<BTreeSet<Str>>,
    is_refreshing: Cell<bool>,
    is_stopped: Cell<bool>,
}

impl<N: Net> Chores<N> {
    pub(crate) fn new(client: &Client<N>) -> Rc<Self> {
        Rc::new(Self {
            client: client.clone(),
            lanes: client.fork(),
            wake: Notify::default(),
            connecting: RefCell::default(),
            stale_topics: RefCell::default(),
            is_refreshing: Cell::new(false),
            is_stopped: Cell::new(false),
        })
    }

    pub(crate) fn stop(&self) {
        self.is_stopped.set(true);
        self.wake.notify();
    }

    /// The connection to a node; without one, one is made beside.
    pub(crate) fn connection_to(self: &Rc<Self>, node_id: i32) -> Option<Connection<N>> {
        let open = self.lanes.open_connection_to(node_id);
        if open.is_none() {
            self.connect_later(node_id);
        }
        open
    }

    /// The leader's node id; without one, metadata is asked for beside.
    pub(crate) fn leader_of(self: &Rc<Self>, topic: &Str, partition: i32) -> Option<i32> {
        let leader = self.client.leader(topic, partition);
        if leader.is_none() {
            self.refresh_later(topic);
        }
        leader.map(|leader| leader.node_id)
    }

    /// Asks for the topic's metadata beside; several are asked for at once.
    pub(crate) fn refresh_later(self: &Rc<Self>, topic: &Str) {
        if !self.stale_topics.borrow().contains(topic) {
            self.stale_topics.borrow_mut().insert(topic.clone());
        }
        if self.is_refreshing.replace(true) {
            return;
        }
        let chores = Rc::clone(self);
        self.client.net().spawn(TaskClass::Request, async move {
            let mut backoff = chores.client.retry_backoff();
            while !chores.is_stopped.get() {
                let topics: Vec<Str> = chores.stale_topics.take().into_iter().collect();
                if topics.is_empty() {
                    break;
                }
                if let Err(error) = chores.client.refresh_once(&topics, false).await {
                    tracing::debug!(error = %error, "no metadata");
                    chores.stale_topics.borrow_mut().extend(topics);
                }
                chores.wake.notify();
                let net = chores.client.net();
                backoff.failed(net.now(), chores.client.random());
                net.sleep_until(backoff.not_before()).await;
            }
            chores.is_refreshing.set(false);
        });
    }

    fn connect_later(self: &Rc<Self>, node_id: i32) {
        if self.is_stopped.get() || !self.connecting.borrow_mut().insert(node_id) {
            return;
        }
        let chores = Rc::clone(self);
        self.client.net().spawn(TaskClass::Request, async move {
            if let Err(error) = chores.lanes.connection_to(node_id).await {
                tracing::debug!(node_id, error = %error, "no connection to the leader");
                // The leader may have moved.
                for topic in chores.client.topics_led_by(node_id) {
                    chores.refresh_later(&topic);
                }
                let pause_ms = chores.client.options().retry_backoff_ms;
                let net = chores.client.net();
                net.sleep_until(net.now().plus_ms(pause_ms)).await;
            }
            chores.connecting.borrow_mut().remove(&node_id);
            chores.wake.notify();
        });
    }
}
