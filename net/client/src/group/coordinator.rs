//! The way to a group's coordinator.
//!
//! 1. The coordinator is remembered until somebody says that it is none.
//! 2. Requests go over connections of their own: one that waits for other members holds up no fetch.

use std::cell::Cell;

use pelton_protocol::codec::{Message, Str};
use pelton_protocol::message::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use pelton_transport::net::Net;

use crate::address::Address;
use crate::client::Client;
use crate::connection::Connection;
use crate::error::ClientError;

/// The last version of FindCoordinator that asks for one key.
const SINGLE_KEY_VERSION_MAX: i16 = 3;

/// See the module.
pub(crate) struct Coordinator<N: Net> {
    client: Client<N>,
    group_id: Str,
    node_id: Cell<Option<i32>>,
}

impl<N: Net> Coordinator<N> {
    pub(crate) fn new(client: &Client<N>, group_id: Str) -> Self {
        Self {
            client: client.fork(),
            group_id,
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
            key: self.group_id.clone(),
            ..FindCoordinatorRequest::default()
        };
        let found: FindCoordinatorResponse = connection.call(version, &request).await?;
        let (code, message) = (found.error_code, found.error_message);
        ClientError::refused(
            "finding the coordinator of",
            self.group_id.clone(),
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
