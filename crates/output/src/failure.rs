//! A failed command: one sentence and an exit status.

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

/// Why a command failed. The text is one sentence that names the cause; it is printed as it is.
#[derive(Debug)]
pub enum Failure {
    /// The request cannot be executed: status 2, and nothing was changed.
    Misuse(String),
    /// The work was started and failed: status 1.
    Failed(String),
}

/// The result of a command or a step of it.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Makes a failure of status 2 with `text`.
    pub fn misuse(text: impl Into<String>) -> Self {
        Failure::Misuse(text.into())
    }

    /// Makes a failure of status 1 with `text`.
    pub fn failed(text: impl Into<String>) -> Self {
        Failure::Failed(text.into())
    }

    /// Prints the failure on the standard error stream.
    pub fn complain(&self) {
        let _ = writeln!(std::io::stderr(), "millpond: {self}");
    }

    /// Returns the exit status.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Misuse(_) => ExitCode::from(2),
            Failure::Failed(_) => ExitCode::from(1),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Misuse(text) | Failure::Failed(text)) = self;
        // An error of another crate may have several lines; here it becomes one.
        for (i, word) in text.split_whitespace().enumerate() {
            if i > 0 {
                f.write_str(" ")?;
            }
            f.write_str(word)?;
        }
        Ok(())
    }
}

impl From<millpond::Error> for Failure {
    fn from(error: millpond::Error) -> Self {
        match error {
            millpond::Error::Misuse(_) | millpond::Error::Foreign { .. } => {
                Failure::Misuse(error.to_string())
            }
            other => Failure::Failed(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line() {
        let failure = Failure::failed("page 7 is damaged:\n  the checksum does not fit\n");
        assert_eq!(failure.to_string(), "page 7 is damaged: the checksum does not fit");
    }

    #[test]
    fn misuse_and_failure_have_their_own_status() {
        assert_eq!(Failure::misuse("x").exit_code(), ExitCode::from(2));
        assert_eq!(Failure::failed("x").exit_code(), ExitCode::from(1));
        assert!(matches!(Failure::from(millpond::Error::Misuse("x".into())), Failure::Misuse(_)));
        assert!(matches!(Failure::from(millpond::Error::KeyExists), Failure::Failed(_)));
    }
}
