//! A client of one cluster: connections by need, metadata, and back-off between attempts.
//!
//! 1. At most one connection per node and client; [`Client::fork`] gives another set, so that a fetch that waits for data
//!    holds up nothing else.
//! 2. At most one attempt to connect per node at a time; those who wait share its outcome.
//! 3. Metadata is shared by forks and only moves forward.
//!
//! Not here: what is produced and consumed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use pelton_model::{ErrorCode, Monotonic};
use pelton_protocol::codec::{Message, Str};
use pelton_protocol::message::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use pelton_transport::net::Net;

use crate::address::Address;
use crate::connection::Connection;
use crate::error::ClientError;
use crate::limits;
use crate::metadata::{Broker, ClusterMetadata, TopicMetadata};
use crate::options::ClientOptions;
use crate::retry::Backoff;
use crate::wait::Waiters;

/// A client of one cluster. Clones share everything.
pub struct Client<N: Net> {
    cluster: Rc<Cluster<N>>,
    links: Rc<Links<N>>,
}

impl<N: Net> Clone for Client<N> {
    fn clone(&self) -> Self {
        Self {
            cluster: Rc::clone(&self.cluster),
            links: Rc::clone(&self.links),
        }
    }
}

struct Cluster<N: Net> {
    net: N,
    options: ClientOptions,
    bootstrap: Vec<Address>,
    metadata: RefCell<ClusterMetadata>,
    refreshed: RefCell<BTreeMap<Str, Monotonic>>,
}

struct Links<N: Net> {
    nodes: RefCell<BTreeMap<Target, Node<N>>>,
    changed: Waiters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Node(i32),
    Bootstrap(usize),
}

struct Node<N: Net> {
    connection: Option<Connection<N>>,
    is_connecting: bool,
    /// Attempts that have ended, and how the last one did.
    attempts: u64,
    failure: Option<ClientError>,
    backoff: Backoff,
}

/// Who leads a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The leader's node id.
    pub node_id: i32,
    /// The leader's epoch; −1 is unknown.
    pub leader_epoch: i32,
}

impl<N: Net> Client<N> {
    /// Connects to the first of `bootstrap` that answers and learns who the brokers are. Each is tried once.
    ///
    /// # Errors
    /// [`ClientError::NoBroker`] when none answers.
    pub async fn connect(
        net: &N,
        bootstrap: &[Address],
        options: ClientOptions,
    ) -> Result<Self, ClientError> {
        let client = Self {
            cluster: Rc::new(Cluster {
                net: net.clone(),
                options,
                bootstrap: bootstrap
                    .iter()
                    .take(limits::BOOTSTRAP_MAX)
                    .cloned()
                    .collect(),
                metadata: RefCell::default(),
                refreshed: RefCell::default(),
            }),
            links: Rc::new(Links::new()),
        };
        client.refresh_once(&[], false).await?;
        Ok(client)
    }

    /// The same cluster over connections of its own.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self {
            cluster: Rc::clone(&self.cluster),
            links: Rc::new(Links::new()),
        }
    }

    /// The runtime's seam.
    #[must_use]
    pub fn net(&self) -> &N {
        &self.cluster.net
    }

    /// The client's settings.
    #[must_use]
    pub fn options(&self) -> &ClientOptions {
        &self.cluster.options
    }

    /// The brokers known.
    #[must_use]
    pub fn brokers(&self) -> Vec<Broker> {
        self.metadata().borrow().brokers().cloned().collect()
    }

    /// The cluster's id, as far as known.
    #[must_use]
    pub fn cluster_id(&self) -> Option<Str> {
        self.metadata().borrow().cluster_id.clone()
    }

    /// A connection to any broker: an open one, else a new one.
    ///
    /// # Errors
    /// [`ClientError::NoBroker`] when nobody answers within `operation_timeout_ms`.
    pub async fn connection(&self) -> Result<Connection<N>, ClientError> {
        if let Some(open) = self.links.any_open() {
            return Ok(open);
        }
        let mut last = None;
        for target in self.targets() {
            match self.connection_of(target).await {
                Ok(connection) => return Ok(connection),
                Err(error) => last = Some(Box::new(error)),
            }
        }
        Err(ClientError::NoBroker { last })
    }

    /// The connection to a node, made if there is none.
    ///
    /// # Errors
    /// The node is not known or does not answer; the next attempt waits for the back-off.
    pub async fn connection_to(&self, node_id: i32) -> Result<Connection<N>, ClientError> {
        self.connection_of(Target::Node(node_id)).await
    }

    /// The connection to a node, when it is open.
    #[must_use]
    pub fn open_connection_to(&self, node_id: i32) -> Option<Connection<N>> {
        let nodes = self.links.nodes.borrow();
        let connection = nodes.get(&Target::Node(node_id))?.connection.as_ref()?;
        connection.is_open().then(|| connection.clone())
    }

    /// The connection to the controller (or to a broker that speaks for it).
    ///
    /// # Errors
    /// Nobody can be reached.
    pub async fn controller(&self) -> Result<Connection<N>, ClientError> {
        let controller_id = self.metadata().borrow().controller_id;
        if let Some(node_id) = controller_id
            && let Ok(connection) = self.connection_to(node_id).await
        {
            return Ok(connection);
        }
        self.connection().await
    }

    /// Sends a request to any broker and waits for the answer, in the highest version that both sides speak.
    ///
    /// # Errors
    /// Nobody can be reached, the versions do not meet, or the request failed.
    pub async fn call<Q: Message, S: Message>(&self, request: &Q) -> Result<S, ClientError> {
        let connection = self.connection().await?;
        connection.call(connection.version::<Q>()?, request).await
    }

    /// A topic's metadata: what is known and not too old, else what a broker says, waiting for a topic that is just being
    /// created.
    ///
    /// # Errors
    /// The topic does not exist, or nobody answers, within `operation_timeout_ms`.
    pub async fn topic(
        &self,
        name: &str,
        may_create: bool,
    ) -> Result<Rc<TopicMetadata>, ClientError> {
        if let Some(topic) = self.known_topic(name) {
            return Ok(topic);
        }
        let names = [Str::from(name)];
        self.refresh(&names, may_create).await?;
        let known = self.metadata().borrow().topic(name).cloned();
        known.ok_or_else(|| ClientError::Refused {
            operation: "metadata of topic",
            object: names[0].clone(),
            error: ErrorCode::UnknownTopicOrPartition,
            message: None,
        })
    }

    /// A topic's metadata when it is known and not older than `metadata_max_age_ms`.
    #[must_use]
    pub fn known_topic(&self, name: &str) -> Option<Rc<TopicMetadata>> {
        let topic = self.metadata().borrow().topic(name).cloned()?;
        let refreshed = self.cluster.refreshed.borrow().get(name).copied()?;
        let stale_at = refreshed.plus_ms(self.options().metadata_max_age_ms);
        (self.net().now() < stale_at).then_some(topic)
    }

    /// Who leads a partition, as far as known.
    #[must_use]
    pub fn leader(&self, topic: &str, partition: i32) -> Option<Leader> {
        let metadata = self.metadata().borrow();
        let known = metadata.topic(topic)?.partition(partition)?;
        Some(Leader {
            node_id: known.leader?,
            leader_epoch: known.leader_epoch,
        })
    }

    /// Asks for the metadata of `topics` until every one of them is well, with back-off.
    ///
    /// # Errors
    /// A topic is refused for good, or not well within `operation_timeout_ms`; nobody answers.
    pub async fn refresh(&self, topics: &[Str], may_create: bool) -> Result<(), ClientError> {
        let timeout_ms = self.options().operation_timeout_ms;
        let deadline = self.net().now().plus_ms(timeout_ms);
        let mut backoff = self.retry_backoff();
        loop {
            let failure = match self.refresh_once(topics, may_create).await {
                Ok(broken) => match broken.into_iter().next() {
                    None => return Ok(()),
                    Some((topic, error)) => ClientError::Refused {
                        operation: "metadata of topic",
                        object: topic,
                        error,
                        message: None,
                    },
                },
                Err(error) => error,
            };
            // Brokers learn of a new topic within moments; one that is missing for longer is not being created.
            let is_missing = failure.error_code() == Some(ErrorCode::UnknownTopicOrPartition);
            let tries_max = if may_create {
                CREATING_TRIES_MAX
            } else {
                MISSING_TRIES_MAX
            };
            let gives_up = is_missing && tries_max <= backoff.failures();
            backoff.failed(self.net().now(), self.random());
            let is_late = deadline <= backoff.not_before();
            if !failure.is_retriable() || gives_up || is_late {
                return Err(failure);
            }
            self.net().sleep_until(backoff.not_before()).await;
        }
    }

    /// Asks once for the metadata of `topics`; gives those that are not well.
    pub(crate) async fn refresh_once(
        &self,
        topics: &[Str],
        may_create: bool,
    ) -> Result<Vec<(Str, ErrorCode)>, ClientError> {
        let request = MetadataRequest {
            topics: Some(topics.iter().map(asked).collect()),
            allow_auto_topic_creation: may_create,
            ..MetadataRequest::default()
        };
        let response = self.call::<_, MetadataResponse>(&request).await?;
        let code = response.error_code;
        ClientError::refused("metadata of", "the cluster", code, None)?;
        self.learn(&response, topics)
    }

    /// Takes a Metadata response in.
    pub(crate) fn learn(
        &self,
        response: &MetadataResponse,
        topics: &[Str],
    ) -> Result<Vec<(Str, ErrorCode)>, ClientError> {
        let broken = self.metadata().borrow_mut().apply(response);
        let now = self.net().now();
        let mut refreshed = self.cluster.refreshed.borrow_mut();
        if refreshed.len() + topics.len() > limits::TOPICS_CACHED_MAX {
            refreshed.clear();
        }
        for topic in topics {
            refreshed.insert(topic.clone(), now);
        }
        Ok(broken)
    }

    /// The topics of which the node leads a partition.
    pub(crate) fn topics_led_by(&self, node_id: i32) -> Vec<Str> {
        self.metadata().borrow().topics_led_by(node_id)
    }

    pub(crate) fn metadata(&self) -> &RefCell<ClusterMetadata> {
        &self.cluster.metadata
    }

    pub(crate) fn retry_backoff(&self) -> Backoff {
        let options = self.options();
        Backoff::new(options.retry_backoff_ms, options.retry_backoff_ms_max)
    }

    pub(crate) fn random(&self) -> u64 {
        let mut bytes = [0; 8];
        self.net().random(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Who may be asked, in the order of preference: known nodes (at random), then the bootstrap addresses.
    fn targets(&self) -> Vec<Target> {
        let metadata = self.metadata().borrow();
        let mut targets: Vec<_> = metadata
            .brokers()
            .map(|broker| Target::Node(broker.node_id))
            .collect();
        if let Ok(count) = u64::try_from(targets.len())
            && let Some(turn) = self.random().checked_rem(count)
        {
            targets.rotate_left(usize::try_from(turn).unwrap_or(0));
        }
        targets.extend((0..self.cluster.bootstrap.len()).map(Target::Bootstrap));
        targets
    }

    fn address_of(&self, target: Target) -> Result<Address, ClientError> {
        match target {
            Target::Bootstrap(index) => Ok(self.cluster.bootstrap[index].clone()),
            Target::Node(node_id) => {
                let metadata = self.metadata().borrow();
                let known = metadata.broker(node_id);
                let reroute = |address| self.options().reroute.get(address).unwrap_or(address);
                known
                    .map(|broker| reroute(&broker.address).clone())
                    .ok_or_else(|| ClientError::Refused {
                        operation: "connecting to node",
                        object: node_id.to_string().into(),
                        error: ErrorCode::BrokerNotAvailable,
                        message: None,
                    })
            }
        }
    }

    async fn connection_of(&self, target: Target) -> Result<Connection<N>, ClientError> {
        let address = self.address_of(target)?;
        let mut seen = None;
        let claim = || self.claim(target, &address, &mut seen);
        match self.links.changed.until(claim).await {
            Claim::Open(connection) => Ok(connection),
            Claim::Failed(error) => Err(error),
            Claim::Connect { not_before } => {
                let attempt = Attempt {
                    client: self,
                    target,
                };
                self.net().sleep_until(not_before).await;
                let outcome = Connection::open(self.net(), &address, self.options()).await;
                attempt.end(outcome)
            }
        }
    }

    /// Looks for an open connection, for the failure of an attempt begun by another, or for the right to begin one.
    fn claim(&self, target: Target, address: &Address, seen: &mut Option<u64>) -> Option<Claim<N>> {
        let options = self.options();
        let mut nodes = self.links.nodes.borrow_mut();
        let node = nodes.entry(target).or_insert_with(|| Node {
            connection: None,
            is_connecting: false,
            attempts: 0,
            failure: None,
            backoff: Backoff::new(
                options.reconnect_backoff_ms,
                options.reconnect_backoff_ms_max,
            ),
        });
        if let Some(connection) = &node.connection
            && connection.is_open()
            && connection.address() == address
        {
            return Some(Claim::Open(connection.clone()));
        }
        if node.is_connecting {
            seen.get_or_insert(node.attempts);
            return None;
        }
        if seen.is_some_and(|seen| seen < node.attempts)
            && let Some(failure) = &node.failure
        {
            return Some(Claim::Failed(failure.clone()));
        }
        node.is_connecting = true;
        node.connection = None;
        Some(Claim::Connect {
            not_before: node.backoff.not_before(),
        })
    }
}

/// How often a missing topic is asked for that is not to be created.
const MISSING_TRIES_MAX: u32 = 2;
/// How often a missing topic is asked for that brokers may create: for some 7 s by default.
const CREATING_TRIES_MAX: u32 = 10;

enum Claim<N: Net> {
    Open(Connection<N>),
    Failed(ClientError),
    Connect { not_before: Monotonic },
}

/// The right to connect to a node; given back when dropped.
struct Attempt<'a, N: Net> {
    client: &'a Client<N>,
    target: Target,
}

impl<N: Net> Attempt<'_, N> {
    fn end(
        self,
        outcome: Result<Connection<N>, ClientError>,
    ) -> Result<Connection<N>, ClientError> {
        let now = self.client.net().now();
        let random = self.client.random();
        let mut nodes = self.client.links.nodes.borrow_mut();
        if let Some(node) = nodes.get_mut(&self.target) {
            node.attempts += 1;
            match &outcome {
                Ok(connection) => {
                    node.connection = Some(connection.clone());
                    node.failure = None;
                    node.backoff.succeeded();
                }
                Err(error) => {
                    node.failure = Some(error.clone());
                    node.backoff.failed(now, random);
                }
            }
        }
        drop(nodes);
        outcome
    }
}

impl<N: Net> Drop for Attempt<'_, N> {
    fn drop(&mut self) {
        let links = &self.client.links;
        if let Some(node) = links.nodes.borrow_mut().get_mut(&self.target) {
            node.is_connecting = false;
        }
        links.changed.wake_all();
    }
}

impl<N: Net> Links<N> {
    fn new() -> Self {
        Self {
            nodes: RefCell::new(BTreeMap::new()),
            changed: Waiters::default(),
        }
    }

    fn any_open(&self) -> Option<Connection<N>> {
        let nodes = self.nodes.borrow();
        let mut connections = nodes.values().filter_map(|node| node.connection.as_ref());
        connections.find(|connection| connection.is_open()).cloned()
    }
}

fn asked(topic: &Str) -> MetadataRequestTopic {
    MetadataRequestTopic {
        name: Some(topic.clone()),
        ..MetadataRequestTopic::default()
    }
}
