//! The law of flow control, and experiments with it.

use pace::law::FlowLaw;
use pace::thresholds::Thresholds;
use std::sync::Arc;

/// The law of a database.
#[derive(Clone)]
pub(super) struct LawMarks {
    pub(super) law: Arc<dyn FlowLaw>,
    /// The cleaner lets the checkpoint age grow to this before it cleans to free log, bytes.
    pub(super) hold_cleaning_until: u64,
}

impl LawMarks {
    /// While cleaning is held back, the age is meant to grow.
    pub(super) fn hold_back(&self, marks: &mut Thresholds) {
        marks.soft = marks.soft.max(self.hold_cleaning_until.min(marks.hard - marks.hard / 32));
    }
}
