//! Lock modes and which of them exclude each other.

/// What a lock permits. Ordered by strength: a stronger mode includes the weaker one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// Others may read, nobody may write.
    Shared,
    /// Nobody else may lock or write.
    Exclusive,
}

impl Mode {
    /// Whether `self`, asked for by one transaction, must wait for `other`, held or asked for earlier by another one.
    pub(crate) fn conflicts(self, other: Mode) -> bool {
        self == Mode::Exclusive || other == Mode::Exclusive
    }

    /// Whether who holds `self` needs no further lock to have `other`.
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
