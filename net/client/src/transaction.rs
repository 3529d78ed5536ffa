//! Transactional ids as an administrator sees them: listed, described, aborted.
//!
//! Questions are asked again until `operation_timeout_ms` is over, as those about groups.

use pelton_protocol::codec::Str;
use pelton_protocol::message::describe_transactions::{
    DescribeTransactionsRequest, DescribeTransactionsResponse,
};
use pelton_protocol::message::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use pelton_protocol::message::list_transactions::{
    ListTransactionsRequest, ListTransactionsResponse,
};
use pelton_transport::net::Net;

use crate::admin::Admin;
use crate::coordinator::CoordinatorKind;
use crate::error::ClientError;

/// A transactional id in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionListing {
    /// The transactional id.
    pub transactional_id: Str,
    /// Its producer's id.
    pub producer_id: i64,
    /// Its state, as Kafka spells it.
    pub state: Str,
}

/// Where a transactional id stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionDescription {
    /// The transactional id.
    pub transactional_id: Str,
    /// Its state, as Kafka spells it.
    pub state: Str,
    /// How long its transactions may stay open, in milliseconds.
    pub timeout_ms: i32,
    /// When its transaction began (milliseconds since the Unix epoch); none when it has had none.
    pub started_ms: Option<i64>,
    /// Its producer's id.
    pub producer_id: i64,
    /// Its producer's epoch.
    pub producer_epoch: i16,
    /// The partitions of its transaction, by topic; while it ends, those without a marker.
    pub partitions: Vec<(Str, Vec<i32>)>,
}

impl<N: Net> Admin<N> {
    /// Every transactional id of every broker, sorted by name; only those in one of `states`, if there are any.
    ///
    /// # Errors
    /// A broker cannot be reached, or its coordinators are not ready within `operation_timeout_ms`.
    pub async fn list_transactions(
        &self,
        states: &[Str],
    ) -> Result<Vec<TransactionListing>, ClientError> {
        let mut listed = Vec::new();
        for broker in self.client().brokers() {
            let response: ListTransactionsResponse = self
                .client()
                .persist(async || {
                    let connection = self.client().connection_to(broker.node_id).await?;
                    let version = connection.version::<ListTransactionsRequest>()?;
                    let request = ListTransactionsRequest {
                        state_filters: states.to_vec(),
                        ..ListTransactionsRequest::default()
                    };
                    let response: ListTransactionsResponse =
                        connection.call(version, &request).await?;
                    let object = format!("node {}", broker.node_id);
                    let code = response.error_code;
                    ClientError::refused("listing transactions of", object, code, None)?;
                    Ok(response)
                })
                .await?;
            let states = response.transaction_states.into_iter();
            listed.extend(states.map(|state| TransactionListing {
                transactional_id: state.transactional_id,
                producer_id: state.producer_id,
                state: state.transaction_state,
            }));
        }
        listed.sort_by(|left, right| left.transactional_id.cmp(&right.transactional_id));
        Ok(listed)
    }

    /// Where a transactional id stands.
    ///
    /// # Errors
    /// It does not exist, or its coordinator cannot be reached.
    pub async fn describe_transaction(
        &self,
        transactional_id: &Str,
    ) -> Result<TransactionDescription, ClientError> {
        let request = DescribeTransactionsRequest {
            transactional_ids: vec![transactional_id.clone()],
        };
        let check = |response: &DescribeTransactionsResponse| {
            let mut states = response.transaction_states.iter();
            let object = || transactional_id.clone();
            states.try_for_each(|state| {
                ClientError::refused("describing transaction", object(), state.error_code, None)
            })
        };
        let kind = CoordinatorKind::Transaction;
        let response = self
            .ask_coordinator(kind, transactional_id, &request, i16::MAX, check)
            .await?;
        let state = response.transaction_states.into_iter().next();
        let state = state.unwrap_or_default();
        let topics = state.topics.into_iter();
        Ok(TransactionDescription {
            transactional_id: transactional_id.clone(),
            state: state.transaction_state,
            timeout_ms: state.transaction_timeout_ms,
            started_ms: Some(state.transaction_start_time_ms).filter(|time| *time >= 0),
            producer_id: state.producer_id,
            producer_epoch: state.producer_epoch,
            partitions: topics
                .map(|topic| (topic.topic, topic.partitions))
                .collect(),
        })
    }

    /// Aborts the open transaction of a transactional id, if there is one, and fences its producer; waits until it is aborted.
    ///
    /// # Errors
    /// As [`Admin::describe_transaction`].
    pub async fn abort_transaction(&self, transactional_id: &Str) -> Result<(), ClientError> {
        // Taking over an id that nobody has would make one.
        let described = self.describe_transaction(transactional_id).await?;
        let request = InitProducerIdRequest {
            transactional_id: Some(transactional_id.clone()),
            transaction_timeout_ms: described.timeout_ms,
            ..InitProducerIdRequest::default()
        };
        let check = |response: &InitProducerIdResponse| {
            let object = transactional_id.clone();
            ClientError::refused("aborting transaction", object, response.error_code, None)
        };
        let kind = CoordinatorKind::Transaction;
        self.ask_coordinator(kind, transactional_id, &request, i16::MAX, check)
            .await?;
        Ok(())
    }
}
