//! Why a broker does not start, or does not stop in order: each is one clear line that says what, where and what to do.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use pelton_machine::controller::StartError;
use pelton_machine::image::ReplayError;
use pelton_model::Offset;
use pelton_model::batch::BatchError;
use pelton_protocol::metadata_record::LogError;
use pelton_protocol::metadata_snapshot::SnapshotError;
use pelton_storage::disk::DiskError;
use pelton_storage::{DirError, ReadError, StorageError};

/// See the module.
#[derive(Debug)]
pub enum BootError {
    /// The log directory cannot be used.
    Directory(DirError),
    /// None of `log.dirs` can be used.
    NoLogDirectory,
    /// The metadata log lies in a directory that is not the metadata directory.
    MetadataElsewhere {
        /// Where it lies.
        path: PathBuf,
        /// The directory that holds it.
        configured: PathBuf,
    },
    /// Two log directories hold the same partition.
    PartitionTwice {
        /// One directory of the partition.
        path: PathBuf,
        /// The other.
        other: PathBuf,
    },
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
    /// The metadata log does not begin at 0, and no whole snapshot holds what came before.
    MetadataSnapshotNeeded {
        /// Its first offset.
        log_start: Offset,
    },
    /// A snapshot contains more than the metadata log holds: its end is gone.
    MetadataLogLost {
        /// The snapshot.
        path: PathBuf,
        /// Where the log ends.
        log_end: Offset,
    },
    /// There are partitions, but no metadata log that names them.
    MetadataMissing {
        /// Where it should be.
        directory: PathBuf,
    },
    /// A file beside the metadata log cannot be read or written.
    MetadataFile(DiskError),
    /// The metadata log or a snapshot holds what cannot be used.
    Metadata {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: MetadataFault,
    },
    /// The metadata log is not one that this node may take over.
    MetadataStart(StartError),
    /// The metadata log cannot be written.
    MetadataWrite(StorageError),
    /// Some logs could not be closed in order; the next start recovers them.
    Unclean,
    /// The broker was stopped before it served.
    Stopped,
}

/// What is wrong with a file of metadata.
#[derive(Debug)]
pub enum MetadataFault {
    /// A batch is malformed.
    Batch(BatchError),
    /// A record cannot be understood.
    Record(LogError),
    /// A record contradicts those before it.
    Replay(ReplayError),
    /// A snapshot is damaged, or cannot be understood.
    Snapshot(SnapshotError),
    /// A snapshot ends within a metadata transaction.
    OpenTransaction,
}

impl fmt::Display for MetadataFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Batch(error) => write!(f, "damaged: {error}"),
            Self::Record(error) => write!(f, "holds what cannot be understood: {error}"),
            Self::Replay(error) => write!(f, "contradicts itself: {error}"),
            Self::Snapshot(error) => write!(f, "cannot be used: {error}"),
            Self::OpenTransaction => f.write_str("ends within a metadata transaction"),
        }
    }
}

impl std::error::Error for MetadataFault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Batch(error) => Some(error),
            Self::Record(error) => Some(error),
            Self::Replay(error) => Some(error),
            Self::Snapshot(error) => Some(error),
            Self::OpenTransaction => None,
        }
    }
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(error) => error.fmt(f),
            Self::NoLogDirectory => f.write_str("none of the log directories can be used"),
            Self::MetadataElsewhere { path, configured } => write!(
                f,
                "the metadata log lies in {}; set metadata.log.dir to {}, or move it",
                path.display(),
                configured.display()
            ),
            Self::PartitionTwice { path, other } => write!(
                f,
                "a partition lies in two directories, {} and {}: a move between them was cut off; remove the one that is out of date",
                path.display(),
                other.display()
            ),
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
                "the metadata log begins at offset {log_start}, and no whole snapshot holds what came before; put one back \
                 from a copy"
            ),
            Self::MetadataLogLost { path, log_end } => write!(
                f,
                "the metadata log ends at offset {log_end}, before the end of snapshot {}: a part of it is lost; put it back \
                 from a copy",
                path.display()
            ),
            Self::MetadataMissing { directory } => write!(
                f,
                "there are partitions, but no metadata log in {} names them; if it lies elsewhere, move it there",
                directory.display()
            ),
            Self::MetadataFile(error) => error.fmt(f),
            Self::Metadata { path, fault } => write!(f, "{}: {fault}", path.display()),
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
            Self::MetadataFile(error) => Some(error),
            Self::Metadata { fault, .. } => Some(fault),
            Self::MetadataStart(error) => Some(error),
            Self::NoLogDirectory
            | Self::MetadataElsewhere { .. }
            | Self::PartitionTwice { .. }
            | Self::ListenElsewhere { .. }
            | Self::MetadataSnapshotNeeded { .. }
            | Self::MetadataLogLost { .. }
            | Self::MetadataMissing { .. }
            | Self::Unclean
            | Self::Stopped => None,
        }
    }
}
