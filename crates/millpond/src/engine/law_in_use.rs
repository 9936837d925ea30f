//! The law of flow control, and experiments with it.

use base::Lsn;
use pace::age_limits::AgeLimits;
use pace::law::FlowLaw;
use std::sync::Arc;

/// The law of a database.
#[derive(Clone)]
pub(super) struct LawInUse {
    law: Arc<dyn FlowLaw>,
    /// The cleaner lets the checkpoint age grow to this before it cleans to free log, bytes.
    hold_cleaning_until: u64,
}

impl LawInUse {
    /// The cleaner holds back under this law until the checkpoint age is `hold_cleaning_until`.
    pub(super) fn new(law: &Arc<dyn FlowLaw>, hold_cleaning_until: u64) -> LawInUse {
        LawInUse { law: Arc::clone(law), hold_cleaning_until }
    }

    /// The law.
    pub(super) fn law(&self) -> &dyn FlowLaw {
        &*self.law
    }

    /// Whether the cleaner holds back: the log from `checkpoint` to `end` is not to be freed yet.
    pub(super) fn is_held_back(&self, checkpoint: Lsn, end: Lsn) -> bool {
        end.since(checkpoint) < self.hold_cleaning_until
    }

    /// While cleaning is held back, the age is meant to grow.
    pub(super) fn hold_back(&self, limits: &mut AgeLimits) {
        limits.soft = limits.soft.max(self.hold_cleaning_until.min(limits.hard - limits.hard / 32));
    }
}
