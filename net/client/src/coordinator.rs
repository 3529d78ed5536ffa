//! The way to the coordinator of a group or of a transactional id.
//!
//! 1. The coordinator is remembered until somebody says that it is none.
//! 2. Requests go over connections of their own: one that waits for other members holds up no fetch.

use std::cell::Cell;

use pelton_model::ErrorCode;
use pelton_protocol::codec::{Message, Str};
use pelton_protocol::message::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use pelton_transport::net::Net;

use crate::address::Address;
use crate::admin::Admin;
use crate::client::Client;
use crate::connection::Connection;
use crate::error::ClientError;

/// The last version of FindCoordinator that asks for one key.
const SINGLE_KEY_VERSION_MAX: i16 = 3;

/// What is coordinated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CoordinatorKind {
    /// A group.
    Group,
    /// A transactional id.
    Transaction,
}

impl CoordinatorKind {
    fn wire(self) -> i8 {
        match self {
            Self::Group => 0,
            Self::Transaction => 1,
        }
    }
}

/// See the module.
pub(crate) struct Coordinator<N: Net> {
    client: Client<N>,
    kind: CoordinatorKind,
    key: Str,
    node_id: Cell<Option<i32>>,
}

impl<N: Net> Coordinator<N> {
    pub(crate) fn new(client: &Client<N>, kind: CoordinatorKind, key: Str) -> Self {
        Self {
            client: client.fork(),
            kind,
            key,
            node_id: Cell::new(None),
        }
    }

    pub(crate) fn client(&self) -> &Client<N> {
        &self.client
    }

    /// Looks it up again before the next request.
    pub(crate) fn forget(&self) {
        self.node_id.set(None);
    }

    /// Where the last request went, for errors.
    pub(crate) fn address(&self) -> Address {
        let node_id = self.node_id.get().unwrap_or(-1);
        let brokers = self.client.brokers();
        let found = brokers.into_iter().find(|broker| broker.node_id == node_id);
        found.map_or_else(|| Address::new("", 0), |broker| broker.address)
    }

    /// Asks, in the highest version that both sides speak and that is not above `version_max`.
    pub(crate) async fn ask<Q: Message, S: Message>(
        &self,
        request: &Q,
        version_max: i16,
    ) -> Result<S, ClientError> {
        let connection = self.connection().await?;
        let version = connection.version_up_to::<Q>(version_max)?;
        connection.call(version, request).await
    }

    /// Asks what may take long.
    pub(crate) async fn ask_within<Q: Message, S: Message>(
        &self,
        request: &Q,
        timeout_ms: u64,
    ) -> Result<S, ClientError> {
        let connection = self.connection().await?;
        let version = connection.version::<Q>()?;
        connection.start(version, request, timeout_ms)?.await
    }

    async fn connection(&self) -> Result<Connection<N>, ClientError> {
        let node_id = match self.node_id.get() {
            Some(node_id) => node_id,
            None => self.find().await?,
        };
        self.client.connection_to(node_id).await
    }

    async fn find(&self) -> Result<i32, ClientError> {
        let connection = self.client.connection().await?;
        let version = connection.version_up_to::<FindCoordinatorRequest>(SINGLE_KEY_VERSION_MAX)?;
        let request = FindCoordinatorRequest {
            key: self.key.clone(),
            key_type: self.kind.wire(),
            ..FindCoordinatorRequest::default()
        };
        let found: FindCoordinatorResponse = connection.call(version, &request).await?;
        let (code, message) = (found.error_code, found.error_message);
        ClientError::refused(
            "finding the coordinator of",
            self.key.clone(),
            code,
            message,
        )?;
        let address = Address::new(found.host, crate::metadata::port(found.port));
        let mut metadata = self.client.metadata().borrow_mut();
        metadata.learn_broker(found.node_id, address, None);
        self.node_id.set(Some(found.node_id));
        Ok(found.node_id)
    }
}

impl<N: Net> Coordinator<N> {
    /// Asks until it answers, as [`Client::persist`] does; `check` says whether it refused.
    pub(crate) async fn insist<Q: Message, S: Message>(
        &self,
        request: &Q,
        version_max: i16,
        check: impl Fn(&S) -> Result<(), ClientError>,
    ) -> Result<S, ClientError> {
        self.client
            .persist(async || {
                let asked = self.ask(request, version_max).await;
                let checked = asked.and_then(|response| check(&response).map(|()| response));
                checked.inspect_err(|_| self.forget())
            })
            .await
    }
}

impl<N: Net> Admin<N> {
    /// Asks the coordinator of a group or a transactional id, as [`Coordinator::insist`].
    pub(crate) async fn ask_coordinator<Q: Message, S: Message>(
        &self,
        kind: CoordinatorKind,
        key: &Str,
        request: &Q,
        version_max: i16,
        check: impl Fn(&S) -> Result<(), ClientError>,
    ) -> Result<S, ClientError> {
        let coordinator = Coordinator::new(self.client(), kind, key.clone());
        coordinator.insist(request, version_max, check).await
    }
}

impl<N: Net> Client<N> {
    /// Tries until it works, is refused for good, or `operation_timeout_ms` is over.
    pub(crate) async fn persist<T>(
        &self,
        attempt: impl AsyncFn() -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let net = self.net();
        let deadline = net.now().plus_ms(self.options().operation_timeout_ms);
        let mut backoff = self.retry_backoff();
        loop {
            let failure = match attempt().await {
                Ok(done) => return Ok(done),
                Err(failure) => failure,
            };
            // A missing topic or group does not come by waiting.
            let is_missing = failure.error_code() == Some(ErrorCode::UnknownTopicOrPartition);
            backoff.failed(net.now(), self.random());
            if is_missing || !failure.is_retriable() || deadline <= backoff.not_before() {
                return Err(failure);
            }
            net.sleep_until(backoff.not_before()).await;
        }
    }
}
