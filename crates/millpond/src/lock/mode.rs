//! Lock modes and which of them exclude each other.

/// What a lock permits. Ordered by strength: a stronger mode includes the weaker one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// Others may read; no transaction may write.
    Shared,
    /// No other transaction may lock or write.
    Exclusive,
}

impl Mode {
    /// Returns whether a request for `self` must wait for `other`, which another transaction holds
    /// or has asked for earlier.
    pub(super) fn conflicts(self, other: Mode) -> bool {
        self == Mode::Exclusive || other == Mode::Exclusive
    }

    /// Returns whether a holder of `self` needs no further lock to have `other`.
    pub(crate) fn covers(self, other: Mode) -> bool {
        self >= other
    }
}

#[cfg(test)]
mod tests {
    use super::Mode::{self, Exclusive, Shared};

    #[test]
    fn only_two_readers_get_along() {
        let clash = |a: Mode, b| a.conflicts(b);
        assert_eq!(
            [
                clash(Shared, Shared),
                clash(Shared, Exclusive),
                clash(Exclusive, Shared),
                clash(Exclusive, Exclusive)
            ],
            [false, true, true, true]
        );
        assert!(Exclusive.covers(Shared) && Shared.covers(Shared) && !Shared.covers(Exclusive));
    }
}
