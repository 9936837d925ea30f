//! What can go wrong, and the exit status of the program for it.

/// Why the experiment ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The flags ask for something that cannot be done.
    Misuse(String),
    /// Stored bytes are not what was written.
    Damaged(String),
    /// The work failed.
    Failed(String),
}

impl Failure {
    /// Returns the exit status of the program.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Failure::Misuse(_) => 2,
            Failure::Damaged(_) | Failure::Failed(_) => 1,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Failure::Misuse(text) | Failure::Damaged(text) | Failure::Failed(text)) = self;
        f.write_str(text)
    }
}

impl From<millpond::Error> for Failure {
    fn from(error: millpond::Error) -> Failure {
        Failure::Failed(error.to_string())
    }
}
