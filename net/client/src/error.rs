//! What can go wrong: the operation, its object, and the cause.
//!
//! Errors can be cloned, since one lost connection fails many requests and one refused batch many records.

use std::fmt;
use std::io;

use pelton_model::batch::BatchError;
use pelton_model::{ErrorCode, Offset};
use pelton_protocol::codec::{DecodeError, Str, Versions};

use crate::address::Address;
use crate::retry;

/// An operating system's error, reduced to what can be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoFailure {
    kind: io::ErrorKind,
    os_code: Option<i32>,
}

impl IoFailure {
    /// What kind of error it is.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.kind
    }
}

impl From<&io::Error> for IoFailure {
    fn from(error: &io::Error) -> Self {
        Self {
            kind: error.kind(),
            os_code: error.raw_os_error(),
        }
    }
}

impl From<io::ErrorKind> for IoFailure {
    fn from(kind: io::ErrorKind) -> Self {
        Self {
            kind,
            os_code: None,
        }
    }
}

impl fmt::Display for IoFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.os_code {
            Some(code) => io::Error::from_raw_os_error(code).fmt(f),
            None => self.kind.fmt(f),
        }
    }
}

impl std::error::Error for IoFailure {}

/// Why an operation of the client failed.
#[derive(Clone, Debug)]
pub enum ClientError {
    /// The host name has no address.
    Resolve {
        /// The name.
        address: Address,
        /// What the system said.
        source: IoFailure,
    },
    /// No connection could be made.
    Connect {
        /// To where.
        address: Address,
        /// What the system said.
        source: IoFailure,
    },
    /// The connection ended before the answer came; whether the request was carried out is unknown.
    Disconnected {
        /// From where.
        address: Address,
        /// What the system said; none when the peer just closed.
        source: Option<IoFailure>,
    },
    /// The operation took too long; whether it was carried out is unknown.
    TimedOut {
        /// What was being done.
        operation: &'static str,
        /// To what.
        object: Str,
        /// For how long it was waited, in milliseconds.
        after_ms: u64,
    },
    /// The answer does not decode.
    Malformed {
        /// From where.
        address: Address,
        /// The API asked.
        api: &'static str,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// The peer does not speak Kafka's protocol.
    Protocol {
        /// Which peer.
        address: Address,
        /// What it did.
        what: &'static str,
    },
    /// No version of the API is common to both sides.
    UnsupportedVersion {
        /// Which broker.
        address: Address,
        /// The API.
        api: &'static str,
        /// The versions spoken here.
        ours: Versions,
        /// The versions spoken there; none when it does not know the API.
        theirs: Option<Versions>,
    },
    /// Too many requests of the connection are unanswered.
    Busy {
        /// Which connection.
        address: Address,
    },
    /// The broker answered with an error.
    Refused {
        /// What was asked for.
        operation: &'static str,
        /// Of what.
        object: Str,
        /// The broker's error.
        error: ErrorCode,
        /// The broker's words.
        message: Option<Str>,
    },
    /// None of the bootstrap addresses led to a broker.
    NoBroker {
        /// Why not, at the last one; none when no address was given.
        last: Option<Box<ClientError>>,
    },
    /// The partitioner named no partition, or one that does not exist.
    NoPartition {
        /// The topic.
        topic: Str,
        /// What it named.
        partition: Option<i32>,
        /// How many partitions there are.
        count: usize,
    },
    /// The record is larger than a request may be.
    RecordTooLarge {
        /// The topic.
        topic: Str,
        /// The record's size.
        size_bytes: usize,
        /// The bound.
        size_bytes_max: usize,
    },
    /// Fetched bytes are not a batch that can be read.
    Batch {
        /// The topic.
        topic: Str,
        /// The partition.
        partition: i32,
        /// The offset asked for.
        offset: Offset,
        /// What is wrong.
        source: BatchError,
    },
    /// The position lies outside the log, and the consumer is to fail then.
    OutOfRange {
        /// The topic.
        topic: Str,
        /// The partition.
        partition: i32,
        /// The offset asked for.
        offset: Offset,
    },
    /// The producer's transaction is not where the call needs it to be.
    Transaction {
        /// The transactional id.
        id: Str,
        /// What is wrong, and what is to be done.
        what: &'static str,
    },
    /// The producer, consumer or client was closed.
    Closed {
        /// Which of them.
        what: &'static str,
    },
}

impl ClientError {
    /// The broker's error, when it answered with one.
    #[must_use]
    pub fn error_code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { error, .. } => Some(*error),
            Self::OutOfRange { .. } => Some(ErrorCode::OffsetOutOfRange),
            Self::Resolve { .. }
            | Self::Connect { .. }
            | Self::Disconnected { .. }
            | Self::TimedOut { .. }
            | Self::Malformed { .. }
            | Self::Protocol { .. }
            | Self::UnsupportedVersion { .. }
            | Self::Busy { .. }
            | Self::NoBroker { .. }
            | Self::NoPartition { .. }
            | Self::RecordTooLarge { .. }
            | Self::Batch { .. }
            | Self::Transaction { .. }
            | Self::Closed { .. } => None,
        }
    }

    /// Whether the same may succeed later.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Resolve { .. }
            | Self::Connect { .. }
            | Self::Disconnected { .. }
            | Self::TimedOut { .. }
            | Self::Busy { .. }
            | Self::NoBroker { .. } => true,
            Self::Refused { error, .. } => retry::is_retriable(*error),
            Self::Malformed { .. }
            | Self::Protocol { .. }
            | Self::UnsupportedVersion { .. }
            | Self::NoPartition { .. }
            | Self::RecordTooLarge { .. }
            | Self::Batch { .. }
            | Self::OutOfRange { .. }
            | Self::Transaction { .. }
            | Self::Closed { .. } => false,
        }
    }

    /// The error of a response field; none when it says all is well. Codes nobody knows are `UnknownServerError`.
    pub(crate) fn refused(
        operation: &'static str,
        object: impl Into<Str>,
        code: i16,
        message: Option<Str>,
    ) -> Result<(), Self> {
        let error = ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError);
        if !error.is_error() {
            return Ok(());
        }
        Err(Self::Refused {
            operation,
            object: object.into(),
            error,
            message,
        })
    }

    /// The text of errors about connections; `Ok(false)` for the others.
    fn fmt_connection(&self, f: &mut fmt::Formatter<'_>) -> Result<bool, fmt::Error> {
        match self {
            Self::Resolve { address, .. } => write!(f, "host {} has no address", address.host)?,
            Self::Connect { address, .. } => write!(f, "cannot connect to {address}")?,
            Self::Disconnected { address, .. } => write!(f, "connection to {address} ended")?,
            Self::Malformed { address, api, .. } => {
                write!(f, "{api} response of {address} does not decode")?;
            }
            Self::Protocol { address, what } => write!(f, "{address} {what}")?,
            Self::UnsupportedVersion {
                address,
                api,
                ours,
                theirs,
            } => {
                let (min, max) = (ours.min, ours.max);
                write!(f, "{address} and this client share no version of {api}: ")?;
                match theirs {
                    Some(theirs) => {
                        write!(
                            f,
                            "{min}..={max} here, {}..={} there",
                            theirs.min, theirs.max
                        )?;
                    }
                    None => write!(f, "{min}..={max} here, none there")?,
                }
            }
            Self::Busy { address } => write!(f, "too many requests to {address} are unanswered")?,
            Self::TimedOut { .. }
            | Self::Refused { .. }
            | Self::NoBroker { .. }
            | Self::NoPartition { .. }
            | Self::RecordTooLarge { .. }
            | Self::Batch { .. }
            | Self::OutOfRange { .. }
            | Self::Transaction { .. }
            | Self::Closed { .. } => return Ok(false),
        }
        Ok(true)
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fmt_connection(f)? {
            return Ok(());
        }
        match self {
            Self::Resolve { .. }
            | Self::Connect { .. }
            | Self::Disconnected { .. }
            | Self::Malformed { .. }
            | Self::Protocol { .. }
            | Self::UnsupportedVersion { .. }
            | Self::Busy { .. } => Ok(()),
            Self::TimedOut {
                operation,
                object,
                after_ms,
            } => write!(f, "{operation} {object} timed out after {after_ms} ms"),
            Self::Refused {
                operation,
                object,
                error,
                message,
            } => {
                write!(f, "{operation} {object}: {error}: ")?;
                f.write_str(message.as_deref().unwrap_or_else(|| error.message()))
            }
            Self::NoBroker { last: None } => f.write_str("no bootstrap address was given"),
            Self::NoBroker { last: Some(last) } => write!(f, "no broker can be reached: {last}"),
            Self::NoPartition {
                topic,
                partition: Some(partition),
                count,
            } => write!(
                f,
                "topic {topic} has no partition {partition}: it has {count}"
            ),
            Self::NoPartition {
                topic,
                partition: None,
                ..
            } => write!(f, "no partition of topic {topic} was chosen for the record"),
            Self::RecordTooLarge {
                topic,
                size_bytes,
                size_bytes_max,
            } => write!(
                f,
                "a record of {size_bytes} bytes for topic {topic} exceeds {size_bytes_max}"
            ),
            Self::Batch {
                topic,
                partition,
                offset,
                ..
            } => write!(
                f,
                "records of {topic}-{partition} at offset {offset} are damaged"
            ),
            Self::OutOfRange {
                topic,
                partition,
                offset,
            } => write!(
                f,
                "offset {offset} lies outside the log of {topic}-{partition}"
            ),
            Self::Transaction { id, what } => write!(f, "transaction of {id}: {what}"),
            Self::Closed { what } => write!(f, "the {what} is closed"),
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Resolve { source, .. } | Self::Connect { source, .. } => Some(source),
            Self::Disconnected { source, .. } => source.as_ref().map(|source| source as _),
            Self::Malformed { source, .. } => Some(source),
            Self::Batch { source, .. } => Some(source),
            // Its text holds the last error's, so that one's source comes next.
            Self::NoBroker { last } => last.as_ref().and_then(|last| last.source()),
            Self::TimedOut { .. }
            | Self::Protocol { .. }
            | Self::UnsupportedVersion { .. }
            | Self::Busy { .. }
            | Self::Refused { .. }
            | Self::NoPartition { .. }
            | Self::RecordTooLarge { .. }
            | Self::OutOfRange { .. }
            | Self::Transaction { .. }
            | Self::Closed { .. } => None,
        }
    }
}
