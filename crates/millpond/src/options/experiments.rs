//! Choices for comparisons and experiments. Programs have them only with the feature `lab`, which
//! promises nothing for later versions.

use pace::law::{FlowLaw, Millpond};
use std::sync::Arc;

#[cfg(any(test, feature = "lab"))]
use super::{Law, Options};

/// The choices.
#[derive(Clone, Debug)]
pub(crate) struct Experiments {
    /// The law of flow control (Fl8).
    pub(crate) law: Arc<dyn FlowLaw>,
    /// The cleaner does not clean for the checkpoint below this age, bytes.
    pub(crate) hold_cleaning_until_redo_bytes: u64,
    /// Whether scans read ahead.
    pub(crate) read_ahead: bool,
}

impl Default for Experiments {
    fn default() -> Experiments {
        Experiments { law: Arc::new(Millpond), hold_cleaning_until_redo_bytes: 0, read_ahead: true }
    }
}

#[cfg(any(test, feature = "lab"))]
impl Options {
    /// The law of flow control. Default: Millpond's. InnoDB's law is for comparisons on the same
    /// engine. It may be another one at each open.
    #[must_use]
    pub fn law(mut self, law: Law) -> Options {
        self.experiments.law = law.flow_law();
        self
    }

    /// Holds the cleaner back until the redo since the checkpoint reaches this many bytes. For
    /// crash experiments.
    #[must_use]
    pub fn hold_cleaning_until_redo_bytes(mut self, bytes: u64) -> Options {
        self.experiments.hold_cleaning_until_redo_bytes = bytes;
        self
    }

    /// Whether scans read ahead. Default: they do. For comparisons.
    #[must_use]
    pub fn read_ahead(mut self, read_ahead: bool) -> Options {
        self.experiments.read_ahead = read_ahead;
        self
    }
}
