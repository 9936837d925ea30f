//! The marks of the checkpoint age by the law of flow control, and experiments with them.

use pace::innodb::{Settings, points};
use pace::thresholds::Thresholds;

/// What the marks depend on besides the length of the log.
#[derive(Clone, Copy)]
pub(super) struct LawMarks {
    /// The settings of InnoDB's law; `None` under Millpond's (Fl8).
    pub(super) innodb: Option<Settings>,
    /// The cleaner lets the checkpoint age grow to this before it cleans to free log, bytes.
    pub(super) hold_cleaning_until: u64,
}

impl LawMarks {
    /// Returns the marks that the law has for a log of `log_bytes`, from Millpond's.
    pub(super) fn marks(&self, own: Thresholds, log_bytes: u64) -> Thresholds {
        self.innodb.map_or(own, |law| points::marks(law.server, own, log_bytes))
    }

    /// While cleaning is held back, the age is meant to grow.
    pub(super) fn hold_back(&self, marks: &mut Thresholds) {
        marks.soft = marks.soft.max(self.hold_cleaning_until.min(marks.hard - marks.hard / 32));
    }
}
