//! Admission for rollback and purge, which have limits of their own. The rule is
//! `pace::undo_admission`.

use super::{Admission, Asker};
use crate::error::{Error, Result};
use crate::planted::{Bug, planted};
use crate::txn::{UndoAdmission, UndoWait};
use metrics::M;
use pace::undo_admission::{UndoDecision, UndoView, admit, pause_us, retry_limit};

impl UndoAdmission for Admission {
    #[inline]
    fn admit_undo(&self, redo_bytes: u64, wait: UndoWait) -> Result<bool> {
        if self.is_free(redo_bytes) || planted(Bug::UndoingUnasked) {
            return Ok(true);
        }
        let may = self.undo_above(redo_bytes, wait)?;
        self.full.count_undo_grant();
        Ok(may)
    }
}

impl Admission {
    #[cold]
    fn undo_above(&self, redo_bytes: u64, wait: UndoWait) -> Result<bool> {
        if wait == UndoWait::NoWait {
            // Also while the database closes: transactions that are open then are rolled back.
            self.gate.check_poison()?;
            return Ok(admit(&self.look(true), redo_bytes) != UndoDecision::Wait);
        }
        // No caller waits for background work, so closing lets it continue until its threads end.
        let asker = if wait == UndoWait::AsCaller { Asker::Caller } else { Asker::Background };
        let mut waited = false;
        loop {
            self.check(asker)?;
            if wait == UndoWait::AsRetry
                && let Some(file) = self.blocking_file()
            {
                let view = self.look(true);
                if view.age.saturating_add(redo_bytes) > retry_limit(&view.limits) {
                    return Err(Error::DiskFull { file });
                }
            }
            match admit(&self.look(self.blocking_file().is_some()), redo_bytes) {
                UndoDecision::Now => return Ok(true),
                UndoDecision::InSlices if self.slice.take(redo_bytes) => return Ok(true),
                UndoDecision::InSlices => {
                    self.wake_cleaner();
                    self.sleep(pause_us(self.limits.clean_rate(self.clock.now_us())), asker);
                    self.slice.begin();
                }
                UndoDecision::Wait => {
                    let full = self.blocking_file();
                    if let (Some(file), UndoWait::AsCaller) = (full, wait) {
                        return Err(Error::DiskFull { file });
                    }
                    self.metrics.add(M::UndoWaits, u64::from(!waited));
                    waited = true;
                    self.wait_while(asker, |checkpoint_blocked| {
                        admit(&self.look(checkpoint_blocked), redo_bytes) == UndoDecision::Wait
                    });
                }
            }
        }
    }

    fn look(&self, checkpoint_blocked: bool) -> UndoView {
        let view = self.view(0);
        UndoView { age: view.age, limits: self.limits(), checkpoint_blocked }
    }
}
