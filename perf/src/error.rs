//! What can go wrong: each error names the operation and its object, so that one line on stderr is enough.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::path::PathBuf;

use pelton_client::ClientError;
use pelton_transport::boot::BootError;

/// Why a run did not come to its end.
#[derive(Debug)]
pub enum PerfError {
    /// The kernel refused something.
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        object: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The broker refused something outside of the load.
    Client {
        /// What was tried.
        operation: &'static str,
        /// What the client said.
        source: ClientError,
    },
    /// The client's runtime does not start.
    Runtime(BootError<Infallible>),
    /// An answer that cannot be understood.
    Answer {
        /// Of which request.
        request: &'static str,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The broker closed a connection under load.
    Closed {
        /// Where.
        address: String,
    },
    /// A load that makes no sense.
    Load {
        /// The setting.
        setting: &'static str,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A scenario file that cannot be used.
    Scenario {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: toml::de::Error,
    },
    /// There is no such scenario.
    UnknownScenario {
        /// The name asked for.
        name: String,
    },
    /// A broker that was started does not do as it should.
    Broker {
        /// Its name.
        name: String,
        /// What it does or does not do.
        what: &'static str,
        /// The end of what it wrote.
        output: String,
    },
    /// A worker thread panicked.
    Worker,
}

impl fmt::Display for PerfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { operation, object, source } => write!(f, "{operation} {object}: {source}"),
            Self::Client { operation, source } => write!(f, "{operation}: {source}"),
            Self::Runtime(source) => source.fmt(f),
            Self::Answer { request, what } => write!(f, "the answer to {request}: {what}"),
            Self::Closed { address } => write!(f, "{address} closed a connection under load"),
            Self::Load { setting, what } => write!(f, "{setting}: {what}"),
            Self::Scenario { path, source } => write!(f, "{}: {source}", path.display()),
            Self::UnknownScenario { name } => {
                write!(f, "{name}: no such scenario; `pelton-perf scenarios` lists them")
            }
            Self::Broker { name, what, output } if output.is_empty() => write!(f, "{name} {what}"),
            Self::Broker { name, what, output } => write!(f, "{name} {what}\n{output}"),
            Self::Worker => f.write_str("a worker thread panicked"),
        }
    }
}

impl std::error::Error for PerfError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Client { source, .. } => Some(source),
            Self::Runtime(source) => Some(source),
            Self::Scenario { source, .. } => Some(source),
            Self::Answer { .. }
            | Self::Closed { .. }
            | Self::Load { .. }
            | Self::UnknownScenario { .. }
            | Self::Broker { .. }
            | Self::Worker => None,
        }
    }
}

/// Turns a kernel error into one that names what was tried, and on what.
pub(crate) fn io_error<O: Into<String>, E: Into<io::Error>>(
    operation: &'static str,
    object: O,
) -> impl FnOnce(E) -> PerfError {
    let object = object.into();
    move |source| PerfError::Io { operation, object, source: source.into() }
}
