//! What a rule finds.

/// A violation of a rule. Printed as `path:line: message`, so that an editor can go there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// The callback of a rule for each violation: path, line, message.
pub(super) type Report<'a> = dyn FnMut(&str, usize, String) + 'a;
