//! What ends a command early: one line for the user and an exit code.

use std::fmt;
use std::process::ExitCode;

/// The end of a command that did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CliError {
    /// It was tried and failed: exit code 1.
    Failed {
        /// What could not be done, and to which object.
        what: String,
        /// What the user can do about it.
        remedy: Option<String>,
    },
    /// The request itself makes no sense: exit code 2.
    Usage(String),
    /// Every complaint has been printed already: exit code 1.
    Reported,
}

impl CliError {
    /// A failure without advice.
    pub(crate) fn failed(what: impl Into<String>) -> Self {
        Self::Failed {
            what: what.into(),
            remedy: None,
        }
    }

    /// A failure and what to do about it.
    pub(crate) fn with_remedy(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Failed {
            what: what.into(),
            remedy: Some(remedy.into()),
        }
    }

    /// A failure with all its causes, on one line.
    pub(crate) fn caused(error: &dyn std::error::Error) -> Self {
        Self::failed(chain(error))
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Failed { .. } | Self::Reported => ExitCode::from(1),
            Self::Usage(_) => ExitCode::from(2),
        }
    }
}

/// An error and its causes, joined; a cause that is already part of the text is not said twice.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { what, remedy } => {
                // Brokers end their sentences; this one goes on.
                f.write_str(what.trim_end_matches('.'))?;
                match remedy {
                    Some(remedy) => write!(f, "; {remedy}"),
                    None => Ok(()),
                }
            }
            Self::Usage(what) => f.write_str(what),
            Self::Reported => Ok(()),
        }
    }
}

impl std::error::Error for CliError {}
