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

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Failed { .. } => ExitCode::from(1),
        }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { what, remedy } => {
                f.write_str(what)?;
                match remedy {
                    Some(remedy) => write!(f, "; {remedy}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for CliError {}
