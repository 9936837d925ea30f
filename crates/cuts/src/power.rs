//! When the power goes: at the n-th sync from now, before it or after it, or when somebody says so.

/// The moment of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// When so many more syncs have begun: the last of them fails and does nothing.
    BeforeSync(u64),
    /// When so many more syncs have returned.
    AfterSync(u64),
}

/// What becomes of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    /// It is done, and all goes on.
    Done,
    /// It is done and answered, and nothing after it.
    Last,
    /// It is not done.
    TooLate,
}

/// Whether there is power, and for how long.
#[derive(Debug, Default)]
pub(crate) struct Power {
    is_cut: bool,
    planned: Option<Moment>,
    /// Syncs that were done.
    pub(crate) syncs: u64,
}

impl Power {
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(crate) fn cut(&mut self) {
        self.is_cut = true;
    }

    pub(crate) fn plan(&mut self, moment: Moment) {
        self.planned = Some(moment);
    }

    /// Decides about a sync that begins.
    pub(crate) fn sync(&mut self) -> Sync {
        if self.is_cut {
            return Sync::TooLate;
        }
        let answer = match &mut self.planned {
            Some(Moment::BeforeSync(left) | Moment::AfterSync(left)) if *left > 1 => {
                *left -= 1;
                Sync::Done
            }
            Some(Moment::BeforeSync(_)) => Sync::TooLate,
            Some(Moment::AfterSync(_)) => Sync::Last,
            None => Sync::Done,
        };
        self.is_cut = answer != Sync::Done;
        self.syncs += u64::from(answer != Sync::TooLate);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_comes_before_or_after_the_sync_that_was_named() {
        let mut power = Power::default();
        assert_eq!(power.sync(), Sync::Done);
        power.plan(Moment::AfterSync(2));
        assert_eq!([power.sync(), power.sync(), power.sync()], [Sync::Done, Sync::Last, Sync::TooLate]);
        assert_eq!(power.syncs, 3);
        let mut power = Power::default();
        power.plan(Moment::BeforeSync(1));
        assert!(!power.is_cut());
        assert_eq!([power.sync(), power.sync()], [Sync::TooLate, Sync::TooLate]);
        assert!(power.is_cut());
    }
}
