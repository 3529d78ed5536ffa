//! A client of a broker for one command: connected, on an executor of this thread.

use std::convert::Infallible;
use std::future::Future;

use pelton_client::{Address, Client, ClientError, ClientOptions, Connection, Str};
use pelton_model::ErrorCode;
use pelton_transport::boot::{BootError, block_on};
use pelton_transport::ring::RingNet;

use crate::args::Connect;
use crate::doctor;
use crate::error::{CliError, chain};

/// Connects and runs `work` with the client.
pub(crate) fn run<T, F, R>(connect: &Connect, work: F) -> Result<T, CliError>
where
    F: FnOnce(Client<RingNet>) -> R,
    R: Future<Output = Result<T, CliError>>,
{
    let options = options(connect);
    let bootstrap = Address::new(connect.bootstrap.host.clone(), connect.bootstrap.port);
    let outcome = block_on(move |net| async move {
        // The client would ask again and again; a person wants to hear at once that nobody listens.
        let first = Connection::open(&net, &bootstrap, &options).await;
        first.map_err(|error| unreachable(&error))?;
        let client = Client::connect(&net, &[bootstrap], options).await;
        work(client.map_err(|error| unreachable(&error))?).await
    });
    outcome.unwrap_or_else(|error| Err(not_started(&error)))
}

fn options(connect: &Connect) -> ClientOptions {
    let timeout_ms = u64::from(connect.timeout).max(1) * 1000;
    ClientOptions {
        client_id: Str::from("pelton"),
        request_timeout_ms: timeout_ms,
        connect_timeout_ms: timeout_ms.min(10_000),
        operation_timeout_ms: timeout_ms,
        ..ClientOptions::default()
    }
}

fn unreachable(error: &ClientError) -> CliError {
    CliError::with_remedy(
        chain(error),
        "start a broker there, or name another with --bootstrap",
    )
}

/// Why no executor could be had.
pub(crate) fn not_started(error: &BootError<Infallible>) -> CliError {
    if let BootError::IoUring(refused) = error {
        return CliError::with_remedy(refused.to_string(), doctor::io_uring_remedy(refused));
    }
    CliError::caused(error)
}

/// A failed request as a line, with advice where there is some.
pub(crate) fn failure(error: &ClientError) -> CliError {
    match error.error_code().and_then(remedy) {
        Some(remedy) => CliError::with_remedy(chain(error), remedy),
        None => CliError::caused(error),
    }
}

/// What a user can do about a broker's refusals.
const REMEDIES: &[(ErrorCode, &str)] = &[
    (
        ErrorCode::UnknownTopicOrPartition,
        "pelton topic list shows what there is",
    ),
    (
        ErrorCode::TopicAlreadyExists,
        "choose another name, or pass --if-not-exists",
    ),
    (
        ErrorCode::InvalidReplicationFactor,
        "pass a smaller --replication-factor",
    ),
    (
        ErrorCode::InvalidTopicException,
        "use at most 249 of the characters a-z A-Z 0-9 . _ -",
    ),
    (
        ErrorCode::MessageTooLarge,
        "send smaller records, or raise max.message.bytes of the topic",
    ),
    (
        ErrorCode::TopicDeletionDisabled,
        "set delete.topic.enable=true on the broker",
    ),
];

fn remedy(code: ErrorCode) -> Option<&'static str> {
    REMEDIES
        .iter()
        .find(|(known, _)| *known == code)
        .map(|(_, remedy)| *remedy)
}
