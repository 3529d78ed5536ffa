//! Why a broker does not start, or does not stop in order: each is one clear line that says what, where and what to do.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use pelton_machine::controller::StartError;
use pelton_machine::image::ReplayError;
use pelton_model::Offset;
use pelton_model::batch::BatchError;
use pelton_protocol::metadata_record::LogError;
use pelton_storage::disk::DiskError;
use pelton_storage::{DirError, ReadError, StorageError};

/// See the module.
#[derive(Debug)]
pub enum BootError {
    /// The log directory cannot be used.
    Directory(DirError),
    /// A listener's host has no address.
    Resolve {
        /// The listener as configured.
        listener: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// An address cannot be listened on.
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another shard cannot listen.
    ListenElsewhere {
        /// What it said.
        problem: String,
    },
    /// The metadata log cannot be opened.
    MetadataLog(StorageError),
    /// The metadata log cannot be read.
    MetadataRead(ReadError),
    /// The quorum's state cannot be read or written.
    QuorumState(DiskError),
    /// Bytes of the metadata log cannot be read.
    MetadataBytes(io::Error),
    /// The metadata log begins behind a snapshot, which this version cannot read.
    MetadataSnapshotNeeded {
        /// Its first offset.
        log_start: Offset,
    },
    /// A batch of the metadata log is damaged.
    MetadataBatch(BatchError),
    /// A record of the metadata log cannot be understood.
    MetadataRecord(LogError),
    /// A record of the metadata log contradicts those before it.
    MetadataReplay(ReplayError),
    /// The metadata log is not one that this node may take over.
    MetadataStart(StartError),
    /// The metadata log cannot be written.
    MetadataWrite(StorageError),
    /// Some logs could not be closed in order; the next start recovers them.
    Unclean,
    /// The broker was stopped before it served.
    Stopped,
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(error) => error.fmt(f),
            Self::Resolve { listener, source } => {
                write!(
                    f,
                    "cannot resolve listener {listener}: {source}; name an address of this machine"
                )
            }
            Self::Listen { address, source } if source.kind() == io::ErrorKind::AddrInUse => {
                write!(
                    f,
                    "cannot listen on {address}: the port is in use; stop its owner or choose another with --listen"
                )
            }
            Self::Listen { address, source } => write!(f, "cannot listen on {address}: {source}"),
            Self::ListenElsewhere { problem } => f.write_str(problem),
            Self::MetadataLog(error) => write!(f, "cannot open the metadata log: {error}"),
            Self::MetadataRead(error) => write!(f, "cannot read the metadata log: {error}"),
            Self::QuorumState(error) => error.fmt(f),
            Self::MetadataBytes(error) => write!(f, "cannot read the metadata log: {error}"),
            Self::MetadataSnapshotNeeded { log_start } => write!(
                f,
                "the metadata log begins at offset {log_start}, behind a snapshot, which this version cannot read"
            ),
            Self::MetadataBatch(error) => write!(f, "the metadata log is damaged: {error}"),
            Self::MetadataRecord(error) => write!(
                f,
                "the metadata log holds a record that cannot be understood: {error}"
            ),
            Self::MetadataReplay(error) => {
                write!(f, "the metadata log contradicts itself: {error}")
            }
            Self::MetadataStart(error) => error.fmt(f),
            Self::MetadataWrite(error) => write!(f, "cannot write the metadata log: {error}"),
            Self::Unclean => {
                f.write_str("some logs could not be closed in order; the next start recovers them")
            }
            Self::Stopped => f.write_str("stopped before serving"),
        }
    }
}

impl std::error::Error for BootError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Directory(error) => Some(error),
            Self::Resolve { source, .. } | Self::Listen { source, .. } => Some(source),
            Self::MetadataLog(error) | Self::MetadataWrite(error) => Some(error),
            Self::MetadataRead(error) => Some(error),
            Self::MetadataBytes(error) => Some(error),
            Self::QuorumState(error) => Some(error),
            Self::MetadataBatch(error) => Some(error),
            Self::MetadataRecord(error) => Some(error),
            Self::MetadataReplay(error) => Some(error),
            Self::MetadataStart(error) => Some(error),
            Self::ListenElsewhere { .. }
            | Self::MetadataSnapshotNeeded { .. }
            | Self::Unclean
            | Self::Stopped => None,
        }
    }
}
